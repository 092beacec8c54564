"""First calls of programs that nobody has seen before, and what a call costs then.

    python -m tests.bench.bench_first_calls [words in the names of programs]

Each is traced, compiled and run by minijit, by its route through numba, and by jax, in
turns: CPU time, which a busy machine changes less than the time on the clock; of first
calls the least of three, whose programs differ by a constant.  Many programs are small
and come in several sizes.  What is decided by sizes (elements in registers, loops,
calls of BLAS) goes wrong at one size and not at the next: the gradient of an LSTM of 16
units once took 17 times as long to compile as that of one of 32, and four times as long
to run.  The last line is a program that an earlier process has compiled.
"""

import subprocess
import sys
import time
from functools import partial

import numpy as np

import minijit

from .bench_kernels import gelu, layer_norm, softmax
from .bench_products import gpt, griffin
from .harness import floats, systems

programs = {}  # name -> (function of a library that makes a function, its arguments)


def program(*shapes, sizes=((),)):
    """Note a function of (library, arrays) under its name, at all sizes.

    Args:
      shapes: of the arguments, or functions from a size's numbers to them.
      sizes: tuples of numbers.
    """
    def note(function):
        for size in sizes:
            name = f"{function.__name__.replace('_', ' ')} {', '.join(map(str, size))}"
            found = [s(*size) if callable(s) else s for s in shapes]
            arrays = [0.3 * floats(*shape) for shape in found]
            programs[name] = lambda lib: partial(function, lib), arrays
        return function

    return note


for n in (12, 100, 400, 800):
    def chain(lib, x, y, n=n):
        for _ in range(n // 4):
            x = x * 0.7 + y
            y = y - x * x
        return x + y

    programs[f"chain of {n}"] = lambda lib, f=chain: partial(f, lib), 2 * [floats(1000)]
for make in (softmax, layer_norm, gelu):
    programs[make.__name__] = make, [floats(64, 256)]


@program((32, 32), (8, 32))
def gradient_of_a_scan(jax, w, x):
    step = lambda h, _: (jax.numpy.tanh(h @ w), None)
    loss = lambda w: jax.lax.scan(step, x, None, length=20)[0].sum()
    return jax.grad(loss)(w)


def step_of_adam(lib):
    """For a network of two hidden layers."""
    jnp = lib.numpy

    def loss(params, x):
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        return ((x @ w + b) ** 2).mean()

    def step(params, m, v, x):
        slopes = lib.grad(loss)(params, x)
        m = lib.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, slopes)
        v = lib.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, slopes)
        move = lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8)
        return lib.tree.map(move, params, m, v), m, v

    return step


layers = [(abs(floats(m, n)), abs(floats(n))) for m, n in ((32, 64), (64, 64), (64, 8))]
programs["step of Adam"] = step_of_adam, [layers, layers, layers, floats(16, 32)]
d = 64
block = {"left": floats(32, d), "right": floats(32, d), "conv": floats(16, 1, d),
         "gate": floats(d, d), "decay": floats(d, d), "out": floats(d, 32)}  # fmt: skip
former = {"qkv": floats(d, 3 * d), "o": floats(d, d), "up": floats(d, 4 * d),
          "down": floats(4 * d, d)}  # fmt: skip
for make, params, shape in ((griffin, block, (2, 32, 32)), (gpt, former, (2, 16, d))):
    gradient = lambda lib, make=make: lib.value_and_grad(make(lib))
    programs[f"gradient of {make.__name__}"] = gradient, [params, floats(*shape)]


# ---- the same at many sizes


def unit_of_lstm(jax, w, state, x):
    h, c = state
    z = jax.numpy.concatenate([x, h]) @ w
    units = h.shape[0]
    gates = jax.numpy.split(z[: 3 * units], 3)
    take, forget, give = map(jax.nn.sigmoid, gates)
    c = forget * c + take * jax.numpy.tanh(z[3 * units :])
    h = give * jax.numpy.tanh(c)
    return (h, c), h


