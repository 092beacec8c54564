"""Element types under the names of `jax.dtypes`."""

from .ops.prng import prng_key as prng_key
from .trace import calls, names as _names
from .trace.dtypes import (
    TypePromotionError as TypePromotionError,
    bfloat16 as bfloat16,
    canonicalize_dtype as canonicalize_dtype,
    extended as extended,
    finfo as finfo,
    float0 as float0,
    iinfo as iinfo,
    issubdtype as issubdtype,
    promote_types as promote_types,
    result_type as result_type,
)

calls.explain_calls("dtypes", globals())

__all__ = _names.public_names(globals())
__dir__, __getattr__ = _names.front(__name__, __all__)
