"""What may change, under the names of `jax.experimental`."""

import typing as _typing

from ...ops.host_calls import io_callback as io_callback
from ...trace.base import names as _names
from ...trace.base.config import enable_x64 as enable_x64

if _typing.TYPE_CHECKING:
    from . import (
        checkify as checkify, hijax as hijax, jet as jet, layout as layout,
        mesh_utils as mesh_utils, multihost_utils as multihost_utils, ode as ode,
        pjit as pjit, shard_map as shard_map, stax as stax,
    )

_names.front(globals(), ["enable_x64", "io_callback"])
