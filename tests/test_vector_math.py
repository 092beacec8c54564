"""Vector mathematics: errors in units of the last place, and what is special.

Every function runs over float32s a stride apart, all exponents and both signs among
them, and over float64s.  The referee of float32 is NumPy or SciPy in float64; that of
float64 is NumPy's long double.
"""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax

scipy_special = pytest.importorskip("scipy.special")

pytestmark = pytest.mark.chapter(24)

longdouble = np.longdouble
needs_long = pytest.mark.skipif(
    np.finfo(longdouble).nmant < 60, reason="the referee has no more bits than float64"
)


def as_numpy(name):
    return getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan",
                        "asinh": "arcsinh", "acosh": "arccosh",
                        "atanh": "arctanh"}.get(name, name))  # fmt: skip


# name -> (the referee, the limits of the error in float32 and in float64).
functions = {
    name: (as_numpy(name), 1.5, 2.5)
    for name in """
    expm1 log log1p sin cos tan asin acos atan cbrt
    """.split()
}
functions |= {
    "exp": (np.exp, 1.6, 2.5),
    "exp2": (np.exp2, 1.8, 2.5),
    **{name: (as_numpy(name), 2.0, 2.5) for name in ("sinh", "cosh", "asinh", "atanh")},
    "acosh": (np.arccosh, 2.5, 2.5),
    "tanh": (np.tanh, 6.0, 2.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.6, 1.6),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), 3.0, 3.0),
    "erf": (scipy_special.erf, 6.0, None),
    "erfc": (scipy_special.erfc, 4.5, None),
    "erf_inv": (scipy_special.erfinv, 3.5, None),
    "lgamma": (scipy_special.gammaln, 1.0, None),
    "digamma": (scipy_special.digamma, 1.0, None),
}
edges = np.float32([
    0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38,
    3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan, 88.72, 88.73, -87.34, -103.97,
    -103.98, 89.4, -89.4, 9, -9, 0.625, 0.6250001, 0.92773, 0.92774, 0.99999994,
    1.0000001, 10, 33, 171.6, 2.0**30, 2.0**31, 1e20, 3, -3, 1.5, -1.5,
])  # fmt: skip
# What the referee says otherwise, in JAX's words: at zero, and at minus infinity.
left_out = {"digamma": [0.0], "lgamma": [-np.inf]}
# What may be 0 where the result is a subnormal number, and what takes one for 0, as JAX
# does.
flushed, taken_for_0 = ("exp", "exp2", "erfc"), ("log",)
# Where 1 / (1 + exp(-x)) is a subnormal, exp(-x) is infinite: 0, as in JAX.
lowest = {"logistic": {"float32": -88.72, "float64": -709.78}}


def sample(dtype):
    if dtype == "float32":
        every = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)
        return np.concatenate([every.view("f4"), edges])
    rng = np.random.default_rng(0)
    every = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view("f8")
    usual = [rng.normal(size=10_000) * scale for scale in (0.1, 1, 10, 300)]
    limits = [709.7, 709.79, 710.4, 710.5, -708.4, -745.1, -745.2, 1e308, 5e-324]
    return np.concatenate([every, *usual, edges.astype("f8"), limits])


def errors(found, wanted):
    """In units of the last place; infinite where only one of the two is special."""
    with np.errstate(all="ignore"):
        rounded = wanted.astype(found.dtype)
        unit = np.spacing(np.abs(rounded)).astype(longdouble)
        size = np.abs(found.astype(longdouble) - wanted) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    size = np.where(same & ~np.isfinite(size), 0, size)
    return np.where(np.isnan(size), np.inf, size)


def check_against_referee(name, dtype, limit):
    referee, x = functions[name][0], sample(dtype)
    x = x[~np.isin(x, left_out.get(name, []))]
    x = x[~(x < lowest.get(name, {}).get(dtype, -np.inf))]
    with np.errstate(all="ignore"):
        wide = np.float64 if dtype == "float32" else longdouble
        subnormal = (x > 0) & (x < np.finfo(dtype).tiny) & (name in taken_for_0)
        wanted = referee(np.where(subnormal, 0, x).astype(wide)).astype(longdouble)
    found = np.asarray(mj.jit(getattr(lax, name), backend="llvm")(x))
    assert found.dtype == dtype
    error = errors(found, wanted)
    if name in flushed:
        error[(found == 0) & (wanted < np.finfo(dtype).tiny)] = 0
    worst = int(np.argmax(error))
    assert error[worst] <= limit, (x[worst], found[worst], wanted[worst])


@pytest.mark.parametrize("name", functions)
def test_float32(name):
    check_against_referee(name, "float32", functions[name][1])


@needs_long
@pytest.mark.parametrize("name", [n for n, row in functions.items() if row[2]])
def test_float64(name):
    with mj.enable_x64(True):
        check_against_referee(name, "float64", functions[name][2])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers(dtype):
    """Those of the C standard, special cases included."""
    ends = "0 -0. 1 -1 2 -2 3 -3 .5 -.5 1.5 inf -inf nan 1e30 -1e30 1e-40 33 -33 1e10"
    ends = np.array([float(v) for v in ends.split()], dtype)
    rng = np.random.default_rng(2)
    some = np.abs(rng.normal(size=3000)).astype(dtype) * 20
    more = (rng.normal(size=3000) * 9).astype(dtype)
    x = np.concatenate([np.repeat(ends, ends.size), some])
    y = np.concatenate([np.tile(ends, ends.size), more])
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(longdouble), y.astype(longdouble))
    with mj.enable_x64(dtype == "float64"):
        found = np.asarray(mj.jit(lax.pow, backend="llvm")(x, y))
    assert found.dtype == dtype and errors(found, wanted).max() <= 1.5


