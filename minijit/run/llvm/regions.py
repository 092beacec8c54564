"""Regions as LLVM IR: loops and branches with nests inside, compiled in milliseconds.

    run = compile_llvm(make_jaxpr(
        lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * c + 1, x))(2.0), "f")
    minijit.explain(f, x).kernels       # [Step("while_0", ..., route="llvm")]

A `Region` is one function.  Its registers, and its arrays of a few kilobytes, are on
the stack; buffers that swap are pointers there.  Products of matrices, and routines of
LAPACK, are calls of what is compiled already.  A loop looks for signals now and then;
if a handler raises, the function returns true and Python raises what it then has.
"""

import itertools
from contextlib import contextmanager

from ...compile.control.region_functions import buffers_in
from ...compile.loops.buffers import Buffer
from ...compile.loops.contents import stores_in
from ...compile.loops.kernel_buffers import buffer_names, touched
from ...compile.loops.statements import Region, Store, Swap, statements
from ...compile.memory.complex_pairs import origin_of, region_in_pairs
from ..lapack import alone, works_alone
from .calls import Calls
from .functions import MemoryWalker
from .kernels import KernelText, kernel_texts
from .loops import LoopWriter
from .tables import TableLauncher, TableMethods
from .types import memory_type
from .work import LONG

# Bytes of a line of the cache, and of the widest registers.
LINE = 64


class AliasScopes:
    """What does not overlap, said to LLVM where an argument's `noalias` cannot say it.

        call void @llvm.experimental.noalias.scope.decl(metadata !13)
        %v9 = load float, ptr %v8, !alias.scope !13, !noalias !16

    LLVM knows that arrays which a function is given do not overlap.  Of those that
    swap, and of tables, it has to be told: that they do not within this nest of loops.

    Attributes:
      tags: in a nest, {buffer: what its loads and stores say}; None outside of one.
    """

    tags: dict | None

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


class RegionWriter(AliasScopes, TableMethods, Calls, LoopWriter):
    """Writes a region.

    Attributes:
      functions: {function that it may call: its name}.
      handed: names of pointers that are no buffers: each function is given them, too.
      ticks, leaves, rows, tags: see the classes that it is made of.
    """

    def __init__(self, functions, handed=(), ticks=None):
        super().__init__()
        self.functions, self.handed = functions, handed
        self.ticks, self.leaves = ticks, False
        self.rows, self.tags = {}, None

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
        given += [f"%{name}" for name in self.handed]
        given.append(self.counter())
        typed = ", ".join(f"ptr {pointer}" for pointer in given)
        k, name = self.fresh(), self.functions[function]
        self.stop_if(self.do(f"call i1 @{name}({typed})"), k)


