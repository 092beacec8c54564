"""scipy.special where a table of calls does not look: limits, bits, long series."""

from math import erfc

import numpy as np
import pytest
import scipy.special

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.ops import special as ops_special
from minijit.scipy import special

pytestmark = pytest.mark.chapter(16)


@pytest.mark.chapter(23)
def test_digamma_is_exact_near_its_roots():
    # mpmath's, of 40 digits; it is 0 between 1 and 2, and between any two poles.
    wanted = {
        0.25: -4.2274535333762655, 1.0: -0.5772156649015329, 1.25: -0.22745353337626542,
        1.4616321449683622: -9.241265521729427e-17, 2.0: 0.42278433509846713,
        1.464218557195252: 0.002499841915746609, 2.0015: 0.4237512818483615,
        9.999: 2.2516474172057355, 0.001: -1000.57557193181028,
        -0.25: 2.91413912021352783, -0.504: 0.000742071604705396851,
        -0.5041: -0.000151902926764573034, -1.5735: -0.0000151790950733598653,
        -3.9: -8.18509019720911935,
    }  # fmt: skip
    with mj.enable_x64(True):
        found = mj.jit(special.digamma)(np.array([*wanted]))
    # Where the sides of the reflection cancel, what is left has their rounding.
    np.testing.assert_allclose(found, [*wanted.values()], rtol=3e-15, atol=5e-16)


def test_zero_times_infinity():
    assert special.xlogy(0.0, 0.0) == 0.0
    assert special.xlog1py(0.0, -1.0) == 0.0
    assert special.entr(0.0) == 0.0
    assert mj.grad(special.xlogy)(0.0, 2.0) == jnp.log(2.0)
    assert mj.grad(special.xlogy, 1)(0.0, 2.0) == 0.0
    assert np.isinf(special.rel_entr(1.0, 0.0)) and special.rel_entr(0.0, 0.0) == 0


def test_an_odd_function_of_minus_zero_is_minus_zero():
    for dtype in ("f2", "f4"):
        zero = np.full(3, -0.0, dtype)
        for f in (mj.lax.bessel_i1e, mj.jit(mj.lax.bessel_i1e)):
            assert np.signbit(np.asarray(f(zero))).all()


