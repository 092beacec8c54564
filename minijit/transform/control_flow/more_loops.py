"""More branches and loops: `switch`, `fori_loop`, `map`, `associative_scan`.

Each is a function of the three in `control_flow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...trace import primitives as lax
from ...trace.arguments import function_name
from ...trace.array import aval_of
from ...trace.base.config import config
from ...trace.base.errors import HERE
from ...trace.core import Tracer
from ...trace.slicing import rev, slice_in_dim
from ...trace.trees.pytree import tree_flatten, tree_map, tree_unflatten
from ...trace.types import ArrayLike
from ..batching.vmap import vmap
from ..pieces import int32, with_loop_traces
from .agreement import not_given, scan_length, with_operand
from .api import bind_branches, scan, while_loop


@with_loop_traces
def switch(
    index: ArrayLike, branches: Sequence[Callable[..., Any]], *operands: Any,
    operand: Any = not_given,
) -> Any:
    """`branches[index](*operands)`, the index clamped to the list (as in JAX)."""
    if not branches:
        raise ValueError("Empty branch sequence")
    operands = with_operand(operands, operand)
    aval = aval_of(index)
    if aval.shape != () or aval.dtype.kind not in "iu":
        raise TypeError(f"Index type must be an integer scalar, got {aval}.")
    if config.disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    if len(branches) == 1:
        return branches[0](*operands)
    # The index is clamped as what it is: as an int32 a larger one would wrap around.
    kind = aval.dtype if aval.dtype.itemsize >= 4 else int32
    index, last = lax.convert(index, kind), lax.full((), len(branches) - 1, kind)
    index = lax.max(lax.min(index, last), lax.full((), 0, kind))
    index = lax.convert(index, int32)
    names = [f"branch {i}" for i in range(len(branches))]
    return bind_branches(index, branches, operands, names, "switch")


@with_loop_traces
def fori_loop(
    lower: ArrayLike, upper: ArrayLike, body_fun: Callable[..., Any], init_val: Any, *,
    unroll: int | bool | None = None,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)` (`jax.lax.fori_loop`).

    Bounds that are Python ints make a scan; traced bounds a loop with a traced count.
    Both can be differentiated.  With static bounds `unroll` is that of `scan`.
    """
    dtype = bounds_dtype(lower, upper)

    def step(i, val):
        one = lax.convert(1, aval_of(i).dtype, weak_type=True)
        return lax.add(i, one), body_fun(i, val)

    if not isinstance(lower, Tracer) and not isinstance(upper, Tracer):
        lower, upper = int(lower), int(upper)
        if config.disable_jit:
            val = init_val
            for i in range(lower, upper):
                val = body_fun(lax.as_array(i), val)
            return val
        body = lambda carry, _: (step(*carry), None)
        body.__name__ = f"of fori_loop with {function_name(body_fun)}"
        count, unroll = max(upper - lower, 0), 1 if unroll is None else unroll
        return scan(body, (lower, init_val), None, length=count, unroll=unroll)[0][1]
    if unroll is not None:
        raise ValueError(
            "fori_loop: `unroll` can only be given if the bounds are known while "
            f"tracing{HERE}"
        )
    start, stop = (
        x if aval_of(x).dtype == dtype else lax.convert(x, dtype)
        for x in (lower, upper)
    )
    goes_on = lambda carry: lax.lt(carry[0], stop)
    return while_loop(goes_on, lambda carry: step(*carry), (start, init_val))[1]


def bounds_dtype(lower, upper):
    """The dtype that the bounds of a loop share; weak integers adapt to signed ones."""
    avals = list(map(aval_of, (lower, upper)))
    found = {a.dtype for a in avals}
    if len(found) > 1 and all(a.dtype.kind == "i" for a in avals):
        found = {a.dtype for a in avals if not a.weak_type}
    if len(found) != 1:
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{' and '.join(a.dtype.name for a in avals)}{HERE}"
        )
    dtype, = found
    return dtype


