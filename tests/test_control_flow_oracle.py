"""Control flow against JAX's: values, types, weak types, derivatives, jaxprs, errors.

Every program is a function of a library (`lib.lax`, `lib.numpy`), and runs in both: in
jax all programs together, in one that is compiled once for values, for derivatives and
for lanes.
"""

import itertools
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from harness import alike
from referee import kept, together

import minijit as mj

pytestmark = [pytest.mark.chapter(22), pytest.mark.oracle]
jax = pytest.importorskip("jax")

f32, i32 = np.float32, np.int32
x = np.array([0.5, -1.5, 2.0], f32)
xs = np.arange(12, dtype=f32).reshape(4, 3) / 10
counts = np.array([3, 0, 2, 5], i32)


def scans(lib, c, xs, **options):
    body = lambda c, x: (c * 0.5 + x, {"sum": c + x, "first": x[0]})
    return lib.lax.scan(body, c, xs, **options)


def collatz(lib, n):
    """Two numbers carried: how many steps, and where it is."""
    lax = lib.lax

    def step(state):
        i, n = state
        return i + 1, lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)

    return lax.while_loop(lambda state: state[1] > 1, step, (0, n))


def nested(lib, c, xs):
    lax = lib.lax

    def body(c, x):
        grown = lax.while_loop(lambda c: lib.numpy.sum(c) < 4.0, lambda c: c * 2 + 1, c)
        c = lax.cond(x[0] > 0.5, lambda: grown * x, lambda: c + x)
        return c, lax.fori_loop(0, 3, lambda i, y: y + i * x, c)

    return lax.scan(body, c, xs)


def carried(lib, xs, init, combine=lambda c, x: c + x.sum()):
    """A scan whose carry starts as a Python number."""
    return lib.lax.scan(lambda c, x: (combine(c, x), c), init, xs)


def switched(lib, i, x):
    branches = [lambda x: x + 1, lambda x: x * 2.0, lambda x: -x]
    return lib.lax.switch(i, branches, x)


def summing(lib, n, x):
    return lib.lax.fori_loop(0, n, lambda i, total: total + i * x, 0.0 * x)


def same_until(lib, *bounds, **options):
    return lib.lax.fori_loop(*bounds, lambda i, c: c, x, **options)


def two_cond(lib, pred, *operands, **named):
    return lib.lax.cond(pred, lambda x: x + 1, lambda x: x * 2, *operands, **named)


def recurrence(lib, a, b):
    combine = lambda f, g: (f[0] * g[0], g[0] * f[1] + g[1])
    return lib.lax.associative_scan(combine, (a, b))


def of_text(given, text):
    """A function of a library and arguments, which an expression stands for."""
    code = compile(f"lambda {given}: {text}", text, "eval")

    def program(lib, *args):
        names = globals() | {"lib": lib, "lax": lib.lax, "jnp": lib.numpy}
        return eval(code, names)(*args)

    return program


def read(line):
    name, given, text = line.split("; ", 2)
    given = [(a if "=" in a else f"{a}={a}").split("=") for a in given.split(", ")]
    args = tuple(eval(value, globals()) for _, value in given)
    return name, (of_text(", ".join(name for name, _ in given), text), args)


