"""S2: the gradient of a bounded while loop, against max_steps, with jax beside it."""

import functools

import jax
import numpy as np

import minijit
import minijit.numpy as jnp

from .harness import best_times

STEPS = (8, 16, 32, 64, 256)


def bounded(mj, lax, cond, body, init, max_steps):
    """patrick-kidger's bounded_while_loop: scans of length 2, nested."""
    tree_map = mj.tree.map

    def loop(data, max_steps):
        if max_steps == 1:
            pred, val = data
            keep = lambda a, b: lax.select(pred, a, b)
            new = tree_map(keep, body(val), val)
            return cond(new), new
        call = lambda data: loop(data, max_steps // 2)
        step = lambda data, _: (lax.cond(data[0], call, lambda x: x, data), None)
        return lax.scan(step, data, xs=None, length=2)[0]

    return loop((cond(init), init), max_steps)[1]


def program(mj, lax, numpy, weights, max_steps):
    w1, w2, w3 = weights

    def net(x):
        return numpy.tanh(numpy.tanh(x @ w1) @ w2) @ w3

    body = lambda val: (net(val[0]), val[1] + 1)
    cond = lambda val: val[1] < 8
    return lambda x: numpy.sum(bounded(mj, lax, cond, body, (x, 0), max_steps)[0])


def main():
    rng = np.random.default_rng(0)
    sizes = [(1, 1024), (1024, 1024), (1024, 1)]
    weights = [rng.normal(size=s).astype("f4") / np.sqrt(s[0]) for s in sizes]
    x = np.array([1.0], "f4")
    print("max_steps  forward ms  gradient ms  ratio    jax forward  gradient")
    for n in STEPS:
        own = program(minijit, minijit.lax, jnp, list(map(jnp.asarray, weights)), n)
        theirs = list(map(jax.numpy.asarray, weights))
        peer = program(jax, jax.lax, jax.numpy, theirs, n)
        f, g = minijit.jit(own), minijit.jit(minijit.grad(own))
        fj, gj = jax.jit(peer), jax.jit(jax.grad(peer))
        np.testing.assert_allclose(g(x), gj(x), rtol=1e-3)
        wait = lambda f: (lambda: f(x).block_until_ready())
        peers = dict(f=functools.partial(f, x), g=functools.partial(g, x))
        times = best_times(peers | {"fj": wait(fj), "gj": wait(gj)})
        f, g, fj, gj = (1e3 * times[k] for k in ("f", "g", "fj", "gj"))
        print(f"{n:9d} {f:11.3f} {g:12.3f} {g / f:6.2f}x {fj:12.3f} {gj:9.3f}")


if __name__ == "__main__":
    main()
