"""Elementary functions beyond the spine's: other exponentials, angles, roots, squares.

    tan(array(1.0)), log1p(array(1e-9)), logistic(x), atan2(y, x), square(x)

All of them are elementwise, and as strict about dtypes as those of `trace.primitives`.
"""

import math

import numpy as np

from ..trace import numpy_values as values, primitives as lax
from ..trace.array import shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.plans import size_of, worth
from ..trace.primitives import binary, of_one, of_two, on_wide, unary
from ..trace.shape_checks import inexact, number, real as reals
from ..transform.batching import vmap as batching
from ..transform.batching.vmap import batch_rules
from ..transform.derivatives import linearize
from ..transform.derivatives.linearize import linearize_rules

exp2_p, expm1_p, log1p_p, tan_p = map(Primitive, ["exp2", "expm1", "log1p", "tan"])
asin_p, acos_p, atan_p, atan2_p = map(Primitive, ["asin", "acos", "atan", "atan2"])
sinh_p, cosh_p = map(Primitive, ["sinh", "cosh"])
asinh_p, acosh_p, atanh_p = map(Primitive, ["asinh", "acosh", "atanh"])
logistic_p, rsqrt_p, cbrt_p = map(Primitive, ["logistic", "rsqrt", "cbrt"])
square_p = Primitive("square")

# Those of one argument that are left to a function of the machine, or of ours.
curves = (
    *(exp2_p, expm1_p, log1p_p, tan_p, asin_p, acos_p, atan_p, logistic_p),
    *(sinh_p, cosh_p, asinh_p, acosh_p, atanh_p),
)

shape_rules |= unary(inexact, *curves, rsqrt_p)
shape_rules |= unary(reals, cbrt_p)
shape_rules |= unary(number, square_p)
shape_rules |= binary(inexact, atan2_p)


def exp2_value(x):
    """2**x; NumPy's own knows no complex numbers."""
    return np.exp2(x) if x.dtype.kind != "c" else np.exp(x * x.dtype.type(np.log(2)))


