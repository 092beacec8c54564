"""What one call outside of a trace costs: counted, and not timed."""

import gc
import threading
import weakref

import numpy as np
import pytest
from harness import in_a_process, in_threads, profiled, refused

import minijit.numpy as jnp
from minijit import config, enable_x64, lax
from minijit.numpy import core
from minijit.trace import dtypes, numpy_values
from minijit.trace.array import eval_rules, on_numpy, shape_rules
from minijit.trace.core import Primitive

pytestmark = pytest.mark.chapter(3)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


@pytest.fixture
def made():
    """A function that makes primitives, whose rows go when the test is over."""
    primitives = []

    def make(shape_rule, function=lambda x, **params: x, **options):
        primitive = Primitive("made", **options)
        primitives.append(primitive)
        shape_rules[primitive] = shape_rule
        eval_rules.update(on_numpy({primitive: function}))
        return primitive

    yield make
    for primitive in primitives:
        del shape_rules[primitive], eval_rules[primitive]


def test_a_rule_that_is_replaced_is_asked(made):
    p = made(lambda x: x.update(shape=(3, 1)), lambda x: x.reshape(3, 1))
    assert p.bind(jnp.ones(3)).shape == (3, 1)
    shape_rules[p] = lambda x: x.update(shape=(1, 3))
    eval_rules.update(on_numpy({p: lambda x: x.reshape(1, 3)}))
    assert p.bind(jnp.ones(3)).shape == (1, 3)


def test_no_param_is_kept_alive(made):
    class Thing:
        pass

    def function(x):
        return x

    p = made(lambda x, **params: x)
    thing, parts = Thing(), np.ones(3)
    things = [weakref.ref(x) for x in (thing, function, parts)]
    p.bind(jnp.ones(3), thing=thing)
    p.bind(jnp.ones(3), thing=(1, function))
    p.bind(jnp.ones(3), thing=parts)
    x = jnp.ones(5)
    things.append(weakref.ref(x))
    p.bind(x)
    del thing, function, parts, x
    gc.collect()
    assert [x() for x in things] == [None] * 4


def test_calls_within_calls_and_in_many_threads(made):
    inner = jnp.zeros(3)
    barrier = threading.Barrier(4)

    def function(x):
        barrier.wait(timeout=60)
        return x + (inner / inner).numpy()

    p = made(lambda x: x, function)
    results = []

    def work():
        results.extend(p.bind(jnp.ones(3)) for _ in range(20))

    in_threads(*[work] * 4)
    assert len(results) == 80 and all(jnp.isnan(y).all() for y in results)


def test_what_is_alike_is_not_promoted(monkeypatch):
    x, n = jnp.ones(3), jnp.arange(3)
    types = Counted(dtypes.lattice_result_type)
    monkeypatch.setattr(dtypes, "lattice_result_type", types)
    first, second = core.promote_args("add", x, x)
    assert first is x and second is x
    x + x, x * x.sum(), n + n, x < x, jnp.sin(x), x / x, jnp.where(x > x, x, x)
    assert types.calls == 0
    assert (n / n).dtype == "float32" and (x + n).dtype == "float32"
    assert types.calls == 2


def test_what_looks_alike():
    with enable_x64(True):
        arrays = [jnp.ones(2, dtype) for dtype in ("float64", "int32", "bool")]
        for x in arrays:
            for y in arrays:
                assert (x + y).dtype == jnp.promote_types(x.dtype, y.dtype)
    assert (jnp.ones(2) * jnp.ones((3, 2))).shape == (3, 2)
    assert (jnp.ones((2, 1)) * jnp.ones(3)).shape == (2, 3)
    weak = jnp.asarray(1.0)
    assert (weak + weak).weak_type and not (weak + jnp.ones(())).weak_type


def python_calls(function):
    """How many calls of Python functions one call makes, once all tables are warm."""
    for _ in range(30):
        function()
    return profiled(function)[1].count("call")


x, w, i = jnp.ones(8), jnp.ones((8, 8)), jnp.array([3, 1])
# From a large array on, calls of a function are looked up.
jnp.asarray(jnp.ones(1 << 17), "int32")

