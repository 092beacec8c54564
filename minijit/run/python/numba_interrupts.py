"""Signals in the middle of a native loop: Ctrl-C, and whatever else has a handler.

    n0 += 12                                    # about how much a step computes
    if n0 > 67108864:                           # now and then:
        n0 = 0
        if interrupted(stop):                   # run the handlers of pending signals
            return

Python runs the handler of a signal when it is back in Python, and a native loop may be
minutes away from that.  So loops look: after so much work `interrupted` takes Python's
lock and has it run what is pending.  If a handler raises, the exception waits in `stop`
while the loop returns as at its end, by which its memory is given back; then it is
raised.  If not, the loop goes on.
"""

import ctypes
import functools

from ..scalars.scalar_math import functions


def interrupted(stop):
    """Whether the handler of a signal raised; if so, `stop` holds the exception.

    Args:
      stop: int64[3], for the pointers to its type, the exception and its traceback.
    """
    return False  # Python looks for signals by itself


functions |= {"interrupted": interrupted}


@functools.cache
def native_interrupts():
    """`interrupted` for numba.  With Python's lock: run the handlers, and take what
    they raised."""
    import numba

    def function(name, *kinds):
        return ctypes.CFUNCTYPE(*kinds)((name, ctypes.pythonapi))

    number, place = ctypes.c_int, ctypes.c_ssize_t
    ensure = function("PyGILState_Ensure", number)
    check = function("PyErr_CheckSignals", number)
    fetch = function("PyErr_Fetch", None, place, place, place)
    release = function("PyGILState_Release", None, number)

    @numba.njit("boolean(int64[::1])", no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def interrupted(stop):
        lock, where = ensure(), stop.ctypes.data
        raised = check() != 0
        if raised:
            fetch(where, where + 8, where + 16)
        release(lock)
        return raised

    return interrupted


def raise_held(stop):
    """Raise the exception that `stop` holds, if it holds one."""
    if stop[0]:
        # It gives the exception to Python, which raises it when the call returns.
        ctypes.pythonapi.PyErr_Restore(*map(ctypes.c_void_p, stop.tolist()))
