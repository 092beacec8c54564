"""What distributions share: promoted arguments, and functions made of logarithms."""

import functools

import numpy as np

from ... import lax, numpy as jnp
from ...numpy.core import promote_args_inexact as promoted
from ...trace import calls

nan, infinity = np.float32(np.nan), np.float32(np.inf)


def standard(name, x, *args):
    """-> ((x - loc) / scale, scale, the other arguments); loc and scale come last."""
    x, *shape, loc, scale = promoted(name, x, *args)
    return (x - loc) / scale, scale, *shape


def clipped(x, low, high):
    """x between two numbers; its derivative outside is 0, whatever comes after."""
    return lax.clamp(np.array(low, x.dtype), x, np.array(high, x.dtype))


def choose(condition, x, y):
    """jnp.where that keeps the dtype of the argument that is an array with one."""
    like = x if hasattr(x, "dtype") and not isinstance(x, np.float32) else y
    return jnp.where(condition, *(jnp.asarray(v, like.dtype) for v in (x, y)))


def outside(condition, x):
    """x, but minus infinity where the condition holds: no density is there."""
    return choose(condition, -infinity, x)


def invalid(condition, x):
    """x, but NaN where the condition holds: there is no such distribution."""
    return choose(condition, nan, x)


def exp_of(function, name):
    """The function whose logarithm this is."""

    @functools.wraps(function)
    def exponential(*args, **kwargs):
        return jnp.exp(function(*args, **kwargs))

    return named(exponential, function, name)


def log_of(function, name):
    """The logarithm of a function."""

    @functools.wraps(function)
    def logarithm(*args, **kwargs):
        return jnp.log(function(*args, **kwargs))

    return named(logarithm, function, name)


texts = {
    "pdf": "The density.",
    "pmf": "The probability of k.",
    "cdf": "The probability of a value up to x.",
    "sf": "The probability of a value above x.",
    "logcdf": "The logarithm of `cdf`.",
    "logsf": "The logarithm of `sf`.",
}


def named(made, function, name):
    made.__name__ = made.__qualname__ = name
    made.__module__ = function.__module__
    made.__doc__ = texts[name]
    return made


def explain(namespace):
    """Let the functions of a distribution, a module's own ones, explain their errors.

    It ends their modules.
    """
    own = namespace["__name__"]
    names = [k for k, v in namespace.items() if getattr(v, "__module__", "") == own]
    calls.explain_calls(own.partition(".")[2], namespace, names)
