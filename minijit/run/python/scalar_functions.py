"""Functions of numbers in Python, printed from the forms that LLVM's are written from.

    print(function_text("shift_left", 2 * (np.dtype("uint32"),)))

    def shift_left(x0, x1):
        x0 = np.uint32(x0)
        x1 = np.uint32(x1)
        v0 = x1 < u32_32
        v1 = np.uint32(x1 if v0 else u32_0)
        ...

What is printed for kernels calls `shift_left`, whatever its numbers are: plain Python
looks at their types when it is called, and numba when it compiles.  Each value is of
its form's type, for numba makes an int64 of the sum of two int32s.

The others are what a machine or the C library has: plain Python on NumPy scalars, with
a row in the table of `numba_scalars` where numba is to be told more.
"""

import functools
import math
import re

import numpy as np

from ...compile.loops.scalars import FLOAT32, UINT16, wide_dtype
from ...compile.numbers import exact_forms, special_forms  # noqa: F401
from ..emit import computed
from ..scalars.numba_scalars import by_type, call_llvm, first, instructions
from ..scalars.scalar_math import bits, functions, like, named, numbers, typed
from .emitter import PythonEmitter, call, infix, operations
from .source_text import PRODUCT, SHIFT, SUM, Constants, Text

# name -> the operation whose form it is.
forms = {"divide": "div", "remainder": "rem", "round_away": "round"}
same_names = "sign shift_left shift_right_logical shift_right_arithmetic"
same_names += " rsqrt logistic logaddexp digamma trigamma erf_inv"
same_names += " bessel_i0e bessel_i1e"
forms |= {name: name for name in same_names.split()}

# name -> (dtype of the argument, of the result), if these are always the same: a 16-bit
# float is stored as its bits, and computed with as a float32.
halves = {}
for kind in ("float16", "bfloat16"):
    halves |= {f"{kind}_value": (UINT16, FLOAT32), f"{kind}_bits": (FLOAT32, UINT16)}
    halves |= {f"round_{kind}": (FLOAT32, FLOAT32)}
forms |= {name: name for name in halves}


def key_of(name, dtypes):
    """What `form_of` takes; all numbers are of the first one's type."""
    given, dtype = halves.get(name, (dtypes[0], dtypes[0]))
    return forms[name], (given,) * len(dtypes), dtype


def cast(name, text):
    """`np.int8(x)`; of a bool, which is another kind of number, its own function."""
    return Text(f"to_bool({text})" if name == "bool" else f"np.{name}({text})")


# The types that numba keeps in sums of their own.
KEPT = ("int64", "float32", "float64", "bool")


def in_type(name, value):
    """A value in the type of a variable, which a number of memory has already."""
    known = re.fullmatch(rf"\w+(\[[^\[\]]*\])?|np\.{name}\([^()]*\)", str(value))
    return value if name in KEPT or known else cast(name, value)


def print_convert(expr, x):
    """A function limits a float to the range of an integer."""
    source, target = wide_dtype(expr.args[0].dtype), wide_dtype(expr.dtype)
    limited = source.kind == "f" and target.kind in "iu"
    return Text(f"to_{target.name}({x})") if limited else cast(target.name, x)


def shift_right(kind):
    """`>>` fills with the first bit of what is signed, and else with zeros."""

    def row(expr, x, y):
        name = f"{kind}{8 * expr.dtype.itemsize}"
        if name != expr.dtype.name:
            x, y = cast(name, x), cast(name, y)
        return Text(f"{x} >> {y}", SHIFT)

    return row


# As `operations`, of those that only forms have, or that here are others.
plain_words = {
    "machine_div": call("machine_div"),
    "machine_rem": call("machine_rem"),
    "machine_shift_left": infix("<<", SHIFT),
    "machine_shift_right_logical": shift_right("uint"),
    "machine_shift_right_arithmetic": shift_right("int"),
    "muladd": lambda expr, x, y, z: Text(f"{x.at(PRODUCT)} * {y.at(SHIFT)} + {z}", SUM),
    "convert": print_convert,
    "not": lambda expr, x: Text(f"not {x}" if expr.dtype == bool else f"~{x}"),
}


