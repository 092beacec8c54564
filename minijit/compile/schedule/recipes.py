"""Recipes: for a kernel a few other ways to run, each made of rewrites of its loops.

    for candidate in candidates(kernel, alone): price(candidate.bodies, machine)

A candidate is one kernel or several, as statements that are yet to be arranged; they
compute what the kernel does, with the same operations on the same numbers.
"""

import functools
from dataclasses import dataclass, replace

from ..loops.buffers import Buffer
from ..loops.contents import (
    loads_of, only_sets, outline, perfect, stored_in, stores_in, totals_in,
    updated_in,
)
from ..loops.expressions import Axis, Load, Reduce
from ..loops.graphs import postorder
from ..loops.statements import For, expressions, nested, replaced
from ..settings import config
from .interchange import in_rows
from .cut_points import cuts_of
from .machine import Machine
from .nests import (
    all_along, in_long_rows, joined as one_axis, nest_of, rows_of_memory, runs_along,
)
from .placing_rules import share_axes
from .primitives import (
    Nest, NotAllowed, distribute, flat, independent, joined, lanes, reordered,
)
from .vector_loops import cut_at, in_first_places

# Rows and totals of at most so many steps are written out.  (A register of bytes.)
SHORT = 16
# At most so many operations of 32 bits: more would spill from any registers there are.
MOST = 400
# What is put together of more parts is stored part by part already.
PARTS = 8
# A nest that is cut into more is not priced: each would be a kernel to launch.
NESTS = 64


@dataclass(frozen=True)
class Candidate:
    """Kernels that do what one does.

    Attributes:
      recipe: how they are made, for people.
      bodies: of the kernels; temps: the arrays that lie between them.
      gone: arrays of the program that nothing uses any more.
    """

    recipe: str
    bodies: tuple
    temps: tuple = ()
    gone: frozenset = frozenset()


def candidates(kernel, alone=frozenset()):
    """The other ways to run a kernel; lazily, for each costs a millisecond.

    Args:
      alone: the arrays that nothing but this kernel uses.
    """
    # Written out, a pair (extreme, place) takes fewer operations than two totals.
    body = in_long_rows(kernel.body)
    yield from short_rows(body)
    yield from rows_as_vectors(body)
    kernel = replace(kernel, body=in_first_places(kernel.body))
    nest = nest_of(kernel.body[0]) if len(kernel.body) == 1 else None
    whole = nest and len(nest[1]) == 1 and not totals_in(nest[1])
    if whole:
        yield from along_memory(*nest)
        yield from in_parts(*nest)
        yield from short_columns(*nest)
    else:
        yield from distributed(kernel, alone)


def along_memory(axes, stores):
    """A nest in the order of its memory, if it shares its loops with nothing any more.

    Where fusion left it another one, the value that they were shared for may be a
    number that no loop changes.
    """
    nest = Nest(axes, *stores) if len(stores) == 1 else None
    if nest and (other := reordered(nest)).axes != tuple(axes):
        yield Candidate("along memory", (other.body,))


def in_parts(axes, stores):
    """One nest as one for each part of what it stores, which runs its own way.

    In a concatenation of transposed arrays each is turned by itself.
    """
    for axis in axes:
        cuts = cuts_of(axis, stores)
        if not 0 < len(cuts) < PARTS:
            continue
        loop, = nested([axis, *(a for a in axes if a is not axis)], stores)
        parts = tuple((part,) for part in cut_at(cuts, loop))
        ways = [{*map(runs_along, (*stores_in(p), *loads_of(p)))} for p in parts]
        if any(len(way) > 1 for way in ways):  # what is read runs another way
            yield Candidate(f"parts {axes.index(axis)}", parts)


def distributed(kernel, alone):
    """Each store and each total in loops of its own; and those joined that may be."""
    try:
        nests, temps = distribute(kernel.body, kernel.name)
    except NotAllowed:
        return
    if not 0 < len(nests) <= NESTS:
        return
    nests = [reordered(n) for n in nests]
    own, _ = outline(share_axes(kernel.body))
    for made in (apart, functools.partial(together, alone=alone)):
        found = made(nests, temps)
        if found and (len(found.bodies) > 1 or outline(found.bodies[0])[0] != own):
            yield found


