"""Tapes and unions in native loops: gradients that are native, and what they cost."""

import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.run.python import region_launchers, regions as python_regions, table_values
from minijit.trace.array import ShapedArray, aval_of
from minijit.trace.jit.jit import executors
from minijit.transform.control_flow.api import cond_p, scan_p
from minijit.transform.control_flow.batching import (
    select_lanes_p, spread_p, sum_lanes_p,
)
from minijit.transform.control_flow.tape_rules import eval_zero, zero_p
from minijit.transform.control_flow.unions_and_tapes import (
    Tape, TapeValue, Union, UnionValue, inject, project,
)
from minijit.transform.derivatives.linearize import add_any_p
from minijit.transform.pieces import jaxpr_of
from tests.test_control_flow import a_cond, a_while_in_a_cond_in_a_scan, programs, slope
from tests.test_native_control import agree, allocations, executable, points, sources

pytestmark = pytest.mark.chapter(22)


# Compiled by numba is a sample: a branch, and a loop in a branch in a scan.  All
# run as plain Python below, and through LLVM in `test_regions`.
by_numba = programs[::10]


@pytest.mark.parametrize("program", programs)
def test_gradients_are_native_and_as_interpreted(program):
    """Residuals on tapes and in unions, nested, and read backwards."""
    f = slope(lambda x: program(lax, x))
    assert executable(f, points[0]).fallbacks == ()
    for x in points if program in by_numba else ():
        agree(f, x, rtol=1e-4)


@pytest.mark.parametrize("program", programs)
def test_gradients_as_plain_python(program):
    for x in points:
        agree(slope(lambda x: program(lax, x)), x, backend="plain", rtol=1e-4)


def test_a_tape_is_one_array_that_python_can_read():
    f = mj.jit(lambda x: lax.while_loop(lambda c: c[0] < 100, lambda c: c * c + 1, x))
    _, pull_back = mj.vjp(f, points[0])
    tapes = [t for t in mj.tree.leaves(pull_back) if isinstance(t, TapeValue)]
    assert tapes
    for tape in tapes:
        assert len(tape) == 5  # 1.09, 2.19, 5.79, 34.5, 1192
        assert isinstance(tape.items, table_values.TableItems)
        assert tape.nbytes == sum(tape[i].nbytes for i in range(len(tape)))
        rows = [np.asarray(tape[i]) for i in range(len(tape))]
        np.testing.assert_array_equal(rows[-1], np.asarray(tape[-1]))
        with pytest.raises(IndexError):
            tape[len(tape)]
    want = mj.vjp(mj.jit(f, backend="eval"), points[0])[1](np.ones(3, "f4"))
    np.testing.assert_allclose(pull_back(np.ones(3, "f4")), want, rtol=1e-5)


def branch_in_a_branch(x):
    """More steps than a table has rows at first, and what is kept and used as well."""

    def inner(c):
        return lax.cond(c[1] > 0.3, lambda c: jnp.exp(-c), lambda c: c * c + x, c)

    def body(c, a):
        outer = lambda c: jnp.sin(inner(jnp.cos(c)))
        return lax.cond(c[0] > 0.1, outer, lambda c: c + a, c), None

    return lax.scan(body, x, jnp.linspace(0.1, 0.5, 40))[0]


def test_residuals_are_written_where_they_are_kept():
    """A union in a union in a tape: four tables of vectors, and no copies of them."""
    mj.clear_caches()
    agree(slope(branch_in_a_branch), points[0], backend="plain", rtol=1e-4)
    forward = max(sources(), key=len)
    assert forward.count(f"np.empty(({python_regions.FIRST_ROWS}, 3)") == 4
    agree(slope(branch_in_a_branch), points[1], backend="plain", rtol=1e-4)


def test_an_array_that_was_given_is_copied_into_a_union():
    closed = jaxpr_of(lambda x: [handed_on(vector, x)], [vector], "f")
    run, wanted = executors["plain"](closed, "f"), executors["eval"](closed, "f")
    alike(run(points[0]), wanted(points[0]), rtol=1e-5)


@pytest.mark.parametrize("program", [a_cond, a_while_in_a_cond_in_a_scan])
def test_a_step_may_take_gradients(program):
    """Descent in a loop: the tapes and unions of a step are gone after it."""
    g = slope(lambda x: program(lax, x))
    descent = lambda x: lax.fori_loop(0, 3, lambda i, x: x - 0.1 * g(x), x)
    assert executable(descent, points[0]).fallbacks == ()
    agree(descent, points[0], backend="plain", rtol=1e-4)


