"""Kernels for CUDA: of each its text, its grid, and the PTX that a device is given.

    kernel = cuda_kernel(program.kernels[0])
    print(kernel.source)                # Python, as `numba.cuda` has it
    kernel.grid, kernel.block           # (4, 1, 1), (256, 1, 1)
    kernel.args                         # its buffers, in order
    kernel.ptx((9, 0))                  # text for compute capability 9.0
"""

import functools
from dataclasses import dataclass, field, replace

from ...compile.control.regions import RegionBuilder
from ...compile.loops.contents import axes_in
from ...compile.loops.statements import Region
from ...compile.memory.complex_pairs import origin_of, region_in_pairs
from ..device import block_totals as block_totals
from ..device.cuda_llvm import module_of, ptx_of
from ..device.emitter import print_on_grid
from ..device.grid import Launch, Part, collapsed, launch_of
from ..device.grid_memory import (
    COMMON_BYTES, MOST_THREADS, NoCudaForm, bytes_of_own, flattened, warps_of,
)
from ..python.source_text import Constants, KernelSource

# Blocks of one launch along its only axis.
MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, eq=False)
class CudaKernel:
    """One kernel for a grid of threads.

    Attributes:
      name: of the function.
      source: its text, Python in the dialect of `numba.cuda`.
      args: the `Buffer`s whose addresses it takes, in order.
      grid, block: how many blocks there are, and threads in each: three ints each.
      printed: the `KernelSource`; constants: {name: text} of what it refers to.
      launch: the `Launch`.
    """

    name: str
    source: str
    args: tuple
    grid: tuple
    block: tuple
    printed: KernelSource = field(repr=False)
    constants: dict = field(repr=False)
    launch: object = field(repr=False)

    def called(self, name):
        """The same with another name."""
        return replace(self, name=name, source=self.source.replace(self.name, name))

    @functools.cached_property
    def llvm(self):
        """The kernel as LLVM IR."""
        return module_of(self.name, self.launch)

    def ptx(self, compute_capability):
        """PTX for a device; the entry's name is `name`.

        Args:
          compute_capability: (major, minor).
        """
        return ptx_of(self.llvm, tuple(compute_capability))


def cuda_kernel(kernel, name="kernel_0"):
    """A `Kernel` of a program for a grid: -> `CudaKernel`.

    Raises:
      NoCudaForm: if it has none; the message says why.
    """
    if getattr(kernel, "tables", ()):
        raise NoCudaForm(f"{kernel.name} gives or takes a tape or a union")
    is_region = isinstance(kernel, Region)
    launch = launch_of_region(kernel) if is_region else launch_of(kernel.body)
    constants = Constants()
    if launch.blocks > MOST_BLOCKS:
        raise NoCudaForm(f"it would have {launch.blocks:,} blocks")
    common = sum(bytes_of_own(p.body) for p in launch.parts if p.by_block)
    if common > COMMON_BYTES:
        raise NoCudaForm(f"its blocks would keep {common:,} bytes, which do not fit")
    printed = print_on_grid(kernel, name, constants, launch)
    return CudaKernel(
        name,
        f"{printed.comment}\n{printed.text}",
        tuple(map(origin_of, printed.buffers)),
        launch.grid,
        (launch.threads, 1, 1),
        printed,
        constants.definitions,
        launch,
    )


# ---- regions: one block runs them


class BlockBuilder(RegionBuilder):
    """Builds regions that one block runs: its threads divide the loops in it."""

    # One block has loops; a decomposition is not for a grid.
    kinds, largest_stack = {"loop"}, COMMON_BYTES

    def __init__(self, *args):
        super().__init__(*args)
        # Everything stands where it is run.
        self.shared = frozenset()

    def add(self, *stmts):
        """Loops come in the order that is a CPU's: here they are divided."""
        super().add(*map(collapsed, stmts))


def launch_of_region(region):
    """One block for a region's statements: -> `Launch`."""
    body = flattened(region_in_pairs(region).body, {})
    wide = [a.bounds[1] + 1 for a in axes_in(body) if a.kind in ("thread", "reduce")]
    threads = min(MOST_THREADS, warps_of(max(wide, default=1)))
    return Launch((Part((), True, body),), (1, 1, 1), threads)
