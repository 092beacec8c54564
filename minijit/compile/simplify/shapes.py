"""Shapes of one size: where the axes of a reshape come from, and how arrays lie.

    matched_axes((6, 4), (2, 3, 4))     # axes [0] from [0, 1], axes [1] from [2]
    row_major((2, 3, 4))                # (12, 4, 1)
"""

import math


def matched_axes(shape, old_shape):
    """The axes of two shapes of one size in groups of equal products, as in reshape.

    Returns:
      A list of pairs (axes of `shape`, axes of `old_shape`), from the first axes on.
      Of shapes without elements all axes are one group.
    """
    if 0 in shape:
        return [(range(len(shape)), range(len(old_shape)))]
    groups, new, old = [], len(shape), len(old_shape)
    while new or old:
        new_end, old_end = new, old
        new, old = max(new - 1, 0), max(old - 1, 0)
        while True:
            size = math.prod(shape[new:new_end])
            old_size = math.prod(old_shape[old:old_end])
            if size == old_size:
                break
            new, old = (new - 1, old) if size < old_size else (new, old - 1)
        groups.append((range(new, new_end), range(old, old_end)))
    return groups[::-1]


def row_major(shape):
    """The strides, in elements, of an array that lies row by row."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
