"""Steps of training and of sampling with loops in them, against jax: see `harness`.

    python -m tests.bench.bench_training [lstm] [vae] [hmc] [kalman]
"""

import sys

import numpy as np

from .bench_products import floats, row
from .harness import show


def lstm(lib):
    """A training step: a scan over 64 steps, its gradient, new weights."""
    jnp, nn = lib.numpy, lib.nn

    def loss(p, xs, targets):
        def cell(state, x):
            h, c = state
            gates = x @ p["x"] + h @ p["h"] + p["b"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((xs.shape[1], 128), xs.dtype)
        hs = lib.lax.scan(cell, (zero, zero), xs)[1]
        return jnp.mean((hs @ p["out"] - targets) ** 2)

    def step(p, xs, targets):
        back = lib.grad(loss)(p, xs, targets)
        return lib.tree.map(lambda w, g: w - 0.1 * g, p, back)

    return step


def vae(lib):
    """A training step of two layers there and two back, with noise from a key."""
    jnp, nn = lib.numpy, lib.nn

    def loss(p, x, noise):
        h = jnp.tanh(x @ p["in"])
        mean, log = h @ p["mean"], h @ p["log"]
        z = mean + jnp.exp(0.5 * log) * noise
        y = jnp.tanh(z @ p["up"]) @ p["out"]
        right = jnp.sum(nn.softplus(y) - x * y, axis=-1)
        far = 0.5 * jnp.sum(jnp.exp(log) + mean**2 - 1 - log, axis=-1)
        return jnp.mean(right + far)

    def step(p, m, x, noise):
        back = lib.grad(loss)(p, x, noise)
        m = lib.tree.map(lambda m, g: 0.9 * m + g, m, back)
        return lib.tree.map(lambda w, m: w - 1e-3 * m, p, m), m

    return step


def hmc(lib):
    """One proposal for a logistic regression: 20 steps of leapfrog."""
    jnp, nn = lib.numpy, lib.nn

    def sample(q, p, x, y):
        energy = lambda q: jnp.sum(nn.softplus(x @ q) - y * (x @ q)) + 0.5 * q @ q
        slope = lib.grad(energy)

        def leap(i, state):
            q, p = state
            p = p - 0.005 * slope(q)
            q = q + 0.01 * p
            return q, p - 0.005 * slope(q)

        new, end = lib.lax.fori_loop(0, 20, leap, (q, p))
        change = energy(q) + 0.5 * p @ p - energy(new) - 0.5 * end @ end
        return jnp.where(change > -0.7, new, q), change

    return sample


def kalman(lib):
    """The gradient of a filter's likelihood by its matrices, over 200 steps."""
    jnp = lib.numpy

    def loss(p, ys):
        a, c, q, r = p

        def step(state, y):
            mean, cov = state
            mean, cov = a @ mean, a @ cov @ a.T + q * q
            s = jnp.sum((c @ cov) * c) + r * r
            error = y - c @ mean
            gain = cov @ c / s
            cov = cov - jnp.outer(gain, c @ cov)
            return (mean + gain * error, cov), jnp.log(s) + error * error / s

        start = jnp.zeros(len(a)), jnp.eye(len(a))
        return jnp.sum(lib.lax.scan(step, start, ys)[1])

    return lib.value_and_grad(loss)


def rows(name):
    if name == "lstm":
        shapes = dict(x=(64, 512), h=(128, 512), b=(512,), out=(128, 64))
        weights = {key: floats(*shape, scale=0.08) for key, shape in shapes.items()}
        xs, targets = floats(64, 32, 64), floats(64, 32, 64)
        return [row("LSTM, a step", lstm, weights, xs, targets)]
    if name == "vae":
        shapes = dict(zip(("in", "mean", "log", "up", "out"), [
            (784, 400), (400, 20), (400, 20), (20, 400), (400, 784)
        ], strict=True))  # fmt: skip
        weights = {key: floats(*shape, scale=0.04) for key, shape in shapes.items()}
        zeros = {key: np.zeros_like(w) for key, w in weights.items()}
        pixels = (floats(128, 784) > 0).astype("f4")
        return [row("VAE, a step", vae, weights, zeros, pixels, floats(128, 20))]
    if name == "hmc":
        y = (floats(1000) > 0).astype("f4")
        return [row("HMC, 20 leaps", hmc, floats(50), floats(50), floats(1000, 50), y)]
    a = 0.9 * np.eye(4, dtype="f4") + floats(4, 4, scale=0.02)
    p = a, np.ones(4, "f4"), 0.1 * np.eye(4, dtype="f4"), np.float32(0.5)
    return [row("Kalman filter's gradient", kalman, p, floats(200))]


if __name__ == "__main__":
    for name in sys.argv[1:] or ("lstm", "vae", "hmc", "kalman"):
        show(rows(name))
