"""How a total begins and goes on: the meaning of a `Reduce`, in plain operations.

Where its terms are all the same, a sum is a product.

    start_values(Reduce("add", (k,), (x,)))     # (0.0,)
    combine("max", (best,), (x,))               # (max(best, x),)
    combine("argmax", (best, at), (x, k))       # a pair: the value, and where it is
    combine("times", (re, im), (x, y))          # a product of complex numbers
"""

import itertools
import math
from functools import partial

import numpy as np

from ...trace.numpy_values import total_dtype
from .expressions import Const, Reduce, as_index, op, shortcuts
from .graphs import substitute
from .scalars import identities


def start_values(reduce):
    """The accumulators of a Reduce before the first step: one constant a body."""
    values = identities[reduce.op](reduce.dtype)
    dtypes = [body.dtype for body in reduce.bodies]
    return tuple(Const(v, d) for v, d in zip(values, dtypes, strict=True))


def combine(name, old, new, any_order=False):
    """One step of a Reduce: accumulators and values -> accumulators, as expressions.

    Args:
      any_order: whether the new ones may come from places before those of the old ones.
    """
    if name == "times":
        (a, b), (c, d) = old, new
        times, sub, add = (partial(op, name) for name in ("mul", "sub", "add"))
        return sub(times(a, c), times(b, d)), add(times(a, d), times(b, c))
    if name not in ("argmax", "argmin"):
        return (op(name, *old, *new),)
    better = is_better(name, old[0], new[0])
    if any_order:
        as_good = op("not", is_better(name, new[0], old[0]))
        better = op("or", better, op("and", as_good, op("lt", new[1], old[1])))
    return tuple(op("select", better, n, o) for n, o in zip(new, old, strict=True))


def is_better(name, old, new):
    """Whether a value takes the place of one before it: the first of several equal ones
    stays, and the first NaN stays for good."""
    after, upto = ("gt", "le") if name == "argmax" else ("lt", "ge")
    if new.dtype.kind in "iub":
        return op(after, new, old)
    worse = op(upto, new, old)  # or equal; never where one is a NaN
    return op("and", op("not", worse), op("eq", old, old))


def written_out(total):
    """A short total's values without a loop: one expression a body."""
    values = None
    for place in itertools.product(*(range(axis.extent) for axis in total.axes)):
        here = dict(zip(total.axes, map(as_index, place), strict=True))
        term = tuple(substitute(total.bodies, here.get))
        values = term if values is None else combine(total.op, values, term)
    return values


def grows_in(total):
    """The dtype in which a long total is added up: of float32s, float64.

    In float32 it would lose the small numbers that come late, and errors of one sign
    would add up.  A short part of it may be a float32.
    """
    wide = total.op == "add" and total.dtype == np.float32
    return np.dtype(np.float64) if wide else total.dtype


def shorter_total(total):
    """A product for a sum of what is the same along an axis, or None.

    A long sum of one number would be off by more than the one product is.
    """
    if not isinstance(total, Reduce):
        return None
    body, *more = total.bodies
    whole = [a for a in total.axes if a.kind == "reduce" and isinstance(a.extent, int)]
    same = [axis for axis in whole if axis not in body.free]
    if total.op != "add" or more or not same or body.dtype.kind not in "iuf":
        return None
    rest = tuple(axis for axis in total.axes if axis not in same)
    # As an integer wraps around, so would its sum.
    times = np.int64(math.prod(axis.extent for axis in same)).astype(body.dtype)
    body = op("mul", body, Const(times, body.dtype))
    return Reduce("add", rest, (body,)) if rest else body


def wider_product(product):
    """A long product of float32s as one of float64s, rounded once; or None.

    Unlike a sum it has no short part whose errors are small beside the whole.
    """
    if not isinstance(product, Reduce) or product.op != "mul":
        return None
    terms = math.prod(a.extent for a in product.axes) if product.is_fixed else 0
    wide = total_dtype(product.dtype, terms)
    if wide == product.dtype:
        return None
    body = op("convert", product.bodies[0], dtype=wide)
    return op("convert", Reduce("mul", product.axes, (body,)), dtype=product.dtype)


shortcuts += [shorter_total, wider_product]
