"""What one call outside of a trace costs: counted, and not timed."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest
from harness import in_threads, profiled, refused

import minijit.numpy as jnp
from minijit import config, enable_x64, lax
from minijit.numpy import core
from minijit.trace import array, core as trace_core, dtypes, numpy_values, plans
from minijit.trace.array import (
    ArrayImpl,
    ShapedArray,
    eval_rules,
    on_numpy,
    shape_rules,
)
from minijit.trace.core import Array, Primitive
from minijit.trace.remembered import remembered_avals

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


def test_params_of_other_types_are_other_params(made):
    seen = []
    p = made(lambda x, *, n: seen.append(n) or x)
    for n in (1, True, 1.0, 1, True, 1.0):
        p.bind(jnp.ones(3), n=n)
    assert [type(n) for n in seen] == [int, bool, float]


def test_a_flag_is_part_of_the_question(made):
    rule = Counted(lambda x: x.update(dtype=dtypes.canonicalize_dtype("float64")))
    p = made(rule)
    x = jnp.ones(3)
    assert p.bind(x).dtype == "float32"
    with enable_x64(True):
        assert p.bind(x).dtype == "float64"
    assert p.bind(x).dtype == "float32"
    config.update("enable_x64", True)
    try:
        assert p.bind(x).dtype == "float64"
        assert (jnp.int32(1) + 1.0).dtype == "float64"
    finally:
        config.update("enable_x64", False)
    assert p.bind(x).dtype == "float32" and (jnp.int32(1) + 1.0).dtype == "float32"
    assert rule.calls == 2


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


def test_what_is_remembered_is_bounded(made):
    p = made(lambda x, *, n: x)
    x, most = jnp.ones(3), remembered_avals.cache_info().maxsize
    for n in range(most + 100):
        array.result_avals(p, [x.aval], {"n": n})
    assert remembered_avals.cache_info().currsize == most


@pytest.mark.chapter(16)
def test_calls_do_not_switch_the_warnings_of_numpy(monkeypatch):
    def errstate(*args, **kwargs):
        raise AssertionError("np.errstate takes longer than a small addition")

    monkeypatch.setattr(np, "errstate", errstate)
    x, i, zero = jnp.array([3e38, -1.0, 0.0]), jnp.arange(3), jnp.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.isinf(x * 10)[0] and jnp.isinf(x * x.sum())[0]
        assert jnp.isnan(zero / zero).all() and jnp.isnan(jnp.log(x))[1]
        assert lax.div(i, jnp.zeros(3, int)).tolist() == [-1] * 3
        assert (jnp.int32(2**31 - 1) + jnp.int32(1)).item() == -(2**31)
        assert jnp.isinf(x.astype(jnp.float16))[0] and (x.astype(int)[0] > 0)
        assert jnp.isinf(x + 1e39)[0] and jnp.isinf(jnp.where(x > 0, x, 1e39))[2]
        assert jnp.isinf(jnp.full(3, 1e39)).all()
        assert jnp.isinf(lax.convert_element_type(1e5, jnp.float16))


def test_what_the_user_asked_of_numpy_stays_the_users():
    before = np.geterr()
    zero = jnp.zeros(3)
    with np.errstate(all="raise"):
        assert jnp.isnan(zero / zero).all()
        assert np.geterr()["divide"] == "raise"
        with pytest.raises(FloatingPointError):
            np.divide(np.ones(1), 0)
    assert np.geterr() == before


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


@pytest.mark.chapter(16)
def test_arrays_are_not_asked_for_protocols(monkeypatch):
    asked = []
    old = Array.__getattr__
    monkeypatch.setattr(
        Array, "__getattr__", lambda self, name: asked.append(name) or old(self, name)
    )
    x, i = jnp.ones(3), jnp.arange(2)
    for _ in (x + 1.0, x * x, jnp.where(x > 0, x, 0.0), x[i], jnp.concatenate([x, x])):
        pass
    jnp.sum(x), jnp.sin(x), x @ x, jnp.array([x, x]), x.reshape(3, 1)
    x.at[i].set(1.0)
    assert [name for name in asked if name.startswith("__")] == []


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


def test_no_array_is_printed_to_be_converted():
    class Shown(np.ndarray):
        def __repr__(self):
            raise AssertionError("printed")

    x = np.ones(3).view(Shown)
    assert jnp.asarray(x).dtype == "float32" and jnp.add(x, 1).shape == (3,)
    with pytest.raises(TypeError, match=r"Value array\(\['a'\].* with dtype <U1 is no"):
        jnp.result_type(np.array(["a"]))


def python_calls(function):
    """How many calls of Python functions one call makes, once all tables are warm."""
    function()
    function()
    return profiled(function)[1].count("call")


x, w, i = jnp.ones(8), jnp.ones((8, 8)), jnp.array([3, 1])

# How many steps there are, and some room.  Each had more while shape rules ran for each
# call: 44, 81, 84, 114, 148, 90, 203, 214, 312, 53, 48, 80, 255, 111, 131, 177.
most_calls = [
    (lambda: jnp.sin(x), 11),
    (lambda: x > 0, 16),
    (lambda: jnp.where(x > 0, x, x), 32),
    (lambda: lax.add(x, x), 11),
    (lambda: jnp.add(x, x), 11),
    (lambda: x * x, 12),
    (lambda: x + 1.0, 16),
    (lambda: x[0], 130),
    (lambda: x[1:3], 80),
    (lambda: x[i], 180),
    (lambda: jnp.where(x, x, x), 70),
    (lambda: jnp.where(x, x, 0.0), 110),
    (lambda: jnp.sum(x), 11),
    (lambda: jnp.reshape(x, (2, 4)), 35),
    (lambda: jnp.concatenate([x, x]), 35),
    (lambda: x.at[0].set(1.0), 230),
    (lambda: jnp.zeros((8,)), 55),
    (lambda: jnp.asarray([1.0, 2.0, 3.0]), 65),
    (lambda: w @ w, 45),
]


@pytest.mark.chapter(16)
@pytest.mark.parametrize("call, most", most_calls)
def test_the_steps_of_a_call(monkeypatch, call, most):
    # Tests of arrays on a GPU, and of placed ones, leave what is asked at each step.
    monkeypatch.setattr(trace_core, "elsewhere", [])
    from minijit.jaxcompat.placed_arrays import keep_placement

    checks = [c for c in trace_core.result_checks if c is not keep_placement]
    monkeypatch.setattr(trace_core, "result_checks", checks)
    assert python_calls(call) <= most


@pytest.mark.parametrize("x", [
    jnp.arange(6).reshape(3, 2), jnp.arange(3.0), jnp.zeros((0, 3)), jnp.ones((2, 0)),
    jnp.asarray([True, False]), jnp.broadcast_to(1.5, (3, 2)),
])  # fmt: skip
def test_rows_are_taken_without_an_operation(x):
    before = trace_core.current.trace.steps
    rows = list(x)
    assert trace_core.current.trace.steps == before
    assert [row.aval for row in rows] == [x[i].aval for i in range(len(x))]
    for row, value in zip(rows, x.numpy(), strict=True):
        np.testing.assert_array_equal(row.numpy(), value)
        assert not row.numpy().flags.writeable
    assert [r.tolist() for r in reversed(x)] == x.tolist()[::-1]


@pytest.mark.chapter(16)
def test_rows_of_keys_are_keys():
    from minijit import random

    keys = random.split(random.key(3), 4)
    before = trace_core.current.trace.steps
    rows = list(keys)
    assert trace_core.current.trace.steps == before
    assert [row.aval for row in rows] == [keys[i].aval for i in range(4)]
    assert [str(row) for row in rows] == [str(keys[i]) for i in range(4)]


@pytest.mark.chapter(16)
def test_rows_are_operations_where_somebody_looks():
    from minijit import jit, make_jaxpr

    x = jnp.ones((3, 2))
    assert str(make_jaxpr(lambda x: [*x])(x)).count(" slice[") == 3
    assert str(make_jaxpr(lambda: [*x])()).count(" slice[") == 3
    assert [row.tolist() for row in jit(lambda x: [*x])(x)] == x.tolist()
    bad = jnp.array([1.0, jnp.nan])
    config.update("debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            list(bad)
    finally:
        config.update("debug_nans", False)


@pytest.mark.chapter(12)
def test_arrays_of_equal_types_have_one_plan(monkeypatch):
    x, made = jnp.arange(7.0), []
    lax.sin(x), lax.sin(x)
    plan_for = plans.plan_for
    monkeypatch.setattr(plans, "plan_for", lambda *a: made.append(a) or plan_for(*a))
    lax.sin(ArrayImpl(x.numpy(), ShapedArray(x.shape, x.dtype)))
    assert not made


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
    z = np.empty(len(x) + 1000, np.complex64)
    z.real = np.concatenate([x, 3 * rng.randn(1000)])
    z.imag = np.concatenate([y, 3 * rng.randn(1000)])
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


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int8", "complex64", "float64", "bool"]
)
def test_many_are_chosen_by_their_bits(dtype):
    with enable_x64():
        rng = np.random.RandomState(0)
        x, y = (rng.randn(2, 300, 300) * 3).astype(dtype)
        which = rng.rand(300, 300) > 0.5
        found = np.asarray(jnp.where(which, jnp.asarray(x), jnp.asarray(y)))
        assert found.tobytes() == np.where(which, x, y).tobytes()


def test_extremes_of_many_and_a_number():
    """0.0 is larger than -0.0, and NaN is either's extremum."""
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


def test_numbers_in_range_are_converted_at_once():
    for values in ([1.5, -2.5, 100], [1.5, np.nan], [3e9, 1], [-3e9, 1], [np.inf, 2]):
        x = np.float32(values)
        one_by_one = [int(jnp.asarray(v).astype("int32")) for v in x]
        assert np.asarray(jnp.asarray(x).astype("int32")).tolist() == one_by_one
