"""Calls that the tables of functions do not have: jax's answers.

Each row is asked for its value, the gradient of a sum by all arrays of floats, lanes
and a compiled call; errors stand below.
"""

import numpy as np
import pytest
from harness import refused
from referee import together

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.test_util import check_grads

pytestmark = pytest.mark.chapter(16)

random = np.random.default_rng(5)


def R(*shape):
    return random.normal(size=shape).astype(np.float32)


of_rows = np.array([[1, 3], [2, 2]])
deep = random.integers(0, 3, size=(2, 3, 2))
symmetric = R(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)
symmetric = symmetric + symmetric.transpose(0, 2, 1)


def ragged(sizes, numbers):
    """A product with these groups, as a function of (library, lhs, rhs)."""

    def product(library, lhs, rhs):
        named = library.lax.RaggedDotDimensionNumbers(*numbers)
        return library.lax.ragged_dot_general(lhs, rhs, sizes, named)

    return product


def scaled(library, x):
    return library.lax.composite(lambda x, by: x * by, "my.scale", 1)(x, by=3.0)


# name -> (function of a library and arrays, arrays)
calls = {
    "ragged, contracted": (ragged(of_rows, ((((1,), (1,)), ((0,), (0,))), (1,), ())),
                           *(R(2, 5, 3), R(2, 5, 4))),
    "ragged, sizes for each row": (
        ragged(deep, ((((3,), (3,)), ((1,), (2,))), (2,), (0,))),
        *(R(3, 2, 5, 4), R(2, 6, 2, 4)),
    ),
    "conv_general_dilated_local": (
        lambda m, x, k: m.lax.conv_general_dilated_local(
            *(x, k, (2, 1), [(0, 0), (1, 0)], (3, 2), None, None),
            ("NHWC", "HWIO", "NHWC"),
        ),
        *(R(2, 6, 5, 2), R(2, 5, 12, 3)),
    ),
    "composite": (scaled, R(3)),
    "mul": (lambda m, x: m.lax.mul(x, x, out_dtype=np.float16), R(3)),
    "roots": (lambda m, p: abs(m.numpy.roots(p, strip_zeros=False)), R(4)),
    "polyfit with weights": (
        lambda m, x, y: m.numpy.polyfit(x, y, 2, w=2 + y, cov=True), R(7), R(7),
    ),
    "symmetric_product": (
        lambda m, a, c: m.lax.linalg.symmetric_product(
            a, c, alpha=2.0, beta=0.5, symmetrize_output=True
        ),
        *(R(2, 3, 4), symmetric[:, :3, :3]),
    ),
    "pivots": (
        lambda m, x: m.lax.linalg.lu_pivots_to_permutation(
            m.lax.linalg.lu(x)[1], 4
        ).astype(x.dtype),
        R(2, 4, 4),
    ),
    "tridiagonal, upper": (
        lambda m, a: m.lax.linalg.tridiagonal(a, lower=False), symmetric[0],
    ),
}  # fmt: skip
# Reflections have no derivative; jax refuses those of some more.
flat = {"tridiagonal, upper", "composite", "ragged, contracted", "symmetric_product"}
# LAPACK's order of eigenvalues may differ from one build to another.
sorted_results = {"roots"}


def total(library, name):
    function = calls[name][0]

    def f(*arrays):
        found = library.tree_util.tree_leaves(function(library, *arrays))
        return sum((y.astype("float32") ** 2).sum() for y in found)

    return f


def answers(library, name):
    """-> (a function: the value, and the gradient by all arrays; the arrays)."""
    function, *arrays = calls[name]
    places = tuple(range(len(arrays)))
    slope = library.grad(total(library, name), places)
    empty = lambda *arrays: ()
    both = lambda *a: (function(library, *a), (empty if name in flat else slope)(*a))
    return both, *arrays


