"""The printer of kernels within printed loops: see `native_control`."""

from contextlib import contextmanager

import numpy as np

from ..compile.expressions import Const, Load, Op
from ..compile.loops import For, If, Let, Start, Step, Store
from ..compile.reductions import start_values
from ..compile.scalars import wide_dtype
from .emit import any_order
from .python_emitter import operations
from .source_text import LONGEST, SourceWriter, Text

HALVES = ("float16", "bfloat16")


class LoopWriter(SourceWriter):
    """Lines of Python, indented by `with writer.indented():`."""

    @contextmanager
    def indented(self):
        self.depth += 1
        yield
        self.depth -= 1


def print_convert(expr, x):
    """Between 16-bit floats and float32 nothing happens but the rounding."""
    source, target = expr.args[0].dtype, expr.dtype
    if target.name in HALVES:
        wide = x.text if source == np.float32 else f"to_float32({x.text})"
        return Text(f"round_{target.name}({wide})")
    if source.name in HALVES and target == np.float32:
        return x
    return Text(f"to_{target.name}({x.text})")


def print_bitcast(expr, x):
    """Bits of one type read as another; the 16-bit floats are kept as float32."""
    source, target = expr.args[0].dtype, expr.dtype
    if source.name in HALVES:
        x = Text(f"{source.name}_bits({x.text})")
    if target.name in HALVES:
        return Text(f"{target.name}_value(bits_uint16({x.text}))")
    return Text(f"bits_{target.name}({x.text})")


def printed(expr, *parts):
    """The Text of an `Op`."""
    special = {"convert": print_convert, "bitcast": print_bitcast}
    return (special.get(expr.name) or operations[expr.name])(expr, *parts)


class KernelPrinter:
    """Prints one kernel: statement by statement, as `place` put them."""

    names: dict

    def fresh(self, prefix, dtype=None):
        """A new local name, of a dtype unless it is a loop's counter."""
        name = f"{prefix}{self.counts[prefix]}"
        self.counts[prefix] += 1
        if dtype is not None:
            self.locals[name] = wide_dtype(dtype).name
        return name

    def assign(self, prefix, expr_dtype, text):
        """Print `v0: float32 = text`: -> the name."""
        name = self.fresh(prefix, expr_dtype)
        self.writer.line(f"{name}: {self.locals[name]} = {text}")
        return name

    def block(self, body):
        """Print statements.  Names that they give are known to them only."""
        outside = self.names
        self.names = dict(outside)
        for stmt in body:
            printers[type(stmt)](self, stmt)
        self.names = outside

    def text(self, expr):
        """An expression as Text.  `place` nests only a few deep, so this recurses."""
        if expr in self.names:
            return Text(self.names[expr])
        if isinstance(expr, Const):
            name = self.constants.name(expr)
            if name in self.constants.definitions:
                self.used[name] = None
            return Text(name)
        if isinstance(expr, Load):
            return self.load(expr.buffer, expr.index)
        if expr.name == "item":
            reduce, k = expr.args
            return Text(self.totals[reduce][k.value])
        parts = [self.text(e) for e in expr.children()]
        if sum(len(part.text) for part in parts) > LONGEST:
            longest = max(range(len(parts)), key=lambda i: len(parts[i].text))
            dtype = expr.children()[longest].dtype
            parts[longest] = Text(self.assign("v", dtype, parts[longest].text))
        return printed(expr, *parts)

    def element(self, buffer, index):
        """`x0[i0, i1]`; of an array without axes `x0[()]`."""
        index = ", ".join(self.text(i).text for i in index) or "()"
        return f"{self.buffers[buffer]}[{index}]"

    def load(self, buffer, index):
        element = self.element(buffer, index)
        if buffer.dtype.name in HALVES:
            return Text(f"{buffer.dtype.name}_value({element})")
        return Text(element)

    def loop(self, stmt):
        name = self.fresh("k" if stmt.axis.kind == "reduce" else "i")
        self.names[stmt.axis] = name
        self.writer.line(f"for {name} in range({self.extent(stmt)}):")
        with self.writer.indented():
            self.block(stmt.body)

    def let(self, stmt):
        """`v0: float32 = ...`, unless it would only be a second name for a value.

        A total changes from step to step, so what it is now does need a name.
        """
        expr, text = stmt.expr, self.text(stmt.expr).text
        second = text.isidentifier() and not text.startswith("r")
        self.names[expr] = text if second else self.assign("v", expr.dtype, text)

    def start(self, stmt):
        """The accumulators of a total before its loops."""
        reduce, names = stmt.reduce, []
        for value, body in zip(start_values(reduce), reduce.bodies, strict=True):
            names.append(self.assign("r", body.dtype, self.text(value).text))
        self.names[reduce] = names[0]
        self.totals[reduce] = names

    def step(self, stmt):
        """One step of a total: `r0 = r0 + v1`."""
        reduce = stmt.reduce
        if len(reduce.bodies) > 1:
            self.step_of_argmax(reduce)
            return
        old, new = Text(self.names[reduce]), self.text(reduce.bodies[0])
        name = reduce.op
        free_order = all(axis.kind == "reduce" for axis in reduce.axes)
        if free_order and wide_dtype(reduce.dtype).kind == "f":
            name = any_order.get(name, name)
        expr = Op(name, (reduce, *reduce.bodies), reduce.dtype)
        self.writer.line(f"{old.text} = {printed(expr, old, new).text}")

    def step_of_argmax(self, reduce):
        """The first of several equal values stays, and the first NaN stays for good."""
        old, old_index = self.totals[reduce]
        new, new_index = (self.text(body).text for body in reduce.bodies)
        if not new.isidentifier():
            new = self.assign("v", reduce.dtype, new)
        better = f"{new} {'>' if reduce.op == 'argmax' else '<'} {old}"
        if reduce.dtype.kind not in "iub":
            better += f" or ({new} != {new} and {old} == {old})"
        self.writer.line(f"if {better}:")
        with self.writer.indented():
            self.writer.line(f"{old} = {new}")
            self.writer.line(f"{old_index} = {new_index}")

    def store(self, stmt):
        buffer, value = stmt.buffer, self.text(stmt.value)
        if stmt.combine:
            old = Load(buffer, stmt.index)
            expr = Op(stmt.combine, (old, stmt.value), buffer.dtype)
            old_text = self.load(buffer, stmt.index)
            value = printed(expr, old_text, value)
        text = value.text
        if buffer.dtype.name in HALVES:
            text = f"{buffer.dtype.name}_bits({text})"
        self.writer.line(f"{self.element(buffer, stmt.index)} = {text}")

    def extent(self, stmt):
        """How often a loop runs."""
        n = stmt.axis.extent
        return str(n) if isinstance(n, int) else self.text(n).text

    def choice(self, stmt):
        self.writer.line(f"if {self.text(stmt.pred).text}:")
        with self.writer.indented():
            self.block(stmt.then)
        if stmt.otherwise:
            self.writer.line("else:")
            with self.writer.indented():
                self.block(stmt.otherwise)


printers = {
    For: KernelPrinter.loop,
    Let: KernelPrinter.let,
    Start: KernelPrinter.start,
    Step: KernelPrinter.step,
    Store: KernelPrinter.store,
    If: KernelPrinter.choice,
}


