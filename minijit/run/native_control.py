"""Loops and branches that run natively: one compiled function, no Python within.

    def run_while(in0: float32[()], out0: float32[()]):
        s0: float32 = in0[()]
        while True:
            s1: bool = s0 < f32_100
            if not s1:
                break
            s2: float32 = s0 * s0 + f32_1
            s0 = s2
        out0[()] = s0

A `while`, `scan` or `cond` is printed as Python's own, with the kernels of its body as
loops inside of it, and the loops and branches in the body inside of that: however deep
they nest, one function.  What has no axes is a local variable.  A carry with axes is
updated in place where each element depends on no other element of it; otherwise there
are two of it, and every step reads one and writes the other.  All memory is there
before the first loop starts.  Products of matrices call the BLAS by its address.

The residuals of a loop that is differentiated go into tables that grow: a Tape is a
range of the rows of an array, a Union a number that says in which tables the rest is.

What a body may consist of says `obstacle`; with anything else in it, the loop is
driven from Python as before, and stands among the `fallbacks` of its program.
"""

import functools
import math
import weakref
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType

import numpy as np

from ..compile.loops import (
    INDEX,
    Axis,
    Buffer,
    Const,
    Kernel,
    Let,
    Load,
    Reduce,
    Store,
    as_index,
    expressions,
    op,
    postorder,
    statements,
)
from ..compile.lower import Elements, Statements, lower, row_choosers
from ..compile.lower_calls import add_call, call_eval, whole_atom
from ..compile.place import place
from ..compile.simplify import simplify
from ..trace.array import ShapedArray, to_numpy
from ..trace.jit import cache_clearers
from ..transform.control_flow import (
    borrow_p,
    cond_p,
    scan_p,
    split,
    while_p,
    wrap_like,
)
from ..transform.tape import (
    Tape,
    TapeValue,
    Union,
    UnionValue,
    inject_p,
    project_p,
    zero_p,
)
from .executable import boxed, compile_kernel, routines, write_source
from .python_source import (
    HALF,
    NEST,
    Constants,
    KernelPrinter,
    KernelSource,
    SourceWriter,
    dtype_text,
    nestable,
    operations,
    print_imports,
    printers,
    shape_text,
    source_comment,
    storage_dtype,
)
from .scalar_math import functions, native_functions

# ---- which loops

# Kernels and calls in one function: beyond that compiling takes longer than it helps.
LARGEST_LOOP = 400

# {closed jaxpr: the Program of that body or branch}
bodies: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
cache_clearers.append(bodies.clear)


def program_of(closed):
    """The program of a body or a branch, lowered once."""
    if closed not in bodies:
        name = closed.jaxpr.debug.name or "body"
        bodies[closed] = lower(simplify(closed), name, programs=bodies)
    return bodies[closed]


def obstacle(program):
    """Why a program cannot run within a native loop, or None if it can."""
    if steps_of(program) > LARGEST_LOOP:
        return f"its body has more than {LARGEST_LOOP} kernels"
    if passes_on(program):
        return "its body hands on a tape or union that it was given"
    for step in program.body:
        reason = None if isinstance(step, Kernel) else call_obstacle(step)
        if reason:
            return reason
    return None


def call_obstacle(call):
    """The same for one call."""
    if call.routine == "program":
        return obstacle(call.attrs["program"])
    if call.routine == "matmul":
        fits = all(blas_layout(view) for view in call.inputs)
        return None if fits else "a matrix in its body has no adjacent elements"
    if call.routine == "loop":
        return None
    if call.attrs["primitive"] in in_tables:
        return union_obstacle(call)
    is_loop = call.attrs["primitive"] in parts_of
    how = "is driven from Python" if is_loop else "runs uncompiled"
    return f"{call.attrs['primitive']} in its body {how}"


def union_obstacle(call):
    """The same for a Union that is made or opened."""
    eqn, = call.eqns
    if not all(is_native(atom.aval) for atom in (*eqn.invars, *eqn.outvars)):
        return "lanes of a union in its body took different branches"
    return None


def passes_on(program):
    """Whether a program puts into a Union, or returns, a tape or union it was given."""
    opened = {
        view.buffer for call in program.calls for view in call.outputs
        if call.attrs.get("primitive") is project_p
    }  # fmt: skip
    given = {b for b in {*program.inputs, *opened} if b.dtype == object}
    kept = [
        view.buffer for call in program.calls for view in call.inputs
        if call.attrs.get("primitive") is inject_p
    ]  # fmt: skip
    kept += program.outputs
    of_objects = [b for b in kept if b.dtype == object]
    return len(set(of_objects)) < len(of_objects) or not given.isdisjoint(kept)


def is_native(aval):
    """Whether values of a type can be kept in tables of numbers."""
    if isinstance(aval, Tape):
        return is_native(aval.element)
    if isinstance(aval, Union):
        return not aval.every and all(is_native(a) for case in aval.cases for a in case)
    return aval.dtype.kind not in "Oc"


def steps_of(program):
    """How many kernels and calls a program consists of, inner ones included."""
    inner = (p for call in program.calls for p in programs_of(call))
    return len(program.body) + sum(map(steps_of, inner))


def programs_of(call):
    """The programs that a call runs."""
    if call.routine == "program":
        return (call.attrs["program"],)
    return call.attrs.get("programs", ())


def blas_layout(view):
    """Whether the BLAS takes a matrix as it is."""
    (rows, columns), (down, right) = view.shape[-2:], view.strides[-2:]
    return (right == 1 and (down >= columns or rows == 1)) or (
        down == 1 and (right >= rows or columns == 1)
    )


# What makes a Union or opens it, or makes a zero.
in_tables = {inject_p, project_p, zero_p}

# primitive -> function of its params: the jaxprs that it runs.
parts_of = {
    cond_p: lambda branches: branches,
    while_p: lambda cond_jaxpr, body_jaxpr, **rest: (cond_jaxpr, body_jaxpr),
    scan_p: lambda jaxpr, **rest: (jaxpr,),
}


