"""Where arrays are, under the names of `jax.sharding`: all of them on one device."""

from .trace import names as _names
from .trace.devices import (
    Device as Device,
    SingleDeviceSharding as SingleDeviceSharding,
)

# Every sharding that there is here; for annotations and isinstance.
Sharding = SingleDeviceSharding

__all__ = ["Sharding", "SingleDeviceSharding"]
__dir__, __getattr__ = _names.front(__name__, __all__)
