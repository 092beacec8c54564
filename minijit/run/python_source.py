"""Print a loop program as Python.

    print(print_program(lower(make_jaxpr(lambda x, y: sin(x) * y)(x, y))).text)

    def kernel_0(x0: float32[3, 4], x1: float32[3, 4], y0: float32[3, 4]):
        for i0 in range(3):
            for i1 in range(4):
                y0[i0, i1] = np.sin(x0[i0, i1]) * x1[i0, i1]

    def run_main(in0, in1):
        out0 = np.empty((3, 4), np.float32)
        kernel_0(in0, in1, out0)
        return (out0,)

It is ordinary Python: kernels work on NumPy scalars, one at a time, and what NumPy does
differently from JAX they take from `scalar_math`.  So it runs as it is, slowly, and
compiled by numba it runs fast.  Local variables carry their type (`v0: uint8 = ...`),
which Python ignores and numba is told: in `uint8` a sum wraps around without a cast.
"""

import os
import re
import textwrap
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ..compile.expressions import Const, Load, Op, postorder
from ..compile.loops import (
    For,
    If,
    Kernel,
    Let,
    Start,
    Step,
    Store,
    expressions,
    start_values,
    statements,
)
from ..compile.place import NEST, nestable, place, sure
from ..compile.scalars import BOOL, INDEX
from ..trace.dtypes import short_dtype_name
from .scalar_math import functions

WIDTH = 88
# How long an expression may grow before it gets a line of its own.
LONGEST = 56


class SourceWriter:
    """Lines of Python, indented by `with writer.indent():`."""

    def __init__(self):
        self.lines = []
        self.depth = 0

    def line(self, text=""):
        self.lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def indent(self):
        self.depth += 1
        yield
        self.depth -= 1

    def text(self):
        return "\n".join(self.lines) + "\n"


# Precedence, as in Python's grammar: a part whose level is too low gets parentheses.
SELECT, NOT, COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(11)


@dataclass(frozen=True)
class Text:
    """A piece of source and how tightly it holds together."""

    text: str
    level: int = ATOM

    def at(self, level):
        """The text as part of an expression that needs at least this level."""
        return self.text if self.level >= level else f"({self.text})"


# operations[name](expr, *parts): the Text of an `Op`, with its arguments as Texts.
operations = {}


def infix(symbol, level):
    """`x + y`.  On the right, parentheses stand around the same level already."""
    left = level + 1 if level == COMPARE else level
    return lambda expr, x, y: Text(f"{x.at(left)} {symbol} {y.at(level + 1)}", level)


def call(function):
    """`np.sin(x)`."""
    return lambda expr, *parts: Text(f"{function}({', '.join(p.text for p in parts)})")


def arithmetic(symbol, level, wrapping):
    """An operator; the function where an int64 may overflow."""
    plain = infix(symbol, level)

    def row(expr, x, y):
        if expr.dtype == INDEX and not sure(expr):
            return Text(f"{wrapping}({x.text}, {y.text})")
        return plain(expr, x, y)

    return row


operations |= {
    "add": arithmetic("+", SUM, "add_wrapping"),
    "sub": arithmetic("-", SUM, "subtract_wrapping"),
    "mul": arithmetic("*", PRODUCT, "multiply_wrapping"),
    "floordiv": infix("//", PRODUCT),
    "mod": infix("%", PRODUCT),
    "and": infix("&", AND),
    "or": infix("|", OR),
    "xor": infix("^", XOR),
    "eq": infix("==", COMPARE),
    "ne": infix("!=", COMPARE),
    "lt": infix("<", COMPARE),
    "le": infix("<=", COMPARE),
    "gt": infix(">", COMPARE),
    "ge": infix(">=", COMPARE),
}


def by_kind(**rows):
    """A row for floats, for signed and for unsigned integers."""
    kinds = {"f": "floating", "i": "signed", "u": "unsigned", "V": "floating"}
    return lambda expr, *parts: rows[kinds[expr.dtype.kind]](expr, *parts)


operations |= {
    "div": by_kind(
        floating=infix("/", PRODUCT),
        signed=call("divide"),
        unsigned=call("divide_unsigned"),
    ),
    "rem": by_kind(
        floating=call("np.fmod"),
        signed=call("remainder"),
        unsigned=call("remainder_unsigned"),
    ),
    "abs": by_kind(
        floating=call("abs"),
        signed=call("abs"),
        unsigned=lambda expr, x: x,
    ),
    "neg": lambda expr, x: Text(f"-{x.at(UNARY)}", UNARY),
    "max": call("maximum"),
    "min": call("minimum"),
    "pow": call("power"),
    "round_even": call("np.rint"),
    "asin": call("np.arcsin"),
    "acos": call("np.arccos"),
    "atan": call("np.arctan"),
    "asinh": call("np.arcsinh"),
    "acosh": call("np.arccosh"),
    "atanh": call("np.arctanh"),
    "atan2": call("np.arctan2"),
    "is_finite": call("np.isfinite"),
}

