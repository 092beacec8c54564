"""Parts of SciPy on arrays of minijit, under the names of `jax.scipy`."""

from ..trace.base import names as _names
from . import special as special

_on_demand = """
    cluster fft integrate interpolate linalg ndimage optimize signal sparse spatial
    stats
""".split()
__all__ = ["special", *_on_demand]
__dir__, __getattr__ = _names.front(globals(), __all__, _on_demand)
