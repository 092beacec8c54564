"""Largest and smallest floats as totals of integers, whose steps do not wait long.

    %k = bits of x, those behind the sign turned round if it is negative
    %best = smax(%best, %k)                  ; one instruction, of so many elements
    %none = or(%none, x is no number)

That is `max` of floats: a NaN wins, and 0.0 is more than -0.0.  The machine's own
instruction knows neither, and with four others before and after it each step of a total
waits a dozen cycles for the one before.  Integers in the order of the floats that have
their bits are compared in one cycle; the rest waits for nothing.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...compile.loops.expressions import Const
from ...compile.loops.reductions import start_values
from ...compile.loops.scalars import BOOL, wide_dtype
from ...compile.loops.statements import Start, Step
from ...compile.settings import config
from .. import emit
from ..emit import total_only, walkers
from .instructions import instructions
from .target import host
from .text import LLVMWriter


@dataclass(frozen=True)
class Extreme:
    """The cell of such a total.

    Attributes:
      dtype: of the floats; key, none: cells of the best integer, and of whether there
        was a NaN.
    """

    dtype: np.dtype
    key: tuple
    none: tuple

    @property
    def whole(self):
        """The dtype of the integers."""
        return np.dtype(f"i{self.dtype.itemsize}")

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
        none, nan = writer.get(self.none), writer.const(Const(np.nan, self.dtype))
        condition = writer.type(BOOL)
        return writer.do(f"select {condition} {none}, {floats} {nan}, {floats} {value}")


def is_extreme(reduce):
    """Whether a total is the largest or the smallest of many floats, on an x86."""
    plain = reduce.op in ("max", "min") and "+sse2" in host()[1].split(",")
    plain = plain and wide_dtype(reduce.dtype).kind == "f" and total_only(reduce)
    steps = math.prod(axis.bounds[1] + 1 for axis in reduce.axes)
    return plain and steps > config.fusion.rows_at_once


def start(walker, stmt):
    reduce, writer = stmt.reduce, walker.emitter
    of_host = isinstance(writer, LLVMWriter) and writer.for_host
    if not of_host or not is_extreme(reduce):
        emit.start(walker, stmt)
        return
    first, = start_values(reduce)
    dtype = wide_dtype(reduce.dtype)
    cell = Extreme(dtype, None, writer.cell(BOOL, writer.const(Const(False, BOOL))))
    key = cell.key_of(writer, writer.const(Const(first.value, dtype)))
    walker.cells[reduce] = [Extreme(dtype, writer.cell(cell.whole, key), cell.none)]


def step(walker, stmt):
    reduce, writer = stmt.reduce, walker.emitter
    cell, *_ = walker.cells[reduce]
    if not isinstance(cell, Extreme):
        emit.step(walker, stmt)
        return
    value, = map(walker.value, reduce.bodies)
    floats = writer.type(cell.dtype)
    key, best = cell.key_of(writer, value), writer.get(cell.key)
    zero = Const(0, cell.whole)
    writer.set(cell.key, instructions[reduce.op](writer, "", zero, [best, key]))
    none = writer.do(f"fcmp uno {floats} {value}, {value}")
    before = writer.get(cell.none)
    writer.set(cell.none, writer.do(f"or {writer.type(BOOL)} {before}, {none}"))


walkers |= {Start: start, Step: step}
