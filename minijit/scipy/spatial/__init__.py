"""Geometry: `jax.scipy.spatial`."""

import typing as _typing

from ...trace.base import names as _names

if _typing.TYPE_CHECKING:
    from . import transform as transform

_names.front(globals(), [])
