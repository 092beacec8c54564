"""Decompositions of matrices in compiled programs: statements or LAPACK, no Python.

    jit(eigh)(covariances)                     # one matrix or many
    scan(kalman_step, state, observations)     # each step solves 4 equations

A call of LAPACK takes longer than to decompose a matrix of four rows; so first stand
cholesky, lu and triangular_solve as loops over elements.  LAPACK is called for larger
ones, and for all else: one table says how each primitive is a routine of its own, what
is copied for it, what it is called with, and where its results are.  LAPACK stores a
matrix column by column, so most matrices are copied on the way there and back; that
costs little beside what is done with them.
"""

import functools
from contextlib import contextmanager

import numpy as np

from ...compile.control.obstacles import call_obstacles, kind_of
from ...compile.control.region_functions import view_of
from ...compile.control.regions import Part, RegionBuilder, call_builders
from ...compile.decisions import loop_rules, noted
from ...compile.loops.buffers import Buffer
from ...compile.loops.expressions import Axis, Const, as_index, op
from ...compile.loops.scalars import BOOL, INDEX
from ...compile.loops.statements import Call, For, If
from ...compile.lower.calls import add_call, whole_atom
from ...compile.lower.walk import Statements
from ...compile.pipeline import row_choosers
from ...run.lapack import lapack
from ...trace.numpy_values import real_part
from .. import linalg
from ..linalg import cholesky_p, lu_p, triangular_solve_p


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
        given = lambda i, k: read((*lead, k, i) if swapped else (*lead, i, k))
        a = (lambda i, k: op("conj", given(i, k))) if params["conjugate_a"] else given
        at = lambda i, c: (i, c) if left_side else (c, i)
        with loop(builder, n) as s, loop(builder, many) as c:
            i = place(s)
            total.start(x[at(i, c)])
            with loop(builder, s) as r:
                total.subtract(a(i, place(r)), x[at(place(r), c)])
            whole = params["unit_diagonal"]
            x[at(i, c)] = total.value if whole else op("div", total.value, a(i, i))
    finish(builder, call, places)


def build_lu(builder, call, places):
    """Column by column, with the row of the largest element on top."""
    *batch, m, n = call.inputs[0].shape
    dtype = call.inputs[0].buffer.dtype
    target = working_copy(builder, call, places, 0)
    pivots, permutation = (places[view.buffer][0] for view in call.outputs[1:])
    integer = lambda x: op("convert", x, dtype=pivots.dtype)
    largest, chosen = builder.number(real_part(dtype)), builder.number(INDEX)
    with loops(builder, batch) as lead:
        x, order = Matrix(builder, target, lead), Matrix(builder, permutation, lead)
        with loop(builder, m) as i:
            order[i] = integer(i)
        with loop(builder, min(m, n)) as j:
            builder.set(largest, Const(-1, real_part(dtype)))
            builder.set(chosen, j)
            with loop(builder, minus(m, j)) as r:
                i = minus(m - 1, r)
                size = size_of(x[i, j])
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


def size_of(x):
    """|x|; of complex numbers, as LAPACK compares them, both parts together."""
    if x.dtype.kind != "c":
        return op("abs", x)
    real, imaginary = (op(p, x, dtype=real_part(x.dtype)) for p in ("real", "imag"))
    return op("add", op("abs", real), op("abs", imaginary))


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


# ---- LAPACK


INT32 = np.dtype(np.int32)
# Arguments that stand for two: room of numbers or of integers, and its size.
WORK, INTEGER_WORK = "work", "integer work"


# 1 and 1.0 are two things here.
@functools.lru_cache(None, typed=True)
def as_array(value, dtype):
    """A letter or number of an argument, as an array of one element."""
    if isinstance(value, str):
        return np.array([ord(value)], np.uint8)
    return np.array([value], INT32 if isinstance(value, int) else dtype)


