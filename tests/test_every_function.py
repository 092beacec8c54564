"""Every public function has a value, a gradient, lanes, a compiled call and an error.

The calls are those of tables: a function without a row in one of them is found here.
Of `numpy` and `lax` other files ask for values (`test_numpy`) and compiled calls
(`test_compiled_functions`); `test_bad_input` spoils the arguments of every table.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path

import function_cases
import module_cases
import numpy as np
import pytest
import test_fft
import test_linalg
import test_scipy
from bad_calls import all_calls
from function_cases import Weak, collect, find, lax_cases, numpy_cases
from harness import alike, check_slopes
from referee import kept, said, source_of

import minijit as mj

pytestmark = pytest.mark.chapter(16)

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
# Functions whose results are no floats, or that want none: they have no slope.
whole = {
    "numpy": """
        isnan isfinite isinf iscomplex isreal signbit isposinf isneginf
        logical_not invert bitwise_not bitwise_invert bitwise_count equal
        not_equal less less_equal greater greater_equal logical_and logical_or
        logical_xor bitwise_and bitwise_or bitwise_xor left_shift
        bitwise_left_shift right_shift bitwise_right_shift gcd lcm isclose
        allclose array_equal array_equiv astype ones_like tril_indices_from
        triu_indices_from diag_indices_from ix_ all any argmax argmin
        count_nonzero nanargmax nanargmin nonzero flatnonzero argwhere extract
        searchsorted digitize bincount ravel_multi_index unravel_index isin
        argsort lexsort argpartition sort_complex unique unique_all
        unique_inverse unique_values union1d setdiff1d setxor1d intersect1d
        einsum_path packbits unpackbits
    """,
    "lax": """
        is_finite bitwise_not real imag conj population_count clz
        convert_element_type bitcast_convert_type eq ne lt le gt ge bitwise_and
        bitwise_or bitwise_xor shift_left shift_right_arithmetic
        shift_right_logical reduce_and reduce_or reduce_xor argmax argmin mulhi
    """,
    "nn": "one_hot",
    "nn.initializers": """
        glorot_normal glorot_uniform he_normal he_uniform kaiming_normal
        kaiming_uniform lecun_normal lecun_uniform xavier_normal xavier_uniform
        zeros ones normal uniform truncated_normal variance_scaling orthogonal
        delta_orthogonal
    """,
    "random": """
        exponential laplace logistic cauchy gumbel maxwell normal key_data
        wrap_key_data split clone fold_in bits randint permutation bernoulli
        categorical poisson rademacher geometric double_sided_maxwell
        weibull_min ball generalized_normal lognormal orthogonal
    """,
    "lax.linalg": "lu_pivots_to_permutation",
    "tree": "structure",
    "tree_util": "tree_structure all_leaves build_tree",
}
whole = {f"{path}.{name}" for path in whole for name in whole[path].split()}


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


def functions(tables, first=()):
    """(module, name, its cases): of the modules in `first`, which have many, the first.
    """
    for path, table in tables.items():
        for name, cases in table.items():
            found = list(filter(of_arrays, cases))
            few = found[:1] if path in first else found
            if few:
                yield pytest.param(path, name, few, id=f"{path}.{name}")


every = list(functions(tables, first=("numpy", "lax")))
sloped = [
    param
    for param in every
    if not {param.id, param.values[1]} & {*no_slope} and param.id not in whole
]


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


@pytest.mark.filterwarnings("ignore")
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


def functions_of_floats(path, name, cases):
    """`of_floats` of the cases that have floats, and results of floats."""
    for case in cases:
        function, at = of_floats(*prepared(path, name, case))
        if at and function(*at):
            yield function, at


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path, name, cases", sloped)
def test_slopes_are_those_of_the_values(path, name, cases, in_double_precision):
    found = list(functions_of_floats(path, name, cases))
    assert found
    for function, at in found:
        check_slopes(function, at)


@pytest.mark.filterwarnings("ignore")
def test_what_has_no_slope_has_no_floats(in_double_precision):
    """The names in `whole` are there for a reason."""
    cases = {param.id: param.values for param in every}
    assert [x for x in sorted(whole) if any(functions_of_floats(*cases[x]))] == []


# ---- values and compiled calls of the modules beside `numpy` and `lax`

others = list(functions(module_cases.tables))


@functools.cache
def asked(path):
    """{(name, k): what jax says} of a module's cases."""

    def answers():
        import jax

        theirs = module_of("jax", path)
        rows = [p.values[1:] for p in functions({path: module_cases.tables[path]})]
        return {(name, k): [*map(said, jax.tree.leaves(case.call(theirs, name)))]
                for name, cases in rows
                for k, case in enumerate(cases) if case.numpy is None}  # fmt: skip

    text = source_of(module_cases, function_cases, answers)
    return kept(f"{path}\n{text}", answers)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path, name, cases", others)
def test_values_are_jax_s(path, name, cases):
    """Calls, and every other one compiled, a function's first among them."""
    pytest.importorskip("jax")
    leaves = lambda tree: [y for y in mj.tree.leaves(tree) if is_array(y)]
    for k, case in enumerate(cases):
        arrays, function = case.traceable(module_of("minijit", path), name)
        only_arrays = lambda *xs, function=function: leaves(function(*xs))
        ways = [only_arrays, mj.jit(only_arrays, backend="plain")][: 2 - k % 2]
        found = [f(*arrays) for f in ways]
        assert found[0] or path.startswith("tree") or name in ("key", "wrap_key_data")
        wanted = asked(path)[name, k] if case.numpy is None else found[0]
        wanted = [y for y in wanted if hasattr(y, "weak_type")]
        for each in found:
            for got, want in zip(each, wanted, strict=True):
                same(got, want, case)


def same(got, want, case):
    """Equal types; equal numbers, but floats only up to their last digits."""
    rtol, atol = (2e-2, 3e-2) if got.dtype.itemsize == 2 else (1e-5, 5e-6)
    if case.tolerance is not None:
        rtol = atol = case.tolerance
    alike(got, want, case, rtol, atol, weak=True)


@pytest.mark.oracle
@pytest.mark.parametrize("path", ["tree", "tree_util"])
def test_trees_are_jax_s(path):
    """Structures and paths are no arrays: they are compared as text."""
    pytest.importorskip("jax")
    for name, cases in module_cases.tables[path].items():
        for case in (c for c in cases if c.numpy is None):
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
    **{f"scipy.{name}": {case[0] for case in cases}
       for name, cases in test_scipy.cases.items()},
    "numpy.linalg": linear_algebra(),
    "numpy.fft": {name for name, _ in test_fft.calls},
}  # fmt: skip
# Functions that are no functions of arrays to arrays, or have many right results: the
# same files test each by itself.
alone = {
    "numpy.linalg": "eig matrix_rank",
    "numpy.fft": "fftfreq rfftfreq fftshift ifftshift",
    "scipy.special": "bessel_jn lpmn lpmn_values sph_harm_y hyp2f1",
    "scipy.linalg": "schur rsf2csf cho_factor lu_factor lu_solve",
    "scipy.stats": "mode", "scipy.optimize": "minimize", "scipy.cluster.vq": "vq",
    "experimental.ode": "odeint", "image": "resize scale_and_translate",
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
