"""Python source as text: lines, parentheses, typed variables, typed constants; and of
a kernel all that is printed, and what stands above it."""

import os
import re
import textwrap
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ...compile.loops.scalars import BOOL, INDEX, storage_dtype, wide_dtype
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


# ---- what is printed for a kernel, and what stands above it


@dataclass(frozen=True)
class KernelSource:
    """One printed kernel.

    Attributes:
      name: of the function.
      text: its source, `def` line and all, without the comment above.
      comment: which lines of the user's program it computes.
      buffers: the `Buffer`s to call it with.
      locals: {variable: dtype name}.
      constants: the names of constants it uses.
      functions: the sources of those that it calls, if it is a region.
    """

    name: str
    text: str
    comment: str
    buffers: tuple
    locals: dict = field(repr=False)
    constants: tuple = ()
    functions = ()

    @property
    def body(self):
        """The text without the name: kernels with the same body are the same."""
        return self.text.partition("(")[2]

    @property
    def signature(self):
        """(dtype name, number of axes) of each argument."""
        given = self.buffers
        return tuple((storage_dtype(b.dtype).name, len(b.shape)) for b in given)


def param_text(name, buffer):
    """`x0: float32[3, 4]`: a parameter and what array it is; `()` for no axes."""
    shape = (":", *buffer.shape[1:]) if buffer.space == "table" else buffer.shape
    text = ", ".join(map(str, shape)) or "()"
    return f"{name}: {storage_dtype(buffer.dtype).name}[{text}]"


def source_comment(kernel):
    """The user's lines and the primitives that a kernel computes, as a comment."""
    lines = [
        f"# {os.path.basename(str(source))}: {source.text()}".rstrip(": ")[:WIDTH]
        for source in kernel.sources[:8]
    ]
    if len(kernel.sources) > 8:
        lines.append(f"# and {len(kernel.sources) - 8} more lines")
    names = dict.fromkeys(eqn.primitive.name for eqn in kernel.eqns)
    primitives = textwrap.wrap(", ".join(names), WIDTH - 2)[:4]
    return "\n".join([*lines, *("# " + line for line in primitives)])


def heading(name, buffers):
    """The `def` line, which says what each array is."""
    params = [param_text(name, buffer) for buffer, name in buffers.items()]
    return heading_lines(name, params)


def heading_lines(name, params):
    """A `def` line, or several."""
    line = f"def {name}({', '.join(params)}):"
    if len(line) <= WIDTH:
        return [line]
    return [f"def {name}(", *(f"    {param}," for param in params), "):"]
