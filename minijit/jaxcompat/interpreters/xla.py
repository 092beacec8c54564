"""Under the names of `jax.interpreters.xla`."""

import numpy as _np

from ...trace.base import names as _names
from .mlir import compiled_alone

# Libraries add their classes here.  Nothing reads it: whatever has `__array__` is an
# array for minijit.
canonicalize_dtype_handlers = {_np.ndarray: _np.asarray}


def apply_primitive(prim, *args, **params):
    """Compute a primitive of known arguments, by itself: as its lowering says.

    So it may be a primitive's `def_impl`.
    """
    return (compiled_alone(prim, tuple(params)) or prim.bind)(*args, **params)


_names.publish(globals(), "apply_primitive canonicalize_dtype_handlers")
