"""The old name of `minijit.example_libraries.stax`."""

from ...trace.base import names as _names
from ..example_libraries.stax import *  # noqa: F403
from ..example_libraries.stax import __all__ as __all__

__dir__, __getattr__ = _names.front(__name__, __all__)
