"""Loops that are one in memory are one: rows have all the elements they can."""

import numpy as np
import pytest
from harness import alike, program_of
from ir_interpreter import run

import minijit as mj
import minijit.numpy as jnp
from minijit import nn
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load, Reduce
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import (
    For, Store, expressions, nested, statements,
)
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.nests import in_long_rows
from minijit.compile.schedule.place import place
from minijit.compile.schedule.placing_rules import arrange
from minijit.run.llvm.engine import optimised
from minijit.run.llvm.kernels import KernelText, module_text

pytestmark = [pytest.mark.chapter(23), pytest.mark.fusion]


def numbers(*shape):
    return np.random.default_rng(1).normal(size=shape).astype("float32")


def kernels_of(f, *args):
    return program_of(f, *args).kernels


def extents(body):
    return {s.axis.extent for s in statements(body) if isinstance(s, For)}


TOTALS = {
    "sum": lambda x: x.sum(0),
    "max": lambda x: x.max(0),
    "prod": lambda x: x.prod(0),
    "any": lambda x: (x > 2).any(0),
    "all": lambda x: (x < 2).all(0),
    "var": lambda x: x.var(0),
    "running": lambda x: jnp.cumsum(x, 0),
}


@pytest.mark.parametrize("name", TOTALS)
def test_totals_go_in_rows_of_all_that_is_kept(name):
    x = numbers(600, 100, 7)
    found = [extents(arrange(k.body)) for k in kernels_of(TOTALS[name], x)]
    assert found and not any({100, 7} & lengths for lengths in found)


SHAPES = (600, 100, 3), (2100, 30, 10, 5), (700, 40, 16)


@pytest.mark.parametrize("name, dtype, shape", [
    (name, dtype, SHAPES[(i + k) % 3])
    for i, name in enumerate(TOTALS)
    for k, dtype in enumerate(["float32", "float16", "int32"])
])  # fmt: skip
def test_they_are_those_of_the_flat_rows(name, dtype, shape):
    """The same loops run, so that the very bits are the same."""
    x, f = jnp.asarray((numbers(*shape) * 3).astype(dtype)), mj.jit(TOTALS[name])
    rows = f(x.reshape(shape[0], -1))
    np.testing.assert_array_equal(f(x), np.asarray(rows).reshape(f(x).shape))
    want = mj.jit(TOTALS[name], backend="eval")(x)
    alike(f(x), want, rtol=1e-1 if dtype == "float16" else 1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(300, 100, 4, 4), (4000, 30, 10, 5), (64, 48, 3)])
@pytest.mark.parametrize("f", [
    lambda x: x * 2 + 1,
    lambda x: jnp.tanh(x + x[0]),
    lambda x: (x - x.mean(0)) / x.std(0),
])  # fmt: skip
def test_code_knows_where_in_memory_an_index_of_digits_is(f, shape):
    x = numbers(*shape)
    for kernel in kernels_of(f, x):
        # How many strips a row of unknown length has, is a shift.
        text = str(optimised(module_text([KernelText(kernel)])))
        assert "udiv" not in text and "urem" not in text
    alike(mj.jit(f)(x), mj.jit(f, backend="eval")(x), rtol=1e-3, atol=1e-4)


