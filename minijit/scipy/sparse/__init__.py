"""Solvers that only multiply by a matrix: `jax.scipy.sparse.linalg`."""

import typing as _typing

from ...trace.base import names as _names

if _typing.TYPE_CHECKING:
    from . import linalg as linalg

_names.front(globals(), [])
