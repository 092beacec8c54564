"""Ctrl-C at each moment at which Python looks for signals.

    for k in itertools.count():
        reached, error = interrupted_at(k, function)
        if not reached: break

That is after each call of a function in C, and as each function in Python begins.
"""

import gc
import sys


def interrupted_at(k, function):
    """Call a function, and raise KeyboardInterrupt at moment number k.

    Returns:
      (whether there was such a moment, the exception if it came back or None).
    """
    left = k

    def look(frame, event, argument):
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    # What the collector calls back, jax has such a function, loses its exception: the
    # frames in it go on holding what they look at.
    collects = gc.isenabled()
    gc.disable()
    sys.setprofile(look)
    try:
        function()
    except KeyboardInterrupt as error:
        return True, error
    finally:
        sys.setprofile(None)
        if collects:
            gc.enable()
    return left < 0, None
