"""Clusters: `jax.scipy.cluster`."""

from ...trace.base import names as _names

__all__ = ["vq"]
__dir__, __getattr__ = _names.front(globals(), __all__, __all__)
