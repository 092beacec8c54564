"""More ways to make arrays: grids, triangles, diagonals; and from other libraries."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..trace import dtypes, primitives, slicing
from ..trace.array import aval_of
from ..trace.base.config import config
from ..trace.core import Tracer
from ..trace.types import Array, ArrayLike, DTypeLike, Shape
from ..transform import tangents
from ..transform.batching.vmap import vmap
from ..transform.control_flow.api import cond
from .arguments import (
    canonical_axis, canonicalize_shape, concrete, no_out, static, static_int,
)
from .core import arrays, convert, expand_to, sign, strong
from .elementwise import choose_where, power
from .making import (
    arange, asarray, concatenate, constant, counting, eye, full_like, inexact_dtype,
    linspace, placed, stack, zeros, zeros_like,
)
from .mathematics import log10
from .reducing import sum
from .shapes import along_axis, broadcast_to, moveaxis, ravel


def empty(
    shape: int | Shape, dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """As `zeros`: nothing here is ever uninitialised.  JAX: `jnp.empty`."""
    return placed(constant(shape, 0, dtype, "empty"), device)


def empty_like(
    prototype: ArrayLike, dtype: DTypeLike | None = None,
    shape: int | Shape | None = None, *, device: Any = None,
) -> Array:
    """As `zeros_like`.  JAX: `jnp.empty_like`."""
    return full_like(prototype, 0, dtype, shape, device=device)


def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True,
    base: ArrayLike = 10.0, dtype: DTypeLike | None = None, axis: int = 0,
) -> Array:
    """`base` to the power of evenly spaced numbers.  JAX: `jnp.logspace`."""
    dtype = inexact_dtype("logspace", dtype, start, stop)
    work = dtypes.to_inexact_dtype(dtype)
    start, stop = [convert(x, work) for x in arrays("logspace", start, stop)]
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    return convert(power(base, exponents), dtype)


def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Array:
    """`num` numbers with a constant ratio from start to stop.  JAX: `jnp.geomspace`."""
    dtype = inexact_dtype("geomspace", dtype, start, stop)
    work = dtypes.to_inexact_dtype(dtype)
    start, stop = [convert(x, work) for x in arrays("geomspace", start, stop)]
    direction = sign(start)
    ends = log10(start / direction), log10(stop / direction)
    numbers = direction * logspace(*ends, num, endpoint, dtype=work)
    return convert(moveaxis(numbers, 0, axis), dtype)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The n by n identity matrix.  JAX: `jnp.identity`."""
    return eye(n, dtype=dtype)


def tri(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None
) -> Array:
    """Ones on and below the k-th diagonal of an N by M matrix.  JAX: `jnp.tri`."""
    dtype = dtypes.user_dtype(np.float32 if dtype is None else dtype, "tri")
    shape = canonicalize_shape((N, N if M is None else M))
    k = static_int(k, "the argument 'k' of jnp.tri") if not isinstance(k, Tracer) else k
    rows = primitives.broadcasted_iota(np.dtype(np.int32), shape, 0)
    columns = primitives.broadcasted_iota(np.dtype(np.int32), shape, 1)
    return convert(rows + k >= columns, dtype)


