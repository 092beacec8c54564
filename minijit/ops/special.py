"""Special functions: erf, the gamma, beta and zeta functions, and Bessel's.

    erf(x), lgamma(x), digamma(x), igamma(a, x), betainc(a, b, x), zeta(s, q)

Values are those of `scipy.special`, which is imported when one is first asked for.
Compiled loops compute those of one argument themselves, and leave the others to SciPy.
"""

from __future__ import annotations

import math

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.array import ShapedArray, aval_of, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.jaxprs.jaxpr import fallbacks
from ..trace.plans import size_of, worth
from ..trace.primitives import (
    adapt, binary, elementwise, of_one, of_two, on_wide, unary,
)
from ..trace.shape_checks import real as reals
from ..trace.types import Array, ArrayLike, Binary
from ..transform.batching import vmap as batching
from ..transform.batching.vmap import batch_rules
from ..transform.derivatives import linearize
from ..transform.derivatives.linearize import jvp, linearize_rules, spread
from . import elementary

erf_p, erfc_p, erf_inv_p = map(Primitive, ["erf", "erfc", "erf_inv"])
lgamma_p, digamma_p = map(Primitive, ["lgamma", "digamma"])
igamma_p, igammac_p = map(Primitive, ["igamma", "igammac"])
bessel_i0e_p, bessel_i1e_p = map(Primitive, ["bessel_i0e", "bessel_i1e"])
regularized_incomplete_beta_p = Primitive("regularized_incomplete_beta")
zeta_p, polygamma_p = map(Primitive, ["zeta", "polygamma"])
# polygamma(1, x), the derivative of digamma.
trigamma_p = Primitive("trigamma")
igamma_grad_a_p = Primitive("igamma_grad_a")
random_gamma_grad_p = Primitive("random_gamma_grad")

# Those that have a scalar form of their own, and those that SciPy alone computes.
scalar = (
    *(erf_p, erfc_p, erf_inv_p, lgamma_p, digamma_p, trigamma_p),
    *(bessel_i0e_p, bessel_i1e_p),
)
of_pairs = (
    *(igamma_p, igammac_p, igamma_grad_a_p, random_gamma_grad_p),
    *(zeta_p, polygamma_p),
)
by_scipy = *of_pairs, regularized_incomplete_beta_p

shape_rules |= unary(reals, *scalar) | binary(reals, *of_pairs)
shape_rules |= {
    regularized_incomplete_beta_p: elementwise(
        "regularized_incomplete_beta", reals, reals, reals
    )
}


def special(name):
    """A function of `scipy.special`, which is imported when it is first needed."""

    def function(*args):
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return function


def digamma_value(x):
    """The logarithmic derivative of gamma; NaN at all its poles, zero included."""
    return np.where((x == 0) | (x == -np.inf), np.nan, special("psi")(x))


def lgamma_value(x):
    """log(|gamma(x)|); infinite also at -inf."""
    return np.where(x == -np.inf, np.inf, special("gammaln")(x))


def polygamma_value(m, x):
    """The m-th derivative of digamma, for whole m >= 0; NaN for others."""
    sign = np.where(m % 2 == 0, -1, 1)
    factorial = special("gamma")(m + 1)
    higher = sign * factorial * special("zeta")(m + 1, x)
    value = np.where(m == 0, digamma_value(x), higher)
    return np.where((m >= 0) & (m == np.floor(m)), value, np.nan)


def until_exact(step, first, *given):
    """[n]: what `step` makes of `first` until nothing changes in 53 bits.

    Args:
      step: (number of the step, state, *given) -> (state, by how much of itself the
        first array of the state, which is the result, has changed).
      first, given: arrays [n]; where the result is exact they are left out.
    """
    state, result = first, np.array(first[0])
    left = np.arange(result.size)
    for n in range(1, 10_000):
        state, change = step(n, state, *given)
        if n % EACH and n < 9_999:
            continue
        result[left] = state[0]
        more = np.abs(change) > 1e-17
        if not more.any():
            break
        left, *rest = (x[more] for x in (left, *state, *given))
        state, given = rest[: len(state)], rest[len(state) :]
    return result


