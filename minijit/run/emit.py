"""One walk over placed statements, and an emitter for each target that it talks to.

    Walker(emitter).block(place(kernel.body))

The walker knows the loop IR: what is computed where, how totals begin and go on.  The
emitter knows one target: how a loop is written there, or an addition.  A *value* is
whatever the emitter makes of one: a piece of Python, the name of an LLVM register.  A
*cell* is a number that changes, such as an accumulator.  An emitter has these methods:

    const(expr)                  a `Const` as a value
    op(expr, values)             an `Op` of values
    let(expr, value)             a value that is used again: -> a value
    load(buffer, index)          -> a value;  store(buffer, index, value)
    cell(dtype, value)           -> a cell;  get(cell) -> a value;  set(cell, value)
    loop(stmt, extent)           a context manager around a body; gives the counter
    branch(condition)            one around the first case; gives `otherwise`, a
                                 function to call where the second one begins
    decode(dtype, value)         a 16-bit float from its bits;  encode(dtype, value)
    round(dtype, value)          a float32 to one that is a 16-bit float too
"""

from ..compile.loops.expressions import Const, Load, Op
from ..compile.loops.statements import For, If, Let, Start, Step, Store
from ..compile.loops.reductions import combine, start_values
from ..compile.loops.scalars import is_half, wide_dtype

# Operations that mean something else for 16-bit floats.
# name -> function(walker, expr, value) -> the value of the operation.
conversions = {}

# Sums and products of floats may be regrouped: without that they run one at a time.
any_order = {"add": "add_any_order", "mul": "multiply_any_order"}


def total_only(reduce):
    """Whether nobody sees the steps of a total: those of a running total are seen."""
    return all(axis.kind == "reduce" for axis in reduce.axes)


# chapter 16
class Walker:
    """Tells an emitter what statements say.

    Attributes:
      values: {expression: its value} where one has been computed already.
      cells: {Reduce: the cells of its accumulators}.
    """

    def __init__(self, emitter):
        self.emitter, self.values, self.cells = emitter, {}, {}

    def block(self, body):
        """Walk over statements; what they computed means nothing after them."""
        outside = dict(self.values)
        for stmt in body:
            walkers[type(stmt)](self, stmt)
        self.values = outside

    def value(self, expr):
        """The value of an expression.  `place` nests a few deep, so this recurses."""
        if expr in self.values:
            return self.values[expr]
        if isinstance(expr, Const):
            return self.emitter.const(expr)
        if isinstance(expr, Load):
            return self.load(expr.buffer, self.index(expr))
        if expr in self.cells:
            # What a total is now; it changes from step to step.
            return self.emitter.get(self.cells[expr][0])
        if expr.name == "item":
            reduce, which = expr.args
            return self.emitter.get(self.cells[reduce][which.value])
        return self.operation(expr, [self.value(arg) for arg in expr.args])

    def operation(self, expr, values):
        """The value of an `Op` of values."""
        if expr.name in conversions:
            return conversions[expr.name](self, expr, *values)
        return self.emitter.op(expr, values)

    def index(self, access):
        return [self.value(i) for i in access.index]

    # The 16-bit floats are stored as their bits, and everywhere else are float32s.

    def load(self, buffer, index):
        value, dtype = self.emitter.load(buffer, index), buffer.dtype
        return self.emitter.decode(dtype, value) if is_half(dtype) else value

    def store(self, stmt):
        buffer, index = stmt.buffer, self.index(stmt)
        value = self.value(stmt.value)
        if stmt.combine:
            old = Load(buffer, stmt.index)
            expr = Op(stmt.combine, (old, stmt.value), buffer.dtype)
            value = self.operation(expr, [self.load(buffer, index), value])
        if is_half(buffer.dtype):
            value = self.emitter.encode(buffer.dtype, value)
        self.emitter.store(buffer, index, value)

    def let(self, stmt):
        self.values[stmt.expr] = self.emitter.let(stmt.expr, self.value(stmt.expr))

    def loop(self, stmt):
        extent = stmt.axis.extent
        extent = extent if isinstance(extent, int) else self.value(extent)
        with self.emitter.loop(stmt, extent) as counter:
            self.values[stmt.axis] = counter
            self.block(stmt.body)

    def choice(self, stmt):
        with self.emitter.branch(self.value(stmt.pred)) as otherwise:
            self.block(stmt.then)
            if stmt.otherwise:
                otherwise()
                self.block(stmt.otherwise)


def start(walker, stmt):
    """Make the cells of a total."""
    walker.cells[stmt.reduce] = [
        walker.emitter.cell(c.dtype, walker.value(c)) for c in start_values(stmt.reduce)
    ]


def step(walker, stmt):
    """Combine the cells of a total with the bodies' values."""
    reduce, cells = stmt.reduce, walker.cells[stmt.reduce]
    if len(cells) > 1:
        step_of_several(walker, reduce, cells)
        return
    name = reduce.op
    if wide_dtype(reduce.dtype).kind == "f" and total_only(reduce):
        name = any_order.get(name, name)
    total, = combine(name, (reduce,), reduce.bodies)
    walker.emitter.set(cells[0], walker.value(total))


