"""Solvers that only multiply by a matrix: `jax.scipy.sparse.linalg`."""

from ...trace.base import names as _names

__all__ = ["linalg"]
__dir__, __getattr__ = _names.front(globals(), __all__, __all__)
