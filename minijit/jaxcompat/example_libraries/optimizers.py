"""Optimizers as triples of functions, as in `jax.example_libraries.optimizers`.

    init, update, params_of = optimizers.adam(1e-3)
    state = init(params)
    state = update(step, grad(loss)(params_of(state)), state)

A step size is a number, or a function from the number of a step: a schedule.
"""

import functools
from collections import namedtuple
from typing import NamedTuple

from ... import numpy as jnp, tree_util
from ...trace.base import names as _names

OptimizerState = namedtuple(
    "OptimizerState", ["packed_state", "tree_def", "subtree_defs"]
)
tree_util.register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda defs, children: OptimizerState(children[0], *defs),
)


class Optimizer(NamedTuple):
    """init(params) -> state, update(step, gradient, state) -> state, and back."""

    init_fn: object
    update_fn: object
    params_fn: object


def optimizer(opt_maker):
    """Optimizers of pytrees, made of a function that makes optimizers of one array.

    `opt_maker(*args)` returns init(x) -> state, update(i, g, state) -> state and
    params(state) -> x; the state of an array is any pytree.
    """

    @functools.wraps(opt_maker)
    def tree_opt_maker(*args, **kwargs):
        init, update, get_params = opt_maker(*args, **kwargs)

        @functools.wraps(init)
        def tree_init(x0_tree):
            leaves, tree = tree_util.tree_flatten(x0_tree)
            return packed(map(init, leaves), tree)

        @functools.wraps(update)
        def tree_update(i, grad_tree, opt_state):
            _, tree, subtrees = opt_state
            leaves, grad_def = tree_util.tree_flatten(grad_tree)
            if grad_def != tree:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not "
                    "match the parameter tree structure with which it was initialized: "
                    f"parameter tree {tree} and grad tree {grad_def}."
                )
            states = map(functools.partial(update, i), leaves, states_of(opt_state))
            found = packed(states, tree)
            for old, new in zip(subtrees, found.subtree_defs, strict=True):
                if old != new:
                    raise TypeError(
                        "optimizer update function produced an output structure that "
                        f"did not match its input structure: input {old} and output "
                        f"{new}."
                    )
            return found

        @functools.wraps(get_params)
        def tree_get_params(opt_state):
            leaves = map(get_params, states_of(opt_state))
            return tree_util.tree_unflatten(opt_state.tree_def, leaves)

        return Optimizer(tree_init, tree_update, tree_get_params)

    return tree_opt_maker


def packed(states, tree):
    """The OptimizerState of one state for each leaf of `tree`."""
    pairs = [tree_util.tree_flatten(state) for state in states]
    leaves, defs = (tuple(x) for x in (zip(*pairs, strict=True) if pairs else ((), ())))
    return OptimizerState(leaves, tree, defs)


def states_of(opt_state):
    """The state of each leaf."""
    leaves, _, defs = opt_state
    return map(tree_util.tree_unflatten, defs, leaves)


def first(state):
    """Where the parameters are in a state that has more than them."""
    return state[0]


# ---- Optimizers


@optimizer
def sgd(step_size):
    """Gradient descent: x - step_size * g."""
    step_size = make_schedule(step_size)
    identity = lambda x: x
    return Optimizer(identity, lambda i, g, x: x - step_size(i) * g, identity)


def with_velocity(step_size, mass, direction):
    """Gradient descent along direction(slope, velocity)."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * direction(g, velocity), velocity

    return lambda x: (x, jnp.zeros_like(x)), update, first


@optimizer
def momentum(step_size, mass):
    """Gradient descent with momentum: the velocity decays by `mass` each step."""
    return with_velocity(step_size, mass, lambda g, velocity: velocity)


@optimizer
def nesterov(step_size, mass):
    """Gradient descent with Nesterov's momentum: the velocity looks a step ahead."""
    return with_velocity(step_size, mass, lambda g, velocity: mass * velocity + g)


def with_two(x):
    """x and two arrays of zeros like it."""
    return x, jnp.zeros_like(x), jnp.zeros_like(x)


@optimizer
def adagrad(step_size, momentum=0.9):
    """Adagrad (Duchi, Hazan and Singer, 2011): steps by the sum of squared slopes."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, g_sq, m = state
        g_sq = g_sq + jnp.square(g)
        inverse = jnp.where(g_sq > 0, 1.0 / jnp.sqrt(g_sq), 0.0)
        m = (1.0 - momentum) * (g * inverse) + momentum * m
        return x - step_size(i) * m, g_sq, m

    return with_two, update, first


@optimizer
def rmsprop(step_size, gamma=0.9, eps=1e-8):
    """RMSProp: steps by a running mean of squared slopes, which decays by `gamma`."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean = state
        mean = mean * gamma + jnp.square(g) * (1.0 - gamma)
        return x - step_size(i) * g / jnp.sqrt(mean + eps), mean

    return lambda x: (x, jnp.zeros_like(x)), update, first


