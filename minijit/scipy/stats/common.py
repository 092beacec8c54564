"""What distributions share: promoted arguments, and functions made of logarithms.

    @distribution
    class norm: ...             # from now on the module `scipy.stats.norm`
"""

import functools
import inspect
import math
import sys
import types

from ... import lax, numpy as jnp
from ...numpy.core import like, promote_args_inexact as promoted
from ...trace.api import calls


def standard(x, loc, scale):
    """How far x is from `loc`, in units of `scale`."""
    return (x - loc) / scale


def clipped(x, low, high):
    """x between two numbers; its derivative outside is 0, whatever comes after."""
    return lax.clamp(like(x, low), x, like(x, high))


def outside(condition, x):
    """x, but minus infinity where the condition holds: no density is there."""
    return jnp.where(condition, -math.inf, x)


def invalid(condition, x):
    """x, but NaN where the condition holds: there is no such distribution."""
    return jnp.where(condition, math.nan, x)


def exp_of(function):
    """The function whose logarithm this is."""
    return functools.wraps(function, ())(lambda *xs, **kw: jnp.exp(function(*xs, **kw)))


def log_of(function):
    """The logarithm of a function."""
    return functools.wraps(function, ())(lambda *xs, **kw: jnp.log(function(*xs, **kw)))


texts = {
    "pdf": "The density.",
    "pmf": "The probability of k.",
    "cdf": "The probability of a value up to x.",
    "sf": "The probability of a value above x.",
    "logcdf": "The logarithm of `cdf`.",
    "logsf": "The logarithm of `sf`.",
    "ppf": "The value below which a share q lies.",
    "isf": "The value above which a share q lies.",
}


def named(function, name, module):
    """A function with its name and place; where it says nothing, with its text."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = module.__name__
    function.__doc__ = function.__doc__ or texts[name]
    return function


def explain(module, names):
    """Let functions of a distribution explain their errors."""
    calls.explain_calls(module.__name__.partition(".")[2], vars(module), names)


def promoting(function, name):
    """A function whose arguments are brought to one floating dtype first."""
    taking = inspect.unwrap(function)
    names = inspect.getfullargspec(taking).args

    @functools.wraps(function)
    def call(*args, **kwargs):
        given = inspect.getcallargs(taking, *args, **kwargs)
        return function(*promoted(name, *(given[each] for each in names)))

    return call


def distribution(functions, prologue=promoting):
    """A module for users: the functions that a class has, by their names.

    Where it has the logarithm of a function it has the function, too.  What its file
    works with, it has as well.
    """
    shown = lambda names: {k: v for k, v in names.items() if not k.startswith("_")}
    own, title = shown(vars(functions)), functions.__name__
    for name in filter(own.__contains__, ("logpdf", "logpmf", "logcdf", "logsf")):
        own.setdefault(name[3:], exp_of(own[name]))
    module = types.ModuleType(f"{__package__}.{title}", functions.__doc__)
    own = {k: named(prologue(v, f"{title}.{k}"), k, module) for k, v in own.items()}
    file = vars(sys.modules[functions.__module__])
    vars(module).update(shown(globals() | file) | own)
    explain(module, own)
    sys.modules[module.__name__] = module
    return module


of_vectors = functools.partial(distribution, prologue=lambda function, name: function)
