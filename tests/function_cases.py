"""Calls of every public function of `minijit.numpy` and `minijit.lax`, as a table.

    from function_cases import lax_cases, numpy_cases
    for name, cases in numpy_cases.items():
        for case in cases:
            case.call(minijit.numpy, name)          # eager, on NumPy arrays
            arrays, function = case.traceable(minijit.numpy, name)
            function(*arrays)                       # the same call, arrays as arguments

The two dicts map a function's name ("sin", "linalg.norm") to a list of `Case`s.  All
is deterministic, small and independent of minijit: arrays are NumPy's (bfloat16 is
ml_dtypes'), and `Weak(value, shape)` stands for a weakly typed array.

`Case` fields:
  args, kwargs: of the call.  Arrays, also in lists and tuples, are NumPy arrays or
    `Weak`; everything else is a parameter to be kept as it is (static).
  dynamic: False where the result's shape depends on values, or Python needs them (such
    as `unique` without `size`): such a call cannot be traced with its arrays unknown.
  jax: why jax is not asked what comes of it, or "" where it is.
  tolerance: relative, where it is not that of the result's dtype.
  then: the arguments of a second call, of the function that the first one returns.
  over: a name: the call is mapped over the first axis of its first argument, which has
    that name.

`OfLax("add")` stands for a library's own `lax.add`.  `leaves(x)` flattens results.
`as_jax(x, jnp)` turns arguments into arrays of a library with jax's interface (`Weak`
included).  `text_of(case)` tells cases apart.
"""

import functools
import importlib
import inspect
import random
import zlib
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

bfloat16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Weak:
    """A weakly typed array: a Python number, filled to a shape."""

    value: object
    shape: tuple = ()


@dataclass(frozen=True)
class OfLax:
    """Something of the library's `lax` module: what has that name, or `make(lax)`.

    With arguments, what comes of a call with them.
    """

    make: object
    args: tuple = ()

    def of(self, lax):
        if not isinstance(self.make, str):
            return self.make(lax)
        found = getattr(lax, self.make)
        return found(*self.args) if self.args else found


@dataclass(frozen=True)
class Case:
    """One call of a function: see the top of this module."""

    args: tuple
    kwargs: dict = field(default_factory=dict)
    dynamic: bool = True
    jax: str = ""
    tolerance: float | None = None
    then: tuple = ()
    over: str = ""

    def call(self, module, name):
        """Call the function on arrays of `module` (which has jax.numpy's or lax's)."""
        given = self.args, self.kwargs, self.then
        return apply(self.function(module, name), as_jax(given, array_module(module)))

    def function(self, module, name):
        """The function of that name, mapped if the case asks for it."""
        found = find(module, name)
        if not self.over:
            return found
        library = importlib.import_module(module.__name__.split(".")[0])

        @functools.wraps(found)
        def mapped(x, *args, **kwargs):
            lane = lambda x: found(x, *args, **kwargs)
            return library.vmap(lane, axis_name=self.over)(x)

        return mapped

    def traceable(self, module, name):
        """-> (arrays, function of them): all else is fixed in the function."""
        arrays = []
        given = self.args, self.kwargs, self.then
        collect(given, arrays)

        def function(*values):
            called = replace(given, iter(values), lax(module))
            return apply(self.function(module, name), called)

        return [as_jax(x, array_module(module)) for x in arrays], function


def apply(function, given):
    """Call a function, and what comes of it if there are arguments for that."""
    args, kwargs, then = given
    result = function(*args, **kwargs)
    return result(*then) if then else result


def find(module, name):
    """`linalg.norm` of a module."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def array_module(module):
    """The module with `asarray` beside `lax`."""
    return importlib.import_module(f"{module.__name__.split('.')[0]}.numpy")


def lax(module):
    """The module `lax` beside `numpy`."""
    return importlib.import_module(f"{module.__name__.split('.')[0]}.lax")


def is_array(x):
    return isinstance(x, (np.ndarray, Weak))


def collect(x, found):
    """Append the arrays in nested arguments to `found`, in order."""
    if is_array(x):
        found.append(x)
    elif isinstance(x, dict):
        for value in x.values():
            collect(value, found)
    elif type(x) in (list, tuple):
        for value in x:
            collect(value, found)


def replace(x, values, lax):
    """The nested arguments with the arrays replaced, in order."""
    return convert(x, lambda _: next(values), lax)


def convert(x, function, lax=None):
    """Apply a function to the arrays in nested arguments; take from lax what is its."""
    if is_array(x):
        return function(x)
    if isinstance(x, OfLax):
        return x.of(lax) if lax else None
    if isinstance(x, dict):
        return {key: convert(value, function, lax) for key, value in x.items()}
    if type(x) in (list, tuple):
        return type(x)(convert(value, function, lax) for value in x)
    return x


def text_of(x):
    """What a case says, or a part of it: two that differ are not the same text."""
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{x.shape}{x.tobytes()}"
    if isinstance(x, (OfLax, Case)):
        return str({key: text_of(value) for key, value in vars(x).items()})
    if isinstance(x, dict):
        return str({key: text_of(value) for key, value in x.items()})
    if type(x) in (list, tuple):
        return str(type(x)([text_of(value) for value in x]))
    if callable(x):
        own = x.__module__ in (__name__, "module_cases")
        return inspect.getsource(x) if own else x.__name__
    return repr(x)


def as_jax(x, jnp):
    """Arguments with the arrays of `jnp`."""

    def make(a):
        if isinstance(a, Weak):
            return jnp.full(a.shape, a.value) if a.shape else jnp.asarray(a.value)
        return jnp.asarray(a)

    return convert(x, make, lax(jnp))


def leaves(x):
    """The arrays and numbers in a result, flat."""
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in leaves(part)]
    return [x]


def data(shape=(), dtype="float32", low=-3, high=3, step=0.25, seed=0):
    """Numbers of a grid, the same ones each time: multiples of `step`."""
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    key = f"{shape}{dtype.name}{low}{high}{seed}"
    random = np.random.RandomState(zlib.crc32(key.encode()) % 2**32)
    if dtype.kind == "b":
        return np.asarray(random.rand(*shape) < 0.5)
    if dtype.kind == "c":
        parts = [random.randint(low / step, high / step + 1, shape) for _ in range(2)]
        return np.asarray((parts[0] + 1j * parts[1]) * step).astype(dtype)
    if dtype.kind in "iu":
        low = max(low, 0) if dtype.kind == "u" else low
        return np.asarray(random.randint(np.ceil(low), np.floor(high) + 1, shape),
            dtype)
    grid = random.randint(np.ceil(low / step), np.floor(high / step) + 1, shape)
    return np.asarray(grid * step).astype(dtype)


def edge_values(dtype):
    """Values of a dtype: ordinary ones, and those where functions are special."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        special = [0, 1, 2, 3, 7, 8, 31, 32, 33, 100, limits.max, limits.min]
        return np.array([*special, limits.max - 1, -1]).astype(dtype)
    parts = [0, -0.0, 1, -1, 0.5, -0.5, 1.5, -2.5, 0.49999997, 3.3, -3.7, 10, 1e-3, 30]
    if dtype.kind == "c":
        return np.array([x + 1j * y for x in parts[2:] for y in (0.5, -2.0)], dtype)
    return np.array([*parts, np.nan, np.inf, -np.inf], np.float64).astype(dtype)


def F(*shape, **options):
    """float32 data."""
    return data(shape, "float32", **options)


def Z(*shape, **options):
    """int32 data."""
    return data(shape, "int32", **options)


def B(*shape, **options):
    """bool data."""
    return data(shape, "bool", **options)


def C(*shape, **options):
    """complex64 data."""
    return data(shape, "complex64", **options)


def N(*shape, **options):
    """float32 data with NaNs in it."""
    x = F(*shape, **options).copy()
    x.reshape(-1)[::3] = np.nan
    return x


def case(
    *args, dynamic=True, jax="", tolerance=None, then=(), over="", **kwargs
):
    """A `Case` with these arguments."""
    return Case(args, kwargs, dynamic, jax, tolerance, then, over)


specials = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
floats = ["float32", "float16", "bfloat16"]
integers = ["int32", "int8", "uint8", "uint32"]
every_dtype = ["bool", *integers, *floats, "complex64"]
powers = np.array([0.5, 1, -1, 2.5, -2.5, 3, 9, -9, 0, -0.0, 60, 1e-3, 7])


def unary(kinds="fi", low=-3, high=3, edges=True, weak=1.5):
    """Cases of an elementwise function of one array.

    Args:
      kinds: letters of dtypes: f floats, i integers, b bool, c complex, s float32 only.
    """
    shapes = [(), (0,), (2, 3)]
    dtypes = {"f": floats, "i": integers, "b": ["bool"], "c": ["complex64"]}
    names = [d for k in kinds for d in dtypes.get(k, ["float32"])]
    found = [data(shapes[2], name, low, high) for name in names]
    found += [data(s, names[0], low, high) for s in shapes[:2]]
    if edges and "f" in kinds:
        found.append(specials)
    if weak is not None:
        weak = int(weak) if names[0][0] in "iu" else weak
        found += [Weak(weak), Weak(weak, (2,))]
    return [case(x) for x in found]


