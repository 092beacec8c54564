"""The programs whose loops are kept: by family, of the sizes that people have.

`families` is {family: {name: (function, abstract arguments)}}.  Nothing is computed.
"""

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn
from tests import random_memory

sizes = {"tall": (4096, 1000), "small": (300, 70), "wide": (64, 1024)}


def of(*shape, dtype="float32"):
    return mj.ShapeDtypeStruct(shape, dtype)


def back(f):
    """The cotangent of the first argument, by `f`'s arguments and a cotangent."""

    def pull(*args):
        *args, ct = args
        return mj.vjp(lambda x: f(x, *args[1:]), args[0])[1](ct)[0]

    return pull


def with_back(f, *args):
    """`f` and its gradient, as two programs."""
    ct = mj.eval_shape(f, *args)
    return {"": (f, args), "'": (back(f), (*args, ct))}


def named(name, programs):
    return {name + mark: program for mark, program in programs.items()}


def layer_norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def batch_norm(x):
    axes = tuple(range(x.ndim - 1))
    return (x - x.mean(axes)) * lax.rsqrt(x.var(axes) + 1e-5)


def cross_entropy(x, t):
    return -(nn.log_softmax(x) * t).sum(1).mean()


def accuracy(x, t):
    return cross_entropy(x, t), (x.argmax(1) == t.argmax(1)).mean()


def masked_softmax(x):
    mask = jnp.tril(jnp.ones(x.shape[-2:], bool))
    return nn.softmax(jnp.where(mask, x, -jnp.inf))


def attention(q, k, v):
    return masked_softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v


def shifted(x, w):
    padded = jnp.pad(x, ((0, 0), (15, 0), (0, 0)))
    return sum(padded[:, k : k + x.shape[1]] * w[k] for k in range(16))


def differences(x):
    return jnp.square(jnp.diff(x, axis=0)).sum() + abs(jnp.diff(x, axis=1)).sum()


def rounds(x):
    a, b, c, d = x
    for turn in (16, 12, 8, 7):
        a = a + b
        d = (d ^ a) << turn | (d ^ a) >> (32 - turn)
        a, b, c, d = c, d, a, b
    return a, b, c, d


def cell(w, h, x):
    h = jnp.tanh(x @ w["x"] + h @ w["h"] + w["b"])
    return h, h


def recurrent(w, xs):
    h, hs = lax.scan(lambda h, x: cell(w, h, x), jnp.zeros((xs.shape[1], 64)), xs)
    return (hs**2).sum() + h.sum()


def newton(x):
    def step(state):
        y, k = state
        return y - (y * y - x) / (2 * y), k + 1

    return lax.while_loop(lambda s: (abs(s[0] ** 2 - x).max() > 1e-5), step, (x, 0))


def perceptron(p, x, t):
    for w, b in p[:-1]:
        x = nn.relu(x @ w + b)
    return cross_entropy(x @ p[-1][0] + p[-1][1], t)


