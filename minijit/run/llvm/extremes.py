"""Largest and smallest floats as totals of integers, whose steps do not wait long.

    %top = smax(%top, bits of x)             ; an instruction each, of so many elements
    %far = umax(%far, bits of x)
    %near = umin(%near, bits of x)

The bits of floats without a sign are integers in the same order.  Those of negative
floats, read without a sign, are in the opposite order, and behind all others.  So the
largest float is `top` if that has no sign, and else `near`; the smallest is `far` if
that has one, and else `near`.  A NaN is behind infinity, in `top` or in `far`.

That is `max` of floats: a NaN wins, and 0.0 is more than -0.0.  The machine's own
instruction knows neither, and with four others before and after it each step of a total
waits a dozen cycles for the one before.

And whether any or all of many bools are true, as a total of integers:

    %all = and(%all, all bits of it, or none)

They are as wide as what was compared, and in the same registers.  A vector of bools
that goes from step to step has one of these for each, or its numbers are taken apart.
"""

import math
from dataclasses import dataclass, replace

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


# What totals of bools do with the bits of integers.
of_bits = {"or": "or", "and": "and", "max": "or", "min": "and"}


@dataclass(frozen=True)
class Flag:
    """The cell of a total of bools.

    Attributes:
      parts: of its one slot (the slot, the operation of two integers, their dtype).
    """

    parts: tuple

    @classmethod
    def begun(cls, writer, reduce, first):
        """The cell of a total, with its first value."""
        inside = (e for e in postorder(reduce.bodies) if isinstance(e, Op))
        compared = {a.dtype for e in inside if e.dtype == BOOL for a in e.args}
        sizes = (wide_dtype(d).itemsize for d in compared - {BOOL, INDEX})
        whole = np.dtype(f"i{max(sizes, default=1)}")
        slot = writer.cell(whole, writer.const(Const(-first.value, whole)))
        return cls(((slot, of_bits[reduce.op], whole),))

    def get(self, writer):
        """The bool that it stands for."""
        (slot, _, whole), = self.parts
        kind, zero = writer.type(whole), writer.const(Const(0, whole))
        return writer.do(f"icmp ne {kind} {writer.get(slot)}, {zero}")

    def bits(self, writer, value):
        """Those of a bool, all ones or none, as an integer."""
        (_, _, whole), = self.parts
        return writer.do(f"sext {writer.type(BOOL)} {value} to {writer.type(whole)}")

    def step(self, writer, value):
        """Combine what is in each slot with a new value."""
        bits = self.bits(writer, value)
        for slot, name, dtype in self.parts:
            values = [writer.get(slot), bits]
            writer.set(slot, instructions[name](writer, "", Const(0, dtype), values))


@dataclass(frozen=True)
class Extreme(Flag):
    """The cell of a total of floats, with three slots.

    Attributes:
      op: max or min; dtype: of the floats.
    """

    op: str
    dtype: np.dtype

    @classmethod
    def begun(cls, writer, reduce, first):
        """The cell of a total, with its first value."""
        dtype = wide_dtype(reduce.dtype)
        cell = cls((), reduce.op, dtype)
        signed, plain = (np.dtype(f"{k}{dtype.itemsize}") for k in "iu")
        bits = cell.bits(writer, writer.const(Const(first.value, dtype)))
        kinds = ("max", signed), ("max", plain), ("min", plain)
        parts = ((writer.cell(kind, bits), name, kind) for name, kind in kinds)
        return replace(cell, parts=tuple(parts))

    def bits(self, writer, value):
        """Those of a float, as an integer."""
        kind = np.dtype(f"i{self.dtype.itemsize}")
        floats, kind = map(writer.type, (self.dtype, kind))
        return writer.do(f"bitcast {floats} {value} to {kind}")

    def get(self, writer):
        """The float that it stands for."""
        top, far, near = (writer.get(slot) for slot, *_ in self.parts)
        whole, yes = self.parts[0][2], writer.type(BOOL)
        kind, floats = map(writer.type, (whole, self.dtype))
        ends = np.array([0, np.inf, -np.inf], self.dtype).view(whole)
        zero, most, least = (writer.const(Const(n, whole)) for n in ends)
        none = writer.do(f"icmp sgt {kind} {top}, {most}")
        other = writer.do(f"icmp ugt {kind} {far}, {least}")
        none = writer.do(f"or {yes} {none}, {other}")
        first = top if self.op == "max" else far
        sign = "sge" if self.op == "max" else "slt"
        own = writer.do(f"icmp {sign} {kind} {first}, {zero}")
        best = writer.do(f"select {yes} {own}, {kind} {first}, {kind} {near}")
        best = writer.do(f"bitcast {kind} {best} to {floats}")
        nan = writer.const(Const(np.nan, self.dtype))
        return writer.do(f"select {yes} {none}, {floats} {nan}, {floats} {best}")


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
    if not isinstance(cell, Flag):
        emit.step(walker, stmt)
        return
    value, = map(walker.value, reduce.bodies)
    cell.step(walker.emitter, value)


walkers |= {Start: start, Step: step}
