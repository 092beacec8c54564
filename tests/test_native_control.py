"""Native loops: what they compute, and that Python stays out of them."""

import ast
import gc
import weakref
from functools import partial

import numpy as np
import pytest
from harness import alike, as_interpreted, profiled, program_of, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, random
from minijit.compile.control import native_loops, products
from minijit.compile.control.lowering import with_regions
from minijit.compile.loops.buffers import Buffer, View, whole
from minijit.compile.loops.expressions import Expr
from minijit.compile.loops.statements import Call, For, Region, statements
from minijit.compile.lower.walk import lower
from minijit.compile.schedule import place as placing
from minijit.compile.schedule.place import placed
from minijit.compile.simplify.folding import simplify
from minijit.run import loading
from minijit.run.executable import compile_plain
from minijit.run.python.regions import RegionSource
from minijit.trace.jit.jit import executors
from minijit.transform import pieces
from minijit.transform.control_flow import steps
from tests import random_memory
from tests.test_control_flow import programs

pytestmark = pytest.mark.chapter(21)

points = [np.array([0.3, -0.2, 0.5], "f4"), np.array([-0.4, 0.9, 0.1], "f4")]


def executable(f, *args):
    """The program of a function, whose kernels and loops nobody has compiled."""
    return executors["plain"](mj.make_jaxpr(f)(*args), "f")


def sources():
    """The sources of the loops printed since the caches were cleared."""
    programs = [made for how in loading.loaded.values() for made in how.values()]
    kernels = [kernel for made in programs for kernel in made.source.kernels]
    return [k.text for k in kernels if isinstance(k, RegionSource)]


agree = partial(as_interpreted, backend="python")


def loops_only(name):
    """Whether the jaxpr's loops all became native: -> the fallbacks that are loops."""
    return [f for f in name.fallbacks if f[0] in ("while", "scan", "cond")]


@pytest.mark.parametrize("program", programs)
def test_source_runs_as_plain_python(program):
    for x in points:
        agree(lambda x: program(lax, x), x, backend="plain")


def matrices(w, x):
    def body(c, a):
        y = jnp.tanh(w @ c) + a @ w.T.reshape(6, 6)[:4].T @ jnp.ones((4, 20), w.dtype)
        return y, (y.sum(0), c.T)

    return lax.scan(body, x, jnp.ones((5, 6, 6), w.dtype), reverse=True)


def swaps(x):
    step = lambda i, c: (c[1], c[0] + i, c[2] * c[2] - c[0])
    return lax.fori_loop(0, 5, step, (x, x + 1, x * 0.1))


def shifted(x):
    """Each element needs its neighbour: nothing to update in place."""
    roll = lambda c: jnp.concatenate([c[1:], c[:1]]) * 1.1
    return lax.while_loop(lambda c: c[0] < 50, roll, x)


def narrow(x):
    half = x.astype("float16")
    f = lambda c, a: (c * a + jnp.bfloat16(1).astype("float16"), c)
    carry, ys = lax.scan(f, half, jnp.ones((4, 3), "float16") * 0.7)
    bits = lambda i, c: (c * 3) ^ (c >> 1)
    return carry, ys, lax.fori_loop(0, 40, bits, (x * 100).astype("uint8"))


def small_and_empty(x):
    ys = lax.scan(lambda c, a: (c + a, c > a), 0.0, x)
    none = lax.scan(lambda c, a: (c + a, c), x, jnp.ones((0, 3)))
    return ys, none, lax.scan(lambda c, _: (c, None), x, None, length=3)[0]


def shared(x):
    g = mj.jit(lambda c, s: jnp.sin(c) * s + jnp.cumsum(c))
    return lax.fori_loop(0, 3, lambda i, c: g(g(c, 1.5), c), x)


def many_branches(x):
    branches = [lambda c, k=k: c * k + k for k in range(4)]
    body = lambda i, c: lax.switch(i % 4, branches, c)
    return lax.fori_loop(0, 6, body, x)


@pytest.mark.parametrize("backend", ["python", "plain"])
@pytest.mark.parametrize(
    "f", [swaps, shifted, narrow, small_and_empty, shared, many_branches]
)
def test_carries(f, backend):
    x = np.array([0.5, 1.5, -0.7], "f4")
    assert loops_only(executable(f, x)) == []
    agree(f, x, backend=backend)


@pytest.mark.parametrize("backend, dtype", [
    ("python", "float32"), ("plain", "float32"), ("plain", "float64"),
])  # fmt: skip
def test_matrix_products_in_loops(backend, dtype):
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(6, 6)).astype(dtype), rng.normal(size=(6, 20)).astype(dtype)
    with mj.enable_x64(True):
        assert loops_only(executable(matrices, w, x)) == []
        agree(matrices, w, x, backend=backend)
        batched = lambda w, x: lax.fori_loop(
            0, 3, lambda i, c: jnp.tanh(jnp.einsum("bij,bjk->bik", w, c)), x
        )
        w, x = np.stack([w, w * 2]), np.stack([x, -x])
        agree(batched, w, x, backend=backend)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spec", ["ij,j->i", "ji,j->i", "bij,bj->bi"])
