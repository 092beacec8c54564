"""debug.print, debug.callback and debug_nans, under every transformation."""

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import (
    checkpoint,
    debug,
    grad,
    jit,
    jvp,
    lax,
    linear_transpose,
    make_jaxpr,
    vmap,
)
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
    assert printed(capsys, lambda: twice(np.arange(4).reshape(2, 2))) == list("0123")


def test_every_step_of_a_loop(capsys):
    def steps(i, x):
        debug.print("{i}", i=i)
        return x * 2

    loop = lambda x: lax.fori_loop(0, 3, steps, x)
    for g in (loop, jit(loop), grad(loop), jit(grad(loop))):
        assert printed(capsys, lambda g=g: g(1.0)) == ["0", "1", "2"]


def test_only_the_branch_that_is_taken(capsys):
    choose = lambda x: lax.cond(
        x > 0, lambda: debug.print("up"), lambda: debug.print("down")
    )
    assert printed(capsys, lambda: jit(choose)(1.0)) == ["up"]
    assert printed(capsys, lambda: jit(choose)(-1.0)) == ["down"]


def test_two_calls_print_twice(capsys):
    g = jit(lambda x: debug.print("{}", x))
    both = jit(lambda x: (g(x), g(x)))
    assert printed(capsys, lambda: both(1.0)) == ["1.0", "1.0"]


def test_nothing_but_an_effect(capsys):
    alone = jit(lambda x: debug.print("alone"))
    assert printed(capsys, lambda: alone(1.0)) == ["alone"]
    inner = jit(lambda x: alone(x))
    assert printed(capsys, lambda: grad(lambda x: (inner(x), x)[1])(1.0)) == ["alone"]


def test_callbacks_get_trees_of_arrays():
    seen = []
    keep = lambda p, *, scale: seen.append((type(p["a"]).__name__, p["a"].tolist(),
                                            float(scale)))
    g = jit(lambda x: debug.callback(keep, {"a": x}, scale=2 * x[0]))
    g(np.float32([1, 2]))
    assert seen == [("ArrayImpl", [1, 2], 2.0)]


def test_nothing_is_called_backwards(capsys):
    def f(x):
        debug.print("x {}", x)
        return 3 * x

    back = linear_transpose(f, 1.0)
    assert printed(capsys, lambda: back(2.0)) == [] and back(2.0) == (6.0,)


def test_the_jaxpr():
    jaxpr = make_jaxpr(lambda x: debug.print("x {}", x))(1.0)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["debug_callback"]
    assert "print 'x {}'" in str(jaxpr) and "0x" not in str(jaxpr)


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


def test_in_a_loop():
    body = lambda i, x: jnp.sqrt(x - 1)
    with config.override("debug_nans", True):
        with pytest.raises(FloatingPointError) as error:
            jit(lambda x: lax.fori_loop(0, 3, body, x))(1.5)
        assert_names(error, "encountered in sqrt", "jnp.sqrt(x - 1)")


@pytest.mark.chapter(16)
def test_a_nan_that_is_not_taken():
    x = jnp.asarray(np.float32([3, 1, 2]))
    with config.override("debug_nans", True):
        assert jnp.median(x) == 2 and jnp.where(x > 0, x, jnp.nan).sum() == 6
        refused(FloatingPointError, "select_n", jnp.where, x > 1, x, jnp.nan)


def test_infinities():
    with config.override("debug_infs", True):
        with pytest.raises(FloatingPointError) as error:
            jit(lambda x: 1 / x)(0.0)
        assert_names(error, "(inf)", "div", "0.0")
    with config.override("debug_nans", True):
        assert np.isinf(jit(lambda x: 1 / x)(0.0))


def test_a_nan_that_is_only_laid_out_is_none_that_comes_up():
    with config.override("debug_nans", True):
        assert jnp.where(jnp.ones(3) > 0, 1.0, jnp.nan).tolist() == [1, 1, 1]
        assert np.isnan(jnp.broadcast_to(jnp.float32(np.nan), (3,))).all()
