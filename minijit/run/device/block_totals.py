"""The total of a block: from one of each thread to one that all of them have.

    r0 = r0 + the r0 of thread t ^ 16     32 threads of a warp: five exchanges
    r0 = r0 + the r0 of thread t ^ 8      (4, 2 and 1 follow)
    if t % 32 == 0: s0[t // 32] = r0      warps meet in memory that the block has
    barrier
    r0 = 0; for k in 8: r0 = r0 + s0[k]

Each thread has added up its share of the steps before.  Whatever is combined, so it is
done: sums, products, `max`, and pairs (value, place) for `argmax`.
"""

from ...compile.loops.expressions import Axis, Reduce, as_index, op
from ...compile.loops.reductions import combine, start_values
from ...compile.loops.scalars import wide_dtype
from ...compile.loops.statements import For
from ...compile.numbers.scalar_forms import Param
from .grid_memory import WARP
from .grid_walker import of_blocks


class BlockTotal:
    """Tells an emitter how all threads' accumulators become the same.

    Attributes:
      walker: the `GridWalker`; reduce: the total.
      cells: a thread's accumulators, one for each body of the total; dtypes: theirs.
    """

    def __init__(self, walker, reduce):
        self.walker, self.emitter, self.reduce = walker, walker.emitter, reduce
        self.cells = walker.cells[reduce]
        self.dtypes = [wide_dtype(body.dtype) for body in reduce.bodies]

    def take_in(self, others):
        """One step of the total, with what another thread has."""
        emitter, known = self.emitter, self.walker.values
        olds, news = ([Param(f"{which}{n}", d) for n, d in enumerate(self.dtypes)]
                      for which in ("old", "new"))  # fmt: skip
        values = *map(emitter.get, self.cells), *others
        # Of several, each is computed once, before any of them changes.
        several = len(self.cells) > 1
        once = emitter.let if several else lambda expr, value: value
        for name, value in zip((*olds, *news), values, strict=True):
            known[name] = once(name, value)
        results = combine(self.reduce.op, olds, news, any_order=several)
        values = [self.walker.value(result) for result in results]
        values = list(map(once, results, values))
        for cell, value in zip(self.cells, values, strict=True):
            emitter.set(cell, value)
        for name in (*olds, *news):
            del known[name]

    def combine(self):
        distance = WARP // 2
        while distance:
            cells = zip(self.dtypes, self.cells, strict=True)
            self.take_in([
                self.emitter.exchange(dtype, self.emitter.get(cell), distance)
                for dtype, cell in cells
            ])  # fmt: skip
            distance //= 2
        if self.walker.threads > WARP:
            self.across_warps(self.walker.threads // WARP)

    def across_warps(self, warps):
        """The first thread of each warp shows its total; all read them in order."""
        walker, emitter = self.walker, self.emitter
        rooms = [walker.room(dtype, n) for n, dtype in enumerate(self.dtypes)]
        walker.settle(set(), set(rooms))
        thread, warp = walker.which_thread, as_index(WARP)
        first = op("eq", op("mod", thread, warp), as_index(0))
        with emitter.branch(walker.value(first)):
            place = [walker.value(op("floordiv", thread, warp))]
            for room, cell in zip(rooms, self.cells, strict=True):
                emitter.store(room, place, emitter.get(cell))
        walker.settle(set(rooms), set())
        starts = start_values(self.reduce)
        for cell, start in zip(self.cells, starts, strict=True):
            emitter.set(cell, walker.value(start))
        with emitter.loop(For(Axis(warps, "reduce"), ()), warps) as counter:
            self.take_in([emitter.load(room, [counter]) for room in rooms])


of_blocks |= {Reduce: lambda walker, reduce: BlockTotal(walker, reduce).combine()}
