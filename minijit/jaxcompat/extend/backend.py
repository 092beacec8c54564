"""What computes, under the names of `jax.extend.backend`: this machine's devices."""

from dataclasses import dataclass

from ...trace.api import devices as _devices
from ...trace.base import names as _names
from ...trace.base.demand import add_rows


@dataclass(frozen=True)
class Backend:
    """The devices of one platform; JAX: a client of XLA's.

    Attributes:
      platform, platform_version, runtime_type: "cpu" or "gpu".
    """

    platform: str

    @property
    def platform_version(self):
        return self.platform

    runtime_type = platform_version

    def devices(self):
        return _devices.devices(self.platform)

    local_devices = devices

    def device_count(self):
        return len(self.devices())

    local_device_count = device_count

    def process_index(self):
        return 0


def get_backend(platform=None):
    """The backend of a platform, or of the default device.

    Raises RuntimeError for a platform that is not here.
    """
    return Backend(_devices.devices(platform)[0].platform)


def backends():
    """Those that there are, by the name of their platform."""
    found = {}
    add_rows("trace.api.devices")
    for name, find in _devices.platforms.items():
        try:
            found[find()[0].platform] = Backend(name)
        except RuntimeError:  # Such a device is known, and not in this machine.
            continue
    return found


def get_default_device():
    """The device to which arrays go unless another one is named."""
    return _devices.devices()[0]


_names.publish(globals(), "backends get_backend get_default_device")
