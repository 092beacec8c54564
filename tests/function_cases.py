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
  numpy: what the result should be: None for "ask the NumPy function of that name", a
    function of the arguments (in float64 for float32), or `skip` with a reason.
  jax: why jax itself must not be asked, or "" where it may.
  tolerance: relative, where it is not that of the result's dtype.
  then: the arguments of a second call, of the function that the first one returns.
  over: a name: the call is mapped over the first axis of its first argument, which has
    that name.

`OfLax("add")` stands for a library's own `lax.add`.  `leaves(x)` flattens results.
`as_jax(x, jnp)` turns arguments into arrays of a library with jax's interface (`Weak`
included), `as_numpy(x)` into NumPy's in double precision.
"""

import functools
import importlib
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
    """Something of the library's `lax` module: `make(lax)`, or what has that name."""

    make: object

    def of(self, lax):
        return getattr(lax, self.make) if isinstance(self.make, str) else self.make(lax)


def skip(reason):
    """Marks a case that NumPy has no answer to."""
    return f"skip: {reason}"


@dataclass(frozen=True)
class Case:
    """One call of a function: see the top of this module."""

    args: tuple
    kwargs: dict = field(default_factory=dict)
    dynamic: bool = True
    numpy: object = None
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

    def reference(self, name):
        """What NumPy says, or None where it cannot be asked."""
        if isinstance(self.numpy, str):
            return None
        args, kwargs = as_numpy((self.args, self.kwargs))
        function = self.numpy or find(np, name)
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)


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


def as_jax(x, jnp):
    """Arguments with the arrays of `jnp`."""

    def make(a):
        if isinstance(a, Weak):
            return jnp.full(a.shape, a.value) if a.shape else jnp.asarray(a.value)
        return jnp.asarray(a)

    return convert(x, make, lax(jnp))


def as_numpy(x):
    """Arguments with NumPy arrays, floats in double precision."""
    wide = {"f": np.float64, "V": np.float64, "c": np.complex128}

    def make(a):
        if isinstance(a, Weak):
            a = np.full(a.shape, a.value)
            return a.astype(np.int32) if a.dtype.kind == "i" else a
        return a.astype(wide.get(a.dtype.kind, a.dtype))

    return convert(x, make)


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
    *args, dynamic=True, numpy=None, jax="", tolerance=None, then=(), over="", **kwargs
):
    """A `Case` with these arguments."""
    return Case(args, kwargs, dynamic, numpy, jax, tolerance, then, over)


specials = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
floats = ["float32", "float16", "bfloat16"]
integers = ["int32", "int8", "uint8", "uint32"]


def unary(kinds="fi", low=-3, high=3, edges=True, numpy=None, weak=1.5):
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
    return [case(x, numpy=numpy) for x in found]


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


def binary(kinds="fim", low=-3, high=3, low2=None, high2=None, numpy=None, weak=True,
           edges=True):  # fmt: skip
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
    return [case(x, y, numpy=numpy) for x, y in found]


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


numpy_cases = {}

# Elementwise, of one array.
numpy_cases |= {
    name: unary("fibc")
    for name in """
    sin cos tanh exp negative positive sign absolute abs square isnan isfinite
    """.split()
    if name not in ("negative", "positive", "sign")
}
numpy_cases |= {name: unary("fic") for name in ["negative", "positive", "sign"]}
for name in "isinf real imag conj conjugate iscomplex isreal".split():
    numpy_cases[name] = unary("fibc")
for name in "floor ceil trunc rint".split():
    numpy_cases[name] = unary("fi")
for name in "signbit isposinf isneginf".split():
    numpy_cases[name] = unary("fi")
for name in "tan sinh cosh arctan expm1 exp2 deg2rad rad2deg radians degrees".split():
    numpy_cases[name] = unary("fi", high=2)
for name in "arcsin arccos arctanh".split():
    numpy_cases[name] = unary("fi", low=-1, high=1, weak=0.5)
for name in "sqrt log log2 log10 log1p cbrt arcsinh".split():
    numpy_cases[name] = unary("fi", low=0.25, high=5)
numpy_cases |= {
    "arccosh": unary("fi", low=1, high=5),
    "asin": unary("f", low=-1, high=1, weak=0.5, numpy=np.arcsin),
    "acos": unary("f", low=-1, high=1, weak=0.5, numpy=np.arccos),
    "atan": unary("f", numpy=np.arctan),
    "asinh": unary("f", numpy=np.arcsinh),
    "acosh": unary("f", low=1, high=5, numpy=np.arccosh),
    "atanh": unary("f", low=-0.75, high=0.75, weak=0.5, numpy=np.arctanh),
    "fabs": unary("fi", numpy=lambda x: np.fabs(np.asarray(x, float))),
    "reciprocal": unary("f", low=0.5, high=4) + [case(Z(3, low=1, high=4),
        numpy=lambda x: 1 / x)],
    "sinc": unary("fi"),
    "i0": unary("fi", weak=0.5, edges=False),
    "nan_to_num": unary("fi", edges=False) + [
        case(specials, numpy=lambda x: np.nan_to_num(x.astype(np.float32))),
        case(specials, nan=1.0, posinf=2.0, neginf=-3.0), case(N(2, 3), nan=7.0)],
    "angle": unary("fc", numpy=lambda z: np.angle(z)) + [case(C(3), deg=True)],
    "logical_not": unary("fibc"),
    "invert": unary("ib", weak=2), "bitwise_not": unary("ib", weak=2),
    "bitwise_invert": unary("ib", weak=2, numpy=np.invert),
    "bitwise_count": unary("i", weak=5),
    "spacing": unary("s", edges=False, numpy=lambda x: np.spacing(
        np.float32(x))) + [case(np.array([0.0, 1e-40, 1e30], np.float32),
        numpy=lambda x: np.spacing(np.float32(x)))],
    "frexp": unary("s") + [case(np.array([0.0, 1e-40, 8.0, np.inf], np.float32),
        jax="flushes subnormal numbers to zero")],
    "modf": unary("fi", edges=False) + [case(specials[:4])],
}  # fmt: skip
for name in ("round", "around"):
    numpy_cases[name] = unary("fi") + [
        case(F(2, 3), 1), case(F(3, step=1), -1, numpy=skip("rounds -0.5 to -0.0")),
        case(data(3, "float16"), 2), case(C(3), 1), case(Z(3), 2)]  # fmt: skip

# Elementwise, of two arrays.
for name in "add subtract multiply maximum minimum".split():
    kinds = "fimc" if name == "subtract" else "fimbc"
    numpy_cases[name] = binary(kinds, edges=name in ("maximum", "minimum", "add"))
for name in "equal not_equal less less_equal greater greater_equal".split():
    numpy_cases[name] = binary("fimbc", edges=True)
for name in "logical_and logical_or logical_xor".split():
    numpy_cases[name] = binary("fimbc")
for name in "bitwise_and bitwise_or bitwise_xor".split():
    numpy_cases[name] = binary("ib")
for name in "true_divide divide".split():
    numpy_cases[name] = binary("fimc", low2=0.5)
integer_zero = case(np.array([5, -5, 0, -7], np.int32), np.array([0, 0, 0, 2],
    np.int32),
                    numpy=skip("JAX has its own result for x / 0"))  # fmt: skip
numpy_cases |= {
    name: binary("fim", low2=0.5, edges=False) + [integer_zero]
    for name in "floor_divide remainder mod fmod divmod".split()
}
shift_edges = case(np.array([1, -8, 7], np.int32), np.array([33, 40, -1], np.int32),
                   numpy=skip("NumPy does not define shifts past the width"))