def test_second_derivatives_are_native():
    f = slope(slope(lambda x: programs[0](lax, x)))
    assert executable(f, points[0]).fallbacks == ()
    agree(f, points[0], rtol=1e-3)


vector = ShapedArray((3,), np.dtype("float32"))
table_types = {
    "Tape": Tape(vector),
    "Tape of Tapes": Tape(Tape(vector)),
    "Tape of Unions": Tape(Union(((vector, Tape(vector)), (vector,)))),
    "Union": Union(((vector, vector), (Tape(vector),), ())),
    "Every": Union(((vector, Tape(vector)), (vector,), ()), every=True),
    "Tape of Everys": Tape(Union(((vector,), (Tape(vector),)), every=True)),
}


def sum_of(aval, x):
    """A number that every value in a tape or union goes into, by loops and branches."""
    if isinstance(aval, ShapedArray):
        return jnp.sum(x)
    if isinstance(aval, Tape):
        body = lambda total, item: [lax.add(total, sum_of(aval.element, item))]
        number = ShapedArray((), np.dtype("float32"))
        closed = jaxpr_of(body, [number, aval.element], "body")
        params = dict(length=3, reverse=False, num_consts=0, num_carry=1, unroll=1)
        return scan_p.bind(np.float32(0), x, jaxpr=closed, **params)[0]
    def cases(*which):
        """A function of the union that opens it as those."""
        total = lambda u, k: sum(map(sum_of, aval.cases[k], project(k, u)), zero)
        return jaxpr_of(lambda u: [sum((total(u, k) for k in which), zero)], [aval], "")

    zero, n = jnp.float32(0), len(aval.cases)
    branches = [cases(*range(n))] if aval.every else map(cases, range(n))
    return cond_p.bind(np.int32(0), x, branches=tuple(branches))[0]


def real(aval):
    """A value of a type, with numbers in it."""
    if isinstance(aval, ShapedArray):
        return jnp.arange(3.0)
    if isinstance(aval, Tape):
        return TapeValue(aval, [real(aval.element) for _ in range(3)])
    cases = tuple(tuple(map(real, case)) for case in aval.cases)
    return UnionValue(aval, cases) if aval.every else one_case(aval)


def one_case(aval):
    """A Union of its first case; where there is one of every case, the rest is zero."""
    first, *others = aval.cases
    return UnionValue(aval, (tuple(map(real, first)), *(None for _ in others)))


def mixed(aval):
    """A tape of a zero, of what is left of a real value, and of a zero."""
    if isinstance(aval, Union):
        return one_case(aval)
    if isinstance(aval.element, ShapedArray):
        return real(aval)
    zero = eval_zero(aval=aval.element)
    return TapeValue(aval, [zero, mixed(aval.element), zero])


# One program takes values of all kinds, so it is compiled once for them.
makers = {"real": real, "mixed": mixed, "zero": lambda aval: eval_zero(aval=aval)}


def check_values_of_all_kinds(backend, closed, arguments):
    """A program is native, and gives what it gives interpreted, for all values.

    `arguments` makes those of a kind: it is called with the function in `makers`.
    """
    run, wanted = executors[backend](closed, "f"), executors["eval"](closed, "f")
    assert run.fallbacks == ()
    for kind, make in makers.items():
        args = arguments(make)
        np.testing.assert_allclose(run(*args)[0], wanted(*args)[0], err_msg=kind)


by_llvm = pytest.mark.chapter(23)


def compiled_by(*by_numba):
    """Pairs of a type and an executor.

    numba takes many seconds for tables within tables: it is asked for the types named.
    """
    found = [(name, "plain") for name in table_types]
    found += [pytest.param(name, "llvm", marks=by_llvm) for name in table_types]
    return found + [(name, "python") for name in by_numba]


@pytest.mark.parametrize("name, backend", compiled_by("Union"))
def test_zeros_of_any_length_and_case_are_read_natively(name, backend):
    """A lazy zero is a record like others: no loop is left to Python for its sake."""
    aval = table_types[name]
    closed = jaxpr_of(lambda x: [sum_of(aval, x)], [aval], "f")
    check_values_of_all_kinds(backend, closed, lambda make: [make(aval)])


def branch(f, *avals):
    """A branch that is taken: native, whatever the types of its results."""
    closed = jaxpr_of(f, avals, "branch")
    return lambda *args: cond_p.bind(np.int32(0), *args, branches=(closed,))


