"""Products as machine code: every layout, in parts of rows or columns, on threads."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.base.config import config

pytestmark = pytest.mark.chapter(25)
rng = np.random.default_rng(0)

EQUATIONS = [
    "ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ik,kj->ji", "ki,jk->ji",
    "bik,bkj->bij", "bik,kj->ibj", "bhik,bhkj->bihj", "bihk,bjhk->bhij",
]  # fmt: skip
SIZES = dict(b=3, h=2, i=150, j=70, k=40)
# Columns of a tile that are a vector, a half of one, and one number.
NARROW = SIZES | dict(i=1001, j=13, k=530)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads, sizes", [(1, SIZES), (3, SIZES), (1, NARROW)])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_products_in_parts(equation, threads, sizes, dtype, monkeypatch):
    monkeypatch.setitem(config.values, "thread_time", 0)
    args = [
        rng.integers(-4, 5, [sizes[x] for x in part]).astype(dtype)
        for part in equation.split("->")[0].split(",")
    ]
    with mj.enable_x64(True), config.override("cpu_threads", threads):
        f = mj.jit(lambda x, y: jnp.einsum(equation, x, y), backend="llvm")
        found = f(*args)
    np.testing.assert_array_equal(found, np.einsum(equation, *args))
    executable = f.lower(*args).compile().executable
    assert not executable.kernels and len(executable.program.calls) == 1


@pytest.mark.parametrize("terms", [30, 1024, 1100])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_products_of_short_integers(dtype, terms):
    """Where floats hold all sums, they are products of floats; else of 32 bits."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, (40, terms)).astype(dtype)
    y = rng.integers(info.min, info.max + 1, (terms, 40)).astype(dtype)
    x[0], y[:, 0] = info.min, info.min
    x[1], y[:, 1] = info.max, info.max
    for out in (dtype, "int32"):
        f = mj.jit(lambda x, y, out=out: jnp.matmul(x, y, preferred_element_type=out))
        want = (x.astype(np.int64) @ y.astype(np.int64)).astype(out)
        np.testing.assert_array_equal(f(x, y), want)
        exact = terms * max(info.max, -info.min) ** 2 <= 1 << 24
        assert len(f.lower(x, y).compile().executable.program.calls) == exact