# After so many steps it is worth looking at who needs more.
EACH = 8


def igamma_series(a, x):
    """1 + x / (a+1) + x**2 / ((a+1) (a+2)) + ..., to which igamma is proportional."""

    def step(n, state, a, x):
        total, term = state
        term = term * x / (a + n)
        total = total + term
        return (total, term), term / total

    return until_exact(step, (np.ones_like(a), np.ones_like(a)), a, x)


def igammac_fraction(a, x):
    """The continued fraction to which igammac is proportional, by Lentz's method."""

    def step(n, state, a):
        value, b, c, d = state
        factor, b = n * (a - n), b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        value = value * (c * d)
        return (value, b, c, d), c * d - 1

    b = x + 1 - a
    return until_exact(step, (1 / b, b, np.full_like(b, 1e300), 1 / b), a)


def in_double(*args):
    """Arrays of one shape in double precision, where single would not be enough."""
    return np.broadcast_arrays(*(np.asarray(x, np.float64) for x in args))


def igammac_value(a, x):
    """1 - igamma(a, x): in single precision by that, unless it is small.

    SciPy takes thirty times as long for it as for igamma where x is about 1.
    """
    if np.result_type(a, x) != np.float32:
        return special("gammaincc")(a, x)
    a, x = in_double(a, x)
    result = np.array(1 - special("gammainc")(a, x))
    small = ~(result > 1e-6)
    result[small] = special("gammaincc")(a[small], x[small])
    return result.astype(np.float32)


def igamma_slope(a, x):
    """The derivative of igamma by a, as a multiple of that by x.

    The series, and where x > a + 1 the fraction, are evaluated at a + 1e-30 i: the
    imaginary part of the result is 1e-30 times its derivative, without any rounding.
    """
    a, x = in_double(a, x)
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    a, y = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    # The fraction takes many terms of small x; of larger ones the series loses digits.
    low = (y <= a + 1) | (y <= 3)
    z, difference, slope = a + 1e-30j, np.log(y) - special("psi")(a), np.empty_like(a)
    total, rest = igamma_series(z[low], y[low]), igammac_fraction(z[~low], y[~low])
    by_a = (difference - 1 / a)[low] * total.real + total.imag * 1e30
    slope[low] = (y / a)[low] * by_a
    slope[~low] = -y[~low] * (difference[~low] * rest.real + rest.imag * 1e30)
    at_the_end = (a > 0) & ((x == 0) | (x == np.inf))
    return np.where(inside, slope, np.where(at_the_end, 0.0, np.nan))


def igamma_grad_a_value(a, x):
    """The derivative of igamma(a, x) by a."""
    a, x = in_double(a, x)
    with np.errstate(all="ignore"):
        density = np.exp((a - 1) * np.log(x) - x - special("gammaln")(a))
        slope = igamma_slope(a, x)
        return np.where(slope == 0, 0.0, density * slope)


eval_rules |= on_wide({igamma_grad_a_p: igamma_grad_a_value})
eval_rules |= on_wide({random_gamma_grad_p: lambda a, x: -igamma_slope(a, x)})
eval_rules |= on_wide({erf_p: special("erf"), erfc_p: special("erfc")})
eval_rules |= on_wide({erf_inv_p: special("erfinv"), lgamma_p: lgamma_value})
eval_rules |= on_wide({digamma_p: digamma_value, polygamma_p: polygamma_value})
eval_rules |= on_wide({trigamma_p: lambda x: special("zeta")(2, x)})
eval_rules |= on_wide({igamma_p: special("gammainc"), igammac_p: igammac_value})
# SciPy says that i1e(-0.0) is 0.0.
eval_rules |= on_wide({bessel_i0e_p: special("i0e")})
eval_rules |= on_wide({bessel_i1e_p: lambda x: np.copysign(special("i1e")(x), x)})
eval_rules |= on_wide({regularized_incomplete_beta_p: special("betainc")})
# For one number SciPy takes as long as NumPy for four sums, and longer.
worth |= dict.fromkeys(scalar, lambda aval: 4 * size_of(aval))


