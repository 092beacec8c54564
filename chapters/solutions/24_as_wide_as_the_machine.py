"""Solutions to chapter 24."""

import math

import numpy as np

import minijit as mj
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load, Op
from minijit.compile.loops.statements import For, Kernel, Store
from minijit.compile.numbers.scalar_forms import scalar_forms
from minijit.compile.numbers.vector_math import (
    expm1_small, limited, muladd, power_of_two, whole_part,
)
from minijit.run.llvm.kernels import KernelText, functions_of

# 77/256 has seven binary digits: its product with a whole k is exact.
HIGH, LOW = 77 / 256, math.log10(2) - 77 / 256


def exp10(x, dtype):
    x = limited(x, -38.2, 38.6)
    k = whole_part(muladd(x, x.like(math.log2(10)), -0.5))
    r = muladd(k, k.like(-LOW), muladd(k, k.like(-HIGH), x))
    return (expm1_small(r * math.log(10)) + 1.0) * power_of_two(k)


def powers_of_ten(x):
    """The operation `exp10` of the loop IR on each element of an array of float32."""
    mj.clear_caches()
    given, result = Buffer("x", x.shape, x.dtype), Buffer("y", x.shape, x.dtype)
    axis = Axis(x.size)
    value = Op("exp10", (Load(given, (axis,)),), x.dtype)
    text = KernelText(Kernel("k0", (For(axis, (Store(result, (axis,), value),)),)))
    out = np.empty_like(x)
    functions_of([text])[text.key](x, out)
    return out


def check_exp10(exp10):
    """Write log10(2) as 77/256, which is exact times a whole k, and the small rest."""
    scalar_forms["exp10"] = exp10
    try:
        small = np.geomspace(1e-6, 37.9, 20_001).astype(np.float32)
        x = np.concatenate([-small, small])
        exact = 10 ** x.astype(np.float64)
        unit = np.spacing(exact.astype(np.float32)).astype(np.float64)
        errors = np.abs(powers_of_ten(x) - exact) / unit
        assert errors.max() < 3, f"{errors.max():.1f} ulp off at {x[errors.argmax()]}"
        ends = powers_of_ten(np.float32([-np.inf, -100, 0, 39, np.inf, np.nan]))
        assert np.array_equal(ends, [0, 0, 1, np.inf, np.inf, np.nan], equal_nan=True)
    finally:
        del scalar_forms["exp10"]
