"""A total of very many numbers on many blocks: two kernels for one.

    kernel:                                kernel: for p in 128 blocks:
      out[] = sqrt(total(k: x[k]))           part[p] = total(k in 8192: x[p*8192 + k])
                                           kernel: out[] = sqrt(total(p: part[p]))

Blocks of one kernel cannot wait for each other, but a kernel waits for the one before.
The CPU has one kernel there.  The last block to be done could add the parts, if blocks
counted themselves in memory.  That would save a small kernel, and wants a counter that
is zero whenever a graph is launched, and loads that no cache answers: NVIDIA's library
CUB has two kernels, too.  `explain` names the rule, "parts on a grid".

Totals of columns are each a thread's, and if these are few, they are cut likewise.

Totals beside the loop of a kernel want what all its steps have left, and so they are a
second kernel, too.
"""

import math
from contextlib import suppress
from dataclasses import replace

from ...compile.decisions import loop_rules, noted, noting
from ...compile.loops.contents import only_sets, totals_within
from ...compile.loops.expressions import Axis, Load, Reduce, as_index, op
from ...compile.loops.graphs import substitute
from ...compile.loops.statements import (
    For, Kernel, Store, nested, on_buffers, replaced,
)
from ...compile.pipeline import kernel_forms
from ...compile.schedule.nests import count_of, digits, joined, nest_of, steps_of_block
from ...compile.schedule.shared_loops import after_loop, shares_of
from ...compile.settings import config
from .grid import launch_of, part_of
from .grid_memory import MOST_THREADS, WARP, NoCudaForm, number_of, room_in


def with_parts(program):
    """A program in which some kernels are several: blocks of one cannot wait."""
    body, temps = [], list(program.temps)
    for step in program.body:
        if type(step) is not Kernel:
            body.append(step)
            continue
        with noting() as found:
            body += in_kernels(step, temps)
        for rule, _, numbers in found:
            noted(rule, step, **numbers)
    if len(body) == len(program.body):
        return program
    return replace(program, body=tuple(body), temps=tuple(temps))


def in_kernels(kernel, temps):
    """The kernels that a device runs for one, whose blocks cannot wait.

    Args:
      temps: list of buffers, to which those between the kernels are added.
    """
    forms = (form(kernel, temps) for form in kernel_forms.passes)
    return next(filter(None, forms), [kernel])


def on_grid(body):
    """Find the grid of a kernel's statements, while somebody notes what is decided."""
    with suppress(NoCudaForm):
        for kernel in in_kernels(Kernel("kernel", body), []):
            launch_of(kernel.body)


def in_parts(kernel, temps):
    """Two kernels for one whose stores are of totals; or None."""
    loops = nest_of(kernel.body[0]) if len(kernel.body) == 1 else None
    axes, stores = loops or ([], kernel.body)
    if not only_sets(stores):
        return None
    totals = totals_within([s.value for s in stores])
    extents = {tuple(a.extent for a in total.axes) for total in totals}
    if len(extents) != 1 or not all(can_part(total, axes) for total in totals):
        return None
    steps = math.prod(*extents)
    length = columns_part(kernel.body[0], axes, steps) if axes else rows_part(steps)
    if length >= steps:
        return None
    noted("parts on a grid", parts=-(-steps // length))
    part, names, filled = Axis(-(-steps // length)), {}, []
    # One axis for all: a part's length may depend on which one it is.
    axis, now = joined([part, *axes])
    each = Axis(part.extent, "reduce")
    place = number_of((each, *axes))
    for total in totals:
        room = room_in(temps, "part", (axis.extent,), total.dtype)
        names[total] = Reduce(total.op, (each,), (Load(room, (place,)),))
        total, = substitute([total], now.get)
        value = one_part(total, now.get(part, part), length, steps)
        filled.append(Store(room, (axis,), value))
    fill = replace(kernel, body=(For(axis, tuple(filled)),))
    return [fill, replace(kernel, body=nested(axes, replaced(stores, names.get)))]


def totals_apart(kernel, temps):
    """A kernel of its loop for one with totals beside, and others of these; or None."""
    if not (after := after_loop(kernel.body)):
        return None
    names = {}
    for share in shares_of(kernel.body[:1], after):
        own = share.buffer
        names[own] = room_in(temps, "part", own.shape, own.dtype)
    noted("totals on a grid", steps=kernel.body[0].axis.extent)
    body = on_buffers(kernel.body, lambda b, index: (names[b], index), names)
    steps = (replace(kernel, body=part) for part in (body[:1], body[1:]))
    return [found for step in steps for found in in_kernels(step, temps)]


def can_part(total, axes):
    """Whether parts of a total can be combined, and be computed apart."""
    plain = total.is_fixed and len(total.bodies) == 1
    return plain and not totals_within(total.bodies) and total.free == {*axes}


def rows_part(steps):
    """How many steps a part has of a total that a block computes.

    There are eight parts or more, and no more than the threads of the block that adds
    them up.
    """
    least = config.fusion.block_total
    return steps if steps < least else max(-(-steps // MOST_THREADS), -(-least // 8))


def columns_part(stmt, axes, steps):
    """The same of totals that are a thread's each, a step of some axes."""
    columns, enough = count_of(axes), config.fusion.enough_threads
    if not columns < enough <= steps * columns // 2 or part_of(stmt).by_block:
        return steps
    length = max(-(-steps * columns // enough), WARP)
    return length if steps >= config.fusion.fewest_parts * length else steps


def one_part(total, part, length, steps):
    """The total over one part of all steps, counted together."""
    first = op("mul", part, as_index(length))
    axis = Axis(steps_of_block(first, length, steps), "reduce")
    places = digits(op("add", first, axis), total.axes)
    return Reduce(total.op, (axis,), tuple(substitute(total.bodies, places.get)))


kernel_forms |= {"totals_apart": totals_apart, "in_parts": in_parts}
loop_rules |= {
    "parts on a grid": (
        True, "blocks cannot wait for each other: a second kernel adds the parts",
        "block_total", "enough_threads", "fewest_parts",
    ),
    "totals on a grid": (
        True, "blocks cannot wait for each other: a second kernel adds their shares",
    ),
}  # fmt: skip
