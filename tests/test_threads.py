"""Kernels in parts: the same bits, whoever calls, and only where it pays."""

import os
from functools import partial

import numpy as np
import pytest
from harness import in_a_child, in_threads

import minijit as mj
import minijit.numpy as jnp
from minijit.run.llvm.kernels import KernelText
from minijit.run.threads import kernels as threads
from minijit.run.threads.kernels import ThreadedText, text_of_kernel

pytestmark = pytest.mark.chapter(24)


@pytest.fixture
def always(monkeypatch):
    """Divide whatever can be divided, however small it is."""
    monkeypatch.setitem(mj.config.values, "thread_time", 0)
    with mj.config.override("fusion", mj.config.fusion.but(one_range=0)):
        yield


@pytest.fixture
def jobs(monkeypatch):
    """A list that grows with each run in parts."""
    made, run = [], threads.run_job

    def noted(function, arrays, job):
        if job[0] > 1:
            made.append([tuple(r) for r in job[2:].reshape(-1, 3).tolist()])
        run(function, arrays, job)

    monkeypatch.setattr(threads, "run_job", noted)
    return made


def with_threads(count, f, *args):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(mj.config.values, "cpu_threads", count)
        return f(*args)


def kernels_of(f, *args):
    f(*args)
    entry, = f.entries.values()
    return entry.executable.program.kernels


def numbers(*shape, dtype="f4"):
    return jnp.asarray(np.random.default_rng(3).normal(size=shape).astype(dtype))