def test_a_product_with_a_vector_is_loops_over_the_matrix_as_it_is(spec, dtype):
    rng = np.random.default_rng(0)
    factor, vector = spec.split("->")[0].split(",")
    sizes = dict(b=2, i=24, j=24)
    w, x = (rng.normal(size=[sizes[k] for k in s]) / 5 for s in (factor, vector))
    step = lambda i, x: jnp.einsum(spec, w.astype(dtype), x) + 0.5 * x
    with mj.enable_x64(True):
        f = lambda x: lax.fori_loop(0, 3, step, x)
        mj.clear_caches()
        agree(f, x.astype(dtype), backend="plain")
        assert sources() and not any("matmul(" in text for text in sources())


@pytest.mark.parametrize("program", [*programs, swaps, shifted, shared])
def test_nothing_is_allocated_in_a_loop(program):
    mj.clear_caches()
    own = program in (swaps, shifted, shared)
    f = program if own else lambda x: program(lax, x)
    run = executors["plain"](mj.make_jaxpr(f)(points[0]), "f")
    run(points[0])
    assert run.fallbacks == () and sources()
    for text in sources():
        nodes = ast.walk(ast.parse(text))
        loops = [node for node in nodes if isinstance(node, (ast.For, ast.While))]
        inside = {node for loop in loops for node in ast.walk(loop)}
        names = {node.attr for node in inside if isinstance(node, ast.Attribute)}
        assert "empty" not in names


def allocations(f, *args):
    """How many arrays native code makes while a compiled function runs."""
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    f(*args)
    before = rtsys.get_allocation_stats().alloc
    f(*args)
    return rtsys.get_allocation_stats().alloc - before


def test_the_counter_of_allocations_does_not_depend_on_the_number_of_steps():
    """A carry updated in place, two that ping-pong, and products by the BLAS."""
    w = np.eye(32, dtype="f4")

    def step(i, c):
        y = jnp.tanh(w @ c[1])
        return c[0] * 0.5, jnp.concatenate([y[1:], y[:1]]), c[2].T @ w

    loop = lambda n, x, m: lax.fori_loop(0, n, step, (x, x, m))
    f = mj.jit(loop, backend="python")
    assert f.lower(1, w[0], w).compile().fallbacks == ()
    few, many = (allocations(f, n, w[0], w) for n in (1, 5000))
    assert few == many > 0


def test_a_million_iterations_without_python():
    body = lambda c: (c[0] + 1, c[1] * 0.5 + 1.0)
    f = mj.jit(lambda x: lax.while_loop(lambda c: c[0] < 1_000_000, body, (0, x)))
    f(1.0)
    (count, value), frames = profiled(f, 1.0)
    assert int(count) == 1_000_000 and abs(float(value) - 2.0) < 1e-5
    assert len(frames) < 2000


def test_what_stays_with_python_is_listed_with_its_reason():
    f = lambda x: lax.scan(lambda c, _: (jnp.sort(c), None), x, None, length=2)[0]
    x = jnp.linspace(2.0, 1.0, 300)
    run = executable(f, x)
    assert dict(run.fallbacks)["scan"].startswith("driven from Python")
    agree(f, x)


def test_solvers_and_their_derivatives_are_native():
    """A custom_linear_solve is its solver, and its derivatives are solvers again."""

    def relax(matvec, b):
        step = lambda c: (c[0] + b - matvec(c[0]), c[1] + 1)
        return lax.while_loop(lambda c: c[1] < 40, step, (b, 0))[0]

    def solved(a, b):
        matvec = lambda x: x + 0.1 * jnp.tanh(a) * x
        return lax.custom_linear_solve(matvec, b, relax, transpose_solve=relax)

    def root(a):
        halve = lambda f, x: lax.fori_loop(0, 30, lambda i, x: x - 0.5 * f(x), x)
        f = lambda x: x - 0.3 * jnp.cos(x) * a
        return lax.custom_root(f, a, halve, lambda g, y: y / g(jnp.ones_like(y)))

    for f in (lambda x: solved(x, x), root):
        total = mj.grad(lambda x, f=f: jnp.sum(f(x) ** 2))
        for g in (f, total, lambda x, f=f: mj.jvp(f, (x,), (x,))):
            assert executable(g, points[0]).fallbacks == ()
            agree(g, points[1], rtol=1e-4)


@pytest.mark.parametrize("n", [66, 103])
def test_a_loop_over_a_part_of_an_array_stops_there(n):
    """Its end is not that of the array: it would read, and write, behind it."""

    def f(x):
        def step(i, c):
            part = c[1:] * 0.5 + c[:-1]
            return lax.dynamic_update_slice(c * 0.1, part, (0,))

        return lax.fori_loop(0, 5, step, x)

    x = np.linspace(-1, 1, n, dtype="f4")
    agree(f, x)
    agree(mj.grad(lambda x: jnp.sum(jnp.sin(f(x)))), x)