def zeta_value(s, q):
    """SciPy's, and for exponents at which it overflows its first term, q**-s."""
    first = np.power(q, -s)
    return np.where((s > 1e4) & (q > 0), first, special("zeta")(s, q))


eval_rules |= on_wide({zeta_p: zeta_value})



def of_a_and_x(primitive, text) -> Binary:
    """As `of_two`, with the names that JAX's arguments have."""
    function = lambda a, x: primitive.bind(*lax.adapt(a, x))
    return lax.documented(function, primitive, text)


erf = of_one(erf_p, "The error function, elementwise.")
erfc = of_one(erfc_p, "1 - erf(x), elementwise, also where that is small.")
erf_inv = of_one(erf_inv_p, "The inverse of erf, elementwise; NaN outside [-1, 1].")
lgamma = of_one(lgamma_p, "log(|gamma(x)|), elementwise.")
digamma = of_one(digamma_p, "The derivative of lgamma, elementwise.")
igamma = of_a_and_x(igamma_p, "The regularised lower incomplete gamma function.")
igammac = of_a_and_x(igammac_p, "1 - igamma(a, x), elementwise.")
igamma_grad_a = of_a_and_x(igamma_grad_a_p, "The derivative of igamma(a, x) by a.")
random_gamma_grad = of_two(
    random_gamma_grad_p, "How a sample x of gamma(a) moves with a, of (a, x)."
)
trigamma = of_one(trigamma_p, "The derivative of digamma, elementwise.")
bessel_i0e = of_one(bessel_i0e_p, "e**-|x| times the Bessel function I0, elementwise.")
bessel_i1e = of_one(bessel_i1e_p, "e**-|x| times the Bessel function I1, elementwise.")
zeta: Binary = lax.documented(
    lambda x, q: zeta_p.bind(*lax.adapt(x, q)),
    zeta_p,
    "The Hurwitz zeta function of (x, q), elementwise.",
)
polygamma: Binary = lax.documented(
    lambda m, x: polygamma_p.bind(*lax.adapt(m, x)),
    polygamma_p,
    "The m-th derivative of digamma, of (m, x).",
)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function, elementwise."""
    return regularized_incomplete_beta_p.bind(*adapt(a, b, x))


linearize_rules |= linearize.elementwise({
    erf_p: [lambda y, x: bell(x, 2 / math.sqrt(math.pi))],
    erfc_p: [lambda y, x: bell(x, -2 / math.sqrt(math.pi))],
    erf_inv_p: [
        lambda y, x: lax.mul(math.sqrt(math.pi) / 2, lax.exp(elementary.square(y)))
    ],
    lgamma_p: [lambda y, x: digamma(x)],
    digamma_p: [lambda y, x: trigamma(x)],
    trigamma_p: [lambda y, x: polygamma(lax.full_like(x, 2), x)],
    bessel_i0e_p: [
        lambda y, x: lax.sub(bessel_i1e(x), lax.mul(lax.sign(x), y))
    ],
    bessel_i1e_p: [lambda y, x: bessel_i1e_factor(y, x)],
    polygamma_p: [
        lambda y, m, x: no_partial("polygamma", "its order m"),
        lambda y, m, x: polygamma(lax.add(m, 1.0), x),
    ],
    zeta_p: [
        lambda y, s, q: zeta_by_exponent(s, q),
        lambda y, s, q: lax.mul(lax.neg(s), zeta(lax.add(s, 1.0), q)),
    ],
    igamma_p: [
        lambda y, a, x: igamma_grad_a(a, x),
        lambda y, a, x: gamma_density(a, x),
    ],
    igammac_p: [
        lambda y, a, x: lax.neg(igamma_grad_a(a, x)),
        lambda y, a, x: lax.neg(gamma_density(a, x)),
    ],
    igamma_grad_a_p: [
        lambda y, a, x: no_partial("igamma_grad_a", "its parameter a"),
        lambda y, a, x: lax.mul(
            gamma_density(a, x), lax.sub(lax.log(x), digamma(a))
        ),
    ],
    random_gamma_grad_p: [
        lambda y, a, x: no_partial("random_gamma_grad", "its parameter a"),
        lambda y, a, x: no_partial("random_gamma_grad", "the sample x"),
    ],
    regularized_incomplete_beta_p: [
        lambda y, a, b, x: no_partial("betainc", "its parameter a"),
        lambda y, a, b, x: no_partial("betainc", "its parameter b"),
        lambda y, a, b, x: beta_density(a, b, x),
    ],
})


def no_partial(name, argument):
    """Complain that a partial derivative is not known."""
    raise NotImplementedError(
        f"the derivative of {name} by {argument} is not implemented: "
        "lax.stop_gradient around that argument treats it as a constant"
    )


def bell(x, factor):
    """factor e**-x²"""
    return lax.mul(factor, lax.exp(lax.neg(elementary.square(x))))


def bessel_i1e_factor(y, x):
    """The derivative of y = bessel_i1e(x), which is 1/2 at zero."""
    eps = dtypes.finfo(aval_of(x).dtype).eps
    is_tiny = lax.le(lax.abs(x), lax.full_like(x, eps))
    safe = lax.select(is_tiny, lax.full_like(x, eps), x)
    inner = lax.add(lax.sign(safe), lax.div(1.0, safe))
    factor = lax.sub(bessel_i0e(safe), lax.mul(y, inner))
    return lax.select(is_tiny, lax.full_like(x, 0.5), factor)


def gamma_density(a, x):
    """e**-x x**(a-1) / gamma(a): the derivative of igamma by x."""
    return lax.exp(lax.sub(lax.sub(lax.mul(lax.sub(a, 1.0), lax.log(x)), x), lgamma(a)))


def zeta_by_exponent(s, q):
    """The derivative of zeta(s, q) by s: that of Euler and Maclaurin's formula."""
    shape = np.broadcast_shapes(aval_of(s).shape, aval_of(q).shape)
    of_both = ShapedArray(shape, aval_of(s).dtype)
    s, q = spread(s, of_both), spread(q, of_both)
    return jvp(lambda s: zeta_sum(s, q), (s,), (lax.full_like(s, 1),))[1]


