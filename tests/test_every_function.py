"""Every public function has values, types, a gradient, lanes, compiled calls, an error.

The calls are those of tables: a function without a row in one of them is found here.
What jax says of them is stored, so that it judges where it is not installed, too.
`test_bad_input` spoils the arguments of every table, and `test_llvm` compiles them.
"""

import importlib
import inspect
import re
import zlib
from pathlib import Path

import module_cases
import numpy as np
import pytest
import test_linalg
import test_scipy
from bad_calls import all_calls
from function_cases import (
    Weak, collect, find, lax_cases, no_cases, numpy_cases, text_of,
)
from harness import alike, check_slopes
from referee import kept, said

import minijit as mj
from minijit.trace.array import ArrayImpl, aval_of, shape_rules
from minijit.trace.core import Trace, Tracer, set_trace

pytestmark = [pytest.mark.chapter(16), pytest.mark.filterwarnings("ignore")]

of_lax = lax_cases | module_cases.tables["lax"]
tables = module_cases.tables | {"numpy": numpy_cases, "lax": of_lax}

# Functions whose slope is not looked at here: why.
no_slope = (
    {
        "numpy.spacing": "a step over bits has none",
        "nextafter": "a step over bits has none",
        "lax.reduce_precision": "its slope is that of what is rounded",
        "lax.stop_gradient": "its slope is 0, whatever the value does",
        "lax.igamma_grad_a": "not by a, as in JAX",
        "lax.random_gamma_grad": "not by a, as in JAX",
        "lax.betainc": "not by a and b, as in JAX",
        "lax.polygamma": "not by its order",
        "lax.scatter_mul": "only of indices that differ",
        "lax.linalg.eig": "of the eigenvalues only, as in JAX",
        "lax.linalg.eigh": "eigenvectors have any sign: see test_linalg",
        "nn.dot_product_attention": "in float32, as in JAX: see test_nn",
        "ops.segment_prod": "of segments of one row: see test_training_tools",
        "random.multinomial": "counts, by `random.binomial`, which has one",
    }
    | {
        f"lax.linalg.{name}": "none, as in JAX"
        for name in ("hessenberg", "schur", "tridiagonal")
    }
    | {
        f"random.{name}": "the implicit one of gamma: see test_random"
        for name in """gamma loggamma beta dirichlet chisquare f t
        multivariate_normal""".split()
    }
)
wide = {"float64", "complex128"}


def in_doubles(a, k):
    """A case's array off the grid on which functions have corners and ties."""
    if isinstance(a, Weak):
        return np.full(a.shape, a.value)
    if a.dtype.kind not in "fVc":
        return a
    moved = 0.013 + 0.07 * np.cos(np.arange(a.size) * 1.7 + k)
    double = np.complex128 if a.dtype.kind == "c" else np.float64
    return a.astype(double) + moved.reshape(a.shape)


def module_of(library, path):
    """`minijit.lax.linalg` is no module to import: it is an attribute of one."""
    first, *rest = path.split(".")
    try:
        return importlib.import_module(f"{library}.{path}")
    except ModuleNotFoundError:
        found = importlib.import_module(f"{library}.{first}")
        return find(found, ".".join(rest))


def of_arrays(case):
    """Whether a case can be traced, and has arrays with something in them."""
    found = []
    collect((case.args, case.kwargs, case.then), found)
    return case.dynamic and any(isinstance(a, Weak) or a.size for a in found)


def functions(tables):
    """(module, name, its cases): of `numpy` the first, of operations the last, too."""
    for path, table in tables.items():
        for name, cases in table.items():
            found = list(filter(of_arrays, cases))
            step = len(found) if path == "numpy" else 1
            step = len(found) - 1 if path == "lax" and name in lax_cases else step
            few = found[:: max(1, step)]
            if few:
                yield pytest.param(path, name, few, id=f"{path}.{name}")


every = list(functions(tables))
sloped = [p for p in every if not {p.id, p.values[1]} & {*no_slope}]


def is_array(x):
    """Not a number, a key or a structure."""
    return isinstance(x, (mj.Array, np.ndarray)) and x.dtype.kind in "fVciub"


def prepared(path, name, case):
    """-> (a function of arrays to the list of arrays in the result, arrays)."""
    _, function = case.traceable(module_of("minijit", path), name)
    found = []
    collect((case.args, case.kwargs, case.then), found)
    only_arrays = lambda *arrays: [
        y for y in mj.tree.leaves(function(*arrays)) if is_array(y)
    ]
    return only_arrays, [in_doubles(a, k) for k, a in enumerate(found)]


# Their lanes are those of `gamma` and `binomial`, whose loops they run again.
of_others = "loggamma beta dirichlet t f chisquare ball generalized_normal multinomial"
of_others = {f"random.{name}" for name in of_others.split()}


