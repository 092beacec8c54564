"""ChaCha20's block function in each spelling of its permutations, against jax.

    python -m tests.bench.bench_chacha

Times of 200,000 blocks, and of the first calls: traced, lowered and compiled.
"""

import time

import numpy as np

import minijit
import minijit.numpy as jnp

from .harness import Row, show, systems

DIAGONALS = np.array([[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]])
BACK = np.argsort(DIAGONALS.ravel()).reshape(4, 4)
N = 200_000


def rotated(x, n):
    return (x << np.uint32(n)) | (x >> np.uint32(32 - n))


def permutations(lax, jnp):
    """{name: function of a matrix and of where its elements come from}."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1)
    )

    def gather(m, places):
        indices = jnp.array(np.stack(np.divmod(places.ravel(), 4), -1))
        taken = lax.gather(m, indices, numbers, slice_sizes=(1, 1), unique_indices=True)
        return taken.reshape(4, 4)

    def rolls(m, places):
        shifts = [-i if places is DIAGONALS else i for i in range(4)]
        return jnp.stack([jnp.roll(m[i], shifts[i]) for i in range(4)])

    return {
        "gather": gather,
        "take": jnp.take,
        "ravel": lambda m, places: m.ravel()[places.ravel()].reshape(4, 4),
        "take_along_axis": lambda m, p: jnp.take_along_axis(m, p % 4, 1),
        "rolls": rolls,
    }


def block_function(system, jnp, permute, loop):
    """The block function in minijit or jax; its rounds as a loop, or written out."""

    def quarter_round(column):
        a, b, c, d = column
        for first, second in ((16, 12), (8, 7)):
            a = a + b
            d = rotated(d ^ a, first)
            c = c + d
            b = rotated(b ^ c, second)
        return jnp.array([a, b, c, d])

    columns = system.vmap(quarter_round, in_axes=1, out_axes=1)

    def double_round(i, m):
        return permute(columns(permute(columns(m), DIAGONALS)), BACK)

    def block(state):
        m = state
        if loop:
            return system.lax.fori_loop(0, 10, double_round, m) + state
        for i in range(10):
            m = double_round(i, m)
        return m + state

    return system.jit(system.vmap(block))


def states(n):
    """The state of RFC 8439, 2.3.2, in block 1, and other counters in the others."""
    state = np.zeros((n, 16), "u4")
    state[:, :4] = np.frombuffer(b"expand 32-byte k", "<u4")
    state[:, 4:12] = np.arange(32, dtype="u1").view("<u4")
    state[:, 12] = np.arange(n)
    state[:, 13:] = np.frombuffer(bytes.fromhex("000000090000004a00000000"), "<u4")
    return state.reshape(n, 4, 4)


def rows():
    """A row for each spelling; first calls are printed on the way."""
    names, blocks = permutations(minijit.lax, jnp), states(N)
    for name in names:
        for loop in (False, True):
            peers, results, first = {}, {}, {}
            for system, lib in systems().items():
                permute = permutations(lib.lax, lib.numpy)[name]
                f = block_function(lib, lib.numpy, permute, loop)
                x = lib.numpy.asarray(blocks)
                start = time.perf_counter()
                results[system] = np.asarray(f(x))
                first[system] = time.perf_counter() - start
                peers[system] = lambda f=f, x=x: f(x).block_until_ready()
            assert len({r.tobytes() for r in results.values()}) == 1
            how = f"{name}, {'loop' if loop else 'written out'}"
            times = "  ".join(f"{s} {1e3 * t:.0f} ms" for s, t in first.items())
            print(f"{how:34s} first call: {times}", flush=True)
            yield Row(how, peers, 2 * blocks.nbytes)


if __name__ == "__main__":
    show(list(rows()))