# Lines of a name, the arguments, an expression; name: (program, arguments)
programs = dict(map(read, """\
scan; x, xs; scans(lib, x, xs)
scan reverse; x, xs; scans(lib, x, xs, reverse=True)
scan unroll; x, xs; scans(lib, x, xs, unroll=3)
scan unroll all; x, xs; scans(lib, x, xs, unroll=True)
scan no unroll; x, xs; scans(lib, x, xs, unroll=False)
scan split transpose; x, xs; scans(lib, x, xs, _split_transpose=True)
scan length; x, xs; scans(lib, x, xs, length=4)
scan no xs; x; lax.scan(lambda c, _: (c * 2, c), x, None, length=3)
scan no steps; x, xs=xs[:0]; scans(lib, x, xs)
scan one step; x, xs=xs[:1]; scans(lib, x, xs, unroll=4)
scan no carry; xs; lax.scan(lambda _, x: (None, x * 2), None, xs)
scan a tuple of xs; x, n=counts; \
    lax.scan(lambda c, r: (c + r[0].sum() * r[1], r[1] + 1), x, (xs, n))
scan weak int carry; xs; carried(lib, xs, 0)
scan weak int stays; xs; carried(lib, xs, 0, lambda c, x: c + 1)
scan weak float carry; xs; carried(lib, xs, 1.0, lambda c, x: c * 2)
scan weak float, half; xs=xs.astype(np.float16); carried(lib, xs, 0.0)
scan weak bool carry; xs; carried(lib, xs, False, lambda c, x: x[0] > 0.5)
scan ints; xs=xs.astype(i32); carried(lib, xs, i32(0), lambda c, x: c + x[0])
while; n=i32(7); collatz(lib, n)
while weak; n=7; collatz(lib, n)
while not at all; n=i32(1); collatz(lib, n)
while weak to strong; a=x[0]; \
    lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + a), (0, 1))
fori; x; summing(lib, 4, x)
fori traced; n=i32(4), x; summing(lib, n, x)
fori traced weak; n=4, x; summing(lib, n, x)
fori below; x; lax.fori_loop(3, 1, lambda i, c: c + 1, x)
fori from below zero; x; lax.fori_loop(-2, 2, lambda i, c: c + i * x, x)
fori unroll; x; lax.fori_loop(0, 5, lambda i, c: c * x, x, unroll=2)
fori small ints; n=np.int8(4), x; \
    lax.fori_loop(np.int8(0), n, lambda i, c: c + i.astype(f32), x)
cond true; x; two_cond(lib, x[0] > 0, x)
cond false; x; two_cond(lib, x[1] > 0, x)
cond two operands; x, y=x + 1; \
    lax.cond(x[0] > 0, lambda x, y: x + y, lambda x, y: x * y, x, y)
cond no operands; x; lax.cond(x[0] > 0, lambda: x + 1, lambda: x * 2)
cond old form; a=x, b=x * 3; lax.cond(a[0] > 0, a, lambda a: a + 1, b, lambda b: b * 2)
cond operand; x; two_cond(lib, x[0] > 0, operand=x)
cond number; n=i32(2), x; two_cond(lib, n, x)
cond float; n=f32(0), x; two_cond(lib, n, x)
cond weak results; p=True, y=x[0]; lax.cond(p, lambda: 1.0, lambda: y)
cond two weak results; p=True; lax.cond(p, lambda: 1.0, lambda: 2.0)
switch; i=i32(1), x; switched(lib, i, x)
switch above; i=i32(17), x; switched(lib, i, x)
switch below; i=i32(-4), x; switched(lib, i, x)
switch small ints; i=np.uint8(2), x; switched(lib, i, x)
switch one; i=5, x; lax.switch(i, [lambda x: x * 2], x)
map; xs; lax.map(lambda x: x * x.sum(), xs)
map of trees; xs, n=counts; \
    lax.map(lambda a: {"n": a[1] + 1, "y": a[0] * a[1]}, (xs, n))
map in twos; xs; lax.map(lambda x: x * x.sum(), xs, batch_size=2)
map in threes; xs; lax.map(lambda x: x * x.sum(), xs, batch_size=3)
map in tens; xs; lax.map(lambda x: x * x.sum(), xs, batch_size=10)
map of ints; n=counts; lax.map(lambda n: n * 2, n)
associative_scan; xs; lax.associative_scan(jnp.add, xs)
associative_scan backwards; xs; lax.associative_scan(jnp.multiply, xs, reverse=True)
associative_scan axis; xs; lax.associative_scan(jnp.maximum, xs, axis=1)
associative_scan last axis; xs; lax.associative_scan(jnp.add, xs, axis=-1)
associative_scan of ints; n=counts; lax.associative_scan(jnp.add, n)
associative_scan pairs; a=xs, b=xs + 1; recurrence(lib, a, b)
associative_scan of one; xs=xs[:1]; lax.associative_scan(jnp.add, xs)
nested; x, xs; nested(lib, x, xs)
""".splitlines()))


def leaves(tree):
    return jax.tree_util.tree_leaves(tree)


def of(lib, args):
    """Arguments as a library's own arrays; Python's numbers stay what they are."""
    return [a if isinstance(a, int) else lib.numpy.asarray(a) for a in args]


agree = partial(alike, rtol=1e-5, atol=1e-6, weak=True)


def in_jax(name):
    return partial(programs[name][0], jax)


