"""First calls: trace, compile and run once, of programs that nobody has seen before.

    python -m tests.bench.bench_compile

The peers take turns; of each the least CPU time counts, which a busy machine changes
less than the time on the clock.  Every repetition is a new program, with a constant of
its own.  The last line is a program that an earlier process has compiled.
"""

import subprocess
import sys
import time

import numpy as np

import minijit
from minijit import jit
from minijit.tree_util import tree_leaves as leaves


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


def of_numpy(make):
    """A program that needs nothing but the numpy module, of a whole library."""
    return lambda lib, c: make(lib.numpy, c)


def scan_gradient(lib, c):
    def loss(w, x):
        step = lambda h, _: (lib.numpy.tanh(h @ w * c), None)
        return lib.lax.scan(step, x, None, length=20)[0].sum()

    return lib.grad(loss)


def adam_step(lib, c):
    """One step of Adam for a network of two hidden layers."""
    jnp = lib.numpy

    def loss(params, x):
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        return ((x @ w + b) ** 2).mean() * c

    def step(params, m, v, x):
        slopes = lib.grad(loss)(params, x)
        m = lib.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, slopes)
        v = lib.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, slopes)
        move = lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8)
        return lib.tree.map(move, params, m, v), m, v

    return step


def transformer_gradient(lib, c):
    """Attention with four heads, a layer of gelu, two layer norms."""
    jnp, nn = lib.numpy, lib.nn

    def norm(x):
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def loss(params, x):
        wq, wk, wv, wo, w1, w2 = params
        batch, steps, size = x.shape
        heads = lambda y: y.reshape(batch, steps, 4, size // 4).transpose(0, 2, 1, 3)
        h = norm(x)
        q, k, v = heads(h @ wq), heads(h @ wk), heads(h @ wv)
        weights = nn.softmax(q @ k.transpose(0, 1, 3, 2) * c)
        mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + mixed @ wo
        return (x + nn.gelu(norm(x) @ w1) @ w2).mean()

    return lib.grad(loss)


def griffin_gradient(lib, c):
    """The block of S4: a gate, a depth-wise convolution, a linear recurrence."""
    jnp, nn, lax = lib.numpy, lib.nn, lib.lax

    def recur(x, decay):
        step = lambda h, xs: (xs[1] * h + xs[0],) * 2
        over_time = lambda y: jnp.swapaxes(y, 0, 1)
        _, y = lax.scan(step, x[:, 0] * 0, (over_time(x), over_time(decay)))
        return over_time(y)

    def loss(params, x):
        w_left, w_right, kernel, w_gate, w_decay, w_out = params
        left, right = nn.silu(x @ w_left), x @ w_right
        right = lax.conv_general_dilated(
            right, kernel, (1,), [(kernel.shape[0] - 1, 0)],
            dimension_numbers=("NTC", "TIO", "NTC"),
            feature_group_count=right.shape[-1],
        )  # fmt: skip
        gated = right * nn.sigmoid(right @ w_gate)
        decay = jnp.exp(-8 * c * nn.sigmoid(right @ w_decay))
        return (x + (left * recur(gated, decay)) @ w_out).mean()

    return lib.value_and_grad(loss)


def ones(*shape):
    return np.full(shape, 0.01, "f4")


vector, matrix = np.ones(1000, "f4"), np.ones((64, 256), "f4")
layers = [(ones(32, 64), ones(64)), (ones(64, 64), ones(64)), (ones(64, 8), ones(8))]
block = [ones(64, 64)] * 4 + [ones(64, 256), ones(256, 64)]
griffin = [ones(32, 64), ones(32, 64), ones(16, 1, 64), ones(64, 64), ones(64, 64)]
griffin.append(ones(64, 32))
# name -> (function(library, constant) -> function, its arguments).
programs = {f"chain of {n}": (of_numpy(chain(n)), (vector, vector))
            for n in (12, 100, 400, 800, 2000)}  # fmt: skip
programs |= {
    "softmax": (of_numpy(softmax), (matrix,)),
    "layer norm": (of_numpy(layer_norm), (matrix,)),
    "gelu": (of_numpy(gelu), (matrix,)),
    "gradient of a scan": (scan_gradient, (ones(32, 32), ones(8, 32))),
    "step of Adam": (adam_step, (layers, layers, layers, ones(16, 32))),
    "transformer's gradient": (transformer_gradient, (block, ones(2, 16, 64))),
    "Griffin's gradient": (griffin_gradient, (griffin, ones(2, 32, 32))),
}


def first_call(compile, f, args):
    """CPU seconds until a new function has run once."""
    start = time.process_time()
    for result in leaves(compile(f)(*args)):
        result.block_until_ready()
    return time.process_time() - start


AGAIN = """
from tests.bench.bench_compile import *
f, args = gelu(minijit.numpy, 0.9), (matrix,)
print(first_call(jit, f, args))
"""


def second_process():
    """CPU seconds of the first call of a program, with its code on the disk."""
    line = [sys.executable, "-c", AGAIN]
    runs = [subprocess.run(line, check=True, capture_output=True) for _ in range(6)]
    return min(float(run.stdout) for run in runs[1:])


def compilers():
    """{name: (jit, library)}: the default, numba's route, and jax."""
    found = {
        "minijit": (jit, minijit),
        "by numba": (lambda f: jit(f, backend="python"), minijit),
    }
    try:
        import jax
    except ImportError:
        return found
    return found | {"jax": (jax.jit, jax)}


def main(repeats=3):
    peers, counter = compilers(), 1
    for compile, lib in peers.values():
        first_call(compile, gelu(lib.numpy, 0.9), (matrix,))
    print("CPU ms of a first call".ljust(24), *(name.rjust(10) for name in peers))
    for name, (make, args) in programs.items():
        best = dict.fromkeys(peers, np.inf)
        for _ in range(repeats):
            counter += 1
            for peer, (compile, lib) in peers.items():
                # jax 0.10 runs out of memory at 1,200, numba of patience.
                if peer == "minijit" or name != "chain of 2000":
                    took = first_call(compile, make(lib, 1 / counter), args)
                    best[peer] = min(best[peer], took)
        print(name.ljust(24), *(f"{1e3 * t:10.0f}" for t in best.values()))
    print("gelu, second process".ljust(24), f"{1e3 * second_process():10.0f}")


if __name__ == "__main__":
    main()