def native_row(eqn):
    """The row of a loop or branch that can run natively, or None."""
    if eqn.primitive in in_tables:
        return Statements(lower_union)
    if eqn.primitive is borrow_p:
        return Elements(borrowed, total=True)
    if eqn.primitive not in parts_of:
        return None
    if not all(is_native(atom.aval) for atom in (*eqn.invars, *eqn.outvars)):
        return driven_from_python("it keeps what is no table of numbers")
    if any(a.dtype == object for a in carry_avals(eqn)):
        return driven_from_python("it carries tapes or unions")
    programs = tuple(map(program_of, parts_of[eqn.primitive](**eqn.params)))
    for reason in filter(None, map(obstacle, programs)):
        return driven_from_python(reason)
    return Statements(functools.partial(lower_loop, programs=programs))


def borrowed(out, index, running, x):
    """The row of `borrow`: an idle lane has the element of the first running lane."""
    axis = len(running.shape) - 1
    lanes = running.shape[axis]
    if lanes == 1:
        return x[index]
    before, lane, over = index[:axis], index[axis], Axis(lanes, "reduce")
    runs = op("convert", running[(*before, over)], dtype=np.dtype("int32"))
    first = Reduce("argmax", (over,), (runs, over))
    first = op("item", first, as_index(1), dtype=INDEX)
    chosen = op("select", running[(*before, lane)], lane, first)
    # It is in bounds; now the indices' own arithmetic can see that.
    chosen = op("min", op("max", chosen, as_index(0)), as_index(lanes - 1))
    return x[(*before, chosen, *index[axis + 1 :])]


def carry_avals(eqn):
    """The types of what a loop carries."""
    params, avals = eqn.params, [v.aval for v in eqn.outvars]
    if eqn.primitive is while_p:
        given = params["cond_nconsts"] + params["body_nconsts"]
        return avals[: len(eqn.invars) - given]
    return avals[: params["num_carry"]] if eqn.primitive is scan_p else []


def lower_union(walk, eqn):
    """Making or opening a Union: native within a loop, elsewhere left to Python."""
    walk.fallbacks[eqn.primitive.name] = "unions outside of loops are left to Python"
    attrs = {"primitive": eqn.primitive, "params": eqn.params}
    add_call(walk, eqn, "eval", map(whole_atom, eqn.invars), attrs)


def driven_from_python(reason):
    """The row of a loop that runs its body, compiled, from Python."""
    reason = f"driven from Python: {reason}"
    return Statements(functools.partial(call_eval, reason=reason))


def lower_loop(walk, eqn, programs):
    """A call that the printer below turns into a loop."""
    attrs = {"primitive": eqn.primitive, "params": eqn.params, "programs": programs}
    add_call(walk, eqn, "loop", map(whole_atom, eqn.invars), attrs)


row_choosers.insert(0, native_row)


# ---- where values are


@dataclass(frozen=True)
class Place:
    """Where a value is: in a local variable, or in an array, or in a part of one.

    Attributes:
      name: of the variable.
      shape, dtype: of the value.
      prefix: the indices, as text, of the part of the array: `("i0",)` for a row;
        extents: of the axes that they index.
      local: whether it is a local variable that holds a number.
    """

    name: str
    shape: tuple
    dtype: np.dtype
    prefix: tuple = ()
    extents: tuple = ()
    local: bool = False

    def element(self, index):
        """The text of one element, with its index as texts."""
        if self.local:
            return self.name
        return f"{self.name}[{', '.join((*self.prefix, *index)) or '()'}]"

    def row(self, i):
        """The part at index i of the first axis."""
        prefix, extents = (*self.prefix, i), (*self.extents, self.shape[0])
        return Place(self.name, self.shape[1:], self.dtype, prefix, extents)

    def start(self, offset=0):
        """The text of how many elements of the array stand before this part."""
        terms = [str(offset)] if offset or not self.prefix else []
        for k, i in enumerate(self.prefix):
            size = math.prod((*self.extents[k + 1 :], *self.shape))
            terms.append(i if size == 1 else f"({i}) * {size}")
        return " + ".join(terms)


# Tapes and unions are records in tables.  A value of some type is the record at an
# index; of an array type, a row of one array.  The record of a Tape says where its
# items begin in the table of items, and how many there are; the record of a Union which
# case it is, and where in the tables of that case its values are.


# A zero has whatever length or case is asked for.  Its record says this in place of a
# length or case, and there is one zero of each kind to be read for all of them.
ZERO = -1
# In place of a case: there are values of every case.
EVERY = -2


@dataclass(frozen=True, eq=False)
class Records:
    """Tables that have a record each for the same things, and how many so far."""

    count: str
    tables: tuple


@dataclass(frozen=True, eq=False)
class ArrayTable:
    rows: Place

    @property
    def columns(self):
        return (self.rows.name,)


@dataclass(frozen=True, eq=False)
class TapeTable:
    start: str
    length: str
    items: Records

    @property
    def columns(self):
        return (self.start, self.length)


@dataclass(frozen=True, eq=False)
class UnionTable:
    tag: str
    position: str
    cases: tuple

    @property
    def columns(self):
        return (self.tag, self.position)


def make_table(aval, column, count):
    """A table for values of a type.

    Args:
      column: function(shape, dtype) -> the name of an array with such rows.
      count: function() -> the name of a variable.
    """
    if isinstance(aval, Tape):
        names = column((), INDEX), column((), INDEX)
        items = make_table(aval.element, column, count)
        return TapeTable(*names, Records(count(), (items,)))
    if isinstance(aval, Union):
        names = column((), INDEX), column((), INDEX)
        cases = []
        for case in aval.cases:
            tables = tuple(make_table(a, column, count) for a in case)
            cases.append(Records(count(), tables))
        return UnionTable(*names, tuple(cases))
    name = column(aval.shape, storage_dtype(aval.dtype))
    return ArrayTable(Place(name, (-1, *aval.shape), aval.dtype))


def own_records(table):
    """The records that a table's values refer to."""
    if isinstance(table, TapeTable):
        return (table.items,)
    return table.cases if isinstance(table, UnionTable) else ()


def larger_of(counts):
    """The text of the largest of some counts."""
    first, *others = counts
    return f"max({', '.join((first, *others))})" if others else first


def zero_columns(table):
    """The columns in which a zero stands: (its length or case, where its zeros are)."""
    if isinstance(table, TapeTable):
        return table.length, table.start
    return table.tag, table.position