for name in "left_shift right_shift".split():
    alias = binary("i", low=-20, high=20, low2=0, high2=4) + [shift_edges]
    numpy_cases[name] = numpy_cases[f"bitwise_{name}"] = alias
for name in "power pow".split():
    numpy_cases[name] = [
        *binary("f", low=0.5, high=3, edges=False), case(F(3), 2), case(F(3), 0),
        case(Z(3), Z(3, low=0, high=4)), case(F(3, low=1), Z(3)), case(Z(3), 3),
        case(Weak(2), F(3)), case(F(3, low=0.5), -2), case(B(3), B(3, seed=1),
        numpy=lambda x, y: np.power(x.astype(int), y)), case(C(3), 2),
        case(data(3, "uint8"), data(3, "uint8", low=0)),
    ]  # fmt: skip
numpy_cases |= {
    "float_power": binary("fm", low=0.5, edges=False),
    "arctan2": binary("fim"), "atan2": binary("f", numpy=np.arctan2),
    "hypot": binary("fim"), "copysign": binary("fim"),
    "heaviside": binary("fim"), "fmax": binary("fim"), "fmin": binary("fim"),
    "logaddexp": binary("fim") + [case(Weak(1j, (2,)), Weak(2 + 1j, (2,)),
        numpy=skip("NumPy has none of complex numbers"))],
    "logaddexp2": binary("fim"),
    "nextafter": [case(F(3), F(3, seed=1), numpy=lambda x, y: np.nextafter(
        np.float32(x), np.float32(y))), case(specials, specials[::-1].copy(),
        numpy=lambda x, y: np.nextafter(np.float32(x), np.float32(y)))],
    "ldexp": [case(F(3), Z(3)), case(F(2, 1), Z(3)), case(Z(3), Z(3, seed=1))],
    "gcd": binary("i", low=-20, high=20, numpy=lambda x, y: np.gcd(
        np.asarray(x, np.int64), np.asarray(y, np.int64))),
    "lcm": binary("i", low=-9, high=9, numpy=lambda x, y: np.lcm(
        np.asarray(x, np.int64), np.asarray(y, np.int64))),
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
        case(data(3, "bfloat16"), "int8"), case(np.array([np.nan, 1e10, -1e10, 300.7],
        np.float32), "int32", numpy=skip("NumPy does not define it")),
        case(np.array([300, -1], np.int32), "uint8"), case(Weak(2), "int32")],
    "copy": [case(F(2, 3)), case(Weak(2))],
    "zeros": [case((2, 3)), case(3), case((), "int32"), case((0, 2), dtype="bool")],
    "ones": [case((2, 3)), case(3, "bfloat16", numpy=lambda *a: np.ones(3)),
        case((), dtype="complex64")],
    "empty": [case((2, 3), numpy=np.zeros), case(0, "int8", numpy=np.zeros)],
    "full": [case((2, 3), 1.5), case((2,), 3), case((2, 3), F(3)), case(2, True),
        case((2,), 2.7, "int32"), case((2,), F()), case((2,), Weak(2), "uint8")],
    "zeros_like": [case(F(2, 3)), case(Z(2), dtype="float32"), case(Weak(2)),
        case(F(2), shape=(3,))],
    "ones_like": [case(Z(2, 3)), case(B(2)), case(Weak(1.5, (2,)))],
    "empty_like": [case(F(2, 3), numpy=np.zeros_like)],
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
    "mask_indices": [case(3, np.triu, dynamic=False, numpy=skip("takes a function"))],
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
    "fill_diagonal": [case(F(3, 3), 5.0, inplace=False, numpy=skip("in place")),
        case(F(3, 2), F(2), inplace=False, numpy=skip("in place")),
        case(Z(2, 2, 2), Z(), inplace=False, numpy=skip("in place"))],
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
        case(F(2, 3), (1, 2), (0, 1)), case(F(2, 3), 4, (0, 1)),
        case(F(5), Z(), numpy=lambda x, s: np.roll(x, int(s)))],
    "tile": [case(F(3), 2), case(F(2, 3), (2, 1)), case(F(2), (2, 3)), case(F(), 3),
        case(F(2, 3), 0)],
    "repeat": [case(F(3), 2), case(F(2, 3), 2, axis=1), case(F(), 3), case(F(2, 3), 0),
        case(F(), 2, axis=0), case(Z(3), np.array([1, 0, 2]), dynamic=False),
        case(F(2, 3), np.array([2, 1]), axis=0, dynamic=False),
        case(F(3), np.array([1, 0, 2], np.int32), total_repeat_length=4,
             numpy=lambda x, r, total_repeat_length: x[[0, 2, 2, 2]]),
        case(F(3), np.array([1, 3, 2], np.int32), total_repeat_length=3,
             numpy=lambda x, r, total_repeat_length: x[[0, 1, 1]])],
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
        dynamic=False), case(F(5), np.array([1, -1]), assume_unique_indices=True,
        numpy=lambda x, i, assume_unique_indices: np.delete(x, i))],
    "insert": [case(F(4), 1, 5.0), case(F(4), np.array([1, 3]), F(2, seed=1)),
        case(F(2, 3), 1, 5.0,
        axis=1), case(Z(4), -1, 9), case(F(2, 3), 0, F(3), axis=0),
        case(F(4), slice(0, 4, 2), 1.0), case(F(4), np.array([3, 0]), F(2)),
        case(F(4), np.zeros(0, int), 1.0, dynamic=False, numpy=lambda x, i, y: x)],
    "trim_zeros": [case(np.array([0, 0, 1, 0, 2, 0], np.int32), dynamic=False),
        case(np.array([0.0, 1.0, 0.0], np.float32), "f", dynamic=False),
        case(np.zeros(3, np.float32), dynamic=False),
        case(np.eye(3, 4, 1, np.int32), dynamic=False)],
    "apply_over_axes": [case(np.sum, F(2, 3), [0, 1], numpy=skip("takes a function"))],
}  # fmt: skip
numpy_cases["pad"] = [
    case(F(3), 1), case(F(2, 3), ((1, 2), (0, 1))), case(Z(3), (2, 1),
    constant_values=7),
    case(F(2, 2), 1, constant_values=((1.0, 2.0), (3.0, 4.0))), case(F(), 0),
    case(F(0), 1), case(F(3), 0),
] + [
    case(x, widths, mode, **options)
    for x, widths in [(F(4), (2, 3)), (F(2, 3), ((1, 1), (2, 4))), (Z(1), (2, 1))]
    for mode, options in [
        ("edge", {}), ("wrap", {}), ("reflect", {}), ("symmetric", {}),
        ("reflect", {"reflect_type": "odd"}), ("symmetric", {"reflect_type": "odd"}),
        ("linear_ramp", {"end_values": 2}), ("maximum", {}), ("minimum", {}),
        ("mean", {}), ("median", {}), ("mean", {"stat_length": 2}),
    ]
] + [case(F(3), 2, "empty", numpy=skip("undefined values"))]  # fmt: skip

# Reductions and cumulative functions.
for name in ("sum", "prod"):
    numpy_cases[name] = [
        *reduction("fibc"), *with_where(), case(F(2, 3), initial=2.0),
        case(Z(3), dtype="float32"), case(data(3, "int8"), dtype="int8"),
        case(F(3), dtype="bool"), case(data(3, "int8", low=1), promote_integers=False,
        numpy=lambda x, promote_integers, name=name: getattr(np, name)(x)),
        case(F(2, 3), axis=()),
    ]  # fmt: skip
