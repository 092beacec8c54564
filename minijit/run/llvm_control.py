"""Regions as LLVM IR: loops and branches with nests inside, compiled in milliseconds.

    run = compile_llvm(make_jaxpr(
        lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * c + 1, x))(2.0), "f")
    run.routes                          # {"llvm": ["while"]}

A `Region` is one function.  Its registers, and its arrays of a few kilobytes, are on
the stack; buffers that swap are pointers there.  Products of matrices call the BLAS
that comes with SciPy.  A loop looks for signals now and then; if a handler raises, the
function returns true and Python raises what it then has.
"""

import ctypes
import functools
import hashlib
import weakref
from contextlib import contextmanager

import numpy as np

from ..compile.loops import (
    INDEX,
    Buffer,
    Call,
    Load,
    Region,
    Reserve,
    Store,
    Swap,
    expressions,
    postorder,
    statements,
)
from ..transform.tape import Tape, TapeValue, Union
from .emit import Walker
from .interrupts import BETWEEN_LOOKS
from .llvm import (
    LONG,
    KernelText,
    LLVMWriter,
    binding,
    kernel_texts,
    memory_type,
    rewrites,
)
from .lower_control import buffers_in, with_regions
from .python_source import storage_dtype
from .table_values import TableItems, TableValues, decoder, encode

LOOK = """
define internal i1 @look_for_signals() cold noinline memory(inaccessiblemem: readwrite)
{
  %lock = call i32 @PyGILState_Ensure()
  %found = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %lock)
  %raised = icmp ne i32 %found, 0
  ret i1 %raised
}
"""

lock_declarations = (
    "declare i32 @PyGILState_Ensure()",
    "declare void @PyGILState_Release(i32)",
)

look_declarations = (
    "declare i32 @PyErr_CheckSignals()",
    *lock_declarations,
    LOOK,
    '!0 = !{!"branch_weights", i32 1, i32 10000}',
)


# Data of Python's may be too far away for machine code, so that it asks for it.
FAIL = """
@overflow = internal constant [14 x i8] c"OverflowError\\00"
define internal void @fail(ptr %message) cold noinline {
  %lock = call i32 @PyGILState_Ensure()
  %builtins = call ptr @PyEval_GetBuiltins()
  %kind = call ptr @PyDict_GetItemString(ptr %builtins, ptr @overflow)
  call void @PyErr_SetString(ptr %kind, ptr %message)
  call void @PyGILState_Release(i32 %lock)
  ret void
}
"""

fail_declarations = (
    "declare ptr @PyEval_GetBuiltins()",
    "declare ptr @PyDict_GetItemString(ptr, ptr)",
    "declare void @PyErr_SetString(ptr, ptr)",
    *lock_declarations,
    FAIL,
)


