"""Special functions under the names of `jax.scipy.special`.

    special.erf(x), special.expit(x), special.gammaln(x)
    special.xlogy(0.0, 0.0)                     # 0.0, with derivatives to match
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from .. import lax, nn, numpy as jnp
from ..nn import logsumexp as logsumexp
from ..numpy import arguments, core
from ..trace import dtypes
from ..trace.api import calls
from ..trace.base import names as _names
from ..trace.types import Args, Array, ArrayLike, Axis, Result
from ..transform.custom.custom_derivatives import custom_jvp
from .cephes import quotient
from .gammas import gamma as gamma, gammasgn as gammasgn, promoted
from .hypergeometric import hyp1f1 as hyp1f1, hyp2f1 as hyp2f1


def with_fixed(
    *positions: int,
) -> Callable[[Callable[Args, Result]], custom_jvp[Args, Result]]:
    """`custom_jvp` of a function with arguments that are no arrays."""
    return partial(custom_jvp, nondiff_argnums=positions)


def elementwise(name, operation, text, parameters="x") -> Callable[..., Array]:
    """A function that applies an operation of `lax` to promoted arguments."""

    def function(*args, **kwargs):
        given = signature.bind(*args, **kwargs).args
        return operation(*core.promote_args_inexact(name, *given))

    signature = inspect.Signature([
        inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for p in parameters.split()
    ])  # fmt: skip
    vars(function).update(__signature__=signature)
    return arguments.named(function, name, text)


erf = elementwise("erf", lax.erf, "The error function.")
erfc = elementwise("erfc", lax.erfc, "1 - erf(x), exact for large x.")
erfinv = elementwise("erfinv", lax.erf_inv, "The inverse of erf.")
expit = elementwise("expit", lax.logistic, "1 / (1 + e**-x).")
gammaln = elementwise("gammaln", lax.lgamma, "log |gamma(x)|.")
digamma = elementwise("digamma", lax.digamma, "The derivative of gammaln.")
gammainc = elementwise("gammainc", lax.igamma, "The share of gamma(a) below x.", "a x")
gammaincc = elementwise(
    "gammaincc", lax.igammac, "The share of gamma(a) above x.", "a x"
)
betainc = elementwise(
    "betainc", lax.betainc, "The share of beta(a, b) below x.", "a b x"
)
i0e = elementwise("i0e", lax.bessel_i0e, "i0(x) / e**|x|.")
i1e = elementwise("i1e", lax.bessel_i1e, "i1(x) / e**|x|.")


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The sum of 1 / (q + k)**x over k = 0, 1, ...; q must be given, as in JAX."""
    if q is None:
        raise NotImplementedError(
            "Riemann zeta function not implemented; pass q != None to compute the "
            "Hurwitz Zeta function."
        )
    return lax.zeta(*core.promote_args_inexact("zeta", x, q))


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """e**x by its sum along axes, by default all of them."""
    return nn.softmax(x, range(jnp.ndim(x)) if axis is None else axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """The logarithm of softmax(x, axis=axis)."""
    return nn.log_softmax(x, range(jnp.ndim(x)) if axis is None else axis)


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0."""
    x, = promoted("i0", x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x)


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1."""
    x, = promoted("i1", x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x)


@custom_jvp
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of expit."""
    x, = promoted("logit", x, is_real=False)
    return jnp.log(x / (1 - x))


logit.defjvps(lambda t, y, x: t / (x * (1 - x)))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """n!, as a float; 0 for negative n."""
    if exact:
        raise NotImplementedError("factorial with exact=True")
    n, = promoted("factorial", n)
    return jnp.where(n < 0, 0, jnp.exp(lax.lgamma(n + 1)))


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log |beta(a, b)|."""
    a, b = promoted("betaln", a, b)
    a, b = jnp.maximum(a, b), jnp.minimum(a, b)
    # Of large arguments lgamma's terms are huge and cancel: what is left of Stirling's
    # formula is written out.
    is_large, both_large = a >= 8, b >= 8
    plain = lax.lgamma(a) + lax.lgamma(b) - lax.lgamma(a + b)
    a, large_b = jnp.where(is_large, a, 8), jnp.where(both_large, b, 8)
    rest = after_stirling(a) - after_stirling(a + b)
    left = (0.5 - a) * jnp.log1p(b / a)
    of_b = lax.lgamma(b) + b - b * jnp.log(a + b)
    of_large_b = (
        0.5 * math.log(2 * math.pi) - 0.5 * jnp.log(large_b)
        + after_stirling(large_b) - large_b * jnp.log1p(a / large_b)
    )  # fmt: skip
    result = rest + left + jnp.where(both_large, of_large_b, of_b)
    return jnp.where(is_large, result, plain)


def after_stirling(x):
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x of 8 or more."""
    r = 1 / (x * x)
    terms = 1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188
    return reduce(lambda total, term: total * r + term, terms[::-1]) / x


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """gamma(a) gamma(b) / gamma(a + b)."""
    a, b = promoted("beta", a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * jnp.exp(betaln(a, b))


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """The logarithm of the gamma function of d dimensions, d an int."""
    d = arguments.static_int(d, "d of multigammaln")
    a, = promoted("multigammaln", a)
    parts = lax.lgamma(a[..., None] - jnp.arange(d, dtype=a.dtype) / 2)
    constant = np.array(0.25 * d * (d - 1) * np.log(np.pi), a.dtype)
    return jnp.sum(parts, -1) + constant


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of order n of digamma; n an integer."""
    if not dtypes.issubdtype(dtypes.dtype(n), np.integer):
        raise ValueError(
            "Argument `n` to polygamma must be of integer type. Got dtype "
            f"{dtypes.dtype(n)}."
        )
    return lax.polygamma(*promoted("polygamma", n, x))


# ---- x log y, which is 0 where x is


@custom_jvp
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), and 0 for x = 0 unless y is NaN."""
    x, y = promoted("xlogy", x, y, is_real=False)
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log(y), jnp.zeros_like(x))


@custom_jvp
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), and 0 for x = 0 unless y is NaN."""
    x, y = promoted("xlog1py", x, y, is_real=False)
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log1p(y), jnp.zeros_like(x))


