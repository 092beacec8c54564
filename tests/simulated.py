"""Programs in numba's simulator, each against the CPU: `python -m tests.simulated`.

Prints what differs, and last how many agree; with names, of those programs only.  The
simulator has a thread of the system for each of a kernel's.
"""

import os
import sys
import threading

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numpy as np
from numba.cuda.simulator.kernelapi import FakeCUDAModule

from minijit import jit
from minijit.tree_util import tree_leaves
from tests.cuda_programs import programs


def shfl_xor_sync(self, mask, value, distance):
    """What the simulator lacks; all threads of a block come here, or none does."""
    me = threading.current_thread()
    shown = vars(me._manager).setdefault("shown", {})
    shown[me.thread_id] = value
    self.syncthreads()
    other = shown[me.thread_id ^ distance]
    self.syncthreads()
    return other


FakeCUDAModule.shfl_xor_sync = shfl_xor_sync


def arrays(f, args, backend):
    return list(map(np.asarray, tree_leaves(jit(f, backend=backend)(*args))))


def distance(found, wanted):
    """How far arrays are from others, as a part of the largest number of these."""
    far = 0.0
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = (x.astype("c16" if x.dtype.kind == "c" else "f8") for x in (a, b))
        far = max(far, abs(a - b).max() / (abs(b).max() + 1e-6))
    return far


def main(*names):
    agree, chosen = 0, names or programs
    for name in chosen:
        f, args = programs[name]
        found, wanted = (arrays(f, args, backend) for backend in ("numba-cuda", None))
        halves = any(x.dtype.name in ("float16", "bfloat16") for x in wanted)
        far = distance(found, wanted)
        agree += far < (1e-2 if halves else 5e-6)
        if far >= (1e-2 if halves else 5e-6):
            print(f"{name}: {far:.1e}")
    print(f"{agree} of {len(chosen)} agree")


if __name__ == "__main__":
    main(*sys.argv[1:])
