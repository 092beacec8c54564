"""Where arrays are, under the names of `jax.sharding`: all of them on one device."""

from ..trace.api.devices import (
    Device as Device, Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding, cpu as _cpu,
)
from ..trace.base import names as _names
from .meshes import (
    AbstractMesh as AbstractMesh, AxisType as AxisType, Mesh as Mesh,
    NamedSharding as NamedSharding, PartitionSpec as PartitionSpec,
    get_abstract_mesh as get_abstract_mesh, get_mesh as get_mesh, set_mesh as set_mesh,
    use_mesh as use_mesh,
)
from .placement import (
    make_single_device_sharding as make_single_device_sharding, reshard as reshard,
)

use_abstract_mesh = use_mesh


def auto_axes(f=None, /, *, axes=None, out_sharding=None):
    """`f` itself: on one device no part of a type says where an array is."""
    return f if f is not None else auto_axes


def explicit_axes(f=None, /, *, axes=None, in_sharding=None):
    """`f` itself, as `auto_axes`."""
    return f if f is not None else explicit_axes


def visualize_sharding(shape, sharding=None, **how):
    """Print a box for each part of an array: one, since there is one device.

    Raises ValueError for an array without axes, or with more than two.
    """
    del sharding, how
    if len(shape) not in (1, 2):
        raise ValueError(
            "`visualize_sharding` only works for shapes with 1 and 2 dimensions."
        )
    rows, name = 9 if len(shape) == 2 else 1, str(_cpu).upper()
    # Of a square is drawn what looks like one: letters are 2.5 times as high as wide.
    aspect = shape[1] / max(1, shape[0]) if len(shape) == 2 else 0
    width = max(int(25 * aspect) - 2, 7)
    lines = [" " * width] * rows
    lines[rows // 2] = name.replace(":", " ").center(width)
    edges = "┌" + "─" * width + "┐", "└" + "─" * width + "┘"
    box = [edges[0], *(f"│{line}│" for line in lines), edges[1]]
    print("\n".join(box))


def visualize_array_sharding(arr, **how):
    """Print where the parts of an array are: all of them on its device."""
    visualize_sharding(arr.shape, **how)


def inspect_array_sharding(value, *, callback):
    """Call `callback` with where an array is, or will be: on the one device."""
    del value
    callback(SingleDeviceSharding(_cpu))


_names.publish(globals())
