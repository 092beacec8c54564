"""Blocks of 16 x 16 numbers, turned in registers: what two loops of kind `vector` are.

    for i in vector 16:
      for j in vector 16:
        panel[j, i] = x[i, j]

    %v1 = load <16 x float>, ptr %p, align 4               ; 16 rows of x, whole
    ...
    %v40 = shufflevector <16 x float> %v1, <16 x float> %v2, <16 x i32> <...>
    ...
    store <16 x float> %v99, ptr %q, align 4               ; 16 rows of the panel

In four rounds rows exchange halves, quarters, pairs and single numbers with each other.
Where registers have no room for 16 rows, a loop turns a quarter of the block at a time.
"""

from ...compile.loops.index_rules import known
from ...compile.loops.statements import For, Store
from ...compile.memory.complex_pairs import PairBuffer
from ...compile.schedule.machine import levels
from ...compile.schedule.nests import strides_of
from ..emit import Walker, walkers
from .target import level_of_target
from .text import LLVMWriter
from .types import memory_type


def walk_loop(walker, stmt):
    """A loop; two of kind `vector` are one block."""
    block = stmt.axis.kind == "vector" and isinstance(stmt.body[-1], For)
    if block and isinstance(walker.emitter, LLVMWriter):
        outside = dict(walker.values)
        walk_block(walker, stmt)
        walker.values = outside
    else:
        Walker.loop(walker, stmt)


def walk_block(walker, stmt):
    """The first element of a block: the others are at known distances from it."""
    walker.values[stmt.axis] = "0"
    for inner in stmt.body:
        if isinstance(inner, For):
            walk_block(walker, inner)
        elif isinstance(inner, Store):
            # Both parts of a complex number move with the first one.
            if not (isinstance(inner.buffer, PairBuffer) and known(inner.index[-1])):
                turn(walker, inner)
        else:
            walkers[type(inner)](walker, inner)


def turn(walker, store):
    """Load the rows of a block, turn them, store its columns.

    A block that registers have no room for is turned in parts, by a loop: each of them
    has columns and rows of its own.  A complex number is one of twice as many bits.
    """
    writer, load = walker.emitter, store.value
    ends = [(e.buffer, walker.index(e)) for e in (load, store)]
    first, last = (writer.address(*end) for end in ends)
    rows, columns, dtype = strides_of(load), strides_of(store), load.buffer.dtype
    one = 2 if isinstance(load.buffer, PairBuffer) else 1
    down, = (a for a in columns if a.kind == "vector" and columns[a] == one)
    along, = (a for a in rows if a.kind == "vector" and rows[a] == one)
    n, align = along.extent, f"align {dtype.itemsize}"
    kind = memory_type(dtype) if one == 1 else f"i{16 * dtype.itemsize}"
    size = side(n, bits_of(kind) // 8)

    def row(start, number, stride):
        far = number * stride // one
        return writer.do(f"getelementptr {kind}, ptr {start}, i64 {far}")

    def tile(start, number, stride):
        far = writer.do(f"mul nsw i64 {number}, {size * stride // one}")
        return writer.do(f"getelementptr {kind}, ptr {start}, i64 {far}")

    def turned(first, last):
        vector, found = f"<{size} x {kind}>", []
        end = f"{align}{writer.alias(load.buffer)}"
        for i in range(size):
            where = row(first, i, rows[down])
            found.append(writer.do(f"load {vector}, ptr {where}, {end}"))
        end = f"{align}{writer.alias(store.buffer)}"
        for i, value in enumerate(exchanged(writer, found, kind, size)):
            where = row(last, i, columns[along])
            writer.line(f"store {vector} {value}, ptr {where}, {end}")

    if size == n:
        turned(first, last)
        return
    with writer.loop(None, n // size) as i:
        above, left = tile(first, i, rows[down]), tile(last, i, one)
        with writer.loop(None, n // size) as j:
            turned(tile(above, j, one), tile(left, j, columns[along]))


def side(n, size):
    """How many of n rows and columns fit into registers; size: bytes of a number."""
    room, count = levels[level_of_target()]
    while n * n * size > room * count:
        n //= 2
    return n


def exchanged(writer, rows, kind, n):
    """n vectors of n numbers as the vectors of their first, second, ... numbers.

    Fewer vectors are so many columns of blocks, one block after the other.
    """
    rows, step = list(rows), 1
    while step < len(rows):
        # Number j of the second row is n + j.
        first = [n + (j ^ step) if j & step else j for j in range(n)]
        second = [n + j if j & step else j ^ step for j in range(n)]
        for i in (i for i in range(len(rows)) if not i & step):
            pair = rows[i], rows[i + step]
            for where, order in zip((i, i + step), (first, second), strict=True):
                rows[where] = shuffled(writer, kind, n, *pair, order)
        step *= 2
        if step < len(rows):
            rows = [as_it_is(writer, row, kind, n) for row in rows]
    return rows


def shuffled(writer, kind, n, x, y, order):
    """Some numbers of two vectors of n; those of the second one are n and more."""
    vector, places = f"<{n} x {kind}>", ", ".join(f"i32 {k}" for k in order)
    mask = f"<{len(order)} x i32> <{places}>"
    return writer.do(f"shufflevector {vector} {x}, {vector} {y}, {mask}")


def spread(writer, kind, n, value):
    """A vector that has a number n times."""
    vector, zeros = f"<{n} x {kind}>", f"<{n} x i32> zeroinitializer"
    one = writer.do(f"insertelement {vector} poison, {kind} {value}, i32 0")
    return writer.do(f"shufflevector {vector} {one}, {vector} poison, {zeros}")


def joined(writer, vectors, kind, size):
    """Vectors one after the other, as one."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        order = range(2 * size)
        vectors = [shuffled(writer, kind, size, *pair, order) for pair in pairs]
        size *= 2
    return vectors[0]


def as_it_is(writer, row, kind, n):
    """A vector that LLVM does not ask how it came about.

    For each shuffle it would look for one in the place of all those before it: that is
    most of the time a block takes to compile, and the code is no shorter for it.
    """
    if not (count := n * bits_of(kind) // 32):
        return row
    floats, vector = f"<{count} x float>", f"<{n} x {kind}>"
    cast = (lambda x, *kinds: x) if floats == vector else (
        lambda x, old, new: writer.do(f"bitcast {old} {x} to {new}")
    )
    given = floats, cast(row, vector, floats)
    row = writer.invoke(f"llvm.arithmetic.fence.v{count}f32", floats, given)
    return cast(row, floats, vector)


def bits_of(kind):
    """Of a number of a type."""
    return int(kind[1:]) if kind[0] == "i" else {"float": 32, "double": 64}[kind]


walkers |= {For: walk_loop}