def atan2_value(y, x):
    """The angle of the point (x, y); for complex numbers, where cut as JAX cuts it."""
    if y.dtype.kind != "c":
        return np.arctan2(y, x)
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def log1p_value(x):
    """log(1 + x); NumPy's own of complex numbers loses what is small beside 1."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    more, a, b = np.array(x), x.real, x.imag
    more.real += 1  # As 1 + x but for an imaginary part of -0.
    result = np.asarray(np.log(more))
    near = np.maximum(abs(a), abs(b)) < 0.5
    result.real = np.where(near, np.log1p(a * (a + 2) + b * b) / 2, result.real)
    return result


def logistic_value(x):
    """1 / (1 + e**-x), by the one of e**x and e**-x that does not overflow."""
    if x.dtype.kind == "c":
        left = x.real < 0
        small = np.exp(np.where(left, x, -x))
        return np.where(left, small, small.dtype.type(1)) / (1 + small)
    # A choice by np.where takes as long as several of these; e**0 is 1.
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


eval_rules |= on_wide({exp2_p: exp2_value, expm1_p: np.expm1, log1p_p: log1p_value})
eval_rules |= on_wide({tan_p: np.tan, asin_p: np.arcsin, acos_p: np.arccos})
eval_rules |= on_wide({atan_p: np.arctan, atan2_p: atan2_value})
eval_rules |= on_wide({sinh_p: np.sinh, cosh_p: np.cosh})
eval_rules |= on_wide({asinh_p: np.arcsinh, acosh_p: np.arccosh, atanh_p: np.arctanh})
eval_rules |= on_wide({logistic_p: logistic_value, cbrt_p: np.cbrt})
eval_rules |= on_wide({rsqrt_p: lambda x: values.reciprocal(np.sqrt(x))})
eval_rules |= on_wide({square_p: lambda x: x * x})
# Where NumPy asks the machine number by number, it takes as long as for four sums; and
# so do complex numbers, of which most functions are several real ones.
worth |= dict.fromkeys(
    (*curves, atan2_p, cbrt_p, lax.pow_p), lambda aval: 4 * size_of(aval)
)
worth |= dict.fromkeys(
    (lax.exp_p, lax.log_p, lax.sin_p, lax.cos_p, lax.tanh_p),
    lambda aval: size_of(aval) * (4 if aval.dtype.kind == "c" else 1),
)

exp2 = of_one(exp2_p, "2**x, elementwise, of floats or complex numbers.")
expm1 = of_one(expm1_p, "e**x - 1, elementwise, exact also for small x.")
log1p = of_one(log1p_p, "log(1 + x), elementwise, exact also for small x.")
tan = of_one(tan_p, "The tangent, elementwise, of floats or complex numbers.")
asin = of_one(asin_p, "The inverse sine, elementwise; NaN outside [-1, 1].")
acos = of_one(acos_p, "The inverse cosine, elementwise; NaN outside [-1, 1].")
atan = of_one(atan_p, "The inverse tangent, elementwise.")
atan2 = of_two(atan2_p, "The angle of the point (x, y), elementwise: y is first.")
sinh = of_one(sinh_p, "The hyperbolic sine, elementwise.")
cosh = of_one(cosh_p, "The hyperbolic cosine, elementwise.")
asinh = of_one(asinh_p, "The inverse hyperbolic sine, elementwise.")
acosh = of_one(acosh_p, "The inverse hyperbolic cosine, elementwise; NaN below 1.")
atanh = of_one(atanh_p, "The inverse hyperbolic tangent, elementwise.")
logistic = of_one(logistic_p, "1 / (1 + e**-x), elementwise: the sigmoid.")
rsqrt = of_one(rsqrt_p, "1 / sqrt(x), elementwise.")
cbrt = of_one(cbrt_p, "The real cube root, elementwise, also below zero.")
square = of_one(square_p, "x * x, elementwise; integers wrap.")


linearize_rules |= linearize.elementwise({
    exp2_p: [lambda y, x: lax.mul(y, math.log(2))],
    expm1_p: [lambda y, x: lax.add(y, 1.0)],
    log1p_p: [lambda y, x: lax.div(1.0, lax.add(x, 1.0))],
    tan_p: [lambda y, x: lax.add(square(y), 1.0)],
    asin_p: [lambda y, x: rsqrt(lax.sub(1.0, square(x)))],
    acos_p: [lambda y, x: lax.neg(rsqrt(lax.sub(1.0, square(x))))],
    atan_p: [lambda y, x: lax.div(1.0, lax.add(square(x), 1.0))],
    sinh_p: [lambda y, x: cosh(x)],
    cosh_p: [lambda y, x: sinh(x)],
    asinh_p: [lambda y, x: rsqrt(lax.add(square(x), 1.0))],
    acosh_p: [lambda y, x: rsqrt(lax.sub(square(x), 1.0))],
    atanh_p: [lambda y, x: atanh_factor(x)],
    logistic_p: [lambda y, x: lax.mul(y, lax.sub(1.0, y))],
    rsqrt_p: [lambda y, x: lax.mul(-0.5, lax.div(y, x))],
    cbrt_p: [lambda y, x: lax.mul(1 / 3, lax.integer_pow(y, -2))],
    square_p: [lambda y, x: lax.mul(2.0, x)],
    atan2_p: [
        lambda z, y, x: lax.div(x, lax.add(square(x), square(y))),
        lambda z, y, x: lax.div(lax.neg(y), lax.add(square(x), square(y))),
    ],
})


def atanh_factor(x):
    """1 / (1 - x²), by its two factors."""
    return lax.mul(lax.integer_pow(lax.add(x, 1.0), -1), lax.div(1.0, lax.sub(1.0, x)))


batch_rules |= batching.elementwise(*curves, atan2_p, rsqrt_p, cbrt_p, square_p)