def test_many_parts_and_cases_in_a_loop():
    """What is stored part by part outside of a loop is so within one."""

    def step(x, k):
        parts = [x[i] * 2 for i in range(20)]
        cases = [x + i for i in range(20)]
        return jnp.stack(parts) - lax.select_n(k, *cases), jnp.sum(x)

    def f(x):
        return lax.scan(step, x, jnp.arange(5))

    x = np.arange(20, dtype="f4")
    assert executable(f, x).fallbacks == ()
    agree(f, x)


def test_a_blas_is_told_no_number_that_it_cannot_hold():
    """Its sizes and steps have 32 bits; larger ones go to np.matmul, not truncated."""
    most, number = 2**31 - 1, np.dtype("float32")

    def product(m, k, n, row=None):
        a = Buffer("a", (m, k), number)
        b, c = Buffer("b", (k, n), number), Buffer("c", (m, n), number)
        left = View(a, (m, k), (k if row is None else row, 1))
        return Call("matmul", (left, whole(b)), (whole(c),), {})

    for shape in [(most, 3, 2), (3, most, 2), (3, 2, most)]:
        assert products.product_obstacle(product(*shape)) is None
    wider = [(most + 1, 3, 2), (3, most + 1, 2), (3, 2, most + 1), (2**33, 2, 2**33)]
    for shape in wider:
        assert "2147483647" in products.product_obstacle(product(*shape))
    # One row is never left, but its step is an argument all the same.
    assert products.product_obstacle(product(1, 3, 2, row=most)) is None
    assert "2147483647" in products.product_obstacle(product(1, 3, 2, row=2**40))


@pytest.mark.parametrize("backend", [
    "python", "plain", "eval", pytest.param("llvm", marks=pytest.mark.chapter(23)),
])  # fmt: skip
@pytest.mark.parametrize("mode", ["tape", "checkpoint"])
def test_steps_that_cannot_be_counted_are_an_error(backend, mode, monkeypatch):
    """The count is an int32: it must not wrap, for the way back would take no step."""
    monkeypatch.setattr(steps, "MOST_STEPS", 20)

    def last(x, n):
        body = lambda c: (c[0] + 1, c[1] * 2.0)
        return lax.while_loop(lambda c: c[0] < n, body, (0, x), reverse=mode)[1]

    slope = mj.jit(mj.grad(last), backend=backend)
    assert slope(1.0, 20) == 2.0**20
    refused(OverflowError, "more than 20 steps", slope, 1.0, 21)
    assert slope(1.0, 3) == 8.0
    # What is not differentiated is not counted.
    assert mj.jit(last, backend=backend)(1.0, 40) == 2.0**40

@pytest.mark.fusion
def test_a_long_total_of_a_few_rows_is_one_loop():
    """Whether any of 6 x 56 draws goes on: not one loop for each of the 6."""
    draw, sizes = mj.vmap(mj.vmap(lambda key: random.gamma(key, 2.0))), []
    for rows in (6, 20):
        keys = random.split(random.key(0), (rows, 56))
        program = with_regions(program_of(draw, keys))
        sizes.append(sum(1 for _ in statements(program.body)))
    # Rows that are written out take 2.5 times as many statements.
    assert sizes[0] < 1.1 * sizes[1]


def step(c):
    return c * 0.99 + jnp.sin(c) * 0.01


# Loops of so many steps, called without jit, and what transformations make of them.
eager_loops = {
    "scan": lambda n, x: lax.scan(lambda c, _: (step(c), c[0]), x, None, length=n),
    "while": lambda n, x: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1])), (0, x)
    ),
    "fori": lambda n, x: lax.fori_loop(0, n, lambda i, c: step(c) + i, x),
    "map": lambda n, x: lax.map(step, jnp.ones((n, 8)) * x),
    "grad of while": lambda n, x: mj.grad(
        lambda x: eager_loops["while"](n, x)[1].sum()
    )(x),
    "grad of scan": lambda n, x: mj.grad(
        lambda w: lax.scan(lambda c, _: (step(c * w), None), x, None, length=n)[0].sum()
    )(0.5),
    "vmap of while": lambda n, x: mj.vmap(eager_loops["while"], (None, 0))(
        n, jnp.stack([x, 2 * x])
    ),
    "jvp of fori": lambda n, x: mj.jvp(lambda x: eager_loops["fori"](n, x), (x,), (x,)),
    "jvp of while": lambda n, x: mj.jvp(
        lambda x: eager_loops["while"](n, x)[1], (x,), (x,)
    ),
    "grad of checkpoint": lambda n, x: mj.grad(
        mj.checkpoint(lambda x: eager_loops["while"](n, x)[1].sum())
    )(x),
    "treeverse": lambda n, x: mj.grad(
        lambda x: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1])), (0, x),
            reverse="checkpoint",
        )[1].sum()
    )(x),
}  # fmt: skip


