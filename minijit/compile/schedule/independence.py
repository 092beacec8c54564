"""Whether the steps of a loop depend on each other: one answer for all who ask.

    independent(i, body)          # may its steps run in any order, side by side?
    is_parallel(kernel.body)      # may several cores share a kernel's outermost loop?
"""

from ..loops.contents import loads_of, stores_in
from ..loops.expressions import as_index
from ..loops.graphs import recalled
from ..loops.index_rules import piece_of
from ..loops.kernel_buffers import local_buffers
from ..loops.statements import For, Store
from .nests import piece_of_memory, rest_of


def independent(axis, body, own=None, again=False):
    """Whether the steps of a loop touch nothing that another one of them stores.

    Of each array that is stored some dimension is the axis, or a piece of its own for
    each step, wherever it is used.

    Args:
      own: the buffers of which each step has one to itself; None for those of the
        kernel's own in whose indices the axis is not.
      again: whether steps may store the same numbers again where nobody reads them.
    """
    return shared_buffer(axis, body, own, again) is None


def is_parallel(body):
    """Whether the steps of a kernel's outermost loop do not depend on each other."""
    loop, *after = body
    once = [isinstance(s, For) and s.axis.extent == 1 for s in after]
    if not isinstance(loop, For) or once not in ([], [True]) or not loop.axis.is_plain:
        return False
    # What else is in the cache belongs to one step.
    own = {*local_buffers(loop.body)}.difference(handed_on(body))
    return independent(loop.axis, loop.body, own, again=True)


def handed_on(body):
    """The kernel's own buffers that its outermost loop fills for what comes after."""
    loop, *after = body
    wanted = {load.buffer for load in loads_of(after)}
    return [buffer for buffer in local_buffers((loop,)) if buffer in wanted]


def of_one_step(axis, uses):
    """The kernel's own buffers in whose indices an axis is not: each step has one."""
    with_axis = {u.buffer for u in uses if any(axis in i.free for i in u.index)}
    return {u.buffer for u in uses if u.buffer.space == "cache"} - with_axis


# chapter 24
def shared_buffer(axis, body, own=None, again=False):
    """An array of which a step may touch what another one stores; or None."""
    stores = stores_in(body)
    uses = (*stores, *loads_of(body))
    own = of_one_step(axis, uses) if own is None else own
    for buffer in dict.fromkeys(s.buffer for s in stores):
        if buffer in own:
            continue
        places = [u for u in uses if u.buffer is buffer]
        only_stored = all(isinstance(p, Store) and not p.combine for p in places)
        if not shared_dims([(p, axis) for p in places], again and only_stored):
            return buffer
    return None


def shared_dims(places, again=False):
    """The dimensions in which each step has the same indices of its own at all places.

    -1 is the place in memory, where no index tells.

    Args:
      places: pairs (load or store, its axis); again: as of `piece_of`.
    """
    found = [
        {(d, own_piece(i, axis, again)) for d, i in enumerate(place.index)}
        for place, axis in places
    ]
    if dims := {d for d, piece in set.intersection(*found) if piece}:
        return dims
    size, *others = {piece_of_memory(place, axis) for place, axis in places}
    return {-1} if size and not others else dims


@recalled
def own_piece(index, axis, again):
    """(the first index, how many a step has) if no two steps of a loop meet there.

    Of `i + 3` it is 3 and 1, of `i * 8 + j`, where j is in 0 .. 7, 0 and 8.
    """
    if (first := rest_of(index, axis)) is not None:
        return first, 1
    piece = piece_of(index, axis, again)
    return (as_index(0), piece[0]) if piece else None
