"""Random convolutions, and a check of what the compiler makes of a function."""

from functools import partial

import ir_interpreter
import numpy as np
from harness import alike, program_of

import minijit as mj
import minijit.numpy as jnp
from tests.bench import bench_products
from tests.bench.bench_products import NCHW as NCHW, NHWC as NHWC

convolve = partial(bench_products.convolve, mj)


def numbers(rng, *shape):
    return rng.integers(-4, 5, shape).astype("f4")


def check(f, *args, place=lambda body: body):
    """The program of a function, once it is right; its numbers are small integers."""
    program = program_of(f, *args)
    found = ir_interpreter.run(program, *args, place=place)
    alike(found, mj.jit(f, backend="eval")(*args))
    return program


def random_convolution(seed):
    """-> (a convolution and its gradients as a function, its arguments)

    Of three seeds one has holes in the image, one in the kernel, one in both.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3))
    sizes, kernel = rng.integers(2, 10 // n, n), rng.integers(1, 4, n)
    spatial = "HW"[:n]
    specs = ["".join(rng.permutation(list(k + spatial))) for k in ("NC", "OI", "NC")]
    extent = dict(N=2, C=3, O=8, I=3) if seed % 2 else dict(N=2, C=8, O=2, I=8)
    image = extent | dict(zip(spatial, sizes.tolist(), strict=True))
    window = extent | dict(zip(spatial, kernel.tolist(), strict=True))
    pick = lambda low, high: rng.integers(low, high, n).tolist()
    f = convolve(
        tuple(specs),
        pick(1, 3),
        [(int(a), int(b)) for a, b in rng.integers(-1, 3, (n, 2))],
        lhs_dilation=pick(1, 4 if seed % 3 else 3) if seed % 3 != 1 else [1] * n,
        rhs_dilation=pick(1, 3) if seed % 3 != 2 else [1] * n,
    )

    def with_gradients(x, w):
        out, back = mj.vjp(f, x, w)
        return (out, *back(jnp.sign(out)))

    x = numbers(rng, *(image[c] for c in specs[0]))
    return with_gradients, x, numbers(rng, *(window[c] for c in specs[1]))
