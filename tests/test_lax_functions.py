"""Errors of functions whose calls stand in the tables, and what has no call there."""

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax

pytestmark = pytest.mark.chapter(16)

def test_errors():
    x, kernels, three = (np.ones(n, "f4") for n in ((4, 3), (2, 3, 5), (4, 2, 1)))
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
        (solve, (x, x, x, three), TypeError, "all diagonal arguments"),
        (solve, (x, x, x, np.ones((4, 3, 1), complex)), TypeError, "one dtype"),
        (lax.linalg.tridiagonal, (x,), ValueError, "square"),
    ]
    for function, args, error, text in bad:
        args = [np.array(a) if isinstance(a, list) else a for a in args]
        refused(error, text, function, *args)
    leaking = lambda y: lax.composite(lambda x, by: x * by, "scale")(2.0, by=y)
    refused(mj.errors.UnexpectedTracerError, "attribute", mj.jit(leaking), 3.0)


@pytest.mark.oracle
def test_dtype_is_that_of_arrays_numbers_and_types():
    jax = pytest.importorskip("jax")
    for x in (np.ones(2, np.int8), 1, 2.0, 1j, True, np.float16, "uint8"):
        assert lax.dtype(x) == jax.lax.dtype(x)
    assert lax.dtype(jnp.ones(2, "bfloat16")).name == "bfloat16"
    with pytest.raises(TypeError):
        lax.dtype({"a": 1})