@cache
def values_of_jax():
    return together({name: (in_jax(name), *programs[name][1]) for name in programs})


@pytest.mark.parametrize("name", programs)
def test_values_and_types(name):
    program, args = programs[name]
    ours, theirs = (lambda *args, lib=lib: program(lib, *args) for lib in (mj, jax))
    want = values_of_jax()[name]
    agree(ours(*of(mj, args)), want)
    agree(mj.jit(ours, backend="plain")(*args), want)
    for a, b in zip(
        mj.make_jaxpr(ours)(*args).out_avals,
        jax.make_jaxpr(theirs)(*args).out_avals,
        strict=True,
    ):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)


# What cannot run under `disable_jit`, in JAX neither.
errors_of_jax = {
    "scan no steps", "fori small ints", "scan weak int carry", "scan weak float, half"
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in programs if n not in errors_of_jax])
def test_under_disable_jit(name):
    """The values are the same; some types of JAX's are not, when Python runs a loop."""
    program, args = programs[name]
    with mj.disable_jit():
        got = program(mj, *of(mj, args))
    for a, b in zip(mj.tree.leaves(got), leaves(values_of_jax()[name]), strict=True):
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
second_order = {"scan", "scan reverse", "fori", "cond true", "map in twos"}
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


def arguments_of(name):
    """-> (the places of the arguments that are floats, these, a tangent of each)."""
    _, args = programs[name]
    floats = [i for i, a in enumerate(args) if is_float(a) and np.size(a) > 1]
    values = tuple(args[i] for i in floats)
    tangents = (np.cos(np.arange(v.size, dtype=f32)).reshape(v.shape) for v in values)
    return floats, values, tuple(tangents)


def derivatives(lib, name):
    """A function of values and tangents, to all that has to agree."""
    program, args = programs[name]
    f = total(lib, program, args, arguments_of(name)[0])

    def found(values, tangents):
        every = tuple(range(len(values)))
        out = {"jvp": lib.jvp(f, values, tangents)}
        if lib is mj or name not in forward_only:
            out["grad"] = lib.grad(f, every)(*values)
        if name in second_order:
            out["hessian"] = lib.hessian(f)(*values)
        return out

    return found


@cache
def derivatives_of_jax():
    return together(
        {name: (derivatives(jax, name), *arguments_of(name)[1:]) for name in smooth}
    )


@pytest.mark.parametrize("name", smooth)
def test_derivatives(name):
    _, values, tangents = arguments_of(name)
    got, want = derivatives(mj, name)(values, tangents), derivatives_of_jax()[name]
    agree(got["jvp"], want["jvp"], rtol=1e-4)
    if name in forward_only:
        slope = sum((g * t).sum() for g, t in zip(got["grad"], tangents, strict=True))
        np.testing.assert_allclose(slope, want["jvp"][1], rtol=1e-4)
        return
    agree(got["grad"], want["grad"], rtol=1e-4)
    if name in second_order:
        agree(got["hessian"], want["hessian"], rtol=1e-3)


