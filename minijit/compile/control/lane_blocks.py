"""Scans over arrays larger than the caches: a block of lanes goes through all steps.

    for i0 in serial 123:                               # the blocks
      for i1 in min(8192, 1000000 - i0 * 8192):
        out0[i0 * 8192 + i1] = in0[i0 * 8192 + i1]
      for i2 in serial 100:                             # the steps
        for i3 in min(8192, 1000000 - i0 * 8192):
          out0[i0 * 8192 + i3] = out0[i0 * 8192 + i3] * 0.5 + 1.0

If no lane of a step looks at another one, the order of lanes and steps is free.  Step
by step, a carry larger than the caches comes from memory and goes back every time;
block by block it comes once, and stays in the cache until the last step is done.
"""


from ...transform.control_flow.while_and_scan import scan_p
from ..decisions import loop_rules, noted
from ..loops.contents import loads_of, stores_in
from ..loops.expressions import Axis, Load, op
from ..loops.graphs import postorder
from ..loops.kernel_buffers import is_scope
from ..loops.statements import (
    For, Kernel, Let, Store, changed, expressions, replaced,
)
from ..memory.overwriting import placed_once
from ..schedule.nests import split
from ..settings import config
from .lowering import build_scan
from .regions import loop_builders


def build_scan_by_blocks(builder, programs, inputs, outputs, **params):
    """A scan, in blocks of lanes if it has lanes and they pay."""
    (body,) = programs
    n = lanes_of(body, params)
    size = block_size(n, body, params, builder.root.call)
    if size is None:
        build_scan(builder, programs, inputs, outputs, **params)
        return
    block, first, left = split(Axis(n), size, "serial")
    with builder.block() as scan:
        build_scan(builder, programs, inputs, outputs, **params)

    def part_of_lanes(stmt):
        """A loop over all lanes, for those of a block."""
        if not isinstance(stmt, For) or is_scope(stmt) or stmt.axis.kind == "serial":
            return None
        lane = Axis(left, stmt.axis.kind)
        index = op("add", first, lane)
        return (For(lane, replaced(stmt.body, {stmt.axis: index}.get)),)

    builder.add(For(block, changed(scan, part_of_lanes)))


def block_size(n, body, params, call=None):
    """How many lanes make a block, or None if the scan is not to have any.

    Args:
      n: how many lanes it has, or None; call: of the loop that the decision is about.
    """
    if n is None or params["length"] in (0, 1):
        return None
    carries = carries_of(body, params)
    kept = bytes_of((*carries, *body.temps))
    # What each step reads and writes anew comes from memory in any case, and as whole
    # rows it comes faster.
    given = params["num_consts"] + len(carries)
    streams = (*body.inputs[given:], *body.outputs[len(carries) :])
    block = n * config.fusion.lane_block // max(kept, 1)
    few = kept < max(config.fusion.worth_lanes, bytes_of(streams))
    if few or not 0 < block < n:
        return noted("all lanes", call, kept=kept) or None
    noted("blocks of lanes", call, kept=kept, lanes=block)
    return block


loop_rules |= {
    "blocks of lanes": (
        True, "a block of lanes goes through all steps, and stays in the cache",
        "worth_lanes", "lane_block",
    ),
    "all lanes": (
        False, "what all lanes keep is little, or they read more in each step",
        "worth_lanes", "lane_block",
    ),
}  # fmt: skip


def bytes_of(buffers):
    return sum(buffer.nbytes for buffer in buffers)


def carries_of(body, params):
    """The inputs of a step that are carries."""
    given = params["num_consts"]
    return body.inputs[given : given + params["num_carry"]]


def lanes_of(body, params):
    """How many lanes the steps of a scan have that do not look at each other, or None.

    A lane is an index of the first axis, of all arrays that a step writes.
    """
    if not all(isinstance(step, Kernel) for step in body.body):
        return None
    own = {*carries_of(body, params), *body.temps, *body.outputs}
    if any(b.dtype == object for b in (*body.inputs, *own)):
        return None
    sizes = {b.shape[0] for b in own if b.shape}
    if len(sizes) != 1:
        return None
    n, = sizes
    kernels = (placed_once(step) for step in body.body)
    return n if all(keeps_to_its_lane(kernel, own, n) for kernel in kernels) else None


def keeps_to_its_lane(kernel, own, n):
    """Whether each loop of a kernel goes over the lanes, and touches its own only."""
    for stmt in kernel:
        lane = None
        if isinstance(stmt, For):
            if stmt.axis.extent != n or stmt.axis.kind == "reduce":
                return False
            lane = stmt.axis
        elif not isinstance(stmt, (Let, Store)):
            return False
        places = (*loads_of((stmt,)), *stores_in((stmt,)))
        touched = (p for p in places if p.buffer in own and p.buffer.shape)
        if any(place.index[0] is not lane for place in touched):
            return False
        exprs = [e for e in postorder(expressions((stmt,))) if not isinstance(e, Load)]
        if any(lane in e.children() for e in exprs):
            return False  # an index that is computed with is no unsigned number
    return True


loop_builders |= {scan_p: build_scan_by_blocks}
