"""Layouts: products of matrices as calls, on arrays as they lie.

    einsum("ij,kj->ki", x, y)           # one call: t0 = matmul(in1, in0's transpose)
    einsum("bshd,bthd->bhst", q, k)     # one call, of a product for each b and h
    transpose(x @ y)                    # one call: it writes the columns as rows

A product has four kinds of axes: those of a *batch*, which both factors and the result
have; *rows*, of the left factor and the result; *columns*, of the right one and the
result; and axes to *sum* over, of both factors.  Each has a stride in each of the three
arrays.  A BLAS multiplies matrices: one axis of rows, of columns, of sums, and in each
array one of its two has stride 1.  So neighbours are merged to one axis where all
arrays allow it, and axes that stay over are loops around the product.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..trace import primitives as prim
from ..trace.jaxpr import Eqn, Var
from .assembly import expansions
from .expressions import Axis
from .lower import At, Elements, Operand, Statements, lower_rules, row_choosers, row_of
from .lower_calls import Strided, add_call, whole_atom
from .scalars import FLOAT32, wide_dtype
from .views import Within, strided, undone

# Up to so many multiplications for each pair of matrices, loops of our own are faster.
SMALL_PRODUCT = 32 * 32 * 32


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


def size_of(atom, axes):
    return math.prod(atom.aval.shape[d] for d in axes)


def is_large(eqn):
    """Whether a `dot_general` is of matrices for which a call pays.

    A matrix times a vector reads each number once: memory is the limit, and our own
    loops read it as fast, with what is done to the result in the same loop.
    """
    if eqn.primitive is not prim.dot_general_p or not eqn.outvars[0].aval.size:
        return False
    lhs, rhs = eqn.invars
    left, right = dot_dims(eqn)
    rows, columns = size_of(lhs, left.free), size_of(rhs, right.free)
    work = rows * columns * size_of(lhs, left.contracted)
    return min(rows, columns) > 1 and work > SMALL_PRODUCT


def product(eqn):
    """The row of a product that is a call, or None."""
    dtypes = {atom.aval.dtype for atom in (*eqn.invars, *eqn.outvars)}
    plain = dtypes in ({FLOAT32}, {np.dtype("float64")})
    return Statements(lower_product) if plain and is_large(eqn) else None


row_choosers.append(product)


def in_wide_floats(jaxpr):
    """A jaxpr in which large products of 16-bit, or different, floats are of wide ones.

    Such sums are in 32 bits anyway, and only the total is rounded.
    """
    eqns = []
    for eqn in jaxpr.eqns:
        atoms = *eqn.invars, *eqn.outvars
        is_dot = eqn.primitive is prim.dot_general_p
        wide = {wide_dtype(x.aval.dtype) for x in atoms} if is_dot else set()
        wide = max(wide, key=lambda dtype: dtype.itemsize, default=None)
        other = any(x.aval.dtype != wide for x in atoms)
        if is_dot and wide.kind == "f" and other and is_large(eqn):
            eqns += wide_product(eqn, wide)
        else:
            eqns.append(eqn)
    return jaxpr.replace(eqns=tuple(eqns))


def wide_product(eqn, dtype):
    """A product as equations: of converted factors, and the result converted back."""
    eqns, atoms = [], []
    for atom in eqn.invars:
        var = Var(atom.aval.update(dtype=dtype, weak_type=False))
        eqns.append(conversion(atom, var, eqn))
        atoms.append(var)
    out, = eqn.outvars
    total = Var(out.aval.update(dtype=dtype, weak_type=False))
    params = {**eqn.params, "preferred_element_type": dtype}
    one = Eqn(prim.dot_general_p, tuple(atoms), (total,), params, eqn.source)
    return [*eqns, one, conversion(total, out, eqn)]


def conversion(atom, var, eqn):
    params = {"new_dtype": var.aval.dtype, "weak_type": var.aval.weak_type}
    return Eqn(prim.convert_element_type_p, (atom,), (var,), params, eqn.source)


expansions.insert(0, in_wide_floats)


class Line(NamedTuple):
    """An axis of a product, or several merged: its size, and three strides."""

    size: int
    lhs: int = 0
    rhs: int = 0
    out: int = 0


ONE = Line(1)


def lines(lhs, rhs, out, dims):
    """The axes of a product: lists of `Line`s (batch, rows, columns, sums).

    Args:
      lhs, rhs, out: `Strided`; dims: the `Dims` of both factors.
    """
    left, right = dims
    # The result has the batch first, then rows, then columns.
    places = iter(out.strides)
    batch = [
        Line(lhs.shape[d], lhs.strides[d], rhs.strides[e], next(places))
        for d, e in zip(left.batch, right.batch, strict=True)
    ]
    rows = [Line(lhs.shape[d], lhs.strides[d], 0, next(places)) for d in left.free]
    columns = [Line(rhs.shape[d], 0, rhs.strides[d], next(places)) for d in right.free]
    sums = [
        Line(lhs.shape[d], lhs.strides[d], rhs.strides[e])
        for d, e in zip(left.contracted, right.contracted, strict=True)
    ]
    return [merged(group) for group in (batch, rows, columns, sums)]


def merged(group):
    """Lines from the longest step to the shortest, and as few of them as possible."""
    result = []
    for line in sorted(group, key=lambda x: (x.out, x.lhs, x.rhs), reverse=True):
        if line.size == 1:
            continue
        before = result[-1] if result else ONE
        if before[1:] == tuple(line.size * step for step in line[1:]):
            result[-1] = Line(before.size * line.size, *line[1:])
        else:
            result.append(line)
    return result


def is_matrix(first, second):
    """Whether a BLAS takes what two (size, step) span, by rows or by columns."""
    (n, down), (m, right) = first, second
    return (right == 1 and (down >= m or n == 1)) or (
        down == 1 and (right >= n or m == 1)
    )


class Plan(NamedTuple):
    """A product of matrices in loops.

    Attributes:
      cost: in nanoseconds, roughly.
      loops: lines around it; row, column, sum: its own.
    """

    cost: float
    loops: list
    row: Line
    column: Line
    sum: Line


# What these cost, in nanoseconds: a call of the BLAS, a multiplication, a kernel, and a
# number that it copies.
A_CALL, A_PRODUCT, A_KERNEL, A_COPY = 250, 0.02, 1000, 1.0


def best_plan(batch, rows, columns, sums):
    """The `Plan` of the largest matrices, or None where a BLAS takes none."""
    if len(sums) > 1:
        return None
    sum_ = sums[0] if sums else ONE
    plans = []
    for row in rows or [ONE]:
        for column in columns or [ONE]:
            left = is_matrix((row.size, row.lhs), (sum_.size, sum_.lhs))
            right = is_matrix((sum_.size, sum_.rhs), (column.size, column.rhs))
            out = is_matrix((row.size, row.out), (column.size, column.out))
            if not (left and right and out):
                continue
            loops = batch + [x for x in rows + columns if x not in (row, column)]
            calls = math.prod(line.size for line in loops)
            work = row.size * column.size * sum_.size
            cost = calls * (A_CALL + A_PRODUCT * work)
            plans.append(Plan(cost, loops, row, column, sum_))
    return min(plans, key=lambda plan: plan.cost, default=None)


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
    plan: Plan
    views: tuple
    copies: tuple


def choose(lhs, rhs, out, dims):
    """The cheapest `Choice` of which factor to copy: none of them, if possible."""
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
                view = Strided(None, view.shape, strides)
                extra += A_KERNEL + A_COPY * math.prod(view.shape)
            views.append(view)
            copies.append(order)
        plan = best_plan(*lines(*views, out, dims))
        if plan and (best is None or plan.cost + extra < best.cost):
            best = Choice(plan.cost + extra, plan, tuple(views), tuple(copies))
    return best


def lower_product(walk, eqn):
    """A product as a call of `matmul` on views of both factors and of the result."""
    var, = eqn.outvars
    within = walk.within.get(var) or wanted_order(walk, eqn)
    result, chain = (within.view, within.chain) if within else (whole_atom(var), ())
    views, packings = [strided(walk, x) for x in eqn.invars], []
    choice = choose(*views, result, dot_dims(eqn))
    for i, order in enumerate(choice.copies):
        if order is not None:
            packings.append(packing(walk, eqn.invars[i], order))
            copy = packings[-1].outvars[0]
            views[i] = Strided(copy, views[i].shape, choice.views[i].strides)
    if within:
        answer_within(walk, var, within)
    inputs, output = call_views(choice.plan, *views, result)
    add_call(walk, [eqn, *reversed(chain)], "matmul", inputs, {}, [output])
    for copy in packings:
        row_of(copy).lower(walk, copy)


def packing(walk, atom, order):
    """The equation of a copy of a factor with its axes in another order."""
    shape = tuple(atom.aval.shape[d] for d in order)
    copy = Var(atom.aval.update(shape=shape))
    eqn = Eqn(prim.transpose_p, (atom,), (copy,), {"permutation": order})
    walk.made_by[copy] = eqn
    walk.stored[copy] = ("layout", "a matrix product needs it in another order")
    return eqn


def call_views(plan, *views):
    """The two factors, and the result, of a call as `Strided`s."""
    _, loops, row, column, sum_ = plan
    lhs, rhs, out = (row, sum_), (sum_, column), (row, column)
    pairs = zip(views, (lhs, rhs, out), strict=True)
    sides = [(view, i, *pair) for i, (view, pair) in enumerate(pairs)]
    if column.size > 1 and column.out != 1:
        # By columns: its transpose is by rows, and the product of the transposes.
        right, left, result = ((x, i, b, a) for x, i, a, b in sides)
        sides = [left, right, result]
    *factors, result = (matrices(loops, *side) for side in sides)
    return factors, result


def matrices(loops, view, which, first, second):
    """A view as matrices spanned by two lines, one for each step of the loops."""
    spanned = [(line.size, line[1 + which]) for line in (*loops, first, second)]
    # The step along an axis of one element means nothing; a BLAS wants it to be 1.
    steps = tuple(step if size > 1 else 1 for size, step in spanned)
    shape = tuple(size for size, _ in spanned)
    return Strided(view.base, shape, steps, view.offset)


# Results where they are wanted: the transpose of a product is written by the product.


@dataclass(frozen=True)
class Movement(Elements):
    """A row of what only renames indices: a product may write its result in place."""

    def lower(self, walk, eqn):
        if not made_by_product(walk, eqn):
            walk.value(eqn, self)


moving = prim.transpose_p, prim.reshape_p, prim.squeeze_p, prim.broadcast_in_dim_p
lower_rules |= {p: Movement(lower_rules[p].rule, 0) for p in moving}


def made_by_product(walk, eqn):
    """Whether a product writes the result of a layout equation: no kernel is needed.

    Its result has to be in memory, and what it moves must be a product's result that
    is not in memory itself.
    """
    var, = eqn.outvars
    if var not in walk.results and var not in walk.stored:
        return False
    view, chain = whole_atom(var), []
    while eqn is not None and eqn.primitive in moving and view is not None:
        x, = eqn.invars
        in_memory = x in walk.results or x in walk.stored or x in walk.within
        if in_memory or x.aval.size != var.aval.size:
            return False
        chain.append(eqn)
        view, eqn = undone(view, eqn), walk.made_by.get(x)
    if view is None or eqn is None or product(eqn) is None:
        return False
    in_place = is_worth_it(walk, eqn, Within(view, tuple(chain)))
    if in_place:
        # It is needed, though no kernel asks for its elements.
        walk.readers.setdefault(x, {})
    return in_place


def is_worth_it(walk, eqn, within):
    """Whether a product had better write within another array; notes it if so."""
    out, = eqn.outvars
    views, dims = [strided(walk, x) for x in eqn.invars], dot_dims(eqn)
    here = choose(*views, within.view, dims)
    plain = choose(*views, whole_atom(out), dims)
    if here is None or here.cost > plain.cost + A_KERNEL + A_COPY * out.aval.size:
        return False
    walk.within[out] = within
    return True


def wanted_order(walk, eqn):
    """The `Within` of a product that is read in another order of its axes, or None."""
    out, = eqn.outvars
    if out in walk.results or out in walk.stored:
        return None
    readers = walk.readers[out].items()
    votes = Counter(order_in(g, index) for g, indices in readers for index in indices)
    order = max(votes, key=votes.get, default=None)
    if order is None or order == tuple(range(len(order))):
        return None
    shape = tuple(out.aval.shape[d] for d in order)
    target = Var(out.aval.update(shape=shape))
    moved = Eqn(prim.transpose_p, (out,), (target,), {"permutation": order})
    within = Within(undone(whole_atom(target), moved), (moved,))
    if not is_worth_it(walk, eqn, within):
        return None
    walk.made_by[target] = moved
    return within


def order_in(group, index):
    """The axes of an array as the loops of a kernel go over them: outer ones first."""
    depths = {axis: depth for depth, axis in enumerate(group.nest)}
    if any(i.free and not isinstance(i, Axis) for i in index):
        return tuple(range(len(index)))
    # A loop for a total is inside the others.
    depth = lambda d: depths.get(index[d], len(depths)) if index[d].free else -1
    return tuple(sorted(range(len(index)), key=depth))


def answer_within(walk, var, within):
    """Answer what was asked of a variable by elements of the one it lies in."""
    base = within.view.base
    for group, indices in walk.readers.pop(var, {}).items():
        group.reads = group.reads - {var} | {base}
        for index in indices:
            expr = Operand(base)[within.index(index)]
            walk.answers[At(var, index)] = expr
            walk.ask([expr], group)
