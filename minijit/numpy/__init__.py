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

# chapter 3
from ..trace.dtypes import bfloat16, bool_, complex128, complex64, complexfloating
from ..trace.dtypes import finfo, float16, float32, float64, floating, generic, iinfo
from ..trace.dtypes import inexact, int16, int32, int64, int8, integer, isdtype
from ..trace.dtypes import issubdtype, number, promote_types, result_type, signedinteger
from ..trace.dtypes import uint16, uint32, uint64, uint8, unsignedinteger
from ..trace.base import names as _names
from ..trace import plans as _plans
from .core import abs, absolute, add, bitwise_and, bitwise_not, bitwise_or, bitwise_xor
from .core import bool, cdouble, complex_, ComplexWarning, cos, csingle, divide, double
from .core import dtype, e, equal, euler_gamma, exp, float_, greater, greater_equal, inf
from .core import int_, invert, isnan, less, less_equal, log, logical_and, logical_not
from .core import logical_or, logical_xor, maximum, minimum, multiply, nan, ndarray
from .core import ndim, negative, newaxis, not_equal, pi, positive, shape, sign, sin
from .core import single, size, sqrt, subtract, tanh, true_divide, uint
from .shapes import broadcast_arrays, broadcast_shapes, broadcast_to, expand_dims
from .shapes import matrix_transpose, moveaxis, ravel, reshape, squeeze, transpose
from .making import arange, array, asarray, astype, concatenate, copy, eye, full
from .making import full_like, linspace, ones, ones_like, stack, zeros, zeros_like
from .elementwise import isclose, pow, power, where
from .reducing import all, allclose, any, argmax, argmin, max, mean, min, prod, std, sum
from .reducing import var
from .contracting import dot, matmul, tensordot
from . import array_methods as array_methods
from . import slicing as slicing
from .remainders import divmod, floor_divide, mod, remainder

__all__ = _names.public_names(globals())
_on_demand: list[str] = []
__dir__, __getattr__ = _names.front(__name__, lambda: __all__, _on_demand)

# chapter 9
from ..trace.api import calls

calls.explain_calls("jnp", globals(), __all__)

# chapter 16
from .creation import c_, diag, diagflat, diagonal, empty, empty_like, from_dlpack
from .creation import frombuffer, fromfunction, fromstring, geomspace, identity
from .creation import index_exp, indices, ix_, logspace, meshgrid, mgrid, ogrid, r_, s_
from .creation import tri, tril, triu, vander
from .searching import argwhere, bincount, compress, diag_indices, diag_indices_from
from .searching import extract, flatnonzero, mask_indices, nonzero, tril_indices
from .searching import tril_indices_from, triu_indices, triu_indices_from
from .take_and_put import choose, fill_diagonal, piecewise, place, put, put_along_axis
from .take_and_put import (
    ravel_multi_index,
    select,
    take,
    take_along_axis,
    unravel_index,
)
from .mathematics import acos, acosh, angle, arccos, arccosh, arcsin, arcsinh
from .mathematics import arctan, arctan2, arctanh, around, array_equal, array_equiv
from .mathematics import asin, asinh, atan, atan2, atanh, bitwise_count, bitwise_invert
from .mathematics import bitwise_left_shift, bitwise_right_shift, cbrt, ceil, clip, conj
from .mathematics import conjugate, copysign, cosh, deg2rad, degrees, exp2
from .mathematics import expm1, fabs, float_power, floor, fmax, fmin, fmod
from .mathematics import frexp, gcd, heaviside, hypot, i0, imag, iscomplex
from .mathematics import iscomplexobj, isfinite, isinf, isneginf, isposinf, isreal
from .mathematics import isrealobj, isscalar, lcm, ldexp, left_shift, log10, log1p, log2
from .mathematics import logaddexp, logaddexp2, modf, nan_to_num, nextafter
from .mathematics import rad2deg, radians, real, reciprocal, right_shift
from .mathematics import rint, round, signbit, sinc, sinh, spacing, square, tan, trunc
from .sorting import argpartition, argsort, lexsort, partition, searchsorted, sort
from .sorting import sort_complex
from .statistics import corrcoef, cov, digitize, histogram, histogram2d
from .statistics import histogram_bin_edges, histogramdd, median, nanmedian
from .statistics import nanpercentile, nanquantile, percentile, quantile
from .sets import intersect1d, isin, setdiff1d, setxor1d, union1d, unique, unique_all
from .sets import unique_counts, unique_inverse, unique_values
from .rearranging import array_split, atleast_1d, atleast_2d, atleast_3d, block
from .rearranging import column_stack, concat, dsplit, dstack, flip, fliplr, flipud
from .rearranging import hsplit, hstack, permute_dims, resize, roll, rollaxis, rot90
from .rearranging import split, swapaxes, tile, unstack, vsplit, vstack
from .editing import append, delete, insert, repeat, trim_zeros
from .padding import pad
from .reductions import amax, amin, apply_over_axes, average, count_nonzero, nanargmax
from .reductions import nanargmin, nanmax, nanmean, nanmin, nanprod, nanstd, nansum
from .reductions import nanvar, ptp
from .cumulative import cumprod, cumsum, cumulative_prod, cumulative_sum, nancumprod
from .cumulative import nancumsum
from .calculus import diff, ediff1d, gradient, interp, trapezoid, unwrap
from .signals import bartlett, blackman, convolve, correlate, hamming, hanning, kaiser
from .products import cross, inner, kron, matvec, outer, trace, vdot, vecdot, vecmat
from .einstein import einsum, einsum_path
from .bits import packbits, unpackbits
from ..ops.narrow_dtypes import float4_e2m1fn, float8_e3m4, float8_e4m3, int2, int4
from ..ops.narrow_dtypes import float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz
from ..ops.narrow_dtypes import float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, uint2
from ..ops.narrow_dtypes import uint4
from .polynomials import poly, polyadd, polyder, polydiv, polyfit, polyint, polymul
from .polynomials import polysub, polyval, roots
from .interchange import array_repr, array_str, can_cast, fromfile, fromiter
from .interchange import get_printoptions, iterable
from .interchange import load, printoptions, save, savez, set_printoptions
from .namespace import __array_api_version__, __array_namespace_info__
from . import methods as methods
from ..trace.api import calls
from ..trace.concrete import ConcreteArray as _ConcreteArray
from ..trace.core import Array as _Array, operators as _operators
from ..trace.api.operator_calls import explain_operators as _explain_operators
from ..trace.api.operator_calls import give_to_class as _give_to_class
from .take_and_put import Indexed as _Indexed
from .ufuncs import add_methods as _add_methods, frompyfunc, ufunc
from .vectorized import apply_along_axis, vectorize

__all__ = _names.public_names(globals())
_on_demand += ["fft", "linalg"]

calls.explain_calls("jnp", globals(), __all__, results=["frompyfunc", "vectorize"])
_add_methods(globals())
calls.explain_calls("Array", _operators)
_explain_operators(_Array, _operators)
calls.explain_methods("Array", _ConcreteArray, ["item"])
_give_to_class(_Array, _operators)
calls.explain_methods("Array.at", _Indexed)
