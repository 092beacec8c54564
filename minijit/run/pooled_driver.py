"""Drivers whose arrays come from pools: `out0 = new_out0()` for `out0 = np.empty(...)`.

Each buffer of each program has a pool of its own, which goes with the program.
"""

from .llvm import driver_printers
from .pool import Pool
from .python_source import DriverPrinter


class PooledDriver(DriverPrinter):
    """Prints a driver whose arrays come from pools."""

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
        written = [v.buffer for v in call.outputs if v.buffer.dtype != object]
        if call.routine == "matmul":
            # NumPy's product does not write into what is read-only.
            self.allocate(written)
            self.set_flags(written, True)
        super().call(call)
        self.set_flags(written, False)

    def set_flags(self, buffers, write):
        for buffer in dict.fromkeys(buffers):
            self.writer.line(f"{buffer.name}.setflags(write={write})")


driver_printers |= {"llvm": PooledDriver}
