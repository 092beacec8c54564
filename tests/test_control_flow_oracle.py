"""Control flow against JAX's: values, types, weak types, derivatives, jaxprs, errors.

Every program is a function of a library (`lib.lax`, `lib.numpy`), and runs in both: in
jax all programs together, in one that is compiled once for values, for derivatives and
for lanes.
"""

import functools
import itertools

import numpy as np
import pytest
from harness import alike
from referee import together

import minijit as mj

pytestmark = [pytest.mark.chapter(22), pytest.mark.oracle]
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


agree = functools.partial(alike, rtol=1e-5, atol=1e-6, weak=True)


def in_jax(name):
    return functools.partial(programs[name][0], jax)


@functools.cache
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


@functools.cache
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


@functools.cache
def lanes_of_jax():
    in_lanes = {name: (jax.vmap(in_jax(name)), *lanes_of(name)) for name in programs}
    return together(in_lanes)


@pytest.mark.parametrize("name", programs)
def test_under_vmap(name):
    ours = functools.partial(programs[name][0], mj)
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


wrong = {
    "scan carry type": lambda lib: lib.lax.scan(
        lambda c, _: (c[:2], None), x, None, length=2
    ),
    "scan carry dtype": lambda lib: lib.lax.scan(
        lambda c, _: (c.astype("int32"), None), x, None, length=2
    ),
    "scan carry structure": lambda lib: lib.lax.scan(
        lambda c, _: ((c, c), None), x, None, length=2
    ),
    "scan no pair": lambda lib: lib.lax.scan(lambda c, _: c, x, None, length=2),
    "scan triple": lambda lib: lib.lax.scan(lambda c, _: (c, c, c), x, None, length=2),
    "scan lengths differ": lambda lib: lib.lax.scan(
        lambda c, _: (c, None), x, (np.ones(3), np.ones(4))
    ),
    "scan length disagrees": lambda lib: lib.lax.scan(
        lambda c, _: (c, None), x, np.ones(3), length=4
    ),
    "scan scalar xs": lambda lib: lib.lax.scan(lambda c, _: (c, None), x, 1.0),
    "scan no length": lambda lib: lib.lax.scan(lambda c, _: (c, None), x, None),
    "scan not callable": lambda lib: lib.lax.scan(3, x, np.ones(3)),
    "scan unroll neg": lambda lib: lib.lax.scan(
        lambda c, _: (c, None), x, None, length=3, unroll=-1
    ),
    "scan string carry": lambda lib: lib.lax.scan(
        lambda c, _: (c, None), "a", None, length=3
    ),
    "while carry type": lambda lib: lib.lax.while_loop(
        lambda c: c.sum() < 3, lambda c: c[:2], x
    ),
    "while carry structure": lambda lib: lib.lax.while_loop(
        lambda c: True, lambda c: (c, c), x
    ),
    "while cond not bool": lambda lib: lib.lax.while_loop(
        lambda c: c, lambda c: c, 1.0
    ),
    "while cond vector": lambda lib: lib.lax.while_loop(
        lambda c: c < 0, lambda c: c, x
    ),
    "while cond tuple": lambda lib: lib.lax.while_loop(
        lambda c: (True,), lambda c: c, x
    ),
    "while not callable": lambda lib: lib.lax.while_loop(True, lambda c: c, x),
    "fori bound dtypes": lambda lib: lib.lax.fori_loop(
        np.int8(0), np.int32(3), lambda i, c: c, x
    ),
    "fori bound dtypes traced": lambda lib: lib.jit(
        lambda a, b: lib.lax.fori_loop(a, b, lambda i, c: c, x)
    )(np.int8(0), np.int32(3)),
    "fori vector bound": lambda lib: lib.lax.fori_loop(
        0, np.array([1, 2]), lambda i, c: c, x
    ),
    "fori body arity": lambda lib: lib.lax.fori_loop(0, 3, lambda c: c, x),
    "fori not callable": lambda lib: lib.lax.fori_loop(0, 3, None, x),
    "fori carry": lambda lib: lib.lax.fori_loop(0, 3, lambda i, c: (c, c), x),
    "fori unroll traced": lambda lib: lib.jit(
        lambda n: lib.lax.fori_loop(0, n, lambda i, c: c, x, unroll=2)
    )(3),
    "cond pred vector": lambda lib: lib.lax.cond(x > 0, lambda: 1, lambda: 2),
    "cond pred string": lambda lib: lib.lax.cond("a", lambda: 1, lambda: 2),
    "cond pred none": lambda lib: lib.lax.cond(None, lambda: 1, lambda: 2),
    "cond pred complex": lambda lib: lib.lax.cond(
        np.complex64(1), lambda: 1, lambda: 2
    ),
    "cond pred callable": lambda lib: lib.lax.cond(lambda: True, lambda: 1, lambda: 2),
    "cond branch not callable": lambda lib: lib.lax.cond(True, 1, 2),
    "cond branch types": lambda lib: lib.lax.cond(
        True, lambda x: x, lambda x: x[:2], x
    ),
    "cond branch dtypes": lambda lib: lib.lax.cond(
        True, lambda x: x, lambda x: x.astype("int32"), x
    ),
    "cond branch structure": lambda lib: lib.lax.cond(
        True, lambda x: x, lambda x: (x,), x
    ),
    "cond arity": lambda lib: lib.lax.cond(True, lambda x: x, lambda x, y: x, x),
    "cond none": lambda lib: lib.lax.cond(True, lambda x: None, lambda x: x, x),
    "switch float": lambda lib: lib.lax.switch(1.0, [lambda: 1, lambda: 2]),
    "switch vector": lambda lib: lib.lax.switch(
        np.array([1, 2]), [lambda: 1, lambda: 2]
    ),
    "switch empty": lambda lib: lib.lax.switch(1, []),
    "switch not callable": lambda lib: lib.lax.switch(1, [1, 2]),
    "switch types": lambda lib: lib.lax.switch(1, [lambda: 1, lambda: 2.0, lambda: x]),
    "switch bool": lambda lib: lib.lax.switch(True, [lambda: 1, lambda: 2]),
    "switch structure": lambda lib: lib.lax.switch(0, [lambda: 1, lambda: (2,)]),
    "map scalar": lambda lib: lib.lax.map(lambda x: x, 1.0),
    "map empty": lambda lib: lib.lax.map(lambda x: x, ()),
    "map sizes": lambda lib: lib.lax.map(lambda x: x[0], (x, x[:2])),
    "assoc not callable": lambda lib: lib.lax.associative_scan(1, x),
    "assoc sizes": lambda lib: lib.lax.associative_scan(lambda a, b: a, (x, x[:2])),
    "assoc axis": lambda lib: lib.lax.associative_scan(lambda a, b: a, x, axis=1),
    "scan no steps disable_jit": lambda lib: unjitted(
        lib, lambda: lib.lax.scan(lambda c, x: (c, x), x, np.ones((0, 3), f32))
    ),
}


