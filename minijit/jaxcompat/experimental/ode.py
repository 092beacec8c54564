"""Ordinary differential equations, under the name of `jax.experimental.ode`.

    ys = odeint(lambda y, t: -y, y0, jnp.linspace(0.0, 1.0, 11))    # ys[i] = y(t[i])

An adaptive Runge-Kutta method of Dormand and Prince.  Its gradient solves the adjoint
equation backwards (Chen et al., 2018, appendix C), so it keeps no steps.
"""

from functools import partial

import numpy as np

from ... import lax, numpy as jnp
from ...flatten_util import ravel_pytree
from ...numpy.arguments import check_arraylike
from ...trace import dtypes
from ...trace.api import calls
from ...trace.array import aval_of
from ...trace.jit.jit import jit
from ...trace.trees.pytree import tree_leaves, tree_map
from ...transform.batching.vmap import vmap
from ...transform.custom.closures import closure_convert
from ...transform.custom.custom_derivatives import custom_vjp
from ...transform.derivatives.transpose import vjp

# The tableau of Dormand and Prince: times of the stages, their weights on earlier
# ones, the weights of the solution, of its error and of the middle of the step.
stage_times = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0])
stage_weights = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
solution_weights = np.array([*stage_weights[-1], 0])
error_weights = solution_weights - np.array([
    1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60,
])  # fmt: skip
middle_weights = 0.5 * np.array([
    6025192743 / 30085553152, 0, 51252292925 / 65400821598,
    -2691868925 / 45128329728, 187940372067 / 1594534317056,
    -1776094331 / 19743644256, 11237099 / 235043384,
])  # fmt: skip


def weighted(weights, stages):
    """The sum of weights[i] * stages[i]."""
    terms = zip(weights, stages, strict=True)
    return sum(np.array(w, k.dtype) * k for w, k in terms if w)


def runge_kutta_step(func, y0, f0, t0, dt):
    """-> (y, its slope, an estimate of its error, the slopes of all stages)."""
    stages, step = [f0], dt.astype(f0.dtype)
    for time, weights in zip(stage_times, stage_weights, strict=True):
        y = y0 + step * weighted(weights, stages)
        stages.append(func(y, t0 + dt * time.astype(dt.dtype)))
    y1 = y0 + step * weighted(solution_weights, stages)
    return y1, stages[-1], step * weighted(error_weights, stages), stages


def interpolation(y0, y1, stages, dt):
    """The coefficients of a polynomial of order 4 through a step: [5, n]."""
    step = dt.astype(y0.dtype)
    middle = y0 + step * weighted(middle_weights, stages)
    d0, d1 = step * stages[0], step * stages[-1]
    a = -2 * d0 + 2 * d1 - 8 * y0 - 8 * y1 + 16 * middle
    b = 5 * d0 - 3 * d1 + 18 * y0 + 14 * y1 - 32 * middle
    c = -4 * d0 + d1 - 11 * y0 - 5 * y1 + 16 * middle
    return jnp.stack([a, b, c, d0, y0])


def initial_step_size(func, t0, y0, order, rtol, atol, f0):
    """Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, II.4."""
    scale = (atol + jnp.abs(y0) * rtol).astype(y0.dtype)
    d0, d1 = jnp.linalg.norm(y0 / scale), jnp.linalg.norm(f0 / scale)
    h0 = jnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
    f1 = func(y0 + h0.astype(y0.dtype) * f0, t0 + h0)
    d2 = jnp.linalg.norm((f1 - f0) / scale) / h0
    h1 = jnp.where(
        (d1 <= 1e-15) & (d2 <= 1e-15),
        jnp.maximum(1e-6, h0 * 1e-3),
        (0.01 / jnp.maximum(d1, d2)) ** (1 / (order + 1)),
    )
    return jnp.minimum(100 * h0, h1)


def error_ratio(error, rtol, atol, y0, y1):
    """The root of the mean square of the error, relative to what is allowed."""
    allowed = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    return jnp.sqrt(jnp.mean(jnp.abs(error / allowed.astype(error.dtype)) ** 2))


def next_step_size(step, ratio, safety=0.9, most=10.0, least=0.2, order=5.0):
    """A smaller step after an error that is too large, else a larger one."""
    least = jnp.where(ratio < 1, 1.0, least)
    factor = jnp.minimum(most, jnp.maximum(ratio ** (-1 / order) * safety, least))
    return jnp.where(ratio == 0, step * most, step * factor)


