"""Largest and smallest floats as totals of integers, whose steps do not wait long.

    %k = bits of x, those behind the sign turned round if it is negative
    %best = smax(%best, %k)                  ; one instruction, of so many elements
    %none = or(%none, x is no number)        ; all bits, or none

That is `max` of floats: a NaN wins, and 0.0 is more than -0.0.  The machine's own
instruction knows neither, and with four others before and after it each step of a total
waits a dozen cycles for the one before.  Integers in the order of the floats that have
their bits are compared in one cycle; the rest waits for nothing.

And whether any or all of many bools are true, as a total of integers:

    %all = and(%all, all bits of it, or none)

They are as wide as what was compared, and in the same registers.  A vector of bools
that goes from step to step has one of these for each, or its numbers are taken apart.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...compile.loops.expressions import Const, Op
from ...compile.loops.graphs import postorder
from ...compile.loops.reductions import start_values
from ...compile.loops.scalars import BOOL, INDEX, wide_dtype
from ...compile.loops.statements import Start, Step
from ...compile.settings import config
from .. import emit
from ..emit import total_only, walkers
from .instructions import instructions
from .target import host
from .text import LLVMWriter


def update(writer, part, new):
    """Combine what is in a slot with a new integer.

    Args:
      part: (slot, the operation, the integers' dtype).
    """
    slot, name, dtype = part
    values = [writer.get(slot), new]
    writer.set(slot, instructions[name](writer, "", Const(0, dtype), values))


# What totals of bools do with the bits of integers.
of_bits = {"or": "or", "and": "and", "max": "or", "min": "and"}


@dataclass(frozen=True)
class Flag:
    """The cell of a total of bools.

    Attributes:
      whole: the dtype of the integers; slot: the cell of one.
    """

    whole: np.dtype
    slot: tuple

    @classmethod
    def begun(cls, writer, reduce, first):
        """The cell of a total, with its first value."""
        inside = (e for e in postorder(reduce.bodies) if isinstance(e, Op))
        compared = {a.dtype for e in inside if e.dtype == BOOL for a in e.args}
        sizes = (wide_dtype(d).itemsize for d in compared - {BOOL, INDEX})
        return cls.of(writer, f"i{max(sizes, default=1)}", first.value)

    @classmethod
    def of(cls, writer, whole, value):
        whole = np.dtype(whole)
        return cls(whole, writer.cell(whole, writer.const(Const(-value, whole))))

    def parts(self, name):
        """[(slot, the operation of two integers, their dtype)], of a total's name."""
        return [(self.slot, of_bits[name], self.whole)]

    def get(self, writer):
        """The bool that it stands for."""
        kind, zero = writer.type(self.whole), writer.const(Const(0, self.whole))
        return writer.do(f"icmp ne {kind} {writer.get(self.slot)}, {zero}")

    def step(self, writer, name, value):
        bits = f"{writer.type(BOOL)} {value} to {writer.type(self.whole)}"
        update(writer, *self.parts(name), writer.do(f"sext {bits}"))


@dataclass(frozen=True)
class Extreme:
    """The cell of a total of floats.

    Attributes:
      dtype: of the floats; key: the cell of the best integer; none: the `Flag` that
        there was a NaN.
    """

    dtype: np.dtype
    key: tuple
    none: Flag

    @classmethod
    def begun(cls, writer, reduce, first):
        """The cell of a total, with its first value."""
        cell = cls(wide_dtype(reduce.dtype), None, None)
        key = cell.key_of(writer, writer.const(Const(first.value, cell.dtype)))
        none = Flag.of(writer, cell.whole, False)
        return cls(cell.dtype, writer.cell(cell.whole, key), none)

    @property
    def whole(self):
        """The dtype of the integers."""
        return np.dtype(f"i{self.dtype.itemsize}")

    def parts(self, name):
        """As of `Flag`."""
        return [(self.key, name, self.whole), *self.none.parts("or")]

    def turned(self, writer, bits):
        """Bits of floats in the order of the floats as integers, and back."""
        kind, size = writer.type(self.whole), 8 * self.whole.itemsize
        count, most = (
            writer.const(Const(n, self.whole)) for n in (size - 1, 2 ** (size - 1) - 1)
        )
        sign = writer.do(f"ashr {kind} {bits}, {count}")
        mask = writer.do(f"and {kind} {sign}, {most}")
        return writer.do(f"xor {kind} {bits}, {mask}")

    def key_of(self, writer, value):
        floats, kind = writer.type(self.dtype), writer.type(self.whole)
        return self.turned(writer, writer.do(f"bitcast {floats} {value} to {kind}"))

    def get(self, writer):
        """The float that it stands for."""
        bits = self.turned(writer, writer.get(self.key))
        floats, kind = writer.type(self.dtype), writer.type(self.whole)
        value = writer.do(f"bitcast {kind} {bits} to {floats}")
        nan = writer.const(Const(np.nan, self.dtype))
        none = f"{writer.type(BOOL)} {self.none.get(writer)}"
        return writer.do(f"select {none}, {floats} {nan}, {floats} {value}")

    def step(self, writer, name, value):
        best, _ = self.parts(name)
        update(writer, best, self.key_of(writer, value))
        none = writer.do(f"fcmp uno {writer.type(self.dtype)} {value}, {value}")
        self.none.step(writer, "or", none)


def cell_type(reduce):
    """`Extreme`, `Flag`, or None of a total whose cells are numbers of its dtype."""
    steps = math.prod(axis.bounds[1] + 1 for axis in reduce.axes)
    if steps <= config.fusion.rows_at_once or not total_only(reduce):
        return None
    if reduce.dtype == BOOL:
        return Flag if reduce.op in of_bits else None
    floats = reduce.op in ("max", "min") and wide_dtype(reduce.dtype).kind == "f"
    return Extreme if floats and "+sse2" in host()[1].split(",") else None


def start(walker, stmt):
    reduce, writer = stmt.reduce, walker.emitter
    of_host = isinstance(writer, LLVMWriter) and writer.for_host
    if not of_host or not (kind := cell_type(reduce)):
        emit.start(walker, stmt)
        return
    walker.cells[reduce] = [kind.begun(writer, reduce, *start_values(reduce))]


def step(walker, stmt):
    reduce = stmt.reduce
    cell, *_ = walker.cells[reduce]
    if not isinstance(cell, (Flag, Extreme)):
        emit.step(walker, stmt)
        return
    value, = map(walker.value, reduce.bodies)
    cell.step(walker.emitter, reduce.op, value)


walkers |= {Start: start, Step: step}
