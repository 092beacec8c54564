"""The loop IR: what a program does to single elements, and in which loops.

A jaxpr speaks of whole arrays, this language of elements.  An *expression* is one
number, computed from loop axes and loads; a *statement* stores it for every value of
the axes around it.  The grammar:

    Expr    ::= Const(value, dtype)
              | Axis(extent, kind)           kind: loop | reduce | scan | serial
              | Load(buffer, index*)
              | Op(name, args*, dtype)
              | Reduce(op, axes*, bodies*)
    Stmt    ::= Store(buffer, index*, value, combine?) | For(axis, body*)
              | Let(expr) | Start(reduce) | Step(reduce)         made by `place`
              | If(pred, then*, otherwise*) | While(test*, cond, body*)
              | Swap(buffer, buffer) | Reserve(table, rows)
              | Look(work) | Fail(pred, message)
              | Call(routine, inputs*, outputs*, attrs, eqns*)
              | Kernel(name, body*, eqns*) | Region(name, body*, eqns*)
    View    ::= View(buffer, shape, strides, offset)
    Buffer  ::= Buffer(name, shape, dtype, order, space)
    Program ::= Program(name, inputs*, outputs*, constants*, temps*, body*, ...)

Expressions are *interned*: building the same one twice gives the same object, so that
an expression is a graph with shared parts and never a tree.  Axes and buffers are what
they are: two axes of the same extent are two axes.
"""

import weakref
from dataclasses import dataclass

import numpy as np

from ..trace.dtypes import short_dtype_name

INDEX = np.dtype("int64")
BOOL = np.dtype("bool")
INF = float("inf")
ANY = (-INF, INF)

interned: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
nothing: frozenset = frozenset()


class Expr:
    """One number.

    Attributes:
      dtype: its `np.dtype`.
      free: the axes whose values it depends on, a frozenset.
      bounds: for an integer, the smallest and the largest value it can have.
    """

    __slots__ = ("dtype", "free", "bounds", "__weakref__")
    fields: tuple = ()

    def __new__(cls, *values):
        key = (cls, *values)
        found = interned.get(key)
        if found is None:
            found = object.__new__(cls)
            for name, value in zip(cls.fields, values, strict=True):
                setattr(found, name, value)
            found.derive()
            interned[key] = found
        return found

    def derive(self):
        """Set `dtype`, `free` and `bounds` from the fields."""
        raise NotImplementedError(type(self).__name__)

    def children(self):
        """The expressions it is computed from."""
        return ()

    def rebuild(self, children):
        """The same kind of expression computed from other ones."""
        del children
        return self

    def __repr__(self):
        return expr_text(self)


class Const(Expr):
    """A number known now.  Constants differ if their dtypes or their bits do."""

    __slots__ = fields = ("value",)

    def __new__(cls, value, dtype):
        dtype = np.dtype(dtype)
        array = np.asarray(value, dtype)
        key = (cls, dtype, array.tobytes())
        found = interned.get(key)
        if found is None:
            found = interned[key] = object.__new__(cls)
            found.value, found.dtype, found.free = array.item(), dtype, nothing
            found.bounds = (int(found.value),) * 2 if dtype.kind in "iub" else None
        return found


class Axis(Expr):
    """One loop's counter, from 0 to `extent` - 1.  Each axis is itself only.

    Attributes:
      extent: an int, or an expression where only a run can tell.
      kind: `loop` (any order will do), `reduce` (bound by a `Reduce`), `scan` (in
        order: `Reduce`s over it are running totals), `serial` (in order).
    """

    __slots__ = fields = ("extent", "kind")

    def __new__(cls, extent, kind="loop"):
        axis = object.__new__(cls)
        axis.extent, axis.kind, axis.dtype = extent, kind, INDEX
        axis.free = frozenset([axis])
        top = extent if isinstance(extent, int) else extent.bounds[1]
        axis.bounds = (0, max(top - 1, 0))
        return axis


class Load(Expr):
    """The element of a buffer at an index, which must be in bounds."""

    __slots__ = fields = ("buffer", "index")

    def derive(self):
        self.dtype = self.buffer.dtype
        self.free = free_axes(self.index)
        self.bounds = dtype_bounds(self.dtype)

    def children(self):
        return self.index

    def rebuild(self, children):
        return Load(self.buffer, tuple(children))