@custom_jvp
def xlogx(x):
    """x log(x), and 0 for x = 0."""
    return xlogy(x, x)


@xlogy.defjvp
def xlogy_jvp(primals, tangents):
    (x, y), (s, t) = primals, tangents
    z = xlogy(x, y)
    return z, (s * jnp.log(y) + t * x / y).astype(z.dtype)


@xlog1py.defjvp
def xlog1py_jvp(primals, tangents):
    (x, y), (s, t) = primals, tangents
    z = xlog1py(x, y)
    return z, (s * jnp.log1p(y) + t * x / (1 + y)).astype(z.dtype)


xlogx.defjvps(lambda t, y, x: t * (jnp.log(x) + 1))


def entr(x: ArrayLike) -> Array:
    """-x log(x): what a probability adds to an entropy; -infinity below 0."""
    x, = promoted("entr", x)
    return jnp.where(x < 0, np.array(-np.inf, x.dtype), -xlogx(x))


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q), 0 where p is 0, and infinity where it makes no sense."""
    p, q = promoted("rel_entr", p, q)
    both, none = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    inside = xlogx(safe_p) - xlogy(safe_p, safe_q)
    return jnp.where(both, inside, jnp.where(none, 0, np.array(np.inf, p.dtype)))


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) - p + q."""
    p, q = promoted("kl_div", p, q)
    return rel_entr(p, q) - p + q


# ---- The normal distribution


def of_floats(x):
    """x as an array; raises TypeError unless its dtype is float32 or float64."""
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"x.dtype={x.dtype} is not supported, see docstring for supported types."
        )
    return x


def ndtr(x: ArrayLike) -> Array:
    """How much of a normal distribution lies below x.

    Raises TypeError for what is not float32 or float64.
    """
    x = of_floats(x)
    half = np.array(np.sqrt(0.5), x.dtype)
    w = x * half
    # Each branch is exact where it is taken.
    tail = lax.erfc(jnp.abs(w))
    return 0.5 * jnp.where(
        jnp.abs(w) < half, 1 + lax.erf(w), jnp.where(w > 0, 2 - tail, tail)
    )


