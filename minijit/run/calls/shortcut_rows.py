"""Shortcuts for arguments that are no arrays of ours: NumPy's arrays, and numbers.

    if type(x0) is not ndarray or x0.dtype != dtype_1 or x0.shape != shape_2: ...
    v0 = x0
    if v0.flags.num & 257 != 257: v0 = array(v0, order='C')

A kernel reads the memory of NumPy's array where it is, and keeps no view of it.  That
needs rows in order and aligned numbers, else the array is copied.  It is converted
where the dtype would be: float64 becomes float32 unless `enable_x64` is set.
"""

import numpy as np

from ...trace.array import aval_of
from .dispatch import NoShortcut, leaf_rows, the_aval

# NumPy's flags of an array that is aligned and row-major.
READABLE = 0x0001 | 0x0100


def numpy_leaf(printer, name, array, x):
    """NumPy's own array is read where it is, if a kernel can read it."""
    if type(x) is not np.ndarray:
        raise NoShortcut
    dtype, aval = printer.constant("dtype", x.dtype), the_aval(aval_of(x))
    kind = printer.constant("kind", np.ndarray)
    shape = printer.constant("shape", x.shape)
    printer.unless(f"type({name}) is not {kind} or {name}.dtype != {dtype}")
    printer.unless(f"{name}.shape != {shape}")
    if printer.copies or aval.dtype != x.dtype:
        converted(printer, name, array, aval)
        return
    new = printer.constant("array", np.array, numbered=False)
    printer.values += [
        f"{array} = {name}",
        f"if {array}.flags.num & {READABLE} != {READABLE}: "
        f"{array} = {new}({array}, order='C')",
    ]


def number_leaf(printer, name, array, x):
    """A number of Python or NumPy."""
    printer.unless(f"type({name}) is not {printer.constant('kind', type(x))}")
    converted(printer, name, array, the_aval(aval_of(x)))


def converted(printer, name, array, aval):
    """A copy, in the dtype that the function was traced for."""
    new = printer.constant("array", np.array, numbered=False)
    dtype = printer.constant("dtype", aval.dtype)
    printer.values.append(f"{array} = {new}({name}, {dtype}, order='C')")


leaf_rows |= {
    np.ndarray: numpy_leaf,
    np.generic: number_leaf,
    (bool, int, float, complex): number_leaf,
}
