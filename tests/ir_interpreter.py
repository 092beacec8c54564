"""Runs loop programs in plain Python, statement by statement: slow, and simple.

Scalar operations are the eval rules of the primitives of the same name, so that what
is tested with this is the loops and the indices.
"""


import dataclasses
import functools
import itertools

import numpy as np

from minijit.compile.loops import expressions, reductions, statements as loops
from minijit.compile.loops.expressions import as_index
from minijit.trace.array import ArrayImpl, aval_of, to_numpy
from minijit.trace.base.config import enable_x64
from minijit.trace.core import eval_rules


def run(program, *args, place=lambda body: body):
    """The results of a program, as a list of NumPy arrays.

    With `place`, kernels run statement by statement as it places them; without it,
    every expression is computed from scratch where it is stored.
    """
    memory = {}
    for buffer, value in zip(program.inputs, args, strict=True):
        memory[buffer] = np.array(value, buffer.dtype)
        assert memory[buffer].shape == buffer.shape
    memory |= dict(program.constants)
    for buffer in (*program.temps, *program.outputs):
        memory[buffer] = garbage(buffer)
    for stmt in program.body:
        if isinstance(stmt, loops.Call):
            call(stmt, memory, place)
        else:
            # Indices have 64 bits whatever the flag says.
            with enable_x64(True):
                if isinstance(stmt, loops.Region):
                    run_region(stmt, memory)
                else:
                    body = place(stmt.body)
                    stores = (s for s in loops.statements(body) if hasattr(s, "buffer"))
                    for buffer in {s.buffer for s in stores}:
                        if buffer.space == "cache":
                            memory[buffer] = garbage(buffer)
                    Run(memory).block(body)
    return [memory[buffer] for buffer in program.outputs]


def garbage(buffer):
    """Fresh memory that is not zero: nothing may rely on it."""
    return np.full(buffer.shape, 77).astype(buffer.dtype)


def run_region(region, memory):
    """A tape or union is, between regions, a list of the columns of its tables."""
    for tables in region.tables:
        if not tables.given:
            memory |= zip(tables.columns, memory[tables.buffer], strict=True)
    Run(memory).block(region.body)
    for tables in region.tables:
        if tables.given:
            memory[tables.buffer] = [memory[column] for column in tables.columns]


def call(stmt, memory, place):
    inputs = [strided(view, memory) for view in stmt.inputs]
    outputs = [strided(view, memory) for view in stmt.outputs]
    if stmt.routine == "matmul":
        results = [np.matmul(*inputs)]
    elif stmt.routine == "program":
        results = run(stmt.attrs["program"], *inputs, place=place)
    else:
        rule = eval_rules[stmt.attrs["primitive"]]
        arrays = [ArrayImpl(x.copy(), aval_of(x)) for x in inputs]
        results = rule(*arrays, **stmt.attrs["params"])
        if not stmt.attrs["primitive"].multiple_results:
            results = [results]
        results = map(to_numpy, results)
    for output, result in zip(outputs, results, strict=True):
        output[...] = result


def strided(view, memory):
    flat = memory[view.buffer].reshape(-1)
    strides = [s * flat.itemsize for s in view.strides]
    if 0 in view.shape:
        return np.zeros(view.shape, flat.dtype)
    base = flat[view.offset :]
    array = np.lib.stride_tricks.as_strided(base, view.shape, strides)
    assert array.size == 0 or view.offset < flat.size
    return array


@functools.cache
def eval_rule(name):
    """The eval rule of minijit's primitive of that name.

    Readers' primitives may have its name too, registered after it: a solution of
    chapter 2 has an `add`.
    """
    return next(rule for p, rule in eval_rules.items() if p.name == name)


def on_numpy(name):
    return lambda *args: to_numpy(eval_rule(name)(*map(np.asarray, args)))


def convert(expr, x):
    rule = eval_rule("convert_element_type")
    return to_numpy(rule(x, new_dtype=expr.dtype, weak_type=False))


by_hand = {
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "select": lambda c, x, y: x if c else y,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "lt": np.less,
    "ge": np.greater_equal,
    "round_even": np.round,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x),
    "logaddexp": np.logaddexp,
}


