"""Tapes and unions in native loops: gradients that are native, and what they cost."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.run import native_tapes
from minijit.trace.array import ShapedArray
from minijit.trace.jit import executors
from minijit.transform.control_flow import cond_p, jaxpr_of, scan_p
from minijit.transform.tape import (
    Tape,
    TapeValue,
    Union,
    UnionValue,
    eval_zero,
    project,
)
from tests.test_control_flow import programs, slope
from tests.test_native_control import agree, allocations, executable, points

pytestmark = pytest.mark.chapter("19s")


@pytest.mark.parametrize("program", programs)
def test_gradients_are_native_and_as_interpreted(program):
    """Residuals on tapes and in unions, nested, and read backwards."""
    f = slope(lambda x: program(lax, x))
    assert executable(f, points[0]).fallbacks == ()
    for x in points:
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
        assert isinstance(tape.items, native_tapes.TableItems)
        assert tape.nbytes == sum(tape[i].nbytes for i in range(len(tape)))
        rows = [np.asarray(tape[i]) for i in range(len(tape))]
        np.testing.assert_array_equal(rows[-1], np.asarray(tape[-1]))
        with pytest.raises(IndexError):
            tape[len(tape)]
    want = mj.vjp(mj.jit(f, backend="eval"), points[0])[1](np.ones(3, "f4"))
    np.testing.assert_allclose(pull_back(np.ones(3, "f4")), want, rtol=1e-5)


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
    branches = [
        jaxpr_of(
            lambda u, k=k: [
                sum(map(sum_of, aval.cases[k], project(k, u)), jnp.float32(0))
            ],
            [aval],
            "branch",
        )
        for k in range(len(aval.cases))
    ]
    return cond_p.bind(np.int32(0), x, branches=tuple(branches))[0]


def real(aval):
    """A value of a type, with numbers in it."""
    if isinstance(aval, ShapedArray):
        return jnp.arange(3.0)
    if isinstance(aval, Tape):
        return TapeValue(aval, [real(aval.element) for _ in range(3)])
    return UnionValue(aval, 0, tuple(map(real, aval.cases[0])))


def every(aval):
    """A Union with values of every case; a tape of a zero, that, and a zero."""
    if isinstance(aval, Union):
        return UnionValue(aval, "every", tuple(tuple(map(real, c)) for c in aval.cases))
    zero = eval_zero(aval=aval.element)
    if isinstance(aval.element, ShapedArray):
        return real(aval)
    middle = every(aval.element)
    return TapeValue(aval, [zero, middle, eval_zero(aval=aval.element)])


@pytest.mark.parametrize("make", [real, every, lambda aval: eval_zero(aval=aval)])
@pytest.mark.parametrize("backend", ["python", "plain"])
@pytest.mark.parametrize("name", table_types)
def test_zeros_of_any_length_and_case_are_read_natively(name, backend, make):
    """A lazy zero is a record like others: no loop is left to Python for its sake."""
    aval = table_types[name]
    closed = jaxpr_of(lambda x: [sum_of(aval, x)], [aval], "f")
    run = executors[backend](closed, "f")
    assert run.fallbacks == ()
    got, want = run(make(aval)), executors["eval"](closed, "f")(make(aval))
    np.testing.assert_allclose(got[0], want[0])


lanes = np.stack(points)
stacks = {
    "vmap": lambda f: lambda x: mj.vmap(f)(lanes * x[0]),
    "vmap-grad": lambda f: lambda x: mj.vmap(slope(f))(lanes * x[0]),
    "grad-checkpoint": lambda f: slope(mj.checkpoint(f)),
    "jvp": lambda f: lambda x: mj.jvp(f, (x,), (x,)),
    "grad-grad": lambda f: slope(slope(f)),
}
# Unions stay in Python where lanes take different branches, and one in a carry does.
unions = {
    "vmap-grad": [programs[i] for i in (0, 2, 9, 10)],
    "grad-grad": [programs[10]],
}


@pytest.mark.parametrize("stack", stacks)
@pytest.mark.parametrize("program", programs)
def test_stacks_of_transformations(program, stack):
    f = stacks[stack](lambda x: program(lax, x))
    run = executors["plain"](mj.make_jaxpr(f)(points[0]), "f")
    if program not in unions.get(stack, ()):
        assert run.fallbacks == ()
    for got, want in zip(
        run(points[0]),
        mj.tree.leaves(mj.jit(f, backend="eval")(points[0])),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_lanes_of_different_lengths_run_natively():
    step = lambda c: (c[0] - 1.0, c[1] + jnp.sqrt(c[0]))
    f = lambda x: lax.while_loop(lambda c: c[0] > 0.5, step, (x, x))[1]
    xs = np.array([0.2, 1.0, 5.0], "f4")
    gradient = mj.grad(lambda xs: jnp.sum(mj.vmap(f)(xs)))
    assert executable(gradient, xs).fallbacks == ()
    agree(gradient, xs)


def test_a_tape_grows_by_doubling():
    """Steps cost no allocation but those of a table that has to be longer."""
    body = lambda c: (c[0] + 1, jnp.sin(c[1]))
    f = lambda x, n: lax.while_loop(lambda c: c[0] < n, body, (0, x))[1]
    gradient = mj.jit(mj.grad(lambda x, n: jnp.sum(f(x, n))))
    counts = [allocations(gradient, points[0], n) for n in (10, 100, 1000, 10_000)]
    tables = counts[0]
    for n, count in zip((100, 1000, 10_000), counts[1:], strict=True):
        doublings = np.ceil(np.log2(n / native_tapes.FIRST_RECORDS))
        assert tables < count <= tables + 2 * doublings


@pytest.mark.parametrize("program", programs)
def test_a_pullback_compiled_alone(program):
    """Its residuals are captured: tapes, unions, and arrays in whatever order."""
    _, pullback = mj.vjp(lambda x: program(lax, x), points[0])
    ones = mj.tree.map(jnp.ones_like, program(lax, points[0]))
    for backend in ("python", "plain"):
        agree(lambda ct: pullback(ct), ones, backend=backend, rtol=1e-4)
    np.testing.assert_allclose(mj.jit(pullback)(ones)[0], pullback(ones)[0], 1e-4)


def test_a_tape_of_arrays_in_another_order():
    def turned(a):
        step = lambda c: (c[0] + 1, jnp.sin(c[1]).T * 1.1)
        return lax.while_loop(lambda c: c[0] < 3, step, (0, a))[1]

    a = np.arange(9, dtype="f4").reshape(3, 3).T
    out, pullback = mj.vjp(turned, a)
    ones = jnp.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(mj.jit(pullback)(ones)[0], pullback(ones)[0], 1e-4)
