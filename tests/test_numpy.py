"""Every public function of `numpy` and `lax`, eagerly: against NumPy, and against jax.

The calls stand in `function_cases.py`.  Values are compared with NumPy's, in double
precision; with jax (`pytest -m oracle`) values, dtypes and weak types.
"""

import functools
import warnings

import function_cases
import ml_dtypes
import numpy as np
import pytest
from function_cases import (
    Case, F, Weak, as_jax, lax_cases, leaves, no_cases, numpy_cases,
)
from referee import kept, said, source_of

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
    values = {name: getattr(module, name) for name in dir(module)}
    return {name for name, x in values.items() if type(x).__name__ == "function"}


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


def test_the_comparison_can_fail():
    case = Case((F(3),))
    with pytest.raises(AssertionError):
        assert_close(np.zeros(3), np.ones(3), case, "different values")
    with pytest.raises(AssertionError):
        assert_close(np.zeros(3), np.zeros((1, 3)), case, "different shapes")


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


oracle_rows = [(p.values[0], p.values[1], p.values[2]) for p in every_case]


def types_of(theirs, name, case):
    """Of a call that can be traced, dtypes, weak types and shapes; None for an error.

    jax knows them without computing.
    """
    import jax

    arrays, function = case.traceable(theirs, name)
    if not case.dynamic or not arrays:
        return ()
    try:
        return list(map(described, leaves(jax.eval_shape(function, *arrays))))
    except Exception:
        return None


def values_of(theirs, name, case):
    """Of a call that NumPy is not asked of, or that is not traced, the result."""
    if case.dynamic and not isinstance(case.numpy, str):
        return ()
    return list(map(said, leaves(case.call(theirs, name))))


@functools.cache
def asked(module, ask):
    """{(name, k): what jax says} of the cases that are jax's too."""

    def answers():
        import jax

        theirs = jax.numpy if module is jnp else jax.lax
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {(name, k): ask(theirs, name, case)
                    for of, name, cases in oracle_rows if of is module
                    for k, case in enumerate(cases) if not case.jax}  # fmt: skip

    text = source_of(function_cases, ask, described, answers)
    return kept(f"{module.__name__}\n{text}", answers)


@pytest.mark.oracle
@pytest.mark.parametrize("module, name, cases", oracle_rows)
def test_same_types_as_jax(module, name, cases):
    pytest.importorskip("jax")
    for k, case in enumerate(cases):
        arrays, function = case.traceable(module, name)
        if case.jax or not case.dynamic or not arrays:
            continue
        message = f"{name}(*{case.args}, **{case.kwargs})"
        if (want := asked(module, types_of)[name, k]) is None:
            with pytest.raises(Exception):  # noqa: B017
                traced(arrays, function)
            continue
        assert list(map(described, traced(arrays, function))) == want, message


@pytest.mark.oracle
@pytest.mark.parametrize("module, name, cases", oracle_rows)
def test_same_values_as_jax(module, name, cases):
    """Values and types where NumPy was not asked, and of a call that is not traced."""
    pytest.importorskip("jax")
    alone = next((c for c in cases if not c.dynamic), None)
    for k, case in enumerate(cases):
        if case.jax or not (isinstance(case.numpy, str) or case is alone):
            continue
        message = f"{name}(*{case.args}, **{case.kwargs})"
        want = asked(module, values_of)[name, k]
        for x, y in zip(leaves(case.call(module, name)), want, strict=True):
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
