"""Element types: which there are, and what an operation on two of them gives.

    promote_types("uint8", "int8")      # int16: the smallest that holds both
    promote_types("int32", "float16")   # float16: any float beats any integer
    result_type(np.int8(1), 2)          # int8: a Python number adapts to the array
    dtype(2.0)                          # float32; float64 with enable_x64

The answers are JAX's.  They all come from one small graph, `wider`: an arrow leads
from a type to each of the next wider ones, and the type of a mix is the first one
that can be reached from all its parts, their least upper bound.

Python's numbers have types of their own in that graph, `int*`, `float*` and
`complex*`, low in it: they are *weak*, and adapt to whatever they meet.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, overload

import ml_dtypes
import numpy as np

from .base.config import config
from .base.errors import HERE, asked_by_library, user_level
from .types import Array, DTypeLike

families = {
    "bool": ["bool"],
    "unsigned": ["uint8", "uint16", "uint32", "uint64"],
    "signed": ["int8", "int16", "int32", "int64"],
    "floating": ["bfloat16", "float16", "float32", "float64"],
    "complex": ["complex64", "complex128"],
}

# The name of each dtype an array may have, and its family.
dtype_names = {np.dtype(name): name for names in families.values() for name in names}
family_of = {np.dtype(name): f for f, names in families.items() for name in names}

# The dtype of the tangent of an integer: arrays of it hold nothing.
float0 = np.dtype([("float0", np.void, 0)])

generic, number = np.generic, np.number
integer, inexact = np.integer, np.inexact
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating

# Without `enable_x64` the widest type of a family gives way to the next one.
narrow = {np.dtype(f[-1]): np.dtype(f[-2]) for f in families.values() if len(f) > 1}


class extended(np.generic):
    """The class of all dtypes that are not NumPy's.  JAX: `jax.dtypes.extended`."""


class ExtendedDtype:
    """The class of dtypes that NumPy does not have.

    Such a dtype has a `name`, a `type` for `issubdtype`, and as `storage` the NumPy
    dtype that holds its elements in memory.
    """

    name: str
    storage: np.dtype
    kind = "extended"
    itemsize = property(lambda self: self.storage.itemsize)

    def __repr__(self):
        return self.name


def storage_of(dtype):
    """The dtype that compiled code has for the elements of an array of `dtype`."""
    if isinstance(dtype, ExtendedDtype):
        return dtype.storage
    return np.dtype("bool") if dtype.kind == "V" and dtype == float0 else dtype


def as_dtype(x):
    """What stands for a dtype as a NumPy dtype; extended ones stay what they are."""
    return x if isinstance(x, (np.dtype, ExtendedDtype)) else np.dtype(x)


def carried_type(dtype):
    """The type that the dtype of a type without elements carries, or None."""
    metadata = getattr(dtype, "metadata", None)
    return metadata and metadata.get("type")


def described(dtype):
    """A dtype's name, for an error; and of what has no elements, what it is."""
    kind = carried_type(dtype)
    return dtype.name if kind is None else (
        f"object (it stands for {kind}, which a branch or a loop keeps for its "
        "derivative: that is no array, and may be handed on, or chosen by jnp.where)"
    )


def canonicalize_dtype(dtype):
    """The dtype, or without `enable_x64` its 32-bit version, as a NumPy dtype."""
    try:
        dtype = as_dtype(dtype)
    except TypeError as error:
        raise TypeError(f"dtype {dtype!r} not understood") from error
    return dtype if dtype not in narrow or config.enable_x64 else narrow[dtype]


python_scalars = {
    bool: np.dtype("bool"),
    int: np.dtype("int64"),
    float: np.dtype("float64"),
    complex: np.dtype("complex128"),
}


def is_python_scalar(x):
    """Whether x is a Python bool, int, float or complex; NumPy's scalars are not."""
    return type(x) in python_scalars or is_python_number(x)


def is_weakly_typed(x):
    """Whether x adapts to the types it meets: Python numbers, and what they made."""
    if getattr(x, "weak_type", False) is True:
        return True
    return is_python_scalar(x) and type(x) is not bool


