"""Long work in native loops, in parts: the loop takes some, and workers the others.

    store ptr @kernel_5b0c, ptr %v7                 ; what a part of the job calls
    call void @minijit_share(ptr %m3, i64 12, ptr @minijit_part_1, ptr %v9, i64 %v8)

A region is one function of one thread.  Where it comes to a long product, or to a long
nest of loops that is no step of another one, it makes a job of it, as `workers.py`
says, and goes on when all parts are done.  How many workers may help, and where their
boxes are, the region is told in each call by a list of numbers, its *team*.  Where
there are none, the product is a plain call.

A part of a product has some rows or some columns of the result, and all terms of their
sums; a part of a nest has some steps of its outermost loop.  So the results have the
same bits, whatever the number of threads.  A worker that is busy takes no part: should
a part come to a long product itself, those that are idle help with it.
"""

import functools
import math

import numpy as np

from ...compile.loops.graphs import recalled
from ...compile.loops.contents import loads_of, loads_within, stores_in
from ...compile.loops.kernel_buffers import buffer_names, local_buffers, used_buffers
from ...compile.loops.statements import (
    Call, For, If, Let, Look, Region, Start, Step, Store, expressions, statements,
)
from ...compile.schedule.independence import independent
from ...compile.schedule.machine import PARTS, Machine
from ...trace.base.config import config
from ..cache_folder import short_name
from ..emit import walkers
from ..llvm import strips
from ..llvm.calls import MOST_ROWS, Calls, plan_of, tiles
from ..llvm.kernels import KernelText, eights, kernel_texts
from ..llvm.loops import LoopWriter
from ..llvm.regions import RegionText, RegionWriter
from ..llvm.types import memory_type
from ..reports import kernel_threads
from .kernels import RangeWriter, ThreadedText, duration_of, job_of, ranges, workers
from .workers import ARRAYS, caller_in_parts

# Parts have a multiple of so many columns, whole panels, and of so many rows.
COLUMNS, ROWS = 32, 8


# ---- how a product is cut


def work_of(call):
    """How many multiplications a `Call` of `matmul` has."""
    a, b = call.inputs
    return math.prod(a.shape) * b.shape[-1]


def is_worth_sharing(call):
    """Whether a product takes so long that it pays to wake workers."""
    return work_of(call) * config.fusion.product_cost > config.thread_time


def smallest_part():
    """The fewest multiplications of a part: the shortest product has `PARTS` parts."""
    return max(config.thread_time / config.fusion.product_cost / PARTS, 1)