numpy_names = """
    exp exp2 expm1 log log1p sin cos tan sinh cosh tanh sqrt cbrt floor ceil nextafter
    logaddexp
""".split()
operations |= {name: call(f"np.{name}") for name in numpy_names}

own_names = "sign clamp add_any_order multiply_any_order".split()
operations |= {name: call(name) for name in own_names}


def print_not(expr, x):
    """`not` for a bool, because ~True is -2 for Python's own; `~` for integers."""
    if expr.dtype == BOOL:
        return Text(f"not {x.at(NOT)}", NOT)
    return Text(f"~{x.at(UNARY)}", UNARY)


def print_select(expr, condition, if_true, if_false):
    a, c, b = (part.at(NOT) for part in (if_true, condition, if_false))
    return Text(f"{a} if {c} else {b}", SELECT)


def print_shift(name, symbol, kinds):
    """An operator where the count is known to be in range, else the function."""

    def row(expr, x, y):
        count = expr.args[1]
        known = isinstance(count, Const) and 0 <= count.value < 8 * expr.dtype.itemsize
        # A small int64 may be an int of Python's, and those grow.
        if known and expr.dtype.kind in kinds and expr.dtype != INDEX:
            return Text(f"{x.at(SHIFT)} {symbol} {y.at(SUM)}", SHIFT)
        return Text(f"{name}({x.text}, {y.text})")

    return row


operations |= {
    "not": print_not,
    "select": print_select,
    "shift_left": print_shift("shift_left", "<<", "iu"),
    "shift_right_logical": print_shift("shift_right_logical", ">>", "u"),
    "shift_right_arithmetic": print_shift("shift_right_arithmetic", ">>", "i"),
}

# The 16-bit floats: stored as uint16, computed with as float32.
HALF = ("float16", "bfloat16")


def register_dtype(dtype):
    """The dtype in which a kernel computes with values of a dtype."""
    return np.dtype("float32") if dtype.name in HALF else dtype


def storage_dtype(dtype):
    """The dtype of a kernel's arrays for a dtype."""
    return np.dtype("uint16") if dtype.name in HALF else dtype


def print_convert(expr, x):
    """Between 16-bit floats and float32 nothing happens but the rounding."""
    source, target = expr.args[0].dtype, expr.dtype
    if target.name in HALF:
        wide = x.text if source == np.float32 else f"to_float32({x.text})"
        return Text(f"round_{target.name}({wide})")
    if source.name in HALF and target == np.float32:
        return x
    return Text(f"to_{target.name}({x.text})")


operations |= {"convert": print_convert}


