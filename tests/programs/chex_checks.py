"""chex: assertions, a dataclass that is a pytree, variants."""

import chex
import jax
import jax.numpy as jnp


@chex.dataclass
class Batch:
    x: chex.Array
    y: chex.Array


batch = Batch(x=jnp.arange(6.0).reshape(2, 3), y=jnp.ones(2))
doubled = jax.jit(lambda b: jax.tree.map(lambda v: 2 * v, b))(batch)
print("dataclass", doubled.x, doubled.y)
chex.assert_shape(batch.x, (2, None))
chex.assert_rank([batch.x, batch.y], [2, 1])
chex.assert_type(batch.x, float)
chex.assert_trees_all_close(doubled, Batch(x=2 * batch.x, y=2 * batch.y))
chex.assert_tree_all_finite(batch)
chex.assert_equal_shape([batch.x, doubled.x])
try:
    chex.assert_shape(batch.x, (3, 3))
except AssertionError as error:
    print("refused", "shape" in str(error))


@jax.jit
@chex.assert_max_traces(n=1)
def f(x):
    return x + 1


print("traced once", f(1.0), f(2.0))


@chex.chexify
@jax.jit
def g(x):
    chex.assert_tree_all_finite(x)
    return jnp.log(x)


print("chexified", g(jnp.array(2.0)))
