"""LLVM IR as text: what a statement of the loop IR is, line by line.

    writer = LLVMWriter()
    Walker(writer).block(place(kernel.body))          # y[i] = x[i] * x[i] + 1
    # loop1:
    #   %i1 = phi i64 [0, %start], [%i1n, %next1]
    #   %v2 = getelementptr inbounds float, ptr %x, i64 %i1
    #   %v3 = load float, ptr %v2
    #   %v4 = fmul float %v3, %v3
    #   %v5 = fadd float %v4, 0x3ff0000000000000
    #   %v6 = getelementptr inbounds float, ptr %y, i64 %i1
    #   store float %v5, ptr %v6
    #   br label %next1
    # next1:
    #   %i1n = add nuw nsw i64 %i1, 1
    #   %v7 = icmp slt i64 %i1n, 1000
    #   br i1 %v7, label %loop1, label %done1
    # done1:

LLVM's parser reads text ten times as fast as Python builds objects.  The IR says what
numba's does not: that the arrays of a kernel do not overlap, and that the sum in a
total, and nothing else, may be regrouped.
"""

import struct
from contextlib import contextmanager

import numpy as np

from ..compile.loops import BOOL
from ..compile.place import sure
from ..compile.scalar_forms import FLOAT32, HALVES


def register_type(dtype):
    """The LLVM type of a number in a register."""
    if dtype == BOOL:
        return "i1"
    if dtype == FLOAT32 or dtype.name in HALVES:
        return "float"
    return "double" if dtype.kind == "f" else f"i{8 * dtype.itemsize}"


def memory_type(dtype):
    """The LLVM type of a number in memory."""
    if dtype == BOOL or dtype.name in HALVES:
        return f"i{8 * dtype.itemsize}"
    return register_type(dtype)


def constant_text(expr):
    """A `Const`: floats by their bits, as float64."""
    kind = register_type(expr.dtype)
    if kind not in ("float", "double"):
        return str(int(expr.value))
    value = np.float32(expr.value) if kind == "float" else expr.value
    return f"0x{struct.pack('>d', float(value)).hex()}"


def function_name(key):
    """`exp_float32_float32`: of a function that `scalar_form` described."""
    name, dtypes, dtype = key
    return "_".join([name, *(d.name for d in dtypes), dtype.name])