@pytest.mark.parametrize("name", eager_loops)
def test_a_loop_outside_jit_is_one_compiled_program(name):
    loop, x = eager_loops[name], jnp.linspace(0.1, 0.9, 8)
    with mj.disable_jit():
        expected = loop(20, x)
    frames = []
    for n in 20, 2000:
        found = loop(n, x)
        if n == 20:
            close = lambda a, b: np.testing.assert_allclose(a, b, 3e-5)
            mj.tree.map(close, found, expected)
        frames.append(len(profiled(loop, n, x)[1]))
    # A step that Python has a part in is ten calls at least.
    assert frames[1] < frames[0] + 2 * 1980


def test_traces_of_loops_outside_jit():
    """A row for each loop that is compiled: which one, and why."""
    traces = lax.scan.traces
    assert traces is lax.fori_loop.traces is lax.while_loop.traces is lax.map.traces
    aval = mj.ShapeDtypeStruct((3,), "float32")
    known = traces.count

    def scanned(n, k):
        x = jnp.ones(n)
        return lax.scan(lambda c, r: (c * k + r, None), x, jnp.ones((5, n)))

    for n, k in [(3, 0.25), (3, 0.25), (4, 0.25), (4, 0.75), (4, 0.75)]:
        scanned(n, k)
    back = lambda r: mj.pure_callback(lambda x: x, aval, r)
    lax.scan(lambda c, r: (c + back(r), None), jnp.ones(3), jnp.ones((2, 3)))
    assert traces.count == known + 5
    first, shape, number, driven, step = traces[-5:]
    line = scanned.__code__.co_firstlineno + 2
    assert first.call == "(x[0]: float32[3], x[1]: float32[5,3])"
    named = f"scan <lambda> at test_native_control.py:{line}: {first.call}"
    assert named in str(traces)
    assert first.why == "first call"
    assert first.compile_ms > 0
    assert "argument x[1]: shape (5, 3) -> (5, 4)" in shape.why
    assert "captures a number or an object that changed" in number.why
    reason = "scan is not compiled: driven from Python: pure_callback in its body"
    assert reason in driven.why


class Weights:
    """What a body reads, as an object whose attribute changes."""

    w = 1.0


def changing(i):
    """A loop whose body reads what has changed since the last one: -> (it, answer)."""
    box, listed, array = Weights(), [float(i)], jnp.full(3, i, float)
    box.w = number = 0.5 * i
    scalar = jnp.float32(i)
    x = jnp.ones(3)
    loops = {
        "number": lambda c: c + number,
        "array": lambda c: c + array,
        "scalar": lambda c: c + scalar,
        "list": lambda c: c + listed[0],
        "attribute": lambda c: c + box.w,
        "global": lambda c: c + Weights.w,
        "minus zero": lambda c: c / (0.0 if i % 2 else -0.0),
    }
    return {k: lambda f=f: lax.fori_loop(0, 3, lambda _, c: f(c), x)
            for k, f in loops.items()}  # fmt: skip


@pytest.mark.parametrize("name", changing(0))
def test_a_loop_outside_jit_never_gives_an_old_answer(name, monkeypatch):
    for i in range(4):
        monkeypatch.setattr(Weights, "w", 2.0 * i)
        loop = changing(i)[name]
        with mj.disable_jit():
            expected = loop()
        np.testing.assert_array_equal(loop(), expected)
        np.testing.assert_array_equal(loop(), expected)


def count_compiles(monkeypatch):
    """A list to which each compilation of a program adds its name."""
    names, make = [], executors["default"]

    def counted(closed, name):
        names.append(name)
        return make(closed, name)

    monkeypatch.setitem(executors, "default", counted)
    return names


@pytest.mark.parametrize("name", eager_loops)
def test_a_loop_outside_jit_is_compiled_once(name, monkeypatch):
    loop, x = eager_loops[name], jnp.linspace(0.1, 0.9, 8)
    loop(5, x)
    names = count_compiles(monkeypatch)
    loop(5, x)
    assert names == []


def test_lambdas_made_anew_around_new_arrays_are_compiled_once(monkeypatch):
    # Other arrays are operands of the same program; nothing is kept of them.
    def use(i):
        w, number = jnp.linspace(0.0, 1.0 * i, 1000), jnp.float32(i)
        carry = lax.scan(lambda c, _: (c * 0.5 + w, None), w, None, length=3)[0]
        inner = lambda _, c: lax.fori_loop(0, 2, lambda _, d: d * number, c)
        np.testing.assert_allclose(lax.fori_loop(0, 1, inner, w), w * i**2, 1e-6)
        mj.grad(lambda v: lax.fori_loop(0, 3, lambda _, c: c * v + w, w).sum())(w)
        lax.cond(i % 2 == 0, lambda c: c + w, lambda c: c - w, carry)
        return weakref.ref(w)

    use(0), use(1)
    names = count_compiles(monkeypatch)
    refs = [use(i) for i in range(20)]
    gc.collect()
    before = len(gc.get_objects())
    refs += [use(i) for i in range(180)]
    gc.collect()
    assert names == []
    assert not any(ref() is not None for ref in refs)
    assert len(gc.get_objects()) - before < 400


