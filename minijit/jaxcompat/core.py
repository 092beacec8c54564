"""Traces, types and jaxprs under the names of `jax.core`."""

from collections.abc import Set as _Set
from numbers import Integral as _Integral
from typing import Any as _Any

import numpy as _np

from ..trace import array as _array, dtypes as _dtypes
from ..trace.arguments import TraceInfo as _TraceInfo
from ..trace.base import names as _names
from ..trace.base.config import config as _config
from ..trace.core import Trace as Trace, Tracer as Tracer
from ..trace.jaxprs.jaxpr import (
    Literal as Literal, Var as Var, eval_jaxpr as eval_jaxpr,
)
from .plain_answers import ensure_compile_time_eval as ensure_compile_time_eval


class StandIn(type):
    """The class of classes that make objects of minijit's from JAX's arguments.

    `stands_for` is minijit's class, of which `make` makes one.
    """

    stands_for: _Any
    make: _Any

    def __instancecheck__(cls, x):
        return isinstance(x, cls.stands_for)

    def __subclasscheck__(cls, other):
        return issubclass(other, cls.stands_for)

    def __call__(cls, *args, **kwargs):
        return cls.make(*args, **kwargs)


class ShapedArray(metaclass=StandIn):
    """A shape and a dtype; where the array is to be is no part of its type here."""

    stands_for = _array.ShapedArray

    @staticmethod
    def make(
        shape, dtype, weak_type=False, *, sharding=None, vma=None, memory_space=None
    ):
        dtype = _dtypes.canonicalize_dtype(dtype)
        return _array.ShapedArray(tuple(shape), dtype, weak_type)


get_aval = _array.aval_of
# Libraries add their classes here, as in `interpreters.xla`.
pytype_aval_mappings = {_np.ndarray: get_aval}

# What stands for a value in an equation, and what is known of one.
Atom = Var | Literal
AbstractValue = ShapedArray
eval_context = ensure_compile_time_eval


class DebugInfo(metaclass=StandIn):
    """What a jaxpr says of its function."""

    stands_for = _TraceInfo

    @staticmethod
    def make(traced_for, func_src_info, arg_names=None, result_paths=None):
        name = func_src_info.partition(" at ")[0]
        return _TraceInfo(name, traced_for, arg_names=tuple(arg_names or ()))


class Effect:
    """What an equation does besides giving results; libraries derive kinds of it."""


def unsafe_get_axis_names_DO_NOT_USE():
    """The names that axes have here, the outermost first."""
    return [name for name, _ in _config.named_axes]


def is_constant_dim(dim):
    """Whether a size is a number, and no name of `jax.export`'s."""
    return isinstance(dim, _Integral)


Effects = _Set[Effect]
no_effects: frozenset = frozenset()

_names.publish(globals(), """
    AbstractValue Atom DebugInfo Effect Effects Literal ShapedArray Trace Tracer Var
    ensure_compile_time_eval eval_context eval_jaxpr get_aval no_effects
    pytype_aval_mappings unsafe_get_axis_names_DO_NOT_USE
""")
