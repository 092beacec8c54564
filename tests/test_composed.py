"""Public functions called often outside jit become one program, of the same bits."""

import gc
import itertools
import tracemalloc
import weakref
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from function_cases import as_jax, find
from harness import in_threads, refused
from test_every_function import tables

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.ops import composed, cumulative, linalg, scatter
from minijit.trace import plans
from minijit.trace.api import calls
from minijit.trace.core import current
from minijit.transform import pieces
from minijit.transform.batching.vmap import BatchTrace
from minijit.transform.derivatives.linearize import JVPTrace

pytestmark = pytest.mark.chapter(25)

x = np.array([3.5, -1.0, 0.0, np.nan, 2.0, -0.0, np.inf], np.float32)


@pytest.fixture
def free(monkeypatch):
    """Compiling costs nothing: a composed function is compiled at its second call."""
    monkeypatch.setattr(composed, "RECORD", 0)
    monkeypatch.setattr(composed, "PROGRAM", 0)
    monkeypatch.setattr(composed, "EQUATION", 0)


def steps_of(call):
    """How many primitives a call evaluates."""
    before = current.bottom.steps
    call()
    return current.bottom.steps - before


def fresh(function, label="jnp.fresh"):
    """A public function as if nobody had called it before."""
    return calls.explaining(calls.underlying(function), label)


def bits(result):
    """What there is to see of arrays; a NaN is a NaN."""
    found = []
    for leaf in mj.tree.leaves(result):
        value = np.array(None if callable(leaf) else leaf)
        if value.dtype.kind in "fcV":
            value[np.isnan(value)] = np.nan
        weak = isinstance(leaf, jnp.ndarray) and leaf.weak_type
        found.append((value.dtype, value.shape, value.tobytes(), weak))
    return found


large = jnp.linspace(-3, 3, plans.LARGE + 5).reshape(-1, 3)


@pytest.mark.parametrize("name", ["var", "sinc", "exp", "cumprod", "sum", "prod"])
def test_with_large_arrays_what_is_not_exact_is_compiled_at_once(name):
    function = getattr(jnp, name)
    f = fresh(function)
    counts, results = [], []
    for _ in range(3):
        counts.append(steps_of(lambda: results.append(f(large))))
    assert counts == [0, 0, 0] and f.traces is lax.scan.traces
    wanted = bits(mj.jit(function)(large))
    assert all(bits(result) == wanted for result in results)


def test_no_answer_depends_on_what_was_called_before():
    f, small = fresh(jnp.var), large[:7]
    few, many = bits(fresh(jnp.var)(small)), bits(fresh(jnp.var)(large))
    for x in (small, large, large, small, small, large, small):
        assert bits(f(x)) == (few if x is small else many)
        assert bits(f(a=x)) == (few if x is small else many)
    assert steps_of(lambda: f(small)) >= calls.MANY
    assert steps_of(lambda: f(large)) == steps_of(lambda: f(a=large)) == 0


one = jnp.float32(1.5)


@pytest.mark.parametrize("name, args, kwargs", [
    ("logaddexp", (one, large), {}),
    ("logaddexp", (large, one), {}),
    ("sum", (large,), {"where": large > 0}),
    ("average", (large,), {"weights": large, "axis": 0}),
])  # fmt: skip
def test_the_largest_argument_decides_wherever_it_stands(name, args, kwargs):
    f = fresh(getattr(jnp, name))
    assert [steps_of(lambda: f(*args, **kwargs)) for _ in range(2)] == [0, 0]


