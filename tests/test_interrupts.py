"""Signals in native loops and in the compiler: they arrive, and as what they are."""

import gc
import os
import signal
import threading
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.control.watching import work_of
from minijit.run import executable
from minijit.trace.base.config import config
from tests.test_native_control import sources

pytestmark = pytest.mark.chapter(21)

if not hasattr(signal, "setitimer"):
    pytest.skip("signals have no timers here", allow_module_level=True)

# So many steps that a test which waits for all of them is a test that fails.
FOR_EVER = 2**31 - 2


class Alarm(Exception):
    """What the handler of a signal raises."""


@contextmanager
def alarms(handler, after, every=0.0):
    """Have a handler called after some seconds, and then every so often."""
    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def raise_alarm(number, frame):
    raise Alarm("in the handler")


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """A shell starts what runs in the background deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def looks_often():
    mj.clear_caches()
    before = config.fusion
    config.update("fusion", before.but(between_looks=100_000))
    yield
    config.update("fusion", before)


def decay(x, n):
    return lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5 + 1), (0, x)
    )


def allocated():
    """How many arrays numba holds."""
    from numba.core.runtime import _nrt_python as nrt, rtsys

    nrt.memsys_enable_stats()
    stats = rtsys.get_allocation_stats()
    return stats.alloc - stats.free


def test_ctrl_c_arrives_in_a_loop():
    x, jitted = jnp.arange(8.0), mj.jit(decay)
    decay(x, 10)
    for loop in (lambda n: jitted(x, n), lambda n: decay(x, n),
                 lambda n: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x),
                 lambda n: mj.vmap(decay, (0, None))(x, n)):
        loop(10)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            loop(FOR_EVER)
        timer.join()
        assert np.isfinite(mj.tree.leaves(loop(10))[-1]).all()


def swap(x, n):
    """A loop with arrays of its own, that calls a loop."""

    def body(c):
        i, a, b = c
        a = lax.fori_loop(0, 3, lambda j, a: a.at[j].add(b[i % 5]), a)
        return i + 1, b, a * 0.5

    return lax.while_loop(lambda c: c[0] < n, body, (0, x, x + 1))


def tape(x, n):
    """A loop that keeps what its gradient needs."""
    body = lambda c: (c[0] + 1, jnp.sin(c[1]))
    return mj.grad(lambda x: lax.while_loop(lambda c: c[0] < n, body, (0, x))[1])(x[0])


def checkpointed(x, n):
    body = lambda c: (c[0] + 1, jnp.sin(c[1]))

    def f(x):
        run = lax.while_loop(
            lambda c: c[0] < n, body, (0, x), reverse="checkpoint", slots=3
        )
        return run[1]

    return mj.grad(f)(x[0])


@pytest.mark.parametrize(
    ("f", "steps"), [(swap, FOR_EVER), (tape, 20_000_000), (checkpointed, 2**28)]
)
def test_what_a_handler_raises_arrives_and_nothing_leaks(f, steps):
    f, x = mj.jit(f, backend="python"), jnp.arange(5.0)
    want = np.asarray(mj.tree.leaves(f(x, 7))[-1])
    before = allocated()
    with pytest.raises(Alarm, match="in the handler") as caught:
        with alarms(raise_alarm, 0.02):
            f(x, steps)
    assert caught.traceback[-1].name == "raise_alarm"
    alarm = weakref.ref(caught.value)
    del caught
    gc.collect()
    assert alarm() is None and allocated() == before
    np.testing.assert_array_equal(mj.tree.leaves(f(x, 7))[-1], want)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_long_scan_looks(reverse):
    def f(x):
        step = lambda c, i: (c * 0.5 + 1, None)
        return lax.scan(step, x, None, length=FOR_EVER, reverse=reverse)[0]

    run = mj.jit(f).lower(jnp.float32(1)).compile()
    with pytest.raises(Alarm):
        with alarms(raise_alarm, 0.02):
            run(jnp.float32(1))


@pytest.mark.chapter(25)
@pytest.mark.parametrize("cores", [1, 3])
def test_blocks_that_cores_share_all_stop(cores):
    x = jnp.ones(1 << 18)
    f = mj.jit(lambda x: lax.fori_loop(0, FOR_EVER, lambda i, c: c * 0.5 + 1, x))
    with config.override("cpu_threads", cores):
        run = f.lower(x).compile()
        assert "call void @minijit_share(" in run.executable.texts["llvm"]()
        for _ in range(2):
            with pytest.raises(Alarm), alarms(raise_alarm, 0.05):
                run(x)


def test_parts_of_a_scan_are_the_whole_scan():
    """Forward and backward, with a length that is known and one that is not."""

    def f(x, n):
        def step(c, i):
            return c * 0.999 + i, c

        return (
            lax.scan(step, x, jnp.arange(501.0))[1],
            lax.scan(step, x, jnp.arange(501.0), reverse=True)[1],
            mj.grad(lambda x: lax.fori_loop(0, n, lambda i, c: c * 0.9999, x))(x),
        )

    x = jnp.float32(1)
    with config.override("fusion", config.fusion.but(between_looks=1000)):
        got, want = (mj.jit(f, backend=b)(x, 301) for b in ("python", "eval"))
    assert sum("if interrupted(stop)" in text for text in sources()) >= 3
    alike(got, want, rtol=1e-4)


def test_a_handler_that_raises_nothing_runs_in_the_middle_of_a_loop():
    seen, f, x = [], mj.jit(decay), jnp.float32(1)
    f(x, 10)
    with alarms(lambda number, frame: seen.append(f(x, 3)[0]), 0.01, 0.01):
        while len(seen) < 3:
            before = len(seen)
            assert f(x, 50_000_000)[0] == 50_000_000
            in_one_call = len(seen) - before
    # At the end of a loop Python calls a handler once, however often it was wanted.
    assert in_one_call >= 2 and set(map(int, seen)) == {3}


def test_short_loops_do_not_look():
    def f(x):
        return lax.fori_loop(0, 20, lambda i, x: x * 0.5, x)

    mj.jit(f, backend="python")(jnp.ones(100))
    (text,) = sources()
    assert "interrupted" not in text


def test_work_counts_the_loops_within():
    def f(x):
        return lax.fori_loop(0, 20, lambda i, x: x @ x, x)

    def work(n):
        closed = mj.make_jaxpr(f)(jnp.ones((n, n)))
        return work_of(executable.lower(closed))

    assert 20 * 8**3 <= work(8) <= 40 * 8**3 and work(80) > 500 * work(8)


# ---- in the compiler


def test_what_a_handler_raises_while_numba_compiles_is_no_mistake_of_minijit(
    monkeypatch,
):
    """A signal that comes just as numba begins."""
    from numba.core import compiler

    run = compiler.compile_extra

    def interrupted(*args, **kwargs):
        with alarms(raise_alarm, 10):
            signal.raise_signal(signal.SIGALRM)
        return run(*args, **kwargs)

    f = mj.jit(lambda x: jnp.sin(x) * 2 + 1, backend="python")
    x = jnp.ones(3)
    monkeypatch.setattr(compiler, "compile_extra", interrupted)
    with pytest.raises(Alarm):
        f(x)
    monkeypatch.undo()
    np.testing.assert_allclose(f(x), np.sin(np.ones(3)) * 2 + 1, rtol=1e-6)


def test_what_numba_raises_is_a_mistake_of_minijit(monkeypatch):
    from numba.core import compiler

    def fails(*args, **kwargs):
        raise compiler.errors.TypingError("no such type")

    monkeypatch.setattr(compiler, "compile_extra", fails)
    mistake = "no such type\n.*mistake in minijit"
    with pytest.raises(mj.errors.MinijitError, match=mistake):
        mj.jit(lambda x: jnp.sin(x) * 3, backend="python")(jnp.ones(3))
