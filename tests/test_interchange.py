"""Totals over outer axes: the same numbers, read in the order of memory."""

import numpy as np
import pytest
from harness import alike

import minijit as jax
import minijit.numpy as jnp
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load, Reduce, op
from minijit.compile.loops.kernel_buffers import local_buffers
from minijit.compile.loops.statements import For, Store
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.interchange import interchanged
from minijit.compile.schedule.placing_rules import arrange

pytestmark = pytest.mark.chapter(16)

F32 = np.dtype("float32")
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape).astype("float32")


def integers(*shape):
    return rng.integers(-1000, 1000, shape).astype("int32")


def norms(x):
    return jnp.log(jnp.sum(x * x, 0) + 1.0) * x[0]


def two(x):
    return jnp.sum(x, 0), jnp.sum(x * x, 0)


def two_lengths(x):
    """Two totals in one nest, of which one is longer: as in a step of a network."""
    return jnp.sum(x, 0), jnp.sum(x[2:] * x[:6], 0)


def kept_thrice(x):
    """What a loop keeps for its gradient: a total, and what is made of it."""
    total = jnp.sum(x, 0)
    y = jnp.tanh(total)
    return y, (1 + y) * (1 - y), total


def log_total(x):
    top = jnp.max(x, 0)
    return jnp.log(jnp.sum(jnp.exp(x - top), 0)) + top


def totals_of_totals(x):
    """Beside what they are made of: a stage after the other."""
    off = x - jnp.sum(x, 0)
    return jnp.max(x, 0), jnp.sum(off**2, 0), jnp.sum((off - jnp.max(off, 0)) ** 3, 0)


def points(x):
    """A total for each of a few: none runs along memory."""
    return jnp.sum(x[:, 1:] * x[:24, 0] - x[:, :1], 1)


in_rows = {
    "totals of totals": (totals_of_totals, floats(8, 20)),
    "and of many columns": (totals_of_totals, floats(5, 9000)),
    "a total made of a total": (log_total, floats(8, 20)),
    "and of several pieces": (log_total, floats(6, 700)),
    "variance": (lambda x: jnp.var(x, 0), floats(8, 20)),
    "sum": (lambda x: jnp.sum(x, 0), floats(37, 50)),
    "one row over": (lambda x: jnp.sum(x, 0), floats(9, 16)),
    "fewer rows than at once": (lambda x: jnp.sum(x, (0, 1)), floats(2, 3, 20)),
    "several pieces": (lambda x: jnp.sum(x, 0), floats(6, 9000)),
    "max": (lambda x: jnp.max(x, 0), floats(11, 20)),
    "min of integers": (lambda x: jnp.min(x, 0), integers(11, 20)),
    "product": (lambda x: jnp.prod(x, 0), floats(7, 20)),
    "middle axis": (lambda x: jnp.sum(x, 1), floats(3, 13, 20)),
    "complex, some rows over": (lambda x: jnp.sum(x, 0), floats(7, 40).view("c8")),
    "two axes": (lambda x: jnp.sum(x, (0, 2)), floats(3, 4, 5, 20)),
    "of what it computes": (lambda x: jnp.sum(jnp.abs(x) + 1, 0), floats(8, 20)),
    "and what becomes of it": (norms, floats(8, 20)),
    "two in one nest": (two, floats(8, 20)),
    "one that three are made of": (kept_thrice, floats(8, 20)),
    "and a long one": (kept_thrice, floats(1500, 20)),
    "one of two in pieces": (lambda x: kept_thrice(x)[:2], floats(6, 9000)),
    "a long one of two": (lambda x: kept_thrice(x)[:2], floats(1500, 20)),
    "two of different lengths": (two_lengths, floats(8, 20)),
    "columns of a transpose": (lambda x: jnp.sum(x.T, 1), floats(13, 20)),
    "shifted": (lambda x: jnp.sum(x[:, 3:], 0), floats(13, 23)),
    "a coordinate of each point": (points, floats(40, 2)),
    "in pieces, to another dtype": (lambda x: points(x) > 0, floats(5000, 2)),
    "NaN": (lambda x: jnp.max(x, 0), np.where(floats(5, 16) > 1, np.nan, 1)),
    "negative zeros": (lambda x: jnp.sum(x, 0), np.full((4, 16), -0.0, "float32")),
}


