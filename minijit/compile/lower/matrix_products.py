"""Layouts: products of matrices as calls, on arrays as they lie.

    einsum("ij,kj->ki", x, y)           # one call: t0 = matmul(in1, in0's transpose)
    einsum("bshd,bthd->bhst", q, k)     # one call, of a product for each b and h
    transpose(x @ y)                    # one call: it writes the columns as rows

A product has four kinds of axes: those of a *batch*, which both factors and the result
have; *rows*, of the left factor and the result; *columns*, of the right one and the
result; and axes to *sum* over, of both factors.  Each has a stride in each of the three
arrays.  A routine multiplies matrices: one axis of rows, of columns, of sums, and in
each array one of its two has stride 1.  So neighbours are merged to one axis where all
arrays allow it, and axes that stay over are loops around the product.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple


from ...trace import primitives as prim
from ..decisions import loop_rules, noted
from ..loops.buffers import View
from ..pipeline import row_choosers
from ..settings import config
from .calls import add_call, whole_atom
from .factors import choose, cost_of_copy, dot_dims, is_half_product, is_large, packing
from .views import Within, answer_within, in_asked_order, strided, undone
from .walk import Elements, Statements, lower_rules, row_of

# As many multiplications take as long as a routine's own copy of a number.
ORDERED = 16
costs = ("copy_cost", "kernel_cost", "call_cost", "product_cost")
loop_rules |= {
    "as it lies": (True, "a routine takes both factors as they lie", *costs),
    "copied factors": (True, "a routine does better with a copy of a factor", *costs),
    "within": (True, "it writes where its result is wanted", *costs),
    "apart": (False, "its result is copied to where it is wanted", *costs),
}


def matrices(loops, view, which, first, second):
    """A view as matrices spanned by two lines, one for each step of the loops.

    `which` names the view's strides in a line: "lhs", "rhs" or "out".
    """
    spanned = [(line.size, getattr(line, which)) for line in (*loops, first, second)]
    # The step along an axis of one element means nothing; gemm wants it to be 1.
    steps = tuple(step if size > 1 else 1 for size, step in spanned)
    shape = tuple(size for size, _ in spanned)
    return View(view.buffer, shape, steps, view.offset)


def wanted_order(walk, eqn):
    """Have a product lie in the order in which kernels go over it, if it is free to."""
    out, = eqn.outvars
    if out in walk.results or out in walk.stored or out in walk.within:
        return
    within = in_asked_order(walk, out)
    if within and is_worth_it(walk, eqn, within):
        moved, = within.chain
        walk.made_by[within.view.buffer] = moved


def is_taken_whole(walk, var):
    """Whether a loop or another call wants all of a variable in an array of its own.

    Those above the equation that is being lowered have not said so yet.
    """
    rows = (row_of(eqn) for eqn in walk.jaxpr.eqns if var in eqn.invars)
    return any(not row.by_element and row.lower is not lower_product for row in rows)


def is_worth_it(walk, eqn, within):
    """Whether a product had better write within another array; notes it if so."""
    out, = eqn.outvars
    views, dims = [strided(walk, x) for x in eqn.invars], dot_dims(eqn)
    here = choose(plan_of, *views, within.view, dims)
    plain = choose(plan_of, *views, whole_atom(out), dims)
    copied = plain.cost + cost_of_copy(out.aval.size)
    if here is None or here.cost > copied:
        return noted("apart", eqn, nanoseconds=round(copied))
    walk.within[out] = within
    return noted("within", eqn, nanoseconds=round(here.cost), copied=round(copied))


def lower_product(walk, eqn):
    """A product as a call of `matmul` on views of both factors and of the result."""
    var, = eqn.outvars
    wanted_order(walk, eqn)
    within = walk.within.get(var, Within(whole_atom(var), ()))
    views, packings = [strided(walk, x) for x in eqn.invars], []
    choice = choose(plan_of, *views, within.view, dot_dims(eqn))
    for i, order in enumerate(choice.copies):
        if order is not None:
            packings.append(packing(walk, eqn.invars[i], order))
            copy = packings[-1].outvars[0]
            views[i] = View(copy, views[i].shape, choice.views[i].strides)
    if var in walk.within:
        answer_within(walk, var, within)
    copies, rule = len(packings), "copied factors" if packings else "as it lies"
    noted(rule, eqn, nanoseconds=round(choice.cost), copies=copies)
    inputs, output = call_views(choice.plan, *views, within.view)
    eqns = [eqn, *reversed(within.chain)]
    add_call(walk, eqns, "matmul", inputs, {}, [output])
    for copy in packings:
        row_of(copy).lower(walk, copy)


class Line(NamedTuple):
    """An axis of a product, or several merged: its size, and three strides."""

    size: int
    lhs: int = 0
    rhs: int = 0
    out: int = 0


SINGLE = Line(1)


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


# chapter 18
def lines(lhs, rhs, out, dims):
    """The axes of a product: lists of `Line`s (batch, rows, columns, sums).

    Args:
      lhs, rhs, out: `View`s; dims: the `Dims` of both factors.
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
        before = result[-1] if result else SINGLE
        if before[1:] == tuple(line.size * step for step in line[1:]):
            result[-1] = Line(before.size * line.size, *line[1:])
        else:
            result.append(line)
    return result


