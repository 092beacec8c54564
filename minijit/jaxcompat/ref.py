"""Mutable arrays, under the names of `jax.ref`."""

from ..trace.base import names as _names
from ..trace.jit.refs import (
    AbstractRef as AbstractRef, Ref as Ref, addupdate as addupdate,
    empty_ref as empty_ref, free_ref as free_ref, freeze as freeze, get as get,
    new_ref as new_ref, set as set, swap as swap,
)

_names.publish(globals())
