"""What primitives compute, in NumPy, where NumPy's own functions do not do.

    divide(np.array([-7, 1]), np.array([2, 0]))         # [-3, -1]: cut, and no error
    convert_values(np.array([300.0]), np.dtype("int8")) # [127]: saturated
    summed(np.add)(x, axes=(0,))                        # int8 is added up as int8

Everything here takes and returns NumPy arrays.  Values are JAX's on a CPU.
"""

import contextvars
import functools
import itertools
import math
import operator

import numpy as np

from . import dtypes
from .shape_checks import inexact, integer, is_kind, real

# Division by zero, overflow and NaN follow IEEE 754 and are not worth a warning.  NumPy
# keeps what it does about them in the context; to enter one that was made here, once,
# takes a tenth of the time of `np.errstate`.
quiet = contextvars.Context()
quiet.run(np.seterr, all="ignore")


def quietly(function, *args, **kwargs):
    """`function(*args, **kwargs)` without NumPy's warnings of floating point."""
    return quiet.copy().run(function, *args, **kwargs)


# -- 16-bit floats


def widen(x):
    """A 16-bit float in 32 bits, where both computing and summing are safe.

    So are the floats of 8 bits that come with chapter 16.
    """
    if x.dtype.itemsize > 2 or not is_kind(x.dtype, real):
        return x
    return x.astype(np.float32)


def widened(function):
    """`function` on 32-bit versions of 16-bit floats; `on_numpy` rounds its result.

    Of many numbers of complex64 some functions are computed by real ones.
    """

    def wide(*args, **params):
        for x in args:
            if x.dtype.itemsize <= 2:
                return function(*map(widen, args), **params)
        if function in parts and x.dtype == np.complex64 and x.size >= FEW:
            return in_parts(function, x)
        return function(*args, **params)

    def of_types(avals, params):
        small = any(a.dtype.itemsize <= 2 for a in avals)
        return wide if small or avals[0].dtype == np.complex64 else function

    wide.of_types = of_types  # type: ignore[attr-defined]
    return wide


# From so many elements on real functions, which are vectorised, are faster.
FEW = 256


def in_parts(function, z):
    """A function of complex numbers by its parts; where that overflows, by NumPy's."""
    result = np.empty(z.shape, z.dtype)
    result.real, result.imag = parts[function](z.real, z.imag)
    right = np.isfinite(result)
    if not right.all():
        result[~right] = function(z[~right])
    return result


def log_parts(x, y):
    wide = x.astype(np.float64)
    size = wide * wide + np.square(y, dtype=np.float64)
    # Of zero and infinity NumPy's logarithm knows the angle.
    return np.where(size > 0, np.log(size) / 2, np.nan), np.arctan2(y, x)


def sqrt_parts(x, y):
    wide = x.astype(np.float64)
    size = np.sqrt(wide * wide + np.square(y, dtype=np.float64))
    near = np.sqrt((size + np.abs(wide)) / 2)
    far = y / (near + near)
    left = np.signbit(x)
    turned = np.abs(far), np.copysign(near, y)
    return np.where(left, turned[0], near), np.where(left, turned[1], far)


def tanh_parts(x, y):
    real, turn = np.tanh(x), np.tan(y)
    below = 1 + np.square(real * turn)
    return real * (1 + turn * turn) / below, turn / np.square(np.cosh(x)) / below


def tan_parts(x, y):
    """tan(z) is tanh(iz) / i."""
    imag, real = tanh_parts(-y, x)
    return real, -imag


parts = {
    np.exp: lambda x, y: (np.exp(x) * np.cos(y), np.exp(x) * np.sin(y)),
    np.sin: lambda x, y: (np.sin(x) * np.cosh(y), np.cos(x) * np.sinh(y)),
    np.cos: lambda x, y: (np.cos(x) * np.cosh(y), -np.sin(x) * np.sinh(y)),
    np.sinh: lambda x, y: (np.sinh(x) * np.cos(y), np.cosh(x) * np.sin(y)),
    np.cosh: lambda x, y: (np.cosh(x) * np.cos(y), np.sinh(x) * np.sin(y)),
    np.log: log_parts,
    np.sqrt: sqrt_parts,
    np.tanh: tanh_parts,
    np.tan: tan_parts,
}


LONG = 1024


def total_dtype(dtype, terms):
    """In what a sum or a product is kept while it grows, one term after the other.

    A long one of 32-bit floats in 64 bits: a sum would lose the small numbers that come
    late, and errors of one sign would add up.
    """
    wide = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}
    return np.dtype(wide.get(dtype, dtype) if terms > LONG else dtype)


