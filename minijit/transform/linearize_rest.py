"""The derivatives of the rest: rows of `linearize_rules` for the long tail.

    jvp(erf, (x,), (t,))                    # a factor: elementwise
    jvp(sort, (x,), (t,))                   # tangents go where their numbers go
    linearize(cumprod, x)                   # a tree of products, and a tree of sums

Four kinds of rows.  Of an elementwise function the partial derivatives, as before.
Operations that only move numbers about move tangents in the same way.  Where numbers
decide what moves (sort, windows, scatters), the decision is made once, on the primal
side, and its outcome, indices or masks, is the residual.  And for some there is no
derivative: zero where a function is flat, an error where nobody knows one.

Derivatives are JAX's also at kinks and ties.
"""

import math
from functools import partial

import numpy as np

from ..trace import dtypes, elementwise as ew, indexing, primitives as lax
from ..trace.array import ShapedArray, aval_of
from ..trace.numpy_values import highest, lowest
from ..trace.sorting import sort_p, top_k_p
from ..trace.windows import (
    conv_general_dilated_p,
    cumlogsumexp_p,
    cummax_p,
    cummin_p,
    cumprod_p,
    cumsum_p,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
)
from .linearize import (
    add_tangents,
    constant,
    elementwise,
    jvp,
    linear_in_first,
    linearize_rules,
    spread,
)
from .tangents import tangent_aval, zeros

linearize_rules |= elementwise({
    ew.exp2_p: [lambda y, x: lax.mul(y, math.log(2))],
    ew.expm1_p: [lambda y, x: lax.add(y, 1.0)],
    ew.log1p_p: [lambda y, x: lax.div(1.0, lax.add(x, 1.0))],
    ew.tan_p: [lambda y, x: lax.add(ew.square(y), 1.0)],
    ew.asin_p: [lambda y, x: ew.rsqrt(lax.sub(1.0, ew.square(x)))],
    ew.acos_p: [lambda y, x: lax.neg(ew.rsqrt(lax.sub(1.0, ew.square(x))))],
    ew.atan_p: [lambda y, x: lax.div(1.0, lax.add(ew.square(x), 1.0))],
    ew.sinh_p: [lambda y, x: ew.cosh(x)],
    ew.cosh_p: [lambda y, x: ew.sinh(x)],
    ew.asinh_p: [lambda y, x: ew.rsqrt(lax.add(ew.square(x), 1.0))],
    ew.acosh_p: [lambda y, x: ew.rsqrt(lax.sub(ew.square(x), 1.0))],
    ew.atanh_p: [lambda y, x: atanh_factor(x)],
    ew.logistic_p: [lambda y, x: lax.mul(y, lax.sub(1.0, y))],
    ew.rsqrt_p: [lambda y, x: lax.mul(-0.5, lax.div(y, x))],
    ew.cbrt_p: [lambda y, x: lax.mul(1 / 3, lax.integer_pow(y, -2))],
    ew.square_p: [lambda y, x: lax.mul(2.0, x)],
})
linearize_rules |= elementwise({
    ew.atan2_p: [
        lambda z, y, x: lax.div(x, lax.add(ew.square(x), ew.square(y))),
        lambda z, y, x: lax.div(lax.neg(y), lax.add(ew.square(x), ew.square(y))),
    ],
    ew.rem_p: [lambda z, x, y: 1.0, lambda z, x, y: whole_part(x, y)],
})


def atanh_factor(x):
    """1 / (1 - x²), by its two factors."""
    return lax.mul(lax.integer_pow(lax.add(x, 1.0), -1), lax.div(1.0, lax.sub(1.0, x)))


def whole_part(x, y):
    """Minus x / y cut towards zero: what the remainder took away of y."""
    quotient = lax.div(x, y)
    return lax.mul(lax.neg(lax.sign(quotient)), ew.floor(lax.abs(quotient)))