# A table gets twice its memory; if there is none, MemoryError is what Python raises.
GROW = """
define internal {ptr, i64} @grow(ptr %old, i64 %has, i64 %rows, i64 %size) cold noinline
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


class RegionWriter(LLVMWriter):
    """Writes a region: what its emitter has besides that of a kernel.

    Attributes:
      moving: the buffers whose pointer is on the stack, for it changes.
      functions: {function that it may call: its name}.
      ticks: the slot that counts the work since it last looked for signals.
      leaves: whether it may end before its end, with an exception.
      rows: for each table the slot that says how many rows it has room for.
      notes: the texts of the notes for LLVM, which those of one region share.
      tags: in a nest, {buffer: what its loads and stores say}; None outside of one.
    """

    def __init__(self, functions, ticks=None):
        super().__init__()
        self.moving, self.ticks, self.leaves = set(), ticks, False
        self.rows, self.functions = {}, functions
        self.notes, self.tags = [], None

    def on_stack(self, buffer):
        """Memory for a buffer, for as long as the function runs."""
        size = max(buffer.nbytes // buffer.dtype.itemsize, 1)
        kind, slot = memory_type(buffer.dtype), f"%m{self.fresh()}"
        kind = kind if not buffer.shape else f"[{size} x {kind}]"
        align = ", align 64" if buffer.shape else ""
        self.entry.append(f"  {slot} = alloca {kind}{align}")
        self.pointers[buffer] = slot

    def moves(self, buffer):
        """Keep the pointer to a buffer on the stack."""
        slot = f"%p{self.fresh()}"
        self.entry.append(f"  {slot} = alloca ptr")
        self.line(f"store ptr {self.pointers[buffer]}, ptr {slot}")
        self.pointers[buffer] = slot
        self.moving.add(buffer)

    def pointer(self, buffer):
        pointer = self.pointers[buffer]
        return self.do(f"load ptr, ptr {pointer}") if buffer in self.moving else pointer

    # LLVM knows that arrays which a function is given do not overlap.  Of those that
    # swap, and of tables, it has to be told: that they do not within this nest.

    def note(self, text):
        """A note for LLVM: -> its name; SELF in the text is that."""
        name = f"!NOTE{len(self.notes)}"
        self.notes.append(f"{name} = {text.replace('SELF', name)}")
        return name

    @contextmanager
    def loop(self, stmt, extent):
        nest = self.tags is None and stmt.axis.kind != "serial"
        if nest:
            self.tags = self.tags_of(stmt)
        with super().loop(stmt, extent) as counter:
            yield counter
        if nest:
            self.tags = None

    def tags_of(self, stmt):
        """What the loads and stores of a nest say."""
        buffers = [b for b in buffers_in((stmt,)) if b.shape]
        if len(buffers) < 2 or not self.moving.intersection(buffers):
            return {}
        domain = self.note("distinct !{SELF}")
        scopes = [self.note(f"distinct !{{SELF, {domain}}}") for _ in buffers]
        lists = [self.note(f"!{{{scope}}}") for scope in scopes]
        kind = "@llvm.experimental.noalias.scope.decl(metadata"
        self.declared[f"declare void {kind})"] = None
        tags = {}
        for buffer, scope, own in zip(buffers, scopes, lists, strict=True):
            others = ", ".join(s for s in scopes if s is not scope)
            rest = self.note(f"!{{{others}}}")
            self.line(f"call void {kind} {own})")
            tags[buffer] = f", !alias.scope {own}, !noalias {rest}"
        return tags

    def alias(self, buffer):
        return self.tags.get(buffer, "") if self.tags else ""

    @contextmanager
    def repeat(self):
        k = self.fresh()

        def unless(condition):
            self.line(f"br i1 {condition}, label %body{k}, label %done{k}")
            self.begin(f"body{k}")

        self.line(f"br label %test{k}")
        self.begin(f"test{k}")
        yield unless
        self.line(f"br label %test{k}")
        self.begin(f"done{k}")

    def swap(self, first, second):
        slots = [self.pointers[first], self.pointers[second]]
        values = [self.do(f"load ptr, ptr {slot}") for slot in slots]
        for slot, value in zip(slots, reversed(values), strict=True):
            self.line(f"store ptr {value}, ptr {slot}")

    def table(self, buffer, header=None):
        """A table: its memory and its room are numbers in slots.

        Args:
          header: the address where both stand, of one that comes from elsewhere.
        """
        k, values = self.fresh(), ("null", "0")
        self.entry += [f"  %m{k} = alloca ptr", f"  %r{k} = alloca i64"]
        if header is not None:
            second = self.do(f"getelementptr i64, ptr {header}, i64 1")
            first = self.do(f"load ptr, ptr {header}")
            values = first, self.do(f"load i64, ptr {second}")
        self.line(f"store ptr {values[0]}, ptr %m{k}")
        self.line(f"store i64 {values[1]}, ptr %r{k}")
        self.pointers[buffer], self.rows[buffer] = f"%m{k}", f"%r{k}"
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
        none = self.do(f"icmp eq ptr {pointer}, null")
        self.line(f"br i1 {none}, label %stop, label %on{k}")
        self.begin(f"on{k}")
        self.leaves = True
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

    def look(self, work):
        """Count the work; if it is time, run the handlers of signals."""
        self.leaves, ticks = True, self.counter()
        k, before = self.fresh(), self.do(f"load i64, ptr {ticks}")
        done = self.do(f"add i64 {before}, {work}")
        self.line(f"store i64 {done}, ptr {ticks}")
        due = self.do(f"icmp sgt i64 {done}, {BETWEEN_LOOKS}")
        self.line(f"br i1 {due}, label %look{k}, label %on{k}, !prof !0")
        self.begin(f"look{k}")
        self.line(f"store i64 0, ptr {ticks}")
        raised = self.do("call i1 @look_for_signals()")
        self.line(f"br i1 {raised}, label %stop, label %on{k}")
        self.begin(f"on{k}")
        self.declared |= dict.fromkeys(look_declarations)

    def addresses(self, buffer):
        """What a function takes for a buffer: of a table both slots."""
        if buffer.space == "table":
            return [self.pointers[buffer], self.rows[buffer]]
        return [self.pointer(buffer)]

    def counter(self):
        """The slot that counts the work."""
        if self.ticks is None:
            self.ticks = f"%w{self.fresh()}"
            self.entry += [f"  {self.ticks} = alloca i64"]
            self.entry += [f"  store i64 0, ptr {self.ticks}"]
        return self.ticks

    def fail(self, condition, message):
        """Leave with an exception, which Python then has."""
        k, data = self.fresh(), message.encode() + b"\0"
        name = f"@message_{hashlib.sha256(data).hexdigest()[:16]}"
        text = "".join(f"\\{byte:02x}" for byte in data)
        value = f'{name} = internal constant [{len(data)} x i8] c"{text}"'
        self.declared |= dict.fromkeys((value, *fail_declarations))
        self.line(f"br i1 {condition}, label %fail{k}, label %on{k}")
        self.begin(f"fail{k}")
        self.line(f"call void @fail(ptr {name})")
        self.leaves = True
        self.line("br label %stop")
        self.begin(f"on{k}")

    def product(self, call, offsets):
        """A product of matrices: the BLAS takes all its arguments by address."""
        views = (*call.outputs, *call.inputs)
        kind = memory_type(views[0].buffer.dtype)
        starts = [
            self.do(f"getelementptr {kind}, ptr {self.pointer(v.buffer)}, i64 {i}")
            for v, i in zip(views, offsets, strict=True)
        ]
        name, arguments = blas_call(views, starts)
        given = [f"ptr {self.given(kind, x)}" for x in arguments]
        word = blas_symbol({"float": "s", "double": "d"}[kind] + name)
        self.declared[f"declare void @{word}({', '.join(['ptr'] * len(given))})"] = None
        self.line(f"call void @{word}({', '.join(given)})")

    def function(self, call, offsets):
        """A call of one of the region's functions."""
        function, views = call.attrs["function"], call.attrs["given"]
        given = []
        for view, i in zip(views, offsets, strict=True):
            if isinstance(view, Buffer):
                given += self.addresses(view)
                continue
            kind, base = memory_type(view.buffer.dtype), self.pointer(view.buffer)
            whole = f"getelementptr {kind}, ptr {base}, i64 {i}"
            given.append(base if i == "0" else self.do(whole))
        for buffer in function.captures:
            given += self.addresses(buffer)
        given.append(self.counter())
        typed = ", ".join(f"ptr {pointer}" for pointer in given)
        k, name = self.fresh(), self.functions[function]
        failed = self.do(f"call i1 @{name}({typed})")
        self.line(f"br i1 {failed}, label %stop, label %on{k}")
        self.begin(f"on{k}")
        self.leaves = True

    def given(self, kind, value):
        """The address of an argument: a matrix's, or that of a slot for a number."""
        if isinstance(value, str) and value.startswith("%"):
            return value
        if isinstance(value, str):
            kind, value = "i8", ord(value)
        elif isinstance(value, int):
            kind = "i32"
        slot = f"%b{self.fresh()}"
        self.entry.append(f"  {slot} = alloca {kind}")
        self.line(f"store {kind} {value}, ptr {slot}")
        return slot


