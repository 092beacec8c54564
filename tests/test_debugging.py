"""debug.print, debug.callback and debug_nans, under every transformation."""

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import checkpoint, debug, grad, jit, jvp, vmap
from minijit.trace.base.config import config

pytestmark = [pytest.mark.chapter(12), pytest.mark.usefixtures("interpreted")]


def f(x):
    debug.print("f {x}", x=x)
    return jnp.sin(x) * x


def printed(capsys, call):
    capsys.readouterr()
    call()
    return capsys.readouterr().out.split("\n")[:-1]


once = {
    "eager": lambda: f(2.0),
    "jit": lambda: jit(f)(2.0),
    "grad": lambda: grad(f)(2.0),
    "jit-grad": lambda: jit(grad(f))(2.0),
    "grad-jit": lambda: grad(jit(f))(2.0),
    "jvp": lambda: jvp(f, (2.0,), (1.0,)),
    "jvp-jit": lambda: jvp(jit(f), (2.0,), (1.0,)),
    "grad-grad": lambda: grad(grad(f))(2.0),
    "jit-grad-checkpoint": lambda: jit(grad(checkpoint(f)))(2.0),
}


@pytest.mark.parametrize("way", once)
def test_printed_once(capsys, way):
    assert printed(capsys, once[way]) == ["f 2.0"]


def test_once_a_lane(capsys):
    x = np.float32([2, 3])
    for g in (vmap(f), jit(vmap(f)), vmap(jit(f)), vmap(grad(f)), jit(vmap(grad(f)))):
        assert printed(capsys, lambda g=g: g(x)) == ["f 2.0", "f 3.0"]
    shared = vmap(lambda x, y: debug.print("{} {}", x, y), in_axes=(0, None))
    assert printed(capsys, lambda: shared(x, 5.0)) == ["2.0 5.0", "3.0 5.0"]
    twice = vmap(vmap(lambda x: debug.print("{}", x)))
    # In JAX's order: all lanes of the outer vmap, then the next one of the inner.
    assert printed(capsys, lambda: twice(np.arange(4).reshape(2, 2))) == list("0213")


def test_errors():
    refused(ValueError, "does not use: .2.", debug.print, "x {}", 1, 2)
    refused(ValueError, "f-string", jit(lambda x: debug.print(f"x {1}", x)), 1.0)
    refused(KeyError, "y", debug.print, "x {y}", x=1)
    refused(TypeError, "needs a function", debug.callback, 3)


# ---- NaN


def bad_log(x):
    y = x * 2
    z = jnp.log(y)                                     # the line to be named
    return jnp.where(y > 0, z, 0.0) + z


def assert_names(error, *words):
    for word in ("invalid value", "test_debugging.py", *words):
        assert word in str(error.value), str(error.value)


@pytest.mark.parametrize("g", [bad_log, jit(bad_log), jit(jit(bad_log)), vmap(bad_log)])
def test_the_first_nan_and_its_line(g):
    x = jnp.asarray(np.float32([-1, 2]))
    with config.override("debug_nans", True):
        with pytest.raises(FloatingPointError) as error:
            g(x)
        assert_names(error, "encountered in log", "z = jnp.log(y)")
        assert np.isfinite(np.asarray(g(x + 2))).all()
    assert np.isnan(np.asarray(g(x))).any()


@pytest.mark.parametrize("wrap", [lambda g: g, jit])
def test_in_a_backward_pass(wrap):
    """0 / 0 in the derivative of a square root, whose value is fine."""
    def loss(x):
        root = jnp.sqrt(x)                             # the line to be named
        return root * x * 0.0

    with config.override("debug_nans", True):
        assert loss(0.0) == 0
        with pytest.raises(FloatingPointError) as error:
            wrap(grad(loss))(0.0)
        assert_names(error, "encountered in mul", "jnp.sqrt(x)")
