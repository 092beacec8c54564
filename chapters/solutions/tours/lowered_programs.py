"""Solutions to the tour lowered_programs.ipynb."""

import numpy as np

import minijit.numpy as jnp
from minijit import jit, make_jaxpr
from minijit.compile.loops.statements import Kernel
from minijit.compile.lower.walk import lower


def passes(f, *args):
    program = lower(make_jaxpr(f)(*args))
    kernels = sum(isinstance(statement, Kernel) for statement in program.body)
    return kernels, len(program.body) - kernels


def check_passes(passes):
    """Lower the jaxpr of f; count how many of `program.body` are a Kernel."""
    x = np.ones((64, 64), np.float32)
    assert passes(lambda x: jnp.sin(x) + x.T, x) == (1, 0)
    assert passes(lambda x: x @ x, x) == (0, 1)
    assert passes(lambda x: jnp.tanh(x @ x), x) == (1, 1)


def between_bytes(f, *args):
    program = lower(make_jaxpr(f)(*args))
    return sum(int(np.prod(b.shape)) * b.dtype.itemsize for b in program.temps)


def check_between_bytes(between_bytes):
    """The bytes of a buffer: its elements times `dtype.itemsize`."""
    x = np.ones((64, 32), np.float32)
    w = np.ones((32, 64), np.float32)
    assert between_bytes(lambda x: jnp.sin(x) * 2.0, x) == 0
    assert between_bytes(lambda x, w: jnp.tanh(x @ w), x, w) == 64 * 64 * 4


def centre(x):
    i = jnp.arange(x.size, dtype=x.dtype)
    return (i * x).sum() / x.sum()


def check_centre(centre):
    """`jnp.arange` is no array in a lowered program: its element is the index."""
    x = np.float32([1, 0, 2, 5])
    assert np.allclose(centre(x), 19 / 8) and np.allclose(jit(centre)(x), 19 / 8)
    program = lower(make_jaxpr(centre)(x))
    kernel, = program.body
    assert isinstance(kernel, Kernel) and str(program).count("for ") == 1