factor = 2.0


def test_a_body_that_reads_what_it_read_is_not_recorded_again(monkeypatch):
    recorded, record = [], pieces.trace_to_jaxpr

    def counted(f, avals, info, *more):
        recorded.append(info.name)
        return record(f, avals, info, *more)

    monkeypatch.setattr(pieces, "trace_to_jaxpr", counted)
    x, pair = jnp.arange(1.0, 4.0), (jnp.float32(3.0), jnp.ones(3))

    def loops(w):
        body = lambda i, c: c * w * factor + pair[0]
        scanned = lax.scan(lambda c, y: (c + y * w, c), x, pair[1])[0]
        return lax.fori_loop(0, 2, body, x) + scanned + lax.cond(
            True, lambda c: c * w, lambda c: c, x
        )

    def expected(w):
        c = np.asarray(x)
        for _ in range(2):
            c = c * w * factor + 3
        return c + np.asarray(x) + 3 * w + np.asarray(x) * w

    w = jnp.float32(0.5)
    loops(w), loops(w)
    recorded.clear()
    np.testing.assert_allclose(loops(w), expected(0.5))
    np.testing.assert_allclose(loops(w), expected(0.5))
    assert recorded == []
    # Whatever the functions read now, they read.
    np.testing.assert_allclose(loops(jnp.float32(7.0)), expected(7.0))
    monkeypatch.setitem(globals(), "factor", 3.0)
    np.testing.assert_allclose(loops(w), expected(0.5))
    recorded.clear()
    with mj.enable_x64(True):
        np.testing.assert_allclose(loops(w), expected(0.5))
    assert len(recorded) >= 4
    ref = weakref.ref(w)
    del w
    gc.collect()
    assert ref() is None


def printing(i, c):
    mj.debug.print("step {i}", i=i, ordered=True)
    return c + 1


def calling(i, c):
    shape = mj.ShapeDtypeStruct(c.shape, c.dtype)
    return mj.pure_callback(lambda a: np.asarray(a) + 1, shape, c)


why = "debug_callback in its body runs uncompiled"


@pytest.mark.parametrize(
    ("body", "reason"), [(lambda i, c: c + 1, None), (printing, why),
                         (calling, why.replace("debug", "pure"))]
)  # fmt: skip
def test_loops_outside_jit_say_what_ran_and_why_step_by_step(body, reason, capsys):
    loop = lambda: lax.fori_loop(0, 4, body, jnp.zeros(8))
    with mj.log_kernels():
        np.testing.assert_array_equal(loop(), np.full(8, 4.0))
    mj.effects_barrier()
    logged, report = capsys.readouterr().out, str(mj.explain(loop))
    printed = [line for line in logged.splitlines() if line.startswith("step")]
    assert printed == [f"step {i}" for i in range(4 * (body is printing))]
    if reason is None:
        assert "1 native loop" in report and "NOT COMPILED" not in logged
    else:
        text = f"NOT COMPILED: driven from Python: {reason}"
        assert text in logged and text.replace(": ", ": scan: ", 1) in report


def sorting(c, x):
    return jnp.sort(c * x), c.sum()


def nested(c, x):
    return lax.fori_loop(0, 2, lambda i, c: sorting(c, x)[0], c), x


@pytest.mark.parametrize(("body", "why"), [
    (sorting, "sort in its body runs uncompiled"),
    (lambda c, x: mj.jit(sorting)(c, x), "sort in its body runs uncompiled"),
    (nested, "scan in its body is driven from Python"),
])  # fmt: skip
def test_a_body_that_stays_with_python_is_lowered_once(monkeypatch, body, why):
    lowered, lower = [], native_loops.lower
    monkeypatch.setattr(
        native_loops, "lower", lambda *a, **k: lowered.append(a) or lower(*a, **k)
    )
    args = jnp.linspace(2.0, 1.0, 300), jnp.arange(1.0, 4.0)
    looping = mj.jit(lambda c, xs: lax.scan(body, c, xs))
    compiled = looping.lower(*args).compile()
    assert not lowered
    assert ("scan", f"driven from Python: {why}") in compiled.fallbacks
    with mj.disable_jit():
        wanted = lax.scan(body, *args)
    alike(looping(*args), wanted, rtol=1e-7)


def test_a_loop_outside_jit_takes_nothing_from_its_arguments():
    x = jnp.arange(10_000.0)
    loop = lambda x: lax.fori_loop(0, 3, lambda i, c: c.at[i].set(7.0), x)
    first = loop(x)
    np.testing.assert_array_equal(x, np.arange(10_000.0))
    second = loop(first)
    assert first[:4].tolist() == [7, 7, 7, 3] and second is not first
    x.delete()
    for f in loop, lambda y: lax.fori_loop(0, 3, lambda i, c: c + x, y):
        refused(RuntimeError, "deleted", f, x if f is loop else first)


