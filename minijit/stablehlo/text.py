"""StableHLO as text: types, constants, and operations one after another.

    w = Writer()
    y = w.same("add", x, x)             # %0 = stablehlo.add %x, %x : tensor<3xf32>
    z = w.op("fft", [y], out, fft_length=(3,), fft_type="#stablehlo<fft_type FFT>")

The most frequent operations are written in their short forms, and the others in the one
that MLIR calls generic: `%1 = "stablehlo.fft"(%0) {fft_type = ...} : (type) -> type`.
StableHLO's specification: https://openxla.org/stablehlo/spec
"""

import re
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np


class Unsayable(Exception):
    """Raised by a row for what StableHLO cannot say, with the reason."""


KINDS = {"b": "i", "i": "i", "u": "ui", "f": "f"}
# Larger constants are written as their bytes.
READABLE = 64


def element_type(dtype):
    """What StableHLO calls a dtype: `i1`, `ui8`, `bf16`, `complex<f32>`."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return f"complex<f{4 * dtype.itemsize}>"
    if dtype.kind in KINDS:
        bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize
        return f"{KINDS[dtype.kind]}{bits}"
    # NumPy has these from ml_dtypes: bfloat16, float8_e4m3fn, int4, uint4.
    name = dtype.name.replace("bfloat", "bf").replace("float8_", "f8")
    name = name.replace("uint", "ui").replace("int", "i")
    return "f" + name[1:].upper() if name.startswith("f8") else name


@dataclass(frozen=True)
class Type:
    """The type of an array: what `tensor<2x3xf32>` says."""

    shape: tuple
    dtype: np.dtype

    def __str__(self):
        sizes = "".join(f"{n}x" for n in self.shape)
        return f"tensor<{sizes}{element_type(self.dtype)}>"


def type_of(aval):
    """The type for an aval, or for anything else with a shape and a dtype."""
    return Type(tuple(aval.shape), np.dtype(aval.dtype))


@dataclass(frozen=True)
class Value:
    """A value of the program: its name, such as `%3`, and its type."""

    name: str
    type: Type

    @property
    def shape(self):
        return self.type.shape

    @property
    def dtype(self):
        return self.type.dtype

    def __str__(self):
        return self.name


INDEX = Type((), np.dtype("int32"))


def number(x):
    """An element of a constant: `true`, `7`, `1.5e+00`, `(0.0e+00, 1.0e+00)`."""
    if x.dtype.kind == "c":
        return f"({number(x.real)}, {number(x.imag)})"
    if x.dtype.kind in "biu" or "int" in x.dtype.name:
        return str(x.item() if x.dtype.kind != "V" else int(x)).lower()
    if np.isfinite(x):
        return np.format_float_scientific(np.float64(x), min_digits=1)
    return hex(int.from_bytes(x.tobytes()[::-1], "big"))


def dense(x):
    """All elements of an array, in brackets as it is nested."""
    if x.ndim == 0:
        return number(x[()])
    return f"[{', '.join(map(dense, x))}]"


def constant_text(x):
    """The attribute of a constant: one number for all, the numbers, or their bytes."""
    if not x.size:
        return "dense<>"
    first = x.ravel()[:1]
    if x.tobytes() == first.tobytes() * x.size:
        return f"dense<{number(first[0])}>"
    if x.size <= READABLE or x.dtype.kind == "b":
        return f"dense<{dense(x)}>"
    return f'dense<"0x{x.tobytes().hex().upper()}">'


def attribute(value):
    """A Python value as an attribute; text is one already."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, np.ndarray):
        return f"{constant_text(value)} : {type_of(value)}"
    listed = ", ".join(str(int(n)) for n in value)
    return f"array<i64: {listed}>" if listed else "array<i64>"


def brackets(values):
    """`[0, 1]`: how axes and sizes stand in short forms."""
    return f"[{', '.join(str(int(n)) for n in values)}]"


def pairs(values):
    """(low, high) for each axis, as an attribute."""
    return np.array([*values], np.int64).reshape(-1, 2)


