"""The old name of `minijit.example_libraries.stax`."""

from ...trace.base import names as _names
from ..example_libraries.stax import *  # noqa: F403
from ..example_libraries.stax import __all__ as __all__

_names.front(globals(), __all__)
