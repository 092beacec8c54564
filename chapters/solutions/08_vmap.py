"""Solutions to chapter 8."""

import minijit as mj
import minijit.numpy as jnp


def all_pairs(f):
    return mj.vmap(mj.vmap(f, in_axes=(None, 0)), in_axes=(0, None))


def check_all_pairs(all_pairs):
    """Two vmaps: the inner one holds x fixed with None, the outer one holds ys."""
    xs, ys = jnp.arange(3.0), jnp.arange(2.0) * 10.0
    got = all_pairs(lambda x, y: x - y)(xs, ys)
    assert got.shape == (3, 2)
    assert jnp.allclose(got, xs[:, None] - ys[None, :])
    a = jnp.arange(6.0).reshape(3, 2)
    assert jnp.allclose(all_pairs(jnp.dot)(a, a), a @ a.T)


def influence(loss, w, xs, ys):
    gradients = mj.vmap(mj.grad(loss), in_axes=(None, 0, 0))(w, xs, ys)
    return mj.vmap(lambda g: jnp.sqrt(jnp.sum(g * g)))(gradients)


def check_influence(influence):
    """vmap of grad gives one gradient an example; vmap a norm over those."""

    def loss(w, x, y):
        return (jnp.sum(w * x) - y) ** 2.0

    w = jnp.array([1.0, 2.0])
    xs = jnp.array([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]])
    ys = jnp.array([0.0, 2.0, 10.0])
    got = influence(loss, w, xs, ys)
    assert jnp.allclose(got, jnp.array([2.0, 0.0, 10.0]), atol=1e-5)


def hessian_diagonal(f, x):
    def entry(direction):
        _, tangent = mj.jvp(mj.grad(f), (x,), (direction,))
        return jnp.sum(direction * tangent)

    return mj.vmap(entry)(jnp.eye(x.size, dtype=x.dtype))


def check_hessian_diagonal(hessian_diagonal):
    """jvp of grad in one direction is a column of the Hessian; vmap over directions."""

    def f(x):
        return jnp.sum(x**3.0) + jnp.prod(x)

    x = jnp.array([1.0, 2.0, 0.5])
    assert jnp.allclose(hessian_diagonal(f, x), 6.0 * x, atol=1e-4)