def handed_on(aval, x):
    """Returned as it was given, twice, and once more after it was put into a union."""
    union = Union(((aval, aval), (aval,)))
    wrapped, = branch(lambda x: [inject(1, union, [x])], aval)(x)
    both = lambda u, x: [x, *project(1, u), x, inject(0, union, [x, *project(1, u)])]
    *outs, again = branch(both, union, aval)(wrapped, x)
    opened = branch(lambda u: project(0, u), union)(again)
    return sum((sum_of(aval, out) for out in [*outs, *opened]), jnp.float32(0))


@pytest.mark.parametrize("name, backend", compiled_by("Tape"))
def test_tapes_and_unions_are_handed_on_natively(name, backend):
    """A copy of a tape is a copy of its items, and of what those refer to."""
    aval = table_types[name]
    closed = jaxpr_of(lambda x: [handed_on(aval, x)], [aval], "f")
    check_values_of_all_kinds(backend, closed, lambda make: [make(aval)])


some_lanes = ShapedArray((3,), np.dtype(bool))
on_arrays = {
    "sum": lambda x, y, p: add_any_p.bind(x, y),
    "sum with a zero": lambda x, y, p: add_any_p.bind(zero_p.bind(aval=aval_of(x)), y),
    "select": lambda x, y, p: select_lanes_p.bind(p, x, y),
    "spread": lambda x, y, p: spread_p.bind(x, size=2, axis=1),
    "sum of lanes": lambda x, y, p: sum_lanes_p.bind(x, axis=0),
    "sum of spread": lambda x, y, p: sum_lanes_p.bind(
        spread_p.bind(y, size=5, axis=0), axis=1
    ),
}


# By numba the one that asks most of it, and one of two of them.
of_types = [(name, "plain", of) for name in table_types for of in on_arrays]
of_types += [pytest.param(k, "llvm", of, marks=by_llvm) for k, _, of in of_types]
of_types += [("Union", "python", of) for of in ("select", "sum of spread")]


@pytest.mark.parametrize("name, backend, of", of_types)
def test_functions_of_the_arrays_within(name, backend, of):
    aval = table_types[name]
    inside = branch(lambda x, y, p: [on_arrays[of](x, y, p)], aval, aval, some_lanes)

    def f(x, y, p):
        out, = inside(x, y, p)
        return [sum_of(aval_of(out), out)]

    def arguments(make):
        other = mixed if "select" in str(closed) and make is mixed else real
        return make(aval), other(aval), np.array([True, False, True])

    closed = jaxpr_of(f, [aval, aval, some_lanes], "f")
    check_values_of_all_kinds(backend, closed, arguments)


@pytest.mark.parametrize("name", table_types)
def test_what_a_loop_made_is_not_copied_for_the_next_one(name):
    aval = table_types[name]
    columns = table_values.encode(aval, [real(aval)])
    value = table_values.decoder(aval, list(columns))(0)
    again = table_values.encode(aval, [value])
    assert len(again) == len(columns)
    for x, y in zip(again, columns, strict=True):
        assert x is y or np.array_equal(x, y) and x.ndim == 1
        assert np.shares_memory(x, y) or x.size == 0 or x.dtype == np.int64
    assert any(map(np.shares_memory, again, columns))


def test_a_tape_returned_twice_or_as_it_was_given():
    for name, aval in table_types.items():
        closed = jaxpr_of(lambda x: [x, x], [aval], "f")
        value = real(aval)
        for got in executors["python"](closed, "f")(value):
            assert got is value, name


lanes = np.stack(points)
stacks = {
    "vmap": lambda f: lambda x: mj.vmap(f)(lanes * x[0]),
    "vmap-grad": lambda f: lambda x: mj.vmap(slope(f))(lanes * x[0]),
    "grad-checkpoint": lambda f: slope(mj.checkpoint(f)),
    "jvp": lambda f: lambda x: mj.jvp(f, (x,), (x,)),
    "grad-grad": lambda f: slope(slope(f)),
    "vmap-grad-grad": lambda f: lambda x: mj.vmap(slope(slope(f)))(lanes * x[0]),
    "grad-vmap-grad": lambda f: slope(lambda x: mj.vmap(slope(f))(lanes * x)),
}
outside = "tapes and unions outside of loops are left to Python"


