"""Small programs at many sizes: is there a size at which compiling takes long?

    python -m tests.bench.bench_small [words in the names of programs]

Each is compiled and run by minijit and by jax, in turns: CPU time of the first call and
of a call.  What is decided by sizes (elements in registers, loops, calls of BLAS) goes
wrong at one size and not at the next, and no size of a large benchmark is one of them:
the gradient of an LSTM of 16 units once took 17 times as long to compile as that of one
of 32, and four times as long to run.
"""

import importlib.util
import sys
import time
from functools import partial

import numpy as np

import minijit

rng = np.random.default_rng(0)
programs = {}


def program(sizes, *shapes):
    """Note a function of (jax or minijit, arrays) under its name, for all sizes.

    Args:
      sizes: of a tuple of numbers each.
      shapes: functions of these numbers: the shape of an argument.
    """

    def note(function):
        for size in sizes:
            name = f"{function.__name__.replace('_', ' ')} {', '.join(map(str, size))}"
            programs[name] = function, [shape(*size) for shape in shapes]
        return function

    return note


def gates(jax, z, n):
    return [jax.nn.sigmoid(part) for part in jax.numpy.split(z, n)]


def unit_of_lstm(jax, w, state, x):
    h, c = state
    z = jax.numpy.concatenate([x, h]) @ w
    units = h.shape[0]
    take, forget, give = gates(jax, z[: 3 * units], 3)
    c = forget * c + take * jax.numpy.tanh(z[3 * units :])
    h = give * jax.numpy.tanh(c)
    return (h, c), h


def loss_of_lstm(jax, w, xs):
    start = (jax.numpy.zeros(w.shape[1] // 4),) * 2
    return (jax.lax.scan(partial(unit_of_lstm, jax, w), start, xs)[1] ** 2).sum()


UNITS = [(n,) for n in (3, 4, 8, 12, 16, 20, 32, 64)]


@program(UNITS, lambda n: (5 + n, 4 * n), lambda n: (15, 5))
def lstm(jax, w, xs):
    return jax.grad(partial(loss_of_lstm, jax))(w, xs)


@program(UNITS, lambda n: (5 + n, 4 * n), lambda n: (6, 15, 5))
def batch_of_lstm(jax, w, batch):
    losses = lambda w: jax.vmap(lambda xs: loss_of_lstm(jax, w, xs))(batch)
    return jax.grad(lambda w: losses(w).sum())(w)


def attended(jax, w, x):
    q, k, v = (x @ part for part in jax.numpy.split(w, 3, 1))
    return jax.nn.softmax(q @ k.T / len(q) ** 0.5) @ v


SHAPES = [(4, 8), (8, 8), (7, 5), (16, 16), (32, 16), (64, 8)]


@program(SHAPES, lambda n, d: (d, 3 * d), lambda n, d: (n, d))
def attention(jax, w, x):
    return jax.grad(lambda w: (attended(jax, w, x) ** 2).sum())(w)


@program(SHAPES, lambda n, d: (d, 3 * d), lambda n, d: (5, n, d))
def batch_of_attention(jax, w, batch):
    each = lambda w: jax.vmap(lambda x: attended(jax, w, x))(batch)
    return jax.grad(lambda w: (each(w) ** 2).sum())(w)


@program([(n,) for n in (2, 3, 4, 5, 8, 12, 20)], lambda n: (n, 3), lambda n: (n, 3))
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


NETWORKS = [(2, 8), (2, 16), (4, 32), (8, 8), (1, 64)]


@program(NETWORKS, lambda d, n: (d, n), lambda d, n: (n, d), lambda d, n: (10, d))
def flow(jax, a, b, batch):
    def end(a, b, y):
        def step(y, _):
            change = lambda y: jax.numpy.tanh(y @ a) @ b
            return y + 0.02 * change(y + 0.01 * change(y)), y

        return (jax.lax.scan(step, y, None, length=20)[0] ** 2).sum()

    loss = lambda a, b: jax.vmap(lambda y: end(a, b, y))(batch).sum()
    return jax.grad(loss, (0, 1))(a, b)


@program([(n,) for n in (2, 3, 4, 5, 8, 16)], lambda n: (20, n, n))
def powers(jax, batch):
    power = lambda m: jax.lax.fori_loop(0, 10, lambda i, p: p @ m, m)
    return jax.vmap(power)(batch)


@program([(2, 2), (3, 2), (4, 5)], lambda k, d: (k, d), lambda k, d: (40, d))
def mixture(jax, means, x):
    def step(i, means):
        near = jax.nn.softmax(-((x[:, None] - means) ** 2).sum(-1))
        return near.T @ x / near.sum(0)[:, None]

    return jax.lax.fori_loop(0, 10, step, means)


@program([(5, 7), (8, 16), (16, 16)], lambda d, n: (d, n), lambda d, n: (n, d),
         lambda d, n: (12, d))  # fmt: skip
def gradients_of_examples(jax, a, b, batch):
    error = lambda a, b, x: ((jax.numpy.tanh(x @ a) @ b - x) ** 2).sum()
    return jax.vmap(jax.grad(error, (0, 1)), (None, None, 0))(a, b, batch)


def systems():
    found = {"minijit": minijit}
    if importlib.util.find_spec("jax") is not None:
        import jax

        found["jax"] = jax
    return found


def cpu_times(jax, function, shapes):
    """(of the first call, the least of 100 calls) in seconds."""
    arrays = [jax.numpy.asarray(0.3 * rng.normal(size=s).astype("f4")) for s in shapes]
    compiled, times = jax.jit(partial(function, jax)), []
    for _ in range(101):
        start = time.process_time()
        jax.block_until_ready(compiled(*arrays))
        times.append(time.process_time() - start)
    return times[0], min(times[1:])


def line(name, function, shapes):
    """What is printed of a program."""
    told = [name.ljust(32)]
    for system, module in systems().items():
        first, again = cpu_times(module, function, shapes)
        told.append(f"{system} {1e3 * first:6.0f} ms {1e6 * again:7.1f} us")
    return "   ".join(told)


if __name__ == "__main__":
    print("CPU time of the first call and of a call")
    for name, known in programs.items():
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            print(line(name, *known), flush=True)
