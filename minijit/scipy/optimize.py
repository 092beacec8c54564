"""Minima of functions of a vector, under the name of `jax.scipy.optimize`.

    found = minimize(lambda x: ((x - 1) ** 2).sum(), jnp.zeros(3), method="BFGS")
    found.x, found.success
"""

from typing import Any, NamedTuple

import numpy as np

from .. import lax, numpy as jnp
from ..trace import dtypes
from ..trace.api import calls
from ..transform.derivatives.transpose import value_and_grad


class OptimizeResults(NamedTuple):
    """Where the minimum is, and how it was found.

    Attributes:
      x, fun, jac: the place, the value and the gradient there.
      success: whether the gradient is small enough; status: 0, or why not: 1: too many
        steps; 2 and 3: too many values or gradients (L-BFGS); 3 and 5: the line search
        failed; 4: the value hardly changes (L-BFGS).
      hess_inv: the inverse of the Hessian, estimated; None for L-BFGS.
      nfev, njev, nit: how many values, gradients and steps it took.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(fun, x0, args=(), *, method, tol=None, options=None):
    """A minimum of fun(x, *args) near x0.

    Args:
      fun: a vector, and args -> a number; x0: [n].
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", in any case of
        letters.
      tol: ignored, as in JAX.
      options: maxiter, norm, gtol and line_search_maxiter; for L-BFGS maxiter, norm,
        gtol, maxcor, ftol, maxfun, maxgrad and maxls.

    Returns: OptimizeResults.
    """
    if not isinstance(args, tuple):
        raise TypeError(
            f"args argument to jax.scipy.optimize.minimize must be a tuple, got {args}"
        )
    methods = {"bfgs": bfgs, "l-bfgs-experimental-do-not-rely-on-this": lbfgs}
    if method.lower() not in methods:
        raise ValueError(f"Method {method} not recognized: use 'BFGS'")
    run = methods[method.lower()]
    return run(lambda x: fun(x, *args), jnp.asarray(x0), **(options or {}))


def bfgs(f, x, maxiter=None, norm=np.inf, gtol=1e-5, line_search_maxiter=10):
    """Broyden, Fletcher, Goldfarb, Shanno: Nocedal and Wright, Algorithm 6.1."""
    maxiter = 200 * x.size if maxiter is None else maxiter
    small = lambda g: jnp.linalg.norm(g, ord=norm) < gtol
    unit = jnp.eye(x.size, dtype=x.dtype)

    def unfinished(s):
        return ~s["converged"] & ~s["failed"] & (s["k"] < maxiter)

    def step(s):
        p = -(s["h"] @ s["g"])
        a, value, g, calls, status = line_search(
            f, s["x"], p, s["f"], s["last"], s["g"], line_search_maxiter
        )
        move, change = a * p, g - s["g"]
        rho = 1 / (change @ move)
        w = unit - rho * jnp.outer(move, change)
        h = w @ s["h"] @ w.T + rho * jnp.outer(move, move)
        return {
            "converged": small(g), "failed": status != 0, "status": status,
            "k": s["k"] + 1, "calls": s["calls"] + calls, "x": s["x"] + move,
            "f": value, "g": g, "h": jnp.where(jnp.isfinite(rho), h, s["h"]),
            "last": s["f"],
        }  # fmt: skip

    value, g = value_and_grad(f)(x)
    start = {
        "converged": small(g), "failed": jnp.array(False), "status": jnp.array(0),
        "k": jnp.array(0), "calls": jnp.array(1), "x": x, "f": value, "g": g,
        "h": unit, "last": value + jnp.linalg.norm(g) / 2,
    }  # fmt: skip
    s = lax.while_loop(unfinished, step, start)
    trouble = jnp.where(s["k"] == maxiter, 1, 2 + s["status"])
    return OptimizeResults(
        x=s["x"], success=s["converged"] & ~s["failed"],
        status=jnp.where(s["converged"], 0, trouble), fun=s["f"], jac=s["g"],
        hess_inv=s["h"], nfev=s["calls"], njev=s["calls"], nit=s["k"],
    )  # fmt: skip


def lbfgs(
    f, x, maxiter=None, norm=np.inf, maxcor=10, ftol=2.220446049250313e-09, gtol=1e-5,
    maxfun=None, maxgrad=None, maxls=20,
):  # fmt: skip
    """BFGS with the last `maxcor` steps in place of a matrix; as above, 7.4 and 7.5."""
    if maxiter is None and maxfun is None and maxgrad is None:
        maxiter = 200 * x.size
    most = [np.inf if m is None else m for m in (maxiter, maxfun, maxgrad)]

    def step(s):
        p = downhill(s)
        a, value, g, calls, failed = line_search(
            f, s["x"], p, s["f"], None, s["g"], maxls
        )
        move, change = a * p, g - s["g"]
        along = change @ move
        converged = jnp.linalg.norm(g, ord=norm) < gtol
        status = jnp.where(s["f"] - value < ftol, 4, 0)
        for code, reached in ((3, s["calls"]), (2, s["calls"]), (1, s["k"])):
            status = jnp.where(reached >= most[code - 1], code, status)
        status = jnp.where(failed != 0, 5, status)
        last = lambda rows, new: jnp.concatenate([rows[1:], new[None]])
        return {
            "converged": converged, "status": jnp.where(converged, 0, status),
            "k": s["k"] + 1, "calls": s["calls"] + calls, "x": s["x"] + move,
            "f": value, "g": g, "moves": last(s["moves"], move),
            "changes": last(s["changes"], change), "scale": along / (change @ change),
            "rho": last(s["rho"], 1 / along),
        }  # fmt: skip

    value, g = value_and_grad(f)(x)
    rows = jnp.zeros((maxcor, x.size), x.dtype)
    start = {
        "converged": jnp.array(False), "status": jnp.array(0), "k": jnp.array(0),
        "calls": jnp.array(1), "x": x, "f": value, "g": g,
        "moves": rows, "changes": rows, "rho": rows[:, 0],
        "scale": jnp.ones((), x.dtype),
    }  # fmt: skip
    unfinished = lambda s: ~s["converged"] & (s["status"] == 0)
    s = lax.while_loop(unfinished, step, start)
    return OptimizeResults(
        x=s["x"], success=s["converged"], status=s["status"], fun=s["f"], jac=s["g"],
        hess_inv=None, nfev=s["calls"], njev=s["calls"], nit=s["k"],
    )  # fmt: skip


def downhill(s):
    """The inverse of the Hessian, as the last steps tell, times minus the gradient."""
    # Of steps that were not made the rows are zero, and change nothing.
    rows = s["rho"], s["moves"], s["changes"]

    def back(q, row):
        rho, move, change = row
        a = rho * (move @ q)
        return q - a * change, a

    def forth(q, row):
        rho, move, change, a = row
        return q + (a - rho * (change @ q)) * move, None

    q, shares = lax.scan(back, -s["g"], rows, reverse=True)
    return lax.scan(forth, s["scale"] * q, (*rows, shares))[0]


def cubic_minimum(lo, hi, third):
    """Where the cubic through three points (a, value, slope) is least; lo's slope."""
    (a, fa, da), (b, fb, _), (c, fc, _) = lo, hi, third
    b, c = b - a, c - a
    scale = (b * c) ** 2 * (b - c)
    rb, rc = fb - fa - da * b, fc - fa - da * c
    cube = (c**2 * rb - b**2 * rc) / scale
    square = (b**3 * rc - c**3 * rb) / scale
    return a + (-square + jnp.sqrt(square**2 - 3 * cube * da)) / (3 * cube)