def loss_of_lstm(jax, w, xs):
    start = (jax.numpy.zeros(w.shape[1] // 4),) * 2
    return (jax.lax.scan(partial(unit_of_lstm, jax, w), start, xs)[1] ** 2).sum()


UNITS = [(n,) for n in (3, 4, 8, 12, 16, 20, 32, 64)]


@program(lambda n: (5 + n, 4 * n), (15, 5), sizes=UNITS)
def lstm(jax, w, xs):
    return jax.grad(partial(loss_of_lstm, jax))(w, xs)


@program(lambda n: (5 + n, 4 * n), (6, 15, 5), sizes=UNITS)
def batch_of_lstm(jax, w, batch):
    losses = lambda w: jax.vmap(lambda xs: loss_of_lstm(jax, w, xs))(batch)
    return jax.grad(lambda w: losses(w).sum())(w)


def attended(jax, w, x):
    q, k, v = (x @ part for part in jax.numpy.split(w, 3, 1))
    return jax.nn.softmax(q @ k.T / len(q) ** 0.5) @ v


SHAPES = [(4, 8), (8, 8), (7, 5), (16, 16), (32, 16), (64, 8)]


@program(lambda n, d: (d, 3 * d), lambda n, d: (n, d), sizes=SHAPES)
def attention(jax, w, x):
    return jax.grad(lambda w: (attended(jax, w, x) ** 2).sum())(w)


@program(lambda n, d: (d, 3 * d), lambda n, d: (5, n, d), sizes=SHAPES)
def batch_of_attention(jax, w, batch):
    each = lambda w: jax.vmap(lambda x: attended(jax, w, x))(batch)
    return jax.grad(lambda w: (each(w) ** 2).sum())(w)


@program(lambda n: (n, 3), lambda n: (n, 3),
         sizes=[(n,) for n in (2, 3, 4, 5, 8, 12, 20)])  # fmt: skip
def bodies(jax, places, speeds):
    def step(state, _):
        places, speeds = state
        apart = places[:, None] - places[None]
        square = (apart**2).sum(-1) + 0.01
        speeds = speeds - 0.01 * (apart * (square**-1.5)[..., None]).sum(1)
        places = places + 0.01 * speeds
        return (places, speeds), places

    def energy(places):
        return (jax.lax.scan(step, (places, speeds), None, length=20)[1] ** 2).sum()

    return jax.grad(energy)(places)


@program(lambda d, n: (d, n), lambda d, n: (n, d), lambda d, n: (10, d),
         sizes=[(2, 8), (2, 16), (4, 32), (8, 8), (1, 64)])  # fmt: skip
def flow(jax, a, b, batch):
    def end(a, b, y):
        def step(y, _):
            change = lambda y: jax.numpy.tanh(y @ a) @ b
            return y + 0.02 * change(y + 0.01 * change(y)), y

        return (jax.lax.scan(step, y, None, length=20)[0] ** 2).sum()

    loss = lambda a, b: jax.vmap(lambda y: end(a, b, y))(batch).sum()
    return jax.grad(loss, (0, 1))(a, b)


@program(lambda n: (20, n, n), sizes=[(n,) for n in (2, 3, 4, 5, 8, 16)])
def powers(jax, batch):
    power = lambda m: jax.lax.fori_loop(0, 10, lambda i, p: p @ m, m)
    return jax.vmap(power)(batch)


@program(lambda k, d: (k, d), lambda k, d: (40, d), sizes=[(2, 2), (3, 2), (4, 5)])
def mixture(jax, means, x):
    def step(i, means):
        near = jax.nn.softmax(-((x[:, None] - means) ** 2).sum(-1))
        return near.T @ x / near.sum(0)[:, None]

    return jax.lax.fori_loop(0, 10, step, means)


@program(lambda d, n: (d, n), lambda d, n: (n, d), lambda d, n: (12, d),
         sizes=[(5, 7), (8, 16), (16, 16)])  # fmt: skip
def gradients_of_examples(jax, a, b, batch):
    error = lambda a, b, x: ((jax.numpy.tanh(x @ a) @ b - x) ** 2).sum()
    return jax.vmap(jax.grad(error, (0, 1)), (None, None, 0))(a, b, batch)


def cpu_times(lib, make, args, factor, calls=100, **options):
    """(of the first call, the least of some calls) in seconds."""
    f, args = make(lib), lib.tree.map(lib.numpy.asarray, args)
    changed = lambda *args: lib.tree.map(lambda x: x * factor, f(*args))
    compiled, times = lib.jit(changed, **options), []
    for _ in range(1 + calls):
        start = time.process_time()
        lib.block_until_ready(compiled(*args))
        times.append(time.process_time() - start)
    return times[0], min(times[1:], default=0)


AGAIN = """
from tests.bench.bench_first_calls import cpu_times, minijit, programs
print(cpu_times(minijit, *programs["gelu"], 0.9, 0)[0])
"""


def second_process():
    """CPU seconds of the first call of a program, with its code on the disk."""
    line = [sys.executable, "-c", AGAIN]
    runs = [subprocess.run(line, check=True, capture_output=True) for _ in range(6)]
    return min(float(run.stdout) for run in runs[1:])


def main(words):
    peers = {name: (lib, {}) for name, lib in systems().items()}
    peers["by numba"] = minijit, {"backend": "python"}
    for lib, options in peers.values():
        cpu_times(lib, gelu, [floats(9)], 0.9, 0, **options)
    print("CPU time of the first call and of a call")
    for name, known in programs.items():
        if words and not any(word in name for word in words):
            continue
        best = dict.fromkeys(peers, (np.inf, np.inf))
        for k in range(3):
            for peer, (lib, options) in peers.items():
                found = cpu_times(lib, *known, 1 / (k + 2), **options)
                best[peer] = tuple(map(min, best[peer], found))
        told = (f"{peer} {1e3 * first:6.0f} ms {1e6 * again:8.1f} us"
                for peer, (first, again) in best.items())  # fmt: skip
        print(name.ljust(32), *told, sep="   ", flush=True)
    print(f"gelu, second process {1e3 * second_process():10.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