def is_matrix(first, second):
    """Whether what two (size, step) span is a matrix, by rows or by columns."""
    (n, down), (m, right) = first, second
    return (right == 1 and (down >= m or n == 1)) or (
        down == 1 and (right >= n or m == 1)
    )


def plan_of(*views):
    """The best `Plan` for a product, or None without such matrices: see `lines`."""
    batch, rows, columns, sums = lines(*views)
    if len(sums) > 1:
        return None
    sum_ = sums[0] if sums else SINGLE
    plans, limits = [], config.fusion
    for row in rows or [SINGLE]:
        for column in columns or [SINGLE]:
            left = is_matrix((row.size, row.lhs), (sum_.size, sum_.lhs))
            right = is_matrix((sum_.size, sum_.rhs), (column.size, column.rhs))
            out = is_matrix((row.size, row.out), (column.size, column.out))
            if not (left and right and out):
                continue
            loops = batch + [x for x in rows + columns if x not in (row, column)]
            calls = math.prod(line.size for line in loops)
            # Vectors lie along memory in the result, and are not full if that is short.
            across, along = (row, column) if column.out == 1 else (column, row)
            lanes = -(-along.size // limits.fewest_lanes) * limits.fewest_lanes
            work = across.size * lanes * sum_.size
            # Each call first puts both factors in order.
            work += ORDERED * (across.size + lanes) * sum_.size
            cost = calls * (limits.call_cost + limits.product_cost * work)
            plans.append(Plan(cost, loops, row, column, sum_))
    return min(plans, key=lambda plan: plan.cost, default=None)


def call_views(plan, lhs, rhs, out):
    """The two factors, and the result, of a call as `View`s."""
    _, loops, row, column, sum_ = plan
    left, right = (lhs, "lhs", row, sum_), (rhs, "rhs", sum_, column)
    result = out, "out", row, column
    if column.size > 1 and column.out != 1:
        # By columns: its transpose is by rows, and the product of the transposes.
        left, right = (rhs, "rhs", column, sum_), (lhs, "lhs", sum_, row)
        result = out, "out", column, row
    factors = [matrices(loops, *left), matrices(loops, *right)]
    return factors, matrices(loops, *result)


def product(eqn):
    """The row of a product that is a call, or None."""
    kinds = {atom.aval.dtype.char for atom in (*eqn.invars, *eqn.outvars)}
    plain = any(kinds == {kind} for kind in "fdFD") or is_half_product(eqn)
    return Statements(lower_product) if plain and is_large(eqn) else None


row_choosers |= {"product": product}


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
    if any(is_taken_whole(walk, x) for moved in chain for x in moved.invars):
        return False
    in_place = is_worth_it(walk, eqn, Within(view, tuple(chain)))
    if in_place:
        # It is needed, though no kernel asks for its elements.
        walk.readers.setdefault(x, {})
    return in_place
