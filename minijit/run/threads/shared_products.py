"""Long products in native loops, in parts: the loop takes some, and workers the others.

    call void @shared_5b0c(ptr %a, ptr %b, ptr %out, ptr @numbers_77e1, ptr %team)

A region is one function of one thread.  Where it comes to a long product it makes a job
of it, as `workers.py` says, and goes on when all parts are done.  How many workers
may help, and where their boxes are, the region is told in each call by a list of
numbers, its *team*.  Where there are none, the product is a plain call.

A part has some rows or some columns of the result, and all terms of their sums.  So the
results have the same bits, whatever the number of threads.  A worker that is busy takes
no part: should a part come to a long product itself, those that are idle help with it.
"""

import functools
import math

import numpy as np

from ...compile.loops.statements import Call, Region, statements
from ...trace.base.config import config
from ..llvm.calls import MOST_ROWS, declaration, plan_of, tiles
from ..llvm.engine import share
from ..llvm.functions import ATTRIBUTES
from ..llvm.kernels import kernel_texts
from ..llvm.regions import RegionText, RegionWriter
from ..reports import kernel_threads
from .kernels import PARTS, ThreadedText, job_of, workers
from .workers import ARRAYS, JobWriter, caller_in_parts

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


DECLARED = """
declare void @minijit_share(ptr, i64, ptr, ptr, i64)
declare void @minijit_part_1(ptr, i64)
declare i64 @llvm.smin.i64(i64, i64)
"""


@functools.cache
def shared(key):
    """The name of the function for products in parts that `tiles` has a key for."""
    caller_in_parts(1)
    name, writer = f"shared_{key}", JobWriter()
    job = writer.do(f"alloca [{ARRAYS + 8} x i64], align 64")
    # After the four words that `share` writes, a job has what `part` reads of it.
    words = f"@kernel_{key}", writer.after("%counts", 2), "%a", "%b", "%out", "%numbers"
    for i, word in enumerate(words, ARRAYS - 2):
        writer.put(word, job, i)
    parts, most = (writer.word("%counts", i, "i64") for i in (0, 1))
    there = writer.word("%team", 0, "i64")
    helpers = writer.do(f"call i64 @llvm.smin.i64(i64 {there}, i64 {most})")
    boxes = writer.after("%team", 1)
    given = f"ptr {job}, i64 {parts}, ptr @minijit_part_1, ptr {boxes}"
    writer.line(f"call void @minijit_share({given}, i64 {helpers})")
    given = "ptr %a, ptr %b, ptr %out, ptr %numbers, ptr %counts, ptr %team"
    text = DECLARED + writer.text(f"void @{name}({given}) #0")
    share(name, "\n".join([declaration(key), text, ATTRIBUTES]))
    return name


# ---- regions


class SharingWriter(RegionWriter):
    """Writes a region whose long products run in parts."""

    def product(self, call, offsets):
        if not is_worth_sharing(call):
            super().product(call, offsets)
            return
        name = shared(tiles(call))
        blocks, size, numbers = shared_plan(call)
        parts = pieces(blocks, size)
        counts = job_of(parts, len(parts)).tolist()
        some = self.do(f"icmp sgt i64 {self.do('load i64, ptr %team')}, 0")
        with self.branch(some) as otherwise:
            out, a, b = self.starts((*call.outputs, *call.inputs), offsets)
            given = a, b, out, self.numbers(numbers), self.numbers(counts), "%team"
            self.declared[f"declare void @{name}({', '.join(['ptr'] * 6)})"] = None
            self.call_routine(name, given)
            otherwise()
            super().product(call, offsets)


class SharingText(RegionText):
    """A region as LLVM IR; one with long products is given a team."""

    new_writer = SharingWriter

    def handed_to(self, bodies):
        calls = [s for body in bodies for s in statements(body) if isinstance(s, Call)]
        products = [call for call in calls if call.routine == "matmul"]
        return ("team",) if any(map(is_worth_sharing, products)) else ()

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
