"""Every public function of `numpy` and `lax`, eagerly: against NumPy, and against jax.

The calls stand in `function_cases.py`.  Values are compared with NumPy's, in double
precision; with jax (`pytest -m oracle`) values, dtypes and weak types.
"""

import functools
import warnings

import ml_dtypes
import numpy as np
import pytest
from function_cases import (
    Case, F, Weak, as_jax, collect, lax_cases, leaves, no_cases, numpy_cases,
)
from referee import arrays_of, together

import minijit.lax as lax
import minijit.numpy as jnp
from minijit.trace.array import ArrayImpl, aval_of, shape_rules
from minijit.trace.core import Array, Trace, Tracer, set_trace

pytestmark = pytest.mark.chapter(3)

tolerances = {"float16": 4e-3, "bfloat16": 4e-2}
every_case = [
    pytest.param(module, name, cases, id=f"{module.__name__.split('.')[-1]}.{name}")
    for module, table in ((jnp, numpy_cases), (lax, lax_cases))
    for name, cases in table.items()
]


def tolerance(case, *arrays):
    """How far two results may be apart, relatively and absolutely."""
    if case.tolerance is not None:
        return case.tolerance
    return max(tolerances.get(x.dtype.name, 2e-5) for x in arrays)


def comparable(x):
    """A NumPy array in which NumPy can compute."""
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype == ml_dtypes.bfloat16 else x


def assert_close(got, want, case, message):
    """Equal shapes, and values that are close, NaNs in the same places."""
    limit = tolerance(case, np.asarray(got), np.asarray(want))
    got, want = comparable(got), comparable(want)
    assert got.shape == want.shape, message
    if got.dtype.kind in "OSU":
        assert str(got) == str(want), message
        return
    with np.errstate(all="ignore"):
        close = np.allclose(got, want, limit, limit, equal_nan=True)
    assert close, f"{message}\n got {got}\nwant {want}"


@pytest.mark.chapter(16)
@pytest.mark.parametrize("module, name, cases", every_case)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_same_values_as_numpy(module, name, cases):
    """Each case runs; where NumPy has an answer, it is the same one."""
    for case in cases:
        got = leaves(case.call(module, name))
        want = case.reference(name)
        if want is None:
            assert isinstance(case.numpy, str)
            assert case.numpy.startswith("skip: ")
            continue
        want = leaves(want)
        message = f"{name}(*{case.args}, **{case.kwargs})"
        assert len(got) == len(want), message
        for x, y in zip(got, want, strict=True):
            assert_close(x, y, case, message)


# Later chapters add functions to `lax`: `scan` and its kind have tests of their own.
rooms = "primitives elementwise indexing windows sorting".split()
homes = {"minijit.lax", *[f"minijit.trace.{room}" for room in rooms]}
helpers = {"from_front", "fold", "dilated_size", "transposed_padding", "starts_along"}
# Of a function comes a function: it is tested in `test_lax_functions`.
helpers |= {"composite"}


# What later chapters put into the same modules, with tests of their own.
later = {"apply_along_axis", "vectorize"}


def functions_of(module):
    """The public functions that chapters 3 and 2s put into a module."""
    return {
        name
        for name, value in vars(module).items()
        if name in dir(module) and type(value).__name__ == "function"
    }


@pytest.mark.chapter(16)
def test_no_public_function_is_without_a_case():
    """The table has a row for each function, and no row for anything else."""
    from test_linalg import cases as linalg_cases

    strict = {n for n in functions_of(lax) if getattr(lax, n).__module__ in homes}
    assert strict - set(lax_cases) <= helpers
    assert functions_of(jnp) - set(numpy_cases) - later == set(no_cases)
    decomposed = {f"linalg.{name}" for name, *_ in linalg_cases}
    wanted = {f"linalg.{name}" for name in jnp.linalg.__all__}
    assert wanted - {*numpy_cases} - decomposed == {"linalg.eig", "linalg.matrix_rank"}
    for module, table in ((jnp, numpy_cases), (lax, lax_cases)):
        assert {name.split(".")[0] for name in table} <= set(dir(module))
        assert all(cases for cases in table.values())


@pytest.mark.chapter(16)
def test_there_are_as_many_functions_as_promised():
    functions = [n for n in jnp.__all__ if callable(getattr(jnp, n))]
    assert len(functions) >= 300
    assert sum(len(cases) for cases in numpy_cases.values()) >= 2500


def test_numpy_is_asked_about_most_functions():
    """A skip is the exception: it stands for a difference that JAX has on purpose."""
    asked = [
        name
        for name, cases in numpy_cases.items()
        if any(not isinstance(case.numpy, str) for case in cases)
    ]
    assert len(asked) >= 0.9 * len(numpy_cases)


def test_the_comparison_can_fail():
    case = Case((F(3),))
    with pytest.raises(AssertionError):
        assert_close(np.zeros(3), np.ones(3), case, "different values")
    with pytest.raises(AssertionError):
        assert_close(np.zeros(3), np.zeros((1, 3)), case, "different shapes")


