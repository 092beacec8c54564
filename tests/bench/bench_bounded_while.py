"""S2: the gradient of a bounded while loop, against max_steps, with jax beside it.

    OPENBLAS_NUM_THREADS=1 JAX_PLATFORMS=cpu python -m tests.bench.bench_bounded_while

The program of jax's issue 8239 as it stands there, but for its imports: a network of
three layers runs 8 times, whatever max_steps allows.  It takes about seven minutes; jax
needs most of them to compile and to run its gradients.  The BLAS gets one thread: on a
busy machine two wait for each other, and a product takes a hundred times as long.
"""

import functools
import math

import jax
import numpy as np
from jax.example_libraries import stax as jax_stax

import minijit
from minijit.experimental import stax

from .harness import best_times

STEPS = (8, 16, 32, 64, 128, 256, 512, 1024)


def bounded_while_loop(lib, wrap, cond_fun, body_fun, init_val, max_steps):
    """Scans of length 2, nested: `lax.while_loop` that stops after max_steps."""
    lax = lib.lax

    def loop(data, max_steps):
        if max_steps == 1:
            pred, val = data
            new_val = body_fun(val)
            keep = lambda a, b: lax.select(pred, a, b)
            new_val = lib.tree.map(keep, new_val, val)
            return cond_fun(new_val), new_val

        def call(data):
            return loop(data, max_steps // 2)

        @wrap
        def step(data, _):
            return lax.cond(data[0], call, lambda x: x, data), None

        return lax.scan(step, data, xs=None, length=2)[0]

    return loop((cond_fun(init_val), init_val), max_steps)[1]


def program(lib, layers, wrap):
    """-> f(val, max_steps), a sum of what the network makes of val in 8 steps."""
    jnp = lib.numpy
    wide = layers.Dense(1024), layers.elementwise(jnp.tanh)
    init, apply = layers.serial(*wide, *wide, layers.Dense(1))
    expensive_fn = functools.partial(apply, init(lib.random.PRNGKey(0), (1,))[1])

    def f(val, max_steps):
        cond_fun = lambda val: val[1] < 8
        body_fun = lambda val: (expensive_fn(val[0]), val[1] + 1)
        init_val = val, 0
        result = bounded_while_loop(lib, wrap, cond_fun, body_fun, init_val, max_steps)
        return jnp.sum(result[0])

    return f


def compiled(lib, layers, wrap, max_steps):
    """The program and its gradient as functions that wait for their results."""
    f = program(lib, layers, wrap)
    val = lib.numpy.array([1.0])
    runs = []
    for function in (f, lib.grad(f)):
        run = lib.jit(function, static_argnums=1)
        runs.append(functools.partial(wait_for, run, val, max_steps))
    return runs


def wait_for(run, *args):
    return run(*args).block_until_ready()


def measure(max_steps):
    """{name: milliseconds} of forward passes and gradients; they agree."""
    none = lambda f: f
    peers = dict(zip(("f", "g"), compiled(minijit, stax, none, max_steps), strict=True))
    peers["c"] = compiled(minijit, stax, minijit.checkpoint, max_steps)[1]
    peers["jf"], peers["jg"] = compiled(jax, jax_stax, none, max_steps)
    peers["jc"] = compiled(jax, jax_stax, jax.checkpoint, max_steps)[1]
    gradients = [np.asarray(peers[k]()) for k in ("jg", "g", "c", "jc")]
    for other in gradients[1:]:
        np.testing.assert_allclose(other, gradients[0], rtol=1e-3)
    return {name: 1e3 * t for name, t in best_times(peers, 3.0).items()}


def main():
    print("times in ms; gradients as multiples of the same system's forward pass")
    print("           minijit                         jax")
    print("max_steps  forward   plain  checkpointed   forward    plain  checkpointed")
    for n in STEPS:
        t = measure(n)
        own = f"{t['f']:8.3f} {t['g'] / t['f']:6.2f}x {t['c'] / t['f']:12.2f}x"
        peer = f"{t['jf']:8.3f} {t['jg'] / t['jf']:7.1f}x {t['jc'] / t['jf']:12.1f}x"
        print(f"{n:9d} {own}  {peer}   aims: 3x, {math.log2(n) + 4:.0f}x", flush=True)


if __name__ == "__main__":
    main()
