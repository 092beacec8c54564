"""Operations as LLVM IR: comparisons, conversions, functions that LLVM or libm has.

    instructions["sqrt"](writer, "sqrt", expr, ["%v1"])
    # %v2 = call float @llvm.sqrt.f32(float %v1)
    instructions["sinh"](writer, "sinh", expr, ["%v2"])
    # %v3 = call float @sinhf(float %v2)

A function that has a form in `scalar_forms` does not need a row here: its form is a
function of the module.
"""

import numpy as np

from ...compile.loops.expressions import Const
from ...compile.loops.scalars import BOOL, dtype_bounds, wide_dtype
from .text import instructions
from .types import kind_of, register_type

FLOAT16, FLOAT32, FLOAT64 = map(np.dtype, ("float16", "float32", "float64"))


def on_integers(signed, unsigned=None):
    """The row of an operation of integers and bools; by their sign, if that matters."""

    def row(writer, name, expr, values):
        kind = writer.type(expr.dtype)
        if name in divisions and kind[0] == "<" and is_exact_in_floats(expr):
            return divided(writer, name, expr, values)
        # What is never negative is divided faster.
        natural = name in divisions and all(x.bounds[0] >= 0 for x in expr.args)
        word = unsigned if expr.dtype.kind == "u" or natural else signed
        return writer.do(f"{word or signed} {kind} {', '.join(values)}")

    return row


divisions = {"machine_div", "machine_rem"}


def is_exact_in_floats(expr):
    """Whether integers are divided as floats where they are a vector.

    Processors divide one integer at a time.  By a known number LLVM multiplies.
    """
    return expr.dtype.itemsize <= 4 and type(expr.args[1]) is not Const


def divided(writer, name, expr, values):
    """A quotient of floats, cut off: none is rounded to an integer that it is not, for
    they have twice as many bits as the integers, or half as many again."""
    short, sign = expr.dtype.itemsize < 4, "u" if expr.dtype.kind == "u" else "s"
    middle = writer.type(np.dtype("int32"))
    kind, wide = writer.type(expr.dtype), writer.type(FLOAT32 if short else FLOAT64)
    x, y = (writer.do(f"{sign}itofp {kind} {v} to {wide}") for v in values)
    found = writer.do(f"fdiv {wide} {x}, {y}")
    found = writer.do(f"fpto{sign}i {wide} {found} to {middle}")
    if short:
        found = writer.do(f"trunc {middle} {found} to {kind}")
    if name == "machine_div":
        return found
    less = writer.do(f"mul {kind} {found}, {values[1]}")
    return writer.do(f"sub {kind} {values[0]}, {less}")


def negate(writer, name, expr, values):
    how = "fneg" if kind_of(expr.dtype) == "f" else "sub"
    zero = "zeroinitializer, " if how == "sub" else ""
    return writer.do(f"{how} {writer.type(expr.dtype)} {zero}{values[0]}")


def invert(writer, name, expr, values):
    ones = Const(1 if expr.dtype == BOOL else -1 % 2 ** (8 * expr.dtype.itemsize),
                 expr.dtype.str.replace("i", "u"))
    return writer.do(f"xor {writer.type(expr.dtype)} {values[0]}, {writer.const(ones)}")


def compare(writer, name, expr, values):
    """Of floats, everything but `ne` is false for a NaN."""
    dtype = expr.args[0].dtype
    if kind_of(dtype) == "f":
        how = "fcmp " + ("une" if name == "ne" else "o" + name)
    else:
        sign = "" if name in ("eq", "ne") else "s" if dtype.kind == "i" else "u"
        how = f"icmp {sign}{name}"
    return writer.do(f"{how} {writer.type(dtype)} {values[0]}, {values[1]}")


def select(writer, name, expr, values):
    kind, (condition, x, y) = writer.type(expr.dtype), values
    return writer.do(f"select {writer.type(BOOL)} {condition}, {kind} {x}, {kind} {y}")


def overload(writer, dtype):
    """What a type is called in the name of an intrinsic: `f32`, `v8f32`."""
    lanes, _, kind = writer.type(dtype).strip("<>").rpartition(" x ")
    short = {"float": "f32", "double": "f64"}.get(kind, kind)
    return f"v{lanes}{short}" if lanes else short


def intrinsic(word, last=()):
    """The row of an operation that LLVM has as a function, such as llvm.sqrt.f32."""

    def row(writer, name, expr, values):
        kind = writer.type(expr.dtype)
        chosen = word if isinstance(word, str) else word[kind_of(expr.dtype)]
        typed = [(kind, value) for value in values]
        name = f"llvm.{chosen}.{overload(writer, expr.dtype)}"
        return writer.invoke(name, kind, *typed, *last)

    return row


def extreme(words):
    """The row of `max` or `min`: of bools, `or` or `and`."""
    plain, itself = intrinsic(words), intrinsic("canonicalize")

    def row(writer, name, expr, values):
        if expr.dtype == BOOL:
            return instructions[words["b"]](writer, name, expr, values)
        kind = writer.type(expr.dtype)
        alone = kind in ("float", "double") and writer.alone
        if alone and all(x.startswith("%") for x in values):
            return extreme_of_two(writer, name, expr.dtype, *values)
        if kind == "float":
            # Of what was a float16 LLVM would look for the largest float16, for which
            # there is no instruction, and a loop of that would not become vectors.
            values = [
                itself(writer, name, expr, (x,)) if (FLOAT16, x) in writer.halves else x
                for x in values
            ]
        return plain(writer, name, expr, values)

    return row