# ---- every compile ends


def updated_and_read(t, i, j, v):
    """An update, what is there now, an update by that, and what is there then."""
    add = mj.vmap(lambda t, i, j, v: t.at[i, j].add(v))
    get = mj.vmap(lambda t, i, j: t.at[i, j].get(mode="clip"))
    t = add(t * 1.5, i, j, v)
    first = get(t, i, j) * 2
    t = add(t, i, j, first)
    second = get(t, i, j)
    return t, first, second, first + second


def searched(t, i, j, v):
    """Steps of a search in trees: values and visits are read, updated, and read."""
    put = mj.vmap(lambda t, a, v: t.at[a[0], a[1]].set(v))
    add = mj.vmap(lambda t, a, v: t.at[a[0], a[1]].add(v))
    get = mj.vmap(lambda t, a: t[a[0], a[1]])
    old = mj.vmap(lambda t, a: lax.dynamic_slice(t, (a[0], a[1]), (1, 1))[0, 0])

    def step(_, carry):
        values, visits, i, j = carry
        at = jnp.stack([i, j], 1)
        values = put(values, at, v + old(values, at))
        visits = add(visits, at, v)
        found = get(values, at) + get(visits, at)
        i = (i + (found > 0).astype(i.dtype)) % values.shape[1]
        return values, visits * 1.01, i, (j + 1) % values.shape[2]

    return lax.fori_loop(0, 4, step, (t, t, i, j))


def trees(count=64, nodes=5, actions=32):
    """Values of the nodes of many trees, a node and an action in each, and updates."""
    rng = np.random.default_rng(0)
    t = rng.normal(size=(count, nodes, actions)).astype("f4")
    i, j = (rng.integers(0, n, count).astype("i4") for n in (nodes, actions))
    return tuple(map(jnp.asarray, (t, i, j, rng.normal(size=count).astype("f4"))))


@pytest.mark.parametrize("f", [updated_and_read, searched])
@pytest.mark.parametrize("count", [64, 3000])
def test_what_reads_an_updated_element_is_no_part_of_the_update(f, count):
    # The update's own load and the reader's are one expression of two values: put into
    # one another they had no end.
    args = trees(count)
    found = mj.jit(f)(*args)
    with mj.disable_jit():
        expected = f(*args)
    alike(found, expected, rtol=1e-4, atol=1e-5)


def count_visits(monkeypatch):
    """([how often expressions were looked into], {those that were})"""
    visits, seen, kinds = [0], set(), [Expr]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "children" in vars(kind):

            def children(self, look=kind.children):
                visits[0] += 1
                seen.add(self)
                return look(self)

            monkeypatch.setattr(kind, "children", children)
    return visits, seen


def test_a_compile_looks_at_each_expression_a_few_times(monkeypatch):
    # All passes together: 20 times as a rule, and 31 times at most.
    visits, seen = count_visits(monkeypatch)
    programs = [(f, trees()) for f in (updated_and_read, searched)]
    for seed in range(8):
        f, args = random_memory.drawn(seed)
        of_both = mj.grad(random_memory.total(f, random_memory.N), (0, 1))
        programs += [(f, args), (of_both, args)]
    for f, args in programs:
        visits[0] = 0
        seen.clear()
        closed = mj.make_jaxpr(f)(*args)
        compile_plain(closed, "drawn")
        assert visits[0] <= 50 * len(seen)
        visits[0] = 0
        # The first lowering, and what is done to loops that are regions.
        with_regions(lower(simplify(closed)))
        assert visits[0] <= 50 * len(seen)


@pytest.mark.parametrize("f, shape", [
    (mj.vmap(lambda x: jnp.median(x, axis=0)), (4, 16, 9484)),
    (mj.vmap(lambda x: lax.conv(x, x[:8, :, :5, :5], (2, 2), "SAME")), (4, 9, 1, 72, 7))
])  # fmt: skip
def test_a_choice_by_price_looks_at_each_expression_a_few_times(monkeypatch, f, shape):
    # Each candidate is arranged and priced: 40 times, and 50 to 90 if asked anew.
    visits, seen = count_visits(monkeypatch)
    mj.jit(f).lower(np.ones(shape, "f4")).compile()
    assert visits[0] <= 50 * len(seen)


def test_a_region_arranges_each_of_its_kernels_once(monkeypatch):
    # It is asked whether results may lie over arguments, whether lanes keep to
    # themselves, and what its statements are.
    asked, place = [], placing.place
    noting = lambda body, *how: asked.append(body) or place(body, *how)
    monkeypatch.setattr(placing, "place", noting)
    step = lambda c, row: (jnp.tanh(c * 0.5 + row), c.sum())
    scan = mj.vmap(lambda x, v: lax.scan(step, v, x)[1])
    args = np.ones((32, 571, 5), "f2"), np.ones((32, 5), "f2")
    program = program_of(scan, *args)
    asked.clear()
    with_regions(program)
    assert len(asked) == len(set(map(id, asked))) > 0


