"""Clusters: `jax.scipy.cluster`."""

import typing as _typing

from ...trace.base import names as _names

if _typing.TYPE_CHECKING:
    from . import vq as vq

_names.front(globals(), [])
