"""What training programs stand on: segments, vectors of trees, optimizers, odeint."""

from functools import partial

import numpy as np
import pytest
from harness import alike, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import ops, random
from minijit.example_libraries import optimizers
from minijit.experimental.ode import odeint
from minijit.flatten_util import ravel_pytree

pytestmark = pytest.mark.chapter(16)

ids = np.array([0, 2, 2, 5, 1, -1, 0], np.int32)
data = np.array([3, -1, 4, 1, -5, 9, 2], np.float32)
rows = np.stack([data, -data], 1)
operations = "sum prod max min".split()


assert_like = partial(alike, rtol=1e-7)


# ---- segments


def test_segments_want_a_static_number():
    refused(ValueError, "non-negative", ops.segment_sum, data, ids, -1)
    refused(ValueError, "segment_ids of shape", ops.segment_sum, data, ids[:3], 2)
    wrong, words = mj.errors.ConcretizationTypeError, "pass num_segments="
    refused(wrong, words, mj.jit(ops.segment_sum), data, ids)


# ---- vectors of trees


def test_a_tree_as_a_vector_and_back():
    tree = {"a": jnp.ones((2, 3)), "b": [jnp.arange(2.0), jnp.float32(7)]}
    vector, unravel = ravel_pytree(tree)
    assert vector.shape == (9,) and vector.dtype == np.float32
    assert_like(unravel(vector), tree)
    assert ravel_pytree(tree)[1] == unravel and hash(ravel_pytree(tree)[1])
    assert_like(mj.grad(lambda v: unravel(v)["a"].sum())(vector), np.float32(
        [1] * 6 + [0] * 3
    ))  # fmt: skip
    assert_like(mj.vmap(unravel)(jnp.stack([vector, vector]))["b"][1], jnp.full(2, 7.0))
    assert_like(mj.jit(lambda t: ravel_pytree(t)[0])(tree), vector)


def test_a_tree_of_several_dtypes():
    vector, unravel = ravel_pytree((np.float32(1.5), np.int32(3), np.bool_(True)))
    assert vector.dtype == np.float32
    assert [x.dtype.name for x in unravel(vector)] == ["float32", "int32", "bool"]
    refused(TypeError, "expected dtype float32", unravel, vector.astype(np.float16))
    weak, unravel = ravel_pytree([1.0, 2.0])
    assert weak.weak_type and unravel(weak)[0].weak_type
    empty, unravel = ravel_pytree(())
    assert empty.shape == (0,) and unravel(empty) == ()
    refused(ValueError, "type promotion", ravel_pytree, (random.key(0), 1.0))


# ---- optimizers

makers = {
    "sgd": (0.1,), "momentum": (0.1, 0.9), "nesterov": (0.1, 0.9), "adagrad": (0.1,),
    "rmsprop": (0.1,), "rmsprop_momentum": (0.1,), "adam": (0.1,), "adamax": (0.1,),
    "sm3": (0.1,),
}  # fmt: skip
def trained(module, name, args):
    init, update, params_of = getattr(module, name)(*args)
    start = {"w": np.float32([[1, -2, 3]]), "b": np.float32([0.5])}
    state = init(start)
    for i in range(4):
        params = params_of(state)
        state = update(i, {"w": 2 * params["w"], "b": params["b"] - 1}, state)
    return params_of(state)


@pytest.mark.oracle
@pytest.mark.parametrize("name", makers)
def test_optimizers_are_jax_s(name):
    theirs = pytest.importorskip("jax.example_libraries.optimizers")
    want = trained(theirs, name, makers[name])
    assert_like(trained(optimizers, name, makers[name]), want, rtol=1e-5)


# ---- differential equations


def spring(y, t, stiffness, damping):
    return {"x": y["v"], "v": -stiffness * jnp.sin(y["x"]) - damping["d"] * y["v"] + t}


def end(x0, times, stiffness, d):
    start = {"x": x0, "v": jnp.zeros_like(x0)}
    ys = odeint(spring, start, times, stiffness, {"d": d}, rtol=1e-9, atol=1e-9)
    return (ys["x"] * jnp.array([1.0, 2.0, 3.0])[:, None]).sum() + ys["v"][-1].sum()


@pytest.mark.chapter(23)
def test_odeint_solves_and_its_adjoint_is_the_derivative():
    solve_ivp = pytest.importorskip("scipy.integrate").solve_ivp
    with mj.enable_x64(True):
        args = np.array([1.0, 2.0]), np.array([0.0, 0.3, 1.0]), 1.3, 0.2

        def by_scipy(x0, times, k, d):
            total = 0.0
            for x in x0:
                f = lambda t, y: [y[1], -k * np.sin(y[0]) - d * y[1] + t]
                span = times[[0, -1]]
                found = solve_ivp(f, span, [x, 0], t_eval=times, rtol=1e-11, atol=1e-11)
                total += found.y[0] @ [1, 2, 3] + found.y[1, -1]
            return total

        assert abs(end(*args) - by_scipy(*args)) < 1e-7
        slopes = mj.jit(mj.grad(end, (0, 1, 2, 3)))(*args)
        step = 1e-4
        for i, slope in enumerate(slopes):
            way = np.cos(np.arange(np.size(args[i]))).reshape(np.shape(args[i]))
            moved = lambda h, i=i, way=way: by_scipy(
                *[a + h * way if j == i else a for j, a in enumerate(args)]
            )
            want = (moved(step) - moved(-step)) / (2 * step)
            assert abs(np.sum(slope * way) - want) < 1e-5


@pytest.mark.chapter(23)
def test_odeint_of_what_it_captures_and_of_lanes():
    times = jnp.linspace(0.0, 1.0, 3)
    grow = lambda rate, y0: odeint(lambda y, t: rate * y, y0, times)[-1]
    rates = jnp.array([0.5, 1.0])
    np.testing.assert_allclose(mj.grad(grow)(1.0, 1.0), np.e, rtol=1e-4)
    got = mj.vmap(grow, (0, None))(rates, 1.0)
    np.testing.assert_allclose(got, np.exp(rates), rtol=1e-5)
    assert odeint(lambda y, t: y, jnp.ones(2), times, mxstep=0).shape == (3, 2)


def test_odeint_says_what_it_wants():
    with pytest.raises(TypeError, match="arrays or scalars, but got f"):
        odeint(lambda y, t, s: y, 1.0, jnp.ones(2), "f")
    refused(TypeError, "array of floats", odeint, lambda y, t: y, 1.0, jnp.arange(2))
