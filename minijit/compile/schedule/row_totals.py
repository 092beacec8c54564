"""Totals of all rows, beside the loops that make the rows.

    k0: for i:                                k0: for i:
      for j: y[i,j] = ...                       for j: y[i,j] = ...
      t[i] = log(add(k: e[i,k]))                row[i] = log(add(k: e[i,k]))
    k1: out[] = add(i: t[i]) / 64               out[] = add(i: row[i]) / 64

On the left the kernel of the total needs nothing but one number of each row.  On the
right each step of the loop over the rows leaves its own share of the total, in an array
of the kernel's own, and these are added up when the loop is over.  So may a total of
what the loop only reads, as the largest number of `x`: it is read once then.

Of many rows a piece at a time is added up, so that the array stays in the cache and the
loop can be divided among threads.  How long a piece is depends on how many rows there
are, and so the result has the same bits, whoever computes which piece.

    for p in 25:                              # 100,000 rows
      for i in 4096: ...; row[i] = ...        # as above, of row p * 4096 + i
      part[p] = add(i: row[i])
    for l in serial 1: out[] = add(p: part[p]) / 64
"""

from dataclasses import replace

from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.contents import loads_of, loads_within, only_sets
from ..loops.expressions import Axis, Load, Reduce, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.index_rules import piece_of
from ..loops.scalars import is_half
from ..loops.statements import For, Store, expressions, on_buffers, replaced
from ..pipeline import arrangements
from ..settings import config
from .cut_points import cut_points
from .nests import split, steps_of_block, stride_along
from .shared_loops import shares_of

# A piece of more rows has a multiple of that: whole vectors.
LINE = 64


# ---- which totals


def outer_totals(values):
    """The totals in some expressions that are no part of another total."""
    inside = {e for e in postorder(values) if type(e) is Reduce}
    parts = [c for e in postorder(values, inside) for c in e.children()]
    return list(dict.fromkeys(e for e in (*values, *parts) if e in inside))


def is_all_totals(part):
    """Whether a kernel has no loops around it, and only totals of arrays to store."""
    return bool(part.body) and only_sets(part.body) and not part.axes


def by_rows(a, b):
    """How the totals in b take what a makes, step by step of its outermost loop.

    Or what both read, where b takes nothing that a makes.

    Returns:
      The rule that says so, or why not; and what is needed for it, as a dict: `shares`,
      {total: its axis of the steps}.
    """
    totals, row, shares = outer_totals(expressions(b.body)), a.axes[0], {}
    flows = a.stores.keys() & b.loads.keys()
    touched = a.stores if flows else a.loads
    if goes_through_panels(a):
        return "totals across rows", {}
    late = {store.buffer for store in a.after}
    if asks_for(b, totals) & (a.stores.keys() - late):
        return "totals at once", {}
    for total in totals:
        loads = loads_within(total.bodies)
        asked = [x for x in loads if x.buffer in touched and (flows or x.index)]
        found = [axis for axis in total.axes if axis.extent == row.extent]
        for load in asked:
            places = zip(load.index, *touched[load.buffer], strict=True)
            steps = {i for i, *stored in places if {*stored} == {row}}
            found = [axis for axis in found if axis in steps]
        if found and can_share(total) and (flows or asked):
            shares[total] = found[0]
        elif asked or not flows:
            return "totals at once", {}
    room = row.extent * sum(total.dtype.itemsize for total in shares)
    # Of several loops in a row the shares are not added up piece by piece: all of them
    # would be on the stack.
    if room > config.fusion.row_piece and cut_points(row, a.step.body[0].body)[0]:
        return "totals of ranges", {}
    return "row totals", {"shares": shares}


# As the rules of `fuse`.
rules_of_totals = {
    "row totals": (True, "each step leaves its share of the totals beside its loop"),
    "totals at once": (False, "a total needs more than one row at a time"),
    "totals of ranges": (
        False, "its loop is cut, and leaves more shares than fit beside it", "row_piece"
    ),
    "totals across rows": (
        False, "an array runs along the loop that the totals are of", "panel_from"
    ),
}  # fmt: skip


def goes_through_panels(part):
    """Whether some large array runs along the outermost one of several loops.

    Such loops are cut into tiles, see `panels`, and then no step of one is a row.
    """
    if len(part.axes) < 2:
        return False
    loads = loads_of(part.body)
    return any(
        load.buffer.nbytes >= config.fusion.panel_from
        and stride_along(load, part.axes[0]) == 1
        for load in loads
    )


def asks_for(part, totals):
    """The buffers that a kernel loads from outside of totals."""
    exprs = postorder(expressions(part.body), set(totals))
    return {e.buffer for e in exprs if type(e) is Load}


