"""Functions x transformations: what `test_product*.py` multiply.

    functions["softmax"](x)                 # a number for a vector
    stacks["vmap-grad"](f)(x, u)            # its derivative in the direction u

Every stack gives the derivative in a direction, by another way: so they nest, and
three of them, one in another, give a third derivative that must be the same for all.
`reference` has the numbers: forward mode without jit, each order checked against
differences of the one before.
"""

from functools import cache, partial

import numpy as np

import minijit.numpy as jnp
from minijit import (
    checkpoint, checkpoint_policies, custom_jvp, custom_vjp, grad, hessian, jacfwd,
    jacrev, jit, jvp, lax, linear_transpose, linearize, value_and_grad, vjp, vmap,
)

N = 4
random = np.random.RandomState(0)
point = np.array([0.7, -0.4, 1.3, 0.2])
directions = tuple(random.randn(3, N))
matrix, kernel = random.randn(3, N), random.randn(1, 1, 2)
rows = np.array([0, 2, 2, 3, 1, 2])


def layers(x):
    hidden = jnp.tanh(matrix @ x)
    return jnp.sum(jnp.tanh(hidden @ matrix) ** 2)


def softmax(x):
    weights = jnp.exp(x - jnp.max(x))
    return jnp.dot(weights / jnp.sum(weights), x)


def normalised(x):
    centred = x - jnp.mean(x)
    return jnp.dot(centred / jnp.sqrt(jnp.mean(centred**2) + 0.1), matrix[0])


def structural(x):
    square = jnp.outer(x, x).reshape(2, 8).T
    parts = jnp.concatenate([square[::2], square[1::2]], 1)
    return jnp.sum(jnp.pad(parts, 1) * jnp.flip(jnp.pad(parts, 1)))


def scattered(x):
    places = jnp.zeros(N).at[rows].add(jnp.sin(x[rows]))
    return jnp.sum(places.at[1].set(x[0] * x[1]) ** 2)


def convolved(x):
    y = lax.conv_general_dilated(
        jnp.sin(x).reshape(1, 1, N), kernel, (1,), "SAME"
    ).reshape(N)
    pooled = lax.reduce_window(y * x, -jnp.inf, lax.max, (2,), (1,), "VALID")
    return jnp.sum(pooled**2)


@jit
def inner(x):
    return jnp.sin(x) * jnp.sum(x)


@custom_jvp
def with_rule(x):
    return jnp.log1p(jnp.exp(x))


@with_rule.defjvp
def with_rule_jvp(primals, tangents):
    x, = primals
    t, = tangents
    return with_rule(x), t / (1 + jnp.exp(-x))


@custom_vjp
def with_pull_back(x):
    return x**3


with_pull_back.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))


def looped(x):
    def body(carry, xi):
        carry = jnp.sin(carry) * xi + carry
        return carry, carry * xi

    last, ys = lax.scan(body, 0.5, x)
    return last * jnp.sum(ys)


def branched(x):
    return lax.cond(x[0] > 0, lambda x: jnp.sum(x**3), lambda x: jnp.sum(x), x) * x[1]


functions = {
    "elementwise": lambda x: jnp.sum(jnp.sin(x) * jnp.exp(x / 2)),
    "quotient": lambda x: jnp.sum(x / (1 + x * x)) ** 2,
    "layers": layers,
    "logsumexp": lambda x: jnp.log(jnp.sum(jnp.exp(2 * x))),
    "softmax": softmax,
    "normalised": normalised,
    "structural": structural,
    "gathered": lambda x: jnp.prod(x[rows]) + jnp.sum(x[1:3] ** 3 * x[rows][:2]),
    "scattered": scattered,
    "sorted": lambda x: jnp.sum(jnp.cumsum(jnp.sort(x)) ** 3 * matrix[1]),
    "running": lambda x: jnp.sum(jnp.cumprod(x)) + jnp.max(x**2) * jnp.min(x),
    "guarded": lambda x: jnp.sum(jnp.where(x > 0, x**3, jnp.sin(x)) * jnp.abs(x)),
    "convolved": convolved,
    "jitted": lambda x: jnp.sum(inner(x) * inner(inner(x) + x)),
    "custom_jvp": lambda x: jnp.sum(with_rule(x) * with_rule(x**2)),
    "special": lambda x: jnp.sum(lax.erf(x) * lax.logistic(x) + lax.lgamma(x**2 + 1)),
    "scan": looped,
    "cond": branched,
}
# Its forward mode is not known, so it is tried with reverse mode innermost.
reverse_only = {"custom_vjp": lambda x: jnp.sum(with_pull_back(x) * jnp.sin(x))}


def by_own_jvp(f):
    """f with a custom_jvp rule that says what is so anyway."""
    wrapped = custom_jvp(f)
    wrapped.defjvp(lambda primals, tangents: jvp(f, primals, tangents))
    return wrapped


def by_own_vjp(f):
    """f with a custom_vjp rule that says what is so anyway."""
    wrapped = custom_vjp(f)
    wrapped.defvjp(partial(vjp, f), lambda pull_back, ct: pull_back(ct))
    return wrapped


def many(x):
    """A batch of points, the second of which is x."""
    return jnp.stack([x + 1, x, x * 0.5])


