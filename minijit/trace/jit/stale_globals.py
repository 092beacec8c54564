"""A global that was assigned after the trace: ignored, warned of, traced again, raised.

    jit(f, globals="warn")
    config.update("captured_globals", "raise")
"""

import warnings

from ..arguments import function_name
from ..base.config import config
from ..base.errors import HERE, user_level
from .captures import show

config.define(
    "captured_globals",
    "ignore",
    "what a jitted function does when a global that it read while it was traced has "
    "changed: ignore (as JAX does), warn, retrace or raise",
    changes_traces=True,
)


class StaleGlobalWarning(UserWarning):
    """A jitted function ran with the value that a global had when it was traced."""


def report_globals(function, changed, mode):
    """Warn of globals that changed since the trace, or raise RuntimeError."""
    name = function_name(function)
    told = "; ".join(
        f"the global {place.name} was {show(then)} when {name} was traced, and is "
        f"{show(now)} now"
        for place, then, now in changed
    )
    text = (
        f"{told}. The call uses the old value.\n  Instead: make it an argument of "
        f'{name}, or jit it with globals="retrace".'
    )
    if mode == "raise":
        raise RuntimeError(text + str(HERE))
    warnings.warn(text, StaleGlobalWarning, stacklevel=user_level())


def watches_globals(options):
    """Whether anything is done about a global that changes."""
    return (options.globals or config.captured_globals) != "ignore"


def globals_changed(function, options, captures):
    """Whether a global changed since the trace, so that a new trace is needed.

    Where the old value is to be used, this warns, or raises RuntimeError.
    """
    changed = captures.changed("global")
    if not changed:
        return False
    mode = options.globals or config.captured_globals
    return mode == "retrace" or report_globals(function, changed, mode)
