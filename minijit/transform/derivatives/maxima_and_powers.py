"""Rows of `linearize_rules` that need care: at ties, at zero, at the ends.

Maxima and minima, one by one and along axes; powers; products; windows of arrays.
"""


import math
from functools import partial

from ...trace import primitives as lax, slicing
from ...trace.array import aval_of
from ...trace.primitives import floor, floor_p, rem_p
from ..tangents import linear_in_all
from .linearize import constant, elementwise, linear_in_first, linearize_rules, spread


def share(z, x, y):
    """How much of a maximum z's tangent is x's: 1, 0, or half of it at a tie."""
    x, y = spread(x, aval_of(z)), spread(y, aval_of(z))
    one_or_half = lax.select(lax.eq(y, z), lax.full_like(z, 0.5), lax.full_like(z, 1))
    return lax.select(lax.eq(x, z), one_or_half, lax.full_like(z, 0))


def integer_pow_factor(x, y):
    """The derivative of x ** y for an int y: 0 for y = 0, whatever x is."""
    if y in (0, 1):
        return lax.full_like(x, y)
    return lax.mul(y, x if y == 2 else lax.integer_pow(x, y - 1))


def pow_by_base(x, y):
    """The derivative of x ** y by x; an exponent 0 is harmless if it is an integer."""
    if aval_of(y).dtype == aval_of(x).dtype:
        return lax.mul(y, lax.pow(x, lax.sub(y, lax.full_like(y, 1))))
    is_zero = lax.eq(y, lax.full_like(y, 0))
    power = lax.select(is_zero, lax.full_like(y, 0), lax.sub(y, lax.full_like(y, 1)))
    return lax.mul(lax.convert(y, aval_of(x).dtype), lax.pow(x, power))


def pow_by_exponent(z, x):
    """The derivative of z = x ** y by y: z log x, and 0 at x = 0."""
    is_zero = lax.eq(x, lax.full_like(x, 0))
    return lax.mul(z, lax.log(lax.select(is_zero, lax.full_like(x, 1), x)))


def extremum_rule(primitive, nonzero, x, *, axes):
    """The tangent of a maximum is that of where it is; several share it evenly."""
    y = primitive.bind(x, axes=axes)
    kept = [i for i in range(aval_of(x).ndim) if i not in axes]
    spread_y = lax.broadcast_in_dim(y, aval_of(x).shape, kept)
    here = lax.convert(lax.eq(x, spread_y), aval_of(x).dtype)
    count = lax.reduce_sum(here, axes)
    share = lax.div(here, lax.broadcast_in_dim(count, aval_of(x).shape, kept))
    return y, lambda t: lax.reduce_sum(lax.mul(t, share), axes)


def reduce_prod_rule(nonzero, x, *, axes):
    """The tangent of a product: each factor's, times all the other factors.

    The others are multiplied from both ends, so that zeros do no harm.
    """
    y = lax.reduce_prod_p.bind(x, axes=axes)
    aval = aval_of(x)
    kept = [i for i in range(aval.ndim) if i not in axes]
    size = math.prod(aval.shape[i] for i in axes)
    shape = (size, *(aval.shape[i] for i in kept))
    rows = lax.reshape(lax.transpose(x, (*axes, *kept)), shape)
    others = products_of_others(rows)

    def linear(t):
        t = lax.reshape(lax.transpose(t, (*axes, *kept)), shape)
        return lax.reduce_sum(lax.mul(t, others), (0,))

    return y, linear


def products_of_others(x):
    """For each row of x the product of all the other rows.

    Rows are multiplied in pairs, and their products again: what a row is multiplied by
    is its neighbour, and whatever their pair is multiplied by.
    """
    n, *rest = aval_of(x).shape
    if n <= 1:
        return lax.full_like(x, 1)
    half = -(-n // 2)
    one = lax.full_like(slicing.slice_in_dim(x, 0, 2 * half - n), 1)
    pairs = lax.reshape(lax.concatenate([x, one], 0), (half, 2, *rest))
    others = products_of_others(lax.reduce_prod(pairs, (1,)))
    kept = [i for i in range(len(rest) + 2) if i != 1]
    others = lax.broadcast_in_dim(others, (half, 2, *rest), kept)
    others = lax.mul(slicing.rev(pairs, (1,)), others)
    return slicing.slice_in_dim(lax.reshape(others, (2 * half, *rest)), 0, n)


linearize_rules |= elementwise({
    lax.integer_pow_p: [lambda z, x, y: integer_pow_factor(x, y)],
    lax.max_p: [lambda z, x, y: share(z, x, y), lambda z, x, y: share(z, y, x)],
    lax.min_p: [lambda z, x, y: share(z, x, y), lambda z, x, y: share(z, y, x)],
    lax.pow_p: [
        lambda z, x, y: pow_by_base(x, y),
        lambda z, x, y: pow_by_exponent(z, x),
    ],
})
linearize_rules |= {
    lax.reduce_max_p: partial(extremum_rule, lax.reduce_max_p),
    lax.reduce_min_p: partial(extremum_rule, lax.reduce_min_p),
    lax.reduce_prod_p: reduce_prod_rule,
}


def abs_rule(nonzero, x):
    """|x| has the derivative 1 at zero, as in JAX; of complex numbers 0."""
    if aval_of(x).dtype.kind == "c":
        return complex_abs_rule(x)
    is_positive = lax.ge(x, lax.full_like(x, 0))
    return lax.abs(x), lambda t: lax.select(is_positive, t, lax.neg(t))


def complex_abs_rule(z):
    """The tangent t of z changes |z| by the real part of t |z| / z."""
    y, dtype = lax.abs(z), aval_of(z).dtype
    safe = lax.select(lax.eq(z, lax.full_like(z, 0)), lax.full_like(z, 1), z)
    factor = lax.div(lax.convert(y, dtype), safe)
    part = dict(new_dtype=aval_of(y).dtype, weak_type=aval_of(y).weak_type)
    # Not `convert`, which warns of what is meant here: the imaginary part is dropped.
    real = partial(lax.convert_element_type_p.bind, **part)
    return y, lambda t: real(lax.mul(t, factor))


def pad_rule(nonzero, x, value, *, padding_config):
    pad = partial(slicing.pad, padding_config=padding_config)
    return linear_in_all(pad, x, value)


def dynamic_update_slice_rule(nonzero, x, update, *starts):
    write = lambda *pair: slicing.dynamic_update_slice_p.bind(*pair, *starts)
    y, linear = linear_in_all(write, x, update)
    return y, lambda t, s, *_: linear(t, s)


linearize_rules |= linear_in_first(slicing.rev_p, slicing.dynamic_slice_p)
linearize_rules |= {
    lax.abs_p: abs_rule,
    slicing.pad_p: pad_rule,
    slicing.dynamic_update_slice_p: dynamic_update_slice_rule,
}


def whole_part(x, y):
    """Minus x / y cut towards zero: what the remainder took away of y."""
    quotient = lax.div(x, y)
    return lax.mul(lax.neg(lax.sign(quotient)), floor(lax.abs(quotient)))


linearize_rules |= constant(floor_p)
linearize_rules |= elementwise({
    rem_p: [lambda z, x, y: 1.0, lambda z, x, y: whole_part(x, y)],
})
