"""Callbacks from traced programs, under the names of `jax.debug`."""

from ..transform.debugging import debug_callback as callback, debug_print as print

__all__ = ["callback", "print"]

from ..trace import calls, names as _names

calls.explain_calls("debug", globals())

__dir__, __getattr__ = _names.front(__name__, __all__)