def can_share(total):
    """Whether a total can be added up from its shares, each a number of its own."""
    plain, dtype = len(total.bodies) == 1 and total.is_fixed, total.dtype
    return plain and not total.free and dtype.kind in "biuf" and not is_half(dtype)


# ---- two kernels become one


def beside(a, b, shares):
    """The loop of a with the shares of totals in it, and the statements after it."""
    loop, *after = a.step.body
    own, names = [], {}
    for total, axis in shares.items():
        n, rest = axis.extent, tuple(e for e in total.axes if e is not axis)
        value, = substitute(total.bodies, {axis: loop.axis}.get)
        value = Reduce(total.op, rest, (value,)) if rest else value
        name = f"share{len(a.after) + len(own)}"
        row, each = Buffer(name, (n,), total.dtype, space="cache"), Axis(n, "reduce")
        own.append(Store(row, (loop.axis,), value))
        names[total] = Reduce(total.op, (each,), (Load(row, (each,)),))
    after += replaced(b.body, names.get)
    # What only reads the same goes first: then the loop may write over what both read.
    flows = a.stores.keys() & b.loads.keys()
    return (*loop.body, *own) if flows else (*own, *loop.body), after


# ---- a piece of the rows at a time


def in_pieces(body):
    """A kernel's statements, with what comes after its loops in a loop of one step.

    That is a range of its own for threads.  If there are many rows, a piece of them is
    added up at a time.
    """
    loops = [s for s in body if isinstance(s, For)]
    after = body[len(loops) :]
    shares = shares_of(loops, after)
    if not shares or not all(isinstance(s, Store) for s in after):
        return body
    rows, settings = shares[0].buffer.shape[0], config.fusion
    most = settings.row_piece // sum(s.buffer.dtype.itemsize for s in shares)
    step = rows_of_step(loops[0].axis, shares) if len(loops) == 1 else None
    many = step is not None and rows > max(most, step)
    if not noted("pieces of rows" if many else "all rows", rows=rows, most=most):
        return (*loops, For(Axis(1, "serial"), tuple(after)))
    loop, = loops
    if step == 1:
        length = -(-rows // settings.most_parts)
        step = min(-(-length // LINE) * LINE, max(most // LINE, 1) * LINE)
        piece, start, count = split(loop.axis, step)
        here = Axis(count)
        rows_here = replaced(loop.body, {loop.axis: op("add", start, here)}.get)
        loop = For(piece, (For(here, rows_here),))
    return piece_by_piece(loop, step, rows, after)


def rows_of_step(axis, shares):
    """Of how many rows a step of a loop leaves the shares; None if that is not known.

    A block of 64 rows leaves them at `axis * 64 + i`.
    """
    pieces = [piece_of(i, axis) for share in shares for i in share.index]
    sizes = {piece and piece[0] for piece in pieces}
    return sizes.pop() if len(sizes) == 1 else None


def piece_by_piece(loop, length, rows, after):
    """A loop whose steps each make so many of all rows, and once what comes after."""
    axis, names = loop.axis, {}
    rooms = {s.buffer: replace(s.buffer, shape=(length,))
             for s in shares_of((loop,), after)}  # fmt: skip
    place = lambda index: piece_of(index, axis)[1]
    in_room = lambda buffer, index: (rooms[buffer], tuple(map(place, index)))
    body = list(on_buffers(loop.body, in_room, rooms))
    count = steps_of_block(op("mul", axis, as_index(length)), length, rows)
    for n, total in enumerate(totals_of(after, rooms)):
        own, each = Axis(count, "reduce"), Axis(axis.extent, "reduce")
        part = Buffer(f"part{n}", (each.extent,), total.dtype, space="cache")
        load, = total.bodies
        value = Reduce(total.op, (own,), (Load(rooms[load.buffer], (own,)),))
        body.append(Store(part, (axis,), value))
        names[total] = Reduce(total.op, (each,), (Load(part, (each,)),))
    once = For(Axis(1, "serial"), replaced(after, names.get))
    return For(axis, tuple(body)), once


def totals_of(after, buffers):
    """The totals of what a loop has left in some buffers."""
    return [
        e for e in postorder(expressions(after))
        if type(e) is Reduce and type(e.bodies[0]) is Load
        and e.bodies[0].buffer in buffers
    ]  # fmt: skip


loop_rules |= {
    "pieces of rows": (
        True, "totals beside its loop are added up piece by piece", "row_piece",
        "most_parts",
    ),
    "all rows": (
        False, "totals beside its loop are added up when it is over", "row_piece"
    ),
}  # fmt: skip
arrangements |= {"in_pieces": in_pieces}
