"""Donated arguments: results in their memory, as in JAX, and never over others'."""

import itertools
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from harness import alike, refused
from moments import interrupted_at

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.run import donating
from minijit.run.calls import planned_driver
from minijit.tree_util import tree_leaves

pytestmark = pytest.mark.chapter(19)

# Chapter 23 has the backend, chapter 25 the calls that are made ready.
LLVM = pytest.param("llvm", marks=pytest.mark.chapter(25))
each_backend = pytest.mark.parametrize("backend", ["plain", LLVM])

N = 64


def address(x):
    return np.asarray(x).__array_interface__["data"][0]


def adam(state, batch):
    """A step with three states of a type: each has its own argument's memory."""
    w, m, v = state
    error = jnp.tanh(batch @ w) - batch
    g = batch.T @ error
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return (w - 0.1 * m / (jnp.sqrt(v) + 1e-3), m, v), jnp.sum(error * error)


@each_backend
def test_states_stay_where_they_are(backend):
    batch = jnp.array(np.random.RandomState(0).randn(N, N) / N, "float32")
    given = mj.jit(adam, donate_argnums=0, backend=backend)
    kept = mj.jit(adam, backend=backend)
    state = wanted = tuple(jnp.full((N, N), k, "float32") for k in (0.1, 0.2, 0.3))
    state = tuple(x + 0 for x in state)
    places = list(map(address, state))
    for _ in range(2 if backend == "plain" else 6):
        old = state
        (state, loss), (wanted, loss_wanted) = given(state, batch), kept(wanted, batch)
        assert all(x.is_deleted() for x in old)
        assert list(map(address, state)) == places
        alike((*state, loss), (*wanted, loss_wanted))


@pytest.mark.chapter(23)
def test_a_call_takes_no_memory_for_what_it_is_given():
    def step(w, x):
        return w - 0.1 * (x.T @ (x @ w))

    x = jnp.ones((N, N))
    f, w = mj.jit(step, donate_argnums=0, backend="plain"), jnp.ones((N, N))
    for _ in range(2):
        w = f(w, x)
    program = f.lower(w, x).compile().executable.program
    plan = planned_driver.plan_of(planned_driver.rewritten(program))
    assert plan.results == 0
    tracemalloc.start()
    w = f(w, x)
    assert tracemalloc.get_traced_memory()[1] < w.nbytes
    tracemalloc.stop()


rows = np.arange(9)
UPDATES = {
    "row": lambda x: x.at[3].set(2.0),
    "column": lambda x: x.at[:, 3].set(x[:, 3] * x.sum(1)),
    "loop": lambda x: lax.fori_loop(0, 9, lambda i, t: t.at[i].add(t[i + 1]), x),
    "scan": lambda x: lax.scan(lambda t, i: (t.at[i].mul(i), t[0, 0]), x, rows),
    "passed on": lambda x: (x, 2.0),
    "late": lambda x: (x @ x)[0, 0] * x,
    "product": lambda x: x @ x.T,
    "branch": lambda x: lax.cond(x[0, 0] > 0, lambda t: t.at[1].set(0.0), jnp.sin, x),
}


native = pytest.mark.chapter(21)
CASES = [
    pytest.param(n, marks=native if n in ("loop", "scan") else ()) for n in UPDATES
]


@each_backend
@pytest.mark.parametrize("name", CASES)
def test_updates_and_loops_begin_in_the_argument(name, backend):
    f = UPDATES[name]
    x = jnp.arange(N * N, dtype="float32").reshape(N, N) / N
    wanted, place = mj.jit(f, backend="plain")(x), address(x)
    x = mj.jit(f, donate_argnums=0, backend=backend)(x)
    got, wanted = tree_leaves(x)[0], tree_leaves(wanted)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert (address(got) == place) == (name not in ("branch", "product"))


