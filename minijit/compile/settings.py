"""Settings of fusion: the numbers that decide about kernels and loops, by name.

    config.fusion.row_bytes                    # 262144
    config.update("fusion", Settings(row_bytes=0))     # for the process, from now on
    with config.override("fusion", config.fusion.but(enabled=False)): ...

The environment sets some of them before the program starts:
`MINIJIT_FUSION=enabled=False,row_bytes=4096`.
"""

from dataclasses import dataclass, fields, replace

from ..trace.base.config import config


@dataclass(frozen=True)
class Settings:
    """What fusion may do.  Every decision names the field that would change it.

    Attributes:
      enabled: whether kernels are merged at all.  Without it, only cheap values are
        inlined where they are asked for.
      most_operations: how many operations a kernel of several stores has at most; each
        costs compile time, and maybe a register.
      most_buffers: how many arrays a kernel takes at most.
      small_constant: constants of at most so many elements are looked into, and
        computed, while a program is simplified.
      small_function: a function of at most so many equations is inlined at each call.
      cheap: what costs fewer additions than this may be computed several times.
      cheap_in_all: as often as all of them cost so many additions at most.
      row_bytes: how large the rows are in all that a kernel keeps to itself, on the
        stack of the thread that runs it: about a quarter of a second cache.  The same
        for its panels, all of them together.
      column_share: kernels that agree only in the axis along which memory runs go
        through it in blocks of columns if what they share is this much of what the
        smaller one of those with other loops reads and writes: blocks are shorter
        runs of memory.
      neighbours: how many of the other readers of an array a kernel is compared with.
      block_elements: how many elements of a small matrix are kept in registers, each
        with statements of its own, where many lanes have such a matrix.
      block_operations: how many operations a block of such statements has at most.
      fewest_totals: fewer totals over outer axes than these fit in registers, and do
        better there than side by side in rows.
      rows_at_once: how many rows are added at once, so that an accumulator is read and
        written less often.
      row_piece: bytes of accumulators side by side: half of a first cache.
      part_total: a total of fewer terms than these has one part.
      most_parts, shortest_part: into how many parts a total is cut at most, or within
        a loop a product; and how many terms a part of a total has at least.
      terms_aside: functions as `exp` have a loop of their own, apart from the totals
        computed with them, if these have at most so many terms for each function.
      one_range: the outermost loop of a kernel is not cut if it has more steps than
        these, for several cores.
      panel_from: arrays of fewer bytes are in the first cache, where any order of loops
        will do; larger ones go through panels if they run along other axes.
      panel_row: bytes of a panel's row: a run that is long enough for memory to keep
        up.  panel_read: bytes of what is read at once from each row of a block.
      stream_bytes: what is stored from panels goes past the caches if the array has so
        many bytes: the last cache would not keep it anyway.
      stream_row, stream_read: bytes of a panel's row, and of what is read at once, if
        all that is stored goes past the caches: then it costs nothing to store short
        runs, and memory reads ahead in long ones.
      reuse_bytes: an array of fewer bytes is not stored over: two such arrays fit into
        the cache, and a kernel that reads one and writes another serves for more of
        them.
      small_product: products of matrices with at most so many multiplications are loops
        of our own.
      half_products: whether products take floats of 16 bits, as those of a GPU
        do; otherwise large products of them are products of converted matrices.
      call_cost, product_cost, kernel_cost, copy_cost: what these take in nanoseconds,
        where a product is worth a copy of a matrix: a call of a product, each of its
        multiplications, a kernel, and each number that it copies.  An operation of a
        kernel takes as long as a multiplication, where threads are asked to help.
      largest_loop: a loop of more kernels and calls in a step is left to Python: it
        would compile for longer than it saves.
      lane_block, worth_lanes: bytes of a loop's state that a block of lanes has, which
        goes through all steps, and from how many bytes of it on there are such blocks.
      few_steps: a loop of fewer steps is not the outermost one of a kernel with panels,
        for several cores, if another can be; and on a GPU it has no tiles.
      tile_rows: sums of products go on in tiles of registers, of so many rows.
      tile_work: fewer products than these, in one nest of loops, are not worth tiles.
      fewest_lanes: a row of a tile has at least so many numbers, or half as many if
        no row has more.
      stack_bytes: arrays within a loop are on the stack, as long as it has room for
        them in so many bytes.
      direct_convolutions: whether convolutions run in such tiles, if they have a few
        features, and not as products of matrices of patches.
      between_looks: a loop looks for signals, such as that of Ctrl-C, after about so
        many operations.

      All others are about the grids of a GPU.

      few_threads: fewer threads than these leave most of it idle: a step of a nest is
        then a block's.  enough_threads: with more of them it is no faster: each does
        four neighbours, and no totals are cut into parts for more of them.
      thread_bytes: what a step keeps to itself is at most so much, or it is a block's.
      thread_steps: fewer steps that go on from each other, those of a running total or
        of updates that may meet, are one thread's.
      total_again: a total of fewer terms is computed by each thread that wants it.
      block_total: a total of fewer terms is one block's.
      fewest_parts: for fewer parts of a total, or of a row, a second kernel is not
        worth it.
      block_step: a loop whose step has at most so many operations is one block's.
      most_nodes: the steps of any other scan follow each other in the graph if they are
        at most so many kernels and copies.
    """

    enabled: bool = True
    most_operations: int = 512
    most_buffers: int = 16
    small_constant: int = 256
    small_function: int = 16
    cheap: int = 8
    cheap_in_all: int = 32
    row_bytes: int = 1 << 18
    column_share: float = 0.25
    neighbours: int = 8
    block_elements: int = 64
    block_operations: int = 1024
    fewest_totals: int = 8
    rows_at_once: int = 4
    row_piece: int = 1 << 14
    part_total: int = 1 << 18
    most_parts: int = 64
    shortest_part: int = 1 << 14
    terms_aside: int = 1024
    one_range: int = 1 << 15
    panel_from: int = 1 << 15
    panel_row: int = 1 << 12
    panel_read: int = 1 << 8
    stream_bytes: int = 1 << 25
    stream_row: int = 1 << 8
    stream_read: int = 1 << 11
    reuse_bytes: int = 1 << 14
    small_product: int = 1 << 15
    half_products: bool = False
    call_cost: float = 250.0
    product_cost: float = 0.02
    kernel_cost: float = 1000.0
    copy_cost: float = 1.0
    largest_loop: int = 400
    lane_block: int = 1 << 15
    worth_lanes: int = 1 << 19
    few_steps: int = 8
    tile_rows: int = 8
    tile_work: int = 1 << 12
    fewest_lanes: int = 8
    stack_bytes: int = 1 << 16
    direct_convolutions: bool = True
    between_looks: int = 1 << 26
    few_threads: int = 1 << 11
    enough_threads: int = 1 << 16
    thread_bytes: int = 256
    thread_steps: int = 64
    total_again: int = 16
    block_total: int = 1 << 15
    fewest_parts: int = 4
    block_step: int = 1 << 16
    most_nodes: int = 128

    def __post_init__(self):
        for field in fields(Settings):
            value, kind = getattr(self, field.name), type(field.default)
            right = isinstance(value, (kind, int)) and (
                isinstance(value, bool) == (kind is bool)
            )
            if not right:
                raise TypeError(
                    f"the setting {field.name} of fusion is "
                    f"{'an' if kind is int else 'a'} {kind.__name__}, got {value!r}"
                )

    def but(self, **changes):
        """The same settings, but for some of them."""
        known = {field.name for field in fields(self)}
        wrong = ", ".join(sorted(changes.keys() - known))
        if wrong:
            raise TypeError(
                f"fusion has no setting {wrong}; the settings are "
                f"{', '.join(sorted(known))}"
            )
        return replace(self, **changes)

    @classmethod
    def from_text(cls, text):
        """`enabled=False,row_bytes=4096`: as the environment gives them."""
        return cls().but(**cls.changes_in(text))

    @staticmethod
    def changes_in(text):
        """The settings that a text names, as a dict."""
        words = {"True": True, "False": False}
        changes = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            number = float if "." in value else int
            known = value in words
            changes[name.strip()] = words[value] if known else number(value)
        return changes


config.define(
    "fusion", Settings(), "what kernels are made of one another", changes_traces=True
)
