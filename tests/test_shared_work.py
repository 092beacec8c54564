"""Long work in native loops, in parts: the same bits, whoever computes them."""

import os
from functools import partial

import numpy as np
import pytest
from harness import in_a_child, in_threads

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.loops.buffers import Buffer, View
from minijit.compile.loops.expressions import Axis, as_index, op
from minijit.compile.loops.statements import Call, For, If, Region, Store, statements
from minijit.run.llvm.kernels import functions_of
from minijit.run.llvm.product_tiles import FIELDS
from minijit.run.loading import rewritten
from minijit.run.threads import kernels as threads, shared_work
from minijit.run.threads.shared_work import (
    SharingText, SharingWriter, shared_plan, team_of,
)
from minijit.run.threads.workers import caller_in_parts
from minijit.trace.base.config import config

pytestmark = pytest.mark.chapter(25)
rng = np.random.default_rng(0)


@pytest.fixture
def always(monkeypatch):
    """Divide whatever can be divided, however small it is."""
    monkeypatch.setitem(config.values, "thread_time", 0)
    with config.override("fusion", config.fusion.but(small_product=0)):
        yield


def numbers(*shape, dtype="f4"):
    return rng.normal(size=shape).astype(dtype)


def powers(x, w):
    """Products in a native loop: each step is a long one."""
    return lax.fori_loop(0, 4, lambda i, c: jnp.tanh(w @ c) * 0.5, x)


def region_of(f, *args):
    program = rewritten(f.lower(*args).compile().executable.program)
    region, = (k for k in program.kernels if isinstance(k, Region))
    return region


def call_of(m, n, k, dtype="f4"):
    """A `Call` of a product of two matrices."""
    shapes = dict(a=(m, k), b=(k, n), out=(m, n))
    a, b, out = (
        View(Buffer(name, shape, np.dtype(dtype)), shape, (shape[1], 1), 0)
        for name, shape in shapes.items()
    )
    return Call("matmul", (a, b), (out,), {}, ())


