"""LLVM IR as text: what a statement of the loop IR is, line by line.

    writer = LLVMWriter()
    MemoryWalker(writer).block(place(kernel.body))    # y[i] = x[i] * x[i] + 1
    # loop1:
    #   %i1 = phi i64 [0, %start], [%i1n, %next1]
    #   %v2 = getelementptr inbounds float, ptr %x, i64 %i1
    #   %v3 = load float, ptr %v2
    #   %v4 = fmul float %v3, %v3
    #   %v5 = fadd float %v4, 0x3ff0000000000000
    #   %v6 = getelementptr inbounds float, ptr %y, i64 %i1
    #   store float %v5, ptr %v6
    #   ...

LLVM's parser reads text ten times as fast as Python builds objects.  The IR says what
numba's does not: that the arrays of a kernel do not overlap, and that the sum in a
total, and nothing else, may be regrouped.
"""

import re
from contextlib import contextmanager

from ...compile.loops.scalars import BOOL
from ...compile.numbers.scalar_forms import plain_name, scalar_form
from ...compile.schedule.placing_rules import sure
from .functions import FunctionCalls, key_of
from .notes import Notes
from .types import constant_text, kind_of, memory_type, register_type
from .work import LONG

# How instructions begin: arithmetic with counters, which is written before the loops in
# which it always has the same result; and those that may have another one each time.
STEADY = ("add i64", "add nsw i64", "mul i64", "mul nsw i64", "getelementptr",
          "call i64 @llvm.smin", "call i64 @llvm.smax")  # fmt: skip
CHANGING = ("load", "phi", "call", "atomicrmw", "cmpxchg")
REGISTER = re.compile(r"%\w+")


