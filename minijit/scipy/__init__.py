"""Parts of SciPy on arrays of minijit, under the names of `jax.scipy`."""

from . import special as special