EQUATIONS = ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->nm"]
SHAPES = [(150, 70, 40), (3, 200, 133), (33, 33, 33), (600, 5, 90), (64, 96, 1100)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_the_number_of_threads_changes_no_bit(equation, dtype, always):
    first, second = equation.split("->")[0].split(",")
    pairs = []
    for m, n, k in SHAPES:
        sizes = dict(m=m, n=n, k=k)
        shapes = [[3, *(sizes[i] for i in part)] for part in (first, second)]
        pairs.append([numbers(*shape, dtype=dtype) for shape in shapes])

    def step(one, pairs):
        return one, [jnp.einsum(equation, x * one, y) for x, y in pairs]

    with mj.enable_x64(True):
        f = mj.jit(lambda pairs: lax.scan(step, np.ones((), dtype), pairs)[1])
        results = []
        for count in (1, 2, 3, 64):
            with config.override("cpu_threads", count):
                results.append([y.numpy() for y in f(pairs)])
        text = SharingText(region_of(f, pairs))
    assert text.handed and text.text.count("store ptr @kernel_") == len(SHAPES)
    batched = f"z{first},z{second}->z{equation[-2:]}"
    for j, pair in enumerate(pairs):
        np.testing.assert_allclose(
            results[0][j], np.einsum(batched, *pair), rtol=1e-3, atol=1e-4
        )
        assert len({result[j].tobytes() for result in results}) == 1


@pytest.mark.parametrize(
    "m, n, k", [(512, 512, 512), (4000, 24, 60), (20, 4000, 60), (300_000, 3, 5)]
)
def test_the_blocks_are_the_whole(m, n, k):
    blocks, size, plan = shared_plan(call_of(m, n, k))
    found = dict(zip(FIELDS, plan, strict=False))
    rows, columns = found["m_block"], found["n_block"]
    assert blocks == -(-m // rows) * -(-n // columns) == found["blocks"]
    # None is of a few microseconds only, and there are some for each of many threads.
    parts = -(-blocks // size)
    assert 4 <= parts < 2 * config.fusion.most_parts
    assert 2 * m * n * k >= parts * shared_work.smallest_part()
    assert rows % 8 == 0 == columns % 32


def test_only_long_products_are_divided():
    small, large = numbers(40, 40), numbers(300, 300)
    f = mj.jit(powers)
    text = SharingText(region_of(f, small, small))
    assert not text.handed and "@minijit_share" not in text.text
    assert text.launch(f, *text.facts) is f
    text = SharingText(region_of(f, large, large))
    assert text.handed == ("team",) and text.text.count("store ptr @kernel_") == 1
    calls = [s for s in statements(region_of(f, large, large).body)]
    assert sum(isinstance(s, Call) for s in calls) == 1
    assert text.buffers and all(isinstance(b, Buffer) for b in text.buffers)


def heat(u):
    near = sum(jnp.roll(u, k, axis) for k in (1, -1) for axis in (0, 1))
    return u + 0.1 * (near - 4 * u)


def many_steps(step, x, n=20):
    return lax.fori_loop(0, n, step, x)


# name -> a function of an array, some of whose nests are shared
nests = {
    "stencil": lambda x: many_steps(lambda i, u: heat(u), x),
    "number of the step": lambda x: many_steps(lambda i, u: heat(u) * 0.1 * i, x),
    "carried number": lambda x: many_steps(
        lambda i, c: (heat(c[0]) * c[1], c[1] * 0.9), (x, 1.0)
    ),
    "rows": lambda x: many_steps(lambda i, u: u - u.mean(1, keepdims=True) + x[0], x),
    "blocks of lanes": lambda x: many_steps(
        lambda i, z: z * z + 0.1, jnp.tile(x.ravel() * 0.01, 300)
    ),
    "blocks that count": lambda x: many_steps(
        lambda i, c: (jnp.cos(c[0]) + c[1] * i, c[1] * 0.9),
        (jnp.tile(x.ravel() * 0.01, 300), 0.5),
    ),
    "complex blocks": lambda x: many_steps(
        lambda i, z: z * z + 0.1, lax.complex(*[jnp.tile(x.ravel() * 0.01, 99)] * 2)
    ),
    "while": lambda x: lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, heat(c[1])), (0, x)
    ),
    "branch": lambda x: many_steps(
        lambda i, u: lax.cond(i % 2 == 0, heat, jnp.cos, u), x
    ),
    "rows given": lambda x: lax.scan(lambda c, r: (c + r.sum(), x * c), 0.0, x),
    "gradient": mj.grad(
        lambda x: many_steps(lambda i, u: jnp.sin(u) + heat(u), x).sum()
    ),
}


@pytest.mark.parametrize("name", nests)
def test_long_nests_have_the_same_bits_on_all_cores(name, always):
    function = nests[name]
    x, f = numbers(70, 50), mj.jit(function)
    results = []
    for cores in (1, 2, 3):
        with config.override("cpu_threads", cores):
            results.append([y.tobytes() for y in mj.tree.leaves(f(x))])
    assert results[0] == results[1] == results[2]
    want = mj.tree.leaves(mj.jit(function, backend="eval")(x))
    for y, wanted in zip(mj.tree.leaves(f(x)), want, strict=True):
        np.testing.assert_allclose(y, wanted, 1e-3, 1e-4)
    text = f.lower(x).compile().executable.texts["llvm"]()
    assert "call void @minijit_share(" in text


def test_nests_that_cores_cannot_share(always):
    """A total, and steps that need the ones before."""
    for f in (
        lambda x: many_steps(lambda i, c: c + (x * c).sum(), 0.1),
        lambda x: many_steps(lambda i, u: jnp.cumsum(u * i * 0.01), x[0]),
    ):
        text = mj.jit(f).lower(numbers(70, 50)).compile().executable.texts["llvm"]()
        assert "@minijit_share(" not in text


def test_numbers_that_not_all_steps_compute_alike():
    number = Buffer("s", (), np.dtype("i4"), space="register")
    block, inner = Axis(8, "serial"), Axis(4, "serial")
    start, next_one = Store(number, (), as_index(0)), Store(number, (), as_index(1))
    uneven = Axis(op("min", as_index(4), op("sub", as_index(8), block)), "serial")
    alike = (next_one, For(inner, (next_one,)))
    for stmt in (*alike, If(op("lt", block, as_index(3)), (next_one,)),
                 For(uneven, (next_one,))):
        found = shared_work.numbers_of(For(block, (start, stmt)))
        assert found == [number] * (stmt in alike)


def test_one_thread_asks_for_no_worker(always, monkeypatch):
    monkeypatch.setattr(threads, "workers", own := threads.Workers())
    monkeypatch.setattr(shared_work, "workers", own)
    x, f = numbers(50, 50), mj.jit(powers)
    with config.override("cpu_threads", 1):
        one = f(x, x)
    assert not own.boxes and team_of(1).tolist() == [0]
    with config.override("cpu_threads", 3):
        assert f(x, x).numpy().tobytes() == one.numpy().tobytes()
        assert team_of(3).tolist() == [2, *(box.ctypes.data for box in own.boxes)]
    assert len(own.boxes) == 2


def test_a_loop_does_not_wait_for_workers_that_are_busy(always, monkeypatch):
    # Nobody ever looks into these boxes; two of them say that somebody works.
    boxes = [np.array([state, 0]) for state in (1, 0, 1)]
    table = np.array([box.ctypes.data for box in boxes])
    own = threads.Workers()
    monkeypatch.setattr(own, "ask", lambda count: table)
    x, f = numbers(50, 50), mj.jit(powers)
    with config.override("cpu_threads", 1):
        wanted = f(x, x).numpy()
    monkeypatch.setattr(shared_work, "workers", own)
    with config.override("cpu_threads", 4):
        np.testing.assert_array_equal(f(x, x), wanted)
    # The job was taken back from the one that had nothing to do.
    assert [box[0] for box in boxes] == [1, 0, 1]


def test_functions_of_a_region_share_too(always):
    @mj.jit
    def half(w, c):
        for _ in range(9):
            c = jnp.sin(w @ c) + c.sum()
        return c

    def f(w, x):
        return lax.fori_loop(0, 3, lambda i, c: half(w, half(w, c)) * 0.01, x)

    w, x = numbers(40, 40), numbers(40, 40)
    settings = config.fusion.but(small_function=1)
    with config.override("fusion", settings):
        g = mj.jit(f)
        region = region_of(g, w, x)
        results = []
        for count in (1, 3):
            with config.override("cpu_threads", count):
                results.append(g(w, x).numpy())
    assert region.functions
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(
        results[0], mj.jit(f, backend="eval")(w, x), rtol=1e-3, atol=1e-3
    )


class OuterText:
    """A job each part of which runs a long product in parts: `functions_of` takes it.

        outer(a, b, outs, team)         # outs[i] = a @ b
    """

    key, name, steps, vectors, wants = "outer_of_parts", "outer", 0, False, 0
    called_by = staticmethod(partial(caller_in_parts, 1))

    def __init__(self, call):
        writer, views = SharingWriter({}, ("team",)), (*call.inputs, *call.outputs)
        places = zip(views, ("%a", "%b", "%out"), strict=True)
        writer.pointers = {view.buffer: place for view, place in places}
        writer.entry += [
            "  %i = load i64, ptr %range",
            f"  %place = mul i64 %i, {views[-1].buffer.nbytes}",
            "  %out = getelementptr i8, ptr %outs, i64 %place",
        ]
        writer.product(call, ["0"] * 3)
        given = ", ".join(f"ptr %{x}" for x in ("range", "a", "b", "outs", "team"))
        self.text = writer.text(f"void @kernel_{self.key}({given})")
        self.declared, self.used = writer.declared, writer.used


def test_parts_within_parts(always):
    """Workers that are in a part come to a product: it ends, and is right."""
    a, b = numbers(64, 48), numbers(48, 96)
    outs = np.zeros((40, 64, 96), "f4")
    text = OuterText(call_of(64, 96, 48))
    assert "@minijit_share" in text.text
    job = threads.job_of([(i, i + 1, 0) for i in range(len(outs))], 4)
    given = a, b, outs, team_of(4)
    for _ in range(20):
        outs[:] = 0
        threads.run_job(functions_of([text])[text.key], given, job)
        np.testing.assert_allclose(outs[0], a @ b, rtol=1e-4, atol=1e-4)
        assert (outs == outs[0]).all()


def test_callers_in_several_threads(always):
    f, wrong = mj.jit(powers), []
    x, ws = numbers(60, 60), [numbers(60, 60) for _ in range(4)]
    with config.override("cpu_threads", 1):
        wanted = [f(x, w).numpy() for w in ws]

    def work(i):
        with config.override("cpu_threads", 3):
            for _ in range(30):
                if not (f(x, ws[i]).numpy() == wanted[i]).all():
                    wrong.append(i)

    in_threads(*[partial(work, i) for i in range(4)])
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork(always):
    f, x = mj.jit(powers), numbers(50, 50)
    with config.override("cpu_threads", 3):
        wanted = f(x, x).numpy()
        same = lambda: (f(x, x).numpy() == wanted).all()
        again = lambda: all(same() for _ in range(9))
        in_a_child(lambda: again() and len(threads.workers.boxes) == 2)
        assert same()


def test_explain_says_how_many_threads():
    f, shapes = mj.jit(powers), [(300, 300), (40, 40)]
    with config.override("cpu_threads", 3):
        steps = [mj.explain(f, numbers(*s), numbers(*s)).steps for s in shapes]
    assert [step.threads for step, in steps] == [3, 1]


# ---- products as machine code: every layout, in parts of rows or columns, on threads


LAYOUTS = [
    "ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ik,kj->ji", "ki,jk->ji",
    "bik,bkj->bij", "bik,kj->ibj", "bhik,bhkj->bihj", "bihk,bjhk->bhij",
]  # fmt: skip
SIZES = dict(b=3, h=2, i=150, j=70, k=40)
# Columns of a tile that are a vector, a half of one, and one number.
NARROW = SIZES | dict(i=1001, j=13, k=530)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads, sizes", [(1, SIZES), (3, SIZES), (1, NARROW)])
@pytest.mark.parametrize("equation", LAYOUTS)
def test_products_in_parts(equation, threads, sizes, dtype, monkeypatch):
    monkeypatch.setitem(config.values, "thread_time", 0)
    args = [
        rng.integers(-4, 5, [sizes[x] for x in part]).astype(dtype)
        for part in equation.split("->")[0].split(",")
    ]
    with mj.enable_x64(True), config.override("cpu_threads", threads):
        f = mj.jit(lambda x, y: jnp.einsum(equation, x, y), backend="llvm")
        found = f(*args)
    np.testing.assert_array_equal(found, np.einsum(equation, *args))
    executable = f.lower(*args).compile().executable
    assert not executable.kernels and len(executable.program.calls) == 1


@pytest.mark.parametrize("terms", [30, 1024, 1100])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_products_of_short_integers(dtype, terms):
    """Where floats hold all sums, they are products of floats; else of 32 bits."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, (40, terms)).astype(dtype)
    y = rng.integers(info.min, info.max + 1, (terms, 40)).astype(dtype)
    x[0], y[:, 0] = info.min, info.min
    x[1], y[:, 1] = info.max, info.max
    for out in (dtype, "int32"):
        f = mj.jit(lambda x, y, out=out: jnp.matmul(x, y, preferred_element_type=out))
        want = (x.astype(np.int64) @ y.astype(np.int64)).astype(out)
        np.testing.assert_array_equal(f(x, y), want)
        exact = terms * max(info.max, -info.min) ** 2 <= 1 << 24
        assert len(f.lower(x, y).compile().executable.program.calls) == exact
