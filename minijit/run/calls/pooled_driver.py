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

    def allocate(self, buffers):
        for buffer in dict.fromkeys(buffers):
            if buffer.dtype == object:
                super().allocate([buffer])
            elif buffer not in self.known:
                self.known.add(buffer)
                name = f"new_{buffer.name}"
                self.makers[name] = Pool(buffer.shape, buffer.dtype).take
                self.writer.line(f"{buffer.name} = {name}()")

    def call(self, call):
        if call.routine == "matmul":
            self.product(call)
            return
        super().call(call)
        written = [v.buffer for v in call.outputs if v.buffer.dtype != object]
        self.set_flags([b for b in written if b not in self.names], False)

    def product(self, call):
        """A compiled function of the memory of three arrays."""
        views = *call.inputs, *call.outputs
        self.allocate(view.buffer for view in views)
        name = f"product_{len(self.makers)}"
        self.makers[name] = native_product(call)
        arrays = ", ".join(view.buffer.name for view in views)
        self.writer.line(f"{name}({arrays})")

    def set_flags(self, buffers, write):
        for buffer in dict.fromkeys(buffers):
            self.writer.line(f"{buffer.name}.setflags(write={write})")


driver_printers |= {"llvm": PooledDriver}
