"""Special functions under the names of `jax.scipy.special`.

    special.erf(x), special.expit(x), special.gammaln(x)
    special.xlogy(0.0, 0.0)                     # 0.0, with derivatives to match
"""

import numpy as np

from .. import lax, numpy as jnp
from ..nn import (
    log_softmax as log_softmax,
    logsumexp as logsumexp,
    softmax as softmax,
)
from ..numpy import arguments, core
from ..trace import calls, dtypes, names as _names
from ..transform.custom import custom_jvp


def promoted(name, *args, is_real=True):
    """Arguments as arrays of one floating dtype; complex ones raise ValueError."""
    args = core.promote_args_inexact(name, *args)
    if is_real and dtypes.issubdtype(args[0].dtype, np.complexfloating):
        raise ValueError(f"{name} does not support complex-valued inputs.")
    return args


def elementwise(name, operation, text):
    """A function that applies an operation of `lax` to promoted arguments."""

    def function(*args):
        return operation(*core.promote_args_inexact(name, *args))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


erf = elementwise("erf", lax.erf, "The error function.")
erfc = elementwise("erfc", lax.erfc, "1 - erf(x), exact for large x.")
erfinv = elementwise("erfinv", lax.erf_inv, "The inverse of erf.")
expit = elementwise("expit", lax.logistic, "1 / (1 + e**-x).")
gammaln = elementwise("gammaln", lax.lgamma, "log |gamma(x)|.")
digamma = elementwise("digamma", lax.digamma, "The derivative of gammaln.")
gammainc = elementwise("gammainc", lax.igamma, "The share of gamma(a) below x.")
gammaincc = elementwise("gammaincc", lax.igammac, "The share of gamma(a) above x.")
betainc = elementwise("betainc", lax.betainc, "The share of beta(a, b) below x.")
i0e = elementwise("i0e", lax.bessel_i0e, "i0(x) / e**|x|.")
i1e = elementwise("i1e", lax.bessel_i1e, "i1(x) / e**|x|.")
zeta = elementwise("zeta", lax.zeta, "The sum of 1 / (q + k)**x over k = 0, 1, ...")


def i0(x):
    """The modified Bessel function of order 0."""
    x, = promoted("i0", x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x)


def i1(x):
    """The modified Bessel function of order 1."""
    x, = promoted("i1", x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x)


@custom_jvp
def logit(x):
    """log(x / (1 - x)), the inverse of expit."""
    x, = promoted("logit", x, is_real=False)
    return jnp.log(x / (1 - x))


logit.defjvps(lambda t, y, x: t / (x * (1 - x)))


def gammasgn(x):
    """The sign of gamma(x): 1 or -1, NaN at the negative integers."""
    x, = promoted("gammasgn", x)
    floor = jnp.floor(x)
    is_pole = ((x < 0) & (x == floor)) | jnp.isnan(x)
    is_negative = ((x < 0) & (floor % 2 != 0)) | ((x == 0) & jnp.signbit(x))
    number = lambda value: np.array(value, x.dtype)
    return jnp.where(
        is_pole, number(np.nan), jnp.where(is_negative, number(-1), number(1))
    )


def gamma(x):
    """The gamma function, (x - 1)! for positive integers."""
    x, = promoted("gamma", x)
    return gammasgn(x) * jnp.exp(lax.lgamma(x))


def factorial(n, exact=False):
    """n!, as a float; 0 for negative n."""
    if exact:
        raise NotImplementedError("factorial with exact=True")
    n, = promoted("factorial", n)
    return jnp.where(n < 0, 0, jnp.exp(lax.lgamma(n + 1)))


def betaln(a, b):
    """log |beta(a, b)|."""
    a, b = promoted("betaln", a, b)
    return lax.lgamma(a) + lax.lgamma(b) - lax.lgamma(a + b)


def beta(a, b):
    """gamma(a) gamma(b) / gamma(a + b)."""
    a, b = promoted("beta", a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * jnp.exp(betaln(a, b))


def multigammaln(a, d):
    """The logarithm of the gamma function of d dimensions, d an int."""
    d = arguments.static_int(d, "d of multigammaln")
    a, = promoted("multigammaln", a)
    parts = lax.lgamma(a[..., None] - jnp.arange(d, dtype=a.dtype) / 2)
    constant = np.array(0.25 * d * (d - 1) * np.log(np.pi), a.dtype)
    return jnp.sum(parts, -1) + constant


def polygamma(n, x):
    """The derivative of order n of digamma; n an integer."""
    if not dtypes.issubdtype(dtypes.dtype(n), np.integer):
        raise ValueError(
            "Argument `n` to polygamma must be of integer type. Got dtype "
            f"{dtypes.dtype(n)}."
        )
    return lax.polygamma(*promoted("polygamma", n, x))


# ---- x log y, which is 0 where x is


@custom_jvp
def xlogy(x, y):
    """x log(y), and 0 for x = 0 unless y is NaN."""
    x, y = promoted("xlogy", x, y, is_real=False)
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log(y), jnp.zeros_like(x))


@custom_jvp
def xlog1py(x, y):
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


def entr(x):
    """-x log(x): what a probability adds to an entropy; -infinity below 0."""
    x, = promoted("entr", x)
    return jnp.where(x < 0, np.array(-np.inf, x.dtype), -xlogx(x))


def rel_entr(p, q):
    """p log(p / q), 0 where p is 0, and infinity where it makes no sense."""
    p, q = promoted("rel_entr", p, q)
    both, none = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    inside = xlogx(safe_p) - xlogy(safe_p, safe_q)
    return jnp.where(both, inside, jnp.where(none, 0, np.array(np.inf, p.dtype)))


def kl_div(p, q):
    """p log(p / q) - p + q."""
    p, q = promoted("kl_div", p, q)
    return rel_entr(p, q) - p + q


# ---- The normal distribution


def ndtr(x):
    """How much of a normal distribution lies below x.

    Raises TypeError for what is not float32 or float64.
    """
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"x.dtype={x.dtype} is not supported, see docstring for supported types."
        )
    half = np.array(np.sqrt(0.5), x.dtype)
    w = x * half
    # Each branch is exact where it is taken.
    tail = lax.erfc(jnp.abs(w))
    return 0.5 * jnp.where(
        jnp.abs(w) < half, 1 + lax.erf(w), jnp.where(w > 0, 2 - tail, tail)
    )


calls.explain_calls("scipy.special", globals())

__all__ = """
    beta betainc betaln digamma entr erf erfc erfinv expit factorial gamma gammainc
    gammaincc gammaln gammasgn i0 i0e i1 i1e kl_div log_softmax logit logsumexp
    multigammaln ndtr polygamma rel_entr softmax xlog1py xlogy zeta
""".split()
__dir__, __getattr__ = _names.front(__name__, __all__)
