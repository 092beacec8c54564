"""Complex numbers in native loops, as pairs of real ones: against NumPy and JAX."""

import itertools
import warnings

import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.testing import assert_kernels

pytestmark = pytest.mark.chapter(21)
rng = np.random.default_rng(0)
unary = """abs sign exp exp2 expm1 log log1p sqrt rsqrt sin cos tan sinh cosh tanh
    asin acos atan asinh acosh atanh logistic neg conj real imag square""".split()


def numbers(*shape, dtype="complex64"):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


x, y = numbers(5), numbers(5)


def agree(f, *args, backend="plain", tolerance=1e-6, kernels=None, left=()):
    """A compiled function and its eval rules say the same, with so many kernels."""
    run = mj.jit(f, backend=backend)
    wanted = mj.jit(f, backend="eval")(*args)
    alike(run(*args), wanted, rtol=tolerance, atol=tolerance)
    executable = run.lower(*args).compile().executable
    assert [name for name, _ in executable.fallbacks] == list(left)
    if kernels is not None:
        assert_kernels(f, args, kernels)


# ---- functions


def special(dtype):
    """Pairs of parts, of which most functions think something special."""
    big = float(np.finfo(dtype).max) / 4
    parts = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, big, -1 / big]
    return np.array([complex(a, b) for a, b in itertools.product(parts, parts)], dtype)


@pytest.mark.chapter(23)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_are_chosen_as_numpy_does(name):
    """By the real parts, then by the imaginary ones; NaN stays, a tie is the first."""
    parts = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a, b in itertools.product(parts, parts)], "c8")
    x, y = np.meshgrid(z, z)
    f = getattr(lax, name)
    for backend in ("plain", "llvm"):
        run = mj.jit(f, backend=backend)
        assert np.asarray(run(x, y)).tobytes() == np.asarray(f(x, y)).tobytes()
        assert not run.lower(x, y).compile().executable.fallbacks
    assert np.asarray(f(x, y)).tobytes() == getattr(np, f"{name}imum")(x, y).tobytes()


@pytest.mark.parametrize("name", unary)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions(name, dtype):
    """As NumPy's in the wide type, up to a few units in the last place."""
    with mj.enable_x64(True):
        f = getattr(lax, name)
        z = numbers(60, dtype=dtype) * 10 ** rng.uniform(-4, 1, 60)
        found = np.asarray(mj.jit(f, backend="plain")(z.astype(dtype)))
        wanted = np.asarray(f(z.astype(dtype).astype("complex128")))
    error = abs(found - wanted) / abs(wanted)
    assert error.max() < 8 * np.finfo(dtype).eps


same_sides = """exp log sqrt sinh sin abs neg conj real imag asin acos atan asinh acosh
    atanh""".split()


@pytest.mark.parametrize("name", same_sides)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_infinities_and_sides_of_cuts(name, dtype):
    """The sign of each zero, and what is infinite, are NumPy's where those are sure."""
    with mj.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f, z = getattr(lax, name), special(dtype)
        found, wanted = (np.asarray(g(z)) for g in (mj.jit(f, backend="plain"), f))
    finite = np.isfinite(z) | ~np.isnan(wanted)
    once = ~(np.isinf(z.real) & np.isinf(z.imag)) | (name in ("abs", "log", "sqrt"))
    for part in (np.real, np.imag):
        a, b = part(found)[finite & once], part(wanted)[finite & once]
        np.testing.assert_allclose(a, b, 1e-4, 1e-307)
        assert (np.signbit(a) == np.signbit(b))[~np.isnan(b)].all()


def test_quotients_do_not_overflow():
    cases = [(1e30 + 1e30j, 1e30 - 1e30j), (1e-30j, 1e-30 + 1e-30j), (1 + 2j, 3e38)]
    cases += [(1 + 1j, complex(np.inf, 1)), (3 - 4j, 1e-30), (-1j, 2j), (5, -4j)]
    a, b = (np.array(side, "complex64") for side in zip(*cases, strict=True))
    agree(lambda a, b: a / b, a, b, tolerance=1e-5)
    with np.errstate(all="ignore"):
        zero = mj.jit(lambda a, b: a / b, backend="plain")(a, np.zeros_like(a))
    assert not np.isfinite(zero).any()


@pytest.mark.parametrize("road", [mj.jit, lambda f: f])
def test_what_is_in_range_does_not_pass_what_is_not(road):
    """Where an exponential, a tangent's angle or a root is too large or infinite."""
    of = lambda name, *z: np.asarray(road(getattr(lax, name))(np.array(z, "c8")))
    left = of("logistic", -284 - 361j, -500 + 3j, -1e30 + 1j, -np.inf + 1j, 500 + 3j)
    assert left.tolist() == [0, 0, 0, 0, 1]
    near = of("exp", 89 + 40j, 88 + 1j) / np.exp(np.array([89 + 40j, 88 + 1j]))
    assert abs(near - 1).max() < 3e-6
    assert of("tanh", 12 + 3e38j, -30 - 3e38j).real.tolist() == [1, -1]
    assert np.isfinite(of("tanh", 12 + 3e38j, -30 - 3e38j)).all()
    assert of("rsqrt", 1j * np.inf, complex(np.inf, -np.inf)).tolist() == [0, 0]
    assert of("reciprocal", complex(np.inf, np.inf), 2j).tolist() == [0, -0.5j]
    assert abs(of("log1p", 1e-20, 1e-20j) / [1e-20, 1e-20j] - 1).max() < 1e-6
    below, above = of("log1p", complex(-3, -0.0), complex(-3, 0.0)).imag
    assert below == -above == np.float32(-np.pi)


