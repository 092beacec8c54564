"""Types without elements, and their values: what all share, and Unions and Tapes."""

import numpy as np

from ..trace.array import aval_of
from ..trace.core import Array
from ..trace.dtypes import described
from .tangents import zeros


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

    @property
    def mappable(self):
        """The shape of the axes that `vmap` may map: the first one of all values in it.

        None if there is no value in it, so that nothing can be mapped.
        """
        cases = getattr(self, "cases", None)
        within = (self.element,) if cases is None else sum(cases, ())
        shapes = [a.mappable for a in within]
        firsts = {shape[:1] for shape in shapes if shape is not None}
        return firsts.pop() if len(firsts) == 1 else () if firsts else None

    def strip_weak_type(self):
        return self

    def update(self, **changes):
        raise TypeError(f"arrays are not of dtype {described(self.dtype)}")


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


class UnionValue(OpaqueValue):
    """For each case a tuple of values, or None where there are none.

    Where no case has values it is a zero.
    """

    __slots__ = ("cases",)

    def __init__(self, aval, cases):
        self.aval = aval
        self.cases = cases

    def __repr__(self):
        held = [str(k) for k, values in enumerate(self.cases) if values is not None]
        return f"<{self.aval}, {'case ' + ', '.join(held) if held else 'zero'}>"

    def case(self, k):
        """The values of case k; zeros where there are none."""
        values = self.cases[k]
        return list(map(zeros, self.aval.cases[k]) if values is None else values)

    is_zero = property(lambda self: all(values is None for values in self.cases))

    @property
    def nbytes(self):
        return sum(value_nbytes(x) for values in self.cases for x in values or ())


class TapeValue(OpaqueValue):
    """A list of values, or with `items` None a zero of whatever length is asked for."""

    __slots__ = ("items",)

    def __init__(self, aval, items):
        self.aval = aval
        self.items = items

    def __repr__(self):
        length = "zero" if self.is_zero else f"{len(self.items)} items"
        return f"<{self.aval}, {length}>"

    def __getitem__(self, i):
        return zeros(self.aval.element) if self.is_zero else self.items[i]

    def __len__(self):
        return 0 if self.is_zero else len(self.items)

    is_zero = property(lambda self: self.items is None)
    nbytes = property(lambda self: sum(value_nbytes(x) for x in self.items or ()))