def inner_records(table):
    """The same, and what those refer to in turn."""
    own = own_records(table)
    inner = (r for records in own for t in records.tables for r in inner_records(t))
    return [*own, *inner]


@dataclass(frozen=True, eq=False)
class Ref:
    """One record: where a Tape or Union is."""

    table: object
    index: str


def record(table, index):
    """The value at an index of a table, as a place or a reference."""
    if isinstance(table, ArrayTable):
        return table.rows.row(index)
    return Ref(table, index)


# LLVM unrolls an inner loop whole if it knows that it runs a few hundred times.  In a
# scan that makes hundreds of loads, each a row further at every step, and so many the
# processor does not fetch ahead: a third of the speed is gone.  So LLVM is not told.
UNROLLED_TOO_FAR = range(65, 8193)


def elements_of(body):
    """(buffer, index) of each load and store in statements."""
    for e in postorder(expressions(body)):
        if isinstance(e, Load):
            yield e.buffer, e.index
    for s in statements(body):
        if isinstance(s, Store):
            yield s.buffer, s.index


class InlineKernel(KernelPrinter):
    """Prints a kernel's loops where they are wanted, not as a function."""

    def __init__(self, kernel, function, places):
        self.constants = function.constants
        self.counts, self.locals = function.counts, function.locals
        self.used, self.writer = {}, function.writer
        self.names, self.totals = {}, {}
        self.places = places
        self.body = place(kernel.body, NEST, nestable)
        self.block(self.body)

    def block(self, body):
        outside, self.names = self.names, dict(self.names)
        for stmt in body:
            if isinstance(stmt, Store):
                self.store(stmt)
            else:
                printers[type(stmt)](self, stmt)
        self.names = outside

    def element(self, buffer, index):
        return self.at(self.places[buffer][0], index)

    def extent(self, stmt):
        """`4`, but `in0.shape[1]` where unrolling would hurt."""
        if self.writer.depth > 1 and stmt.axis.extent in UNROLLED_TOO_FAR:
            for buffer, index in elements_of(stmt.body):
                where = self.places[buffer][0]
                if stmt.axis in index and not where.local:
                    axis = len(where.prefix) + index.index(stmt.axis)
                    return f"{where.name}.shape[{axis}]"
        return super().extent(stmt)

    def at(self, where, index):
        return where.element([self.text(i).text for i in index])

    def store(self, stmt):
        """Store into each of the places that a result has."""
        value = self.text(stmt.value)
        wheres = self.places[stmt.buffer]
        if len(wheres) > 1 and not value.text.isidentifier():
            name = self.assign("v", stmt.value.dtype, value.text)
            value = type(value)(name)
        for where in wheres:
            self.store_at(stmt, where, value)

    def store_at(self, stmt, where, value):
        buffer, target = stmt.buffer, self.at(where, stmt.index)
        half = buffer.dtype.name in HALF
        if stmt.combine:
            old = f"{buffer.dtype.name}_value({target})" if half else target
            expr = Load(buffer, stmt.index), stmt.value
            expr = type("Pair", (), {"args": expr, "dtype": buffer.dtype})
            value = operations[stmt.combine](expr, type(value)(old), value)
        text = f"{buffer.dtype.name}_bits({value.text})" if half else value.text
        kind = f": {storage_dtype(buffer.dtype).name}" if where.local else ""
        self.writer.line(f"{target}{kind} = {text}")


# ---- one function


# How many records a table has room for at first.
FIRST_RECORDS = 16