class LLVMWriter:
    """Writes one function: the emitter that `Walker` talks to.

    A value is the name of a register or a number's text, a cell is a slot on the stack.

    Attributes:
      lines: of the body; entry: those before all others.
      label: of the block that is being written.
      pointers: {buffer: the register with its address}.
      used: the keys of the functions it calls, see `function_text`.
      declared: the declarations of what else it calls.
    """

    def __init__(self):
        self.lines, self.entry = [], []
        self.count = 0
        self.label = "start"
        self.pointers = {}
        self.used, self.declared = {}, {}

    def fresh(self):
        self.count += 1
        return self.count

    def line(self, text):
        self.lines.append("  " + text)

    def do(self, text):
        """An instruction with a result: -> its register."""
        register = f"%v{self.fresh()}"
        self.line(f"{register} = {text}")
        return register

    def begin(self, label):
        """Begin a block of instructions."""
        self.lines.append(f"{label}:")
        self.label = label

    def text(self, head, result="void"):
        """The whole function."""
        body = "\n".join([*self.entry, "  br label %start", "start:", *self.lines])
        return f"define {head} {{\nentry:\n{body}\n  ret {result}\n}}\n"

    def type(self, dtype):
        """The type of a register."""
        return register_type(dtype)

    # What the walker calls: values.

    def const(self, expr):
        return constant_text(expr)

    def let(self, expr, value):
        return value

    def op(self, name, expr, values):
        return instructions[name](self, name, expr, values)

    def call(self, key, values):
        """A call of a function that stands in the same module."""
        self.used[key] = None
        _, dtypes, dtype = key
        typed = zip(map(self.type, dtypes), values, strict=True)
        given = ", ".join(f"{kind} {value}" for kind, value in typed)
        return self.do(f"call {self.type(dtype)} @{function_name(key)}({given})")

    def invoke(self, name, result, *typed):
        """A call of a function from elsewhere; its arguments are (type, value)."""
        kinds = ", ".join(kind for kind, _ in typed)
        self.declared[f"declare {result} @{name}({kinds})"] = None
        given = ", ".join(f"{kind} {value}" for kind, value in typed)
        return self.do(f"call {result} @{name}({given})")

    def library(self, name, kind, values):
        """A call of a function of the C library, of numbers of one type."""
        return self.invoke(name, kind, *((kind, value) for value in values))

    # Memory.

    def pointer(self, buffer):
        """The address of a buffer."""
        return self.pointers[buffer]

    def alias(self, buffer):
        """What a load or store says of where else the memory is not used."""
        return ""

    def address(self, buffer, index):
        """The address of an element."""
        offset = None
        for i, stride in zip(index, buffer.strides, strict=True):
            if i != "0":
                part = i if stride == 1 else self.do(f"mul nsw i64 {i}, {stride}")
                if offset is not None:
                    part = self.do(f"add nsw i64 {offset}, {part}")
                offset = part
        base, kind = self.pointer(buffer), memory_type(buffer.dtype)
        if offset is None:
            return base
        return self.do(f"getelementptr inbounds {kind}, ptr {base}, i64 {offset}")

    def load(self, buffer, index):
        where = self.address(buffer, index)
        kind, alias = memory_type(buffer.dtype), self.alias(buffer)
        value = self.do(f"load {kind}, ptr {where}{alias}")
        return self.do(f"icmp ne i8 {value}, 0") if buffer.dtype == BOOL else value

    def store(self, buffer, index, value):
        where = self.address(buffer, index)
        if buffer.dtype == BOOL:
            value = self.do(f"zext i1 {value} to i8")
        kind, alias = memory_type(buffer.dtype), self.alias(buffer)
        self.line(f"store {kind} {value}, ptr {where}{alias}")

    # A cell: LLVM makes registers of such slots.

    def cell(self, dtype, value):
        kind, slot = register_type(dtype), f"%c{self.fresh()}"
        self.entry.append(f"  {slot} = alloca {kind}")
        self.line(f"store {kind} {value}, ptr {slot}")
        return kind, slot

    def get(self, cell):
        kind, slot = cell
        return self.do(f"load {kind}, ptr {slot}")

    def set(self, cell, value):
        kind, slot = cell
        self.line(f"store {kind} {value}, ptr {slot}")

    # Loops and branches.

    @contextmanager
    def loop(self, stmt, extent):
        """A loop that tests at its end; before its beginning where that may fail."""
        k, before = self.fresh(), self.label
        counter = f"%i{k}"
        if isinstance(extent, str):
            some = self.do(f"icmp slt i64 0, {extent}")
            self.line(f"br i1 {some}, label %loop{k}, label %done{k}")
        else:
            self.line(f"br label %loop{k}")
        self.begin(f"loop{k}")
        self.line(f"{counter} = phi i64 [0, %{before}], [{counter}n, %next{k}]")
        yield counter
        self.line(f"br label %next{k}")
        self.begin(f"next{k}")
        self.line(f"{counter}n = add nuw nsw i64 {counter}, 1")
        more = self.do(f"icmp slt i64 {counter}n, {extent}")
        self.line(f"br i1 {more}, label %loop{k}, label %done{k}")
        self.begin(f"done{k}")

    @contextmanager
    def branch(self, condition):
        k, second = self.fresh(), []

        def otherwise():
            second.append(f"else{k}")
            self.line(f"br label %end{k}")
            self.begin(f"else{k}")

        at = len(self.lines)
        self.line("the jump, which has to know whether there is a second case")
        self.begin(f"then{k}")
        yield otherwise
        self.line(f"br label %end{k}")
        self.begin(f"end{k}")
        other, *_ = [*second, f"end{k}"]
        self.lines[at] = f"  br i1 {condition}, label %then{k}, label %{other}"

    @contextmanager
    def repeat(self):
        """A loop that a condition ends, which `unless` is given."""
        k = self.fresh()

        def unless(condition):
            self.line(f"br i1 {condition}, label %body{k}, label %done{k}")
            self.begin(f"body{k}")

        self.line(f"br label %test{k}")
        self.begin(f"test{k}")
        yield unless
        self.line(f"br label %test{k}")
        self.begin(f"done{k}")


# name -> function(writer, name, expr, values) -> register.
instructions = {}


def kind_of(dtype):
    """f, i, u or b: what decides which instruction an operation is."""
    return "f" if register_type(dtype) in ("float", "double") else dtype.kind


overflowing = {"add", "sub", "mul"}
divisions = {"machine_div", "machine_rem"}


def by_kind(**words):
    """The row of an operation that is one instruction, by the kind of its result."""

    def row(writer, name, expr, values):
        kind = kind_of(expr.dtype)
        flag = " nsw" if name in overflowing and sure(expr) else ""
        # What is never negative is divided faster.
        if name in divisions and kind == "i" and expr.args[0].bounds[0] >= 0:
            kind = "u" if expr.args[1].bounds[0] >= 0 else kind
        given = ", ".join(values)
        return writer.do(f"{words[kind]}{flag} {writer.type(expr.dtype)} {given}")

    return row


def integers(word):
    return dict(i=word, u=word, b=word)


instructions |= {
    "add": by_kind(f="fadd", **integers("add")),
    "sub": by_kind(f="fsub", **integers("sub")),
    "mul": by_kind(f="fmul", **integers("mul")),
    "div": by_kind(f="fdiv"),
    "and": by_kind(**integers("and")),
    "or": by_kind(**integers("or")),
    "xor": by_kind(**integers("xor")),
    "add_any_order": by_kind(f="fadd reassoc", **integers("add")),
    "multiply_any_order": by_kind(f="fmul reassoc", **integers("mul")),
    "machine_div": by_kind(i="sdiv", u="udiv"),
    "machine_rem": by_kind(i="srem", u="urem"),
    "machine_shift_left": by_kind(**integers("shl")),
    "machine_shift_right_logical": by_kind(**integers("lshr")),
    "machine_shift_right_arithmetic": by_kind(**integers("ashr")),
}