@pytest.mark.chapter(24)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", "erf erfc i0 i0e i1 i1e gammaln".split())
def test_a_special_function_is_arithmetic_in_one_kernel(name, dtype):
    """Values of all sizes, on both sides of where one way of computing ends."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-27, 27, 20_000), rng.normal(size=20_000)])
    x = np.concatenate([x, [0.0, -0.0, 0.5, 1, 12, -12, np.inf, np.nan]])
    f = getattr(mj.scipy.special, name)
    with mj.enable_x64(True):
        x = jnp.asarray(x.astype(dtype))
        assert [k.route for k in mj.explain(f, x).kernels] == ["llvm"]
        found = np.asarray(mj.jit(f)(x))
    with np.errstate(all="ignore"):
        # SciPy's erfc is off by 5e-14 where that is small.
        wanted = getattr(scipy.special, name) if name != "erfc" else np.vectorize(erfc)
        wanted = wanted(np.asarray(x, "float64")).astype(dtype)
    # Where gammaln is near one of its zeros, the error is that of a number near 1.
    # SciPy's errors count as well, and it says that i1(-0.) is 0.
    info = np.finfo(dtype)
    atol = 4 * info.eps if name == "gammaln" else info.tiny
    np.testing.assert_allclose(found, wanted, 16 * info.eps, atol)


@pytest.mark.chapter(23)
def test_the_gradient_of_digamma_is_compiled():
    x = np.concatenate([np.linspace(-20.3, 30, 999), [1e-3, 1e6, np.inf]]).astype("f4")
    slope = mj.grad(lambda x: special.digamma(x).sum())
    assert not mj.explain(slope, x).fallbacks
    wanted = scipy.special.polygamma(1, x.astype(float))
    np.testing.assert_allclose(mj.jit(slope)(x), wanted, rtol=2e-7)
    at_poles = mj.jit(slope)(np.array([0.0, -0.0, -1, -7, -np.inf], "f4"))
    assert np.array_equal(at_poles, [np.inf] * 5)


@pytest.mark.parametrize("name", """digamma erf erfc erfinv expit gammaln i0e i1e logit
    ndtr entr log_ndtr ndtri spence""".split())  # fmt: skip
def test_of_nan_comes_nan(name):
    assert np.isnan(getattr(mj.scipy.special, name)(np.float32(np.nan)))


@pytest.mark.chapter(24)
@pytest.mark.parametrize("name", ["erf", "i0e", "i1e"])
def test_quotients_in_float32_are_right_to_a_few_units(name):
    f = getattr(special, name)
    near, far = np.linspace(-9, 9, 30_001), np.geomspace(1e-30, 1e30, 5_000)
    x = np.concatenate([near, far, [0.0, -0.0, np.inf, -np.inf]]).astype(np.float32)
    wanted = getattr(scipy.special, name)(x.astype(np.float64))
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    found = np.asarray(mj.jit(f)(x))
    assert (np.abs(found - wanted) / unit).max() < 5.5
    assert np.isnan(mj.jit(f)(np.full(3, np.nan, np.float32))).all()
    if name == "erf":
        assert np.abs(found).max() == 1 and np.signbit(found[-3])


# (a, x, the derivative of igamma(a, x) by a, 1 - igamma(a, x)), by mpmath.
INCOMPLETE = np.array([
    (0.1, 1.15, -0.2094576585389535, 0.019065491360624427),
    (0.3, 0.05, -1.280733608125873, 0.5515631378934073),
    (2.5, 2.5, -0.26084496236866944, 0.41588018699550794),
    (30, 45.0, -0.0034741570951297633, 0.007337199297796504),
    (0.01, 3.2, -0.010531713230153068, 0.0001033179619246037),
    (5, 0.4, -0.00016131303719276515, 0.9999387566728977),
    (0.2, 2.9, -0.02755812914890082, 0.0041833364873487934),
]).T  # fmt: skip


def test_slopes_of_igamma_are_right_in_either_precision():
    a, x, slope, rest = INCOMPLETE
    with mj.enable_x64(True):
        np.testing.assert_allclose(lax.igamma_grad_a(a, x), slope, rtol=1e-13)
        np.testing.assert_allclose(lax.igammac(a, x), rest, rtol=1e-13)
    a, x = a.astype(np.float32), x.astype(np.float32)
    np.testing.assert_allclose(lax.igamma_grad_a(a, x), slope, rtol=2e-6)
    np.testing.assert_allclose(lax.igammac(a, x), rest, rtol=2e-6)
    density = np.exp((a - 1) * np.log(x) - x - scipy.special.gammaln(a))
    found = lax.random_gamma_grad(a, x)
    np.testing.assert_allclose(found, -slope / density, rtol=5e-6)
    assert np.isnan(lax.igamma_grad_a(np.float32(-1.0), np.float32(1.0)))
    empty = np.ones((0, 2), np.float32)
    assert lax.igamma_grad_a(empty, empty).shape == (0, 2)


def test_a_series_takes_as_many_steps_as_each_of_its_elements_needs(monkeypatch):
    """In single precision some took 10,000 steps, and all others with them."""
    rng, counts = np.random.default_rng(0), []
    a, x = (np.abs(rng.normal(size=(2, 1000))) + 0.1).astype(np.float32)
    run = ops_special.until_exact

    def counted(step, first, *given):
        def one(n, state, *given):
            counts.append(state[0].size)
            return step(n, state, *given)

        return run(one, first, *given)

    monkeypatch.setattr(ops_special, "until_exact", counted)
    ops_special.igamma_slope(a, x)
    assert a.size < sum(counts) < 40 * a.size and len(counts) < 200


def test_scipy_is_asked_for_igammac_only_where_that_is_small(monkeypatch):
    a, x, _, rest = INCOMPLETE.astype(np.float32)
    a, x = np.append(a, np.float32(0.5)), np.append(x, np.float32(40.0))
    sizes, special_of = [], ops_special.special

    def counted(name):
        return lambda *args: (
            sizes.append((name, args[0].size)) or special_of(name)(*args)
        )

    monkeypatch.setattr(ops_special, "special", counted)
    found = ops_special.igammac_value(a, x)
    assert sizes == [("gammainc", 8), ("gammaincc", 1)]
    np.testing.assert_allclose(found[:-1], rest, rtol=2e-6)
    np.testing.assert_allclose(found[-1], scipy.special.gammaincc(0.5, 40.0), rtol=2e-6)
