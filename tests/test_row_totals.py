"""Totals of all rows stand beside the loop that makes the rows, in one kernel."""

import numpy as np
import pytest
from harness import alike, program_of
from test_lower import floats

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.compile.loops.expressions import Op
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import Store, expressions, statements
from minijit.trace.base.config import config

pytestmark = [pytest.mark.chapter(17), pytest.mark.fusion]


def picked(x, labels):
    return jnp.take_along_axis(nn.log_softmax(x), labels[:, None], 1)[:, 0]


def smoothed(x, labels):
    wanted = nn.one_hot(labels, x.shape[1]) * 0.9 + 0.1 / x.shape[1]
    return (wanted * nn.log_softmax(x)).sum(1)


def focal(x, labels):
    return (1 - jnp.exp(picked(x, labels))) ** 2 * picked(x, labels)


def by_softmax(x, labels):
    return (jnp.log(nn.softmax(x)) * nn.one_hot(labels, x.shape[1])).sum(1)


def entropy(x, labels):
    return (nn.softmax(x) * jnp.log(nn.softmax(x))).sum(1)


def divergence(x, labels):
    given = nn.softmax(lax.stop_gradient(x[:, ::-1]))
    return (given * (nn.log_softmax(x) - jnp.log(given))).sum(1)


def squared(x, labels):
    return nn.logsumexp(x, 1) ** 2


def normed(x, labels):
    centred = x - x.mean(1, keepdims=True)
    return ((centred / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)) ** 3).mean(1)


of_rows = [picked, smoothed, focal, by_softmax, entropy, divergence, squared, normed]


def mean(rows):
    return lambda x, labels, mask: -rows(x, labels).mean()


def mean_of_some(rows):
    return lambda x, labels, mask: -(rows(x, labels) * mask).sum() / mask.sum()


def batch(n=24, classes=10):
    return floats(n, classes), np.arange(n, dtype="i4") % classes, floats(n) > 0


def agree(f, args, backend="plain", tolerance=1e-5):
    found = mj.tree.leaves(mj.jit(f, backend=backend)(*args))
    wanted = mj.tree.leaves(mj.jit(f, backend="eval")(*args))
    for a, b in zip(found, wanted, strict=True):
        far = tolerance * (1e-3 + abs(np.array(b)).max())
        np.testing.assert_allclose(a, b, 10 * tolerance, far)


@pytest.mark.parametrize("rows", of_rows)
def test_a_loss_is_one_kernel_and_so_are_its_value_and_gradient(rows):
    f, args = mean(rows), batch()
    for g in (f, mj.value_and_grad(f)):
        assert len(program_of(g, *args).body) == 1
        agree(g, args, tolerance=1e-4)


@pytest.mark.parametrize("rows", of_rows)
def test_a_loss_of_some_rows_waits_only_for_their_number(rows):
    f, args = mean_of_some(rows), batch()
    assert len(program_of(f, *args).body) == 1
    assert len(program_of(mj.value_and_grad(f), *args).body) == 2
    agree(mj.value_and_grad(f), args, tolerance=1e-4)


def test_a_loss_and_its_accuracy():
    def f(x, labels, mask):
        right = (x.argmax(1) == labels) & mask
        loss = -(picked(x, labels) * mask).sum() / mask.sum()
        return loss, (right.sum() / mask.sum(), right.any())

    g = mj.value_and_grad(f, has_aux=True)
    assert len(program_of(g, *batch()).body) == 2
    agree(g, batch(), tolerance=1e-4)


def test_nothing_is_computed_twice():
    found, = program_of(mj.value_and_grad(mean(picked)), *batch()).body
    names = [e.name for e in postorder(expressions(found.body)) if isinstance(e, Op)]
    assert names.count("exp") == names.count("log") == 1


def test_totals_of_all_elements_and_of_several_axes():
    def f(x):
        y = jnp.tanh(x)
        return y, y.sum(), (y * y).max(), (y.sum(-1) > 0).sum()

    for shape in ((5, 7, 9), (315,), (1, 315), (315, 1), (3, 105, 1)):
        x = floats(*shape)
        assert len(program_of(f, x).body) == 1
        agree(f, (x,))


