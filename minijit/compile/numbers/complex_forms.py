"""Operations on complex numbers in terms of operations on their parts.

    z = Pair(x, y)                       # of `Number`s
    complex_forms["mul"](z, z)           # Pair(x * x - y * y, x * y + y * x)
    complex_forms["abs"](z)              # a Number

Where a function jumps, as the logarithm does at the negative numbers, the sign of a
zero says on which side a number lies, as in C and NumPy.  A size overflows only if
the result does.
"""

import math
import operator
from dataclasses import dataclass

import numpy as np

from .scalar_forms import FLOAT64, Number, copysign, is_nan, where


def smaller(x, y):
    return x.apply("min", y)


def larger(x, y):
    return x.apply("max", y)


@dataclass(frozen=True)
class Pair:
    """A complex number: its real and its imaginary part, `Number`s of one dtype."""

    re: Number
    im: Number

    def __add__(self, other):
        return Pair(self.re + other.re, self.im + other.im)

    def __sub__(self, other):
        return Pair(self.re - other.re, self.im - other.im)

    def __mul__(self, other):
        a, b, c, d = self.re, self.im, other.re, other.im
        return Pair(a * c - b * d, a * d + b * c)

    def __truediv__(self, other):
        """Smith's rule: by the quotient of the divisor's parts, which is at most 1."""
        a, b, c, d = self.re, self.im, other.re, other.im
        across = abs(d) > abs(c)
        big, small = where(across, d, c), where(across, c, d)
        ratio = where(big.is_(0.0), 0.0 * small, small / big)
        inverse = 1.0 / (big + small * ratio)
        first, second = where(across, b, a), where(across, a, b)
        turned = second - first * ratio
        turned = where(across, -turned, turned)
        return Pair((first + second * ratio) * inverse, turned * inverse)

    def __neg__(self):
        return Pair(-self.re, -self.im)

    @property
    def parts(self):
        return self.re, self.im

    @property
    def conj(self):
        return Pair(self.re, -self.im)

    def scaled(self, x):
        """Multiplied by a real number."""
        return Pair(self.re * x, self.im * x)

    def plus(self, x):
        """A real number added."""
        return Pair(self.re + x, self.im)

    @property
    def times_i(self):
        return Pair(-self.im, self.re)

    @property
    def over_i(self):
        return Pair(self.im, -self.re)


def pair_where(condition, x, y):
    return Pair(where(condition, x.re, y.re), where(condition, x.im, y.im))


def size(z):
    """|z|: the larger part is taken out of the root, so that no square overflows."""
    x, y = abs(z.re), abs(z.im)
    big, small = larger(x, y), smaller(x, y)
    ratio = small / big
    plain = big * (ratio * ratio + 1.0).apply("sqrt")
    plain = where(big.is_(0.0), big, plain)
    return where(x.is_(math.inf) | y.is_(math.inf), math.inf, plain)


def divide(x, y):
    """x / y; where Smith's rule says nothing, infinities as in annex G of C's standard.

    A number by zero is infinite, an infinity by a number is too, a number by an
    infinity is zero.
    """
    (a, b), (c, d), quotient = x.parts, y.parts, x / y
    lost = is_nan(quotient.re) & is_nan(quotient.im)
    infinite = abs(a).is_(math.inf) | abs(b).is_(math.inf)
    whole = lost & infinite & (abs(c) < math.inf) & (abs(d) < math.inf)
    none = lost & (abs(a) < math.inf) & (abs(b) < math.inf)
    none = none & (abs(c).is_(math.inf) | abs(d).is_(math.inf))
    turned = Pair(only(a), only(b)) * y.conj
    result = pair_where(whole, turned.scaled(math.inf), quotient)
    turned = x * Pair(only(c), only(d)).conj
    result = pair_where(none, turned.scaled(0.0), result)
    zero = c.is_(0.0) & d.is_(0.0)
    return pair_where(zero, x.scaled(copysign(c.like(math.inf), c)), result)


def only(x):
    """The sign of an infinity, zero of another number."""
    return copysign(where(abs(x).is_(math.inf), x.like(1.0), 0.0), x)


def reciprocal(z):
    return divide(Pair(z.re.like(1.0), z.re.like(0.0)), z)


# ---- exponentials