for name in ("max", "min", "amax", "amin"):
    numpy_cases[name] = [
        *reduction("fib", empty=False), *with_where(initial=0.5), case(specials),
        case(F(0, 3), axis=0, initial=1.0), case(F(2, 0), axis=0), case(Z(3),
        initial=1),
    ]  # fmt: skip
for name in ("all", "any"):
    # JAX asks the real part of complex numbers only.
    numpy_cases[name] = [
        *reduction("bfi"), *with_where(), case(C(3), numpy=skip("JAX's own meaning"))
    ]
for name in ("mean", "std", "var"):
    numpy_cases[name] = [
        *reduction("fic", empty=False), *with_where(),
        case(Z(3), dtype="float16", tolerance=1e-2), case(F(0), numpy=lambda x: np.nan),
    ]  # fmt: skip
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
nan_fill = skip("NumPy has no such mode")
numpy_cases |= {
    "where": [case(B(2, 3), F(2, 3), F(2, 3, seed=1)), case(B(3), 1, 0),
        case(F(3), Z(2, 1), 2.5), case(B(), F(3), F(3, seed=1)), case(B(0), F(0), 1),
        case(B(2, 3), dynamic=False), case(B(3), Weak(1), Weak(2.5)),
        case(B(4), size=3, numpy=lambda c, size: (np.pad(np.where(c)[0],
             (0, 3))[:3],)), case(B(3), data(3, "int8"), 3)],
    "take": [case(F(5), np.array([0, 3, -1])), case(F(3, 4), np.array([[1, 2]]),
        axis=1), case(F(2, 3), 4), case(F(5), np.array([1, 9]), mode="clip"), case(F(5),
        np.array([1, 9, -7]), mode="wrap"), case(F(5), np.array([1, 9]),
        numpy=nan_fill), case(Z(5), np.array([1, 9]), fill_value=-1, numpy=nan_fill),
        case(F(2, 3), np.zeros((0,), np.int32), axis=0)],
    "take_along_axis": [case(F(2, 4), Z(2, 3, low=0), axis=1), case(F(3, 4),
        np.array([[0, 2, 1, -1]]), axis=0), case(F(5), Z(3, low=0), axis=None),
        case(F(2, 3), np.array([[5], [0]]), axis=1, numpy=nan_fill),
        case(F(2, 1), np.array([[0, 0], [0, 0]]), axis=1)],
    "put_along_axis": [case(F(2, 4), np.array([[0, 2], [1, 3]]), F(2, 2, seed=1), 1,
        inplace=False, numpy=skip("in place")), case(F(5), np.array([1, 3]),
        F(2, seed=1), None, inplace=False, numpy=skip("in place"))],
    "put": [case(F(2, 3), np.array([1, 4]), F(2, seed=1), inplace=False,
        numpy=skip("in place")), case(F(5), np.array([1, 9]), 7.0, mode="clip",
        inplace=False, numpy=skip("in place")), case(F(5), np.array([1, 9, -2]),
        F(2), inplace=False, numpy=skip("in place")), case(F(5), np.array([-9, 9, -2]),
        Z(2), mode="wrap", inplace=False, numpy=skip("in place"))],
    "place": [case(F(2, 3), B(2, 3), F(2, seed=1), inplace=False,
        numpy=skip("in place"))],
    "choose": [case(np.array([0, 2, 1]), [F(3), F(3, seed=1), F(3, seed=2)],
        dynamic=False), case(np.array([0, 5, -1]), [F(3), Z(3)], mode="clip"),
        case(np.array([0, 5, -1]), [F(3), F()], mode="wrap")],
    "select": [case([B(3), B(3, seed=1)], [F(3), Z(3)], 2.5), case([B(2, 1)], [F(3)])],
    "piecewise": [case(F(4), [B(4), B(4, seed=1)], [1.0, -1.0], numpy=skip(
        "NumPy wants bool lists")), case(F(4), [B(4)], [lambda x: x * 2,
            lambda x: -x])],
    "nonzero": [case(Z(5), dynamic=False), case(B(2, 3), dynamic=False),
        case(Z(5), size=3, numpy=lambda x, size: (np.pad(np.nonzero(x)[0], (0,
        9))[:3],)),
        case(B(2, 3), size=8, fill_value=-1, numpy=nan_fill), case(F(0), size=2,
        numpy=nan_fill), case(np.zeros(3, np.int32), size=2, numpy=nan_fill)],
    "flatnonzero": [case(B(2, 3), dynamic=False), case(Z(2, 3), size=2,
        numpy=lambda x, size: np.flatnonzero(x)[:2])],
    "argwhere": [case(B(2, 3), dynamic=False), case(Z(4), size=2,
        numpy=lambda x, size: np.argwhere(x)[:2]), case(Z(), dynamic=False)],
    "compress": [case(B(3), F(3), dynamic=False), case(np.array([True, False]), F(2, 3),
        axis=0, dynamic=False), case(B(5), F(5), size=2,
        numpy=lambda c, x, size: np.pad(np.compress(c, x), (0, 9))[:2]),
        case(np.array([True, False, True]), F(2, 3), axis=1, size=3, fill_value=9,
        numpy=nan_fill)],
    "extract": [case(B(2, 3), F(2, 3), dynamic=False), case(B(5), Z(5), size=4,
        numpy=nan_fill)],
    "searchsorted": [case(np.sort(F(6)), F(4, seed=1)), case(np.sort(Z(6)), Z(2, 3),
        side="right"), case(np.sort(Z(5)), F()), case(F(0), F(3)), case(F(4), F(3),
        sorter=np.argsort(F(4)).astype(np.int32)), case(np.sort(F(6)), specials,
        numpy=lambda a, v: np.searchsorted(a, v))] + [case(np.sort(F(5)), F(3),
        method=m, numpy=lambda a, v, method: np.searchsorted(a, v)) for m in
        ["scan", "scan_unrolled", "sort", "compare_all"]],
    "digitize": [case(F(5), np.array([-1.0, 0.0, 2.0], np.float32)), case(F(5),
        np.array([2.0, 0.0, -1.0], np.float32)), case(Z(2, 2), np.array([0, 1]),
        right=True)],
    "bincount": [case(Z(6, low=0), dynamic=False), case(Z(6, low=0), length=3,
        numpy=lambda x, length: np.bincount(x, minlength=9)[:3]),
        case(Z(4, low=0), F(4), length=5, numpy=lambda x, w, length: np.bincount(
        x, w, minlength=9)[:5]), case(B(4), dynamic=False), case(Z(3, low=0), None, 6,
        dynamic=False), *(case(data(n, "uint8"), dynamic=False) for n in (4, 0))],
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
        case(np.array([0, 9, -1, -9]), (2, 3), numpy=skip("out of bounds"))],
    "isin": [case(Z(2, 3), Z(4, seed=1)), case(F(3), F(0)),
        case(Z(4), Z(2), invert=True), case(Z(4), Z(5, seed=1), method="binary_search",
        numpy=lambda x, y, method: np.isin(x, y)), case(Z(4), Z(5, seed=1),
        method="sort", numpy=lambda x, y, method: np.isin(x, y))],
    "sort": [case(data((2, 5), d)) for d in [*floats, *integers, "bool"]] + [
        case(F(2, 3), axis=0), case(F(2, 3), axis=None), case(specials), case(F(5),
        descending=True, numpy=lambda x, descending: np.sort(x)[::-1]), case(C(4)),
        case(F(0))],
    "argsort": [case(data((2, 5), d), numpy=lambda x: np.argsort(x, stable=True))
        for d in [*floats, "int32", "bool"]] + [case(Z(5), descending=True,
        numpy=lambda x, descending: np.argsort(-x, stable=True)), case(specials,
        numpy=lambda x: np.argsort(x, stable=True)), case(Z(2, 3), axis=None,
        numpy=lambda x, axis: np.argsort(x, None, stable=True))],
    "lexsort": [case([Z(5), Z(5, seed=1)]), case((F(2, 3), Z(2, 3)), axis=0), case(Z(2,
        4))],
    "partition": [case(F(6), 2, numpy=skip("order of the parts")), case(Z(2, 5), 1,
        axis=1, numpy=skip("order of the parts")), case(data(5, "uint8"), -1,
        numpy=skip("order of the parts"))],
    "argpartition": [case(F(6), 2, numpy=skip("order of the parts")), case(Z(2, 5), 4,
        numpy=skip("order of the parts"))],
    "sort_complex": [case(C(4)), case(F(3)), case(Z(3))],
}  # fmt: skip
unique_sized = {"size": 4, "numpy": nan_fill}
numpy_cases |= {
    "unique": [case(Z(8), dynamic=False), case(F(2, 3), dynamic=False),
        case(N(6), dynamic=False), case(Z(8), True, True, True, dynamic=False),
        case(Z(4, 2, high=0), axis=0, dynamic=False), case(F(0), dynamic=False),
        case(N(6), equal_nan=False, dynamic=False), case(Z(8), **unique_sized),
        case(Z(8), True, True, True, **unique_sized), case(Z(3), size=9, fill_value=-7,
        numpy=nan_fill), case(C(4), dynamic=False)],
    "unique_all": [case(Z(2, 4), dynamic=False), case(Z(8), **unique_sized)],
    "unique_counts": [case(Z(8), dynamic=False), case(F(6), **unique_sized)],
    "unique_inverse": [case(Z(2, 4), dynamic=False), case(Z(8), **unique_sized)],
    "unique_values": [case(Z(8), dynamic=False, numpy=np.unique), case(Z(8),
        **unique_sized)],
    "union1d": [case(Z(4), Z(2, 3, seed=1), dynamic=False), case(Z(4), F(3),
        dynamic=False), case(Z(4), Z(5, seed=1), size=9, numpy=nan_fill)],
    "setdiff1d": [case(Z(6), Z(3, seed=1), dynamic=False), case(Z(6), Z(3, seed=1),
        size=4, numpy=nan_fill), case(Z(6), Z(3, seed=1), size=5, fill_value=9,
        numpy=nan_fill)],
    "setxor1d": [case(Z(6), Z(4, seed=1), dynamic=False), case(Z(6), Z(4, seed=1),
        size=3, numpy=nan_fill), case(Z(6), Z(4, seed=1), size=8, fill_value=7,
        numpy=nan_fill), case(Z(6), Z(4, seed=1), size=8, numpy=nan_fill)],
    "intersect1d": [case(Z(6), Z(5, seed=1), dynamic=False), case(Z(6), Z(5, seed=1),
        return_indices=True, dynamic=False), case(Z(6), Z(5, seed=1), size=4,
        numpy=nan_fill), case(Z(6), Z(5, seed=1), size=5, fill_value=9,
        return_indices=True, numpy=nan_fill)],
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
        numpy=skip("another form"), jax="another text")],
    "convolve": [case(F(5), F(3), mode=m) for m in ["full", "same", "valid"]] + [
        case(Z(3), Z(5)), case(C(4), C(2)), case(F(1), F(4))],
    "correlate": [case(F(5), F(3), mode=m) for m in ["full", "same", "valid"]] + [
        case(Z(3), F(5), mode="full"), case(C(4), C(2), mode="full")],
    "interp": [case(F(5), np.array([-2.0, 0.0, 1.0], np.float32), F(3, seed=1)),
        case(Z(4), np.array([0, 1, 4]), F(3)), case(F(5), np.array([-2.0, 0.0, 1.0],
        np.float32), F(3), left=-9.0, right=9.0), case(F(5, high=9), np.array(
        [0.0, 1.0, 3.0], np.float32), F(3), period=4.0), case(F(), np.array(
        [-1.0, 2.0], np.float32), F(2)), case(F(5), np.array([-1.0, 1.0], np.float32),
        F(2), left="extrapolate", right="extrapolate", numpy=nan_fill)],
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
        case(np.float32([0, 1, 2]), F(1), trim_leading_zeros=True, dynamic=False,
        numpy=skip("NumPy always trims"))],
    "polydiv": [case(F(5, low=1), F(2, low=1), numpy=skip("NumPy trims the remainder")),
        case(Z(3, low=1), Z(3, low=1),
        numpy=skip("NumPy keeps leading zeros of the remainder differently"))],
    "polyint": [case(F(3)), case(F(3), 2), case(Z(3), 2, k=F(2)), case(F(3), 0)],
    "polyfit": [case(F(6, seed=1), F(6), 2, tolerance=1e-3), case(F(6, seed=1), F(6, 2),
        1, w=F(6, low=1, seed=2), tolerance=1e-3)],
    "roots": [case(np.float32([1, -6, 11, -6]), dynamic=False), case(np.float32([0, 2,
        4]), dynamic=False), case(np.float32([0, 2, 3, 1]), strip_zeros=False,
        numpy=skip("NumPy leaves out what NaN stands for"))],
    "polyder": [case(F(4)), case(F(4), 2), case(Z(3)), case(F(4), 0)],
    "poly": [*(case(F(3)), case(Z(2)), case(F(0), numpy=lambda x: 1.0)),
             case(F(3, 3), tolerance=1e-5)],
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
numpy_cases["clip"] = [
    case(F(2, 3), -1, 1, numpy=np.clip), case(Z(3), 0, None), case(F(3), F(3), 2.5),
    case(F(3), None, 0.5), case(Z(3), -0.5, 1.5), case(specials, -1, 1), case(Weak(2),
    0, 1),
    case(F(3), min=0.5, numpy=lambda x, min: np.clip(x, min, None)),
]  # fmt: skip