class Op(Expr):
    """A scalar operation, by name: see `scalar operations` below.  Built by `op`."""

    __slots__ = ("name", "args")
    fields = ("name", "args", "dtype")

    def derive(self):
        self.free = free_axes(self.args)
        self.bounds = op_bounds(self)

    def children(self):
        return self.args

    def rebuild(self, children):
        return op(self.name, *children, dtype=self.dtype)


class Reduce(Expr):
    """The bodies' values for all values of `axes`, combined by `op`.

    Over axes of kind `reduce`, which it binds, it is a total.  Over an axis of kind
    `scan`, which a `For` around it binds, it is the running total up to and with the
    present step.  With several bodies the value is a tuple: `item` takes it apart.
    """

    __slots__ = fields = ("op", "axes", "bodies")

    def derive(self):
        self.dtype = self.bodies[0].dtype
        bound = [axis for axis in self.axes if axis.kind == "reduce"]
        self.free = free_axes(self.bodies + self.axes).difference(bound)
        self.bounds = dtype_bounds(self.dtype)

    def children(self):
        return (*self.bodies, *self.axes)

    def rebuild(self, children):
        count = len(self.bodies)
        return Reduce(self.op, tuple(children[count:]), tuple(children[:count]))


def free_axes(exprs):
    """The union of the free axes; the very same set where only one contributes."""
    union = nothing
    for expr in exprs:
        if expr.free is not union and not expr.free <= union:
            union = union | expr.free if union else expr.free
    return union


def dtype_bounds(dtype):
    """The smallest and largest value of an integer dtype; None for others."""
    bits = 1 if dtype == BOOL else 8 * dtype.itemsize
    if dtype.kind == "i":
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return (0, 2**bits - 1) if dtype.kind in "ub" else None


# Scalar operations.  Their names and meanings are those of the primitives of JAX
# (integers wrap, NaN wins in max and min, x / 0 is -1 for integers, and so on), with
# these besides: `floordiv` and `mod` (of an index by a positive constant), `select`
# (condition, if true, if false), `convert` (JAX's convert_element_type), `bitcast`,
# `item` (of a tuple-valued Reduce, and a constant).

comparisons = {"eq", "ne", "lt", "le", "gt", "ge", "is_finite"}


def op(name, *args, dtype=None):
    """`Op(name, args, dtype)`, simplified if it computes an index or a condition.

    By default a comparison gives a bool, anything else the last argument's dtype.
    """
    if dtype is None:
        dtype = BOOL if name in comparisons else args[-1].dtype
    if name == "convert" and args[0].dtype == dtype:
        return args[0]
    expr = Op(name, args, dtype)
    if dtype not in (INDEX, BOOL) and name != "select":
        return expr
    if name in intervals and known(expr) is not None:
        return Const(known(expr), dtype)
    simpler = folds[name](*args) if name in folds else None
    return expr if simpler is None else simpler


def as_index(value):
    """An index expression: an int becomes a constant, an integer is converted."""
    if isinstance(value, Expr):
        return op("convert", value, dtype=INDEX)
    return Const(value, INDEX)


def known(expr):
    """The int or bool that an expression always is, or None."""
    low, high = expr.bounds or (0, 1)
    return low if low == high else None


def op_bounds(expr):
    """The interval of an integer `Op`, computed from those of its arguments."""
    everything, rule = dtype_bounds(expr.dtype), intervals.get(expr.name)
    if None in (everything, rule, *(a.bounds for a in expr.args)):
        return everything
    low, high = rule(*(a.bounds for a in expr.args))
    # An operation that could wrap around can give anything.
    fits = everything[0] <= low and high <= everything[1]
    return (low, high) if fits else everything


def corners(function):
    """The interval of a function of two intervals that is extreme at their ends."""

    def interval(x, y):
        values = [function(a, b) for a in x for b in y]
        return min(values), max(values)

    return interval


