"""Integrals of samples, under the name of `jax.scipy.integrate`."""

from .. import numpy as jnp
from ..trace.api import calls


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral of samples by trapezoids; see `jnp.trapezoid`."""
    return jnp.trapezoid(y, x, dx, axis)


calls.publish(globals(), "trapezoid")
