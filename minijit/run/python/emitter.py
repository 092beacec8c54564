"""An emitter that prints Python: what a person would have written by hand.

    def kernel_0(x0: float32[3, 4], x1: float32[3, 4], y0: float32[3, 4]):
        for i0 in range(3):
            for i1 in range(4):
                y0[i0, i1] = np.sin(x0[i0, i1]) * x1[i0, i1]

It is ordinary Python on NumPy scalars.  What NumPy does differently from JAX it takes
from `scalar_math`.  Variables carry their type (`v0: uint8 = ...`): Python ignores it,
and numba is told: in `uint8` a sum wraps around without a cast.
"""

from contextlib import contextmanager

from ...compile.loops.expressions import Const
from ...compile.loops.kernel_buffers import buffer_names, local_buffers
from ...compile.loops.scalars import BOOL, INDEX, storage_dtype
from ...compile.memory.complex_pairs import in_pairs
from ...compile.schedule.place import placed
from ...compile.schedule.placing_rules import sure
from ..emit import Walker
from .source_text import AND, COMPARE, OR, PRODUCT, SELECT, SHIFT, SUM, UNARY, XOR
from .source_text import NOT, KernelSource, Text, TypedWriter, dtype_text
from .source_text import heading, source_comment

# operations[name](expr, *parts): the Text of an `Op`, with its arguments as Texts.
operations = {}

# The operations that are an operator of Python's: its symbol and its level.
operators = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "floordiv": ("//", PRODUCT),
    "mod": ("%", PRODUCT),
    "and": ("&", AND),
    "or": ("|", OR),
    "xor": ("^", XOR),
    "eq": ("==", COMPARE),
    "ne": ("!=", COMPARE),
    "lt": ("<", COMPARE),
    "le": ("<=", COMPARE),
    "gt": (">", COMPARE),
    "ge": (">=", COMPARE),
}
# Those that are a function of NumPy's of the same name.
numpy_names = "exp expm1 log log1p sin cos tanh sqrt floor ceil".split()
# Those that are a function of the library's own.
own_functions = {"max": "maximum", "min": "minimum", "add_any_order": "add_any_order"}


def infix(symbol, level):
    """`x + y`.  On the right, parentheses stand around the same level already."""
    left = level + 1 if level == COMPARE else level
    return lambda expr, x, y: Text(f"{x.at(left)} {symbol} {y.at(level + 1)}", level)


def call(function):
    """`np.sin(x)`."""
    return lambda expr, *parts: Text(f"{function}({', '.join(map(str, parts))})")


operations |= {name: infix(*written) for name, written in operators.items()}
operations |= {name: call(f"np.{name}") for name in numpy_names}
operations |= {name: call(function) for name, function in own_functions.items()}
operations |= {
    "neg": lambda expr, x: Text(f"-{x.at(UNARY)}", UNARY),
    "convert": lambda expr, x: Text(f"to_{expr.dtype.name}({x})"),
}


def print_select(expr, condition, if_true, if_false):
    a, c, b = (part.at(NOT) for part in (if_true, condition, if_false))
    return Text(f"{a} if {c} else {b}", SELECT)


operations |= {"select": print_select}


class PythonEmitter(TypedWriter):
    """Prints the body of one function; a value is a `Text`.

    Attributes:
      arrays: {buffer: the name of its array}.
      constants: the `Constants` of its file; used: the names of those it uses.
      fixed: the names of what never changes, and so needs no second name.
    """

    def __init__(self, arrays, constants):
        super().__init__(depth=1)
        self.arrays, self.constants = arrays, constants
        self.used, self.fixed = {}, set()

    def const(self, expr):
        name = self.constants.name(expr)
        if name in self.constants.definitions:
            self.used[name] = None
        self.fixed.add(name)
        return Text(name)

    def op(self, expr, values):
        return operations[expr.name](expr, *self.shorter(expr, values))

    def let(self, expr, value):
        if value.text in self.fixed:
            return value
        name = self.assign("v", expr.dtype, value)
        self.fixed.add(name.text)
        return name

    def own(self, buffer):
        """An array that is there only while this runs."""
        name = self.arrays[buffer] = self.fresh("t")
        dtype = dtype_text(storage_dtype(buffer.dtype))
        self.line(f"{name} = np.empty({buffer.shape}, {dtype})")

    def element(self, buffer, index):
        """`x0[i0, i1]`; of an array without axes `x0[()]`."""
        return f"{self.arrays[buffer]}[{', '.join(map(str, index)) or '()'}]"

    def load(self, buffer, index):
        return Text(self.element(buffer, index))

    def store(self, buffer, index, value):
        self.line(f"{self.element(buffer, index)} = {value}")

    def cell(self, dtype, value):
        return self.assign("r", dtype, value)

    def get(self, cell):
        return cell

    def set(self, cell, value):
        self.line(f"{cell} = {value}")

    @contextmanager
    def loop(self, stmt, extent):
        counter = self.fresh("k" if stmt.axis.kind == "reduce" else "i")
        self.fixed.add(counter)
        with self.block(f"for {counter} in range({extent}):"):
            yield Text(counter)

    @contextmanager
    def branch(self, condition):
        def otherwise():
            self.end()
            self.begin("else:")

        with self.block(f"if {condition}:"):
            yield otherwise


