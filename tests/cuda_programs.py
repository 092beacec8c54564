"""Programs of all kinds, small ones: {name: (function, arguments)}.

They are for whoever compiles or runs kernels of a grid by another route: each kind of
kernel is there, each kind of number, gradients, and a step of the digits network.
"""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn

rng = np.random.default_rng(0)
x = rng.normal(size=(5, 40)).astype("f4")
y = rng.normal(size=(40, 6)).astype("f4")
v, w = x[0], x[1]
near = (np.tanh(x) * 0.9).astype("f4")
ints = rng.integers(-100, 100, (4, 30)).astype("i4")
counts = rng.integers(-3, 40, (4, 30)).astype("i4")
words = rng.integers(0, 2**32, (4, 16), dtype=np.uint64).astype("u4")
where = (np.arange(40) % 7).astype("i4")
many = np.linspace(0, 1, 1100, dtype="f4")
image = rng.normal(size=(1, 6, 6, 2)).astype("f4")
filters = rng.normal(size=(3, 3, 2, 3)).astype("f4")
labels = np.array([0, 3, 5, 1, 2])
halves = x.astype("f2")
weights = {
    "w1": rng.normal(size=(40, 16)).astype("f4") / 6, "b1": np.zeros(16, "f4"),
    "w2": rng.normal(size=(16, 6)).astype("f4") / 4, "b2": np.zeros(6, "f4"),
}  # fmt: skip


def layer_norm(x):
    x = x - x.mean(1, keepdims=True)
    return x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-5)


def digits_loss(p, x, labels):
    scores = jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
    right = labels[:, None] == jnp.arange(6)
    return -jnp.where(right, nn.log_softmax(scores), 0).sum() / len(x)


def digits_step(p, x, labels):
    slopes = mj.grad(digits_loss)(p, x, labels)
    return {name: p[name] - 0.1 * slopes[name] for name in p}


def quarter_round(a, b, c, d):
    for first in (16, 8):
        a = a + b
        d = turned(d ^ a, first)
        c = c + d
        b = turned(b ^ c, first - 4 + 3 * (first == 8))
    return a, b, c, d


def turned(word, bits):
    return (word << bits) | (word >> (32 - bits))


def convolved(x, w):
    dims = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)


def recurrence(a, b):
    step = lambda c, row: ((row[0] * c + row[1],) * 2)
    return lax.scan(step, jnp.zeros(8), (a, b))[1]


def powers(v):
    return lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2 + 1, v)


def either(x):
    return lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: jnp.sin(x), x)


def sum_of(f):
    return lambda *args: (f(*args) ** 2).sum()


elementwise = {
    "chain": (lambda x: jnp.sin(x) * 2 + jnp.exp(-x * x) / 3, (x,)),
    "broadcast": (lambda x, v: x * v + v[:, None][:5], (x, v)),
    "select": (lambda x: jnp.where(x > 0, jnp.sqrt(abs(x)), x**3), (x,)),
    "rounding": (
        lambda x: (jnp.floor(x), jnp.ceil(x), jnp.round(x * 3), jnp.trunc(x * 5)),
        (x,),
    ),
    "half way": (jnp.round, (np.arange(-9, 9, dtype="f4") / 2,)),
    "logarithms": (
        lambda x: jnp.log1p(x * x) + jnp.expm1(x) + jnp.logaddexp(x, 1),
        (x,),
    ),
    "angles": (
        lambda x: jnp.arctan2(x, x + 1) + jnp.arcsin(x) - jnp.arccosh(x * x + 1),
        (near,),
    ),
    "hyperbolic": (
        lambda x: jnp.sinh(x) - jnp.arctanh(x) + jnp.cosh(x) * jnp.tan(x),
        (near,),
    ),
    "special": (
        lambda x: (lax.erf(x), lax.erf_inv(x), lax.lgamma(x), lax.digamma(x)),
        (near,),
    ),
    "roots": (lambda x: (lax.rsqrt(x * x + 1), lax.cbrt(x), abs(x) ** 1.5), (x,)),
    "sigmoid": (nn.sigmoid, (x,)),
    "gelu": (nn.gelu, (x,)),
    "remainders": (lambda x: lax.rem(x, 0.3) + jnp.copysign(x, -1) + jnp.sign(x), (x,)),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.5), (x,)),
    "four a thread": (lambda x: x * 2 + 1, (np.ones(1 << 12, "f4"),)),
}  # fmt: skip

