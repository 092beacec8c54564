"""Products of matrices of any size, in tiles whose totals stay in registers: our gemm.

    for k0 in blocks of k:
      for j0 in panels of n:
        panel = b[k0.., j0..]               # side by side, as the tiles read it
        for i0 in rows of m, 8 at a time:
          out[i0.., j0..] += a[i0.., k0..] @ panel         # 8 x 32 totals in registers

A step of a tile takes 32 neighbours from the panel and one number from each of 8 rows
of `a`, and makes 256 products of them.  So `a` is read as it lies, whatever its strides
are.  A panel is a copy, for its rows may lie far apart, or along the other axis: then
blocks of 16 x 16 numbers are turned in registers.  Where few tiles read it there is no
panel: they read the rows of `b` as they lie.  At the edges tiles have half the rows, or
half the columns.  And where `a` has few rows, or `b` few columns, and all sums go along
memory, a total is a vector of its own, as of a dot product: nothing is turned.

All sizes and strides are arguments: three functions do for all products of a dtype, and
a process compiles those that it needs.
"""

import functools
from contextlib import contextmanager
from itertools import chain

from .blocks import exchanged, spread
from .loops import WordWriter
from .target import vector_bytes

# Steps of a product for which a panel is made at once: it stays in the second cache.
# Their totals are added to those before: one total of all steps would lose too much.
# These two are no settings, because there is one function for all programs' products.
DEPTH = 512
# Where no more tiles than these would read a panel, none is made.
FEW_TILES = 8

# The numbers in the list, in this order; then a size and three strides for each axis of
# a batch, the innermost one first.
FIELDS = """
    m n k a_row a_column b_row b_column out_row a_start b_start out_start
    m_block n_block row_blocks blocks axes
""".split()

HEAD = "void @NAME(ptr %range, ptr %a, ptr %b, ptr %out, ptr %list) #0"


def registers():
    """(rows of a tile, bytes of a vector): two vectors a row, and one for a factor."""
    nbytes = vector_bytes()
    return 8 if nbytes == 64 else 6, nbytes


