"""What may change, under the names of `jax.experimental`."""

from ...ops.host_calls import io_callback as io_callback
from ...trace.base import names as _names
from ...trace.base.config import enable_x64 as enable_x64

_modules = """
    checkify hijax jet layout mesh_utils multihost_utils ode pjit shard_map stax
""".split()
__all__ = ["enable_x64", "io_callback"]
__dir__, __getattr__ = _names.front(globals(), __all__, _modules)