# -- element by element


def sign_value(x):
    """-1, 0, 1 or NaN; the sign of a zero stays, and x/|x| of a complex number."""
    signs = np.sign(x)
    if x.dtype.kind == "c":
        # NumPy says i for nan+inf*i: infinite, so its NaN does not matter there.
        signs = np.where(np.isnan(x), x.dtype.type(complex("nan+nanj")), signs)
    return np.where(x == 0, x, signs)


def divide(x, y):
    """x / y; of integers the quotient cut towards zero, and x/0 = -1 (all bits set)."""
    if not is_kind(x.dtype, integer):
        quotient = np.true_divide(x, y)
        return with_infinities(x, y, quotient) if x.dtype.kind == "c" else quotient
    quotient = np.floor_divide(x, np.where(y == 0, y.dtype.type(1), y))
    cut = ((x < 0) != (y < 0)) & (quotient * y != x)
    return np.where(y == 0, ~x.dtype.type(0), quotient + cut.astype(x.dtype))


def with_infinities(x, y, quotient):
    """A complex quotient with what annex G of C's standard says of infinities."""
    x, y = np.broadcast_arrays(x, y)
    lost = np.isnan(quotient.real) & np.isnan(quotient.imag)
    zero = y == 0
    if not (lost.any() or zero.any()):
        return quotient

    def only(z):
        """The signs of infinite parts, and zeros for others."""
        one = z.real.dtype.type(1)
        return [np.copysign(np.isinf(p) * one, p) for p in (z.real, z.imag)]

    def product(a, b, c, d, scale):
        """scale * (a + bi) / (c + di), but for the square of the divisor's size."""
        return scale * (a * c + b * d), scale * (b * c - a * d)

    whole = lost & np.isinf(x) & np.isfinite(y)
    none = lost & np.isfinite(x) & np.isinf(y)
    huge = np.copysign(y.real.dtype.type(np.inf), y.real)
    cases = [zero, whole, none]
    (a, b), (c, d) = only(x), only(y)
    real, imag = zip(
        (huge * x.real, huge * x.imag), product(a, b, y.real, y.imag, np.inf),
        product(x.real, x.imag, c, d, 0.0), strict=True,
    )
    result = np.empty(quotient.shape, quotient.dtype)
    result.real = np.select(cases, real, quotient.real)
    result.imag = np.select(cases, imag, quotient.imag)
    return result


def reciprocal(x):
    """1 / x of what is no integer."""
    return divide(x.dtype.type(1), x)


def power(x, y):
    """x**y, computed in x's dtype."""
    y = y.astype(x.dtype)
    if x.dtype == np.float32 and (x < 0).any() and (y == np.rint(y)).all():
        # A number below 0 keeps NumPy from computing several at once.
        result, half = np.power(np.abs(x), y), y / 2
        return np.where(half == np.rint(half), result, np.copysign(result, x))
    result = np.power(x, y)
    if y.ndim == 0 and y == 0.5 and x.dtype.kind == "f":
        # NumPy takes the square root then, which is NaN for -inf, and -0.0 for -0.0.
        return np.where(x == -np.inf, x.dtype.type(np.inf), result + x.dtype.type(0))
    return result


def by_squaring(x, n, multiply):
    """x to the power n >= 0 by about log2(n) multiplications; None for n = 0."""
    result = None
    while n:
        if n % 2:
            result = x if result is None else multiply(result, x)
        n //= 2
        x = multiply(x, x) if n else x
    return result


def power_by_squaring(x, *, y):
    """x**y, and 1/x**-y for negative y."""
    result = by_squaring(x, abs(y), operator.mul)
    if result is None:
        return np.ones_like(x)
    return reciprocal(result) if y < 0 else result


def maximum(x, y):
    """The larger of two, NaN if either is; 0.0 is larger than -0.0."""
    larger = limited(np.maximum, x, y)
    if not has_negative_zero(larger):
        return larger
    return with_signs(larger, np.signbit(x) & np.signbit(y))


def minimum(x, y):
    """The smaller of two, NaN if either is; -0.0 is smaller than 0.0."""
    smaller = limited(np.minimum, x, y)
    if not (has_negative_zero(x) or has_negative_zero(y)):
        return smaller
    return with_signs(smaller, np.signbit(x) | np.signbit(y))


