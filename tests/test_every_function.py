"""Every public function has a value, a gradient, lanes, a compiled call and an error.

Of `numpy` and `lax` the calls of `function_cases` are taken: other files have their
values (`test_numpy`), compiled calls (`test_compiled_functions`) and errors
(`test_bad_input`); here are lanes and derivatives.  Of the other modules each function
stands in a table of a test file, or is called there by its name.
"""

import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from function_cases import (
    Weak,
    collect,
    find,
    lax as lax_of,
    lax_cases,
    numpy_cases,
    replace,
)

import minijit as mj
import minijit.lax as lax
import minijit.numpy as jnp

pytestmark = pytest.mark.chapter(15)

# Functions whose slope is not looked at here: why.
no_slope = {
    "spacing": "a step over bits has none",
    "nextafter": "a step over bits has none",
    "reduce_precision": "its slope is that of what is rounded",
    "igamma_grad_a": "not by a, as in JAX",
    "random_gamma_grad": "not by a, as in JAX",
    "betainc": "not by a and b, as in JAX",
    "polygamma": "not by its order",
    "scatter_mul": "only of indices that differ",
    "pad": "the value beside its array keeps a dtype of its own",
}


def in_doubles(a, k):
    """A case's array off the grid on which functions have corners and ties."""
    if isinstance(a, Weak):
        return np.full(a.shape, a.value)
    if a.dtype.kind not in "fVc":
        return a
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    moved = 0.013 + 0.07 * np.cos(np.arange(a.size) * 1.7 + k)
    return wide + moved.reshape(a.shape)


def calls():
    """(name, function of arrays, the arrays): the first call of each that has some."""
    for module, table in ((jnp, numpy_cases), (lax, lax_cases)):
        for name, cases in table.items():
            for case in (c for c in cases if c.dynamic):
                found = []
                collect((case.args, case.kwargs), found)
                if any(not isinstance(a, Weak) and a.size for a in found):
                    label = f"{module.__name__.removeprefix('minijit.')}.{name}"
                    arrays = [in_doubles(a, k) for k, a in enumerate(found)]
                    function = called(module, name, case)
                    yield pytest.param(name, function, arrays, id=label)
                    break


def called(module, name, case):
    """A case's call, as a function of its arrays: -> the arrays of the result."""

    def function(*arrays):
        given = case.args, case.kwargs
        args, kwargs = replace(given, iter(arrays), lax_of(module))
        leaves = mj.tree.leaves(find(module, name)(*args, **kwargs))
        return [y for y in leaves if isinstance(y, mj.Array)]

    return function


every = list(calls())


@pytest.fixture(autouse=True)
def doubles():
    with mj.enable_x64(True):
        yield


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, function, arrays", every)
def test_lanes_are_single_calls(name, function, arrays):
    if name == "pad":
        pytest.skip(no_slope[name])
    lanes = [np.stack([a, a[..., ::-1] if a.ndim else a]) for a in arrays]
    found = mj.vmap(function)(*lanes)
    for i in range(2):
        single = function(*(x[i] for x in lanes))
        for got, want in zip(found, single, strict=True):
            np.testing.assert_allclose(got[i], want, rtol=1e-9, atol=1e-9)


def of_floats(function, arrays):
    """-> (a function of the arrays of floats, to results of floats; those arrays)."""
    places = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]

    def restricted(*floats):
        full = list(arrays)
        for i, x in zip(places, floats, strict=True):
            full[i] = x
        return [y for y in function(*full) if y.dtype.kind in "fc"]

    return restricted, [arrays[i] for i in places]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, function, arrays", every)
def test_slopes_are_those_of_the_values(name, function, arrays):
    """Forward against a difference quotient, reverse against forward."""
    function, at = of_floats(function, arrays)
    if name in no_slope or not at or not function(*at):
        pytest.skip(no_slope.get(name, "no floats"))
    way = [np.cos(np.arange(x.size) + 1.0).reshape(x.shape) for x in at]
    moved = lambda h: function(*(x + h * w for x, w in zip(at, way, strict=True)))
    values, slopes = mj.jvp(function, tuple(at), tuple(way))
    step = 1e-6
    rows = zip(values, slopes, moved(step), moved(-step), strict=True)
    for value, slope, up, down in (map(np.asarray, row) for row in rows):
        finite = np.isfinite(value) & np.isfinite(slope)
        want, slope = ((up - down) / (2 * step))[finite], slope[finite]
        scale = max(1, np.abs(slope).max(initial=0))
        np.testing.assert_allclose(slope, want, rtol=1e-4, atol=1e-5 * scale)
    if all(y.dtype.kind == "f" for y in values):
        whole, back = mj.vjp(function, *at)
        cts = [np.where(np.isfinite(y), np.cos(np.arange(y.size)).reshape(y.shape), 0.0)
               for y in whole]  # fmt: skip
        dot = lambda xs, ys: sum((x * y).sum() for x, y in zip(xs, ys, strict=True))
        got, want = dot(back(cts), way), dot(slopes, cts)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


# ---- the other modules

here = Path(__file__).parent
# module -> the files whose tables and tests have its functions.
files = {
    "numpy.linalg": "test_linalg function_cases",
    "numpy.fft": "test_fft",
    "lax": "function_cases test_lax_functions test_documented_vmap test_control_flow "
    "test_control_flow_oracle test_documented_control_flow test_batching test_implicit "
    "test_ops test_scalar_functions test_special test_lifetimes test_fuse",
    "ops.linalg": "test_linalg test_lax_functions test_scipy",
    "nn": "test_nn",
    "nn.initializers": "test_nn",
    "random": "test_random test_documented_random test_lax_functions",
    "ops": "test_lax_functions",
    "flatten_util": "test_training_tools",
    "experimental.ode": "test_training_tools",
    "scipy.special": "test_special test_scipy",
    "scipy.cluster.vq": "test_scipy",
    "scipy.linalg": "test_scipy",
    "scipy.signal": "test_scipy",
    "scipy.fft": "test_scipy",
    "scipy.optimize": "test_scipy",
    "scipy.sparse.linalg": "test_scipy",
    "scipy.ndimage": "test_scipy",
    "scipy.integrate": "test_scipy",
    "scipy.stats": "test_scipy",
}
# What stands in one of these modules for others of the library; geqrf is `qr`, raw.
inner = "with_sharding_constraint geqrf".split()


def words(names):
    """The words in some test files."""
    paths = (here / f"{name}.py" for name in names.split())
    return set(re.findall(r"\w+", "".join(p.read_text() for p in paths)))


@pytest.mark.chapter(24)
@pytest.mark.parametrize("module, names", files.items())
def test_every_function_is_called_by_a_test(module, names):
    found = importlib.import_module(f"minijit.{module}")
    functions = [
        name
        for name in dir(found)
        if not name.startswith("_") and inspect.isfunction(getattr(found, name))
    ]
    if module == "ops.linalg":
        # The module of `lax.linalg`, where rules stand as well.
        of_jax = lambda name: "jax.lax.linalg" in str(getattr(found, name).__doc__)
        functions = list(filter(of_jax, functions))
    assert len(functions) > 0
    assert sorted({*functions} - words(names) - {*inner}) == []