def zeta_sum(s, q):
    """The first terms of zeta(s, q), and an integral with corrections for the rest."""
    count, bernoulli = 10, (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
    terms = [lax.pow(lax.add(q, float(k)), lax.neg(s)) for k in range(count)]
    edge = lax.add(q, float(count))
    last = lax.pow(edge, lax.neg(s))
    integral = lax.div(lax.mul(last, edge), lax.sub(s, 1.0))
    total = lax.add(integral, lax.mul(last, 0.5))
    for term in terms:
        total = lax.add(total, term)
    factor = lax.div(lax.mul(s, last), edge)
    for j, number in enumerate(bernoulli):
        n = 2 * j + 2
        total = lax.add(total, lax.mul(factor, number / math.factorial(n)))
        both = lax.mul(lax.add(s, float(n - 1)), lax.add(s, float(n)))
        factor = lax.div(lax.mul(factor, both), elementary.square(edge))
    return total


def beta_density(a, b, x):
    """x**(a-1) (1-x)**(b-1) / beta(a, b): the derivative of betainc by x."""
    log_beta = lax.sub(lax.add(lgamma(a), lgamma(b)), lgamma(lax.add(a, b)))
    of_x = lax.mul(lax.sub(a, 1.0), lax.log(x))
    of_rest = lax.mul(lax.sub(b, 1.0), elementary.log1p(lax.neg(x)))
    return lax.exp(lax.sub(lax.add(of_rest, of_x), log_beta))


batch_rules |= batching.elementwise(*scalar, *by_scipy)
fallbacks |= dict.fromkeys(
    by_scipy, "a special function without a scalar form of its own"
)
