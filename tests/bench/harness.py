"""Benchmarks by hand: one program on several systems, interleaved, as ratios.

    python -m tests.bench.bench_elementwise

A row is a program and its peers: minijit, NumPy, hand-written numba, jax where it is
installed.  The peers take turns, so that a noisy machine slows all of them; the best of
their times counts.  Beside them stands what the memory allows: the bytes that the
program cannot avoid to move, at the rate of a copy measured in the same run.
"""

import importlib.util
import os
import time
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One program.

    Attributes:
      name: what it computes.
      peers: {system: function without arguments}; each leaves a finished result.
      nbytes: what has to be read and written, or 0 where memory is not the limit.
    """

    name: str
    peers: dict
    nbytes: int = 0


def best_times(peers, seconds=1.0):
    """{name: shortest time in seconds}; the peers take turns for about that long."""
    for run in peers.values():
        run()
    best = dict.fromkeys(peers, np.inf)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in peers.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def copy_rate():
    """Bytes read and written a second by one NumPy copy into memory in use."""
    source, target = np.ones(25_000_000, "f4"), np.ones(25_000_000, "f4")
    seconds = best_times({"copy": lambda: np.copyto(target, source)})["copy"]
    return 2 * source.nbytes / seconds


def with_jax(peers, function, *args):
    """The peers, with jax among them if it is installed."""
    if importlib.util.find_spec("jax") is None:
        return peers
    import jax

    compiled = jax.jit(function)
    arrays = [jax.numpy.asarray(x) for x in args]
    return peers | {"jax": lambda: compiled(*arrays).block_until_ready()}


def show(rows):
    """Print the rows: minijit's time, then the others' as multiples of it."""
    rate = copy_rate()
    print(f"a copy moves {rate / 1e9:.1f} GB/s; minijit's time, then ratios to it")
    for name in sorted(os.environ.keys() & {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}):
        # The products of minijit and NumPy may take twice as long, those of jax not.
        print(f"not a fair run: {name}={os.environ[name]} is set")
    for row in rows:
        times = best_times(row.peers)
        own = times.pop("minijit")
        ratios = "  ".join(f"{name} {t / own:5.2f}x" for name, t in times.items())
        limit = f"  memory {row.nbytes / rate / own:5.2f}x" if row.nbytes else ""
        print(f"{row.name:34s} {1e3 * own:9.4f} ms   {ratios}{limit}")
