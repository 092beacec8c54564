"""Solutions to the tour of what a tape is in memory."""

import numpy as np

import minijit as mj
from minijit import jit, lax


def columns_of(lists):
    lengths = np.array([len(x) for x in lists], int)
    items = np.array([number for x in lists for number in x], "float32")
    return np.cumsum(lengths) - lengths, lengths, items


def check_columns_of(columns_of):
    """A list begins where those before it end: the sum of their lengths."""
    lists = [[3.0, 1.0], [], [4.0], [1.0, 5.0, 9.0]]
    starts, lengths, items = map(np.asarray, columns_of(lists))
    assert items.dtype == np.float32 and len(items) == 6
    for want, first, n in zip(lists, starts, lengths, strict=True):
        assert items[first : first + n].tolist() == want
    assert [len(column) for column in columns_of([])] == [0, 0, 0]


def spare_bytes(tape):
    column, = tape.items.columns
    return column.nbytes - tape.nbytes


def check_spare_bytes(spare_bytes):
    """`tape.nbytes` are the bytes of its items."""
    def power(x, least):
        return lax.while_loop(lambda c: c[0] < least, lambda c: c * x, x)

    for least, spare in ((10.0, 13), (1e9, 3)):
        _, pull_back = mj.vjp(jit(lambda x, least=least: power(x, least)), x0)
        tape, = (t for t in mj.tree.leaves(pull_back) if hasattr(t, "items"))
        assert spare_bytes(tape) == spare * 3 * 4


x0 = np.array([2.0, 1.0, 1.0], "f4")
