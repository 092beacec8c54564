"""Decompositions of small matrices within native loops: statements, and no Python.

    scan(kalman_step, state, observations)     # each step solves 4 equations

A call of LAPACK takes longer than to decompose a matrix of four rows; so here stand
cholesky, lu and triangular_solve as loops over elements.  `native_lapack` calls LAPACK
for larger ones, and for all else.
"""

from contextlib import contextmanager

import numpy as np

from ..compile.loops.expressions import Axis, Const, as_index, op
from ..compile.loops.scalars import INDEX
from ..compile.loops.statements import For, If
from .linalg import cholesky_p, lu_p, triangular_solve_p


@contextmanager
def loop(builder, extent):
    """Build what a loop does in each step; gives its counter."""
    axis = Axis(extent, "serial")
    with builder.block() as body:
        yield axis
    builder.add(For(axis, tuple(body)))


@contextmanager
def branch(builder, pred):
    """Build what happens where `pred` is true."""
    with builder.block() as body:
        yield
    builder.add(If(pred, tuple(body)))


@contextmanager
def loops(builder, sizes):
    """One loop in another; gives their counters."""
    if not sizes:
        yield ()
        return
    with loop(builder, sizes[0]) as first, loops(builder, sizes[1:]) as rest:
        yield (first, *rest)


def minus(n, axis):
    """n - axis."""
    return op("sub", as_index(n), axis)


class Matrix:
    """A matrix of a batch: its elements, and stores into them."""

    def __init__(self, builder, part, lead=()):
        self.builder, self.part, self.lead = builder, part, lead

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        return self.part.load((*self.lead, *index))

    def __setitem__(self, index, value):
        index = index if isinstance(index, tuple) else (index,)
        self.builder.add(self.part.store((*self.lead, *index), value))


def element(view, part):
    """A function of an index: that element of a view of a buffer at some place."""
    if view.whole:
        return part.load

    def load(index):
        offset, places = as_index(view.offset), []
        for i, stride in zip(index, view.strides, strict=True):
            offset = op("add", offset, op("mul", i, as_index(stride)))
        for size in reversed(part.shape):
            places.append(op("mod", offset, as_index(size)))
            offset = op("floordiv", offset, as_index(size))
        return part.load(tuple(reversed(places)))

    return load


def working_copy(builder, call, places, which, change=lambda index, x: x):
    """The first output, as a copy of an input with its elements changed."""
    view, (target, *_) = call.inputs[which], places[call.outputs[0].buffer]
    read = element(view, places[view.buffer][0])
    with loops(builder, view.shape) as index:
        builder.add(target.store(index, change(index, read(index))))
    return target


def finish(builder, call, places):
    """Copies of the outputs that are wanted at several places."""
    for view in call.outputs:
        first, *others = places[view.buffer]
        builder.copy(first, others)


class Total:
    """A number from which products are taken away."""

    def __init__(self, builder, dtype):
        self.builder, self.place = builder, builder.number(dtype)

    def start(self, value):
        self.builder.set(self.place, value)

    def subtract(self, x, y):
        self.start(op("sub", self.value, op("mul", x, y)))

    @property
    def value(self):
        return self.place.load()


def build_cholesky(builder, call, places):
    """Column by column; all of a matrix is NaN if it is not positive definite."""
    *batch, n, _ = call.inputs[0].shape
    dtype = call.inputs[0].buffer.dtype
    zero, nan = Const(0, dtype), Const(np.nan, dtype)
    lower = lambda index, x: op("select", op("ge", index[-2], index[-1]), x, zero)
    target = working_copy(builder, call, places, 0, lower)
    total = Total(builder, dtype)
    with loops(builder, batch) as lead:
        x = Matrix(builder, target, lead)
        with loop(builder, n) as j:
            total.start(x[j, j])
            with loop(builder, j) as k:
                total.subtract(x[j, k], x[j, k])
            root = op("sqrt", total.value)
            positive = op("gt", total.value, zero)
            pivot = builder.hold(op("select", positive, root, nan))
            x[j, j] = pivot
            with loop(builder, minus(n - 1, j)) as r:
                i = minus(n - 1, r)
                total.start(x[i, j])
                with loop(builder, j) as k:
                    total.subtract(x[i, k], x[j, k])
                x[i, j] = op("div", total.value, pivot)
        last = x[as_index(n - 1), as_index(n - 1)]
        with branch(builder, op("ne", last, last)), loops(builder, (n, n)) as index:
            x[index] = nan
    finish(builder, call, places)


