"""Solutions to chapter 24."""

import math

import numpy as np

import minijit as mj
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load, Op
from minijit.compile.loops.statements import For, Kernel, Store
from minijit.compile.numbers.scalar_forms import FLOAT64, scalar_forms
from minijit.compile.numbers.vector_math import LN2, mantissa_and_exponent, special_log
from minijit.run.llvm.kernels import KernelText, functions_of


def terms_needed(limit):
    r = np.linspace(-LN2 / 2, LN2 / 2, 1001)
    n, total = 0, np.ones_like(r)
    while np.max(np.abs(total - np.exp(r)) / np.exp(r)) >= limit:
        n += 1
        total = total + r**n / math.factorial(n)
    return n


def check_terms_needed(terms_needed):
    """The error is largest at one of the ends, -log(2) / 2 or log(2) / 2."""
    assert terms_needed(0.5) == 0
    assert terms_needed(0.1) == 1
    assert terms_needed(2**-24) == 7
    assert terms_needed(2**-40) == 10


def power_of_two_by_bits(k):
    return np.array([(k + 127) << 23 & 0xFFFFFFFF], np.uint32).view(np.float32)[0]


def wrong_power():
    return -127


def check_wrong_power(wrong_power):
    """What are the bits of a power of two whose exponent field would be 0 or less?"""
    k = wrong_power()
    exact = np.float32(math.ldexp(1.5, k))
    assert exact == math.ldexp(1.5, k) != 0
    with np.errstate(all="ignore"):
        assert np.float32(1.5) * power_of_two_by_bits(k) != exact


def log2_form(x, dtype):
    wide = x.to(FLOAT64)
    m, e = mantissa_and_exponent(wide)
    result = m.apply("log") * (1 / LN2) + e
    return special_log(wide, result).to(dtype)


def native(name, x):
    """An operation of the loop IR on each element of an array of float32."""
    mj.clear_caches()
    given, result = Buffer("x", x.shape, x.dtype), Buffer("y", x.shape, x.dtype)
    axis = Axis(x.size)
    value = Op(name, (Load(given, (axis,)),), x.dtype)
    nest = For(axis, (Store(result, (axis,), value),))
    text = KernelText(Kernel("k0", (nest,)))
    out = np.empty_like(x)
    functions_of([text])[text.key](x, out)
    return out


def check_log2_form(log2_form):
    """`m, e = mantissa_and_exponent(x.to(FLOAT64))`, and `special_log` at the end."""
    known = scalar_forms.get("log2")
    scalar_forms["log2"] = log2_form
    try:
        powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
        assert np.array_equal(native("log2", powers), np.arange(-149, 128))
        every = np.arange(1, 0x7F800000, 99991, dtype=np.uint32).view(np.float32)
        exact = np.log2(every.astype(np.float64))
        error = np.abs(native("log2", every) - exact)
        assert np.all(error <= np.spacing(np.abs(exact).astype(np.float32)))
        ends = native("log2", np.float32([0, -0.0, -1, np.inf, np.nan]))
        assert np.array_equal(ends[:2], [-np.inf, -np.inf]) and ends[3] == np.inf
        assert np.isnan(ends[[2, 4]]).all()
    finally:
        if known is None:
            del scalar_forms["log2"]
        else:
            scalar_forms["log2"] = known
