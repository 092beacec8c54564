"""Control flow against JAX's: jaxprs, errors, weak types, and loops run by Python.

The programs are those of `module_cases`; `test_every_function` has their values, slopes
and lanes.
"""

import itertools
from functools import partial  # noqa: F401  Lines below use it.
from pathlib import Path

import numpy as np
import pytest
from module_cases import program_cases
from referee import kept
from test_every_function import asked

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


def same_until(lib, *bounds, **options):
    return lib.lax.fori_loop(*bounds, lambda i, c: c, x, **options)


def of_text(given, text):
    """A function of a library and arguments, which an expression stands for."""
    code = compile(f"lambda {given}: {text}", text, "eval")

    def program(lib, *args):
        names = globals() | {"lib": lib, "lax": lib.lax, "jnp": lib.numpy}
        return eval(code, names)(*args)

    return program


names = "associative_scan cond fori_loop map scan switch while_loop".split()
programs = {
    f"{name} {k}": (name, case)
    for name in names
    for k, case in enumerate(program_cases[name])
}


# A scan of no steps, what is no int32, and types that only tracing makes one.
not_by_python = {"scan 8", "fori_loop 7", "scan 12", "scan 15"}


@pytest.mark.parametrize("program", [p for p in programs if p not in not_by_python])
def test_under_disable_jit(program):
    """The values are the same; some types of JAX's are not, when Python runs a loop."""
    name, case = programs[program]
    wanted = asked("lax", name, program_cases[name])[int(program.split()[1])]
    with mj.disable_jit():
        got = mj.tree.leaves(case.call(mj.lax, name))
    for a, b in zip(got, wanted, strict=True):
        assert np.shape(a) == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


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
carries_more = {"fori_loop 1", "fori_loop 2", "fori_loop 5", "fori_loop 7"}


@pytest.mark.parametrize("program", [p for p in programs if p not in carries_more])
def test_jaxprs_have_the_structure_of_jax_s(program):
    name, case = programs[program]
    got, want = (
        structure(lib.make_jaxpr(function)(*arrays))
        for lib in (mj, jax)
        for arrays, function in [case.traceable(lib.lax, name)]
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