class ProductWriter(WordWriter):
    """Writes the function for products of one type, `float` or `double`.

    A subclass has a method `product(a, b, out, m, n)`: out = a @ b, for some rows and
    columns of one matrix.
    """

    def __init__(self, kind):
        super().__init__()
        self.rows, self.nbytes = registers()
        self.kind, self.lanes = kind, self.nbytes // {"float": 4, "double": 8}[kind]
        self.vector, self.width = f"<{self.lanes} x {kind}>", 2 * self.lanes
        self.suffix = f"v{self.lanes}{'f32' if kind == 'float' else 'f64'}"

    def function(self):
        """The text of the function."""
        self.read_words("%list", FIELDS)
        low, high = self.word("%range", 0, "i64"), self.word("%range", 1, "i64")
        with self.loop(None, self.do(f"sub i64 {high}, {low}")) as i:
            self.part(self.do(f"add i64 {low}, {i}"))
        return self.text(HEAD)

    def part(self, number):
        """Some rows and columns of one matrix of a batch."""
        block = self.do(f"srem i64 {number}, %blocks")
        starts = self.batch(self.do(f"sdiv i64 {number}, %blocks"))
        rows = self.do(f"srem i64 {block}, %row_blocks")
        columns = self.do(f"sdiv i64 {block}, %row_blocks")
        row, m = self.cut(rows, "%m_block", "%m")
        column, n = self.cut(columns, "%n_block", "%n")
        a, b, out = (
            self.at(f"%{name}", (start, 1))
            for name, start in zip(("a", "b", "out"), starts, strict=True)
        )
        a, b = self.at(a, (row, "%a_row")), self.at(b, (column, "%b_column"))
        out = self.at(out, (row, "%out_row"), (column, 1))
        self.product(a, b, out, m, n)

    def cut(self, number, size, extent):
        """(where a block begins, how long it is)."""
        first = self.do(f"mul i64 {number}, {size}")
        return first, self.least(size, self.do(f"sub i64 {extent}, {first}"))

    def batch(self, number):
        """Where the matrices number so and so begin, in all three arrays."""
        starts = ("%a_start", "%b_start", "%out_start")
        number, *places = (self.cell("i64", x) for x in (number, *starts))
        with self.loop(None, "%axes") as axis:
            here = self.do(f"mul i64 {axis}, 4")
            here = self.do(f"add i64 {here}, {len(FIELDS)}")
            here = self.do(f"getelementptr i64, ptr %list, i64 {here}")
            size, left = self.word(here, 0, "i64"), self.get(number)
            step = self.do(f"srem i64 {left}, {size}")
            self.set(number, self.do(f"sdiv i64 {left}, {size}"))
            for i, place in enumerate(places, 1):
                stride = self.word(here, i, "i64")
                more = self.do(f"mul i64 {step}, {stride}")
                self.set(place, self.do(f"add i64 {self.get(place)}, {more}"))
        return [self.get(place) for place in places]

    # Numbers and addresses.

    @contextmanager
    def blocks(self, extent, size):
        """A loop over an extent in blocks: -> (first, how many are in it, number)."""
        count = self.do(f"sdiv i64 {self.do(f'add i64 {extent}, {size - 1}')}, {size}")
        with self.loop(None, count) as number:
            first = self.do(f"mul i64 {number}, {size}")
            left = self.do(f"sub i64 {extent}, {first}")
            yield first, self.least(left, size), number

    def least(self, x, y):
        return self.invoke("llvm.smin.i64", "i64", ("i64", x), ("i64", y))

    def cell(self, kind, value):
        """As of others, by what a number is called in LLVM IR."""
        return kind, self.slot(kind, value)

    def at(self, pointer, *steps):
        """The address of an element, so many strides away; both may be known now."""
        for number, stride in steps:
            if isinstance(number, int) and isinstance(stride, int):
                offset = number * stride
            elif stride == 1:
                offset = number
            else:
                offset = self.do(f"mul i64 {number}, {stride}")
            if offset != 0:
                element = f"getelementptr {self.kind}, ptr {pointer}, i64 {offset}"
                pointer = self.do(element)
        return pointer

    def mask(self, count, first=0):
        """Which lanes are less than a count, the first of them being number `first`."""
        lanes = ", ".join(f"i64 {first + i}" for i in range(self.lanes))
        count = spread(self, "i64", self.lanes, count)
        return self.do(f"icmp sgt <{self.lanes} x i64> {count}, <{lanes}>")

    def room(self, name, size):
        """Memory for so many numbers while the function runs."""
        self.entry.append(f"  {name} = alloca [{size} x {self.kind}], align 64")

    def to_room(self, value, where):
        self.line(f"store {self.vector} {value}, ptr {where}, align {self.nbytes}")

    def load_whole(self, where):
        align = f"align {self.nbytes // self.lanes}"
        return self.do(f"load {self.vector}, ptr {where}, {align}")

    def multiply_add(self, *values):
        word, given = f"llvm.fmuladd.{self.suffix}", [(self.vector, x) for x in values]
        return self.invoke(word, self.vector, *given)

    def add(self, total, value):
        """Add a vector to the one in a cell."""
        value = self.do(f"fadd {self.vector} {self.get(total)}, {value}")
        self.set(total, value)

    def load_masked(self, where, mask):
        """A vector from memory, with zeros in the lanes that are not to be read."""
        n, given = self.lanes, [("ptr", where), ("i32", 4)]
        given += [(f"<{n} x i1>", mask), (self.vector, "zeroinitializer")]
        return self.invoke(f"llvm.masked.load.{self.suffix}.p0", self.vector, *given)


