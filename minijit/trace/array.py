"""Arrays: abstract (`ShapedArray`: a shape and a dtype) and concrete (`ArrayImpl`).

An abstract value, or *aval*, is what minijit knows of an array before it is computed.
Each primitive has a row in `shape_rules` that computes the avals of its results from
the avals of its arguments, and complains when they do not fit; `on_numpy` turns a NumPy
function into an eval rule that checks itself against that row.

    shape_rules[neg_p] = lambda x: x
    eval_rules |= on_numpy({neg_p: np.negative})
    neg_p.bind(array(1.0))                 # Array(-1., dtype=float32)
"""

import math
import operator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from . import dtypes
from .concrete import ConcreteArray, is_array_like as is_array_like
from .core import Array, Tracer, eval_rules as eval_rules, find_rule
from .numpy_values import quietly
from .remembered import add_line, plain_types, remembered

# The class of the concrete arrays of a dtype that is not NumPy's, by its class.
array_classes = {}


class ArrayImpl(ConcreteArray):
    """A concrete, immutable array: NumPy's, with an aval.

    Made by `jnp.array`, `jnp.asarray` and every operation outside a trace; users see
    it as `Array`.
    """

    __slots__ = ("aval", "_value", "__weakref__")

    def __new__(cls, value, aval):
        # An array of random keys, for instance, has a class of its own.
        self = object.__new__(array_classes.get(type(aval.dtype), cls))
        # Kernels go through memory row by row.
        if not value.flags.c_contiguous:
            value = value.copy()
        value.setflags(write=False)
        self._value = value
        self.aval = aval
        return self

    def numpy(self):
        """The value as a read-only NumPy array, without a copy."""
        if self._value is None:
            raise self._deleted()
        return self._value


def wrap(value, weak_type=False):
    """The array that owns `value`, a NumPy array nobody else will write to."""
    value = np.asarray(value)
    return ArrayImpl(value, ShapedArray(value.shape, value.dtype, weak_type))


def aval_of(x):
    """The aval of an array, a tracer, a NumPy array or a Python number."""
    if isinstance(x, Array):
        return x.aval
    if dtypes.is_python_number(x):
        return known_aval((), dtypes.scalar_dtype(x), dtypes.is_weakly_typed(x))
    x = dtypes.checked_numpy(x)
    return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))


def to_numpy(x, aval=None):
    """The NumPy value of a concrete argument, never one that others can write to."""
    if isinstance(x, ArrayImpl):
        return x.numpy() if x._value is None else x._value
    if isinstance(x, Tracer):
        return x.concrete("numpy").numpy()
    return np.array(x, dtype=(aval or aval_of(x)).dtype)


@lru_cache(maxsize=4096)
def known_aval(shape, dtype, weak_type):
    """The one aval of its kind: types that are the same object need no comparison."""
    return ShapedArray(shape, dtype, weak_type)


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
    # Of the axes that `vmap` can map.
    mappable = property(operator.attrgetter("shape"))

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


# chapter 3
shape_rules = {}


def result_avals(primitive, avals, params, source=None):
    """What the shape rule of a primitive says: a sequence of avals, one a result.

    Where the arguments do not fit, the error names their types and the user's line,
    `source`, or that of the recorded equation which is being applied.
    """
    rule = shape_rules.get(primitive) or find_rule(shape_rules, primitive, "shape")
    try:
        return remembered(rule, primitive.multiple_results, avals, params)
    except (TypeError, ValueError) as error:
        add_line(error, primitive, avals, source)
        raise


def on_numpy(rows):
    """Eval rules out of NumPy functions: `{primitive: f(*ndarrays, **params)}`."""
    return {p: partial(quietly, eval_on_numpy, p, f) for p, f in rows.items()}


def eval_on_numpy(primitive, function, *args, **params):
    """Run `function` on NumPy values; the shape rule says what must come out."""
    avals = list(map(aval_of, args))
    out = result_avals(primitive, avals, params)
    results = function(*map(to_numpy, args, avals), **params)
    if not primitive.multiple_results:
        return as_promised(primitive, results, *out)
    return [as_promised(primitive, v, a) for v, a in zip(results, out, strict=True)]


def as_promised(primitive, value, aval):
    """Wrap a result, in C order; it must be what the shape rule promised."""
    # A dtype that NumPy lacks, bfloat16 for example, says which one stores it.
    value = np.asarray(value, getattr(aval.dtype, "storage", aval.dtype), "C")
    if value.shape != aval.shape:
        raise AssertionError(f"{primitive}: shape {value.shape}, expected {aval.shape}")
    return ArrayImpl(value, aval)


# chapter 3, brought along

# A shape rule's answer can be remembered by the avals that it was asked about.
plain_types.append(ShapedArray)