def test_what_values_decide_is_not_compiled_for_large_arrays():
    f, whole = fresh(jnp.unique), jnp.arange(plans.LARGE)
    assert len(f(whole)) == plans.LARGE and len(f(whole[:7])) == 7
    assert len(f(whole // 2)) == plans.LARGE // 2
    assert fresh(jnp.shape)(large) == large.shape
    assert fresh(jnp.size)(large) == large.size


n, half, corner = jnp.arange(1, 8), large.astype(jnp.float16), large[:3]


@pytest.mark.parametrize("call", [
    lambda: 7 // n, lambda: n // 7, lambda: 7 % n, lambda: large @ corner,
    lambda: half + half, lambda: half * 3, lambda: 3 / half, lambda: -half,
    lambda: abs(half), lambda: half**2,
])  # fmt: skip
def test_operators_are_the_functions_that_users_call(free, call):
    found = [bits(call()) for _ in range(4)]
    assert steps_of(call) == 0 and all(x == found[0] for x in found)


def test_primitives_of_several_results_are_programs_too(monkeypatch):
    """A batch of matrices is no loop in Python, in derivatives either."""

    def each(*args, **params):
        raise AssertionError("a matrix by itself")

    monkeypatch.setattr(linalg, "each", each)
    x = np.random.default_rng(0).normal(size=(1 << 14, 2, 2)).astype("f4") + 3
    x = jnp.asarray(x) + 4 * jnp.eye(2)
    inverse = np.linalg.inv(np.asarray(x))
    wanted = -inverse.sum(2)[:, :, None] * inverse.sum(1)[:, None]
    slope = mj.grad(lambda x: jnp.linalg.inv(x).sum())(x)
    np.testing.assert_allclose(slope, wanted.swapaxes(1, 2), 1e-2, 1e-4)
    packed, *_ = linalg.lu_p.bind(x)
    factor = linalg.cholesky_p.bind(x @ x.swapaxes(1, 2))
    assert packed.shape == factor.shape == x.shape
    assert bits(linalg.lu_p.bind(x)[0]) == bits(packed)
    # A call for each of them costs more than all their numbers.
    assert bits(linalg.lu_p.bind(x[:100])[0]) == bits(packed[:100])
    refused(AssertionError, "a matrix by itself", linalg.lu_p.bind, x[:3])
    keys, places = mj.vmap(lambda k: lax.sort((k, jnp.arange(4)), num_keys=1))(
        x.reshape(-1, 4)
    )
    assert bits(places) == bits(jnp.argsort(x.reshape(-1, 4), axis=1).astype("int32"))
    assert bits(keys) == bits(jnp.sort(x.reshape(-1, 4), axis=1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_what_is_exact_is_earned_by_primitives(free, dtype):
    x = jnp.arange(plans.LARGE + 3).astype(dtype)
    y = x[::-1]
    for f, exact in ((lax.add, np.add), (lax.mul, np.multiply), (lax.max, np.maximum)):
        found = [bits(f(x, y)) for _ in range(4)]
        with np.errstate(all="ignore"):
            wanted = exact(np.asarray(x), np.asarray(y))
        assert found == [bits(jnp.asarray(wanted))] * 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
@pytest.mark.parametrize("name", ["set", "add", "multiply", "min"])
def test_scatters_are_earned_though_their_indices_are_numpys(
    free, monkeypatch, dtype, name
):
    where = np.arange(plans.LARGE + 3) * 7 % 5 - 1
    x, y = (jnp.arange(n) % 9 for n in (5, len(where)))
    write = getattr(x.astype(dtype).at[where], name)
    first, _ = bits(write(y.astype(dtype) % 3 + 1)), write(y.astype(dtype) % 3 + 1)
    monkeypatch.delattr(scatter, "find_windows")
    assert bits(write(y.astype(dtype) % 3 + 1)) == first


def test_what_numpy_has_without_a_copy_stays_so(free):
    f = fresh(jnp.reshape)
    for view in (lambda x: f(x, (3, -1)), lambda x: x.reshape(-1), lambda x: x[5:]):
        found = [view(large) for _ in range(5)]
        assert all(np.shares_memory(np.asarray(large), np.asarray(y)) for y in found)


def test_bits_of_random_numbers_are_earned_and_what_becomes_of_them_is_not(free):
    f, key, found = fresh(mj.random.normal), mj.random.key(3), []
    counts = [steps_of(lambda: found.append(bits(f(key, (7,))))) for _ in range(4)]
    assert found == [bits(mj.random.normal(key, (7,)))] * 4
    assert 0 < 2 * counts[-1] < counts[0] and hasattr(f, "traces")


def test_errors_of_operators_are_those_of_operators():
    shown = r"in f32\[\d+,3\] // f32\[5\](.|\n)*test_composed"
    with pytest.raises(ValueError, match=shown):
        large // jnp.ones(5)
    with pytest.raises(TypeError, match=r"in -bool\[\d+,3\](.|\n)*test_composed"):
        print(-(large > 0))


def test_a_row_says_what_was_compiled(free):
    f, a = fresh(jnp.hypot, "jnp.hypot"), jnp.asarray(x)
    for _ in range(3):
        f(a, a)
    assert "jnp.hypot at test_composed.py:" in str(f.traces)
    assert f.traces is lax.scan.traces


@pytest.mark.parametrize("name", ["var", "logaddexp", "sinc", "cov", "corrcoef"])
def test_what_depends_on_an_order_or_on_a_function_stays(free, name):
    f, a = fresh(getattr(jnp, name)), jnp.asarray(x)
    given = (a, a) if name in ("logaddexp", "cov", "corrcoef") else (a,)
    found = []
    counts = [steps_of(lambda: found.append(bits(f(*given)))) for _ in range(4)]
    assert min(counts) >= calls.MANY and found == found[:1] * 4


def test_what_needs_values_stays(free):
    f, a = fresh(jnp.unique), jnp.asarray(x)
    assert [len(f(a)), len(f(a[:2])), len(f(a))] == [6, 2, 6]


def test_numbers_are_known_by_their_value(free):
    f, a = fresh(jnp.nan_to_num), jnp.asarray(x)
    for nan in (1.0, 1, True, 0.0, -0.0, 1.0, -0.0, 0.0):
        for _ in range(3):
            expected = np.nan_to_num(x, nan=nan, posinf=2.0)
            found = np.asarray(f(a, nan=nan, posinf=2.0))
            assert found.tobytes() == expected.tobytes(), nan


def test_code_of_the_user_runs_at_every_call(free):
    seen, a = [], jnp.asarray(x)

    def f(x):
        seen.append(len(seen))
        return jnp.hypot(x, x) + len(seen)

    makers = [mj.vmap, jnp.vectorize, mj.jacfwd, mj.checkpoint, lambda f: f]
    for made in [make(f) for make in makers]:
        before = len(seen)
        for _ in range(6):
            made(a)
        assert len(seen) - before >= 6


def test_errors_are_those_of_the_function(free):
    f, a = fresh(jnp.hypot, "jnp.hypot"), jnp.asarray(x)
    for _ in range(3):
        f(a, a)
    with pytest.raises(TypeError, match=r"jnp.hypot was given(.|\n)*test_composed.py"):
        f(a, a[:2])
    for call in (lambda: f(), lambda: mj.jit(f)(a)):
        with pytest.raises(TypeError, match=r"missing \d required") as raised:
            call()
        assert "jnp.hypot" not in str(raised.value)
    gone = jnp.asarray(x)
    gone.delete()
    refused(RuntimeError, "deleted", f, gone, gone)


def test_nothing_is_kept_alive(free):
    f, a = fresh(jnp.hypot), jnp.ones(5)
    known = weakref.ref(a)
    for _ in range(3):
        f(a, a)
    del a
    gc.collect()
    assert known() is None
    a = jnp.ones(5)
    assert steps_of(lambda: f(a, a)) == 0
    mj.clear_caches()
    assert steps_of(lambda: f(a, a)) >= calls.MANY
    f, a = fresh(mj.nn.gelu), jnp.ones(4000)
    f(a), f(a)
    tracemalloc.start()
    f(a)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * a.nbytes  # Of twelve arrays.


def test_a_weak_type_is_another_kind_of_argument(free):
    f = fresh(jnp.hypot)
    for a in [jnp.float32(2.0), jnp.asarray(2.0)] * 3:
        assert f(a, a).weak_type == a.weak_type


def test_kinds_of_arguments_are_bounded():
    f = fresh(jnp.nan_to_num)
    for i in range(2 * composed.LIMIT):
        f(jnp.asarray(x), nan=float(i))
    own = f.__closure__[[*f.__code__.co_freevars].index("composed")].cell_contents
    assert 0 < len(own.calls) <= composed.LIMIT


def test_one_step_is_looked_up_unless_its_numbers_are_others_each_time():
    f, a = fresh(jnp.add), jnp.asarray(x)
    for _ in range(30):
        f(a, a)
    own = f.__closure__[[*f.__code__.co_freevars].index("composed")].cell_contents
    assert [type(known) for known in own.calls.values()] == [composed.Recorded]
    for i in range(2 * composed.KINDS):
        np.testing.assert_array_equal(f(a, float(i)), x + np.float32(i))
    assert len(own.calls) == composed.KINDS and not own.is_composed


def test_threads_agree(free):
    f, a = fresh(jnp.hypot), jnp.asarray(x)
    expected = bits(f(a, a))
    found = in_threads(*[lambda: [bits(f(a, a)) for _ in range(20)]] * 4)
    assert all(b == expected for each in found for b in each)


# ---- under transformations outside jit


rows, at = jnp.sort(jnp.sin(jnp.arange(24.0)).reshape(4, 6)), jnp.linspace(-1, 1, 5)


@pytest.fixture
def processed(monkeypatch):
    """The names of what traces of lanes and of tangents are given outside jit."""
    names = []
    for kind in (BatchTrace, JVPTrace):

        def process(trace, primitive, args, params, before=kind.process):
            if pieces.recording_trace(trace) is None:
                names.append(primitive.name)
            return before(trace, primitive, args, params)

        monkeypatch.setattr(kind, "process", process)
    return names


@pytest.mark.parametrize("name, call", [
    ("interp", lambda f, row: f(at, row, row)),
    ("percentile", lambda f, row: f(row, 30.0)),
    ("var", lambda f, row: f(row, ddof=1)),
    ("nanvar", lambda f, row: f(row)),
    ("corrcoef", lambda f, row: f(row, row)),
])  # fmt: skip
def test_a_transformation_takes_a_call_as_a_whole_from_the_first_on(
    processed, name, call
):
    f = fresh(find(jnp, name), name)
    batched, slopes = mj.vmap(partial(call, f)), mj.vmap(mj.grad(
        lambda row: jnp.sum(call(f, row))
    ))
    found = [(batched(rows), slopes(rows)) for _ in range(3)]
    assert processed.count("jit") == 3 * (1 + 3)
    assert {"gather", "sort", "div", "is_nan"}.isdisjoint(processed)
    assert [bits(x) for x in found] == [bits(found[0])] * 3
    assert bits(batched(np.asarray(rows))) == bits(found[0][0])
    for values, program in zip(found[0], (batched, slopes), strict=True):
        np.testing.assert_allclose(values, mj.jit(program)(rows), 1e-4, 1e-4)


def test_the_tree_of_running_totals_is_a_call_that_is_recorded_once(processed):
    slopes = mj.grad(lambda x: jnp.cumprod(x).sum())
    found = [slopes(at) for _ in range(2)]
    assert not {"slice", "pad", "concatenate"} & {*processed}
    assert cumulative.tree_of.cache_info().hits
    assert bits(found[0]) == bits(found[1])
    np.testing.assert_allclose(found[0], mj.jit(slopes)(at), 1e-5)


def test_a_call_with_a_loop_that_has_a_tape_has_a_gradient(processed):
    loss = lambda f, x: (f(x)[0] * jnp.arange(9.0).reshape(3, 3)).sum()
    given, f = jnp.eye(3) + rows[:3, :3], lax.linalg.qdwh
    found = mj.grad(partial(loss, fresh(f)))(given)
    assert "jit" in processed
    np.testing.assert_allclose(found, mj.jit(mj.grad(partial(loss, f)))(given), 1e-3)


def test_what_is_exact_is_earned_under_a_transformation(free, processed):
    f, found = fresh(jnp.searchsorted), []
    batched = mj.vmap(lambda row: f(row, at))
    counts = [steps_of(lambda: found.append(bits(batched(rows)))) for _ in range(3)]
    assert counts[0] > 10 > 2 >= max(counts[1:]) and found == [found[0]] * 3
    assert processed == ["jit"] * 3
    expected = [np.searchsorted(row, at) for row in np.asarray(rows)]
    np.testing.assert_array_equal(batched(rows), expected)


def test_other_floats_are_no_other_call_of_a_transformation(processed):
    f = fresh(jnp.percentile)
    for q in (1.0, 25.0, 99.0):
        found = mj.vmap(partial(f, q=q))(rows)
        np.testing.assert_allclose(found, np.percentile(rows, q, axis=1), 1e-5)
    own = f.__closure__[[*f.__code__.co_freevars].index("composed")].cell_contents
    assert processed == ["jit"] * 3 and len(own.calls) == 1
    # A function that a float's value decides takes its steps by itself.
    found = mj.vmap(lambda row: jnp.linalg.norm(row, jnp.inf))(rows)
    np.testing.assert_allclose(found, np.abs(rows).max(1))


# ---- the same bits, of all public functions


def test_programs_give_the_same_bits(free, monkeypatch):
    programs = []
    run = composed.Recorded.__call__
    monkeypatch.setattr(
        composed.Recorded, "__call__", lambda p, xs: programs.append(p) or run(p, xs)
    )
    count = 0
    names = [(table, name) for table, cases in tables.items() for name in cases]
    for table, name in names[::2]:
        module = find(mj, table)
        for case in tables[table][name][:1]:
            if case.over or case.then:
                continue
            f = fresh(find(module, name))
            args, kwargs = as_jax((case.args, case.kwargs), jnp)
            try:
                first = f(*args, **kwargs)
            except Exception:  # Some cases are of what raises.
                continue
            f(*args, **kwargs)
            programs.clear()
            last = f(*args, **kwargs)
            if programs:
                count += 1
                assert bits(first) == bits(last), (table, name, case)
    assert count > 75


def test_the_clock_says_when_compiling_is_earned(monkeypatch):
    clock = itertools.count(0, 4_000_000)
    now = SimpleNamespace(thread_time_ns=lambda: next(clock))
    monkeypatch.setattr(composed, "time", now)
    earned = composed.Earned(lambda: "NumPy", lambda: lambda: "a program", 1)
    assert [earned() for _ in range(4)] == ["NumPy"] * 2 + ["a program"] * 2