def triangle(name, m, k):
    """The mask of the lower triangle up to diagonal k, and `m` as an array."""
    m, = arrays(name, m)
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
    return broadcast_to(tri(*m.shape[-2:], k=k, dtype=np.bool_), m.shape), m


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros above the k-th diagonal.  JAX: `jnp.tril`."""
    mask, m = triangle("tril", m, k)
    return primitives.select(mask, m, zeros_like(m))


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros below the k-th diagonal.  JAX: `jnp.triu`."""
    mask, m = triangle("triu", m, k - 1)
    return primitives.select(mask, zeros_like(m), m)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as the last axis.  JAX: `jnp.diagonal`."""
    a, = arrays("diagonal", a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    offset = static_int(offset, "the argument 'offset' of jnp.diagonal")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    below, right = builtins.max(-offset, 0), builtins.max(offset, 0)
    size = builtins.max(0, builtins.min(rows - below, columns - right))
    return a[..., arange(below, below + size), arange(right, right + size)]


def trace(
    a: ArrayLike, offset: ArrayLike = 0, axis1: int = 0, axis2: int = 1,
    dtype: DTypeLike | None = None, out: None = None,
) -> Array:
    """The sum along a diagonal.  JAX: `jnp.trace`."""
    no_out("trace", out)
    a, = arrays("trace", a)
    if canonical_axis(axis1, a.ndim) == canonical_axis(axis2, a.ndim):
        raise ValueError(f"axis1 and axis2 can not be same. {axis1=} and {axis2=}")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    mask = eye(*a.shape[-2:], k=offset, dtype=np.bool_)
    return sum(choose_where(mask, a, zeros_like(a)), (-2, -1), dtype)


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix with that diagonal.

    JAX: `jnp.diag`.  Raises ValueError unless v has one or two axes.
    """
    v, = arrays("diag", v)
    k = static_int(k, "the argument 'k' of jnp.diag")
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("diag input must be 1d or 2d")
    n = v.shape[0] + builtins.abs(k)
    zero = full_like(v, 0, shape=())
    widths = [(builtins.max(0, -k), builtins.max(0, k), 0)]
    values = slicing.pad(v, zero, widths)
    return choose_where(eye(n, k=k, dtype=np.bool_), values[:, None], zero)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with all elements of `v` on its k-th diagonal.  JAX: same name."""
    v, = arrays("diagflat", v)
    return strong(diag(ravel(v), k))


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Coordinate arrays from coordinate vectors, as a list.  JAX: `jnp.meshgrid`."""
    args = arrays("meshgrid", *xi)
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if builtins.any(x.ndim != 1 for x in args):
        shapes = [x.shape for x in args]
        raise ValueError(f"Arguments to jax.numpy.meshgrid must be 1D, got {shapes}")
    swap = indexing == "xy"
    args[:2] = args[:2][::-1] if swap else args[:2]
    grids = [along_axis(x, i, len(args)) for i, x in enumerate(args)]
    if not sparse:
        grids = [broadcast_to(x, [y.size for y in args]) for x in grids]
    grids[:2] = grids[:2][::-1] if swap else grids[:2]
    return grids


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index vectors, each along an axis of its own.  JAX: `jnp.ix_`."""
    args = arrays("ix", *args)
    for x in args:
        if x.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {x.shape}"
            )
        if x.dtype == np.bool_:
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_")
    args = [x if x.size else zeros(0, int) for x in args]
    return tuple(along_axis(x, i, len(args)) for i, x in enumerate(args))


def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False
) -> Any:
    """For each axis of a grid, the index along it.  JAX: `jnp.indices`.

    One array with a new first axis, or a tuple of arrays with `sparse`.
    """
    dtype = dtypes.user_dtype(int if dtype is None else dtype, "indices")
    sizes = canonicalize_shape(tuple(dimensions))
    counts = [counting(size, dtype) for size in sizes]
    grids = [along_axis(x, i, len(sizes)) for i, x in enumerate(counts)]
    if sparse:
        return tuple(grids)
    grids = [broadcast_to(x, sizes) for x in grids]
    return stack(grids) if grids else zeros(0, dtype)


class Grid:
    """`jnp.mgrid[0:3, 0:1:5j]`: coordinate arrays from slices; `ogrid`: sparse ones."""

    def __init__(self, name, sparse):
        self.name = name
        self.sparse = sparse

    def __getitem__(self, key):
        if key == ():
            return [] if self.sparse else zeros(0, int)
        keys = key if isinstance(key, tuple) else (key,)
        axes = [numbers_of_slice(k, self.name) for k in keys]
        # Whatever the flags say of the user's arrays, these are made of numbers.
        kinds = tuple(map(dtypes.typed, axes))
        dtype, _ = dtypes.joint_type(kinds, config.enable_x64, "standard")
        axes = [convert(x, dtype) for x in axes]
        if not isinstance(key, tuple):
            return axes[0]
        grids = meshgrid(*axes, indexing="ij", sparse=self.sparse)
        return grids if self.sparse else stack(grids)


def numbers_of_slice(s, name):
    """The numbers that a slice stands for; an imaginary step says how many."""
    for field in ("start", "stop", "step"):
        if isinstance(getattr(s, field), Tracer):
            concrete(getattr(s, field), f"slice {field} of jnp.{name}", static)
    start = 0 if s.start is None else s.start
    step = 1 if s.step is None else s.step
    if isinstance(step, complex):
        return linspace(start, s.stop, int(builtins.abs(step)))
    return arange(start, s.stop, step)


mgrid, ogrid = Grid("mgrid", sparse=False), Grid("ogrid", sparse=True)


class Joiner:
    """`jnp.r_[1:4, 0, x]`: join slices, numbers and arrays; `c_`: as columns.

    A word before them says in which way: "r" or "c", as a matrix of one row or column;
    "axis,rank,trans1d": along which axis, with how many axes, and where their own are.
    """

    def __init__(self, name, axis, rank, trans1d):
        self.name = name
        self.options = axis, rank, trans1d

    def __getitem__(self, key):
        keys = list(key) if isinstance(key, tuple) else [key]
        word = keys.pop(0) if keys and isinstance(keys[0], str) else ""
        axis, rank, trans1d = self.options
        if word not in ("", "r", "c"):
            axis, rank, trans1d = self.directive(word)
        if builtins.any(isinstance(key, str) for key in keys):
            raise ValueError("string directive must be placed at the beginning")
        joined = concatenate([self.part(k, rank, trans1d) for k in keys], axis)
        if word in ("r", "c") and joined.ndim == 1:
            return joined[None] if word == "r" else joined[:, None]
        return joined

    def directive(self, word):
        """The three numbers in a word; those of the class where it has fewer."""
        try:
            numbers = [int(n) for n in word.split(",")[:3]]
        except ValueError as error:
            raise ValueError(f"could not understand directive {word!r}") from error
        return *numbers, *self.options[len(numbers) :]

    def part(self, key, rank, trans1d):
        """One operand with `rank` axes at least, rotated by what `trans1d` says."""
        is_slice = isinstance(key, slice)
        x = numbers_of_slice(key, self.name) if is_slice else asarray(key)
        own = 0 if is_slice else x.ndim
        x = expand_to(x, builtins.max(rank, x.ndim))
        if trans1d == -1 or own >= rank:
            return x
        shifts = rank - builtins.abs(rank + trans1d + 1) % rank
        return primitives.transpose(x, [*range(shifts, rank), *range(shifts)])


r_, c_ = Joiner("r_", 0, 1, -1), Joiner("c_", -1, 2, 0)


class IndexExpression:
    """`jnp.s_[1:3, ...]`: the index itself, to be used later."""

    def __init__(self, always_tuple):
        self.always_tuple = always_tuple

    def __getitem__(self, index):
        as_tuple = self.always_tuple and not isinstance(index, tuple)
        return (index,) if as_tuple else index


s_, index_exp = IndexExpression(False), IndexExpression(True)


def frombuffer(
    buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0
) -> Array:
    """An array with the bytes of a buffer.  JAX: `jnp.frombuffer`."""
    return asarray(np.frombuffer(buffer, dtype, count, offset))


def fromstring(
    string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str
) -> Array:
    """An array of the numbers written in a string.  JAX: `jnp.fromstring`."""
    return asarray(np.fromstring(string, dtype, count, sep=sep))


# DLPack's number of NVIDIA's GPUs.
CUDA = 2


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array from another library, through DLPack.  JAX: `jnp.from_dlpack`.

    One on a GPU stays there, and has to have `__cuda_array_interface__`, too.
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"from_dlpack needs an array with a method __dlpack__, got {x!r} of type "
            f"{type(x).__name__}"
        )
    if getattr(x, "__dlpack_device__", tuple)()[:1] == (CUDA,):
        return placed(placed(x, "gpu"), device)
    return placed(asarray(np.from_dlpack(x)), device)


def fromfunction(
    function: Callable[..., Any], shape: int | Shape, *, dtype: DTypeLike = float,
    **kwargs: Any,
) -> Array:
    """`function` of the indices of each element, as scalars.  JAX: same name.

    It is called once, with the elements as lanes of a `vmap` for each axis.
    """
    sizes = canonicalize_shape(shape)
    for i in range(len(sizes)):
        in_axes = [0 if i == j else None for j in range(len(sizes))]
        function = vmap(function, in_axes=tuple(in_axes[::-1]))
    return function(*(arange(n, dtype=dtype) for n in sizes), **kwargs)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The powers of each x as a row of a matrix.  JAX: `jnp.vander`."""
    x, = arrays("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    N = x.shape[0] if N is None else static_int(N, "the argument 'N' of jnp.vander")
    if N < 0:
        raise ValueError("N must be nonnegative")
    exponents = counting(N, x.dtype)
    exponents = exponents if increasing else convert(N - 1, x.dtype) - exponents
    return power(x[:, None], exponents[None])


# ---- values of types without elements: residuals, known by shape and dtype alone


def full_of_type(shape, value, whole):
    """What `zeros(a.shape, a.dtype)` is for a residual of a `cond` or of a loop.

    Raises TypeError for anything but a zero of its own shape.
    """
    if shape != whole.shape or isinstance(value, Tracer) or np.any(value != 0):
        raise TypeError(
            f"of {whole}, a type without elements, there is a zero of shape "
            f"{whole.shape}, and no array of shape {shape} with {value} in it"
        )
    return tangents.zeros(whole)


def where_of_type(condition, x, y):
    """A residual x, or another one, where a condition of no axes holds; 0 is a zero."""
    y = full_of_type(x.shape, y, aval_of(x)) if dtypes.is_python_scalar(y) else y
    return cond(condition, lambda: x, lambda: y)