def limited(ufunc, x, y):
    """The extremum; of many floats and a number by `clip`, which NumPy does faster."""
    if y.ndim > x.ndim:
        x, y = y, x
    if y.ndim or x.size < MANY or x.dtype.kind != "f":
        return ufunc(x, y)
    return np.clip(x, *((y, np.inf) if ufunc is np.maximum else (-np.inf, y)))


def with_signs(extremum, negative):
    """An extremum whose zeros are -0.0 where `negative` holds: NumPy has no rule."""
    return np.where((extremum == 0) & negative, -0.0, extremum + 0)


def has_negative_zero(x):
    """Whether a real array has a -0.0: its bits are those of the least integer."""
    if x.dtype.kind != "f" or not x.size:
        return False
    word, least = words[x.dtype.itemsize]
    return x.view(word).min() == least


# From so many elements on it pays to prepare what NumPy does faster.
MANY = 1 << 13
# So many at a time stay in the cache between the steps of one result.
BLOCK = 1 << 16
words = {n: (np.dtype(f"i{n}"), np.iinfo(f"i{n}").min) for n in (1, 2, 4, 8)}


def convert_values(x, new_dtype, weak_type=False):
    """As C converts, but a float out of an integer type's range takes its limit."""
    x = widen(x)
    if x.dtype.kind == "c" and new_dtype.kind != "c":
        x = x.real
    if new_dtype.kind == "b":
        return x != 0
    if x.dtype.kind != "f" or not is_kind(new_dtype, integer):
        return x.astype(new_dtype)
    limits = dtypes.iinfo(new_dtype)
    low, high = float(limits.min), float(limits.max)
    if x.size and low < x.min() and x.max() < high:  # So none is NaN.
        return x.astype(new_dtype)
    x = x.astype(np.float64)
    inside = np.where((x > low) & (x < high), x, 0).astype(new_dtype)
    inside = np.where(x >= high, np.array(limits.max, new_dtype), inside)
    return np.where(x <= low, np.array(limits.min, new_dtype), inside)


def select_values(which, *cases):
    """cases[which], elementwise; an index out of range takes the nearest case."""
    if which.dtype.kind == "b" and len(cases) == 2:
        many = which.size > MANY and which.shape == cases[0].shape
        return (by_bits if many else np.where)(which, cases[1], cases[0])
    result = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        result = np.where(which <= i, case, result)
    return result


def by_bits(which, x, y):
    """`np.where` of arrays of one shape, without a branch for each element."""
    if x.dtype.itemsize not in words:
        return np.where(which, x, y)
    word, _ = words[x.dtype.itemsize]
    result = np.empty(x.shape, x.dtype)
    # All bits of a byte are set for True, and so are those of the word it becomes.
    bits = np.negative(which.view(np.int8))
    arrays = [bits.ravel(), *(a.view(word).ravel() for a in (x, y, result))]
    for first in range(0, x.size, BLOCK):
        take, x, y, out = (a[first : first + BLOCK] for a in arrays)
        np.bitwise_xor(x, y, out=out)
        np.bitwise_and(out, take, out=out, dtype=word)
        np.bitwise_xor(out, y, out=out)
    return result


# -- elements that move


def broadcast_in_dim_values(x, *, shape, broadcast_dimensions):
    """`x` repeated, its axis i as axis broadcast_dimensions[i]."""
    if x.ndim:
        order = sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
        aligned = [1] * len(shape)
        for size, dim in zip(x.shape, broadcast_dimensions, strict=True):
            aligned[dim] = size
        x = x.transpose(order).reshape(aligned)
    # Written at once, for results are contiguous; np.broadcast_to takes longer.
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


def reshape_values(x, *, new_sizes, dimensions):
    """`x` in another shape, after a transpose by `dimensions` if they are given."""
    return (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes)


def slice_values(x, *, start_indices, limit_indices, strides):
    """x[start:limit:stride] along every axis."""
    strides = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, strides))]


def iota_values(*, dtype, shape, dimension):
    """0, 1, 2, ... along `dimension`."""
    column = (-1,) + (1,) * (len(shape) - dimension - 1)
    counts = np.arange(shape[dimension]).astype(dtype)
    return np.broadcast_to(counts.reshape(column), shape)


# -- reductions


@functools.cache
def lowest(dtype):
    """The identity of `max`: -inf, or the least value of an integer or bool dtype."""
    if is_kind(dtype, integer):
        return np.array(dtypes.iinfo(dtype).min, dtype)
    return np.array(-np.inf if is_kind(dtype, inexact) else False, dtype)