WIDE = numbers(9000)
PROGRAMS = {
    "elementwise": lambda x: jnp.tanh(x) * jnp.exp(x) + jnp.sin(40 * x),
    "a sum a row": lambda x: x.sum(1),
    "a sum a column": lambda x: (x[:, :1] * WIDE).sum(0),
    "softmax": lambda x: mj.nn.softmax(x),
    "transposed": lambda x: (x * 2).T,
    "concatenated": lambda x: jnp.concatenate([x, x * 2, x[:3]]),
    "two results": lambda x: (x + 1, jnp.argmax(x, 1)),
    "ten arrays": lambda x: [x * k for k in range(2, 11)],
    "gathered": lambda x: x[jnp.array([3, 1, 1, 90])],
    "halves": lambda x: jnp.asarray(x, "bfloat16") * 3,
    "gradient": lambda x: mj.grad(lambda x: jnp.tanh(x).sum(1).max())(x),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_number_of_threads_changes_no_bit(program, always, jobs):
    x, results = numbers(101, 67), []
    f = mj.jit(PROGRAMS[program])
    f(x)
    del jobs[:]
    for count in (0, 1, 2, 3, 5, 64, 1000):
        results.append(with_threads(count, f, x))
        assert bool(jobs) == (count > 1)
    for result in results[1:]:
        for y, z in zip(*map(mj.tree.leaves, (results[0], result)), strict=True):
            assert y.numpy().tobytes() == z.numpy().tobytes()


def test_what_comes_after_the_divided_loop_runs_too(monkeypatch, jobs):
    """The last column is a loop of one step, after that of the others."""
    monkeypatch.setitem(mj.config.values, "thread_time", 0)
    x = numbers(1025, 64)
    f = mj.jit(lambda x: x - jnp.concatenate([x[:, 1:], x[:, :1]], 1).max(0))
    one, many = (with_threads(count, f, x) for count in (1, 2))
    assert jobs
    assert one.numpy().tobytes() == many.numpy().tobytes()


@pytest.mark.parametrize("n", [2, 63, 64, 65, 1000, 4097])
def test_parts_are_the_whole(n, always, jobs):
    f = mj.jit(lambda x: jnp.exp(x) + x)
    x = numbers(n)
    one = with_threads(1, f, x)
    del jobs[:]
    many = with_threads(3, f, x)
    parts, = jobs
    assert parts[0][0] == 0 and parts[-1][1] == n and len(parts) <= 12
    assert all(a[1] == b[0] for a, b in zip(parts, parts[1:], strict=False))
    assert one.numpy().tobytes() == many.numpy().tobytes()


def test_small_kernels_are_not_divided(jobs):
    f = mj.jit(lambda x: jnp.tanh(x) + 1)
    small, = kernels_of(f, numbers(1000))
    text = text_of_kernel(small)
    assert type(text) is KernelText and text.launch(f, *text.facts) is f
    # What takes long is divided sooner: a step of it counts as all of its operations.
    for f, n, divided in ((jnp.tanh, 1_000_000, True), (jnp.tanh, 60_000, False),
                          (mj.scipy.special.gammaln, 60_000, True)):  # fmt: skip
        large, = kernels_of(mj.jit(lambda x, f=f: f(x) + 1), numbers(n))
        assert (type(text_of_kernel(large)) is ThreadedText) is divided
    del jobs[:]
    mj.jit(jnp.tanh)(numbers(1000))
    assert not jobs
    # Cores that share the columns would take the lines of all rows from each other.
    x, sums = numbers(50_000, 7), mj.jit(lambda x: jnp.cumsum(x, 0))
    with_threads(2, sums, x)
    assert not jobs and "one core" in [d.rule for d in mj.explain(sums, x).decisions]


@pytest.mark.parametrize(
    "program",
    [lambda x: x.sum(), lambda x: x.at[jnp.array([1, 1])].add(2.0),
     lambda x: jnp.cumsum(x, 0), lambda x: x @ x.T],
)
def test_what_cannot_be_divided_runs_whole(program, always):
    x = numbers(90, 40)
    f = mj.jit(program)
    wanted = mj.jit(program, backend="eval")(x)
    for count in (1, 4):
        assert np.allclose(with_threads(count, f, x), wanted, rtol=1e-4, atol=1e-4)


def test_a_thread_may_have_a_number_of_its_own(always, jobs):
    x, f = numbers(101, 67), mj.jit(PROGRAMS["elementwise"])
    f(x)
    with mj.config.override("cpu_threads", 1):
        del jobs[:]
        f(x)
        assert not jobs
    with mj.config.override("cpu_threads", 3):
        f(x)
        assert jobs


def test_a_kernel_that_reads_what_it_writes_is_not_divided():
    from minijit.compile.loops.buffers import Buffer
    from minijit.compile.loops.expressions import Axis, Load, as_index, op
    from minijit.compile.loops.statements import For, Kernel, Store

    def kernel(index, loaded, at):
        return Kernel("k", (For(i, (Store(y, (index,), Load(loaded, (at,))),)),))

    i, j = Axis(10), Axis(10)
    x, y = (Buffer(name, (100,), np.dtype("f4")) for name in "xy")
    back = op("sub", as_index(99), i)
    assert threads.is_parallel(kernel(i, x, back).body)
    assert threads.is_parallel(kernel(i, y, i).body)
    assert not threads.is_parallel(kernel(i, y, back).body)
    assert not threads.is_parallel(kernel(back, x, i).body)

    def pieces(size):
        at = op("add", op("mul", i, as_index(size)), j)
        return Kernel("k", (For(i, (For(j, (Store(y, (at,), Load(y, (at,))),)),)),))

    assert threads.is_parallel(pieces(10).body)
    assert not threads.is_parallel(pieces(9).body)

    serial = Axis(10, "serial")
    assert not threads.is_parallel(
        (For(serial, (Store(y, (serial,), Load(x, (serial,))),)),)
    )


def test_what_is_in_the_cache_belongs_to_a_step_unless_it_is_handed_on():
    from minijit.compile.loops.buffers import Buffer
    from minijit.compile.loops.expressions import Axis, Load, as_index
    from minijit.compile.loops.statements import For, Store

    i, one, zero = Axis(10), Axis(1), as_index(0)
    x, y, last = (Buffer(name, (100,), np.dtype("f4")) for name in ("x", "y", "z"))
    t = Buffer("t", (1,), np.dtype("f4"), space="cache")
    filled, used = Store(t, (zero,), Load(x, (i,))), Store(y, (i,), Load(t, (zero,)))
    loop = For(i, (filled, used))
    after = For(one, (Store(last, (one,), Load(t, (zero,))),))
    assert threads.is_parallel((loop,))
    assert not threads.is_parallel((loop, after))


def test_callers_in_several_threads(always):
    f, wrong = mj.jit(lambda x: jnp.exp(x) * 2), []
    xs = [numbers(3000) + k for k in range(4)]
    wanted = [np.asarray(with_threads(1, f, x)) for x in xs]

    def work(k):
        for _ in range(50):
            if not (np.asarray(f(xs[k])) == wanted[k]).all():
                wrong.append(k)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(mj.config.values, "cpu_threads", 3)
        in_threads(*[partial(work, k) for k in range(4)])
    assert not wrong


def test_several_threads_ask_for_more_and_more_workers(monkeypatch):
    """Each has as many boxes as it asked for, whoever makes the others meanwhile."""
    monkeypatch.setattr(threads, "workers", threads.Workers())
    monkeypatch.setattr(threads, "serving", lambda: lambda box: None)
    wrong = []

    def work():
        for count in range(30):
            table = threads.workers.ask(count)
            if len(table) < count:
                wrong.append(count)

    in_threads(*[work] * 4)
    assert not wrong and len(threads.workers.boxes) == 29


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork(always):
    f, x = mj.jit(lambda x: jnp.exp(x) * 2), numbers(3000)
    wanted = np.asarray(with_threads(3, f, x))
    assert len(threads.workers.boxes) >= 2
    same = lambda: (np.asarray(with_threads(3, f, x)) == wanted).all()
    again = lambda: not threads.workers.boxes and all(same() for _ in range(9))
    in_a_child(lambda: again() and len(threads.workers.boxes) == 2)
    assert same()


def test_a_call_does_not_wait_for_workers_that_are_busy(always, monkeypatch):
    # Nobody ever looks into these boxes, and the first one says that somebody works.
    threads.workers.ask(2)
    boxes = [np.array([state, 0]) for state in (1, 0)]
    table = np.array([box.ctypes.data for box in boxes])
    monkeypatch.setattr(threads.Workers, "ask", lambda self, count: table)
    f, x = mj.jit(lambda x: jnp.exp(x) * 2), numbers(3000)
    assert np.allclose(with_threads(3, f, x), np.exp(x) * 2)


def test_kernels_of_one_text_and_other_extents():
    """Zeros of 1,000 and of 2,000 rows are one text, whose range comes from outside."""
    x, rows = jnp.ones((2000, 1000)), jnp.arange(2000)

    @mj.jit
    def added(x):
        more = jnp.zeros((2000, 1000)).at[rows].add(x)
        return jnp.zeros((1000, 1000)).at[rows % 1000].add(more)

    kept = [added(x) for _ in range(4)]  # memory that is used again is not zeros
    assert [float(y.sum()) for y in kept] == [2e6] * 4
