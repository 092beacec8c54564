"""What a call of a jitted function costs, against jax in the same run: see `harness`.

    python -m tests.bench.bench_call

Arrays are small, so all of it is the way to the kernel and back.  Each peer makes
`CALLS` calls in a row; the peers take turns, and the best time of each counts.
"""

import numpy as np

import minijit

from .harness import best_times

CALLS = 200


def programs(system):
    """{name: function without arguments} on one system: minijit, or jax."""
    jnp = system.numpy
    x, y = np.arange(8, dtype="f4"), np.ones(8, "f4")
    trees = {
        n: {f"w{i}": np.full(8, i, "f4") for i in range(n)} for n in (1, 10, 100)
    }
    combine = system.jit(lambda x, y: x * y + x)
    step = system.jit(lambda tree: {k: v * 0.5 for k, v in tree.items()})
    total = system.jit(lambda tree: sum(v.sum() for v in tree.values()))
    a, b = jnp.asarray(x), jnp.asarray(y)
    rows = {
        "x * y + x": lambda: combine(a, b),
        "of NumPy's arrays": lambda: combine(x, y),
        "an array and a number": lambda: combine(a, 2.0),
    }
    for n, tree in trees.items():
        tree = {k: jnp.asarray(v) for k, v in tree.items()}
        rows[f"dict of {n} to a dict"] = lambda tree=tree: step(tree)
        rows[f"dict of {n} to a number"] = lambda tree=tree: total(tree)
    return rows


def repeated(call):
    def run():
        for _ in range(CALLS):
            result = call()
        return result

    return run


def systems():
    """{system: its programs}; jax where it is installed."""
    found = {"minijit": programs(minijit)}
    try:
        import jax
    except ImportError:
        return found
    return found | {"jax": programs(jax)}


if __name__ == "__main__":
    table = systems()
    print("microseconds a call")
    for name in table["minijit"]:
        peers = {system: repeated(rows[name]) for system, rows in table.items()}
        times = {k: 1e6 * t / CALLS for k, t in best_times(peers, 3.0).items()}
        others = "  ".join(
            f"{k} {t:7.2f}  ({times['minijit'] / t:.2f} of it)"
            for k, t in times.items()
            if k != "minijit"
        )
        print(f"{name:26s} minijit {times['minijit']:7.2f}   {others}")
