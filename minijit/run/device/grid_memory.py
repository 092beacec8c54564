"""A device: how many threads and how much memory, which is one row of numbers.

    x[i,k]                  of shape (64, 1000)
    x[i * 1000 + k]

A kernel on a grid computes addresses, and one index counts the steps of several axes:
its digits are the steps of each.  Where digits are put together again they cancel out.
"""

import math
from dataclasses import dataclass
from functools import partial

from ...compile.loops import statements as loops
from ...compile.loops.buffers import Buffer
from ...compile.loops.expressions import Axis, Load, Reduce, as_index, op
from ...compile.loops.graphs import substitute
from ...compile.loops.index_rules import linear, sum_of
from ...compile.loops.kernel_buffers import local_buffers
from ...compile.loops.scalars import wide_dtype
from ...compile.memory.complex_pairs import has_complex, in_pairs
from ...compile.schedule.nests import joined, terms_in_memory
from ...compile.schedule.place import place
from ...compile.schedule.placing_rules import NEST, nestable
from ...trace.base.errors import MinijitError

# Threads that run in step with each other: one instruction for all of them.
WARP = 32
# Threads of a block: those of a nest that goes by thread, eight warps, of which all
# devices run several blocks at once; and as many as a device takes.
THREADS, MOST_THREADS = 256, 1024
# Blocks of a grid along y, and along z, that a device takes; along x it is 2**31 - 1.
MOST_ALONG_Y = (1 << 16) - 1
# Of the 48 KB that a block has in common on all devices, so many are for arrays; some
# are for totals.
COMMON_BYTES = 40 << 10
# Bytes that memory gives at once: a sector.
SECTOR = 32
# How the `combine` of a store begins that no two threads do at once in an element; and
# of which kinds of numbers, of 4 or 8 bytes, it is one instruction.
ATOMIC = "atomic "
atomic_kinds = {"add": "fiu", "max": "iu", "min": "iu"}


class NoCudaForm(MinijitError):
    """What is asked for has no form on a CUDA device; the message says why."""


# Why a statement has none.
obstacles = {
    loops.Reserve: "a loop in it keeps a tape, which grows as it runs",
    loops.Fail: "a loop in it counts its steps, and would raise at too many",
    loops.Call: "a loop in it calls a function",
}


def warps_of(threads):
    """The threads of so many whole warps."""
    return -(-threads // WARP) * WARP


def widest_total(total):
    """How many steps a total has that its threads could share; a running one has 1."""
    if any(axis.kind != "reduce" for axis in total.axes):
        return 1
    return math.prod(axis.bounds[1] + 1 for axis in total.axes)


def bytes_of_own(body):
    """How many bytes the arrays take that statements have in the cache."""
    return sum(buffer.nbytes for buffer in local_buffers(body))


def room_in(temps, name, shape, dtype):
    """A new buffer among a program's temporaries."""
    temps.append(Buffer(f"{name}{len(temps)}", shape, dtype))
    return temps[-1]


def number_of(axes):
    """The number of a step of several loops: what `digits` takes apart."""
    first, *others = axes
    for axis in others:
        first = op("add", op("mul", first, as_index(axis.extent)), axis)
    return first


@dataclass(frozen=True, eq=False)
class Flat(Buffer):
    """The memory of a buffer as one row of numbers.

    Attributes:
      origin: the buffer.
    """

    origin: Buffer | None = None


def flat(buffer):
    size = math.prod(buffer.shape)
    return Flat(buffer.name, (size,), buffer.dtype, (), buffer.space, buffer)


def flattened(body, made):
    """Statements in which each array has one axis: addresses are what is computed.

    Args:
      made: {buffer: its `Flat`}, to be used and extended.
    """
    plain = lambda buffer: made.setdefault(buffer, flat(buffer))
    known: dict = {}

    def place(buffer, index):
        if isinstance(buffer, Flat):
            return buffer, index
        return plain(buffer), (sum_of(terms_in_memory(index, buffer)),)

    def flat_load(expr):
        if type(expr) is Load and not isinstance(expr.buffer, Flat):
            return expr.at(*place(expr.buffer, expr.index))
        return None

    exprs = lambda roots: substitute(list(roots), flat_load, known)

    def rewritten(stmt):
        match stmt:
            case loops.For():
                return loops.For(*exprs([stmt.axis]), block(stmt.body))
            case loops.If():
                then, otherwise = map(block, stmt.bodies())
                return loops.If(*exprs([stmt.pred]), then, otherwise)
            case loops.While():
                test, body = map(block, stmt.bodies())
                return loops.While(test, *exprs([stmt.cond]), body)
            case loops.Swap():
                return loops.Swap(plain(stmt.first), plain(stmt.second))
            case loops.Call() if stmt.routine == "matmul":
                return product(stmt, plain)
            case loops.Look():
                # Nobody sends signals to a device.
                return None
            case loops.Let() | loops.Start() | loops.Step() | loops.Store():
                return stmt.rewrite(exprs, place)
        raise NoCudaForm(obstacles[type(stmt)])

    def block(body):
        return tuple(stmt for stmt in map(rewritten, body) if stmt is not None)

    return block(body)


def placed_flat(body, made):
    """Statements with each expression at its place, and flat arrays.

    What has no complex numbers is flat before: places depend on addresses then.
    """
    plain = partial(flattened, made=made)
    if has_complex(body):
        return plain(in_pairs(place(body, NEST, nestable, tuple)))
    return place(body, NEST, nestable, plain)


def product(call, plain):
    """A product of two matrices as loops, which the threads of a block share."""
    out, = call.outputs
    a, b = call.inputs
    rows, columns, k = *map(Axis, out.shape), Axis(a.shape[1], "reduce")
    both, names = joined([rows, columns], "thread")
    i, j = names[rows], names[columns]

    def at(view, row, column):
        total = as_index(view.offset)
        for index, stride in zip((row, column), view.strides, strict=True):
            total = op("add", total, op("mul", index, as_index(stride)))
        return plain(view.buffer), (total,)

    dtype = wide_dtype(a.buffer.dtype)
    loads = Load(*at(a, i, k)), Load(*at(b, k, j))
    factors = op("mul", *(op("convert", x, dtype=dtype) for x in loads))
    total = op("convert", Reduce("add", (k,), (factors,)), dtype=out.buffer.dtype)
    store = loops.Store(*at(out, i, j), total)
    loop, = place((loops.For(both, (store,)),), prepare=tuple)
    return loop


def parts_of_place(access):
    """{part: factor}, digits apart: where an element is in memory is their sum."""
    return linear(*zip(access.index, access.buffer.strides, strict=True))