def name_of(text, prefix, index):
    """A name that MLIR can read, out of a variable's or a function's."""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name and not name[0].isdigit() else f"{prefix}{index}"


def arguments(types, names=()):
    """The arguments of a function or a region: a `Value` for each type."""
    listed = [name_of(n, "arg", i) for i, n in enumerate(names)]
    if len(listed) != len(types) or len(set(listed)) < len(listed):
        listed = [f"arg{i}" for i in range(len(types))]
    pairs = zip(listed, types, strict=True)
    return [Value(f"%{name}", t) for name, t in pairs]


def typed(values):
    """`%x: tensor<3xf32>, ...`, as a list of arguments is written."""
    return ", ".join(f"{v}: {v.type}" for v in values)


class Writer:
    """The functions of a module, and the lines of the one that is being written."""

    def __init__(self):
        self.functions, self.taken = [], set()
        self.lines, self.count, self.depth = [], 0, 1

    def text(self, name):
        """The module with all functions written so far."""
        return "\n".join([f"module @{name} {{", *self.functions, "}", ""])

    def line(self, text):
        self.lines.append("  " * self.depth + text)

    def new(self, types):
        """A name for the results of an operation, and their `Value`s."""
        name, self.count = f"%{self.count}", self.count + 1
        if len(types) == 1:
            return name, [Value(name, types[0])]
        return f"{name}:{len(types)}", [
            Value(f"{name}#{i}", t) for i, t in enumerate(types)
        ]

    def same(self, op, *operands):
        """An operation whose operands and result are of one type, or are spread to it.

        An operand may be a scalar, or have size 1 where others have more.
        """
        if op in ("maximum", "minimum") and operands[0].dtype.kind == "c":
            raise Unsayable(f"StableHLO has no {op} of complex numbers")
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        operands = [self.spread(x, shape) for x in operands]
        name, (result,) = self.new([operands[-1].type])
        given = ", ".join(map(str, operands))
        self.line(f"{name} = stablehlo.{op} {given} : {result.type}")
        return result

    def short(self, op, operands, out, rest="", kinds=None):
        """An operation with one result in its own short form, `rest` at its end."""
        name, (result,) = self.new([out])
        given = ", ".join(map(str, operands))
        kinds = kinds or f"({', '.join(str(x.type) for x in operands)}) -> {out}"
        self.line(f"{name} = stablehlo.{op} {given}{rest} : {kinds}")
        return result

    def leave(self, op, results):
        """The last line of a function or of a region."""
        kinds = ", ".join(str(x.type) for x in results)
        given = f" {', '.join(map(str, results))} : {kinds}" if results else ""
        self.line(op + given)

    def op(self, op, operands, *types, regions=(), **attributes):
        """An operation in the generic form: -> its result, or the list of them."""
        op = op if "." in op else f"stablehlo.{op}"
        name, results = self.new(types)
        given = ", ".join(map(str, operands))
        listed = ", ".join(f"{k} = {attribute(v)}" for k, v in attributes.items())
        inner = f" ({', '.join(regions)})" if regions else ""
        attrs = f" {{{listed}}}" if listed else ""
        takes = ", ".join(str(x.type) for x in operands)
        gives = ", ".join(map(str, types))
        gives = gives if len(types) == 1 else f"({gives})"
        self.line(f'{name} = "{op}"({given}){inner}{attrs} : ({takes}) -> {gives}')
        return results[0] if len(types) == 1 else results

    @contextmanager
    def writing(self, depth):
        """Lines of their own, at a depth, while a region or a function is written."""
        before = self.lines, self.depth
        self.lines, self.depth = [], depth
        try:
            yield self.lines
        finally:
            self.lines, self.depth = before

    def region(self, types, body):
        """A region as text: `body` takes its arguments and returns a list."""
        self.count += 1
        args = [Value(f"%r{self.count}_{i}", t) for i, t in enumerate(types)]
        with self.writing(self.depth + 1) as lines:
            if args:
                lines.append("  " * (self.depth - 1) + f"^bb0({typed(args)}):")
            self.leave("stablehlo.return", body(*args))
        end = "  " * self.depth + "}"
        return "\n".join(["{", *lines, end])

    def function(self, name, types, body, names=(), visibility="private"):
        """Write a function: -> (its name, the results of `body`, a list)."""
        name = name_of(name, "f", len(self.taken))
        number = 1
        while (unique := name if number == 1 else f"{name}_{number}") in self.taken:
            number += 1
        self.taken.add(unique)
        args, before = arguments(types, names), self.count
        self.count = 0
        with self.writing(2) as lines:
            results = body(*args)
            self.leave("return", results)
        self.count = before
        gives = ", ".join(str(x.type) for x in results)
        head = f"  func.func {visibility} @{unique}({typed(args)}) -> ({gives}) {{"
        self.functions.append("\n".join([head, *lines, "  }"]))
        return unique, results

    def call(self, name, operands, types):
        """A call of a function of the module: -> list of results."""
        result, values = self.new(types)
        given = ", ".join(map(str, operands))
        takes = ", ".join(str(x.type) for x in operands)
        gives = ", ".join(map(str, types))
        bound = f"{result} = " if types else ""
        self.line(f"{bound}call @{name}({given}) : ({takes}) -> ({gives})")
        return values

    # ---- operations that many rows need

    def constant(self, value, dtype=None):
        """An array or a number as a constant."""
        value = np.asarray(value, dtype, order="C")
        name, (result,) = self.new([type_of(value)])
        text = f"{constant_text(value)} : {result.type}"
        self.line(f"{name} = stablehlo.constant {text}")
        return result

    def full(self, type, value):
        """A constant of one number everywhere."""
        return self.constant(np.broadcast_to(np.asarray(value, type.dtype), type.shape))

    def broadcast(self, x, shape, dims):
        """Axis i of x becomes axis dims[i]."""
        out = Type(tuple(shape), x.dtype)
        return self.short("broadcast_in_dim", [x], out, f", dims = {brackets(dims)}")

    def spread(self, x, shape):
        """x in a shape of the same rank; a scalar in any shape."""
        if x.shape == tuple(shape):
            return x
        return self.broadcast(x, shape, range(len(x.shape)))

    def reshape(self, x, shape):
        if x.shape == tuple(shape):
            return x
        return self.short("reshape", [x], Type(tuple(shape), x.dtype))

    def transpose(self, x, permutation):
        out = Type(tuple(x.shape[d] for d in permutation), x.dtype)
        return self.short("transpose", [x], out, f", dims = {brackets(permutation)}")

    def compare(self, direction, x, y, order=None):
        """x < y, elementwise: direction is LT, LE, GT, GE, EQ or NE."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        x, y = self.spread(x, shape), self.spread(y, shape)
        kind = {"i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}.get(x.dtype.kind)
        kind = order or kind or ("SIGNED" if "int" in x.dtype.name else "FLOAT")
        out = Type(shape, np.dtype(bool))
        return self.short(f"compare {direction},", [x, y], out, f", {kind}")

    def convert(self, x, dtype):
        """x in another dtype: bools of what is not zero, reals of the real part."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if dtype.kind == "b":
            return self.compare("NE", x, self.full(x.type, 0))
        if x.dtype.kind == "c" and dtype.kind != "c":
            part = np.dtype(f"float{4 * x.dtype.itemsize}")
            return self.convert(self.short("real", [x], Type(x.shape, part)), dtype)
        return self.short("convert", [x], Type(x.shape, dtype))

    def select(self, which, on_true, on_false):
        kinds = f"{which.type}, {on_true.type}"
        given = [which, on_true, on_false]
        return self.short("select", given, on_true.type, kinds=kinds)

    def combiner(self, op, dtype):
        """The region of an operation that combines two numbers."""
        scalar = Type((), dtype)
        return self.region([scalar, scalar], lambda x, y: [self.same(op, x, y)])