ROWS = {
    "all of it": (lambda x: x.sum(), [9 * 6 * 40 * 16]),
    "the last axes": (lambda x: x.max((1, 2, 3)), [6 * 40 * 16]),
    "of two arrays": (lambda x: jnp.square(x - x[0]).sum((1, 2, 3)), [6 * 40 * 16]),
    "of neighbours": (lambda x: jnp.square(jnp.diff(x, axis=0)).sum(), [8 * 3840]),
    "in two pieces": (lambda x: jnp.abs(jnp.diff(x, axis=1)).sum(), [9, 5 * 640]),
    "in long rows": (lambda x: (x.reshape(9, 60, 64) * 2).max((1, 2)), [60 * 64]),
    "transposed": (lambda x: x.T.sum(), [9 * 6 * 40 * 16]),
    "of axes in disorder": (lambda x: x.transpose(0, 3, 2, 1).max((1, 2, 3)), [3840]),
    "some of a transposed array's": (lambda x: x.T.sum((0, 1, 2)), [3840]),
    "not along memory": (lambda x: x.sum((0, 1)), [9, 6]),
    "of a row for all": (lambda x: (x * x[0, 0, 0]).sum((1, 2, 3)), [6, 40, 16]),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_total_goes_through_memory_in_one_loop(name):
    """Sixteen steps are too few to begin a loop for: four times JAX's time."""
    (f, steps), x = ROWS[name], numbers(9, 6, 40, 16)
    for kernel in kernels_of(f, x):
        exprs = postorder(expressions(in_long_rows(kernel.body)))
        total, = (e for e in exprs if type(e) is Reduce)
        assert [axis.extent for axis in total.axes] == steps
        # What digits two places share is computed, and LLVM finds that nothing asks.
        text = str(optimised(module_text([KernelText(kernel)])))
        assert "udiv" not in text and "urem" not in text
    alike(mj.jit(f)(x), mj.jit(f, backend="eval")(x), rtol=1e-4, atol=1e-4)


def test_what_asks_for_one_of_the_axes_keeps_its_loop():
    x = numbers(40, 30, 8)
    f = lambda x: x + jnp.arange(8, dtype="float32")
    kernel, = kernels_of(f, x)
    assert extents(in_long_rows(kernel.body)) == {40, 30, 8}
    alike(mj.jit(f)(x), mj.jit(f, backend="eval")(x))


@pytest.mark.parametrize("f", [
    lambda x: x - x.max(1, keepdims=True),
    lambda x: x / jnp.abs(x).sum(1, keepdims=True) + x.min(1, keepdims=True),
])  # fmt: skip
def test_rows_are_long_around_an_axis_with_a_total_too(f):
    """Rows of six were written out, 66 statements of bytes in vectors: 21 times jax's
    time for a first call, and five times that of long rows for each one after it."""
    x = numbers(32, 11, 304, 6)
    kernel, = kernels_of(f, x)
    assert extents(in_long_rows(kernel.body)) == {32, 1824, 11}
    alike(mj.jit(f)(x), mj.jit(f, backend="eval")(x), rtol=1e-5, atol=1e-6)
    bytes = (x * 30).astype("int8")
    alike(mj.jit(f)(bytes), mj.jit(f, backend="eval")(bytes), rtol=1e-5, atol=1e-6)


def test_a_row_of_what_each_step_has_for_itself_does_not_grow():
    """A softmax down thousands of rows keeps thousands of numbers for each column."""
    x = numbers(4000, 100, 16)
    want = nn.softmax(x.reshape(4000, 1600), 0).reshape(x.shape)
    alike(mj.jit(lambda x: nn.softmax(x, 0))(x), want, rtol=1e-5)


DIGITS = {
    "repeated": (lambda x: jnp.repeat(x, 3, 1) + 1, {24, 20, 3}),
    "tiled": (lambda x: jnp.tile(x, (1, 5)) * 2, {24, 5, 20}),
    "one axis": (lambda x: jnp.tile(x[0], 3), {3, 20}),
    "repeated and tiled": (lambda x: jnp.tile(jnp.repeat(x, 2, 1), (1, 3)),
                           {24, 3, 20, 2}),
    "stacked": (lambda x: jnp.stack([x, x * 2, x + 1], -1).reshape(24, 60),
                {24, 20, 1}),
    "a product": (lambda x: jnp.kron(x, x[:3, :4]), {72, 20, 4}),
    "an outer axis": (lambda x: jnp.repeat(x, 2, 0) + 1, {48, 20}),
    "ends elsewhere": (lambda x: jnp.repeat(x, 3, 1)[:, 1:] + 1, {24, 59}),
}  # fmt: skip


@pytest.mark.chapter(24)
@pytest.mark.parametrize("name", DIGITS)
def test_digits_of_an_axis_have_loops(name):
    """A quotient or remainder in an index kept a loop from having vectors."""
    (f, lengths), x = DIGITS[name], numbers(24, 20)
    kernel, = kernels_of(f, x)
    body = arrange(kernel.body)
    assert extents(body) == lengths
    assert len(statements(arrange(body))) == len(statements(body))
    np.testing.assert_array_equal(mj.jit(f)(x), mj.jit(f, backend="eval")(x))
    np.testing.assert_array_equal(*run(lower(mj.make_jaxpr(f)(x)), x, place=place),
                                  mj.jit(f)(x))  # fmt: skip


TOTAL_DIGITS = {
    "repeated": (lambda x: jnp.repeat(x, 3, 1).sum(1), (50,)),
    "sizes of complex numbers": (lambda x: jnp.abs(jnp.repeat(x + 1j, 3, 1)).sum(1),
                                 (50,)),
    "tiled": (lambda x: jnp.tile(x, (1, 3)).max(1), (3, 50)),
    "times another": (lambda x: (jnp.repeat(x, 3, 1) * jnp.tile(x, (1, 3))).sum(1),
                      (150,)),
    "both": (lambda x: jnp.tile(jnp.repeat(x, 2, 1), (1, 3)).sum(1), (50,)),
    "few": (lambda x: jnp.repeat(x[:, :9], 3, 1).sum(1), (27,)),
    "joined in memory": (lambda x: x.reshape(24, 5, 10).reshape(24, 50).sum(1), (50,)),
}  # fmt: skip


@pytest.mark.parametrize("name", TOTAL_DIGITS)
def test_totals_over_an_axis_of_digits_go_along_memory(name):
    """`x[k // 3]` was gathered element by element: three times jax's time."""
    (f, lengths), x = TOTAL_DIGITS[name], numbers(24, 50)
    kernel, = kernels_of(f, x)
    body = in_long_rows(kernel.body)
    total, = (e for e in postorder(expressions(body)) if type(e) is Reduce)
    assert tuple(axis.extent for axis in total.axes) == lengths
    for g in (f, mj.grad(lambda x: (f(x) ** 2).sum())):
        alike(mj.jit(g)(x), mj.jit(g, backend="eval")(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("own", [False, True])
def test_what_a_step_has_for_itself_does_not_become_a_row(own):
    i, j, k, n = (Axis(n) for n in (40, 30, 3, 3))
    x, y = (Buffer(name, (3, 40, 30), np.dtype("f4")) for name in "xy")
    t = Buffer("t", (3,) if own else x.shape, np.dtype("f4"), space="cache")
    at = lambda k: (k,) if own else (k, i, j)
    made = For(k, (Store(t, at(k), Load(x, (k, i, j))),))
    used = For(n, (Store(y, (n, i, j), Load(t, at(n))),))
    body = in_long_rows(nested([i, j], [made, used]))
    assert extents(body) == ({40, 30, 3} if own else {1200, 3})
