"""Executors for CUDA: a program whose kernels are for a grid of threads.

    jit(f, backend="cuda-lockstep")(x)          # on the CPU, by `lockstep`
    jit(f, backend="numba-cuda")(x)             # by numba: on a device, or simulated
    lowered = jit(f, backend="cuda-lockstep").lower(x)
    print(lowered.compile().as_text())          # Python, as numba.cuda has it
    print(lowered.compile().as_text("ptx"))     # what a device is given
"""

import weakref
from functools import cached_property, partial
from types import SimpleNamespace

from ...compile.control.lowering import with_regions
from ...compile.control.residuals_as_arrays import with_arrays
from ...compile.memory.updates import rejoined, with_reuse
from ...compile.pipeline import device_rewrites
from ..device.grid_totals import on_grid, with_parts
from ..device.lockstep import run_in_lockstep
from ..device.numba_cuda import numba_ptx, program_of, run_by_numba
from ..executable import Executable
from ..llvm.executor import LLVMProgram
from ..loading import loaders, own_rewrites, rewritten
from ..python.source import DriverPrinter, driver_printers
from ..reports import kernel_routes, kernel_rules
from .kernels import BlockBuilder, CudaKernel, cuda_kernel
from .reports import kernel_report

# What as_text("ptx") is for, where nobody says: a device of the year 2022.
ORDINARY = (9, 0)


def with_regions_of_blocks(program):
    """A program whose loops are regions that one block runs."""
    return with_regions(with_arrays(program), BlockBuilder)


device_rewrites |= {
    "with_reuse": with_reuse, "with_regions_of_blocks": with_regions_of_blocks,
    "rejoined": rejoined, "with_parts": with_parts,
}  # fmt: skip
own_rewrites |= dict.fromkeys(("cuda-lockstep", "numba-cuda"), device_rewrites)


# native -> function(CudaKernel, *arrays): runs a kernel.
launchers = {"cuda-lockstep": run_in_lockstep, "numba-cuda": run_by_numba}


class CudaProgram(LLVMProgram):
    """A program in memory, its kernels for a grid: as `LLVMProgram`."""

    by_numba = False

    def __init__(self, program, native, heading):
        self.program, self.heading = weakref.ref(program), heading
        self.by_numba = native == "numba-cuda"
        program = rewritten(program, "cuda-lockstep")
        self.body, self.constants = program.body, program.constants
        kernels, launched = {}, {}
        for kernel in program.kernels:
            made = cuda_kernel(kernel, f"kernel_{len(kernels)}")
            constants = tuple(made.constants.items())
            key = made.printed.body, constants, made.grid, made.block
            first = kernels.setdefault(key, made)
            launched[kernel] = first, SimpleNamespace(buffers=made.args)
        self.kernels = tuple(kernels.values())
        self.names = [first.name for first, _ in launched.values()]
        functions = {k.name: partial(launchers[native], k) for k in self.kernels}
        self.run = self.driver(program, native, launched, functions)

    @property
    def texts(self):
        ptx = numba_ptx if self.by_numba else CudaKernel.ptx
        rows = {
            "ptx": lambda kernel: ptx(kernel, ORDINARY),
            "report": lambda kernel: kernel_report(kernel, ORDINARY, ptx),
        }
        if not self.by_numba:
            rows["llvm"] = lambda kernel: kernel.llvm
        joined = lambda row: "\n".join(map(row, self.kernels))
        return {kind: partial(joined, row) for kind, row in rows.items()}

    @cached_property
    def source(self):
        texts = [SimpleNamespace(name=k.name, text=k.source) for k in self.kernels]
        text = "\n\n".join(k.text for k in texts)
        if self.by_numba:
            text = program_of(self.kernels)
        return SimpleNamespace(text=text, kernels=texts)


routes = "cuda-lockstep", "numba-cuda"
kernel_routes |= {"cuda-lockstep": "lockstep"}
loaders |= dict.fromkeys(routes, CudaProgram)
driver_printers |= dict.fromkeys(routes, DriverPrinter)
kernel_rules |= dict.fromkeys(routes, on_grid)


# Functions of a closed jaxpr and a name, for each of the routes.
compile_lockstep, compile_numba = (
    partial(Executable, native=native) for native in routes
)
