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

from ...compile.loops.expressions import Op
from ...compile.loops.graphs import postorder
from ...compile.loops.scalars import BOOL
from ...compile.numbers.scalar_forms import form_of, plain_name, scalar_form
from ...trace.jit.jit import cache_clearers
from .functions import computed, define, function_name, function_text, function_texts
from .instructions import from_library, select
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
        total, vector = "poison", f"<{self.lanes} x {kind}>"
        for lane in range(self.lanes):
            one = [self.do(f"extractelement {vector} {v}, i32 {lane}") for v in values]
            result = super().library(name, kind, one)
            parts = f"{vector} {total}, {kind} {result}, i32 {lane}"
            total = self.do(f"insertelement {parts}")
        return total

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
    writer.line(f"br label %usual{k}")
    writer.begin(f"usual{k}")
    return writer.do(f"phi {kind} [{usual}, %{before}], [{choice}, %rare{k}]")


instructions |= {f"rare_{name}": rarely for name in ("sin", "cos", "tan", "rem")}

# What LLVM may take for granted about a function of numbers.
PURE = "memory(none) nounwind willreturn"


def lanes_of(dtype):
    """How many elements of a dtype this machine has in a register."""
    return vector_bytes() // dtype.itemsize


def has_rare_branch(key):
    """Whether a function has a branch that is hardly ever taken."""
    _, result = form_of(*key)
    inside = postorder([result])
    return any(isinstance(e, Op) and e.name.startswith("rare_") for e in inside)


def is_rarely_long(expr):
    """Whether an operation is such a function."""
    name = plain_name(expr)
    if f"rare_{name}" not in instructions or scalar_form(expr) is None:
        return False
    return has_rare_branch((name, tuple(a.dtype for a in expr.args), expr.dtype))


@functools.cache
def function_with_lanes(key, new_writer):
    """As `function_text`; with a rare branch, the function for vectors beside it."""
    if not has_rare_branch(key):
        return function_text(key, new_writer)
    lanes, name = lanes_of(key[-1]), function_name(key)
    shape = f"_ZGV_LLVM_N{lanes}{'v' * len(key[1])}"
    note = f'"vector-function-abi-variant"="{shape}_{name}({name}_v{lanes})"'
    one, many = new_writer(), LaneWriter(lanes)
    # Hidden, not internal: LLVM drops internal functions that nobody calls yet, and an
    # argument that is the same in all calls, which those of vectors have.
    text = define(key, one, name, f"noinline {PURE} {note}", "hidden")
    text += define(key, many, f"{name}_v{lanes}", f"noinline {PURE}", "hidden")
    return text, (*one.declared, *many.declared), (*one.used, *many.used)


function_texts |= {"function": function_with_lanes}
cache_clearers.append(function_with_lanes.cache_clear)