def norm_logpdf(x):
    """The logarithm of the density of a normal distribution."""
    return -0.5 * (x * x + np.array(np.log(2 * np.pi), x.dtype))


@with_fixed(1)
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), precise also where ndtr(x) is next to 0 or 1.

    Args:
      series_order: how many terms of a series are used far to the left, 0 to 30.
    """
    if type(series_order) is not int:
        raise TypeError("series_order must be a Python integer.")
    if not 0 <= series_order <= 30:
        raise ValueError(f"series_order must be in 0 to 30, got {series_order}.")
    x = of_floats(x)
    low = -20 if x.dtype == np.float64 else -10
    # The left tail: the density by -x, times 1 - 1 / x^2 + 3 / x^4 - 15 / x^6 ...
    left = jnp.minimum(x, low)
    series, term = jnp.ones_like(x), jnp.ones_like(x)
    for n in range(1, series_order + 1):
        term = -term * (2 * n - 1) / (left * left)
        series = series + term
    # How much lies beyond |x|: on the right it is what is missing to 1.
    beyond = 0.5 * lax.erfc(jnp.abs(x) * np.array(np.sqrt(0.5), x.dtype))
    below = jnp.where(x > 0, 1 - beyond, jnp.where(x > low, beyond, series / -left))
    # On the right less what rounding that lost, as in log1p.
    lost = (beyond - (1 - below)) / below
    less = jnp.where(x > 0, lost, jnp.where(x > low, 0, -norm_logpdf(left)))
    return -(less - jnp.log(below))


@log_ndtr.defjvp
def log_ndtr_jvp(series_order, primals, tangents):
    (x,), (t,) = primals, tangents
    y = log_ndtr(x, series_order)
    return y, t * jnp.exp(norm_logpdf(jnp.asarray(x)) - y)


# For float32, of w = -log(4 p (1 - p)): x / (2 p - 1) up to w = 6.25 in w - 2.5, and
# from there on, by sqrt(w), in 1 / sqrt(w) - 1 / 4; fitted to the relative error.
NDTRI_NEAR = (
    -7.1292008e-09, 2.7820223e-08, 5.7668513e-07, -4.8362836e-06, -6.576906e-06,
    0.00030857182, -0.0017725504, -0.00590751, 0.34880254, 2.1233134,
)  # fmt: skip
NDTRI_FAR = (
    58592.141, 9219.3271, -4939.6279, -1124.5549, 114.67699, 51.239334, 8.1098328,
    -0.80163032, 0.80088931, 0.11401995, -0.28028077, 1.3575686,
)  # fmt: skip


def ndtri32(p):
    w = jnp.maximum(-jnp.log(4 * p * (1 - p)), 0)
    root = jnp.sqrt(w)
    near = jnp.polyval(np.float32(NDTRI_NEAR), w - 2.5)
    far = root * jnp.polyval(np.float32(NDTRI_FAR), 1 / root - 0.25)
    return (2 * p - 1) * jnp.where(w < 6.25, near, far)


@custom_jvp
def ndtri(p: ArrayLike) -> Array:
    """x with ndtr(x) = p.  Raises TypeError for what is not float32 or float64."""
    p = of_floats(p)
    if p.dtype == np.float32:
        return ndtri32(p)
    # Computed for the smaller of p and 1 - p.
    edge = np.exp(-2.0)
    near = jnp.where(p > 1 - edge, 1 - p, p)
    near = jnp.where((near > 0) & (near < 1), near, 0.5)
    w = near - 0.5
    middle = w + w * w * w * quotient("ndtri 0", w * w)
    z = jnp.sqrt(-2 * jnp.log(near))
    more = jnp.where(z >= 8, quotient("ndtri 2", 1 / z), quotient("ndtri 1", 1 / z))
    x = jnp.where(
        near > edge, -np.array(np.sqrt(2 * np.pi), p.dtype) * middle,
        z - jnp.log(z) / z - more / z,
    )  # fmt: skip
    x = jnp.where(p > 1 - edge, x, -x)
    infinite = np.array(np.inf, p.dtype)
    x = jnp.where(p == 0, -infinite, jnp.where(p == 1, infinite, x))
    return jnp.where((p >= 0) & (p <= 1), x, np.array(np.nan, p.dtype))


ndtri.defjvps(lambda t, y, p: t / jnp.exp(norm_logpdf(y)))


# ---- More of the gamma function


def loggamma(x: ArrayLike) -> Array:
    """log(gamma(x)), of complex numbers, too; NaN for real x <= 0."""
    x, = promoted("loggamma", x, is_real=False)
    if x.dtype.kind == "c":
        return complex_loggamma(x)
    return jnp.where(x > 0, lax.lgamma(x), np.array(np.nan, x.dtype))


lanczos = [
    0.9999999999998099, 676.5203681218851, -1259.1392167224028, 771.3234287776531,
    -176.6150291621406, 12.507343278686905, -0.13857109526572012,
    9.984369578019572e-06, 1.5056327351493116e-07,
]  # fmt: skip


def complex_loggamma(z):
    """Lanczos, 1964, to the right of 1/2; from the left one moves there step by step,
    log gamma(z) = log gamma(z + 1) - log(z)."""
    is_pole = (z.imag == 0) & (z.real == jnp.floor(z.real)) & (z.real <= 0)
    bad = is_pole | jnp.isnan(z)
    z = jnp.where(bad, 1, z)
    steps = jnp.maximum(0, jnp.ceil(0.5 - z.real)).astype(int)

    def step(k, total):
        return total + jnp.log(jnp.where(k < steps, z + k, 1))

    logs = lax.fori_loop(0, jnp.max(steps, initial=0), step, jnp.zeros_like(z))
    w = z + steps - 1
    series = lanczos[0] + sum(c / (w + k) for k, c in enumerate(lanczos) if k)
    t = w + 7.5
    half = 0.5 * np.log(2 * np.pi)
    found = half + (w + 0.5) * jnp.log(t) - t + jnp.log(series) - logs
    return jnp.where(bad, np.array(complex(np.nan, np.nan), z.dtype), found)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """How many ways to take k things of N; with `repetition`, each several times."""
    N, k = promoted("comb", N, k)
    if repetition:
        return jnp.where((k == 0) & (N >= 0), 1, comb(N + k - 1, k))
    possible = (k <= N) & (N >= 0) & (k >= 0)
    N, k = jnp.where(possible, N, 0), jnp.where(possible, k, 0)
    log = lax.lgamma(N + 1) - lax.lgamma(k + 1) - lax.lgamma(N + 1 - k)
    return jnp.where(possible, jnp.exp(log), 0)


@custom_jvp
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """gamma(z + m) / gamma(z): z (z + 1) ... (z + m - 1)."""
    z, m = promoted("poch", z, m)
    return jnp.where(m == 0, 1, gamma(z + m) / gamma(z))


poch.defjvps(
    lambda t, y, z, m: t * y * (digamma(jnp.add(z, m)) - digamma(z)),
    lambda t, y, z, m: t * y * digamma(jnp.add(z, m)),
)


def bernoulli(n: int) -> Array:
    """Bernoulli's numbers 0 to n, n an int."""
    n = arguments.static_int(n, "n of bernoulli")
    if n < 0:
        raise ValueError("n must be a non-negative integer.")
    from scipy.special import bernoulli as by_scipy

    return jnp.asarray(by_scipy(n), jnp.zeros(0).dtype)