class Constants:
    """The typed constants of a source file: `f32_0_5 = np.float32(0.5)`."""

    def __init__(self):
        self.names = {}
        self.definitions = {}

    def name(self, expr):
        """The name of a `Const`, which is as much of its value as fits a name."""
        if expr in self.names:
            return self.names[expr]
        dtype = register_dtype(expr.dtype)
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
      numbers: the `Const`s to call it with, before the buffers.
    """

    name: str
    text: str
    comment: str
    buffers: tuple
    locals: dict = field(repr=False)
    constants: tuple = ()
    numbers: tuple = ()

    @property
    def body(self):
        """The text without the name: kernels with the same body are the same."""
        return self.text.partition("(")[2]

    @property
    def signature(self):
        """(dtype name, number of axes) of each argument; of a number (dtype name,)."""
        arrays = ((storage_dtype(b.dtype).name, len(b.shape)) for b in self.buffers)
        return (*((register_dtype(c.dtype).name,) for c in self.numbers), *arrays)


# By the kind of their dtype, numbers that may be arguments, and the operations that are
# as fast if one of their numbers is known only when they run.
offsets = {"i": {"add", "sub", "lt", "le", "gt", "ge", "eq", "ne", "select"}}
factors = dict.fromkeys("fV", {*offsets["i"], "mul", "convert"})


class KernelPrinter:
    """Prints one kernel: statement by statement, as `place` put them.

    Numbers that `lift` names by kind and operation are arguments: kernels that differ
    in these are then the same.
    """

    def __init__(self, kernel, name, constants, lift=()):
        self.constants = constants
        self.names = {}
        self.totals = {}
        self.counts = Counter()
        self.locals = {}
        self.used = {}
        self.lift, self.numbers = lift, {}
        self.body = place(kernel.body, NEST, nestable)
        self.buffers = buffer_names(self.body)
        self.writer = SourceWriter()
        with self.writer.indent():
            self.block(self.body)
        self.writer.lines[:0] = self.heading(name)

    def heading(self, name):
        """The `def` line, which says what each array is."""
        params = [
            f"{argument}: {register_dtype(number.dtype).name}"
            for number, argument in self.numbers.items()
        ]
        for buffer, argument in self.buffers.items():
            dtype, shape = storage_dtype(buffer.dtype).name, shape_text(buffer.shape)
            params.append(f"{argument}: {dtype}[{shape}]")
        line = f"def {name}({', '.join(params)}):"
        if len(line) <= WIDTH:
            return [line]
        return [f"def {name}(", *(f"    {param}," for param in params), "):"]

    def part(self, expr, user=None):
        """An expression as Text, as a part of another one or as an index."""
        if not isinstance(expr, Const) or expr.dtype.kind not in self.lift:
            return self.text(expr)
        if user is not None and user.name not in self.lift[expr.dtype.kind]:
            return self.text(expr)
        if expr not in self.numbers:
            self.numbers[expr] = self.fresh("n")
        return Text(self.numbers[expr])

    def fresh(self, prefix, dtype=None):
        """A new local name, of a dtype unless it is a loop's counter."""
        name = f"{prefix}{self.counts[prefix]}"
        self.counts[prefix] += 1
        if dtype is not None:
            self.locals[name] = register_dtype(dtype).name
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
        parts = [self.part(e, expr) for e in expr.children()]
        if sum(len(part.text) for part in parts) > LONGEST:
            longest = max(range(len(parts)), key=lambda i: len(parts[i].text))
            dtype = expr.children()[longest].dtype
            parts[longest] = Text(self.assign("v", dtype, parts[longest].text))
        return operations[expr.name](expr, *parts)

    def element(self, buffer, index):
        """`x0[i0, i1]`; of an array without axes `x0[()]`."""
        index = ", ".join(map(self.index, index)) or "()"
        return f"{self.buffers[buffer]}[{index}]"

    def index(self, expr):
        """An index; numba has to be told that one with an argument is not negative."""
        text = self.part(expr).text
        if any(e in self.numbers for e in postorder([expr], self.names)):
            return f"np.uint64({text})"
        return text

    def load(self, buffer, index):
        element = self.element(buffer, index)
        if buffer.dtype.name in HALF:
            return Text(f"{buffer.dtype.name}_value({element})")
        return Text(element)

    def loop(self, stmt):
        name = self.fresh("k" if stmt.axis.kind == "reduce" else "i")
        self.names[stmt.axis] = name
        self.writer.line(f"for {name} in range({self.extent(stmt)}):")
        with self.writer.indent():
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
        if free_order and register_dtype(reduce.dtype).kind == "f":
            name = any_order.get(name, name)
        expr = Op(name, (reduce, *reduce.bodies), reduce.dtype)
        self.writer.line(f"{old.text} = {operations[name](expr, old, new).text}")

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
        with self.writer.indent():
            self.writer.line(f"{old} = {new}")
            self.writer.line(f"{old_index} = {new_index}")

    def store(self, stmt):
        buffer, value = stmt.buffer, self.text(stmt.value)
        if stmt.combine:
            old = Load(buffer, stmt.index)
            expr = Op(stmt.combine, (old, stmt.value), buffer.dtype)
            old_text = self.load(buffer, stmt.index)
            value = operations[stmt.combine](expr, old_text, value)
        text = value.text
        if buffer.dtype.name in HALF:
            text = f"{buffer.dtype.name}_bits({text})"
        self.writer.line(f"{self.element(buffer, stmt.index)} = {text}")

    def extent(self, stmt):
        """How often a loop runs."""
        n = stmt.axis.extent
        return str(n) if isinstance(n, int) else self.text(n).text

    def choice(self, stmt):
        self.writer.line(f"if {self.text(stmt.pred).text}:")
        with self.writer.indent():
            self.block(stmt.then)
        if stmt.otherwise:
            self.writer.line("else:")
            with self.writer.indent():
                self.block(stmt.otherwise)


# Sums and products of floats may be regrouped: without that they run one at a time.
any_order = {"add": "add_any_order", "mul": "multiply_any_order"}