class FunctionPrinter:
    """Prints a loop or branch, with all that is in it, as the body of one function.

    Attributes:
      arrays: {name: NumPy array}: the constants of its programs, passed as arguments.
      rooms: the arrays for what lies between: (name, shape, dtype).
      locals: {variable: dtype name}.
    """

    def __init__(self):
        self.constants = Constants()
        self.counts, self.locals = Counter(), {}
        self.writer = SourceWriter()
        self.writer.depth = 1
        self.arrays, self.rooms, self.comments, self.loads = {}, [], {}, []
        self.positions = {}

    def fresh(self, prefix):
        self.counts[prefix] += 1
        return f"{prefix}{self.counts[prefix] - 1}"

    def line(self, text):
        self.writer.line(text)

    @contextmanager
    def indent(self):
        """Indented lines; `pass` if there come none."""
        before = len(self.writer.lines)
        with self.writer.indent():
            yield
            if len(self.writer.lines) == before:
                self.line("pass")

    def number(self, dtype):
        """A local variable."""
        name = self.fresh("s")
        self.locals[name] = storage_dtype(dtype).name
        return Place(name, (), dtype, local=True)

    def room(self, shape, dtype, copies=()):
        """Where a value between steps goes: a variable, or an array made beforehand."""
        if shape == () and not copies:
            return self.number(dtype)
        name = self.fresh("t")
        self.rooms.append((name, (*copies, *shape), storage_dtype(dtype)))
        return Place(name, (*copies, *shape), dtype)

    def table(self, aval):
        """A new table, that grows as it needs to."""

        def column(shape, dtype):
            name = self.fresh("t")
            self.rooms.append((name, (FIRST_RECORDS, *shape), dtype))
            return name

        def count():
            name = self.fresh("n")
            self.loads.append(f"{name} = 0")
            return name

        return make_table(aval, column, count)

    def reserve(self, records, steps):
        """Make room for more records."""
        for table in records.tables:
            for column in table.columns:
                self.line(f"{column} = roomy({column}, {records.count} + {steps})")

    def local_record(self, aval):
        """A Tape or Union that is gone when the program around it has run."""
        table = self.table(aval)
        for records in inner_records(table):
            self.line(f"{records.count} = 0")
        return Ref(table, "0")

    def unions(self, program, places):
        """Give tapes and unions their records, and residuals a place in them at once.

        The steps are looked at from the last one on: a Union says where the values go
        that are put into it.
        """
        given = {*program.inputs, *(buffer for buffer, _ in program.constants)}
        for call in reversed(program.calls):
            primitive = call.attrs.get("primitive")
            if primitive is not project_p:
                for view, var in zip(call.outputs, call.eqns[0].outvars, strict=True):
                    if view.buffer.dtype == object and view.buffer not in places:
                        places[view.buffer] = (self.local_record(var.aval),)
            if primitive is not inject_p:
                continue
            records = self.case(call, places)
            self.reserve(records, 1)
            position = self.positions[call] = self.fresh("q")
            self.line(f"{position} = {records.count}")
            for view, table in zip(call.inputs, records.tables, strict=True):
                if view.buffer not in given:
                    where = record(table, position)
                    places[view.buffer] = (*places.get(view.buffer, ()), where)

    def case(self, call, places):
        """The records of the case that a Union is made of."""
        ref = places[call.outputs[0].buffer][0]
        return ref.table.cases[call.attrs["params"]["case"]]

    def inject(self, call, places):
        """Copy to the Union what has no place in it yet, and have it say what it is."""
        ref, records = places[call.outputs[0].buffer][0], self.case(call, places)
        position = self.positions[call]
        for view, table in zip(call.inputs, records.tables, strict=True):
            where = record(table, position)
            if not isinstance(where, Ref) and where not in places[view.buffer]:
                self.copy(places[view.buffer][0], [where])
        self.line(f"{ref.table.tag}[{ref.index}] = {call.attrs['params']['case']}")
        self.line(f"{ref.table.position}[{ref.index}] = {position}")
        self.line(f"{records.count} += 1")

    def project(self, call, places, outputs):
        """The values in a Union are read where they are."""
        ref = places[call.inputs[0].buffer][0]
        position = self.fresh("q")
        self.line(f"{position} = {ref.table.position}[{ref.index}]")
        tables = ref.table.cases[call.attrs["params"]["case"]].tables
        for view, table in zip(call.outputs, tables, strict=True):
            where = record(table, position)
            if view.buffer in outputs:
                self.copy(where, places[view.buffer])
            else:
                places[view.buffer] = (where,)

    def zero(self, where):
        """Print a zero at a place."""
        if isinstance(where, Place):
            depth = self.writer.depth
            names = self.loops(where.shape)
            self.line(f"{where.element(names)} = 0")
            self.writer.depth = depth
            return
        table, position = where.table, self.fresh("q")
        every = own_records(table)
        # The same position for all cases, since it is not known which one is asked for.
        self.line(f"{position} = {larger_of(r.count for r in every)}")
        for records in every:
            self.line(f"{records.count} = {position}")
            self.reserve(records, 1)
            self.line(f"{records.count} += 1")
            for inner in records.tables:
                self.zero(record(inner, position))
        kind, at = zero_columns(table)
        self.line(f"{kind}[{where.index}] = {ZERO}")
        self.line(f"{at}[{where.index}] = {position}")

    def constant(self, buffer, value):
        """A constant of a program: an argument, or a variable if it has no axes."""
        name = self.fresh("c")
        self.arrays[name] = value
        return self.given(Place(name, buffer.shape, buffer.dtype))

    def given(self, where):
        """An argument, read into a variable if it has no axes."""
        if where.shape:
            return where
        number = self.number(where.dtype)
        self.loads.append(f"{number.name} = {where.name}[()]")
        return number

    def copy(self, source, targets):
        """Print a copy of a value to several places."""
        targets = [t for t in targets if t != source]
        if not targets or 0 in source.shape:
            return
        depth = self.writer.depth
        names = self.loops(source.shape)
        for target in targets:
            self.line(f"{target.element(names)} = {source.element(names)}")
        self.writer.depth = depth

    def loops(self, shape):
        """Print the heads of loops over all elements: -> the names of the indices."""
        names = [self.fresh("i") for _ in shape]
        for name, n in zip(names, shape, strict=True):
            self.line(f"for {name} in range({n}):")
            self.writer.depth += 1
        return names

    def program(self, program, inputs, outputs):
        """Print the steps of a program.

        Args:
          inputs: for each input its place.
          outputs: for each output a tuple of places; it is written to all of them.
        """
        places = {b: (p,) for b, p in zip(program.inputs, inputs, strict=True)}
        for buffer, wanted in zip(program.outputs, outputs, strict=True):
            places[buffer] = places.get(buffer, ()) + tuple(wanted)
        for buffer, value in program.constants:
            places[buffer] = (self.constant(buffer, value),)
        places = {buffer: where for buffer, where in places.items() if where}
        self.unions(program, places)
        for buffer in (*program.temps, *program.outputs):
            where = places.get(buffer, ())
            number = buffer.shape == () and buffer in program.temps
            if buffer.dtype != object and (number or not where):
                places[buffer] = (self.room(buffer.shape, buffer.dtype), *where)
        for step in program.body:
            if isinstance(step, Kernel):
                InlineKernel(step, self, places)
                self.comments[source_comment(step)] = None
            else:
                self.call(step, places, program.outputs)

    def call(self, call, places, results):
        """Print a call; its results have places, maybe several."""
        if call.routine == "matmul":
            self.matmul(call, places)
            return
        if call.attrs.get("primitive") is inject_p:
            self.inject(call, places)
            return
        if call.attrs.get("primitive") is project_p:
            self.project(call, places, results)
            return
        if call.attrs.get("primitive") is zero_p:
            self.zero(places[call.outputs[0].buffer][0])
            return
        inputs = [places[view.buffer][0] for view in call.inputs]
        outputs = [places[view.buffer] for view in call.outputs]
        if call.routine == "program":
            self.program(call.attrs["program"], inputs, outputs)
        else:
            printer = loop_printers[call.attrs["primitive"]]
            programs, params = call.attrs["programs"], call.attrs["params"]
            printer(self, programs, inputs, outputs, **params)

    def matmul(self, call, places):
        """A product of matrices, or of each pair in a batch of them."""
        views = [*call.outputs, *call.inputs]
        wheres = [places[view.buffer] for view in views]
        depth, starts = self.writer.depth, []
        batch = [(self.fresh("i"), n) for n in call.outputs[0].shape[:-2]]
        for name, n in batch:
            self.line(f"for {name} in range({n}):")
            self.writer.depth += 1
        for view, where in zip(views, wheres, strict=True):
            start = where[0].start(view.offset)
            for (name, _), step in zip(batch, view.strides, strict=False):
                start += f" + {name} * {step}"
            starts.append(f"{where[0].name}, {start}")
        self.line(product_text(views, starts))
        self.writer.depth = depth
        self.copy(wheres[0][0], wheres[0][1:])


