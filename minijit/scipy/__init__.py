"""Parts of SciPy on arrays of minijit, under the names of `jax.scipy`."""

import typing as _typing

from ..trace.base import names as _names
from . import special as special

if _typing.TYPE_CHECKING:
    from . import (
        cluster as cluster, fft as fft, integrate as integrate,
        interpolate as interpolate, linalg as linalg, ndimage as ndimage,
        optimize as optimize, signal as signal, sparse as sparse, spatial as spatial,
        stats as stats,
    )

_names.front(globals(), ["special"])