def apart(nests, temps, recipe="distribute"):
    """Nests, each as a kernel of its own.

    Args:
      temps: the arrays that may lie between them.
    """
    bodies = tuple(n.body for n in nests)
    return Candidate(recipe, bodies, used(temps, bodies))


def together(nests, temps, alone, recipe="join"):
    """Nests joined as far as they may be; None if that is nowhere.

    Args:
      temps: the arrays that may lie between them; alone: as in `candidates`.
    """
    groups = joined(nests)
    if not any(g.axis for g in groups) or sum(len(g.nests) for g in groups) > NESTS:
        return None
    groups = [with_own_totals(group, groups, temps) for group in groups]
    rows, gone = rows_for(groups, {*temps, *alone})
    bodies = (in_rows(g.body, rows[g.family, g.start]) for g in groups)
    bodies = tuple(bodies)
    left = tuple(t for t in temps if t not in gone)
    return Candidate(recipe, bodies, used(left, bodies), gone - {*temps})


def with_own_totals(group, groups, temps):
    """A group whose steps have totals of their own, as parts of what uses these.

    Nothing that they read may be stored between, and their arrays have nothing else.
    """
    if group.axis is None:
        return group
    others = [n for g in groups if g.family != group.family for n in g.nests]
    names, left = {}, []
    for n, nest in enumerate(group.nests):
        here, place = nest.store, Load(nest.store.buffer, nest.store.index)
        nest = Nest(nest.axes, *replaced([here], names.get))
        store, later = nest.store, group.nests[n + 1 :]
        alone = type(store.value) is Reduce and nest.axes == (group.axis,)
        alone = alone and store.buffer in temps
        places = (p for other in group.nests for p in other.places)
        alone = alone and all(
            p in (here, place) for p in places if p.buffer is here.buffer
        )
        meets = any(store.buffer in other.reads for other in others)
        meets = meets or any(other.store.buffer in nest.reads for other in later)
        if alone and not meets:
            names[Load(store.buffer, store.index)] = store.value
        else:
            left.append(nest)
    return replace(group, nests=tuple(left)) if left else group


def used(temps, bodies):
    """Those of some arrays that are stored."""
    stored = set().union(*map(stored_in, bodies))
    return tuple(t for t in temps if t in stored)


def rows_for(groups, private):
    """Rows in the place of arrays of which each step of a loop has its own part.

    What only one family of groups uses, and each step at the same place, need be no
    more than a step has.

    Returns:
      ({(family, start): {array: (its row, the dimensions that it has)}}, arrays)
    """
    rows, room = {(g.family, g.start): {} for g in groups}, {}
    places = [(g, p) for g in groups for n in g.nests for p in n.places]
    gone = set()
    for buffer in dict.fromkeys(p.buffer for _, p in places if p.buffer in private):
        here = [(g, p) for g, p in places if p.buffer is buffer]
        family, *more = {g.family for g, _ in here}
        if more or buffer.order or here[0][0].axis is None:
            continue
        dims = set.intersection(*(g.at(p) for g, p in here))
        if not dims:
            continue
        d, _ = min(dims)
        left = [other for other in range(len(buffer.shape)) if other != d]
        shape = tuple(buffer.shape[other] for other in left)
        row = Buffer(buffer.name, shape or (1,), buffer.dtype, space="cache")
        taken = room.get(family, 0) + row.nbytes
        if taken <= config.fusion.row_bytes:
            room[family] = taken
            gone.add(buffer)
            for g, _ in here:
                mine = rows[g.family, g.start]
                mine.setdefault(buffer, (replace(row), left))
    return rows, frozenset(gone)