def product_text(views, starts):
    """The call of the BLAS for one product.

    Args:
      views: of the result and the two factors.
      starts: for each the texts of its array and of its first element there.
    """
    (out_row, _), *steps = (view.strides[-2:] for view in views)
    (a_row, a_column), (b_row, b_column) = steps
    (m, k), n = views[1].shape[-2:], views[2].shape[-1]
    out, a, b = starts
    if n == 1 and k:
        matrix = f"{a}, {a_row}, {a_column}"
        return f"matvec({m}, {k}, {out}, {out_row}, {matrix}, {b}, {b_row})"
    if m == 1 and k:
        matrix = f"{b}, {b_column}, {b_row}"
        return f"matvec({n}, {k}, {out}, 1, {matrix}, {a}, {a_column})"
    left, right = f"{a}, {a_row}, {a_column}", f"{b}, {b_row}, {b_column}"
    return f"matmul({m}, {k}, {n}, {out}, {out_row}, {left}, {right})"


def updates_in_place(body, source, result):
    """Whether a step may write the new value of a carry over the old one.

    It may if nothing reads the old one after the kernel that writes the new one, and
    that kernel reads of the old one the element that it writes.
    """
    writers = [step for step in body if result in written_by(step)]
    if len(writers) != 1 or not isinstance(writers[0], Kernel):
        return False
    kernel = writers[0]
    later = body[body.index(kernel) + 1 :]
    if any(source in read_by(step) for step in later):
        return False
    inside = statements(place(kernel.body, NEST, nestable))
    stores = [s for s in inside if isinstance(s, Store) and s.buffer is result]
    if len(stores) != 1 or stores[0].combine is not None:
        return False
    axes = [i for i in stores[0].index if not isinstance(i, Const)]
    if len(set(axes)) != len(axes) or not all(isinstance(i, Axis) for i in axes):
        return False
    loads = [e for e in postorder(expressions(inside)) if isinstance(e, Load)]
    if any(e.index != stores[0].index for e in loads if e.buffer is source):
        return False
    # A later statement may still read the old element, unless it has a name by then.
    after = inside[inside.index(stores[0]) + 1 :]
    known = {s.expr for s in inside if isinstance(s, Let)}
    rest = postorder(expressions(after), known)
    named = any(e.buffer is source for e in known if isinstance(e, Load))
    again = [s.expr for s in after if isinstance(s, Let)]
    read_again = any(
        isinstance(e, Load) and e.buffer is source for e in postorder(again)
    )
    return not read_again and (
        named or not any(isinstance(e, Load) and e.buffer is source for e in rest)
    )


def read_by(step):
    """The buffers that a kernel or call reads."""
    if isinstance(step, Kernel):
        inside = postorder(expressions(step.body))
        return {e.buffer for e in inside if isinstance(e, Load)}
    return {view.buffer for view in step.inputs}


def written_by(step):
    """The buffers that a kernel or call writes."""
    if isinstance(step, Kernel):
        inside = statements(step.body)
        return {s.buffer for s in inside if isinstance(s, Store)}
    return {view.buffer for view in step.outputs}


@dataclass(frozen=True)
class Carry:
    """Where a carry is when a step begins, and where the step leaves it."""

    now: Place
    next: Place


class Carries:
    """The carries of one loop: where they are, from the first step to the last."""

    def __init__(self, function, body, buffers, inits, results):
        """Print what comes before the loop.

        Args:
          body: the `Program` of a step; buffers: its inputs that are carries.
          inits: the places of the initial values; results: tuples of places.
        """
        self.function, self.results = function, results
        self.parity, self.all = None, []
        pairs = zip(buffers, body.outputs, inits, results, strict=False)
        for source, result, init, wanted in pairs:
            carry = self.carry(body, source, result, wanted)
            function.copy(init, [carry.now])
            self.all.append(carry)

    def carry(self, body, source, result, wanted):
        function, shape, dtype = self.function, source.shape, source.dtype
        if shape == ():
            return Carry(function.number(dtype), function.number(dtype))
        if updates_in_place(body.body, source, result):
            where = wanted[0] if wanted else function.room(shape, dtype)
            return Carry(where, where)
        if self.parity is None:
            self.parity = function.fresh("p")
            function.line(f"{self.parity} = 0")
        both = function.room(shape, dtype, (2,))
        return Carry(both.row(self.parity), both.row(f"1 - {self.parity}"))

    @property
    def now(self):
        return [carry.now for carry in self.all]

    @property
    def next(self):
        return [(carry.next,) for carry in self.all]

    def step(self):
        """Print the end of a step: what was new is what the next one begins with."""
        for carry in self.all:
            if carry.now.local:
                self.function.copy(carry.next, [carry.now])
        if self.parity:
            self.function.line(f"{self.parity} = 1 - {self.parity}")

    def finish(self):
        """Print what comes after the loop."""
        for carry, wanted in zip(self.all, self.results, strict=True):
            self.function.copy(carry.now, wanted)


def print_while(
    function, programs, inputs, outputs, *,
    cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack,
):  # fmt: skip
    """`while True:`, with a `break` where the condition is false."""
    test, body = programs
    test_consts, consts, inits = split(inputs, cond_nconsts, body_nconsts)
    finals, counts, ys = split(outputs, len(inits), 1 if stack else 0)
    carries = Carries(function, body, body.inputs[body_nconsts:], inits, finals)
    tapes = [Recording(function, wanted[0].table, wanted[0].index) for wanted in ys]
    steps = Place(function.fresh("n"), (), np.dtype("int32"), local=True)
    if stack:
        function.line(f"{steps.name} = 0")
    goes_on = function.number(np.dtype(bool))
    function.line("while True:")
    with function.indent():
        function.program(test, [*test_consts, *carries.now], [(goes_on,)])
        function.line(f"if not {goes_on.name}:")
        with function.indent():
            function.line("break")
        rows = [(tape.next_item(),) for tape in tapes]
        function.program(body, [*consts, *carries.now], [*carries.next, *rows])
        carries.step()
        for tape in tapes:
            tape.step()
        if stack:
            function.line(f"{steps.name} += 1")
    carries.finish()
    for tape in tapes:
        tape.finish()
    for wanted in counts:
        function.copy(steps, wanted)