def lanes_of(name):
    """Two lanes of each argument, which differ."""
    lanes = [np.stack([a, a]) for a in map(np.asarray, programs[name][1])]
    return [
        np.stack([a[0], (a[1] * 3 // 2 + 1 if a.dtype.kind in "iu" else a[1] * 0.7)])
        .astype(a.dtype) if a.dtype.kind in "iuf" else np.stack([a[0], ~a[1]])
        for a in lanes
    ]  # fmt: skip


@cache
def lanes_of_jax():
    in_lanes = {name: (jax.vmap(in_jax(name)), *lanes_of(name)) for name in programs}
    return together(in_lanes)


@pytest.mark.parametrize("name", programs)
def test_under_vmap(name):
    ours = partial(programs[name][0], mj)
    agree(mj.vmap(ours)(*of(mj, lanes_of(name))), lanes_of_jax()[name])


# ---- jaxprs: the same loops and branches, with the same params and types

numbers = "length reverse unroll num_consts num_carry body_nconsts".split()


def structure(jaxpr):
    """The loops and branches of a jaxpr, those within calls and each other included."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        inner = []
        for key, value in sorted(eqn.params.items()):
            several = value if isinstance(value, (tuple, list)) else [value]
            inner += [(key, j) for j in several if hasattr(j, "jaxpr")]
        parts = [(key, structure(j)) for key, j in inner]
        if eqn.primitive.name not in ("scan", "while", "cond"):
            found += [loop for _, part in parts for loop in part]
            continue
        params = {k: eqn.params[k] for k in numbers if k in eqn.params}
        types = [
            (v.aval.shape, np.dtype(v.aval.dtype), v.aval.weak_type)
            for v in eqn.outvars
        ]
        found.append((eqn.primitive.name, params, types, parts))
    return found


# JAX carries the upper bound of a traced range; here the test captures it.
carries_more = {"fori traced", "fori traced weak", "fori small ints"}


@pytest.mark.parametrize("name", [n for n in programs if n not in carries_more])
def test_jaxprs_have_the_structure_of_jax_s(name):
    program, args = programs[name]
    got, want = (
        structure(lib.make_jaxpr(lambda *args, lib=lib: program(lib, *args))(*args))
        for lib in (mj, jax)
    )
    assert got == want


# ---- errors


def unjitted(lib, call):
    with lib.disable_jit():
        return call()


# Lines of a name and an expression.
wrong = dict(line.split("; ") for line in """\
scan carry dtype; lax.scan(lambda c, _: (c.astype("int32"), None), x, None, length=2)
scan carry structure; lax.scan(lambda c, _: ((c, c), None), x, None, length=2)
scan no pair; lax.scan(lambda c, _: c, x, None, length=2)
scan triple; lax.scan(lambda c, _: (c, c, c), x, None, length=2)
scan lengths differ; lax.scan(lambda c, _: (c, None), x, (np.ones(3), np.ones(4)))
scan length disagrees; lax.scan(lambda c, _: (c, None), x, np.ones(3), length=4)
scan scalar xs; lax.scan(lambda c, _: (c, None), x, 1.0)
scan no length; lax.scan(lambda c, _: (c, None), x, None)
scan not callable; lax.scan(3, x, np.ones(3))
scan unroll neg; lax.scan(lambda c, _: (c, None), x, None, length=3, unroll=-1)
scan string carry; lax.scan(lambda c, _: (c, None), "a", None, length=3)
while carry type; lax.while_loop(lambda c: c.sum() < 3, lambda c: c[:2], x)
while cond not bool; lax.while_loop(lambda c: c, lambda c: c, 1.0)
while cond vector; lax.while_loop(lambda c: c < 0, lambda c: c, x)
while cond tuple; lax.while_loop(lambda c: (True,), lambda c: c, x)
while not callable; lax.while_loop(True, lambda c: c, x)
fori bound dtypes; same_until(lib, np.int8(0), i32(3))
fori bound dtypes traced; lib.jit(partial(same_until, lib))(np.int8(0), i32(3))
fori vector bound; same_until(lib, 0, np.array([1, 2]))
fori body arity; lax.fori_loop(0, 3, lambda c: c, x)
fori not callable; lax.fori_loop(0, 3, None, x)
fori carry; lax.fori_loop(0, 3, lambda i, c: (c, c), x)
fori unroll traced; lib.jit(lambda n: same_until(lib, 0, n, unroll=2))(3)
cond pred vector; lax.cond(x > 0, lambda: 1, lambda: 2)
cond pred string; lax.cond("a", lambda: 1, lambda: 2)
cond pred none; lax.cond(None, lambda: 1, lambda: 2)
cond pred complex; lax.cond(np.complex64(1), lambda: 1, lambda: 2)
cond pred callable; lax.cond(lambda: True, lambda: 1, lambda: 2)
cond branch not callable; lax.cond(True, 1, 2)
cond branch dtypes; lax.cond(True, lambda x: x, lambda x: x.astype("int32"), x)
cond branch structure; lax.cond(True, lambda x: x, lambda x: (x,), x)
cond arity; lax.cond(True, lambda x: x, lambda x, y: x, x)
cond none; lax.cond(True, lambda x: None, lambda x: x, x)
switch float; lax.switch(1.0, [lambda: 1, lambda: 2])
switch vector; lax.switch(np.array([1, 2]), [lambda: 1, lambda: 2])
switch empty; lax.switch(1, [])
switch not callable; lax.switch(1, [1, 2])
switch types; lax.switch(1, [lambda: 1, lambda: 2.0, lambda: x])
switch bool; lax.switch(True, [lambda: 1, lambda: 2])
map scalar; lax.map(lambda x: x, 1.0)
map empty; lax.map(lambda x: x, ())
map sizes; lax.map(lambda x: x[0], (x, x[:2]))
assoc not callable; lax.associative_scan(1, x)
assoc sizes; lax.associative_scan(lambda a, b: a, (x, x[:2]))
assoc axis; lax.associative_scan(lambda a, b: a, x, axis=1)
scan no steps disable_jit; unjitted(lib, lambda: scans(lib, x, xs[:0]))
""".splitlines())


@pytest.mark.parametrize("name", wrong)
def test_errors_are_of_the_types_of_jax_s(name):
    call = of_text("", wrong[name])
    with pytest.raises(Exception) as theirs:
        call(jax)
    with pytest.raises(Exception) as ours:
        call(mj)
    assert type(theirs.value) in type(ours.value).__mro__


def scalars_of(lib):
    """Python numbers, and a scalar of each family and of two widths."""
    names = "int8 int32 uint8 float16 float32 complex64".split()
    scalars = {name: lib.numpy.asarray(1, name) for name in names}
    return {"2": 2, "1.5": 1.5, "1j": 1j, "True": True} | scalars


def carry_of(lib, a, b):
    """A carry that starts as a and goes on as b."""
    return lib.lax.scan(lambda c, _: (b, c), a, None, length=2)


def carry_sum(lib, a, b):
    body = lambda c: (c[0] + b, c[1] + 1)
    return lib.lax.while_loop(lambda c: c[1] < 2, body, (a, 0))


def carry_in_no_step(lib, a, b):
    return lib.lax.scan(lambda c, _: (c * b, None), a, None, length=0)


def bounds(lib, a, b):
    return lib.lax.fori_loop(a, b, lambda i, c: (i, c[1] + 1), (lib.numpy.int32(0), 0))


def traced_bounds(lib, a, b):
    sum_of = lambda a, b: lib.lax.fori_loop(a, b, lambda i, c: c + i, 0)
    return lib.jit(sum_of)(a, b)


# Functions of a library and two scalars, that a mix of dtypes and weak types meets in.
meetings = {
    "cond": lambda lib, a, b: lib.lax.cond(True, lambda: a, lambda: b),
    "switch": lambda lib, a, b: lib.lax.switch(1, [lambda: a, lambda: b, lambda: a]),
    "select": lambda lib, a, b: lib.lax.select(True, a, b),
    "where": lambda lib, a, b: lib.numpy.where(True, a, b),
    "scan": carry_of,
    "scan of no steps": carry_in_no_step,
    "while": carry_sum,
    "fori bounds": bounds,
    "fori traced bounds": traced_bounds,
    "jvp": lambda lib, a, b: lib.jvp(lib.numpy.sin, (a,), (b,)),
    "linearize": lambda lib, a, b: lib.linearize(lib.numpy.sin, a)[1](b),
    "vjp": lambda lib, a, b: lib.vjp(lambda x: lib.numpy.sin(x) * 2, a)[1](b),
}


def outcome(lib, name, a, b):
    """The leaves of a result; the type of an error."""
    try:
        out = meetings[name](lib, a, b)
    except (TypeError, ValueError) as error:
        return type(error)
    return lib.tree_util.tree_leaves(out)


def described(leaves):
    """(values, dtypes, weak types), of numbers that may be Python's own."""
    if isinstance(leaves, type):
        return leaves
    weak = [getattr(y, "weak_type", False) for y in leaves]
    dtypes = [str(y.dtype) for y in leaves]
    values = [complex(y.sum()) for y in leaves if y.dtype.names is None]
    return np.round(values, 4).tolist(), dtypes, weak


def outcomes(lib, name):
    """{pair: the outcome}"""
    given = scalars_of(lib)
    return {f"{a} {b}": described(outcome(lib, name, given[a], given[b]))
            for a, b in itertools.product(given, repeat=2)}  # fmt: skip


@pytest.mark.parametrize("name", meetings)
def test_weak_types_give_way_as_in_jax(name):
    """All pairs: what is promoted, what is an error, and what stays weakly typed."""
    text = Path(__file__).read_text().partition("def scalars_of")[2]
    assert outcomes(mj, name) == kept(f"{name}\n{text}", lambda: outcomes(jax, name))
