"""Derivatives against differences, under the names of `jax.test_util`.

    check_grads(f, (x, y), order=2)         # silent, or an AssertionError

A derivative in one random direction is compared with a difference of two values, and
the transpose by the identity that defines it: <c, J t> = <Jᵀ c, t>.  One direction is
enough: a wrong derivative is right there only by chance.
"""

from functools import partial

import numpy as np

from .trace import dtypes
from .trace.array import aval_of, to_numpy
from .trace.base import names as _names
from .trace.trees.pytree import tree_flatten, tree_map, tree_unflatten
from .transform.derivatives.linearize import jvp
from .transform.derivatives.transpose import vjp

# How far to go for a difference, and by dtype how exact one is: JAX's numbers.
EPS = 1e-4
tolerances = {"float64": 1e-5, "complex128": 1e-5, "float32": 2e-3, "complex64": 1e-3}
tolerances |= {"float16": 1e-2, "bfloat16": 1e-1}


def has_tangent(x):
    """Whether x is an array or a number that can vary."""
    return dtypes.issubdtype(aval_of(x).dtype, np.inexact)


def random_like(random, tree):
    """Random numbers of the types of a tree of arrays; float0 for integers."""

    def one(x):
        aval = aval_of(x)
        if not has_tangent(x):
            return np.zeros(aval.shape, dtypes.float0)
        value = random.standard_normal(aval.shape)
        if aval.dtype.kind == "c":
            value = value + 1j * random.standard_normal(aval.shape)
        return np.asarray(value, aval.dtype)

    return tree_map(one, tree)


def widest(tree):
    """The dtype of the least exact numbers in a tree."""
    found = [aval_of(x).dtype for x in tree_flatten(tree)[0] if has_tangent(x)]
    return min(found, key=lambda d: (d.itemsize, d.name), default=np.dtype("float64"))


def moved(args, tangents, step):
    """args + step * tangents, leaf by leaf; integers stay."""
    leaves, tree = tree_flatten(args)
    tangents = tree_flatten(tangents)[0]
    values = [
        (to_numpy(x) + np.asarray(step * t, aval_of(x).dtype)) if has_tangent(x) else x
        for x, t in zip(leaves, tangents, strict=True)
    ]
    return tree_unflatten(tree, values)


def numerical_jvp(f, args, tangents, eps=None):
    """(f(args + ε tangents) - f(args - ε tangents)) / 2ε, as a flat list of arrays."""
    eps = eps or EPS
    high, low = (
        tree_flatten(f(*moved(args, tangents, sign * eps)))[0] for sign in (1, -1)
    )
    return [
        quotient(to_numpy(a), to_numpy(b), eps) if has_tangent(a) else None
        for a, b in zip(high, low, strict=True)
    ]


def quotient(high, low, eps):
    """A central difference; nothing has changed where both are the same infinity."""
    wide = np.result_type(high, np.float64)
    with np.errstate(invalid="ignore"):
        gap = high.astype(wide) - low.astype(wide)
    same = (high == low) | (np.isnan(high) & np.isnan(low))
    return np.where(same, 0, gap) / (2 * eps)


def inner(xs, ys):
    """The sum of all products, real part: what pairs tangents with cotangents."""
    total = 0.0
    for x, y in zip(xs, ys, strict=True):
        if has_tangent(x):
            wide = np.result_type(to_numpy(x), np.float64)
            total += np.vdot(to_numpy(x).conj().astype(wide), to_numpy(y)).real
    return total


def limits(args, atol, rtol):
    """The tolerances that were given, for all or for some dtypes, or JAX's."""
    name = widest(args).name
    default = tolerances.get(name, 1e-1)
    given = {"atol": atol, "rtol": rtol}
    return {key: for_dtypes(x, [name], default) for key, x in given.items()}


