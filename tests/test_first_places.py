"""Where extremes stand: two totals in any order, of which one has the other in it."""

import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.loops.expressions import Reduce
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import expressions
from minijit.compile.schedule.placing_rules import arrange
from minijit.compile.schedule.vector_loops import in_first_places
from tests.test_long_rows import kernels_of

pytestmark = [pytest.mark.chapter(24), pytest.mark.fusion]

rng = np.random.default_rng(4)
WIDE = 700, 162
SHAPES = [(WIDE, 1), (WIDE, 0), ((30, 40, 17), 1), ((9, 5), 0), ((31_000,), 0)]


def drawn(shape, dtype):
    """Numbers of which many are equal, zeros of both signs, and NaNs in some rows."""
    x = rng.integers(-3, 4, shape)
    if np.dtype(dtype).kind != "f":
        return abs(x).astype(dtype)
    x = (x * rng.choice([-1.0, 1.0], shape)).astype(dtype)
    x.flat[:: 4 * shape[0] + 1] = np.nan
    return x


@pytest.mark.parametrize("name, dtype, shape, axis", [
    (("argmax", "argmin")[(i + k) % 2], dtype, *at)
    for i, at in enumerate(SHAPES)
    for k, dtype in enumerate(["float32", "float16", "int32", "uint8", "bool"])
])  # fmt: skip
def test_the_first_of_several(name, dtype, shape, axis):
    x = drawn(shape, dtype)
    found = mj.jit(lambda x: getattr(jnp, name)(x, axis))(x)
    np.testing.assert_array_equal(found, getattr(np, name)(x, axis))


def totals_of(f, *args):
    bodies = [arrange(in_first_places(k.body)) for k in kernels_of(f, *args)]
    exprs = postorder([e for body in bodies for e in expressions(body)])
    return [e.op for e in exprs if type(e) is Reduce]


@pytest.mark.parametrize("shape, axis", SHAPES)
def test_no_step_looks_at_what_the_last_one_has_found(shape, axis):
    x = drawn(shape, "float32")
    assert not {"argmax", "argmin"} & set(totals_of(lambda x: jnp.argmax(x, axis), x))


def test_several_in_one_kernel_and_what_else_is_asked():
    x = drawn((300, 70), "float32")

    def both(x):
        i, j = x.argmax(0), (x * 2).argmin(0)
        return i, j, x.max(0), i - j

    alike(mj.jit(both)(x), both(jnp.asarray(x)))


@pytest.mark.parametrize("wide", [100, 20_000])
def test_a_total_of_which_another_one_is_made_has_a_row_of_its_own(wide):
    x = rng.standard_normal((50, wide), dtype="float32")

    def spread(x):
        largest = x.max(0)
        return jnp.exp(x - largest).sum(0) + largest

    found = mj.jit(spread)(x)
    wanted = np.exp(x - x.max(0)).sum(0) + x.max(0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
