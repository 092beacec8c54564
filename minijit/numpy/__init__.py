"""NumPy's functions: `import minijit.numpy as jnp`; see `minijit.numpy.core`."""

# chapter 3
from ..trace.dtypes import (
    bfloat16 as bfloat16, bool_ as bool_, complex128 as complex128,
    complex64 as complex64, complexfloating as complexfloating, finfo as finfo,
    float16 as float16, float32 as float32, float64 as float64, floating as floating,
    generic as generic, iinfo as iinfo, inexact as inexact, int16 as int16,
    int32 as int32, int64 as int64, int8 as int8, integer as integer,
    isdtype as isdtype, issubdtype as issubdtype, number as number,
    promote_types as promote_types, result_type as result_type,
    signedinteger as signedinteger, uint16 as uint16, uint32 as uint32,
    uint64 as uint64, uint8 as uint8, unsignedinteger as unsignedinteger,
)
from ..trace.base import names as _names
from ..trace import plans as _plans
from .core import (
    abs as abs, absolute as absolute, add as add, bitwise_and as bitwise_and,
    bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_xor as bitwise_xor,
    bool as bool, cdouble as cdouble, complex_ as complex_,
    ComplexWarning as ComplexWarning, cos as cos, csingle as csingle, divide as divide,
    double as double, dtype as dtype, e as e, equal as equal,
    euler_gamma as euler_gamma, exp as exp, float_ as float_, greater as greater,
    greater_equal as greater_equal, inf as inf, int_ as int_, invert as invert,
    isnan as isnan, less as less, less_equal as less_equal, log as log,
    logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    logical_xor as logical_xor, maximum as maximum, minimum as minimum,
    multiply as multiply, nan as nan, ndarray as ndarray, ndim as ndim,
    negative as negative, newaxis as newaxis, not_equal as not_equal, pi as pi,
    positive as positive, shape as shape, sign as sign, sin as sin, single as single,
    size as size, sqrt as sqrt, subtract as subtract, tanh as tanh,
    true_divide as true_divide, uint as uint,
)
from .shapes import (
    broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes,
    broadcast_to as broadcast_to, expand_dims as expand_dims,
    matrix_transpose as matrix_transpose, moveaxis as moveaxis, ravel as ravel,
    reshape as reshape, squeeze as squeeze, transpose as transpose,
)
from .making import (
    arange as arange, array as array, asarray as asarray, astype as astype,
    concatenate as concatenate, copy as copy, eye as eye, full as full,
    full_like as full_like, linspace as linspace, ones as ones, ones_like as ones_like,
    stack as stack, zeros as zeros, zeros_like as zeros_like,
)
from .elementwise import isclose as isclose, pow as pow, power as power, where as where
from .reducing import (
    all as all, allclose as allclose, any as any, argmax as argmax, argmin as argmin,
    max as max, mean as mean, min as min, prod as prod, std as std, sum as sum,
    var as var,
)
from .contracting import dot as dot, matmul as matmul, tensordot as tensordot
from . import array_methods as array_methods, slicing as slicing
from .elementwise import (
    divmod as divmod, floor_divide as floor_divide, mod as mod, remainder as remainder,
)

_listed = lambda: _names.public_names(globals())
_names.front(globals(), _listed)

# chapter 9
from ..trace.api import calls

calls.explain_calls("jnp", globals(), _listed())

# chapter 16
from ..ops.narrow_dtypes import (
    float4_e2m1fn as float4_e2m1fn, float8_e3m4 as float8_e3m4,
    float8_e4m3 as float8_e4m3, float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn, float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2, float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu, int2 as int2, int4 as int4, uint2 as uint2,
    uint4 as uint4,
)
from .namespace import (
    __array_api_version__, __array_namespace_info__, add_methods as _add_methods,
)
import typing as _typing
from ..trace.api import calls
from ..trace.concrete import ConcreteArray as _ConcreteArray
from ..trace.core import Array as _Array, operators as _operators
from ..trace.api.operator_calls import (
    Later as _Later, explain_operators as _explain_operators,
    give_to_class as _give_to_class,
)
from ..trace.base.demand import on_demand as _on_demand
from .core import later as _later, operator_methods as _operator_methods
from . import index_to_gather as _index_to_gather