# How many steps there are, and some room, of what was called often.  Each had more
# while shape rules ran for each call: 44, 81, 84, 114, 148, 90, 203, 214, 312, 53, 48,
# 80, 255, 111, 131, 177.
most_calls = [
    (lambda: jnp.sin(x), 11),
    (lambda: x > 0, 16),
    (lambda: jnp.where(x > 0, x, x), 34),
    (lambda: lax.add(x, x), 13),
    (lambda: jnp.add(x, x), 13),
    (lambda: x * x, 16),
    (lambda: x + 1.0, 16),
    (lambda: x[0], 100),
    (lambda: x[1:3], 70),
    (lambda: x[i], 180),
    (lambda: jnp.where(x, x, x), 20),
    (lambda: jnp.where(x, x, 0.0), 20),
    (lambda: jnp.sum(x), 11),
    (lambda: jnp.reshape(x, (2, 4)), 25),
    (lambda: jnp.concatenate([x, x]), 22),
    (lambda: x.at[0].set(1.0), 230),
    (lambda: jnp.zeros((8,)), 16),
    (lambda: jnp.asarray([1.0, 2.0, 3.0]), 62),
    (lambda: w @ w, 18),
]


@pytest.mark.chapter(16)
def test_the_steps_of_a_call():
    """In a process of its own: after many kinds of calls of a function none is looked
    up, and tests of arrays on a GPU leave what is asked at each step."""
    told = in_a_process("""
        from test_eager import most_calls, python_calls
        for call, most in most_calls:
            print(python_calls(call), most)
    """)
    counts = [tuple(map(int, line.split())) for line in told.splitlines()]
    assert len(counts) == len(most_calls)
    assert [(i, n) for i, (n, most) in enumerate(counts) if n > most] == []


@pytest.mark.chapter(12)
def test_a_plan_serves_only_what_it_was_made_for():
    x, n = jnp.ones(3), jnp.arange(3)
    for _ in range(3):
        assert jnp.sin(x).dtype == "float32" and (n + 1).dtype == "int32"
        assert lax.integer_pow(x, 2).shape == (3,)
        with pytest.raises(TypeError):
            lax.integer_pow(x, 2.0)
        with enable_x64(True):
            assert (jnp.arange(3) + 1).dtype == "int64"
            assert (jnp.asarray(1.0) + x).dtype == "float32"
        assert (x + 1).weak_type is False and (n + 1.5).dtype == "float32"
        assert (jnp.asarray(1.0) + 1).weak_type is True
    with config.override("debug_nans", True), pytest.raises(FloatingPointError):
        jnp.log(-x)
    assert np.isnan(jnp.log(-x)).all()
    deleted = jnp.sin(x)
    deleted.delete()
    refused(RuntimeError, "deleted", jnp.sin, deleted)


def test_plans_in_many_threads_are_right():
    arrays = [jnp.arange(n, dtype=float) + 1 for n in range(1, 300)]
    wrong = []

    def work():
        for x in arrays:
            if float(jnp.sum(x * 2.0)) != x.size * (x.size + 1):
                wrong.append(x)

    in_threads(*[work] * 4)
    assert not wrong


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint32", "bool"])
def test_short_rows_are_reduced_side_by_side(dtype, monkeypatch):
    monkeypatch.setattr(numpy_values, "in_rows", Counted(numpy_values.in_rows))
    rng = np.random.RandomState(0)
    for n in (1, 2, 3, 16, 17):
        values = rng.choice([-2, -1, -0.0, 0.0, 1, 3, np.nan], (40, 50, n))
        if dtype[:5] != "float":
            values = np.nan_to_num(values)
        x = jnp.asarray(np.abs(values) if dtype == "uint32" else values).astype(dtype)
        for reduce in (jnp.max, jnp.min):
            before = numpy_values.in_rows.calls
            row = np.asarray(reduce(x, axis=-1))
            assert numpy_values.in_rows.calls > before
            column = np.asarray(reduce(jnp.moveaxis(x, -1, 0), axis=0))
            np.testing.assert_array_equal(row, column)
            np.testing.assert_array_equal(row, getattr(np, reduce.__name__)(x, -1))
            if dtype[:5] == "float":
                kept = ~np.isnan(row)
                assert (np.signbit(row) == np.signbit(column))[kept].all()


