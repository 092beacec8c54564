"""Solutions to chapter 15."""

import numpy as np

import minijit.numpy as jnp
from minijit import jit, make_jaxpr
from minijit.compile.lower import lower
from minijit.run.python_source import print_program


def floor_divide(x, y):
    if y == 0:
        return ~y
    return -x if y == -1 else x // y


def check_floor_divide(floor_divide):
    """Only two cases differ from Python's `//`: y = 0, where `~y` is -1, and y = -1."""
    pairs = [(7, 0), (-7, 0), (7, 2), (-7, 2), (7, -2), (-7, -2), (-128, -1), (5, -1)]
    with np.errstate(all="ignore"):
        results = [floor_divide(np.int8(x), np.int8(y)) for x, y in pairs]
    assert [int(r) for r in results] == [-1, -1, 3, -4, -4, 3, -128, -5]
    assert all(r.dtype == np.int8 for r in results)


def bytes_moved(kernel):
    return sum(buffer.nbytes for buffer in kernel.buffers)


def check_bytes_moved(bytes_moved):
    """`kernel.buffers` are the arrays, and a `Buffer` knows its `nbytes`."""
    x, y = np.ones((30, 40), "f4"), np.ones(40, "u1")
    source = print_program(lower(make_jaxpr(lambda x, y: jnp.sum(x * y, 1))(x, y)))
    assert sum(map(bytes_moved, source.kernels)) == x.nbytes + y.nbytes + 4 * 30


def posterize(image, levels):
    return jnp.floor(image * levels) / levels


def check_posterize(posterize):
    """`jnp.floor` of what, and divided by what? No loop is needed."""
    image = np.array([[0, 0.24, 0.25], [0.6, 0.99, 1]], "f4")
    run = jit(lambda image: posterize(image, 4))
    assert np.array_equal(run(image), [[0, 0, 0.25], [0.5, 0.75, 1]])
    assert len(run.lower(image).compile().executable.kernels) == 1
