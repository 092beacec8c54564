"""Where arrays are, under the names of `jax.sharding`: all of them on one device."""

from .trace import names as _names
from .trace.devices import (
    Device as Device,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from .trace.meshes import (
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
    NamedSharding as NamedSharding,
    PartitionSpec as PartitionSpec,
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    set_mesh as set_mesh,
    use_mesh as use_mesh,
)
from .trace.placement import (
    make_single_device_sharding as make_single_device_sharding,
    reshard as reshard,
)

use_abstract_mesh = use_mesh

__all__ = _names.public_names(globals())
__dir__, __getattr__ = _names.front(__name__, __all__)
