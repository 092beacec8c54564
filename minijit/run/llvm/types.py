"""What numbers are called in LLVM IR: their types, and their text.

    register_type(BOOL), memory_type(BOOL)          # ("i1", "i8")
    constant_text(Const(0.5, FLOAT32))              # "0x3fe0000000000000"
"""

import functools
import struct

import numpy as np

from ...compile.loops.scalars import BOOL
from ...compile.numbers.scalar_forms import FLOAT32, FLOAT64, HALVES


@functools.cache
def register_type(dtype):
    """The LLVM type of a number in a register."""
    if dtype == BOOL:
        return "i1"
    if dtype == FLOAT32 or dtype.name in HALVES:
        return "float"
    # Of floats of 8 bits, which are moved and never computed with, the bits.
    return "double" if dtype == FLOAT64 else f"i{8 * dtype.itemsize}"


@functools.cache
def memory_type(dtype):
    """The LLVM type of a number in memory."""
    if dtype == BOOL or dtype.name in HALVES:
        return f"i{8 * dtype.itemsize}"
    return register_type(dtype)


def constant_text(expr):
    """A `Const`: floats by their bits, as float64."""
    kind = register_type(expr.dtype)
    if kind not in ("float", "double"):
        plain = expr.dtype.kind in "iub"
        value = expr.value if plain else np.asarray(expr.value, expr.dtype).view("u1")
        return str(int(value))
    value = np.float32(expr.value) if kind == "float" else expr.value
    return f"0x{struct.pack('>d', float(value)).hex()}"


def kind_of(dtype):
    """f, i, u or b: what decides which instruction an operation is."""
    return "f" if register_type(dtype) in ("float", "double") else dtype.kind
