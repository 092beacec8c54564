"""The families of primitives in `ops/`: complete, each with all of its rows."""

import inspect

import numpy as np
import pytest
from harness import refused
from test_batching import met_in_lanes
from test_linearize import met_and_constant

import minijit.numpy as jnp
from minijit import grad, jit, jvp, make_jaxpr, ops
from minijit.ops import rounding, scatter, sorting, special, windows
from minijit.trace import primitives as lax
from minijit.trace.core import Primitive
from minijit.trace.jaxprs.parser import parse_jaxpr

pytestmark = [
    pytest.mark.chapter(16),
    pytest.mark.usefixtures("in_double_precision", "no_words_of_the_test"),
]

# `composed` runs primitives of others, and has none of its own.
families = [module for name, module in vars(ops).items()
            if inspect.ismodule(module) and name != "composed"]  # fmt: skip
own = {
    value
    for module in families
    for value in vars(module).values()
    if isinstance(value, Primitive)
}


def test_every_rule_that_is_not_constant_is_tried():
    """Each primitive with a derivative stands in the jaxpr of some case."""
    met, flat = met_and_constant()
    refused = {rounding.nextafter_p, special.random_gamma_grad_p}
    refused |= {sorting.largest_p}  # what `top_k` becomes when it is lowered
    # These have tests of their own: test_linalg, test_fft, test_fuse, test_as_jax,
    # test_convolution_products, test_direct_convolutions, test_custom.
    own_tests = {"linalg", "fft", "barriers", "patches", "host_calls"}
    own_tests |= {"direct_convolutions"}
    elsewhere = {
        value
        for module in families
        if module.__name__.rpartition(".")[2] in own_tests
        for value in vars(module).values()
        if isinstance(value, Primitive)
    }
    assert not own - flat - met - refused - elsewhere
    assert len(met) > 75


def test_every_primitive_is_batched_by_a_case():
    assert len(met_in_lanes()) > 70


# ---- errors


@pytest.mark.parametrize("call, words", [
    (lambda x: special.igamma_grad_a(x, 1.0), "igamma_grad_a by its parameter a"),
    (lambda x: special.random_gamma_grad(x, 1.0), "gamma_grad by its param"),
    (lambda x: special.random_gamma_grad(1.0, x), "gamma_grad by the sample"),
    (lambda x: special.polygamma(x, 1.0), "polygamma by its order m"),
    (lambda x: special.betainc(x, 2.0, 0.5), "betainc by its parameter a"),
    (lambda x: rounding.nextafter(x, 2.0), "nextafter is not differentiable"),
])  # fmt: skip
def test_no_derivative_says_which(call, words):
    refused(NotImplementedError, words, jvp, call, (1.5,), (1.0,))


def test_scatter_mul_of_repeated_indices_is_refused():
    numbers = scatter.ScatterDimensionNumbers((), (0,), (0,))
    f = lambda u: scatter.scatter_mul(np.ones(3), np.zeros((2, 1), int), u, numbers)
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        jvp(f, (np.ones(2),), (np.ones(2),))


# ---- as text


def test_named_tuples_and_enums_in_params_come_back():
    def pick(x, i):
        return jnp.take(x, i, axis=0, mode="clip")

    closed = make_jaxpr(pick)(np.ones((4, 3), np.float32), np.array([0, 2], np.int32))
    assert "GatherDimensionNumbers(offset_dims=" in str(closed)
    assert "mode=GatherScatterMode.CLIP" in str(closed)
    again = parse_jaxpr(str(closed))
    assert str(again) == str(closed)
    eqn = next(e for e in again.eqns if e.primitive.name == "gather")
    assert eqn.params["mode"] is scatter.GatherScatterMode.CLIP


# ---- windows


def test_a_window_without_axes():
    """Its maximum is the number itself."""
    for window, worst in [(lax.max, -np.inf), (lax.min, np.inf)]:
        extremum = lambda x, f=window, w=worst: windows.reduce_window(
            x, w, f, (), (), "VALID"
        )
        assert grad(extremum)(2.0) == 1.0
        assert jit(grad(extremum))(2.0) == 1.0
        assert grad(grad(lambda x, g=extremum: g(x) ** 2))(3.0) == 2.0
