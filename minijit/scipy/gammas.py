"""The gamma function and its sign, of which other special functions are made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import lax, numpy as jnp
from ..numpy import core
from ..trace import dtypes
from ..trace.types import Array, ArrayLike


def promoted(name, *args, is_real=True) -> Sequence[Array]:
    """Arguments as arrays of one floating dtype; complex ones raise ValueError."""
    args = core.promote_args_inexact(name, *args)
    if is_real and dtypes.issubdtype(args[0].dtype, np.complexfloating):
        raise ValueError(f"{name} does not support complex-valued inputs.")
    return args


def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma(x): 1 or -1, NaN at the negative integers."""
    x, = promoted("gammasgn", x)
    floor = jnp.floor(x)
    is_pole = ((x < 0) & (x == floor)) | jnp.isnan(x)
    is_negative = ((x < 0) & (floor % 2 != 0)) | ((x == 0) & jnp.signbit(x))
    number = lambda value: np.array(value, x.dtype)
    return jnp.where(
        is_pole, number(np.nan), jnp.where(is_negative, number(-1), number(1))
    )


def gamma(x: ArrayLike) -> Array:
    """The gamma function, (x - 1)! for positive integers."""
    x, = promoted("gamma", x)
    return gammasgn(x) * jnp.exp(lax.lgamma(x))