def short_rows(body):
    """Short rows: all of a step written out, steps side by side in vectors.

    What comes after the loop, as totals of what its steps have left, stays there.
    """
    axes, inside, after = [], body[:1], body[1:]
    while len(inside) == 1 and isinstance(inside[0], For):
        loop, = inside
        if not loop.axis.is_plain:
            return
        more = [*axes, loop.axis]
        one = goes_on(loop.body) and loops_in_one(more, loop.body) > 1
        if loop.axis.extent <= SHORT and axes and not one:
            break
        axes, inside = more, loop.body
    if not axes or not goes_on(inside) or is_vector(inside):
        return
    # Lanes are steps of loops that are one in memory, if one alone has no whole ones.
    count = loops_in_one(axes, inside) if axes[-1].extent % SHORT else 1
    axis, names = one_axis(axes[-count:])
    around, inside = axes[:-count], replaced(inside, names.get)
    if axis.extent < SHORT:
        return
    widest = max((e.dtype.itemsize for e in totals_in(inside)), default=4)
    if not (stores := flat(inside, SHORT, 4 * MOST // max(widest, 4))):
        return
    if inner := lanes(axis, stores):
        yield Candidate("short rows in lanes", ((*nested(around, inner), *after),))
    plain = *nested(around, (For(axis, stores),)), *after
    yield Candidate("short rows written out", (plain,))


def loops_in_one(axes, body):
    """How many of the last loops are one in memory; one, where arrays that are stored
    are read, too: nobody could tell that all of them is written before."""
    meet = any(buffer.space == "global" for buffer in updated_in(stores_in(body)))
    return 1 if meet else rows_of_memory(axes, body)


def goes_on(body):
    """Whether statements have loops within, or totals."""
    return bool(totals_in(body)) or any(isinstance(s, For) for s in body)


def short_columns(axes, stores):
    """A short axis along which memory is read, as the innermost one: short rows.

    Images of three channels become channels of images: each line is read once.  No
    other axis is written out, too: that is a quarter of a second of LLVM.
    """
    if not axes[-1].is_plain or axes[-1].extent <= SHORT:
        return
    pairs = any(s.buffer.dtype.kind == "c" for s in stores)
    short = SHORT // 2 if pairs else SHORT  # A block of registers is turned in panels.
    for axis in axes[:-1]:
        loads = (load for load in loads_of(stores) if runs_along(load) is axis)
        if axis.is_plain and axis.extent < short and any(loads):
            order = *(a for a in axes if a is not axis), axis
            for way in short_rows(tuple(nested(order, stores))):
                yield replace(way, recipe=way.recipe.replace("rows", "columns"))


def rows_as_vectors(body):
    """Short rows that memory runs along: each is one vector, and so are its totals,
    which are written out if they are short.

        for i in 1000:                    for i in 1000:
          for j in 5:                       for j in vector 5:
            y[i,j] = max(k: x[i,k,j])         y[i,j] = max(max(x[i,0,j], x[i,1,j]), ..)
    """
    loops, inside = perfect(body)
    if len(loops) < 2 or not all(axis.is_plain for axis in loops):
        return
    *around, row = loops
    if not 1 < row.extent <= SHORT:
        return
    stores = flat(inside, SHORT, MOST)
    if not stores:
        stores = inside if only_sets(inside) else ()
    if not stores or len(postorder(expressions(stores))) > MOST:
        return
    loads = [e for e in loads_of(stores) if row in e.free]
    # The parts of complex numbers would be vectors with a gap in them; and the bits of
    # a mask of, say, 11 lanes are put together one by one.
    odd = "cb" if row.extent & (row.extent - 1) else "c"
    whole = all(a.buffer.dtype.kind not in odd for a in (*stores, *loads))
    if whole and all_along(row, stores, loads) and independent(row, stores):
        lane = Axis(row.extent, "vector")
        vector = For(lane, replaced(stores, {row: lane}.get))
        yield Candidate("short rows as vectors", (nested(around, [vector]),))


def is_vector(body):
    """Whether a row is a vector by itself, half a register at least: all that it reads
    is the same for all its elements or lies side by side, each has totals of its own.

    So LLVM writes it.  Several such rows turned into lanes are no quicker, and twenty
    times as much text: a depthwise convolution of 8 channels took .6 s to compile.
    """
    if len(body) != 1 or not isinstance(body[0], For):
        return False
    row, = body
    stores = row.body
    if not only_sets(stores):
        return False
    axis, size = row.axis, Machine.in_force().vector // 2
    return (
        all(axis.extent * s.buffer.dtype.itemsize >= size for s in stores)
        and all_along(axis, stores, loads_of(stores))
        and all(axis in e.free for e in totals_in(stores))
    )
