"""Arrays: abstract (`ShapedArray`: a shape and a dtype) and concrete (`ArrayImpl`).

An abstract value, or *aval*, is what minijit knows of an array before it is computed.
Each primitive has a row in `shape_rules` that computes the avals of its results from
the avals of its arguments, and complains when they do not fit; `on_numpy` turns a NumPy
function into an eval rule that checks itself against that row.

    shape_rules[neg_p] = lambda x: x
    eval_rules |= on_numpy({neg_p: np.negative})
    neg_p.bind(array(1.0))                 # Array(-1., dtype=float32)
"""

import contextvars
import enum
import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from . import dtypes
from .config import config
from .core import Array, Tracer, eval_rules as eval_rules, find_rule
from .errors import at_line, replayed, user_source

shape_rules = {}


@dataclass(frozen=True)
class ShapedArray:
    """What is known of an array before it is computed.

    Attributes:
      shape: tuple of ints.
      dtype: a `np.dtype`.
      weak_type: whether the dtype only came from a Python scalar, and so gives way
        to the dtype of whatever it meets (https://docs.jax.dev, "type promotion").
    """

    shape: tuple
    dtype: np.dtype
    weak_type: bool = False

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    def update(self, **changes):
        """The same aval with some fields changed."""
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        return ShapedArray(**(fields | changes))

    def strip_weak_type(self):
        return self.update(weak_type=False) if self.weak_type else self

    def str_short(self):
        """`f32[2,3]`: how jaxprs print the type."""
        shape = ",".join(map(str, self.shape))
        return f"{dtypes.short_dtype_name(self.dtype)}[{shape}]"

    def __str__(self):
        return "~" * self.weak_type + self.str_short()

    def __repr__(self):
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


@lru_cache(maxsize=256)
def scalar_aval(dtype, weak_type):
    """The aval of a value without axes: one object for each type."""
    return ShapedArray((), dtype, weak_type)


def aval_of(x):
    """The aval of an array, a tracer, a NumPy array or a Python scalar."""
    if isinstance(x, Array):
        return x.aval
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return scalar_aval(dtypes.scalar_dtype(x), dtypes.is_weakly_typed(x))
    if isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "__array__"):
        if hasattr(x, "mask"):
            raise ValueError(
                "numpy masked arrays are not supported: the mask would be ignored. "
                f"Instead: pass x.filled(...), or use jnp.where{at_line(user_source())}"
            )
        x = np.asarray(x)
        if x.dtype not in dtypes.dtype_names:
            dtypes.check_dtype(x.dtype, "Value {!r}", x)
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))
    raise TypeError(f"{x!r} of type {type(x).__name__} is not an array or a number")


def is_array_like(x):
    """Whether `x` may be an argument of a primitive."""
    return isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex))


# The class of the concrete arrays of a dtype that is not NumPy's, by its class.
array_classes = {}


class ArrayImpl(Array):
    """A concrete, immutable array: NumPy's, with an aval.

    Made by `jnp.array`, `jnp.asarray` and every operation outside a trace; users see
    it as `Array`.  `ArrayImpl(value, aval)` makes one of the class in `array_classes`
    if the aval's dtype has a row there.
    """

    __slots__ = ("aval", "_value", "__weakref__")

    def __new__(cls, value, aval):
        self = object.__new__(array_classes.get(type(aval.dtype), cls))
        value.setflags(write=False)
        self._value = value
        self.aval = aval
        return self

    def __repr__(self):
        if self.is_deleted():
            return f"<deleted Array of type {self.aval}>"
        weak = ", weak_type=True" if self.aval.weak_type else ""
        end = f", dtype={self.dtype.name}{weak})"
        body = np.array2string(self._value, separator=", ", prefix="Array(")
        if self.size == 0:
            body = f"[], shape={self.shape}"
        return f"Array({body}{end}"

    def __str__(self):
        return str(self.numpy())

    def __format__(self, spec):
        return format(self.numpy()[()] if self.ndim == 0 else self.numpy(), spec)

    def numpy(self):
        """The value as a read-only NumPy array, without a copy."""
        if self._value is None:
            raise RuntimeError(
                f"this Array of type {self.aval} has been deleted: it was donated to "
                "a jitted function (donate_argnums) or delete() was called. Keep a "
                "copy, or do not donate it."
            )
        return self._value

    def __array__(self, dtype=None, copy=None):
        value = self.numpy()
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to change {value.dtype} to {dtype}")
            return value.astype(dtype)
        return value.copy() if copy else value

    def __dlpack__(self, *, max_version=None, **options):
        value = self.numpy()
        # Only DLPack 1.0 can say "read only"; an older consumer gets its own copy.
        if max_version is None or max_version < (1, 0):
            return value.copy().__dlpack__(**options)
        return value.__dlpack__(max_version=max_version, **options)

    def __dlpack_device__(self):
        return self.numpy().__dlpack_device__()

    def __bool__(self):
        return bool(self.numpy())

    def __int__(self):
        return int(self.numpy().item() if self.size == 1 else self.numpy())

    def __float__(self):
        return float(self.numpy().item() if self.size == 1 else self.numpy())

    def __complex__(self):
        return complex(self.numpy().item() if self.size == 1 else self.numpy())

    def __index__(self):
        return self.numpy().__index__()

    def item(self, *args):
        """The value as a Python scalar."""
        return self.numpy().item(*args)

    def tolist(self):
        """The value as nested Python lists."""
        return self.numpy().tolist()

    def tobytes(self, order="C"):
        """The value's bytes, row by row."""
        return self.numpy().tobytes(order)

    def __reduce__(self):
        return ArrayImpl, (np.array(self.numpy()), self.aval)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def nbytes(self):
        return self.aval.nbytes

    @property
    def itemsize(self):
        return self.dtype.itemsize

    def block_until_ready(self):
        """Itself: on the CPU a result is there when the call returns."""
        return self

    def is_deleted(self):
        """Whether the array was donated or deleted."""
        return self._value is None

    def delete(self):
        """Let the array's memory go; using the array afterwards is an error."""
        self._value = None


