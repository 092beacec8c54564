"""Element types under the names of `jax.dtypes`."""

import numpy as _np

from .ops.prng import prng_key as prng_key
from .trace.api import calls
from .trace.dtypes import (
    ExtendedDtype as _ExtendedDtype,
    TypePromotionError as TypePromotionError, bfloat16 as bfloat16,
    canonicalize_dtype as _canonicalize_dtype, extended as extended, finfo as finfo,
    float0 as float0, iinfo as iinfo, issubdtype as issubdtype,
    promote_types as promote_types, result_type as result_type,
)


def canonicalize_dtype(dtype, allow_extended_dtype=False):
    """The dtype that an array of it has: without `enable_x64` the 32-bit version."""
    if isinstance(dtype, _ExtendedDtype) and not allow_extended_dtype:
        raise ValueError(f"{dtype} has no NumPy version: allow_extended_dtype keeps it")
    return _canonicalize_dtype(dtype)


def itemsize_bits(dtype):
    """How many bits an element of a dtype has: 4 for int4, 8 for bool."""
    if dtype is None:
        raise ValueError("dtype cannot be None.")
    for kind, info in ((_np.integer, iinfo), (_np.floating, finfo)):
        if issubdtype(dtype, kind):
            return info(dtype).bits
    return 8 * canonicalize_dtype(dtype).itemsize


def scalar_type_of(x):
    """The type of Python's numbers that a value's dtype is like: bool, int, float."""
    kinds = {
        _np.bool_: bool, _np.integer: int, _np.floating: float,
        _np.complexfloating: complex,
    }  # fmt: skip
    for kind, scalar in kinds.items():
        if issubdtype(result_type(x), kind):
            return scalar
    raise TypeError(f"Invalid scalar value {x}")


calls.publish(globals())
