"""Loops that a condition ends, and carries that swap: a writer's further methods.

    test1:
      %v2 = load float, ptr %m1                       ; what the last step left
      %v3 = fcmp olt float %v2, 0x4059000000000000
      br i1 %v3, label %body1, label %done1

What one step leaves for the next is in memory on the stack, and LLVM makes registers of
it.  Buffers that swap are pointers there.
"""

from contextlib import contextmanager

from .text import LLVMWriter
from .work import LONG


class LoopWriter(LLVMWriter):
    """Writes loops with a condition: what its emitter has besides that of a kernel.

    Attributes:
      moving: the buffers whose pointer is on the stack, for it changes.
    """

    def __init__(self):
        super().__init__()
        # How often it runs is not known.
        self.moving, self.times = set(), LONG

    @contextmanager
    def repeat(self):
        """A loop that a condition ends, which `unless` is given."""
        k = self.fresh()

        def unless(condition):
            self.line(f"br i1 {condition}, label %body{k}, label %done{k}")
            self.begin(f"body{k}")

        self.line(f"br label %test{k}")
        self.begin(f"test{k}")
        yield unless
        self.line(f"br label %test{k}")
        self.begin(f"done{k}")

    def moves(self, buffer):
        """Keep the pointer to a buffer on the stack."""
        self.pointers[buffer] = self.slot("ptr", self.pointers[buffer])
        self.moving.add(buffer)

    def pointer(self, buffer):
        pointer = self.pointers[buffer]
        return self.do(f"load ptr, ptr {pointer}") if buffer in self.moving else pointer

    def swap(self, first, second):
        slots = [self.pointers[first], self.pointers[second]]
        values = [self.do(f"load ptr, ptr {slot}") for slot in slots]
        for slot, value in zip(slots, reversed(values), strict=True):
            self.line(f"store ptr {value}, ptr {slot}")


class WordWriter(LoopWriter):
    """Writes functions of words of 8 bytes in memory, which no statement is about."""

    def after(self, pointer, i):
        """The address that is so many words after another one."""
        return self.do(f"getelementptr i64, ptr {pointer}, i64 {i}")

    def word(self, pointer, i, kind="ptr"):
        """Number i of the words from an address on."""
        return self.do(f"load {kind}, ptr {self.after(pointer, i)}")

    def put(self, value, pointer, i, kind="ptr"):
        self.line(f"store {kind} {value}, ptr {self.after(pointer, i)}")

    def field(self, thing):
        """The first field of an object of Python's: of an array where its memory is."""
        where = f"getelementptr i8, ptr {thing}, i64 {object.__basicsize__}"
        return self.do(f"load ptr, ptr {self.do(where)}")
