"""NumPy's functions over minijit's primitives: `import minijit.numpy as jnp`.

    x = jnp.arange(6.0).reshape(2, 3)
    (x / x.sum(axis=1, keepdims=True)).T           # operators and methods: same rules
    jnp.where(x > 2, x, 0)

Names, signatures, result types and errors are those of `jax.numpy`.  A function here
does three things: it checks its arguments, brings them to a common dtype and rank, and
binds primitives.  So what runs under NumPy runs under every trace as well.

Shapes broadcast as NumPy's do.  Result dtypes follow `trace/dtypes.py`.  Where a
docstring gives no errors, arguments that are no arrays or numbers raise TypeError, and
shapes that do not fit raise TypeError or ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace.types import Array, ArrayLike, Axis, Binary, Unary
from ..trace import dtypes, primitives
from ..trace.array import ArrayImpl, known_aval
from ..trace.core import operators
from ..trace.numpy_values import quietly
from .arguments import alike, check_inexact, check_promotable, is_inexact, joint_rank
from .arguments import known_value, named, operand, operands, unwrapped, with_number


def as_array(x):
    """An array, a NumPy array (which is copied) or a number, as an array."""
    return x if isinstance(x, Array) else primitives.as_array(unwrapped(x))


def convert(x, dtype, weak_type=False):
    """`x` as an array of exactly this dtype and weakness: itself if it is one."""
    if isinstance(x, Array):
        if x.aval.dtype == dtype and x.aval.weak_type == weak_type:
            return x
        params = {"new_dtype": dtypes.as_dtype(dtype), "weak_type": weak_type}
        return primitives.convert_element_type_p.bind(x, **params)
    # A number is converted once, here, and not again by each run of a program.
    dtype = dtypes.as_dtype(dtype)
    value = quietly(known_value, x, dtypes.storage_of(dtype))
    return ArrayImpl(value, known_aval(value.shape, dtype, weak_type))


def as_number(x, dtype, weak_type):
    """A Python number as an array, of a dtype of NumPy's."""
    return ArrayImpl(quietly(known_value, x, dtype), known_aval((), dtype, weak_type))


def expand_to(x, rank):
    """Leading axes of length 1, up to `rank` axes."""
    new = rank - x.ndim
    return primitives.broadcast_in_dim_p.bind(
        x, shape=(1,) * new + x.shape, broadcast_dimensions=tuple(range(new, rank))
    )


def promote_shapes(name, args):
    """Leading axes of length 1, so that all arrays with axes have as many."""
    rank = joint_rank(name, args)
    return [x if len(x.aval.shape) in (0, rank) else expand_to(x, rank) for x in args]


def promote_dtypes(args, family=None) -> list[Array]:
    """All of `args` in the dtype that they promote to together.

    Args:
      family: maps that dtype to the one to compute in (`dtypes.to_inexact_dtype`).
    """
    if family is None and alike(args):
        return list(args)
    args = [x if isinstance(x, Array) else unwrapped(x) for x in args]
    dtype, weak_type = dtypes.lattice_result_type(*args)
    dtype = family(dtype) if family else dtype
    return [convert(x, dtype, weak_type) for x in args]


# chapter 3
def promote_args(name, *args):
    """The arguments of the function `name` in one dtype, with equally many axes."""
    if alike(args):
        return args
    if pair := with_number(args, as_number):
        return pair
    check_promotable(name, args)
    return promote_shapes(name, promote_dtypes(args))


def binary(name, operation, promote=promote_args) -> Binary:
    """The function `name` of two arrays: promote, then bind."""

    def function(x, y, /):
        return operation(*promote(name, x, y))

    return named(function, name)


subtract = binary("subtract", primitives.sub_p.bind)
maximum = binary("maximum", primitives.max_p.bind)


# chapter 3, brought along
import builtins
import math
import operator
import warnings


def promote_args_inexact(name: str, *args: Any) -> Sequence[Array]:
    """As `promote_args`, in a floating or complex type."""
    if alike(args) and is_inexact(args[0]):
        return args
    if pair := with_number(args, as_number, dtypes.to_inexact_dtype):
        return pair
    check_inexact(name, args)
    return promote_shapes(name, promote_dtypes(args, dtypes.to_inexact_dtype))


