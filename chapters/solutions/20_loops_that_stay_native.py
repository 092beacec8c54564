"""Solutions to chapter 20."""

import re

import numpy as np

import minijit.numpy as jnp
from minijit import jit, lax
from minijit.run.executable import routines


def texts_of(f, *args):
    """The sources of the native loops in a function."""
    program = jit(f).lower(*args).compile().executable.program
    calls = [call for call in program.calls if call.routine == "loop"]
    return [routines["loop"](call, True).text for call in calls]


def life(board, steps):
    def step(i, board):
        rows = board + jnp.roll(board, 1, 0) + jnp.roll(board, -1, 0)
        near = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - board
        return ((near == 3) | ((near == 2) & (board == 1))).astype("int32")

    return lax.fori_loop(0, steps, step, board)


def check_life(life):
    """Sums of `jnp.roll`s in a `fori_loop`; the new board must be int32 again."""
    glider = np.zeros((8, 8), "i4")
    glider[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
    run = jit(life)
    assert np.array_equal(run(glider, 4), np.roll(glider, (1, 1), (0, 1)))
    assert np.array_equal(run(glider, 32), glider)
    assert run.lower(glider, 4).compile().fallbacks == ()


def room_bytes(text):
    total = 0
    for shape, dtype in re.findall(r"np\.empty\(\((.*?)\), np\.(\w+)\)", text):
        sizes = [int(n) for n in shape.split(",") if n.strip()]
        total += np.prod(sizes, dtype=int) * np.dtype(dtype).itemsize
    return int(total)


def check_room_bytes(room_bytes):
    """A regular expression for `np.empty((2, 3), np.float32)`, and `np.dtype`."""
    step = lambda i, c: (jnp.roll(c[0], 1), c[1][::-1] + 1)
    f = lambda x, y: lax.fori_loop(0, 3, step, (x, y))
    text, = texts_of(f, np.ones(5, "f4"), np.ones((3, 7), "u1"))
    assert room_bytes(text) == 2 * 5 * 4 + 2 * 3 * 7
    text, = texts_of(lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), np.ones(4))
    assert room_bytes(text) == 0


def drift_in_place(x, steps):
    x = lax.fori_loop(0, steps, lambda i, c: c * 0.5 + 1.0, x)
    return jnp.roll(x, -steps)


def check_drift_in_place(drift_in_place):
    """Leave the elements where they are, and remember how far they would have moved."""
    x = np.arange(1.0, 6.0, dtype="f4")
    for steps in (0, 1, 7):
        want = x
        for _ in range(steps):
            want = np.roll(want, -1) * np.float32(0.5) + 1
        assert np.allclose(jit(drift_in_place, static_argnums=1)(x, steps), want)
    text, = texts_of(lambda x: drift_in_place(x, 4), x)
    assert "np.empty" not in text
