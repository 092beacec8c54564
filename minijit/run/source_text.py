"""Source as lines of text, and the typed constants that it uses."""

import re
from contextlib import contextmanager

from ..compile.scalars import BOOL, INDEX, wide_dtype
from ..trace.dtypes import short_dtype_name

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