def check_jvp(f, f_jvp, args, atol=None, rtol=None, eps=None, err_msg="", seed=0):
    """Compare f_jvp(args, tangents) -> (value, tangent) with f and differences."""
    tangents = random_like(np.random.RandomState(seed), args)
    value, tangent = f_jvp(args, tangents)
    tolerance = limits(args, atol, rtol)
    wanted = tree_flatten(f(*args))[0]
    found = tree_flatten(value)[0], tree_flatten(tangent)[0]
    differences = numerical_jvp(f, args, tangents, eps)
    rows = zip(*found, wanted, differences, strict=True)
    for i, (y, t, y_wanted, t_wanted) in enumerate(rows):
        where = f"{err_msg or 'jvp'}, result leaf {i}"
        np.testing.assert_allclose(
            to_numpy(y), to_numpy(y_wanted), **tolerance, err_msg=f"{where}: its value"
        )
        if t_wanted is not None:
            np.testing.assert_allclose(
                to_numpy(t), t_wanted, **tolerance, err_msg=f"{where}: its tangent"
            )


def check_vjp(f, f_vjp, args, atol=None, rtol=None, eps=None, err_msg="", seed=0):
    """Compare f_vjp(*args) -> (value, pull-back) with f and differences."""
    random = np.random.RandomState(seed)
    value, pull_back = f_vjp(*args)
    tangents = random_like(random, args)
    differences = numerical_jvp(f, args, tangents, eps)
    ct = random_like(random, value)
    back = pull_back(ct)
    ct_leaves = tree_flatten(ct)[0]
    differences = [
        c if d is None else d for c, d in zip(ct_leaves, differences, strict=True)
    ]
    np.testing.assert_allclose(
        inner(tree_flatten(tangents)[0], tree_flatten(back)[0]),
        inner(ct_leaves, differences),
        **limits(args, atol, rtol),
        err_msg=f"{err_msg or 'vjp'}: <J^T ct, t> against <ct, J t>",
    )


def check_grads(
    f, args, order, modes=("fwd", "rev"), atol=None, rtol=None, eps=None, seed=0
):
    """Compare the derivatives of f with differences (`jax.test_util.check_grads`).

    Args:
      f: function of arrays or trees of them.
      args: its arguments; in double precision, if the answer is to mean much.
      order: up to which order.
      modes: "fwd", "rev" or both: at each order all of them are tried.
      atol, rtol, eps: tolerances, and the step of the differences.
      seed: of the random directions.

    Raises:
      AssertionError: a value, tangent or cotangent differs; the message says of
        which mode, at which order.
    """
    args = tuple(args)

    def check(f, args, order, path):
        for mode in modes:
            name = ".".join([*path, mode])
            options = dict(atol=atol, rtol=rtol, eps=eps, err_msg=name, seed=seed)
            if mode == "fwd":
                check_jvp(f, partial(jvp, f), args, **options)
                tangents = random_like(np.random.RandomState(seed + order), args)
                inner = lambda *args, t=tangents: jvp(f, args, t)
            else:
                check_vjp(f, partial(vjp, f), args, **options)
                ct = random_like(np.random.RandomState(seed + order), f(*args))
                inner = lambda *args, ct=ct: vjp(f, *args)[1](ct)
            if order > 1:
                check(floats_of(inner), args, order - 1, [*path, mode])

    check(f, args, order, [])


def check_close(xs, ys, atol=None, rtol=None, err_msg=""):
    """Compare two trees of arrays, by default to the digits of the less exact ones.

    As `jax._src.public_test_util.check_close`, which tests of libraries use: a
    tolerance counts once for each element.
    """

    def close(x, y):
        x, y = map(to_numpy, (x, y))
        exact = {"complex64": 1e-6, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
        exact |= {"float64": 1e-15, "complex128": 1e-15}
        names = [a.dtype.name for a in (x, y)]
        default = max(exact.get(name, 0) for name in names)
        rtols, atols = (for_dtypes(t, names, default) * x.size for t in (rtol, atol))
        assert x.shape == y.shape, err_msg
        np.testing.assert_allclose(x, y, rtols, atols, err_msg=err_msg)

    tree_map(close, xs, ys)


def for_dtypes(tolerance, names, default):
    """A tolerance that was given, for all or for some dtypes, or else the default."""
    if isinstance(tolerance, dict):
        given = {np.dtype(key).name: x for key, x in tolerance.items()}
        return max(given.get(name, default) for name in names)
    return default if tolerance is None else tolerance


def floats_of(f):
    """f without the results that cannot vary: float0 is not to be differentiated."""

    def of_floats(*args):
        leaves = tree_flatten(f(*args))[0]
        return [x for x in leaves if getattr(x, "dtype", None) != dtypes.float0]

    return of_floats

_names.publish(globals(), "check_grads check_jvp check_vjp")
