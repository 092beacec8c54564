"""Answers of shape rules that need not be worked out twice, and complaints with a line.

    remembered(rule, False, (aval,), {"axes": (0,)})     # [rule(aval, axes=(0,))]

Outside of a trace each operation asks for the shape of its result.  Programs ask for
the same few over and over, and a table answers in a tenth of the time.
"""

import enum
import functools

import numpy as np

from .base.config import config
from .base.errors import at_line, replayed
from .dtypes import ExtendedDtype

# What an answer may be remembered by: values without parts, which compare by what they
# are.  Jaxprs and functions would be kept alive.  `trace/array.py` adds its avals.
plain_types = [
    np.dtype, ExtendedDtype, enum.Enum, bool, int, float, complex, str, type(None),
]  # fmt: skip


def is_plain(x):
    """Whether `x`, an aval or a param, is one of `plain_types` or a tuple of them."""
    if isinstance(x, tuple):
        return all(map(is_plain, x))
    return isinstance(x, tuple(plain_types))


class NotRememberedError(Exception):
    """An aval or a param is no key for a table."""


@functools.lru_cache(maxsize=4096, typed=True)
def remembered_avals(rule, several, flags, /, *avals, **params):
    """The answer of a shape rule for these avals, params and flags, as a tuple."""
    if not (all(map(is_plain, avals)) and all(map(is_plain, params.values()))):
        raise NotRememberedError
    out = rule(*avals, **params)
    return tuple(out) if several else (out,)


def remembered(rule, several, avals, params):
    """The answer of a shape rule: a sequence of avals, also of one if not `several`.

    It is remembered where that is possible.  Complaints are not, since they name lines.
    """
    try:
        return remembered_avals(rule, several, config.trace_key(), *avals, **params)
    except (NotRememberedError, TypeError, ValueError):
        # Unhashable params end here too.
        pass
    out = rule(*avals, **params)
    return out if several else [out]


def add_line(error, primitive, avals, source):
    """Let a complaint of a shape rule name the arguments and the line `source`.

    Without one it is the line of the recorded equation that is being applied, if any.
    """
    source = source or replayed.now()[0]
    if source is not None and "\n  at " not in str(error):
        types = ", ".join(map(str, avals)) or "no arguments"
        given = f"\n  {primitive} was given {types}"
        error.args = (f"{error}{given}{at_line(source)}",)
