"""Tapes and unions in machine code: tables that grow, and what Python makes of them.

    %enough = icmp sle i64 %rows, %has
    br i1 %enough, label %on1, label %grow1, !prof !1
    grow1:
    %both = call {ptr, i64} @grow(ptr %old, i64 %has, i64 %rows, i64 4)

A table is two numbers: where its memory is, and how many rows that has room for.  What
a region gives to Python is a `TapeValue`, whose columns are NumPy arrays on the same
memory; it is freed with the last of them.
"""

import ctypes
import functools
import weakref

import numpy as np

from ...compile.loops.scalars import INDEX, storage_dtype
from ...transform.control_flow.unions_and_tapes import Tape, Union
from ..python.table_values import decoder, encode
from .calls import lock_declarations

# A table gets twice its memory; if there is none, MemoryError is what Python raises.
GROW = """
define internal {ptr, i64} @grow(ptr %old, i64 %has, i64 %rows, i64 %size)
    cold noinline nounwind
{
  %twice = shl i64 %has, 1
  %enough = call i64 @llvm.smax.i64(i64 %rows, i64 %twice)
  %more = call i64 @llvm.smax.i64(i64 %enough, i64 16)
  %sizes = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %more, i64 %size)
  %nbytes = extractvalue {i64, i1} %sizes, 0
  %over = extractvalue {i64, i1} %sizes, 1
  %some = call i64 @llvm.umax.i64(i64 %nbytes, i64 1)
  br i1 %over, label %none, label %try
try:
  %new = call ptr @realloc(ptr %old, i64 %some)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %done
done:
  %first = insertvalue {ptr, i64} zeroinitializer, ptr %new, 0
  %both = insertvalue {ptr, i64} %first, i64 %more, 1
  ret {ptr, i64} %both
none:
  call void @free(ptr %old)
  %lock = call i32 @PyGILState_Ensure()
  %nothing = call ptr @PyErr_NoMemory()
  call void @PyGILState_Release(i32 %lock)
  ret {ptr, i64} zeroinitializer
}
"""

grow_declarations = (
    "declare i64 @llvm.smax.i64(i64, i64)",
    "declare i64 @llvm.umax.i64(i64, i64)",
    "declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)",
    "declare ptr @realloc(ptr, i64)",
    "declare void @free(ptr)",
    "declare ptr @PyErr_NoMemory()",
    *lock_declarations,
    GROW,
    '!1 = !{!"branch_weights", i32 10000, i32 1}',
)


class TableMethods:
    """What a writer of a region does with tables: methods for `RegionWriter`.

    Attributes:
      rows: for each table the slot that says how many rows it has room for.
    """

    def addresses(self, buffer):
        """What a function takes for a buffer: of a table both slots."""
        if buffer.space == "table":
            return [self.pointers[buffer], self.rows[buffer]]
        return [self.pointer(buffer)]

    def table(self, buffer, header=None):
        """A table: its memory and its room are numbers in slots.

        Args:
          header: the address where both stand, of one that comes from elsewhere.
        """
        values = "null", "0"
        if header is not None:
            second = self.do(f"getelementptr i64, ptr {header}, i64 1")
            first = self.do(f"load ptr, ptr {header}")
            values = first, self.do(f"load i64, ptr {second}")
        self.pointers[buffer] = self.slot("ptr", values[0])
        self.rows[buffer] = self.slot("i64", values[1])
        self.moving.add(buffer)

    def reserve(self, table, rows):
        """Twice the memory for a table that has too little; null is none."""
        k, slot, room = self.fresh(), self.pointers[table], self.rows[table]
        has = self.do(f"load i64, ptr {room}")
        enough = self.do(f"icmp sle i64 {rows}, {has}")
        self.line(f"br i1 {enough}, label %on{k}, label %grow{k}, !prof !1")
        self.begin(f"grow{k}")
        row = table.strides[0] * table.dtype.itemsize
        old = self.do(f"load ptr, ptr {slot}")
        given = f"ptr {old}, i64 {has}, i64 {rows}, i64 {row}"
        both = self.do(f"call {{ptr, i64}} @grow({given})")
        pointer = self.do(f"extractvalue {{ptr, i64}} {both}, 0")
        more = self.do(f"extractvalue {{ptr, i64}} {both}, 1")
        self.line(f"store ptr {pointer}, ptr {slot}")
        self.line(f"store i64 {more}, ptr {room}")
        self.stop_if(self.do(f"icmp eq ptr {pointer}, null"), k)
        self.declared |= dict.fromkeys(grow_declarations)

    def release(self, table, header=None):
        """Give back a table's memory, or say where it is."""
        pointer = self.do(f"load ptr, ptr {self.pointers[table]}")
        if header is None:
            self.line(f"call void @free(ptr {pointer})")
            self.declared["declare void @free(ptr)"] = None
            return
        rows = self.do(f"load i64, ptr {self.rows[table]}")
        second = self.do(f"getelementptr i64, ptr {header}, i64 1")
        self.line(f"store ptr {pointer}, ptr {header}")
        self.line(f"store i64 {rows}, ptr {second}")


class Tables:
    """The tables of a tape or union that a region gave: their memory is freed with it.

    Attributes:
      header: for each column where it is, and how many rows it has: int64[2 * n].
    """

    def __init__(self, count):
        self.header = np.zeros(2 * count, np.int64)
        weakref.finalize(self, release, self.header).atexit = False

    def columns(self, aval):
        """The columns as NumPy arrays, which keep the memory."""
        found = self.header.reshape(-1, 2).tolist()
        return [
            np.asarray(Memory(self, place, (rows, *shape), dtype))
            for (shape, dtype), (place, rows) in zip(
                column_types(aval), found, strict=True
            )
        ]


def release(header):
    for place in header[::2].tolist():
        libc().free(place)


@functools.cache
def libc():
    library = ctypes.CDLL(None)
    library.free.argtypes, library.free.restype = [ctypes.c_void_p], None
    return library


class Memory:
    """What NumPy makes an array of, that keeps an owner."""

    def __init__(self, owner, place, shape, dtype):
        self.owner = owner
        self.__array_interface__ = dict(
            version=3, data=(place, False), shape=shape, typestr=dtype.str
        )


@functools.cache
def column_types(aval):
    """(shape, dtype) of a row of each column of a table for values of a type."""
    if isinstance(aval, Tape):
        return (((), INDEX),) * 2 + column_types(aval.element)
    if isinstance(aval, Union):
        inner = [t for case in aval.cases for a in case for t in column_types(a)]
        return (((), INDEX),) * len(aval.cases) + tuple(inner)
    return ((aval.shape, storage_dtype(aval.dtype)),)


class TableLauncher:
    """Calls the function of a region that takes or gives tapes and unions.

    To the driver they are arrays of one object.
    """

    def __init__(self, tables, function):
        self.function = function
        self.taken = [(i, aval) for i, aval, columns in tables if columns is None]
        self.made = [table for table in tables if table[2] is not None]

    def __call__(self, *arrays):
        given, kept = list(arrays), []
        for i, aval in self.taken:
            columns = encode(aval, [arrays[i][()]])
            given[i] = np.array([(c.ctypes.data, len(c)) for c in columns], np.int64)
            kept.append(columns)
        made = [Tables(count) for _, _, count in self.made]
        for (i, _, _), tables in zip(self.made, made, strict=True):
            given[i] = tables.header
        self.function(*given)
        for (i, aval, _), tables in zip(self.made, made, strict=True):
            arrays[i][()] = decoder(aval, tables.columns(aval))(0)