@functools.cache
def highest(dtype):
    """The identity of `min`: inf, or the largest value of an integer or bool dtype."""
    if is_kind(dtype, integer):
        return np.array(dtypes.iinfo(dtype).max, dtype)
    return np.array(np.inf if is_kind(dtype, inexact) else True, dtype)


def summed(ufunc):
    """A reduction by a ufunc in the array's own dtype; NumPy would widen int8."""

    def values(x, *, axes):
        kept = x.dtype
        if x.size > MANY and ufunc is np.add and kept.kind in "fc":
            return in_rows(ufunc, sum_of_rows, x, axes).astype(kept, copy=False)
        if x.size > LONG:
            # NumPy adds by pairs, but only along the last axis.
            shape = x.shape[:-1] if ufunc is np.add else x.shape
            terms = math.prod(n for i, n in enumerate(shape) if i in axes)
            kept = total_dtype(kept, terms)
        # An array to write to, where NumPy would make a number of its own; and by
        # position: keywords take twice as long to be read.
        out = np.empty((), kept) if len(axes) == x.ndim else None
        total = ufunc.reduce(x, axes, kept, out)
        if kept is not x.dtype:
            total = total.astype(x.dtype)
        # One number is its own sum: 0 + -0.0, which NumPy computes, is 0.0.
        return x.reshape(total.shape) if x.size == total.size > 0 else total

    return values


# NumPy begins anew for each row: many shorter ones are laid side by side.  From so many
# elements on it adds rows to each other as fast as they come.
ROW, LONG_ROW = 64, 1024
# So many rows are added up in an array's own dtype.
SHARE = 128
# Rows of so few elements are reduced column by column.
SHORT = 16


def in_rows(ufunc, reduce, x, axes):
    """A reduction of a large array, axes beside each other as if they were one.

    Args:
      reduce: function of x[a, n, b] that reduces the axis in the middle.
    """
    result, groups = x, []
    for is_reduced, group in itertools.groupby(range(x.ndim), axes.__contains__):
        groups.append((is_reduced, math.prod(x.shape[i] for i in group)))
    for place in reversed(range(len(groups))):
        is_reduced, n = groups[place]
        if is_reduced:
            before = math.prod(n for _, n in groups[:place])
            result = side_by_side(ufunc, reduce, result.reshape(before, n, -1))
    return result.reshape([n for i, n in enumerate(x.shape) if i not in axes])


def side_by_side(ufunc, reduce, x):
    """`reduce(x)`; of many short rows those beside each other are a long one first."""
    a, n, b = x.shape
    together = -(-ROW // b) if 1 < b < ROW else 1
    if not n >= 4 * together > 4:
        return reduce(x)
    whole = n // together * together
    rows = reduce(x[:, :whole].reshape(a, -1, together * b))
    result = ufunc.reduce(rows.reshape(a, together, b), 1)
    return result if whole == n else ufunc(result, reduce(x[:, whole:]))


def sum_of_rows(x):
    """x: float[a, n, b] -> its sum over n, float[a, b], in float64 if n is large.

    `einsum` adds several times as fast as NumPy's own sums.
    """
    a, n, b = x.shape
    if n <= 4 and b == 1:
        return functools.reduce(np.add, np.moveaxis(x, 1, 0))
    if n <= SHARE:
        return np.add.reduce(x, 1) if b >= LONG_ROW else np.einsum("anb->ab", x)
    whole = n // SHARE * SHARE
    total = sum_of_rows(x[:, :whole].reshape(-1, SHARE, b)).reshape(a, -1, b)
    total = np.add.reduce(total, 1, total_dtype(x.dtype, n))
    return total if whole == n else total + sum_of_rows(x[:, whole:])


def chosen(ufunc, identity):
    """A reduction by `max` or `min`; of an empty axis the identity."""
    both = np.logical_and if ufunc is np.maximum else np.logical_or

    def values(x, *, axes):
        found = extremum(ufunc, x, axes, identity(x.dtype))
        if found.dtype.kind != "f" or np.logical_and.reduce(found, None):
            return found
        return with_signs(found, extremum(both, np.signbit(x), axes, both.identity))

    return values


def extremum(ufunc, x, axes, initial):
    """A reduction whose order no digit depends on."""

    def of_rows(x):
        if 0 < x.shape[1] <= SHORT and x.shape[2] < ROW:
            return functools.reduce(ufunc, np.moveaxis(x, 1, 0))
        return ufunc.reduce(x, 1, initial=initial)

    if x.size > LONG:
        return in_rows(ufunc, of_rows, x, axes)
    return ufunc.reduce(x, axis=axes, initial=initial)


def index_of(function):
    """argmax or argmin by NumPy's function of that name: the first NaN wins."""

    def values(x, *, axes, index_dtype):
        return function(x, axis=axes[0]).astype(index_dtype)

    return values


# -- products


def real_part(dtype):
    """The dtype of the parts of a complex number; other dtypes are their own."""
    return np.dtype(f"float{4 * dtype.itemsize}") if dtype.kind == "c" else dtype


@functools.cache
def dot_rank(dtype):
    """Sorts dtypes by how much they hold, as XLA's type inference for dot does."""
    part = real_part(dtype)
    floating = is_kind(part, real)
    limits = dtypes.finfo(part) if floating else None
    return (
        dtype.kind == "c",
        limits.maxexp if floating else -1,
        limits.nmant if floating else -1,
        dot_bits(part),
        part.kind != "u",
    )


def dot_bits(dtype):
    """How many bits a number, or the part of a complex one, has in a product."""
    return 1 if dtype.kind == "b" else 8 * real_part(dtype).itemsize


def dot_dtype(lhs, rhs, preferred=None):
    """The dtype of a product: the larger one, or `preferred` if that is asked for."""
    result = lhs if dot_rank(lhs) > dot_rank(rhs) else rhs
    if lhs != rhs and dot_rank(lhs) == dot_rank(rhs):
        raise TypeError(f"lax.dot_general argument type error: {lhs}, {rhs}")
    if preferred is None or preferred == result:
        return result
    if not is_kind(result, real) and dot_bits(preferred) < dot_bits(result):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {preferred} for result type of {result}."
        )
    return preferred


