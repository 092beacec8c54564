"""Integrals of samples, under the name of `jax.scipy.integrate`."""

from .. import numpy as jnp
from ..trace import calls, names as _names


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral of samples by trapezoids; see `jnp.trapezoid`."""
    return jnp.trapezoid(y, x, dx, axis)


__all__ = ["trapezoid"]
calls.explain_calls("scipy.integrate", globals(), __all__)
__dir__, __getattr__ = _names.front(__name__, __all__)