class FormEmitter(PythonEmitter):
    """Prints the body of a form's function, a line an operation."""

    def __init__(self, words):
        super().__init__({}, Constants())
        self.words = words

    def op(self, expr, values):
        row = self.words.get(expr.name) or operations[expr.name]
        name, value = self.fresh("v"), row(expr, *values)
        self.line(f"{name} = {in_type(expr.dtype.name, value)}")
        return Text(name)


@functools.cache
def function_text(name, dtypes, words=None):
    """The Python of a form's function for numbers of some types.

    Args:
      words: rows to use besides `plain_words`, as a tuple of pairs.
    """
    key = _, given, dtype = key_of(name, dtypes)
    emitter = FormEmitter(plain_words | dict(words or ()))
    params = [Text(f"x{i}") for i in range(len(given))]
    for param, kind in zip(params, given, strict=True):
        emitter.line(f"{param} = {cast(kind.name, param)}")
    emitter.line(f"return {cast(dtype.name, computed(emitter, key, params))}")
    head = f"def {name}({', '.join(map(str, params))}):"
    constants = [f"{n} = {c}" for n, c in emitter.constants.definitions.items()]
    return "\n".join([*constants, "", head, *emitter.lines]) + "\n"


def function_of(name, dtypes, words=None):
    """The same as a function, which finds what it calls among `functions`."""
    space = {"np": np, **functions}
    exec(function_text(name, dtypes, words), space)
    return space[name]


plain_function = functools.cache(function_of)


def for_all_types(name):
    """The plain function of any numbers: their types choose which one is printed."""

    def function(*args):
        args = [*map(typed, args)]
        return plain_function(name, tuple(x.dtype for x in args))(*args)

    function.__name__ = function.__qualname__ = name
    return function


# Generated code imports them from here, each by its name.
made = {name: for_all_types(name) for name in forms}
functions |= made
globals().update(made)
by_type |= {name: functools.partial(function_of, name) for name in forms}


# ---- what a machine or the C library has


def reading_bits(name):
    """The function that reads a scalar's bits as the dtype `name`."""

    def read(x):
        return bits(x, name)

    read.__name__ = read.__qualname__ = f"bits_{name}"
    return read


# Generated code imports them from here, each by its name.
readers = named(*map(reading_bits, numbers))
globals().update(readers)
functions |= readers


def emit_bits(context, builder, signature, values):
    """LLVM's bitcast: no instruction at all, or a move between register files."""
    return builder.bitcast(values[0], context.get_value_type(signature.return_type))


instructions |= {f"bits_{name}": (name, emit_bits) for name in numbers}


operations |= {"bitcast": lambda expr, x: Text(f"bits_{expr.dtype.name}({x})")}


def population_count(x):
    """How many bits of an integer are 1."""
    x = typed(x)
    return like(int(bits(x, f"u{x.itemsize}")).bit_count(), x)


def clz(x):
    """How many zero bits an integer begins with."""
    x = typed(x)
    return like(8 * x.itemsize - int(bits(x, f"u{x.itemsize}")).bit_length(), x)


def emit_population_count(context, builder, signature, values):
    """llvm.ctpop: one instruction."""
    x, = values
    return call_llvm(builder, "llvm.ctpop", [x.type], x.type, x)


def emit_clz(context, builder, signature, values):
    """llvm.ctlz, told that an argument 0 is meant to give the width."""
    from llvmlite import ir

    x, = values
    return call_llvm(builder, "llvm.ctlz", [x.type], x.type, x, ir.IntType(1)(0))


functions |= named(population_count, clz)
operations |= {name: call(name) for name in ("population_count", "clz")}
instructions |= {
    "population_count": (first, emit_population_count),
    "clz": (first, emit_clz),
}


def erf(x):
    """The error function."""
    return like(math.erf(x), x)


def erfc(x):
    """1 - erf(x), without the cancellation."""
    return like(math.erfc(x), x)


def lgamma(x):
    """log |gamma(x)|; infinite at the poles 0, -1, -2, ... and at both infinities."""
    if (x <= 0 and x == np.floor(x)) or abs(x) == np.inf:
        return abs(like(np.inf, x))
    return like(math.lgamma(x), x)


functions |= named(erf, erfc, lgamma)
rest_names = "rsqrt logistic erf erfc erf_inv lgamma digamma trigamma"
rest_names += " bessel_i0e bessel_i1e"
operations |= {name: call(name) for name in rest_names.split()}
operations |= {"round": call("round_away")}
