"""`shard_map` with the mesh in second place, as `jax.experimental` has it."""

from ...trace.base import names as _names
from .. import one_device


def shard_map(
    f, mesh=None, in_specs=None, out_specs=None, check_rep=True, auto=frozenset()
):
    """`minijit.shard_map`, whose mesh and specs may stand without their names."""
    given = dict(mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    return one_device.shard_map(f, **given, check_rep=check_rep, auto=auto)


_names.publish(globals(), "shard_map")