class TileWriter(ProductWriter):
    """Products in tiles of totals side by side; rows of `b` lie along memory."""

    def product(self, a, b, out, m, n):
        self.room("%panel", DEPTH * self.width)
        self.room("%sums", self.rows * self.width)
        with self.blocks("%k", DEPTH) as (k0, depth, turn):
            left = self.at(a, (k0, "%a_column"))
            with self.blocks(n, self.width) as (j0, width, _):
                right = self.at(b, (k0, "%b_row"), (j0, "%b_column"))
                masks = [self.mask(width, self.lanes * v) for v in (0, 1)]
                narrow = self.do(f"icmp sle i64 {width}, {self.lanes}")
                right = self.rows_of(right, width, depth, m, masks)
                with self.blocks(m, self.rows) as (i0, height, _):
                    lefts = self.at(left, (i0, "%a_row"))
                    outs = self.at(out, (i0, "%out_row"), (j0, 1))
                    is_part = self.is_part(height, width, turn)
                    where = self.do(f"select i1 {is_part}, ptr %sums, ptr {outs}")
                    step = f"i64 {self.width}, i64 %out_row"
                    step = self.do(f"select i1 {is_part}, {step}")
                    given = lefts, right, (where, step), depth, height
                    low = self.do(f"icmp sle i64 {height}, {self.rows // 2}")
                    with self.branch(narrow) as otherwise:
                        self.low_or_high(low, 1, given)
                        otherwise()
                        self.low_or_high(low, 2, given)
                    with self.branch(is_part):
                        self.store_part(outs, height, width, turn)

    def is_part(self, height, width, turn):
        """Whether a tile's totals are not yet what is stored, or not all of them."""
        part = self.do(f"icmp ne i64 {height}, {self.rows}")
        for number in (self.do(f"urem i64 {width}, {self.lanes}"), turn):
            part = self.do(f"or i1 {part}, {self.do(f'icmp sgt i64 {number}, 0')}")
        return part

    def low_or_high(self, low, vectors, given):
        """A tile of as few rows as will do, and so many vectors."""
        with self.branch(low) as otherwise:
            self.tile(self.rows // 2, vectors, *given)
            otherwise()
            self.tile(self.rows, vectors, *given)

    def rows_of(self, start, width, depth, m, masks):
        """Rows of the right factor, side by side: (where, from one to the next).

        A panel of them, but if few tiles read it and no row ends amid a vector the rows
        themselves.
        """
        where, step = self.cell("ptr", "%panel"), self.cell("i64", self.width)
        few = self.do(f"icmp sle i64 {m}, {FEW_TILES * self.rows}")
        rest = self.do(f"srem i64 {width}, {self.lanes}")
        whole = self.do(f"icmp eq i64 {rest}, 0")
        with self.branch(self.do(f"and i1 {few}, {whole}")) as otherwise:
            self.set(where, start)
            self.set(step, "%b_row")
            otherwise()
            with self.loop(None, depth) as i:
                for v, mask in enumerate(masks):
                    here = self.at(start, (i, "%b_row"), (self.lanes, v))
                    there = self.at("%panel", (i, self.width), (self.lanes, v))
                    self.to_room(self.load_masked(here, mask), there)
        return self.get(where), self.get(step)

    # A tile.

    def tile(self, rows, vectors, left, right, out, depth, height):
        """Totals of some rows, which begin at zero.

        The longer a sum, the more is lost by each rounding.
        """
        last = self.do(f"sub i64 {height}, 1")
        places = [self.least(last, r) for r in range(rows)]
        lefts = [self.at(left, (i, "%a_row")) for i in places]
        zero, (start, far) = "zeroinitializer", out
        sums = [[self.cell(self.vector, zero) for _ in range(vectors)] for _ in places]
        with self.loop(None, depth) as i:
            self.step(i, lefts, right, sums)
        for i, totals in enumerate(sums):
            for v, total in enumerate(totals):
                value = self.get(total)
                where = self.at(start, (far, i), (self.lanes, v))
                self.line(f"store {self.vector} {value}, ptr {where}, align 4")

    def store_part(self, out, height, width, turn):
        """Store those totals that are in the matrix, added to what is there already.

        Of a row that is by halves: some machines take twenty cycles to store a vector
        under a mask.
        """
        with self.loop(None, height) as i:
            done, size = self.cell("i64", 0), self.width
            while size:
                some = self.do(f"and i64 {width}, {size}")
                kind = f"<{size} x {self.kind}>"
                with self.branch(self.do(f"icmp ne i64 {some}, 0")):
                    first = self.get(done)
                    where = self.at("%sums", (i, self.width), (first, 1))
                    there = self.at(out, (i, "%out_row"), (first, 1))
                    value = self.do(f"load {kind}, ptr {where}, align 4")
                    total = self.cell(kind, value)
                    with self.branch(self.do(f"icmp sgt i64 {turn}, 0")):
                        before = self.do(f"load {kind}, ptr {there}, align 4")
                        more = self.do(f"fadd {kind} {self.get(total)}, {before}")
                        self.set(total, more)
                    self.line(f"store {kind} {self.get(total)}, ptr {there}, align 4")
                    self.set(done, self.do(f"add i64 {first}, {size}"))
                size //= 2

    def step(self, i, lefts, right, sums):
        """One number of each row, times a row of the right factor."""
        (start, step), vectors = right, range(len(sums[0]))
        row, along = self.at(start, (i, step)), self.do(f"mul i64 {i}, %a_column")
        rights = [self.load_whole(self.at(row, (self.lanes, v))) for v in vectors]
        for left, totals in zip(lefts, sums, strict=True):
            number = self.do(f"load {self.kind}, ptr {self.at(left, (along, 1))}")
            factor = spread(self, self.kind, self.lanes, number)
            for right, total in zip(rights, totals, strict=True):
                self.set(total, self.multiply_add(factor, right, self.get(total)))


class TurnedTileWriter(TileWriter):
    """The same where it is columns of `b` that lie along memory."""

    def rows_of(self, start, width, depth, m, masks):
        with self.blocks(width, self.lanes) as (j0, columns, _):
            with self.blocks(depth, self.lanes) as (i0, count, _):
                block = self.at(start, (j0, "%b_column"), (i0, 1))
                self.turn(block, columns, count, i0, j0)
        return "%panel", self.width

    def turn(self, start, columns, count, i0, j0):
        """A block of the panel from columns that lie along memory."""
        mask, last = self.mask(count), self.do(f"sub i64 {columns}, 1")
        places = [self.least(j, last) for j in range(self.lanes)]
        found = [
            self.load_masked(self.at(start, (j, "%b_column")), mask) for j in places
        ]
        first = self.at("%panel", (i0, self.width), (j0, 1))
        for i, row in enumerate(exchanged(self, found, self.kind, self.lanes)):
            self.to_room(row, self.at(first, (i, self.width)))


class DotWriter(ProductWriter):
    """Products whose totals are vectors: each lane has some of the terms."""

    def product(self, a, b, out, m, n):
        # Half of the registers: the others have rows and columns.
        count = 16 if self.nbytes == 64 else 8
        self.room("%sums", count * self.lanes)
        with self.branch(self.do("icmp sle i64 %m, 2")) as otherwise:
            self.dots(2, count // 2, a, b, out, m, n)
            otherwise()
            self.dots(4, count // 4, a, b, out, m, n)

    def dots(self, rows, columns, a, b, out, m, n):
        """out = a @ b, in tiles of so many rows and columns.

        What is beyond the last row or column is that one once more, at its own place.
        """
        lanes, vector = self.lanes, self.vector
        whole = self.do(f"sdiv i64 %k, {lanes}")
        first = self.do(f"mul i64 {whole}, {lanes}")
        mask = self.mask(self.do(f"sub i64 %k, {first}"))
        rests = functools.partial(self.load_masked, mask=mask)
        with self.blocks(n, columns) as (j0, _, _), self.blocks(m, rows) as (i0, _, _):
            down = [self.place(i0, i, m) for i in range(rows)]
            across = [self.place(j0, j, n) for j in range(columns)]
            lefts = [self.at(a, (i, "%a_row")) for i in down]
            rights = [self.at(b, (j, "%b_column")) for j in across]
            zero = "zeroinitializer"
            sums, parts = (
                [[self.cell(vector, zero) for _ in across] for _ in down]
                for _ in range(2)
            )
            with self.blocks(whole, DEPTH) as (start, count, _):
                with self.loop(None, count) as i:
                    k = self.do(f"add i64 {start}, {i}")
                    k = self.do(f"mul i64 {k}, {lanes}")
                    self.dot_step(k, lefts, rights, parts)
                for total, part in zip(chain(*sums), chain(*parts), strict=True):
                    self.add(total, self.get(part))
                    self.set(part, zero)
            self.dot_step(first, lefts, rights, sums, rests)
            for t, total in enumerate(chain(*sums)):
                self.to_room(self.get(total), self.at("%sums", (lanes, t)))
            with self.loop(None, rows) as r, self.loop(None, columns) as c:
                i, j = self.place(i0, r, m), self.place(j0, c, n)
                where = self.at("%sums", (r, columns * lanes), (c, lanes))
                value = self.total_of(self.load_whole(where))
                where = self.at(out, (i, "%out_row"), (j, 1))
                self.line(f"store {self.kind} {value}, ptr {where}")

    def place(self, first, i, extent):
        """Number i from the first one on; the last one again beyond the end."""
        last = self.do(f"sub i64 {extent}, 1")
        return self.least(self.do(f"add i64 {first}, {i}"), last)

    def dot_step(self, k, lefts, rights, sums, load=None):
        """Neighbours of each row times neighbours of each column."""
        load = load or self.load_whole
        left, right = ([load(self.at(x, (k, 1))) for x in xs] for xs in (lefts, rights))
        for x, totals in zip(left, sums, strict=True):
            for y, total in zip(right, totals, strict=True):
                self.set(total, self.multiply_add(x, y, self.get(total)))

    def total_of(self, vector):
        """The sum of a vector's lanes."""
        word = f"llvm.vector.reduce.fadd.{self.suffix}"
        self.declared[f"declare {self.kind} @{word}({self.kind}, {self.vector})"] = None
        given = f"{self.kind} 0.0, {self.vector} {vector}"
        return self.do(f"call reassoc {self.kind} @{word}({given})")


def writer_for(call):
    """The writer whose tiles suit a `Call` of `matmul`.

    Dot products, where the product has few rows or columns and all sums go along
    memory: to turn the right factor would take longer than to multiply.
    """
    a, b = call.inputs
    (m, k), n = a.shape[-2:], b.shape[-1]
    rows, nbytes = registers()
    lanes = nbytes // a.buffer.dtype.itemsize
    if b.strides[-1] == 1:
        return TileWriter
    few = m <= rows or n <= lanes // 2
    is_dot = a.strides[-1] == 1 == b.strides[-2] and few and k >= 4 * lanes
    return DotWriter if is_dot else TurnedTileWriter
