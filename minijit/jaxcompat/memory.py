"""Kinds of memory, under the names of `jax.memory`: here they are all one."""

import enum

from ..trace.api.devices import placement
from ..trace.base import names as _names


class Space(enum.Enum):
    """Where `device_put(x, Space.Host)` puts an array: where its device has it."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    @property
    def device(self):
        """The device to which the memory belongs."""
        return placement.device


_names.publish(globals(), "Space")