# From each type, the next wider ones.  Weak types have a star.
wider = {
    "bool": ["int*"],
    "int*": ["uint8", "int8"],
    "uint8": ["uint16", "int16"],
    "uint16": ["uint32", "int32"],
    "uint32": ["uint64", "int64"],
    "uint64": ["float*"],
    "int8": ["int16"],
    "int16": ["int32"],
    "int32": ["int64"],
    "int64": ["float*"],
    "float*": ["bfloat16", "float16", "complex*"],
    "bfloat16": ["float32"],
    "float16": ["float32"],
    "float32": ["float64", "complex64"],
    "float64": ["complex128"],
    "complex*": ["complex64"],
    "complex64": ["complex128"],
    "complex128": [],
}

# With 32-bit defaults two 32-bit types must not make a 64-bit one.  In the whole
# graph just one pair does: uint32 with a signed integer.
wider_in_32_bits = wider | {"uint32": ["uint64", "int32"]}

# Where the option numpy_dtype_promotion is "strict", only Python's numbers adapt.
strict = {name: [] for name in wider} | {
    "int*": [*(name for name in wider if "int" in name and name != "int*"), "float*"],
    "float*": wider["float*"] + ["float32", "float64"],
    "complex*": ["complex64", "complex128"],
}


def reachable(graph, node):
    """All nodes to which the arrows of `graph` lead from `node`, itself included."""
    return {node}.union(*(reachable(graph, next_node) for next_node in graph[node]))


class TypePromotionError(ValueError):
    """No dtype holds the values of all arguments (`jax.dtypes.TypePromotionError`)."""


@functools.cache
def least_upper_bound(nodes, enable_x64, promotion="standard"):
    """The first node that all of `nodes`, a frozenset of names, lead to.

    Raises TypePromotionError if there is none.
    """
    graph = wider if enable_x64 else wider_in_32_bits
    graph = strict if promotion == "strict" else graph
    common = set.intersection(*(reachable(graph, node) for node in nodes))
    if not common:
        how = " when jax_numpy_dtype_promotion=strict" * (promotion == "strict")
        raise TypePromotionError(
            f"Input dtypes ({', '.join(sorted(nodes))}) have no available implicit "
            f"dtype promotion path{how}. Say which dtype you mean, by "
            "x.astype('float32') for example."
        )
    # The least of them is the one that leads to all the others.
    least, = (node for node in common if common <= reachable(graph, node))
    return least


# Which node a weak value of each family stands at, and the nodes' own types.
weak_nodes = {
    "bool": "bool",
    "unsigned": "int*",
    "signed": "int*",
    "floating": "float*",
    "complex": "complex*",
}
weak_types = {int: "int*", float: "float*", complex: "complex*"}
weak_dtypes = {node: python_scalars[typ] for typ, node in weak_types.items()}


def node_of(dtype, weak_type):
    """The node of the graph for a dtype, strong or weak."""
    if dtype == float0:
        raise TypeError("float0s do not support any operations by design")
    if dtype not in dtype_names:
        kind = repr(dtype) if carried_type(dtype) is None else described(dtype)
        raise ValueError(f"dtype={kind} is not a valid dtype for type promotion.")
    return weak_nodes[family_of[dtype]] if weak_type else dtype_names[dtype]


def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype[Any]:
    """The dtype of an operation on dtypes a and b.  JAX: `jnp.promote_types`.

    `int`, `float` and `complex` themselves are weak: ("int8", int) gives int8.
    """
    extended = [t.name for t in (a, b) if isinstance(t, ExtendedDtype)]
    if extended:
        raise TypeError(f"no dtype is promoted to or from {', '.join(extended)}")
    nodes = frozenset(
        weak_types[t]
        if isinstance(t, type) and t in weak_types
        else node_of(np.dtype(t), weak_type=False)
        for t in (a, b)
    )
    node = least_upper_bound(nodes, config.enable_x64, config.numpy_dtype_promotion)
    return weak_dtypes[node] if node in weak_dtypes else np.dtype(node)


def lattice_result_type(*args):
    """-> (dtype, weak_type) of an operation on `args`: values, or types, or names.

    The dtype is that of the result itself, even where weak: of a weak int16 array
    and a Python number it is int16, where `result_type` says int32.
    """
    kinds, promotion = tuple(map(typed, args)), config.numpy_dtype_promotion
    if promotion == "strict" and asked_by_library():
        promotion = "standard"
    return joint_type(kinds, config.enable_x64, promotion)


