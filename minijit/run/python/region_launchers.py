"""Regions made to run from their Python: as it is, or compiled by numba.

A launcher is what the driver calls: it takes NumPy arrays, those for the results too.
"""

from functools import partial

import numpy as np

from ...compile.loops.statements import Region
from ..lapack import native_lapack
from ..scalars.scalar_math import functions
from .numba_interrupts import native_interrupts, raise_held
from .numba_products import native_products
from .program import launchers, native_calls, native_kernel


def longer(array, rows):
    """An array with at least so many rows, and at least twice as many as it had."""
    found = np.empty((max(rows, 2 * array.shape[0]), *array.shape[1:]), array.dtype)
    # Element by element: of an assignment of slices numba makes ten times the code.
    for i in range(array.size):
        found.flat[i] = array.flat[i]
    return found


def part(array, start, shape):
    """The elements of an array from the one at `start` on, as an array of a shape."""
    size = 1
    for n in shape:
        size *= n
    return array.reshape(-1)[start : start + size].reshape(shape)


functions |= {"longer": longer, "part": part}


native_calls |= {
    "interrupted": native_interrupts, "matmul": native_products,
    "lapack": native_lapack,
}  # fmt: skip


class RegionLauncher:
    """Calls the function of a region.

    Attributes:
      native: whether numba compiled it: then it looks for signals itself.
    """

    def __init__(self, source, function, native):
        self.function, self.native = function, native

    def __call__(self, *arrays):
        stop = np.zeros(3, np.int64) if self.native else None
        results = self.function(*arrays, stop)
        if self.native:
            raise_held(stop)
        return results


# whether it has tapes or unions -> class of what the driver calls, which is given the
# source, the function, and whether that is native.  The next chapter adds the other.
region_launchers = {False: RegionLauncher}


def launch_region(region, source, namespace, path, native):
    """What the driver calls for a region that Python runs, or that numba compiles."""
    function = namespace[source.name]
    if native:
        function = native_kernel(source, namespace, path)
    return region_launchers[bool(source.tables)](source, function, native)


launchers |= {(n, Region): partial(launch_region, native=n) for n in (False, True)}
