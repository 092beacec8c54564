"""The rest of jit: lowering and compiling in steps, and the search for leaks."""

import numpy as np
import pytest
from harness import refused

import minijit as jax
import minijit.numpy as jnp
from minijit import errors, lax
from minijit.trace.core import Tracer

pytestmark = pytest.mark.chapter(6)

# Leaks


def leaks_through(how):
    # The search finds who holds a tracer among what is younger than this module.
    global leaked_here
    leaked_here = []

    class Holder:
        pass

    holder, local = Holder(), []

    @jax.jit
    def f(x):
        if how == "global":
            leaked_here.append(x * 2)
        elif how == "attribute":
            holder.w = {"a": [x * 2]}
        elif how == "local":
            local.append(x * 2)
        elif how == "argument":
            local.append(x)
        return x

    return f(1.0)


@pytest.mark.parametrize("how, wanted", [
    ("global", "`leaked_here[0]`, a global of "),
    ("attribute", "`holder.w['a'][0]`, a variable of leaks_through"),
    ("local", "`local[0]`, a variable of leaks_through"),
    ("argument", "the argument x: held by `local[0]`"),
])  # fmt: skip
def test_checking_leaks(how, wanted):
    with jax.checking_leaks(), pytest.raises(errors.UnexpectedTracerError) as error:
        leaks_through(how)
    del globals()["leaked_here"]
    assert wanted in str(error.value) and "leaked a traced value:" in str(error.value)
    if how != "argument":
        assert "* 2" in str(error.value) and "test_stages.py" in str(error.value)


def test_checking_leaks_names_a_captured_variable():
    def made():
        kept = None

        def f(x):
            nonlocal kept
            kept = x
            return x

        return f

    f = jax.jit(made())
    with jax.checking_leaks(), pytest.raises(errors.UnexpectedTracerError) as error:
        f(1.0)
    assert "the captured variable `kept` of f" in str(error.value)


# Stages


def test_lower_and_compile():
    f = jax.jit(lambda x, y: {"sum": x + y})
    lowered = f.lower(1.0, y=jnp.ones(3))
    assert lowered.as_text().startswith("{ lambda ; a:f32[] b:f32[3]. let")
    assert lowered.out_info == {"sum": jax.ShapeDtypeStruct((3,), np.float32)}
    assert str(lowered.in_tree) == "PyTreeDef(((*,), {'y': *}))"
    assert lowered.in_avals[1]["y"].shape == (3,)
    compiled = lowered.compile()
    assert compiled(1.0, y=jnp.ones(3))["sum"].tolist() == [2.0] * 3
    refused(TypeError, "does not match the input pytree", compiled, 1.0)
    message = r"Argument 'y' compiled with f32\[3\] and called with f32\[4\]"
    refused(TypeError, message, compiled, 1.0, y=jnp.ones(4))
    assert len(f.traces) == 1


@pytest.mark.chapter(25)
def test_analyses_are_those_of_the_plan():
    """A product through memory: XLA counts the same flops and bytes."""
    x, y, z = (np.ones(s, np.float32) for s in ((200, 5), (5, 100), (100, 10)))
    lowered = jax.jit(lambda x, y, z: (x @ y) @ z).lower(x, y, z)
    compiled = lowered.compile()
    report = compiled.explain()
    for stage in (lowered, compiled):
        assert stage.cost_analysis()["flops"] == 600000.0
        assert stage.cost_analysis()["bytes accessed"] == report.traffic_bytes
    stats = compiled.memory_analysis()
    assert stats.argument_size_in_bytes == x.nbytes + y.nbytes + z.nbytes
    assert (stats.output_size_in_bytes, stats.alias_size_in_bytes) == (8000, 0)
    assert stats.temp_size_in_bytes == 200 * 100 * 4
    assert stats.peak_memory_in_bytes == 4000 + 2000 + 4000 + 8000 + 80000


@pytest.mark.chapter(25)
def test_what_stages_tell_of_arguments():
    f = jax.jit(lambda x, y: {"sum": x + y}, donate_argnums=0)
    lowered = f.lower(np.ones(100, np.float32), y=1.0)
    compiled = lowered.compile()
    for stage in (lowered, compiled):
        (x,), named = stage.args_info
        assert (x.shape, x.dtype, x.donated) == ((100,), np.float32, True)
        assert named["y"].shape == () and not named["y"].donated
        assert stage.donate_argnums == (0,)
    stats = compiled.memory_analysis()
    assert stats.alias_size_in_bytes == stats.output_size_in_bytes == 400
    assert compiled.input_shardings[1]["y"] == jax.numpy.ones(2).sharding
    assert compiled.output_shardings == {"sum": jax.numpy.ones(2).sharding}
    assert "stablehlo.add" in lowered.compiler_ir()
    refused(ValueError, "unknown dialect: hlo", lowered.compiler_ir, "hlo")


def test_eval_shape():
    wanted = jax.ShapeDtypeStruct((2, 4), np.float32)
    x = jax.ShapeDtypeStruct((2, 3), np.float32)
    product, y = lambda x, y: x @ y, np.ones((3, 4))
    assert jax.eval_shape(product, x, y) == wanted
    assert jax.make_jaxpr(product, return_shape=True)(x, y)[1] == wanted
    assert x.update(shape=(2, 4)) == wanted and len(x) == 2
    assert jax.ShapeDtypeStruct.like(np.ones((2, 4), np.float32)) == wanted
    assert jax.jit(lambda x: x).eval_shape(1.0).weak_type