class Recording:
    """A Tape that a loop writes."""

    def __init__(self, function, table, index):
        self.function, self.table, self.index = function, table, index
        self.first = function.fresh("b")
        function.line(f"{self.first} = {table.items.count}")
        function.line(f"{table.start}[{index}] = {self.first}")

    def next_item(self):
        """Where the item of this step goes, if the steps are not known beforehand."""
        items = self.table.items
        self.function.reserve(items, 1)
        return record(items.tables[0], items.count)

    def step(self):
        self.function.line(f"{self.table.items.count} += 1")

    def finish(self):
        length = f"{self.table.items.count} - {self.first}"
        self.function.line(f"{self.table.length}[{self.index}] = {length}")

    def all_items(self, steps):
        """Make room for so many items at once, to be written in any order."""
        items = self.table.items
        self.function.reserve(items, steps)
        self.function.line(f"{items.count} += {steps}")
        self.finish()


def print_scan(
    function, programs, inputs, outputs, *,
    jaxpr, length, reverse, num_consts, num_carry, unroll,
):  # fmt: skip
    """`for i0 in range(n):`; xs are read, and ys written, in row i0."""
    body, = programs
    counts, rest = split(inputs, length is None)
    consts, inits, xs = split(rest, num_consts, num_carry)
    finals, ys = split(outputs, num_carry)
    steps = str(length)
    if counts:
        steps = function.fresh("n")
        function.line(f"{steps} = int({counts[0].element(())})")
    buffers = body.inputs[num_consts : num_consts + num_carry]
    carries = Carries(function, body, buffers, inits, finals)
    readers = [reader_of(function, x) for x in xs]
    writers = [[writer_of(function, y, steps) for y in wanted] for wanted in ys]
    if length != 0:
        i = function.fresh("i")
        last = f"{length - 1}" if length else f"{steps} - 1"
        order = f"{last}, -1, -1" if reverse else steps
        function.line(f"for {i} in range({order}):")
        with function.indent():
            targets = [tuple(at(i) for at in writer) for writer in writers]
            given = [*consts, *carries.now, *[at(i) for at in readers]]
            function.program(body, given, [*carries.next, *targets])
            carries.step()
    carries.finish()


def reader_of(function, x):
    """A function from a step to the place of what the step reads."""
    if isinstance(x, Place):
        return x.row
    first, stride = function.fresh("b"), function.fresh("k")
    function.line(f"{first} = {x.table.start}[{x.index}]")
    # A zero has one item, for all steps.
    function.line(f"{stride} = {x.table.length}[{x.index}] != {ZERO}")
    items = x.table.items.tables[0]
    return lambda i: record(items, f"{first} + {i} * {stride}")


def writer_of(function, y, steps):
    """A function from a step to the place of what the step writes."""
    if isinstance(y, Place):
        return y.row
    tape = Recording(function, y.table, y.index)
    tape.all_items(steps)
    return lambda i: record(y.table.items.tables[0], f"{tape.first} + {i}")


def print_cond(function, programs, inputs, outputs, *, branches):
    """`if`, `elif`, `else`."""
    index, *operands = inputs
    for k, branch in enumerate(programs):
        head = "else:" if k == len(programs) - 1 else f"if {index.element(())} == {k}:"
        head = "if True:" if len(programs) == 1 else head
        function.line("el" + head if 0 < k < len(programs) - 1 else head)
        with function.indent():
            function.program(branch, operands, outputs)


loop_printers = {cond_p: print_cond, while_p: print_while, scan_p: print_scan}


def print_loop(call):
    """Print the function of a call: -> (KernelSource, text of the file, constants)."""
    function = FunctionPrinter()
    eqn, = call.eqns
    given, inputs = [], []
    for i, var in enumerate(eqn.invars):
        inputs.append(argument(function, f"in{i}", var.aval, given))
    results, outputs, returned = [], [], []
    for i, var in enumerate(eqn.outvars):
        if isinstance(var.aval, ShapedArray):
            where = Place(f"out{i}", var.aval.shape, var.aval.dtype)
            results.append(where)
        else:
            where = Ref(function.table(var.aval), "0")
            returned += all_columns(where.table)
        outputs.append((where,))
    primitive, params = call.attrs["primitive"], call.attrs["params"]
    programs = call.attrs["programs"]
    loop_printers[primitive](function, programs, inputs, outputs, **params)
    constants = [Place(k, x.shape, x.dtype) for k, x in function.arrays.items()]
    arguments = tuple(
        Buffer(w.name, w.shape, w.dtype) for w in (*given, *constants, *results)
    )
    return finish_source(function, f"run_{primitive.name}", arguments, returned)


def argument(function, name, aval, given):
    """The place of an argument, which is several arrays if it is a tape or union."""
    if isinstance(aval, ShapedArray):
        given.append(Place(name, aval.shape, aval.dtype))
        return function.given(given[-1])
    column_names = (f"{name}_{k}" for k in range(10**6))

    def column(shape, dtype):
        given.append(Place(next(column_names), (0, *shape), dtype))
        return given[-1].name

    return Ref(make_table(aval, column, lambda: ""), "0")


def all_columns(table):
    """The names of the arrays of a table, each followed by those of what is in it."""
    inner = (t for records in own_records(table) for t in records.tables)
    return [*table.columns, *(name for t in inner for name in all_columns(t))]


def finish_source(function, name, arguments, returned):
    """The function's head, what it allocates, and its body."""
    writer = SourceWriter()
    writer.line(f"def {name}(")
    with writer.indent():
        for b in arguments:
            kind = storage_dtype(b.dtype).name
            writer.line(f"{b.name}: {kind}[{shape_text(b.shape)}],")
    writer.line("):")
    with writer.indent():
        for room, shape, dtype in function.rooms:
            writer.line(f"{room} = np.empty({shape}, {dtype_text(dtype)})")
        for line in function.loads:
            writer.line(line)
    if returned:
        function.line(f"return ({', '.join(returned)},)")
    text = writer.text() + function.writer.text()
    typed = "".join(f"{k} = {v}\n" for k, v in function.constants.definitions.items())
    comments = "\n".join(function.comments)
    imports = print_imports(text)
    file = imports + ("\n" + typed if typed else "") + f"\n\n{comments}\n{text}"
    used = tuple(function.constants.definitions)
    source = KernelSource(name, text, comments, arguments, function.locals, used)
    return source, file, tuple(function.arrays.values())