def power_of(log, lmbda):
    """(e**(lmbda log) - 1) / lmbda, which is log where lmbda is 0."""
    is_zero = lmbda == 0
    safe = jnp.where(is_zero, 1, lmbda)
    return jnp.where(is_zero, log, jnp.expm1(safe * log) / safe)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x**lmbda - 1) / lmbda, log(x) for lmbda = 0."""
    x, lmbda = promoted("boxcox", x, lmbda)
    return power_of(jnp.log(x), lmbda)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, lmbda)."""
    x, lmbda = promoted("boxcox1p", x, lmbda)
    return power_of(jnp.log1p(x), lmbda)


# ---- More error functions


def weideman(n=32):
    """(l, the coefficients of a polynomial) for `wofz`; Weideman, 1994."""
    k = np.arange(-2 * n + 1, 2 * n)
    size = np.sqrt(n / np.sqrt(2))
    t = size * np.tan(k * np.pi / (4 * n))
    f = np.concatenate([[0], np.exp(-t * t) * (size**2 + t * t)])
    return size, np.fft.fft(np.fft.fftshift(f)).real[n:0:-1] / (4 * n)


@custom_jvp
def wofz(z: ArrayLike) -> Array:
    """e**(-z^2) erfc(-iz), of complex numbers: Faddeeva's function."""
    z, = promoted("wofz", z, is_real=False)
    z = z if z.dtype.kind == "c" else z + np.array(0j, dtypes.to_complex_dtype(z.dtype))
    size, coefficients = weideman()
    upper = jnp.where(z.imag >= 0, z, -z)
    below = size - 1j * upper
    series = jnp.polyval(coefficients.astype(z.dtype), (size + 1j * upper) / below)
    w = 2 * series / (below * below) + 1 / np.sqrt(np.pi) / below
    return jnp.where(z.imag >= 0, w, 2 * jnp.exp(-z * z) - w).astype(z.dtype)