def test_device_functions():
    tree = jax.device_put({"a": 1.0, "b": np.arange(2)})
    assert isinstance(tree["a"], jax.Array)
    assert isinstance(jax.device_get(tree)["b"], np.ndarray)
    here = {"a": np.ones(2), "b": 1, "c": "text"}  # float64, as NumPy has made it
    assert all(x is here[name] for name, x in jax.device_get(here).items())
    assert jax.block_until_ready(tree) is tree


# What runs a function `f` of one number, which keeps what it is given and returns it.
def with_jvp(f):
    g = jax.custom_jvp(jnp.sin)
    g.defjvp(lambda p, t: (jnp.sin(*p), f(*t)))
    return g


def with_vjp(fwd, bwd):
    g = jax.custom_vjp(jnp.sin)
    g.defvjp(lambda x: (fwd(jnp.sin(x)), x), lambda x, ct: (bwd(ct),))
    return g


def with_vmap(f):
    g = jax.custom_batching.custom_vmap(jnp.sin)
    g.def_vmap(lambda size, batched, x: (f(x), True))
    return g


same, ones = lambda x: x, np.ones(2, "f4")
runs = {
    "jit": lambda f: jax.jit(f)(1.0),
    "make_jaxpr": lambda f: jax.make_jaxpr(f)(1.0),
    "eval_shape": lambda f: jax.eval_shape(f, 1.0),
    "grad": lambda f: jax.grad(f)(1.0),
    "jvp": lambda f: jax.jvp(f, (1.0,), (1.0,)),
    "vjp": lambda f: jax.vjp(f, 1.0),
    "linearize": lambda f: jax.linearize(f, 1.0),
    "linear_transpose": lambda f: jax.linear_transpose(f, 1.0)(1.0),
    "hessian": lambda f: jax.hessian(f)(1.0),
    "vmap": lambda f: jax.vmap(f)(ones),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f))(1.0),
    "scan": lambda f: lax.scan(lambda c, x: (f(c), x), 1.0, ones),
    "map": lambda f: lax.map(f, ones),
    "associative_scan": lambda f: jax.jit(
        lambda xs: lax.associative_scan(lambda a, b: a + f(b), xs))(ones),
    "while body": lambda f: lax.while_loop(lambda c: c < 3, lambda c: f(c) + 1, 1.0),
    "condition": lambda f: lax.while_loop(lambda c: f(c) < 3, lambda c: c + 1, 1.0),
    "fori": lambda f: lax.fori_loop(0, jnp.int32(2), lambda i, c: f(c), 1.0),
    "cond": lambda f: lax.cond(jnp.bool_(True), f, same, 1.0),
    "cond of a tracer": lambda f: jax.jit(lambda x: lax.cond(x > 0, same, f, x))(1.0),
    "switch": lambda f: lax.switch(jnp.int32(1), [same, f, same], 1.0),
    "a jvp rule": lambda f: jax.grad(with_jvp(f))(1.0),
    "within jit": lambda f: jax.jit(jax.grad(with_jvp(f)))(1.0),
    "within scan": lambda f: jax.grad(
        lambda x: lax.scan(lambda c, _: (with_jvp(f)(c), None), x, None, 2)[0])(1.0),
    "fwd": lambda f: jax.jit(jax.grad(with_vjp(f, same)))(1.0),
    "bwd": lambda f: jax.jit(jax.grad(lambda x: x * with_vjp(same, f)(x)))(1.0),
    "bwd within scan": lambda f: jax.grad(lambda x: lax.scan(
        lambda c, _: (with_vjp(same, f)(c), None), x, None, 2)[0])(1.0),
    "a vmap rule": lambda f: jax.jit(jax.vmap(with_vmap(f)))(ones),
    "custom_root": lambda f: jax.grad(lambda y: lax.custom_root(
        lambda x: f(x) - y, y, lambda g, x: y, lambda g, y: y / g(1.0)))(1.0),
    "custom_linear_solve": lambda f: jax.grad(lambda y: lax.custom_linear_solve(
        f, y, lambda g, b: b, symmetric=True))(1.0),
    "vectorize": lambda f: jnp.vectorize(f)(ones),
    "reduce": lambda f: jax.jit(
        lambda xs: lax.reduce(xs, np.float32(0), lambda a, b: a + f(b), (0,)))(ones),
    "closure_convert": lambda f: jax.closure_convert(f, 1.0),
    "custom_gradient": lambda f: jax.jit(jax.grad(jax.custom_gradient(
        lambda x: (x, f))))(1.0),
}  # fmt: skip


@pytest.mark.chapter(16)
@pytest.mark.parametrize("how", runs)
def test_what_a_function_leaves_behind_is_of_no_use(how):
    """Nowhere: whatever ran the function is over, also what is made of its tracer."""
    kept = []
    runs[how](lambda x: kept.append(x) or x)
    assert kept and all(isinstance(x, Tracer) for x in kept)
    for x in kept:
        for use in (lambda x=x: x + 1, lambda x=x: jax.jit(lambda y: y * x)(1.0),
                    lambda x=x: jax.grad(lambda y: y * x)(1.0)):  # fmt: skip
            with pytest.raises(errors.UnexpectedTracerError) as error:
                use()
            assert "test_stages.py" in str(error.value)