@functools.cache
def joint_wide_dtype(*dtypes):
    """The dtype in which arrays of these are multiplied: 16-bit floats in 32 bits.

    The last one is that of the result: integers wrap in it.
    """
    if all(dtype.kind in "iu" for dtype in dtypes):
        return dtypes[-1]
    return np.result_type(*[widen(np.empty(0, dtype)) for dtype in dtypes])


def without(shape, axes):
    """The shape without the axes in `axes`."""
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def dot_general_values(lhs, rhs, **params):
    """Batch axes first, contracted axes together, and then one matrix product."""
    return product_of_types((lhs, rhs), params)(lhs, rhs)


def product_of_types(args, params):
    """`dot_general_values` of two arrays with the shapes and dtypes of `args`."""
    lhs, rhs = args
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    dtype = dot_dtype(lhs.dtype, rhs.dtype, params["preferred_element_type"])
    wide = joint_wide_dtype(lhs.dtype, rhs.dtype, dtype)
    lhs_free = without(range(lhs.ndim), lhs_contract + lhs_batch)
    rhs_free = without(range(rhs.ndim), rhs_contract + rhs_batch)
    lhs_order = *lhs_batch, *lhs_free, *lhs_contract
    rhs_order = *rhs_batch, *rhs_contract, *rhs_free
    batch, rows, size = (
        tuple([lhs.shape[i] for i in axes])
        for axes in (lhs_batch, lhs_free, lhs_contract)
    )
    columns = tuple([rhs.shape[i] for i in rhs_free])
    lhs_shape = *batch, math.prod(rows), math.prod(size)
    rhs_shape = *batch, math.prod(size), math.prod(columns)
    shape = batch + rows + columns
    lhs_laid_out = laid_out(lhs, wide, lhs_order, lhs_shape)
    rhs_laid_out = laid_out(rhs, wide, rhs_order, rhs_shape)
    # Of matrices and vectors as they are, NumPy's product takes the least for a call.
    ordered = [*lhs_order, *rhs_order] == [*range(lhs.ndim), *range(rhs.ndim)]
    one_each = len(size) == 1 and not batch and max(len(rows), len(columns)) <= 1
    if ordered and one_each and lhs.dtype == rhs.dtype == wide == dtype:
        return lambda lhs, rhs, **params: lhs.dot(rhs)

    def product(lhs, rhs, **params):
        result = (lhs_laid_out(lhs) @ rhs_laid_out(rhs)).reshape(shape)
        return result if result.dtype == dtype else convert_values(result, dtype)

    return product


def laid_out(x, dtype, order, shape):
    """A function that gives arrays like `x` a dtype, an order of axes, and a shape."""
    if x.dtype == dtype and sorted(order) == list(order):
        return np.asarray if x.shape == shape else lambda x: x.reshape(shape)
    return lambda x: x.astype(dtype, copy=False).transpose(order).reshape(shape)


dot_general_values.of_types = product_of_types  # type: ignore[attr-defined]