@pytest.mark.chapter(24)
def test_a_chain_of_totals_is_looked_at_in_proportion_to_its_length(monkeypatch):
    def chain(x, length):
        results, y = [], x
        for _ in range(length):
            y = jnp.sin(y) * x + y.sum(1, keepdims=True)
            results.append(y)
        return results

    visits, _ = count_visits(monkeypatch)
    counts = []
    for length in 20, 60:
        visits[0] = 0
        closed = mj.make_jaxpr(partial(chain, length=length))(jnp.ones((60, 50)))
        compile_plain(closed, "chain")
        counts.append(visits[0])
    assert counts[1] < 4 * counts[0]


def test_the_first_lane_of_a_branch_is_looked_for_once():
    """Two vmaps over a branch: idle lanes borrow without a search for each number."""

    def choose(row):
        return lax.cond(jnp.argmax(row) > 3, jnp.sin, jnp.cos, row)

    def work(body, times=1):
        return sum(
            work(s.body, times * s.axis.extent) if isinstance(s, For) else times
            for s in body
        )

    x = np.random.default_rng(0).normal(size=(4, 60, 30)).astype("f4")
    f = mj.vmap(mj.vmap(choose))
    program = with_regions(program_of(f, x))
    plain = [k.body for k in program.kernels if not isinstance(k, Region)]
    assert sum(work(placed(body)) for body in plain) < 40 * x.size
    chosen = x.argmax(-1, keepdims=True) > 3
    wanted = np.where(chosen, np.sin(x), np.cos(x))
    np.testing.assert_allclose(mj.jit(f)(x), wanted, 1e-5, 1e-6)


def halvings(x, limit):
    """How often each number is halved, and a product with neighbours on the way."""
    running = lambda c: (c[1] < 50) & (c[0].max() > limit)
    step = lambda c: (0.5 * c[0] + 0.1 * c[0][::-1] / (1 + c[0].sum()), c[1] + 1)
    return lax.while_loop(running, step, (x, 0))


def test_idle_lanes_borrow_only_where_what_they_compute_matters():
    """Forward it is thrown away, lane by lane: no search for a lane that runs."""
    x = jnp.asarray(np.random.default_rng(0).uniform(0, 100, (2000, 3)), "float32")
    limits = jnp.linspace(0.01, 90, 2000)
    many = mj.vmap(halvings)
    text = mj.jit(many).lower(x, limits).compile().as_text()
    assert "minimum(maximum(" not in text
    as_interpreted(many, x, limits)
    twice = mj.vmap(mj.vmap(halvings))
    folded = x.reshape(40, 50, 3), limits.reshape(40, 50)
    assert "minimum(maximum(" not in mj.jit(twice).lower(*folded).compile().as_text()
    as_interpreted(twice, *folded)
    # An idle lane's residuals are multiplied by zeros, and would be 0 / 0 here.
    root = lambda x: lax.while_loop(
        lambda c: c > 0.5, lambda c: jnp.sqrt(c - 0.5) * 0.7, x
    )
    slopes = mj.jit(mj.grad(lambda x: mj.vmap(root)(x).sum(), allow_int=False))
    xs = jnp.asarray([0.5, 0.2, 3.0, 40.0])
    found, wanted = slopes(xs), [mj.grad(root)(v) for v in xs]
    np.testing.assert_allclose(found, wanted, 1e-5)


def test_small_arrays_are_written_whole_and_in_part():
    """What a region keeps of small results: loops, elements, branches, products."""

    def body(i, c):
        x, y, n = c
        x = x.at[i % 3].add(y[0]) * 0.5
        y = lax.cond(i % 2 == 0, lambda y: y + x[:2], lambda y: y - 1, y)
        return x, y, n.at[i % 2].add(i)

    given = np.arange(4, dtype="f4"), np.ones(2, "f4"), np.zeros(2, "i4")
    run = lambda *given: lax.fori_loop(0, 7, body, given)
    with mj.disable_jit():
        wanted = run(*map(jnp.asarray, given))
    alike(mj.jit(run)(*given), wanted, rtol=1e-6)


def branch_by_lane(x, weight):
    """A branch that a lane takes if its first number is positive."""
    taken = lambda x: jnp.log(x) * weight
    return jnp.sum(lax.cond(x[0] > 0, taken, lambda x: 0 * x, x))


