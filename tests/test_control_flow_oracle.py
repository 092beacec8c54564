"""Control flow against JAX's: values, types, weak types, derivatives, jaxprs, errors.

Every program is a function of a library (`lib.lax`, `lib.numpy`), and runs in both.
"""

import numpy as np
import pytest

import minijit as mj

pytestmark = [pytest.mark.chapter(19), pytest.mark.oracle]
jax = pytest.importorskip("jax")

f32, i32 = np.float32, np.int32
x = np.array([0.5, -1.5, 2.0], f32)
xs = np.arange(12, dtype=f32).reshape(4, 3) / 10
counts = np.array([3, 0, 2, 5], i32)


def scans(**options):
    def program(lib, c, xs):
        body = lambda c, x: (c * 0.5 + x, {"sum": c + x, "first": x[0]})
        return lib.lax.scan(body, c, xs, **options)

    return program


def collatz(lib, n):
    """Two numbers carried: how many steps, and where it is."""
    lax = lib.lax

    def step(state):
        i, n = state
        return i + 1, lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)

    return lax.while_loop(lambda state: state[1] > 1, step, (0, n))


def old_cond(lib, a, b):
    """The form with an operand for each branch."""
    branches = (lambda a: a + 1, b, lambda b: b * 2)
    return lib.lax.cond(a[0] > 0, a, *branches)


def nested(lib, c, xs):
    lax = lib.lax

    def body(c, x):
        grown = lax.while_loop(lambda c: lib.numpy.sum(c) < 4.0, lambda c: c * 2 + 1, c)
        c = lax.cond(x[0] > 0.5, lambda: grown * x, lambda: c + x)
        return c, lax.fori_loop(0, 3, lambda i, y: y + i * x, c)

    return lax.scan(body, c, xs)


def carried(init, combine=lambda c, x: c + x.sum()):
    """A scan whose carry starts as a Python number."""
    return lambda lib, xs: lib.lax.scan(lambda c, x: (combine(c, x), c), init, xs)


def switched(lib, i, x):
    branches = [lambda x: x + 1, lambda x: x * 2.0, lambda x: -x]
    return lib.lax.switch(i, branches, x)


def summing(lib, n, x):
    return lib.lax.fori_loop(0, n, lambda i, total: total + i * x, 0.0 * x)


def table_scan(op, **options):
    def program(lib, xs):
        return lib.lax.associative_scan(getattr(lib.numpy, op), xs, **options)

    return program


def recurrence(lib, a, b):
    combine = lambda f, g: (f[0] * g[0], g[0] * f[1] + g[1])
    return lib.lax.associative_scan(combine, (a, b))