def transposed(f, x, u):
    """The linearized function, transposed."""
    _, f_jvp = linearize(f, x)
    return jnp.dot(linear_transpose(f_jvp, x)(jnp.ones(()))[0], u)


def lane(f):
    """f in one of several lanes."""
    return lambda x: vmap(f)(many(x))[1]


saving_products = partial(checkpoint, policy=checkpoint_policies.dots_saveable)
saving_bytes = partial(checkpoint, budget_bytes=64)

stacks = {
    "jvp": lambda f, x, u: jvp(f, (x,), (u,))[1],
    "grad": lambda f, x, u: jnp.dot(grad(f)(x), u),
    "linearize": lambda f, x, u: linearize(f, x)[1](u),
    "linearize-vjp": transposed,
    "jit-jvp": lambda f, x, u: jit(lambda x, u: jvp(f, (x,), (u,))[1])(x, u),
    "grad-jit": lambda f, x, u: jnp.dot(grad(jit(f))(x), u),
    "jit-grad-jit": lambda f, x, u: jnp.dot(jit(grad(jit(f)))(x), u),
    "vmap-grad": lambda f, x, u: jnp.dot(vmap(grad(f))(many(x))[1], u),
    "grad-vmap": lambda f, x, u: jnp.dot(grad(lane(f))(x), u),
    "jvp-vmap": lambda f, x, u: jvp(lane(f), (x,), (u,))[1],
    "jit-vmap-grad": lambda f, x, u: jnp.dot(jit(vmap(grad(f)))(many(x))[1], u),
    "vmap-jit-vjp": lambda f, x, u: jnp.dot(
        vmap(jit(lambda x: vjp(f, x)[1](jnp.ones(()))[0]))(many(x))[1], u
    ),
    "grad-checkpoint": lambda f, x, u: jnp.dot(grad(checkpoint(f))(x), u),
    "checkpoint-grad": lambda f, x, u: jnp.dot(checkpoint(grad(f))(x), u),
    "jvp-checkpoint-jit": lambda f, x, u: jvp(checkpoint(jit(f)), (x,), (u,))[1],
    "jit-grad-checkpoint": lambda f, x, u: jnp.dot(jit(grad(saving_products(f)))(x), u),
    "vmap-grad-budget": lambda f, x, u: jnp.dot(
        vmap(grad(saving_bytes(f)))(many(x))[1], u
    ),
    "jacfwd": lambda f, x, u: jnp.dot(jacfwd(f)(x), u),
    "jit-jacrev": lambda f, x, u: jnp.dot(jit(jacrev(f))(x), u),
    "grad-custom_jvp": lambda f, x, u: jnp.dot(grad(by_own_jvp(f))(x), u),
    "jvp-custom_jvp-jit": lambda f, x, u: jvp(by_own_jvp(jit(f)), (x,), (u,))[1],
    "grad-custom_vjp": lambda f, x, u: jnp.dot(grad(by_own_vjp(f))(x), u),
    "vmap-value_and_grad": lambda f, x, u: jnp.dot(
        vmap(value_and_grad(f))(many(x))[1][1], u
    ),
}
# Those that go forwards through the function itself.
forward = {"jvp", "linearize", "jit-jvp", "jvp-vmap", "jvp-checkpoint-jit", "jacfwd"}
forward |= {"jvp-custom_jvp-jit", "grad-custom_jvp", "linearize-vjp"}


def derivative(names, f):
    """The derivative of f that a list of stacks gives, the first one outermost."""

    def along(stack, f, u):
        return lambda x: stack(f, x, u)

    for name, u in zip(reversed(names), directions, strict=False):
        f = along(stacks[name], f, u)
    return f


def nests(name):
    """The ways a stack is tried: alone, on itself, with others inside it."""
    names = list(stacks)
    i = names.index(name)
    second, third = (names[(i + k) % len(names)] for k in (1, 5))
    return {
        "alone": [name],
        "on itself": [name, name],
        "second": [name, second],
        "third": [name, second, third],
    }


@cache
def reference(name):
    """Derivatives of order 0 to 3 of a function along the directions, by jvp alone."""
    f = (functions | reverse_only)[name]
    way = "grad" if name in reverse_only else "jvp"
    found, step = [f(point)], 1e-5
    for order in (1, 2, 3):
        last = derivative([way] * (order - 1), f)
        found.append(derivative([way] * order, f)(point))
        u = directions[order - 1]
        difference = (last(point + step * u) - last(point - step * u)) / (2 * step)
        np.testing.assert_allclose(found[-1], difference, rtol=1e-6, atol=1e-6)
    return [float(y) for y in found]


def second_orders():
    """{name: a whole Hessian by another way}"""
    return {
        "hessian": lambda f: hessian(f)(point),
        "jit-hessian": lambda f: jit(hessian(f))(point),
        "jacrev-jacfwd": lambda f: jacrev(jacfwd(f))(point),
        "jacrev-jacrev": lambda f: jacrev(jacrev(checkpoint(f)))(point),
        "vmap-hvp": lambda f: vmap(lambda v: jvp(grad(f), (point,), (v,))[1])(
            np.eye(N)
        ),
    }
