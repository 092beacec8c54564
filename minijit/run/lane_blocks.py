"""Scans over arrays larger than the caches: a block of lanes goes through all steps.

    for k0 in range(0, 1000000, 8192):
        b0: uint64 = k0
        b1: uint64 = min(k0 + 8192, 1000000)
        for i0 in range(b0, b1):
            out0[i0] = in0[i0]
        for i1 in range(100):
            for i2 in range(b0, b1):
                out0[i2] = out0[i2] * f32_half + f32_1

If no lane of a step looks at another one, the order of lanes and steps is free.  Step
by step, a carry larger than the caches comes from memory and goes back every time;
block by block it comes once, and stays in the cache until the last step is done.
"""

import math

from ..compile.expressions import Load, postorder
from ..compile.loops import For, Kernel, Let, Store, expressions
from ..compile.place import place
from ..transform.loops import scan_p
from .native_control import elements_of, loop_printers, print_scan
from .python_source import NEST, nestable

# What a block's carries take in the cache, and when it pays to have blocks: bytes.
BLOCK_BYTES = 1 << 15
CACHE_BYTES = 1 << 19


def print_scan_by_blocks(function, programs, inputs, outputs, **params):
    """A scan, in blocks of lanes if it has lanes and they pay."""
    body, = programs
    block = block_size(body, params)
    if block is None or function.lanes is not None:
        print_scan(function, programs, inputs, outputs, **params)
        return
    n = lanes_of(body, params)
    start, first, last = map(function.fresh, "kbb")
    # Unsigned, or numba asks for every element whether its index counts from the end.
    function.locals |= {first: "uint64", last: "uint64"}
    function.line(f"for {start} in range(0, {n}, {block}):")
    with function.indent():
        function.line(f"{first}: uint64 = {start}")
        function.line(f"{last}: uint64 = min({start} + {block}, {n})")
        function.lanes = f"{first}, {last}"
        print_scan(function, programs, inputs, outputs, **params)
        function.lanes = None


loop_printers |= {scan_p: print_scan_by_blocks}


def block_size(body, params):
    """How many lanes make a block, or None if the scan is not to have any."""
    n = lanes_of(body, params)
    if n is None or params["length"] in (0, 1):
        return None
    carries = carries_of(body, params)
    kept = bytes_of((*carries, *body.temps))
    # What each step reads and writes anew comes from memory in any case, and as whole
    # rows it comes faster.
    given = params["num_consts"] + len(carries)
    streams = (*body.inputs[given:], *body.outputs[len(carries) :])
    if kept < max(CACHE_BYTES, bytes_of(streams)):
        return None
    block = n * BLOCK_BYTES // kept
    return block if 0 < block < n else None


def bytes_of(buffers):
    """The size of some arrays in bytes."""
    return sum(math.prod(b.shape) * b.dtype.itemsize for b in buffers)


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
    kernels = (place(step.body, NEST, nestable) for step in body.body)
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
        touched = [index for b, index in elements_of((stmt,)) if b in own and b.shape]
        if any(index[0] is not lane for index in touched):
            return False
        exprs = [e for e in postorder(expressions((stmt,))) if not isinstance(e, Load)]
        if any(lane in e.children() for e in exprs):
            return False  # an index that is computed with is no unsigned number
    return True