linearize_rules |= elementwise({
    ew.erf_p: [lambda y, x: bell(x, 2 / math.sqrt(math.pi))],
    ew.erfc_p: [lambda y, x: bell(x, -2 / math.sqrt(math.pi))],
    ew.erf_inv_p: [
        lambda y, x: lax.mul(math.sqrt(math.pi) / 2, lax.exp(ew.square(y)))
    ],
    ew.lgamma_p: [lambda y, x: ew.digamma(x)],
    ew.digamma_p: [lambda y, x: ew.polygamma(lax.full_like(x, 1), x)],
    ew.bessel_i0e_p: [
        lambda y, x: lax.sub(ew.bessel_i1e(x), lax.mul(lax.sign(x), y))
    ],
    ew.bessel_i1e_p: [lambda y, x: bessel_i1e_factor(y, x)],
    ew.polygamma_p: [
        lambda y, m, x: no_partial("polygamma", "its order m"),
        lambda y, m, x: ew.polygamma(lax.add(m, 1.0), x),
    ],
    ew.zeta_p: [
        lambda y, s, q: zeta_by_exponent(s, q),
        lambda y, s, q: lax.mul(lax.neg(s), ew.zeta(lax.add(s, 1.0), q)),
    ],
    ew.igamma_p: [
        lambda y, a, x: ew.igamma_grad_a(a, x),
        lambda y, a, x: gamma_density(a, x),
    ],
    ew.igammac_p: [
        lambda y, a, x: lax.neg(ew.igamma_grad_a(a, x)),
        lambda y, a, x: lax.neg(gamma_density(a, x)),
    ],
    ew.igamma_grad_a_p: [
        lambda y, a, x: no_partial("igamma_grad_a", "its parameter a"),
        lambda y, a, x: lax.mul(
            gamma_density(a, x), lax.sub(lax.log(x), ew.digamma(a))
        ),
    ],
    ew.random_gamma_grad_p: [
        lambda y, a, x: no_partial("random_gamma_grad", "its parameter a"),
        lambda y, a, x: no_partial("random_gamma_grad", "the sample x"),
    ],
    ew.regularized_incomplete_beta_p: [
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
    return lax.mul(factor, lax.exp(lax.neg(ew.square(x))))


def bessel_i1e_factor(y, x):
    """The derivative of y = bessel_i1e(x), which is 1/2 at zero."""
    eps = dtypes.finfo(aval_of(x).dtype).eps
    is_tiny = lax.le(lax.abs(x), lax.full_like(x, eps))
    safe = lax.select(is_tiny, lax.full_like(x, eps), x)
    inner = lax.add(lax.sign(safe), lax.div(1.0, safe))
    factor = lax.sub(ew.bessel_i0e(safe), lax.mul(y, inner))
    return lax.select(is_tiny, lax.full_like(x, 0.5), factor)


def gamma_density(a, x):
    """e**-x x**(a-1) / gamma(a): the derivative of igamma by x."""
    return lax.exp(
        lax.sub(lax.sub(lax.mul(lax.sub(a, 1.0), lax.log(x)), x), ew.lgamma(a))
    )


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
        factor = lax.div(lax.mul(factor, both), ew.square(edge))
    return total


def beta_density(a, b, x):
    """x**(a-1) (1-x)**(b-1) / beta(a, b): the derivative of betainc by x."""
    log_beta = lax.sub(lax.add(ew.lgamma(a), ew.lgamma(b)), ew.lgamma(lax.add(a, b)))
    of_x = lax.mul(lax.sub(a, 1.0), lax.log(x))
    of_rest = lax.mul(lax.sub(b, 1.0), ew.log1p(lax.neg(x)))
    return lax.exp(lax.sub(lax.add(of_rest, of_x), log_beta))


linearize_rules |= constant(
    *(ew.floor_p, ew.ceil_p, ew.round_p, ew.is_finite_p),
    *(ew.shift_left_p, ew.shift_right_logical_p, ew.shift_right_arithmetic_p),
    *(ew.population_count_p, ew.clz_p, ew.bitcast_convert_type_p),
)


def nextafter_rule(nonzero, x, y):
    raise NotImplementedError("nextafter is not differentiable: it steps over bits")


linearize_rules |= {ew.nextafter_p: nextafter_rule}


def clamp_rule(nonzero, low, x, high):
    """A tangent passes where its argument is the result; x only strictly inside."""
    y = ew.clamp_p.bind(low, x, high)
    aval = aval_of(y)
    low, high = (spread(bound, aval) for bound in (low, high))
    chosen = [
        lax.bitwise_and(lax.gt(low, x), lax.lt(low, high)) if nonzero[0] else None,
        lax.bitwise_and(lax.gt(x, low), lax.lt(x, high)) if nonzero[1] else None,
        lax.lt(high, x) if nonzero[2] else None,
    ]

    def linear(*tangents):
        total = None
        for t, mask in zip(tangents, chosen, strict=True):
            if t is not None:
                part = lax.select(mask, spread(t, aval), lax.full_like(y, 0))
                total = add_tangents(total, part)
        return total

    return y, linear


def no_none(tangents, args):
    """The tangents of some arguments, zeros of their types instead of None."""
    avals = [tangent_aval(aval_of(x)) for x in args]
    pairs = zip(tangents, avals, strict=True)
    return [zeros(a) if t is None else t for t, a in pairs]


def complex_rule(nonzero, x, y):
    return ew.complex(x, y), lambda *ts: ew.complex(*no_none(ts, (x, y)))


def abs_rule(nonzero, x):
    """|x| has the derivative 1 at zero, as in JAX; of a complex x it is real."""
    y = lax.abs(x)
    if aval_of(x).dtype.kind != "c":
        is_positive = lax.ge(x, lax.full_like(x, 0))
        return y, lambda t: lax.select(is_positive, t, lax.neg(t))
    safe = lax.select(lax.eq(y, lax.full_like(y, 0)), lax.full_like(y, 1), y)
    direction = lax.div(ew.conj(x), lax.convert(safe, aval_of(x).dtype))
    return y, lambda t: ew.real(lax.mul(t, direction))


linearize_rules |= {
    ew.clamp_p: clamp_rule,
    ew.complex_p: complex_rule,
    lax.abs_p: abs_rule,
}
linearize_rules |= linear_in_first(
    *(ew.real_p, ew.imag_p, ew.conj_p, ew.reduce_precision_p),
    *(indexing.rev_p, indexing.dynamic_slice_p),
    *(cumsum_p, reduce_window_sum_p),
)


# ---- taking parts, and writing to them


def pad_rule(nonzero, x, value, *, padding_config):
    def linear(*tangents):
        return indexing.pad(*no_none(tangents, (x, value)), padding_config)

    return indexing.pad(x, value, padding_config), linear


def dynamic_update_slice_rule(nonzero, x, update, *starts):
    write = indexing.dynamic_update_slice_p.bind

    def linear(t, s, *_):
        return write(*no_none((t, s), (x, update)), *starts)

    return write(x, update, *starts), linear


def gather_rule(nonzero, x, indices, *, fill_value, **params):
    """What is filled in has no tangent: it is filled with zero."""
    take = partial(indexing.gather_p.bind, **params)
    zero = 0 if params["mode"] is indexing.GatherScatterMode.FILL_OR_DROP else None
    y = take(x, indices, fill_value=fill_value)
    return y, lambda t, _: take(t, indices, fill_value=zero)


linearize_rules |= {
    indexing.pad_p: pad_rule,
    indexing.dynamic_update_slice_p: dynamic_update_slice_rule,
    indexing.gather_p: gather_rule,
}


def scatter_linear_rule(primitive, nonzero, x, indices, updates, **params):
    """Adding and subtracting are linear in both."""
    write = partial(primitive.bind, **params)

    def linear(t, _, s):
        t, s = no_none((t, s), (x, updates))
        return write(t, indices, s)

    return write(x, indices, updates), linear


def scatter_rule(nonzero, x, indices, updates, **params):
    """Of several updates of one place the last one wins, and so does its tangent.

    Who won is found out by scattering the numbers of the updates, and reading them
    back; from then on the winners are written, by an addition, to places made zero.
    """
    if params["unique_indices"]:
        return scatter_linear_rule(
            indexing.scatter_p, nonzero, x, indices, updates, **params
        )
    numbers = update_numbers(updates, params["dimension_numbers"])
    nobody = lax.full(aval_of(x).shape, 0, numbers.dtype)
    winners = indexing.scatter_p.bind(nobody, indices, numbers, **params)
    untouched = lax.eq(winners, lax.full_like(winners, 0))
    won = lax.eq(read_back(winners, indices, updates, params), numbers)
    y = indexing.scatter_p.bind(x, indices, updates, **params)

    def linear(t, _, s):
        t, s = no_none((t, s), (x, updates))
        t = lax.select(untouched, t, lax.full_like(t, 0))
        s = lax.select(won, s, lax.full_like(s, 0))
        return indexing.scatter_add_p.bind(t, indices, s, **params)

    return y, linear


def update_numbers(updates, dimension_numbers):
    """1, 2, 3, ... for the windows that are written, of the shape of the updates."""
    aval, window = aval_of(updates), dimension_numbers.update_window_dims
    batch = [d for d in range(aval.ndim) if d not in window]
    sizes = [aval.shape[d] for d in batch]
    numbers = lax.add(lax.iota(np.dtype(np.int32), math.prod(sizes)), 1)
    return lax.broadcast_in_dim(lax.reshape(numbers, sizes), aval.shape, batch)


def read_back(x, indices, updates, params):
    """The windows of x that a scatter writes, of the shape of its updates."""
    numbers = params["dimension_numbers"]
    window = numbers.update_window_dims
    sizes = iter([aval_of(updates).shape[d] for d in window])
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    clips = params["mode"] is indexing.GatherScatterMode.CLIP
    return indexing.gather(
        x,
        indices,
        indexing.GatherDimensionNumbers(*numbers),
        [1 if d in dropped else next(sizes) for d in range(aval_of(x).ndim)],
        mode="clip" if clips else "fill",
        fill_value=None if clips else 0,
    )


def scatter_mul_rule(nonzero, x, indices, updates, **params):
    """The product's tangent; by an update only where no other one is in its place."""
    if nonzero[2] and not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul is differentiable by its updates only if unique_indices=True "
            "promises that no element is multiplied twice"
        )
    write = partial(indexing.scatter_mul_p.bind, **params)

    def linear(t, _, s):
        t = None if t is None else write(t, indices, updates)
        if s is None:
            return t
        s = indexing.scatter_add_p.bind(lax.full_like(x, 0), indices, s, **params)
        return add_tangents(t, lax.mul(s, x))

    return write(x, indices, updates), linear


def scatter_extremum_rule(primitive, nonzero, x, indices, updates, **params):
    """All who attain an extremum share its tangent evenly: updates, and what was there.

    An update's share is 1 / n if it is one of n; the operand's is what is left to it,
    which is written as a change divided among all updates of the place.
    """
    y = primitive.bind(x, indices, updates, **params)
    read = partial(read_back, indices=indices, updates=updates, params=params)
    zero, one = lax.full_like(updates, 0), lax.full_like(updates, 1)

    def count(mask):
        ones = lax.select(mask, one, zero)
        return indexing.scatter_add_p.bind(lax.full_like(x, 0), indices, ones, **params)

    best = read(y)
    wins, stays = lax.eq(updates, best), lax.eq(read(x), best)
    winners = lax.add(read(count(wins)), lax.select(stays, one, zero))
    share = lax.div(one, lax.max(winners, one))
    update_share = lax.select(wins, share, zero)
    everybody = lax.max(read(count(lax.eq(zero, zero))), one)
    lost = lax.sub(lax.select(stays, share, zero), one)
    operand_change = lax.div(lost, everybody)

    def linear(t, _, s):
        t, s = no_none((t, s), (x, updates))
        change = lax.mul(read(t), operand_change)
        change = add_tangents(change, lax.mul(s, update_share))
        return indexing.scatter_add_p.bind(t, indices, change, **params)

    return y, linear


linearize_rules |= {
    indexing.scatter_p: scatter_rule,
    indexing.scatter_mul_p: scatter_mul_rule,
}
linearize_rules |= {
    p: partial(scatter_linear_rule, p)
    for p in (indexing.scatter_add_p, indexing.scatter_sub_p)
}
linearize_rules |= {
    p: partial(scatter_extremum_rule, p)
    for p in (indexing.scatter_min_p, indexing.scatter_max_p)
}


# ---- orders


def take_along(x, positions, axis):
    """x[..., positions, ...] along one axis, the other axes walked together."""
    ndim = aval_of(x).ndim
    others = tuple(d for d in range(ndim) if d != axis)
    numbers = indexing.GatherDimensionNumbers((), (axis,), (axis,), others, others)
    indices = lax.reshape(positions, (*aval_of(positions).shape, 1))
    return indexing.gather(x, indices, numbers, (1,) * ndim)


def sort_rule(nonzero, *args, dimension, **params):
    """Sort a row of positions along; tangents are taken in the order that comes out."""
    shape = aval_of(args[0]).shape
    places = lax.broadcasted_iota(np.dtype(np.int32), shape, dimension)
    *outs, order = sort_p.bind(*args, places, dimension=dimension, **params)

    def linear(*tangents):
        return [
            None if t is None else take_along(t, order, dimension) for t in tangents
        ]

    return outs, linear


def top_k_rule(nonzero, x, *, k, axis):
    values, positions = top_k_p.bind(x, k=k, axis=axis)
    return [values, positions], lambda t: [take_along(t, positions, axis), None]


linearize_rules |= {sort_p: sort_rule, top_k_p: top_k_rule}


# ---- running totals


def running_rule(primitive, combine, nonzero, x, *, axis, reverse):
    """The tangents of a running total: a tree of combinations, as deep as log n.

    The result is the primitive's own; the tree only finds the residuals.
    """
    y = primitive.bind(x, axis=axis, reverse=reverse)
    flipped = indexing.rev(x, (axis,)) if reverse else x
    _, tree = running_tree(combine, flipped, axis)

    def linear(t):
        t = indexing.rev(t, (axis,)) if reverse else t
        t = tree(t)
        return indexing.rev(t, (axis,)) if reverse else t

    return y, linear


def running_tree(combine, x, axis):
    """All totals of x from its beginning: -> (totals, linear map of tangents).

    Neighbours are combined; the totals of those, half as many, are every second one
    that is wanted; one more element each gives the others.  `combine` is the linearize
    rule of a function of two.
    """
    n = aval_of(x).shape[axis]
    if n < 2:
        return x, lambda t: t
    part = partial(every_other, axis=axis)
    both = True, True
    pairs, pairs_linear = combine(both, part(x, 0, n - 1), part(x, 1, n))
    odd, odd_linear = running_tree(combine, pairs, axis)
    m = (n - 1) // 2
    if m == 0:
        even, even_linear = None, None
    else:
        even, even_linear = combine(both, head(odd, m, axis), part(x, 2, n))

    def linear(t):
        s = odd_linear(pairs_linear(part(t, 0, n - 1), part(t, 1, n)))
        r = even_linear(head(s, m, axis), part(t, 2, n)) if m else None
        return interleave(head(t, 1, axis), r, s, axis)

    return interleave(head(x, 1, axis), even, odd, axis), linear


def every_other(x, start, stop, axis):
    """x[start:stop:2] along one axis."""
    shape = aval_of(x).shape
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = start, stop, 2
    return lax.slice(x, starts, stops, steps)


def head(x, n, axis):
    """The first n elements along one axis."""
    shape = list(aval_of(x).shape)
    shape[axis] = n
    return lax.slice(x, [0] * len(shape), shape)


def interleave(first, even, odd, axis):
    """first, odd[0], even[0], odd[1], even[1], ... along one axis."""
    even = first if even is None else lax.concatenate([first, even], axis)
    m = aval_of(odd).shape[axis]
    pairs = [lax.expand_dims(x, (axis + 1,)) for x in (head(even, m, axis), odd)]
    shape = list(aval_of(odd).shape)
    shape[axis] = 2 * m
    mixed = lax.reshape(lax.concatenate(pairs, axis + 1), shape)
    n = aval_of(even).shape[axis]
    if n == m:
        return mixed
    limits = list(aval_of(even).shape)
    starts = [0] * len(limits)
    starts[axis] = m
    return lax.concatenate([mixed, lax.slice(even, starts, limits)], axis)


def logaddexp_rule(nonzero, x, y):
    """log(e**x + e**y) and its tangent, which weighs x and y by their exponentials."""
    high = lax.max(x, y)
    gap = lax.sub(x, y)
    total = lax.add(high, ew.log1p(lax.exp(lax.neg(lax.abs(gap)))))
    # Two equal infinities have no gap.
    z = lax.select(lax.eq(x, y), lax.add(x, lax.full_like(x, math.log(2))), total)
    bounded = lax.select(ew.is_finite(z), z, lax.full_like(z, 0))
    weights = [lax.exp(lax.sub(v, bounded)) for v in (x, y)]

    def linear(s, t):
        return add_tangents(lax.mul(s, weights[0]), lax.mul(t, weights[1]))

    return z, linear


linearize_rules |= {
    p: partial(running_rule, p, combine)
    for p, combine in {
        cumprod_p: linearize_rules[lax.mul_p],
        cummax_p: linearize_rules[lax.max_p],
        cummin_p: linearize_rules[lax.min_p],
        cumlogsumexp_p: logaddexp_rule,
    }.items()
}


# ---- windows


def window_positions(shape, params):
    """Where the elements of each window lie: int32[*counts, elements of a window].

    Positions are counted along the flattened operand; those of padding and holes are
    the operand's size, so that a gather fills them.
    """
    windows, strides = params["window_dimensions"], params["window_strides"]
    counts = params["counts"]
    grid, dtype = (*counts, *windows), np.dtype(np.int32)
    flat, inside = None, None
    for d, n in enumerate(shape):
        window = lax.broadcasted_iota(dtype, grid, d)
        element = lax.broadcasted_iota(dtype, grid, len(counts) + d)
        low, base = params["padding"][d][0], params["base_dilation"][d]
        place = lax.add(
            lax.mul(window, strides[d]),
            lax.sub(lax.mul(element, params["window_dilation"][d]), low),
        )
        # Between the operand's elements there are base - 1 holes.
        there = lax.bitwise_and(lax.ge(place, 0), lax.lt(place, (n - 1) * base + 1))
        there = lax.bitwise_and(there, lax.eq(ew.rem(place, base), 0))
        place = lax.div(place, base)
        flat = place if flat is None else lax.add(lax.mul(flat, n), place)
        inside = there if inside is None else lax.bitwise_and(inside, there)
    size = math.prod(shape)
    flat = lax.select(inside, flat, lax.full_like(flat, size))
    return lax.reshape(flat, (*counts, math.prod(windows)))


def take_flat(x, positions, fill_value):
    """x.ravel()[positions], and `fill_value` where they are out of bounds."""
    x = lax.reshape(x, (aval_of(x).size,))
    numbers = indexing.GatherDimensionNumbers((), (0,), (0,))
    indices = lax.reshape(positions, (*aval_of(positions).shape, 1))
    fill = dict(mode="fill", fill_value=fill_value)
    return indexing.gather(x, indices, numbers, (1,), **fill)


def window_extremum_rule(primitive, arg, worst, nonzero, x, **params):
    """The tangent of a window's maximum is that of the first one that attains it."""
    y = primitive.bind(x, **params)
    aval, counts = aval_of(x), aval_of(y).shape
    if 0 in (*aval.shape, *counts, *params["window_dimensions"]):
        return y, lambda t: None
    if not aval.shape:
        return y, lambda t: t
    positions = window_positions(aval.shape, {**params, "counts": counts})
    fill = worst(aval.dtype).item()
    chosen = arg(take_flat(x, positions, fill), len(counts), np.dtype(np.int32))
    numbers = lax.broadcasted_iota(
        np.dtype(np.int32), aval_of(positions).shape, len(counts)
    )
    chosen = lax.broadcast_in_dim(chosen, numbers.shape, range(len(counts)))
    here = lax.select(lax.eq(numbers, chosen), positions, lax.full_like(positions, 0))
    position = lax.reduce_sum(here, (len(counts),))
    return y, lambda t: take_flat(t, position, 0)


linearize_rules |= {
    reduce_window_max_p: partial(
        window_extremum_rule, reduce_window_max_p, lax.argmax, lowest
    ),
    reduce_window_min_p: partial(
        window_extremum_rule, reduce_window_min_p, lax.argmin, highest
    ),
}


def conv_rule(nonzero, x, y, **params):
    """A convolution is a product: linear in either operand."""
    product = partial(conv_general_dilated_p.bind, **params)

    def linear(s, t):
        s = None if s is None else product(s, y)
        return add_tangents(s, None if t is None else product(x, t))

    return product(x, y), linear


linearize_rules |= {conv_general_dilated_p: conv_rule}