def test_totals_of_what_a_loop_only_reads():
    """One kernel, and the array is read once, in whatever order they are asked for."""
    loss = mean(picked)
    functions = [
        lambda x, *rest: (loss(x, *rest), x.max()),
        lambda x, *rest: (x.min(), (x * x).sum(), mj.value_and_grad(loss)(x, *rest)),
        lambda x, *rest: (x.sum(), x * 2, (x > 0).any()),
    ]
    for f in functions:
        found, = program_of(f, *batch()).body
        agree(f, batch(), tolerance=1e-4)
    x = floats(1000)
    parts = lambda x: (y := jnp.exp(x), y[:500].sum())
    for f in (lambda x: (x * 2, x.max()), lambda x: (x[::-1] * 2, x.sum()), parts):
        agree(f, (x,))
    rules = lambda f: {(d.rule, d.fused) for d in program_of(f, x).decisions}
    assert ("row totals", True) in rules(lambda x: (x * 2, x.max()))
    # Of numbers that all steps read no step has a share.
    f, g = lambda x, y: (x + y[3], y.sum()), lambda x, y: (x * y, (x - y).max())
    assert len(program_of(f, x, x).body) == 2
    assert len(program_of(g, x, np.float32(2)).body) == 1


@pytest.mark.chapter(21)
@pytest.mark.parametrize("n", [30, 100_000])
def test_a_state_is_changed_where_it_lies_beside_its_totals(n):
    """Before or after the step, and also if a piece of it is added up at a time."""

    def before(h, xs):
        return lax.scan(lambda h, x: (h * 0.9 + x, h.sum()), h, xs)

    def after(h, xs):
        return lax.scan(lambda h, x: (new := h * 0.9 + x, new.sum()), h, xs)

    for f in before, after:
        given = floats(n), floats(16)
        agree(f, given, tolerance=1e-4)
        report = mj.explain(mj.jit(f, backend="plain"), *given)
        written = {use.buffer for step in report.steps for use in step.writes}
        assert sum(buffer.shape == (n,) for buffer in written) == 1


def test_the_ledger_says_yes_and_no():
    x = floats(24, 40)
    rules = lambda f: {(d.rule, d.fused) for d in program_of(f, x).decisions}
    assert ("row totals", True) in rules(lambda x: (nn.softmax(x) ** 2).sum())
    at_once = lambda x: (y := jnp.exp(x), y.sum() + y[3, 4])
    assert ("totals at once", False) in rules(at_once)


def test_a_total_that_needs_another_one_stays_apart():
    x = floats(24, 40)
    deep = lambda x: ((r := x.sum(1)) - r.mean()) ** 2
    assert len(program_of(lambda x: deep(x).sum(), x).kernels) == 2
    agree(lambda x: deep(x).sum(), (x,))
    # The second total takes the first one, which is there when the loop is over.
    late = lambda x: (y := jnp.exp(x), m := y.max(), (y - m).sum())
    assert len(program_of(late, x[0]).kernels) == 2
    agree(late, (x[0],))


def in_small_pieces(**settings):
    return config.override("fusion", config.fusion.but(row_piece=256, **settings))


def many(f, *args):
    """What rules say of the loops of a program."""
    report = mj.explain(mj.jit(f, backend="plain"), *args)
    return {d.rule: d.numbers for d in report.decisions}


@pytest.mark.chapter(20)
def test_many_rows_are_added_up_piece_by_piece():
    x, labels, mask = batch(301)
    f = mj.value_and_grad(mean_of_some(picked))
    assert "all rows" in many(f, x, labels, mask)
    with in_small_pieces():
        found = many(f, x, labels, mask)
        assert "pieces of rows" in found and "all rows" not in found
        agree(f, (x, labels, mask), tolerance=1e-4)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("rows", of_rows)
