"""Kernels on a grid, run in step: what they compute, and what is caught."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import nn

pytestmark = pytest.mark.chapter(25)
rng = np.random.default_rng(0)
square = rng.uniform(0.5, 2, (40, 70)).astype("f4")

programs = {
    "elementwise": lambda x: jnp.exp(x) * 2 - x,
    "softmax": nn.softmax,
    "columns": lambda x: x / x.sum(0),
    "transpose": lambda x: x.T * 2,
    "sum": lambda x: x.sum(),
    "argmax": lambda x: jnp.argmax(x, 1),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "two layouts": lambda x: (x.T, x + 1),
}


@pytest.mark.parametrize("name", programs)
def test_agrees_with_plain(name):
    found = mj.jit(programs[name], backend="cuda-lockstep")(square)
    wanted = mj.jit(programs[name], backend="eval")(square)
    for a, b in zip(*map(mj.tree_util.tree_leaves, (found, wanted)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 1e-5)


def kernel_of(f, *args):
    entry = mj.jit(f, backend="cuda").lower(*args).entry
    kernel, = entry.compile().loaded.kernels
    return kernel


def test_ptx_for_each_generation():
    kernel = kernel_of(nn.softmax, square)
    for major, minor in ((8, 0), (9, 0), (10, 0)):
        ptx = kernel.ptx((major, minor))
        assert f".target sm_{major}{minor}" in ptx
        assert f".entry {kernel.name}(" in ptx
        assert "shfl.sync.bfly" in ptx and "bar.sync" in ptx
    assert kernel.grid == (40, 1, 1) and kernel.block == (96, 1, 1)
    assert [b.shape for b in kernel.args] == [(40, 70), (40, 70)]


def test_without_a_device_a_call_says_so():
    with pytest.raises(mj.errors.MinijitError, match="CUDA device"):
        mj.jit(jnp.sin, backend="cuda")(square)
