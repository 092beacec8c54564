"""Drivers whose arrays come from pools: `out0 = new_out0()` for `out0 = np.empty(...)`.

Each buffer of each program has a pool of its own, which goes with the program.
"""

from ...trace.base.config import config
from ..pool import HAS_LOCK, Pool, make_room, pools, with_room
from ..python.source import driver_printers
from ..threads.products import native_product
from .planned_driver import Arenas, PlannedDriver


class PooledArenas(Arenas):
    """The arenas of a program, which count as memory of the pools."""

    def __init__(self, plan):
        super().__init__(plan)
        pools.add(self)

    def make(self):
        self.is_kept = HAS_LOCK and 2 * self.nbytes <= config.pool_bytes
        memory = with_room(lambda: super(PooledArenas, self).make())
        if self.is_kept:
            make_room(self.nbytes)
        return memory


class PooledDriver(PlannedDriver):
    """Prints a driver whose arrays come from pools."""

    def new_arenas(self):
        return PooledArenas(self.plan)

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
        """A compiled function of the memory of three arrays."""
        name = f"product_{len(self.makers)}"
        self.makers[name] = native_product(call)
        views = *call.inputs, *call.outputs
        self.writer.line(f"{name}({', '.join(v.buffer.name for v in views)})")


driver_printers |= {"llvm": PooledDriver}