# About dtypes and objects: no arrays come out.
plain = skip("no array comes out")
numpy_cases |= {
    "iscomplexobj": [case(F(2), dynamic=False), case(C(2), dynamic=False), case(1j)],
    "isrealobj": [case(F(2), dynamic=False), case(C(2), dynamic=False)],
    "isscalar": [case(1.5), case(F(2), dynamic=False)],
    "iterable": [case(F(2), dynamic=False), case(1.5)],
    "can_cast": [case("int32", "float64"), case("float32", "int32")],
    "isdtype": [case(np.dtype("int32"), "integral"), case(np.dtype("float32"), "bool")],
    "issubdtype": [case(np.int32, np.integer), case(np.float32, np.integer)],
    "promote_types": [case("int32", "float16", numpy=plain)],
    "result_type": [case(Z(2), F(2), dynamic=False, numpy=plain),
        case(Z(2), 1.5, dynamic=False, numpy=plain)],
    "finfo": [case(np.dtype("float32"), numpy=plain)],
    "iinfo": [case(np.dtype("int8"), numpy=plain)],
    "array_repr": [case(F(2), dynamic=False, numpy=plain, jax="class name")],
    "array_str": [case(F(2), dynamic=False, numpy=plain)],
}  # fmt: skip
no_cases = """
    fromfile fromiter frompyfunc get_printoptions load printoptions save savez
    set_printoptions
""".split()


