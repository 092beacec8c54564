"""Keys of random numbers, and the hash that makes bits out of them.

A key is two 32-bit words.  It has no state: what is drawn from one is a function of
the key alone, so that who draws more gets a new key, by `split` or by `fold_in`.

    data = seed(0)                     # u32[2]: what `random.PRNGKey(0)` returns
    split(data, (3,))                  # u32[3,2]: three new keys
    bits(data, 32, (4,))               # u32[4]
    wrap_keys(data)                    # key<fry>[]: what `random.key(0)` returns

All of it is one hash, threefry2x32, of a key and a count: two words each, and two
words come out.  The words a key gives at the counts 0, 1, 2, ... are its children
(`split`), or its random bits (`bits`).  Each is a function of its own index, so any
part of an array of random numbers can be computed apart from the rest.

The functions of this module work on raw words, u32[..., 2].  Users mostly hold them
as elements of a dtype of its own, `key<fry>`, so that nobody adds 1 to a key, and a
batch of keys has the shape of the batch.  Two primitives lead from words to keys and
back; for everything else that moves elements around, keys are elements like others.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.api.calls import ELEMENTS
from ..trace.array import (
    ArrayImpl, ShapedArray, array_classes, aval_of, on_numpy, shape_rules,
)
from ..trace.base.config import config
from ..trace.base.errors import HERE, user_level
from ..trace.core import Primitive, eval_rules
from ..trace.jaxprs import parser as jaxpr_parser
from ..trace.plans import worth
from ..trace.shape_checks import check_kind
from ..trace.slicing import index_in_dim
from ..transform.batching.vmap import (
    batch_rules, elementwise as batch_elementwise, in_front,
)
from ..transform.derivatives.linearize import constant, linearize_rules
from . import bits as bit_ops

threefry2x32_p = Primitive("threefry2x32")

config.define(
    "threefry_partitionable",
    True,
    "each random word depends on its own index only, as in JAX since version 0.5",
    changes_traces=True,
)
config.define(
    "default_prng_impl", "threefry2x32", "what makes keys without `impl`",
    changes_traces=True,
)
config.define(
    "legacy_prng_key", "allow",
    "raw words in the place of a key: take them (allow), warn or raise (error)",
    changes_traces=True, allowed=("allow", "warn", "error"),
)
config.define(
    "enable_custom_prng", False, "random.PRNGKey makes typed keys too",
    changes_traces=True,
)

PARITY = 0x1BD11BDA
ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
UINT32 = np.dtype("uint32")


def threefry2x32(key, count, add, xor, rotate, constant):
    """The hash: two words of a key and two of a count -> two words.

    What a word is, the four functions say that work on it: NumPy arrays here,
    expressions of a kernel in `compile.lower.transforms`.  20 rounds, and every four
    of them words of the key are added (Salmon et al., Parallel random numbers: as
    easy as 1, 2, 3, 2011).
    """
    keys = *key, xor(xor(*key), constant(PARITY))
    x, y = add(count[0], keys[0]), add(count[1], keys[1])
    for i in range(5):
        for distance in ROTATIONS[i % 2]:
            x = add(x, y)
            y = xor(x, rotate(y, distance))
        x = add(x, keys[(i + 1) % 3])
        y = add(y, add(keys[(i + 2) % 3], constant(i + 1)))
    return x, y


def rotate_values(x, distance):
    return x << np.uint32(distance) | x >> np.uint32(32 - distance)


# So many elements at once: what the rounds leave behind stays in the cache.
BLOCK = 8192


def hash_values(*words):
    """The hash on NumPy arrays: k1, k2, x1, x2 -> both words, on a new last axis."""
    how = np.add, np.bitwise_xor, rotate_values, np.uint32
    shape = np.broadcast_shapes(*(x.shape for x in words))
    flat = [np.broadcast_to(x, shape).ravel() if x.shape else x for x in words]
    out = np.empty((math.prod(shape), 2), UINT32)
    for start in range(0, len(out), BLOCK):
        part = slice(start, start + BLOCK)
        k1, k2, x1, x2 = (x[part] if x.shape else x for x in flat)
        out[part, 0], out[part, 1] = threefry2x32((k1, k2), (x1, x2), *how)
    return out.reshape(*shape, 2)


def hash_shape(*words):
    """u32 words of equal ranks, or scalars; the result has an axis of two more."""
    for i, aval in enumerate(words):
        check_kind("threefry2x32", aval.dtype, (np.uint32,), f" at position {i}")
    return ShapedArray((*lax.joint_shape("threefry2x32", words), 2), UINT32)


shape_rules |= {threefry2x32_p: hash_shape}
eval_rules |= on_numpy({threefry2x32_p: hash_values})
# Each round takes NumPy as long as a primitive does.
worth |= {threefry2x32_p: lambda words: 20 * (ELEMENTS + words.size)}
linearize_rules |= constant(threefry2x32_p)
batch_rules |= batch_elementwise(threefry2x32_p)


def word(x, i):
    """Word 0 or 1 of a key, or of an array of hashes."""
    return index_in_dim(x, i, -1, keepdims=False)


def hash_counts(data, shape):
    """The hashes of 0, 1, 2, ... by one key, as an array: u32[*shape, 2]."""
    size = math.prod(shape)
    if size > 2**32:
        raise NotImplementedError(
            f"random numbers of shape {shape}: more than 2 ** 32 from one key"
        )
    count = np.zeros((), UINT32)
    if shape:
        count = lax.reshape(lax.iota(UINT32, size), shape)
    high = np.zeros((), UINT32)
    return threefry2x32_p.bind(word(data, 0), word(data, 1), high, count)


def threefry_seed(value):
    """The key of an integer, which may be traced: its 64 bits, or 32 with a zero.

    Raises TypeError for what is no integer scalar, OverflowError beyond 64 bits.
    """
    if isinstance(value, int):
        return seed_of_int(value)
    aval = aval_of(value)
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"PRNG key seed must be an integer; got {value!r}")
    high = np.zeros((), UINT32)
    if aval.dtype.itemsize == 8:
        shift = np.asarray(32, aval.dtype)
        high = lax.convert(bit_ops.shift_right_logical(value, shift), UINT32)
    low = lax.convert(value, UINT32)
    return lax.concatenate([lax.reshape(high, (1,)), lax.reshape(low, (1,))], 0)


def seed_of_int(value):
    """The key of a Python int; without `enable_x64` its lower 32 bits count."""
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"Python int too large to convert to C long: {value}")
    wide = dtypes.canonicalize_dtype("int64").itemsize == 8
    high = (value >> 32) & 0xFFFFFFFF if wide else 0
    return lax.as_array(np.array([high, value & 0xFFFFFFFF], UINT32))


def threefry_fold_in(data, value):
    """A new key out of a key and a number, a scalar."""
    number = lax.convert(value, UINT32)
    high = np.zeros((), UINT32)
    return threefry2x32_p.bind(word(data, 0), word(data, 1), high, number)


def threefry_split(data, shape):
    """New keys out of one: u32[*shape, 2]."""
    if not config.threefry_partitionable:
        return lax.reshape(hash_halves(data, 2 * math.prod(shape)), (*shape, 2))
    return hash_counts(data, shape)


def hash_halves(data, size):
    """The older way to words, u32[size]: of the numbers 0 to size - 1, one from the
    first half and one from the second are the two words of a count."""
    if not 0 < size < 2**32 - 1:
        if size == 0:
            return lax.full((0,), 0, UINT32)
        raise NotImplementedError(f"{size} random words from one key")
    count, half = lax.iota(UINT32, size), (size + 1) // 2
    first, second = lax.slice(count, (0,), (half,)), lax.slice(count, (half,), (size,))
    if size % 2:
        second = lax.concatenate([second, lax.full((1,), 0, UINT32)], 0)
    words = threefry2x32_p.bind(word(data, 0), word(data, 1), first, second)
    flat = lax.reshape(lax.transpose(words, (1, 0)), (2 * half,))
    return lax.slice(flat, (0,), (size,))


def bits_of_halves(data, width, shape):
    """Random bits the older way: words cut to pieces, or two put together."""
    size, dtype = math.prod(shape), np.dtype(f"uint{width}")
    words = hash_halves(data, -(-size * width // 32))
    if width == 64:
        high, low = (
            lax.convert(lax.slice(words, (start,), (start + size,)), dtype)
            for start in (0, size)
        )
        words = lax.bitwise_or(bit_ops.shift_left(high, np.asarray(32, dtype)), low)
    elif width < 32:
        pieces = bit_ops.bitcast_convert_type(words, dtype)
        words = lax.slice(lax.reshape(pieces, (pieces.size,)), (0,), (size,))
    return lax.reshape(words, shape)


def threefry_bits(data, width, shape):
    """Random bits in unsigned integers of `width` bits: 8, 16, 32 or 64."""
    if width not in (8, 16, 32, 64):
        raise TypeError("requires 8-, 16-, 32- or 64-bit field width.")
    if not config.threefry_partitionable:
        return bits_of_halves(data, width, shape)
    words = hash_counts(data, shape)
    dtype = np.dtype(f"uint{width}")
    if width < 64:
        return lax.convert(lax.bitwise_xor(word(words, 0), word(words, 1)), dtype)
    high, low = lax.convert(word(words, 0), dtype), lax.convert(word(words, 1), dtype)
    return lax.bitwise_or(bit_ops.shift_left(high, np.asarray(32, dtype)), low)


class prng_key(dtypes.extended):
    """The class of the dtypes of keys: `issubdtype(key.dtype, dtypes.prng_key)`."""


@dataclass(frozen=True, repr=False)
class PRNGImpl:
    """A way to make keys and bits: what `random.key(0, impl=...)` chooses.

    Attributes: functions of words, u32[*key_shape].
      seed: of an integer scalar.
      split: (words, shape) -> u32[*shape, *key_shape].
      random_bits: (words, width, shape) -> unsigned integers of that width.
      fold_in: (words, a uint32 scalar) -> words.
      name, tag: in full, and as dtypes show it.
    """

    key_shape: tuple
    seed: Callable
    split: Callable
    random_bits: Callable
    fold_in: Callable
    name: str = "<unnamed>"
    tag: str = "?"

    def __repr__(self):
        return self.tag


class KeyType(dtypes.ExtendedDtype):
    """The dtype of the keys of an implementation: `key<fry>` is threefry2x32's.

    In memory a key is its words, one after the other, in one element of NumPy's.
    """

    type = prng_key

    def __init__(self, impl):
        self.impl, self.name = impl, f"key<{impl.tag}>"
        self.storage = storages[impl.key_shape]

    def __eq__(self, other):
        return type(other) is KeyType and other.impl == self.impl

    def __hash__(self):
        return hash(self.impl)


# NumPy's dtypes that have as many bits as the words of a key.  Of complex numbers
# nothing is used but that there are 128 of them.
storages = {(1,): UINT32, (2,): np.dtype("uint64"), (4,): np.dtype("complex128")}

# {name: the dtype of keys} of the implementations, and their tags.
key_types: dict = {}


def add_prng(impl):
    """Make an implementation known by its name; -> the dtype of its keys."""
    key_types[impl.name] = key_type = KeyType(impl)
    jaxpr_parser.aval_parsers[key_type.name] = lambda inside: ShapedArray(
        tuple(int(n) for n in inside.split(",") if n), key_type
    )
    jaxpr_parser.long_names[impl.tag] = impl
    return key_type


def is_key(x):
    """Whether x is an array of keys: one of dtype `key<fry>`."""
    return isinstance(getattr(x, "dtype", None), KeyType)


threefry_prng_impl = PRNGImpl(
    (2,), threefry_seed, threefry_split, threefry_bits, threefry_fold_in,
    "threefry2x32", "fry",
)  # fmt: skip
key_type = add_prng(threefry_prng_impl)


def split(data, shape):
    """New keys out of one, as what it was: words of threefry2x32, or a key."""
    if not is_key(data):
        return threefry_split(data, shape)
    impl = data.dtype.impl
    return wrap_keys(impl.split(words_of_keys(data), shape), impl)


def fold_in(data, value):
    """A new key out of a key and a number, a scalar."""
    if not is_key(data):
        return threefry_fold_in(data, value)
    impl = data.dtype.impl
    return wrap_keys(impl.fold_in(words_of_keys(data), value), impl)


def bits(data, width, shape):
    """Random bits in unsigned integers of `width` bits: 8, 16, 32 or 64."""
    if not is_key(data):
        return threefry_bits(data, width, shape)
    return data.dtype.impl.random_bits(words_of_keys(data), width, shape)


class KeyArray(ArrayImpl):
    """A concrete array of keys: `random.key(0)`, `random.split(key)`.

    It is indexed, reshaped, stacked and passed around like any other array, but has no
    arithmetic, and no value that NumPy could show.
    """

    __slots__ = ()

    def __repr__(self):
        if self.is_deleted():
            return super().__repr__()
        words = unwrap_values(self.numpy())
        return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{words}"

    __str__ = __repr__

    def __format__(self, spec):
        return format(str(self), spec)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use "
            "random.key_data(arr) if you wish to extract the underlying integer array."
        )

    def __bool__(self):
        raise TypeError("key array cannot be converted to boolean.")

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d key array")
        return super().__iter__()


def no_number(name):
    """The method for a conversion that arrays of keys have not."""

    def method(self, *args, **kwargs):
        raise TypeError(
            f"{name.strip('_')}: a key is not a number. Use random.key_data(key) if "
            f"you wish to extract the underlying integers.{HERE}"
        )

    return method


not_for_keys = """
    __int__ __float__ __complex__ __index__ item tolist tobytes __dlpack__
