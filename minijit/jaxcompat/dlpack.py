"""Arrays from other libraries, under the names of `jax.dlpack`."""

from ..numpy import from_dlpack as from_dlpack
from ..trace import names as _names
from ..trace.dtypes import dtype_names


def is_supported_dtype(dtype):
    """Whether arrays of a dtype can be handed over."""
    return dtype in dtype_names


__all__ = ["from_dlpack", "is_supported_dtype"]
__dir__, __getattr__ = _names.front(__name__, __all__)
