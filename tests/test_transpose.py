"""Reverse mode: each rule against forward mode and differences, and its errors."""

from functools import partial

import numpy as np
import pytest
from derivative_cases import cases, ours
from harness import alike, refused

import minijit.numpy as jnp
from minijit import jit, jvp, vjp
from minijit.test_util import check_grads, check_jvp, check_vjp, inner, random_like
from minijit.trace.trees.pytree import tree_leaves

pytestmark = [pytest.mark.chapter(8), pytest.mark.usefixtures("in_double_precision")]


@pytest.mark.parametrize("case", cases, ids=repr)
def test_vjp_is_the_transpose_of_jvp(case):
    """<c, J t> = <Jᵀ c, t>, to the last bits; J was compared with differences."""
    f, args = case.function(ours), case.varying()
    random = np.random.default_rng(1)
    tangents = random_like(random, args)
    value, pull_back = vjp(f, *args)
    ct = random_like(random, value)
    back = pull_back(ct)
    _, tangent = jvp(f, args, tangents)
    for x, c in zip(args, back, strict=True):
        assert x.shape == c.shape and x.dtype == c.dtype
    tangent = [c if t.dtype.kind not in "fc" else t
               for t, c in zip(tree_leaves(tangent), tree_leaves(ct), strict=True)]
    np.testing.assert_allclose(
        inner(back, tangents), inner(tangent, tree_leaves(ct)), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("case", cases[::5], ids=repr)
def test_under_jit(case):
    """The transposed program as one jaxpr gives what it gives equation by equation."""
    f, args = case.function(ours), case.varying()
    ct = random_like(np.random.default_rng(2), f(*args))
    wanted = vjp(f, *args)[1](ct)
    found = jit(lambda args, ct: vjp(f, *args)[1](ct), backend="eval")(args, ct)
    alike(found, wanted, rtol=1e-12, atol=1e-12)


# ---- check_grads itself


def test_tolerances_may_depend_on_the_dtype():
    f = lambda x: x * 1.5
    wrong = lambda args, tangents: (f(*args), tangents[0] * 1.6)
    loose = {np.float64: 0.5, np.float32: 1e-9}
    check_jvp(f, wrong, (np.float64(2.0),), atol=loose, rtol=loose)
    with pytest.raises(AssertionError, match="its tangent"):
        check_jvp(f, wrong, (np.float64(2.0),), atol={np.float32: 0.5})


def test_the_step_is_short_enough_for_the_logarithm_of_a_small_number():
    check_grads(jnp.log, (np.float32(1e-2),), order=1, atol=0.1, rtol=0.1)


def test_check_vjp_with_a_wrong_transpose():
    def wrong(x):
        return jnp.sin(x), lambda ct: (ct * 0.0,)

    check_vjp(jnp.sin, partial(vjp, jnp.sin), (1.0,))
    refused(AssertionError, "vjp", check_vjp, jnp.sin, wrong, (1.0,))
