"""`pjit`, which is `jit`."""

from ...trace import names as _names
from ...trace.jit import jit as pjit

__all__ = ["pjit"]
__dir__, __getattr__ = _names.front(__name__, __all__)