pairs = {
    "f": [("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"),
          ("float16", "float32"), ("bfloat16", "float16")],
    "i": [("int32", "int32"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8"),
          ("uint32", "int32"), ("int8", "int32")],
    "m": [("int32", "float32"), ("float16", "int32"), ("bool", "float32")],
    "b": [("bool", "bool"), ("bool", "int32")],
    "c": [("complex64", "complex64"), ("float32", "complex64")],
}  # fmt: skip
broadcasts = [((), (3,)), ((2, 1), (3,)), ((0,), (1,)), ((), ())]


def binary(kinds="fim", low=-3, high=3, low2=None, high2=None, weak=True, edges=True):
    """Cases of an elementwise function of two arrays, which broadcast."""
    low2, high2 = low if low2 is None else low2, high if high2 is None else high2
    found = []
    for left, right in [p for k in kinds for p in pairs[k]]:
        found.append((data((2, 3), left, low, high, seed=1),
                      data((2, 3), right, low2, high2, seed=2)))  # fmt: skip
    dtype = pairs[kinds[0]][0][0]
    for left, right in broadcasts:
        found.append((data(left, dtype, low, high, seed=1),
                      data(right, dtype, low2, high2, seed=2)))  # fmt: skip
    if edges and "f" in kinds:
        found.append((specials, specials[::-1].copy()))
        found.append((specials, np.float32(2) + np.zeros(7, np.float32)))
    if weak:
        x = data((3,), dtype, low, high, seed=1)
        found += [(x, Weak(2)), (Weak(2), Weak(3)), (Weak(1, (2,)), Weak(2))]
    return [case(x, y) for x, y in found]


def reduction(kinds="fib", empty=True, **options):
    """Cases of a reduction: dtypes, axes, keepdims, where."""
    dtypes = {"f": floats, "i": integers, "b": ["bool"], "c": ["complex64"]}
    names = [d for k in kinds for d in dtypes[k]]
    found = [case(data((2, 3), name), **options) for name in names]
    x = data((2, 3, 4), names[0])
    found += [
        case(x, axis=axis, keepdims=keep, **options)
        for axis, keep in [(0, False), (-1, True), ((0, 2), False), ((1,), True)]
    ]
    found += [case(data((), names[0]), **options)]
    found += [case(data((0, 3), names[0]), axis=0, **options)] if empty else []
    return [*found, case(Weak(2), **options), case(Weak(2, (3,)), **options)]


def with_where(kinds="f", **options):
    """Cases of a reduction with a mask."""
    x, mask = data((2, 3)), data((2, 3), "bool")
    return [case(x, where=mask, **options), case(x, axis=1, where=mask[:1], **options)]


def positive(x):
    return np.abs(np.asarray(x, dtype=np.float64))


# Elementwise, of one array.
of_one_array = [
    (unary("fibc"), """sin cos tanh exp absolute abs square isnan isfinite isinf real
        imag conj conjugate iscomplex isreal logical_not"""),
    (unary("fic"), "negative positive sign"),
    (unary("fi"), "floor ceil trunc rint signbit isposinf isneginf fabs sinc"),
    (unary("fi", high=2), """tan sinh cosh arctan expm1 exp2 deg2rad rad2deg radians
        degrees"""),
    (unary("fi", low=-1, high=1, weak=0.5), "arcsin arccos arctanh"),
    (unary("fi", low=0.25, high=5), "sqrt log log2 log10 log1p cbrt arcsinh"),
    (unary("f", low=-1, high=1, weak=0.5), "asin acos"), (unary("f"), "atan asinh"),
    (unary("fi", low=1, high=5), "arccosh"), (unary("f", low=1, high=5), "acosh"),
    (unary("f", low=-0.75, high=0.75, weak=0.5), "atanh"),
    (unary("ib", weak=2), "invert bitwise_not bitwise_invert"),
    (unary("i", weak=5), "bitwise_count"), (unary("fi", weak=0.5, edges=False), "i0"),
]  # fmt: skip
numpy_cases = {f: cases for cases, names in of_one_array for f in names.split()}
numpy_cases |= {
    "reciprocal": unary("f", low=0.5, high=4) + [case(Z(3, low=1, high=4))],
    "nan_to_num": unary("fi", edges=False) + [case(specials),
        case(specials, nan=1.0, posinf=2.0, neginf=-3.0), case(N(2, 3), nan=7.0)],
    "angle": unary("fc") + [case(C(3), deg=True)],
    "spacing": unary("s", edges=False)
        + [case(np.array([0.0, 1e-40, 1e30], np.float32))],
    "frexp": unary("s") + [case(np.array([0.0, 1e-40, 8.0, np.inf], np.float32),
        jax="flushes subnormal numbers to zero")],
    "modf": unary("fi", edges=False) + [case(specials[:4])],
}  # fmt: skip
for name in ("round", "around"):
    numpy_cases[name] = unary("fi") + [case(F(2, 3), 1), case(F(3, step=1), -1),
        case(data(3, "float16"), 2), case(C(3), 1), case(Z(3), 2)]  # fmt: skip

# Elementwise, of two arrays.
of_two_arrays = [
    (binary("fimbc"), """add maximum minimum equal not_equal less less_equal greater
        greater_equal logical_and logical_or logical_xor"""),
    (binary("fimbc", edges=False), "multiply"),
    (binary("fimc", edges=False), "subtract"),
    (binary("fimc", low2=0.5), "true_divide divide"),
    (binary("ib"), "bitwise_and bitwise_or bitwise_xor"),
    (binary("fim"), "arctan2 hypot copysign heaviside fmax fmin logaddexp2"),
    (binary("f"), "atan2"), (binary("fm", low=0.5, edges=False), "float_power"),
    (binary("i", low=-20, high=20), "gcd"), (binary("i", low=-9, high=9), "lcm"),
]  # fmt: skip
numpy_cases |= {f: cases for cases, names in of_two_arrays for f in names.split()}
integer_zero = case(np.int32([5, -5, 0, -7]), np.int32([0, 0, 0, 2]))
numpy_cases |= {
    name: binary("fim", low2=0.5, edges=False) + [integer_zero]
    for name in "floor_divide remainder mod fmod divmod".split()
}
shift_edges = case(np.int32([1, -8, 7]), np.int32([33, 40, -1]))
for name in "left_shift right_shift".split():
    alias = binary("i", low=-20, high=20, low2=0, high2=4) + [shift_edges]
    numpy_cases[name] = numpy_cases[f"bitwise_{name}"] = alias
for name in "power pow".split():
    numpy_cases[name] = [*binary("f", low=0.5, high=3, edges=False), case(F(3), 2),
        case(F(3), 0), case(Z(3), Z(3, low=0, high=4)), case(F(3, low=1), Z(3)),
        case(Z(3), 3), case(Weak(2), F(3)), case(F(3, low=0.5), -2),
        case(B(3), B(3, seed=1)), case(C(3), 2),
        case(data(3, "uint8"), data(3, "uint8", low=0))]  # fmt: skip
numpy_cases |= {
    "logaddexp": binary("fim") + [case(Weak(1j, (2,)), Weak(2 + 1j, (2,)))],
    "nextafter": [case(F(3), F(3, seed=1)), case(specials, specials[::-1].copy())],
    "ldexp": [case(F(3), Z(3)), case(F(2, 1), Z(3)), case(Z(3), Z(3, seed=1))],
    "isclose": binary("fim") + [case(N(3), N(3), equal_nan=True),
        case(F(3), F(3) + np.float32(1e-3), rtol=1e-2)],
    "allclose": [case(F(3), F(3)), case(F(3), Z(3)), case(N(3), N(3), equal_nan=True)],
    "array_equal": [case(F(3), F(3)), case(F(3), Z(3)), case(F(3), F(2)),
        case(N(3), N(3), equal_nan=True), case(F(0), F(0))],
    "array_equiv": [case(F(3), F(2, 3)), case(Z(), Z(3)), case(F(2), F(3),
        jax="raises, where NumPy says False")],
}  # fmt: skip

# Creation.
numpy_cases |= {
    "array": [case([1, 2, 3]), case(2.5), case([[1.0, 2], [3, 4]]), case(F(2, 3)),
        case(F(3), dtype="int32"), case([F(2), F(2, seed=1)]), case([]), case(True),
        case(1 + 2j), case(F(2), ndmin=3), case([Weak(1), 2.5]), case((1, True)),
        case([[Weak(1.5), 2], [Z(), 4]]), case(300, dtype="uint16")],
    "asarray": [case([1, 2, 3]), case(F(2, 3)), case(Weak(2)), case(Z(2), "float16")],
    "astype": [case(F(3), "int32"), case(Z(3), "float16"), case(F(3), "bool"),
        case(B(3), "float32"), case(np.array([1j, 0, 2], np.complex64), "bool"),
        case(data(3, "bfloat16"), "int8"),
        case(np.array([np.nan, 1e10, -1e10, 300.7], np.float32), "int32"),
        case(np.array([300, -1], np.int32), "uint8"), case(Weak(2), "int32")],
    "copy": [case(F(2, 3)), case(Weak(2))],
    "zeros": [case((2, 3)), case(3), case((), "int32"), case((0, 2), dtype="bool")],
    "ones": [case((2, 3)), case(3, "bfloat16"), case((), dtype="complex64")],
    "empty": [case((2, 3)), case(0, "int8")],
    "full": [case((2, 3), 1.5), case((2,), 3), case((2, 3), F(3)), case(2, True),
        case((2,), 2.7, "int32"), case((2,), F()), case((2,), Weak(2), "uint8")],
    "zeros_like": [case(F(2, 3)), case(Z(2), dtype="float32"), case(Weak(2)),
        case(F(2), shape=(3,))],
    "ones_like": [case(Z(2, 3)), case(B(2)), case(Weak(1.5, (2,)))],
    "empty_like": [case(F(2, 3))],
    "full_like": [case(F(2, 3), 2), case(Z(3), 2.5), case(Z(2, 3), Z(3)),
        case(F(2), 1, dtype="int32", shape=(4,)), case(Weak(1), 3)],
    "arange": [case(5), case(2, 7), case(1, 8, 3), case(0.0, 1.0, 0.25), case(5, 1, -2),
        case(2.5), case(3, dtype="float16"), case(0), case(3, 1), case(1, 2.5)],
    "linspace": [case(0, 1, 5), case(0.0, 10.0, 4, endpoint=False), case(1, 5, 1),
        case(2, 3, 0), case(0, 10, 5, dtype="int32"), case(F(3), F(3, seed=1), 4),
        case(F(2), 1.0, 3, axis=1), case(0, 1, 3, retstep=True),
        case(F(), F(seed=1), 4, axis=-1)],
    "logspace": [case(0, 2, 4), case(F(2), 1.0, 3), case(0, 3, 4, base=2)],
    "geomspace": [case(1, 8, 4), case(1.0, 1000.0, 4, endpoint=False)],
    "eye": [case(3), case(2, 4), case(3, k=1), case(3, 2, -1, "int32"), case(0)],
    "identity": [case(3), case(2, "int32")],
    "tri": [case(3), case(2, 4, 1), case(3, k=-1, dtype="int32")],
    "tril": [case(F(3, 3)), case(Z(2, 3, 4), 1), case(F(3, 2), -1)],
    "triu": [case(F(3, 3)), case(Z(2, 3, 4), 1), case(F(3, 2), -1)],
    "mask_indices": [case(3, np.triu, dynamic=False)],
    "tril_indices": [case(3), case(3, 1), case(2, -1, 4), case(3, m=2)],
    "triu_indices": [case(3), case(3, 1), case(2, -1, 4)],
    "tril_indices_from": [case(F(3, 3)), case(F(2, 3), 1)],
    "triu_indices_from": [case(F(3, 3)), case(F(2, 3), 1)],
    "diag_indices": [case(3), case(2, 3)],
    "diag_indices_from": [case(F(3, 3)), case(F(2, 2, 2))],
    "diagonal": [case(F(3, 3)), case(F(2, 4), 1), case(F(4, 2), -1),
        case(Z(2, 3, 4), 0, 1, 2), case(F(2, 3), 5), case(B(3, 3))],
    "diag": [case(F(3)), case(Z(3), 1), case(F(2), -2), case(F(3, 4)), case(F(3, 3),
        1)],
    "diagflat": [case(F(3)), case(Z(2, 2), 1), case(F(2), -1)],
    "fill_diagonal": [case(F(3, 3), 5.0, inplace=False),
        case(F(3, 2), F(2), inplace=False), case(Z(2, 2, 2), Z(), inplace=False)],
    "meshgrid": [case(F(2), F(3)), case(F(2), Z(3), indexing="ij"),
        case(F(2), F(3), F(1), sparse=True), case(F(3))],
    "ix_": [case(Z(2, low=0), Z(3, low=0))],
    "indices": [case((2, 3)), case((2, 3), sparse=True), case((2,), "float32")],
    "frombuffer": [case(b"abcd", "uint8"), case(b"abcdefgh", "int16", 2, 2)],
    "fromstring": [case("1 2 3", "int32", sep=" ")],
    "from_dlpack": [case(F(3), dynamic=False)],
    "fromfunction": [case(lambda i, j: i + 2 * j, (2, 3)),
        case(lambda i: i * i, (3,), dtype="int32")],
    "vander": [case(F(3)), case(Z(3), 2), case(F(3), 4, increasing=True)],
    "shape": [case(F(2, 3), dynamic=False), case(1.5)],
    "ndim": [case(F(2, 3), dynamic=False), case(2)],
    "size": [case(F(2, 3), dynamic=False), case(F(2, 3), 1, dynamic=False)],
}  # fmt: skip

# Shapes.
numpy_cases |= {
    "reshape": [case(F(2, 3), (3, 2)), case(F(2, 3), -1), case(F(0, 3), (3, 0)),
        case(F(), (1, 1)), case(F(2, 3), (3, 2), order="F"), case(Weak(2), (1,)),
        case(Z(4), (2, -1))],
    "ravel": [case(F(2, 3)), case(F()), case(Z(2, 3), order="F")],
    "transpose": [case(F(2, 3)), case(F(2, 3, 4), (1, 0, 2)), case(F(3)),
        case(F(2, 3, 4), (0, -1, 1)), case(F())],
    "matrix_transpose": [case(F(2, 3)), case(Z(2, 3, 4))],
    "moveaxis": [case(F(2, 3, 4), 0, -1), case(F(2, 3, 4), (0, 1), (2, 0))],
    "expand_dims": [case(F(3), 0), case(F(2, 3), (0, 2)), case(F(), -1)],
    "squeeze": [case(F(1, 3, 1)), case(F(1, 3, 1), 0), case(F(1, 3, 1), (0, -1))],
    "broadcast_to": [case(F(3), (2, 3)), case(F(2, 1), (2, 4)), case(F(), (2,)),
        case(Weak(2), (0, 3)), case(Z(1), 3)],
    "broadcast_arrays": [case(F(2, 1), Z(3)), case(F(), F(2)), case(F(3))],
    "broadcast_shapes": [case((2, 1), (3,)), case((), (2,)), case((0,), (1,))],
    "concatenate": [case([F(2, 3), F(1, 3)]), case([F(2), Z(3)], axis=0),
        case([F(2, 3), F(2, 3)], axis=None), case((F(2, 3), F(2, 1)), -1),
        case([Z(2), B(2)]), case([F(0), F(2)]), case(F(2, 3, 2)), case([Weak(1, (2,)),
        data(2, "float16")]), case([Z(2), Z(2)], dtype="float32")],
    "concat": [case([F(2, 3), F(1, 3)]), case([F(2), Z(3)], axis=0)],
    "stack": [case([F(2, 3), F(2, 3)]), case([F(2), Z(2)], axis=1), case(F(2, 3)),
        case([Weak(1), Weak(2)]), case([F(2), F(2)], axis=-1)],
    "unstack": [case(F(2, 3)), case(Z(2, 3), axis=1)],
    "swapaxes": [case(F(2, 3, 4), 0, 2), case(F(2, 3), -1, 0)],
    "rollaxis": [case(F(2, 3, 4), 2), case(F(2, 3, 4), 0, 3), case(F(2, 3, 4), -1, 1)],
    "permute_dims": [case(F(2, 3, 4), (2, 0, 1))],
    "flip": [case(F(2, 3)), case(Z(2, 3), 0), case(F(2, 3, 2), (0, -1)), case(F(0))],
    "fliplr": [case(F(2, 3))], "flipud": [case(F(2, 3)), case(Z(3))],
    "rot90": [case(F(2, 3), k) for k in range(5)] + [case(F(2, 3, 4), 1, (1, 2))],
    "roll": [case(F(4), 1), case(F(2, 3), 2), case(F(2, 3), -1, 1), case(F(0), 1),
        case(F(2, 3), (1, 2), (0, 1)), case(F(2, 3), 4, (0, 1)), case(F(5), Z())],
    "tile": [case(F(3), 2), case(F(2, 3), (2, 1)), case(F(2), (2, 3)), case(F(), 3),
        case(F(2, 3), 0)],
    "repeat": [case(F(3), 2), case(F(2, 3), 2, axis=1), case(F(), 3), case(F(2, 3), 0),
        case(F(), 2, axis=0), case(Z(3), np.array([1, 0, 2]), dynamic=False),
        case(F(2, 3), np.array([2, 1]), axis=0, dynamic=False),
        case(F(3), np.array([1, 0, 2], np.int32), total_repeat_length=4),
        case(F(3), np.array([1, 3, 2], np.int32), total_repeat_length=3)],
    "atleast_1d": [case(F()), case(F(2)), case(F(), Z(2))],
    "atleast_2d": [case(F()), case(F(2)), case(F(2, 3))],
    "atleast_3d": [case(F()), case(F(2)), case(F(2, 3)), case(F(1, 2, 3))],
    "vstack": [case([F(3), Z(3)]), case((F(2, 3), F(3)))],
    "hstack": [case([F(3), Z(2)]), case((F(2, 3), F(2, 1)))],
    "dstack": [case([F(3), F(3)]), case((F(2, 3), F(2, 3)))],
    "column_stack": [case([F(3), Z(3)]), case((F(3), F(3, 2)))],
    "block": [case([[F(2, 2), F(2, 1)], [F(1, 3)]]), case([F(2), F(3)]), case(F(2))],
    "split": [case(F(4), 2), case(F(2, 6), [1, 4], axis=1), case(F(6, 2), 3)],
    "array_split": [case(F(5), 3), case(F(5), [2, 3]), case(F(2, 4), 3.5, axis=1)],
    "vsplit": [case(F(4, 2), 2)], "hsplit": [case(F(2, 4), 2), case(F(4), 2)],
    "dsplit": [case(F(2, 2, 4), 2)],
    "resize": [case(F(2, 3), (3, 4)), case(F(3), 2), case(F(3), 0), case(F(2, 2),
        (2,))],
    "append": [case(F(2), Z(3)), case(F(2, 3), F(1, 3), axis=0), case(F(2, 2), F())],
    "delete": [case(F(5), 1), case(F(5), -1), case(F(2, 3), 1, axis=1),
        case(F(5), slice(1, 3)), case(F(5), np.array([0, 2]), dynamic=False),
        case(F(2, 3), 2), case(F(5), np.array([True, False, True, False, False]),
        dynamic=False), case(F(5), np.array([1, -1]), assume_unique_indices=True)],
    "insert": [case(F(4), 1, 5.0), case(F(4), np.array([1, 3]), F(2, seed=1)),
        case(F(2, 3), 1, 5.0, axis=1), case(Z(4), -1, 9),
        case(F(2, 3), 0, F(3), axis=0), case(F(4), slice(0, 4, 2), 1.0),
        case(F(4), np.array([3, 0]), F(2)), case(F(4), np.zeros(0, int), 1.0,
        dynamic=False)],
    "trim_zeros": [case(np.array([0, 0, 1, 0, 2, 0], np.int32), dynamic=False),
        case(np.array([0.0, 1.0, 0.0], np.float32), "f", dynamic=False),
        case(np.zeros(3, np.float32), dynamic=False),
        case(np.eye(3, 4, 1, np.int32), dynamic=False)],
    "apply_over_axes": [case(np.sum, F(2, 3), [0, 1])],
}  # fmt: skip
modes = [
    ("edge", {}), ("wrap", {}), ("reflect", {}), ("symmetric", {}),
    ("reflect", {"reflect_type": "odd"}), ("symmetric", {"reflect_type": "odd"}),
    ("linear_ramp", {"end_values": 2}), ("maximum", {}), ("minimum", {}), ("mean", {}),
    ("median", {}), ("mean", {"stat_length": 2}),
]  # fmt: skip
numpy_cases["pad"] = [
    case(F(3), 1), case(F(2, 3), ((1, 2), (0, 1))), case(F(), 0), case(F(0), 1),
    case(Z(3), (2, 1), constant_values=7), case(F(3), 0), case(F(3), 2, "empty"),
    case(F(2, 2), 1, constant_values=((1.0, 2.0), (3.0, 4.0))),
    *(case(x, widths, mode, **options)
      for x, widths in [(F(4), (2, 3)), (F(2, 3), ((1, 1), (2, 4))), (Z(1), (2, 1))]
      for mode, options in modes),
]  # fmt: skip

# Reductions and cumulative functions.
for name in ("sum", "prod"):
    numpy_cases[name] = [*reduction("fibc"), *with_where(), case(F(2, 3), initial=2.0),
        case(Z(3), dtype="float32"), case(data(3, "int8"), dtype="int8"),
        case(F(3), dtype="bool"), case(data(3, "int8", low=1), promote_integers=False),
        case(F(2, 3), axis=())]  # fmt: skip
for name in ("max", "min", "amax", "amin"):
    numpy_cases[name] = [
        *reduction("fib", empty=False), *with_where(initial=0.5), case(specials),
        case(F(0, 3), axis=0, initial=1.0), case(F(2, 0), axis=0), case(Z(3),
        initial=1),
    ]  # fmt: skip
for name in ("all", "any"):
    # JAX asks the real part of complex numbers only.
    numpy_cases[name] = [*reduction("bfi"), *with_where(), case(C(3))]
for name in ("mean", "std", "var"):
    numpy_cases[name] = [*reduction("fic", empty=False), *with_where(),
        case(Z(3), dtype="float16", tolerance=1e-2), case(F(0))]  # fmt: skip
for name in ("std", "var"):
    numpy_cases[name] += [
        case(F(4), ddof=1), case(F(2, 3), axis=1, correction=1), case(F(1), ddof=1),
        case(F(4), mean=F(1)), case(B(3)),
    ]  # fmt: skip
numpy_cases["mean"] += [case(B(2, 3)), case(data((2, 3), "float16"), dtype="float32")]
for name in ("argmax", "argmin"):
    numpy_cases[name] = [
        *[case(data((2, 3), d)) for d in [*floats, *integers, "bool"]],
        case(F(2, 3), axis=0), case(F(2, 3), axis=-1, keepdims=True), case(specials),
        case(F(2, 3), keepdims=True), case(Weak(2)), case(np.zeros(3, np.float32)),
    ]  # fmt: skip
numpy_cases |= {
    "ptp": [case(F(2, 3)), case(Z(2, 3), axis=0), case(F(2, 3), axis=1, keepdims=True)],
    "count_nonzero": reduction("fib", empty=False),
    "nansum": [case(N(2, 3)), case(N(2, 3), axis=0), case(Z(3)), case(N(3),
        keepdims=True), case(N(2, 3), where=B(2, 3))],
    "nanprod": [case(N(2, 3)), case(N(2, 3), axis=1), case(B(3))],
    "nanmax": [case(N(2, 3)), case(N(2, 4), axis=0), case(Z(3)),
        case(np.full(2, np.nan, np.float32)), case(N(3), initial=5.0)],
    "nanmin": [case(N(2, 3)), case(N(2, 4), axis=0, keepdims=True), case(Z(3))],
    "nanmean": [case(N(2, 3)), case(N(2, 4), axis=0), case(Z(3)), case(N(3),
        dtype="float16", tolerance=1e-2)],
    "nanvar": [case(N(2, 4)), case(N(2, 4), axis=0), case(N(4), ddof=1), case(Z(3))],
    "nanstd": [case(N(2, 4)), case(N(2, 4), axis=1, keepdims=True)],
    "nanargmax": [case(N(4)), case(N(2, 4), axis=1), case(Z(3))],
    "nanargmin": [case(N(4)), case(N(2, 4), axis=1, keepdims=True)],
    "average": [case(F(2, 3)), case(Z(4)), case(F(2, 3), axis=1, weights=F(3, low=1)),
        case(F(2, 3), weights=F(2, 3, low=1), returned=True), case(F(3), returned=True),
        case(F(2, 3), axis=0, keepdims=True)],
    "cumsum": [case(data((2, 3), d)) for d in [*floats, *integers, "bool", "complex64"]]
        + [case(F(2, 3), axis=1), case(F()), case(Z(3), dtype="float32"), case(F(0)),
           case(Weak(2, (2, 3)), axis=1)],
    "cumprod": [case(data((2, 3), d)) for d in [*floats, "int32", "complex64"]]
        + [case(F(2, 3), axis=0), case(B(3)), case(Weak(2, (3,)))],
    "nancumsum": [case(N(2, 3)), case(N(2, 3), axis=0), case(Z(3))],
    "nancumprod": [case(N(2, 3)), case(N(2, 3), axis=1)],
    "cumulative_sum": [case(F(3)), case(data(3, "int8")), case(F(2, 3), axis=0,
        include_initial=True), case(B(3))],
    "cumulative_prod": [case(F(3)), case(F(2, 3), axis=1, include_initial=True)],
    "diff": [case(F(4)), case(F(2, 4), 2), case(Z(4, 2), axis=0), case(B(4)), case(F(4),
        prepend=1.0, append=F(2)), case(F(2, 3), append=F(2, 1)), case(F(3), 0),
        case(F(1))],
    "ediff1d": [case(F(4)), case(Z(4), to_begin=Z(2)), case(F(3), to_end=1.0),
        case(F(2, 3))],
    "gradient": [case(F(4)), case(F(3, 4)), case(F(4), 2.0), case(F(3, 4), axis=1),
        case(F(4), np.array([0.0, 1.0, 1.5, 3.0], np.float32)), case(Z(4)),
        case(F(3, 4), 2.0, np.array([0.0, 1.0, 1.5, 3.0], np.float32))],
    "trapezoid": [case(F(4)), case(F(2, 4), dx=0.5), case(F(4), F(4, seed=1)),
        case(F(2, 4), F(4), axis=1), case(Z(4)), case(F(2, 3), F(2, 3, seed=1),
        axis=0)],
    "unwrap": [case(F(6, low=-9, high=9)), case(F(2, 4, low=-9, high=9), axis=0),
        case(Z(5, low=-9, high=9), period=4), case(F(0))],
    "median": [case(F(5)), case(F(2, 4)), case(F(2, 4), axis=0), case(Z(4)), case(N(4)),
        case(F(2, 3, 4), axis=(0, 2), keepdims=True), case(data(4, "float16"))],
    "nanmedian": [case(N(5)), case(N(2, 5), axis=1)],
    "quantile": [case(F(7), 0.3, method=m) for m in ["linear", "lower", "higher",
        "midpoint", "nearest", "inverted_cdf"]] + [
        case(F(2, 5), np.array([0.1, 0.5, 1.0], np.float32), axis=1),
        case(F(2, 5), 0.25, axis=0, keepdims=True), case(Z(5), 0.5), case(N(4), 0.5),
        case(F(2, 3, 4), np.array([0.2, 0.7], np.float32), axis=(0, 2), keepdims=True),
        case(F(6), 0.4, method="inverted_cdf", weights=F(6, low=0.25, seed=1)),
        case(F(5), np.float32(0.5) + np.zeros((), np.float32))],
    "nanquantile": [case(N(7), 0.3), case(N(2, 7), np.array([0.2, 0.8], np.float32),
        axis=1), case(N(7), 0.4, method="nearest")],
    "percentile": [case(F(7), 30), case(F(2, 5), np.array([10.0, 50.0], np.float32),
        axis=1), case(Z(5), 25, method="lower")],
    "nanpercentile": [case(N(7), 30.0), case(N(2, 7), 50, axis=1)],
}  # fmt: skip

# Indexing, searching, sorting, sets.
numpy_cases |= {
    "where": [case(B(2, 3), F(2, 3), F(2, 3, seed=1)), case(B(3), 1, 0),
        case(F(3), Z(2, 1), 2.5), case(B(), F(3), F(3, seed=1)), case(B(0), F(0), 1),
        case(B(2, 3), dynamic=False), case(B(3), Weak(1), Weak(2.5)),
        case(B(4), size=3), case(B(3), data(3, "int8"), 3)],
    "take": [case(F(5), np.array([0, 3, -1])), case(F(3, 4), np.array([[1, 2]]),
        axis=1), case(F(2, 3), 4), case(F(5), np.array([1, 9]), mode="clip"),
        case(F(5), np.array([1, 9, -7]), mode="wrap"), case(F(5), np.array([1, 9])),
        case(Z(5), np.array([1, 9]), fill_value=-1),
        case(F(2, 3), np.zeros((0,), np.int32), axis=0)],
    "take_along_axis": [case(F(2, 4), Z(2, 3, low=0), axis=1),
        case(F(3, 4), np.array([[0, 2, 1, -1]]), axis=0),
        case(F(5), Z(3, low=0), axis=None), case(F(2, 3), np.array([[5], [0]]), axis=1),
        case(F(2, 1), np.array([[0, 0], [0, 0]]), axis=1)],
    "put_along_axis": [case(F(2, 4), np.array([[0, 2], [1, 3]]), F(2, 2, seed=1), 1,
        inplace=False), case(F(5), np.array([1, 3]), F(2, seed=1), None,
        inplace=False)],
    "put": [case(F(2, 3), np.array([1, 4]), F(2, seed=1), inplace=False),
        case(F(5), np.array([1, 9]), 7.0, mode="clip", inplace=False),
        case(F(5), np.array([1, 9, -2]), F(2), inplace=False),
        case(F(5), np.array([-9, 9, -2]), Z(2), mode="wrap", inplace=False)],
    "place": [case(F(2, 3), B(2, 3), F(2, seed=1), inplace=False)],
    "choose": [case(np.array([0, 2, 1]), [F(3), F(3, seed=1), F(3, seed=2)],
        dynamic=False), case(np.array([0, 5, -1]), [F(3), Z(3)], mode="clip"),
        case(np.array([0, 5, -1]), [F(3), F()], mode="wrap")],
    "select": [case([B(3), B(3, seed=1)], [F(3), Z(3)], 2.5), case([B(2, 1)], [F(3)])],
    "piecewise": [case(F(4), [B(4), B(4, seed=1)], [1.0, -1.0]),
        case(F(4), [B(4)], [lambda x: x * 2, lambda x: -x])],
    "nonzero": [case(Z(5), dynamic=False), case(B(2, 3), dynamic=False),
        case(Z(5), size=3), case(B(2, 3), size=8, fill_value=-1), case(F(0), size=2),
        case(np.zeros(3, np.int32), size=2)],
    "flatnonzero": [case(B(2, 3), dynamic=False), case(Z(2, 3), size=2)],
    "argwhere": [case(B(2, 3), dynamic=False), case(Z(4), size=2),
        case(Z(), dynamic=False)],
    "compress": [case(B(3), F(3), dynamic=False), case(np.array([True, False]), F(2, 3),
        axis=0, dynamic=False), case(B(5), F(5), size=2),
        case(np.array([True, False, True]), F(2, 3), axis=1, size=3, fill_value=9)],
    "extract": [case(B(2, 3), F(2, 3), dynamic=False), case(B(5), Z(5), size=4)],
    "searchsorted": [case(np.sort(F(6)), F(4, seed=1)),
        case(np.sort(Z(6)), Z(2, 3), side="right"), case(np.sort(Z(5)), F()),
        case(F(0), F(3)), case(F(4), F(3), sorter=np.argsort(F(4)).astype(np.int32)),
        case(np.sort(F(6)), specials)] + [case(np.sort(F(5)), F(3), method=m) for m in
        ["scan", "scan_unrolled", "sort", "compare_all"]],
    "digitize": [case(F(5), np.array([-1.0, 0.0, 2.0], np.float32)), case(F(5),
        np.array([2.0, 0.0, -1.0], np.float32)), case(Z(2, 2), np.array([0, 1]),
        right=True)],
    "bincount": [case(Z(6, low=0), dynamic=False), case(Z(6, low=0), length=3),
        case(Z(4, low=0), F(4), length=5), case(B(4), dynamic=False),
        case(Z(3, low=0), None, 6, dynamic=False),
        *(case(data(n, "uint8"), dynamic=False) for n in (4, 0))],
    "histogram_bin_edges": [case(F(9)), case(F(9), 4, range=(-2.0, 2.0)),
        case(Z(9), np.array([0, 1, 3]))],
    "histogram": [case(F(9), 4), case(Z(9)), case(F(9), np.array([-2.0, 0.0, 2.0],
        np.float32)), case(F(9), 3, weights=F(9, seed=1)), case(F(9), 3, density=True)],
    "histogram2d": [case(F(9, step=0.3), F(9, step=0.3, seed=1), 3, tolerance=1e-4),
        case(F(9, step=0.3), F(9, step=0.3, seed=1), (2, 3)),
        case(F(9), F(9, seed=1), np.array([-2.0, 0.0, 1.0, 2.0], np.float32))],
    "histogramdd": [case(F(9, 2, step=0.3), 4), case(F(9, 3), (2, 2, 2), density=True)],
    "ravel_multi_index": [case((np.array([0, 1]), np.array([2, 0])), (2, 3),
        dynamic=False), case((np.array([0, 5]), np.array([2, -1])), (2, 3),
        mode="clip"),
        case((np.array([0, 5]), np.array([2, -1])), (2, 3), mode="wrap", order="F")],
    "unravel_index": [case(np.array([0, 5, 3]), (2, 3)), case(np.array(4), (2, 3)),
        case(np.array([1, 5], np.uint32), (2, 3)),
        case(np.array([0, 9, -1, -9]), (2, 3))],
    "isin": [case(Z(2, 3), Z(4, seed=1)), case(F(3), F(0)),
        case(Z(4), Z(2), invert=True), case(Z(4), Z(5, seed=1), method="binary_search"),
        case(Z(4), Z(5, seed=1), method="sort")],
    "sort": [case(data((2, 5), d)) for d in [*floats, *integers, "bool"]]
        + [case(F(2, 3), axis=0), case(F(2, 3), axis=None), case(specials),
        case(F(5), descending=True), case(C(4)), case(F(0))],
    "argsort": [case(data((2, 5), d)) for d in [*floats, "int32", "bool"]]
        + [case(Z(5), descending=True), case(specials), case(Z(2, 3), axis=None)],
    "lexsort": [case([Z(5), Z(5, seed=1)]), case((F(2, 3), Z(2, 3)), axis=0), case(Z(2,
        4))],
    "partition": [case(F(6), 2), case(Z(2, 5), 1, axis=1), case(data(5, "uint8"), -1)],
    "argpartition": [case(F(6), 2), case(Z(2, 5), 4)],
    "sort_complex": [case(C(4)), case(F(3)), case(Z(3))],
}  # fmt: skip
unique_sized = {"size": 4}
numpy_cases |= {
    "unique": [case(Z(8), dynamic=False), case(F(2, 3), dynamic=False),
        case(N(6), dynamic=False), case(Z(8), True, True, True, dynamic=False),
        case(Z(4, 2, high=0), axis=0, dynamic=False), case(F(0), dynamic=False),
        case(N(6), equal_nan=False, dynamic=False), case(Z(8), **unique_sized),
        case(Z(8), True, True, True, **unique_sized), case(Z(3), size=9, fill_value=-7),
        case(C(4), dynamic=False)],
    "unique_all": [case(Z(2, 4), dynamic=False), case(Z(8), **unique_sized)],
    "unique_counts": [case(Z(8), dynamic=False), case(F(6), **unique_sized)],
    "unique_inverse": [case(Z(2, 4), dynamic=False), case(Z(8), **unique_sized)],
    "unique_values": [case(Z(8), dynamic=False), case(Z(8), **unique_sized)],
    "union1d": [case(Z(4), Z(2, 3, seed=1), dynamic=False),
        case(Z(4), F(3), dynamic=False), case(Z(4), Z(5, seed=1), size=9)],
    "setdiff1d": [case(Z(6), Z(3, seed=1), dynamic=False),
        case(Z(6), Z(3, seed=1), size=4), case(Z(6), Z(3, seed=1), size=5,
        fill_value=9)],
    "setxor1d": [case(Z(6), Z(4, seed=1), dynamic=False),
        case(Z(6), Z(4, seed=1), size=3), case(Z(6), Z(4, seed=1), size=8,
        fill_value=7), case(Z(6), Z(4, seed=1), size=8)],
    "intersect1d": [case(Z(6), Z(5, seed=1), dynamic=False),
        case(Z(6), Z(5, seed=1), return_indices=True, dynamic=False),
        case(Z(6), Z(5, seed=1), size=4), case(Z(6), Z(5, seed=1), size=5, fill_value=9,
        return_indices=True)],
}  # fmt: skip

# Products, polynomials, signals.
numpy_cases |= {
    "dot": [case(F(3), F(3)), case(F(2, 3), F(3, 2)), case(F(2, 3), F(4, 3, 2)),
        case(2.0, F(3)), case(Z(2, 3), F(3)), case(F(0), F(0)), case(C(2, 2), C(2, 2)),
        case(data((2, 3), "float16"), data((3, 2), "float16")), case(B(2, 2), B(2, 2)),
        case(data((2, 3), "int8"), data((3, 2), "int8")), case(Weak(2), Weak(3))],
    "matmul": [case(F(3), F(3)), case(F(2, 3), F(3, 2)), case(F(2, 3), F(4, 3, 2)),
        case(F(2, 1, 2, 3), F(4, 3, 2)), case(F(3), F(2, 3, 4)), case(F(2, 2, 3), F(3)),
        case(F(1, 2, 3), F(1, 3, 2)), case(Z(2, 3), F(3, 2)), case(F(2, 0), F(0, 3)),
        case(F(5, 1, 2, 3), F(1, 4, 3, 2)), case(data((2, 3), "bfloat16"),
        data((3, 2), "bfloat16"))],
    "tensordot": [case(F(2, 3), F(2, 3)), case(F(2, 3), F(3, 4), 1), case(F(2, 3),
        F(3, 2), ((1, 0), (0, 1))), case(F(2), F(3), 0), case(Z(2, 3), F(4, 3),
        ((1,), (1,))), case(F(2, 3), F(3, 2), (1, 0))],
    "inner": [case(F(3), F(3)), case(F(2, 3), F(4, 3)), case(F(2, 3), 2.0), case(Z(3),
        F(3))],
    "outer": [case(F(3), F(2)), case(Z(2, 2), F(3)), case(F(), F(3))],
    "vdot": [case(F(3), F(3)), case(C(2, 2), C(2, 2)), case(Z(3), F(3))],
    "vecdot": [case(F(2, 3), F(2, 3)), case(C(3), C(2, 3)), case(F(3, 2), F(3, 1),
        axis=0)],
    "matvec": [case(F(2, 3), F(3)), case(F(4, 2, 3), F(4, 3))],
    "vecmat": [case(F(2), F(2, 3)), case(C(4, 2), F(2, 3))],
    "kron": [case(F(2, 2), F(2, 3)), case(F(2), Z(3)), case(F(2, 2), F(3)), case(F(),
        F(2))],
    "cross": [case(F(3), F(3, seed=1)), case(F(2, 3), Z(3)), case(F(3, 2),
        F(3, 2, seed=1), axis=0)],
    "trace": [case(F(3, 3)), case(F(2, 4), 1), case(Z(2, 3, 4), 0, 1, 2), case(B(3, 3)),
        case(data((3, 3), "int8"), dtype="float32")],
    "einsum": [case(s, *xs) for s, xs in [("i,i", (F(3), F(3))),
        ("ij,jk->ik", (F(2, 3), F(3, 4))), ("ii", (F(3, 3),)), ("ii->i", (F(3, 3),)),
        ("ij->ji", (F(2, 3),)), ("ij->", (F(2, 3),)), ("i j, j k -> k i",
        (F(2, 3), F(3, 4))), ("...ij,...jk->...ik", (F(2, 2, 3), F(3, 4))), ("bij,bjk",
        (F(2, 2, 3), F(2, 3, 4))), ("ij,jk,kl->il", (F(2, 3), F(3, 4), F(4, 2))),
        ("i,j->ij", (F(2), F(3))), ("ij,ij->i", (F(2, 3), F(2, 3))),
        ("...i->...", (F(2, 3),)), ("a,ab,abc->abc", (F(2), F(2, 3), F(2, 3, 2))),
        ("ij,kj->", (F(2, 3), F(4, 3))), ("i...,i...->...", (F(2, 3), F(2, 3))),
        ("iij,ij->j", (F(2, 2, 3), F(2, 3))), ("ij,j", (Z(2, 3), Z(3))),
        ("ij,jk,kl,lm->im", (F(2, 3), F(3, 2), F(2, 4), F(4, 3))),
        ("ij,jk", (C(2, 3), C(3, 2))), ("...,...", (F(2, 3), F(3))), ("...i,...i",
        (F(2, 3), F(4, 2, 3))), ("ij,j->ij", (F(2, 1), F(3)[:1])), ("i->i", (F(0),)),
        (",ij", (F(), F(2, 2)))]] + [case(F(2, 3), [0, 1], F(3, 2), [1, 2], [0, 2]),
        case(F(2, 3), [0, 1], F(3, 2), [1, 2]), case(F(2, 2, 3), [..., 0], F(3), [0]),
        case("ij,jk,kl->il", F(2, 3), F(3, 4), F(4, 2), optimize=False),
        case("ij,jk,kl->il", F(2, 3), F(3, 4), F(4, 2), optimize="greedy")],
    "einsum_path": [case("ij,jk,kl->il", F(2, 3), F(3, 4), F(4, 2),
        jax="another text")],
    "convolve": [case(F(5), F(3), mode=m) for m in ["full", "same", "valid"]] + [
        case(Z(3), Z(5)), case(C(4), C(2)), case(F(1), F(4))],
    "correlate": [case(F(5), F(3), mode=m) for m in ["full", "same", "valid"]] + [
        case(Z(3), F(5), mode="full"), case(C(4), C(2), mode="full")],
    "interp": [case(F(5), np.array([-2.0, 0.0, 1.0], np.float32), F(3, seed=1)),
        case(Z(4), np.array([0, 1, 4]), F(3)),
        case(F(5), np.array([-2.0, 0.0, 1.0], np.float32), F(3), left=-9.0, right=9.0),
        case(F(5, high=9), np.array([0.0, 1.0, 3.0], np.float32), F(3), period=4.0),
        case(F(), np.array([-1.0, 2.0], np.float32), F(2)),
        case(F(5), np.array([-1.0, 1.0], np.float32), F(2), left="extrapolate",
        right="extrapolate")],
    "cov": [case(F(3, 5)), case(F(5)), case(F(3, 5), bias=True), case(F(5, 3),
        rowvar=False), case(F(5), F(5, seed=1)), case(F(2, 5), fweights=Z(5, low=1)),
        case(F(2, 5), aweights=F(5, low=0.5)), case(Z(2, 4)), case(F(2, 5), ddof=0),
        case(F(2, 5), fweights=Z(5, low=1), aweights=F(5, low=0.5))],
    "corrcoef": [case(F(3, 5)), case(F(5), F(5, seed=1)), case(C(2, 5))],
    "packbits": [case(B(16)), case(B(2, 9), axis=1), case(Z(5), bitorder="little"),
        case(B(3, 2), axis=0)],
    "unpackbits": [case(data(3, "uint8", 0, 255)), case(data((2, 2), "uint8", 0, 255),
        axis=1), case(data(2, "uint8", 0, 255), count=11, bitorder="little"),
        case(data(1, "uint8"), count=10)],
    "polyval": [case(F(3), F(4)), case(Z(3), F(2, 2)), case(F(0), F(3)), case(F(3), 2)],
    "polyadd": [case(F(3), F(2)), case(Z(2), F(4))],
    "polysub": [case(F(3), F(2)), case(Z(2), F(4))],
    "polymul": [case(F(3), F(2)), case(Z(2, low=1), F(4, low=1)),
        case(np.float32([0, 1, 2]), F(1), trim_leading_zeros=True, dynamic=False)],
    "polydiv": [case(F(5, low=1), F(2, low=1)), case(Z(3, low=1), Z(3, low=1))],
    "polyint": [case(F(3)), case(F(3), 2), case(Z(3), 2, k=F(2)), case(F(3), 0)],
    "polyfit": [case(F(7, seed=1), F(7), 2, w=F(7, low=1, seed=2), cov=True,
        tolerance=1e-3), case(F(6, seed=1), F(6), 2, tolerance=1e-3),
        case(F(6, seed=1), F(6, 2), 1, w=F(6, low=1, seed=2), tolerance=1e-3)],
    "roots": [case(np.float32([1, -6, 11, -6]), dynamic=False),
        case(np.float32([0, 2, 4]), dynamic=False),
        case(np.float32([0, 2, 3, 1]), strip_zeros=False)],
    "polyder": [case(F(4)), case(F(4), 2), case(Z(3)), case(F(4), 0)],
    "poly": [*(case(F(3)), case(Z(2)), case(F(0))), case(F(3, 3), tolerance=1e-5)],
    "bartlett": [case(5), case(1)], "hanning": [case(5), case(1)],
    "hamming": [case(5), case(1)], "blackman": [case(5), case(1), case(0)],
    "kaiser": [case(5, 3.0), case(1, 2.0)],
    "linalg.norm": [case(F(3)), case(F(2, 3)), case(F(3), 1), case(F(3), np.inf),
        case(F(3), -np.inf), case(F(3), 0), case(F(3), 3), case(F(2, 3), 1),
        case(F(2, 3), np.inf), case(F(2, 3), -1), case(F(2, 3, 4), axis=1),
        case(F(2, 3, 4), "fro", (0, 2)), case(C(3)), case(Z(3)),
        case(F(2, 3), axis=1, keepdims=True), case(F(2, 3, 4), 1, (2, 0), True)],
    "linalg.vector_norm": [case(F(2, 3)), case(F(2, 3), axis=1, ord=1)],
    "linalg.matrix_norm": [case(F(2, 3)), case(F(2, 3, 4), ord=1, keepdims=True)],
    "linalg.matrix_power": [
        case(x, n, tolerance=1e-4) for x in (F(3, 3), Z(3, 3)) for n in (0, 1, 2, 5)],
    "linalg.matrix_transpose": [case(F(2, 3))],
    "linalg.multi_dot": [case([F(2, 3), F(3, 4), F(4, 2)]), case([F(3), F(3, 4),
        F(4)])],
    "linalg.matmul": [case(F(2, 3), F(3, 2))],
    "linalg.tensordot": [case(F(2, 3), F(3, 2), axes=1)],
    "linalg.vecdot": [case(F(2, 3), F(2, 3))],
    "linalg.outer": [case(F(2), F(3))],
    "linalg.cross": [case(F(2, 3), F(2, 3, seed=1))],
    "linalg.diagonal": [case(F(2, 3, 3), offset=1)],
    "linalg.trace": [case(F(2, 3, 3))],
}  # fmt: skip
numpy_cases["clip"] = [case(F(2, 3), -1, 1), case(Z(3), 0, None), case(F(3), F(3), 2.5),
    case(F(3), None, 0.5), case(Z(3), -0.5, 1.5), case(specials, -1, 1),
    case(Weak(2), 0, 1), case(F(3), min=0.5)]  # fmt: skip

# About dtypes and objects: no arrays come out.
numpy_cases |= {
    "iscomplexobj": [case(F(2), dynamic=False), case(C(2), dynamic=False), case(1j)],
    "isrealobj": [case(F(2), dynamic=False), case(C(2), dynamic=False)],
    "isscalar": [case(1.5), case(F(2), dynamic=False)],
    "iterable": [case(F(2), dynamic=False), case(1.5)],
    "can_cast": [case("int32", "float64"), case("float32", "int32")],
    "isdtype": [case(np.dtype("int32"), "integral"), case(np.dtype("float32"), "bool")],
    "issubdtype": [case(np.int32, np.integer), case(np.float32, np.integer)],
    "promote_types": [case("int32", "float16")],
    "result_type": [case(Z(2), F(2), dynamic=False), case(Z(2), 1.5, dynamic=False)],
    "finfo": [case(np.dtype("float32"))], "iinfo": [case(np.dtype("int8"))],
    "array_repr": [case(F(2), dynamic=False, jax="class name")],
    "array_str": [case(F(2), dynamic=False)],
}  # fmt: skip
no_cases = """
    fromfile fromiter frompyfunc get_printoptions load printoptions save savez
    set_printoptions
""".split()




def drawn_windows(seed):
    """A reduction over windows: holes, steps, and padding that may be negative."""
    rng, dtype = random.Random(seed), ("float32", "int32", "uint8")[seed % 3]
    name = ("add", "max", "min", "mul")[seed // 3 % 4]
    ends = np.finfo(dtype) if dtype == "float32" else np.iinfo(dtype)
    init = {"add": 0, "mul": 1, "max": ends.min, "min": ends.max}[name]
    shape = [rng.randint(0, 5) for _ in range(rng.randint(1, 2))]
    draw = lambda low, high: tuple(rng.randint(low, high) for _ in shape)
    pads = [(rng.randint(-1, 2), rng.randint(-1, 2)) for _ in shape]
    args = draw(1, 3), draw(1, 3), pads, draw(1, 2), draw(1, 2)
    return case(data(shape, dtype), np.array(init, dtype), OfLax(name), *args)


def drawn_convolution(seed):
    """A convolution, of small whole numbers: its sums are exact."""
    rng = random.Random(seed)
    rank, features = rng.randint(0, 2), rng.choice([1, 1, 2])
    batch = rng.choice([1, 2]) if features == 1 else 1
    draw = lambda low, high: tuple(rng.randint(low, high) for _ in range(rank))
    inside, out = rng.randint(1, 2), features * batch * rng.randint(1, 2)
    lhs = F(batch * rng.randint(1, 2), features * inside, *draw(1, 6), step=1)
    pads = [(rng.randint(-1, 2), rng.randint(0, 2)) for _ in range(rank)]
    args = F(out, inside, *draw(1, 3), step=1), draw(1, 3), pads, draw(1, 2), draw(1, 2)
    return case(lhs, *args, feature_group_count=features, batch_group_count=batch)


def drawn_gather(seed):
    """A gather: windows anywhere in the result, some of them out of bounds."""
    rng = np.random.default_rng(seed)
    rank, batch_rank = int(rng.integers(1, 4)), int(rng.integers(0, 3))
    shape = [int(n) for n in rng.integers(1, 5, rank)]
    batch = [int(n) for n in rng.integers(1, 4, batch_rank)]
    axes = [int(d) for d in rng.permutation(rank)]
    batching, batched = (), ()
    if batch_rank and rank > 1 and rng.random() < 0.5:
        batching, batched = (axes.pop(),), (int(rng.integers(batch_rank)),)
        shape[batching[0]] = batch[batched[0]]
    index_map = tuple(axes[: int(rng.integers(0, len(axes) + 1))])
    sizes = [int(rng.integers(1, n + 1)) for n in shape]
    free = [d for d in range(rank) if d not in batching]
    collapsed = tuple(d for d in free if rng.random() < 0.5)
    for d in (*collapsed, *batching):
        sizes[d] = 1
    window = rank - len(collapsed) - len(batching)
    places = sorted(rng.permutation(window + batch_rank)[:window].tolist())
    indices = rng.integers(-2, 5, (*batch, len(index_map))).astype(np.int32)
    numbers = (tuple(places), collapsed, index_map, batching, batched)
    mode = ({"mode": "clip"}, {"mode": "fill", "fill_value": -1.0}, {})[seed % 3]
    dims = OfLax("GatherDimensionNumbers", numbers)
    return case(F(*shape, seed=seed), indices, dims, tuple(sizes), **mode)


# The strict layer below: equal dtypes, equal ranks.
lax_cases = {}


def lax_unary(kinds="f", low=-3, high=3):
    """Cases of a lax function of one array of these kinds of dtypes."""
    dtypes = {"f": floats, "i": integers, "b": ["bool"], "c": ["complex64"]}
    names = [d for k in kinds for d in dtypes[k]]
    found = [data((2, 3), name, low, high) for name in names]
    found += [data(shape, names[0], low, high) for shape in [(), (0,)]]
    found += [specials] if "f" in kinds else []
    found += [Weak(1.5 if "f" in kinds else 1)]
    return [case(x) for x in found]


def lax_binary(kinds="fi", low=-3, high=3, low2=None):
    """Cases of a lax function of two arrays of one dtype."""
    dtypes = {"f": floats, "i": integers, "b": ["bool"], "c": ["complex64"]}
    low2 = low if low2 is None else low2
    found = []
    for name in [d for k in kinds for d in dtypes[k]]:
        found.append((data((2, 3), name, low, high, seed=1),
            data((2, 3), name, low2, high, seed=2)))
    name = dtypes[kinds[0]][0]
    for left, right in [((), (3,)), ((2, 1), (2, 3)), ((0,), ()), ((), ())]:
        found.append((data(left, name, low, high, seed=1),
            data(right, name, low2, high, seed=2)))
    found += [(specials, specials[::-1].copy())] if "f" in kinds else []
    two = 2.0 if "f" in kinds else 2
    found += [(data(3, name, low, high), two), (Weak(2), Weak(1))]
    return [case(x, y) for x, y in found]  # fmt: skip


for name in "exp log sin cos tanh sqrt tan asin acos atan sinh cosh".split():
    low, high = {"log": (0.25, 5), "sqrt": (0.25, 5), "asin": (-1, 1), "acos": (-1, 1),
        }.get(name, (-2, 2))  # fmt: skip
    lax_cases[name] = lax_unary("f", low, high)
for name in "exp log sin cos tanh sqrt".split():
    lax_cases[name] += [case(C(3, low=0.5))]
lax_cases |= {
    "asinh": lax_unary(), "acosh": lax_unary(low=1, high=5),
    "atanh": lax_unary(low=-0.75, high=0.75),
    "exp2": lax_unary(), "expm1": lax_unary(), "log1p": lax_unary(low=-0.5),
    "cbrt": lax_unary(low=0.25), "floor": lax_unary(), "ceil": lax_unary(),
    "erf": lax_unary(), "erfc": lax_unary(), "erf_inv": lax_unary(low=-0.75, high=0.75),
    "lgamma": [case(x) for x in (F(2, 3, low=0.25), F(low=1), specials[:5])],
    "digamma": [case(x) for x in (F(2, 3, low=0.25), F())],
    "logistic": lax_unary(), "bessel_i0e": lax_unary(), "bessel_i1e": lax_unary(),
    "rsqrt": lax_unary(low=0.25, high=5), "reciprocal": lax_unary(low=0.25, high=5),
    "square": lax_unary("fic"), "is_finite": lax_unary(),
    "neg": lax_unary("fic"), "abs": lax_unary("fc"), "sign": lax_unary("fi"),
    "round": [case(x, mode) for x in (F(2, 3), specials) for mode in (0, 1)],
    "bitwise_not": lax_unary("ib"), "real": [case(C(2, 3)), case(C())],
    "imag": [case(C(2, 3))], "conj": [case(C(2, 3)), case(C(0))],
    "complex": [case(F(3), F(3, seed=1))],
    "population_count": lax_unary("i", low=0),
    "clz": [case(data(3, d, 0, 9)) for d in integers],
    "integer_pow": [case(F(3, low=0.5), n) for n in (0, 1, 2, 3, -1, -2)]
        + [case(Z(3), 3), case(C(3), 2), *(case(data(4, "int8", 1, 127), n) for n in
        (0, 1, 2, 5)), *(case(edge_values(d), n) for d in floats for n in (-3, 2, 13))],
    "reduce_precision": [case(F(2, 3, step=0.3), 5, 10),
        case(F(2, 3, step=0.3), exponent_bits=8, mantissa_bits=7)],
    "convert_element_type": [case(F(2, 3), d) for d in every_dtype]
        + [case(edge_values(a), b) for a in every_dtype for b in every_dtype]
        + [case(np.float32([127, -128, 255, 256, -129, 2**31]), b) for b in integers],
    "bitcast_convert_type": [case(F(2, 3), np.dtype("int32")),
        case(Z(2), np.dtype("uint8")), case(data((2, 4), "uint8"), np.dtype("int32"))],
}  # fmt: skip
lax_cases |= {name: lax_binary("fic") for name in "add sub mul".split()}
lax_cases["mul"].insert(1, case(F(3), F(3, seed=1), out_dtype=np.float16))
lax_cases |= {n: lax_binary("fib") for n in "max min eq ne lt le gt ge".split()}
lax_cases |= {f"bitwise_{name}": lax_binary("ib") for name in "and or xor".split()}
lax_zero = case(np.array([5, -5, 0], np.int32), np.zeros(3, np.int32))
lax_cases |= {
    "div": lax_binary("fic", low2=1) + [lax_zero],
    "rem": lax_binary("fi", low2=1) + [lax_zero],
    "pow": [case(F(2, 3, low=0.5), F(2, 3, seed=1)), case(F(3), Z(3, low=0)),
        case(F(3, low=0.5), 2.5), case(F(3), 2), case(specials, specials[::-1].copy()),
        *(case(np.repeat(powers, 13).astype(d), np.tile(powers, 13).astype(e)) for d in
          floats for e in (d, "int32"))],
    "atan2": [case(F(2, 3), F(2, 3, seed=1)), case(F(), F(3)),
        case(specials, specials[::-1].copy())],
    "nextafter": [case(F(3), F(3, seed=1))],
    **{name: [case(F(3, low=0.5), F(3, low=0.5, seed=1), tolerance=1e-4)] for name in
        ("igamma", "igammac", "igamma_grad_a", "random_gamma_grad")},
    "betainc": [case(F(3, low=0.5), F(3, low=0.5, seed=1), F(3, low=0.25, high=0.75,
        seed=2))],
    "zeta": [case(F(3, low=1.5, high=5), F(3, low=0.5, seed=1))],
    "polygamma": [case(np.array([1.0, 2.0], np.float32), F(2, low=0.5))],
    **{f"shift_{name}": [*lax_binary("i", low=0), shift_edges] for name in
        ("left", "right_arithmetic", "right_logical")},
    "clamp": [case(F(), F(2, 3), F(seed=1, low=1)), case(-1, Z(5), 1),
        case(-1.0, specials, 1.0), case(F(3), F(3, seed=1), F(3, seed=2))],
    "select": [case(B(2, 3), F(2, 3), F(2, 3, seed=1)), case(B(), F(3), F(3, seed=1))],
    "select_n": [case(B(2, 3), F(2, 3), F(2, 3, seed=1)),
        case(Z(3, low=0, high=2), Z(3), Z(3, seed=1), Z(3, seed=2))],
}  # fmt: skip

axes_of = [((2, 3), (0,)), ((2, 3), (0, 1)), ((2, 3, 4), (2, 0)), ((0, 3), (0,)), ((),
    ())]


def lax_reduction(kinds, empty=True):
    """Cases of a reduction of lax: an array and axes."""
    dtypes = {"f": floats, "i": integers, "b": ["bool"], "c": ["complex64"]}
    names = [d for k in kinds for d in dtypes[k]]
    found = [(data((2, 3), name), (1,)) for name in names]
    found += [(data(s, names[0]), axes) for s, axes in axes_of if empty or 0 not in s]
    found += [(edge_values(name)[-14:].reshape(-1, 2), (0,)) for name in names]
    return [case(x, a) for x, a in found]


lax_cases |= {
    **{f"reduce_{name}": lax_reduction("fic") for name in ("sum", "prod")},
    **{f"reduce_{name}": lax_reduction("fib", empty=False) for name in ("max", "min")},
    **{f"reduce_{name}": lax_reduction("ib") for name in ("and", "or", "xor")},
    **{name: [case(data((2, 3), d), axis, np.dtype("int32")) for d in [*floats,
        "int32", "bool"] for axis in (0, 1)] for name in ("argmax", "argmin")},
    "reduce": [case(F(2, 3), 0.0, OfLax("add"), (0,)),
        case(F(2, 3), -np.inf, OfLax("max"), (0, 1))],
    "cumsum": [case(data((2, 3), d), a) for d in ["float32", "int32", "int8"] for a in
        (0, 1)] + [case(data(9, "int8", 60, 120)), case(N(5)), case(N(5), reverse=True),
        case(F(4), 0, reverse=True)],
    "cumprod": [case(data((2, 3), d), a) for d in ["float32", "int32"] for a in (0, 1)],
    **{name: [case(F(2, 3), 1), case(Z(2, 3), 1), case(specials, 0), case(specials,
        reverse=True), case(F(4), reverse=True)] for name in ("cummax", "cummin")},
    "cumlogsumexp": [case(np.float32([-np.inf, -np.inf, np.inf])), case(F(2, 3), 1)],
    "broadcast": [case(x, sizes) for x, sizes in [(F(3), (2,)), (F(), (0, 2)),
        (Weak(1), (2,)), (F(2), ())]],
    "broadcast_in_dim": [case(F(3), (2, 3), (1,)), case(F(2), (2, 3), (0,)),
        case(F(), (2,), ()), case(F(1, 3), (2, 3), (0, 1))],
    "broadcast_shapes": [case((2, 1), (1, 3)), case((), (2,))],
    "broadcast_to_rank": [case(F(3), 2)],
    "broadcasted_iota": [case(np.dtype("int32"), (2, 3), 1),
        case(np.dtype("float32"), (2, 3), 0)],
    "iota": [case(np.dtype("int32"), 4), case(np.dtype("float32"), 0)],
    "full": [case((2, 3), 1.5), case((), 2), case((2,), 2, np.dtype("float16"))],
    "full_like": [case(F(2, 3), 1.5), case(Z(2), 2.0), case(F(2), 1, np.dtype("int32")),
        case(Weak(1), 3)],
    "expand_dims": [case(F(2, 3), (0, 2)), case(F(3), (1,)), case(F(), (0, 1))],
    "squeeze": [case(F(1, 3, 1), (0, 2)), case(F(1, 3), (-2,)), case(F(2), ())],
    "reshape": [case(F(2, 3), (3, 2)), case(F(0, 2), (2, 0)),
        case(F(2, 3), (3, 2), (1, 0)), case(Z(), (1,))],
    "collapse": [case(F(2, 3, 4), 0, 2), case(F(2, 3, 4), 1)],
    "transpose": [case(F(2, 3), (1, 0)), case(F(2, 3, 4), (2, 0, 1)), case(F(), ())],
    "rev": [case(F(2, 3), (0,)), case(F(2, 3), (0, 1)), case(F(0), (0,))],
    "slice": [case(F(5), (1,), (4,)), case(F(4, 5), (0, 1), (4, 5), (2, 3)),
        case(F(3), (1,), (1,))],
    "slice_in_dim": [case(F(2, 5), 1, 4, axis=1), case(F(5), 0, 5, 2),
        case(F(5), -3, None)],
    "index_in_dim": [case(F(2, 3), 1, axis=1), case(F(2, 3), -1, keepdims=False)],
    "dynamic_slice": [case(F(5), (Z(low=0),), (2,)),
        case(F(3, 4), [np.int32(2) + Z() * 0, 9], (2, 2)),
        case(F(5), (np.array(-2),), (3,))],
    "dynamic_slice_in_dim": [case(F(2, 5), np.array(1), 3, axis=1)],
    "dynamic_index_in_dim": [case(F(3, 2), np.array(1)),
        case(F(3, 2), np.array(1), 1, False)],
    "dynamic_update_slice": [case(F(5), F(2, seed=1), (np.array(1),)),
        case(F(3, 4), F(2, 2, seed=1), (np.array(9), np.array(0)))],
    "dynamic_update_slice_in_dim": [case(F(5), F(2, seed=1), np.array(1), 0)],
    "dynamic_update_index_in_dim": [case(F(3, 2), F(2, seed=1), np.array(1), 0)],
    "pad": [case(F(3), F(), [(1, 2, 0)]), case(Z(4), 7, [(-1, -2, 0)]),
        *(case(Z(3), 0, [(low, high, 1)]) for low in range(-7, 8) for high in
          (-6, -3, -1, 0, 2) if low + high >= -5), case(F(0), F(), [(1, 1, 5)]),
        case(F(2, 3), F(), [(0, 1, 2), (-1, 0, 1)])],
    "concatenate": [case([F(2, 3), F(1, 3)], 0), case((Z(2), Z(0), Z(1)), 0),
        case([F(2, 1), F(2, 2)], 1)],
    "stack": [case([F(2), F(2)], axis=0)], "unstack": [case(F(2, 3), axis=1)],
    "split": [case(F(5), (2, 3)), case(F(2, 4), (1, 3), 1)],
    "tile": [case(F(2, 3), (2, 1))],
    "sort": [case(data((2, 4), d)) for d in [*floats, "int32", "bool"]]
        + [case(F(3, 2), dimension=0), case((Z(5), F(5)), num_keys=1),
        case((Z(5), Z(5, seed=1)), num_keys=2), case(specials), case((edge_values("f4"),
        Z(17)), num_keys=1), case((Z(4, 20, high=2), Z(4, 20, high=2, seed=1), Z(4, 20,
        seed=2)), num_keys=2)],
    "sort_key_val": [case(Z(5), F(5))],
    "top_k": [case(F(2, 5), 3), case(Z(4), 0), case(np.uint8([3, 1, 3, 2]), 3),
        case(edge_values("f4"), 17), case(F(3, 7), 2)],
    "approx_max_k": [case(F(2, 5), 3)], "approx_min_k": [case(F(2, 5), 2)],
    "dot": [case(F(3), F(3)), case(F(2, 3), F(3, 2)), case(F(2, 3), F(3))],
    "batch_matmul": [case(F(2, 2, 3), F(2, 3, 4))],
    "dot_general": [case(F(2, 3), F(3, 4), (((1,), (0,)), ((), ()))),
        case(F(5, 2, 3), F(5, 4, 3), (((2,), (2,)), ((0,), (0,)))),
        case(F(2), F(3), (((), ()), ((), ()))),
        case(Z(2, 3), Z(3), (((1,), (0,)), ((), ()))),
        case(data((2, 3), "bfloat16"), data((3, 2), "bfloat16"),
        (((1,), (0,)), ((), ())), preferred_element_type=np.dtype("float32")),
        case(F(2, 0), F(0, 3), (((1,), (0,)), ((), ()))),
        case(F(4, 3), F(2, 3), (((1,), (1,)), ((), ())))],
    "conv": [case(F(2, 3, 6), F(4, 3, 2, seed=1), (1,), "VALID"),
        case(F(2, 3, 7), F(4, 3, 2, seed=1), (2,), "VALID"),
        *(case(data((1, 1, 4), "int8", 90, 120), data((1, 1, 2), "int8"), (1,), "VALID",
          preferred_element_type=d) for d in (None, "int32")),
        case(F(1, 1, 5), F(1, 1, 3, seed=1), (1,), "SAME")],
    "conv_general_dilated": [case(F(2, 3, 6), F(4, 3, 2, seed=1), (1,), [(1, 0)]),
        case(F(1, 2, 4, 4), F(3, 2, 2, 2, seed=1), (1, 2), "SAME"),
        case(F(1, 4, 5), F(2, 2, 3, seed=1), (1,), "VALID", feature_group_count=2),
        case(F(1, 2, 5), F(2, 2, 2, seed=1), (1,), "VALID", rhs_dilation=(2,)),
        case(F(1, 5, 2), F(3, 2, 4, seed=1), (1,), "SAME",
        dimension_numbers=("NWC", "WIO", "NWC")), *map(drawn_convolution, range(40))],
    "conv_with_general_padding": [case(F(1, 2, 5), F(2, 2, 2, seed=1), (1,), [(1, 0)],
        (1,), (1,))],
    "conv_general_dilated_patches": [case(F(1, 2, 5), (2,), (1,), "VALID"),
        case(F(2, 4, 5, 3, step=1), (2, 2), (1, 1), "SAME", rhs_dilation=(1, 2),
        dimension_numbers=("NHWC", "HWIO", "NCHW"))],
    "conv_general_dilated_local": [case(F(1, 2, 5), F(3, 4, 4, seed=1), (1,), "VALID",
        (2,)), case(F(2, 6, 5, 2), F(2, 5, 12, 3, seed=1), (2, 1), [(0, 0), (1, 0)],
        (3, 2), None, None, ("NHWC", "HWIO", "NHWC"))],
    "mulhi": [case(data(9, d, -2e9, 4e9), data(9, d, -2e9, 4e9, seed=1)) for d in
        ("int32", "uint32")],
    "broadcast_like": [case(F(3), F(2, 3))], "empty": [case((2, 3), np.float32)],
    "ragged_dot": [case(F(5, 2), F(3, 2, 4), Z(3, low=0, high=2))],
    "conv_transpose": [case(F(1, 5, 2), F(3, 2, 4, seed=1), (2,), "SAME",
        dimension_numbers=("NWC", "WIO", "NWC")), case(F(2, 4, 5, 3), F(3, 2, 4, 3),
        (2, 2), "SAME", transpose_kernel=True), *(case(F(2, 4, 5, 3), F(3, 2, 3, 4),
        (2, 3), padding, use_consistent_padding=same) for same in (False, True) for
        padding in ("SAME", "VALID", [(1, 0), (2, 1)]))],
    "reduce_window": [case(F(6), 0.0, OfLax("add"), (3,), (1,), "VALID"),
        case(F(4, 4), -np.inf, OfLax("max"), (2, 2), (2, 2), "VALID"),
        case(F(5), 1.0, OfLax("mul"), (2,), (2,), "SAME"),
        *map(drawn_windows, range(60))],
}  # fmt: skip


rows_of = OfLax("GatherDimensionNumbers", ((1,), (0,), (0,)))
into_rows = OfLax("ScatterDimensionNumbers", ((1,), (0,), (0,)))
into_vector = OfLax("ScatterDimensionNumbers", ((), (0,), (0,)))
some_rows = np.array([[2], [0], [2]], np.int32)
scatters = [
    case(F(4, 3), some_rows, F(3, 3, seed=1), into_rows),
    case(Z(5), some_rows, Z(3, seed=1), into_vector),
    case(F(5), np.array([[1], [9]], np.int32), F(2, seed=1), into_vector),
    case(F(4), np.zeros((0, 1), np.int32), F(0), into_vector),
]
lax_cases |= {
    "gather": [case(F(4, 3), some_rows, rows_of, (1, 3)),
        case(Z(4, 3), some_rows, rows_of, (1, 2)), case(F(2, 3), some_rows, rows_of,
        (1, 3), mode="clip"), case(F(2, 3), some_rows, rows_of, (1, 3), mode="fill"),
        *map(drawn_gather, range(120))],
    "scatter": scatters[2:],
    **{f"scatter_{name}": scatters for name in "add sub mul min max".split()},
    "conv_dimension_numbers": [case((1, 2, 5), (2, 2, 3), ("NCW", "OIW", "NCW"),
        jax="another class")],
    "conv_general_permutations": [case(("NWC", "WIO", "NWC"))],
    "padtype_to_pads": [case((5,), (3,), (1,), "SAME")],
}  # fmt: skip
