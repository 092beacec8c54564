"""Loops cut where conditions on their axis change: no choice is left in them."""

from dataclasses import replace

import numpy as np
import pytest
from harness import alike
from ir_interpreter import run

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.decisions import decisions_about
from minijit.compile.loops.expressions import Op
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import (
    For, Step, Store, expressions, statements,
)
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.machine import Machine
from minijit.compile.schedule.place import place
from minijit.compile.schedule.placing_rules import arrange
from minijit.compile.simplify.folding import simplify

pytestmark = pytest.mark.chapter(24)
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape).astype("f4")


def stencil(x):
    return x + jnp.roll(x, 1, 0) + jnp.roll(x, -1, 1)


def recurrence(x):
    before = jnp.pad(x[:, :-1], ((0, 0), (1, 0)), constant_values=-9.0)
    return jnp.exp(x * before)


# name: (function, arguments, how many innermost loops it has).
CASES = {
    "concatenate": (lambda x, y: jnp.concatenate([x * 2, y, x + y], 1),
                    floats(4, 5), floats(4, 5), 3),
    "along the first axis": (lambda x, y: jnp.concatenate([x, y * 2]),
                             floats(4, 5), floats(3, 5), 2),
    "one axis": (lambda x, y: jnp.concatenate([x, y * 2]), floats(4), floats(3), 2),
    "pad": (lambda x: jnp.pad(x * 2, ((0, 0), (2, 3))), floats(4, 5), 3),
    "pad on all sides": (lambda x: jnp.pad(x * 2, 1), floats(4, 5), 5),
    "reflected": (lambda x: jnp.pad(x, ((0, 0), (2, 3)), "reflect"), floats(4, 5), 3),
    "wrapped": (lambda x: jnp.pad(x, ((0, 0), (2, 3)), "wrap"), floats(4, 5), 3),
    "roll": (lambda x: jnp.roll(x, 2, 1) * x, floats(4, 5), 2),
    "two rolls": (stencil, floats(4, 5), 4),
    "rows of rows": (mj.vmap(lambda x, y: jnp.append(jnp.outer(x, y), y)),
                     floats(4, 3), floats(4, 8), 2),
}  # fmt: skip


def choices(body):
    """The selects in some statements, and how many innermost loops there are."""
    loops = [s for s in statements(body) if isinstance(s, For)]
    inner = [s for s in loops if not any(isinstance(t, For) for t in s.body)]
    found = [e for e in postorder(expressions(body)) if isinstance(e, Op)]
    return [e for e in found if e.name == "select"], len(inner)


@pytest.mark.parametrize("case", CASES)
def test_loops_choose_nothing(case):
    f, *args, loops = CASES[case]
    kernel, = lower(mj.make_jaxpr(f)(*args)).kernels
    assert choices(kernel.body)[0]
    body = arrange(kernel.body)
    assert choices(body) == ([], loops)
    assert len(statements(arrange(body))) == len(statements(body))


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    f, *args, _ = CASES[case]
    want = mj.jit(f, backend="eval")(*args)
    program = lower(mj.make_jaxpr(f)(*args))
    for got in (mj.jit(f)(*args), run(program, *args, place=place)[0]):
        np.testing.assert_array_equal(got, want)


def test_ranges_that_are_one_in_memory_are_one_loop():
    """Images of 3 colours in their padding: loops of 3 steps took LLVM longest."""
    f = lambda x: jnp.pad(x * 2, ((1, 1), (1, 1), (0, 0)))
    kernel, = lower(mj.make_jaxpr(f)(floats(8, 9, 3))).kernels
    loops = [s for s in statements(arrange(kernel.body)) if isinstance(s, For)]
    assert {33, 27} <= {s.axis.extent for s in loops}
    assert not any(s.axis.extent in (9, 11) for s in loops)