def adam(p, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


def elementwise():
    n, row = of(1_000_000), of(1000)
    return {
        "axpy": (lambda x, y: 2.0 * x + y, (n, n)),
        "gelu": (nn.gelu, (n,)),
        "tanh'": (back(jnp.tanh), (n, n)),
        "adam": (adam, (n, n, n, n)),
        "select": (lambda x, y: jnp.where(x > y, jnp.exp(x), y), (n, n)),
        "halves": (lambda x: x * 1.01 + 0.1, (of(400_000, dtype="float16"),)),
        "complex": (lambda z: z * z + 1j * z, (of(10_000, dtype="complex64"),)),
        "rows and columns": (lambda x, y: x[:, None] * y, (row, of(1000, 1000))),
        "rounds": (rounds, ((of(200_000, dtype="uint32"),) * 4,)),
        "steps": (lambda x: jnp.arange(1_000_000) * x, (of(),)),
        "hypot": (jnp.hypot, (n, n)),
        "erf": (lax.erf, (n,)),
    }


def reductions():
    found = {}
    for name, shape in sizes.items():
        x = of(*shape)
        for axis in (0, 1):
            at = f"{name}, axis {axis}"
            found |= {
                f"sum {at}": (lambda x, a=axis: jnp.tanh(x).sum(a), (x,)),
                f"argmax {at}": (lambda x, a=axis: x.argmax(a), (x,)),
                f"std {at}": (lambda x, a=axis: x.std(a), (x,)),
            }
        found[f"mean and max {name}"] = lambda x: (x.mean(), x.max()), (x,)
    x = of(16, 56, 56, 8)
    return found | {
        "max of 10": (lambda x: x.max(1), (of(100_000, 10),)),
        "argmax of 8": (lambda x: x.argmax(-1), (of(40_000, 8),)),
        "outer three": (lambda x: x.sum((0, 1, 2)), (x,)),
        "any": (lambda x: (x > 1).any(1), (of(300, 70),)),
        "norm": (lambda x: jnp.sqrt((x * x).sum()), (of(1_000_000),)),
        "products": (lambda x: x.prod(0), (of(300, 70),)),
        "integers": (lambda x: x.sum(0), (of(3000, 70, dtype="int32"),)),
    }


def normalisations():
    found = {}
    for name, shape in sizes.items():
        x = of(*shape)
        for axis in (0, 1):
            f = lambda x, a=axis: nn.softmax(x, axis=a)
            g = lambda x, a=axis: nn.logsumexp(x, axis=a)
            found |= named(f"softmax {name}, axis {axis}", with_back(f, x))
            found |= named(f"logsumexp {name}, axis {axis}", with_back(g, x))
        found |= named(f"layer norm {name}", with_back(layer_norm, x))
        found |= named(f"batch norm {name}", with_back(batch_norm, x))
        found |= named(f"cross entropy {name}", with_back(cross_entropy, x, x))
    found |= named("batch norm, images", with_back(batch_norm, of(16, 56, 56, 8)))
    found |= named("masked softmax", with_back(masked_softmax, of(8, 128, 128)))
    found["accuracy"] = accuracy, (of(64, 10), of(64, 10))
    return found


def layouts():
    x = of(300, 400)
    swap = lambda x: tuple(jnp.swapaxes(y, 1, 2) for y in (x * 2, x + 1))
    found = {
        "turned": (lambda x: x.T * 2, (of(4001, 4003),)),
        "turned and added": (lambda x, y: x.T + y, (x, of(400, 300))),
        "two turned": (swap, (of(64, 1024, 512),)),
        "three turned": (
            lambda x, y: (x * y * x[::-1]).transpose(2, 0, 1), (of(512, 16, 64),) * 2
        ),
        "channels first": (lambda x: jnp.moveaxis(x, 3, 1) * 2, (of(64, 56, 56, 64),)),
        "four axes": (lambda x: x.transpose(3, 2, 0, 1), (of(8, 8, 128, 128),)),
        "concatenated": (lambda x, y: jnp.concatenate([x * 2, y + 1], 1), (x, x)),
        "stacked": (lambda x, y: jnp.stack([x, y], 2).reshape(300, 800), (x, x)),
        "rolled": (lambda x: jnp.roll(x, 3, 1) - x, (x,)),
        "wrapped": (lambda x: jnp.pad(x, 2, mode="wrap"), (x,)),
        "tiled": (lambda x: jnp.tile(x, (3, 2)), (x,)),
        "reversed": (lambda x: x[::-1] + x[:, ::-1], (x,)),
        "strided": (lambda x: x[::2, 1::3] * 2, (x,)),
    }
    found |= named("padded", with_back(lambda x: jnp.pad(x, ((1, 2), (3, 0))) * 2, x))
    found |= named("shifted slices", with_back(shifted, of(8, 256, 512), of(16, 512)))
    return found | named("differences", with_back(differences, of(2695, 8, 22)))


def gathers():
    x, i = of(10_000, 40), of(5000, dtype="int32")
    table = lambda i, g: jnp.zeros((10_000, 40)).at[i].add(g)
    return {
        "taken": (lambda x, i: x[i] * 2, (x, i)),
        "taken'": (back(lambda x, i: x[i] * 2), (x, i, of(5000, 40))),
        "added": (table, (i, of(5000, 40))),
        "set": (lambda x, i, y: x.at[i].set(y), (x, i, of(5000, 40))),
        "of each row": (
            lambda x, i: jnp.take_along_axis(x, i[:, None], 1),
            (of(5000, 40), i),
        ),
        "beside a mean": (
            lambda x, i: (jnp.take(x, i, axis=0), x - x.mean(1, keepdims=True)),
            (of(128, 128, 40), of(32, dtype="int32")),
        ),
        "one hot": (lambda i: nn.one_hot(i, 10), (i,)),
        "update": (
            lambda x, y: lax.dynamic_update_slice(x, y, (3, 0)),
            (x, of(10, 40)),
        ),
    }


def products():
    def linear(x, w, b):
        return nn.relu(x @ w + b)

    found = {
        "matrix and vector": (lambda x, v: jnp.tanh(x @ v), (of(4096, 1000), of(1000))),
        "vector and matrix": (lambda x, v: v @ x, (of(4096, 1000), of(4096))),
        "many small": (lambda a, b: a @ b, (of(500, 8, 8), of(500, 8, 8))),
        "halves": (lambda a: a @ a, (of(64, 64, dtype="float16"),)),
        "integers": (lambda a: a @ a, (of(40, 40, dtype="int32"),)),
        "outer": (jnp.outer, (of(1000), of(1000))),
        "attention": (attention, (of(4, 128, 32),) * 3),
    }
    for k in (4, 28, 60):
        args = of(30, k), of(k, 33), of(33)
        found |= named(f"linear of {k}", with_back(linear, *args))
    p = [(of(784, 128), of(128)), (of(128, 10), of(10))]
    found["perceptron"] = mj.value_and_grad(perceptron), (p, of(64, 784), of(64, 10))
    return found


def convolutions():
    def conv(x, w, stride=1):
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=layout
        )

    def pooled(x):
        return lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
        )

    found = named("3 x 3", with_back(conv, of(8, 28, 28, 16), of(3, 3, 16, 32)))
    found |= named("one channel", with_back(conv, of(8, 28, 28, 1), of(3, 3, 1, 8)))
    found["stride 2"] = lambda x, w: conv(x, w, 2), (of(4, 56, 56, 32), of(5, 5, 32, 4))
    return found | named("pooled", with_back(pooled, of(8, 28, 28, 16)))


