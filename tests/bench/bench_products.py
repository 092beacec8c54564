"""Products, convolutions, models made of them, and steps of training and of sampling
with loops in them, against jax: see `harness`.

    python -m tests.bench.bench_products [products] [convolutions] [models] [training]
"""

import functools as ft
import sys

import numpy as np

import minijit as mj

from .harness import floats, row, show


def by_vmap(lib):
    """S3: a matrix times each of two axes of vectors, one axis at a time."""
    inner = ft.partial(lib.vmap, in_axes=(None, 0))(lambda w, a: w @ a)
    return lib.vmap(inner, in_axes=(None, 0))


def einsum(equation):
    return lambda lib: ft.partial(lib.numpy.einsum, equation)


def products():
    w, a = floats(600, 821), floats(32, 100, 821)
    q, k = floats(4, 256, 8, 64), floats(4, 256, 8, 64)
    m, v = floats(2000, 2000), floats(2000)
    half = floats(256, 256).astype("f2")
    return [
        row("S3 by two vmaps", by_vmap, w, a),
        row("S3 by einsum", einsum("ab,...b->...a"), w, a),
        row("512 x 512", lambda lib: lambda x: x @ x, floats(512, 512)),
        row("(512 x 512).T", lambda lib: lambda x: (x @ x).T, floats(512, 512)),
        row("256 times 64 x 64", lambda lib: lambda x: x @ x, floats(256, 64, 64)),
        row("5000 times 8 x 8", lambda lib: lambda x: x @ x, floats(5000, 8, 8)),
        row("attention, bshd", einsum("bshd,bthd->bhst"), q, k),
        row("matrix times vector", lambda lib: lambda x, v: x @ v, m, v),
        row("its transpose", lambda lib: lambda x, v: x.T @ v, m, v),
        row("float16, 256 x 256", lambda lib: lambda x: x @ x, half),
    ]


NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


def convolve(lib, names=NHWC, strides=(1, 1), padding="SAME", **params):
    return lambda x, w: lib.lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=names, **params
    )


def gradient(lib, number, **params):
    """Of a convolution by its image (0) or its kernel (1), pulled back from `g`."""
    return lambda x, w, g: lib.vjp(convolve(lib, **params), x, w)[1](g)[number]


# name: (shape of the images, of the kernel, what else).
shapes = {
    "3x3, 1 to 32": ((64, 28, 28, 1), (3, 3, 1, 32), {}),
    "3x3, 32 to 64": ((32, 28, 28, 32), (3, 3, 32, 64), {}),
    "3x3, 64 to 64": ((64, 14, 14, 64), (3, 3, 64, 64), {}),
    "3x3, 16 to 32": ((64, 14, 14, 16), (3, 3, 16, 32), {}),
    "3x3 by 2": ((32, 28, 28, 32), (3, 3, 32, 64), dict(strides=(2, 2))),
    "5x5, 1 to 32": ((64, 28, 28, 1), (5, 5, 1, 32), {}),
    "7x7 by 2": ((8, 64, 64, 3), (7, 7, 3, 32), dict(strides=(2, 2))),
    "1x1": ((32, 28, 28, 64), (1, 1, 64, 64), {}),
    "with holes": ((32, 28, 28, 32), (3, 3, 32, 32), dict(rhs_dilation=(2, 2))),
    "depthwise": ((32, 28, 28, 64), (3, 3, 1, 64), dict(feature_group_count=64)),
    "causal": ((16, 256, 128), (4, 128, 128), dict(
        names=("NWC", "WIO", "NWC"), strides=(1,), padding=[(3, 0)])),
    "NCHW, 1 to 32": ((64, 1, 28, 28), (32, 1, 3, 3), dict(names=NCHW)),
    "NCHW, 32 to 64": ((32, 32, 28, 28), (64, 32, 3, 3), dict(names=NCHW)),
}  # fmt: skip


def convolutions():
    rows = []
    for name, (image, kernel, params) in shapes.items():
        x, w = floats(*image), floats(*kernel)
        forward = ft.partial(convolve, **params)
        g = floats(*mj.eval_shape(forward(mj), x, w).shape)
        rows.append(row(name, forward, x, w))
        for number, operand in enumerate(("image", "kernel")):
            back = ft.partial(gradient, number=number, **params)
            rows.append(row(f"{name}: gradient by the {operand}", back, x, w, g))
    return rows


def cnn_step(lib):
    """A training step of a small network: two convolutions, a matrix."""
    conv, jnp = convolve(lib), lib.numpy

    def pool(x):
        n, h, w, c = x.shape
        return x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))

    def loss(params, images, labels):
        x = pool(lib.nn.relu(conv(images, params["a"])))
        x = pool(lib.nn.relu(conv(x, params["b"])))
        logs = lib.nn.log_softmax(x.reshape(x.shape[0], -1) @ params["c"])
        return -jnp.mean(jnp.sum(logs * labels, axis=1))

    def step(params, images, labels):
        back = lib.grad(loss)(params, images, labels)
        return lib.tree.map(lambda p, g: p - 0.1 * g, params, back)

    return step


