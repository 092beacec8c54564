"""Devices in rows and columns, for meshes."""

from ...trace import names as _names
from ...trace.meshes import make_mesh


def create_device_mesh(mesh_shape, devices=None, **options):
    """An array of the devices there are, of this shape."""
    names = [f"axis {i}" for i in range(len(mesh_shape))]
    return make_mesh(mesh_shape, names, devices=devices).devices


__all__ = ["create_device_mesh"]
__dir__, __getattr__ = _names.front(__name__, __all__)
