"""Random programs whose buffers live and die: results with and without the plan.

A program is a list of steps on some arrays: elementwise ones, products, updates of a
few elements, loops, inner jitted functions.  Planned or not, its results have the same
bits; so have they in the memory of arguments.
"""

import warnings
from contextlib import contextmanager

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import config, lax
from minijit.compile.memory import updates
from minijit.compile.memory.arena import check_plan
from minijit.compile.pipeline import rewrites
from minijit.run import loading
from minijit.run.calls import planned_driver
from minijit.run.python import source as python_source

N = 6


def in_a_loop(a, b, k):
    return lax.fori_loop(0, 3, lambda i, t: t.at[(i + k) % N].add(b[i]), a)


def two_in_a_loop(a, b, k):
    step = lambda i, c: (c[1] * 0.5, c[0].at[i].set(c[1][k]))
    return sum(lax.fori_loop(0, 3, step, (a, b)))


def scanned(a, b, k):
    return lax.scan(lambda c, x: (jnp.sin(c + x), c * x), a[k], b)[1]


def branch(a, b, k):
    change = lambda a, b: a.at[k].set(b[0])
    return lax.cond(a[0, k] > b[k, 0], change, lambda a, b: b, a, b)


@mj.jit
def inner(a, b):
    for _ in range(4):
        a, b = jnp.tanh(a @ b), b.at[1].set(a[0]) @ a
    return a, b


steps = [
    lambda a, b, k: jnp.sin(a),
    lambda a, b, k: a * b,
    lambda a, b, k: a - b[::-1],
    lambda a, b, k: a + b.T,
    lambda a, b, k: jnp.where(a > k - 3, a, b),
    lambda a, b, k: lax.dot(a, b) * 0.1,
    lambda a, b, k: lax.dot(a, b.T) * 0.1,
    lambda a, b, k: a.at[k].set(b[k]),
    lambda a, b, k: a.at[k].add(a[0]),
    lambda a, b, k: a.at[:, k].multiply(b[0]),
    lambda a, b, k: a.at[jnp.array([k, 0])].set(b[:2]),
    lambda a, b, k: lax.dynamic_update_slice(a, b[:2, :3], (k % 3, k % 2)),
    lambda a, b, k: jnp.cumsum(a, 0) * 0.2,
    lambda a, b, k: jnp.sort(a, 0),
    lambda a, b, k: a / (1 + jnp.abs(b).sum(0)),
    lambda a, b, k: jnp.exp(-jnp.abs(a)) + b.sum(1, keepdims=True) * 0.1,
    lambda a, b, k: inner(a, b)[k % 2],
    lambda a, b, k: sum(inner(a, b)),
    in_a_loop,
    two_in_a_loop,
    scanned,
    branch,
]


def drawn(seed):
    """A function of two arrays, and the arrays."""
    rs = np.random.RandomState(seed)
    chosen = [
        (steps[rs.randint(len(steps))], rs.rand(2), int(rs.randint(N)))
        for _ in range(rs.randint(2, 14))
    ]
    results = rs.rand(rs.randint(1, 4))

    def f(x, y):
        arrays = [x, y]
        for step, which, k in chosen:
            # Mostly of the last arrays made, so that earlier ones die.
            a, b = (arrays[-1 - int(len(arrays) * w**3)] for w in which)
            arrays.append(step(a, b, k))
        return [arrays[-1 - int(len(arrays) * w**2)] for w in results]

    return f, [rs.randn(N, N).astype("f4") for _ in range(2)]


def total(f, size):
    """A number made of all results of a function, to be differentiated."""
    weights = np.cos(np.arange(size * size)).reshape(size, size).astype("f4")

    def g(x, y):
        by_rank = {1: weights[0], 2: weights}
        return sum((r * by_rank[r.ndim]).sum() for r in f(x, y))

    return g


@contextmanager
def unplanned():
    """Programs loaded in here have an array for each buffer, and copy as they say."""
    planned = python_source.driver_printers["python"]
    before = rewrites.passes
    rewrites.passes = tuple(f for f in before if f is not updates.with_reuse)
    python_source.driver_printers["python"] = python_source.DriverPrinter
    try:
        yield
    finally:
        python_source.driver_printers["python"] = planned
        rewrites.passes = before


def small_arrays_too():
    """The smallest array is worth to be written over."""
    return config.override("fusion", config.fusion.but(reuse_bytes=0))


def results_of(f, args, backend="plain", donated=()):
    """The results of two calls, and the executable."""
    mj.clear_caches()
    f = mj.jit(f, backend=backend, donate_argnums=donated)
    given = [list(map(jnp.array, args)) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        found = [[np.array(r) for r in f(*arrays)] for arrays in given]
    entry, = f.entries.values()
    return found, entry.executable


def compare(seed, backend="plain"):
    """Raise AssertionError unless a program gives the same: -> its plan."""
    f, args = drawn(seed)
    with unplanned():
        want, _ = results_of(f, args)
    given = [np.array(a) for a in args]
    with small_arrays_too(), config.override("debug_checks", True):
        found, made = results_of(f, args, backend, donated=(0, 1)[: seed % 3])
        plan = planned_driver.plan_of(loading.rewritten(made.program))
    for results in found:
        for a, b in zip(results, want[0], strict=True):
            if backend == "plain":
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    for a, b in zip(args, given, strict=True):
        np.testing.assert_array_equal(a, b)
    return check_plan(plan)