class Lines(FunctionCalls, Notes):
    """The lines of one function, and what is known of them: `LLVMWriter` writes them.

    Attributes:
      lines: of the body; entry: those before all others.
      label: of the block that is being written; known: {an instruction: the register
        that has its result there}.
      around: (lines, known) before each loop that is open; levels: {register: in how
        many of them it changes}.
      pointers: {buffer: the register with its address}; read_only: those never written.
      used, declared, halves, notes: see `FunctionCalls` and `Notes`.
      times, alone: see `Notes`.
      loops: pairs: the axis of a loop, and whether it is written as vectors.
    """

    def __init__(self):
        self.lines, self.entry = [], []
        self.count, self.label, self.known = 0, "start", {}
        self.around, self.levels = [], {}
        self.pointers, self.read_only = {}, frozenset()
        self.used, self.declared, self.notes, self.loops = {}, {}, [], set()
        self.halves, self.times, self.alone = {}, 1, False

    def fresh(self):
        self.count += 1
        return self.count

    def line(self, text):
        self.lines.append("  " + text)

    def do(self, text):
        """An instruction with a result: -> its register.

        One that always has the same result is written once, and arithmetic with indices
        outside of the loops that it does not depend on.
        """
        lines, known, level = self.lines, self.known, len(self.around)
        if level and text.startswith(STEADY):
            levels = (self.levels.get(x, 0) for x in REGISTER.findall(text))
            level = max(levels, default=0)
            if level < len(self.around):
                lines, known = self.around[level]
        if text in known:
            return known[text]
        register = f"%v{self.fresh()}"
        lines.append(f"  {register} = {text}")
        self.levels[register] = level
        if text.startswith(STEADY) or not text.startswith(CHANGING):
            known[text] = register
        return register

    def type(self, dtype):
        """The type of a register."""
        return register_type(dtype)

    def const(self, expr):
        return constant_text(expr)

    def let(self, expr, value):
        return value

    def pointer(self, buffer):
        """The address of a buffer."""
        return self.pointers[buffer]

    def slot(self, kind, value=None, align=""):
        """Memory on the stack for as long as the function runs: -> its address.

        Args:
          value: what is stored there now, if anything.
        """
        name = f"%m{self.fresh()}"
        self.entry.append(f"  {name} = alloca {kind}{align}")
        if value is not None:
            self.line(f"store {kind} {value}, ptr {name}")
        return name

    def read_words(self, place, names):
        """Read registers of these names from a list of words, before all else."""
        for i, name in enumerate(names):
            self.entry += [
                f"  %{name}_at = getelementptr i64, ptr {place}, i64 {i}",
                f"  %{name} = load i64, ptr %{name}_at",
            ]

    def on_stack(self, buffer):
        """Memory for a buffer."""
        kind, align = memory_type(buffer.dtype), ""
        if buffer.shape:
            size = max(buffer.nbytes // buffer.dtype.itemsize, 1)
            kind, align = f"[{size} x {kind}]", ", align 64"
        self.pointers[buffer] = self.slot(kind, align=align)

    def alias(self, buffer):
        """What a load or store says of where else the memory is not used."""
        return ""

    def offsets(self, index):
        """Registers and numbers that add up to the place of an element.

        Args:
          index: pairs of a value and a factor.  What changes least is added first, to
            be there before a loop begins, and what is known last, by the instruction
            that loads or stores.
        """
        parts = sorted(index, key=lambda part: self.levels.get(part[0], 0))
        known = sum(int(i) * n for i, n in parts if i.isdecimal())
        parts = [(i, n) for i, n in parts if not i.isdecimal()]
        if known < 0 or any(n < 0 for _, n in parts):
            # On the way there it is not to be outside of the array.
            parts, known = [*parts, (str(known), 1)], 0
        offset = ""
        for i, n in parts:
            part = i if n == 1 else self.do(f"mul nsw i64 {i}, {n}")
            offset = self.do(f"add nsw i64 {offset}, {part}") if offset else part
        return [far for far in (offset, known) if far]

    def span(self, axis):
        """Where a loop begins and how long it is, if it is a range of a longer one."""

    @contextmanager
    def inside(self, stmt, counter, extent):
        """The lines of a loop: what never changes in it is still put before them."""
        lines, *known = self.lines, self.times, self.alone
        self.around.append((lines, self.known))
        self.lines, self.levels[counter] = [], len(self.around)
        self.times *= LONG if isinstance(extent, str) else extent
        self.alone = stmt is not None and self.stays_alone(stmt)
        yield
        self.around.pop()
        self.lines, (self.times, self.alone) = lines + self.lines, known


# chapter 23
# name -> function(writer, name, expr, values) -> register.
instructions = {}


def arithmetic(floats, integers=None):
    """The row of an operation that is one instruction of two numbers."""

    def row(writer, name, expr, values):
        word = floats if kind_of(expr.dtype) == "f" else integers
        flag = " nsw" if sure(expr) else ""  # an index that does not overflow
        return writer.do(f"{word}{flag} {writer.type(expr.dtype)} {', '.join(values)}")

    return row


instructions |= {
    "add": arithmetic("fadd", "add"),
    "sub": arithmetic("fsub", "sub"),
    "mul": arithmetic("fmul", "mul"),
    "div": arithmetic("fdiv"),
    "add_any_order": arithmetic("fadd reassoc", "add"),
    "multiply_any_order": arithmetic("fmul reassoc", "mul"),
}


class LLVMWriter(Lines):
    """Writes one function: the emitter that `Walker` talks to.

    A value is the name of a register or a number's text, a cell is a slot on the stack.
    """

    def begin(self, label, known=()):
        """Begin a block; `known` are instructions that have always run before it."""
        self.lines.append(f"{label}:")
        self.label, self.known = label, dict(known)

    def text(self, head, result="void"):
        """The whole function."""
        body = "\n".join([*self.entry, "  br label %start", "start:", *self.lines])
        return f"define {head} {{\nentry:\n{body}\n  ret {result}\n}}\n"

    # What the walker calls: values.

    def op(self, expr, values):
        """An instruction, or a function that says what JAX means by the operation."""
        if scalar_form(expr) is None:
            name = plain_name(expr)
            return instructions[name](self, name, expr, values)
        return self.call(key_of(expr), values)

    # Memory.

    def address(self, buffer, index):
        """The address of an element; `index` has pairs of a value and a stride."""
        offsets, where = self.offsets(index), self.pointer(buffer)
        kind = memory_type(buffer.dtype)
        for far in offsets:
            where = self.do(f"getelementptr inbounds {kind}, ptr {where}, i64 {far}")
        return where

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

    @contextmanager
    def loop(self, stmt, extent):
        """A loop that tests at its end; before its beginning where that may fail."""
        k, before, known = self.fresh(), self.label, self.known
        counter, jump = f"%i{k}", f"br label %loop{k}"
        if isinstance(extent, str):
            some = self.do(f"icmp slt i64 0, {extent}")
            jump = f"br i1 {some}, label %loop{k}, label %done{k}"
        with self.inside(stmt, counter, extent):
            self.line(jump)
            self.begin(f"loop{k}", known)
            self.line(f"{counter} = phi i64 [0, %{before}], [{counter}n, %next{k}]")
            yield counter
            self.line(f"br label %next{k}")
            self.begin(f"next{k}")
            self.line(f"{counter}n = add nuw nsw i64 {counter}, 1")
            more = self.do(f"icmp slt i64 {counter}n, {extent}")
            note = self.note_of_loop(stmt, extent)
            self.line(f"br i1 {more}, label %loop{k}, label %done{k}{note}")
        self.begin(f"done{k}", known)

    # A cell: LLVM makes registers of such slots.

    def cell(self, dtype, value):
        kind = self.type(dtype)
        return kind, self.slot(kind, value)

    def get(self, cell):
        if not isinstance(cell, tuple):
            return cell.get(self)  # of several slots
        kind, slot = cell
        return self.do(f"load {kind}, ptr {slot}")

    def set(self, cell, value):
        kind, slot = cell
        self.line(f"store {kind} {value}, ptr {slot}")
