"""A walk over statements that many threads run: what each of them does, and when.

    for j in 1000: y[j] = t[j] / r0        at the level of a block:
                                             barrier, if others wrote t just now
                                             for j in range(thread, 1000, 256): ...
    r0 = add(k: x[k])                        r0 = 0
                                             for k in range(thread, 1000, 256): r0 +=
                                             r0 = the sum of all threads' r0

Where statements are a block's, all of its threads run them: each computes the same
numbers, thread 0 alone stores them, loops and totals are divided.  Where statements are
a thread's, they are what they are on a CPU.  The emitter has besides a `Walker`'s:

    block_number(way), thread_number(), number_of_thread(threads)
                                 which ones this is: values; a way is x, y or z
    share(stmt, extent, threads) a context manager: a loop from this thread on, in steps
                                 of all of them; gives the counter
    only_first()                 one around what thread 0 does alone
    barrier()                    wait until all threads of the block are here
    common(dtype, size)          memory of the block: what `load` and `store` take
    exchange(dtype, value, d)    the value of the thread whose number differs in bit d
    atomic(buffer, index, name, dtype, value)   combine what is in memory with a value
    compare_and_swap(buffer, index, expected, new)   store bits where others are: the
                                 value is the bits that were there
"""

from functools import partial

import numpy as np

from ...compile.loops.buffers import Buffer
from ...compile.loops.contents import loads_within, stores_in
from ...compile.loops.expressions import Axis, Const, Load, Op, Reduce, as_index
from ...compile.loops.kernel_buffers import buffer_names, local_buffers
from ...compile.loops.scalars import BOOL, storage_dtype
from ...compile.loops.statements import (
    For, If, Let, Step, Store, Swap, While, statements,
)
from ...compile.schedule.shared_loops import loaded_buffers
from ..emit import Walker, walkers
from .grid_memory import ATOMIC, WARP, atomic_kinds, flat


def is_number(buffer):
    """Whether a buffer is a variable of each thread's."""
    return buffer.space == "register" and buffer.origin.shape == ()


def own_buffers(body):
    """The buffers in statements that a kernel is not given."""
    found = *buffer_names(body), *local_buffers(body)
    return [b for b in found if b.space != "global"]