@pytest.mark.parametrize("size, jumps", [(5, 0), (5000, 2)])
def test_branches_of_lanes_are_jumped_over_where_that_saves_something(size, jumps):
    x = np.linspace(0.5, 2, 3 * size, dtype="f4").reshape(3, size)
    x[1] *= -1
    lanes = mj.vmap(branch_by_lane, (0, None))
    simpler = simplify(mj.make_jaxpr(lanes)(x, 2.0))
    assert sum(eqn.primitive.name == "cond" for eqn in simpler.eqns) == jumps
    one_by_one = np.stack([branch_by_lane(row, 2.0) for row in x])
    np.testing.assert_allclose(mj.jit(lanes)(x, 2.0), one_by_one, rtol=1e-4)
    slope = mj.jit(mj.grad(lambda x, w: jnp.sum(lanes(x, w)), (0, 1)))
    for values, positive in ((x, [0, 2]), (-abs(x), [])):
        of_x, of_weight = slope(values, 2.0)
        want = np.zeros_like(x)
        want[positive] = 2 / x[positive]
        np.testing.assert_allclose(of_x, want, rtol=1e-5)
        total = np.log(x[positive]).sum()
        np.testing.assert_allclose(of_weight, total, rtol=1e-4, atol=1e-4)


def test_a_branch_with_a_loop_or_an_effect_is_jumped_over():
    seen = []

    def told(x):
        mj.debug.callback(seen.append, x)
        return x

    added = lambda x: lax.fori_loop(0, 50, lambda i, t: t + x, x)
    for branch in told, added:
        lanes = mj.vmap(lambda x, f=branch: lax.cond(x > 0, f, lambda x: 0 * x, x))
        simpler = simplify(mj.make_jaxpr(lanes)(np.arange(3.0)))
        jumps = [eqn for eqn in simpler.eqns if eqn.primitive.name == "cond"]
        assert len(jumps) == 1, branch
    mj.jit(mj.vmap(lambda x: lax.cond(x > 0, told, lambda x: x, x)))(-np.ones(2))
    mj.effects_barrier()
    assert not seen


# ---- what is dear, and no step of a loop changes, is computed before it, once


rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape).astype("f4") / 3


W, X, C = floats(5, 5), floats(4, 5), floats(5)


def scan(body):
    return lambda w, xs, c: lax.scan(lambda c, x: (body(w, c, x), c), c, xs)


def loop(body):
    """A while of three steps."""
    step = lambda w: lambda s: (s[0] + 1, body(w, s[1]))
    return lambda w, xs, c: lax.while_loop(lambda s: s[0] < 3, step(w), (0, c))


# name: (what moves, a function of W, X and C)
CASES = {
    "cheap": ("", scan(lambda w, c, x: c * (w[0] + 1) + x)),
    "large": ("", scan(lambda w, c, x: c + jnp.outer(w[0], w[1]) @ x)),
    "no steps": ("", lambda w, xs, c: lax.scan(
        lambda c, x: (c @ (w @ w), c), c, None, length=0)),
    "total": ("dot_general", scan(lambda w, c, x: c @ (w @ w))),
    "dear": ("sin", scan(lambda w, c, x: c * jnp.sin(w[0]) + x)),
    "made of dear": ("sin mul", scan(lambda w, c, x: c + jnp.sin(w[0]) * w[1])),
    "one of two": ("sin", scan(
        lambda w, c, x: c + jnp.outer(jnp.sin(w[0]), w[1]) @ x)),
    "operand": ("sub select_n", loop(lambda w, c: (w - jnp.diag(jnp.diag(w))) @ c)),
    "while": ("sin", loop(lambda w, c: c * jnp.sin(w[0]))),
    "what may never end": ("", loop(lambda w, c: c + lax.while_loop(
        lambda x: x < 9, lambda x: x + jnp.exp(w[0, 0]), 1.0))),
    "condition": ("reduce_max", lambda w, xs, c: lax.while_loop(
        lambda c: c.max() < w.max(), lambda c: c + 1, c)),
    "lanes": ("sin", lambda w, xs, c: mj.vmap(lambda a: lax.while_loop(
        lambda s: s < a, lambda s: s + 1 + jnp.sin(a), 0.0))(c)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_stays_and_what_moves(case):
    moves, f = CASES[case]
    jaxpr = simplify(mj.make_jaxpr(f)(W, X, C)).jaxpr
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    at, = [n for n, name in enumerate(names) if name in ("scan", "while")]
    work = {"dot_general", "sin", "add", "sub", "mul", "select_n", "reduce_max"}
    assert work.intersection(names[:at]) == {*moves.split()}
    mj.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-6),
        mj.jit(f)(W, X, C), f(W, X, C),
    )  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_only_of_two_short_branches_is_one_chosen_without_a_jump(count):
    branches = [lambda c: 0.0 * jnp.ones(5), *[lambda c: c + 1.0] * (count - 1)]
    step = lambda c, i: (lax.switch(i, branches, c), None)
    f = lambda c: lax.scan(step, c, np.arange(4) % count)[0]
    assert ("cond" in str(simplify(mj.make_jaxpr(f)(C)))) == (count > 2)
    np.testing.assert_array_equal(mj.jit(f)(C), f(C))


def test_gradients():
    step = lambda w: lambda c, x: (c @ jnp.tanh(w @ jnp.sin(w)) + x, c)
    f = lambda w: lax.scan(step(w), C, X)[0].sum()
    want = mj.grad(f)(W)
    np.testing.assert_allclose(mj.jit(mj.grad(f))(W), want, 1e-4, 1e-5)