def typed(x):
    """(dtype, weak_type) of a value, or of the type or name of one.

    Of a Python number its class, which stands for such a pair.
    """
    if isinstance(x, Array):
        return x.aval.dtype, x.aval.weak_type
    if type(x) in python_scalars:
        return type(x)
    is_weak_class = isinstance(x, type) and x in weak_types
    return dtype(x), is_weakly_typed(x) or is_weak_class


@functools.lru_cache(maxsize=4096)
def joint_type(kinds, enable_x64, promotion):
    """-> (dtype, weak_type) of an operation on values of some `kinds`: see `typed`."""
    pairs = [
        (dtype(kind), kind is not bool) if isinstance(kind, type) else kind
        for kind in kinds
    ]
    dtypes, weak = zip(*pairs, strict=True)
    if len(set(dtypes)) == 1:
        return dtypes[0], all(weak) and dtypes[0] != np.bool_
    # Among weak values only, the widths decide as they do among strong ones.
    widths = all(weak) and promotion == "standard"
    nodes = [node_of(d, w and not widths) for d, w in zip(dtypes, weak, strict=True)]
    node = least_upper_bound(frozenset(nodes), enable_x64, promotion)
    is_weak = all(weak) or node in weak_dtypes
    wide = np.dtype(weak_dtypes.get(node, node))
    return wide if enable_x64 else narrow.get(wide, wide), is_weak and node != "bool"


@overload
def result_type(*args: Any) -> np.dtype[Any]: ...
@overload
def result_type(*args: Any, return_weak_type_flag: bool) -> Any: ...
def result_type(*args, return_weak_type_flag=False):
    """The dtype of an operation on `args`: values, types or names, in any mix.

    JAX: `jnp.result_type`.  With `return_weak_type_flag`: -> (dtype, weak_type).
    A weak result has the default type of its kind: int32, float32, complex64.
    """
    if not args:
        raise ValueError("at least one array or dtype is required")
    args = [default_dtype("floating") if arg is None else arg for arg in args]
    result, weak_type = lattice_result_type(*args)
    if weak_type:
        result = default_dtype(family_of[result])
    return (result, weak_type) if return_weak_type_flag else result


def default_dtype(family):
    """The type of a family that a value has if nobody says: int32, float32, ..."""
    return canonicalize_dtype(families[family][-1])


# What stands for a type: Python classes, names such as "int8", NumPy's dtypes.
type_classes = (type, str, np.dtype)


def dtype(x: Any) -> np.dtype[Any]:
    """The dtype of a value, or of the type or name of one.

    Python's and NumPy's values become 32-bit unless `enable_x64`; an array that is
    already minijit's keeps what it has.

    Raises:
      ValueError: for None.
      TypeError: if x is no number, bool or array of them.
    """
    if x is None:
        raise ValueError(f"Invalid argument to dtype: {x}.")
    python = python_scalars.get(x if isinstance(x, type) else type(x))
    if python is not None:
        return canonicalize_dtype(python)
    if isinstance(x, ExtendedDtype) or hasattr(x, "weak_type"):
        return getattr(x, "dtype", x)
    if isinstance(x, type_classes) and not isinstance(x, ScalarType):
        return explicit_dtype(check_dtype(np.dtype(x), "Value {!r}", x))
    found = getattr(x, "dtype", None)
    if not isinstance(found, np.dtype):
        try:
            found = np.result_type(x)
        except TypeError as error:
            raise TypeError(f"Cannot determine dtype of {x}") from error
    return canonicalize_dtype(check_dtype(found, "Value {!r}", x))


def check_dtype(dtype, what, *given):
    """Raise unless `dtype`, found in `what.format(*given)`, is one an array may have.

    The values are printed where that is needed: to print an array takes long.
    """
    if dtype not in dtype_names and dtype != float0:
        raise TypeError(
            f"{what.format(*given)} with dtype {dtype} is not a valid array type. "
            "Only arrays of numbers and bools are supported."
        )
    return dtype


def is_python_number(x):
    """Whether x is a Python number or bool, subclasses included; not NumPy's."""
    return isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)