numbers = {
    "integers": (lambda n: (n * 7 - 3) // 4 + n % 5 - (n >> 2), (ints,)),
    "overflow": (lambda n: (n * 30_000_000) // 3 + (n * n * n * n * n > 0), (ints,)),
    "bytes": (lambda n: ((n * 7 + 3) // 2 ^ (n << 1), n + n > n), (ints.astype("u1"),)),
    "signed bytes": (
        lambda n: (-n * 3 >> 1, abs(n), n.max(1), n.sum(0)),
        (ints.astype("i1"),),
    ),
    "shifts": (
        lambda n, c: (n << c, n >> c, lax.shift_right_logical(n, c)),
        (ints, counts),
    ),
    "bits": (lambda n: (lax.population_count(n), lax.clz(n)), (ints.astype("i2"),)),
    "quarter round": (lambda w: quarter_round(*w), (words,)),
    "random": (lambda key: mj.random.uniform(key, (64,)), (mj.random.key(3),)),
    "to integers": (lambda x: (x * 1e9).astype("i4"), (x * 5,)),
    "to bytes": (lambda x: (x * 99).astype("u1").astype("f4"), (x,)),
    "bool": (lambda x: (x > 0) ^ ~(x < 1) | (x == 0), (x,)),
    "float16": (lambda x: (x * 2 + 1) / 3, (halves,)),
    "float16 total": (lambda x: (x.sum(1), x.max(0)), (halves,)),
    "bfloat16": (lambda x: jnp.sin(x.astype("bfloat16")) * 2, (x,)),
    "complex": (lambda x: (abs((x + 1j) * (x - 2j)), (x * 1j).sum(1)), (x,)),
}  # fmt: skip

totals = {
    "sum": (jnp.sum, (x,)),
    "sum of many": (jnp.sum, (many,)),
    "sum of rows": (lambda x: x.sum(1), (x,)),
    "sum of columns": (lambda x: x.sum(0), (x,)),
    "extremes": (lambda x: x.max(1) - x.min(1), (x,)),
    "mean, variance": (lambda x: (x.mean(1), x.var(1)), (x,)),
    "all, any": (lambda x: ((x > -9).all(1), (x > 2).any(0)), (x,)),
    "softmax": (nn.softmax, (x,)),
    "log-softmax": (nn.log_softmax, (x,)),
    "layer norm": (layer_norm, (x,)),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), (x,)),
    "cumsum": (lambda x: jnp.cumsum(x, 1), (x,)),
    "cumsum of many": (jnp.cumsum, (many,)),
    "product": (lambda x, y: jnp.tanh(x @ y), (x, y)),
    "convolution": (convolved, (image, filters)),
}

layouts = {
    "transpose": (lambda x: x.T * 2, (x[:, :33],)),
    "transpose of 3": (lambda x: x.transpose(2, 0, 1) + 1, (x.reshape(5, 8, 5),)),
    "three layouts": (lambda x: (x.T, x * 2, jnp.tanh(x).T), (x,)),
    "concatenate": (lambda x: jnp.pad(jnp.concatenate([x, x * 2]), 1), (x,)),
    "slices": (lambda x: x[1:4, ::2] - x[::2, 1::2], (x,)),
    "gather": (lambda x, i: x[:, i] * 2, (x, where)),
    "scatter-add": (lambda v, i: jnp.zeros(7).at[i].add(v), (v, where)),
    "scatter-max": (
        lambda n, i: jnp.zeros(7, "i4").at[i].max(n),
        (ints.ravel()[:40], where),
    ),
}  # fmt: skip

one_of = {"add": lambda s: s.add, "multiply": lambda s: s.multiply}
one_of |= {"min": lambda s: s.min, "max": lambda s: s.max}


def updated(how, x):
    """A scatter whose updates meet, of numbers that memory itself does not combine."""
    first = x.ravel()[:7]
    return f"scatter-{how} of {x.dtype}", (
        lambda x, new, i: one_of[how](x.at[i])(new), (first, x.ravel()[:40], where))


updates = dict([
    updated("multiply", x), updated("min", x), updated("max", x),
    updated("multiply", ints), updated("add", ints.astype("i1")),
    updated("min", ints.astype("u2")), updated("max", ints > 90),
    updated("add", halves), updated("multiply", halves),
    updated("add", x.astype(jnp.bfloat16)), updated("max", x.astype(jnp.bfloat16)),
])  # fmt: skip

control = {
    "scan": (recurrence, (x[:, :8], x[:, 8:16])),
    "while": (powers, (abs(v),)),
    "cond": (either, (x,)),
}

derivatives = {
    "digits loss": (mj.value_and_grad(digits_loss), (weights, x, labels)),
    "digits step": (digits_step, (weights, x, labels)),
    "gradient of softmax": (mj.grad(sum_of(nn.softmax)), (x,)),
    "gradient of layer norm": (mj.grad(sum_of(lambda x: layer_norm(x) + x)), (x,)),
    "gradient of gelu": (mj.grad(sum_of(nn.gelu)), (x,)),
    "gradient of cumsum": (mj.grad(sum_of(jnp.cumsum)), (v,)),
    "gradient of a convolution": (mj.grad(sum_of(convolved), (0, 1)), (image, filters)),
    "gradient of a scan": (mj.grad(sum_of(recurrence)), (x[:, :8], x[:, 8:16])),
    "hessian": (mj.hessian(lambda v: (jnp.sin(v) * v).sum() ** 2), (v[:5],)),
    "jvp": (lambda x: mj.jvp(nn.softmax, (x,), (x * x,)), (x,)),
    "vmap": (mj.vmap(lambda a, b: (a * b).sum() / (1 + a.max())), (x, x + 1)),
}  # fmt: skip

programs = elementwise | numbers | totals | layouts | updates | control
programs |= derivatives
