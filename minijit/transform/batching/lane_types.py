"""What `vmap` must know of a kind of values: arrays, and the tapes of loops."""

from dataclasses import dataclass

from ...trace.array import aval_of

# class of avals -> LaneType
lane_types = {}


@dataclass(frozen=True)
class LaneType:
    """What `vmap` must know of a type of values.

    Attributes:
      one: (aval, axis) -> the aval of one lane.
      many: (aval, size, axis) -> the aval with lanes.
      spread: (value, size, axis) -> the same value in every lane.
      move: (value, source axis, target axis) -> the value with its lanes moved.
    """

    one: object
    many: object
    spread: object
    move: object


def lane_type(x):
    """The row of `lane_types` for a value."""
    return lane_types[type(aval_of(x))]