intervals = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": corners(lambda a, b: a * b),
    "floordiv": lambda x, y: (x[0] // y[0], x[1] // y[0]),
    "mod": lambda x, y: x if 0 <= x[0] and x[1] < y[0] else (0, y[0] - 1),
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "select": lambda c, x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "convert": lambda x: x,
    # Of conditions: whether they must hold, and whether they can.
    "lt": lambda x, y: (x[1] < y[0], x[0] < y[1]),
    "le": lambda x, y: (x[1] <= y[0], x[0] <= y[1]),
    "gt": lambda x, y: (x[0] > y[1], x[1] > y[0]),
    "ge": lambda x, y: (x[0] >= y[1], x[1] >= y[0]),
    "eq": lambda x, y: (x[0] == x[1] == y[0] == y[1], x[0] <= y[1] and y[0] <= x[1]),
    # Of integers, `and` can give anything.
    "and": lambda x, y: (x[0] & y[0], x[1] & y[1]) if {*x, *y} <= {0, 1} else ANY,
}


# The folds are of integers of 64 bits, indices as well as what a user computes: they
# hold whatever wraps around, but for those of `floordiv` and `mod`, which are of
# indices only and never wrap (the users' own are `div` and `rem`).


def wrapped(value):
    """The 64-bit constant that arithmetic modulo 2**64 makes of an int."""
    return Const((value + 2**63) % 2**64 - 2**63, INDEX)


def fold_add(x, y):
    """0 vanishes; constants move right and meet: (x + c1) + c2 is x + (c1 + c2)."""
    if isinstance(x, Const) and isinstance(y, Const):
        return wrapped(x.value + y.value)
    if known(x) == 0 or known(y) == 0:
        return y if known(x) == 0 else x
    if isinstance(x, Const):
        x, y = y, x
    if isinstance(y, Const) and isinstance(x, Op) and x.name == "add":
        first, second = x.args
        if isinstance(second, Const):
            return op("add", first, op("add", second, y))
    return Op("add", (x, y), INDEX) if isinstance(y, Const) else None


def fold_sub(x, y):
    if x is y:
        return Const(0, INDEX)
    return op("add", x, wrapped(-y.value)) if isinstance(y, Const) else None


def fold_mul(x, y):
    """1 vanishes, and constants meet: (x * c1) * c2 is x * (c1 * c2)."""
    if isinstance(x, Const) and isinstance(y, Const):
        return wrapped(x.value * y.value)
    if isinstance(x, Const):
        x, y = y, x
    if known(y) == 1:
        return x
    if isinstance(y, Const) and isinstance(x, Op) and x.name == "mul":
        first, second = x.args
        if isinstance(second, Const):
            return op("mul", first, op("mul", second, y))
    return Op("mul", (x, y), INDEX) if isinstance(y, Const) else None


def fold_floordiv(x, y):
    """Part by part: (i * 8 + j) // 4 is i * 2 + j // 4."""
    if y.value == 1:
        return x
    multiple, rest = split_multiple(x, y.value)
    return multiple and op("add", multiple, op("floordiv", rest, y))


def fold_mod(x, y):
    """What `floordiv` leaves: (i * 8 + j) % 4 is j % 4."""
    if x.bounds[0] >= 0 and x.bounds[1] < y.value:
        return x
    multiple, rest = split_multiple(x, y.value)
    return multiple and op("mod", rest, y)


