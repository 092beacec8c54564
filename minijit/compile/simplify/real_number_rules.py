"""Rules that are true of real numbers: sums, products and quotients that cancel.

They change the last bits of floats, or signs of zeros, or what becomes of infinities
and NaN, so `simplify` asks them only under `fast_math`.
"""

from ...trace import primitives as prim
from .folding import fast_rules, filled, holds
from .known_values import uniform


def cancel_in_sum(s, out, x, y):
    """x + 0 is x, and (a - y) + y is a."""
    for a, b in ((x, y), (y, x)):
        if holds(s, b, 0):
            return a
        difference = s.maker(a, prim.sub_p)
        if difference and difference.invars[1] is b:
            return difference.invars[0]


def cancel_in_product(s, out, x, y):
    """x * 0 is 0, and (a * constant) * constant has one constant."""
    for a, b in ((x, y), (y, x)):
        if holds(s, b, 0):
            return filled(s, 0, out)
        product, factor = s.maker(a, prim.mul_p), uniform(s, b)
        if product is None or factor is None:
            continue
        for c, d in (product.invars, product.invars[::-1]):
            other = uniform(s, d)
            if other is not None:
                return s.apply(prim.mul_p, c, filled(s, factor * other, b.aval))


def cancel_in_quotient(s, out, x, y):
    """x / x is 1, and x / constant is x * (1 / constant)."""
    if x is y:
        return filled(s, 1, out)
    given = uniform(s, y)
    if given is not None and given != 0 and out.dtype.kind == "f":
        return s.apply(prim.mul_p, x, filled(s, 1 / given, y.aval))


fast_rules |= {
    prim.add_p: [cancel_in_sum],
    prim.mul_p: [cancel_in_product],
    prim.div_p: [cancel_in_quotient],
}