def test_powers():
    z = np.array([0, 0, 0, 2, 1j, -1, 3 - 4j], "complex64")
    p = np.array([0, 1, 2.5, 3, 2, 0.5, 1 - 2j], "complex64")
    agree(lambda z, p: z**p, z, p, tolerance=1e-5)
    agree(lambda z: (z**3, z**0, (z + 1) ** -2), z, tolerance=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "complex64"])
def test_conversions(dtype):
    parts = [0, 1, -2.5, 1j] if dtype == "complex64" else [0, 1, -2.5, 7]
    given = np.array(parts).astype(dtype)
    agree(lambda v: v.astype("complex64") * 2, given)
    agree(lambda z: (z == z.conj(), z != 0, z.astype("bool")), given)


@pytest.mark.filterwarnings("error")
def test_a_part_that_is_lost_is_warned_of():
    for real in (np.ones(2, "float32"), np.arange(3)):
        lax.convert_element_type(real, "int16")
        lax.convert_element_type(real, "complex64")
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary part"):
        lax.convert_element_type(x, "float32")


# ---- kernels


def test_both_parts_are_read_before_one_is_written():
    z = jnp.array(x)
    f = mj.jit(lambda z: jnp.imag(z) + 1j * jnp.real(z), donate_argnums=0)
    wanted = x.imag + 1j * x.real
    assert np.array_equal(f(z), wanted)
    turn = lambda z: lax.fori_loop(0, 3, lambda i, c: c * 1j, z)
    agree(turn, x)


@pytest.mark.chapter(21)
def test_names_of_parts_end_where_their_numbers_change():
    def step(i, carry):
        z, a = carry
        for add in 0, 1, 0:
            z = z.at[i].set(z[i] * (2 + 3j) * z[0] + add)
        return z, lax.linalg.cholesky(a @ a.T)

    z, a = numbers(4), np.eye(3, dtype="f4") * 4 + 1
    agree(lambda *c: lax.fori_loop(0, 3, step, c), z, a, tolerance=1e-4)


def test_products_change_both_parts_at_once():
    """Also of matrices in a loop, whose determinants are products."""
    z = numbers(6, 5, 5)
    agree(lambda z: (z.prod(2), z.prod((0, 1)), z.sum(1)), z, tolerance=1e-5)
    dets = lambda z: lax.scan(lambda c, w: (c + jnp.linalg.det(w), None), 0j, z)[0]
    agree(dets, z, tolerance=1e-5)
    agree(mj.vmap(dets), numbers(3, 2, 4, 4), tolerance=1e-5)


def test_what_stays_uncompiled_says_so():
    agree(lambda z: jnp.sort(z) * 2, x, left=["sort"])
    agree(lambda z: lax.cumprod(z), x, left=["cumprod"], tolerance=1e-5)
    report = mj.explain(lambda z: (z * 2).max(), x)
    told = "totals of complex numbers by max are left to NumPy"
    assert dict(report.fallbacks)["reduce_max"] == told


# ---- loops


def loss(z):
    def step(c, w):
        new = lax.cond(w.real > 0, lambda c: jnp.sin(c) * w, lambda c: c * w, c)
        return new, abs(c)

    c, sizes = lax.scan(step, z[0], z)
    return abs(c) + sizes.sum()


@pytest.mark.chapter(22)
def test_gradients_through_tapes_of_complex_numbers():
    agree(mj.grad(loss), x, tolerance=1e-5)
    agree(mj.vmap(mj.grad(loss)), numbers(2, 3), tolerance=1e-5)

    def until(z):
        c = lax.while_loop(lambda c: abs(c) < 4, lambda c: c * c + z.sum(), z[0])
        return abs(c) + c.real

    agree(mj.grad(until), x + 1, tolerance=1e-4)


# ---- targets


@pytest.mark.chapter(23)
def test_gradients_in_machine_code():
    agree(mj.grad(loss), x, backend="llvm", tolerance=1e-5)


@pytest.mark.chapter(24)
def test_threads_share_complex_numbers():
    z = numbers(300, 400)
    f = lambda z: (jnp.exp(z) / (z + 2), (z * z).sum(0), abs(z).sum(1), z @ z.T)
    with mj.config.override("thread_time", 1), mj.config.override("cpu_threads", 3):
        agree(f, z, backend="llvm", tolerance=1e-4)