wofz.defjvps(lambda t, y, z: t * (2j / np.sqrt(np.pi) - 2 * z * y))


@custom_jvp
def erfcx(x: ArrayLike) -> Array:
    """e**(x^2) erfc(x), without overflow."""
    x, = promoted("erfcx", x, is_real=False)
    if x.dtype.kind == "c":
        return wofz(1j * x)
    large = x > np.sqrt(np.log(float(dtypes.finfo(x.dtype).max)))
    small = jnp.where(large, 1, x)
    # 1 - 1 / (2 x^2) + 3 / (4 x^4) ...
    terms = np.cumprod([1.0, *(-(2 * k - 1) / 2 for k in range(1, 9))])
    series = jnp.polyval(terms[::-1].astype(x.dtype), 1 / (x * x))
    tail = series / (x * np.array(np.sqrt(np.pi), x.dtype))
    return jnp.where(large, tail, jnp.exp(small * small) * lax.erfc(small))


erfcx.defjvps(lambda t, y, x: t * (2 * x * y - 2 / np.sqrt(np.pi)))


@custom_jvp
def dawsn(x: ArrayLike) -> Array:
    """e**(-x^2) times the integral of e**(t^2) from 0 to x."""
    x, = promoted("dawsn", x)
    size = jnp.abs(x)
    small, large = jnp.minimum(size, 3.25), jnp.maximum(size, 3.25)
    t = 1 / (large * large)
    tail = jnp.where(size < 6.25, quotient("dawsn 1", t), quotient("dawsn 2", t))
    inside = small * quotient("dawsn 0", small * small)
    far = 0.5 / large * (1 + t * tail)
    return jnp.sign(x) * jnp.where(size < 3.25, inside, far)


dawsn.defjvps(lambda t, y, x: t * (1 - 2 * x * y))


@custom_jvp
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: the integral of e**(-h^2 (1 + t^2) / 2) / (1 + t^2) / (2 pi), t from 0
    to a."""
    h, a = promoted("owens_t", h, a)
    h, size = jnp.abs(h), jnp.abs(a)
    inside = size <= 1
    b = jnp.where(inside, size, 1 / jnp.where(inside, 1, size))
    g = jnp.where(inside, h, size * h)
    nodes, weights = np.polynomial.legendre.leggauss(26)
    square = (b * b)[..., None] * np.square((nodes + 1) / 2).astype(h.dtype)
    values = jnp.exp(-0.5 * (g * g)[..., None] * (1 + square)) / (1 + square)
    result = b * (values @ (weights / (4 * np.pi)).astype(h.dtype))
    below, above = ndtr(-h), ndtr(-size * h)
    result = jnp.where(inside, result, (below + above) / 2 - below * above - result)
    return jnp.where(jnp.isnan(h), h, jnp.sign(a) * result)


owens_t.defjvps(
    lambda t, y, h, a: -t * jnp.exp(-0.5 * jnp.square(h)) * lax.erf(a * h / np.sqrt(2))
    / np.sqrt(8 * np.pi),
    lambda t, y, h, a: t * jnp.exp(-0.5 * (jnp.square(a) + 1) * jnp.square(h))
    / (2 * np.pi * (jnp.square(a) + 1)),
)  # fmt: skip


# ---- Integrals of exponentials, sines and cosines


@with_fixed(0)
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The integral of e**(-x t) / t**n, t from 1 to infinity."""
    order, x = jnp.broadcast_arrays(*promoted("expn", n, x))
    small, large = jnp.clip(x, 1e-30, 1), jnp.maximum(x, 1)
    nan, infinite = (np.array(v, x.dtype) for v in (np.nan, np.inf))
    at_zero = jnp.where(order < 2, infinite, 1 / jnp.maximum(order - 1, 1))
    inside = jnp.where(x > 1, by_fraction(order, large), by_series(order, small))
    inside = jnp.where(order == 0, jnp.exp(-x) / x, inside)
    result = jnp.where(x == 0, at_zero, inside)
    return jnp.where((x < 0) | (order < 0), nan, result)


