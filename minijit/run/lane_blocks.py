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

from ..compile.lane_blocks import block_size, lanes_of
from ..transform.loops import scan_p
from .native_control import loop_printers, print_scan


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
