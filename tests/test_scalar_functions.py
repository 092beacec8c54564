"""Special functions, counts of bits, 16-bit floats: plain, and under numba."""


import numpy as np
import pytest
import scipy.special
from harness import in_a_process
from test_scalar_math import check_native, floats, plain, samples, signed, unsigned

import minijit.run.python.scalar_functions  # noqa: F401

pytestmark = pytest.mark.chapter(16)

special = ["erf", "erfc", "erf_inv", "lgamma", "digamma"]


@pytest.mark.parametrize("dtype", floats)
@pytest.mark.parametrize("name", special)
def test_special_functions(name, dtype):
    x = np.linspace(-5, 5, 197, dtype=dtype)
    x = np.tanh(x) if name == "erf_inv" else x[np.abs(x - np.rint(x)) > 1e-3]
    names = {"lgamma": "gammaln", "erf_inv": "erfinv"}
    wanted = getattr(scipy.special, names.get(name, name))(x.astype(np.float64))
    found = plain(name, x)
    assert found.dtype == dtype
    tolerance = 3e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, wanted, tolerance, tolerance)


def test_special_points():
    poles = np.array([0, -1, -2, np.inf, -np.inf])
    assert plain("lgamma", poles).tolist() == [np.inf] * 5
    assert np.isnan(plain("digamma", poles)[[0, 1, 2, 4]]).all()
    assert plain("digamma", poles)[3] == np.inf
    assert plain("erf_inv", np.array([1.0, -1.0])).tolist() == [np.inf, -np.inf]
    assert np.isnan(plain("erf_inv", np.array([2.0, np.nan]))).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_sixteen_bit_floats(name):
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = samples("float32")
    with np.errstate(over="ignore"):
        wanted = x.astype(dtype)
    rounded = plain(f"round_{name}", x)
    assert np.array_equal(rounded, wanted.astype("f4"), equal_nan=True)
    number = ~np.isnan(x)
    stored = plain(f"{name}_bits", x)
    assert np.array_equal(stored[number], wanted.view(np.uint16)[number])
    every = np.arange(2**16, dtype=np.uint16)[::97]
    values = plain(f"{name}_value", every)
    assert np.array_equal(values, every.view(dtype).astype("f4"), equal_nan=True)


def test_native_functions_agree_with_the_plain_ones():
    names = [*special, "rsqrt", "logistic", "round_away"]
    wanted = [(name, d, d) for i, name in enumerate(names) for d in floats[i % 2 :: 2]]
    counts, halves = ("population_count", "clz"), ("float16", "bfloat16")
    wanted += [(name, d, d) for name in counts for d in signed + unsigned]
    wanted += [(f"round_{name}", "float32", "float32") for name in halves]
    check_native(wanted)


OLD_MACHINE = """
import numpy as np
import minijit as jax

every = np.arange(2**16, dtype=np.uint16).view("f2")
between = np.linspace(-7e4, 7e4, 99_999, dtype="f4")
wide, same, nearest = jax.jit(
    lambda x, y: (x.astype("f4"), x.astype("f4").astype("f2"), y.astype("f2")),
    backend="python",
)(every, between)
np.testing.assert_array_equal(wide, every.astype("f4"))
np.testing.assert_array_equal(same, every)
with np.errstate(over="ignore"):
    np.testing.assert_array_equal(nearest, between.astype("f2"))
"""


def test_float16_needs_no_instructions_of_the_machine():
    old = dict(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    in_a_process(OLD_MACHINE, **old)
