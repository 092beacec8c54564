"""The loop language: what a program does to single elements, and in which loops.

A jaxpr speaks of whole arrays, this language of elements.  An *expression* (see
`expressions`) is one number, computed from loop axes and loads; a *statement* stores it
for every value of the axes around it.  The grammar:

    Stmt    ::= Store(buffer, index*, value, combine?) | For(axis, body*)
              | If(pred, then*, otherwise*)
              | Let(expr) | Start(reduce) | Step(reduce)         made by `place`
              | While(test*, cond, body*) | Swap(buffer, buffer)
              | Reserve(table, rows) | Look(work) | Fail(pred, message)
              | Call(routine, inputs*, outputs*, attrs, eqns*)
              | Kernel(name, body*, eqns*)
              | Region(name, body*, eqns*, tables*, functions*)
    View    ::= View(buffer, shape, strides, offset)
    Buffer  ::= Buffer(name, shape, dtype, order, space)
    Program ::= Program(name, inputs*, outputs*, constants*, temps*, body*, ...)
"""

from dataclasses import dataclass, field, replace

from ..settings import Settings, config
from .buffers import Buffer
from .expressions import Load
from .graphs import postorder, substitute


class Stmt:
    """One statement: what passes over programs want to know of it."""

    @property
    def single(self):
        """Whether it is one step that waits for all before it, as its needs do."""
        return False

    def uses(self):
        """The expressions that it uses itself, without those of its bodies."""
        return ()

    def bodies(self):
        """The lists of statements inside it."""
        return ()

    def rewrite(self, exprs, place):
        """The same statement with other expressions, and stores elsewhere.

        Args:
          exprs: function of a list of expressions: the list to put in their place.
          place: function of what is stored into, a buffer and an index: another one.
        """
        raise TypeError(f"cannot rewrite {self!r}")


@dataclass(frozen=True, eq=False)
class Store(Stmt):
    """`buffer[index] = value`, or `combine(buffer[index], value)`."""

    buffer: Buffer
    index: tuple
    value: object
    combine: str | None = None

    def uses(self):
        return (*self.index, self.value)

    def rewrite(self, exprs, place):
        *index, value = exprs([*self.index, self.value])
        return Store(*place(self.buffer, tuple(index)), value, self.combine)


@dataclass(frozen=True, eq=False)
class For(Stmt):
    """The body for axis = 0, 1, ..., extent - 1."""

    axis: object
    body: tuple

    @property
    def single(self):
        return self.axis.extent == 1 and self.axis.kind == "serial"

    def uses(self):
        return self.axis.lengths()

    def bodies(self):
        return (self.body,)

    def rewrite(self, exprs, place):
        axis, = exprs([self.axis])
        return For(axis, tuple(s.rewrite(exprs, place) for s in self.body))


@dataclass(frozen=True, eq=False)
class If(Stmt):
    """One of two bodies."""

    pred: object
    then: tuple
    otherwise: tuple = ()

    def uses(self):
        return (self.pred,)

    def bodies(self):
        return (self.then, self.otherwise)

    def rewrite(self, exprs, place):
        pred, = exprs([self.pred])
        then, otherwise = (
            tuple(s.rewrite(exprs, place) for s in body) for body in self.bodies()
        )
        return If(pred, then, otherwise)


@dataclass(frozen=True, eq=False)
class Kernel(Stmt):
    """One loop nest, and the equations it came from: the unit that is launched.

    Its loads are `told_apart`, whoever makes it.
    """

    name: str
    body: tuple
    eqns: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "body", told_apart(self.body))

    @property
    def sources(self):
        """The lines of the user's program that it computes, in order, each once."""
        return tuple(dict.fromkeys(e.source for e in self.eqns if e.source))

    def bodies(self):
        return (self.body,)


@dataclass(frozen=True, eq=False)
class Program:
    """A whole compiled function.

    Attributes:
      inputs: one buffer an argument.
      outputs: one buffer a result; the same one may stand there twice, and it is never
        one of the constants, nor an input but one of `donated`.
      constants: pairs (buffer, NumPy array).
      temps: the other buffers.
      body: kernels and calls, in an order to run them in.
      decisions: a `Decision` for each two parts that were compared, fused or not.
      fallbacks: (primitive name, reason) of what runs uncompiled, each once.
      inner: whether only other programs call it, and give it memory for its results.
      copies: a record for each array that is copied whole, and why.
      donated: pairs (input, result): whose memory the caller gave away, and for what.
      settings: of fusion: those in force as it was made, which hold for its loops too.
    """

    name: str
    inputs: tuple
    outputs: tuple
    constants: tuple
    temps: tuple
    body: tuple
    decisions: tuple = ()
    fallbacks: tuple = ()
    inner: bool = False
    copies: tuple = ()
    donated: tuple = ()
    settings: Settings = field(default_factory=lambda: config.fusion)

    @property
    def kernels(self):
        return tuple(s for s in self.body if isinstance(s, Kernel))

    @property
    def calls(self):
        return tuple(s for s in self.body if isinstance(s, Call))

    def __str__(self):
        return program_printers["text"](self)

    __repr__ = __str__