def print_kernel(kernel, name, constants):
    """Print one kernel: -> `KernelSource`.

    Args:
      constants: the `Constants` of the file.
    """
    body = in_pairs(placed(kernel.body))
    arrays = buffer_names(body)
    writer = PythonEmitter(dict(arrays), constants)
    for buffer in local_buffers(body):
        writer.own(buffer)
    Walker(writer).block(body)
    return KernelSource(
        name,
        "\n".join(heading(name, arrays) + writer.lines) + "\n",
        source_comment(kernel),
        tuple(arrays),
        writer.locals,
        tuple(writer.used),
    )


def arithmetic(symbol, level, wrapping):
    """An operator; the function where an int64 may overflow: Python's int grows."""
    plain, function = infix(symbol, level), call(wrapping)

    def row(expr, x, y):
        overflows = expr.dtype == INDEX and not sure(expr)
        return function(expr, x, y) if overflows else plain(expr, x, y)

    return row


wrapping = dict(add="add_wrapping", sub="subtract_wrapping", mul="multiply_wrapping")
operations |= {n: arithmetic(*operators[n], name) for n, name in wrapping.items()}


def print_not(expr, x):
    """`not` for a bool, because ~True is -2 for Python's own; `~` for integers."""
    if expr.dtype == BOOL:
        return Text(f"not {x.at(NOT)}", NOT)
    return Text(f"~{x.at(UNARY)}", UNARY)


operations |= {"not": print_not}


def by_kind(floats, integers):
    """A row for floats and one for integers."""
    return lambda expr, *parts: (
        integers if expr.dtype.kind in "iu" else floats
    )(expr, *parts)


operations |= {
    "div": by_kind(infix("/", PRODUCT), call("divide")),
    "rem": by_kind(call("np.fmod"), call("remainder")),
    "abs": lambda expr, x: x if expr.dtype.kind == "u" else call("abs")(expr, x),
    "pow": call("power"),
    "round_even": call("np.rint"),
    "is_finite": call("np.isfinite"),
    "copysign": call("np.copysign"),
}

# Those that NumPy calls `arcsin`, and so on.
inverse = "sin cos tan sinh cosh tanh tan2".split()
operations |= {f"a{name}": call(f"np.arc{name}") for name in inverse}
more_names = "exp2 tan sinh cosh cbrt nextafter logaddexp".split()
operations |= {name: call(f"np.{name}") for name in more_names}

operations |= {name: call(name) for name in ("sign", "multiply_any_order")}


def print_shift(name, symbol, kinds):
    """An operator where the count is known to be in range, else the function."""

    def row(expr, x, y):
        count = expr.args[1]
        known = isinstance(count, Const) and 0 <= count.value < 8 * expr.dtype.itemsize
        # A small int64 may be an int of Python's, and those grow.
        if known and expr.dtype.kind in kinds and expr.dtype != INDEX:
            return Text(f"{x.at(SHIFT)} {symbol} {y.at(SUM)}", SHIFT)
        return Text(f"{name}({x}, {y})")

    return row


operations |= {
    "shift_left": print_shift("shift_left", "<<", "iu"),
    "shift_right_logical": print_shift("shift_right_logical", ">>", "u"),
    "shift_right_arithmetic": print_shift("shift_right_arithmetic", ">>", "i"),
}
