"""What NumPy's functions ask of their arguments before they compute with them.

    check_arraylike("sin", [1.0])          # TypeError: a list is no array
    joint_rank("add", (x, y))              # the rank of x + y
    canonical_axes((0, -1), 3)             # (0, 2)

Nothing here applies a primitive.  Values are looked at only where shapes depend on
them.
"""

import operator
import warnings

import numpy as np

from ..trace import dtypes
from ..trace.base.config import config
from ..trace.base.errors import asked_by_library, user_level
from ..trace.core import Array, Tracer
from ..trace.shape_checks import (
    broadcast_shape, canonicalize_axis, canonicalize_shape as canonicalize_shape,
    concrete, static,
)

# -- arrays


def check_arraylike(name, *args):
    """Raise TypeError unless all arguments of the function `name` are arrays."""
    for position, x in enumerate(args):
        if isinstance(x, (Array, np.ndarray)) or type(x) in dtypes.python_scalars:
            continue
        if hasattr(x, "__jax_array__"):
            continue
        if isinstance(x, (str, bytes)) or not np.isscalar(x):
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at "
                f"position {position}."
            )


def unwrapped(x):
    """What `x.__jax_array__()` gives where there is that method, else `x` itself."""
    if isinstance(x, Array) or not hasattr(x, "__jax_array__"):
        return x
    return x.__jax_array__()


def known_value(x, dtype):
    """The NumPy value of what is no array of ours, in a dtype."""
    if type(x) is float and dtype.char == "f" or type(x) is int and dtype.kind == "f":
        return np.array(x, dtype)
    if dtypes.is_python_scalar(x):
        # First in the dtype of its kind, which an int has to fit, or else that asked.
        fits = type(x) is int and dtypes.holds_int(dtype, x)
        value = np.array(x, dtype if fits else dtypes.scalar_dtype(x))
    else:
        value = dtypes.checked_numpy(x)
        value = np.array(value, dtypes.canonicalize_dtype(value.dtype))
    return value if value.dtype == dtype else value.astype(dtype)


# (dtype and weakness of an array, class of a number, family, the process's flags) ->
# dtype and weakness of both, or None where the array would change its own.
beside: dict = {}
overrides = config.overrides


def with_number(args, as_number, family=None):
    """An array and a Python number, brought to one dtype, if that is the array's own.

    None for all else, which `promote_dtypes` knows.  `as_number` makes it an array.
    What becomes of one depends on its class alone, and programs write the same few
    beside the same arrays.
    """
    if len(args) != 2:
        return None
    x, y = args
    swap = not isinstance(x, Array)
    if swap:
        x, y = y, x
    kind = type(y)
    if kind not in dtypes.python_scalars or not isinstance(x, Array):
        return None
    if overrides.values:  # Of this thread only: they may be other ones each time.
        return None
    key = x.aval.dtype, x.aval.weak_type, kind, family, config.process_key
    if key not in beside:
        beside[key] = number_beside(x.aval, kind, family)
    if (found := beside[key]) is None:
        return None
    y = as_number(y, *found)
    return (y, x) if swap else (x, y)


def number_beside(aval, kind, family):
    """The dtype and weakness of a number of a class beside an array, or None."""
    if not isinstance(aval.dtype, np.dtype) or aval.dtype.kind not in "biufc":
        return None
    if config.numpy_dtype_promotion == "strict":
        return None
    kinds = (aval.dtype, aval.weak_type), kind
    dtype, weak_type = dtypes.joint_type(kinds, config.enable_x64, "standard")
    dtype = family(dtype) if family else dtype
    same = dtype == aval.dtype and weak_type == aval.weak_type
    return (dtype, weak_type) if same else None


operands = Array, int, float, complex, np.generic, np.ndarray


def operand(name, x):
    """`x` beside the operator `name`: NotImplemented for what is no array or number."""
    x = unwrapped(x)
    if isinstance(x, operands):
        return x
    # Where NumPy would take a list for an array, JAX and minijit do not.
    if isinstance(x, (list, tuple, set, dict)):
        raise TypeError(
            f"unsupported operand type(s) for {name}: 'Array' and "
            f"{type(x).__name__!r}. Convert it with jnp.asarray(...)."
        )
    return NotImplemented


# -- dtypes