# A later module adds the text of programs.
program_printers = {"text": lambda program: f"program {program.name}"}


# Functions of a program, called when a pass has made one.  The checker is one of them.
after_pass: list = []


def statements(body):
    """All statements in some statements, outer before inner."""
    found = []
    for stmt in body:
        found.append(stmt)
        for inner in stmt.bodies():
            found += statements(inner)
    return found


def expressions(body):
    """The expressions that some statements and all those inside them use."""
    return [expr for stmt in statements(body) for expr in stmt.uses()]


def nested(axes, body):
    """Statements in loops over some axes, the first one outermost."""
    for axis in reversed(axes):
        body = (For(axis, tuple(body)),)
    return tuple(body)


def replaced(body, replacement=lambda expr: None, new=None):
    """Statements with other expressions in the place of some, as `substitute` has them.

    Args:
      new: as of `substitute`: no part of a program is looked into twice.
    """
    new = {} if new is None else new
    exprs = lambda roots: substitute(list(roots), replacement, new)
    return tuple(stmt.rewrite(exprs, lambda *place: place) for stmt in body)


def on_buffers(body, place, buffers, new=None):
    """Statements with the elements of some buffers elsewhere.

    Args:
      place: function of a buffer and an index: the buffer and index in their place.
      new: as of `replaced`.
    """
    new = {} if new is None else new
    there = lambda *old: place(*old) if old[0] in buffers else old

    def load(expr):
        if type(expr) is not Load or expr.buffer not in buffers:
            return None
        moved = expr.at(*place(expr.buffer, expr.index))
        return moved if moved is not expr else None

    exprs = lambda roots: substitute(list(roots), load, new)
    return tuple(stmt.rewrite(exprs, there) for stmt in body)


def changed(body, change):
    """Statements with others in the place of some, and without loops around nothing.

    Args:
      change: function of a statement: those in its place, or None to look inside it.
    """
    found = []
    for stmt in body:
        new = change(stmt)
        if new is None and isinstance(stmt, For):
            inner = changed(stmt.body, change)
            same = inner == stmt.body
            new = (stmt,) if same else (For(stmt.axis, inner),) if inner else ()
        found += (stmt,) if new is None else new
    return tuple(found)


def told_apart(body):
    """Statements in which each load stands for one value.

    A statement reads what is there when it runs.  But an expression is one object,
    wherever it stands, and is computed once.  So what is loaded again from a place that
    was stored into meanwhile is another expression, of another `version`:

        y[i] = y[i] + x[i]                  # version 0
        z[i] = y[i] * 2                     # version 1
    """
    if sum(not isinstance(stmt, For) for stmt in statements(body)) < 2:
        return body  # One store alone reads before it stores.
    versions = Versions(body)
    if not versions.loads(expressions(body)):
        return body
    versions.walk(body, versions.note)
    return body if versions.right() else versions.walk(body, versions.named)


class Versions:
    """A walk over statements that knows how often what they store may have changed.

    Attributes:
      times: {buffer: how often so far}.
      found: {(buffer, index): {how often: the versions of the loads there}}.
    """

    def __init__(self, body):
        self.stored = {s.buffer for s in statements(body) if isinstance(s, Store)}
        self.found: dict = {}

    def loads(self, exprs):
        return [e for e in postorder(exprs)
                if type(e) is Load and e.buffer in self.stored]  # fmt: skip

    def note(self, exprs):
        for e in self.loads(exprs):
            times = self.found.setdefault((e.buffer, e.index), {})
            times.setdefault(self.times[e.buffer], set()).add(e.version)
        return exprs

    def right(self):
        every = (enumerate(times.values()) for times in self.found.values())
        return all(versions == {k} for found in every for k, versions in found)

    def named(self, exprs):
        def version(e):
            if type(e) is not Load or e.buffer not in self.stored:
                return None
            times = [*self.found[e.buffer, e.index]]
            new = Load(e.buffer, e.index, times.index(self.times[e.buffer]))
            return new if new is not e else None

        return substitute(list(exprs), version)

    def walk(self, body, change):
        """The statements with what `change` makes of the expressions of each."""
        self.times = dict.fromkeys(self.stored, 0)
        return self.block(body, change)

    def block(self, body, change):
        done = []
        for stmt in body:
            if isinstance(stmt, Store):
                *index, value = change(stmt.uses())
                done.append(replace(stmt, index=tuple(index), value=value))
                self.times[stmt.buffer] += 1
                continue
            inside = {s.buffer for s in statements([stmt]) if isinstance(s, Store)}
            pred = change(stmt.uses()) if isinstance(stmt, If) else ()
            # A step of a loop may read what the one before has stored.
            self.change(inside if isinstance(stmt, For) else ())
            bodies = [self.block(b, change) for b in stmt.bodies()]
            self.change(inside)
            done.append(If(*pred, *bodies) if pred else For(stmt.axis, *bodies))
        return tuple(done)

    def change(self, buffers):
        for buffer in buffers:
            self.times[buffer] += 1


