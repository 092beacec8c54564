"""Methods and operators of arrays that are functions here: `x.sum()`, `x @ y`."""

from __future__ import annotations

from typing import Any

from ..trace.array import ArrayImpl, array_classes, known_aval
from ..trace.base.config import config
from ..trace.base.errors import HERE
from ..trace.core import BottomTrace, current, operators
from ..trace.types import Array, DTypeLike
from .contracting import dot, matmul
from .core import arrays, equal, operator_methods
from .elementwise import power
from .making import astype, copy
from .reducing import all, any, argmax, argmin, max, mean, min, prod, std, sum, var
from .shapes import matrix_transpose, ravel, reshape, squeeze, transpose

operators |= operator_methods({"pow": ("** or pow()", power), "matmul": ("@", matmul)})


def setitem(x, index, value):
    """`x[index] = value`: an error, since arrays are immutable."""
    raise TypeError(
        "minijit arrays are immutable and do not support in-place item assignment. "
        "Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method."
        f"{HERE}"
    )


def iterate(x):
    """`for row in x`, and `a, b = x`.  A row is taken when it is asked for: NumPy asks
    for an iterator, and no row, where it wants to know whether there is one."""
    if x.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    made = type(x) is array_classes.get(type(x.dtype), ArrayImpl)
    if not (made and type(current.trace) is BottomTrace and config.is_plain):
        return (x[i] for i in range(x.shape[0]))
    # A row is in NumPy's memory already: to index it as an operation takes a hundred
    # times as long, and random keys are unpacked everywhere.
    value, row = x.numpy(), known_aval(x.shape[1:], x.dtype, x.aval.weak_type)
    return (ArrayImpl(value[i, ...], row) for i in range(x.shape[0]))


def contains(x, value):
    """`value in x`, of an array with one axis."""
    if value is None or isinstance(value, str):
        raise TypeError(f"Array.__contains__: unsupported operand type {type(value)}.")
    query, = arrays("Array.__contains__", value)
    if x.ndim != 1 or query.ndim != 0:
        raise ValueError(
            "Array.__contains__: search array must be one-dimensional and the query a "
            f"scalar, got shapes {x.shape} and {query.shape}"
        )
    return any(equal(x, query))


operators |= {
    "__setitem__": setitem,
    "__iter__": iterate,
    "__reversed__": lambda x: iter(list(iterate(x))[::-1]),
    "__contains__": contains,
}


def astype_method(
    x: Array, dtype: DTypeLike, copy: bool = False, device: Any = None
) -> Array:
    """`x.astype(dtype)`."""
    return astype(x, dtype, copy=copy, device=device)


def reshape_method(
    x: Array, *shape: Any, order: str = "C", copy: bool | None = None
) -> Array:
    """`x.reshape(2, 3)`, and `x.reshape((2, 3))`."""
    return reshape(x, shape[0] if len(shape) == 1 else shape, order)


def transpose_method(x: Array, *axes: Any) -> Array:
    """`x.transpose(1, 0)`, and `x.transpose((1, 0))`."""
    single = len(axes) == 1 and not isinstance(axes[0], int)
    return transpose(x, (axes[0] if single else axes) or None)


def by_name(*functions):
    """{name: function}, for methods that are functions of `jnp`."""
    return {function.__name__: function for function in functions}


operators |= {
    "astype": astype_method,
    "reshape": reshape_method,
    "transpose": transpose_method,
    "T": property(transpose),
    "mT": property(matrix_transpose),
    "flatten": ravel,
    "nbytes": property(lambda x: x.aval.nbytes),
    "itemsize": property(lambda x: x.dtype.itemsize),
    "block_until_ready": lambda x: x,
}
operators |= by_name(
    *(copy, ravel, squeeze, sum, prod, max, min, all, any, mean, std, var, argmax),
    *(argmin, dot),
)
