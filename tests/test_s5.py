"""Seed S5: the pitfalls of jit, one after the other."""

import re
import warnings

import numpy as np
import pytest

import minijit as jax
import minijit.numpy as jnp
from minijit import errors

pytestmark = pytest.mark.chapter(6)
asks_for_referrers = True

global_list = []
g = 0


def told(error, *wanted):
    """All the phrases stand in the error's message."""
    for phrase in wanted:
        assert phrase in str(error.value)


def quadratic(x):
    global_list.append(x)
    print(x)
    return 2 * x * x + 3 * x + 3


def test_side_effects_happen_while_tracing(capsys):
    global_list.clear()
    f = jax.jit(quadratic)
    assert [int(f(3)), int(f(3)), int(f(4))] == [30, 30, 47]
    assert len(global_list) == 1
    assert capsys.readouterr().out.count("\n") == 1


def test_make_jaxpr_prints_mul_and_add():
    text = str(jax.make_jaxpr(quadratic)(3))
    assert text.splitlines()[0] == "{ lambda ; a:i32[]. let"
    names = re.findall(r"= (\w+)", text)
    assert names == ["mul", "mul", "mul", "add", "add"]


def test_make_jaxpr_of_a_jitted_function_shows_the_call():
    text = str(jax.make_jaxpr(jax.jit(quadratic))(3))
    assert "jit[" in text and "name=quadratic" in text
    assert re.findall(r"= (\w+) ", text) == ["mul", "mul", "mul", "add", "add"]


def test_lambdas_made_in_a_loop_trace_once(capsys):
    def unjitted_loop_body(prev_i):
        print("traced")
        return prev_i + 1

    i = 0
    while i < 20:
        i = jax.jit(lambda x: unjitted_loop_body(x))(i)
    assert int(i) == 20
    # Once for the Python number, and once for the array that came back, if its type
    # were another; it is not.
    assert capsys.readouterr().out.count("traced") == 1


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


def test_a_stale_global_warns_if_asked(monkeypatch):
    monkeypatch.setitem(globals(), "g", 0)
    f = jax.jit(impure_uses_globals, globals="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(3.0)
        f(3.0)
    monkeypatch.setitem(globals(), "g", 10.0)
    message = "global g was 0 when impure_uses_globals was traced, and is 10.0 now"
    with pytest.warns(jax.StaleGlobalWarning, match=message):
        assert float(f(4.0)) == 4.0


def test_a_stale_global_can_retrace_or_raise(monkeypatch):
    monkeypatch.setitem(globals(), "g", 0)
    again = jax.jit(impure_uses_globals, globals="retrace")
    strict = jax.jit(impure_uses_globals, globals="raise")
    again(3.0)
    strict(3.0)
    monkeypatch.setitem(globals(), "g", 10.0)
    assert float(again(4.0)) == 14.0
    with pytest.raises(RuntimeError, match="the global g was 0") as error:
        strict(4.0)
    told(error, "make it an argument", "test_s5.py")
    monkeypatch.setitem(globals(), "g", 0)
    assert float(again(4.0)) == 4.0
    assert len(again.traces) == 2


def test_the_flag_for_globals(monkeypatch):
    monkeypatch.setitem(globals(), "g", 0)
    f = jax.jit(impure_uses_globals)
    with jax.config.override("captured_globals", "retrace"):
        f(1.0)
        monkeypatch.setitem(globals(), "g", 5)
        assert float(f(1.0)) == 6.0


def test_a_boolean_mask():
    @jax.jit
    def get_negatives(x):
        return x[x < 0]

    with pytest.raises(errors.NonConcreteBooleanIndexError) as error:
        get_negatives(jnp.array(np.random.randn(10)))
    told(error, "get_negatives", "argument x", "return x[x < 0]", "jnp.where")


def test_a_traced_length():
    @jax.jit
    def example_fun(length):
        return jnp.ones((length,))

    with pytest.raises(TypeError) as error:
        example_fun(5)
    told(error, "example_fun", "argument length", "jnp.ones((length,))", "static_argn")


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


def test_numpy_on_a_tracer_names_the_line():
    def with_numpy(x):
        return np.sin(x)

    with pytest.raises(errors.TracerArrayConversionError) as error:
        jax.jit(with_numpy)(3.0)
    told(error, "with_numpy", "argument x", "return np.sin(x)", "minijit.numpy")


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


def test_a_string_argument():
    def f(x, options):
        return x

    with pytest.raises(TypeError) as error:
        jax.jit(f)(1.0, {"mode": ["fast"]})
    told(error, "options['mode'][0]", "'fast'", "static_argnames", "test_s5.py")


def test_a_result_that_is_no_array():
    with pytest.raises(TypeError, match="not a valid JAX type") as error:
        jax.jit(lambda x: {"a": [x, "no"]})(1.0)
    told(error, "['a'][1]", "<class 'str'>")


def test_a_leaked_tracer():
    kept = []

    @jax.jit
    def leaky(x):
        kept.append(2 * x)
        return x

    leaky(1.0)
    for use in (lambda: kept[0] + 1, lambda: jax.jit(lambda y: y + kept[0])(1.0)):
        with pytest.raises(errors.UnexpectedTracerError) as error:
            use()
        told(error, "leaky", "argument x", "kept.append(2 * x)", "checking_leaks")


def test_a_leaked_tracer_as_an_argument():
    kept = []
    jax.jit(kept.append)  # never called: nothing is kept
    jax.jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(errors.UnexpectedTracerError):
        jax.jit(lambda y: y)(kept[0])


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


def test_precision_is_the_same_under_jit():
    def f(x, y):
        return x + y - x

    x, y = jnp.array(1.0), jnp.array(0.001)
    assert jax.jit(f)(x, y).tobytes() == f(x, y).tobytes()
    assert float(f(x, y)) != float(y)
