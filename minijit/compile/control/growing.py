"""Tables that a region makes: with a zero in row 0, a register that counts their rows.

    reserve t2, 1                       # at the beginning of the region
    t2[0] = 0.0
    n0[] = 1
"""

from contextlib import contextmanager

from ..loops.expressions import Axis, Const, as_index
from ..loops.scalars import INDEX
from ..loops.statements import Reserve, nested
from .regions import Part

# In place of the length of a zero Tape, which has whatever length is asked for.
ZERO = -1


def rows(builder, shape, dtype):
    """A buffer that has as many rows as it takes."""
    return builder.buffer((0, *shape), dtype, "table")


@contextmanager
def at_start(builder):
    """What is built meanwhile stands at the beginning of the region."""
    builder.blocks.append(builder.first)
    yield
    builder.blocks.pop()


def growing(builder):
    """(column, count) for a table that a region makes, and that grows."""

    def column(shape, dtype, zero):
        buffer, root = rows(builder, shape, dtype), builder.root
        with at_start(root):
            root.add(Reserve(buffer, as_index(1)))
            fill(root, Part(buffer, (as_index(0),)), zero)
        return buffer

    def count():
        number = builder.number(INDEX)
        with at_start(builder):
            builder.set(number, as_index(1))
        return number

    return column, count


def fill(builder, where, value):
    """All elements of an array become a number."""
    axes = tuple(map(Axis, where.shape))
    if 0 not in where.shape:
        value = Const(value, where.buffer.dtype)
        builder.add(*nested(axes, [where.store(axes, value)]))


def empty(builder, every):
    """Tables have no records yet, but for the zero."""
    for records in every:
        builder.set(records.count, as_index(1))