# ---- the BLAS


@functools.cache
def blas_symbol(name):
    """The name by which LLVM finds a routine of the BLAS that comes with SciPy."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    binding().add_symbol(f"minijit_{name}", address)
    return f"minijit_{name}"


def blas_call(views, starts):
    """(routine, arguments) for a product: of two matrices, or a matrix and a vector.

    Args:
      views: of the result and the two factors; starts: their addresses.
    """
    (out_row, _), a_steps, b_steps = (view.strides[-2:] for view in views)
    (m, k), n = views[1].shape[-2:], views[2].shape[-1]
    out, a, b = starts
    if n == 1 and k:
        return gemv((m, k), out, out_row, a, a_steps, b, b_steps[0])
    if m == 1 and k:
        return gemv((n, k), out, 1, b, b_steps[::-1], a, a_steps[1])
    # The BLAS knows columns, not rows: out.T = b.T @ a.T.
    a_by_rows, a_step = stored_by((m, k), a_steps)
    b_by_rows, b_step = stored_by((k, n), b_steps)
    flags = ("n" if b_by_rows else "t"), ("n" if a_by_rows else "t")
    factors = b, b_step, a, a_step
    return "gemm", (*flags, n, m, k, 1.0, *factors, 0.0, out, max(out_row, n))


def gemv(shape, out, out_step, a, steps, x, step):
    """out = a @ x: of the matrix that has our rows as its columns, or of ours."""
    by_rows, a_step = stored_by(shape, steps)
    sizes = shape[::-1] if by_rows else shape
    flag = "t" if by_rows else "n"
    return "gemv", (flag, *sizes, 1.0, a, a_step, x, step, 0.0, out, out_step)


def stored_by(shape, steps):
    """Whether a matrix is stored by rows, and the step from one to the next."""
    (rows, columns), (row, column) = shape, steps
    by_rows = column == 1
    return by_rows, max(row, columns) if by_rows else max(column, rows)


# ---- regions


def region_buffers(body):
    """{buffer: name}: x0, x1, ... are read only, y0, y1, ... are written."""
    written, read = {}, {}
    for stmt in statements(body):
        match stmt:
            case Store():
                written[stmt.buffer] = None
            case Reserve():
                written[stmt.table] = None
            case Swap():
                written |= dict.fromkeys((stmt.first, stmt.second))
            case Call():
                written |= dict.fromkeys(view.buffer for view in stmt.outputs)
                read |= dict.fromkeys(view.buffer for view in stmt.inputs)
                if stmt.routine == "function":
                    given = stmt.attrs["given"]
                    tables = (x for x in given if isinstance(x, Buffer))
                    captures = stmt.attrs["function"].captures
                    written |= dict.fromkeys((*tables, *captures))
    loads = (e for e in postorder(expressions(body)) if isinstance(e, Load))
    read |= dict.fromkeys(e.buffer for e in loads)
    read = [buffer for buffer in read if buffer not in written]
    names = {buffer: f"x{i}" for i, buffer in enumerate(read)}
    return names | {buffer: f"y{i}" for i, buffer in enumerate(written)}


class RegionText(KernelText):
    """One region as LLVM IR: as `KernelText`.

    Attributes:
      tables: the `Attached` of each tape or union; the function takes for it the
        address of two numbers a column: where it is, and how many rows it has room for.
    """

    def __init__(self, region):
        self.name, self.tables = region.name, region.tables
        functions, texts = {}, []
        writer = RegionWriter(functions)
        for function in region.functions:
            functions[function] = f"NAME_f{len(functions)}"
            texts.append(function_text(function, writer))
        names = region_buffers(region.body)
        arrays = {b: k for b, k in names.items() if b.space in ("global", "cache")}
        arrays |= {t.buffer: f"h{i}" for i, t in enumerate(region.tables)}
        writer.pointers = {b: f"%{name}" for b, name in arrays.items()}
        headers = {}
        for tables in region.tables:
            for i, column in enumerate(tables.columns):
                where = f"getelementptr i64, ptr %{arrays[tables.buffer]}, i64 {2 * i}"
                headers[column] = writer.do(where)
        given = {c for t in region.tables if t.given for c in t.columns}
        failed = write_body(writer, region.body, names, headers, given)
        others = "".join(texts) + "".join(f"{note}\n" for note in writer.notes)
        self.finish(writer, region.body, arrays, "i1", failed, others)
        # A function may be called any number of times.
        self.steps += LONG if region.functions else 0

    def launcher(self, function):
        return TableLauncher(self, function) if self.tables else function


def write_body(writer, body, buffers, headers=(), given=()):
    """Write statements, with what comes before and after: -> what the end returns.

    Args:
      buffers: all that they use.
      headers: {table that comes from elsewhere: its header}.
      given: those of them that the headers are to tell of at the end.
    """
    for buffer in dict.fromkeys((*headers, *buffers)):
        if buffer.space == "register":
            writer.on_stack(buffer)
        elif buffer.space == "table" and buffer not in writer.rows:
            writer.table(buffer, headers[buffer] if buffer in headers else None)
    swaps = [s for s in statements(body) if isinstance(s, Swap)]
    for buffer in dict.fromkeys(b for s in swaps for b in (s.first, s.second)):
        writer.moves(buffer)
    Walker(writer).block(body)
    leave(writer, headers, given)
    if not writer.leaves:
        return "false"
    writer.line("ret i1 false")
    writer.begin("stop")
    leave(writer, headers, given)
    return "true"


def leave(writer, headers, given):
    """Its own tables are freed; where those are that it gives says their header."""
    for table in writer.rows:
        if table in given:
            writer.release(table, headers[table])
        elif table not in headers:
            writer.release(table)


FUNCTION = 'nounwind "prefer-vector-width"="512" "no-trapping-math"="true"'


def function_text(function, caller):
    """A function of a region as LLVM IR; what it uses is noted with the caller."""
    writer = RegionWriter(caller.functions, ticks="%w")
    writer.notes = caller.notes
    outside = (*function.params, *function.captures)
    writer.pointers = {b: f"%p{i}" for i, b in enumerate(outside)}
    params = []
    for i, buffer in enumerate(outside):
        params.append(f"ptr noalias %p{i}")
        if buffer.space == "table":
            params.append(f"ptr noalias %r{i}")
            writer.rows[buffer] = f"%r{i}"
    writer.moving |= writer.rows.keys()
    names, borrowed = region_buffers(function.body), dict(writer.rows)
    failed = write_body(writer, function.body, names, borrowed)
    name = caller.functions[function]
    head = f"i1 @{name}({', '.join((*params, 'ptr noalias %w'))}) {FUNCTION}"
    caller.declared |= writer.declared
    caller.used |= writer.used
    return writer.text(head, f"i1 {failed}")


# ---- tapes and unions in Python


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


def own_tables(value):
    """The `Tables` that a value is all of, or None."""
    inside = value.items if isinstance(value, TapeValue) else value.cases
    return getattr(inside, "tables", None)


class TableLauncher:
    """Calls the function of a region that takes or gives tapes and unions.

    To the driver they are arrays of one object.
    """

    def __init__(self, text, function):
        self.function = function
        where = {buffer: i for i, buffer in enumerate(text.buffers)}
        pairs = [(where[t.buffer], t) for t in text.tables]
        self.taken = [(i, t.aval) for i, t in pairs if not t.given]
        self.made = [(i, t.aval, len(t.columns)) for i, t in pairs if t.given]

    def __call__(self, *arrays):
        given, kept = list(arrays), []
        for i, aval in self.taken:
            value = arrays[i][()]
            tables = own_tables(value)
            if tables is None:
                columns = encode(aval, [value])
                pairs = [(c.ctypes.data, len(c)) for c in columns]
                given[i] = np.array(pairs, np.int64)
                kept.append(columns)
            else:
                given[i] = tables.header
        made = [Tables(count) for _, _, count in self.made]
        for (i, _, _), tables in zip(self.made, made, strict=True):
            given[i] = tables.header
        self.function(*given)
        for (i, aval, _), tables in zip(self.made, made, strict=True):
            value = decoder(aval, tables.columns(aval))(0)
            inside = value.items if isinstance(value, TapeValue) else value.cases
            if isinstance(inside, (TableItems, TableValues)):
                inside.tables = tables
            arrays[i][()] = value


kernel_texts |= {Region: RegionText}
rewrites.append(with_regions)
