"""Values between the points of a grid, under the name of `jax.scipy.interpolate`."""

import itertools
import math

import numpy as np

from .. import numpy as jnp
from ..numpy.arguments import check_arraylike
from ..trace.api import calls
from ..trace.base import names as _names


class RegularGridInterpolator:
    """interpolator(xi): values at points [..., d] of a grid with d axes.

    Args:
      points: for each axis its coordinates, ascending; values: [*grid, ...].
      method: "linear" or "nearest"; fill_value: outside of the grid; None: the linear
        function goes on.
    """

    def __init__(
        self, points, values, method="linear", bounds_error=False, fill_value=np.nan
    ):
        self.method = checked(method)
        self.bounds_error = bounds_error
        if bounds_error:
            raise NotImplementedError("`bounds_error` takes no effect under JIT")
        if not np.iterable(points):
            raise TypeError(
                "RegularGridInterpolator takes a sequence of point arrays, got "
                f"{type(points).__name__}"
            )
        check_arraylike("RegularGridInterpolator", values, *points)
        values = jnp.asarray(values)
        if len(points) > values.ndim:
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {values.ndim} "
                "dimensions"
            )
        if not jnp.issubdtype(values.dtype, np.inexact):
            values = values.astype(float)
        if fill_value is not None:
            fill_value = jnp.asarray(fill_value)
            if not jnp.can_cast(fill_value.dtype, values.dtype, casting="same_kind"):
                raise ValueError(
                    "fill_value must be either 'None' or of a type compatible with "
                    "values"
                )
        self.fill_value, self.values = fill_value, values
        self.grid = tuple(jnp.asarray(p) for p in points)

    def __call__(self, xi, method=None):
        method = self.method if method is None else checked(method)
        d = len(self.grid)
        if isinstance(xi, tuple) and len(xi) > 1:
            xi = jnp.stack(jnp.broadcast_arrays(*xi), -1)
        else:
            xi = jnp.asarray(xi[0] if isinstance(xi, tuple) else xi)
            xi = xi.reshape(-1, d) if xi.ndim == 1 else xi
        size = xi.shape[-1] if xi.ndim else 0
        if size != d:
            raise ValueError(
                f"the requested sample points xi have dimension {size}, but "
                f"this RegularGridInterpolator has dimension {d}"
            )
        places, shares, outside = [], [], False
        for x, g in zip(jnp.moveaxis(xi, -1, 0), self.grid, strict=True):
            i = jnp.clip(jnp.searchsorted(g, x) - 1, 0, g.size - 2)
            places.append(i)
            shares.append((x - g[i]) / (g[i + 1] - g[i]))
            outside = outside | (x < g[0]) | (x > g[-1])
        more = (..., *[None] * (self.values.ndim - d))
        if method == "nearest":
            pairs = zip(places, shares, strict=True)
            nearest = [jnp.where(t <= 0.5, i, i + 1) for i, t in pairs]
            result = self.values[tuple(nearest)]
        else:
            result = 0
            for corner in itertools.product((0, 1), repeat=d):
                sides = zip(corner, shares, strict=True)
                weight = math.prod(t if c else 1 - t for c, t in sides)
                index = tuple(i + c for i, c in zip(places, corner, strict=True))
                result = result + self.values[index] * weight[more]
        if self.fill_value is None:
            return result
        return jnp.where(outside[more], self.fill_value, result)


def checked(method):
    if method not in ("linear", "nearest"):
        raise ValueError(f"method {method!r} is not defined")
    return method


calls.explain_methods(
    "RegularGridInterpolator", RegularGridInterpolator, ["__init__", "__call__"]
)
_names.publish(globals(), "RegularGridInterpolator")
