"""Python source as text: lines, parentheses, typed variables, typed constants."""

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...compile.loops.scalars import BOOL, INDEX, wide_dtype
from ...trace.dtypes import short_dtype_name

WIDTH = 88


class SourceWriter:
    """Lines of Python, indented by `with writer.block("for i in range(3):"):`."""

    def __init__(self, depth=0):
        self.lines = []
        self.depth = depth

    def line(self, text=""):
        self.lines.append("    " * self.depth + text if text else "")

    def begin(self, head):
        """A line under which the next ones are indented."""
        self.line(head)
        self.depth += 1

    def end(self):
        """The end of these lines; `pass` if there are none."""
        if self.lines[-1].endswith(":"):
            self.line("pass")
        self.depth -= 1

    @contextmanager
    def block(self, head):
        self.begin(head)
        yield
        self.end()

    def text(self):
        return "\n".join(self.lines) + "\n"


def dtype_text(dtype):
    """`np.float32`; the types that NumPy does not have by their own name."""
    if dtype.kind == "O" or not hasattr(np, dtype.name):
        return dtype.name
    return "np.bool_" if dtype == BOOL else f"np.{dtype.name}"


# Precedence is as in Python's grammar: a part whose level is too low gets
# parentheses.
SELECT, NOT, COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(11)


@dataclass(frozen=True)
class Text:
    """A piece of source and how tightly it holds together."""

    text: str
    level: int = ATOM

    def at(self, level):
        """The text as part of an expression that needs at least this level."""
        return self.text if self.level >= level else f"({self.text})"

    def __str__(self):
        return self.text


# The longest parts that an operation may have before one gets a line of its own.
LONGEST = 56


class TypedWriter(SourceWriter):
    """Lines in which each variable has a type.

    Attributes:
      locals: {variable: dtype name}.
    """

    def __init__(self, depth=0):
        super().__init__(depth)
        self.counts, self.locals = Counter(), {}

    def fresh(self, prefix):
        """A new local name: i0, i1, ... are counters of loops, v0, v1, ... values."""
        self.counts[prefix] += 1
        return f"{prefix}{self.counts[prefix] - 1}"

    def assign(self, prefix, dtype, value):
        """`v0: float32 = value`: -> v0."""
        name = self.fresh(prefix)
        self.locals[name] = wide_dtype(dtype).name
        self.line(f"{name}: {self.locals[name]} = {value}")
        return Text(name)

    def shorter(self, expr, values):
        """The arguments of an operation; the longest in a variable if all are long."""
        parts = list(values)
        if sum(len(part.text) for part in parts) > LONGEST:
            longest = max(range(len(parts)), key=lambda i: len(parts[i].text))
            dtype = expr.args[longest].dtype
            parts[longest] = self.assign("v", dtype, parts[longest])
        return parts

    # A 16-bit float is stored as its bits, and computed with as a float32.

    def decode(self, dtype, value):
        return Text(f"{dtype.name}_value({value})")

    def encode(self, dtype, value):
        return Text(f"{dtype.name}_bits({value})")

    def round(self, dtype, value):
        return Text(f"round_{dtype.name}({value})")


class Constants:
    """The typed constants of a source file: `f32_0_5 = np.float32(0.5)`."""

    def __init__(self):
        self.names = {}
        self.definitions = {}

    def name(self, expr):
        """The name of a `Const`, which is as much of its value as fits a name."""
        if expr in self.names:
            return self.names[expr]
        dtype = wide_dtype(expr.dtype)
        if dtype == BOOL or (dtype == INDEX and abs(expr.value) < 2**31):
            return str(expr.value)
        value = str(dtype.type(expr.value))
        short = re.sub(r"\W", "_", value.removesuffix(".0").replace("-", "m"))
        name = f"{short_dtype_name(dtype)}_{short}".replace("__", "_")
        literal = f"np.{value}" if value in ("inf", "nan") else value
        literal = literal.replace("-inf", "-np.inf")
        while name in self.definitions:
            name += "_"
        self.names[expr] = name
        self.definitions[name] = f"np.{dtype.name}({literal})"
        return name