def program_expressions(program):
    """The expressions of a program's kernels, and of the programs that it calls."""
    found = [expr for kernel in program.kernels for expr in expressions(kernel.body)]
    for call in program.calls:
        inner = [p for p in call.attrs.values() if isinstance(p, Program)]
        found += [expr for p in inner for expr in program_expressions(p)]
    return found


@dataclass(frozen=True, eq=False)
class Let(Stmt):
    """Compute an expression here; whoever uses it afterwards uses this value."""

    expr: object

    def uses(self):
        return (self.expr,)

    def rewrite(self, exprs, place):
        return Let(*exprs([self.expr]))


@dataclass(frozen=True, eq=False)
class Start(Stmt):
    """The accumulators of a `Reduce` get their first value."""

    reduce: object

    def rewrite(self, exprs, place):
        return Start(*exprs([self.reduce]))


@dataclass(frozen=True, eq=False)
class Step(Stmt):
    """The accumulators of a `Reduce` take in its bodies' present values."""

    reduce: object

    def uses(self):
        return self.reduce.bodies

    def rewrite(self, exprs, place):
        return Step(*exprs([self.reduce]))


@dataclass(frozen=True, eq=False)
class While(Stmt):
    """The body, for as long as `cond`, after the statements `test`, is true."""

    test: tuple
    cond: object
    body: tuple

    def uses(self):
        return (self.cond,)

    def bodies(self):
        return (self.test, self.body)


@dataclass(frozen=True, eq=False)
class Swap(Stmt):
    """Two buffers of one shape exchange their contents (their storage, in fact)."""

    first: Buffer
    second: Buffer


@dataclass(frozen=True, eq=False)
class Reserve(Stmt):
    """From here on, a table has at least so many rows; those it had stay."""

    table: Buffer
    rows: object

    def uses(self):
        return (self.rows,)


@dataclass(frozen=True, eq=False)
class Look(Stmt):
    """So much work is done: now and then, look whether a signal has arrived."""

    work: object

    def uses(self):
        return (self.work,)


@dataclass(frozen=True, eq=False)
class Fail(Stmt):
    """If `pred` is true, the program ends here, with an OverflowError."""

    pred: object
    message: str

    def uses(self):
        return (self.pred,)


@dataclass(frozen=True, eq=False)
class Call(Stmt):
    """A routine from elsewhere, on whole arrays.

    Attributes:
      routine: `matmul`, `program` (attrs: program), `eval` (attrs: primitive, params),
        `function` (attrs: function, given: a view for each of its params), `lapack`
        (attrs: name, given: a view for each of its arguments).
      inputs, outputs: views.
      attrs: dict.
      eqns: the equations it came from.
    """

    routine: str
    inputs: tuple
    outputs: tuple
    attrs: dict
    eqns: tuple = ()

    def uses(self):
        offsets = (view.offset for view in (*self.inputs, *self.outputs))
        return tuple(x for x in offsets if not isinstance(x, int))


@dataclass(frozen=True, eq=False)
class Region(Kernel):
    """Loops and branches with many nests inside, launched as one, named after them.

    Its statements are placed already, and may read what others of them wrote.

    Attributes:
      tables: of each tape or union that it takes or gives an `Attached`.
      functions: that it calls, each after those that it calls itself.
    """

    tables: tuple = ()
    functions: tuple = ()

    def __post_init__(self):
        """Its kernels were told apart when they were placed."""


@dataclass(frozen=True, eq=False)
class Function:
    """Statements that a region runs at several places, on arrays given anew each time.

    Attributes:
      params: buffers, in place of which each `Call` gives its own.
      captures: the other buffers that it uses and that are not its own: constants, and
        room for what lies between.
    """

    name: str
    params: tuple
    captures: tuple
    body: tuple


@dataclass(frozen=True, eq=False)
class Attached:
    """The tables of a tape or union that a region takes or gives.

    Attributes:
      buffer: of the value; aval: its type; columns: the buffers of its tables.
      given: whether the region gives it.
    """

    buffer: Buffer
    aval: object
    columns: tuple
    given: bool