def build_triangular_solve(builder, call, places):
    """Row by row of the solution, from the end of the triangle that has one element."""
    params, (view, right) = call.attrs["params"], call.inputs
    left_side, (*batch, n, _) = params["left_side"], view.shape
    many = right.shape[-1 if left_side else -2]
    read = element(view, places[view.buffer][0])
    swapped = params["transpose_a"] == left_side
    forward = params["lower"] != swapped
    place = lambda s: s if forward else minus(n - 1, s)
    target = working_copy(builder, call, places, 1)
    total = Total(builder, view.buffer.dtype)
    with loops(builder, batch) as lead:
        x = Matrix(builder, target, lead)
        a = lambda i, k: read((*lead, k, i) if swapped else (*lead, i, k))
        at = lambda i, c: (i, c) if left_side else (c, i)
        with loop(builder, n) as s, loop(builder, many) as c:
            i = place(s)
            total.start(x[at(i, c)])
            with loop(builder, s) as r:
                total.subtract(a(i, place(r)), x[at(place(r), c)])
            whole = params["unit_diagonal"]
            value = total.value if whole else op("div", total.value, a(i, i))
            x[at(i, c)] = value
    finish(builder, call, places)


def build_lu(builder, call, places):
    """Column by column, with the row of the largest element on top."""
    *batch, m, n = call.inputs[0].shape
    dtype = call.inputs[0].buffer.dtype
    target = working_copy(builder, call, places, 0)
    pivots, permutation = (places[view.buffer][0] for view in call.outputs[1:])
    integer = lambda x: op("convert", x, dtype=pivots.dtype)
    largest, chosen = builder.number(dtype), builder.number(INDEX)
    with loops(builder, batch) as lead:
        x, order = Matrix(builder, target, lead), Matrix(builder, permutation, lead)
        with loop(builder, m) as i:
            order[i] = integer(i)
        with loop(builder, min(m, n)) as j:
            builder.set(largest, Const(-1, dtype))
            builder.set(chosen, j)
            with loop(builder, minus(m, j)) as r:
                i = minus(m - 1, r)
                size = op("abs", x[i, j])
                with branch(builder, op("ge", size, largest.load())):
                    builder.set(largest, size)
                    builder.set(chosen, i)
            Matrix(builder, pivots, lead)[j] = integer(chosen.load())
            with loop(builder, minus(m - 1, j)) as r:
                i = minus(m - 1, r)
                with branch(builder, op("eq", i, chosen.load())):
                    with loop(builder, n) as c:
                        exchange(builder, x, (i, c), (j, c))
                    exchange(builder, order, (i,), (j,))
            eliminate(builder, x, m, n, j)
    finish(builder, call, places)


def exchange(builder, x, one, other):
    """Two elements change places."""
    held = builder.hold(x[one])
    x[one] = x[other]
    x[other] = held


def eliminate(builder, x, m, n, j):
    """Take multiples of row j from those below, so that column j is 0 there."""
    pivot = builder.hold(x[j, j])
    zero = Const(0, pivot.dtype)
    with loop(builder, minus(m - 1, j)) as r:
        i = minus(m - 1, r)
        share = op("div", x[i, j], pivot)
        factor = builder.hold(op("select", op("ne", pivot, zero), share, x[i, j]))
        x[i, j] = factor
        with loop(builder, minus(n - 1, j)) as s:
            c = minus(n - 1, s)
            x[i, c] = op("sub", x[i, c], op("mul", factor, x[j, c]))


builders = {
    cholesky_p: build_cholesky,
    triangular_solve_p: build_triangular_solve,
    lu_p: build_lu,
}
