"""What is known of a kernel for a device before any device has run it.

    print(kernel_report(kernel, (9, 0)))
    # kernel_0: 40 blocks of 96 threads
    #   a thread's text loads 8 bytes and stores 4 (global), 3 and 3 (shared) ...
    #   28 registers, 0 bytes spilled, 12 bytes shared; 21 blocks at once, 98 % of ...

Bytes are counted in the PTX, each instruction once.  Registers are counted by NVIDIA's
assembler, which the package `nvidia-nvjitlink` brings; without it they are left out.
"""

import math
import re
from dataclasses import dataclass

from ..device.grid_memory import WARP, NoCudaForm
from .images import as_bytes, linked
from .kernels import CudaKernel

# Of one multiprocessor, by the first number of its compute capability: threads, blocks
# and bytes of shared memory, at the most.
LIMITS = {8: (2048, 32, 164 << 10), 9: (2048, 32, 228 << 10), 10: (2048, 32, 228 << 10)}
REGISTERS = 65536

accesses = re.compile(r"\b(ld|st)\.(global|shared|local)(?:\.nc)?(?:\.v(\d))?\.\w(\d+)")


def bytes_in_ptx(ptx):
    """{("ld", "global"): bytes, ...}: of all loads and stores in a text, each once."""
    found: dict = {}
    for what, where, many, bits in accesses.findall(ptx):
        size = int(many or 1) * int(bits) // 8
        found[what, where] = found.get((what, where), 0) + size
    return found


@dataclass(frozen=True)
class Assembled:
    """What the assembler says of a kernel.

    Attributes:
      registers: of a thread; spills: bytes for which there was none.
      shared: bytes of a block.
    """

    registers: int
    spills: int
    shared: int

    def blocks_at_once(self, threads, capability):
        """How many blocks a multiprocessor has room for."""
        most, blocks, shared = LIMITS[capability[0]]
        warps = -(-threads // WARP)
        # Registers are given to a warp, 256 at a time; a block has 1 KB more to share.
        own = -(-self.registers * WARP // 256) * 256 * warps
        room = shared // (self.shared + 1024)
        return min(blocks, room, REGISTERS // own, most // (warps * WARP))


def assembled(ptx, capability):
    """What NVIDIA's assembler says of a kernel's PTX: -> `Assembled`.

    Raises:
      NoCudaForm: it is not installed, or does not take the text.
    """
    try:
        _, said = linked([as_bytes(ptx)], capability)
    except ImportError:
        raise NoCudaForm(
            "there is no assembler: pip install cuda-bindings nvidia-nvjitlink"
        ) from None
    except RuntimeError as error:
        raise NoCudaForm(str(error)) from None
    count = lambda pattern: sum(map(int, re.findall(pattern, said)))
    registers = count(r"Used (\d+) registers")
    spills = count(r"(\d+) bytes spill (?:stores|loads)")
    return Assembled(registers, spills, count(r"(\d+) bytes smem"))


def kernel_report(kernel, capability=(9, 0), ptx_of=CudaKernel.ptx):
    """Some lines on a `CudaKernel`: grid, bytes, and what the assembler says.

    Args:
      ptx_of: function of kernel and capability: what compiles it.
    """
    ptx, threads = ptx_of(kernel, capability), kernel.block[0]
    blocks = math.prod(kernel.grid)
    lines = [f"{kernel.name}: {blocks} blocks of {threads} threads"]
    found = bytes_in_ptx(ptx)
    for where in ("global", "shared", "local"):
        loads, stores = (found.get((what, where), 0) for what in ("ld", "st"))
        if loads or stores:
            lines.append(f"  {where}: loads of {loads} bytes, stores of {stores}")
    lines.append(f"  arguments: {sum(b.nbytes for b in kernel.args):,} bytes")
    try:
        made = assembled(ptx, capability)
    except NoCudaForm as error:
        return "\n".join([*lines, f"  registers: not known, {error}"])
    blocks = made.blocks_at_once(threads, capability)
    share = 100 * blocks * threads // LIMITS[capability[0]][0]
    lines.append(
        f"  {made.registers} registers, {made.spills} bytes spilled, {made.shared} "
        f"bytes shared; {blocks} blocks at once, {share} % of the threads there can be"
    )
    return "\n".join(lines)
