"""`fuse`: a function with settings of fusion of its own.

    @minijit.fuse(row_bytes=0)
    def f(x):                            # kernels as with these settings
        return nn.softmax(x)

    minijit.fuse(f, enabled=False)       # no kernels merged in f, wherever it is called

Inside another trace it is a call, which stays one: its name says the settings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...trace.base.config import config
from ...trace.core import BottomTrace, current
from ...trace.jit.jit import JitFunction, jit, jit_p
from ..decisions import loop_rules, noted
from ..lower.calls import Statements, call_program
from ..lower.walk import lower_rules
from ..settings import Settings
from ..simplify import folding as simplify

# What stands in the name of a call before its settings.
MARK = " with "


class CallName(str):
    """The name of a call, with the `changes` of settings that it says."""

    changes: object


def changed(settings, changes):
    """Settings with changes of them, given as a dict.

    Changes that are no dict are a function of settings, and have a text.
    """
    return changes(settings) if callable(changes) else settings.but(**changes)


class FusedFunction(JitFunction):
    """What `fuse` returns: a jitted function whose kernels are made by its settings."""

    def __init__(self, function, options, changes):
        super().__init__(function, options)
        self.changes = changes

    def __call__(self, *args, **kwargs):
        with config.override("fusion", changed(config.fusion, self.changes)):
            if type(current.trace) is BottomTrace:
                return super().__call__(*args, **kwargs)
            leaves, entry = self.look_up(args, kwargs)
        said = str(self.changes)
        if not callable(self.changes):
            said = ",".join(f"{name}={value}" for name, value in self.changes.items())
        name = CallName(f"{entry.name}{MARK}{said}")
        name.changes = self.changes
        results = jit_p.bind(*entry.tracers, *leaves, name=name, jaxpr=entry.closed)
        return entry.unflatten(results)

    def lower(self, *args, **kwargs):
        """As of any jitted function; compiled at once, while its settings hold."""
        with config.override("fusion", changed(config.fusion, self.changes)):
            lowered = super().lower(*args, **kwargs)
            lowered.entry.compile()
        return lowered

    trace = lower

    def __reduce__(self):
        return FusedFunction, (self.function, self.options, self.changes)


def fuse(fun: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """`fun` jitted, with other settings of fusion than those around it.

    Args:
      fun: a function, jitted or not; without it, `fuse` returns a decorator.
      settings: fields of `Settings`, such as `enabled=False` or `row_bytes=0`.

    Returns:
      A jitted function.  Within others it is a call with kernels of its own.

    Raises:
      TypeError: for what is no setting, or no value of it.
    """
    Settings().but(**settings)
    if fun is None:
        return functools.partial(fuse, **settings)
    inner = fun if isinstance(fun, JitFunction) else jit(fun)
    return FusedFunction(inner.function, inner.options, settings)


def settings_of(eqn):
    """The changes of settings that a call says in its name; or None."""
    name = eqn.params.get("name", "")
    if type(name) is CallName:
        return name.changes
    name, mark, said = str(name).partition(MARK)
    return Settings.changes_in(said) if mark else None


def lower_call(walk, eqn):
    """A call of a program, which is made by the settings of the call."""
    closed, name = eqn.params["jaxpr"], eqn.params["name"]
    changes = settings_of(eqn) or {}
    if not changes:
        noted("called", eqn, equations=len(closed.jaxpr.eqns))
    with config.override("fusion", changed(config.fusion, changes)):
        call_program(walk, eqn, closed, name.partition(MARK)[0])


loop_rules |= {
    "called": (False, "so long a function, called again, stays one", "small_function"),
}
lower_rules[jit_p] = Statements(lower_call)
simplify.stay_calls.append(settings_of)
