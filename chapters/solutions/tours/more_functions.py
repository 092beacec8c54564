"""Solutions to the tour more_functions.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load, Op
from minijit.compile.loops.statements import For, Kernel, Store
from minijit.compile.numbers.scalar_forms import FLOAT64, scalar_forms
from minijit.compile.numbers.vector_math import LN2, mantissa_and_exponent, special_log
from minijit.run.llvm.kernels import KernelText, functions_of


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


def julia(z, c):
    def step(i, state):
        z, count = state
        near = abs(z) < 2
        return jnp.where(near, z * z + c, z), count + near

    return lax.fori_loop(0, 80, step, (z, jnp.zeros(z.shape, "int32")))[1]


def check_julia(julia):
    """The carry of the loop is z and a count; c stays as it is."""
    z = jnp.array([0, 0.5j, 1 + 1j, 1.5, 2.5, 3j], "complex64")
    for c in 0.0, -0.8 + 0.156j, 0.3:
        want = []
        for point in np.asarray(z):
            count = 0
            while count < 80 and abs(point) < 2:
                point, count = np.complex64(point * point + np.complex64(c)), count + 1
            want.append(count)
        assert np.array_equal(julia(z, c), want)
