"""Compiled kernels, each once a process: those that were used last.

What the next process finds on the disk is in `llvm/object_cache.py`.
"""

from ..trace.base.turns import one_at_a_time
from ..trace.jit.jit import cache_clearers

# (text, constants) -> the compiled kernel, for all programs of this process; the ones
# used last.  A program keeps its kernels for itself, so that one which leaves this
# table is compiled again at most where another program has the same text.
native_kernels: dict = {}
MOST_KERNELS = 1024


@one_at_a_time
def compiled_once(key, build):
    """The kernel of a key, from `build()` if it is not there."""
    kernel = native_kernels.pop(key, None) or build()
    native_kernels[key] = kernel
    for old in list(native_kernels)[:-MOST_KERNELS]:
        native_kernels.pop(old, None)
    return kernel


cache_clearers.append(native_kernels.clear)