@pytest.mark.parametrize("shapes", [
    "ik,kj->ij:40,50:50,60", "aibk,kcj->aibcj:2,20,3,30:30,4,10",
    "kab,kbm->kam:9,3,79:9,79,84", "ki,jk->ji:6,5:7,6",
])  # fmt: skip
@pytest.mark.parametrize("real", [False, True])
def test_a_product_is_one_call_and_in_a_loop_of_real_numbers(shapes, real):
    equation, *sizes = shapes.split(":")
    a, b = (numbers(*map(int, x.split(","))) for x in sizes)
    b = b.real.copy() if real else b
    f = lambda a, b: jnp.einsum(equation, a * 1j, b) + 1
    agree(f, a, b, tolerance=1e-4)
    assert len(mj.explain(f, a, b).calls) == 1
    in_steps = lambda a, b: lax.map(lambda k: f(a, b * k), jnp.arange(2))
    agree(in_steps, a, b, tolerance=1e-4)
    assert not mj.explain(in_steps, a, b).fallbacks


def test_short_sums_are_loops():
    gate, state = numbers(4, 4), numbers(2, 4, 64)
    f = lambda a, b: jnp.einsum("ij,bjk->bik", a, b) * 2
    agree(f, gate, state, backend="llvm")
    assert not mj.explain(f, gate, state).calls


FACTORS = {
    "of a row": lambda z, i, w: z.at[1].multiply(2j),
    "which meet": lambda z, i, w: z.at[i % 3, i % 2].multiply(w),
    "outside": lambda z, i, w: z.at[i + 25].multiply(w[:, None], mode="drop").sum(0),
    "of what is read on": lambda z, i, w: (y := z * 2).at[i, i].multiply(w) + y,
    "of the next row": lambda z, i, w: lax.fori_loop(
        0, 5, lambda k, z: z.at[k].multiply(z[k + 1]), z
    ),
    "one after the other": lambda z, i, w: (
        z.at[1].multiply(2j).at[1].multiply(1 + 1j).at[:, 2].multiply(3)
    ),
}


@pytest.mark.parametrize("case", FACTORS)
def test_factors_of_some_elements(case):
    """Each part of a product takes both parts of what is there."""
    i = np.random.default_rng(0).integers(0, 30, 60)
    with mj.config.override("debug_checks", True):
        agree(FACTORS[case], numbers(40, 50), i, numbers(60), backend="llvm",
              tolerance=1e-4)  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 5, 3), (90, 20, 40)])
def test_sums_of_functions(shape, axis):
    x = numbers(*shape)
    f = lambda x: (jnp.exp(x) * jnp.cos(x)).sum(axis)
    agree(f, x, backend="llvm", tolerance=1e-4)


def test_what_a_strip_has_computed_is_not_there_behind_it():
    """Quotients by a number, whose conditions no loop around computes."""
    x = numbers(40, 30, 20)
    agree(lambda x: jnp.tanh(jnp.isfinite(x.mean(-1))), x, backend="llvm")


def test_a_strip_goes_on_after_a_short_loop_in_it():
    """What it loads of pairs is told from what the loop within loads."""
    x, h, many, w = numbers(4, 4), numbers(4, 4), numbers(3, 4, 4), numbers(3)

    def step(i, y):
        short = jnp.einsum("k,kij->ij", w, many @ y + y @ many)
        return (y + 0.01 * (h @ y - y @ h) + short) @ h

    agree(lambda y: lax.fori_loop(0, 2, step, y), x, backend="llvm", tolerance=1e-4)


PARTS = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]


def test_quotients_and_products_where_parts_are_infinite():
    """As annex G of C's standard, except that NaN beside an infinity may be either."""
    z = np.array([complex(a, b) for a in PARTS for b in PARTS], "c8")
    a, b = (x.ravel() for x in np.meshgrid(z, z))
    roads = [mj.jit(lambda x, y: x / y), lambda x, y: jnp.asarray(x) / jnp.asarray(y)]
    roads += [mj.jit(lambda x, y: x / y, backend="plain")]
    infinite, finite = np.isinf(z), np.isfinite(z)
    for road in roads:
        q = np.asarray(road(a, b)).reshape(len(z), len(z))  # [divisor, dividend]
        assert np.isinf(q[(z == 0) & finite][:, infinite | finite & (z != 0)]).all()
        assert np.isinf(q[finite][:, infinite]).all()
        assert (q[infinite][:, finite] == 0).all()
        assert np.array_equal(q, np.asarray(roads[0](a, b)).reshape(q.shape), True)


@pytest.mark.parametrize("size", range(1, 9))
def test_few_carried_numbers_are_written_over_one_by_one(size):
    """A step holds the old ones in registers; loops written out have many steps."""
    x = numbers(size)

    @mj.jit
    def powers(x, a):
        step = lambda i, c: (c[0] * a, c[1] * a + c[0])
        return lax.fori_loop(0, 3, step, (x, x + 1))

    a = np.complex64(1 + 0.5j)
    power, tangent = powers(x, a)
    np.testing.assert_allclose(power, x * a**3, rtol=1e-5)
    np.testing.assert_allclose(tangent, (x + 1) * a**3 + 3 * x * a**2, rtol=1e-5)