@optimizer
def rmsprop_momentum(step_size, gamma=0.9, eps=1e-8, momentum=0.9):
    """RMSProp with momentum."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, m = state
        mean = mean * gamma + jnp.square(g) * (1.0 - gamma)
        m = momentum * m + step_size(i) * g / jnp.sqrt(mean + eps)
        return x - m, mean, m

    return with_two, update, first


def power(base, i, like):
    """base**(i + 1), in the dtype of `like`."""
    return jnp.asarray(base, like.dtype) ** (i + 1)


@optimizer
def adam(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """Adam (Kingma and Ba, 2015): running means of slopes and of their squares."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        mean, square = m / (1 - power(b1, i, m)), v / (1 - power(b2, i, m))
        return x - step_size(i) * mean / (jnp.sqrt(square) + eps), m, v

    return with_two, update, first


@optimizer
def adamax(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """AdaMax: Adam with a decaying maximum in place of the mean of squares."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        return x - (step_size(i) / (1 - power(b1, i, m))) * m / (u + eps), m, u

    return with_two, update, first


@optimizer
def sm3(step_size, momentum=0.9):
    """SM3 (Anil et al., 2019): Adagrad with a vector for each axis, not an array."""
    step_size = make_schedule(step_size)

    def init(x):
        shape, x = x.shape, jnp.atleast_1d(x)
        return x, jnp.zeros_like(x), [jnp.zeros(n, x.dtype) for n in x.shape], shape

    def update(i, g, state):
        x, m, rows, shape = state
        spread = [
            jnp.expand_dims(v, [d for d in range(x.ndim) if d != axis])
            for axis, v in enumerate(rows)
        ]
        total = functools.reduce(jnp.minimum, spread) + jnp.square(g)
        inverse = jnp.where(total > 0, 1.0 / jnp.sqrt(total), 0)
        m = (1.0 - momentum) * (g * inverse) + momentum * m
        rows = [
            total.max([d for d in range(x.ndim) if d != axis]) for axis in range(x.ndim)
        ]
        return x - step_size(i) * m, m, rows, shape

    return init, update, lambda state: state[0].reshape(state[3])


# ---- Schedules of step sizes


def constant(step_size):
    """The same step size always."""
    return lambda i: step_size


def exponential_decay(step_size, decay_steps, decay_rate):
    """step_size * decay_rate**(i / decay_steps)."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size, decay_steps, decay_rate, staircase=False):
    """step_size / (1 + decay_rate * i / decay_steps); by whole steps if `staircase`."""
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size, decay_steps, final_step_size, power=1.0):
    """From step_size to final_step_size along (1 - i / decay_steps)**power."""

    def schedule(step_num):
        share = (1 - jnp.minimum(step_num, decay_steps) / decay_steps) ** power
        return share * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries, values):
    """values[k] after the step boundaries[k - 1]."""
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")
    return lambda i: values[jnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule):
    """A schedule as it is, of a number a constant one."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(type(scalar_or_schedule))


# ---- Gradients, and states on their way to a file


def l2_norm(tree):
    """The root of the sum of all squares in a pytree."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_util.tree_leaves(tree)))


def clip_grads(grad_tree, max_norm):
    """The gradient, made shorter where its norm is above `max_norm`."""
    norm = l2_norm(grad_tree)
    clip = lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm))
    return tree_util.tree_map(clip, grad_tree)


class JoinPoint:
    """Where the pytree of parameters ends and the state of one of them begins."""

    def __init__(self, subtree):
        self.subtree = subtree

    def __iter__(self):
        yield self.subtree


def unpack_optimizer_state(opt_state):
    """The pytree of parameters, with a JoinPoint of its state in place of each leaf."""
    points = map(JoinPoint, states_of(opt_state))
    return tree_util.tree_unflatten(opt_state.tree_def, points)


def pack_optimizer_state(marked_pytree):
    """The OptimizerState of a pytree of JoinPoints: `unpack_optimizer_state` undone."""
    points, tree = tree_util.tree_flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise TypeError("pack_optimizer_state takes a tree whose leaves are JoinPoints")
    return packed([point.subtree for point in points], tree)


_names.publish(globals(), """
    JoinPoint Optimizer OptimizerState adagrad adam adamax clip_grads constant
    exponential_decay inverse_time_decay l2_norm make_schedule momentum nesterov
    optimizer pack_optimizer_state piecewise_constant polynomial_decay rmsprop
    rmsprop_momentum sgd sm3 unpack_optimizer_state
""")
