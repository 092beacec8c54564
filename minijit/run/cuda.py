"""Executors for CUDA: a program whose kernels are for a grid of threads.

    jit(f, backend="cuda-lockstep")(x)          # on the CPU, by `lockstep`
    lowered = jit(f, backend="cuda").lower(x)
    print(lowered.compile().as_text())          # Python, as numba.cuda has it
    print(lowered.compile().as_text("ptx"))     # what a device is given
"""

import weakref
from collections import Counter
from functools import cached_property, partial
from types import SimpleNamespace

from ..compile.lower_control import with_regions
from ..compile.pipeline import device_rewrites
from ..compile.updates import with_reuse
from .cuda_kernels import cuda_kernel
from .cuda_reports import kernel_report
from .executable import Executable
from .grid import BlockBuilder, on_grid
from .grid_memory import NoCudaForm
from .grid_totals import with_parts
from .llvm import LLVMProgram
from .loading import loaders, own_rewrites, rewritten
from .lockstep import run_in_lockstep
from .python_source import DriverPrinter, driver_printers
from .reports import kernel_routes, kernel_rules

# What as_text("ptx") is for, where nobody says: a device of the year 2022.
ORDINARY = (9, 0)


def with_regions_of_blocks(program):
    """A program whose loops are regions that one block runs."""
    return with_regions(program, BlockBuilder)


device_rewrites |= {
    "with_reuse": with_reuse, "with_regions_of_blocks": with_regions_of_blocks,
    "with_parts": with_parts,
}  # fmt: skip
own_rewrites |= {"cuda-lockstep": device_rewrites}


def nothing_to_run_on(kernel, *arrays):
    raise NoCudaForm(
        f"{kernel.name} is compiled for a CUDA device, and there is none here. "
        'jit(f, backend="cuda-lockstep") runs its source on the CPU, slowly'
    )


# native -> function(CudaKernel, *arrays): runs a kernel.
launchers = {"cuda-lockstep": run_in_lockstep, "cuda": nothing_to_run_on}


class CudaProgram(LLVMProgram):
    """A program in memory, its kernels for a grid: as `LLVMProgram`.

    Attributes:
      launched: the `CudaKernel` of each kernel it runs, in order.
    """

    def __init__(self, program, native, heading):
        self.program, self.heading = weakref.ref(program), heading
        program = rewritten(program, "cuda-lockstep")
        self.body, self.constants = program.body, program.constants
        kernels, counts = {}, Counter()
        self.launched = []
        for kernel in program.kernels:
            made = cuda_kernel(kernel, f"kernel_{counts['kernel']}")
            constants = tuple(made.constants.items())
            key = made.printed.body, constants, made.grid, made.block
            counts["kernel"] += key not in kernels
            first = kernels.setdefault(key, made)
            self.launched.append((kernel, first, made.args))
        self.kernels = tuple(kernels.values())
        self.names = [first.name for kernel, first, args in self.launched]
        launched = {
            kernel: (SimpleNamespace(name=first.name),
                     SimpleNamespace(buffers=args, numbers=()))
            for kernel, first, args in self.launched
        }
        functions = {k.name: partial(launchers[native], k) for k in self.kernels}
        self.run = self.driver(program, native, launched, functions, native)

    @property
    def texts(self):
        return {
            "ptx": lambda: "\n".join(k.ptx(ORDINARY) for k in self.kernels),
            "report": lambda: "\n".join(map(kernel_report, self.kernels)),
            "llvm": lambda: "\n".join(k.llvm for k in self.kernels),
        }

    @cached_property
    def source(self):
        texts = [SimpleNamespace(name=k.name, text=k.source) for k in self.kernels]
        return SimpleNamespace(text="\n\n".join(k.text for k in texts), kernels=texts)


loaders |= {"cuda-lockstep": CudaProgram, "cuda": CudaProgram}
driver_printers |= {"cuda-lockstep": DriverPrinter, "cuda": DriverPrinter}
kernel_routes |= {"cuda-lockstep": "lockstep", "cuda": "cuda"}
kernel_rules |= {"cuda-lockstep": on_grid, "cuda": on_grid}


def compile_lockstep(closed, name):
    """The executor "cuda-lockstep"."""
    return Executable(closed, name, native="cuda-lockstep")


def compile_cuda(closed, name):
    """The executor "cuda": without a device, its texts are there to be read."""
    return Executable(closed, name, native="cuda")