def unary(name, operation, promote=promote_args_inexact) -> Unary:
    """The function `name` of one array: promote, then bind."""

    def function(x, /):
        return operation(*promote(name, x))

    return named(function, name)


exp = unary("exp", primitives.exp_p.bind)
tanh = unary("tanh", primitives.tanh_p.bind)
negative = unary("negative", primitives.neg_p.bind, promote_args)

true_divide = binary("true_divide", primitives.div_p.bind, promote_args_inexact)
divide = binary("divide", primitives.div_p.bind, promote_args_inexact)


def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise sum; `or` of bools.  JAX: `jnp.add`."""
    x, y = promote_args("add", x, y)
    operation = primitives.or_p if x.aval.dtype.kind == "b" else primitives.add_p
    return operation.bind(x, y)


def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise product; `and` of bools.  JAX: `jnp.multiply`."""
    x, y = promote_args("multiply", x, y)
    operation = primitives.and_p if x.aval.dtype.kind == "b" else primitives.mul_p
    return operation.bind(x, y)


log = unary("log", primitives.log_p.bind)
sin = unary("sin", primitives.sin_p.bind)
cos = unary("cos", primitives.cos_p.bind)
sqrt = unary("sqrt", primitives.sqrt_p.bind)
minimum = binary("minimum", primitives.min_p.bind)
positive = unary("positive", as_array, promote_args)
sign = unary("sign", primitives.sign_p.bind, promote_args)
invert = unary("invert", primitives.not_p.bind, promote_args)
bitwise_not = unary("bitwise_not", primitives.not_p.bind, promote_args)
equal = binary("equal", primitives.eq_p.bind)
not_equal = binary("not_equal", primitives.ne_p.bind)
bitwise_and = binary("bitwise_and", primitives.and_p.bind)
bitwise_or = binary("bitwise_or", primitives.or_p.bind)
bitwise_xor = binary("bitwise_xor", primitives.xor_p.bind)


def operator_with(name, function, swap=False):
    """The method of an operator: NotImplemented for what is no array or number."""

    def method(self, other):
        if not isinstance(other, operands):
            other = operand(name, other)
            if other is NotImplemented:
                return NotImplemented
        return function(other, self) if swap else function(self, other)

    again = lambda other: operator_with(name, other, swap)
    vars(method).update(function=function, calling=again)
    return method


def operator_methods(table):
    """The methods `__add__` and `__radd__` for a row "add", and so on."""
    rows = {}
    for name, (text, function) in table.items():
        rows[f"__{name}__"] = operator_with(text, function)
        rows[f"__r{name}__"] = operator_with(text, function, swap=True)
    return rows


binary_operators = {
    "add": ("+", add),
    "sub": ("-", subtract),
    "mul": ("*", multiply),
    "truediv": ("/", true_divide),
    "and": ("&", bitwise_and),
    "or": ("|", bitwise_or),
    "xor": ("^", bitwise_xor),
}


operators |= operator_methods(binary_operators)


def operator_of_one(function):
    """The method of an operator with one operand."""

    def method(self):
        return function(self)

    vars(method).update(function=function, calling=operator_of_one)
    return method


signs = {"neg": negative, "pos": positive, "invert": invert}
operators |= {f"__{name}__": operator_of_one(f) for name, f in signs.items()}


import numpy as np

from ..trace.core import Tracer
from ..trace.dtypes import bool_, complex64, complex128, float32, float64, int64, uint64
from ..trace.base.errors import user_level
from .arguments import canonical_axes, check_arraylike

ndarray = Array
pi, e, euler_gamma = math.pi, math.e, float(np.euler_gamma)
inf, nan, newaxis = math.inf, math.nan, None
bool = bool_
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning


def arrays(name: str, *args: Any) -> list[Array]:
    """The arguments of the function `name` as a list of arrays."""
    for x in args:
        if not isinstance(x, Array):
            break
    else:
        return list(args)
    check_arraylike(name, *args)
    return [as_array(x) for x in args]


def absolute(x: ArrayLike, /) -> Array:
    """Elementwise |x|, real for complex x.  JAX: `jnp.absolute`."""
    x, = arrays("absolute", x)
    return x if x.dtype.kind in "bu" else primitives.abs(x)


