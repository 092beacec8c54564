"""Arrays from other libraries, under the names of `jax.dlpack`."""

from ..numpy import from_dlpack as from_dlpack
from ..trace.base import names as _names
from ..trace.dtypes import dtype_names


def is_supported_dtype(dtype):
    """Whether arrays of a dtype can be handed over."""
    return dtype in dtype_names


_names.publish(globals(), "from_dlpack is_supported_dtype")
