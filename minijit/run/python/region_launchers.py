"""Regions made to run from their Python: as it is, or compiled by numba.

A launcher is what the driver calls: it takes NumPy arrays, those for the results too.
"""

import math
from types import FunctionType

import numpy as np

from ...compile.loops.statements import Region
from ..compiled_once import compiled_once
from ..lapack import native_lapack
from ..scalars.numba_scalars import native_functions
from ..scalars.scalar_math import functions
from .numba_interrupts import native_interrupts, raise_held
from .numba_kernels import compiler_errors, numba_kinds, numba_type
from .numba_products import native_products
from .program import launchers


def longer(array, rows):
    """An array with at least so many rows, and at least twice as many as it had."""
    found = np.empty((max(rows, 2 * array.shape[0]), *array.shape[1:]), array.dtype)
    # Element by element: of an assignment of slices numba makes ten times the code.
    for i in range(array.size):
        found.flat[i] = array.flat[i]
    return found


def part(array, start, shape):
    """The elements of an array from the one at `start` on, as an array of a shape."""
    return array.reshape(-1)[start : start + math.prod(shape)].reshape(shape)


functions |= {"longer": longer, "part": part}


def native_part():
    """`part` for numba: a pointer and a shape."""
    from numba import types
    from numba.core import cgutils
    from numba.core.imputils import impl_ret_borrowed
    from numba.extending import intrinsic
    from numba.np.arrayobj import populate_array

    @intrinsic
    def part(typing_context, array, start, shape):
        result = types.Array(array.dtype, len(shape), "C")

        def generate(context, builder, signature, values):
            whole = context.make_array(signature.args[0])(context, builder, values[0])
            sizes = cgutils.unpack_tuple(builder, values[2], len(shape))
            strides, step = [], whole.itemsize
            for size in reversed(sizes):
                strides.insert(0, step)
                step = builder.mul(step, size)
            made = context.make_array(result)(context, builder)
            populate_array(
                made,
                data=builder.gep(whole.data, [values[1]]),
                shape=sizes,
                strides=strides,
                itemsize=whole.itemsize,
                meminfo=whole.meminfo,
            )
            value = made._getvalue()
            return impl_ret_borrowed(context, builder, result, value)

        sizes = types.UniTuple(types.intp, len(shape))
        return result(array, types.intp, sizes), generate

    return part


def dispatcher_of(source, namespace, known, path, wrapper):
    """What numba makes of a region or of one of its functions; it finds the results.

    Args:
      known: the names that it uses; wrapper: whether Python calls it.
    """
    import numba

    code = FunctionType(namespace[source.name].__code__, known, source.name)
    with compiler_errors(source.name, path):
        return numba.njit(
            numba_kinds(source.signature),
            locals={name: numba_type(d) for name, d in source.locals.items()},
            error_model="numpy",
            nogil=True,
            no_cpython_wrapper=not wrapper,
            no_cfunc_wrapper=True,
        )(code)


def compile_region(source, namespace, path):
    """Compile the functions of a region with numba, then what calls them."""
    known = native_functions() | {name: namespace[name] for name in source.constants}
    if "interrupted(" in source.text:
        known |= native_interrupts()
    if "matmul(" in source.text:
        known |= native_products()
    if "lapack(" in source.text:
        known |= native_lapack()
    if "part(" in source.text:
        known |= {"part": native_part()}
    for each in (*source.functions, source):
        known[each.name] = dispatcher_of(each, namespace, known, path, each is source)
    # The compiled code itself, as of a kernel.
    result, = known[source.name].overloads.values()
    return result.entry_point


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


def launch_plain(region, source, namespace, path):
    """What the driver calls for a region that Python runs."""
    return region_launchers[bool(source.tables)](source, namespace[source.name], False)


def launch_native(region, source, namespace, path):
    """What the driver calls for a region that numba compiles, one text only once."""
    constants = tuple((n, namespace[n].tobytes()) for n in source.constants)
    types = [tuple(s.locals.items()) for s in (source, *source.functions)]
    key = source.body, tuple(types), constants
    function = compiled_once(key, lambda: compile_region(source, namespace, path))
    return region_launchers[bool(source.tables)](source, function, True)


launchers |= {(False, Region): launch_plain, (True, Region): launch_native}