@pytest.mark.parametrize("name", wrong)
def test_errors_are_of_the_types_of_jax_s(name):
    with pytest.raises(Exception) as theirs:
        wrong[name](jax)
    with pytest.raises(Exception) as ours:
        wrong[name](mj)
    assert type(theirs.value) in type(ours.value).__mro__


def test_a_traced_length_is_a_concretization_error_in_both():
    for lib in (mj, jax):
        scan = lambda n, lib=lib: lib.lax.scan(lambda c, _: (c, None), x, None, n)
        with pytest.raises(lib.errors.ConcretizationTypeError):
            lib.jit(scan)(3)
        branch = lambda c, _: ((c if c[0] > 0 else c + 1), None)
        with pytest.raises(lib.errors.TracerBoolConversionError):
            lib.lax.scan(branch, x, None, length=2)


def test_odd_arguments_are_taken_as_in_jax():
    scans = [
        lambda lib: lib.lax.scan(lambda c, _: (c + 1, None), x, None, length=-1),
        lambda lib: lib.lax.scan(lambda c, _: (c + 1, None), x, None, length=2.5),
        lambda lib: lib.lax.scan(lambda c, _: (c + 1, None), x, None, 3, unroll=0),
        lambda lib: lib.lax.map(lambda x: x + 1, x, batch_size=0),
        lambda lib: lib.lax.fori_loop(0.0, 3.0, lambda i, c: c + i, x),
    ]
    for scan in scans:
        agree(scan(mj), scan(jax))


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


def outcomes_of_jax(name):
    """{pair: the outcome}: what is no error is computed in one compiled program."""
    given, errors = scalars_of(jax), {}

    def every():
        found = {}
        for a, b in itertools.product(given, repeat=2):
            out = outcome(jax, name, given[a], given[b])
            (errors if isinstance(out, type) else found)[f"{a} {b}"] = out
        return found

    return together({"all": (every,)})["all"] | errors


@pytest.mark.parametrize("name", meetings)
def test_weak_types_give_way_as_in_jax(name):
    """All pairs: what is promoted, what is an error, and what stays weakly typed."""
    given, wanted = scalars_of(mj), outcomes_of_jax(name)
    for a, b in itertools.product(given, repeat=2):
        got = described(outcome(mj, name, given[a], given[b]))
        assert got == described(wanted[f"{a} {b}"]), (a, b)