def quadratic_minimum(lo, hi):
    """Where the parabola through two points (a, value, slope) is least; lo's slope."""
    (a, fa, da), (b, fb, _) = lo, hi
    b = b - a
    return a - da * b * b / (2 * (fb - fa - da * b))


def length_within(lo, hi, third, has_third):
    """A length between those of lo and hi: where a cubic or a parabola is least, or the
    middle.  Each of the points is (length, value, slope)."""
    width = jnp.abs(hi[0] - lo[0])
    low = jnp.minimum(lo[0], hi[0])
    inside = lambda a, t: (a > low + t * width) & (a < low + width - t * width)
    cubic, parabola = cubic_minimum(lo, hi, third), quadratic_minimum(lo, hi)
    a = jnp.where(inside(parabola, 0.1), parabola, (lo[0] + hi[0]) / 2)
    return jnp.where(has_third & inside(cubic, 0.2), cubic, a)


def pick(condition, x, y):
    """The point x or the point y."""
    return [jnp.where(condition, u, v) for u, v in zip(x, y, strict=True)]


def line_search(f, x, p, value, last, g, maxiter, c1=1e-4, c2=0.9):
    """A step along p that satisfies Wolfe's conditions; Nocedal and Wright, 3.5, 3.6.

    Args:
      last: the value at the place before x, from which the first length is guessed.

    Returns:
      (the step's length, the value and gradient there, how many of them were computed,
      0 or what went wrong: 1: no step in an interval; 3: no interval).
    """
    slope = g @ p

    def at(a):
        value, g = value_and_grad(f)(x + a * p)
        return value, g @ p, g

    def too_high(a, new):
        return new > value + c1 * a * slope

    def flat_enough(d):
        return jnp.abs(d) <= -c2 * slope

    def body(s):
        """Longer steps until an interval holds a minimum, then ever shorter ones."""
        growing, lo, hi = s["phase"] == 0, s["lo"], s["hi"]
        width = jnp.abs(hi[0] - lo[0])
        a = jnp.where(growing, s["a"], length_within(lo, hi, s["third"], s["j"] > 0))
        new, d, g = at(a)
        here = a, new, d
        # While steps grow, lo is the last one and there is no hi.
        above = too_high(a, new) | ((new >= lo[1]) & (~growing | (s["i"] > 1)))
        done = ~above & flat_enough(d)
        turned = jnp.where(growing, d >= 0, d * (hi[0] - lo[0]) >= 0)
        new_hi = pick(above, here, pick(turned, lo, hi))
        new_lo = pick(above, lo, here)
        new_third = pick(above | turned, pick(growing, here, hi), lo)
        inward = growing & (above | turned)
        tiny = 1e-5 if dtypes.finfo(x.dtype).bits < 64 else 1e-10
        i, j = s["i"] + growing, s["j"] + ~growing
        failed = ~growing & ((j >= 30) | (width <= tiny))
        return {
            "phase": jnp.where(inward, 1, s["phase"]), "i": i, "j": j,
            "calls": s["calls"] + 1, "a": jnp.where(growing, 2 * a, a),
            "lo": new_lo, "hi": new_hi, "third": new_third, "done": done, "best": here,
            "g": g, "status": jnp.where(
                done, 0, jnp.where(failed, 1, jnp.where(growing & (i > maxiter)
                & ~inward, 3, 0))
            ),
        }  # fmt: skip

    first = jnp.ones((), x.dtype)
    if last is not None:
        guess = 1.01 * 2 * (value - last) / slope
        first = jnp.where(guess > 1, 1.0, guess).astype(x.dtype)
    zero = [jnp.zeros((), x.dtype), value, slope]
    start = {
        "phase": jnp.array(0), "i": jnp.array(1), "j": jnp.array(0),
        "calls": jnp.array(0), "a": first, "lo": zero, "hi": zero, "third": zero,
        "done": jnp.array(False), "best": tuple(zero), "g": g, "status": jnp.array(0),
    }  # fmt: skip
    s = lax.while_loop(lambda s: ~s["done"] & (s["status"] == 0), body, start)
    a, value, _ = s["best"]
    return a, value, s["g"], s["calls"], s["status"]


calls.publish(globals(), "OptimizeResults minimize")
