"""The old name of `minijit.example_libraries.stax`."""

from ..example_libraries.stax import *  # noqa: F403
from ..example_libraries.stax import __all__ as __all__
from ..trace import names as _names

__dir__, __getattr__ = _names.front(__name__, __all__)
