"""One walk over placed statements, and an emitter for each target that it talks to.

    Walker(emitter).block(place(kernel.body))

The walker knows the loop IR: what is computed where, how totals begin and go on, which
operations are to be rewritten in plain ones.  The emitter knows one target: how a loop
is written there, or an addition.  A *value* is whatever the emitter makes of one: a
piece of Python, the name of an LLVM register.  A *cell* is a number that changes, such
as an accumulator.  An emitter has these methods:

    const(expr)                  a `Const` as a value
    op(name, expr, values)       an `Op`; `name` is that of the plain operation it is
    call(key, values)            a function that `scalar_form` described
    let(expr, value)             a value that is used again: -> a value
    load(buffer, index)          -> a value;  store(buffer, index, value)
    cell(dtype, value)           -> a cell;  get(cell) -> a value;  set(cell, value)
    loop(axis, extent)           a context manager around a body; gives the counter
    branch(condition)            one around the first case; gives `otherwise`, a
                                 function to call where the second one begins
    repeat()                     one around the test and the body of a `while`; gives
                                 `unless`, to call between them with the condition
    swap(buffer, buffer)         they exchange their storage
    reserve(table, rows)         make a table longer if it has fewer rows
    look(work)                   now and then, look for signals
    fail(condition, message)     if it is true, end with an OverflowError
    product(call, offsets)       of matrices: a `Call` and where in their buffers the
                                 result and the factors begin
    function(call, offsets)      one of the region's own: the same of what it is given
"""

import numpy as np

from ..compile.expressions import Const, Load, Op, as_index
from ..compile.loops import (
    Call,
    Fail,
    For,
    If,
    Let,
    Look,
    Reserve,
    Start,
    Step,
    Store,
    Swap,
    While,
    combine,
    start_values,
)
from ..compile.scalar_forms import FLOAT32, HALVES, Param, plain_name, scalar_form

UINT16 = np.dtype("uint16")

# Sums and products of floats may be regrouped: without that they run one at a time.
any_order = {"add": "add_any_order", "mul": "multiply_any_order"}


def is_float(dtype):
    """Whether a dtype is a float, of 16 bits or more."""
    return dtype.kind == "f" or dtype.name in HALVES