@functools.cache
def wanted_room(name, given, dtype):
    """How much room a routine wants: LAPACK tells where it is given a size of -1.

    Args:
      given: its arguments, dtypes in place of arrays.
    """
    arrays, rooms = [], []
    for x in given:
        if isinstance(x, np.dtype):
            arrays.append(np.zeros(1, x))
        elif x in (WORK, INTEGER_WORK):
            rooms.append(np.zeros(1, dtype if x == WORK else INT32))
            arrays += [rooms[-1], np.array([-1], INT32)]
        else:
            arrays.append(as_array(x, dtype))
    if rooms:
        lapack(name, *(item for array in arrays for item in (array, 0)))
    return [int(room[0]) for room in rooms]


class Routines:
    """Calls of LAPACK for one matrix of a batch.

    Attributes:
      lead: which matrix of the batch it is; dtype: of its elements.
      filled: the rooms that have been written; numbers: the constants of calls.
    """

    def __init__(self, builder, call, places, lead):
        self.builder, self.inputs, self.outputs = builder, call.inputs, call.outputs
        self.places, self.lead = places, lead
        self.filled, self.numbers = set(), set()
        self.dtype = call.inputs[0].buffer.dtype

    def room(self, *shape, dtype=None):
        return self.builder.room(tuple(max(1, n) for n in shape), dtype or self.dtype)

    # What goes in and out.

    def reader(self, which):
        """A function of an index: that element of an input."""
        view = self.inputs[which]
        read = element(view, self.places[view.buffer][0])
        return lambda *index: read((*self.lead, *index))

    def fill(self, room, value, shape=None):
        """Set the elements of a room, or the first ones, to value(*index)."""
        with loops(self.builder, shape or room.shape) as index:
            self.builder.add(room.store(index, value(*index)))
        self.filled.add(room)
        return room

    def columns(self, which, change=lambda x: x):
        """A copy of an input's matrix, column by column."""
        read, (m, n) = self.reader(which), self.inputs[which].shape[-2:]
        return self.fill(self.room(n, m), lambda j, i: change(read(i, j)))

    def vector(self, which, start=0):
        """A copy of an input's vector, from an element on; never empty."""
        read, size = self.reader(which), self.inputs[which].shape[-1]
        first = as_index(min(start, size - 1))
        room = self.room(size - start)
        return self.fill(room, lambda i: read(op("add", i, first)))

    def finite_columns(self):
        """(the first input as `columns`, 0 for what is not finite; whether all was).

        Some routines do not come to an end where there is a NaN.
        """
        zero, finite = Const(0, self.dtype), self.builder.number(BOOL)
        is_finite = lambda x: op("eq", op("sub", x, x), zero)
        read = self.reader(0)
        self.builder.set(finite, Const(True, BOOL))
        with loops(self.builder, self.inputs[0].shape[-2:]) as index:
            here = is_finite(read(*index))
            self.builder.set(finite, op("and", finite.load(), here))
        change = lambda x: op("select", is_finite(x), x, zero)
        return self.columns(0, change), finite.load()

    def give(self, which, value, good=None):
        """Set the elements of an output to value(*index), or to NaN unless `good`."""
        view = self.outputs[which]
        target = self.places[view.buffer][0]
        with loops(self.builder, view.shape[len(self.lead) :]) as index:
            new = value(*index)
            if good is not None:
                new = op("select", good, new, Const(np.nan, new.dtype))
            self.builder.add(target.store((*self.lead, *index), new))

    def give_columns(self, which, room, good=None):
        """A matrix that LAPACK made, as `give`."""
        self.give(which, lambda i, j: room.load((j, i)), good)

    def give_vector(self, which, room, good=None):
        self.give(which, lambda i: room.load((i,)), good)

    def rows(self, which):
        """An input's matrix stored by rows, a copy if it is not stored so."""
        view = self.inputs[which]
        if view.whole:
            where = self.places[view.buffer][0]
            part = Part(where.buffer, (*where.prefix, *self.lead))
        else:
            part = self.fill(self.room(*view.shape[-2:]), self.reader(which))
        self.filled.add(part)
        return part

    def output(self, which):
        """Where an output's matrix or vector is."""
        where = self.places[self.outputs[which].buffer][0]
        return Part(where.buffer, (*where.prefix, *self.lead))

    # Calls.

    def call(self, name, *given):
        """Call a routine: -> whether it had success; arguments as for `run`."""
        info = self.room(1, dtype=INT32)
        self.run(name, *given, info)
        return op("eq", info.load((as_index(0),)), Const(0, INT32))

    def run(self, name, *given):
        """Call a routine that does not say whether it had success.

        Args:
          name: without the letter of the dtype.
          given: all its arguments: letters, numbers, `Part`s of buffers, `WORK`,
            `INTEGER_WORK`.
        """
        name = {"f": "s", "d": "d"}[self.dtype.char] + name
        asked = tuple(x.dtype if isinstance(x, Part) else x for x in given)
        sizes, parts = iter(wanted_room(name, asked, self.dtype)), []
        for x in given:
            if isinstance(x, Part):
                parts.append(x)
            elif x in (WORK, INTEGER_WORK):
                size, kind = next(sizes), self.dtype if x == WORK else INT32
                parts += [self.room(size, dtype=kind), self.constant(size)]
            else:
                parts.append(self.constant(x))
        views = {part: view_of(part) for part in parts}
        read = tuple(v for part, v in views.items() if part in self.filled)
        made = tuple(v for part, v in views.items() if part not in self.numbers)
        given = tuple(views[part] for part in parts)
        self.builder.add(Call("lapack", read, made, dict(name=name, given=given)))
        self.filled |= views.keys()

    def constant(self, value):
        array = as_array(value, self.dtype)
        part = self.builder.constant(Buffer("", array.shape, array.dtype), array)
        self.numbers.add(part)
        self.filled.add(part)
        return part


