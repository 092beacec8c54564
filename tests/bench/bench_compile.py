"""First calls: trace, compile and run once, of programs that nobody has seen before.

    python -m tests.bench.bench_compile

The peers take turns; of each the least CPU time counts, which a busy machine changes
less than the time on the clock.  Every repetition is a new program, with a constant of
its own.
"""

import time

import numpy as np

import minijit.numpy as jnp
from minijit import jit


def chain(n):
    """n elementwise operations in a row."""

    def program(np, c):
        def f(x, y):
            for _ in range(n // 4):
                x = x * c + y
                y = y - x * x
            return x + y

        return f

    return program


def softmax(np, c):
    def f(x):
        e = np.exp(c * x - np.max(c * x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    return f


def layer_norm(np, c):
    def f(x):
        d = x - np.mean(x, axis=1, keepdims=True)
        return c * d / np.sqrt(np.mean(d * d, axis=1, keepdims=True) + 1e-5)

    return f


def gelu(np, c):
    def f(x):
        return 0.5 * x * (1 + np.tanh(0.797885 * (x + c * x * x * x)))

    return f


vector, matrix = np.ones(1000, "f4"), np.ones((64, 256), "f4")
# name -> (function(numpy module, constant) -> function, its arguments).
programs = {f"chain of {n}": (chain(n), (vector, vector))
            for n in (12, 100, 400, 800, 2000)}  # fmt: skip
programs |= {
    "softmax": (softmax, (matrix,)),
    "layer norm": (layer_norm, (matrix,)),
    "gelu": (gelu, (matrix,)),
}


def first_call(compile, f, args):
    """CPU seconds until a new function has run once."""
    start = time.process_time()
    compile(f)(*args).block_until_ready()
    return time.process_time() - start


def compilers():
    """{name: (jit, numpy module)}: the default, numba's route, and jax."""
    found = {
        "minijit": (jit, jnp),
        "by numba": (lambda f: jit(f, backend="python"), jnp),
    }
    try:
        import jax
    except ImportError:
        return found
    return found | {"jax": (jax.jit, jax.numpy)}


def main(repeats=3):
    peers, counter = compilers(), 1
    for compile, np_ in peers.values():
        first_call(compile, gelu(np_, 0.9), (matrix,))
    print("CPU ms of a first call".ljust(24), *(name.rjust(10) for name in peers))
    for name, (make, args) in programs.items():
        best = dict.fromkeys(peers, np.inf)
        for _ in range(repeats):
            counter += 1
            for peer, (compile, np_) in peers.items():
                # jax 0.10 runs out of memory at 1,200, numba of patience.
                if peer == "minijit" or name != "chain of 2000":
                    took = first_call(compile, make(np_, 1 / counter), args)
                    best[peer] = min(best[peer], took)
        print(name.ljust(24), *(f"{1e3 * t:10.0f}" for t in best.values()))


if __name__ == "__main__":
    main()