# What most programs do without.
_later |= {
    "float_divmod": _on_demand("numpy.mathematics:float_divmod"),
    "full_of_type": _on_demand("numpy.creation:full_of_type"),
    "order": _on_demand("numpy.mathematics:lexicographic"),
    "where": _on_demand("numpy.sorting:nonzero"),
    "where_of_type": _on_demand("numpy.creation:where_of_type"),
}
_operators |= _operator_methods({
    "lshift": ("<<", _on_demand("numpy.mathematics:left_shift")),
    "rshift": (">>", _on_demand("numpy.mathematics:right_shift")),
})
_operators["__round__"] = _on_demand("numpy.methods:rounded")


def _for_users(functions):
    calls.explain_calls("jnp", functions, results=["frompyfunc", "vectorize"])
    _add_methods(functions)


_own = {name: globals()[name] for name in _listed()}
_for_users(_own)
globals().update(_own)
_names.front(globals(), _listed, _for_users)
calls.explain_calls("Array", _operators)
_explain_operators(_Array, _operators)
calls.explain_methods("Array", _ConcreteArray, ["item"])
_give_to_class(_Array, _operators)
_give_to_class(_Array, {name: _Later(name, "numpy.methods") for name in """
    argpartition argsort at byteswap choose clip compress conj conjugate cumprod cumsum
    diagonal flat imag nonzero ptp real repeat round searchsorted sort swapaxes take
    trace view
""".split()})