# ---- running it


def matmul(m, k, n, out, o, out_row, a, i, a_row, a_column, b, j, b_row, b_column):
    """out = a @ b, matrices within arrays from the elements o, i and j on.

    Compiled code calls the BLAS here.

    Args:
      m, k, n: the sizes: [m, k] @ [k, n].
      out_row, ...: how many elements it is from a row, or column, to the next.
    """

    left = elements(a, i, (a_row, a_column), (m, k))
    right = elements(b, j, (b_row, b_column), (k, n))
    elements(out, o, (out_row, 1), (m, n))[...] = left @ right


def matvec(m, k, out, o, out_step, a, i, row, column, x, j, step):
    """out = a @ x: a matrix [m, k] and a vector, within arrays from i and j on."""
    vector = elements(x, j, (step,), (k,))
    result = elements(a, i, (row, column), (m, k)) @ vector
    elements(out, o, (out_step,), (m,))[...] = result


def elements(array, start, strides, shape):
    """A view of an array's elements, from the one at `start` on; strides count them."""
    flat = array.reshape(-1)[start:]
    steps = [s * array.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(flat, shape, steps)


def roomy(array, n):
    """The array, or one at least twice as long, if it has fewer than n rows."""
    rows = array.shape[0]
    if n <= rows:
        return array
    longer = np.empty((max(n, 2 * rows), *array.shape[1:]), array.dtype)
    longer[:rows] = array
    return longer


functions |= {"matmul": matmul, "matvec": matvec, "roomy": roomy}


@functools.cache
def native_products():
    """`matmul` and `matvec` for numba: calls of gemm and gemv in SciPy's BLAS."""
    from numba import types
    from numba.extending import intrinsic

    def typed(emit, args):
        kinds = [x if isinstance(x, types.Array) else types.int64 for x in args]

        def generate(context, builder, signature, values):
            arrays = [x for x in signature.args if isinstance(x, types.Array)]
            emit(BlasCall(context, builder, arrays), *values)
            return context.get_dummy_value()

        return types.void(*kinds), generate

    @intrinsic
    def matmul(typing_context, m, k, n, out, o, so, a, i, r, c, b, j, rb, cb):
        return typed(emit_gemm, (m, k, n, out, o, so, a, i, r, c, b, j, rb, cb))

    @intrinsic
    def matvec(typing_context, m, k, out, o, so, a, i, r, c, x, j, step):
        return typed(emit_gemv, (m, k, out, o, so, a, i, r, c, x, j, step))

    return {"matmul": matmul, "matvec": matvec}


class BlasCall:
    """What a call of the BLAS consists of; all its arguments go by address.

    Attributes:
      arrays: the types of the result and of the two factors.
    """

    def __init__(self, context, builder, arrays):
        from llvmlite import ir

        self.context, self.builder, self.arrays, self.ir = context, builder, arrays, ir
        number = context.get_data_type(arrays[0].dtype)
        self.one, self.zero = self.slot(number(1.0)), self.slot(number(0.0))

    def slot(self, value):
        """The address of a number, on the stack."""
        from numba.core import cgutils

        pointer = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, pointer)
        return pointer

    def size(self, value):
        return self.slot(self.builder.trunc(value, self.ir.IntType(32)))

    def data(self, which, array, start):
        """The address of an element of an array."""
        make = self.context.make_array(self.arrays[which])
        return self.builder.gep(make(self.context, self.builder, array).data, [start])

    def flag(self, condition, yes, no):
        letters = (self.ir.IntType(8)(ord(x)) for x in (yes, no))
        return self.slot(self.builder.select(condition, *letters))

    def matrix(self, rows, columns, row, column):
        """Whether a matrix is stored by rows, and the step from one to the next."""

        def larger(x, y):
            return self.builder.select(self.builder.icmp_signed(">", x, y), x, y)

        by_rows = self.builder.icmp_signed("==", column, column.type(1))
        step = self.builder.select(by_rows, larger(row, columns), larger(column, rows))
        return by_rows, self.size(step)

    def call(self, name, *args):
        from numba.core import types
        from numba.extending import get_cython_function_address

        letter = {types.float32: "s", types.float64: "d"}[self.arrays[0].dtype]
        module = "scipy.linalg.cython_blas"
        address = get_cython_function_address(module, letter + name)
        kind = self.ir.FunctionType(self.ir.VoidType(), [x.type for x in args])
        target = self.ir.IntType(64)(address)
        self.builder.call(self.builder.inttoptr(target, kind.as_pointer()), args)


def emit_gemm(blas, m, k, n, out, o, row, a, i, a_row, a_column, b, j, b_row, b_column):
    """The call of gemm.  It knows columns, not rows: out.T = b.T @ a.T."""
    a_by_rows, a_step = blas.matrix(m, k, a_row, a_column)
    b_by_rows, b_step = blas.matrix(k, n, b_row, b_column)
    _, step = blas.matrix(m, n, row, row.type(1))
    flags = blas.flag(b_by_rows, "n", "t"), blas.flag(a_by_rows, "n", "t")
    factors = blas.data(2, b, j), b_step, blas.data(1, a, i), a_step
    sizes = map(blas.size, (n, m, k))
    result = blas.zero, blas.data(0, out, o), step
    blas.call("gemm", *flags, *sizes, blas.one, *factors, *result)


def emit_gemv(blas, m, k, out, o, out_step, a, i, row, column, x, j, step):
    """The call of gemv: of the matrix that has our rows as its columns, or of ours."""
    by_rows, a_step = blas.matrix(m, k, row, column)
    choose = functools.partial(blas.builder.select, by_rows)
    sizes = blas.size(choose(k, m)), blas.size(choose(m, k))
    factors = blas.data(1, a, i), a_step, blas.data(2, x, j), blas.size(step)
    result = blas.zero, blas.data(0, out, o), blas.size(out_step)
    blas.call("gemv", blas.flag(by_rows, "t", "n"), *sizes, blas.one, *factors, *result)


# ---- tapes and unions as Python knows them, and as a loop does