def cumulative():
    found = {}
    for axis in (0, 1):
        f = lambda x, a=axis: jnp.cumsum(x * 2, a)
        found |= named(f"sums, axis {axis}", with_back(f, of(300, 400)))
        g = lambda x, a=axis: lax.cummax(x, a)
        found[f"maxima, axis {axis}"] = g, (of(300, 70),)
    found["long"] = jnp.cumsum, (of(1_000_000),)
    found["logsumexp"] = lambda x: lax.cumlogsumexp(x, 1), (of(300, 70),)
    return found


def control():
    w, xs = {"x": of(16, 64), "h": of(64, 64), "b": of(64)}, of(10, 32, 16)
    choose = lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x).sum()
    walk = lambda x: lax.scan(
        lambda c, a: (c * 0.9 + a, c.sum()), jnp.zeros(70), x
    )
    return {
        "recurrent": (recurrent, (w, xs)),
        "recurrent'": (mj.grad(recurrent), (w, xs)),
        "newton": (newton, (of(100),)),
        "branches": (choose, (of(dtype="bool"), of(1000))),
        "branches'": (mj.grad(choose, 1), (of(dtype="bool"), of(1000))),
        "walk": (walk, (of(300, 70),)),
        "counted": (
            lambda x: lax.fori_loop(0, 100, lambda k, y: y + jnp.sin(x * k), x),
            (of(1000),),
        ),
        "per lane": (
            mj.vmap(lambda x: lax.fori_loop(0, 9, lambda k, y: y * 0.5 + x, x)),
            (of(64, 8),),
        ),
    }


def drawn():
    """Random programs on small square arrays, and their gradients."""
    found = {}
    for seed in range(20):
        f, args = random_memory.drawn(seed)
        g = mj.grad(random_memory.total(f, random_memory.N), (0, 1))
        found |= {f"{seed}": (f, args), f"{seed}'": (g, args)}
    return found


families = {
    f.__name__: f
    for f in (elementwise, reductions, normalisations, layouts, gathers, products,
              convolutions, cumulative, control, drawn)
}  # fmt: skip
