"""Types without elements, and values of such types: what all of them share."""

import numpy as np

from ..trace.array import aval_of
from ..trace.core import Array


class Opaque:
    """What types without elements say when they are asked as arrays are."""

    shape = ()
    ndim = 0
    size = 1
    nbytes = 0
    weak_type = False

    @property
    def dtype(self):
        # The type goes with it: libraries describe arguments by shape and dtype alone,
        # and `whole_type` makes of these what they were.
        return np.dtype(object, metadata={"type": self})

    def strip_weak_type(self):
        return self


class OpaqueValue(Array):
    """A value of such a type.

    Attributes:
      is_zero: whether it is a lazy zero.
      nbytes: the bytes that the arrays within it hold.
    """

    __slots__ = ("aval",)


def value_nbytes(x):
    """The bytes that a value of any type holds."""
    return x.nbytes if isinstance(x, OpaqueValue) else aval_of(x).nbytes
