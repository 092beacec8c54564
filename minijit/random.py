"""Random numbers under the names of `jax.random`, and the same ones, bit for bit.

    key = random.key(42)
    key, subkey = random.split(key)            # never use a key twice
    random.normal(subkey, (3, 4))
    vmap(lambda k: random.uniform(k, (2,)))(random.split(key, 10))

Every function takes a key first, and gives the same numbers for the same key, in
`jit`, in `vmap` or outside.  Integers and bits are JAX's own (threefry2x32 with
`jax_threefry_partitionable`, its default).  So are floats, up to the last digit of a
logarithm here and there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial, wraps
from typing import Any, Protocol

import numpy as np

from . import lax, numpy as jnp
from .numpy import arguments, core
from .ops import prng
from .ops.prng import is_key, key_words, wrap_keys
from .trace import dtypes
from .trace.api import calls
from .trace.base import names as _names
from .trace.base.config import config
from .trace.base.errors import HERE
from .trace.core import BottomTrace, current
from .trace.jaxprs.jaxpr import JaxprTrace
from .trace.jit.jit import jit
from .trace.numpy_values import real_part
from .trace.types import Array, ArrayLike, DTypeLike, Shape
from .transform.batching.vmap import BatchTrace, vmap
from .transform.custom.custom_derivatives import custom_jvp
from .transform.stop_gradient import stop_gradient


def sampler(function, static_argnames=("shape", "dtype")):
    """A function that is traced once for each shape, and is one call in a program.

    Outside of any it runs operation by operation: new shapes are common there, and a
    lane draws what it draws alone.  One with a loop is jitted as a whole, since its
    loop would be compiled in any case.
    """
    jitted = jit(function, static_argnames=static_argnames)

    @wraps(function)
    def call(*args, **kwargs):
        trace = current.trace
        while type(trace) is BatchTrace:
            trace = trace.parent
        # What was called outside may be recorded; it does what it has done before.
        kind = trace.info.kind if type(trace) is JaxprTrace else None
        is_outside = type(trace) is BottomTrace or kind == "eager"
        return (function if is_outside else jitted)(*args, **kwargs)

    traced: Any = call
    traced.traces = jitted.traces
    return traced


def chosen_impl(impl, dtype=None, name="key"):
    """The implementation that an argument `impl` or `dtype` stands for."""
    if impl is not None and dtype is not None:
        raise ValueError(
            f"Cannot specify both `impl` and `dtype` arguments to random.{name}"
        )
    impl = dtype if impl is None else impl
    impl = config.default_prng_impl if impl is None else impl
    if isinstance(impl, prng.KeyType):
        return impl.impl
    if isinstance(impl, prng.PRNGImpl):
        return impl
    if not isinstance(impl, str):
        raise TypeError(
            f"unrecognized type {type(impl)} for specifying PRNG implementation."
        )
    if impl not in prng.key_types:
        known = ", ".join(f'"{name}"' for name in prng.key_types)
        raise ValueError(
            f'unrecognized PRNG implementation "{impl}". Did you mean one of: {known}?'
        )
    return prng.key_types[impl].impl


def seed_words(name, seed, impl):
    """The words of the key of a seed; `name` is the function it was given to."""
    if is_key(seed):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if not isinstance(seed, int) and np.shape(seed):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape "
            f"{np.shape(seed)} != (). Use vmap for batching"
        )
    return impl.seed(seed)


def key(seed: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """A key, made from an integer: a scalar array of dtype `key<fry>`.

    Args:
      seed: an integer of up to 64 bits, of which without `enable_x64` 32 count; it
        may be traced.
      impl, dtype: "threefry2x32", "rbg" or "unsafe_rbg", or the dtype of such keys;
        `config.default_prng_impl` if nothing is said.
    """
    impl = chosen_impl(impl, dtype)
    return wrap_keys(seed_words("key", seed, impl), impl)


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """A key of the old style: its raw words, a uint32 array, (2,) for threefry2x32.

    With the flag `enable_custom_prng` it is one like those of `key`.
    """
    impl = chosen_impl(impl)
    words = seed_words("PRNGKey", seed, impl)
    return wrap_keys(words, impl) if config.enable_custom_prng else words


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None
) -> Array:
    """Keys with a type around raw words, u32[..., 2] for threefry2x32."""
    impl = chosen_impl(impl, dtype, "wrap_key_data")
    prng.check_words(key_bits_array, impl)
    return wrap_keys(jnp.asarray(key_bits_array), impl)


def key_data(keys: ArrayLike) -> Array:
    """The raw words of keys: u32[..., 2] for threefry2x32."""
    return raw(key_words("key_data", keys, several=True))


def raw(data):
    """The words of what `key_words` gave."""
    return prng.words_of_keys(data) if is_key(data) else data


def key_impl(keys: ArrayLike) -> str:
    """The name of what makes bits of keys."""
    data = key_words("key_impl", keys, several=True)
    return data.dtype.impl.name if is_key(data) else prng.key_type.impl.name


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of keys."""
    return prng.KeyType(chosen_impl(impl_spec))


def same_style(key, data):
    """New keys as what the old one was: raw words, or typed."""
    if is_key(key):
        return data if is_key(data) else wrap_keys(data)
    return raw(data)


@partial(sampler, static_argnames="shape")
def split_words(data, *, shape):
    return prng.split(data, shape)