@pytest.mark.parametrize(
    "path, name, cases", [param for param in every if param.id not in of_others]
)
def test_lanes_are_single_calls(path, name, cases, in_double_precision):
    for case in cases:
        function, arrays = prepared(path, name, case)
        lanes = [np.stack([a, a[..., ::-1] if a.ndim else a]) for a in arrays]
        found = mj.vmap(function)(*lanes)
        for i in range(2):
            single = function(*(x[i] for x in lanes))
            for got, want in zip(found, single, strict=True):
                limit = 1e-9 if got.dtype.name in wide else 1e-5
                np.testing.assert_allclose(got[i], want, rtol=limit, atol=limit)


def of_floats(function, arrays):
    """-> (a function of the arrays of floats, to results of floats; those arrays)."""
    places = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]

    def restricted(*floats):
        full = list(arrays)
        for i, x in zip(places, floats, strict=True):
            full[i] = x
        return [y for y in function(*full) if y.dtype.kind in "fc"]

    return restricted, [arrays[i] for i in places]


@pytest.mark.parametrize("path, name, cases", sloped)
def test_slopes_are_those_of_the_values(path, name, cases, in_double_precision):
    for case in cases:
        function, at = of_floats(*prepared(path, name, case))
        if at and function(*at):
            check_slopes(function, at)


# ---- values and types


every_case = [
    pytest.param(path, name, cases, id=f"{path}.{name}")
    for path, table in tables.items()
    for name, cases in table.items()
]
of_numpy_and_lax = [
    param for param in every_case
    if param.values[0] == "numpy" or param.id.removeprefix("lax.") in lax_cases
]  # fmt: skip


def asked(path, name, cases):
    """What jax says of each case; None of those that it is not asked."""

    def answers():
        import jax

        theirs = module_of("jax", path)
        leaves = lambda case: jax.tree.leaves(case.call(theirs, name))
        return [None if case.jax else [*map(said, leaves(case))] for case in cases]

    return kept(f"{path}.{name}: {text_of(cases)}", answers)


def same(got, want, case):
    """Equal types; equal numbers, but floats only up to their last digits."""
    limits = {"float16": (4e-3, 4e-3), "bfloat16": (4e-2, 4e-2)}
    rtol, atol = limits.get(got.dtype.name, (1e-5, 5e-6))
    if case.tolerance is not None:
        rtol = atol = case.tolerance
    alike(got, want, case, rtol, atol, weak=True)


@pytest.mark.parametrize("path, name, cases", every_case)
def test_values_are_jax_s(path, name, cases):
    module = module_of("minijit", path)
    for case, wanted in zip(cases, asked(path, name, cases), strict=True):
        found = mj.tree.leaves(case.call(module, name))
        for got, want in zip(found, wanted or (), strict=wanted is not None):
            if hasattr(want, "weak_type"):
                same(got, want, case)


class ShapeTrace(Trace):
    """Computes types only: no array that is an argument has a known value."""

    def process(self, primitive, args, params):
        out = shape_rules[primitive](*map(aval_of, args), **params)
        avals = out if primitive.multiple_results else [out]
        return [Tracer(self, aval) for aval in avals]


# As in JAX, a known exponent and a traced one differ in the weak type.
weak_if_known = "power", "pow"


@pytest.mark.parametrize("path, name, cases", of_numpy_and_lax)
def test_traced_calls_have_the_types_of_eager_ones(path, name, cases):
    """Nothing asks for the value of a traced array; the types come out equal."""
    for case in cases:
        arrays, function = case.traceable(module_of("minijit", path), name)
        if not case.dynamic or not arrays:
            continue
        with set_trace(trace := ShapeTrace()):
            traced = function(*[Tracer(trace, aval_of(x)) for x in arrays])
        types = [[x.aval for x in mj.tree.leaves(y) if isinstance(x, mj.Array)]
                 for y in (traced, function(*arrays))]  # fmt: skip
        if name in weak_if_known:
            types = [[aval.strip_weak_type() for aval in each] for each in types]
        assert types[0] == types[1], case


# ---- compiled calls

# Functions that are exact in floating arithmetic too.
exact = set(
    """
    abs absolute add subtract multiply divide true_divide negative positive sqrt square
    sub mul div neg max min maximum minimum fmax fmin clip clamp floor ceil trunc fix
    rint round sign where select select_n reshape transpose ravel squeeze expand_dims
    flip fliplr flipud roll rot90 concatenate stack vstack hstack dstack tile repeat
    take slice pad broadcast_to broadcast_in_dim swapaxes moveaxis sort rev iota
    dynamic_slice dynamic_update_slice gather diag diagonal tril triu eye ones zeros
    full isnan isinf isfinite signbit copysign nextafter amax amin
    """.split()
)
# Relative to the result, and to the largest number in it: sums add in another order.
apart = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6, "complex64": 4e-6}