"""

for conversion in not_for_keys.split():
    setattr(KeyArray, conversion, no_number(conversion))

array_classes |= {KeyType: KeyArray}


# ---- From words to keys, and back

random_wrap_p = Primitive("random_wrap")
random_unwrap_p = Primitive("random_unwrap")


def wrap_values(words, *, impl):
    """u32[..., n] -> what an array of keys of n words holds."""
    return np.asarray(words, order="C").view(storages[words.shape[-1:]])[..., 0]


def unwrap_values(keys):
    """The words that an array of keys holds: u32[..., n]."""
    return np.asarray(keys, order="C")[..., None].view(UINT32)


def wrap_keys(data, impl=None):
    """Keys out of words: u32[..., 2] -> key<fry>[...], if nothing else is asked for."""
    return random_wrap_p.bind(data, impl=threefry_prng_impl if impl is None else impl)


def words_of_keys(keys):
    """The words of keys: key<fry>[...] -> u32[..., 2]."""
    return random_unwrap_p.bind(keys)


def wrap_shape(words, *, impl):
    """Keys of an implementation; of none (see `in_memory`), what holds such keys."""
    if impl is None:
        return ShapedArray(words.shape[:-1], storages[words.shape[-1:]])
    check_words(words, impl)
    return ShapedArray(words.shape[:-1], KeyType(impl))


shape_rules |= {random_wrap_p: wrap_shape, random_unwrap_p: lambda keys: (
    ShapedArray((*keys.shape, keys.dtype.itemsize // 4), UINT32)
)}  # fmt: skip
eval_rules |= on_numpy({random_wrap_p: wrap_values, random_unwrap_p: unwrap_values})
linearize_rules |= constant(random_wrap_p, random_unwrap_p)


# The words of a key are on the last axis.
batch_rules |= in_front(random_wrap_p, random_unwrap_p)


def key_words(name, key, several=False):
    """What a function draws from that was given a key.

    Args:
      name: the function's.
      key: an array of keys, or raw words as `random.PRNGKey` makes them.
      several: whether an array of keys will do.

    Returns:
      The words u32[..., 2] where only threefry2x32 is used, and the keys themselves
      where there is another implementation.  `split`, `fold_in` and `bits` take both.

    Raises:
      TypeError: if it is no key.
      ValueError: if it is an array of keys, and one was wanted.
    """
    default = key_types[config.default_prng_impl].impl
    if not is_key(key):
        check_words(key, default)
        complain_of_words()
    shape = key.shape if is_key(key) else key.shape[:-1]
    if shape and not several:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape "
            f"{tuple(key.shape)} != (). Use vmap for batching.{HERE}"
        )
    impl = key.dtype.impl if is_key(key) else default
    if impl == default == threefry_prng_impl:
        return words_of_keys(key) if is_key(key) else key
    return key if is_key(key) else wrap_keys(key, impl)


def complain_of_words():
    """What the flag `legacy_prng_key` says of raw words in the place of a key."""
    if config.legacy_prng_key != "allow":
        text = (
            "Legacy uint32 key array passed as key to jax.random function. Please "
            "create keys using jax.random.key(). If use of a raw key array was "
            'intended, set jax_legacy_prng_key="allow".'
        )
        if config.legacy_prng_key == "error":
            raise ValueError(f"{text}{HERE}")
        warnings.warn(text, stacklevel=user_level())


MAKE_A_KEY = (
    "\n  Instead: make a key of a number, `key = random.key(3)`, and hand that over; "
    "`random.split(key)` makes several of it."
)


def check_words(data, impl):
    """Raise TypeError unless an array can be the words of keys: u32[..., n]."""
    told = "JAX encountered invalid PRNG key data: expected "
    if not all(hasattr(data, name) for name in ("ndim", "shape", "dtype")):
        told += "key_data to have ndim, shape, and dtype attributes. Got "
        raise TypeError(f"{told}{data}{HERE}{MAKE_A_KEY}")
    if data.ndim < 1:
        raise TypeError(f"{told}key_data.ndim >= 1; got ndim={data.ndim}{MAKE_A_KEY}")
    if data.shape[-1:] != impl.key_shape:
        raise TypeError(
            f"{told}key_data.shape to end with {impl.key_shape}; got "
            f"shape={tuple(data.shape)} for impl={impl.name!r}{HERE}"
        )
    if data.dtype != UINT32:
        raise TypeError(f"{told}key_data.dtype = uint32; got dtype={data.dtype}{HERE}")
