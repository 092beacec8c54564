"""Drivers whose arrays come from pools: `out0 = new_out0()` for `out0 = np.empty(...)`.

Each buffer of each program has a pool of its own, which goes with the program; and so
have its arenas.
"""

import numpy as np

from ..pool import Pool
from ..python.source import driver_printers
from ..threads.products import native_product, numpy_product
from .planned_driver import PlannedDriver, arenas, new_arena


class ArenaPool(Pool):
    """A pool of a program's arenas: those that a driver has refer to it, as to arrays.

    Memory that was used a moment ago is still in the cache, and fresh pages would have
    to be filled with zeros first.
    """

    def __init__(self, plan):
        super().__init__((plan.nbytes,), np.dtype(np.uint8))
        self.plan = plan

    def new(self):
        return new_arena(self.plan)


arenas |= {"of": lambda plan: ArenaPool(plan).take}


class PooledDriver(PlannedDriver):
    """Prints a driver whose arrays come from pools."""

    def new(self, buffer):
        if buffer.dtype == object:
            return super().new(buffer)
        name = f"new_{buffer.name}"
        self.makers[name] = Pool(buffer.shape, buffer.dtype).take
        return f"{name}()"

    def call(self, call):
        """What a Python function has made is read-only from then on."""
        super().call(call)
        made = {view.buffer: None for view in call.outputs}
        for buffer in made if call.routine != "matmul" else ():
            if buffer.dtype != object and buffer not in self.names:
                self.writer.line(f"{buffer.name}.setflags(write=False)")

    def product(self, call):
        """A function of the memory of three arrays, compiled by us or in NumPy."""
        name, kind = f"product_{len(self.makers)}", call.inputs[0].buffer.dtype.kind
        self.makers[name] = (numpy_product if kind == "c" else native_product)(call)
        views = *call.inputs, *call.outputs
        self.writer.line(f"{name}({', '.join(v.buffer.name for v in views)})")


driver_printers |= {"llvm": PooledDriver}