def high_half(x, y):
    """The upper 32 bits of the products of 32-bit integers."""
    return (x.astype(object) * y.astype(object) // 2**32).astype(x.dtype)


def in_groups(x, kernels, sizes):
    """`lax.ragged_dot`."""
    counts = [*sizes, max(len(x) - sizes.sum(), 0)]
    groups = np.repeat(np.arange(len(counts)), counts)
    return np.stack([
        row @ kernels[g] if g < len(kernels) else 0 * (row @ kernels[0])
        for row, g in zip(x, groups, strict=False)
    ])


# The strict layer below: equal dtypes, equal ranks.
lax_cases = {}


def lax_unary(kinds="f", low=-3, high=3, numpy=None, shapes=((), (0,), (2, 3)), **more):
    """Cases of a lax function of one array of these kinds of dtypes."""
    dtypes = {"f": floats, "i": integers, "b": ["bool"], "c": ["complex64"]}
    names = [d for k in kinds for d in dtypes[k]]
    found = [data((2, 3), name, low, high) for name in names]
    found += [data(shape, names[0], low, high) for shape in shapes[:2]]
    found += [specials] if "f" in kinds else []
    found += [Weak(1.5 if "f" in kinds else 1)]
    return [case(x, numpy=numpy, **more) for x in found]


def lax_binary(kinds="fi", low=-3, high=3, low2=None, numpy=None, **more):
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
    return [case(x, y, numpy=numpy, **more) for x, y in found]  # fmt: skip


def special(name):
    """A function of scipy.special, imported when it is called."""

    def function(*args):
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return function


def slope_of_igamma(a, x):
    """The derivative of the regularised incomplete gamma function by a."""
    from scipy.special import gammainc

    a, x, step = np.float64(a), np.float64(x), 1e-5
    slope = (gammainc(a + step, x) - gammainc(a - step, x)) / (2 * step)
    return slope.astype(np.float32)


def slope_of_gamma_sample(a, x):
    """How a sample of the gamma distribution moves, its share below it kept."""
    from scipy.stats import gamma

    density = gamma.pdf(np.float64(x), np.float64(a))
    return (-slope_of_igamma(a, x) / density).astype(np.float32)


def truncated(x, y):
    """x / y cut towards zero, for integers not dividing by 0."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "f" or y.dtype.kind == "f" or "c" in (x.dtype.kind,
        y.dtype.kind):
        return x / y
    return np.trunc(x / y)


def sign_of(x):
    """NumPy's sign, but of -0.0 it is -0.0."""
    return np.where(x == 0, x, np.sign(x))


for name in "exp log sin cos tanh sqrt tan asin acos atan sinh cosh".split():
    low, high = {"log": (0.25, 5), "sqrt": (0.25, 5), "asin": (-1, 1), "acos": (-1, 1),
        }.get(name, (-2, 2))  # fmt: skip
    arc = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(name, name)
    lax_cases[name] = lax_unary("f", low, high, numpy=getattr(np, arc))
for name in "exp log sin cos tanh sqrt".split():
    lax_cases[name] += [case(C(3, low=0.5))]
lax_cases |= {
    "asinh": lax_unary(numpy=np.arcsinh),
    "acosh": lax_unary(low=1, high=5, numpy=np.arccosh),
    "atanh": lax_unary(low=-0.75, high=0.75, numpy=np.arctanh),
    "exp2": lax_unary(), "expm1": lax_unary(), "log1p": lax_unary(low=-0.5),
    "cbrt": lax_unary(low=0.25), "floor": lax_unary(), "ceil": lax_unary(),
    "erf": lax_unary(numpy=special("erf")), "erfc": lax_unary(numpy=special("erfc")),
    "erf_inv": lax_unary(low=-0.75, high=0.75, numpy=special("erfinv")),
    "lgamma": [case(x, numpy=special("gammaln")) for x in (F(2, 3, low=0.25), F(low=1),
        specials[:5])],
    "digamma": [case(x, numpy=special("digamma")) for x in (F(2, 3, low=0.25), F())],
    "logistic": lax_unary(numpy=special("expit")),
    "bessel_i0e": lax_unary(numpy=special("i0e")),
    "bessel_i1e": lax_unary(numpy=special("i1e")),
    "rsqrt": lax_unary(low=0.25, high=5, numpy=lambda x: 1 / np.sqrt(x)),
    "reciprocal": lax_unary(low=0.25, high=5, numpy=lambda x: 1 / x),
    "square": lax_unary("fic"), "is_finite": lax_unary(numpy=np.isfinite),
    "neg": lax_unary("fic", numpy=np.negative), "abs": lax_unary("fc"),
    "sign": lax_unary("fi", numpy=sign_of),
    "round": [case(x, mode, numpy=lambda x, m: np.round(x) if m else np.trunc(
        x + np.copysign(0.5, x))) for x in (F(2, 3), specials) for mode in (0, 1)],
    "bitwise_not": lax_unary("ib"), "real": [case(C(2, 3)), case(C())],
    "imag": [case(C(2, 3))], "conj": [case(C(2, 3)), case(C(0))],
    "complex": [case(F(3), F(3, seed=1), numpy=lambda x, y: x + 1j * y)],
    "population_count": lax_unary("i", low=0, numpy=np.bitwise_count),
    "clz": [case(data(3, d, 0, 9), numpy=skip("NumPy has no clz")) for d in integers],
    "integer_pow": [case(F(3, low=0.5), n, numpy=np.power) for n in (0, 1, 2, 3, -1,
        -2)]
        + [case(Z(3), 3, numpy=np.power), case(C(3), 2, numpy=np.power)],
    "reduce_precision": [case(F(2, 3, step=0.3), 5, 10, numpy=lambda x, e, m: x.astype(
        np.float32).astype(np.float16)), case(F(2, 3, step=0.3), exponent_bits=8,
        mantissa_bits=7, numpy=lambda x, **_: x.astype(np.float32).astype(bfloat16))],
    "convert_element_type": [case(F(2, 3), d, numpy=lambda x, d: x.astype(d)) for d in
        ["int32", "float16", "bool", "complex64", "int8"]] + [case(Z(2, 3), "uint8",
        numpy=lambda x, d: x.astype(d)), case(B(3), "float32",
        numpy=lambda x, d: x.astype(d)), case(specials, "int32",
        numpy=skip("NumPy does not define it"))],
    "bitcast_convert_type": [case(F(2, 3), np.dtype("int32"),
        numpy=lambda x, d: x.astype(np.float32).view(d)), case(Z(2), np.dtype("uint8"),
        numpy=lambda x, d: x.view(d).reshape(2, 4)), case(data((2, 4), "uint8"),
        np.dtype("int32"), numpy=lambda x, d: x.view(d)[:, 0])],
}  # fmt: skip
for name, other in [("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
    ("max", "maximum"), ("min", "minimum")]:  # fmt: skip
    kinds = "fib" if name in ("max", "min") else "fic"
    lax_cases[name] = lax_binary(kinds, numpy=getattr(np, other))
for name, other in [("eq", "equal"), ("ne", "not_equal"), ("lt", "less"),
    ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal")]:  # fmt: skip
    lax_cases[name] = lax_binary("fib", numpy=getattr(np, other))
for name in "and or xor".split():
    lax_cases[f"bitwise_{name}"] = lax_binary("ib")
lax_zero = case(np.array([5, -5, 0], np.int32), np.zeros(3, np.int32),
    numpy=skip("JAX has its own result for x / 0"))  # fmt: skip
lax_cases |= {
    "div": lax_binary("fic", low2=1, numpy=truncated) + [lax_zero],
    "rem": lax_binary("fi", low2=1, numpy=np.fmod) + [lax_zero],
    "pow": [case(F(2, 3, low=0.5), F(2, 3, seed=1), numpy=np.power), case(F(3), Z(3,
        low=0),
        numpy=np.power), case(F(3, low=0.5), 2.5, numpy=np.power), case(F(3), 2,
        numpy=np.power), case(specials, specials[::-1].copy(), numpy=np.power)],
    "atan2": [case(F(2, 3), F(2, 3, seed=1), numpy=np.arctan2), case(F(), F(3),
        numpy=np.arctan2), case(specials, specials[::-1].copy(), numpy=np.arctan2)],
    "nextafter": [case(F(3), F(3, seed=1), numpy=lambda x, y: np.nextafter(
        np.float32(x), np.float32(y)))],
    "igamma": [case(F(3, low=0.5), F(3, low=0.5, seed=1), numpy=special("gammainc"))],
    "igamma_grad_a": [case(F(3, low=0.5), F(3, low=0.5, seed=1), numpy=slope_of_igamma,
        tolerance=1e-4)],
    "random_gamma_grad": [case(F(3, low=0.5), F(3, low=0.5, seed=1),
        numpy=slope_of_gamma_sample, tolerance=1e-4)],
    "igammac": [case(F(3, low=0.5), F(3, low=0.5, seed=1), numpy=special("gammaincc"))],
    "betainc": [case(F(3, low=0.5), F(3, low=0.5, seed=1), F(3, low=0.25, high=0.75,
        seed=2), numpy=special("betainc"))],
    "zeta": [case(F(3, low=1.5, high=5), F(3, low=0.5, seed=1), numpy=special("zeta"))],
    "polygamma": [case(np.array([1.0, 2.0], np.float32), F(2, low=0.5),
        numpy=lambda m, x: special("polygamma")(m.astype(int), x))],
    "shift_left": lax_binary("i", low=0, numpy=np.left_shift) + [shift_edges],
    "shift_right_arithmetic": lax_binary("i", low=0, numpy=np.right_shift)
        + [shift_edges],
    "shift_right_logical": lax_binary("i", low=0, numpy=np.right_shift) + [shift_edges],
    "clamp": [case(F(), F(2, 3), F(seed=1, low=1),
        numpy=lambda a, x, b: np.clip(x, a, b)), case(-1, Z(5), 1,
        numpy=lambda a, x, b: np.clip(x, a, b)), case(-1.0, specials, 1.0,
        numpy=lambda a, x, b: np.clip(x, a, b)), case(F(3), F(3, seed=1), F(3, seed=2),
        numpy=lambda a, x, b: np.minimum(np.maximum(a, x), b))],
    "select": [case(B(2, 3), F(2, 3), F(2, 3, seed=1), numpy=np.where), case(B(), F(3),
        F(3, seed=1), numpy=np.where)],
    "select_n": [case(B(2, 3), F(2, 3), F(2, 3, seed=1), numpy=lambda c, x, y: np.where(
        c, y, x)), case(Z(3, low=0, high=2), Z(3), Z(3, seed=1), Z(3, seed=2),
        numpy=lambda c, *xs: np.choose(c, xs))],
}  # fmt: skip

axes_of = [((2, 3), (0,)), ((2, 3), (0, 1)), ((2, 3, 4), (2, 0)), ((0, 3), (0,)), ((),
    ())]


def lax_reduction(kinds, numpy, empty=True):
    """Cases of a reduction of lax: an array and axes."""
    dtypes = {"f": floats, "i": integers, "b": ["bool"], "c": ["complex64"]}
    names = [d for k in kinds for d in dtypes[k]]
    found = [(data((2, 3), name), (1,)) for name in names]
    found += [(data(s, names[0]), axes) for s, axes in axes_of if empty or 0 not in s]
    return [case(x, a, numpy=lambda x, a: numpy(x, axis=tuple(a))) for x, a in found]


def wrapped(function):
    """A NumPy reduction that keeps integers as narrow as they are."""

    def reduction(x, axis):
        result = function(x, axis=axis)
        return result.astype(x.dtype) if x.dtype.kind in "iu" else result

    return reduction


lax_cases |= {
    "reduce_sum": lax_reduction("fic", wrapped(np.sum)),
    "reduce_prod": lax_reduction("fic", wrapped(np.prod)),
    "reduce_max": lax_reduction("fib", np.max, empty=False),
    "reduce_min": lax_reduction("fib", np.min, empty=False),
    "reduce_and": lax_reduction("ib", np.bitwise_and.reduce),
    "reduce_or": lax_reduction("ib", np.bitwise_or.reduce),
    "reduce_xor": lax_reduction("ib", np.bitwise_xor.reduce),
    "argmax": [case(data((2, 3), d), axis, np.dtype("int32"), numpy=lambda x, a, d:
        np.argmax(x, a)) for d in [*floats, "int32", "bool"] for axis in (0, 1)],
    "argmin": [case(data((2, 3), d), axis, np.dtype("int32"), numpy=lambda x, a, d:
        np.argmin(x, a)) for d in [*floats, "int32", "bool"] for axis in (0, 1)],
    "reduce": [case(F(2, 3), 0.0, OfLax("add"), (0,),
        numpy=lambda x, i, f, a: x.sum(a)), case(F(2, 3), -np.inf, OfLax("max"), (0, 1),
        numpy=lambda x, i, f, a: x.max(a))],
    "cumsum": [case(data((2, 3), d), a, numpy=lambda x, a: np.cumsum(x, a, x.dtype))
        for d in ["float32", "int32", "int8"] for a in (0, 1)] + [case(F(4), 0,
        reverse=True, numpy=lambda x, a, reverse: np.cumsum(x[::-1])[::-1])],
    "cumprod": [case(data((2, 3), d), a, numpy=lambda x, a: np.cumprod(x, a, x.dtype))
        for d in ["float32", "int32"] for a in (0, 1)],
    "cummax": [case(data((2, 3), d), 1, numpy=np.maximum.accumulate) for d in
        ["float32", "int32"]] + [case(specials, 0, numpy=np.maximum.accumulate)],
    "cummin": [case(data((2, 3), d), 1, numpy=np.minimum.accumulate) for d in
        ["float32", "int32"]],
    "cumlogsumexp": [case(F(2, 3), 1, numpy=np.logaddexp.accumulate)],
}  # fmt: skip


def at(x, starts, sizes):
    """A window of x, moved inside where it does not fit."""
    starts = [int(np.clip(s + n * (s < 0), 0, n - k)) for s, n, k in zip(
        starts, x.shape, sizes, strict=True)]  # fmt: skip
    return tuple(slice(s, s + k) for s, k in zip(starts, sizes, strict=True))


def put_at(x, update, starts):
    """x with a window replaced."""
    x = x.copy()
    x[at(x, starts, update.shape)] = update
    return x


def padded(x, value, config):
    """`lax.pad` by hand: negative widths cut, and elements are moved apart."""
    for axis, (low, high, inside) in enumerate(config):
        n = x.shape[axis] + max(x.shape[axis] - 1, 0) * inside
        wide = np.full([n if i == axis else s for i, s in enumerate(x.shape)], value)
        wide[(slice(None),) * axis + (slice(None, None, inside + 1),)] = x
        more = [(max(low, 0), max(high, 0)) if i == axis else (0,
            0) for i in range(x.ndim)]
        wide = np.pad(wide, more, constant_values=value)
        cut = slice(max(-low, 0), wide.shape[axis] - max(-high, 0))
        x = wide[(slice(None),) * axis + (cut,)]
    return x


lax_cases |= {
    "broadcast": [case(x, sizes, numpy=lambda x, s: np.broadcast_to(x, (*s, *x.shape)))
        for x, sizes in [(F(3), (2,)), (F(), (0, 2)), (Weak(1), (2,)), (F(2), ())]],
    "broadcast_in_dim": [case(F(3), (2, 3), (1,),
        numpy=lambda x, s, d: np.broadcast_to(x, s)), case(F(2), (2, 3), (0,),
        numpy=lambda x, s, d: np.broadcast_to(x[:, None], s)), case(F(), (2,), (),
        numpy=lambda x, s, d: np.broadcast_to(x, s)), case(F(1, 3), (2, 3), (0, 1),
        numpy=lambda x, s, d: np.broadcast_to(x, s))],
    "broadcast_shapes": [case((2, 1), (1, 3), numpy=np.broadcast_shapes), case((), (2,),
        numpy=np.broadcast_shapes)],
    "broadcast_to_rank": [case(F(3), 2, numpy=lambda x, r: x[None])],
    "broadcasted_iota": [case(np.dtype("int32"), (2, 3), 1, numpy=lambda d, s, i:
        np.indices(s)[i]), case(np.dtype("float32"), (2, 3), 0, numpy=lambda d, s, i:
        np.indices(s)[i])],
    "iota": [case(np.dtype("int32"), 4, numpy=lambda d, n: np.arange(n, dtype=d)),
        case(np.dtype("float32"), 0, numpy=lambda d, n: np.arange(n, dtype=d))],
    "full": [case((2, 3), 1.5), case((), 2), case((2,), 2, np.dtype("float16"))],
    "full_like": [case(F(2, 3), 1.5), case(Z(2), 2.0), case(F(2), 1, np.dtype("int32"),
        numpy=lambda x, v, d: np.full_like(x, v, d)), case(Weak(1), 3)],
    "expand_dims": [case(F(2, 3), (0, 2)), case(F(3), (1,)), case(F(), (0, 1))],
    "squeeze": [case(F(1, 3, 1), (0, 2)), case(F(1, 3), (-2,)), case(F(2), ())],
    "reshape": [case(F(2, 3), (3, 2)), case(F(0, 2), (2, 0)), case(F(2, 3), (3, 2),
        (1, 0), numpy=lambda x, s, d: x.transpose(d).reshape(s)), case(Z(), (1,))],
    "collapse": [case(F(2, 3, 4), 0, 2, numpy=lambda x, i, j: x.reshape(6, 4)),
        case(F(2, 3, 4), 1, numpy=lambda x, i: x.reshape(2, 12))],
    "transpose": [case(F(2, 3), (1, 0)), case(F(2, 3, 4), (2, 0, 1)), case(F(), ())],
    "rev": [case(F(2, 3), (0,), numpy=np.flip), case(F(2, 3), (0, 1), numpy=np.flip),
        case(F(0), (0,), numpy=np.flip)],
    "slice": [case(F(5), (1,), (4,), numpy=lambda x, a, b: x[a[0]:b[0]]), case(F(4, 5),
        (0, 1), (4, 5), (2, 3), numpy=lambda x, a, b, s: x[0:4:2, 1:5:3]), case(F(3),
        (1,), (1,), numpy=lambda x, a, b: x[1:1])],
    "slice_in_dim": [case(F(2, 5), 1, 4, axis=1, numpy=lambda x, a, b, axis: x[:, 1:4]),
        case(F(5), 0, 5, 2, numpy=lambda x, a, b, s: x[::2]), case(F(5), -3, None,
        numpy=lambda x, a, b: x[-3:])],
    "index_in_dim": [case(F(2, 3), 1, axis=1, numpy=lambda x, i, axis: x[:, 1:2]), case(
        F(2, 3), -1, keepdims=False, numpy=lambda x, i, keepdims: x[-1])],
    "dynamic_slice": [case(F(5), (Z(low=0),), (2,),
        numpy=lambda x, i, s: x[at(x, i, s)]), case(F(3, 4), [np.int32(2) + Z() * 0, 9],
        (2, 2), numpy=lambda x, i, s: x[at(x, i, s)]), case(F(5), (np.array(-2),), (3,),
        numpy=lambda x, i, s: x[at(x, i, s)])],
    "dynamic_slice_in_dim": [case(F(2, 5), np.array(1), 3, axis=1,
        numpy=lambda x, i, n, axis: x[:, 1:4])],
    "dynamic_index_in_dim": [case(F(3, 2), np.array(1), numpy=lambda x, i: x[1:2]),
        case(F(3, 2), np.array(1), 1, False, numpy=lambda x, i, a, k: x[:, 1])],
    "dynamic_update_slice": [case(F(5), F(2, seed=1), (np.array(1),), numpy=put_at),
        case(F(3, 4), F(2, 2, seed=1), (np.array(9), np.array(0)), numpy=put_at)],
    "dynamic_update_slice_in_dim": [case(F(5), F(2, seed=1), np.array(1), 0,
        numpy=lambda x, u, i, a: put_at(x, u, [i]))],
    "dynamic_update_index_in_dim": [case(F(3, 2), F(2, seed=1), np.array(1), 0,
        numpy=lambda x, u, i, a: put_at(x, u[None], [i, 0]))],
    "pad": [case(F(3), F(), [(1, 2, 0)], numpy=padded), case(F(2, 3), F(),
        [(0, 1, 2), (-1, 0, 1)], numpy=padded), case(Z(4), 7, [(-1, -2, 0)],
        numpy=padded), case(F(0), F(), [(1, 1, 1)], numpy=padded)],
    "concatenate": [case([F(2, 3), F(1, 3)], 0), case((Z(2), Z(0), Z(1)), 0),
        case([F(2, 1), F(2, 2)], 1)],
    "stack": [case([F(2), F(2)], axis=0)], "unstack": [case(F(2, 3), axis=1)],
    "split": [case(F(5), (2, 3), numpy=lambda x, s: np.split(x, [2])), case(F(2, 4),
        (1, 3), 1, numpy=lambda x, s, a: np.split(x, [1], a))],
    "tile": [case(F(2, 3), (2, 1))],
    "sort": [case(data((2, 4), d), numpy=np.sort) for d in [*floats, "int32",
        "bool"]] + [
        case(F(3, 2), dimension=0, numpy=lambda x, dimension: np.sort(x, dimension)),
        case((Z(5), F(5)), num_keys=1, numpy=lambda xs, num_keys: tuple(x[np.argsort(
        xs[0], kind="stable")] for x in xs)), case((Z(5), Z(5, seed=1)), num_keys=2,
        numpy=lambda xs, num_keys: tuple(x[np.lexsort(xs[::-1])] for x in xs)),
        case(specials, numpy=np.sort)],
    "sort_key_val": [case(Z(5), F(5), numpy=lambda k, v: (np.sort(k), v[np.argsort(k,
        kind="stable")]))],
    "top_k": [case(F(2, 5), 3, numpy=lambda x, k: (np.sort(x)[:, ::-1][:, :3],
        np.argsort(-x, axis=-1, kind="stable")[:, :3])), case(Z(4), 0,
        numpy=lambda x, k: (x[:0], x[:0]))],
    "approx_max_k": [case(F(2, 5), 3, numpy=lambda x, k: (np.sort(x)[:, ::-1][:, :3],
        np.argsort(-x, axis=-1, kind="stable")[:, :3]))],
    "approx_min_k": [case(F(2, 5), 2, numpy=lambda x, k: (np.sort(x)[:, :2],
        np.argsort(x, axis=-1, kind="stable")[:, :2]))],
    "dot": [case(F(3), F(3)), case(F(2, 3), F(3, 2)), case(F(2, 3), F(3))],
    "batch_matmul": [case(F(2, 2, 3), F(2, 3, 4), numpy=np.matmul)],
    "dot_general": [case(F(2, 3), F(3, 4), (((1,), (0,)), ((), ())),
        numpy=lambda x, y, d: x @ y), case(F(5, 2, 3), F(5, 4, 3),
        (((2,), (2,)), ((0,), (0,))),
        numpy=lambda x, y, d: np.einsum("bij,bkj->bik", x, y)), case(F(2), F(3),
        (((), ()), ((), ())), numpy=lambda x, y, d: np.outer(x, y)), case(Z(2, 3), Z(3),
        (((1,), (0,)), ((), ())), numpy=lambda x, y, d: x @ y),
        case(data((2, 3), "bfloat16"), data((3, 2), "bfloat16"),
        (((1,), (0,)), ((), ())), preferred_element_type=np.dtype("float32"),
        numpy=lambda x, y, d, **_: x @ y), case(F(2, 0), F(0, 3),
        (((1,), (0,)), ((), ())), numpy=lambda x, y, d: x @ y)],
}  # fmt: skip


def correlated(x, w, strides=(1,), low=0, high=0):
    """A convolution of [n, c, length] with [out, c, width], by hand."""
    x = np.pad(x, ((0, 0), (0, 0), (low, high)))
    places = range(0, x.shape[2] - w.shape[2] + 1, strides[0])
    return np.stack([np.einsum("ncw,ocw->no", x[:, :, i:i + w.shape[2]], w)
        for i in places], -1)  # fmt: skip


lax_cases |= {
    "conv": [case(F(2, 3, 6), F(4, 3, 2, seed=1), (1,), "VALID", numpy=lambda x, w, s,
        p:
        correlated(x, w, s)), case(F(2, 3, 7), F(4, 3, 2, seed=1), (2,), "VALID",
        numpy=lambda x, w, s, p: correlated(x, w, s)), case(F(1, 1, 5), F(1, 1, 3,
        seed=1),
        (1,), "SAME", numpy=lambda x, w, s, p: correlated(x, w, s, 1, 1))],
    "conv_general_dilated": [case(F(2, 3, 6), F(4, 3, 2, seed=1), (1,), [(1, 0)],
        numpy=lambda x, w, s, p: correlated(x, w, s, 1, 0)), case(F(1, 2, 4, 4),
        F(3, 2, 2, 2, seed=1), (1, 2), "SAME", numpy=skip("too long by hand")),
        case(F(1, 4, 5), F(2, 2, 3, seed=1), (1,), "VALID", feature_group_count=2,
        numpy=skip("by hand")), case(F(1, 2, 5), F(2, 2, 2, seed=1), (1,), "VALID",
        rhs_dilation=(2,), numpy=skip("too long by hand")), case(F(1, 5, 2),
        F(3, 2, 4, seed=1), (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"),
        numpy=skip("too long by hand"))],
    "conv_with_general_padding": [case(F(1, 2, 5), F(2, 2, 2, seed=1), (1,), [(1, 0)],
        (1,), (1,), numpy=lambda x, w, s, p, *_: correlated(x, w, s, 1, 0))],
    "conv_general_dilated_patches": [case(F(1, 2, 5), (2,), (1,), "VALID",
        numpy=skip("by hand"))],
    "conv_general_dilated_local": [case(F(1, 2, 5), F(3, 4, 4, seed=1), (1,), "VALID",
        (2,), numpy=skip("by hand"))],
    "mulhi": [case(data(9, d, -2e9, 4e9), data(9, d, -2e9, 4e9, seed=1),
        numpy=high_half) for d in ("int32", "uint32")],
    "broadcast_like": [case(F(3), F(2, 3),
        numpy=lambda x, y: np.broadcast_to(x, y.shape))],
    "empty": [case((2, 3), np.float32, numpy=lambda s, d: np.zeros(s, d))],
    "ragged_dot": [case(F(5, 2), F(3, 2, 4), Z(3, low=0, high=2), numpy=in_groups)],
    "conv_transpose": [case(F(1, 5, 2), F(3, 2, 4, seed=1), (2,), "SAME",
        dimension_numbers=("NWC", "WIO", "NWC"), numpy=skip("too long by hand"))],
    "reduce_window": [case(F(6), 0.0, OfLax("add"), (3,), (1,), "VALID",
        numpy=lambda x, *_: np.stack([x[k : k + 3].sum() for k in range(4)])),
        case(F(4, 4), -np.inf, OfLax("max"), (2, 2), (2, 2), "VALID",
        numpy=lambda x, *_: x.reshape(2, 2, 2, 2).max((1, 3))),
        case(F(5), 1.0, OfLax("mul"), (2,), (2,), "SAME", numpy=skip("by hand"))],
}  # fmt: skip


def gather_numbers(**fields):
    """The library's own GatherDimensionNumbers."""
    return OfLax(lambda lax: lax.GatherDimensionNumbers(**fields))


def scatter_numbers(**fields):
    """The library's own ScatterDimensionNumbers."""
    return OfLax(lambda lax: lax.ScatterDimensionNumbers(**fields))


rows_of = gather_numbers(
    offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
)
into_rows = scatter_numbers(
    update_window_dims=(1,), inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,)
)
into_vector = scatter_numbers(
    update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
some_rows = np.array([[2], [0], [2]], np.int32)


def scattered(operation):
    """What a scatter into rows gives, by `ufunc.at`."""

    def function(x, i, u, *_, **__):
        x = x.copy()
        inside = i[:, 0] < x.shape[0]
        operation.at(x, i[inside, 0], u[inside])
        return x

    return function


def scatter_cases(operation):
    """Cases of a scatter: rows, single elements, and an index out of bounds."""
    reference = scattered(operation) if operation else skip("the last one wins")
    return [
        case(x, i, u, dims, numpy=reference)
        for x, i, u, dims in [
            (F(4, 3), some_rows, F(3, 3, seed=1), into_rows),
            (Z(5), some_rows, Z(3, seed=1), into_vector),
            (F(5), np.array([[1], [9]], np.int32), F(2, seed=1), into_vector),
            (F(4), np.zeros((0, 1), np.int32), F(0), into_vector),
        ]
    ]


lax_cases |= {
    "gather": [case(F(4, 3), some_rows, rows_of, (1, 3),
        numpy=lambda x, i, *_: x[i[:, 0]]), case(Z(4, 3), some_rows, rows_of, (1, 2),
        numpy=lambda x, i, *_: x[i[:, 0], :2]), case(F(2, 3), some_rows, rows_of,
        (1, 3), mode="clip", numpy=lambda x, i, *_, **__: x[np.clip(i[:, 0], 0, 1)]),
        case(F(2, 3), some_rows, rows_of, (1, 3), mode="fill", numpy=skip("fills")),],
    "scatter": scatter_cases(None)[2:],
    "scatter_add": scatter_cases(np.add),
    "scatter_sub": scatter_cases(np.subtract),
    "scatter_mul": scatter_cases(np.multiply),
    "scatter_min": scatter_cases(np.minimum),
    "scatter_max": scatter_cases(np.maximum),
    "conv_dimension_numbers": [case((1, 2, 5), (2, 2, 3), ("NCW", "OIW", "NCW"),
        numpy=skip("no array comes out"), jax="another class")],
    "conv_general_permutations": [case(("NWC", "WIO", "NWC"),
        numpy=skip("no array comes out"))],
    "padtype_to_pads": [case((5,), (3,), (1,), "SAME",
        numpy=skip("no array comes out"))],
}  # fmt: skip