def split_multiple(x, c, depth=4):
    """(m, r) with x = m * c + r where that is plain to see; (None, x) otherwise."""
    if not isinstance(x, Op) or x.name not in ("add", "mul") or depth == 0:
        return None, x
    first, second = x.args
    if x.name == "mul":
        factor = known(second)
        if factor is None or factor % c:
            return None, x
        return op("mul", first, Const(factor // c, INDEX)), Const(0, INDEX)
    for part, other in ((first, second), (second, first)):
        multiple, rest = split_multiple(part, c, depth - 1)
        if multiple:
            return multiple, op("add", rest, other)
    return None, x


def fold_max(x, y):
    """Whichever cannot be the smaller one."""
    if x is y or x.bounds[0] >= y.bounds[1]:
        return x
    return y if y.bounds[0] >= x.bounds[1] else None


def fold_min(x, y):
    if x is y or x.bounds[1] <= y.bounds[0]:
        return x
    return y if y.bounds[1] <= x.bounds[0] else None


def fold_and(x, y):
    """A condition that always holds vanishes, and of an integer one of all bits."""
    every_bit = 1 if x.dtype == BOOL else -1
    for a, b in ((x, y), (y, x)):
        if known(a) == every_bit:
            return b
    return x if x is y else None


def fold_select(condition, if_true, if_false):
    if known(condition) is not None:
        return if_true if known(condition) else if_false
    return if_true if if_true is if_false else None


folds = {
    "add": fold_add,
    "sub": fold_sub,
    "mul": fold_mul,
    "floordiv": fold_floordiv,
    "mod": fold_mod,
    "max": fold_max,
    "min": fold_min,
    "and": fold_and,
    "select": fold_select,
}


def number_text(expr):
    """A constant; with its dtype unless that is an index's, bool or float32."""
    plain = expr.dtype in (INDEX, BOOL, np.dtype("float32"))
    return str(expr.value) if plain else f"{short_dtype_name(expr.dtype)}({expr.value})"


def expr_text(expr, names=None, depth=8):
    """An expression as text, down to a depth; `names` has the names of some parts."""
    names = {} if names is None else names
    if expr in names:
        return names[expr]
    if isinstance(expr, Const):
        return number_text(expr)
    if isinstance(expr, Axis) or depth == 0:
        return f"axis{expr.extent}" if isinstance(expr, Axis) else "..."
    parts = [expr_text(e, names, depth - 1) for e in expr.children()]
    if isinstance(expr, Load):
        return f"{expr.buffer.name}[{', '.join(parts)}]"
    if isinstance(expr, Reduce):
        count = len(expr.bodies)
        bound = zip(expr.axes, parts[count:], strict=True)
        axes = [f"{n} in {a.extent}" if a.kind == "reduce" else n for a, n in bound]
        return f"{expr.op}({', '.join(axes)}: {', '.join(parts[:count])})"
    return op_text(expr, parts)


infix = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
infix |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
infix |= {"and": "&", "or": "|", "xor": "^"}


def op_text(expr, parts):
    """An operation, with operators for arithmetic, comparison and logic."""
    if expr.name in infix:
        return f"({parts[0]} {infix[expr.name]} {parts[1]})"
    if expr.name in ("convert", "bitcast"):
        return f"{expr.name}[{short_dtype_name(expr.dtype)}]({parts[0]})"
    return f"{expr.name}({', '.join(parts)})"


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory for one array: what a `Load` reads and a `Store` writes.

    Attributes:
      name: for printing; unique in its program.
      order: the axes from the slowest to the fastest in memory; () for row-major.
      space: `global`; `cache` (fits in one); `register`: it is there only while the
        `Region` runs that uses it, and of a number that is a register indeed; `table`:
        it has as many rows as `Reserve` asks for, whatever the shape says.
    """

    name: str
    shape: tuple
    dtype: np.dtype
    order: tuple = ()
    space: str = "global"

    @property
    def nbytes(self):
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    @property
    def strides(self):
        """In elements."""
        strides, step = [0] * len(self.shape), 1
        for axis in reversed(self.order or range(len(self.shape))):
            strides[axis], step = step, step * self.shape[axis]
        return tuple(strides)

    def __str__(self):
        shape = ",".join(map(str, self.shape))
        return f"{self.name}: {short_dtype_name(self.dtype)}[{shape}]"


@dataclass(frozen=True, eq=False)
class View:
    """Some elements of a buffer, as an array: NumPy's strides, in elements.

    The offset is an expression where it changes with the steps of a loop.
    """

    buffer: Buffer
    shape: tuple
    strides: tuple
    offset: int = 0

    @property
    def whole(self):
        """Whether it is simply all of its buffer."""
        return (self.shape, self.strides, self.offset) == (
            self.buffer.shape,
            self.buffer.strides,
            0,
        )


def whole(buffer):
    """The view of all of a buffer."""
    return View(buffer, buffer.shape, buffer.strides)


@dataclass(frozen=True, eq=False)
class Store:
    """`buffer[index] = value`, or `combine(buffer[index], value)`."""

    buffer: Buffer
    index: tuple
    value: Expr
    combine: str | None = None


@dataclass(frozen=True, eq=False)
class For:
    """The body for axis = 0, 1, ..., extent - 1."""

    axis: Axis
    body: tuple


@dataclass(frozen=True, eq=False)
class Start:
    """The accumulators of a `Reduce` get their first value."""

    reduce: Reduce


@dataclass(frozen=True, eq=False)
class Step:
    """The accumulators of a `Reduce` take in its bodies' present values."""

    reduce: Reduce


@dataclass(frozen=True, eq=False)
class Let:
    """Compute an expression here; whoever uses it afterwards uses this value."""

    expr: Expr


@dataclass(frozen=True, eq=False)
class If:
    """One of two bodies."""

    pred: Expr
    then: tuple
    otherwise: tuple = ()


@dataclass(frozen=True, eq=False)
class While:
    """The body, for as long as `cond`, after the statements `test`, is true."""

    test: tuple
    cond: Expr
    body: tuple


@dataclass(frozen=True, eq=False)
class Swap:
    """Two buffers of one shape exchange their contents (their storage, in fact)."""

    first: Buffer
    second: Buffer


@dataclass(frozen=True, eq=False)
class Reserve:
    """From here on, a table has at least so many rows; those it had stay."""

    table: Buffer
    rows: Expr


@dataclass(frozen=True, eq=False)
class Look:
    """So much work is done: now and then, look whether a signal has arrived."""

    work: Expr


@dataclass(frozen=True, eq=False)
class Fail:
    """If `pred` is true, the program ends here, with an OverflowError."""

    pred: Expr
    message: str


@dataclass(frozen=True, eq=False)
class Call:
    """A routine from elsewhere, on whole arrays.

    Attributes:
      routine: `matmul`, `program` (attrs: program), `eval` (attrs: primitive, params),
        `function` (attrs: function, given: a view for each of its params).
      inputs, outputs: views.
      attrs: dict.
      eqns: the equations it came from.
    """

    routine: str
    inputs: tuple
    outputs: tuple
    attrs: dict
    eqns: tuple = ()


@dataclass(frozen=True, eq=False)
class Kernel:
    """One loop nest, and the equations it came from: the unit that is launched."""

    name: str
    body: tuple
    eqns: tuple = ()

    @property
    def sources(self):
        """The lines of the user's program that it computes, in order, each once."""
        return tuple(dict.fromkeys(e.source for e in self.eqns if e.source))


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


@dataclass(frozen=True)
class Cut:
    """A decision not to fuse: `producer`'s value goes through memory.

    Attributes:
      producer: what computes it: the equation.
      rule: why, a name from the policy.
      reason: why, a sentence.
      nbytes: of the buffer written and read back.
    """

    producer: object
    rule: str
    reason: str
    nbytes: int


@dataclass(frozen=True, eq=False)
class Program:
    """A whole compiled function.

    Attributes:
      inputs: one buffer an argument.
      outputs: one buffer a result; the same one may stand there twice, and it is never
        one of the inputs or constants.
      constants: pairs (buffer, NumPy array).
      temps: the other buffers.
      body: kernels and calls, in an order to run them in.
      cuts: a `Cut` for each value that was not inlined.
      fallbacks: (primitive name, reason) of what runs uncompiled, each once.
    """

    name: str
    inputs: tuple
    outputs: tuple
    constants: tuple
    temps: tuple
    body: tuple
    cuts: tuple = ()
    fallbacks: tuple = ()

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


# How a `Reduce` starts and goes on.  identities: dtype -> the first value(s).
def lowest(dtype):
    """The value that any other one of the dtype is a maximum against."""
    if dtype.kind in "iub":
        return dtype_bounds(dtype)[0]
    return -INF


def highest(dtype):
    """The value that any other one of the dtype is a minimum against."""
    if dtype.kind in "iub":
        return dtype_bounds(dtype)[1]
    return INF


identities = {
    "add": lambda dtype: (0,),
    "mul": lambda dtype: (1,),
    "max": lambda dtype: (lowest(dtype),),
    "min": lambda dtype: (highest(dtype),),
    "and": lambda dtype: (dtype_bounds(dtype)[1] if dtype.kind != "i" else -1,),
    "or": lambda dtype: (0,),
    "xor": lambda dtype: (0,),
    "argmax": lambda dtype: (lowest(dtype), 0),
    "argmin": lambda dtype: (highest(dtype), 0),
    "logaddexp": lambda dtype: (-INF,),
}


def start_values(reduce):
    """The accumulators of a Reduce before the first step: one constant a body."""
    values = identities[reduce.op](reduce.dtype)
    dtypes = [body.dtype for body in reduce.bodies]
    return tuple(Const(v, d) for v, d in zip(values, dtypes, strict=True))


def combine(name, old, new):
    """One step of a Reduce: accumulators and values -> accumulators, as expressions."""
    if name not in ("argmax", "argmin"):
        return (op(name, *old, *new),)
    # The first of several equal ones stays, and the first NaN stays for good.
    better = op("gt" if name == "argmax" else "lt", new[0], old[0])
    if new[0].dtype.kind not in "iub":
        nan = op("and", op("ne", new[0], new[0]), op("eq", old[0], old[0]))
        better = op("or", better, nan)
    return tuple(op("select", better, n, o) for n, o in zip(new, old, strict=True))


# Walking over expressions.  All of it with lists of what is still to do: a program of
# thousands of equations is an expression thousands of nodes deep.


def postorder(roots, skip=()):
    """Every expression that `roots` are computed from, children before parents.

    Does not look into the expressions in `skip`.
    """
    done, todo = {}, [(root, False) for root in reversed(roots)]
    while todo:
        expr, ready = todo.pop()
        if expr in done or expr in skip:
            continue
        if ready:
            done[expr] = None
        else:
            todo.append((expr, True))
            todo.extend((child, False) for child in reversed(expr.children()))
    return list(done)


def substitute(roots, replacement, new=None):
    """Rebuild expressions with some of them replaced.

    Args:
      roots: expressions.
      replacement: function of an expression: what to put in its place (to which it is
        applied again), or None.
      new: {expression: what became of it}, to be used and extended.

    Returns:
      The list of the new roots.
    """
    new, todo = {} if new is None else new, list(reversed(roots))
    while todo:
        expr = todo[-1]
        target = None if expr in new else replacement(expr)
        needed = expr.children() if target is None else (target,)
        missing = [e for e in needed if e not in new]
        if missing and expr not in new:
            todo.extend(reversed(missing))
            continue
        todo.pop()
        if expr not in new:
            parts = tuple(new[e] for e in needed)
            same = target is None and parts == needed
            new[expr] = expr if same else parts[0] if target else expr.rebuild(parts)
    return [new[root] for root in roots]


def own_expressions(stmt):
    """The expressions that a statement itself uses, without those of its bodies."""
    match stmt:
        case Store():
            return (*stmt.index, stmt.value)
        case If() | Fail():
            return (stmt.pred,)
        case While():
            return (stmt.cond,)
        case Reserve():
            return (stmt.rows,)
        case Look():
            return (stmt.work,)
        case For() if isinstance(stmt.axis.extent, Expr):
            return (stmt.axis.extent,)
        case Call():
            offsets = (view.offset for view in (*stmt.inputs, *stmt.outputs))
            return tuple(x for x in offsets if isinstance(x, Expr))
        case Let():
            return (stmt.expr,)
        case Step():
            return stmt.reduce.bodies
    return ()


def bodies_of(stmt):
    """The lists of statements inside a statement."""
    match stmt:
        case For() | Kernel():
            return (stmt.body,)
        case If():
            return (stmt.then, stmt.otherwise)
        case While():
            return (stmt.test, stmt.body)
    return ()


def statements(body):
    """All statements in some statements, outer before inner."""
    found = []
    for stmt in body:
        found.append(stmt)
        for inner in bodies_of(stmt):
            found += statements(inner)
    return found


def expressions(body):
    """The expressions that some statements and all those inside them use."""
    return [expr for stmt in statements(body) for expr in own_expressions(stmt)]


def rewrite(stmt, exprs, buffers):
    """A statement with other expressions and buffers.

    Args:
      stmt: `Store`, `If`, `For`, or what `place` made of them.
      exprs: function of a list of expressions: the list to put in their place.
      buffers: function of a stored buffer: the one to put in its place.
    """
    match stmt:
        case Store():
            *index, value = exprs([*stmt.index, stmt.value])
            return Store(buffers(stmt.buffer), tuple(index), value, stmt.combine)
        case For():
            return For(stmt.axis, tuple(rewrite(s, exprs, buffers) for s in stmt.body))
        case If():
            pred, = exprs([stmt.pred])
            then = tuple(rewrite(s, exprs, buffers) for s in stmt.then)
            otherwise = tuple(rewrite(s, exprs, buffers) for s in stmt.otherwise)
            return If(pred, then, otherwise)
        case Let():
            return Let(*exprs([stmt.expr]))
        case Start() | Step():
            return type(stmt)(*exprs([stmt.reduce]))
    raise TypeError(f"cannot rewrite {stmt!r}")