def alike(args):
    """Whether `args` are arrays of one strong dtype, and of one rank or scalars."""
    dtype, rank = None, 0
    for x in args:
        if not isinstance(x, Array) or x.aval.weak_type:
            return False
        aval = x.aval
        # NumPy takes None for float64 where it compares dtypes.
        if dtype is not None and aval.dtype != dtype:
            return False
        if rank and aval.shape and len(aval.shape) != rank:
            return False
        dtype, rank = aval.dtype, rank or len(aval.shape)
    return True


def is_inexact(x):
    """Whether an array's dtype is one of NumPy's floating or complex ones."""
    return x.aval.dtype.kind in ("f", "c")


def check_promotable(name, args):
    """Raise TypeError unless `args` are arrays whose dtypes have one in common."""
    check_arraylike(name, *args)
    for x in args:
        dtype = getattr(x, "dtype", None)
        if isinstance(dtype, dtypes.ExtendedDtype):
            if any(getattr(y, "dtype", None) != dtype for y in args):
                reject_extended(name, args)


def reject_extended(name, args):
    """Raise TypeError if some of the dtypes are not NumPy's: there is no arithmetic."""
    for x in args:
        if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDtype):
            found = [dtypes.dtype(x) for x in args]
            text = ", ".join(d.name for d in found)
            plural = "s" * (len(found) > 1)
            message = f"{name} does not accept dtype{plural} {text}."
            raise TypeError(message) from None


def check_inexact(name, args):
    """Raise TypeError unless `args` are arrays of numbers."""
    check_arraylike(name, *args)
    reject_extended(name, args)


# -- shapes and axes


def tell_of_ranks(name, shapes):
    """Warn that arrays have different numbers of axes, or raise ValueError.

    Neither where the flag allows it, nor of what a function of ours does.
    """
    if config.numpy_rank_promotion == "allow" or asked_by_library():
        return
    text = " ".join(map(str, shapes))
    if config.numpy_rank_promotion == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {text} "
            "and with the config option jax_numpy_rank_promotion='raise'."
        )
    warnings.warn(
        f"Following NumPy automatic rank promotion for {name} on shapes {text}. "
        "config.update('jax_numpy_rank_promotion', 'allow') turns this warning off.",
        stacklevel=user_level(),
    )


def tell_of_batches(name, *operands):
    """As `tell_of_ranks`, of pairs (array, how many last axes are not mapped)."""
    if len({x.ndim - own for x, own in operands if x.ndim}) > 1:
        tell_of_ranks(name, [x.shape for x, _ in operands])


def joint_rank(name, args):
    """How many axes a result of arrays has; ValueError if they do not broadcast."""
    rank = 0
    for x in args:
        if rank and x.aval.shape and len(x.aval.shape) != rank:
            break
        rank = rank or len(x.aval.shape)
    else:
        return rank
    shapes = tuple(x.aval.shape for x in args)
    tell_of_ranks(name, shapes)
    try:
        return len(broadcast_shape(shapes))
    except ValueError:
        text = ", ".join(map(str, shapes))
        message = f"{name} got incompatible shapes for broadcasting: {text}."
        raise ValueError(message) from None


def static_int(x, what, as_int=operator.index):
    """A size or an axis as an int; a traced one raises."""
    x = concrete(x, what, static)[()] if isinstance(x, Tracer) else x
    try:
        return as_int(x)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {x!r}") from None


def canonical_axis(axis, ndim, error=ValueError):
    """An axis counted from the front.  Raises `error` where there is none.

    That is IndexError in functions where JAX looks the axis up in the shape.
    """
    axis = static_int(axis, "an axis")
    try:
        return canonicalize_axis(axis, ndim)
    except ValueError as wrong:
        raise error(str(wrong)) from None


def canonical_axes(axis, ndim, error=ValueError):
    """One axis, several or None (all of them), as a tuple counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    several = isinstance(axis, (tuple, list, range)) or getattr(axis, "ndim", 0)
    each = axis if several else (axis,)
    axes = tuple(canonical_axis(a, ndim, error) for a in each)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def no_out(name, out):
    """NumPy's `out=` writes into an array; arrays here are immutable."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


# -- functions that other functions make


def named(function, name, text=None):
    """Give a function made by another one its name and a docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text or f"Elementwise `{name}`.  JAX: `jnp.{name}`."
    return function
