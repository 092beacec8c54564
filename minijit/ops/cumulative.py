"""Running totals along an axis: sums, products, largest and smallest so far.

    cumsum(x, axis=0)                       # x[0], x[0] + x[1], ...
    linearize(cumprod, x)                   # a tree of products, and a tree of sums
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from ..trace import primitives as lax
from ..trace.array import aval_of, shape_rules
from ..trace.base.config import config
from ..trace.core import Primitive, eval_rules
from ..trace.numpy_values import lowest, total_dtype
from ..trace.primitives import on_wide
from ..trace.shape_checks import check_kind, number
from ..trace.types import Array
from ..transform.batching.vmap import along, batch_rules
from ..transform.control_flow.more_loops import associative_scan
from ..transform.custom.custom_derivatives import custom_jvp
from ..transform.derivatives import linearize
from ..transform.derivatives.linearize import linearize_rules
from ..transform.derivatives.transpose import adding, transpose_rules
from ..transform.pieces import jaxpr_of
from . import elementary, rounding

cumsum_p, cumprod_p = map(Primitive, ["cumsum", "cumprod"])
cummax_p, cummin_p = map(Primitive, ["cummax", "cummin"])
cumlogsumexp_p = Primitive("cumlogsumexp")


def running_shape(name, kind):

    def rule(x, *, axis, reverse):
        check_kind(name, x.dtype, kind)
        if not 0 <= axis < x.ndim:
            raise ValueError(
                f"{name} axis must be in the range [0, {x.ndim}) for an array of shape "
                f"{x.shape}, got {axis}"
            )
        return x

    return rule


def kept_in(loop, dtype, extent):
    """The dtype in which running totals grow: nothing is rounded in the largest."""
    return dtype if loop in ("max", "min") else total_dtype(dtype, extent)


def running(monoid):
    """A running total by a ufunc, in the array's own dtype, from either end."""

    def value(x, *, axis, reverse):
        kept = kept_in(monoid.loop, x.dtype, x.shape[axis])
        flipped = np.flip(x, axis) if reverse else x
        total = monoid.ufunc.accumulate(flipped, axis, dtype=kept)
        total = total.astype(x.dtype, copy=False)
        return np.flip(total, axis) if reverse else total

    return value


@custom_jvp
def logaddexp(x, y):
    """log(e**x + e**y), elementwise, without overflow."""
    gap = lax.abs(lax.sub(x, y))
    total = lax.add(lax.max(x, y), elementary.log1p(lax.exp(lax.neg(gap))))
    # Two equal infinities have no gap.
    return lax.select(lax.eq(x, y), lax.add(x, lax.full_like(x, math.log(2))), total)


@logaddexp.defjvp
def logaddexp_jvp(primals, tangents):
    """The tangents are weighed by the exponentials."""
    z = logaddexp(*primals)
    bounded = lax.select(rounding.is_finite(z), z, lax.full_like(z, 0))
    weights = [lax.exp(lax.sub(x, bounded)) for x in primals]
    return z, lax.add(*map(lax.mul, tangents, weights))


totals = {
    cumsum_p: lax.monoids[lax.add],
    cumprod_p: lax.monoids[lax.mul],
    cummax_p: lax.monoids[lax.max],
    cummin_p: lax.monoids[lax.min],
    cumlogsumexp_p: lax.Monoid(logaddexp, np.logaddexp, "logaddexp", lowest),
}
kinds = dict.fromkeys(totals, number) | {cumlogsumexp_p: (np.floating,)}
shape_rules |= {p: running_shape(p.name, kind) for p, kind in kinds.items()}
eval_rules |= on_wide({p: running(m) for p, m in totals.items()})


def function_of(primitive, text) -> Callable[..., Array]:
    """The function that applies a running total; `text` documents it."""

    def function(operand, axis=0, reverse=False):
        return primitive.bind(operand, axis=int(axis), reverse=bool(reverse))

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = f"{text}, along `axis`; from its end if `reverse`."
    return function


cumsum = function_of(cumsum_p, "Sums of the elements so far")
cumprod = function_of(cumprod_p, "Products of the elements so far")
cummax = function_of(cummax_p, "The largest element so far, NaN from the first one on")
cummin = function_of(cummin_p, "The smallest element so far, NaN from the first one on")
cumlogsumexp = function_of(cumlogsumexp_p, "log(sum(exp(x))) of the elements so far")


@lru_cache(maxsize=256)
def tree_of(primitive, aval, flags, params):
    """A running total as a tree of combinations, log n deep: a closed jaxpr."""
    tree = partial(associative_scan, totals[primitive].combine, **dict(params))
    return jaxpr_of(lambda x: [tree(x)], [aval], primitive.name)


def running_linearize(primitive, nonzero, x, **params):
    """The tangents of a running total: those of a tree, which is a call of its own.

    The result is the primitive's own; the tree only finds the residuals.
    """
    key = aval_of(x), config.trace_key(), tuple(params.items())
    call = dict(name=primitive.name, jaxpr=tree_of(primitive, *key))
    _, linear = linearize.call_rule(nonzero, x, **call, executor="composed")
    return primitive.bind(x, **params), lambda t: linear(t)[0]


linearize_rules |= linearize.linear_in_first(cumsum_p)
linearize_rules |= {p: partial(running_linearize, p) for p in totals if p != cumsum_p}


transpose_rules |= adding({
    cumsum_p: lambda ct, x, *, axis, reverse: (cumsum(ct, axis, not reverse),)
})
batch_rules |= along("axis", *totals)
