"""Seed S5: the pitfalls of jit, one after the other."""


import numpy as np
import pytest

import minijit as jax
import minijit.numpy as jnp
from minijit import errors

pytestmark = pytest.mark.chapter(6)
asks_for_referrers = True

g = 0


def told(error, *wanted):
    """All the phrases stand in the error's message."""
    for phrase in wanted:
        assert phrase in str(error.value)


def impure_uses_globals(x):
    return x + g


def test_a_stale_global(monkeypatch):
    monkeypatch.setitem(globals(), "g", 0)
    f = jax.jit(impure_uses_globals)
    assert float(f(3.0)) == 3.0
    monkeypatch.setitem(globals(), "g", 10.0)
    assert float(f(4.0)) == 4.0
    assert f(jnp.array([4.0])).tolist() == [14.0]
    assert "global g: 0 -> 10.0" in f.traces[1].why


def test_the_flag_for_globals(monkeypatch):
    monkeypatch.setitem(globals(), "g", 0)
    f = jax.jit(impure_uses_globals)
    with jax.config.override("captured_globals", "retrace"):
        f(1.0)
        monkeypatch.setitem(globals(), "g", 5)
        assert float(f(1.0)) == 6.0


def piecewise(x):
    if x < 3:
        return 3.0 * x**2
    else:
        return -4 * x


def test_if_on_a_traced_value():
    with pytest.raises(errors.TracerBoolConversionError) as error:
        jax.jit(piecewise)(2)
    told(error, "piecewise", "argument x", "if x < 3:", "lax.cond", "static_argnums")
    assert isinstance(error.value, errors.ConcretizationTypeError)
    with pytest.raises(errors.ConcretizationTypeError):
        jax.make_jaxpr(piecewise)(2)


def test_conversions_of_traced_values():
    uses = {
        "float": (lambda x: float(x), errors.ConcretizationTypeError),
        "int": (lambda x: int(x), errors.ConcretizationTypeError),
        "index": (lambda x: [1, 2][x], errors.TracerIntegerConversionError),
        "range": (lambda x: range(x), errors.TracerIntegerConversionError),
        "numpy": (lambda x: np.sin(x), errors.TracerArrayConversionError),
        "item": (lambda x: x.item(), errors.ConcretizationTypeError),
    }
    for use, kind in uses.values():
        with pytest.raises(kind) as error:
            jax.jit(use)(3)
        told(error, "argument x", "test_s5.py", "Instead:")


def test_a_shape_through_jnp():
    def f(x):
        shape_ = jnp.array(x.shape).prod()
        return x.reshape(shape_)

    x = jnp.ones((2, 3))
    assert f(x).shape == (6,)
    with pytest.raises(TypeError) as error:
        jax.jit(f)(x)
    told(error, "jnp.array(x.shape).prod()", "plain `np`")
    assert jax.jit(lambda x: x.reshape((np.prod(x.shape),)))(x).shape == (6,)


def test_an_unhashable_static_argument():
    f = jax.jit(lambda x, sizes: x, static_argnums=1)
    with pytest.raises(ValueError, match="Non-hashable static arguments") as error:
        f(1.0, [2, 3])
    told(error, "argument sizes", "[2, 3]", "test_s5.py", "tuple")
    with pytest.raises(ValueError, match="Non-hashable static arguments") as error:
        f(1.0, sizes=[2, 3])
    told(error, "argument sizes")


def test_a_result_that_is_no_array():
    with pytest.raises(TypeError, match="not a valid JAX type") as error:
        jax.jit(lambda x: {"a": [x, "no"]})(1.0)
    told(error, "['a'][1]", "<class 'str'>")


def test_a_leak_in_a_notebook_names_the_cells_line():
    source = "kept = []\ndef leaky(x):\n    kept.append(x + 1)\n    return x\n"
    file = "/tmp/ipykernel_123/456.py"
    scope = {}
    exec(compile(source, file, "exec"), scope)
    jax.jit(scope["leaky"])(1.0)
    with pytest.raises(errors.UnexpectedTracerError) as error:
        scope["kept"][0] * 2
    told(error, "<notebook cell>:3 (leaky)")
    assert "ipykernel" not in str(error.value)