def accumulating(text):
    """The lines that go on with what is stored."""
    lines = [line.strip().partition(" = ") for line in text.splitlines()]
    return [new for old, _, new in lines if old.startswith(("y", "t")) and old in new]


@pytest.mark.parametrize("case", in_rows)
def test_totals_in_rows(case):
    f, x = in_rows[case]
    text = jax.jit(f).lower(x).compile().as_text()
    assert accumulating(text)
    for backend in ("plain", None):
        alike(jax.jit(f, backend=backend)(x), jax.jit(f, backend="eval")(x),
              rtol=2e-5, atol=2e-5)  # fmt: skip


@pytest.mark.parametrize("columns", [31, 38])
def test_columns_have_no_row_of_what_all_of_them_share(columns):
    """The mean of a row of the left factor is within each column's total."""
    w = floats(71, columns)
    f = jax.jit(lambda x: jnp.abs((x - x.mean(1, keepdims=True)) @ w))
    x = floats(8, 71)
    assert len(f.lower(x).compile().executable.program.kernels) == 1
    want = np.abs((x - x.mean(1, keepdims=True)) @ w)
    np.testing.assert_allclose(f(x), want, 1e-5, 1e-5)


def test_totals_of_different_lengths_go_on_one_after_the_other():
    f, x = in_rows["two of different lengths"]
    compiled = jax.jit(f).lower(x).compile()
    kernel, = compiled.executable.program.kernels
    assert len(kernel.body) == 1
    assert len(accumulating(compiled.as_text())) == 3  # four rows at once, and two over


@pytest.mark.parametrize("count", [2, 3])
def test_a_total_of_several_stores_grows_once(count):
    text = jax.jit(lambda x: kept_thrice(x)[:count]).lower(floats(8, 20)).compile()
    code = [line for line in text.as_text().splitlines() if "#" not in line]
    assert sum(line.count("add_any_order(") for line in code) == 1
    assert sum(line.count("np.tanh(") for line in code) == 1


def test_what_a_later_total_reads_is_not_overwritten():
    i, k = Axis(32), Axis(8, "reduce")
    x, y, z = (Buffer(n, (8, 32) if n == "x" else (32,), F32) for n in "xyz")
    first = Reduce("add", (k,), (Load(x, (k, i)),))
    after = Reduce("max", (k,), (Load(x, (k, i)),))
    other = op("add", after, Load(y, (i,)))

    def kept(value):
        loop = For(i, (Store(y, (i,), first), Store(z, (i,), value)))
        return interchanged((loop,)) == (loop,)

    assert not kept(after) and kept(other)


@pytest.mark.chapter(25)
@pytest.mark.parametrize("shape", [(700, 3000), (100, 30000), (40, 300, 300)])
def test_large_ones_on_several_cores(shape, monkeypatch):
    x = floats(*shape)
    monkeypatch.setitem(jax.config.values, "cpu_threads", 4)
    totals = jax.jit(lambda x: jnp.sum(jnp.exp(x) - x, -2))(x)
    np.testing.assert_allclose(totals, (np.exp(x) - x).sum(-2), 1e-4, 1e-4)


@pytest.mark.parametrize("shape", [(8, 20), (3, 700)])
def test_running_totals_of_several_pieces(shape):
    x = floats(*shape)
    want = np.cumsum(x, 0, dtype="f4")
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.cumsum(x, 0))(x), want)


def test_running_totals_along_memory_stay():
    kernel, = lower(jax.make_jaxpr(lambda x: jnp.cumsum(x, 1))(floats(8, 20))).kernels
    assert not local_buffers(arrange(kernel.body))