def extreme_of_two(writer, name, dtype, x, y):
    """The larger or smaller of two single floats, without a jump.

    LLVM's own asks for the sign of one of them and jumps, half of the time elsewhere
    than was foreseen.  The machine's instruction takes the second one of two that are
    equal.  So it is asked in both orders, which matters for 0.0 and -0.0 alone: the
    larger one has the bits that both answers have, the smaller one those of either.
    """
    kind, whole = writer.type(dtype), np.dtype(f"i{wide_dtype(dtype).itemsize}")
    test, both = {"max": ("ogt", "and"), "min": ("olt", "or")}[name]

    def second(a, b):
        first = writer.do(f"fcmp {test} {kind} {a}, {b}")
        found = writer.do(f"select i1 {first}, {kind} {a}, {kind} {b}")
        return writer.do(f"bitcast {kind} {found} to {writer.type(whole)}")

    found = writer.do(f"{both} {writer.type(whole)} {second(x, y)}, {second(y, x)}")
    found = writer.do(f"bitcast {writer.type(whole)} {found} to {kind}")
    none = writer.do(f"fcmp uno {kind} {x}, {y}")
    nan = writer.do(f"fadd {kind} {x}, {y}")
    return writer.do(f"select i1 {none}, {kind} {nan}, {kind} {found}")


def absolute(writer, name, expr, values):
    """The size of a number; of INT_MIN it is INT_MIN."""
    kind = kind_of(expr.dtype)
    if kind in "ub":
        return values[0]
    last = [("i1", "false")] if kind == "i" else []
    word = "abs" if kind == "i" else "fabs"
    return intrinsic(word, last)(writer, name, expr, values)


def convert(writer, name, expr, values):
    """A conversion, which from float to integer saturates."""
    source, target = expr.args[0].dtype, expr.dtype
    a, b, (x,) = kind_of(source), kind_of(target), values
    s, t = writer.type(source), writer.type(target)
    if b == "b":
        how = "fcmp une" if a == "f" else "icmp ne"
        return writer.do(f"{how} {s} {x}, zeroinitializer")
    if a == "f" and b != "f":
        return saturated(writer, source, target, x)
    if s == t:
        return x
    wider = target.itemsize > source.itemsize or a == "b"
    if b == "f":
        word = {"f": "fpext" if wider else "fptrunc", "i": "sitofp"}.get(a, "uitofp")
    else:
        word = "trunc" if not wider else "sext" if a == "i" else "zext"
    return writer.do(f"{word} {s} {x} to {t}")


def saturated(writer, source, target, x):
    """A float as the nearest integer there is, and 0 if it is NaN.

    LLVM's own `llvm.fptosi.sat` is taken apart into single numbers where a loop should
    become vectors, and takes seven times as long.
    """
    s, t = writer.type(source), writer.type(target)
    least, most = dtype_bounds(target)
    # Short integers have no instruction; what they cannot hold is replaced below.
    middle = target if target.itemsize >= 4 else np.dtype("int32")
    letter, m = "u" if kind_of(middle) == "u" else "s", writer.type(middle)
    found = writer.do(f"fpto{letter}i {s} {x} to {m}")
    found = writer.do(f"freeze {m} {found}")
    found = found if m == t else writer.do(f"trunc {m} {found} to {t}")

    def instead(found, comparison, bound, value):
        test = writer.do(f"fcmp {comparison} {s} {x}, {bound}")
        value, kind = writer.const(Const(value, target)), writer.type(BOOL)
        return writer.do(f"select {kind} {test}, {t} {value}, {t} {found}")

    limit = [writer.const(Const(float(v), source)) for v in (least, most + 1)]
    found = instead(found, "ole", limit[0], least)
    found = instead(found, "oge", limit[1], most)
    return instead(found, "uno", x, 0)


def bitcast(writer, name, expr, values):
    s, t = writer.type(expr.args[0].dtype), writer.type(expr.dtype)
    return values[0] if s == t else writer.do(f"bitcast {s} {values[0]} to {t}")


def from_library(writer, name, expr, values):
    """A function of the C library: `sinh` of float64, `sinhf` of float32."""
    kind = register_type(expr.dtype)
    word = {"rem": "fmod"}.get(name, name) + ("f" if kind == "float" else "")
    return writer.library(word, kind, values)


instructions |= {
    "and": on_integers("and"),
    "or": on_integers("or"),
    "xor": on_integers("xor"),
    "machine_div": on_integers("sdiv", "udiv"),
    "machine_rem": on_integers("srem", "urem"),
    "machine_shift_left": on_integers("shl"),
    "machine_shift_right_logical": on_integers("lshr"),
    "machine_shift_right_arithmetic": on_integers("ashr"),
    "neg": negate,
    "not": invert,
    "select": select,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), compare),
    "sqrt": intrinsic("sqrt"),
    "floor": intrinsic("floor"),
    "ceil": intrinsic("ceil"),
    "round_even": intrinsic("rint"),
    "copysign": intrinsic("copysign"),
    "fma": intrinsic("fma"),
    "muladd": intrinsic("fmuladd"),
    "max": extreme(dict(f="maximum", i="smax", u="umax", b="or")),
    "min": extreme(dict(f="minimum", i="smin", u="umin", b="and")),
    "population_count": intrinsic("ctpop"),
    "clz": intrinsic("ctlz", [("i1", "false")]),
    "abs": absolute,
    "convert": convert,
    "bitcast": bitcast,
}

c_functions = """
    exp exp2 expm1 log log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh
    atan2 cbrt pow rem erf erfc lgamma
""".split()
instructions |= dict.fromkeys(c_functions, from_library)