class RegionText(KernelText):
    """One region as LLVM IR: as `KernelText`.

    Attributes:
      tables: the `Attached` of each tape or union; the function takes for it the
        address of two numbers a column: where it is, and how many rows it has room for.
      handed: as in `RegionWriter`: the launcher gives them after all arrays.
    """

    new_writer = RegionWriter

    def __init__(self, region):
        region = region_in_pairs(region)
        self.name, self.tables = region.name, region.tables
        bodies = (region.body, *(f.body for f in region.functions))
        self.is_alone, self.handed = works_alone(bodies), self.handed_to(bodies)
        functions, texts = {}, []
        writer = self.new_writer(functions, self.handed)
        for function in region.functions:
            functions[function] = f"NAME_f{len(functions)}"
            texts.append(function_text(function, writer))
        names = buffer_names(region.body)
        arrays = {b: k for b, k in names.items() if b.space == "global"}
        arrays |= {t.buffer: f"h{i}" for i, t in enumerate(region.tables)}
        writer.pointers = {b: f"%{name}" for b, name in arrays.items()}
        headers = {}
        for tables in region.tables:
            for i, column in enumerate(tables.columns):
                where = f"getelementptr i64, ptr %{arrays[tables.buffer]}, i64 {2 * i}"
                headers[column] = writer.do(where)
        given = {c for t in region.tables if t.given for c in t.columns}
        failed = write_body(writer, region.body, names, headers, given)
        given = arrays | dict(zip(self.handed, self.handed, strict=True))
        self.finish(writer, region.body, given, "i1", failed, "".join(texts))
        self.buffers = tuple(map(origin_of, arrays))
        # A function may be called any number of times.
        self.steps += LONG if region.functions else 0
        where = {buffer: i for i, buffer in enumerate(self.buffers)}
        tables = tuple(
            (where[t.buffer], t.aval, len(t.columns) if t.given else None)
            for t in region.tables
        )
        self.facts = tables, self.is_alone

    def handed_to(self, bodies):
        """What statements need besides arrays."""
        return ()

    @staticmethod
    def launch(function, tables, is_alone):
        """What the driver calls.

        Args:
          tables: of each tape or union its place among the arguments, its type, and of
            how many columns it is made, or None if it is taken.
          is_alone: whether the BLAS uses one thread meanwhile.
        """
        function = TableLauncher(tables, function) if tables else function
        return alone(function) if is_alone else function


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
    move_swapped(writer, body)
    small = {b: writer.pointers[b] for b in small_arrays(body)}
    for buffer, place in small.items():
        writer.on_stack(buffer)
        copy(writer, buffer, place, writer.pointers[buffer])
    MemoryWalker(writer).block(body)
    for buffer, place in small.items():
        copy(writer, buffer, writer.pointers[buffer], place)
    leave(writer, headers, given)
    if not writer.leaves:
        return "false"
    writer.line("ret i1 false")
    writer.begin("stop")
    leave(writer, headers, given)
    return "true"


def small_arrays(body):
    """Arrays of at most a line that only stores write, and no other statement knows.

    They are on the stack meanwhile: those whose steps run at once are registers then.
    """
    found = {s.buffer: None for s in stores_in(body)}
    for stmt in statements(body):
        if type(stmt) in touched and not isinstance(stmt, Store):
            for buffer in itertools.chain(*touched[type(stmt)](stmt)):
                found.pop(buffer, None)
    return [b for b in found if b.space == "global" and b.shape and b.nbytes <= LINE]


def copy(writer, buffer, source, target):
    """Copy a small array."""
    size = buffer.nbytes // buffer.dtype.itemsize
    kind = f"<{size} x {memory_type(buffer.dtype)}>"
    align = f"align {buffer.dtype.itemsize}"
    value = writer.do(f"load {kind}, ptr {source}, {align}")
    writer.line(f"store {kind} {value}, ptr {target}, {align}")


def move_swapped(writer, body):
    """Keep the pointers to buffers that swap on the stack."""
    swaps = [s for s in statements(body) if isinstance(s, Swap)]
    for buffer in dict.fromkeys(b for s in swaps for b in (s.first, s.second)):
        writer.moves(buffer)


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
    writer = type(caller)(caller.functions, caller.handed, ticks="%w")
    writer.notes = caller.notes
    outside = (*function.params, *function.captures)
    writer.pointers = {b: f"%p{i}" for i, b in enumerate(outside)}
    params = []
    for i, buffer in enumerate(outside):
        params.append(f"ptr noalias %p{i}")
        if buffer.space == "table":
            params.append(f"ptr noalias %r{i}")
            writer.rows[buffer] = f"%r{i}"
    params += [f"ptr noalias %{name}" for name in caller.handed]
    writer.moving |= writer.rows.keys()
    names, borrowed = buffer_names(function.body), dict(writer.rows)
    failed = write_body(writer, function.body, names, borrowed)
    name = caller.functions[function]
    head = f"internal i1 @{name}({', '.join((*params, 'ptr noalias %w'))}) {FUNCTION}"
    caller.declared |= writer.declared
    caller.used |= writer.used
    return writer.text(head, f"i1 {failed}")


kernel_texts |= {Region: RegionText}