def blocks_of(wanted, m, n, k):
    """How many rows, and how many columns, are in a part of a product."""
    wanted = min(wanted, int(m * n * k / smallest_part()))
    row_blocks = max(1, -(-m // MOST_ROWS))
    column_blocks = max(1, min(-(-wanted // row_blocks), -(-n // COLUMNS)))
    row_blocks = max(row_blocks, wanted // column_blocks)
    rows, columns = -(-m // row_blocks), -(-n // column_blocks)
    return -(-rows // ROWS) * ROWS, -(-columns // COLUMNS) * COLUMNS


def shared_plan(call):
    """(how many blocks, how many of them a part has, the numbers of the product).

    These are numbers of the machine code, whatever the number of threads: of the 64
    parts that the settings allow, 16 threads still have `PARTS` each.
    """
    most = config.fusion.most_parts
    parts = max(1, min(most, int(work_of(call) / smallest_part())))
    blocks, numbers = plan_of(call, functools.partial(blocks_of, parts))
    return blocks, max(1, blocks // parts), numbers


# ---- the job


def pieces(count, size):
    """Ranges of so many blocks each, as `job_of` takes them."""
    return [(i, min(i + size, count), 0) for i in range(0, count, size)]


DECLARED = (
    "declare void @minijit_share(ptr, i64, ptr, ptr, i64)",
    "declare i64 @llvm.smin.i64(i64, i64)",
)


# ---- nests of loops

PLAIN = For, If, Let, Start, Step, Store, Look


@recalled
def is_long(loop):
    """Whether a loop in a region is worth sharing, and cores may share its steps.

    Blocks of lanes are one that goes on step by step within each block.
    """
    inside = statements((loop,))
    totals = {s.reduce for s in inside if isinstance(s, Step)}
    begun = {s.reduce for s in inside if isinstance(s, Start)}
    plain = all(isinstance(s, PLAIN) for s in inside) and totals <= begun
    extent = loop.axis.extent
    if not plain or not isinstance(extent, int) or extent < 2:
        return False
    own = {*local_buffers(loop.body), *numbers_of(loop)}
    if duration_of((loop,)) <= config.thread_time or not independent(
        loop.axis, loop.body, own, again=True
    ):
        return False
    # Prices come with the first long nest.
    from ...compile.schedule.cost import lines_taken
    from ...compile.schedule.lines import Reader

    (read,) = Reader().read((loop,)).inner
    return not lines_taken(read, 2, Machine.in_force())


def numbers_of(loop):
    """The numbers that each step of a loop computes anew, and all steps the same.

    Blocks of lanes count the steps that they go through, for one.
    """
    stores = [s for s in stores_in(loop.body) if not s.buffer.shape]
    loads, found = loads_of(loop.body), dict.fromkeys(s.buffer for s in stores)
    for store in stores:
        inside = loads_within([store.value])
        same = loop.axis not in store.value.free and not store.combine
        if not same or any(load.buffer.shape for load in inside):
            found.pop(store.buffer, None)
    for stmt in statements(loop.body):
        # Of some steps only, or as often as it depends on the step.
        uneven = isinstance(stmt, If) or isinstance(stmt, For) and any(
            loop.axis in extent.free for extent in stmt.uses()
        )
        for store in stores_in((stmt,)) if uneven else ():
            found.pop(store.buffer, None)
    for buffer in {load.buffer for load in loads}.intersection(found):
        if buffer.space != "register" or not begins(loop.body, buffer):
            del found[buffer]
    return list(found)


def begins(body, buffer):
    """Whether statements store a number before they load it."""
    first, *more = (s for s in body if buffer in set().union(*used_buffers((s,))))
    if isinstance(first, Store):
        return buffer not in used_buffers((first,))[1]
    return isinstance(first, For) and not more and begins(first.body, buffer)


def nests_of(body):
    """The loops of a region that cores may share, and that are in no such loop."""
    for stmt in body:
        if isinstance(stmt, For) and (stmt.axis.kind != "serial" or is_long(stmt)):
            yield stmt
        else:
            for inner in stmt.bodies():
                yield from nests_of(inner)


def from_outside(walker, stmt):
    """What a nest needs that has been computed before it."""
    found, todo, seen = {}, list(expressions((stmt,))), set()
    while todo:
        expr = todo.pop()
        if expr in walker.values or expr in walker.cells:
            found[expr] = None
        elif expr not in seen:
            todo += expr.children()
        seen.add(expr)
    return list(found)


class PartWriter(RangeWriter, Calls, LoopWriter):
    """Writes a function of a range of a loop's steps.

    Attributes:
      ticks, leaves: as of `RegionWriter`.
    """

    ticks, leaves = None, False

    def look(self, work):
        """Look for signals, and whether another part was interrupted."""
        stopped = self.do("load atomic i8, ptr %stopped monotonic, align 1")
        stopped, k = self.do(f"icmp ne i8 {stopped}, 0"), self.fresh()
        self.line(f"br i1 {stopped}, label %stop, label %look_too{k}")
        self.begin(f"look_too{k}")
        super().look(work)

    def say_so(self):
        """End: this one was interrupted."""
        self.line("ret void")
        self.begin("stop")
        self.line("store atomic i8 1, ptr %stopped monotonic, align 1")


def part_of(walker, stmt):
    """A nest as a function of a range of its steps.

    Returns:
      Its name; the addresses that it is given: of whether it was interrupted, of
      arrays, and of numbers that have been computed before; and of numbers that it
      changes triples: their type, where it leaves them, where they belong.
    """
    writer, own, values = walker.emitter, PartWriter(stmt, ()), {}
    names, anew, changed = buffer_names((stmt,)), numbers_of(stmt), []
    params, given, places = ["range", "stopped"], [writer.slot("i8", "0")], {}
    for buffer, name in names.items():
        place, kind = writer.pointer(buffer), memory_type(buffer.dtype)
        if buffer.space == "register" and not buffer.shape:
            # What others know by its address would be no register.
            slot = writer.slot(kind, writer.do(f"load {kind}, ptr {place}"))
            if buffer in anew:
                changed.append((kind, slot, place))
                places[buffer] = own.slot(kind)[1:]
            place = slot
        given.append(place)
        params.append(name)
    for i, expr in enumerate(from_outside(walker, stmt)):
        kind = writer.type(expr.dtype)
        given.append(writer.slot(kind, walker.value(expr)))
        own.entry.append(f"  %known{i} = load {kind}, ptr %given{i}")
        values[expr] = f"%known{i}"
        params.append(f"given{i}")
    KernelText.walk(own, (stmt,), names | places, values)
    for buffer, place in places.items():
        kind = memory_type(buffer.dtype)
        last = own.do(f"load {kind}, ptr %{place}")
        own.line(f"store {kind} {last}, ptr %{names[buffer]}")
    if own.leaves:
        own.say_so()
    head = ", ".join(f"ptr noalias %{name}" for name in params)
    text = own.text_of_notes() + own.text(f"internal void @NAME({head}) #0")
    name = f"part_{short_name(text)}"
    writer.declared |= own.declared | {text.replace("NAME", name): None}
    writer.used |= own.used
    writer.loops |= own.loops
    return name, given, changed


def walk_loop(walker, stmt):
    """A loop; a long one in a region that has a team is a job."""
    writer = walker.emitter
    shares = isinstance(writer, SharingWriter) and writer.handed and writer.tags is None
    if not (shares and is_long(stmt)):
        strips.walk_loop(walker, stmt)
        return
    name, given, changed = part_of(walker, stmt)
    writer.share_nest(name, given, stmt)
    for kind, slot, place in changed:
        last = writer.do(f"load {kind}, ptr {slot}")
        writer.line(f"store {kind} {last}, ptr {place}")


walkers |= {For: walk_loop}


# ---- regions


class SharingWriter(RegionWriter):
    """Writes a region whose long products and nests run in parts."""

    def share(self, name, given, parts):
        """Run a function of a range, and of addresses, as a job of these ranges."""
        numbers, count = self.numbers(job_of(parts, len(parts))), eights(len(given))
        caller_in_parts(count)
        part = f"@minijit_part_{count}"
        self.declared |= dict.fromkeys([*DECLARED, f"declare void {part}(ptr, i64)"])
        job = self.slot(f"[{ARRAYS + 8 * count} x i64]", align=", align 64")
        after = lambda place, i: self.do(f"getelementptr i64, ptr {place}, i64 {i}")
        # `share` writes the four words before these.
        for i, word in enumerate((f"@{name}", after(numbers, 2), *given), ARRAYS - 2):
            self.line(f"store ptr {word}, ptr {after(job, i)}")
        most = f"i64 {self.do('load i64, ptr %team')}, i64 {len(parts) - 1}"
        helpers = self.do(f"call i64 @llvm.smin.i64({most})")
        boxes = f"ptr {after('%team', 1)}, i64 {helpers}"
        words = f"ptr {job}, i64 {len(parts)}, ptr {part}, {boxes}"
        self.line(f"call void @minijit_share({words})")

    def share_nest(self, name, given, loop):
        """Run a function of ranges of a loop's steps as a job."""
        looks = any(isinstance(s, Look) for s in statements((loop,)))
        many = int(duration_of((loop,)) * PARTS / max(config.thread_time, 1))
        many = max(min(many, config.fusion.most_parts) // PARTS, 2)
        # Who waits for others looks for no signal: parts that look for any are short.
        extent = loop.axis.extent
        self.share(name, given, ranges(extent, extent if looks else many))
        if looks:
            stopped, k = self.do(f"load i8, ptr {given[0]}"), self.fresh()
            self.stop_if(self.do(f"icmp ne i8 {stopped}, 0"), k)

    def product(self, call, offsets):
        if not is_worth_sharing(call):
            super().product(call, offsets)
            return
        blocks, size, numbers = shared_plan(call)
        some = self.do(f"icmp sgt i64 {self.do('load i64, ptr %team')}, 0")
        with self.branch(some) as otherwise:
            out, a, b = self.starts((*call.outputs, *call.inputs), offsets)
            given = a, b, out, self.numbers(numbers)
            self.share(f"kernel_{tiles(call)}", given, pieces(blocks, size))
            otherwise()
            super().product(call, offsets)


class SharingText(RegionText):
    """A region as LLVM IR; one with long products or nests is given a team."""

    new_writer = SharingWriter

    def handed_to(self, bodies):
        calls = [s for body in bodies for s in statements(body) if isinstance(s, Call)]
        products = [call for call in calls if call.routine == "matmul"]
        nests = (nest for body in bodies for nest in nests_of(body))
        some = any(map(is_worth_sharing, products)) or any(map(is_long, nests))
        return ("team",) if some else ()

    def __init__(self, region):
        super().__init__(region)
        self.facts = *self.facts, bool(self.handed)

    @staticmethod
    def launch(function, tables, is_alone, has_team):
        function = with_team(function) if has_team else function
        return RegionText.launch(function, tables, is_alone)


def with_team(function):
    """A function that is given a team after its arrays."""
    return lambda *arrays: function(*arrays, team_of(config.read("cpu_threads")))


def team_of(threads):
    """How many workers may help a thread, and where their boxes are."""
    helpers = max(threads - 1, 0)
    return np.array([helpers, *workers.ask(helpers)])


kernel_texts |= {Region: SharingText}


def threads_of(stmt):
    """How many may share a kernel: all, if its steps or products are worth dividing."""
    text = kernel_texts[type(stmt)](stmt)
    divided = isinstance(text, ThreadedText) or getattr(text, "handed", ())
    return config.read("cpu_threads") if divided else 1


kernel_threads |= {"llvm": threads_of}
