"""Runs a kernel's LLVM IR, of which PTX is made, by threads of the CPU.

    run_on_threads(kernel, x, y)        # y is written

`lockstep` runs the Python text of a kernel.  What a device is given is made of LLVM IR,
and this is the way to see it compute: a block is so many threads, blocks come one after
another.  What a thread asks of a device is a function of Python here: its numbers,
barriers, exchanges.
"""

import ctypes
import functools
import itertools
import re
import threading

from minijit.run.llvm.engine import Code
from minijit.run.llvm.target import binding

own = threading.local()
whole, single = ctypes.c_int32, ctypes.c_float


class Block:
    """What the threads of one block have in common."""

    def __init__(self, numbers, threads):
        self.numbers, self.values = numbers, [None] * threads
        self.barrier = threading.Barrier(threads)

    def exchange(self, mask, value, distance, limit):
        self.values[own.number] = value
        self.barrier.wait(60)
        found = self.values[own.number ^ distance]
        self.barrier.wait(60)
        return found


def wait():
    own.block.barrier.wait(60)


# name in LLVM IR -> (type of the result, of the arguments, function).
functions = {
    "read.ptx.sreg.tid.x": (whole, (), lambda: own.number),
    "barrier0": (None, (), wait),
}
functions |= {
    f"read.ptx.sreg.ctaid.{way}": (whole, (), lambda k=k: own.block.numbers[k])
    for k, way in enumerate("xyz")
}
functions |= {
    f"shfl.sync.bfly.{name}": (
        kind, (whole, kind, whole, whole), lambda *args: own.block.exchange(*args))
    for name, kind in (("f32", single), ("i32", whole))
}


@functools.cache
def known_functions():
    """Tell LLVM where the functions are: -> the objects that it calls."""
    made = []
    for name, (result, kinds, function) in functions.items():
        made.append(ctypes.CFUNCTYPE(result, *kinds)(function))
        address = ctypes.cast(made[-1], ctypes.c_void_p).value
        binding().add_symbol(f"of_device.{name}", address)
    return made


def run_on_threads(kernel, *arrays):
    """Run a `CudaKernel` on NumPy arrays in row-major order, some of which it fills."""
    known_functions()
    text = kernel.llvm.replace("ptx_kernel ", "").replace("llvm.nvvm", "of_device")
    text = re.sub(r"addrspacecast \(ptr addrspace\(3\) (@\w+) to ptr\)", r"\1", text)
    code = Code(text.replace("addrspace(3) ", ""))
    address = code.address(kernel.name)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(address)
    given = [a.ctypes.data for a in arrays]

    def work(block, number):
        own.block, own.number = block, number
        run(*given)

    threads = kernel.block[0]
    for numbers in itertools.product(*map(range, reversed(kernel.grid))):
        block = Block(numbers[::-1], threads)
        team = [threading.Thread(target=work, args=(block, k)) for k in range(threads)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
