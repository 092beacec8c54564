"""Ctrl-C at each moment at which Python looks for signals.

    for k in itertools.count():
        reached, error = interrupted_at(k, function)
        if not reached: break

That is after each call of a function in C, and as each function in Python begins.
"""

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

    sys.setprofile(look)
    try:
        function()
    except KeyboardInterrupt as error:
        return True, error
    finally:
        sys.setprofile(None)
    return left < 0, None
