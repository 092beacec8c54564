"""Functions with a branch that is hardly ever taken, in loops that vectorise.

    declare float @sinf(float)
    define internal float @sin_float32_float32(float %x0) noinline "vector-function-..."
    define hidden <16 x float> @sin_float32_float32_v16(<16 x float> %x0) { ... }

LLVM does not vectorise a loop with a branch around a call.  But it calls a function for
several elements at a time if it is told that there is one.  So such a function is
written twice, for one number and for as many as a register holds: each of these is a
*lane* of it.  The branch then asks whether any lane needs it.
"""

import functools
from types import SimpleNamespace

from ...compile.loops.expressions import Op
from ...compile.loops.graphs import postorder
from ...compile.loops.scalars import BOOL
from ...compile.numbers.scalar_forms import form_of
from ...trace.jit.jit import cache_clearers
from ..emit import computed
from .engine import share
from .functions import define, function_name, function_text, function_texts
from .instructions import from_library, select
from .kernels import module_text
from .target import vector_bytes
from .text import LLVMWriter, instructions
from .types import constant_text


class LaneWriter(LLVMWriter):
    """Writes a function of vectors: each register holds some elements."""

    def __init__(self, lanes):
        super().__init__()
        self.lanes = lanes

    def type(self, dtype):
        return f"<{self.lanes} x {super().type(dtype)}>"

    def const(self, expr):
        return f"splat ({super().type(expr.dtype)} {constant_text(expr)})"

    def call(self, key, values):
        """What a function computes, in place of a call: the function has no lanes."""
        return computed(self, key, values)

    def library(self, name, kind, values):
        """The C library's functions know one number at a time."""
        vector = f"<{self.lanes} x {kind}>"
        slots = [self.slot(vector, value) for value in values]
        with self.loop(None, self.lanes) as lane:
            element = f"getelementptr {kind}, ptr"
            places = [self.do(f"{element} {slot}, i64 {lane}") for slot in slots]
            one = [self.do(f"load {kind}, ptr {place}") for place in places]
            result = super().library(name, kind, one)
            self.line(f"store {kind} {result}, ptr {places[0]}")
        return self.do(f"load {vector}, ptr {slots[0]}")

    def any(self, condition):
        """Whether a condition holds in any lane."""
        name = f"llvm.vector.reduce.or.v{self.lanes}i1"
        return self.invoke(name, "i1", (self.type(BOOL), condition))


def rarely(writer, name, expr, values):
    """A value computed already, or in a branch of its own the C library's."""
    condition, usual, *given = values
    kind, k, before = writer.type(expr.dtype), writer.fresh(), writer.label
    asked = writer.any(condition) if isinstance(writer, LaneWriter) else condition
    writer.line(f"br i1 {asked}, label %rare{k}, label %usual{k}")
    writer.begin(f"rare{k}")
    exact = from_library(writer, name.removeprefix("rare_"), expr, given)
    choice = select(writer, name, expr, [condition, exact, usual])
    after = writer.label
    writer.line(f"br label %usual{k}")
    writer.begin(f"usual{k}")
    return writer.do(f"phi {kind} [{usual}, %{before}], [{choice}, %{after}]")


instructions |= {f"rare_{name}": rarely for name in ("sin", "cos", "tan", "rem")}

# What LLVM may take for granted about a function of numbers.
PURE = "memory(none) nounwind willreturn"


def lanes_of(dtype):
    """How many elements of a dtype this machine has in a register."""
    return vector_bytes() // dtype.itemsize


@functools.cache
def has_rare_branch(key):
    """Whether an operation is a function with a branch that is hardly ever taken."""
    if (form := form_of(*key)) is None:
        return False
    inside = postorder([form[1]])
    return any(isinstance(e, Op) and e.name.startswith("rare_") for e in inside)


@functools.cache
def function_with_lanes(key, new_writer):
    """As `function_text`; with a rare branch, only declarations of two functions.

    These are long, and compiled once for all modules that call them.
    """
    if not has_rare_branch(key):
        return function_text(key, new_writer)
    lanes, name = lanes_of(key[-1]), function_name(key)
    names = name, f"{name}_v{lanes}"
    shape = f"_ZGV_LLVM_N{lanes}{'v' * len(key[1])}"
    notes = f'{PURE} "vector-function-abi-variant"="{shape}_{name}({names[1]})"', PURE
    # LLVM drops a declaration that nobody names, and calls that of vectors only later.
    heads = [f"@{name}_lanes = hidden constant ptr @{names[1]}"]
    both = SimpleNamespace(key=name, text="", declared={}, used={})
    writers = new_writer(), LaneWriter(lanes)
    for writer, own, note in zip(writers, names, notes, strict=True):
        both.text += define(key, writer, own, PURE, "")
        both.declared |= writer.declared
        both.used |= writer.used
        given = ", ".join(map(writer.type, key[1]))
        heads.append(f"declare {writer.type(key[-1])} @{own}({given}) {note}")
    share(name, module_text([both]), "vectors", names[1])
    return "", tuple(heads), ()


function_texts |= {"function": function_with_lanes}
cache_clearers.append(function_with_lanes.cache_clear)