@each_backend
def test_what_others_look_at_is_not_written_over(backend):
    f = mj.jit(lambda x: x * 2, donate_argnums=0, backend=backend)
    for k in range(6):
        x = jnp.arange(8.0) + k
        seen = [np.asarray(x), memoryview(np.asarray(x)), np.asarray(x)[2:3]]
        same = mj.jit(lambda x: x)(x)
        copies = list(map(np.array, seen))
        want = 2 * copies[0]
        assert f(x).tolist() == want.tolist() and x.is_deleted()
        alike(seen, copies)
        assert same.tolist() == copies[0].tolist()
    of_numpy = np.arange(8, dtype="float32")
    for _ in range(3):
        assert f(of_numpy).tolist() == (2 * of_numpy).tolist()
    assert of_numpy.tolist() == list(range(8))


@each_backend
def test_a_view_of_a_result_is_kept_as_well(backend):
    """Memory goes on from call to call; who looks at it between them keeps it."""
    f, x = mj.jit(lambda x: x + 1, donate_argnums=0, backend=backend), jnp.zeros(4)
    views = []
    for k in range(1, 9):
        x = f(x)
        if k % 3 == 0:
            views.append((k, np.asarray(x)))
    assert all(view.tolist() == [k] * 4 for k, view in views)
    assert not np.asarray(x).flags.writeable


def test_bad_numbers_are_looked_for_in_arguments_that_are_there():
    f = mj.jit(lambda x: jnp.log(x), donate_argnums=0)
    with mj.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        f(-jnp.ones(3))


def three(shape=(2, 3)):
    return [np.full(shape, k, "float32") for k in range(1, 4)]


# (function of three arrays, the arrays, the positions that are given away)
MATCHES = [
    (lambda x, y, z: (x.sum(), y * z), three(), (0, 1)),
    (lambda x, y, z: x + y + z, three(), (0, 1, 2)),
    (lambda x, y, z: (x.reshape(6) + 1, y.astype("int32"), z[0]), three(), (0, 1, 2)),
    (lambda x, y, z: y + z, three(), (0,)),
    (lambda x, y, z: (x + y.sum(), x - 1), three(), (1, 2)),
    (lambda x, y, z: [z, x, y], three((1,)), (0, 1)),
]


@pytest.mark.oracle
@pytest.mark.parametrize("case", range(len(MATCHES)))
def test_what_can_be_used_is_what_jax_can_use(case):
    import jax

    f, arrays, donated = MATCHES[case]
    found = []
    for lib in (mj, jax):
        given = list(map(lib.numpy.array, arrays))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            lib.jit(f, donate_argnums=donated)(*given)
        texts = [str(w.message).splitlines()[0] for w in told]
        found.append(([x.is_deleted() for x in given], texts))
    assert found[0] == found[1]


def test_the_warning_comes_once_and_names_the_line():
    f = mj.jit(lambda x: x.sum(), donate_argnums=0)
    with pytest.warns(UserWarning, match=r"not usable: float32\[2,3\]") as told:
        f(jnp.ones((2, 3)))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(jnp.ones((2, 3)))


def test_ctrl_c_while_references_are_counted_leaves_a_pool_its_array():
    """At each moment: the pool's reference is out of its place in one call only."""
    array = np.zeros(10)
    place = donating.held(array)
    count, interrupts = donating.references_but_a_pool([array]), 0
    for k in itertools.count():
        reached, error = interrupted_at(k, partial(donating.references, array))
        assert len(place) == 1
        assert place[0] is array
        if not reached:
            break
        interrupts += 1
        del error
    assert interrupts > 3
    assert donating.references_but_a_pool([array]) == count


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_what_compiles_nothing_takes_what_is_given_away():
    f = mj.jit(lambda x, y: x + y, donate_argnums=(0, 1), backend="eval")
    x = jnp.ones(3)
    refused(mj.errors.JaxRuntimeError, "previously donated.*0, 1 are", f, x, x)
    assert f(x, jnp.ones(3)).tolist() == [2, 2, 2]