def test_a_position_in_both_of_two_loops_is_in_bounds_where_the_outer_one_is_cut(
    monkeypatch,
):
    """All of it was gathered, in all cases: it took seven times as long."""
    one = replace(Machine.book(), cores=1)
    monkeypatch.setattr(Machine, "in_force", lambda: one)
    f = lambda x: jnp.append(*[jnp.pad(x, 2)] * 2)
    kernel, = lower(mj.make_jaxpr(f)(floats(196, 2, 40))).kernels
    assert choices(arrange(kernel.body))[1] == 2 * 3


WHOLE = {
    "a long loop around everything": (lambda x: jnp.concatenate([x, x]), (1 << 15,)),
    "functions of a step alone": (recurrence, (4, 32)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_what_stays_whole(case):
    f, shape = WHOLE[case]
    x = mj.ShapeDtypeStruct(shape, "float32")
    kernel, = lower(mj.make_jaxpr(f)(x)).kernels
    with mj.config.override("machine", "book"):
        found = {d.rule: d for d in decisions_about(kernel, arrange)}
        assert not found["one range"].fused
        assert choices(arrange(kernel.body))[1] == 1


def test_of_many_ranges_the_shortest_are_one():
    """A stencil of thirteen numbers that wraps around: .3 ms more for 200,000."""
    f = lambda x: sum(jnp.roll(x, k) * k for k in range(-6, 7))
    kernel, = lower(mj.make_jaxpr(f)(floats(100))).kernels
    loops = arrange(kernel.body)
    assert len(loops) == 3
    assert not choices([max(loops, key=lambda loop: loop.axis.extent)])[0]


WITH_PARTS = {
    "two parts": lambda x: jnp.concatenate([x] * 2, 1),
    "nine parts": lambda x: jnp.concatenate([x] * 9, 1),
    "padding": lambda x: jnp.pad(x, ((0, 0), (2, 3))),
}


@pytest.mark.parametrize("parts", WITH_PARTS)
@pytest.mark.parametrize("function", [jnp.sum, jnp.max, mj.nn.softmax, jnp.cumsum])
def test_totals_along_parts_choose_nothing(function, parts):
    """A sum over nine parts, chosen from for each term: 14 times jax's time."""
    f = lambda x: function(WITH_PARTS[parts](x), 1)
    kernels = lower(mj.make_jaxpr(f)(floats(40, 50))).kernels
    assert not any(choices(arrange(kernel.body))[0] for kernel in kernels)


@pytest.mark.parametrize("length", [41, 999])
def test_a_step_has_its_functions_alone_where_that_costs_less(length):
    """What is kept in bounds is gathered: rows of 41 took 2.4 times as long whole."""
    kernel, = lower(mj.make_jaxpr(recurrence)(floats(4, length))).kernels
    with mj.config.override("machine", "book"):
        assert choices(arrange(kernel.body)) == ([], 2)


@pytest.mark.parametrize("cores, loops", [(1, 2), (2, 2), (4, 1)])
def test_a_long_loop_of_single_elements_is_one_for_several_cores(
    cores, loops, monkeypatch
):
    """In one loop both arrays are gathered from: 2.7 times jax's time on one core."""
    machine = replace(Machine.book(), cores=cores)
    monkeypatch.setattr(Machine, "in_force", classmethod(lambda cls: machine))
    x = floats(mj.config.fusion.one_range)
    f = lambda x: jnp.concatenate([x, x * 2])
    kernel, = lower(mj.make_jaxpr(f)(x)).kernels
    chosen, count = choices(arrange(kernel.body))
    assert (len(chosen), count) == (2 - min(loops, 2), loops)
    # Rows are shared in any case: their own loops have no choice.
    rows = x.reshape(-1, 64)
    kernel, = lower(mj.make_jaxpr(f)(rows)).kernels
    assert len(arrange(kernel.body)) == 1


@pytest.mark.parametrize("n, cut", [(64, False), (512, True)])
def test_a_mask_cuts_rows_that_are_long_enough(n, cut):
    """A loop of a length that only a run knows ends where nobody foresees it."""
    x = np.random.default_rng(0).normal(size=(4, n, n)).astype("f4")
    below = lambda: jnp.arange(n)[:, None] >= jnp.arange(n)
    f = lambda x: mj.nn.softmax(jnp.where(below(), x, -jnp.inf))
    compiled = mj.jit(f).lower(x).compile()
    assert ("range(i1 + 1)" in compiled.as_text()) == cut
    e = np.where(np.tril(np.ones((n, n))), np.exp(x), 0)
    want = e / e.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(compiled(x)), want, rtol=1e-5, atol=1e-7)


# ---- masks: loops cut where the answer to a comparison with their counter changes


# Short loops are not cut where only a run knows.
x = np.random.default_rng(0).normal(size=(6, 200)).astype("f4")


def mask():
    return jnp.arange(200)


def causal(x, k):
    return jnp.where(jnp.arange(6)[:, None] + 3 >= mask(), x, -jnp.inf)


MASKS = {
    "a constant": lambda x, k: jnp.where(mask() < 7, jnp.exp(x), 0),
    "a number": lambda x, k: jnp.where(mask() < k, jnp.exp(x), jnp.sin(x)),
    "on the other side": lambda x, k: jnp.where(k >= mask(), jnp.exp(x), x),
    "causal": lambda x, k: jnp.exp(causal(x, k)),
}


wide = np.random.default_rng(1).uniform(0.9, 1.1, (40, 900)).astype("f4")
rows, columns = np.arange(40)[:, None], np.arange(900)
# Functions of an array and a number; the mask that they apply, the value elsewhere.
TOTALS = {
    "max": (lambda x, k: jnp.max(x, -1), lambda k: columns <= rows, -np.inf),
    "min": (lambda x, k: jnp.min(x, -1), lambda k: columns > rows, np.inf),
    "sum": (lambda x, k: jnp.sum(x, -1), lambda k: columns < k, 0),
    "prod": (lambda x, k: jnp.prod(x, -1), lambda k: columns >= k, 1),
    "columns": (lambda x, k: jnp.sum(x, 0), lambda k: rows < k, 0),
    "all of them": (lambda x, k: jnp.sum(x), lambda k: columns >= k, 0),
}


@pytest.mark.parametrize("case", TOTALS)
def test_totals_leave_out_what_a_mask_makes_nothing_of(case):
    total, kept, nothing = TOTALS[case]

    def f(x, k):
        i, j = jnp.arange(40)[:, None], jnp.arange(900)
        masks = {"max": j <= i, "min": j > i, "sum": j < k, "prod": j >= k}
        masks |= {"columns": i < k, "all of them": j >= k}
        return total(jnp.where(masks[case], x, jnp.float32(nothing)), k)

    assert stores_and_choices(f, wide, 3)[1] == 0 or case == "columns"
    g = mj.jit(f)
    for k in (-(2**31), -5, 0, 1, 9, 39, 40, 90, 900, 2**31 - 1):
        want = np.asarray(total(jnp.asarray(np.where(kept(k), wide, nothing)), k))
        found = np.asarray(g(wide, np.int32(k)))
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_masks_of_other_values_and_short_rows_stay():
    def other(x, k):
        return jnp.where(mask() < k, x, 1).sum(1)

    def short(x, k):
        return jnp.where(jnp.arange(6) < k, x.T, 0).sum(1)

    assert stores_and_choices(other, x, 3)[1] and stores_and_choices(short, x, 3)[1]


def stores_and_choices(f, *args):
    """(how many loops store the result, how many comparisons are left in them)."""
    kernel, = lower(mj.make_jaxpr(f)(*args)).kernels
    with mj.config.override("machine", "book"):
        body = arrange(kernel.body)
    loops = [s for s in statements(body) if isinstance(s, For)]
    inner = [s for s in loops if any(isinstance(t, Store) for t in s.body)]
    compared = (e for e in postorder(expressions(body)) if isinstance(e, Op))
    return len(inner), sum(e.name in ("lt", "le", "gt", "ge") for e in compared)


@pytest.mark.parametrize("case", ["a constant", "a number", "on the other side"])
def test_a_loop_for_each_answer(case):
    assert stores_and_choices(MASKS[case], x, 3) == (2, 0)
    assert stores_and_choices(MASKS["causal"], x, 3)[0] == 2


def test_what_is_cheap_stays_a_choice():
    assert stores_and_choices(lambda x, k: jnp.where(mask() < k, x, 0), x, 3) == (1, 1)
    # A number that the loop itself decides is no place to cut at.
    f = lambda x, k: jnp.where(mask() < x, jnp.exp(x), 0)
    assert stores_and_choices(f, x, 3) == (1, 1)


ROLLED = {
    "one axis": (lambda x, k: jnp.roll(x, k) + 1, (3000,)),
    "rows": (lambda x, k: mj.vmap(jnp.roll)(x, k + jnp.arange(5)), (5, 900)),
    "short rows": (lambda x, k: jnp.roll(x, k, 0) + 1, (2000, 5)),
    "both axes": (lambda x, k: jnp.roll(x, (k, -k), (0, 1)), (40, 900)),
    "what follows": (lambda x, k: mj.lax.dynamic_slice(
        jnp.append(x, 2 * x), (k,), (2000,)), (2000,)),
}  # fmt: skip


@pytest.mark.parametrize("case", ROLLED)
def test_a_loop_that_a_choice_keeps_in_bounds_is_cut_where_a_run_knows(case):
    """Both parts were gathered, for each element: the steps of a knapsack, 2.3 times
    jax's time, now a third.  Short rows as many as a run tells are not one loop."""
    f, shape = ROLLED[case]
    x = floats(*shape)
    kernel, = lower(simplify(mj.make_jaxpr(f)(x, np.int32(3)))).kernels
    with mj.config.override("machine", "book"):
        body = arrange(kernel.body)
    loops = [s for s in statements(body) if isinstance(s, For)]
    inner = {s.axis for s in loops if isinstance(s.body[0], Store)}
    asked = [e.args[0] for e in choices(body)[0]]
    assert len(inner) == (3 if case == "both axes" else 2)
    assert all(inner.isdisjoint(e.free) for e in asked)
    g = mj.jit(f)
    for k in (-(2**31), -1, 0, 1, 7, 899, 900, 1999, 2001, 2**31 - 1000):
        want = mj.jit(f, backend="eval")(x, np.int32(k))
        np.testing.assert_array_equal(g(x, np.int32(k)), want)


on_a_grid = pytest.param("cuda-lockstep", marks=pytest.mark.chapter(26))


@pytest.mark.parametrize("backend", ["default", "plain", on_a_grid])
def test_compiled(backend):
    """In machine code, and on a grid, where threads are the steps of outer loops."""
    f = lambda x, k: (mj.nn.softmax(causal(x, k)), MASKS["a number"](x, k))
    # The number is the loop's, and its kernels are at other places there.
    step = lambda k, x: (k + 4, f(x, k))
    g = lambda x, k: [y[1] for y in mj.lax.scan(step, k, jnp.stack([x * 2, x]))[1]]
    for given, function in ((11, f), (7, g)):
        found = mj.jit(function, backend=backend)(x, given)
        alike(found, f(x, 11), rtol=1e-5)


def test_totals_that_several_ranges_of_one_step_need_are_computed_once():
    """The five largest, one after the other: the first was found five times, and there
    were fifteen totals in all."""
    x = floats(30, 400)
    program = lower(simplify(mj.make_jaxpr(lambda x: mj.lax.top_k(x, 5)[0])(x)))
    placed = statements(place(arrange(program.kernels[0].body)))
    assert sum(isinstance(stmt, Step) for stmt in placed) == 5
    alike(mj.jit(lambda x: mj.lax.top_k(x, 5)[0])(x), -np.sort(-x, 1)[:, :5], rtol=0)
