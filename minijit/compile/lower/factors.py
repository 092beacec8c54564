"""The factors of a product: which axes of them are what, and copies where they help.

    dot_dims(eqn)                           # of both: batch, free and contracted axes
    choose(plan_of, lhs, rhs, out, dims)    # multiply as they are, or copy one first
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from ...trace import primitives as prim
from ...trace.jaxprs.jaxpr import Eqn, Var
from ...transform.equations import everywhere, written_out
from ..decisions import loop_rules, noted
from ..loops.buffers import View
from ..loops.scalars import FLOAT32, wide_dtype
from ..pipeline import expansions
from ..settings import config


class Dims(NamedTuple):
    """The axes of one factor: those it shares with all, with the result, the other."""

    batch: tuple
    free: tuple
    contracted: tuple


def dot_dims(eqn):
    """The `Dims` of both factors of a product."""
    contract, batch = eqn.params["dimension_numbers"]
    both = []
    for x, c, b in zip(eqn.invars, contract, batch, strict=True):
        free = tuple(d for d in range(x.aval.ndim) if d not in c + b)
        both.append(Dims(tuple(b), free, tuple(c)))
    return both


# Sums of complex numbers of so few terms are loops, as real ones are.
SHORT_SUMS = 4


def size_of(atom, axes):
    return math.prod(atom.aval.shape[d] for d in axes)


def is_large(eqn):
    """Whether a `dot_general` is of matrices for which a call pays.

    A matrix times a vector reads each number once, and an outer product writes each
    once: memory is the limit, and our own loops go through it as fast, with what is
    done to the result in the same loop.  But loops of complex numbers take pairs apart,
    and are compiled for longer than a call: short sums alone, as those of a gate on
    qubits, are worth it, for a routine takes ten times as long for a matrix of so few.
    """
    if eqn.primitive is not prim.dot_general_p or not eqn.outvars[0].aval.size:
        return False
    lhs, rhs = eqn.invars
    left, right = dot_dims(eqn)
    rows, columns = size_of(lhs, left.free), size_of(rhs, right.free)
    sums = size_of(lhs, left.contracted)
    work = rows * columns * sums
    if min(rows, columns, sums) <= 1:
        return False
    is_complex = eqn.outvars[0].aval.dtype.kind == "c"
    called = is_complex and sums > SHORT_SUMS
    large = work > (0 if called else config.fusion.small_product)
    return noted("call" if large else "small product", eqn, multiplications=work)


loop_rules |= {
    "call": (True, "it is a call of a routine for products", "small_product"),
    "small product": (False, "loops take no longer than a call", "small_product"),
    "halves": (True, "the device's BLAS multiplies floats of 16 bits", "half_products"),
}


def cost_of_copy(size):
    """What a kernel takes that copies so many numbers, in nanoseconds."""
    return config.fusion.kernel_cost + config.fusion.copy_cost * size


def packed(view, dims, other, axes):
    """How a copy of a factor would lie: as the result and the other factor are.

    Args:
      other: strides of the other factor at the contracted axes, in order.
      axes: strides of the result at the free axes, in order.
    """
    free = sorted(zip(axes, dims.free, strict=True), reverse=True)
    contracted = sorted(zip(other, dims.contracted, strict=True), reverse=True)
    order = (*dims.batch, *(d for _, d in free), *(d for _, d in contracted))
    strides, step = {}, 1
    for d in reversed(order):
        strides[d], step = step, step * view.shape[d]
    return order, tuple(strides[d] for d in range(len(order)))


class Choice(NamedTuple):
    """How to multiply.

    Attributes:
      cost: with that of copies; plan: a `Plan`; views: of both factors.
      copies: for each factor the order of its axes in a copy, or None.
    """

    cost: float
    plan: tuple
    views: tuple
    copies: tuple


def choose(plan_of, lhs, rhs, out, dims):
    """The cheapest `Choice` of which factor to copy: none of them, if possible.

    Args:
      plan_of: function of three views and the `Dims`: the plan of their product.
    """
    left, right = dims
    n = len(left.batch)
    sums = [lhs.strides[d] for d in left.contracted]
    other = [rhs.strides[d] for d in right.contracted]
    rows = out.strides[n : n + len(left.free)]
    columns = out.strides[n + len(left.free) :]
    best = None
    for copy_left, copy_right in ((0, 0), (1, 0), (0, 1), (1, 1)):
        places = range(len(sums), 0, -1) if copy_left and copy_right else None
        views, copies, extra = [], [], 0
        for view, d, copied, theirs, mine in (
            (lhs, left, copy_left, places or other, rows),
            (rhs, right, copy_right, places or sums, columns),
        ):
            order = None
            if copied:
                order, strides = packed(view, d, theirs, mine)
                view = View(None, view.shape, strides)
                extra += cost_of_copy(math.prod(view.shape))
            views.append(view)
            copies.append(order)
        plan = plan_of(*views, out, dims)
        if plan and (best is None or plan.cost + extra < best.cost):
            best = Choice(plan.cost + extra, plan, tuple(views), tuple(copies))
    return best


def packing(walk, atom, order):
    """The equation of a copy of a factor with its axes in another order."""
    shape = tuple(atom.aval.shape[d] for d in order)
    copy = Var(atom.aval.update(shape=shape))
    eqn = Eqn(prim.transpose_p, (atom,), (copy,), {"permutation": order})
    walk.made_by[copy] = eqn
    walk.stored[copy] = ("layout", "a matrix product needs it in another order")
    return eqn


# Floats of 16 bits, or of different dtypes; and short integers.


def summed_in_product(eqn):
    """How many products one number of a `dot_general` is the sum of."""
    return size_of(eqn.invars[0], dot_dims(eqn)[0].contracted)


# primitive -> functions of an equation: whether it has many products to add up, and how
# many of them are one number.
large_products = {prim.dot_general_p: (is_large, summed_in_product)}


def in_wide_numbers(eqn):
    """A large product as one of wide numbers, or None.

    Sums of 16-bit, or different, floats are in 32 bits anyway, and only the total is
    rounded.  Few short integers no sum of which is rounded are multiplied as floats,
    which is faster, others as 32 bits, the upper ones of which are left out.
    """
    is_big, terms = large_products.get(eqn.primitive, (None, None))
    wide = is_big and wide_type(eqn, terms)
    other = wide and any(x.aval.dtype != wide for x in (*eqn.invars, *eqn.outvars))
    if other and not is_half_product(eqn) and is_big(eqn):
        kind = eqn.primitive, wide, eqn.outvars[0].aval
        return written_out(eqn, partial(wide_product, *kind))
    return None


def wide_type(eqn, terms):
    """The wide dtype that has all sums of an equation's products, or None."""
    dtypes = [x.aval.dtype for x in (*eqn.invars, *eqn.outvars)]
    if not all(d.kind in "iu" and d.itemsize <= 4 for d in dtypes):
        wide = max(map(wide_dtype, dtypes), key=lambda dtype: dtype.itemsize)
        return wide if wide.kind in "fc" else None
    largest = (max(np.iinfo(d).max, -np.iinfo(d).min) for d in dtypes[:2])
    exact = terms(eqn) * math.prod(largest) <= 1 << 24
    return FLOAT32 if exact else np.dtype(np.int32)


def is_half_product(eqn):
    """Whether an equation is a product of 16-bit floats, and the device does those."""
    if not config.fusion.half_products or eqn.primitive is not prim.dot_general_p:
        return False
    left, right, out = (x.aval.dtype for x in (*eqn.invars, *eqn.outvars))
    halves = left == right and wide_dtype(left) == FLOAT32 != left
    return halves and out in (left, FLOAT32) and noted("halves", eqn)


def wide_product(primitive, dtype, out, *factors, preferred_element_type, **params):
    """A product of factors in another dtype; its result is converted to type `out`."""
    convert = prim.convert_element_type_p.bind
    factors = [convert(x, new_dtype=dtype, weak_type=False) for x in factors]
    total = primitive.bind(*factors, preferred_element_type=dtype, **params)
    if out.dtype.kind in "iu":
        # As an integer: its upper bits are left out, where a float would be clipped.
        total = convert(total, new_dtype=np.dtype(np.int32), weak_type=False)
    return convert(total, new_dtype=out.dtype, weak_type=out.weak_type)


expansions |= {"in_wide_numbers": everywhere(in_wide_numbers)}