class TableItems:
    """The items of a Tape, in the tables that a loop filled.

    Attributes:
      item: function from an index into the tables to the value there.
      first, length: where the items begin, and how many there are.
      columns: the arrays of the table of items.
    """

    def __init__(self, item, first, length, columns):
        self.item, self.first, self.length = item, first, length
        self.columns = columns

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if not -self.length <= i < self.length:
            raise IndexError(f"item {i} of a tape of {self.length}")
        return self.item(self.first + i % self.length)


def encode(aval, values):
    """Values of one type as the arrays of a table: -> list, as `all_columns` has it."""
    if isinstance(aval, Tape):
        return encode_tapes(aval, values)
    if isinstance(aval, Union):
        return encode_unions(aval, values)
    rows = [to_numpy(x, aval) for x in values]
    empty = np.empty((0, *aval.shape), aval.dtype)
    return [stored(np.stack(rows) if rows else empty)]


def encode_tapes(aval, tapes):
    if len(tapes) == 1 and isinstance(tapes[0].items, TableItems):
        items = tapes[0].items
        return [*index_columns([items.first], [len(items)]), *items.columns]
    values, starts, lengths = [], [], []
    for tape in tapes:
        is_zero = tape.items is None
        starts.append(len(values))
        lengths.append(ZERO if is_zero else len(tape))
        zero = [zero_of(aval.element)]
        values += zero if is_zero else [tape.items[i] for i in range(len(tape))]
    return [*index_columns(starts, lengths), *encode(aval.element, values)]


def encode_unions(aval, unions):
    cases = [[] for _ in aval.cases]
    tags, positions = [], []
    zeros = [tuple(map(zero_of, case)) for case in aval.cases]
    for union in unions:
        one = isinstance(union.tag, int)
        tags.append(union.tag if one else ZERO if union.tag is None else EVERY)
        positions.append(len(cases[union.tag]) if one else max(map(len, cases)))
        if one:
            cases[union.tag].append(union.values)
            continue
        # A record of each case, in the same place.
        for taken, zero, k in zip(cases, zeros, range(len(cases)), strict=True):
            taken += [zero] * (positions[-1] - len(taken))
            taken.append(zero if union.tag is None else union.values[k])
    columns = index_columns(tags, positions)
    for avals, taken in zip(aval.cases, cases, strict=True):
        for i, inner in enumerate(avals):
            columns += encode(inner, [values[i] for values in taken])
    return columns


def index_columns(*columns):
    return [np.array(column, INDEX) for column in columns]


def zero_of(aval):
    """A zero of a type as Python has it."""
    if isinstance(aval, Tape):
        return TapeValue(aval, None)
    if isinstance(aval, Union):
        return UnionValue(aval, None, ())
    return np.zeros(aval.shape, aval.dtype)


def decoder(aval, columns):
    """A function from an index to the value there; takes its arrays off the list."""
    if isinstance(aval, Tape):
        start, length = columns.pop(0), columns.pop(0)
        arrays = list(columns)
        item = decoder(aval.element, columns)
        arrays = arrays[: len(arrays) - len(columns)]

        def tape(i):
            first, n = int(start[i]), int(length[i])
            items = None if n == ZERO else TableItems(item, first, n, arrays)
            return TapeValue(aval, items)

        return tape
    if isinstance(aval, Union):
        tag, position = columns.pop(0), columns.pop(0)
        cases = [[decoder(a, columns) for a in case] for case in aval.cases]

        def union(i):
            k, at = int(tag[i]), int(position[i])
            if k == ZERO:
                return zero_of(aval)
            return UnionValue(aval, k, tuple(value(at) for value in cases[k]))

        return union
    rows = columns.pop(0).view(aval.dtype)
    return lambda i: wrap_like(rows[i])


native_loops: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
cache_clearers.append(native_loops.clear)


class LoadedLoop:
    """A loop made to run: call it with NumPy arrays, get a tuple of them.

    Attributes:
      source: the `KernelSource`; text, path: of the generated file.
      in_avals, out_avals: the types; what is no array comes in an array of one object.
    """

    def __init__(self, call, native):
        self.source, self.text, self.constants = print_loop(call)
        self.path = write_source(self.text)
        namespace = {"__name__": f"minijit source {self.source.name}"}
        exec(compile(self.text, self.path, "exec"), namespace)
        function = namespace[self.source.name]
        if native:
            function = compile_loop(self.source, function, self.path)
        self.function = function
        eqn, = call.eqns
        self.in_avals = [atom.aval for atom in eqn.invars]
        self.out_avals = [var.aval for var in eqn.outvars]

    def __call__(self, *arrays):
        given = self.arguments(arrays)
        outs = [
            np.empty(aval.shape, aval.dtype)
            for aval in self.out_avals
            if isinstance(aval, ShapedArray)
        ]
        columns = self.function(*map(stored, (*given, *self.constants, *outs)))
        columns, outs = list(columns or ()), iter(outs)
        return tuple(
            next(outs)
            if isinstance(aval, ShapedArray)
            else boxed(decoder(aval, columns)(0))
            for aval in self.out_avals
        )

    def arguments(self, arrays):
        """The arrays that the function takes, those of tapes and unions among them."""
        given = []
        for array, aval in zip(arrays, self.in_avals, strict=True):
            is_array = isinstance(aval, ShapedArray)
            given += [array] if is_array else encode(aval, [array[()]])
        return given


def stored(array):
    """An array as a loop takes it: 16-bit floats as their bits."""
    return array.view(np.uint16) if array.dtype.name in HALF else array


def compile_loop(source, function, path):
    """Compile the function of a loop with numba, its types given."""
    constants = {name: function.__globals__[name] for name in source.constants}
    namespace = native_functions() | constants
    if "matmul(" in source.text or "matvec(" in source.text:
        namespace |= native_products()
    code = FunctionType(function.__code__, namespace, source.name)
    returns = "return (" in source.text
    return compile_kernel(source, code, path, returns)


def load_loop(call, native):
    """What runs a call of a loop; compiled once for the call."""
    versions = native_loops.setdefault(call, {})
    if native not in versions:
        versions[native] = LoadedLoop(call, native)
    return versions[native]


routines |= {"loop": load_loop}