class Walker:
    """Tells an emitter what statements say.

    Attributes:
      values: {expression: its value} where one has been computed already.
      cells: {Reduce: the cells of its accumulators}.
    """

    def __init__(self, emitter):
        self.emitter = emitter
        self.values = {}
        self.cells = {}

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
            return self.load(expr.buffer, [self.value(i) for i in expr.index])
        if expr in self.cells:
            # What a total is now; it changes from step to step.
            return self.emitter.get(self.cells[expr][0])
        if expr.name == "item":
            reduce, which = expr.args
            return self.emitter.get(self.cells[reduce][which.value])
        return self.operation(expr, [self.value(arg) for arg in expr.args])

    def operation(self, expr, values):
        """The value of an `Op` of values: a plain operation, or a function's."""
        if expr.name == "convert":
            return self.convert(expr, *values)
        if expr.name == "bitcast":
            return self.bitcast(expr, *values)
        if scalar_form(expr) is None:
            return self.emitter.op(plain_name(expr), expr, values)
        key = plain_name(expr), tuple(arg.dtype for arg in expr.args), expr.dtype
        return self.emitter.call(key, values)

    # The 16-bit floats are stored as their bits, and everywhere else are float32s.

    def decoded(self, dtype, value):
        return self.emitter.call((f"{dtype.name}_value", (UINT16,), FLOAT32), [value])

    def encoded(self, dtype, value):
        return self.emitter.call((f"{dtype.name}_bits", (FLOAT32,), UINT16), [value])

    def load(self, buffer, index):
        value = self.emitter.load(buffer, index)
        if buffer.dtype.name in HALVES:
            return self.decoded(buffer.dtype, value)
        return value

    def convert(self, expr, value):
        """Between 16-bit floats and float32 nothing happens but the rounding."""
        (arg,), target = expr.args, expr.dtype
        if target.name in HALVES:
            if arg.dtype != FLOAT32:
                param = Param("x", arg.dtype)
                wide = Op("convert", (param,), FLOAT32)
                value = self.operation(wide, [value])
            return self.decoded(target, self.encoded(target, value))
        if arg.dtype.name in HALVES:
            if target == FLOAT32:
                return value
            arg = Param("x", FLOAT32)
        return self.emitter.op("convert", Op("convert", (arg,), target), [value])

    def bitcast(self, expr, value):
        source, target = expr.args[0].dtype, expr.dtype
        if source.name in HALVES:
            value = self.encoded(source, value)
            expr = Op("bitcast", (Param("x", UINT16),), target)
        if target.name in HALVES:
            if source.kind == "i":
                expr = Op("bitcast", expr.args, UINT16)
                value = self.emitter.op("bitcast", expr, [value])
            return self.decoded(target, value)
        return self.emitter.op("bitcast", expr, [value])

    # Statements.

    def loop(self, stmt):
        extent = stmt.axis.extent
        if not isinstance(extent, int):
            extent = self.value(extent)
        with self.emitter.loop(stmt, extent) as counter:
            self.values[stmt.axis] = counter
            self.block(stmt.body)

    def let(self, stmt):
        self.values[stmt.expr] = self.emitter.let(stmt.expr, self.value(stmt.expr))

    def start(self, stmt):
        self.cells[stmt.reduce] = [
            self.emitter.cell(c.dtype, self.value(c)) for c in start_values(stmt.reduce)
        ]

    def step(self, stmt):
        """Get the accumulators, combine them with the bodies' values, set them."""
        reduce, cells = stmt.reduce, self.cells[stmt.reduce]
        news = [Param(f"new{i}", body.dtype) for i, body in enumerate(reduce.bodies)]
        olds = [Param(f"old{i}", body.dtype) for i, body in enumerate(reduce.bodies)]
        for param, body in zip(news, reduce.bodies, strict=True):
            self.values[param] = self.emitter.let(body, self.value(body))
        for param, cell in zip(olds, cells, strict=True):
            self.values[param] = self.emitter.get(cell)
        name = reduce.op
        if is_float(reduce.dtype) and all(a.kind == "reduce" for a in reduce.axes):
            name = any_order.get(name, name)
        combined = [
            self.emitter.let(expr, self.value(expr))
            for expr in combine(name, olds, news)
        ]
        for cell, value in zip(cells, combined, strict=True):
            self.emitter.set(cell, value)

    def store(self, stmt):
        buffer = stmt.buffer
        index = [self.value(i) for i in stmt.index]
        value = self.value(stmt.value)
        if stmt.combine:
            old, new = Param("old", buffer.dtype), Param("new", buffer.dtype)
            self.values[old], self.values[new] = self.load(buffer, index), value
            value = self.value(Op(stmt.combine, (old, new), buffer.dtype))
        if buffer.dtype.name in HALVES:
            value = self.encoded(buffer.dtype, value)
        self.emitter.store(buffer, index, value)

    def choice(self, stmt):
        with self.emitter.branch(self.value(stmt.pred)) as otherwise:
            self.block(stmt.then)
            if stmt.otherwise:
                otherwise()
                self.block(stmt.otherwise)

    def repeat(self, stmt):
        with self.emitter.repeat() as unless:
            outside = dict(self.values)
            for before in stmt.test:
                walkers[type(before)](self, before)
            unless(self.value(stmt.cond))
            self.block(stmt.body)
            self.values = outside

    def swap(self, stmt):
        self.emitter.swap(stmt.first, stmt.second)

    def reserve(self, stmt):
        self.emitter.reserve(stmt.table, self.value(stmt.rows))

    def look(self, stmt):
        self.emitter.look(self.value(stmt.work))

    def fail(self, stmt):
        self.emitter.fail(self.value(stmt.pred), stmt.message)

    def call(self, stmt):
        views = stmt.attrs.get("given") or (*stmt.outputs, *stmt.inputs)
        offsets = [self.value(as_index(getattr(v, "offset", 0))) for v in views]
        call = dict(matmul=self.emitter.product, function=self.emitter.function)
        call[stmt.routine](stmt, offsets)


# type of a statement -> function(walker, statement).
walkers = {
    For: Walker.loop,
    Let: Walker.let,
    Start: Walker.start,
    Step: Walker.step,
    Store: Walker.store,
    If: Walker.choice,
    While: Walker.repeat,
    Swap: Walker.swap,
    Reserve: Walker.reserve,
    Look: Walker.look,
    Fail: Walker.fail,
    Call: Walker.call,
}