def close(got, want, name=""):
    leaves = mj.tree.leaves(got), mj.tree.leaves(want)
    for g, w in zip(*leaves, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        g, w = (np.sort(x) if name in sorted_results else x for x in (g, w))
        w = np.asarray(w)
        scale = max(1.0, np.abs(w).max(initial=0, where=np.isfinite(w)))
        np.testing.assert_allclose(g, w, rtol=2e-3, atol=2e-5 * scale)


@pytest.fixture(scope="module")
def wanted():
    jax = pytest.importorskip("jax")
    return together({name: answers(jax, name) for name in calls})


@pytest.mark.oracle
@pytest.mark.parametrize("name", calls)
def test_values_and_gradients_are_jax_s(wanted, name):
    function, *arrays = answers(mj, name)
    got, want = function(*arrays), wanted[name]
    close(got[0], want[0], name)
    close(got[1], want[1])


@pytest.mark.parametrize("name", calls)
def test_lanes_are_single_calls(name):
    function, *arrays = calls[name]
    lanes = [np.stack([x, 1.5 * x]).astype(x.dtype) for x in arrays]
    single = [function(mj, *(x[i] for x in lanes)) for i in range(2)]
    want = mj.tree.map(lambda *parts: np.stack(parts), *single)
    close(mj.vmap(lambda *a: function(mj, *a))(*lanes), want)


@pytest.mark.chapter(23)  # before it, numba compiles for half a minute
def test_compiled_calls():
    """All of them in one program."""
    arrays = {name: given for name, (_, *given) in calls.items()}
    every = lambda given: {name: calls[name][0](mj, *a) for name, a in given.items()}
    want = every(arrays)
    for name, got in mj.jit(every)(arrays).items():
        close(got, want[name], name)


def test_errors():
    x, kernels = R(4, 3), R(2, 3, 5)
    numbers = lax.RaggedDotDimensionNumbers
    plain = ((1,), (1,)), ((), ())
    product = lax.ragged_dot_general
    solve = lax.linalg.tridiagonal_solve
    bad = [
        (lax.ragged_dot, (x, kernels, np.ones(2)), TypeError, "np.integer"),
        (lax.ragged_dot, (x, kernels, np.ones(3, int)), TypeError, "size to be 3"),
        (lax.ragged_dot, (x, kernels, 3), TypeError, "to have shape"),
        (product, (x, kernels, [1, 2], numbers(plain, (), (0,))), TypeError, "exactly"),
        (product, (x, kernels, [1, 2], numbers(plain, (4,), (0,))), TypeError, "rank"),
        (product, (x, x, [1, 2], numbers(plain, (1,), (0,))), TypeError, "0 group dim"),
        (lax.mulhi, (x, x), TypeError, "integers of one dtype"),
        (jnp.polyfit, (x, x, 2), TypeError, "1D vector for x"),
        (jnp.polyfit, (x[0], x[0], -1), ValueError, "deg >= 0"),
        (jnp.polyfit, (x[0], x[0], 1, None, False, x), TypeError, "for weights"),
        (jnp.polyfit, (x[0], x[0], 2, None, False, None, True), ValueError, "exceed"),
        (jnp.roots, (x,), ValueError, "rank-1"),
        (mj.jit(jnp.roots), (x[0],), TypeError, "strip_zeros=False"),
        (jnp.fromfile, ("f",), NotImplementedError, r"np\.fromfile"),
        (jnp.fromiter, ((1, 2),), NotImplementedError, r"np\.fromiter"),
        (solve, (x, x, x, R(4, 2, 1)), TypeError, "all diagonal arguments"),
        (solve, (x, x, x, np.ones((4, 3, 1), complex)), TypeError, "one dtype"),
        (lax.linalg.tridiagonal, (x,), ValueError, "square"),
    ]
    for function, args, error, text in bad:
        args = [np.array(a) if isinstance(a, list) else a for a in args]
        refused(error, text, function, *args)
    leaking = lambda y: lax.composite(lambda x, by: x * by, "scale")(2.0, by=y)
    refused(mj.errors.UnexpectedTracerError, "attribute", mj.jit(leaking), 3.0)


def test_a_derivative_that_jax_does_not_have():
    function, *arrays = calls["ragged, contracted"]
    check_grads(lambda *a: function(mj, *a), arrays, 1, atol=1e-2, rtol=1e-2)


@pytest.mark.oracle
def test_dtype_is_that_of_arrays_numbers_and_types():
    jax = pytest.importorskip("jax")
    for x in (np.ones(2, np.int8), 1, 2.0, 1j, True, np.float16, "uint8"):
        assert lax.dtype(x) == jax.lax.dtype(x)
    assert lax.dtype(jnp.ones(2, "bfloat16")).name == "bfloat16"
    with pytest.raises(TypeError):
        lax.dtype({"a": 1})