printers = {
    For: KernelPrinter.loop,
    Let: KernelPrinter.let,
    Start: KernelPrinter.start,
    Step: KernelPrinter.step,
    Store: KernelPrinter.store,
    If: KernelPrinter.choice,
}


def shape_text(shape):
    """`3, 4`, and `()` for no axes: what stands in the brackets after a dtype."""
    return ", ".join(map(str, shape)) or "()"


def buffer_names(body):
    """{buffer: parameter name}: x0, x1, ... are read only, y0, y1, ... are written.

    Kernels that do the same so print the same, whatever their buffers are called.
    """
    stores = [s.buffer for s in statements(body) if isinstance(s, Store)]
    loads = [e for e in postorder(expressions(body)) if isinstance(e, Load)]
    read = dict.fromkeys(e.buffer for e in loads if e.buffer not in stores)
    names = {buffer: f"x{i}" for i, buffer in enumerate(read)}
    return names | {b: f"y{i}" for i, b in enumerate(dict.fromkeys(stores))}


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


def print_kernel(kernel, name, constants, lift=()):
    """Print one kernel: -> `KernelSource`."""
    printer = KernelPrinter(kernel, name, constants, lift)
    return KernelSource(
        name,
        printer.writer.text(),
        source_comment(kernel),
        tuple(printer.buffers),
        printer.locals,
        tuple(printer.used),
        tuple(printer.numbers),
    )


# So many kernels that differ in numbers only are one, with these for arguments.
ALIKE = 3


def alike(kernels):
    """Those kernels of a program that are worth printing with numbers as arguments."""
    if len(kernels) < ALIKE:
        return ()
    versions, constants = defaultdict(dict), Constants()
    for kernel in kernels:
        source = print_kernel(kernel, "kernel", constants, offsets | factors)
        versions[source.body].setdefault(source.numbers, []).append(kernel)
    many = [same.values() for same in versions.values() if len(same) >= ALIKE]
    return {kernel for same in many for kernels in same for kernel in kernels}


@dataclass(frozen=True)
class Source:
    """A printed program.

    Attributes:
      text: the whole file.
      kernels: a `KernelSource` for each kernel of the program, in order; equal ones
        are the same object and stand in the text once.
      driver: the name of the function that runs the program.
      calls: {name: the `Call` that the driver makes under that name}.
      constants: {name: NumPy array} that the driver reads.
    """

    text: str
    kernels: tuple
    driver: str
    calls: dict
    constants: dict


def dtype_text(dtype):
    """`np.float32`; the types that NumPy does not have by their own name."""
    if dtype.kind == "O" or not hasattr(np, dtype.name):
        return dtype.name
    return "np.bool_" if dtype == BOOL else f"np.{dtype.name}"


def view_text(view):
    """A view of a buffer as a NumPy array that shares its memory."""
    name, dtype = view.buffer.name, view.buffer.dtype
    if view.whole:
        return name
    # `np.ndarray` only accepts memory whose type it knows.
    memory = f"{name}.view(np.uint16)" if dtype.name in HALF else name
    strides = tuple(s * dtype.itemsize for s in view.strides)
    where = f"{view.offset * dtype.itemsize}, {strides}"
    return f"np.ndarray({view.shape}, {dtype_text(dtype)}, {memory}, {where})"


def matmul_operand(view):
    """A view as BLAS takes it: neighbours in one of the last two axes are adjacent."""
    last = zip(view.shape[-2:], view.strides[-2:], strict=True)
    adjacent = any(stride == 1 or size == 1 for size, stride in last)
    text = view_text(view)
    return text if adjacent else f"np.ascontiguousarray({text})"


