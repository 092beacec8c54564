"""Types of one's own, under the names of `jax.experimental.hijax`: declared, not used.

Libraries declare such types when they are imported, and use them when a program asks
for it.  minijit has arrays and tapes only: what uses another type is told.
"""

from ...trace.base import names as _names
from ..core import AbstractValue as AbstractValue
from ..interpreters.ad import (
    Zero as Zero, instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
)


class HiPrimitive:
    """A primitive of values of one's own types."""

    def __init__(self, name):
        self.name = name

    def bind(self, *args, **params):
        raise NotImplementedError(
            f"minijit has no types of one's own (jax.experimental.hijax), and so no "
            f"{self.name}.  Instead: pass the arrays themselves."
        )


class MutableHiType:
    """A type of one's own whose values can be written to."""


class _AllowedEffects:
    def add_type(self, effect):
        """Effects are primitives' here, and need no leave."""


control_flow_allowed_effects = _AllowedEffects()


def register_hitype(val_cls, typeof_fn):
    """Declare a type of one's own."""


def aval_method(f):
    """A method of a tracer."""
    return f


def aval_property(fget):
    """A property of a tracer."""
    return property(fget)


_names.publish(globals(), """
    AbstractValue HiPrimitive MutableHiType Zero aval_method aval_property
    control_flow_allowed_effects instantiate_zeros is_undefined_primal register_hitype
""")
