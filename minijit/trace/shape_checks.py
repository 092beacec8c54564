"""What shape rules complain about: one check for each way in which arguments misfit.

    check_kind("sin", np.dtype("int32"), inexact)   # TypeError: sin does not accept...
    check_same_dtypes("add", (x, y))                # TypeError unless the dtypes agree

A check has no result.  Its errors say what the primitive wants and what it got.  Avals
are known here by their attributes alone.  The last functions read sizes and axes that
users give.
"""

import functools
import math
import operator

import numpy as np

from . import dtypes
from .base.errors import HERE, ConcretizationTypeError
from .core import Tracer

# The kinds of dtypes that a primitive may accept.
integer = (np.integer,)
real = (np.floating,)
complexes = (np.complexfloating,)
inexact = (np.floating, np.complexfloating)
signed = (np.floating, np.complexfloating, np.signedinteger)
number = (np.integer, np.floating, np.complexfloating)
bits = (np.integer, np.bool_)
ordered = (np.integer, np.floating, np.bool_)
anything = (np.number, np.bool_)
extended = (*anything, dtypes.extended)


@functools.cache
def is_kind(dtype, kind):
    """Whether a dtype belongs to a kind: a tuple of NumPy's abstract types."""
    return any(dtypes.issubdtype(dtype, k) for k in kind)


def check_kind(name, dtype, kind, where=""):
    """Raise unless primitive `name` accepts `dtype`; `where` says in which argument."""
    if not is_kind(dtype, kind):
        names = ", ".join(k.__name__ for k in kind)
        raise TypeError(
            f"{name} does not accept dtype {dtypes.described(dtype)}{where}. "
            f"Accepted dtypes{where} are subtypes of {names}."
        )


def check_kinds(name, avals, kinds):
    """`check_kind` of each argument."""
    for i, (aval, kind) in enumerate(zip(avals, kinds, strict=True)):
        where = f" at position {i}" if len(kinds) > 1 else ""
        check_kind(name, aval.dtype, kind, where)


def check_same_dtypes(name, avals):
    """Raise unless the arguments of `name` have one dtype."""
    if len({aval.dtype for aval in avals}) > 1:
        names = ", ".join(aval.dtype.name for aval in avals)
        raise TypeError(
            f"lax.{name} requires arguments to have the same dtypes, got {names}. "
            "(Tip: the function in minijit.numpy promotes its arguments; or convert "
            "one with lax.convert_element_type.)"
        )


def check_shapes_fit(name, shapes):
    """Raise unless shapes have one length, and along each axis one size, or 1."""
    if len(set(map(len, shapes))) > 1:
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions, got shapes "
            f"{', '.join(map(str, shapes))}. (Tip: the function in minijit.numpy "
            "broadcasts; or use lax.broadcast_in_dim.)"
        )
    if any(len({*sizes} - {1}) > 1 for sizes in zip(*shapes, strict=True)):
        raise TypeError(
            f"{name} got incompatible shapes for broadcasting: "
            f"{', '.join(map(str, shapes))}."
        )


def check_conversion(old, new):
    """Raise for a dtype that is not NumPy's: there is no conversion from or to it."""
    extended = [isinstance(d, dtypes.ExtendedDtype) for d in (old, new)]
    if any(extended) and old != new:
        names = f"{old.name} to {new.name}"
        raise TypeError(f"there is no conversion from {names}{HERE}")


def check_sizes(name, what, sizes):
    """Raise unless every one of `sizes`, the param `what` of `name`, is >= 0."""
    if any(size < 0 for size in sizes):
        raise TypeError(
            f"{name} {what} must have every element be nonnegative, got {sizes}."
        )