def test_cases_can_be_traced():
    """`traceable` splits a call into its arrays and a function of them."""
    case = Case(([F(2), Weak(1.0, (2,))],), {"axis": 0})
    arrays, function = case.traceable(jnp, "concatenate")
    assert [x.weak_type for x in arrays] == [False, True]
    assert function(*arrays).shape == (4,)
    found = []
    collect(case.args, found)
    assert len(found) == 2


class ShapeTrace(Trace):
    """Computes types only: no array that is an argument has a known value."""

    def process(self, primitive, args, params):
        out = shape_rules[primitive](*map(aval_of, args), **params)
        avals = out if primitive.multiple_results else [out]
        return [Tracer(self, aval) for aval in avals]


def traced(arrays, function):
    """The types of a call's results, when its arrays are arguments of a trace."""
    trace = ShapeTrace()
    with set_trace(trace):
        return leaves(function(*[Tracer(trace, aval_of(x)) for x in arrays]))


@pytest.mark.chapter(16)
@pytest.mark.parametrize("module, name, cases", every_case)
def test_traced_calls_have_the_types_of_eager_ones(module, name, cases):
    """Nothing asks for the value of a traced array; the types come out equal."""
    for case in cases:
        arrays, function = case.traceable(module, name)
        if not case.dynamic or not arrays:
            continue
        want = [(x.shape, x.dtype) for x in leaves(function(*arrays)) if is_array(x)]
        got = traced(arrays, function)
        message = f"{name}(*{case.args}, **{case.kwargs})"
        assert [(x.shape, x.dtype) for x in got if is_array(x)] == want, message


def is_array(x):
    return isinstance(x, Array)


def described(x):
    """What is compared with jax: dtype, weak type, shape; or a type of Python's."""
    if hasattr(x, "weak_type"):
        return x.dtype.name, bool(x.weak_type), x.shape
    return type(x).__name__


def jax_result(function):
    """The leaves of a result, or the exception's class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return leaves(function()), None
        except Exception as error:
            return None, error


oracle_rows = [(p.values[0], p.values[1], p.values[2]) for p in every_case]


@pytest.mark.oracle
@pytest.mark.parametrize("module, name, cases", oracle_rows)
def test_same_types_as_jax(module, name, cases):
    """dtypes, weak types and shapes, which jax knows without computing."""
    jax = pytest.importorskip("jax")
    theirs = jax.numpy if module is jnp else jax.lax
    for case in cases:
        if case.jax or not case.dynamic:
            continue
        arrays, function = case.traceable(theirs, name)
        if not arrays:
            continue
        want, error = jax_result(lambda f=function, xs=arrays: jax.eval_shape(f, *xs))
        message = f"{name}(*{case.args}, **{case.kwargs}): {error}"
        if error is not None:
            with pytest.raises(Exception):  # noqa: B017
                traced(*case.traceable(module, name))
            continue
        got = traced(*case.traceable(module, name))
        assert list(map(described, got)) == [
            described(x) if hasattr(x, "dtype") else type(x).__name__ for x in want
        ], message


@functools.cache
def asked(module):
    """{(name, k): what jax says} where NumPy was not asked: in one compiled program."""
    import jax

    theirs, programs = jax.numpy if module is jnp else jax.lax, {}
    for _, name, cases in (row for row in oracle_rows if row[0] is module):
        for k, case in enumerate(cases):
            if isinstance(case.numpy, str) and case.dynamic and not case.jax:
                arrays, function = case.traceable(theirs, name)
                programs[name, k] = arrays_of(function), *arrays
    return together(programs)


@pytest.mark.oracle
@pytest.mark.parametrize("module, name, cases", oracle_rows)
def test_same_values_as_jax(module, name, cases):
    """Values and types where NumPy was not asked, and of a call that is not traced."""
    jax = pytest.importorskip("jax")
    theirs = jax.numpy if module is jnp else jax.lax
    alone = next((c for c in cases if not c.dynamic), None)
    for k, case in enumerate(cases):
        if case.jax or not (isinstance(case.numpy, str) or case is alone):
            continue
        got = leaves(case.call(module, name))
        if case.dynamic:
            got, want = [x for x in got if is_array(x)], asked(module)[name, k]
        else:
            want, error = jax_result(lambda c=case: c.call(theirs, name))
            assert error is None, error
        message = f"{name}(*{case.args}, **{case.kwargs})"
        for x, y in zip(got, want, strict=True):
            if hasattr(y, "weak_type"):
                assert described(x) == described(y), message
                assert_close(x, y, case, message)


def test_results_are_arrays():
    assert isinstance(jnp.sin(F(3)), ArrayImpl)
    assert isinstance(jnp.ones(2), jnp.ndarray)
    assert jnp.ndarray is Array


def test_weak_arguments_are_weak():
    weak, strong = as_jax((Weak(2), F(2)), jnp)
    assert weak.weak_type
    assert not strong.weak_type
