"""Large totals in parts: the same bits on any number of cores."""

import numpy as np
import pytest
from harness import alike, fusing
from ir_interpreter import run

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.decisions import decisions_about
from minijit.compile.loops.expressions import Op, Reduce
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.kernel_buffers import local_buffers
from minijit.compile.loops.statements import For, expressions, statements
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.place import place
from minijit.compile.schedule.placing_rules import arrange
from minijit.run.threads import kernels as threads

pytestmark = pytest.mark.chapter(24)
rng = np.random.default_rng(0)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of few numbers, so that small totals have several."""
    monkeypatch.setitem(mj.config.values, "thread_time", 0)
    with fusing(part_total=100, shortest_part=16):
        yield


CASES = {
    "sum": lambda x: x.sum(),
    "largest": lambda x: x.max(),
    "product": lambda x: jnp.prod(1 + x / 100),
    "mean of squares": lambda x: jnp.mean(x * x),
    "norm": lambda x: jnp.sqrt(jnp.sum(x * x)) + 1,
    "two in one": lambda x: x.sum() / jnp.sum(x * x),
    "transposed": lambda x: x.T.sum(),
    "loss": lambda x: -jnp.mean(jnp.log(jnp.exp(x))),
    "side by side": lambda x: jnp.exp(x.ravel()[:, None] - x.ravel()[:9]).mean(0),
}


def divided(f, x):
    program = lower(mj.make_jaxpr(f)(x))
    texts = [threads.text_of_kernel(k) for k in program.kernels]
    return [type(text) is threads.ThreadedText for text in texts]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", [(1000,), (7, 300), (130, 9)])
def test_the_number_of_threads_changes_no_bit(case, shape, small_parts):
    f, x = CASES[case], rng.normal(size=shape).astype("f4")
    assert any(divided(f, x))
    want, compiled, results = mj.jit(f, backend="eval")(x), mj.jit(f), set()
    for count in (1, 2, 3, 64):
        with mj.config.override("cpu_threads", count):
            result = compiled(x)
        np.testing.assert_allclose(result, want, 2e-5, 2e-5)
        results.add(result.numpy().tobytes())
    assert len(results) == 1


def test_parts():
    x = mj.ShapeDtypeStruct((1000, 3000), "float32")
    kernel, = lower(mj.make_jaxpr(lambda x: x.sum())(x)).kernels
    parts, after = arrange(kernel.body)
    assert isinstance(parts, For) and parts.axis.extent == 64
    assert [b.shape for b in local_buffers((parts,))] == [(64,)]
    assert after.axis.extent == 1
    again = arrange((parts, after))
    assert [s.axis for s in again] == [parts.axis, after.axis]


@pytest.mark.parametrize("length, rule, parts", [(1000, "one part", 1),
                                                 (300_000, "parts", 18)])  # fmt: skip
def test_the_ledger_says_how_many_parts(length, rule, parts):
    x = mj.ShapeDtypeStruct((length,), "float32")
    kernel, = lower(mj.make_jaxpr(lambda x: x.sum())(x)).kernels
    decision, = decisions_about(kernel, arrange)
    assert (decision.rule, decision.fused) == (rule, rule == "parts")
    assert decision.numbers == {"terms": length, "parts": parts}
    assert decision.setting == "part_total"


def test_in_a_loop(small_parts):
    x = rng.normal(size=1000).astype("f4")
    step = lambda i, c: c * 0.5 + (x * c).sum()
    f = lambda c: mj.lax.fori_loop(0, 3, step, c)
    want = mj.jit(f, backend="eval")(np.float32(1))
    for backend in ("plain", None):
        got = mj.jit(f, backend=backend)(np.float32(1))
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize("n", [7, 300, 500_000])
def test_what_is_the_same_along_an_axis_is_multiplied(n):
    """A total of one number again and again is a product, in one rounding."""
    x = rng.normal(size=3).astype("f4")
    f = mj.jit(lambda x: jnp.broadcast_to(x[0], (n,)).sum())
    assert "for" not in f.lower(x).compile().as_text()
    assert float(f(x)) == np.float32(n) * x[0]
    rows = mj.jit(lambda x: jnp.broadcast_to(x[:, None], (3, n)).sum((0, 1)))
    np.testing.assert_allclose(rows(x), n * x.astype("f8").sum(), rtol=1e-6)
    wrapped = mj.jit(lambda x: mj.lax.reduce_sum(jnp.broadcast_to(x, (n,)), (0,)))
    assert wrapped(np.int8(3)) == np.int64(3 * n).astype("int8")


def test_parts_of_a_total_whose_terms_are_the_same():
    """The extent of a part is counted where the part is."""
    x = rng.normal(size=(3, 5)).astype("f4")
    best = mj.jit(lambda x: jnp.broadcast_to(x[0, 1], (500_000,)).max())
    assert float(best(x)) == x[0, 1]


# ---- long sums


SHAPES = [
    ((1_000_000,), (0,)),
    ((1000, 1000), (0, 1)),
    ((5000, 40), (0,)),  # rows beside each other
    ((9000, 3), (0,)),  # few columns
    ((3, 100_001), (1,)),  # shares of which the last one is short
    ((50, 4096), (1,)),  # the longest share
    ((512, 20), (0,)),
    ((100, 100, 10, 25), (0, 1, 2)),
    ((131, 20), (0,)),
    ((200, 3, 700), (0, 2)),
]


@pytest.mark.parametrize("shape, axes", SHAPES)
def test_long_sums_do_not_lose_what_comes_late(shape, axes):
    """One sign and one size: each rounding of a plain sum would err the same way."""
    x = np.full(shape, 0.1, "f4")
    wide = x.astype("f8")
    eps = 2.0**-24

    def off(found, wanted):
        return (abs(np.asarray(found) - wanted) / abs(wanted)).max() / eps

    for f in (jnp.sum, lambda x, axes: jnp.sum(x * x, axes) + jnp.max(x, axes)):
        wanted = np.asarray(f(wide, axes)).astype("f8")
        with mj.enable_x64(True):
            wanted = np.asarray(f(wide, axes))
        jitted = mj.jit(lambda x, f=f: f(x, axes))
        answers = [np.asarray(jitted(x)) for _ in range(5)]
        assert off(answers[0], wanted) < 100  # by vectors of 16, < 32
        assert off(f(jnp.asarray(x), axes), wanted) < 100
        assert all(np.array_equal(a, answers[0]) for a in answers)


def test_gradients_add_up_long_constants():
    """A normalised array: what flows into its minimum is a sum of a million ones."""
    x = np.random.default_rng(0).standard_normal(1_000_000).astype("f4")

    def loss(x):
        return jnp.sum(((x - x.min()) / (x.max() - x.min() + 1)) ** 2)

    with mj.enable_x64(True):
        wanted = np.asarray(mj.grad(loss)(x.astype("f8")))
    found = np.asarray(mj.jit(mj.grad(loss))(x))
    assert abs(found - wanted).max() < 2e-6 * abs(wanted).max()
    bias = np.zeros(25, "f4")
    table = np.full((100_000, 25), 0.1, "f4")
    of_bias = mj.grad(lambda b: jnp.sum((table + b) * 0.1))
    for f in (of_bias, mj.jit(of_bias)):
        np.testing.assert_allclose(np.asarray(f(bias)), 1e4, rtol=1e-6)


def test_totals_that_go_on_beside_a_long_sum_stay_in_its_loops():
    x = np.ones((20, 8192), "f4")
    text = str(lower(mj.make_jaxpr(lambda x: x.sum(1) * x.max(1))(x)))
    assert text.count("for k") == 2  # shares, and the numbers of one


@pytest.mark.parametrize("shape, axes, wide", [
    ((2000, 2000), (1,), False), ((20, 4096), (1,), False), ((20, 4097), (1,), True),
    ((512, 300), (0,), False), ((513, 300), (0,), True),
])  # fmt: skip
def test_what_one_share_holds_is_added_in_float32_alone(shape, axes, wide):
    """As vectors: no conversions, and elements of registers are added up but once."""
    program = lower(mj.make_jaxpr(lambda x: x.sum(axes))(np.ones(shape, "f4")))
    assert ("f64" in str(program)) is wide


def test_a_block_of_columns_whose_length_a_run_knows_has_all_its_accumulators():
    x = np.full((301, 6834), 0.5, "f4")
    f = mj.jit(lambda x: (jnp.hypot(x, x), jnp.pad(jnp.hypot(x, x), 2, mode="mean")))
    for _ in range(5):
        np.testing.assert_allclose(np.asarray(f(x)[1]), np.sqrt(0.5), rtol=1e-5)


@pytest.mark.parametrize("shape, axes", SHAPES)
def test_long_products_round_once(shape, axes):
    """The rounding of each factor would stay: none but the last is made in float32."""
    x = (1 + rng.standard_normal(shape) / 2**12).astype("f4")
    wanted = np.prod(x, axes, dtype="f8")
    for product in (mj.jit(lambda x: jnp.prod(x, axes)), lambda x: jnp.prod(x, axes)):
        off = np.asarray(product(jnp.asarray(x))) / wanted - 1
        assert abs(off).max() < (2**-23 if x.size // wanted.size > 1024 else 2**-17)


def test_long_running_totals_do_not_lose_what_comes_late():
    x = rng.standard_normal(200_000).astype("f4")
    wide = x.astype("f8")
    cases = [
        (mj.lax.cumlogsumexp, x, np.logaddexp.accumulate(wide)),
        (mj.lax.cumprod, 1 + x / 1024, np.cumprod((1 + x / 1024).astype("f8"))),
        (mj.lax.cumsum, x, np.cumsum(wide)),
    ]
    for function, given, wanted in cases:
        for f in (function, mj.jit(function)):
            found = np.asarray(f(jnp.asarray(given)))
            assert abs(found - wanted).max() < 1e-6 * abs(wanted).max()


def test_the_gradient_of_a_long_product_is_traced_in_pairs_of_pairs():
    """As many equations as the length has bits, not as it has numbers."""
    lengths = (3, 1000, 1_000_000)
    counts = []
    for n in lengths:
        x = np.exp(rng.standard_normal(n) / 200).astype("f4")
        jaxpr = mj.make_jaxpr(mj.grad(jnp.prod))(x)
        counts.append(len(jaxpr.eqns))
        x[n // 2] = 0
        found = np.asarray(mj.jit(mj.grad(jnp.prod))(x))
        assert (found != 0).sum() == 1  # The others have a factor of zero.
        others = np.prod(np.delete(x, n // 2), dtype="f8")
        np.testing.assert_allclose(found[n // 2], others, 1e-3)
    assert counts[2] < 12 * 20 + 20


def test_shares_of_two_totals_of_which_one_is_longer_by_a_number():
    """Their shares go on in one loop, and how long one is depends on its counter."""
    x = jnp.asarray(rng.standard_normal((2, 5001)), "float32")

    def f(x):
        d = jnp.diff(jnp.sin(x), axis=1)
        return (x * x).sum(1), d - d.mean(1, keepdims=True), jnp.sin(x)

    with mj.enable_x64(True):
        wanted = f(jnp.asarray(x, "float64"))
    for found, want in zip(mj.jit(f)(x), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), 1e-5, 1e-5)
    y = jnp.asarray(x, "bfloat16")

    def g(y):
        v = y / (1 + jnp.abs(y))
        d = jnp.maximum(jnp.diff(v), 0)
        d = (d - d.mean(-1, keepdims=True)) / jnp.sqrt(d.var(-1, keepdims=True) + 0.1)
        return v, jnp.inner(y, y), d

    found, want = mj.jit(mj.vmap(g))(y), mj.vmap(g)(y)
    for a, b in zip(found, want, strict=True):
        a, b = (np.asarray(c).astype("f4") for c in (a, b))
        np.testing.assert_allclose(a, b, 0.05, 0.05)


# ---- functions of short totals in loops of their own: the same numbers


def floats(*shape):
    return rng.normal(size=shape).astype("f4")


def spread(x):
    """A mean that is used beside the total that uses it, too."""
    mean = x.mean(-1)
    return jnp.exp(mean) + jnp.log(((x - mean[..., None]) ** 2).sum(-1))


ASIDE = {
    "product": (lambda x, q: jnp.exp(x @ q), floats(130, 20), floats(20)),
    "one block": (lambda x, q: jnp.tanh(x @ q), floats(40, 20), floats(20)),
    "whole blocks": (lambda x, q: jnp.tanh(x @ q), floats(128, 7), floats(7)),
    "lanes": (lambda x: jnp.sin(x.sum(-1)), floats(3, 70, 9)),
    "two totals": (lambda x: jnp.exp(x.max(-1)) * x.sum(-1), floats(70, 9)),
    "one within another": (spread, floats(70, 9)),
    "two results": (lambda x: (x.sum(-1), jnp.exp(x.sum(-1))), floats(70, 9)),
    "beside a total": (lambda x: jnp.exp(x[:, 0]) * x.sum(-1), floats(70, 9)),
    "distances": (lambda x, y: jnp.exp(-((x[:, None] - y) ** 2).sum(-1)),
                  floats(30, 9), floats(20, 9)),
    "a running total": (lambda x: jnp.cumsum(jnp.exp(x), -1), floats(5, 150)),
    "backwards": (lambda x: jnp.cumsum(jnp.tanh(x)[:, ::-1], -1), floats(7, 20)),
    "a long one": (lambda x: jnp.cumsum(jnp.sin(x) - x), floats(300)),
    "a function of one": (lambda x: jnp.cumsum(jnp.exp(x).astype("float16")),
                          floats(300)),
}  # fmt: skip


def kernel_of(f, *args):
    kernel, = lower(mj.make_jaxpr(f)(*args)).kernels
    return kernel


def innermost(body):
    """What each innermost loop computes: for each the kinds of its expressions."""
    loops = [s for s in statements(body) if isinstance(s, For)]
    loops = [s for s in loops if not any(isinstance(t, For) for t in s.body)]
    return [postorder(expressions(s.body)) for s in loops]


def mixed(exprs):
    """Whether a loop computes totals, and functions too."""
    functions = {"exp", "log", "sin", "tanh"}
    names = {e.name for e in exprs if isinstance(e, Op)}
    return bool(names & functions) and any(type(e) is Reduce for e in exprs)


@pytest.mark.parametrize("case", ASIDE)
def test_totals_and_functions_have_loops_of_their_own(case):
    f, *args = ASIDE[case]
    kernel = kernel_of(f, *args)
    assert any(map(mixed, innermost(kernel.body)))
    assert not any(map(mixed, innermost(arrange(kernel.body))))


@pytest.mark.parametrize("case", ASIDE)
def test_values(case):
    f, *args = ASIDE[case]
    want = mj.tree.leaves(mj.jit(f, backend="eval")(*args))
    program = lower(mj.make_jaxpr(f)(*args))
    for got in (mj.tree.leaves(mj.jit(f)(*args)), run(program, *args, place=place)):
        alike(got, want, rtol=1e-5, atol=1e-5)


KEPT = {
    "long totals": (lambda x: jnp.exp(x.sum(-1)), (20, 2000)),
    "few of them": (lambda x: jnp.exp(x.sum(-1)), (6, 10)),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_stays_in_one_loop(case):
    f, shape = KEPT[case]
    kernel = kernel_of(f, mj.ShapeDtypeStruct(shape, "float32"))
    found = {d.rule: d for d in decisions_about(kernel, arrange)}
    decision = found["long totals"]
    assert not decision.fused and decision.setting == "terms_aside"
    assert not local_buffers(arrange(kernel.body))


def test_functions_of_totals_of_functions():
    """`log` for one number at a time took as long as all of the total."""
    f, x = lambda x: jnp.log(jnp.exp(x).sum(-1)), floats(70, 9)
    kernel = kernel_of(f, x)
    assert len(local_buffers(arrange(kernel.body))) == 1
    np.testing.assert_allclose(mj.jit(f)(x), np.log(np.exp(x).sum(-1)), 1e-5)


def test_no_functions_no_loops():
    f = lambda x: x.sum(-1) * 2 + 1
    kernel = kernel_of(f, mj.ShapeDtypeStruct((100, 10), "float32"))
    assert not local_buffers(arrange(kernel.body))


def test_totals_aside_in_a_loop():
    """The bodies of native loops are arranged as well: leapfrog, for one."""
    x, q = floats(100, 20), floats(20)
    step = lambda i, q: q - 0.01 * (jnp.tanh(x @ q) @ x)
    f = lambda q: mj.lax.fori_loop(0, 3, step, q)
    want = mj.jit(f, backend="eval")(q)
    np.testing.assert_allclose(mj.jit(f)(q), want, 1e-4, 1e-4)