def by_series(n, x):
    """The sum of -(-x)**k / k! / (k - n + 1), where k = n - 1 is a logarithm."""

    def step(k, state):
        total, term = state
        gap = k + 1 - n
        share = jnp.where(gap == 0, 0, term / jnp.where(gap == 0, 1, gap))
        return total - share, -term * x / (k + 1)

    total, _ = lax.fori_loop(0, 24, step, (jnp.zeros_like(x), jnp.ones_like(x)))
    order = jnp.maximum(n, 1)
    sign = 1 - 2 * ((order - 1) % 2)
    log = jnp.exp((order - 1) * jnp.log(x) - lax.lgamma(order))
    return total + sign * log * (digamma(order) - jnp.log(x))


def by_fraction(n, x):
    """A continued fraction, by Lentz's method; Press et al., Numerical Recipes, 6.3."""
    eps = float(dtypes.finfo(x.dtype).eps)

    def step(state):
        i, b, c, d, h, _ = state
        a = -i * (n - 1 + i)
        b = b + 2
        d = 1 / (a * d + b)
        c = b + a / c
        return i + 1, b, c, d, h * c * d, c * d

    unfinished = lambda state: jnp.any(jnp.abs(state[5] - 1) > eps) & (state[0] < 300)
    b = x + n
    first = jnp.ones((), x.dtype), b, 1e30 + 0 * b, 1 / b, 1 / b, 0 * b
    return jnp.exp(-x) * lax.while_loop(unfinished, step, first)[4]


@expn.defjvp
def expn_jvp(n, primals, tangents):
    (x,), (t,) = primals, tangents
    y = expn(n, x)
    lower = expn(jnp.maximum(jnp.subtract(n, 1), 0), x)
    return y, -t * jnp.where(jnp.equal(n, 0), y * (1 + 1 / jnp.asarray(x)), lower)


def exp1(x: ArrayLike) -> Array:
    """The integral of e**(-t) / t, t from x to infinity."""
    x, = promoted("exp1", x)
    return expn(1, x)


@custom_jvp
def expi(x: ArrayLike) -> Array:
    """The integral of e**t / t, t from minus infinity to x."""
    x, = promoted("expi", x)
    small = jnp.clip(x, 1e-30, 2)
    near = small * quotient("expi 0", small) + np.euler_gamma + jnp.log(small)
    far = jnp.maximum(x, 2)
    w = 1 / far
    ends = [far <= 2**k for k in range(2, 7)]
    parts = [quotient(f"expi {k}", w) for k in range(1, 7)]
    far = jnp.exp(far) * w * (1 + w * jnp.select(ends, parts[:-1], parts[-1]))
    positive = jnp.where(x > 2, far, near)
    infinite = np.array(-np.inf, x.dtype)
    negative = -expn(1, jnp.where(x < 0, -x, 1))
    result = jnp.where(x < 0, negative, jnp.where(x == 0, infinite, positive))
    return jnp.where(jnp.isnan(x), x, result)


expi.defjvps(lambda t, y, x: t * jnp.exp(x) / x)


