"""Loops cut where conditions on their axis change: no choice is left in them."""

from dataclasses import replace

import numpy as np
import pytest
from ir_interpreter import run

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.decisions import decisions_about
from minijit.compile.loops.expressions import Op
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import For, expressions, statements
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.machine import Machine
from minijit.compile.schedule.place import place
from minijit.compile.schedule.placing_rules import arrange

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


WHOLE = {
    "a long loop around everything": (lambda x: jnp.concatenate([x, x]), (1 << 15,)),
    "functions of a step alone": (recurrence, (4, 41)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_what_stays_whole(case):
    f, shape = WHOLE[case]
    x = mj.ShapeDtypeStruct(shape, "float32")
    kernel, = lower(mj.make_jaxpr(f)(x)).kernels
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


def test_in_a_long_row_a_step_has_its_functions_alone():
    kernel, = lower(mj.make_jaxpr(recurrence)(floats(4, 999))).kernels
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