class DriverPrinter:
    """Prints the function that allocates buffers and runs kernels and calls in order.

    A temporary is dropped after the step that uses it last.
    """

    def __init__(self, program, kernels, constants, writer):
        self.program = program
        self.kernels = kernels
        self.constants = constants
        self.writer = writer
        self.known = {*program.inputs, *(buffer for buffer, value in program.constants)}
        self.calls = {}
        # {name: a function that the driver calls for an array}
        self.makers = {}
        self.name = "run_" + re.sub(r"\W+", "_", program.name).strip("_")

    def print(self):
        inputs = ", ".join(buffer.name for buffer in self.program.inputs)
        self.writer.line(f"def {self.name}({inputs}):")
        with self.writer.indent():
            last = self.last_uses()
            for i, step in enumerate(self.program.body):
                printer = self.kernel if isinstance(step, Kernel) else self.call
                printer(step)
                done = [b.name for b in self.program.temps if last.get(b) == i]
                if done:
                    self.writer.line(f"del {', '.join(done)}")
            # What holds no element is not written by any kernel.
            self.allocate(self.program.outputs)
            results = ", ".join(buffer.name for buffer in self.program.outputs)
            comma = "," if len(self.program.outputs) == 1 else ""
            self.writer.line(f"return ({results}{comma})")

    def last_uses(self):
        """{buffer: the index of the last step that uses it}."""
        last = {}
        for i, step in enumerate(self.program.body):
            last |= dict.fromkeys(self.buffers_of(step), i)
        return last

    def buffers_of(self, step):
        if isinstance(step, Kernel):
            return self.kernels[step][1].buffers
        return [view.buffer for view in (*step.inputs, *step.outputs)]

    def allocate(self, buffers):
        """Make the arrays that are not there yet."""
        for buffer in dict.fromkeys(buffers):
            if buffer not in self.known:
                self.known.add(buffer)
                shape, dtype = buffer.shape, dtype_text(buffer.dtype)
                self.writer.line(f"{buffer.name} = np.empty({shape}, {dtype})")

    def kernel(self, kernel):
        source, own = self.kernels[kernel]
        self.allocate(own.buffers)
        names = list(map(self.constants.name, own.numbers))
        for b in own.buffers:
            half = b.dtype.name in HALF
            names.append(f"{b.name}.view(np.uint16)" if half else b.name)
        self.writer.line(f"{source.name}({', '.join(names)})")

    def call(self, call):
        # An input without elements is there though nothing was written to it.
        self.allocate(view.buffer for view in call.inputs)
        if call.routine == "matmul":
            out, = call.outputs
            self.allocate([out.buffer])
            a, b = map(matmul_operand, call.inputs)
            self.writer.line(f"np.matmul({a}, {b}, out={view_text(out)})")
            return
        what = call.attrs["program" if call.routine == "program" else "primitive"].name
        name = f"call_{len(self.calls)}_" + re.sub(r"\W+", "_", what).strip("_")
        self.calls[name] = call
        self.known |= {view.buffer for view in call.outputs}
        outputs = "".join(f"{view.buffer.name}, " for view in call.outputs)
        inputs = ", ".join(map(view_text, call.inputs))
        target = f"{outputs.rstrip()} = " if outputs else ""
        self.writer.line(f"{target}{name}({inputs})")


def print_imports(text):
    """The import lines for what stands in a program's text."""
    lines = ["from __future__ import annotations", "", "import numpy as np"]
    if re.search(r"\bbfloat16\b", text):
        lines.append("from ml_dtypes import bfloat16")
    modules = defaultdict(list)
    for name in sorted(set(re.findall(r"(?<![.\w])[a-z]\w*(?=\()", text))):
        if name in functions:
            modules[functions[name].__module__].append(name)
    for module, names in modules.items():
        line = f"from {module} import {', '.join(names)}"
        if len(line) > WIDTH:
            wrapped = textwrap.wrap(", ".join(names) + ",", WIDTH - 4)
            body = "\n".join("    " + part for part in wrapped)
            line = f"from {module} import (\n{body}\n)"
        lines.append(line)
    return "\n".join(lines) + "\n"


def print_program(program, heading=""):
    """Print a program: -> `Source`.

    Args:
      program: a `Program`.
      heading: text to put above it, such as the jaxpr.
    """
    constants, distinct, kernels, writer = Constants(), {}, {}, SourceWriter()
    lifted = alike(program.kernels)
    for kernel in program.kernels:
        name = f"kernel_{len(distinct)}"
        lift = offsets | factors if kernel in lifted else ()
        source = print_kernel(kernel, name, constants, lift)
        kernels[kernel] = distinct.setdefault(source.body, source), source
    driver = DriverPrinter(program, kernels, constants, writer)
    driver.print()
    pieces = [f"{k.comment}\n{k.text}" for k in distinct.values()] + [writer.text()]
    body = "\n\n".join(pieces)
    code = "".join(k.text for k in distinct.values()) + writer.text()
    typed = "".join(f"{k} = {v}\n" for k, v in constants.definitions.items())
    title = f'r"""{heading}"""\n\n' if heading else ""
    text = title + print_imports(code) + ("\n" + typed if typed else "") + "\n\n" + body
    arrays = {buffer.name: value for buffer, value in program.constants}
    sources = tuple(source for source, own in kernels.values())
    return Source(text, sources, driver.name, driver.calls, arrays)