@custom_jvp
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """(the integral of sin(t) / t from 0 to x, that of cos(t) / t from infinity)."""
    x, = promoted("sici", x)
    size = jnp.abs(x)
    small, large = jnp.clip(size, 1e-30, 4), jnp.maximum(size, 4)
    t, z = small * small, 1 / (large * large)
    of = lambda k: jnp.where(large < 8, quotient(f"sici {k}4", z), quotient(
        f"sici {k}8", z
    ))  # fmt: skip
    f, g = of("f") / large, of("g") * z
    sine, cosine = jnp.sin(large), jnp.cos(large)
    endless = jnp.isinf(size)
    s_far = jnp.where(endless, np.pi / 2, np.pi / 2 - f * cosine - g * sine)
    c_far = jnp.where(endless, 0, f * sine - g * cosine)
    near = size <= 4
    s = jnp.sign(x) * jnp.where(near, small * quotient("si", t), s_far)
    log = np.euler_gamma + jnp.log(jnp.where(size == 0, 0, small))
    c = jnp.where(near, log + t * quotient("ci", t), c_far)
    return s.astype(x.dtype), jnp.where(jnp.isneginf(x), np.nan, c).astype(x.dtype)


@sici.defjvp
def sici_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return sici(x), (t * jnp.sinc(x / np.pi), t * jnp.cos(x) / x)


@custom_jvp
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """(the integral of sin(pi t^2 / 2) from 0 to x, that of the cosine)."""
    x, = promoted("fresnel", x)
    size = jnp.abs(x)
    small, large = jnp.minimum(size, 1.6), jnp.clip(size, 1.6, 1e5)
    t = small**4
    s_near = small**3 * quotient("fresnel s", t)
    c_near = small * quotient("fresnel c", t)
    square = np.pi * large * large
    u = 1 / (square * square)
    f = 1 - u * quotient("fresnel f", u)
    g = quotient("fresnel g", u) / square
    # The angle pi x^2 / 2, without its whole turns.
    rest = jnp.fmod(large, 2)
    angle = np.pi * jnp.fmod(rest * (large - rest / 2), 2)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    far = np.pi * large
    s_far = 0.5 - (f * cosine + g * sine) / far
    c_far = 0.5 + (f * sine - g * cosine) / far
    is_near, endless = size * size < 2.5625, size > 36974
    sign = jnp.sign(x)
    parts = (s_near, s_far), (c_near, c_far)
    s, c = (
        sign * jnp.where(is_near, near, jnp.where(endless, 0.5, far))
        for near, far in parts
    )
    return s.astype(x.dtype), c.astype(x.dtype)


@fresnel.defjvp
def fresnel_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    angle = np.pi / 2 * jnp.square(x)
    return fresnel(x), (t * jnp.sin(angle), t * jnp.cos(angle))


def spence(x: ArrayLike) -> Array:
    """The integral of log(t) / (1 - t), t from 1 to x; NaN for x < 0, and of NaN.

    Raises TypeError for what is not float32 or float64.
    """
    x = of_floats(x)
    safe = jnp.where((x > 0) & (x != 1), x, 2)
    big = safe > 2
    y = jnp.where(big, 1 / safe, safe)
    above, below = y > 1.5, y < 0.5
    w = jnp.where(above, 1 / y - 1, jnp.where(below, -y, y - 1))
    value = -w * quotient("spence", w)
    sixth, log = np.pi**2 / 6, jnp.log(y)
    other = jnp.where(below, 1 - y, 0.5)
    value = jnp.where(below, sixth - log * jnp.log(other) - value, value)
    value = jnp.where(big | above, -0.5 * log * log - value, value)
    value = jnp.where(x == 1, 0, jnp.where(x == 0, sixth, value))
    return jnp.where(x >= 0, value, np.nan).astype(x.dtype)


