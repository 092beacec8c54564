"""Devices in rows and columns, for meshes."""

from ...trace.base import names as _names
from ..meshes import make_mesh


def create_device_mesh(mesh_shape, devices=None, **options):
    """An array of the devices there are, of this shape."""
    names = [f"axis {i}" for i in range(len(mesh_shape))]
    return make_mesh(mesh_shape, names, devices=devices).devices


_names.publish(globals(), "create_device_mesh")
