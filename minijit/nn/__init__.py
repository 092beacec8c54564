"""What networks are made of, under the names of `jax.nn`.

    nn.relu(x), nn.gelu(x), nn.silu(x)          # activations, elementwise
    nn.softmax(logits), nn.logsumexp(logits)    # safe for any size of numbers
    nn.one_hot(labels, 10)
    nn.dot_product_attention(q, k, v, is_causal=True)
    nn.initializers.glorot_normal()(key, (64, 32))

Values and derivatives are JAX's, at corners too: the derivative of `relu` at 0 is 0.
"""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import lax, numpy as jnp
from ..numpy import arguments, core, tanh as tanh
from ..trace import dtypes
from ..trace.api import calls
from ..trace.base import names as _names
from ..trace.base.errors import user_level
from ..trace.types import Array, ArrayLike, Axis, DTypeLike
from ..transform.custom.custom_derivatives import custom_jvp
from ..transform.stop_gradient import stop_gradient


def array(name: str, x: Any) -> Array:
    """An argument of the function `name` as an array; TypeError if it is none."""
    arguments.check_arraylike(name, x)
    return jnp.asarray(x)


# ---- Activations


def identity(x: ArrayLike) -> Array:
    """x."""
    return array("identity", x)


@custom_jvp
def relu(x: ArrayLike) -> Array:
    """max(x, 0).  Its derivative at 0 is 0."""
    return jnp.maximum(x, 0)


@custom_jvp
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6).  Its derivative at 0 and at 6 is 0."""
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


def where_true(condition, t):
    """A tangent where a condition holds, else 0."""
    return lax.select(condition, t, lax.full_like(t, 0))


relu.defjvps(lambda t, y, x: where_true(x > 0, t))
relu6.defjvps(lambda t, y, x: where_true((x > 0) & (x < 6), t))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x² + b)) / 2, a smooth relu without exponentials."""
    x, b = array("squareplus", x), array("squareplus", b)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


def softplus(x: ArrayLike) -> Array:
    """log(1 + e**x), a smooth relu."""
    return jnp.logaddexp(x, 0)


def sparse_plus(x: ArrayLike) -> Array:
    """0 below -1, x above 1, and a parabola between."""
    x = array("sparse_plus", x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


def soft_sign(x: ArrayLike) -> Array:
    """x / (|x| + 1)."""
    x = array("soft_sign", x)
    return x / (jnp.abs(x) + 1)


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + e**-x)."""
    x, = core.promote_args_inexact("sigmoid", x)
    return lax.logistic(x)


def sparse_sigmoid(x: ArrayLike) -> Array:
    """The derivative of `sparse_plus`: 0, then (x + 1) / 2, then 1."""
    return 0.5 * jnp.clip(x + 1.0, 0.0, 2.0)


def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x); also called swish."""
    x = array("silu", x)
    return x * sigmoid(x)


swish = silu