# What is imported when it is asked for, for those who only read.
if _typing.TYPE_CHECKING:
    from .creation import (
        c_ as c_, diag as diag, diagflat as diagflat, diagonal as diagonal,
        empty as empty, empty_like as empty_like, from_dlpack as from_dlpack,
        frombuffer as frombuffer, fromfunction as fromfunction,
        fromstring as fromstring, geomspace as geomspace, identity as identity,
        index_exp as index_exp, indices as indices, ix_ as ix_, logspace as logspace,
        meshgrid as meshgrid, mgrid as mgrid, ogrid as ogrid, r_ as r_, s_ as s_,
        trace as trace, tri as tri, tril as tril, triu as triu, vander as vander,
    )
    from .sorting import (
        argpartition as argpartition, argsort as argsort, argwhere as argwhere,
        bincount as bincount, compress as compress, diag_indices as diag_indices,
        diag_indices_from as diag_indices_from, extract as extract,
        flatnonzero as flatnonzero, lexsort as lexsort, mask_indices as mask_indices,
        nonzero as nonzero, partition as partition, searchsorted as searchsorted,
        sort as sort, sort_complex as sort_complex, tril_indices as tril_indices,
        tril_indices_from as tril_indices_from, triu_indices as triu_indices,
        triu_indices_from as triu_indices_from,
    )
    from .take_and_put import (
        choose as choose, fill_diagonal as fill_diagonal, piecewise as piecewise,
        place as place, put as put, put_along_axis as put_along_axis,
        ravel_multi_index as ravel_multi_index, repeat as repeat, select as select,
        take as take, take_along_axis as take_along_axis,
        unravel_index as unravel_index,
    )
    from .mathematics import (
        acos as acos, acosh as acosh, angle as angle, arccos as arccos,
        arccosh as arccosh, arcsin as arcsin, arcsinh as arcsinh, arctan as arctan,
        arctan2 as arctan2, arctanh as arctanh, around as around,
        array_equal as array_equal, array_equiv as array_equiv, asin as asin,
        asinh as asinh, atan as atan, atan2 as atan2, atanh as atanh,
        bitwise_count as bitwise_count, bitwise_invert as bitwise_invert,
        bitwise_left_shift as bitwise_left_shift,
        bitwise_right_shift as bitwise_right_shift, cbrt as cbrt, ceil as ceil,
        clip as clip, conj as conj, conjugate as conjugate, copysign as copysign,
        cosh as cosh, deg2rad as deg2rad, degrees as degrees, exp2 as exp2,
        expm1 as expm1, fabs as fabs, float_power as float_power, floor as floor,
        fmax as fmax, fmin as fmin, fmod as fmod, frexp as frexp, gcd as gcd,
        heaviside as heaviside, hypot as hypot, i0 as i0, imag as imag,
        iscomplex as iscomplex, iscomplexobj as iscomplexobj, isfinite as isfinite,
        isinf as isinf, isneginf as isneginf, isposinf as isposinf, isreal as isreal,
        isrealobj as isrealobj, isscalar as isscalar, lcm as lcm, ldexp as ldexp,
        left_shift as left_shift, log10 as log10, log1p as log1p, log2 as log2,
        logaddexp as logaddexp, logaddexp2 as logaddexp2, modf as modf,
        nan_to_num as nan_to_num, nextafter as nextafter, rad2deg as rad2deg,
        radians as radians, real as real, reciprocal as reciprocal,
        right_shift as right_shift, rint as rint, round as round, signbit as signbit,
        sinc as sinc, sinh as sinh, spacing as spacing, square as square, tan as tan,
        trunc as trunc,
    )
    from .rearranging import (
        array_split as array_split, atleast_1d as atleast_1d, atleast_2d as atleast_2d,
        atleast_3d as atleast_3d, block as block, column_stack as column_stack,
        concat as concat, dsplit as dsplit, dstack as dstack, flip as flip,
        fliplr as fliplr, flipud as flipud, hsplit as hsplit, hstack as hstack,
        permute_dims as permute_dims, resize as resize, roll as roll,
        rollaxis as rollaxis, rot90 as rot90, split as split, swapaxes as swapaxes,
        tile as tile, unstack as unstack, vsplit as vsplit, vstack as vstack,
    )
    from .reductions import (
        amax as amax, amin as amin, apply_over_axes as apply_over_axes,
        average as average, count_nonzero as count_nonzero, cumprod as cumprod,
        cumsum as cumsum, cumulative_prod as cumulative_prod,
        cumulative_sum as cumulative_sum, nanargmax as nanargmax,
        nanargmin as nanargmin, nancumprod as nancumprod, nancumsum as nancumsum,
        nanmax as nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod,
        nanstd as nanstd, nansum as nansum, nanvar as nanvar, ptp as ptp,
    )
    from .bits import packbits as packbits, unpackbits as unpackbits
    from .calculus import (
        diff as diff, ediff1d as ediff1d, gradient as gradient, interp as interp,
        trapezoid as trapezoid, unwrap as unwrap,
    )
    from .interchange import (
        array_repr as array_repr, array_str as array_str, can_cast as can_cast,
        fromfile as fromfile, fromiter as fromiter,
        get_printoptions as get_printoptions, iterable as iterable, load as load,
        printoptions as printoptions, save as save, savez as savez,
        set_printoptions as set_printoptions,
    )
    from .polynomials import (
        poly as poly, polyadd as polyadd, polyder as polyder, polydiv as polydiv,
        polyfit as polyfit, polyint as polyint, polymul as polymul, polysub as polysub,
        polyval as polyval, roots as roots,
    )
    from .sets import (
        intersect1d as intersect1d, isin as isin, setdiff1d as setdiff1d,
        setxor1d as setxor1d, union1d as union1d, unique as unique,
        unique_all as unique_all, unique_counts as unique_counts,
        unique_inverse as unique_inverse, unique_values as unique_values,
    )
    from .signals import (
        bartlett as bartlett, blackman as blackman, convolve as convolve,
        correlate as correlate, hamming as hamming, hanning as hanning,
        kaiser as kaiser,
    )
    from .statistics import (
        corrcoef as corrcoef, cov as cov, digitize as digitize, histogram as histogram,
        histogram2d as histogram2d, histogram_bin_edges as histogram_bin_edges,
        histogramdd as histogramdd, median as median, nanmedian as nanmedian,
        nanpercentile as nanpercentile, nanquantile as nanquantile,
        percentile as percentile, quantile as quantile,
    )
    from .editing import (
        append as append, delete as delete, insert as insert, pad as pad,
        trim_zeros as trim_zeros,
    )
    from .products import (
        cross as cross, einsum as einsum, einsum_path as einsum_path, inner as inner,
        kron as kron, matvec as matvec, outer as outer, vdot as vdot, vecdot as vecdot,
        vecmat as vecmat,
    )
    from .vectorized import (
        apply_along_axis as apply_along_axis, frompyfunc as frompyfunc, ufunc as ufunc,
        vectorize as vectorize,
    )
    from . import fft as fft, linalg as linalg