def check_broadcast(x, shape, broadcast_dimensions):
    """Raise unless each axis of `x` has one of its own in `shape`, of its size."""
    check_sizes("broadcast_in_dim", "shape", shape)
    pairs = list(zip(x.shape, broadcast_dimensions, strict=False))
    fits = all(d < len(shape) and n in (1, shape[d]) for n, d in pairs)
    distinct = len(set(broadcast_dimensions)) == len(broadcast_dimensions) == x.ndim
    if not fits or not distinct:
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must name a different dimension of "
            "the result for each one of the operand, whose size is the same or 1; got "
            f"operand of shape {x.shape}, target broadcast shape {shape}, "
            f"broadcast_dimensions {broadcast_dimensions}."
        )


def check_axes(name, x, axes):
    """Raise unless `axes` are axes of `x`, each named once."""
    if len(axes) != len(set(axes)) or not set(axes) <= set(range(x.ndim)):
        raise ValueError(
            f"{name} axes {axes} contains duplicate or out-of-bounds indices for {x}."
        )


def check_reshape(x, new_sizes, dimensions):
    """Raise unless `new_sizes` have as many elements as `x`."""
    if math.prod(new_sizes) != x.size or any(size < 0 for size in new_sizes):
        raise TypeError(
            f"reshape total size must be unchanged, got new_sizes {new_sizes} with "
            f"{math.prod(new_sizes)} elements for shape {x.shape} with {x.size}."
        )
    if dimensions is not None and sorted(dimensions) != list(range(x.ndim)):
        raise TypeError(
            "reshape dimensions must be a permutation of operand dimensions, got "
            f"dimensions {dimensions} for shape {x.shape}."
        )


def check_permutation(x, permutation):
    """Raise unless `permutation` names each axis of `x` once."""
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got "
            f"permutation {permutation} for operand shape {x.shape}."
        )


def check_squeeze(x, dimensions):
    """Raise unless `dimensions` are different axes of `x` of size 1."""
    inside = [d for d in dimensions if 0 <= d < x.ndim and x.shape[d] == 1]
    if len(set(inside)) < len(dimensions):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, got "
            f"shape={x.shape} and dimensions={dimensions}"
        )


def check_slice(x, starts, limits, strides):
    """Raise unless a start, a limit and a stride for each axis stay inside of `x`."""
    if not len(starts) == len(limits) == len(strides) == x.ndim:
        raise TypeError(
            "slice start_indices, limit_indices and strides must have length equal to "
            "the number of dimensions of the operand, got indices "
            f"{starts}, {limits} and {strides} for operand shape {x.shape}."
        )
    bounds = zip(starts, limits, x.shape, strict=True)
    if not all(0 <= start <= limit <= n for start, limit, n in bounds):
        raise TypeError(
            "slice limit_indices must be greater than or equal to start_indices, and "
            f"less than or equal to operand shape, got start_indices {starts} and "
            f"limit_indices {limits} for operand shape {x.shape}."
        )
    if any(stride < 1 for stride in strides):
        raise TypeError(f"slice strides must be positive, got {strides}.")


def check_concatenate(xs, dimension):
    """Raise unless the arrays agree in all axes but `dimension`, and in dtype."""
    shapes = ", ".join(str(x.shape) for x in xs)
    if len({x.ndim for x in xs}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with different numbers of dimensions: "
            f"got {shapes}."
        )
    if not 0 <= dimension < xs[0].ndim:
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes "
            f"{shapes}."
        )
    if len({x.shape[:dimension] + x.shape[dimension + 1 :] for x in xs}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other "
            f"than the one being concatenated: concatenating along dimension "
            f"{dimension} for shapes {shapes}."
        )
    check_same_dtypes("concatenate", xs)


def check_select(which, cases):
    """Raise unless the cases are alike, and `which` can choose between them."""
    if not cases:
        raise TypeError("select must have at least one case")
    shapes = ", ".join(str(c.shape) for c in cases)
    if len({c.shape for c in cases}) > 1:
        raise TypeError(f"select cases must have the same shapes, got [{shapes}].")
    if which.shape and which.shape != cases[0].shape:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, got "
            f"`which` shape {which.shape} but case shape {cases[0].shape}."
        )
    check_same_dtypes("select", cases)
    if not is_kind(which.dtype, bits):
        raise TypeError(
            f"select `which` must be boolean or integer type, got {which.dtype}."
        )
    if which.dtype.kind == "b" and len(cases) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")