def checked_numpy(x):
    """What speaks `__array__` as a NumPy array of a dtype that an array may have.

    Raises:
      TypeError: for anything else, and for strings, objects and dates.
      ValueError: for masked arrays.
    """
    if not isinstance(x, (np.ndarray, np.generic)) and not hasattr(x, "__array__"):
        raise TypeError(f"Argument {x!r} of type {type(x)} is not a valid JAX type")
    if hasattr(x, "mask"):
        raise ValueError(
            "numpy masked arrays are not supported: the mask would be ignored. "
            f"Instead: pass x.filled(...), or use jnp.where{HERE}"
        )
    x = np.asarray(x)
    check_dtype(x.dtype, "Value {!r}", x)
    return x


def explicit_dtype(dtype, fun_name="dtype"):
    """A dtype that a user asked for by name: 64 bits are cut to 32, with a warning."""
    canonical = canonicalize_dtype(dtype)
    if canonical != dtype:
        warnings.warn(
            f"Explicitly requested dtype {dtype.name} requested in {fun_name} is not "
            f"available, and will be truncated to dtype {canonical.name}. To enable "
            'more dtypes, call minijit.config.update("jax_enable_x64", True) or set '
            "the environment variable MINIJIT_ENABLE_X64.",
            stacklevel=user_level(),
        )
    return canonical


def user_dtype(dtype, fun_name, x=None):
    """The dtype for an argument `dtype=` of the function `fun_name`, which is given x.

    `int`, `float` and `complex` stand for the default of their kind, as in JAX.
    What carries a type without elements fits x alone, if x has that type.

    Raises:
      ValueError: for None, or an array in place of its dtype.
      TypeError: for what no array can hold: strings, objects, dates.
    """
    if dtype is None:
        raise ValueError(f"dtype must be specified in {fun_name}.")
    if isinstance(dtype, type) and dtype in python_scalars:
        return canonicalize_dtype(python_scalars[dtype])
    if hasattr(dtype, "shape") and not isinstance(dtype, (type, str, np.dtype)):
        raise ValueError(
            f"{fun_name} got an array as its dtype argument: "
            "instead of dtype=arr use dtype=arr.dtype."
        )
    kind = carried_type(dtype)
    same = kind is not None and kind == carried_type(getattr(x, "dtype", None))
    if same or isinstance(dtype, ExtendedDtype):
        return dtype
    found = check_dtype(np.dtype(dtype), "dtype={!r} in {}", dtype, fun_name)
    return explicit_dtype(found, fun_name)


def scalar_dtype(x):
    """The dtype of a Python bool, int, float or complex.

    Raises OverflowError for an int too large for the default integer type.
    """
    python = type(x)
    if python not in python_scalars:
        python = next(typ for typ in python_scalars if isinstance(x, typ))
    found = canonicalize_dtype(python_scalars[python])
    return check_python_int(x, found) if found.kind == "i" else found


def holds_int(dtype, x):
    """Whether an array of a dtype can hold a Python int; a float one rounds it."""
    if family_of.get(dtype) in ("signed", "unsigned"):
        limits = iinfo(dtype)
        return limits.min <= x <= limits.max
    return family_of.get(dtype) == "floating"


def check_python_int(x, dtype):
    """The integer `dtype`, or an OverflowError if a Python int does not fit in it."""
    limits = iinfo(dtype)
    if not limits.min <= x <= limits.max:
        raise OverflowError(f"Python int {x} too large to convert to {dtype}")
    return dtype


def numeric_dtype(dtype):
    """A NumPy dtype; TypeError for one with which nobody can calculate."""
    if isinstance(dtype, ExtendedDtype):
        raise TypeError(f"there is no arithmetic on arrays of dtype {dtype.name}")
    return np.dtype(dtype)


def to_inexact_dtype(dtype):
    """The floating type in which functions like `sin` compute for this dtype."""
    dtype = numeric_dtype(dtype)
    if family_of.get(dtype) in ("bool", "signed", "unsigned"):
        return np.dtype("float64" if dtype.itemsize == 8 else "float32")
    return dtype


def scalar_class(x):
    """The NumPy class of a dtype's scalars; abstract classes stand for themselves."""
    if isinstance(x, type) and issubclass(x, np.generic):
        return x
    # A dtype that is not one of NumPy's has this attribute too.
    return getattr(x, "type", None) or np.dtype(x).type


