"""An emitter that prints Python for a grid of threads, as `numba.cuda` has it.

    def kernel_0(x0: float32[1000], y0: float32[1000]):    # 4 blocks of 256 threads
        b0 = cuda.blockIdx.x
        t0 = cuda.threadIdx.x
        i0 = b0 * 256 + t0
        if i0 < 1000:
            y0[i0] = np.sin(x0[i0])

Arrays are pointers: they have one axis, whatever their shape.  `lockstep` runs this
text, all threads of a block in step.
"""

import math
from contextlib import contextmanager

from ..compile.scalars import INDEX, storage_dtype
from .grid_walker import GridWalker, given_buffers
from .kernel_source import KernelSource, heading, source_comment
from .python_regions import RegionEmitter
from .source_text import Text, dtype_text

# Combinations that a device does in memory, in one step that no other thread sees.
atomics = {"add": "add", "max": "max", "min": "min", "and": "and_", "or": "or_"}
atomics |= {"xor": "xor"}


class CudaEmitter(RegionEmitter):
    """Prints the body of one kernel."""

    def named(self, prefix, text):
        name = self.fresh(prefix)
        self.locals[name] = INDEX.name
        self.line(f"{name} = {text}")
        self.fixed.add(name)
        return Text(name)

    def block_number(self, way):
        return self.named("b", f"cuda.blockIdx.{way}")

    def thread_number(self):
        self.own_number = self.named("t", "cuda.threadIdx.x")
        return self.own_number

    def number_of_thread(self, threads):
        return self.named("i", f"b0 * {threads} + {self.own_number}")

    @contextmanager
    def loop(self, stmt, extent):
        """Steps of kind `vector` load together, and store together."""
        if stmt.axis.kind != "vector":
            with super().loop(stmt, extent) as counter:
                yield counter
            return
        counter = self.fresh("k")
        self.fixed.add(counter)
        with self.block(f"for {counter} in cuda.vector({extent}):"):
            yield Text(counter)

    @contextmanager
    def share(self, stmt, extent, threads):
        counter = self.fresh("i")
        self.fixed.add(counter)
        head = f"for {counter} in range({self.own_number}, {extent}, {threads}):"
        with self.block(head):
            yield Text(counter)

    @contextmanager
    def only_first(self):
        with self.block(f"if {self.own_number} == 0:"):
            yield

    def barrier(self):
        self.line("cuda.syncthreads()")

    def common(self, buffer):
        self.memory(buffer, "s", "shared")

    def own(self, buffer):
        if buffer.space == "register":
            self.number(buffer, self.fresh("n"))
        else:
            self.memory(buffer, "l", "local")

    def memory(self, buffer, prefix, kind):
        name = self.arrays[buffer] = self.fresh(prefix)
        size, dtype = math.prod(buffer.shape), dtype_text(storage_dtype(buffer.dtype))
        self.line(f"{name} = cuda.{kind}.array({size}, {dtype})")

    def exchange(self, dtype, value, distance):
        return Text(f"cuda.shfl_xor_sync(-1, {value}, {distance})")

    def atomic(self, buffer, index, name, dtype, value):
        where = f"{self.arrays[buffer]}, {index[0]}, {value}"
        self.line(f"cuda.atomic.{atomics[name]}({where})")


def print_on_grid(kernel, name, constants, launch):
    """Print one kernel for a grid: -> `KernelSource`."""
    body = tuple(stmt for part in launch.parts for stmt in part.body)
    arrays = given_buffers(body)
    emitter = CudaEmitter(dict(arrays), constants, {})
    walker = GridWalker(emitter, launch)
    walker.memory()
    walker.run()
    origins = {buffer.origin: own for buffer, own in arrays.items()}
    lines = heading(name, {}, origins) + emitter.first + emitter.lines
    ways = [f"{n}" for n in launch.grid if n > 1] or ["1"]
    grid = f"# {' x '.join(ways)} blocks of {launch.threads} threads"
    return KernelSource(
        name,
        "\n".join(lines) + "\n",
        "\n".join(filter(None, (source_comment(kernel), grid))),
        tuple(origins),
        emitter.locals,
        tuple(emitter.used),
    )