# name: (program, arguments)
programs = {
    "scan": (scans(), (x, xs)),
    "scan reverse": (scans(reverse=True), (x, xs)),
    "scan unroll": (scans(unroll=3), (x, xs)),
    "scan unroll all": (scans(unroll=True), (x, xs)),
    "scan no unroll": (scans(unroll=False), (x, xs)),
    "scan split transpose": (scans(_split_transpose=True), (x, xs)),
    "scan length": (scans(length=4), (x, xs)),
    "scan no xs": (
        lambda lib, x: lib.lax.scan(lambda c, _: (c * 2, c), x, None, length=3), (x,)
    ),
    "scan no steps": (scans(), (x, xs[:0])),
    "scan one step": (scans(unroll=4), (x, xs[:1])),
    "scan no carry": (
        lambda lib, xs: lib.lax.scan(lambda _, x: (None, x * 2), None, xs), (xs,)
    ),
    "scan a tuple of xs": (
        lambda lib, x, n: lib.lax.scan(
            lambda c, row: (c + row[0].sum() * row[1], row[1] + 1), x, (xs, n)
        ), (x, counts),
    ),
    "scan weak int carry": (carried(0), (xs,)),
    "scan weak int stays": (carried(0, lambda c, x: c + 1), (xs,)),
    "scan weak float carry": (carried(1.0, lambda c, x: c * 2), (xs,)),
    "scan weak float, half": (carried(0.0), (xs.astype(np.float16),)),
    "scan weak bool carry": (carried(False, lambda c, x: x[0] > 0.5), (xs,)),
    "scan ints": (carried(i32(0), lambda c, x: c + x[0]), (xs.astype(i32),)),
    "while": (collatz, (i32(7),)),
    "while weak": (collatz, (7,)),
    "while not at all": (collatz, (i32(1),)),
    "while weak to strong": (
        lambda lib, x: lib.lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x), (0, 1)
        ), (x[0],),
    ),
    "fori": (lambda lib, x: summing(lib, 4, x), (x,)),
    "fori traced": (summing, (i32(4), x)),
    "fori traced weak": (summing, (4, x)),
    "fori below": (
        lambda lib, x: lib.lax.fori_loop(3, 1, lambda i, c: c + 1, x), (x,)
    ),
    "fori from below zero": (
        lambda lib, x: lib.lax.fori_loop(-2, 2, lambda i, c: c + i * x, x), (x,)
    ),
    "fori unroll": (
        lambda lib, x: lib.lax.fori_loop(0, 5, lambda i, c: c * x, x, unroll=2), (x,)
    ),
    "fori small ints": (
        lambda lib, n, x: lib.lax.fori_loop(
            np.int8(0), n, lambda i, c: c + i.astype("float32"), x
        ), (np.int8(4), x),
    ),
    "cond true": (
        lambda lib, x: lib.lax.cond(x[0] > 0, lambda x: x + 1, lambda x: x * 2, x), (x,)
    ),
    "cond false": (
        lambda lib, x: lib.lax.cond(x[1] > 0, lambda x: x + 1, lambda x: x * 2, x), (x,)
    ),
    "cond two operands": (
        lambda lib, x, y: lib.lax.cond(
            x[0] > 0, lambda x, y: x + y, lambda x, y: x * y, x, y
        ), (x, x + 1),
    ),
    "cond no operands": (
        lambda lib, x: lib.lax.cond(x[0] > 0, lambda: x + 1, lambda: x * 2), (x,)
    ),
    "cond old form": (old_cond, (x, x * 3)),
    "cond operand": (
        lambda lib, x: lib.lax.cond(
            x[0] > 0, lambda x: x + 1, lambda x: x * 2, operand=x
        ), (x,),
    ),
    "cond number": (
        lambda lib, n, x: lib.lax.cond(n, lambda x: x + 1, lambda x: x * 2, x),
        (i32(2), x),
    ),
    "cond float": (
        lambda lib, n, x: lib.lax.cond(n, lambda x: x + 1, lambda x: x * 2, x),
        (f32(0), x),
    ),
    "cond weak results": (
        lambda lib, p, y: lib.lax.cond(p, lambda: 1.0, lambda: y), (True, x[0])
    ),
    "cond two weak results": (
        lambda lib, p: lib.lax.cond(p, lambda: 1.0, lambda: 2.0), (True,)
    ),
    "switch": (switched, (i32(1), x)),
    "switch above": (switched, (i32(17), x)),
    "switch below": (switched, (i32(-4), x)),
    "switch small ints": (switched, (np.uint8(2), x)),
    "switch one": (lambda lib, i, x: lib.lax.switch(i, [lambda x: x * 2], x), (5, x)),
    "map": (lambda lib, xs: lib.lax.map(lambda x: x * x.sum(), xs), (xs,)),
    "map of trees": (
        lambda lib, xs, n: lib.lax.map(
            lambda a: {"n": a[1] + 1, "y": a[0] * a[1]}, (xs, n)
        ), (xs, counts),
    ),
    "map in twos": (
        lambda lib, xs: lib.lax.map(lambda x: x * x.sum(), xs, batch_size=2), (xs,)
    ),
    "map in threes": (
        lambda lib, xs: lib.lax.map(lambda x: x * x.sum(), xs, batch_size=3), (xs,)
    ),
    "map in tens": (
        lambda lib, xs: lib.lax.map(lambda x: x * x.sum(), xs, batch_size=10), (xs,)
    ),
    "map of ints": (lambda lib, n: lib.lax.map(lambda n: n * 2, n), (counts,)),
    "associative_scan": (table_scan("add"), (xs,)),
    "associative_scan backwards": (table_scan("multiply", reverse=True), (xs,)),
    "associative_scan axis": (table_scan("maximum", axis=1), (xs,)),
    "associative_scan last axis": (table_scan("add", axis=-1), (xs,)),
    "associative_scan of ints": (table_scan("add"), (counts,)),
    "associative_scan pairs": (recurrence, (xs, xs + 1)),
    "associative_scan of one": (table_scan("add"), (xs[:1],)),
    "nested": (nested, (x, xs)),
}  # fmt: skip


