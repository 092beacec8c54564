"""Solutions to chapter 7."""

from functools import partial

import minijit as mj
import minijit.numpy as jnp


def descend(f, x, rate, steps):
    step = mj.jit(lambda x: x - rate * mj.grad(f)(x))
    for _ in range(steps):
        x = step(x)
    return x


def check_descend(descend):
    """Jit one step, x - rate * grad(f)(x), before the loop, and call it in the loop."""
    entered = []

    def bowl(x):
        entered.append(1)
        return jnp.sum((x - 3.0) ** 2.0)

    got = descend(bowl, jnp.zeros(2), 0.1, 50)
    assert jnp.allclose(got, 3.0, atol=1e-3)
    assert len(entered) == 1


@partial(mj.custom_vjp, nondiff_argnums=(1,))
def clip_gradient(x, limit):
    return x


def clip_forward(x, limit):
    return x, ()


def clip_backward(limit, residuals, ct):
    return (jnp.minimum(jnp.maximum(ct, -limit), limit),)


clip_gradient.defvjp(clip_forward, clip_backward)


def check_clip_gradient(clip_gradient):
    """`partial(mj.custom_vjp, nondiff_argnums=(1,))`; bwd gets the limit first."""
    f = lambda x: jnp.sum(clip_gradient(x, 0.5) ** 2.0)
    x = jnp.array([-3.0, 0.1, 2.0])
    assert jnp.allclose(clip_gradient(x, 0.5), x)
    assert jnp.allclose(mj.grad(f)(x), jnp.array([-0.5, 0.2, 0.5]))


def hvp(f, x, v):
    return mj.jvp(mj.grad(f), (x,), (v,))[1]


def check_hvp(hvp):
    """The Hessian is the derivative of the gradient: jvp of grad, in direction v."""
    f = lambda x: jnp.sum(x**3.0)
    x, v = jnp.array([1.0, 2.0]), jnp.array([1.0, -1.0])
    assert jnp.allclose(hvp(f, x, v), jnp.array([6.0, -12.0]))