class GridWalker(Walker):
    """Tells an emitter what the threads of a launch do.

    Attributes:
      launch: the `Launch`; part: of it the one that is walked over.
      shared: whether statements are a block's now.
      written, read: what threads of the block did to memory since the last barrier.
    """

    def __init__(self, emitter, launch):
        super().__init__(emitter)
        self.launch, self.threads = launch, launch.threads
        self.which_thread = Axis(launch.threads)
        self.written, self.read, self.scratch = set(), set(), {}
        inside = [s for part in launch.parts for s in statements(part.body)]
        stores = [s.buffer for s in inside if isinstance(s, Store)]
        swaps = [b for s in inside if isinstance(s, Swap) for b in (s.first, s.second)]
        self.stored = {b for b in (*stores, *swaps) if not is_number(b)}

    def memory(self):
        """What no argument is: each thread's own, or all the block's."""
        ways = max([1, *(len(part.axes) for part in self.launch.parts)])
        self.numbers = [self.emitter.block_number(way) for way in "xyz"[:ways]]
        self.values[self.which_thread] = self.emitter.thread_number()
        for part in self.launch.parts:
            for buffer in own_buffers(part.body):
                if part.by_block and not is_number(buffer):
                    self.emitter.common(buffer)
                else:
                    self.emitter.own(buffer)

    def run(self):
        for part in self.launch.parts:
            self.part, self.shared = part, part.by_block
            self.block(part.body)

    def block(self, body):
        outside = dict(self.values)
        for stmt in body:
            self.statement(stmt)
        self.values = outside

    def statement(self, stmt):
        if isinstance(stmt, For) and stmt.axis in self.part.axes:
            self.steps(stmt)
        elif self.shared and type(stmt) in of_blocks:
            of_blocks[type(stmt)](self, stmt)
        elif isinstance(stmt, Store) and str(stmt.combine).startswith(ATOMIC):
            self.atomic(stmt)
        else:
            walkers[type(stmt)](self, stmt)

    def atomic(self, stmt):
        """A store that combines in one step, by an instruction if there is one."""
        buffer, name = stmt.buffer, stmt.combine.removeprefix(ATOMIC)
        named = lambda expr: self.emitter.let(expr, self.value(expr))
        index, value, dtype = [*map(named, stmt.index)], named(stmt.value), buffer.dtype
        if dtype.kind in atomic_kinds.get(name, "") and dtype.itemsize in (4, 8):
            self.emitter.atomic(buffer, index, name, dtype, value)
            return
        expr = Op(name, (Load(buffer, stmt.index), stmt.value), dtype)
        self.by_swaps(buffer, index, lambda old: self.operation(expr, [old, value]))

    def by_swaps(self, buffer, index, combine):
        """Combine what is expected, and store that if it is there; else expect what is.

        Bits are compared, for a NaN is not equal to itself; at first 0 is expected.
        """
        emitter, dtype, stored = self.emitter, buffer.dtype, storage_dtype(buffer.dtype)
        bits = stored if stored.kind in "iu" else np.dtype(f"u{stored.itemsize}")
        how, zero = "convert" if dtype == BOOL else "bitcast", Const(0, bits)
        number, different = Op(how, (zero,), dtype), Op("ne", (zero, zero), BOOL)
        cell = emitter.cell(bits, emitter.const(zero))
        with emitter.repeat() as unless:
            expected = emitter.get(cell)
            new = combine(self.operation(number, [expected]))
            new = emitter.let(zero, self.operation(Op(how, (number,), bits), [new]))
            found = emitter.compare_and_swap(buffer, index, expected, new)
            found = emitter.let(zero, found)
            unless(emitter.op(different, [found, expected]))
            emitter.set(cell, found)

    # ---- the grid

    def steps(self, stmt):
        """The step of one of a part's axes that is this block's, or this thread's."""
        axis = stmt.axis
        way = len(self.part.axes) - 1 - self.part.axes.index(axis)
        step, steps = self.numbers[way], self.launch.grid[way]
        if not self.shared:
            step = self.emitter.number_of_thread(self.threads)
            steps *= self.threads
        self.values[axis] = step
        if steps == axis.extent:
            self.block(stmt.body)
            return
        last = as_index(axis.extent)
        there = self.emitter.op(Op("lt", (axis, last), BOOL), [step, self.value(last)])
        with self.emitter.branch(there):
            self.block(stmt.body)

    # ---- what a block does

    def settle(self, reads, writes=frozenset()):
        """Wait for the other threads, if they use the same memory."""
        if reads & self.written or writes & (self.written | self.read):
            self.wait()
        self.read |= reads
        self.written |= writes

    def wait(self):
        """A barrier, if anything was done since the last one."""
        if self.read or self.written:
            self.emitter.barrier()
        self.read, self.written = set(), set()

    def touched(self, body):
        """(buffers that statements read, that they write), of those that are stored."""
        stores = stores_in(body)
        reads = loaded_buffers(body) | {s.buffer for s in stores if s.combine}
        return reads & self.stored, {s.buffer for s in stores} & self.stored

    def block_let(self, stmt):
        self.settle(*self.touched([stmt]))
        walkers[type(stmt)](self, stmt)

    def block_store(self, stmt):
        if is_number(stmt.buffer):
            # Each thread has its own, and they are all the same.
            self.settle(self.read_by(stmt))
            walkers[Store](self, stmt)
            return
        self.settle(*self.touched([stmt]))
        with self.emitter.only_first():
            walkers[Store](self, stmt)

    def block_loop(self, stmt):
        """A total's loop or one whose steps are apart is divided, any other is not."""
        ways = {"thread": self.divide, "reduce": self.total}
        ways.get(stmt.axis.kind, self.in_order)(stmt)

    def divide(self, stmt, loop=None):
        self.settle(*self.touched([stmt]))
        self.shared = False
        self.go(stmt, loop or partial(self.emitter.share, threads=self.threads))
        self.shared = True

    def go(self, stmt, loop):
        """A loop, as an emitter writes it."""
        extent = stmt.axis.extent
        extent = extent if isinstance(extent, int) else self.value(extent)
        with loop(stmt, extent) as counter:
            self.values[stmt.axis] = counter
            self.block(stmt.body)
            if self.shared:
                self.wait()

    def total(self, stmt):
        """Each thread has a total of its own; at the end they are combined."""
        reduces = [s.reduce for s in statements([stmt]) if isinstance(s, Step)]
        reduces = [e for e in reduces if e in self.cells]
        if stmt.axis.bounds[1] + 1 < WARP:
            self.divide(stmt, self.emitter.loop)
            return
        self.divide(stmt)
        for reduce in reduces:
            of_blocks[Reduce](self, reduce)

    def room(self, dtype, n):
        """Memory of the block for a number of each warp."""
        if (dtype, n) not in self.scratch:
            warps = self.threads // WARP
            room = flat(Buffer(f"warps{n}", (warps,), dtype, space="cache"))
            self.emitter.common(room)
            self.scratch[dtype, n] = room
        return self.scratch[dtype, n]

    def in_order(self, stmt):
        """A loop that all threads go through together."""
        self.clear_before(stmt)
        self.go(stmt, self.emitter.loop)

    def clear_before(self, stmt):
        reads, writes = self.touched([stmt])
        if (reads | writes) & (self.written | self.read) or self.scratch:
            self.wait()

    def block_while(self, stmt):
        self.clear_before(stmt)
        with self.emitter.repeat() as unless:
            outside = dict(self.values)
            for before in stmt.test:
                self.statement(before)
            self.settle(self.read_by(stmt))
            unless(self.value(stmt.cond))
            self.block(stmt.body)
            self.wait()
            self.values = outside

    def block_swap(self, stmt):
        """The threads' pointers are their own; what they did they did elsewhere."""
        self.wait()
        walkers[Swap](self, stmt)

    def block_choice(self, stmt):
        self.settle(self.read_by(stmt))
        before = set(self.read), set(self.written)
        with self.emitter.branch(self.value(stmt.pred)) as otherwise:
            self.block(stmt.then)
            after = self.read, self.written
            self.read, self.written = map(set, before)
            if stmt.otherwise:
                otherwise()
                self.block(stmt.otherwise)
        self.read |= after[0]
        self.written |= after[1]

    def read_by(self, stmt):
        return {e.buffer for e in loads_within(stmt.uses())} & self.stored


# What statements are where they are a block's; others are as on a CPU.  Of a `Reduce`:
# how the totals of all threads become one, which `block_totals` says.
of_blocks = {
    For: GridWalker.block_loop,
    Store: GridWalker.block_store,
    If: GridWalker.block_choice,
    Let: GridWalker.block_let,
    Step: GridWalker.block_let,
    While: GridWalker.block_while,
    Swap: GridWalker.block_swap,
}