abs = absolute


# What chapter 16 adds: the order of complex numbers, "where" with one argument, and
# "float_divmod".
later: dict = {}


def comparison(name, operation) -> Binary:
    """The function `name` that orders two arrays."""

    def function(x, y, /):
        x, y = promote_args(name, x, y)
        if x.aval.dtype.kind == "c" and "order" in later:
            return later["order"](operation, x, y)
        return operation(x, y)

    return named(function, name)


less = comparison("less", primitives.lt_p.bind)
less_equal = comparison("less_equal", primitives.le_p.bind)
greater = comparison("greater", primitives.gt_p.bind)
greater_equal = comparison("greater_equal", primitives.ge_p.bind)


operators |= {
    "__eq__": operator_with("==", equal),
    "__ne__": operator_with("!=", not_equal),
    "__lt__": operator_with("<", less),
    "__le__": operator_with("<=", less_equal),
    "__gt__": operator_with(">", greater),
    "__ge__": operator_with(">=", greater_equal),
    "__abs__": operator_of_one(absolute),
}


def promote_args_numeric(name: str, *args: Any) -> list[Array]:
    """As `promote_args`, with bools as integers."""
    check_arraylike(name, *args)
    return promote_shapes(name, promote_dtypes(args, to_numeric_dtype))


def in_one_dtype(name: str, *args: Any, family: Any = None) -> list[Array]:
    """The arguments of the function `name` in one dtype, whatever their shapes."""
    check_arraylike(name, *args)
    return promote_dtypes(args, family)


def to_numeric_dtype(dtype):
    """The dtype, or int32 for bool."""
    return np.dtype(np.int32) if dtype.kind == "b" else dtype


def bool_of(x):
    """Whether x holds, where this module's own `bool` is a dtype."""
    return builtins.bool(x)


def known_int(x):
    """A Python int, or a concrete integer array without axes, as an int; or None."""
    if isinstance(x, Tracer):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


def truth(x):
    """Whether each element is not zero."""
    return x if x.dtype.kind == "b" else primitives.ne(x, like(x, 0))


def like(x, value):
    """A constant with x's dtype; weakly typed if x is just such a number."""
    return convert(value, x.dtype, x.weak_type and x.ndim == 0)


def promote_truths(name, *args):
    """As `promote_args`, taken as truth values."""
    return map(truth, promote_args(name, *args))


logical_not = unary("logical_not", primitives.bitwise_not, promote_truths)
logical_and = binary("logical_and", primitives.bitwise_and, promote_truths)
logical_or = binary("logical_or", primitives.bitwise_or, promote_truths)
logical_xor = binary("logical_xor", primitives.bitwise_xor, promote_truths)


def isnan(x: ArrayLike, /) -> Array:
    """Where x is not a number.  JAX: `jnp.isnan`."""
    x, = arrays("isnan", x)
    return primitives.ne(x, x)


def from_later(name, what):
    """A row of `later`, or an error that says `what` is missing."""
    if name not in later:
        raise NotImplementedError(f"{what} comes with chapter 16")
    return later[name]


def strong(x):
    """The array without its weak type."""
    return convert(x, x.dtype)


def shape_of(name, a):
    """The sizes of the axes.  Lists and None have them, too, but with a warning."""
    if not hasattr(a, "shape"):
        try:
            check_arraylike(name, a)
        except TypeError as error:
            text = f"{error} In a future JAX release this will be an error."
            warnings.warn(text, DeprecationWarning, stacklevel=user_level())
    return np.shape(unwrapped(a))


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The sizes of the axes, as a tuple of ints.  JAX: `jnp.shape`."""
    return shape_of("shape", a)


def ndim(a: ArrayLike) -> int:
    """How many axes there are.  JAX: `jnp.ndim`."""
    return len(shape_of("ndim", a))


def size(a: ArrayLike, axis: Axis = None) -> int:
    """How many elements there are, or how many along axes.  JAX: `jnp.size`."""
    sizes = shape_of("size", a)
    return math.prod(sizes[i] for i in canonical_axes(axis, len(sizes)))


def np_shape(x):
    """The shape of an array or a number."""
    return shape(x)
