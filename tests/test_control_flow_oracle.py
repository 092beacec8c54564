"""Control flow against JAX's: jaxprs, weak types, and loops run by Python.

The programs are those of `module_cases`; `test_every_function` has their values, slopes
and lanes, and `test_jax_words` what JAX refuses.
"""

import itertools
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from module_cases import program_cases
from referee import kept
from test_every_function import asked

import minijit as mj

pytestmark = pytest.mark.chapter(22)

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


@pytest.mark.oracle
@pytest.mark.parametrize("program", [p for p in programs if p not in carries_more])
def test_jaxprs_have_the_structure_of_jax_s(program):
    jax, (name, case) = pytest.importorskip("jax"), programs[program]
    got, want = (
        structure(lib.make_jaxpr(function)(*arrays))
        for lib in (mj, jax)
        for arrays, function in [case.traceable(lib.lax, name)]
    )
    assert got == want


# ---- types that meet


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
    text = Path(__file__).read_text().partition("def scalars_of")[2].partition("@")[0]
    of_jax = lambda: outcomes(import_module("jax"), name)
    assert outcomes(mj, name) == kept(f"{name}\n{text}", of_jax)
