"""Devices: what JAX's questions about them are answered with.

    devices()                   # [CpuDevice(id=0)]
    x.device, x.devices()       # CpuDevice(id=0), {CpuDevice(id=0)}
    x.sharding                  # SingleDeviceSharding(device=CpuDevice(id=0), ...)
    devices("tpu")              # RuntimeError, with JAX's words

Programs written for JAX ask such questions.  Arrays are on the CPU unless one asks for
another device; those on a GPU answer for themselves, in `run/cuda/arrays.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..array import ArrayImpl
from ..base.config import config
from ..base.demand import add_rows
from ..core import Array, Tracer, operators
from ..primitives import as_array
from .stages import device_put, putters


@dataclass(frozen=True)
class Device:
    """A place where arrays are.

    Attributes:
      id, process_index: its number, and that of the process it belongs to.
      platform, device_kind: "cpu"; or "gpu", and what its maker calls it.
    """

    id: int = 0
    process_index: int = 0
    platform: str = "cpu"
    device_kind: str = "cpu"

    def __repr__(self):
        kind = {"cpu": "Cpu", "gpu": "Cuda"}[self.platform]
        return f"{kind}Device(id={self.id})"

    def __str__(self):
        return f"{self.platform}:{self.id}"


class Sharding:
    """Where the parts of an array are: with one device, all of them there.

    Attributes:
      device: the one.
    """

    device: Device
    memory_kind: str | None = "device"


@dataclass(frozen=True)
class SingleDeviceSharding(Sharding):
    """All of an array on one device, and over no mesh."""

    device: Device

    def __repr__(self):
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind=device)"


cpu = Device()
placement = SingleDeviceSharding(cpu)

# name of a backend -> function that gives its devices, or raises RuntimeError.
platforms = {"cpu": lambda: [cpu]}


def device_of(device):
    """The `Device` that a device, a sharding or a name such as "gpu:0" means.

    Raises:
      RuntimeError: it is none of this machine's.
    """
    device = getattr(device, "device", device)
    wanted = device
    if isinstance(device, str):
        name, _, number = device.partition(":")
        wanted = replace(devices(name)[0], id=int(number or 0))
    there, = devices(getattr(wanted, "platform", "cpu"))
    if wanted != there:
        raise ValueError(
            f"there is one device here, {there!r}, and nothing can be put on {device!r}"
        )
    return wanted


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a backend, which is the CPU unless named.  JAX: `jax.devices`."""
    backend = "cpu" if backend is None else backend
    if backend not in platforms:
        add_rows("trace.api.devices")
    if backend not in platforms:
        raise RuntimeError(
            f"Unknown backend: {backend!r} requested, but no platforms that are "
            f"instances of {backend} are present. minijit knows: {', '.join(platforms)}"
        )
    return platforms[backend]()


def device_count(backend: str | None = None) -> int:
    """How many devices there are.  JAX: `jax.device_count`."""
    return len(devices(backend))


def default_backend() -> str:
    """The name of the platform that computes: "cpu".  JAX: same name."""
    return cpu.platform


def put_on_cpu(x):
    """A number or array on the CPU."""
    if not isinstance(x, ArrayImpl):
        return as_array(x)
    value = x.numpy()  # an error if it was donated or deleted
    return x if x.device == cpu else ArrayImpl(value, x.aval)


# platform -> function that puts a number or an array there.
put_on = {"cpu": put_on_cpu}


def put(x, device):
    """A number or array on a device; None is where it is, or the default device."""
    if device is None and isinstance(x, (ArrayImpl, Tracer)):
        return x
    device = device or config.read("default_device") or cpu
    return put_on[device_of(device).platform](x)


putters |= {"put": put}


def platform_of(leaves):
    """The platform on which a function of arrays runs: theirs, or the default one."""
    for x in leaves:
        # On the CPU it is this very device: to compare it takes longer than the rest.
        if isinstance(x, ArrayImpl) and (device := x.device) is not cpu:
            if device != cpu:
                return device.platform
    default = config.read("default_device")
    return device_of(default).platform if default else cpu.platform


def to_device(x, device, *, stream=None):
    """`x.to_device(device)`: itself, if it is there (array API)."""
    return device_put(x, device)


config.define(
    "default_device", None,
    'the device of jitted functions, such as "gpu"; None: the CPU', changes_traces=True,
)


def memory_address(x):
    """`x.unsafe_buffer_pointer()`: where its numbers are in memory."""
    if isinstance(x, Tracer):
        return x.concrete("numpy").numpy().ctypes.data
    return x.numpy().ctypes.data


def copy_to_host_async(x):
    """`x.copy_to_host_async()`: the numbers are where the program can read them."""


@dataclass(frozen=True, eq=False)
class Shard:
    """The one part of an array on the one device (`jax.Shard`).

    Attributes:
      index: which part of the whole: all of it; data: the array.
    """

    device: Device
    index: tuple
    replica_id: int
    data: Array


def addressable_shards(x):
    """`x.addressable_shards`, `x.global_shards`: one part, which is all of it."""
    return [Shard(x.device, (slice(None),) * x.ndim, 0, x)]


def addressable_data(x, index):
    """`x.addressable_data(0)`: the part with that number, which is the array."""
    return [x][index]


operators |= {
    "addressable_shards": property(addressable_shards),
    "global_shards": property(addressable_shards),
    "addressable_data": addressable_data,
    "device": property(lambda x: cpu),
    "devices": lambda x: {x.device},
    "platform": lambda x: x.device.platform,
    "sharding": property(lambda x: placement),
    "committed": property(lambda x: False),
    "is_fully_addressable": property(lambda x: True),
    "is_fully_replicated": property(lambda x: True),
    "to_device": to_device,
    "copy_to_host_async": copy_to_host_async,
    "unsafe_buffer_pointer": memory_address,
    "on_device_size_in_bytes": lambda x: x.aval.nbytes,
    "is_ready": lambda x: not isinstance(x, ArrayImpl) or not x.is_deleted(),
}
