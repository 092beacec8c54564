"""JAX's documents "How JAX primitives work" and "Writing custom interpreters"."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, Primitive
from jax.interpreters import ad, batching, mlir

multiply_add_p = Primitive("multiply_add")


def multiply_add_prim(x, y, z):
    return multiply_add_p.bind(x, y, z)


def multiply_add_impl(x, y, z):
    return np.add(np.multiply(x, y), z)


multiply_add_p.def_impl(multiply_add_impl)


def multiply_add_abstract_eval(xs, ys, zs):
    assert xs.shape == ys.shape == zs.shape
    return jax.core.ShapedArray(xs.shape, xs.dtype)


multiply_add_p.def_abstract_eval(multiply_add_abstract_eval)
mlir.register_lowering(
    multiply_add_p,
    mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False),
    platform="cpu",
)


def multiply_add_value_and_jvp(arg_values, arg_tangents):
    x, y, z = arg_values
    xt, yt, zt = arg_tangents
    primal_out = multiply_add_prim(x, y, z)

    def make_zero(tan):
        return lax.full_like(x, 0.0) if type(tan) is ad.Zero else tan

    output_tangent = multiply_add_prim(
        make_zero(xt), y, multiply_add_prim(x, make_zero(yt), make_zero(zt))
    )
    return primal_out, output_tangent


ad.primitive_jvps[multiply_add_p] = multiply_add_value_and_jvp


def multiply_add_transpose(ct, x, y, z):
    if not ad.is_undefined_primal(x):
        assert ad.is_undefined_primal(y)
        ct_y = ad.Zero(y.aval) if type(ct) is ad.Zero else multiply_add_prim(
            x, ct, lax.full_like(x, 0.0)
        )
        return None, ct_y, ct
    assert ad.is_undefined_primal(x)
    ct_x = ad.Zero(x.aval) if type(ct) is ad.Zero else multiply_add_prim(
        ct, y, lax.full_like(y, 0.0)
    )
    return ct_x, None, ct


ad.primitive_transposes[multiply_add_p] = multiply_add_transpose


def multiply_add_batch(vector_arg_values, batch_axes):
    assert batch_axes[0] == batch_axes[1] == batch_axes[2]
    return multiply_add_prim(*vector_arg_values), batch_axes[0]


batching.primitive_batchers[multiply_add_p] = multiply_add_batch


def square_add_prim(a, b):
    return multiply_add_prim(a, a, b)


print("eval", square_add_prim(2.0, 10.0))
print("jit", jax.jit(square_add_prim)(2.0, 10.0))
print("jit, static", jax.jit(lambda x, y: square_add_prim(x, y), static_argnums=1)(2.0, 10.0))
print("jvp", *map(float, jax.jvp(square_add_prim, (2.0, 10.0), (1.0, 1.0))))
pushed = jax.jvp(jax.jit(square_add_prim), (2.0, 10.0), (1.0, 1.0))
print("jvp of jit", *map(float, pushed))
print("grad", jax.grad(square_add_prim)(2.0, 10.0))
print("grad of jit", jax.grad(jax.jit(square_add_prim))(2.0, 10.0))
both = jax.vmap(square_add_prim, in_axes=0, out_axes=0)(
    np.array([2.0, 3.0], np.float32), np.array([10.0, 20.0], np.float32)
)
print("vmap", both)
slope = lambda x: jax.jvp(lambda x: square_add_prim(x, 10.0), (x,), (1.0,))[1]
print("second derivative", float(jax.jvp(slope, (2.0,), (1.0,))[1]))


# ---- an interpreter that inverts a function

inverse_registry = {lax.exp_p: jnp.log, lax.tanh_p: jnp.arctanh}


def eval_jaxpr(jaxpr, consts, *args):
    env = {}

    def read(var):
        return var.val if type(var) is Literal else env[var]

    env.update(zip(jaxpr.invars, args))
    env.update(zip(jaxpr.constvars, consts))
    for eqn in jaxpr.eqns:
        invals = [read(v) for v in eqn.invars]
        outvals = eqn.primitive.bind(*invals, **eqn.params)
        if not eqn.primitive.multiple_results:
            outvals = [outvals]
        env.update(zip(eqn.outvars, outvals))
    return [read(v) for v in jaxpr.outvars]


def f(x):
    return jnp.exp(jnp.tanh(x))


closed_jaxpr = jax.make_jaxpr(f)(jnp.ones(5))
assert isinstance(closed_jaxpr, ClosedJaxpr)
print("interpreted", eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.literals, jnp.ones(5)))


def inverse(fun):
    def wrapped(*args):
        closed = jax.make_jaxpr(fun)(*args)
        env = dict(zip(closed.jaxpr.outvars, args))
        for eqn in closed.jaxpr.eqns[::-1]:
            out, = eqn.outvars
            arg, = eqn.invars
            env[arg] = inverse_registry[eqn.primitive](env[out])
        return env[closed.jaxpr.invars[0]]

    return wrapped


print("inverse", inverse(f)(f(1.0)))
print("jit, vmap, grad of it", jax.jit(jax.vmap(jax.grad(inverse(f))))(
    (jnp.arange(5) + 1.0) / 5.0 + 0.8
))
