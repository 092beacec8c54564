"""Under the names of `jax.interpreters.xla`."""

from ..trace import names as _names


def apply_primitive(prim, *args, **params):
    """Compute a primitive of known arguments, by itself."""
    return prim.bind(*args, **params)


__all__ = ["apply_primitive"]
__dir__, __getattr__ = _names.front(__name__, __all__)