def wrap(value, weak_type=False):
    """The array that owns `value`, a NumPy array nobody else will write to."""
    value = np.asarray(value)
    return ArrayImpl(value, ShapedArray(value.shape, value.dtype, weak_type))


def to_numpy(x, aval=None):
    """The NumPy value of a concrete argument, never one that others can write to."""
    if isinstance(x, ArrayImpl):
        return x.numpy() if x._value is None else x._value
    if isinstance(x, Tracer):
        return x.concrete("numpy").numpy()
    aval = aval or aval_of(x)
    if isinstance(x, int) and not isinstance(x, bool) and aval.dtype.kind in "iu":
        dtypes.check_python_int(x, aval.dtype)
    return np.array(x, dtype=aval.dtype)


# What a shape rule's answer may be remembered by: values without parts, which compare
# by what they are.  Jaxprs and functions would be kept alive.
plain_types = (
    ShapedArray, np.dtype, dtypes.ExtendedDtype, enum.Enum,
    bool, int, float, complex, str, type(None),
)  # fmt: skip


def is_plain(x):
    """Whether `x`, an aval or a param, is one of `plain_types` or a tuple of them."""
    if isinstance(x, tuple):
        return all(map(is_plain, x))
    return isinstance(x, plain_types)


class NotRememberedError(Exception):
    """An aval or a param is no key for a table."""


@lru_cache(maxsize=4096, typed=True)
def remembered_avals(primitive, rule, flags, /, *avals, **params):
    """The answer of a shape rule for these avals, params and flags, as a tuple."""
    if not (all(map(is_plain, avals)) and all(map(is_plain, params.values()))):
        raise NotRememberedError
    out = rule(*avals, **params)
    return tuple(out) if primitive.multiple_results else (out,)


def result_avals(primitive, avals, params, source=None):
    """What the shape rule of a primitive says: a sequence of avals, one a result.

    Where the arguments do not fit, the error names their types and the line `source`.
    """
    rule = shape_rules.get(primitive) or find_rule(shape_rules, primitive, "shape")
    try:
        return remembered_avals(primitive, rule, config.trace_key(), *avals, **params)
    except (NotRememberedError, TypeError, ValueError):
        # Unhashable params end here too.  Answers that are not remembered are worked
        # out each time, and so are complaints, for they name the line.
        pass
    try:
        out = rule(*avals, **params)
    except (TypeError, ValueError) as error:
        if source is not None and "\n  at " not in str(error):
            types = ", ".join(map(str, avals)) or "no arguments"
            given = f"\n  {primitive} was given {types}"
            error.args = (f"{error}{given}{at_line(source)}",)
        raise
    return out if primitive.multiple_results else [out]


def on_numpy(rows):
    """Eval rules out of NumPy functions: `{primitive: f(*ndarrays, **params)}`."""
    return {p: partial(eval_on_numpy, p, f) for p, f in rows.items()}


# Division by zero, overflow and NaN follow IEEE 754 and are not worth a warning.  NumPy
# keeps what it does about them in the context; to enter one that was made here, once,
# takes a tenth of the time of `np.errstate`.
quiet = contextvars.Context()
quiet.run(np.seterr, all="ignore")


def quietly(function, *args):
    """`function(*args)` without NumPy's warnings of floating point."""
    return quiet.copy().run(function, *args)


def eval_on_numpy(primitive, function, *args, **params):
    """Run `function` on NumPy values; the shape rule says what must come out."""
    return quiet.copy().run(apply_to_numpy, primitive, function, args, params)


def apply_to_numpy(primitive, function, args, params):
    """As `eval_on_numpy`, with the warnings that NumPy is told to give."""
    avals, values = [], []
    for x in args:
        aval = x.aval if isinstance(x, Array) else aval_of(x)
        avals.append(aval)
        values.append(to_numpy(x, aval))
    out = result_avals(primitive, avals, params, replayed.source)
    results = function(*values, **params)
    if primitive.multiple_results:
        return [as_array(primitive, v, a) for v, a in zip(results, out, strict=True)]
    return as_array(primitive, results, *out)


def as_array(primitive, value, aval):
    """Wrap a result, which must be what the shape rule promised, rows contiguous."""
    dtype = aval.dtype
    if not isinstance(dtype, np.dtype):
        dtype = dtypes.storage_of(dtype)
    value = np.asarray(value, dtype, "C")
    if value.shape != aval.shape:
        raise AssertionError(f"{primitive}: shape {value.shape}, expected {aval.shape}")
    return ArrayImpl(value, aval)