def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """New keys out of one, which should not be used any more.

    Args:
      num: how many, or the shape of an array of them.
    """
    data = key_words("split", key)
    shape = tuple(num) if isinstance(num, (tuple, list)) else (num,)
    shape = tuple(map(operator.index, shape))
    return same_style(key, split_words(data, shape=shape))


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key out of a key and a number, say that of a step or a layer.

    Raises TypeError if `data` is not a scalar.
    """
    words = key_words("fold_in", key)
    if np.shape(data):
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape "
            f"{np.shape(data)} != (). Use vmap for batching."
        )
    return same_style(key, prng.fold_in(words, jnp.asarray(data, dtype="uint32")))


def clone(key: Array) -> Array:
    """The same key: says that it is meant to be used again."""
    key_words("clone", key, several=True)
    return key


# ---- What samplers check


def checked(name, key, dtype, default=float, kind=np.floating, what="a float dtype"):
    """-> (words of the key, dtype), or an error that says what is wrong with them."""
    data = key_words(name, key)
    dtype = dtypes.user_dtype(default if dtype is None else dtype, name)
    if not dtypes.issubdtype(dtype, kind):
        raise ValueError(
            f"dtype argument to `{name}` must be {what}, got {dtype}{HERE}"
        )
    return data, dtype


def checked_shape(name, shape, *params):
    """The shape that was asked for, or that of the parameters together.

    Raises ValueError if the parameters do not broadcast to it.
    """
    arguments.check_arraylike(name, *params)
    for x in params:
        dtypes.check_dtype(getattr(x, "dtype", np.dtype(bool)), "{}: {!r}", name, x)
    shapes = [np.shape(x) for x in params]
    if shape is None:
        return lax.broadcast_shapes(*shapes)
    shape = arguments.canonicalize_shape(shape)
    joint = lax.broadcast_shapes(shape, *shapes)
    if joint != shape:
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape "
            "argument, and the result of broadcasting the shapes must equal the shape "
            f"argument, but got result {joint} for shape argument {shape}.{HERE}"
        )
    return shape


def prepared(name, key, shape, dtype, *params):
    """-> (words of the key, shape, dtype) of a sampler of floats with parameters.

    Raises TypePromotionError for a parameter that is more than the dtype holds.
    """
    data, dtype = checked(name, key, dtype)
    check_safe(name, dtype, params)
    return data, checked_shape(name, shape, *params), dtype


def check_safe(name, dtype, params):
    """Complain of parameters that are complex where the samples are not."""
    for x in params:
        if np.iscomplexobj(x) and not dtypes.issubdtype(dtype, np.complexfloating):
            raise dtypes.TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type "
                f"{dtypes.dtype(x)} to {dtype}{HERE}"
            )


def to_dtype(x, dtype, shape=None) -> Array:
    """A parameter in the sampler's dtype, stretched to a shape if one is given."""
    x = lax.convert_element_type(x, dtype)
    return x if shape is None else jnp.broadcast_to(x, shape)


def words_of(data, count=2):
    """The words of `count` new keys, one by one."""
    keys = prng.split(data, (count,))
    return [keys[i] for i in range(count)]


# ---- Bits, integers, and floats between two bounds


@sampler
def bits_sampler(data, *, shape, dtype):
    return prng.bits(data, 8 * dtype.itemsize, shape)