def test_pieces_have_the_same_bits_on_one_thread_and_on_several(rows):
    f, args = mj.value_and_grad(mean_of_some(rows)), batch(301, 6)
    results = []
    for threads in (1, 3):
        with in_small_pieces(), config.override("thread_time", 0):
            with config.override("cpu_threads", threads):
                agree(f, args, "llvm", 1e-4)
                results.append(mj.tree.leaves(mj.jit(f)(*args)))
    for a, b in zip(*results, strict=True):
        assert np.array(a).tobytes() == np.array(b).tobytes()


@pytest.mark.parametrize("n, shares", [(300, 2), (7, 1)])
def test_a_total_of_another_array_is_no_obstacle(n, shares):
    """Of as many rows it goes along with the loop; of others it waits until the end."""
    f = lambda x, z: (y := jnp.exp(x), y.sum() + jnp.sin(z).sum())
    kernel, = program_of(f, floats(300), floats(n)).kernels
    stores = [s.buffer for s in statements(kernel.body) if isinstance(s, Store)]
    assert sum(buffer.space == "cache" for buffer in stores) == shares
    agree(f, (floats(300), floats(n)))


def test_shares_fit_to_the_last_byte():
    """256 bytes are 64 shares, beside a loop that is cut and beside any other."""
    halves = lambda x: (y := jnp.exp(jnp.concatenate([x, -x])), y.sum())
    whole = lambda x: (y := jnp.exp(x), y.sum())
    ways = (64, "row totals", "all rows"), (66, "totals of ranges", "pieces of rows")
    with in_small_pieces():
        for n, rule, pieces in ways:
            decisions = program_of(halves, floats(n // 2)).decisions
            assert rule in {d.rule for d in decisions}
            assert pieces in many(whole, floats(n))
            agree(halves, (floats(n // 2),))
            agree(whole, (floats(n),))


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n", [5000, 65537])
def test_sums_are_as_exact_as_of_stored_rows(n):
    x = np.random.default_rng(0).uniform(0.9, 1.1, (n, 3)).astype("f4")
    f = lambda x: (y := jnp.sqrt(x), y.sum())
    assert len(program_of(f, x).body) == 1
    exact = np.sqrt(x.astype("f8")).sum()
    assert abs(float(mj.jit(f, backend="llvm")(x)[1]) / exact - 1) < 5e-7


@pytest.mark.chapter(24)
@pytest.mark.parametrize("made", [
    lambda x, k: jnp.delete(x, 1), lambda x, k: jnp.concatenate([x, -x]),
    lambda x, k: jnp.where(jnp.arange(x.size) < k, x, -1),
])  # fmt: skip
def test_shares_of_loops_that_are_cut_are_not_on_the_stack(made):
    """Twelve megabytes of them were, and the process died."""
    f = lambda x, k: (y := jnp.exp(made(x, k)), y.max(), y.sum())
    x = np.random.default_rng(0).normal(size=2_500_000).astype("f4")
    alike(mj.jit(f)(x, 777), f(x, 777), rtol=2e-6)


@pytest.mark.chapter(23)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "i4"])
def test_other_dtypes(dtype):
    x = jnp.array(floats(24, 10) * 4, dtype)
    f = lambda x: (y := x * x, y.sum(), y.sum(1).mean(), (y == 4).any())
    agree(f, (x,), "llvm", 2e-2 if x.dtype.itemsize == 2 else 1e-5)


@pytest.mark.chapter(26)
@pytest.mark.parametrize("rows", of_rows)
def test_a_grid_has_a_second_kernel_for_them(rows):
    f, args = mj.value_and_grad(mean(rows)), batch()
    agree(f, args, "cuda-lockstep", 1e-4)
    report = mj.explain(mj.jit(f, backend="cuda-lockstep"), *args)
    assert len(report.kernels) == 2
    assert "totals on a grid" in {d.rule for d in report.decisions if d.fused}
    assert report.why_not_fused(*report.kernels).rule == "parts"
