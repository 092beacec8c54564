"""Sums, products and extrema of the rows that belong together, as in `jax.ops`.

    segment_sum(data, segment_ids, num_segments)    # out[ids[i]] += data[i]
"""

import operator

from ..trace import primitives as lax
from ..trace.array import aval_of
from ..trace.shape_checks import concrete
from .scatter import (
    ScatterDimensionNumbers, scatter_add, scatter_max, scatter_min, scatter_mul,
)


def check_segments(name, aval, ids, size, bucket_size):
    """Complain unless there is an id for each row, and the sizes are possible."""
    if size < 0:
        raise ValueError(f"num_segments must be non-negative, got {size}")
    if bucket_size is not None and operator.index(bucket_size) < 1:
        raise ValueError(f"bucket_size must be positive, got {bucket_size}")
    if ids.ndim != 1 or aval.ndim and aval.shape[:1] != ids.shape:
        raise ValueError(
            f"{name} takes segment_ids of shape [n] and data of shape [n, ...], "
            f"got {ids.shape} and {aval.shape}"
        )


def segments(name, scatter, combine, text):
    """`segment_sum` and its like: `scatter` combines as the function `combine` does."""
    monoid = lax.monoids[combine]

    def function(
        data, segment_ids, num_segments=None, indices_are_sorted=False,
        unique_indices=False, bucket_size=None, mode=None, out_sharding=None,
    ):  # fmt: skip
        aval, ids = aval_of(data), aval_of(segment_ids)
        if num_segments is None:
            advice = "pass num_segments=: how many there are at most."
            known = concrete(segment_ids, f"without num_segments, {name}'s ids", advice)
            num_segments = int(known.max()) + 1 if known.size else 0
        size = operator.index(num_segments)
        check_segments(name, aval, ids, size, bucket_size)
        if not aval.ndim:  # A number is one for each row.
            data = lax.broadcast_in_dim(lax.as_array(data), ids.shape, ())
            aval = aval_of(data)
        places = lax.reshape(segment_ids, (*ids.shape, 1))
        lead, rest = (size,), aval.shape[1:]
        if bucket_size is not None:
            # A row of results for each bucket of ids; they are reduced at the end.
            lead = (-(-ids.size // bucket_size), size)
            row = lax.div(
                lax.broadcasted_iota(ids.dtype, places.shape, 0),
                ids.dtype.type(bucket_size),
            )
            places = lax.concatenate([row, places], 1)
        found = scatter(
            lax.full((*lead, *rest), monoid.identity(aval.dtype)),
            places,
            data,
            ScatterDimensionNumbers(
                update_window_dims=tuple(range(1, aval.ndim)),
                inserted_window_dims=tuple(range(len(lead))),
                scatter_dims_to_operand_dims=tuple(range(len(lead))),
            ),
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
        )
        return found if bucket_size is None else monoid.reduce(found, (0,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text} of the rows of each segment.  JAX: `jax.ops.{name}`.

    Args:
      data: [n, *rest], or a number that stands for n of it.
      segment_ids: integers [n], which segment each row is in.
      num_segments: how many there are, by default max(segment_ids) + 1; a static
        number under jit. Rows of other segments are dropped, unless `mode` says not.
      indices_are_sorted, unique_indices: promises about segment_ids.
      bucket_size: so many rows are reduced by themselves first, which is more precise.
      out_sharding: ignored, all is on one device.

    Returns:
      [num_segments, *rest], of the dtype of data; a segment without rows has the
      identity of the operation.
    """
    return function


segment_sum = segments("segment_sum", scatter_add, lax.add, "The sum")
segment_prod = segments("segment_prod", scatter_mul, lax.mul, "The product")
segment_max = segments("segment_max", scatter_max, lax.max, "The largest")
segment_min = segments("segment_min", scatter_min, lax.min, "The smallest")
