"""Masks: loops cut where the answer to a comparison with their counter changes."""

import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.loops.expressions import Op
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import For, Store, expressions, statements
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.placing_rules import arrange

pytestmark = pytest.mark.chapter(24)
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

    assert choices(f, wide, 3)[1] == 0 or case == "columns"
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

    assert choices(other, x, 3)[1] and choices(short, x, 3)[1]


def choices(f, *args):
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
    assert choices(MASKS[case], x, 3) == (2, 0)
    assert choices(MASKS["causal"], x, 3)[0] == 2


def test_what_is_cheap_stays_a_choice():
    assert choices(lambda x, k: jnp.where(mask() < k, x, 0), x, 3) == (1, 1)
    # A number that the loop itself decides is no place to cut at.
    assert choices(lambda x, k: jnp.where(mask() < x, jnp.exp(x), 0), x, 3) == (1, 1)


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