def bits(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Random bits as unsigned integers, by default uint32 (uint64 with `enable_x64`).

    Raises ValueError for another kind of dtype.
    """
    default = dtypes.default_dtype("unsigned")
    kind = np.unsignedinteger, "an unsigned int dtype"
    data, dtype = checked("bits", key, dtype, default, *kind)
    return bits_sampler(data, shape=arguments.canonicalize_shape(shape), dtype=dtype)


def unit_floats(data, shape, dtype):
    """Floats in [0, 1): random digits behind a leading 1, less that 1."""
    info = dtypes.finfo(dtype)
    # bfloat16 has so few digits that 8 bits are enough for them.
    width = 8 if info.nmant < 8 else info.bits
    unsigned = np.dtype(f"uint{info.bits}")
    digits = lax.convert_element_type(prng.bits(data, width, shape), unsigned)
    digits = lax.shift_right_logical(digits, unsigned.type(width - info.nmant))
    one = np.ones((), dtype)
    floats = lax.bitwise_or(digits, one.view(unsigned))
    return lax.sub(lax.bitcast_convert_type(floats, dtype), one)


@sampler
def uniform_sampler(data, minval, maxval, *, shape, dtype):
    low, high = to_dtype(minval, dtype), to_dtype(maxval, dtype)
    return jnp.maximum(low, unit_floats(data, shape, dtype) * (high - low) + low)


def uniform(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0,
) -> Array:
    """Floats from [minval, maxval), all equally likely.

    Args:
      shape: a tuple of ints.
      dtype: of floats, by default float32 (float64 with `enable_x64`).
      minval, maxval: numbers, or arrays that broadcast to the shape.  As in JAX, one
        number between bounds that are arrays of one element has their shape.

    Raises ValueError for a dtype that is not of floats, or shapes that do not fit.
    """
    bounds = lax.broadcast_shapes(np.shape(minval), np.shape(maxval))
    if isinstance(shape, tuple) and not shape and math.prod(bounds) == 1:
        shape = bounds
    data, shape, dtype = prepared("uniform", key, shape, dtype, minval, maxval)
    return uniform_sampler(data, minval, maxval, shape=shape, dtype=dtype)


def clip_to(x, dtype):
    """An integer in another dtype, at its limits if it is beyond them."""
    to, of = dtypes.iinfo(dtype), dtypes.iinfo(x.dtype)
    low, high = max(to.min, of.min), min(to.max, of.max)
    bounds = (np.array(bound, x.dtype) for bound in (low, high))
    return lax.convert_element_type(jnp.clip(x, *bounds), dtype)


@sampler
def randint_sampler(data, minval, maxval, *, shape, dtype):
    """Twice as many bits as the dtype has, modulo the span: nearly without bias."""
    width = 8 * dtype.itemsize
    high, low = (prng.bits(k, width, shape) for k in words_of(data))
    minval, maxval = map(as_integers, (minval, maxval))
    largest = clip_to(jnp.array(dtypes.iinfo(dtype).max, dtype), maxval.dtype)
    is_beyond = maxval > largest
    minval, maxval = clip_to(minval, dtype), clip_to(maxval, dtype)
    one = np.ones((), high.dtype)
    span = lax.convert_element_type(maxval - minval, high.dtype)
    # An empty range gives minval; one up to the end of the dtype is one longer.
    span = jnp.where(maxval <= minval, one, span)
    span = jnp.where(is_beyond & (maxval > minval), span + one, span)
    span = jnp.broadcast_to(span, shape)
    # high * 2**width + low, of which only remainders fit into the dtype.
    factor = lax.rem(jnp.full_like(span, 2 ** (width // 2)), span)
    factor = lax.rem(lax.mul(factor, factor), span)
    offset = lax.mul(lax.rem(high, span), factor) + lax.rem(low, span)
    return minval + lax.convert_element_type(lax.rem(offset, span), dtype)


def as_integers(x):
    x = jnp.asarray(x)
    return x if dtypes.issubdtype(x.dtype, np.integer) else x.astype(int)


def randint(
    key: ArrayLike, shape: Shape, minval: ArrayLike, maxval: ArrayLike,
    dtype: DTypeLike | None = None,
) -> Array:
    """Integers from [minval, maxval).

    Args:
      minval, maxval: ints, or arrays of them that broadcast to the shape; what is
        beyond the limits of the dtype is moved there, but for `maxval` one beyond.
      dtype: of integers, by default int32 (int64 with `enable_x64`).
    """
    data = key_words("randint", key)
    dtype = dtypes.user_dtype(int if dtype is None else dtype, "randint")
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {dtype}")
    shape = checked_shape("randint", shape, minval, maxval)
    drawn = dtype
    if dtype.itemsize < 4:
        # In 8 or 16 bits the remainders would not be equally likely.
        drawn, info = np.dtype("int32"), dtypes.iinfo(dtype)
        minval = jnp.asarray(minval).astype(drawn).clip(int(info.min), int(info.max))
        maxval = jnp.asarray(maxval).astype(drawn)
        maxval = maxval.clip(int(info.min), int(info.max) + 1)
    result = randint_sampler(data, minval, maxval, shape=shape, dtype=drawn)
    return result.astype(dtype)


# ---- Order


@partial(sampler, static_argnames="axis")
def shuffle(data, x, *, axis):
    """Sort by random numbers, and again, until ties are as good as impossible."""
    size = max(1, x.size)
    rounds = math.ceil(3 * math.log(size) / math.log(2**32 - 1))
    for _ in range(rounds):
        data, now = words_of(data)
        _, x = lax.sort_key_val(prng.bits(now, 32, x.shape), x, axis)
    return x


def permutation(
    key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False
) -> Array:
    """An array with the parts along one axis in random order.

    Args:
      x: an array, or an int n that stands for arange(n).
      independent: shuffle each line along the axis by itself.
    """
    data = key_words("permutation", key)
    arguments.check_arraylike("permutation", x)
    axis = arguments.canonical_axis(axis, np.ndim(x) or 1)
    if not np.ndim(x):
        if not dtypes.issubdtype(dtypes.dtype(x), np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        size = arguments.static_int(x, "its length")
        return shuffle(data, jnp.arange(size), axis=axis)
    x = jnp.asarray(x)
    if independent or x.ndim == 1:
        return shuffle(data, x, axis=axis)
    order = shuffle(data, jnp.arange(x.shape[axis]), axis=0)
    return jnp.take(x, order, axis)


def choice(
    key: ArrayLike, a: ArrayLike, shape: Shape = (), replace: bool = True,
    p: ArrayLike | None = None, axis: int = 0, mode: str | None = None,
) -> Array:
    """Parts of an array, drawn at random.

    Args:
      a: an array, or an int n that stands for arange(n).
      shape: how many are drawn, as a shape.
      replace: whether one may be drawn twice.
      p: optional, the probability of each.
      axis: along which the array is cut into parts.
      mode: as in `gumbel`, which is used for p without replacement.

    Raises ValueError if there are too few to draw from, or `p` is of another length.
    """
    data = key_words("choice", key)
    if not isinstance(shape, (tuple, list)):
        raise TypeError(
            f"shape argument of jax.random.choice must be a sequence, got {shape}"
        )
    arguments.check_arraylike("choice", a)
    array, count = jnp.asarray(a), math.prod(shape)
    if array.ndim:
        axis = arguments.canonical_axis(axis, array.ndim)
        n = array.shape[axis]
    else:
        axis, n = 0, arguments.static_int(a, "the length of a range")
    if count == 0:
        return jnp.zeros(shape, array.dtype)
    check_population(n, count, replace)
    if p is not None:
        order = weighted_choice(data, n, tuple(shape), count, replace, p, mode)
    elif replace:
        order = randint(data, shape, 0, n)
    else:
        parts = permutation(data, array if array.ndim else n, axis)
        where = (slice(None),) * axis + (slice(count),)
        return parts[where].reshape(choice_shape(array, axis, shape))
    parts = jnp.take(array, order, axis) if array.ndim else order
    return parts.reshape(choice_shape(array, axis, shape))


def choice_shape(array, axis, shape):
    """The shape of what `choice` draws."""
    if array.ndim == 0:
        return tuple(shape)
    return *array.shape[:axis], *shape, *array.shape[axis + 1 :]


def check_population(n, count, replace):
    """Raise ValueError if `count` cannot be drawn out of n."""
    if n <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and count > n:
        raise ValueError(
            f"Cannot take a larger sample (size {count}) than population (size {n}) "
            "when 'replace=False'"
        )


def weighted_choice(data, n, shape, count, replace, p, mode):
    """Which of n are drawn, if each has a probability of its own."""
    arguments.check_arraylike("choice", p)
    p, = core.promote_args_inexact("choice", p)
    if p.shape != (n,):
        raise ValueError(
            "p must be None or a 1D vector with the same size as a.shape[axis]. p has "
            f"shape {p.shape} and a.shape[axis] is {n}."
        )
    if not replace:
        # The largest of log p plus Gumbel noise are a sample without replacement.
        noise = gumbel(data, (n,), p.dtype, mode=mode)
        return lax.top_k(noise + jnp.log(p), count)[1].astype(int)
    totals = jnp.cumsum(p)
    where = totals[-1] * (1 - uniform(data, shape, totals.dtype))
    return jnp.searchsorted(totals, where).astype(int)


# ---- Floats of other distributions


@sampler
def normal_sampler(data, *, shape, dtype):
    if dtypes.issubdtype(dtype, np.complexfloating):
        part = real_part(dtype)
        real, imag = (
            normal_sampler(k, shape=shape, dtype=part).astype(dtype)
            for k in words_of(data)
        )
        return (real + 1j * imag) / np.sqrt(np.array(2, dtype))
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    u = uniform_sampler(data, low, np.array(1, dtype), shape=shape, dtype=dtype)
    return lax.mul(np.array(np.sqrt(2), dtype), lax.erf_inv(u))


def normal(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Floats of mean 0 and variance 1, in a bell curve; complex if the dtype is."""
    kind = np.inexact, "a float or complex dtype"
    data, dtype = checked("normal", key, dtype, float, *kind)
    return normal_sampler(data, shape=arguments.canonicalize_shape(shape), dtype=dtype)


@sampler
def truncated_normal_sampler(data, lower, upper, *, shape, dtype):
    root = np.array(np.sqrt(2), dtype)
    lower, upper = to_dtype(lower, dtype), to_dtype(upper, dtype)
    low, high = lax.erf(lower / root), lax.erf(upper / root)
    u = uniform_sampler(data, low, high, shape=shape, dtype=dtype)
    # Rounding must not lead to the bounds, or beyond them.
    least = lax.nextafter(stop_gradient(lower), np.array(np.inf, dtype))
    most = lax.nextafter(stop_gradient(upper), np.array(-np.inf, dtype))
    return jnp.clip(root * lax.erf_inv(u), least, most)


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats of a bell curve, of which only what is between two bounds is taken."""
    data, shape, dtype = prepared("truncated_normal", key, shape, dtype, lower, upper)
    return truncated_normal_sampler(data, lower, upper, shape=shape, dtype=dtype)


@partial(sampler, static_argnames=("shape", "mode"))
def bernoulli_sampler(data, p, *, shape, mode):
    dtype = p.dtype
    if mode == "low":
        return uniform_sampler(data, 0.0, 1.0, shape=shape, dtype=dtype) < p
    u1, u2 = uniform_sampler(data, 0.0, 1.0, shape=(2, *shape), dtype=dtype)
    return u2 * 2.0 ** -dtypes.finfo(dtype).nmant < p - u1


def bernoulli(
    key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None, mode: str = "low"
) -> Array:
    """Bools that are true with probability p.

    Args:
      p: a float, or an array of them.
      mode: "high" for p below 1e-7: two random numbers for each.
    """
    data = key_words("bernoulli", key)
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    dtype = dtypes.dtype(p)
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"bernoulli probability `p` must have a floating dtype, got {dtype}."
        )
    shape = checked_shape("bernoulli", shape, p)
    return bernoulli_sampler(data, to_dtype(p, dtype), shape=shape, mode=mode)


class Sampler(Protocol):
    def __call__(
        self, key: ArrayLike, shape: Shape = ..., dtype: DTypeLike | None = ...
    ) -> Array: ...


def simple(name, from_uniform, minval=0.0, maxval=1.0) -> Sampler:
    """A sampler that transforms uniform floats: name(key, shape=(), dtype=None).

    Args:
      from_uniform: floats in [minval, maxval) -> the samples.
      minval: a number, or a function of the dtype's `finfo`.
    """

    def compute(data, *, shape, dtype):
        low = minval(dtypes.finfo(dtype)) if callable(minval) else minval
        u = uniform_sampler(data, low, maxval, shape=shape, dtype=dtype)
        return from_uniform(u)

    compute.__name__ = compute.__qualname__ = f"{name}_sampler"
    draw = sampler(compute)

    def function(key, shape=(), dtype=None):
        data, dtype = checked(name, key, dtype)
        return draw(data, shape=arguments.canonicalize_shape(shape), dtype=dtype)

    return arguments.named(function, name)


def minus_log(x):
    return lax.neg(lax.log(x))


exponential = simple("exponential", lambda u: lax.neg(lax.log1p(lax.neg(u))))
exponential.__doc__ = "Floats above 0 with density e**-x."
laplace = simple(
    "laplace",
    lambda u: lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u)))),
    lambda info: -1.0 + float(info.epsneg),
)
laplace.__doc__ = "Floats with density e**-|x| / 2."
logistic = simple(
    "logistic",
    lambda x: lax.sub(lax.log(x), lax.log1p(lax.neg(x))),
    lambda info: info.tiny,
)
logistic.__doc__ = "Floats with density e**-x / (1 + e**-x)**2."
cauchy = simple(
    "cauchy",
    lambda u: lax.tan(lax.mul(np.array(np.pi, u.dtype), u - np.array(0.5, u.dtype))),
    lambda info: info.eps,
)
cauchy.__doc__ = "Floats with density 1 / (pi (1 + x**2))."


@partial(sampler, static_argnames=("shape", "dtype", "mode"))
def gumbel_sampler(data, *, shape, dtype, mode):
    tiny = dtypes.finfo(dtype).tiny
    if mode == "low":
        u = uniform_sampler(data, tiny, 1.0, shape=shape, dtype=dtype)
        return minus_log(minus_log(u))
    if dtype == np.float32 and mode == "highest":
        return finest_gumbel(prng.bits(data, 32, (2, *shape)))
    high, low = uniform_sampler(data, 0.0, 1.0, shape=(2, *shape), dtype=dtype)
    # Where the leading digits are few, there are more behind.
    more = high + 2.0 ** -dtypes.finfo(dtype).nmant * low + tiny
    x = jnp.where(high >= 0.5, high, more)
    return minus_log(lax.neg(lax.log1p(lax.neg(x))))


def finest_gumbel(words):
    """Gumbel noise in float32 from 64 random bits: u32[2, ...]."""
    others = lax.bitwise_not(words)
    carry = (others[1] == np.uint32(2**32 - 1)).astype("uint32")
    others = others + jnp.stack([carry, jnp.ones_like(carry)])
    is_small = words[0] < np.uint32(2**31)
    x = fraction(jnp.where(is_small, words, others))
    # Both logarithms are taken where they are exact.
    small = minus_log(lax.neg(lax.log1p(lax.neg(x))))
    return jnp.where(is_small, small, minus_log(minus_log(x)))


def fraction(words):
    """64 bits behind the binary point, u32[2, ...], as float32 with all its digits."""
    info = dtypes.finfo(np.float32)
    high, low = words
    zeros, zeros_low = lax.clz(words)
    none = zeros == 32
    below = jnp.where(none, low << zeros_low, low >> (np.uint32(32) - zeros))
    digits = (high << zeros | below) >> np.uint32(31 - info.nmant)
    digits = digits & np.uint32((1 << info.nmant) - 1)
    shift = jnp.where(none, np.uint32(32) + zeros_low, zeros)
    exponent = (np.uint32(-info.minexp) - shift) << np.uint32(info.nmant)
    exponent = exponent & np.uint32((1 << 30) - (1 << (info.nmant - 1)))
    return lax.bitcast_convert_type(exponent | digits, np.dtype("float32"))


def gumbel(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None,
    mode: str | None = None,
) -> Array:
    """Floats with density e**-(x + e**-x): the noise of `categorical`.

    Args:
      mode: "low" (the default), "high" or "highest": how far out the largest values
        can be.
    """
    data, dtype = checked("gumbel", key, dtype)
    mode = "low" if mode is None else mode
    if mode not in ("highest", "high", "low"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}")
    shape = arguments.canonicalize_shape(shape)
    return gumbel_sampler(data, shape=shape, dtype=dtype, mode=mode)


def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Shape | None = None,
    replace: bool = True, mode: str | None = None,
) -> Array:
    """Which category, of unnormalised log probabilities along one axis.

    Args:
      logits: an array of floats; softmax(logits, axis) are the probabilities.
      shape: of the result; it must end in that of the logits without the axis.
      replace: False for draws of which no two are equal.
      mode: as in `gumbel`.

    Returns an array of ints.
    """
    data = key_words("categorical", key)
    arguments.check_arraylike("categorical", logits)
    logits = jnp.asarray(logits)
    axis = arguments.canonical_axis(axis, logits.ndim)
    batch = (*logits.shape[:axis], *logits.shape[axis + 1 :])
    shape = batch if shape is None else arguments.canonicalize_shape(shape)
    checked_shape("categorical", shape, np.empty(batch, bool))
    extra = shape[: len(shape) - len(batch)]
    if not replace:
        return distinct_categories(data, logits, axis, shape, extra, mode)
    axis -= logits.ndim
    size = list(shape[len(extra) :])
    size.insert(axis % logits.ndim, logits.shape[axis])
    noise = gumbel(data, (*extra, *size), logits.dtype, mode=mode)
    logits = jnp.expand_dims(logits, tuple(range(len(extra))))
    return jnp.argmax(noise + logits, axis=axis)


def distinct_categories(data, logits, axis, shape, extra, mode):
    """Draws without replacement: the k largest of the logits with noise."""
    count = math.prod(extra)
    if count > logits.shape[axis]:
        raise ValueError(
            f"Number of samples without replacement ({count}) cannot exceed number of "
            f"categories ({logits.shape[axis]})."
        )
    noisy = logits + gumbel(data, logits.shape, logits.dtype, mode=mode)
    _, order = lax.top_k(jnp.moveaxis(noisy, axis, -1), count)
    return jnp.moveaxis(order, -1, 0).reshape(shape)


def rademacher(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None
) -> Array:
    """-1 or 1, equally likely, of any dtype, by default int32."""
    data = key_words("rademacher", key)
    dtype = dtypes.user_dtype(int if dtype is None else dtype, "rademacher")
    signs = bernoulli(data, 0.5, arguments.canonicalize_shape(shape)).astype(dtype)
    return (2 * signs - 1).astype(dtype)


def maxwell(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """The lengths of vectors in space whose three parts are normal."""
    data, dtype = checked("maxwell", key, dtype)
    parts = normal(data, (*arguments.canonicalize_shape(shape), 3), dtype)
    return jnp.linalg.norm(parts, axis=-1)


def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Shape = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """`maxwell` with a random sign, scaled and moved."""
    data, dtype = checked("double_sided_maxwell", key, dtype)
    joint = lax.broadcast_shapes(np.shape(loc), np.shape(scale))
    shape = (arguments.canonicalize_shape(shape) or joint) + joint
    lengths, signs = words_of(data)
    signs = rademacher(signs, shape, dtype)
    return signs * maxwell(lengths, shape, dtype) * scale + loc


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Shape = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats with density c x**(c-1) e**-x**c, for a concentration c, scaled."""
    data, dtype = checked("weibull_min", key, dtype)
    u = uniform(data, shape, dtype)
    return jnp.power(-jnp.log1p(-u), 1.0 / concentration) * scale


def pareto(
    key: ArrayLike, b: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats above 1 with density b / x**(b+1)."""
    data, shape, dtype = prepared("pareto", key, shape, dtype, b)
    return lax.exp(exponential(data, shape, dtype) / to_dtype(b, dtype))


def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The lengths of vectors in the plane whose two parts are normal, scaled."""
    data, shape, dtype = prepared("rayleigh", key, shape, dtype, scale)
    u = uniform(data, shape, dtype)
    root = lax.sqrt(lax.mul(lax.log(u), np.array(-2, dtype)))
    return lax.mul(to_dtype(scale, dtype, shape), root)


def wald(
    key: ArrayLike, mean: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats above 0: when a walk that drifts off first is at 1, for a mean."""
    data, shape, dtype = prepared("wald", key, shape, dtype, mean)
    k1, k2 = words_of(data)
    mean = to_dtype(mean, dtype, shape)
    z = uniform(k2, shape, dtype)
    y = lax.integer_pow(normal(k1, shape, dtype), 2)
    squared = lax.integer_pow(mean, 2)
    root = lax.sqrt(4 * mean * y + squared * lax.integer_pow(y, 2))
    x = mean + squared * y / 2 - mean / 2 * root
    return jnp.where(z <= mean / (mean + x), x, squared / x)


def geometric(
    key: ArrayLike, p: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Ints: how many trials of probability p it takes until one succeeds."""
    kind = np.integer, "an int dtype"
    data, dtype = checked("geometric", key, dtype, int, *kind)
    shape = checked_shape("geometric", shape, p)
    p, = core.promote_args_inexact("geometric", p)
    u = uniform(data, shape, p.dtype)
    log_u = lax.log(jnp.where(u == 0, 1, u))
    log_p = jnp.broadcast_to(lax.log1p(-p), shape)
    return (lax.floor(lax.div(log_u, log_p)) + 1).astype(dtype)


def triangular(
    key: ArrayLike, left: ArrayLike, mode: ArrayLike, right: ArrayLike,
    shape: Shape | None = None, dtype: DTypeLike | None = None,
) -> Array:
    """Floats between two bounds, whose density rises to a mode and falls again."""
    data, shape, dtype = prepared("triangular", key, shape, dtype, left, mode, right)
    left, mode, right = (to_dtype(x, dtype, shape) for x in (left, mode, right))
    u = uniform(data, shape, dtype)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return jnp.where(u < (mode - left) / (right - left), rising, falling)


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """e to the power of normal floats of standard deviation sigma."""
    kind = np.inexact, "a float or complex dtype"
    data, dtype = checked("lognormal", key, dtype, float, *kind)
    check_safe("lognormal", dtype, [sigma])
    shape = checked_shape("lognormal", shape, sigma)
    return lax.exp(normal(data, shape, dtype) * to_dtype(sigma, dtype))


def orthogonal(
    key: ArrayLike, n: int, shape: Shape = (), dtype: DTypeLike | None = None,
    m: int | None = None,
) -> Array:
    """Matrices of shape (n, m) whose columns, or rows, are orthonormal.

    Args:
      n, m: ints; m is n by default.
      shape: of the array of matrices.
    """
    data, dtype = checked(
        "orthogonal", key, dtype, kind=np.inexact, what="a float or complex dtype"
    )
    n = arguments.static_int(n, "n")
    m = n if m is None else arguments.static_int(m, "m")
    if min(n, m) < 0:
        raise ValueError(f"orthogonal: n and m must not be negative, got {n} and {m}")
    shape = arguments.canonicalize_shape(shape)
    z = normal(data, (*shape, max(n, m), min(n, m)), dtype)
    q, r = jnp.linalg.qr(z.astype(wide(dtype)))
    # Of all decompositions this takes the one with r positive on its diagonal.
    diagonal = jnp.diagonal(r, 0, -2, -1)[..., None, :]
    q = (q * (diagonal / jnp.abs(diagonal))).astype(dtype)
    return q.mT if n < m else q


def wide(dtype):
    """The dtype in which LAPACK decomposes matrices of a dtype."""
    return dtypes.result_type(dtype, np.float32)


# ---- Distributions that take loops


def gamma_sample(data, alpha, log_space):
    """One gamma sample, or its logarithm, by Marsaglia and Tsang's method.

    Below alpha = 1 it draws for alpha + 1, and multiplies by a uniform number to the
    power of 1 / alpha (A simple method for generating gamma variables, 2000).
    """
    dtype = alpha.dtype
    number = lambda value: np.array(value, dtype)
    is_large = alpha >= 1
    d = jnp.where(is_large, alpha, alpha + 1) - number(1 / 3)
    c = number(1 / 3) / lax.sqrt(d)

    def rejected(state):
        _, x, v, u = state
        # x is a square already, and v a cube.
        surely = u >= 1 - number(0.0331) * (x * x)
        return surely & (lax.log(u) >= x * number(0.5) + d * ((1 - v) + lax.log(v)))

    def draw(state):
        key, x_key, u_key = words_of(state[0], 3)
        x, v = positive_cube_root(x_key, c, dtype)
        return key, x * x, v * v * v, uniform(u_key, (), dtype)

    key, last = words_of(data)
    # The first state is one that is rejected.
    first = key, number(0), number(1), number(2)
    _, _, v, _ = lax.while_loop(rejected, draw, first)
    if not log_space:
        boost = lax.pow(1 - uniform(last, (), dtype), 1 / alpha)
        return d * v * jnp.where(is_large, number(1), boost)
    logarithm = -exponential(last, (), dtype)
    boost = jnp.where(is_large | (logarithm == 0), 0, logarithm * (1 / alpha))
    return lax.log(d) + lax.log(v) + boost


def positive_cube_root(data, c, dtype):
    """Draws normal x until v = 1 + c x is positive: -> (x, v)."""

    def draw(state):
        key, now = words_of(state[0])
        x = normal(now, (), dtype)
        return key, x, 1 + x * c

    first = data, np.zeros((), dtype), np.array(-1, dtype)
    _, x, v = lax.while_loop(lambda state: state[2] <= 0, draw, first)
    return x, v


@partial(custom_jvp, nondiff_argnums=(2,))
def gamma_samples(data, alpha, log_space):
    """A gamma sample for each alpha."""
    keys = prng.split(data, (alpha.size,))
    draw = partial(gamma_sample, log_space=log_space)
    flat = alpha.reshape(-1)
    if is_key(keys) and keys.dtype != prng.key_type:
        # Lanes of the other kinds of keys draw from the first lane's.
        return lax.map(lambda x: draw(*x), (keys, flat)).reshape(alpha.shape)
    return vmap(draw)(keys, flat).reshape(alpha.shape)


@gamma_samples.defjvp
def gamma_samples_jvp(log_space, primals, tangents):
    """A sample moves so that the share of gamma(a) below it stays what it is."""
    data, alpha = primals
    out = gamma_samples(data, alpha, log_space)
    if not log_space:
        return out, tangents[1] * lax.random_gamma_grad(alpha, out)
    # A sample may be too small for a float; its logarithm is not.
    sample = jnp.maximum(lax.exp(out), dtypes.finfo(alpha.dtype).tiny)
    return out, tangents[1] * (lax.random_gamma_grad(alpha, sample) / sample)


@partial(jit, static_argnames=("shape", "dtype", "log_space"))
def gamma_sampler(data, a, *, shape, dtype, log_space):
    return gamma_samples(data, to_dtype(a, dtype, shape), log_space)


def gamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats above 0 with density x**(a-1) e**-x / gamma(a), differentiable by a."""
    data, dtype = checked("gamma", key, dtype)
    shape = checked_shape("gamma", shape, a)
    return gamma_sampler(data, a, shape=shape, dtype=dtype, log_space=False)


def loggamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The logarithms of `gamma`'s samples, exact where those are nearly 0."""
    data, dtype = checked("loggamma", key, dtype)
    shape = checked_shape("loggamma", shape, a)
    return gamma_sampler(data, a, shape=shape, dtype=dtype, log_space=True)


def beta(
    key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats in (0, 1) with density proportional to x**(a-1) (1-x)**(b-1)."""
    data, shape, dtype = prepared("beta", key, shape, dtype, a, b)
    key_a, key_b = words_of(data)
    log_a = loggamma(key_a, to_dtype(a, dtype, shape), shape, dtype)
    log_b = loggamma(key_b, to_dtype(b, dtype, shape), shape, dtype)
    top = jnp.maximum(log_a, log_b)
    part_a, part_b = jnp.exp(log_a - top), jnp.exp(log_b - top)
    return part_a / (part_a + part_b)


def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Shares that sum to 1: f[*shape, n] for concentrations alpha, f[..., n]."""
    data, dtype = checked("dirichlet", key, dtype)
    if np.ndim(alpha) < 1:
        raise ValueError(
            f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {np.ndim(alpha)}"
        )
    *batch, n = np.shape(alpha)
    shape = checked_shape("dirichlet", shape, np.empty(batch, bool))
    log_shares = loggamma(data, to_dtype(alpha, dtype), (*shape, n), dtype)
    shares = jnp.exp(log_shares - jnp.max(log_shares, -1, keepdims=True))
    return shares / jnp.sum(shares, -1, keepdims=True)


def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Sums of df squares of normal numbers; df need not be whole."""
    data, shape, dtype = prepared("chisquare", key, shape, dtype, df)
    half = lax.div(to_dtype(df, dtype), np.array(2, dtype))
    return 2 * jnp.exp(loggamma(data, half, shape, dtype))


def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Quotients of two `chisquare` samples, each over its degrees of freedom."""
    data, shape, dtype = prepared("f", key, shape, dtype, dfnum, dfden)
    below, above = words_of(data)
    dfnum, dfden = to_dtype(dfnum, dtype), to_dtype(dfden, dtype)
    above = chisquare(above, dfnum, shape, dtype) / dfnum
    return above / (chisquare(below, dfden, shape, dtype) / dfden)


def t(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Student's t: normal numbers over the root of a mean of df squares."""
    data, shape, dtype = prepared("t", key, shape, dtype, df)
    key_n, key_g = words_of(data)
    half = lax.div(to_dtype(df, dtype), np.array(2, dtype))
    squares = gamma(key_g, half, shape, dtype)
    return normal(key_n, shape, dtype) * jnp.sqrt(half / squares)


def generalized_normal(
    key: ArrayLike, p: float, shape: Shape = (), dtype: DTypeLike | None = None
) -> Array:
    """Floats with density proportional to e**-|x|**p."""
    data, dtype = checked("generalized_normal", key, dtype)
    shape = arguments.canonicalize_shape(shape)
    key_g, key_s = words_of(data)
    power = jnp.reciprocal(jnp.asarray(p, dtype))
    powers = gamma(key_g, power, shape, dtype)
    return rademacher(key_s, shape, dtype) * powers**power


def ball(
    key: ArrayLike, d: int, p: float = 2, shape: Shape = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Points of a ball in d dimensions, all equally likely: f[*shape, d].

    Args:
      p: which norm is at most 1 in the ball.
    """
    data, dtype = checked("ball", key, dtype)
    shape = arguments.canonicalize_shape(shape)
    k1, k2 = words_of(data)
    g = generalized_normal(k1, p, (*shape, arguments.static_int(d, "d")), dtype)
    total = (jnp.abs(g) ** p).sum(-1) + exponential(k2, shape, dtype)
    return g / (total ** (1 / p))[..., None]


def poisson_small(data, rate, shape):
    """Knuth's method: multiply uniform numbers until the product is below e**-rate."""

    def unfinished(state):
        return (state[2] > -rate).any()

    def draw(state):
        key, count, log_product = state
        key, now = words_of(key)
        count = jnp.where(log_product > -rate, count + 1, count)
        u = uniform(now, shape, np.float32)
        return key, count, log_product + jnp.log(u)

    zeros = jnp.zeros(shape, np.float32)
    first = data, jnp.zeros(shape, np.int32), zeros
    return lax.while_loop(unfinished, draw, first)[1] - 1


def first_accepted(data, shape, dtype, proposed):
    """Draws until each number is accepted.

    Args:
      proposed: (u in [-1/2, 1/2), 1/2 - |u|, v in [0, 1)) -> (numbers, which are
        accepted); of those that are, later ones stay.
    """

    def draw(state):
        key, result, accepted = state
        key, key_u, key_v = words_of(key, 3)
        u = uniform(key_u, shape, dtype) - 0.5
        k, accept = proposed(u, 0.5 - abs(u), uniform(key_v, shape, dtype))
        return key, jnp.where(accept, k, result), accepted | accept

    first = data, jnp.full(shape, -1, dtype), jnp.zeros(shape, bool)
    return lax.while_loop(lambda state: (~state[2]).any(), draw, first)[1]


def poisson_large(data, rate, shape):
    """Hörmann's transformed rejection (1993), for rates of at least 10."""
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def proposed(u, us, v):
        k = lax.floor((2 * a / us + b) * u + rate + 0.43)
        s = lax.log(v * inverse_alpha / (a / (us * us) + b))
        t = -rate + k * lax.log(rate) - lax.lgamma(k + 1)
        reject = (k < 0) | ((us < 0.013) & (v > us))
        return k, ((us >= 0.07) & (v <= v_r)) | (~reject & (s <= t))

    return first_accepted(data, shape, rate.dtype, proposed)


@partial(jit, static_argnames=("shape", "dtype"))
def poisson_sampler(data, lam, *, shape, dtype):
    lam = jnp.broadcast_to(lam, shape)
    # NaN counts as small: its loop does not begin.
    is_small = (lam != lam) | (lam < 10)
    small = poisson_small(data, jnp.where(is_small, lam, 0.0), shape).astype(dtype)
    large = poisson_large(data, jnp.where(is_small, 1e5, lam), shape).astype(dtype)
    return jnp.where(lam == 0, 0, jnp.where(is_small, small, large))


def poisson(
    key: ArrayLike, lam: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Ints: how many events there are, if a mean of `lam` is expected.

    Args:
      lam: a float, or an array of them.
      dtype: of integers, by default int32.
    """
    data = key_words("poisson", key)
    if is_key(data) and data.dtype != prng.key_type:
        raise NotImplementedError(
            "`poisson` is only implemented for the threefry2x32 RNG, not "
            f"{data.dtype.impl.name}"
        )
    dtype = dtypes.user_dtype(int if dtype is None else dtype, "poisson")
    shape = checked_shape("poisson", shape, lam)
    lam = to_dtype(lam, np.dtype("float32"))
    return poisson_sampler(data, lam, shape=shape, dtype=dtype)


def stirling_tail(k):
    """What Stirling's formula for log k! lacks: from a table up to 9, then a series."""
    known = [
        math.lgamma(i + 1)
        - ((i + 0.5) * math.log(i + 1) - (i + 1) + 0.5 * math.log(2 * math.pi))
        for i in range(10)
    ]
    is_small = k <= 9
    k = lax.clamp(np.zeros((), k.dtype), k, np.array(9, k.dtype))
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    table = jnp.array(known, k.dtype)
    return jnp.where(is_small, table[lax.floor(k).astype("int32")], series)


def binomial_small(data, count, p, shape):
    """Adds up waiting times until they are beyond the number of trials."""
    log_failure = lax.log1p(-p)

    def draw(state):
        successes, time, key = state
        now, key = words_of(key)
        successes = jnp.where(time <= count, successes + 1, successes)
        u = uniform(now, shape, p.dtype)
        return successes, time + lax.ceil(lax.log(u) / log_failure), key

    zeros = jnp.zeros(shape, p.dtype)
    unfinished = lambda state: (state[1] <= count).any()
    return lax.while_loop(unfinished, draw, (zeros, zeros, data))[0] - 1


def binomial_large(data, count, p, shape):
    """Hörmann's transformed rejection (The generation of binomial random variates,
    1993), for at least 10 expected successes and as many failures."""
    deviation = lax.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = lax.floor((count + 1) * p)

    def log_density(k):
        return (
            (mode + 0.5) * lax.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * lax.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * lax.log(odds * (count - k + 1) / (k + 1))
            + stirling_tail(mode)
            + stirling_tail(count - mode)
            - stirling_tail(k)
            - stirling_tail(count - k)
        )

    def proposed(u, us, v):
        surely = (us >= 0.07) & (v <= v_r)
        k = lax.floor((2 * a / us + b) * u + c)
        inside = ~((k < 0) | (k > count))
        v = lax.log(v * alpha / (a / (us * us) + b))
        return k, surely | (inside & (v <= log_density(k)))

    return first_accepted(data, shape, p.dtype, proposed)


@partial(jit, static_argnames=("shape", "dtype"))
def binomial_sampler(data, n, p, *, shape, dtype):
    """Draws for p below one half, and turns the result round for the rest."""
    n = jnp.broadcast_to(n, shape)
    p = jnp.broadcast_to(p, shape)
    is_rare = p < 0.5
    q = jnp.where(is_rare, p, 1.0 - p)
    bad_n, bad_q = jnp.isnan(n) | (n < 0), jnp.isnan(q) | (q < 0)
    q = jnp.where(bad_q, 0.01, q)
    is_small = bad_n | (n * q <= 10)
    endless, n = jnp.isinf(n), lax.floor(n)
    small = binomial_small(data, jnp.where(is_small, n, 0.0), q, shape)
    large_n, large_q = jnp.where(is_small, 1e4, n), jnp.where(is_small, 0.5, q)
    large = binomial_large(data, large_n, large_q, shape)
    drawn = jnp.where(is_small, small.astype(dtype), large.astype(dtype))
    drawn = jnp.where(bad_n | bad_q, np.nan, drawn)
    drawn = jnp.where(endless & ~(bad_n | bad_q), np.inf, drawn)
    as_drawn = is_rare | bad_n | jnp.isnan(q) | endless
    return jnp.where(as_drawn, drawn, n.astype(dtype) - drawn).astype(dtype)


def binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats: how many of n trials of probability p succeed.

    Args:
      n, p: numbers, or arrays of them; where they make no sense the result is NaN.
    """
    data = key_words("binomial", key)
    arguments.check_arraylike("binomial", n, p)
    data, shape, dtype = prepared("binomial", key, shape, dtype, n, p)
    p, = core.promote_args_inexact("binomial", p)
    return binomial_sampler(data, to_dtype(n, p.dtype), p, shape=shape, dtype=dtype)


def multinomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, *, shape: Shape | None = None,
    dtype: DTypeLike | None = None, unroll: int | bool = 1,
) -> Array:
    """Floats: how often each of several outcomes comes up in n trials.

    Args:
      n: numbers of trials, which broadcast to the shape without its last axis.
      p: the probabilities of the outcomes, along the last axis.
      shape: of the result, its last axis included; by default that of p.
      unroll: as in `lax.scan`, which runs from outcome to outcome.
    """
    data, dtype = checked("multinomial", key, dtype)
    arguments.check_arraylike("multinomial", n, p)
    n, p = core.promote_dtypes([n, p], dtypes.to_inexact_dtype)
    shape = p.shape if shape is None else arguments.canonicalize_shape(shape)
    n = jnp.broadcast_to(n, shape[:-1])
    p = jnp.moveaxis(jnp.broadcast_to(p, shape), -1, 0)
    left = lax.cumsum(p, 0, reverse=True)
    # Of what is left, each outcome takes its share of the probability that is left.
    shares = p / jnp.where(left == 0, 1, left)

    def draw(remaining, given):
        share, key = given
        count = binomial(key, remaining, share.clip(0, 1), dtype=remaining.dtype)
        return remaining - count, count

    keys = prng.split(data, (p.shape[0],))
    counts = lax.scan(draw, n, (shares, keys), unroll=unroll)[1]
    return jnp.moveaxis(counts, 0, -1).astype(dtype)


# ---- Vectors of normal numbers that go together


def times_roots(vectors, values):
    """A factor f, where f @ f.T has these eigenvectors and eigenvalues, of any rank."""
    # What a rounding error may leave of a zero eigenvalue counts as zero.
    largest = jnp.max(values, -1, keepdims=True, initial=0)
    tiny = values.shape[-1] * dtypes.finfo(values.dtype).eps * largest
    return vectors * jnp.sqrt(jnp.where(values > tiny, values, 0))[..., None, :]


def factor_of(cov, method):
    """A factor f, where f @ f.T is cov."""
    if method == "cholesky":
        return jnp.linalg.cholesky(cov)
    parts = jnp.linalg.eigh(cov)[::-1] if method == "eigh" else jnp.linalg.svd(cov)[:2]
    return times_roots(*parts)


@partial(sampler, static_argnames=("shape", "dtype", "method"))
def multivariate_normal_sampler(data, mean, cov, *, shape, dtype, method):
    factor = factor_of(cov.astype(wide(dtype)), method).astype(cov.dtype)
    z = normal(data, (*shape, mean.shape[-1]), dtype)
    return mean + jnp.einsum("...ij,...j->...i", factor, z)


def multivariate_normal(
    key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None, method: str = "cholesky",
) -> Array:
    """Vectors of normal numbers with given means and covariances: f[*shape, n].

    Args:
      mean: f[..., n]; cov: f[..., n, n], symmetric and positive definite.
      shape: to which the leading axes of both must broadcast.
      dtype: of floats, by default that of mean and cov.
      method: "cholesky"; "eigh" or "svd" if cov may be singular.  All follow the same
        distribution, but do not draw the same numbers.
    """
    data = key_words("multivariate_normal", key)
    mean, cov = core.promote_dtypes([mean, cov], dtypes.to_inexact_dtype)
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    dtype = mean.dtype if dtype is None else dtype
    data, dtype = checked("multivariate_normal", key, dtype)
    for name, x, ndim in (("mean", mean, 1), ("cov", cov, 2)):
        if x.ndim < ndim:
            raise ValueError(
                f"multivariate_normal requires {name}.ndim >= {ndim}, got "
                f"{name}.ndim == {x.ndim}"
            )
    n = mean.shape[-1]
    if cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got "
            f"cov.shape == {cov.shape}."
        )
    given = np.empty(mean.shape[:-1], bool), np.empty(cov.shape[:-2], bool)
    shape = checked_shape("multivariate_normal", shape, *given)
    return multivariate_normal_sampler(
        data, mean, cov, shape=shape, dtype=dtype, method=method
    )


calls.explain_calls("random", globals())

_names.publish(globals(), """
    PRNGKey ball bernoulli beta binomial bits categorical cauchy chisquare choice clone
    dirichlet double_sided_maxwell exponential f fold_in gamma generalized_normal
    geometric gumbel key key_data key_dtype key_impl laplace loggamma logistic lognormal
    maxwell multinomial multivariate_normal normal orthogonal pareto permutation poisson
    rademacher randint rayleigh split t triangular truncated_normal uniform wald
    weibull_min wrap_key_data
""")