# type of a statement -> function(walker, statement).
walkers = {Let: Walker.let, Store: Walker.store, For: Walker.loop, If: Walker.choice}
walkers |= {Start: start, Step: step}


# chapter 16, brought along
from ..compile.loops.expressions import as_index
from ..compile.loops.graphs import postorder
from ..compile.loops.scalars import FLOAT32, UINT16
from ..compile.numbers.scalar_forms import form_of


def step_of_several(walker, reduce, cells):
    """Both accumulators change by what both were: a complex product's two parts; or an
    extreme and its index, on one condition."""
    for body in reduce.bodies:
        walker.values[body] = walker.emitter.let(body, walker.value(body))
    olds = [
        Op("item", (reduce, as_index(k)), body.dtype)
        for k, body in enumerate(reduce.bodies)
    ]
    news = combine(reduce.op, olds, reduce.bodies)
    for expr in news if reduce.op == "times" else news[0].args[:1]:
        walker.values[expr] = walker.emitter.let(expr, walker.value(expr))
    for cell, new in zip(cells, news, strict=True):
        walker.emitter.set(cell, walker.value(new))


def stand_in(expr, dtype):
    """An expression of another dtype, for an `Op` whose value is known already."""
    return Op("stand_in", (expr,), dtype)


def convert(walker, expr, value):
    """Between 16-bit floats and float32 nothing happens but the rounding."""
    (arg,), target, emitter = expr.args, expr.dtype, walker.emitter
    if is_half(target):
        if wide_dtype(arg.dtype) != FLOAT32:
            value = emitter.op(Op("convert", (arg,), FLOAT32), [value])
        return emitter.round(target, value)
    if is_half(arg.dtype):
        if target == FLOAT32:
            return value
        expr = Op("convert", (stand_in(arg, FLOAT32),), target)
    return emitter.op(expr, [value])


def bitcast(walker, expr, value):
    """The bits of a 16-bit float are at hand only where it is stored."""
    (arg,), target, emitter = expr.args, expr.dtype, walker.emitter
    if is_half(arg.dtype):
        value, arg = emitter.encode(arg.dtype, value), stand_in(arg, UINT16)
    if is_half(target):
        if arg.dtype != UINT16:
            value = emitter.op(Op("bitcast", (arg,), UINT16), [value])
        return emitter.decode(target, value)
    return emitter.op(Op("bitcast", (arg,), target), [value])


conversions |= {"convert": convert, "bitcast": bitcast}


def computed(emitter, key, values):
    """Tell an emitter what a function's form says of some values: -> the result's."""
    params, result = form_of(*key)
    walker = Walker(emitter)
    walker.values |= zip(params, values, strict=True)
    for expr in postorder([result]):
        walker.values[expr] = walker.value(expr)
    return walker.values[result]


# chapter 21
from ..compile.loops.statements import Call, Fail, Look, Reserve, Swap, While

# The statements of loops and branches with whole nests inside.  For these an emitter
# has besides:
#
#   repeat()                   a context manager around the test and the body of a
#                              `while`; gives `unless`, to call between them with the
#                              condition
#   swap(buffer, buffer)       they exchange their storage
#   reserve(table, rows)       make a table longer if it has fewer rows
#   look(work)                 now and then, look for signals
#   fail(condition, message)   if it is true, end with an OverflowError
#   product(call, offsets)     of matrices: a `Call` and where in their buffers the
#                              result and the factors begin
#   function(call, offsets)    one of the region's own: the same of what it is given
#   lapack(call, offsets)      a routine that takes addresses: the same


def walk_while(walker, stmt):
    """The test is walked over within the loop; the body may use what it computed."""
    with walker.emitter.repeat() as unless:
        outside = dict(walker.values)
        for before in stmt.test:
            walkers[type(before)](walker, before)
        unless(walker.value(stmt.cond))
        walker.block(stmt.body)
        walker.values = outside


def walk_call(walker, stmt):
    """A product of matrices, a routine of LAPACK, or a function of the region."""
    views = stmt.attrs.get("given") or (*stmt.outputs, *stmt.inputs)
    offsets = [walker.value(as_index(getattr(v, "offset", 0))) for v in views]
    emitter = walker.emitter
    calls = dict(
        matmul=emitter.product, lapack=emitter.lapack, function=emitter.function
    )
    calls[stmt.routine](stmt, offsets)


walkers |= {
    While: walk_while,
    Call: walk_call,
    Swap: lambda walker, stmt: walker.emitter.swap(stmt.first, stmt.second),
    Reserve: lambda walker, stmt: (
        walker.emitter.reserve(stmt.table, walker.value(stmt.rows))
    ),
    Look: lambda walker, stmt: walker.emitter.look(walker.value(stmt.work)),
    Fail: lambda walker, stmt: (
        walker.emitter.fail(walker.value(stmt.pred), stmt.message)
    ),
}
