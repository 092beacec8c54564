"""What other libraries build on, under the names of `jax.extend`."""

from ...trace.base import names as _names

_modules = ["backend", "core", "linear_util", "random", "source_info_util"]
__all__: list[str] = []
__dir__, __getattr__ = _names.front(globals(), __all__, _modules)
