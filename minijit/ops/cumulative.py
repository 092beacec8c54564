"""Running totals along an axis: sums, products, largest and smallest so far.

    cumsum(x, axis=0)                       # x[0], x[0] + x[1], ...
    linearize(cumprod, x)                   # a tree of products, and a tree of sums
"""

import math
from functools import partial

import numpy as np

from ..compile.loops import Axis, Reduce, Store, op
from ..compile.lower import Operand, Statements, affine, lower_rules, new_axis, widen
from ..compile.lower_calls import add_nest
from ..trace import primitives as lax, slicing
from ..trace.array import aval_of, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.primitives import on_wide
from ..trace.shape_checks import check_kind, number
from ..transform import linearize
from ..transform.batching import batch_rules
from ..transform.linearize import add_tangents, linearize_rules
from ..transform.transpose import adding, transpose_rules
from . import elementary, rounding

cumsum_p, cumprod_p = map(Primitive, ["cumsum", "cumprod"])
cummax_p, cummin_p = map(Primitive, ["cummax", "cummin"])
cumlogsumexp_p = Primitive("cumlogsumexp")


def cumulative(name, kind):
    """The shape rule of a running total over arrays of a kind of dtype."""

    def rule(x, *, axis, reverse):
        check_kind(name, x.dtype, kind)
        if not 0 <= axis < x.ndim:
            raise ValueError(
                f"{name} axis must be in the range [0, {x.ndim}) for an array of shape "
                f"{x.shape}, got {axis}"
            )
        return x

    return rule


def running(ufunc):
    """A running total by a ufunc, in the array's own dtype, from either end."""

    def value(x, *, axis, reverse):
        x = np.flip(x, axis) if reverse else x
        total = ufunc.accumulate(x, axis, dtype=x.dtype)
        return np.flip(total, axis) if reverse else total

    return value


numbers = (cumsum_p, cumprod_p, cummax_p, cummin_p)
shape_rules |= {p: cumulative(p.name, number) for p in numbers}
shape_rules |= {cumlogsumexp_p: cumulative("cumlogsumexp", (np.floating,))}
eval_rules |= on_wide({cumsum_p: running(np.add), cumprod_p: running(np.multiply)})
eval_rules |= on_wide({cummax_p: running(np.maximum), cummin_p: running(np.minimum)})
eval_rules |= on_wide({cumlogsumexp_p: running(np.logaddexp)})


def along_axis(primitive, text):
    """The function that applies a running total; `text` documents it."""

    def function(operand, axis=0, reverse=False):
        return primitive.bind(operand, axis=int(axis), reverse=bool(reverse))

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = f"{text}, along `axis`; from its end if `reverse`."
    return function


cumsum = along_axis(cumsum_p, "Sums of the elements so far")
cumprod = along_axis(cumprod_p, "Products of the elements so far")
cummax = along_axis(cummax_p, "The largest element so far, NaN from the first one on")
cummin = along_axis(cummin_p, "The smallest element so far, NaN from the first one on")
cumlogsumexp = along_axis(cumlogsumexp_p, "log(sum(exp(x))) of the elements so far")


def running_linearize(primitive, combine, nonzero, x, *, axis, reverse):
    """The tangents of a running total: a tree of combinations, as deep as log n.

    The result is the primitive's own; the tree only finds the residuals.
    """
    y = primitive.bind(x, axis=axis, reverse=reverse)
    flipped = slicing.rev(x, (axis,)) if reverse else x
    _, tree = running_tree(combine, flipped, axis)

    def linear(t):
        t = slicing.rev(t, (axis,)) if reverse else t
        t = tree(t)
        return slicing.rev(t, (axis,)) if reverse else t

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


def logaddexp_linearize(nonzero, x, y):
    """log(e**x + e**y) and its tangent, which weighs x and y by their exponentials."""
    high = lax.max(x, y)
    gap = lax.sub(x, y)
    total = lax.add(high, elementary.log1p(lax.exp(lax.neg(lax.abs(gap)))))
    # Two equal infinities have no gap.
    z = lax.select(lax.eq(x, y), lax.add(x, lax.full_like(x, math.log(2))), total)
    bounded = lax.select(rounding.is_finite(z), z, lax.full_like(z, 0))
    weights = [lax.exp(lax.sub(v, bounded)) for v in (x, y)]

    def linear(s, t):
        return add_tangents(lax.mul(s, weights[0]), lax.mul(t, weights[1]))

    return z, linear


linearize_rules |= linearize.linear_in_first(cumsum_p)
linearize_rules |= {
    p: partial(running_linearize, p, combine)
    for p, combine in {
        cumprod_p: linearize_rules[lax.mul_p],
        cummax_p: linearize_rules[lax.max_p],
        cummin_p: linearize_rules[lax.min_p],
        cumlogsumexp_p: logaddexp_linearize,
    }.items()
}


def cumsum_transpose(ct, x, *, axis, reverse):
    return (cumsum(ct, axis, not reverse),)


transpose_rules |= adding({cumsum_p: cumsum_transpose})


def running_batch(primitive, lanes, axes, x, *, axis, **params):
    """A primitive that works along one axis: `axis` counts on behind the lanes."""
    lane_axis, = axes
    axis = axis + (axis >= lane_axis)
    return primitive.bind(x, axis=axis, **params), lane_axis


batch_rules |= {p: partial(running_batch, p) for p in (*numbers, cumlogsumexp_p)}


def running_lower(name):
    """The row of a running total: a loop of kind `scan`, the innermost one."""

    def function(walk, eqn):
        var, = eqn.outvars
        x, = map(Operand, eqn.invars)
        dim, backward = eqn.params["axis"], eqn.params["reverse"]
        axes = [*map(new_axis, x.shape)]
        axes[dim] = step = Axis(x.shape[dim], "scan")
        walk.stored.setdefault(var, ("scan", f"{eqn.primitive} runs along an axis"))
        if 0 in x.shape:
            return
        nest = (*(axis for axis in axes if axis is not step), step)
        place = affine(step, -1, step.extent - 1) if backward else step
        where = (*axes[:dim], place, *axes[dim + 1 :])
        total = Reduce(name, (step,), (widen(x[where]),))
        value = op("convert", total, dtype=var.aval.dtype)
        add_nest(walk, eqn, var, Store(var, where, value), nest)

    return Statements(function)


lower_rules |= {
    cumsum_p: running_lower("add"),
    cumprod_p: running_lower("mul"),
    cummax_p: running_lower("max"),
    cummin_p: running_lower("min"),
    cumlogsumexp_p: running_lower("logaddexp"),
}