class Run:
    """One kernel at work.  Every axis and every placed expression has its value."""

    def __init__(self, memory):
        self.memory = memory
        self.values = {}

    def block(self, body):
        outside = dict(self.values)
        for stmt in body:
            getattr(self, type(stmt).__name__.lower())(stmt)
        # What is computed in a block means nothing after it, but for accumulators.
        self.values = {e: self.values[e] for e in outside}

    def let(self, stmt):
        assert stmt.expr not in self.values
        self.values[stmt.expr] = self.value(stmt.expr)

    def start(self, stmt):
        first = reductions.start_values(stmt.reduce)
        self.values[stmt.reduce] = [const.value for const in first]

    def step(self, stmt):
        reduce = stmt.reduce
        dtypes = [body.dtype for body in reduce.bodies]
        new = [expressions.Const(self.value(b), b.dtype) for b in reduce.bodies]
        olds = zip(self.values[reduce], dtypes, strict=True)
        old = [expressions.Const(v, d) for v, d in olds]
        combined = reductions.combine(reduce.op, old, new)
        self.values[reduce] = [self.value(e) for e in combined]

    def store(self, stmt):
        array = self.memory[stmt.buffer]
        where = tuple(int(self.value(i)) for i in stmt.index)
        assert all(0 <= i < n for i, n in zip(where, array.shape, strict=True)), stmt
        value = self.value(stmt.value)
        if stmt.combine:
            value = on_numpy(stmt.combine)(array[where], value)
        assert np.asarray(value).dtype == array.dtype or stmt.combine
        array[where] = value

    def on_while(self, stmt):
        outside = dict(self.values)
        while True:
            for before in stmt.test:
                getattr(self, type(before).__name__.lower())(before)
            if not self.value(stmt.cond):
                break
            self.block(stmt.body)
            self.values = dict(outside)
        self.values = outside

    def swap(self, stmt):
        a, b = stmt.first, stmt.second
        self.memory[a], self.memory[b] = self.memory[b], self.memory[a]

    def reserve(self, stmt):
        array, rows = self.memory[stmt.table], int(self.value(stmt.rows))
        if rows > len(array):
            longer = np.full((rows, *array.shape[1:]), 77).astype(array.dtype)
            longer[: len(array)] = array
            self.memory[stmt.table] = longer

    def look(self, stmt):
        assert self.value(stmt.work) >= 0

    def fail(self, stmt):
        if self.value(stmt.pred):
            raise OverflowError(stmt.message)

    def call(self, stmt):
        if stmt.routine == "function":
            function, memory = stmt.attrs["function"], dict(self.memory)
            pairs = list(zip(function.params, stmt.attrs["given"], strict=True))
            tables = [(p, x) for p, x in pairs if p.space == "table"]
            memory |= {param: self.memory[table] for param, table in tables}
            for param, view in pairs:
                if param.space == "table":
                    continue
                offset = int(self.value(as_index(view.offset)))
                view = dataclasses.replace(view, offset=offset)
                memory[param] = strided(view, self.memory)
            Run(memory).block(function.body)
            self.memory |= {table: memory[param] for param, table in tables}
            captured = [b for b in function.captures if b.space == "table"]
            self.memory |= {table: memory[table] for table in captured}
            return
        inputs, outputs = (
            [
                dataclasses.replace(v, offset=int(self.value(as_index(v.offset))))
                for v in views
            ]
            for views in (stmt.inputs, stmt.outputs)
        )
        stmt = dataclasses.replace(stmt, inputs=inputs, outputs=outputs)
        call(stmt, self.memory, None)

    def on_for(self, stmt):
        extent = stmt.axis.extent
        for i in range(extent if isinstance(extent, int) else int(self.value(extent))):
            self.values[stmt.axis] = np.int64(i)
            self.block(stmt.body)
        self.values.pop(stmt.axis, None)  # It may have run no step.

    def on_if(self, stmt):
        self.block(stmt.then if self.value(stmt.pred) else stmt.otherwise)

    def total(self, reduce):
        """The accumulators of a Reduce that has no place, after its steps so far."""
        ranges = [
            range(a.extent if a.kind == "reduce" else int(self.values[a]) + 1)
            for a in reduce.axes
        ]
        outside = dict(self.values)
        self.start(loops.Start(reduce))
        for steps in itertools.product(*ranges):
            self.values |= zip(reduce.axes, map(np.int64, steps), strict=True)
            self.step(loops.Step(reduce))
        totals, self.values = self.values[reduce], outside
        return totals

    def value(self, expr):
        """A scalar, as an array without axes of the expression's dtype."""
        if expr in self.values:
            value = self.values[expr]
            return value[0] if isinstance(value, list) else value
        if isinstance(expr, expressions.Const):
            return np.asarray(expr.value, expr.dtype)
        if isinstance(expr, expressions.Load):
            where = tuple(int(self.value(i)) for i in expr.index)
            array = self.memory[expr.buffer]
            assert all(0 <= i < n for i, n in zip(where, array.shape, strict=True))
            return np.asarray(array[where])
        if isinstance(expr, expressions.Reduce):
            return self.total(expr)[0]
        if expr.name == "item":
            reduce, which = expr.args
            totals = self.values.get(reduce) or self.total(reduce)
            return np.asarray(totals[which.value], expr.dtype)
        args = [self.value(e) for e in expr.args]
        if expr.name == "convert":
            return convert(expr, args[0])
        if expr.name == "bitcast":
            return np.asarray(args[0]).view(expr.dtype)
        with np.errstate(all="ignore"):
            function = by_hand.get(expr.name) or on_numpy(expr.name)
            result = np.asarray(function(*args))
        assert result.dtype == expr.dtype, (expr, result.dtype, expr.dtype)
        return result


setattr(Run, "for", Run.on_for)
setattr(Run, "if", Run.on_if)
setattr(Run, "while", Run.on_while)