@needs_long
def test_powers_that_are_products_and_a_root():
    """Rounded once, and with the signs of zeros."""
    ends = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3e38, 1e-45, -1e-45]
    x = np.array([*ends, *np.random.default_rng(2).normal(size=3000) * 20], "float32")
    powers = {y: mj.jit(lambda x, y=y: x**y) for y in (0.5, -0.5, 1.5, -1.5, 2.5, -3.5)}
    for y, f in powers.items():
        with np.errstate(all="ignore"):
            wanted = np.power(x.astype(longdouble), longdouble(y)).astype("float32")
        np.testing.assert_array_equal(f(x), wanted)
        signs = [np.copysign(1, np.where(np.isnan(z), 1, z)) for z in (f(x), wanted)]
        np.testing.assert_array_equal(*signs)
        assert "sqrt" in f.lower(x).compile().as_text("llvm")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles(dtype):
    ends = "0 -0. 1 -1 1e-40 -1e30 1e30 inf -inf nan".split()
    ends = np.array([float(v) for v in ends], dtype)
    y, x = (a.ravel() for a in np.meshgrid(ends, ends))
    rng = np.random.default_rng(3)
    more = rng.normal(size=(2, 3000)).astype(dtype)
    y, x = np.concatenate([y, more[0]]), np.concatenate([x, more[1]])
    with np.errstate(all="ignore"):
        wanted = np.arctan2(y.astype(longdouble), x.astype(longdouble))
    with mj.enable_x64(dtype == "float64"):
        found = np.asarray(mj.jit(lax.atan2, backend="llvm")(y, x))
    assert errors(found, wanted).max() <= 2
    number = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found)[number], np.signbit(wanted)[number])


def test_signs_of_zero_are_kept():
    zeros = np.float32([0.0, -0.0])
    odd = """
    sin tan sinh tanh asin atan asinh atanh erf expm1 log1p cbrt erf_inv
    """.split()
    for name in odd:
        found = np.asarray(mj.jit(getattr(lax, name), backend="llvm")(zeros))
        assert not found.any() and np.signbit(found).tolist() == [False, True], name


def test_logarithms_of_sums():
    x = np.float32([0, 1, -np.inf, np.inf, -np.inf, 3, np.nan, 80, -1e30, 5])
    y = np.float32([0, -2, -np.inf, np.inf, 4, np.inf, 1, -80, 1e30, 5])
    f = mj.jit(lambda x, y: lax.cumlogsumexp(jnp.stack([x, y])), backend="llvm")
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(x, y)[1], np.logaddexp(x, y), 2e-7, 1e-7)


@pytest.mark.oracle
@pytest.mark.parametrize("name", functions)
def test_special_values_are_jax_s(name):
    """NaN where jax has NaN, and infinities of jax's sign.

    But for subnormal arguments, which jax takes for zeros on the CPU.
    """
    jax = pytest.importorskip("jax")
    x = edges[~((edges != 0) & (np.abs(edges) < np.finfo("f4").tiny))]
    wanted = np.asarray(getattr(jax.lax, name)(x))
    found = np.asarray(mj.jit(getattr(lax, name), backend="llvm")(x))
    for kind in (np.isnan, np.isposinf, np.isneginf):
        assert np.array_equal(kind(found), kind(wanted)), (name, kind.__name__)


@needs_long
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_near_multiples_of_half_a_pi(name):
    """What is left of an argument there is mostly what two roundings lost."""
    near = np.concatenate([np.arange(1, 2e6, 67) * (np.pi / 2), [91.106186954104]])
    x = np.concatenate([near, np.nextafter(near, 0), np.nextafter(near, np.inf)])
    with mj.enable_x64(True):
        found = np.asarray(mj.jit(getattr(lax, name), backend="llvm")(x))
    assert errors(found, getattr(np, name)(x.astype(longdouble))).max() <= 2


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_less_than_a_register(count, dtype):
    """A loop of few steps is one vector, and calls no function for each number."""
    from minijit.run.llvm.kernels import KernelText, module_text
    from minijit.run.llvm.lanes import lanes_of

    with mj.enable_x64(True):
        x = (np.arange(count) * 37.7 - 40).astype(dtype)
        x[1] = 1e6  # The branch that is hardly ever taken.
        f = mj.jit(lambda x: jnp.sin(x) * x[::-1], backend="llvm")
        wanted = np.sin(x.astype("f8")) * x[::-1]
        np.testing.assert_allclose(f(x), wanted, 2e-6 if dtype == "float32" else 1e-13)
    (entry,) = f.entries.values()
    (kernel,) = entry.executable.program.kernels
    text = module_text([KernelText(kernel)])
    inlined = count in (2, 4, 8, 16) and count < lanes_of(np.dtype(dtype))
    assert (f"@sin_{dtype}" not in text) == inlined
