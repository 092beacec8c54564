"""equinox's transforms that look into traces: `filter_jvp`, `noinline`, its loops."""

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp

x = jnp.arange(1.0, 5.0)
model = eqx.nn.MLP(4, 2, 8, 1, activation=jnp.tanh, key=jax.random.key(0))

tangent = jax.tree.map(lambda leaf: leaf if eqx.is_inexact_array(leaf) else None, model)
print("jvp", eqx.filter_jvp(lambda m, x: m(x), (model, x), (tangent, x)))

product = eqxi.noinline(lambda x, y: jnp.sin(x) * y)
print("noinline", product(x, 2.0), jax.jit(lambda x: product(x, 3.0))(x))
print("grad", jax.grad(lambda x: product(x, 2.0).sum())(x))
print("vmap", jax.vmap(lambda x: product(x, 2.0))(x))


def steps(kind, **options):
    def f(x):
        def body(carry):
            i, y = carry
            return i + 1, jnp.sin(y) * y + 1

        test = lambda carry: carry[0] < 5
        return eqxi.while_loop(test, body, (0, x), kind=kind, **options)[1]

    return f


for kind in "bounded", "checkpointed":
    f = steps(kind, max_steps=16)
    print(kind, f(1.0), jax.grad(f)(1.3), jax.vmap(jax.grad(f))(x))
print("lax", jax.jvp(steps("lax"), (1.0,), (1.0,)))


@eqx.filter_custom_vjp
def scaled(pair, y):
    return pair[0] * pair[1] * y


@scaled.def_fwd
def scaled_fwd(perturbed, pair, y):
    return scaled(pair, y), None


@scaled.def_bwd
def scaled_bwd(residual, ct, perturbed, pair, y):
    return ct * 7.0, None


pair = jnp.array(3.0), jnp.array(4.0)
grads = eqx.filter_grad(lambda pair: scaled(pair, 2.0))(pair)
print("custom", *map(float, grads))