# ---- the primitives


def cholesky(m):
    """By rows it stands as the upper factor by columns, so that nothing is turned."""
    n, x, read = m.inputs[0].shape[-1], m.output(0), m.reader(0)
    zero = Const(0, m.dtype)
    m.fill(x, lambda i, j: op("select", op("ge", i, j), read(i, j), zero))
    good = m.call("potrf", "U", n, x, n)
    m.give(0, lambda i, j: x.load((i, j)), good)


def triangular_solve(m, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    """The BLAS has it.  It takes what is stored by rows for transposed matrices, and
    so the other side and the other triangle."""
    rows, columns = m.inputs[1].shape[-2:]
    a, x = m.rows(0), m.output(0)
    right = m.reader(1)
    with loops(m.builder, (rows, columns)) as index:
        m.builder.add(x.store(index, right(*index)))
    m.filled.add(x)
    letters = (
        "R" if left_side else "L",
        "U" if lower else "L",
        "T" if transpose_a else "N",
        "U" if unit_diagonal else "N",
    )
    n = m.inputs[0].shape[-1]
    m.run("trsm", *letters, columns, rows, 1.0, a, n, x, columns)


def lu(m):
    rows, columns = m.inputs[0].shape[-2:]
    a, pivots = m.columns(0), m.room(min(rows, columns), dtype=INT32)
    m.call("getrf", rows, columns, a, rows, pivots)
    m.give_columns(0, a)
    from_zero = lambda i: op("sub", pivots.load((i,)), Const(1, INT32))
    m.give(1, from_zero)
    exchange_rows(m, 2, from_zero, min(rows, columns))


def lu_pivots_to_permutation(m, *, permutation_size):
    read = m.reader(0)
    exchange_rows(m, 0, lambda i: read(i), m.inputs[0].shape[-1])


def exchange_rows(m, which, pivot, steps):
    """An output: the order of rows after `steps` exchanges, row i with pivot(i)."""
    m.give(which, lambda i: op("convert", i, dtype=INT32))
    order = Matrix(m.builder, m.output(which))
    with loop(m.builder, steps) as i:
        j = m.builder.hold(op("convert", pivot(i), dtype=INDEX))
        exchange(m.builder, order, (i,), (j,))


def qr(m, *, pivoting, full_matrices):
    rows, columns = m.inputs[0].shape[-2:]
    least, wanted = min(rows, columns), m.outputs[0].shape[-1]
    a, taus = m.columns(0), m.room(least)
    if pivoting:
        zero, one = Const(0, INT32), Const(1, INT32)
        order = m.fill(m.room(columns, dtype=INT32), lambda i: zero)
        m.call("geqp3", rows, columns, a, rows, order, taus, WORK)
        m.give(2, lambda i: op("sub", order.load((i,)), one))
    else:
        m.call("geqrf", rows, columns, a, rows, taus, WORK)
    zero = Const(0, m.dtype)
    m.give(1, lambda i, j: op("select", op("le", i, j), a.load((j, i)), zero))
    q = m.fill(m.room(wanted, rows), lambda j, i: a.load((j, i)), (least, rows))
    m.call("orgqr", rows, wanted, least, q, rows, taus, WORK)
    m.give_columns(0, q)


def geqrf(m):
    rows, columns = m.inputs[0].shape[-2:]
    a, taus = m.columns(0), m.room(min(rows, columns))
    m.call("geqrf", rows, columns, a, rows, taus, WORK)
    m.give_columns(0, a)
    m.give_vector(1, taus)


def householder_product(m):
    rows, columns = m.inputs[0].shape[-2:]
    a, taus = m.columns(0), m.vector(1)
    m.call("orgqr", rows, columns, m.inputs[1].shape[-1], a, rows, taus, WORK)
    m.give_columns(0, a)


def svd(m, *, full_matrices, compute_uv):
    rows, columns = m.inputs[0].shape[-2:]
    least = min(rows, columns)
    a, finite = m.finite_columns()
    s, integers = m.room(least), m.room(8 * least, dtype=INT32)
    if compute_uv:
        left, right = m.outputs[1].shape[-1], m.outputs[2].shape[-2]
    else:
        left, right = 1, 1
    u = m.room(left, rows if compute_uv else 1)
    vh = m.room(columns if compute_uv else 1, right)
    letter = ("A" if full_matrices else "S") if compute_uv else "N"
    good = m.call(
        *("gesdd", letter, rows, columns, a, rows, s, u, u.shape[1], vh, vh.shape[1]),
        *(WORK, integers),
    )
    good = op("and", good, finite)
    m.give_vector(0, s, good)
    if compute_uv:
        m.give_columns(1, u, good)
        m.give_columns(2, vh, good)


def eigh(m, *, lower):
    n = m.inputs[0].shape[-1]
    (a, finite), w = m.finite_columns(), m.room(n)
    letter = "L" if lower else "U"
    good = m.call("syevd", "V", letter, n, a, n, w, WORK, INTEGER_WORK)
    good = op("and", good, finite)
    m.give_columns(0, a, good)
    m.give_vector(1, w, good)


def schur(m, *, compute_schur_vectors):
    n = m.inputs[0].shape[-1]
    (a, finite), vectors = m.finite_columns(), m.room(n, n)
    real, imaginary = m.room(n), m.room(n)
    # No function chooses eigenvalues, so none is called, and none are chosen.
    function, chosen, flags = (m.room(k, dtype=INT32) for k in (1, 1, n))
    good = m.call(
        *("gees", "V", "N", function, n, a, n, chosen, real, imaginary, vectors, n),
        *(WORK, flags),
    )
    good = op("and", good, finite)
    m.give_columns(0, a, good)
    if compute_schur_vectors:
        m.give_columns(1, vectors, good)


def hessenberg(m):
    n = m.inputs[0].shape[-1]
    a, taus = m.columns(0), m.room(n - 1)
    m.call("gehrd", n, 1, n, a, n, taus, WORK)
    m.give_columns(0, a)
    m.give_vector(1, taus)


def tridiagonal(m, *, lower):
    n = m.inputs[0].shape[-1]
    a, diagonal, beside, taus = m.columns(0), m.room(n), m.room(n - 1), m.room(n - 1)
    letter = "L" if lower else "U"
    m.call("sytrd", letter, n, a, n, diagonal, beside, taus, WORK)
    m.give_columns(0, a)
    for which, room in enumerate((diagonal, beside, taus), 1):
        m.give_vector(which, room)


def tridiagonal_solve(m):
    n, many = m.inputs[3].shape[-2:]
    below, diagonal, above = m.vector(0, 1), m.vector(1), m.vector(2)
    x = m.columns(3)
    m.give_columns(0, x, m.call("gtsv", n, many, below, diagonal, above, x, n))


# primitive -> function(routines, **params) that builds its statements for a matrix.
rows = {getattr(linalg, f"{function.__name__}_p"): function for function in (
    cholesky, triangular_solve, lu, lu_pivots_to_permutation, qr, geqrf, svd, eigh,
    householder_product, schur, hessenberg, tridiagonal, tridiagonal_solve,
)}  # fmt: skip

# Decompositions of matrices of so many rows are loops of our own.
SMALL = 16

# Those whose loops are of complex numbers as well.
of_any_numbers = {triangular_solve_p, lu_p}

loop_rules |= {
    "elements": (True, "so few elements are quicker in loops"),
    "routine": (False, "a matrix of so many rows is one for LAPACK"),
}


def build(builder, call, places):
    """A decomposition of each matrix of a batch."""
    primitive, shape = kind_of(call), call.inputs[0].shape
    small = max(shape[-2:]) <= SMALL
    rule = "elements" if small else "routine"
    if primitive in builders and noted(rule, call, rows=max(shape[-2:])):
        builders[primitive](builder, call, places)
        return
    batch = shape[: len(shape) - linalg.first_axes.get(primitive, 2)]
    with loops(builder, batch) as lead:
        routines = Routines(builder, call, places, lead)
        rows[primitive](routines, **call.attrs["params"])
    finish(builder, call, places)


def obstacle(call):
    """Why a decomposition is left to Python, or None."""
    dtypes = [view.buffer.dtype for view in (*call.inputs, *call.outputs)]
    reason = in_the_way(kind_of(call), dtypes, call.inputs)
    return reason and f"{kind_of(call)} in its body is {reason}"


def in_the_way(primitive, dtypes, inputs):
    """What no native code decomposes, in words, or None."""
    in_loops = primitive in of_any_numbers and max(inputs[0].shape[-2:]) <= SMALL
    if any(dtype.kind == "c" for dtype in dtypes) and not in_loops:
        return "of complex numbers"
    if any(0 in x.shape for x in inputs):
        return "of empty matrices"
    return None


def native_row(eqn):
    """The row of a decomposition that no Python computes, or None."""
    if eqn.primitive not in rows:
        return None
    inputs, outputs = ([v.aval for v in side] for side in (eqn.invars, eqn.outvars))
    dtypes = [aval.dtype for aval in (*inputs, *outputs)]
    reason = in_the_way(eqn.primitive, dtypes, inputs)
    return None if reason else Statements(call_native)


def call_native(walk, eqn):
    """A call that becomes a region, as a loop does."""
    attrs = {"primitive": eqn.primitive, "params": eqn.params}
    add_call(walk, [eqn], "eval", map(whole_atom, eqn.invars), attrs)


call_obstacles |= dict.fromkeys(rows, obstacle)
call_builders |= dict.fromkeys(rows, build)
RegionBuilder.kinds |= rows.keys()
row_choosers |= {"native_lapack": native_row}
