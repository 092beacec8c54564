"""Functions of short totals in loops of their own: the same numbers."""

import numpy as np
import pytest
from harness import alike
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

pytestmark = pytest.mark.chapter(24)
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape).astype("f4")


def spread(x):
    """A mean that is used beside the total that uses it, too."""
    mean = x.mean(-1)
    return jnp.exp(mean) + jnp.log(((x - mean[..., None]) ** 2).sum(-1))


CASES = {
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


@pytest.mark.parametrize("case", CASES)
def test_totals_and_functions_have_loops_of_their_own(case):
    f, *args = CASES[case]
    kernel = kernel_of(f, *args)
    assert any(map(mixed, innermost(kernel.body)))
    assert not any(map(mixed, innermost(arrange(kernel.body))))


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    f, *args = CASES[case]
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


def test_in_a_loop():
    """The bodies of native loops are arranged as well: leapfrog, for one."""
    x, q = floats(100, 20), floats(20)
    step = lambda i, q: q - 0.01 * (jnp.tanh(x @ q) @ x)
    f = lambda q: mj.lax.fori_loop(0, 3, step, q)
    want = mj.jit(f, backend="eval")(q)
    np.testing.assert_allclose(mj.jit(f)(q), want, 1e-4, 1e-4)
