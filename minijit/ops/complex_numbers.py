"""Complex numbers: their parts, how they are made of them, and conjugates.

    complex(x, y), real(z), imag(z), conj(z)

Cotangents are JAX's: those of a transposition, in which nothing is conjugated.
"""

from __future__ import annotations

import numpy as np

from ..trace import primitives as lax
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.numpy_values import real_part
from ..trace.primitives import binary, of_one, of_two, unary
from ..trace.shape_checks import check_kind, complexes
from ..trace.types import Array, ArrayLike
from ..transform.batching import vmap as batching
from ..transform.batching.vmap import batch_rules
from ..transform.derivatives import linearize
from ..transform.derivatives.linearize import linearize_rules
from ..transform.derivatives.transpose import (
    adding, is_linear, transpose_rules, unbroadcast,
)
from ..transform.tangents import linear_in_all

real_p, imag_p, complex_p, conj_p = map(Primitive, ["real", "imag", "complex", "conj"])

# Only these floats are the parts of a complex number.
parts = (np.float32, np.float64)


def to_complex(dtype):
    """The complex dtype with parts of this dtype; a complex dtype is its own."""
    return dtype if dtype.kind == "c" else np.dtype(f"complex{16 * dtype.itemsize}")


def conj_shape(x, *, input_dtype):
    """The shape rule of `conj`: of a real number it makes a complex one."""
    check_kind("conj", x.dtype, (*parts, *complexes))
    return x.update(dtype=to_complex(x.dtype))


shape_rules |= unary(complexes, real_p, imag_p, result=real_part)
shape_rules |= binary(parts, complex_p, result=to_complex)
shape_rules |= {conj_p: conj_shape}


def complex_value(x, y):
    """x + iy, whatever they are: infinite and NaN parts stay apart."""
    x, y = np.broadcast_arrays(x, y)
    result = np.empty(x.shape, to_complex(x.dtype))
    result.real, result.imag = x, y
    return result


eval_rules |= on_numpy({real_p: np.real, imag_p: np.imag, complex_p: complex_value})
eval_rules |= on_numpy({conj_p: lambda x, *, input_dtype: np.conj(x)})

real = of_one(real_p, "The real part of complex numbers, elementwise.")
imag = of_one(imag_p, "The imaginary part of complex numbers, elementwise.")
complex = of_two(complex_p, "x + iy, elementwise, of two float32 or two float64.")


def conj(x: ArrayLike) -> Array:
    """The complex conjugate, elementwise; complex also of a float."""
    return conj_p.bind(x, input_dtype=aval_of(x).dtype)


linearize_rules |= linearize.linear_in_first(real_p, imag_p, conj_p)
linearize_rules |= {complex_p: lambda nonzero, *xy: linear_in_all(complex, *xy)}


def complex_transpose(ct, x, y):
    """JAX's convention: a cotangent is no gradient, and nothing is conjugated."""
    back = unbroadcast(real(ct), x) if is_linear(x) else None
    return back, unbroadcast(lax.neg(imag(ct)), y) if is_linear(y) else None


def nothing_like(ct):
    """Zeros, strongly typed even beside a number: cotangents of parts are, in JAX."""
    return lax.full_like(ct, 0, aval_of(ct).dtype)


transpose_rules |= adding({
    real_p: lambda ct, x: (complex(ct, nothing_like(ct)),),
    imag_p: lambda ct, x: (complex(nothing_like(ct), lax.neg(ct)),),
    complex_p: complex_transpose,
    conj_p: lambda ct, x, *, input_dtype: (
        conj(ct) if input_dtype.kind == "c" else real(ct),
    ),
})
batch_rules |= batching.elementwise(real_p, imag_p, complex_p, conj_p)