def check_compiled(path, name, case, backend):
    """Assert that a call compiled has the types and the values of an eager one.

    Integers, bools and what IEEE 754 defines to the last bit agree bitwise.  Whether
    there is something to compare.
    """
    arrays, function = case.traceable(module_of("minijit", path), name)
    wanted = mj.tree.leaves(function(*arrays))
    if not all(map(is_array, wanted)):
        return False
    found = mj.tree.leaves(mj.jit(function, backend=backend)(*arrays))
    for f, w in zip(found, wanted, strict=True):
        if name in weak_if_known:
            f, w = (ArrayImpl(x.numpy(), x.aval.strip_weak_type()) for x in (f, w))
        assert f.aval == w.aval, case
        limit = max(case.tolerance or 0, apart.get(f.dtype.name, 0))
        limit = 0 if name in exact else limit
        largest = np.max(np.abs(w), where=np.isfinite(w), initial=0) if limit else 0
        alike(f, w, case, limit, limit * largest)
    return any(x.size for x in wanted)


def known(cases):
    return [case for case in cases if case.dynamic]


@pytest.mark.parametrize("path, name, cases", every_case)
def test_as_plain_python(path, name, cases):
    # Of pairs of dtypes a third, and each function another one: the same scalars meet
    # in all of them, and `test_scalar_math` has every one.
    cases = known(cases)
    of_pairs = all(len(case.args) == 2 and not case.kwargs for case in cases)
    step = 3 if len(cases) > 13 and of_pairs else 1
    for case in cases[zlib.crc32(name.encode()) % step :: step]:
        check_compiled(path, name, case, "plain")


@pytest.mark.parametrize("path, name, cases", of_numpy_and_lax[::16])
def test_compiled_by_numba(path, name, cases):
    """The first case that has anything to compute."""
    any(check_compiled(path, name, case, "python") for case in known(cases))


@pytest.mark.oracle
@pytest.mark.parametrize("path", ["tree", "tree_util"])
def test_trees_are_jax_s(path):
    """Structures and paths are no arrays: they are compared as text."""
    pytest.importorskip("jax")
    for name, cases in module_cases.tables[path].items():
        for case in (c for c in cases if not c.jax):
            got = case.call(module_of("minijit", path), name)
            assert str(got) == str(case.call(module_of("jax", path), name)), name


# ---- no function is without a row


def public_functions(path):
    found = module_of("minijit", path)
    public = [name for name in dir(found) if not name.startswith("_")]
    return {name for name in public if inspect.isfunction(getattr(found, name))}


@pytest.mark.chapter(25)
@pytest.mark.parametrize("path", module_cases.tables)
def test_every_function_has_a_row(path):
    named = module_cases.no_cases.get(path, {})
    assert public_functions(path) - {*named} == {*module_cases.tables[path]} - {*named}
    for reason in named.values():
        for file in re.findall(r"\[(.*)\]", reason)[0].split(", "):
            assert (here / f"{file}.py").exists()


def test_every_function_is_given_bad_input():
    spoiled = all_calls()
    for path in module_cases.tables:
        assert {f"{path}.{name}" for name in module_cases.tables[path]} <= {*spoiled}


# ---- the modules with tables of their own, in the files that test them

here = Path(__file__).parent


def linear_algebra():
    """The names in the tables of `numpy` and of the file for `numpy.linalg`."""
    names = [n for n in numpy_cases if n.startswith("linalg.")]
    of_numpy = {name.removeprefix("linalg.") for name in names}
    return of_numpy | {name for name, *_ in test_linalg.cases}


# module -> the functions that have a row.
rows = {
    "numpy": {*numpy_cases},
    **{f"scipy.{name}": {case[0] for case in cases}
       for name, cases in test_scipy.cases.items()},
    "numpy.linalg": linear_algebra(),
}  # fmt: skip
# Functions that are no functions of arrays to arrays, or have many right results: the
# same files test each by itself.
alone = {
    "numpy": "apply_along_axis vectorize " + " ".join(no_cases),
    "numpy.linalg": "eig matrix_rank",
    "scipy.special": "bessel_jn lpmn lpmn_values sph_harm_y hyp2f1",
    "scipy.linalg": "schur rsf2csf cho_factor lu_factor lu_solve",
    "scipy.stats": "mode", "scipy.optimize": "minimize", "scipy.cluster.vq": "vq",
    "experimental.ode": "odeint",
}  # fmt: skip


@pytest.mark.chapter(25)
@pytest.mark.parametrize("module", {**rows, **alone})
def test_every_function_has_a_row_or_a_test(module):
    tested = {*rows.get(module, ())} | {*alone.get(module, "").split()}
    functions = public_functions(module)
    distributions = vars(module_of("minijit", module)).items()
    for name, found in distributions if module == "scipy.stats" else ():
        if inspect.ismodule(found) and hasattr(found, "__all__"):
            functions |= {f"{name}.{x}" for x in found.__all__}
    assert len(functions) > 0
    assert sorted(functions - tested - {"with_sharding_constraint"}) == []