# The class above that of a dtype which NumPy does not have.
class_of = {ml_dtypes.bfloat16: floating}


def issubdtype(a: DTypeLike, b: DTypeLike) -> bool:
    """Whether a dtype is another one, or of a kind: NumPy's, and bfloat16.

    JAX: `jnp.issubdtype`.
    """
    a, b = scalar_class(a), scalar_class(b)
    if a in class_of:
        return b is a or issubclass(class_of[a], b)
    return bool(np.issubdtype(a, b))


def finfo(dtype: DTypeLike) -> Any:
    """Limits of a floating or complex type (`eps`, `max`, `bits`, ...), or bfloat16."""
    return limits_of(ml_dtypes.finfo, numeric_dtype(dtype))


def iinfo(dtype: DTypeLike) -> Any:
    """Limits of an integer type: `min`, `max`, `bits`."""
    return limits_of(ml_dtypes.iinfo, numeric_dtype(dtype))


@functools.cache
def limits_of(info, dtype):
    """The limits of a dtype, worked out once: `info` is `finfo` or `iinfo`."""
    try:
        return info(dtype)
    except ValueError:
        kind = "inexact" if info is ml_dtypes.finfo else "an integer type"
        raise ValueError(f"data type {dtype} is not {kind}") from None


@functools.cache
def short_dtype_name(dtype):
    """The name of a dtype in a jaxpr: f32, i32, u8, bf16, c64, bool."""
    if dtype == float0:
        return "float0"
    name = dtype_names.get(dtype, dtype.name)
    for long, short in [("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")]:
        name = name.replace(long, short)
    return name


class ScalarType:
    """`jnp.float32`: stands for a dtype, and makes an array of what it is called on.

    What a call does is looked up in `scalar_makers`, which `minijit.numpy` fills.
    """

    def __init__(self, name: str) -> None:
        self.dtype: np.dtype[Any] = np.dtype(name)
        self.__name__ = name if name != "bool" else "bool_"

    def __call__(self, x: Any = 0) -> Array:
        x = self.dtype.type(x) if isinstance(x, str) else x
        return scalar_makers["array"](x, dtype=self.dtype)

    def __instancecheck__(self, x):
        return False  # What it makes is an array.

    def __mro_entries__(self, bases):
        # A class that derives from it makes the same arrays.
        make = lambda cls, x=0: self(x)
        return (type(self.__name__, (), {"dtype": self.dtype, "__new__": make}),)

    def __eq__(self, other):
        return self is other or (other is not None and self.dtype == other)

    def __hash__(self):
        return hash(self.dtype.type)

    def __repr__(self):
        return f"<class 'minijit.numpy.{self.__name__}'>"


scalar_makers = {}
bool_ = ScalarType("bool")
uint8, uint16, uint32, uint64 = map(ScalarType, families["unsigned"])
int8, int16, int32, int64 = map(ScalarType, families["signed"])
bfloat16, float16, float32, float64 = map(ScalarType, families["floating"])
complex64, complex128 = map(ScalarType, families["complex"])

type_classes += (ScalarType,)

kinds = {
    "bool": ["bool"],
    "signed integer": ["signed"],
    "unsigned integer": ["unsigned"],
    "integral": ["signed", "unsigned"],
    "real floating": ["floating"],
    "complex floating": ["complex"],
    "numeric": ["signed", "unsigned", "floating", "complex"],
}


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of the array API standard's `kind`, or of one of several."""
    options = []
    for k in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(k, str) and k in kinds:
            options += [d for d, family in family_of.items() if family in kinds[k]]
            continue
        try:
            options.append(np.dtype(k))
        except TypeError as error:
            raise ValueError(
                f"Unrecognized kind={k!r}: expected one of {list(kinds)}, or a dtype"
            ) from error
    return np.dtype(dtype) in options


def to_floating_dtype(dtype):
    """As `to_inexact_dtype`, and the type of the real part for complex types."""
    return finfo(to_inexact_dtype(dtype)).dtype


def to_complex_dtype(dtype):
    """The complex type that holds values of this dtype."""
    wide = to_inexact_dtype(dtype) in (np.dtype("float64"), np.dtype("complex128"))
    return np.dtype("complex128" if wide else "complex64")