def turning(r, z):
    """r * (cos y + i sin y); on the real axis y stays 0, also if r is infinite."""
    y = z.im
    return Pair(r * y.apply("cos"), where(y.is_(0.0), y, r * y.apply("sin")))


def exp(z):
    """e**z; where e**x alone is too large, an e of it is multiplied in at the end."""
    far = z.re > math.log(np.finfo(z.re.dtype).max)
    rest = turning((z.re - where(far, z.re.like(1.0), 0.0)).apply("exp"), z)
    return rest.scaled(where(far, z.re.like(math.e), 1.0))


def expm1(z):
    half = (z.im * 0.5).apply("sin")
    real = z.re.apply("expm1") * z.im.apply("cos") - 2.0 * half * half
    return Pair(real, exp(z).im)


def sinh(z):
    x, y = z.parts
    return Pair(x.apply("sinh") * y.apply("cos"), turning(x.apply("cosh"), z).im)


def cosh(z):
    x, y = z.parts
    one = copysign(x.like(1.0), x)
    imag = where(y.is_(0.0), y * one, x.apply("sinh") * y.apply("sin"))
    return Pair(x.apply("cosh") * y.apply("cos"), imag)


def tanh(z):
    """Kahan's, by the tangent of y; far from the imaginary axis it is nearly 1."""
    x, y = z.parts
    far = abs(x) > (11.0 if x.dtype.itemsize == 4 else 22.0)
    t, s = y.apply("tan"), where(far, 1.0, x).apply("sinh")
    beta = t * t + 1.0
    whole = beta * s * s + 1.0
    near = Pair(beta * (s * s + 1.0).apply("sqrt") * s / whole, t / whole)
    rest, wave = (abs(x) * -2.0).apply("exp"), t * 2.0 / beta
    imag = where(rest.is_(0.0), copysign(rest, wave), wave * rest * 2.0)
    return pair_where(far, Pair(copysign(x.like(1.0), x), imag), near)


def logistic(z):
    """1 / (1 + e**-z), by the one of e**z and e**-z that does not overflow."""
    left = z.re < 0.0
    small = exp(pair_where(left, z, -z))
    one = Pair(z.re.like(1.0), z.re.like(0.0))
    return pair_where(left, small, one) / small.plus(1.0)


# ---- logarithms and roots


def log(z):
    """log |z| by log1p of what |z|² is more than 1, if that is not far."""
    x, y = abs(z.re), abs(z.im)
    big, small = larger(x, y), smaller(x, y)
    near = (big > 0.5) & (big < 2.0)
    ratio = where(big.is_(0.0), big, small / big)
    more = where(near, (big - 1.0) * (big + 1.0) + small * small, ratio * ratio)
    real = where(near, 0.0, big.apply("log")) + more.apply("log1p") * 0.5
    real = where(x.is_(math.inf) | y.is_(math.inf), math.inf, real)
    return Pair(real, z.im.apply("atan2", z.re))


def log1p(z):
    x, y = z.parts
    near = larger(abs(x), abs(y)) < 0.5
    real = (x * (x + 2.0) + y * y).apply("log1p") * 0.5
    plain = log(z.plus(1.0))
    return Pair(where(near, real, plain.re), plain.im)


def sqrt(z):
    """The root with a real part that is not negative; the other part by a division."""
    x, y = abs(z.re), abs(z.im)
    eighth = Pair(x * 0.125, y * 0.125)
    root = (eighth.re + size(eighth)).apply("sqrt") * 2.0
    other = where(root.is_(0.0), root, y / (root * 2.0))
    other = where(y.is_(math.inf), y, other)
    left = z.re < 0.0
    return Pair(where(left, other, root), copysign(where(left, root, other), z.im))


# ---- inverse functions: Kahan, "Branch cuts for complex elementary functions" (1987)


def in_wide(function):
    """The function by parts in float64, where no square of a float32 overflows.

    In the place of an infinite number stands one whose square is none, in the same
    direction. `function` also says what each part of its result is at infinity: a
    number, or None for what it found.
    """

    def form(z):
        wide = Pair(z.re.to(FLOAT64), z.im.to(FLOAT64))
        far = abs(wide.re).is_(math.inf) | abs(wide.im).is_(math.inf)
        there = Pair(only(wide.re), only(wide.im)).scaled(1e150)
        found, ends = function(pair_where(far, there, wide))
        parts = [
            x if end is None else where(far, copysign(x.like(end), x), x)
            for x, end in zip(found.parts, ends, strict=True)
        ]
        return Pair(*(x.to(z.re.dtype) for x in parts))

    return form