@pytest.mark.parametrize("stack", stacks)
@pytest.mark.parametrize("program", programs)
def test_stacks_of_transformations(program, stack):
    f = stacks[stack](lambda x: program(lax, x))
    run = executors["plain"](mj.make_jaxpr(f)(points[0]), "f")
    # Where lanes take different branches outside of any loop, that is joined in Python.
    assert all(reason == outside for _, reason in run.fallbacks)
    alike(run(points[0]), mj.tree.leaves(mj.jit(f, backend="eval")(points[0])),
          rtol=1e-3, atol=1e-5)  # fmt: skip


def test_a_residual_that_is_a_constant():
    """An index that is always 0: it goes into the union of its branch as it is."""

    def f(x):
        def body(c, _):
            first = lambda: c.at[jnp.argmax(c) * 0].set(c[1])
            return lax.cond(c[0] > 0.1, first, lambda: c), None

        return jnp.sum(lax.scan(body, x, None, length=3)[0])

    agree(mj.vmap(mj.grad(f)), np.ones((2, 3), "f4"))


def test_lanes_of_different_lengths_run_natively():
    step = lambda c: (c[0] - 1.0, c[1] + jnp.sqrt(c[0]))
    f = lambda x: lax.while_loop(lambda c: c[0] > 0.5, step, (x, x))[1]
    xs = np.array([0.2, 1.0, 5.0], "f4")
    gradient = mj.grad(lambda xs: jnp.sum(mj.vmap(f)(xs)))
    assert executable(gradient, xs).fallbacks == ()
    agree(gradient, xs)


def test_tapes_of_different_elements_are_traced_apart():
    traced = []
    same = mj.jit(lambda xs: traced.append(xs) or xs)
    loop = lambda x: lax.while_loop(lambda x: x.sum() < 9, lambda x: x * x + 1, x)
    for x in (jnp.float32(1), jnp.ones(3)):
        _, pull_back = mj.vjp(loop, x)
        tape, = mj.tree_util.tree_leaves(pull_back)
        assert same([tape])[0].aval == tape.aval
    assert len(traced) == 2


def test_a_tape_grows_by_doubling():
    """Steps cost no allocation but those of a table that has to be longer."""
    body = lambda c: (c[0] + 1, jnp.sin(c[1]))
    f = lambda x, n: lax.while_loop(lambda c: c[0] < n, body, (0, x))[1]
    gradient = mj.jit(mj.grad(lambda x, n: jnp.sum(f(x, n))), backend="python")
    counts = [allocations(gradient, points[0], n) for n in (10, 100, 1000, 10_000)]
    first = counts[0]
    for n, count in zip((100, 1000, 10_000), counts[1:], strict=True):
        doublings = np.ceil(np.log2(n / python_regions.FIRST_ROWS))
        assert first < count <= first + 2 * doublings


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 0)])
def test_making_a_table_longer_is_little_code(shape):
    """Lines of LLVM, which is what its first call waits for: 700; of slices 5,000."""
    numba = pytest.importorskip("numba")
    native, table = numba.njit(region_launchers.longer), np.ones(shape, "f4")
    for longer in (native, region_launchers.longer):
        more = longer(table, 5)
        assert more.shape == (8, *shape[1:]) and np.all(more[:4] == 1)
        assert longer(table, 24).shape == (24, *shape[1:])
    (text,) = native.inspect_llvm().values()
    assert text.count("\n") < 1500


@pytest.mark.parametrize("program", programs)
def test_a_pullback_compiled_alone(program):
    """Its residuals are captured: tapes, unions, and arrays in whatever order."""
    _, pullback = mj.vjp(lambda x: program(lax, x), points[0])
    ones = mj.tree.map(jnp.ones_like, program(lax, points[0]))
    for backend in ("plain", "python") if program in by_numba else ("plain",):
        agree(lambda ct: pullback(ct), ones, backend=backend, rtol=1e-4)
    np.testing.assert_allclose(mj.jit(pullback)(ones)[0], pullback(ones)[0], 1e-4)


@pytest.mark.parametrize("n", [3, 0])
def test_a_tape_of_arrays_in_another_order(n):
    def turned(a):
        step = lambda c: (c[0] + 1, jnp.sin(c[1]).T * 1.1)
        return lax.while_loop(lambda c: c[0] < 3, step, (0, a))[1]

    a = np.arange(9, dtype="f4").reshape(3, 3).T[:n, :n]
    out, pullback = mj.vjp(mj.jit(turned), a)
    ones = jnp.arange(9.0).reshape(3, 3)[:n, :n]
    np.testing.assert_allclose(mj.jit(pullback)(ones)[0], pullback(ones)[0], 1e-4)