@pytest.mark.chapter(16)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", numpy_values.parts, ids=lambda f: f.__name__)
def test_functions_of_many_complex_numbers_are_numpys(function):
    """By real functions: as exact, the same signs of zeros, infinities and NaN."""
    ends = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 1e-20, 3e38, -90, 88.9, 1e4]
    rng = np.random.RandomState(0)
    x, y = (np.ravel(p) for p in np.meshgrid(ends, ends))
    z = np.empty(len(x) + 800, np.complex64)
    z.real = np.concatenate([x, 3 * rng.randn(800)])
    z.imag = np.concatenate([y, 3 * rng.randn(800)])
    ours = getattr(jnp, function.__name__)
    found = [np.asarray(ours(jnp.asarray(z))) for _ in range(3)]
    wanted, exact = function(z), function(z.astype(np.complex128))
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    for part in ("real", "imag"):
        ours, theirs, wide = (getattr(a, part) for a in (found[0], wanted, exact))
        plain = np.isfinite(theirs) & (theirs != 0)
        np.testing.assert_array_equal(ours[~plain], theirs[~plain])
        signs = np.signbit(ours) == np.signbit(theirs)
        assert signs[~np.isnan(theirs)].all()
        np.testing.assert_allclose(ours[plain], wide[plain], rtol=1e-6, atol=1e-37)


LONG_SUMS = [
    *[((300, 40), axes) for axes in [(0,), (1,), (0, 1)]],
    *[((50, 9, 7, 5), (axis,)) for axis in range(4)],
    *[((50, 9, 7, 5), axes) for axes in [(0, 2), (1, 3), (2, 3)]],
    *[((5000, 2), (0,)), ((5000, 2), (1,)), ((3, 4000), (0,)), ((3, 4000), (1,))],
    *[((13001,), (0,)), ((2, 3000, 3), (1,)), ((2, 2050, 70), (1,))],
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16"])
@pytest.mark.parametrize("shape, axes", LONG_SUMS)
def test_long_sums_and_extremes_of_all_axes(shape, axes, dtype):
    with enable_x64():
        x = np.random.RandomState(0).randn(*shape).astype(dtype)
        wide = x.astype(np.complex128 if dtype == "complex64" else np.float64)
        total = np.asarray(jnp.asarray(x).sum(axes))
        assert total.dtype == dtype
        rtol, atol = {"float64": (1e-12, 1e-12), "float16": (2e-3, 0.1)}.get(
            dtype, (1e-5, 1e-4)
        )
        np.testing.assert_allclose(total, wide.sum(axes), rtol=rtol, atol=atol)
        if dtype != "complex64":
            np.testing.assert_array_equal(jnp.asarray(x).max(axes), x.max(axes))
            np.testing.assert_array_equal(jnp.asarray(x).min(axes), x.min(axes))


def test_extremes_of_many_and_a_number():
    """0.0 is larger than -0.0, and NaN is either's extremum."""
    pairs = jnp.array([[0.0, -0.0], [-0.0, 0.0]])
    assert np.signbit(pairs.min(1)).all() and not np.signbit(pairs.max(1)).any()
    values = np.tile(np.float32([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan]), 2000)
    for number in (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan):
        for ours, theirs in ((jnp.maximum, np.maximum), (jnp.minimum, np.minimum)):
            few, many, swapped = map(np.asarray, (
                ours(jnp.asarray(values[:7]), number),
                ours(jnp.asarray(values), number),
                ours(number, jnp.asarray(values)),
            ))  # fmt: skip
            np.testing.assert_array_equal(many, theirs(values, np.float32(number)))
            signs = np.signbit(many).reshape(2000, 7)
            assert (signs == np.signbit(few)).all()
            assert (signs.ravel() == np.signbit(swapped)).all()
