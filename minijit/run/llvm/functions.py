"""Functions in LLVM IR: those that `scalar_forms` describe, and those of others.

    %v3 = call float @exp_float32_float32(float %v2)    ; stands in the same module
    %v4 = call float @sinhf(float %v3)                  ; stands in the C library

And the two cases of a form, or of a statement: three blocks and three jumps.

    br i1 %v1, label %then2, label %else2
    then2:  ...  br label %end2
    else2:  ...  br label %end2
    end2:
"""

import functools
import re
from contextlib import contextmanager

from ...compile.loops.index_rules import has_digit, linear
from ...compile.loops.scalars import FLOAT32, UINT16
from ...compile.numbers.scalar_forms import plain_name
from ...compile.schedule.nests import terms_in_memory
from ...trace.jit.jit import cache_clearers
from ..emit import Walker, computed
from .target import converts


def function_name(key):
    """`exp_float32_float32`: of a function that `scalar_form` described."""
    name, dtypes, dtype = key
    return "_".join([name, *(d.name for d in dtypes), dtype.name])


def key_of(expr):
    """What the function of an `Op` is known by: with some exponents a power is another.
    """
    return plain_name(expr), tuple(arg.dtype for arg in expr.args), expr.dtype


def typed_text(kinds, values):
    """Arguments of a call: `float %v1, i64 %i2`."""
    pairs = zip(kinds, values, strict=True)
    return ", ".join(f"{kind} {value}" for kind, value in pairs)


# What LLVM calls where a float64 becomes a float32, and that a float16 at once.  It is
# of the runtime of C compilers, which no process of ours has.  It rounds twice, as was
# asked for, and returns a half as it does a vector.
DOUBLE_TO_HALF = """
declare <8 x i16> @llvm.x86.vcvtps2ph.128(<4 x float>, i32)

define hidden <8 x i16> @__truncdfhf2(double %x) {
  %wide = fptrunc double %x to float
  %wides = insertelement <4 x float> zeroinitializer, float %wide, i64 0
  %halves = call <8 x i16> @llvm.x86.vcvtps2ph.128(<4 x float> %wides, i32 0)
  ret <8 x i16> %halves
}
"""


class FunctionCalls:
    """How a writer calls functions, and writes two cases: methods for `LLVMWriter`.

    Attributes:
      used: the keys of the functions it calls, see `function_text`.
      declared: the declarations of what else it calls.
      for_host: whether it writes for the machine that it runs on.
      halves: {(dtype, a register with such a 16-bit float): one with its bits}.
    """

    lines: list
    used: dict
    declared: dict
    halves: dict
    for_host = True

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

    def call(self, key, values):
        """A call of a function that stands in the same module."""
        self.used[key] = None
        _, dtypes, dtype = key
        given = typed_text(map(self.type, dtypes), values)
        return self.do(f"call {self.type(dtype)} @{function_name(key)}({given})")

    def half_types(self):
        """The types of registers with a float16's bits, with it, and with a float32."""
        bits = self.type(UINT16)
        return bits, bits.replace("i16", "half"), self.type(FLOAT32)

    def decode(self, dtype, value):
        """A 16-bit float from its bits."""
        if self.for_host and converts(dtype):
            bits, half, wide = self.half_types()
            number = self.do(f"bitcast {bits} {value} to {half}")
            number = self.do(f"fpext {half} {number} to {wide}")
            if wide.startswith("<"):
                # LLVM would look for the largest, or compare, as float16s: which takes
                # several times as long.
                count = wide[1:].partition(" ")[0]
                name = f"llvm.arithmetic.fence.v{count}f32"
                number = self.invoke(name, wide, (wide, number))
        else:
            key = f"{dtype.name}_value", (UINT16,), FLOAT32
            number = self.call(key, [value])
        self.halves[dtype, number] = value
        return number

    def encode(self, dtype, value):
        """The bits of the nearest 16-bit float; what is one already has them."""
        if (dtype, value) in self.halves:
            return self.halves[dtype, value]
        if self.for_host and converts(dtype):
            bits, half, wide = self.half_types()
            self.declared[DOUBLE_TO_HALF] = None
            value = self.do(f"fptrunc {wide} {value} to {half}")
            return self.do(f"bitcast {half} {value} to {bits}")
        return self.call((f"{dtype.name}_bits", (FLOAT32,), UINT16), [value])

    def round(self, dtype, value):
        """The nearest 16-bit float, as a float32."""
        return self.decode(dtype, self.encode(dtype, value))

    def invoke(self, name, result, *typed):
        """A call of a function from elsewhere; its arguments are (type, value)."""
        kinds, values = zip(*typed, strict=True)
        self.declared[f"declare {result} @{name}({', '.join(kinds)})"] = None
        return self.do(f"call {result} @{name}({typed_text(kinds, values)})")

    def library(self, name, kind, values):
        """A call of a function of the C library, of numbers of one type."""
        return self.invoke(name, kind, *((kind, value) for value in values))


class MemoryWalker(Walker):
    """A `Walker` for whom an index is a place in memory, and nothing more."""

    def index(self, access):
        """Pairs of a part of the place and its factor.

        What has a value is one part: what it is made of may not be there any more.
        """
        if any(map(has_digit, access.index)):
            terms = terms_in_memory(access.index, access.buffer)
        else:
            pairs = zip(access.index, access.buffer.strides, strict=True)
            terms = linear(*pairs, whole=self.values).items()
        return [(self.value(part), factor) for part, factor in terms]


def define(key, writer, name, attributes, linkage="internal"):
    """The text of a function that `scalar_form` described."""
    _, dtypes, dtype = key
    values, kind = [f"%x{i}" for i in range(len(dtypes))], writer.type(dtype)
    given = typed_text(map(writer.type, dtypes), values)
    head = f"{linkage} {kind} @{name}({given}) {attributes}"
    return writer.text(head, f"{kind} {computed(writer, key, values)}")


@functools.cache
def function_text(key, new_writer):
    """The function for a key: -> (text, declarations, keys of what it calls)."""
    writer = new_writer()
    text = define(key, writer, function_name(key), "alwaysinline")
    return text, tuple(writer.declared), tuple(writer.used)


# How functions are written.
function_texts = {"function": function_text}
cache_clearers.append(function_text.cache_clear)

# What LLVM may take for granted about a kernel, and how wide its vectors may be.
ATTRIBUTES = """\
attributes #0 = {
  noinline nounwind "prefer-vector-width"="512" "no-trapping-math"="true"
}
"""


def numbered(text):
    """A module whose notes have numbers: `!kernel_81e0_n3` becomes `!13`."""
    numbers = {}
    own = lambda found: numbers.setdefault(found[0], f"!{10 + len(numbers)}")
    return re.sub(r"!\w+_n\d+", own, text)