def odeint(func, y0, t, *args, rtol=1.4e-8, atol=1.4e-8, mxstep=np.inf, hmax=np.inf):
    """The solution of dy/dt = func(y, t, *args) with y(t[0]) = y0.

    Args:
      func: gives a pytree like y0.
      y0: a pytree of arrays; t: floats [n], ascending strictly: where y is wanted.
      args: pytrees of arrays, by which the solution can be differentiated, too.
      rtol, atol: what error of a step is allowed, relative and absolute.
      mxstep: how many steps at most to the next of the times; hmax: their length.

    Returns:
      A pytree like y0, with an axis of n in front.

    Raises TypeError for arguments that are no arrays, and times that are no floats.
    """
    for arg in tree_leaves(args):
        try:
            aval_of(arg)
        except TypeError:
            raise TypeError(
                "The contents of odeint *args must be arrays or scalars, but got "
                f"{arg}."
            ) from None
    check_arraylike("odeint", rtol, atol, mxstep, hmax)
    if not dtypes.issubdtype(aval_of(t).dtype, np.floating):
        raise TypeError(f"t must be an array of floats, but got {t}.")
    t = jnp.asarray(t)
    converted, captured = closure_convert(func, y0, t[0], *args)
    # jit knows the user's function again; a converted one is new each time.
    func = converted if captured else func
    return solve_tree(func, rtol, atol, mxstep, hmax, y0, t, *args, *captured)


@partial(jit, static_argnums=(0, 1, 2, 3, 4))
def solve_tree(func, rtol, atol, mxstep, hmax, y0, ts, *args):
    flat, unravel = ravel_pytree(y0)
    on_vectors = lambda y, t, *args: ravel_pytree(func(unravel(y), t, *args))[0]
    return vmap(unravel)(solve(on_vectors, rtol, atol, mxstep, hmax, flat, ts, *args))


@partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def solve(func, rtol, atol, mxstep, hmax, y0, ts, *args):
    slope = lambda y, t: func(y, t, *args)

    def to_next_time(carry, target):
        def unfinished(state):
            i, _, _, t, dt, _, _ = state
            return (t < target) & (i < mxstep) & (dt > 0)

        def step(state):
            i, y, f, t, dt, last, curve = state
            new_y, new_f, error, stages = runge_kutta_step(slope, y, f, t, dt)
            ratio = error_ratio(error, rtol, atol, y, new_y)
            new_curve = interpolation(y, new_y, stages, dt)
            new_dt = jnp.clip(next_step_size(dt, ratio), 0.0, hmax).astype(dt.dtype)
            new = new_y, new_f, t + dt, t, new_curve
            kept = [
                jnp.where(ratio <= 1, a, b)
                for a, b in zip(new, (y, f, t, last, curve), strict=True)
            ]
            return i + 1, *kept[:3], new_dt, *kept[3:]

        _, *carry = lax.while_loop(unfinished, step, (0, *carry))
        _, _, t, _, last, curve = carry
        share = ((target - last) / (t - last)).astype(curve.dtype)
        return tuple(carry), jnp.polyval(curve, share)

    f0 = slope(y0, ts[0])
    dt = initial_step_size(slope, ts[0], y0, 4, rtol, atol, f0)
    dt = jnp.clip(dt, 0.0, hmax).astype(ts.dtype)
    start = y0, f0, ts[0], dt, ts[0], jnp.stack([y0] * 5)
    _, ys = lax.scan(to_next_time, start, ts[1:])
    return jnp.concatenate((y0[None], ys))


def solve_fwd(func, rtol, atol, mxstep, hmax, y0, ts, *args):
    ys = solve(func, rtol, atol, mxstep, hmax, y0, ts, *args)
    return ys, (ys, ts, args)


def solve_bwd(func, rtol, atol, mxstep, hmax, residuals, g):
    ys, ts, args = residuals

    def adjoint(state, t, *args):
        """y and its cotangents, backwards: t is minus the time."""
        y, y_bar, *_ = state
        y_dot, pull_back = vjp(func, y, -t, *args)
        return -y_dot, *pull_back(y_bar)

    def to_last_time(carry, i):
        y_bar, t0_bar, args_bar = carry
        # Moving the time at which y is read moves y along its slope.
        t_bar = jnp.dot(func(ys[i], ts[i], *args), g[i]).real
        state = ys[i], y_bar, t0_bar - t_bar, *args_bar
        times = jnp.stack([-ts[i], -ts[i - 1]])
        options = {"rtol": rtol, "atol": atol, "mxstep": mxstep, "hmax": hmax}
        found = odeint(adjoint, state, times, *args, **options)
        _, y_bar, t0_bar, *args_bar = tree_map(lambda x: x[1], found)
        return (y_bar + g[i - 1], t0_bar, tuple(args_bar)), t_bar

    zeros = tuple(tree_map(jnp.zeros_like, args))
    start = g[-1], jnp.zeros((), ts.dtype), zeros
    backwards = jnp.arange(len(ts) - 1, 0, -1)
    (y_bar, t0_bar, args_bar), ts_bar = lax.scan(to_last_time, start, backwards)
    return y_bar, jnp.concatenate([t0_bar[None], ts_bar[::-1]]), *args_bar


solve.defvjp(solve_fwd, solve_bwd)

calls.publish(globals(), "odeint")


def ravel_first_arg(f, unravel, debug_info=None):
    """`f` as a function of its first argument as a vector, with a vector as result."""
    del debug_info
    return lambda flat, *args: ravel_pytree(f(unravel(flat), *args))[0]
