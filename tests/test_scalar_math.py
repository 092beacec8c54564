"""Scalar functions: JAX's meaning in plain Python, and the same under numba."""

import importlib
from functools import partial

import numpy as np
import pytest
import scipy.special
from harness import in_a_process

import minijit.run.python.scalar_functions
from minijit.run.scalars.numba_scalars import native_functions
from minijit.run.scalars.scalar_math import functions

pytestmark = pytest.mark.chapter(16)

signed = ["int8", "int16", "int32", "int64"]
unsigned = ["uint8", "uint16", "uint32", "uint64"]
floats = ["float32", "float64"]


def samples(dtype):
    """Values of a dtype, the awkward ones first."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        values = "0 -0. 1 -1 .5 -.5 1.5 2.5 -2.5 .49999997 inf -inf nan 1e20 -1e20 300"
        values += " -300 3e9 1e-40 .3 -.7 .99 -.9999 10.5 -3.3 65504 65520 1e-7"
        return np.array([float(v) for v in values.split()], dtype)
    limits = np.iinfo(dtype)
    values = [0, 1, 2, 3, 7, 8, 31, 32, 33, 64, 100, limits.max, limits.max - 1]
    values += [limits.min, limits.min + 1, -1, -2, -7, -33]
    return np.array([v for v in values if limits.min <= v <= limits.max], dtype)


def plain(name, *values):
    """The function as plain Python, one call an element."""
    function = functions[name]
    with np.errstate(all="ignore"):
        return np.array([function(*args) for args in zip(*values, strict=True)])


def grid(*dtypes):
    """All pairs of samples, as flat arrays."""
    return [a.ravel() for a in np.meshgrid(*map(samples, dtypes))]


def test_nan_wins():
    x = np.array([1, np.nan, 2], np.float32)
    y = np.array([np.nan, 1, 3], np.float32)
    assert np.array_equal(plain("maximum", x, y), [np.nan, np.nan, 3], equal_nan=True)
    assert np.array_equal(plain("minimum", x, y), [np.nan, np.nan, 2], equal_nan=True)
    assert np.isnan(plain("sign", y)[0]) and np.signbit(plain("sign", -0.0 * x)[0])


def cases():
    """(name, result dtype, argument dtypes) for the comparison with numba."""
    for d in [*signed, *unsigned, *floats]:
        for name in ["maximum", "minimum"]:
            yield name, d, d, d
    for d in [*signed, *unsigned]:
        for name in ["left", "right_logical", "right_arithmetic"]:
            yield f"shift_{name}", d, d, d
        yield "divide", d, d, d
        yield "remainder", d, d, d
        yield "sign", d, d
        yield "to_float32", "float32", d
        yield "to_int8", "int8", d
        yield "to_uint64", "uint64", d
    for d in floats:
        yield "sign", d, d
        yield "power", d, d, d
        yield "add_any_order", d, d, d
        for i in [*signed, *unsigned]:
            yield f"to_{i}", i, d
    yield "power", "float32", "float32", "int32"


def compiled(wanted):
    """One native kernel that applies several functions: -> the function of arrays."""
    import numba

    lines, locals_ = ["def kernel(args, results):"], {}
    for k, (name, out, *dtypes) in enumerate(wanted):
        arguments = ", ".join(f"args[{k}][{j}][i]" for j in range(len(dtypes)))
        lines.append(f"    for i in range(results[{k}].size):")
        lines.append(f"        r{k} = {name}({arguments})")
        lines.append(f"        results[{k}][i] = r{k}")
        locals_[f"r{k}"] = getattr(numba.types, out)
    namespace = dict(native_functions())
    exec("\n".join(lines), namespace)
    return numba.njit(namespace["kernel"], locals=locals_, error_model="numpy")


def check_native(wanted):
    """Compile the cases, in one kernel, and compare with plain Python."""
    arguments = tuple(tuple(grid(*dtypes)) for _, _, *dtypes in wanted)
    results = tuple(
        np.zeros(a[0].size, case[1]) for a, case in zip(arguments, wanted, strict=True)
    )
    compiled(wanted)(arguments, results)
    for case, args, found in zip(wanted, arguments, results, strict=True):
        expected = plain(case[0], *args)
        assert expected.dtype == case[1], case
        exact = np.dtype(case[1]).kind != "f"
        tolerance = 0 if exact else 3e-7
        np.testing.assert_allclose(found, expected, tolerance, err_msg=str(case))


def test_native_functions_agree_with_the_plain_ones():
    """Each in a type without a sign and another: numba takes longer for more."""
    few = ("int8", "uint32", "float32")
    one = {(case[0], case[1][0] == "u"): case for case in cases() if case[1] in few}
    check_native([*one.values()])


def test_importing_does_not_import_numba():
    code = "import sys, minijit.run.scalars.numba_scalars as m; assert m.numbers"
    code += "; assert 'numba' not in sys.modules"
    in_a_process(code)


def test_source_finds_every_function_by_its_name():
    for name, function in functions.items():
        module = importlib.import_module(function.__module__)
        assert getattr(module, name) is function


@pytest.mark.chapter(23)
def test_numba_does_not_conclude_from_an_overflow():
    """LEAST - 1 is the greatest integer, so it is not below 3."""
    lax, numbers = minijit.lax, samples("int64")
    with minijit.enable_x64(True):
        def f(x):
            y = lax.sub(x, np.int64(1))
            high = lax.ge(y, np.full(y.shape, 2**63 - 2))
            return lax.min(lax.select(high, y, np.full(y.shape, 2)), np.int64(3))

        want = [3 if i in (2**63 - 1, -(2**63)) else 2 for i in numbers.tolist()]
        for backend in ("plain", "python", "llvm"):
            assert minijit.jit(f, backend=backend)(numbers).tolist() == want


# ---- special functions, counts of bits, 16-bit floats: plain, and under numba


special = ["erf", "erfc", "erf_inv", "lgamma", "digamma", "trigamma"]


@pytest.mark.parametrize("dtype", floats)
@pytest.mark.parametrize("name", special)
def test_special_functions(name, dtype):
    x = np.linspace(-5, 5, 197, dtype=dtype)
    x = np.tanh(x) if name == "erf_inv" else x[np.abs(x - np.rint(x)) > 1e-3]
    names = {"lgamma": "gammaln", "erf_inv": "erfinv"}
    function = getattr(scipy.special, names.get(name, name), None)
    function = function or partial(scipy.special.polygamma, 1)
    wanted = function(x.astype(np.float64))
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


def test_special_functions_agree_with_the_plain_ones():
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