def roots(z):
    """The roots of 1 - z and of 1 + z."""
    return sqrt(Pair(1.0 - z.re, -z.im)), sqrt(z.plus(1.0))


@in_wide
def asin(z):
    below, above = roots(z)
    real = z.re.apply("atan2", (below * above).re)
    return Pair(real, (below.conj * above).im.apply("asinh")), (None, math.inf)


@in_wide
def acos(z):
    below, above = roots(z)
    real = below.re.apply("atan2", above.re) * 2.0
    return Pair(real, (above.conj * below).im.apply("asinh")), (None, math.inf)


@in_wide
def acosh(z):
    below, above = sqrt(z.plus(-1.0)), sqrt(z.plus(1.0))
    imag = below.im.apply("atan2", above.re) * 2.0
    return Pair((below.conj * above).re.apply("asinh"), imag), (math.inf, None)


@in_wide
def atanh(z):
    x, y = abs(z.re), z.im
    less, square = 1.0 - x, y * y
    real = (x * 4.0 / (less * less + square)).apply("log1p") * 0.25
    at_pole = less.is_(0.0) & square.is_(0.0)
    real = where(at_pole, (math.log(2.0) - abs(y).apply("log")) * 0.5, real)
    imag = (y * 2.0).apply("atan2", less * (x + 1.0) - square) * 0.5
    return Pair(copysign(real, z.re), imag), (0.0, None)


def sign(z):
    r = size(z)
    return pair_where(r.is_(0.0), z, Pair(z.re / r, z.im / r))


def power(x, y):
    """exp(y log x); of zero it is 0 for a positive power, and 1 for the power 0."""
    zero = x.re.is_(0.0) & x.im.is_(0.0)
    none, real = y.re.is_(0.0) & y.im.is_(0.0), y.im.is_(0.0)
    result = exp(y * log(x))
    of_zero = where(none, 1.0, where(real & (y.re > 0.0), 0.0, y.re * math.nan))
    flat = where(real & (none | (y.re > 0.0)), 0.0, y.re * math.nan)
    return pair_where(zero | none, Pair(of_zero, flat), result)


# ---- the order of real parts, and of imaginary ones where those are equal


def chosen(x, y, before):
    """x if it is NaN or comes before y, or is equal to it; else y.  NumPy's rule."""
    real = before(x.re, y.re) & x.im.is_(x.im) & y.im.is_(y.im)
    imag = x.re.is_(y.re) & (before(x.im, y.im) | x.im.is_(y.im))
    unknown = x.re.is_not(x.re) | x.im.is_not(x.im)
    return pair_where(real | imag | unknown, x, y)


# name -> function of `Pair`s, and of `Number`s for what is real.  An operation that has
# no row is not done in pairs.
complex_forms = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": divide,
    "neg": lambda x: -x,
    "conj": lambda x: x.conj,
    "real": lambda x: x.re,
    "imag": lambda x: x.im,
    "complex": Pair,
    "abs": size,
    "sign": sign,
    "exp": exp,
    "exp2": lambda x: exp(x.scaled(math.log(2.0))),
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "sqrt": sqrt,
    "rsqrt": lambda x: reciprocal(sqrt(x)),
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "sin": lambda x: sinh(x.times_i).over_i,
    "cos": lambda x: cosh(x.times_i),
    "tan": lambda x: tanh(x.times_i).over_i,
    "asin": asin,
    "acos": acos,
    "atan": lambda x: atanh(x.times_i).over_i,
    "asinh": lambda x: asin(x.times_i).over_i,
    "acosh": acosh,
    "atanh": atanh,
    "logistic": logistic,
    "pow": power,
    "eq": lambda x, y: x.re.is_(y.re) & x.im.is_(y.im),
    "ne": lambda x, y: x.re.is_not(y.re) | x.im.is_not(y.im),
    "max": lambda x, y: chosen(x, y, operator.gt),
    "min": lambda x, y: chosen(x, y, operator.lt),
    "select": pair_where,
}
