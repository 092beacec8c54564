"""Meshes, shard_map, pmap, callbacks and flags, as a program for many devices has them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback, mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_default_matmul_precision", "highest")
jax.config.update("jax_platform_name", "cpu")

mesh = Mesh(mesh_utils.create_device_mesh((1, 1)), ("data", "model"))
sharding = NamedSharding(mesh, P("data", "model"))
x = jax.device_put(jnp.arange(8.0).reshape(4, 2), sharding)
print("mesh", dict(mesh.shape), mesh.axis_names, sharding.spec == P("data", "model"))


@jax.jit
def step(x):
    y = jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("data")))
    with jax.named_scope("total"):
        return y.sum()


print("constraint", step(x))


def loss(w, x):
    error = x @ w
    return jax.lax.pmean(jnp.mean(error**2), "data")


sharded_loss = jax.shard_map(loss, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())
w = jnp.array([1.0, -2.0])
print("shard_map", sharded_loss(w, x), jax.grad(sharded_loss)(w, x))
print("pmap", jax.pmap(lambda v: v / jax.lax.psum(v, "i"), axis_name="i")(x[None])[0, 1])

seen = []


def record(v):
    seen.append(float(v))
    return np.float32(v) + 1


@jax.jit
def with_callbacks(v):
    s = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(v.shape, v.dtype), v)
    return io_callback(record, jax.ShapeDtypeStruct((), jnp.float32), s.sum())


print("callbacks", with_callbacks(x))
jax.effects_barrier()
print("seen", seen)

lanes = jax.vmap(
    lambda v: jax.pure_callback(
        lambda a: np.asarray(a).sum(keepdims=False)[()] * np.float32(2),
        jax.ShapeDtypeStruct((), jnp.float32), v, vmap_method="sequential",
    )
)(x)
print("lanes", lanes)
try:
    NamedSharding(mesh, P("rows"))
except ValueError as error:
    print("refused", "rows" in str(error))
with jax.transfer_guard("allow"), jax.default_matmul_precision("float32"):
    print("product", x @ x.T)