def check_iota(dtype, shape, dimension):
    """Raise unless one can count in `dtype` along `dimension` of `shape`."""
    check_sizes("iota", "shape", shape)
    check_kind("iota", dtype, number)
    if not 0 <= dimension < len(shape):
        raise ValueError(
            "iota dimension must be between 0 and len(shape), got "
            f"dimension={dimension} for shape={shape}"
        )


def check_integer_pow(x, y):
    """Raise for negative powers of integers."""
    check_kind("integer_pow", x.dtype, number)
    if y < 0 and is_kind(x.dtype, integer):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({x}, {y})"
        )


def check_dot(lhs, rhs, dimension_numbers):
    """Raise unless the axes of a product exist, once each, and have equal sizes."""
    contract, batch = dimension_numbers
    for x, dims in zip((lhs, rhs), map(operator.add, contract, batch), strict=True):
        if len(set(dims)) < len(dims) or not set(dims) <= set(range(x.ndim)):
            raise TypeError(
                "dot_general requires contracting and batch dimensions to be distinct "
                "axes of the operands, counted from 0, got dimension_numbers="
                f"{dimension_numbers} for lhs {lhs} and rhs {rhs}."
            )
    for what, (left, right) in [("batch", batch), ("contracting", contract)]:
        sizes = [tuple(map(x.shape.__getitem__, dims))
                 for x, dims in [(lhs, left), (rhs, right)]]
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general requires {what} dimensions to have the same shape, got "
                f"{sizes[0]} and {sizes[1]}: axes {left} of lhs {lhs}, axes {right} of "
                f"rhs {rhs}."
            )


# -- reading what users give


static = "mark the argument it comes from with static_argnums or static_argnames."


def concrete(x, what, advice):
    """The NumPy value of `x`, which decides what the function `what` does.

    Raises ConcretizationTypeError where `x` is traced, with `advice`.
    """
    if not isinstance(x, Tracer):
        return np.asarray(x)
    try:
        return x.concrete("numpy").numpy()
    except TypeError:
        raise ConcretizationTypeError(
            "Abstract tracer value encountered where concrete value is expected: "
            f"{what} must be known while the function is traced, got a traced value "
            f"of type {x.aval}.{x.origin()}{HERE}\n"
            f"  Instead: {advice}"
        ) from None


def canonicalize_shape(shape):
    """A shape, or a single size, as a tuple of ints.

    Raises TypeError for traced and for fractional sizes.
    """
    sizes = shape if isinstance(shape, tuple) or np.iterable(shape) else (shape,)
    try:
        return tuple(map(operator.index, sizes))
    except TypeError:
        origins = {x.origin() for x in sizes if isinstance(x, Tracer)}
        raise TypeError(
            "Shapes must be 1D sequences of concrete values of integer type, got "
            f"{tuple(sizes)}.{''.join(sorted(origins))}{HERE}\n"
            f"  Instead: if using `jit`, {static} Arithmetic on `x.shape` of an array "
            "is always known, with plain `np`."
        ) from None


def canonicalize_axis(axis, ndim):
    """An axis counted from the front (-1 is the last), or a ValueError."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


@functools.lru_cache(maxsize=4096)
def broadcast_shape(shapes):
    """The shape that all of `shapes` broadcast to by NumPy's rules, or a ValueError.

    Args:
      shapes: a tuple of tuples of ints.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        size = next((s for s in sizes if s != 1), 1)
        if any(s not in (1, size) for s in sizes):
            text = ", ".join(map(str, shapes))
            raise ValueError(f"Incompatible shapes for broadcasting: shapes=[{text}]")
        result.append(size)
    return tuple(result)