@with_loop_traces
def map_loop(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """f(x) for each x along the first axis, one after the other (`jax.lax.map`).

    With `batch_size`, so many at a time by `vmap`.
    """
    if not batch_size:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    if batch_size < 0:
        raise ValueError(f"map: batch_size must be positive, got {batch_size}")
    leaves, tree = tree_flatten(xs)
    n = scan_length(leaves, None)
    full = n // batch_size * batch_size
    leaves = [x if hasattr(x, "aval") else lax.as_array(x) for x in leaves]
    parts = []
    if full:
        cut, steps = [slice_in_dim(x, 0, full) for x in leaves], full // batch_size
        rows = [lax.reshape(x, (steps, batch_size, *x.shape[1:])) for x in cut]
        ys = scan(lambda _, x: ((), vmap(f)(x)), (), tree_unflatten(tree, rows))[1]
        parts.append(tree_map(lambda y: lax.reshape(y, (full, *y.shape[2:])), ys))
    if full < n or not n:
        rest = [slice_in_dim(x, full, n) for x in leaves]
        parts.append(vmap(f)(tree_unflatten(tree, rest)))
    return tree_map(lambda *ys: lax.concatenate(ys, 0), *parts)


def associative_scan(
    fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All partial results of an associative function (`jax.lax.associative_scan`).

    Args:
      fn: fn(a, b) on trees of arrays, element by element along `axis`; associative.
      elems: a tree of arrays of equal size along `axis`.
      reverse: whether to go from the last element to the first.

    Returns:
      A tree like `elems`: element i is elems[0], ..., elems[i] combined.  It takes
      about 2 n applications of `fn`, in log2 n steps each of which is parallel.
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, tree = tree_flatten(elems)
    if not leaves:
        raise ValueError("lax.associative_scan: elems has no arrays to scan over.")
    leaves = [lax.as_array(x) for x in leaves]
    axis = lax.canonicalize_axis(axis, leaves[0].ndim)
    sizes = {x.shape[axis] for x in leaves}
    if len(sizes) > 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same size along "
            f"axis {axis}, got {sorted(sizes)}{HERE}"
        )
    if reverse:
        leaves = [rev(x, (axis,)) for x in leaves]

    def combine(a, b):
        out, _ = tree_flatten(fn(tree_unflatten(tree, a), tree_unflatten(tree, b)))
        return out

    outs = partial_results(combine, leaves, axis)
    if reverse:
        outs = [rev(x, (axis,)) for x in outs]
    return tree_unflatten(tree, outs)


def partial_results(combine, xs, axis):
    """Combine neighbours, solve the half-sized problem, and fill in between."""
    n = xs[0].shape[axis]
    if n < 2:
        return xs
    every_other = partial(slice_in_dim, stride=2, axis=axis)
    firsts = [every_other(x, 0, n - 1) for x in xs]
    seconds = [every_other(x, 1, n) for x in xs]
    odd = partial_results(combine, combine(firsts, seconds), axis)
    half = odd[0].shape[axis]
    before = [slice_in_dim(x, 0, half - (n % 2 == 0), axis=axis) for x in odd]
    even = combine(before, [every_other(x, 2, n) for x in xs])
    head = [slice_in_dim(x, 0, 1, axis=axis) for x in xs]
    even = [lax.concatenate([h, e], axis) for h, e in zip(head, even, strict=True)]
    return [interleave(e, o, axis) for e, o in zip(even, odd, strict=True)]


def interleave(even, odd, axis):
    """even[0], odd[0], even[1], odd[1], ... along an axis."""
    n = even.shape[axis]
    short = odd.shape[axis] < n
    if short:
        odd = lax.concatenate([odd, slice_in_dim(even, n - 1, n, axis=axis)], axis)
    pairs = [lax.expand_dims(x, (axis + 1,)) for x in (even, odd)]
    shape = list(even.shape)
    shape[axis] = 2 * n
    both = lax.reshape(lax.concatenate(pairs, axis + 1), shape)
    return slice_in_dim(both, 0, 2 * n - 1, axis=axis) if short else both


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None,
    **per_platform: Callable[..., Any],
) -> Any:
    """`per_platform["cpu"](*args)`, or `default(*args)`: what runs here is a CPU."""
    function = per_platform.get("cpu", default)
    if function is None:
        raise NotImplementedError(
            "platform_dependent has no function for cpu and no default, only for "
            f"{sorted(per_platform)}"
        )
    return function(*args)
