"""Memory: the arrays that a loop program reads and writes, and views of them.

    x = Buffer("x", (3, 4), np.dtype("float32"))   # x: f32[3,4]
    x.strides, x.nbytes                            # (4, 1), 48
    View(x, (4, 3), (1, 4))                        # its transpose: no copy
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...trace.dtypes import short_dtype_name


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory for one array: what a `Load` reads and a `Store` writes.

    Attributes:
      name: for printing; unique in its program.
      order: the axes from the slowest to the fastest in memory; () for row-major.
      space: `global`; `cache`: it fits in one, belongs to one `Kernel`, and what it
        holds counts for one step of the outermost loop; `register`: it is there only
        while the `Region` runs that uses it, and of a number that is a register
        indeed; `table`: it has as many rows as `Reserve` asks for, whatever the shape
        says.
    """

    name: str
    shape: tuple
    dtype: np.dtype
    order: tuple = ()
    space: str = "global"

    @cached_property
    def nbytes(self):
        return math.prod(map(int, self.shape)) * self.dtype.itemsize

    @cached_property
    def strides(self):
        """In elements."""
        strides, step = [0] * len(self.shape), 1
        for axis in reversed(self.order or range(len(self.shape))):
            strides[axis], step = step, step * self.shape[axis]
        return tuple(strides)

    def __str__(self):
        shape = ",".join(map(str, self.shape))
        return f"{self.name}: {short_dtype_name(self.dtype)}[{shape}]"


@dataclass(frozen=True, eq=False)
class View:
    """Some elements of a buffer, as an array: NumPy's strides, in elements.

    The offset is an expression where it changes with the steps of a loop.  As long as
    there are no buffers, a variable is in the place of one.
    """

    buffer: Buffer
    shape: tuple
    strides: tuple
    offset: int = 0

    @property
    def whole(self):
        """Whether it is simply all of its buffer."""
        return (self.shape, self.strides, self.offset) == (
            self.buffer.shape,
            self.buffer.strides,
            0,
        )


def whole(buffer):
    """The view of all of a buffer."""
    return View(buffer, buffer.shape, buffer.strides)
