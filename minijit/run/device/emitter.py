"""An emitter that prints Python for a grid of threads: the kernels of `numba.cuda`.

    def kernel_0(x0: float32[1000], y0: float32[1000]):    # 4 blocks of 256 threads
        b0 = cuda.blockIdx.x
        t0 = cuda.threadIdx.x
        i0 = b0 * 256 + t0
        if i0 < 1000:
            y0[i0] = math.sin(x0[i0])

Arrays have one axis, whatever their shape.  numba reads no types of variables, and a
sum of two int32s is an int64 there: such types are cast where a variable is assigned.
`lockstep` runs this text, all threads of a block in step; `numba_cuda` compiles it.
"""

import math
from contextlib import contextmanager

import numpy as np

from ...compile.loops.kernel_buffers import given_buffers
from ...compile.loops.scalars import INDEX, storage_dtype, wide_dtype
from ..python.emitter import call, operations
from ..python.regions import RegionEmitter
from ..python.scalar_functions import cast, in_type, print_convert
from ..python.source_text import KernelSource, Text, dtype_text, heading, source_comment
from .grid_walker import GridWalker

# As `operations`, where numba.cuda has other words: of NumPy's functions it has few.
of_math = "exp expm1 log log1p sin cos tan sinh cosh tanh sqrt exp2 asin acos atan"
of_math += " asinh acosh atanh atan2 copysign nextafter"
words = {name: call(f"math.{name}") for name in of_math.split()}
words |= {name: call(name) for name in "floor ceil round_even cbrt logaddexp".split()}
words |= {"is_finite": call("math.isfinite")}


def print_bitcast(expr, x):
    same = expr.dtype == expr.args[0].dtype
    return x if same else operations["bitcast"](expr, x)


def print_remainder(expr, x, y):
    row = call("math.fmod") if wide_dtype(expr.dtype).kind == "f" else operations["rem"]
    return row(expr, x, y)


def print_shift(name):
    """Of numbers of its own type, for how many bits they have matters."""

    def row(expr, x, y):
        printed = operations[name](expr, x, y)
        if printed != call(name)(expr, x, y):
            return printed
        return call(name)(expr, *(cast(expr.dtype.name, part) for part in (x, y)))

    return row


def print_bits(name):
    """A function of 64 bits, above which there are zeros."""
    def row(expr, x):
        bits = 8 * expr.dtype.itemsize
        more = f" - {64 - bits}" * (name == "clz")
        return cast(expr.dtype.name, f"{name}(np.uint64(np.uint{bits}({x}))){more}")

    return row


shifts = "shift_left shift_right_logical shift_right_arithmetic".split()
words |= {name: print_shift(name) for name in shifts}
words |= {name: print_bits(name) for name in ("population_count", "clz")}
words |= {"convert": print_convert, "rem": print_remainder, "bitcast": print_bitcast}


class CudaEmitter(RegionEmitter):
    """Prints the body of one kernel."""

    def op(self, expr, values):
        if expr.name in words:
            return words[expr.name](expr, *self.shorter(expr, values))
        return super().op(expr, values)

    def assign(self, prefix, dtype, value):
        value = in_type(wide_dtype(dtype).name, value)
        return super().assign(prefix, dtype, value)

    def set(self, cell, value):
        super().set(cell, in_type(self.locals[str(cell)], value))

    def store(self, buffer, index, value):
        if buffer in self.numbers:
            value = in_type(self.locals[self.numbers[buffer]], value)
        super().store(buffer, index, value)

    def begin_as_zero(self, name):
        kind = self.locals[name]
        zero = "False" if kind == "bool" else cast(kind, 0)
        self.first.append(f"    {name}: {kind} = {zero}")

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

    def loop(self, stmt, extent):
        """Steps of kind `vector` load together, and store together."""
        if stmt.axis.kind != "vector":
            return super().loop(stmt, extent)
        return self.counted("k", f"vector({extent})")

    def share(self, stmt, extent, threads):
        return self.counted("i", f"range({self.own_number}, {extent}, {threads})")

    @contextmanager
    def counted(self, prefix, steps):
        counter = self.fresh(prefix)
        self.fixed.add(counter)
        with self.block(f"for {counter} in {steps}:"):
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
        """numba exchanges integers of 32 and 64 bits with a sign, and floats."""
        name = wide_dtype(dtype).name
        carrier = "int64" if dtype.itemsize == 8 else "int32"
        if name in (carrier, "float32", "float64"):
            return Text(f"cuda.shfl_xor_sync(-1, {value}, {distance})")
        carried = self.exchange(np.dtype(carrier), cast(carrier, value), distance)
        return cast(name, carried)

    def atomic(self, buffer, index, name, dtype, value):
        self.line(f"cuda.atomic.{name}({self.arrays[buffer]}, {index[0]}, {value})")

    def compare_and_swap(self, buffer, index, expected, new):
        where = f"{self.arrays[buffer]}, {index[0]}"
        return Text(f"compare_and_swap({where}, {expected}, {new})")


def print_on_grid(kernel, name, constants, launch):
    """Print one kernel for a grid: -> `KernelSource`."""
    body = tuple(stmt for part in launch.parts for stmt in part.body)
    arrays = given_buffers(body)
    emitter = CudaEmitter(dict(arrays), constants, {})
    walker = GridWalker(emitter, launch)
    walker.memory()
    walker.run()
    origins = {buffer.origin: own for buffer, own in arrays.items()}
    lines = heading(name, origins) + emitter.first + emitter.lines
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
