"""Functions of `jax._src` (`lax.lax` and `numpy.util`) that libraries reach for.

    _eye(np.dtype("float32"), (2, 3), 1)               # ones on a diagonal
    _const(x, 0)                                       # a number of the dtype of x
"""

import numpy as np

from .. import lax, numpy as jnp
from ..numpy import asarray as asarray, core
from ..numpy.arguments import check_arraylike as check_arraylike
from ..trace import dtypes, primitives
from .core import StandIn


class DotAlgorithmPreset(metaclass=StandIn):
    """Algorithms of products of float32 that XLA has on a CPU, where all are one."""

    stands_for = make = primitives.Precision
    DEFAULT = BF16_BF16_F32 = stands_for.DEFAULT
    BF16_BF16_F32_X3 = stands_for.HIGH
    BF16_BF16_F32_X6 = F32_F32_F32 = stands_for.HIGHEST


def _const(example, val):
    """`val` as a scalar of the dtype of `example`; of a Python number it is one."""
    if isinstance(example, (bool, int, float, complex)):
        return type(example)(val)
    return np.array(val, dtypes.dtype(example))


def _convert_element_type(operand, new_dtype=None, weak_type=False, **options):
    """`convert_element_type` that says whether the result is weakly typed."""
    del options
    new_dtype = dtypes.dtype(operand) if new_dtype is None else new_dtype
    new_dtype = dtypes.user_dtype(new_dtype, "convert_element_type")
    return primitives.convert(operand, new_dtype, weak_type)


def to_complex_dtype(dtype):
    """complex128 for the dtypes of 64 bits that numbers with a point have, or get."""
    dtype = dtypes.canonicalize_dtype(dtype)
    wide = dtype == np.complex128 or (dtype.itemsize == 8 and dtype.kind != "c")
    return np.dtype("complex128" if wide else "complex64")


def promote_dtypes(*args):
    """The arguments in the dtype that they promote to together."""
    return core.promote_dtypes(args)


def promote_dtypes_inexact(*args):
    """The same, in a floating or complex type."""
    return core.promote_dtypes(args, dtypes.to_inexact_dtype)


def _eye(dtype, shape, offset=0):
    """A matrix of zeros with ones on its diagonal of that number."""
    return jnp.eye(*shape, k=offset, dtype=dtype)


def _tri(dtype, shape, offset):
    """A matrix of ones on and below its diagonal of that number, and zeros above."""
    return jnp.tri(*shape, k=offset, dtype=dtype)


def _delta(dtype, shape, axes):
    """An array that is one where the indices along `axes` are equal, and zero."""
    sizes = tuple(shape[a] for a in axes)
    steps = [lax.broadcasted_iota(np.int32, sizes, i) for i in range(len(sizes))]
    equal = [steps[0] == step for step in steps[1:]]
    ones = jnp.stack([jnp.ones(sizes, bool), *equal]).all(0).astype(dtype)
    return lax.broadcast_in_dim(ones, shape, axes)
