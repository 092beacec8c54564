"""Solutions to chapter 23."""

import ctypes
import re

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.lower.elements import one_operation
from minijit.compile.lower.walk import lower_rules
from minijit.run.llvm.engine import Code, optimised
from minijit.run.llvm.instructions import intrinsic
from minijit.run.llvm.text import instructions
from minijit.trace.array import on_numpy, shape_rules
from minijit.trace.core import Primitive, eval_rules
from minijit.trace.primitives import of_one, unary


axpy = """
define void @axpy(float %a, ptr noalias %x, ptr noalias %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr float, ptr %x, i64 %i
  %value = load float, ptr %from
  %scaled = fmul float %a, %value
  %to = getelementptr float, ptr %y, i64 %i
  %old = load float, ptr %to
  %new = fadd float %old, %scaled
  store float %new, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def check_axpy(axpy):
    """Two loads and a store; `fmul`, `fadd`; `phi` for the index."""
    assert "@axpy" in axpy
    code = Code(axpy)
    kinds = ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    run = ctypes.CFUNCTYPE(None, *kinds)(code.address("axpy"))
    x, y = np.arange(1000, dtype="f4"), np.ones(1000, "f4")
    run(0.5, x.ctypes.data, y.ctypes.data, 999)
    assert np.array_equal(y[:999], 1 + x[:999] / 2) and y[999] == 1
    run(2.0, x.ctypes.data, y.ctypes.data, 1)
    assert y[0] == 1
    assert re.search(r"<\d+ x float>", str(optimised(axpy)))


def reversed_bits(x):
    words = x.view(f"u{x.itemsize}")
    result = np.zeros_like(words)
    for i in range(8 * x.itemsize):
        result = result << 1 | (words >> i) & 1
    return result.view(x.dtype)


reverse_bits_p = Primitive("reverse_bits")
eval_rules |= on_numpy({reverse_bits_p: reversed_bits})
shape_rules |= unary((np.integer,), reverse_bits_p)
lower_rules |= {reverse_bits_p: one_operation("reverse_bits")}
instructions |= {"reverse_bits": intrinsic("bitreverse")}
reverse_bits = of_one(reverse_bits_p, "The bits of integers in reverse order.")


def check_reverse_bits(reverse_bits):
    """`on_numpy`, `unary`, the row of `lower_rules`, and `intrinsic("bitreverse")`."""
    x = np.array([0, 1, 2, -1, 2**30, 12345], np.int32)
    wanted = [int(f"{int(v) % 2**32:032b}"[::-1], 2) for v in x]
    wanted = np.array(wanted, np.uint32).view(np.int32)
    assert np.array_equal(reverse_bits(jnp.asarray(x)), wanted)
    compiled = mj.jit(reverse_bits).lower(x).compile()
    assert compiled.executable.fallbacks == ()
    assert "llvm.bitreverse.i32" in compiled.as_text("llvm")
    assert np.array_equal(mj.jit(reverse_bits)(x), wanted)
    twice = mj.jit(lambda x: reverse_bits(reverse_bits(x)))
    assert np.array_equal(twice(x), x)
    small = np.array([1, 200], np.uint8)
    assert np.array_equal(mj.jit(reverse_bits)(small), np.array([128, 19], np.uint8))