def leaves(tree):
    return jax.tree_util.tree_leaves(tree)


def of(lib, args):
    """Arguments as a library's own arrays; Python's numbers stay what they are."""
    return [a if isinstance(a, int) else lib.numpy.asarray(a) for a in args]


def agree(got, want, rtol=1e-5):
    got, want = mj.tree.leaves(got), leaves(want)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert a.weak_type == b.weak_type
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("name", programs)
def test_values_and_types(name):
    program, args = programs[name]
    ours, theirs = (lambda *args, lib=lib: program(lib, *args) for lib in (mj, jax))
    agree(ours(*of(mj, args)), theirs(*of(jax, args)))
    agree(mj.jit(ours, backend="plain")(*args), jax.jit(theirs)(*args))
    for a, b in zip(
        mj.make_jaxpr(ours)(*args).out_avals,
        jax.make_jaxpr(theirs)(*args).out_avals,
        strict=True,
    ):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)


# Under `disable_jit`.
errors_of_jax = {
    "scan no steps", "fori small ints", "scan weak int carry", "scan weak float, half"
}  # fmt: skip


@pytest.mark.parametrize("name", programs)
def test_under_disable_jit(name):
    program, args = programs[name]
    if name in errors_of_jax:
        pytest.skip("an error in JAX")
    with mj.disable_jit(), jax.disable_jit():
        got, want = program(mj, *of(mj, args)), program(jax, *of(jax, args))
    for a, b in zip(mj.tree.leaves(got), leaves(want), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def is_float(x):
    return np.asarray(x).dtype.kind == "f"


smooth = [
    name
    for name, (_, args) in programs.items()
    if any(isinstance(a, np.ndarray) and is_float(a) and a.size for a in args)
    and name
    not in ("scan weak float, half", "scan weak int stays", "scan weak bool carry")
]
# JAX cannot reverse these.
forward_only = {"fori traced", "fori traced weak", "nested", "fori small ints"}


def total(lib, program, args, floats):
    """The sum of all results, as a function of the arguments that are floats."""

    def f(*values):
        full = list(args)
        for i, value in zip(floats, values, strict=True):
            full[i] = value
        out = lib.tree_util.tree_leaves(program(lib, *full))
        return sum((y * y).sum() for y in out if y.dtype.kind == "f")

    return f


@pytest.mark.parametrize("name", smooth)
def test_derivatives(name):
    program, args = programs[name]
    floats = [i for i, a in enumerate(args) if is_float(a) and np.size(a) > 1]
    values = [args[i] for i in floats]
    tangents = [np.cos(np.arange(v.size, dtype=f32)).reshape(v.shape) for v in values]
    ours, theirs = (total(lib, program, args, floats) for lib in (mj, jax))
    want = jax.jvp(theirs, tuple(values), tuple(tangents))
    agree(mj.jvp(ours, tuple(values), tuple(tangents)), want, 1e-4)
    every = tuple(range(len(values)))
    got = mj.grad(ours, every)(*values)
    if name in forward_only:
        got = sum((g * t).sum() for g, t in zip(got, tangents, strict=True))
        np.testing.assert_allclose(got, want[1], rtol=1e-4)
        return
    agree(got, jax.grad(theirs, every)(*values), 1e-4)
    agree(mj.hessian(ours)(*values), jax.hessian(theirs)(*values), 1e-3)


@pytest.mark.parametrize("name", programs)
def test_under_vmap(name):
    program, args = programs[name]
    lanes = [np.stack([a, a]) for a in map(np.asarray, args)]
    lanes = [
        np.stack([a[0], (a[1] * 3 // 2 + 1 if a.dtype.kind in "iu" else a[1] * 0.7)])
        .astype(a.dtype) if a.dtype.kind in "iuf" else np.stack([a[0], ~a[1]])
        for a in lanes
    ]  # fmt: skip
    ours, theirs = (lambda *args, lib=lib: program(lib, *args) for lib in (mj, jax))
    agree(mj.vmap(ours)(*of(mj, lanes)), jax.vmap(theirs)(*of(jax, lanes)))
