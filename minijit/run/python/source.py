"""Print a loop program as a file of Python.

    print(print_program(lower(make_jaxpr(lambda x, y: sin(x) * y)(x, y))).text)

    def kernel_0(x0: float32[3, 4], x1: float32[3, 4], y0: float32[3, 4]):
        for i0 in range(3):
            for i1 in range(4):
                y0[i0, i1] = np.sin(x0[i0, i1]) * x1[i0, i1]

    def run_main(in0, in1):
        out0 = np.empty((3, 4), np.float32)
        kernel_0(in0, in1, out0)
        return (out0,)

The kernels are printed by `emitter.py`.  The *driver* runs them, and the calls of
the program, in order.
"""

import re
import textwrap
from collections import Counter, defaultdict
from dataclasses import dataclass

from ...compile.loops.scalars import is_half
from ...compile.loops.statements import Kernel
from ...compile.memory.complex_pairs import PairBuffer, origin_of
from ..scalars.scalar_math import functions
from .emitter import print_kernel
from .source_text import WIDTH, Constants, SourceWriter, dtype_text

# type of a kernel -> function(kernel, name, constants) -> its source.
kernel_printers = {Kernel: print_kernel}


@dataclass(frozen=True)
class Source:
    """A printed program.

    Attributes:
      text: the whole file.
      kernels: a `KernelSource` for each kernel of the program, in order; equal ones
        are the same object and stand in the text once.
      driver: the name of the function that runs the program.
      calls: {name: the `Call` that the driver makes under that name}.
      constants: {name: NumPy array} that the driver reads, and the functions of
        `DriverPrinter.makers`.
    """

    text: str
    kernels: tuple
    driver: str
    calls: dict
    constants: dict


def view_text(view):
    """A view of a buffer as a NumPy array that shares its memory."""
    name, dtype = view.buffer.name, view.buffer.dtype
    if view.whole:
        return name
    # `np.ndarray` only accepts memory whose type it knows.
    memory = f"{name}.view(np.uint16)" if is_half(dtype) else name
    strides = tuple(s * dtype.itemsize for s in view.strides)
    where = f"{view.offset * dtype.itemsize}, {strides}"
    return f"np.ndarray({view.shape}, {dtype_text(dtype)}, {memory}, {where})"


def matmul_operand(view):
    """A view as gemm takes it: neighbours in one of the last two axes are adjacent."""
    last = zip(view.shape[-2:], view.strides[-2:], strict=True)
    adjacent = any(stride == 1 or size == 1 for size, stride in last)
    text = view_text(view)
    return text if adjacent else f"np.ascontiguousarray({text})"


