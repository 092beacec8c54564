"""The rest of the elementwise primitives: against NumPy, known values, and JAX."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from function_cases import edge_values, text_of
from referee import kept, said

from minijit.ops import bits, complex_numbers, elementary, rounding, special
from minijit.trace import primitives
from minijit.trace.array import wrap

pytestmark = pytest.mark.chapter(16)
e = SimpleNamespace()
for module in (bits, complex_numbers, elementary, primitives, rounding, special):
    vars(e).update(vars(module))

one = """neg sign abs exp log sqrt sin cos tanh bitwise_not exp2 expm1 log1p tan asin
    acos atan sinh cosh asinh acosh atanh logistic rsqrt cbrt square erf erfc erf_inv
    lgamma digamma bessel_i0e bessel_i1e floor ceil round is_finite population_count clz
    real imag conj""".split()
two = """add sub mul div max min bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge
    atan2 igamma igammac zeta polygamma nextafter rem shift_left shift_right_logical
    shift_right_arithmetic complex""".split()
names = "bool int8 int32 uint8 uint32 float16 bfloat16 float32 complex64".split()


def apply(name, *args, **params):
    """Our function on NumPy arrays, which become arrays; Python numbers stay."""
    args = [wrap(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in args]
    return getattr(e, name)(*args, **params)


def assert_close(ours, theirs, message, scale=1.0):
    """Equal types; equal integers; floats up to a few units in the last place."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), message
    if ours.dtype.kind in "iub":
        assert np.array_equal(ours, theirs), message
        return
    eps = float(ml_dtypes.finfo(ours.dtype).eps) / (16 if ours.itemsize == 2 else 1)
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    ours, theirs = ours.astype(wide), theirs.astype(wide)
    np.testing.assert_allclose(
        ours, theirs, rtol=64 * scale * eps, atol=16 * scale * eps, err_msg=str(message)
    )


# What JAX computes otherwise: approximations near poles and limits.
loose = {"tan": 4, "exp2": 64, "lgamma": 8, "digamma": 8, "igamma": 64, "igammac": 64}


def calls(name):
    """(arguments, params) of calls of a function: each dtype, and Python's numbers."""
    if name == "reduce_precision":
        rng = np.random.default_rng(0)
        for dtype in ("float16", "bfloat16", "float32"):
            exponents = rng.integers(-30, 30, 200)
            with np.errstate(over="ignore"):
                x = (rng.standard_normal(200) * 10.0**exponents).astype(dtype)
            # In the middle between two numbers of 0, 3, 7 and 10 bits, and beside it.
            ties = (1 + 2.0 ** -np.array([1, 4, 8, 11])).astype(dtype)
            beside = [np.nextafter(ties, ties.dtype.type(k)) for k in (0, 2)]
            x = np.concatenate([x, edge_values(dtype), ties, *beside])
            for exponent, mantissa in [(1, 0), (4, 3), (5, 10), (8, 7), (8, 23)]:
                yield [x], {"exponent_bits": exponent, "mantissa_bits": mantissa}
        return
    # At 0 and at infinity JAX's own series give up.
    series = name in ("zeta", "polygamma", "igamma", "igammac")
    for dtype in ["int8", "float32"] if series else names:
        x = edge_values(dtype)
        if name in two and x.dtype.kind == "c":
            # Beyond these atan2 cancels, or stands at its cut.
            x = x[:3]
        elif series and dtype == "float32":
            x = x[~np.isnan(x)]
            x = x[(x > 0.4) & (x < 20)]
        yield [np.repeat(x, len(x)), np.tile(x, len(x))] if name in two else [x], {}
        if name == "round":
            yield [x], {"rounding_method": 1}
    for numbers in ([2.0, 3.0], [2, 3]) if name in two else ([1.5], [2]):
        yield numbers, {}


functions = [*one, *two, "reduce_precision"]


def asked(name):
    """What jax says of each call, or that it refuses it."""

    def answers():
        import jax

        found = []
        for args, params in calls(name):
            try:
                found.append(said(getattr(jax.lax, name)(*args, **params)))
            except (TypeError, ValueError):
                found.append("refused")
        return found

    return kept(f"{name}: {text_of([*calls(name)])}", answers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", functions)
def test_jax_agrees(name):
    """Value, dtype, weak type, or that both complain."""
    for (args, params), wanted in zip(calls(name), asked(name), strict=True):
        if wanted == "refused":
            with pytest.raises((TypeError, ValueError)):
                apply(name, *args, **params)
            continue
        found = apply(name, *args, **params)
        assert found.weak_type == wanted.weak_type, name
        assert_close(found, wanted, (name, *args), loose.get(name, 1))