def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x))."""
    x = array("mish", x)
    return x * jnp.tanh(softplus(x))


def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), exact for x far below 0."""
    return -softplus(-array("log_sigmoid", x))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha * (e**x - 1) below."""
    x = array("elu", x)
    # The other branch must not overflow: a derivative would see infinity times 0.
    below = jnp.where(x > 0, 0.0, x)
    return jnp.where(x > 0, x, alpha * jnp.expm1(below))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x above 0, negative_slope * x below."""
    x = array("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


def hard_tanh(x: ArrayLike) -> Array:
    """x between -1 and 1, which are the bounds."""
    x = array("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6: `sigmoid` out of three lines."""
    return relu6(x + 3.0) / 6.0


def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x)."""
    x = array("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha * (e**(x / alpha) - 1) below: `elu` with a smooth derivative."""
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


def selu(x: ArrayLike) -> Array:
    """`elu` scaled so that mean 0 and variance 1 come out as they went in."""
    alpha = 1.6732632423543772848170429916717
    scale = 1.0507009873554804934193349852946
    return scale * elu(x, alpha)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the share of a normal distribution that is below x.

    Args:
      approximate: compute that share with `tanh` instead of `erfc`.
    """
    x, = core.promote_args_inexact("gelu", x)
    if approximate:
        factor = np.sqrt(2 / np.pi).astype(x.dtype)
        return x * (0.5 * (1.0 + jnp.tanh(factor * (x + 0.044715 * x**3))))
    root = np.sqrt(0.5).astype(x.dtype)
    return jnp.array(0.5 * x * lax.erfc(-x * root), dtype=x.dtype)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along an axis, times the sigmoid of the second half."""
    x = array("glu", x)
    axis = arguments.canonical_axis(axis, x.ndim)
    if x.shape[axis] % 2:
        raise ValueError(f"glu: axis size must be divisible by 2, got {x.shape[axis]}")
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


@custom_jvp
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - e**-x), exact for small x and for large."""
    x = array("log1mexp", x)
    small = jnp.log(-jnp.expm1(-x))
    return jnp.where(x < jnp.log(2.0), small, jnp.log1p(-jnp.exp(-x)))


log1mexp.defjvps(lambda t, y, x: t / jnp.expm1(x))


# ---- Functions of a whole axis


def logsumexp(
    a: ArrayLike, axis: Axis = None, b: ArrayLike | None = None, keepdims: bool = False,
    return_sign: bool = False, where: ArrayLike | None = None,
) -> Any:
    """log(sum(b * e**a)), computed so that e**a overflows for no a.

    Args:
      a: an array.
      axis: one axis, several, or None for all.
      b: optional factors, which may be negative.
      return_sign: return (log of the absolute value, sign).
      where: optional bools, which elements count.

    Returns an array; NaN where the sum is negative, unless `return_sign`.
    """
    if where is not None:
        a = jnp.where(where, a, 0)
    if b is None:
        a, = core.promote_args_inexact("logsumexp", a)
    else:
        a, b = core.promote_args_inexact("logsumexp", a, b)
        a = jnp.where(b != 0, a, -np.inf)
    limits = dict(axis=axis, keepdims=True, where=where)
    top = jnp.max(a.real, **limits, initial=-np.inf)
    top = stop_gradient(jnp.where(jnp.isfinite(top), top, jnp.zeros_like(top)))
    terms = lax.exp(a - top.astype(a.dtype))
    terms = terms if b is None else terms * b
    total = jnp.sum(terms, **limits)
    sign = lax.sign(total)
    is_real = not dtypes.issubdtype(a.dtype, np.complexfloating)
    total = jnp.abs(total) if return_sign or is_real else total
    out = lax.log(total) + top.astype(total.dtype)
    if not keepdims:
        axes = arguments.canonical_axes(axis, a.ndim)
        out, sign = lax.squeeze(out, axes), lax.squeeze(sign, axes)
    if return_sign:
        return out, sign
    if b is not None and is_real:
        return jnp.where(sign < 0, jnp.array(np.nan, out.dtype), out)
    return out


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None,
    keepdims: bool = False,
) -> Array:
    """log(mean(e**x)); arguments as of `logsumexp`."""
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    ones = jnp.ones(np.shape(x), total.dtype)
    count = jnp.sum(ones, axis=axis, where=where, keepdims=keepdims)
    return total - jnp.log(count)


def below_top(x, axis, where):
    """x less its maximum along an axis; what does not count is -inf."""
    top = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    x = x if where is None else jnp.where(where, x, -np.inf)
    return x - stop_gradient(top)


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """x - logsumexp(x): the logarithm of `softmax`.

    Args:
      axis: one axis or several.
      where: optional bools, which elements count; the others become -inf.
    """
    shifted = below_top(array("log_softmax", x), axis, where)
    total = jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True)
    result = shifted - jnp.log(total)
    return result if where is None else jnp.where(where, result, -np.inf)


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """e**x, scaled to sum 1 along an axis.

    Args:
      axis: one axis or several.
      where: optional bools, which elements count; the others become 0.
    """
    powers = jnp.exp(below_top(array("softmax", x), axis, where))
    result = powers / jnp.sum(powers, axis, where=where, keepdims=True)
    return result if where is None else jnp.where(where, result, 0)


def standardize(
    x: ArrayLike, axis: Axis = -1, mean: ArrayLike | None = None,
    variance: ArrayLike | None = None, epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None, *, algorithm: str = "fast",
) -> Array:  # fmt: skip
    """x moved and scaled to mean 0 and variance 1 along an axis.

    Args:
      mean, variance: those of x, if they are known.
      epsilon: added to the variance.
      where: optional bools, which elements count for mean and variance.
      algorithm: "fast", the mean of the squares less the square of the mean, or
        "stable", the mean of the squares of x less its mean.
    """
    arguments.check_arraylike("standardize", x)
    limits = dict(keepdims=True, where=where)
    if mean is None:
        mean = jnp.mean(x, axis, **limits)
    if variance is not None:
        pass
    elif algorithm == "stable":
        variance = jnp.mean(jnp.square(jnp.subtract(x, mean)), axis, **limits)
    elif algorithm == "fast":
        variance = jnp.mean(jnp.square(x), axis, **limits) - jnp.square(mean)
        # Rounding may have made it negative.
        variance = jnp.clip(variance, 0)
    else:
        raise ValueError(
            f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'."
        )
    return jnp.subtract(x, mean) * lax.rsqrt(variance + epsilon)


def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: Any = -1
) -> Array:
    """Rows of zeros, with a one at the place that each integer of x names.

    Args:
      x: an array of ints; what is out of range gives zeros only.
      num_classes: the length of a row.
      dtype: by default float32.
      axis: where the rows lie in the result, or the name of an axis of `vmap`.
    """
    num_classes = arguments.static_int(num_classes, "num_classes of one_hot")
    x = jnp.asarray(x)
    if not dtypes.issubdtype(x.dtype, np.integer):
        warnings.warn(
            f"jax.nn.one_hot input should be integer-typed; got dtype={x.dtype}",
            DeprecationWarning,
            stacklevel=user_level(),
        )
    dtype = dtypes.user_dtype(float if dtype is None else dtype, "one_hot")
    if not isinstance(axis, int) and not hasattr(axis, "__index__"):
        return named_one_hot(x, num_classes, dtype, axis)
    axis = operator.index(axis)
    place = arguments.canonical_axis(axis, x.ndim + 1)
    shape = [1] * x.ndim
    shape.insert(place, num_classes)
    classes = lax.broadcasted_iota(x.dtype, shape, place)
    return (jnp.expand_dims(x, place) == classes).astype(dtype)


def named_one_hot(x, num_classes, dtype, axis):
    """`one_hot` along an axis of `vmap`: the element of each lane."""
    size = lax.axis_size(axis)
    if num_classes != size:
        raise ValueError(
            f"Expected num_classes to match the size of axis {axis}, but "
            f"{num_classes} != {size}"
        )
    return (x == lax.axis_index(axis)).astype(dtype)


# ---- Attention


def dot_product_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None,
    mask: ArrayLike | None = None, *, scale: float | None = None,
    is_causal: bool = False, query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None, local_window_size: Any = None,
    implementation: Any = None, return_residual: bool = False,
) -> Any:  # fmt: skip
    """softmax(query · key) · value: what each query finds among the keys.

    Args:
      query: (batch, queries, heads, features), or without the batch.
      key, value: (batch, keys, groups, features); each group of heads shares one.
      bias: optional, added to the products: (batch or 1, heads or 1, queries, keys).
      mask: optional bools of such a shape: where a query may look.
      scale: of the products, by default 1 / sqrt(features).
      is_causal: a query may look at keys up to its own place only.
      query_seq_lengths, key_value_seq_lengths: optional, how many count in each
        example: int32[batch].
      local_window_size: how far to the left and right a query may look: an int or two.
      implementation: None or "xla"; there is one.
      return_residual: return the logarithms of the softmax's sums, too.

    Raises ValueError for shapes and dtypes that do not fit.
    """
    if implementation not in (None, "xla"):
        raise ValueError(f"Unsupported implementation option: {implementation}")
    shape = np.shape(query)
    query, key, value, bias, mask = map(as_four, (query, key, value, bias, mask))
    lengths = query_seq_lengths, key_value_seq_lengths
    check_attention(query, key, value, bias, mask, *lengths)
    sizes = query.shape[1], key.shape[1]
    allowed = attention_mask(sizes, mask, is_causal, local_window_size, *lengths)
    scale = 1.0 / np.sqrt(query.shape[-1]) if scale is None else scale
    out, sums = attend(query, key, value, bias, allowed, scale)
    if query_seq_lengths is not None:
        counts = jnp.arange(query.shape[1]) < jnp.asarray(query_seq_lengths)[:, None]
        out = out * counts[:, :, None, None].astype(out.dtype)
    out = out.reshape(shape)
    return (out, stop_gradient(sums).reshape(shape[:-1])) if return_residual else out


def as_four(x):
    """An array with leading axes of size 1, four in all; None stays."""
    if x is None:
        return None
    x = jnp.asarray(x)
    return jnp.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x


def check_attention(query, key, value, bias, mask, query_lengths, key_lengths):
    """Raise ValueError unless the arguments of an attention fit."""
    batch, keys, groups, features = key.shape
    anything = (-1,) * 4
    wanted = [
        ("value", value, key.shape, key.dtype),
        ("query", query, (batch, -1, -1, features), key.dtype),
        ("mask", mask, anything, np.dtype(bool)),
        ("bias", bias, anything, None),
        ("query_seq_lengths", query_lengths, (batch,), np.dtype("int32")),
        ("key_value_seq_lengths", key_lengths, (batch,), np.dtype("int32")),
    ]
    for name, x, shape, dtype in wanted:
        if x is None:
            continue
        if np.ndim(x) != len(shape):
            raise ValueError(f"{name} ndim should be {len(shape)}, but got {x.ndim}")
        if dtype is not None and dtypes.dtype(x) != dtype:
            raise ValueError(f"{name} dtype should be {dtype}, but got {x.dtype}")
        pairs = zip(np.shape(x), shape, strict=True)
        if any(want not in (-1, got) for got, want in pairs):
            raise ValueError(f"{name} shape should be {shape}: but got {np.shape(x)}")
    if query.shape[2] % groups:
        raise ValueError(
            "The number of query heads must be a multiple of key/value heads, but got "
            f"{query.shape[2]} vs {groups}"
        )


def attention_mask(sizes, mask, is_causal, window, query_lengths, key_lengths):
    """Where queries may look: bools (batch, heads, queries, keys), or None."""
    queries, keys = (np.arange(n) for n in sizes)
    masks = [] if mask is None else [mask]
    if is_causal:
        masks.append(jnp.asarray(queries[:, None] >= keys)[None, None])
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        near = queries[:, None] <= keys + left
        near &= queries[:, None] >= keys - right
        masks.append(jnp.asarray(near)[None, None])
    if query_lengths is not None:
        counts = queries < jnp.asarray(query_lengths)[:, None]
        masks.append(counts[:, None, :, None])
    if key_lengths is not None:
        counts = keys < jnp.asarray(key_lengths)[:, None]
        masks.append(counts[:, None, None, :])
    joint = None
    for m in masks:
        joint = m if joint is None else joint & m
    return joint


def attend(query, key, value, bias, allowed, scale):
    """-> (attention, logarithms of the sums): (b, t, n, h), (b, t, n)."""
    batch, queries, heads, features = query.shape
    groups = key.shape[2]
    query = query.reshape(batch, queries, groups, heads // groups, features)
    wide = jnp.promote_types(query.dtype, np.float32)
    # b: batch, t: queries, s: keys, k: groups, g: heads of a group, h: features
    products = jnp.einsum("btkgh,bskh->bkgts", query, key, preferred_element_type=wide)
    products = products * jnp.array(scale, products.dtype)
    if bias is not None:
        products = (products + in_groups(bias, groups)).astype(products.dtype)
    if allowed is not None:
        # Not -inf: a query that may look nowhere must not become NaN.
        low = -0.7 * min(dtypes.finfo(wide).max, dtypes.finfo(np.float32).max)
        low = jnp.asarray(low, products.dtype)
        products = jnp.where(in_groups(allowed, groups), products, low)
    products = products.astype(np.float32)
    shares = softmax(products).astype(key.dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", shares, value)
    sums = logsumexp(products, axis=-1).astype(key.dtype)
    sums = jnp.transpose(sums, (0, 3, 1, 2)).reshape(batch, queries, heads)
    return out.reshape(batch, queries, heads, features), sums


def in_groups(x, groups):
    """The axis of heads split in two: groups, and heads of a group; 1 is 1 and 1."""
    batch, heads, *rest = x.shape
    split = (1, 1) if heads == 1 else (groups, heads // groups)
    return x.reshape(batch, *split, *rest)


calls.explain_calls("nn", globals())

__all__ = """
    celu dot_product_attention elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh
    identity initializers leaky_relu log1mexp log_sigmoid log_softmax logmeanexp
    logsumexp mish one_hot relu relu6 selu sigmoid silu soft_sign softmax softplus
    sparse_plus sparse_sigmoid squareplus standardize swish tanh
""".split()
__dir__, __getattr__ = _names.front(globals(), __all__)

if TYPE_CHECKING:  # They import all of `random`, which activations have no use for.
    from . import initializers as initializers