def griffin(lib):
    """S4's block: two branches, a causal depthwise convolution, a recurrence."""
    jnp, lax, nn = lib.numpy, lib.lax, lib.nn

    def block(p, x):
        left = nn.silu(x @ p["left"])
        right, before = x @ p["right"], [(len(p["conv"]) - 1, 0)]
        right = lax.conv_general_dilated(
            right, p["conv"], (1,), before, dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=right.shape[-1],
        )  # fmt: skip
        gated = right * nn.sigmoid(right @ p["gate"])
        decay = jnp.exp(-8 * nn.sigmoid(right @ p["decay"]))

        def recur(state, step):
            state = step[0] * state + step[1]
            return state, state

        steps = jnp.swapaxes(decay, 0, 1), jnp.swapaxes(gated, 0, 1)
        states = lax.scan(recur, jnp.zeros(gated[:, 0].shape, x.dtype), steps)[1]
        return jnp.mean(x + (left * jnp.swapaxes(states, 0, 1)) @ p["out"])

    return block


d, hidden = 256, 512
griffin_shapes = dict.fromkeys(("left", "right"), (d, hidden)) | {
    "conv": (16, 1, hidden), "gate": (hidden, hidden), "decay": (hidden, hidden),
    "out": (hidden, d),
}  # fmt: skip


def gpt(lib):
    """A transformer block, and a loss of what it makes."""
    jnp, nn = lib.numpy, lib.nn

    def norm(x):
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def block(p, x):
        n, s, d = x.shape
        q, k, v = jnp.split(norm(x) @ p["qkv"], 3, axis=-1)
        heads = lambda y: y.reshape(n, s, 8, d // 8)
        scores = jnp.einsum("bshd,bthd->bhst", heads(q), heads(k)) / 5.6
        mask = jnp.arange(s)[:, None] >= jnp.arange(s)
        scores = nn.softmax(jnp.where(mask, scores, -1e9))
        mixed = jnp.einsum("bhst,bthd->bshd", scores, heads(v)).reshape(n, s, d)
        x = x + mixed @ p["o"]
        x = x + nn.gelu(norm(x) @ p["up"]) @ p["down"]
        return jnp.mean(x * x)

    return block


def models():
    images, labels = floats(64, 28, 28, 1), np.eye(10, dtype="f4")[np.arange(64) % 10]
    network = {
        "a": floats(3, 3, 1, 16, scale=0.3),
        "b": floats(3, 3, 16, 32, scale=0.1),
        "c": floats(7 * 7 * 32, 10, scale=0.03),
    }
    block = {key: floats(*shape, scale=0.05) for key, shape in griffin_shapes.items()}
    shapes = dict(qkv=(d, 3 * d), o=(d, d), up=(d, 4 * d), down=(4 * d, d))
    former = {key: floats(*shape, scale=0.06) for key, shape in shapes.items()}
    x = floats(8, 256, d)
    value_and_grad = lambda make: lambda lib: lib.value_and_grad(make(lib))
    return [
        row("small CNN, a training step", cnn_step, network, images, labels),
        row("Griffin block", griffin, block, x),
        row("Griffin block's gradient", value_and_grad(griffin), block, x),
        row("transformer block", gpt, former, x),
        row("transformer block's gradient", value_and_grad(gpt), former, x),
    ]


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


def training():
    shapes = dict(x=(64, 512), h=(128, 512), b=(512,), out=(128, 64))
    weights = {key: floats(*shape, scale=0.08) for key, shape in shapes.items()}
    shapes = {"in": (784, 400), "mean": (400, 20), "log": (400, 20)}
    shapes |= {"up": (20, 400), "out": (400, 784)}
    layers = {key: floats(*shape, scale=0.04) for key, shape in shapes.items()}
    zeros = {key: np.zeros_like(w) for key, w in layers.items()}
    pixels = (floats(128, 784) > 0).astype("f4")
    labels = (floats(1000) > 0).astype("f4")
    a = 0.9 * np.eye(4, dtype="f4") + floats(4, 4, scale=0.02)
    p = a, np.ones(4, "f4"), 0.1 * np.eye(4, dtype="f4"), np.float32(0.5)
    xs, targets = floats(64, 32, 64), floats(64, 32, 64)
    return [
        row("LSTM, a step", lstm, weights, xs, targets),
        row("VAE, a step", vae, layers, zeros, pixels, floats(128, 20)),
        row("HMC, 20 leaps", hmc, floats(50), floats(50), floats(1000, 50), labels),
        row("Kalman filter's gradient", kalman, p, floats(200)),
    ]


if __name__ == "__main__":
    groups = {"products": products, "convolutions": convolutions, "models": models}
    groups["training"] = training
    for name in sys.argv[1:] or groups:
        show(groups[name]())