class DriverPrinter:
    """Prints the function that allocates buffers and runs kernels and calls in order.

    A temporary is dropped after the step that uses it last.
    """

    def __init__(self, program, kernels, constants, writer):
        self.program = program
        self.kernels = kernels
        self.constants = constants
        self.writer = writer
        self.known = {*program.inputs, *(buffer for buffer, value in program.constants)}
        self.calls = {}
        # {name: a function that the driver calls for memory}
        self.makers = {}
        self.name = "run_" + re.sub(r"\W+", "_", program.name).strip("_")

    def print(self):
        inputs = ", ".join(buffer.name for buffer in self.program.inputs)
        with self.writer.block(f"def {self.name}({inputs}):"):
            self.steps(self.program.temps)
            self.results(self.program.outputs)

    def steps(self, temps):
        """Kernels and calls; those temporaries that are not used again are dropped."""
        last = self.last_uses()
        for i, step in enumerate(self.program.body):
            printer = self.kernel if isinstance(step, Kernel) else self.call
            printer(step)
            done = [b.name for b in temps if last.get(b) == i]
            if done:
                self.writer.line(f"del {', '.join(done)}")
        # What holds no element is not written by any kernel.
        self.allocate(self.program.outputs)

    def results(self, buffers):
        results = ", ".join(buffer.name for buffer in buffers)
        comma = "," if len(buffers) == 1 else ""
        self.writer.line(f"return ({results}{comma})")

    def last_uses(self):
        """{buffer: the index of the last step that uses it}."""
        last = {}
        for i, step in enumerate(self.program.body):
            last |= dict.fromkeys(self.buffers_of(step), i)
        return last

    def buffers_of(self, step):
        if isinstance(step, Kernel):
            return list(map(origin_of, self.kernels[step][1].buffers))
        return [view.buffer for view in (*step.inputs, *step.outputs)]

    def allocate(self, buffers):
        """Make the arrays that are not there yet."""
        for buffer in dict.fromkeys(buffers):
            if buffer not in self.known:
                self.known.add(buffer)
                self.writer.line(f"{buffer.name} = {self.new(buffer)}")

    def new(self, buffer):
        """The text that makes an array."""
        return f"np.empty({buffer.shape}, {dtype_text(buffer.dtype)})"

    def kernel(self, kernel):
        source, own = self.kernels[kernel]
        self.allocate(map(origin_of, own.buffers))
        names = []
        for b in own.buffers:
            bits = f"{b.name}.view(np.uint16)" if is_half(b.dtype) else b.name
            names.append(f"pairs({b.name})" if isinstance(b, PairBuffer) else bits)
        self.writer.line(f"{source.name}({', '.join(names)})")

    def call(self, call):
        # An input without elements is there though nothing was written to it.
        self.allocate(view.buffer for view in call.inputs)
        if call.routine == "matmul":
            self.allocate(view.buffer for view in call.outputs)
            self.product(call)
            return
        what = call.attrs["program" if call.routine == "program" else "primitive"].name
        name = f"call_{len(self.calls)}_" + re.sub(r"\W+", "_", what).strip("_")
        self.calls[name] = call
        self.call_by_name(call, name, map(view_text, call.inputs), call.outputs)

    def product(self, call):
        a, b, out = *map(matmul_operand, call.inputs), *map(view_text, call.outputs)
        self.writer.line(f"np.matmul({a}, {b}, out={out})")

    def call_by_name(self, call, name, given, made):
        """The line that calls a function of some texts, which makes some arrays."""
        self.known |= {view.buffer for view in made}
        outputs = "".join(f"{view.buffer.name}, " for view in made)
        target = f"{outputs.rstrip()} = " if outputs else ""
        self.writer.line(f"{target}{name}({', '.join(given)})")


# What prints the driver, by the name of the loader: or else as for "python".
driver_printers = {"python": DriverPrinter}


def print_imports(text):
    """The import lines for what stands in a program's text."""
    lines = ["from __future__ import annotations", "", "import numpy as np"]
    # Dtypes that are not NumPy's are printed by their names alone.
    others = {*re.findall(r"(?<![.\w])(?:bfloat16|float\d_\w+|u?int[24])\b", text)}
    if others:
        lines.append(f"from ml_dtypes import {', '.join(sorted(others))}")
    modules = defaultdict(list)
    for name in sorted(set(re.findall(r"(?<![.\w])[a-z]\w*(?=\()", text))):
        if name in functions:
            modules[functions[name].__module__].append(name)
    lines += [import_text(module, names) for module, names in modules.items()]
    return "\n".join(lines) + "\n"


def import_text(module, names):
    """The line that imports names from a module, or several."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    wrapped = textwrap.wrap(", ".join(names) + ",", WIDTH - 4)
    body = "\n".join("    " + part for part in wrapped)
    return f"from {module} import (\n{body}\n)"


def print_program(program, heading=""):
    """Print a program: -> `Source`.

    Args:
      program: a `Program`.
      heading: text to put above it, such as the jaxpr.
    """
    constants, distinct, kernels, writer = Constants(), {}, {}, SourceWriter()
    counts: Counter = Counter()
    for kernel in program.kernels:
        stem = "kernel" if type(kernel) is Kernel else kernel.name
        name = f"{stem}_{counts[stem]}"
        source = kernel_printers[type(kernel)](kernel, name, constants)
        counts[stem] += source.body not in distinct
        kernels[kernel] = distinct.setdefault(source.body, source), source
    driver = driver_printers["python"](program, kernels, constants, writer)
    driver.print()
    pieces = [f"{k.comment}\n{k.text}" for k in distinct.values()] + [writer.text()]
    body = "\n\n".join(pieces)
    code = "".join(k.text for k in distinct.values()) + writer.text()
    typed = "".join(f"{k} = {v}\n" for k, v in constants.definitions.items())
    title = f'r"""{heading}"""\n\n' if heading else ""
    text = title + print_imports(code) + ("\n" + typed if typed else "") + "\n\n" + body
    arrays = {buffer.name: value for buffer, value in program.constants}
    arrays |= driver.makers
    sources = tuple(source for source, own in kernels.values())
    return Source(text, sources, driver.name, driver.calls, arrays)
