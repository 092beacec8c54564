"""Fourier transforms outside of loops: SciPy's, on all cores if they take long.

Their results come from pools, as those of kernels do: to fill fresh pages takes a third
as long as the transform.
"""

import ctypes
import math

import numpy as np

from ...run.pool import Pool
from ...run.values import evaluators
from ...trace.base.config import config
from ..fft import fft_numpy, fft_p, routines

# About how many nanoseconds a number takes in each of a transform's log2(n) rounds.
ROUND = 0.4


def evaluator(call):
    """The function for a transform outside of loops, or None for the eval rule."""
    (view,), params = call.outputs, call.attrs["params"]
    n, size = math.prod(params["fft_lengths"]), math.prod(view.shape)
    if n == 0 or size == 0 or routines() is None:
        return None
    new = Pool(view.shape, view.buffer.dtype).take
    duration = size * math.log2(n) * ROUND

    def evaluate(x):
        long = duration > config.thread_time
        made, cores = new(), max(config.read("cpu_threads"), 1) if long else 1
        # It is read-only for all others.
        memory = (ctypes.c_char * made.nbytes).from_address(made.ctypes.data)
        fft_numpy(x, np.ndarray(made.shape, made.dtype, memory), cores, **params)
        return [made]

    return evaluate


evaluators |= {fft_p: evaluator}
