"""The old name of `minijit.example_libraries.stax`."""

from ..example_libraries.stax import *  # noqa: F403