# ---- Bessel functions, spherical harmonics, hypergeometric functions


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the orders 0 to v, along a new first axis.

    Args:
      v, n_iter: ints; the recurrence of Miller begins at the order `n_iter`.
    """
    z, = promoted("bessel_jn", z)
    v = arguments.static_int(v, "v of bessel_jn")
    n_iter = arguments.static_int(n_iter, "n_iter of bessel_jn")

    def step(carry, k):
        above, here, total = carry
        below = 2 * (k + 1) * here / z - above
        return (here, below, jnp.where(k % 2 == 0, total + 2 * below, total)), below

    zero = jnp.zeros_like(z)
    orders = jnp.arange(n_iter + 1, dtype=z.dtype)
    start = zero, zero + 1e-16, zero
    (_, _, total), found = lax.scan(step, start, orders, reverse=True)
    return found[: v + 1] / (total - found[0])


def legendre_functions(x, n_max):
    """Legendre functions of the first kind, as in spherical harmonics: [order, degree].

    The sum of the squares of a spherical harmonic over the sphere is 1.
    """
    sine = jnp.sqrt(1 - x * x)
    diagonal = jnp.full_like(x, 0.5 / np.sqrt(np.pi))
    columns = []
    for k in range(n_max + 1):
        last, here = jnp.zeros_like(x), diagonal
        column = [jnp.zeros_like(x)] * k + [here]
        for l in range(k + 1, n_max + 1):
            a = np.sqrt((4 * l * l - 1) / (l * l - k * k))
            b = np.sqrt(((l - 1) ** 2 - k * k) / (4 * (l - 1) ** 2 - 1))
            last, here = here, a * (x * here - b * last)
            column.append(here)
        columns.append(jnp.stack(column))
        diagonal = -diagonal * sine * np.sqrt((2 * k + 3) / (2 * k + 2))
    return jnp.stack(columns)


def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """Legendre functions of the first kind at each z: [order, degree, z].

    Args:
      m, n: the largest order and degree, which are equal.
      z: a vector of floats.
      is_normalized: whether as in spherical harmonics, without the wave.
    """
    if m != n:
        raise NotImplementedError("Computations for m!=n are not yet supported.")
    if jnp.ndim(z) != 1:
        raise ValueError("z must be a 1D array.")
    values = legendre_functions(z, n)
    if is_normalized:
        return values
    norms = np.ones((n + 1, n + 1))
    for l in range(n + 1):
        for k in range(l + 1):
            ratio = math.factorial(l + k) / math.factorial(l - k)
            norms[k, l] = math.sqrt(4 * np.pi / (2 * l + 1) * ratio)
    return values * norms[..., None].astype(values.dtype)


def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """Legendre functions of the first kind and their derivatives: [order, degree, z].

    Args:
      m, n: the largest order and degree, which are equal.
      z: a vector of floats between -1 and 1.
    """
    values = lpmn_values(m, n, z, False)
    order, degree = np.ogrid[: m + 1, : n + 1]
    z, = promoted("lpmn", z)
    lower = jnp.pad(values[:, :-1], ((0, 0), (1, 0), (0, 0)))
    weigh = lambda numbers: numbers[..., None].astype(values.dtype)
    slopes = weigh(degree) * z * values - weigh(degree + order) * lower
    return values, slopes / (z * z - 1)


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike,
    diff_n: int | None = None, n_max: int | None = None,
) -> Array:
    """Spherical harmonics: degrees n >= 0, orders |m| <= n, both integer vectors.

    Args:
      theta, phi: the angle from the pole, and around it.
      n_max: an int, the largest of n; needed under jit.
    """
    if diff_n is not None:
        raise NotImplementedError(
            "The 'diff_n' argument to jax.scipy.special.sph_harm_y is not supported."
        )
    n_max = np.max(n) if n_max is None else n_max
    n_max = arguments.static_int(n_max, "n_max of sph_harm_y")
    order = jnp.abs(m)
    functions = legendre_functions(jnp.cos(jnp.atleast_1d(theta)), n_max)
    legendre = functions[order, n, jnp.arange(len(n))]
    wave = lax.complex(legendre * jnp.cos(order * phi), legendre * jnp.sin(order * phi))
    sign = 1 - 2 * (order % 2)
    return jnp.where(jnp.less(m, 0), sign * jnp.conj(wave), wave)


calls.explain_calls("scipy.special", globals())

_names.publish(globals(), """
    bernoulli bessel_jn beta betainc betaln boxcox boxcox1p comb dawsn digamma entr erf
    erfc erfcx erfinv exp1 expi expit expn factorial fresnel gamma gammainc gammaincc
    gammaln gammasgn hyp1f1 hyp2f1 i0 i0e i1 i1e kl_div log_ndtr log_softmax loggamma
    logit logsumexp lpmn lpmn_values multigammaln ndtr ndtri owens_t poch polygamma
    rel_entr sici softmax spence sph_harm_y wofz xlog1py xlogy zeta
""")
