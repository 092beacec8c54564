"""Benchmarks by hand: one program on several systems, interleaved, as ratios.

    python -m tests.bench.bench_kernels

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

import minijit
import minijit.numpy

rng = np.random.default_rng(0)


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


def systems():
    """{name: library}: minijit, and jax where it is installed."""
    found = {"minijit": minijit}
    if importlib.util.find_spec("jax") is not None:
        found["jax"] = importlib.import_module("jax")
    return found


def floats(*shape, scale=1.0):
    return (rng.normal(size=shape) * scale).astype("f4")


def row(name, make, *args, nbytes=0, **others):
    """A row of `make(library)` on its arguments, of which each system says the same.

    Args:
      others: {another peer: function without arguments}.
    """
    peers, results = {}, []
    for system, lib in systems().items():
        f, given = lib.jit(make(lib)), lib.tree.map(lib.numpy.asarray, args)
        results.append([np.asarray(x) for x in lib.tree.leaves(f(*given))])
        peers[system] = lambda lib=lib, f=f, x=given: lib.block_until_ready(f(*x))
    for found, want in zip(results[0], results[-1], strict=True):
        # On average: the steps of some programs lead far apart from a last digit on.
        scale = float(np.nanmax(np.abs(want))) or 1.0
        assert np.nanmean(np.abs(found - want)) < 1e-3 * scale, name
    return Row(name, peers | others, nbytes)


def show_calls(programs, count, wanted=()):
    """Print what a call costs; `programs(library)` is {name: function} of a system.

    Each peer makes so many calls of one kind in turn, and waits for the last.
    """
    def repeated(call, lib):
        def run():
            for _ in range(count):
                result = call()
            lib.block_until_ready(result)

        return run

    table = {system: (programs(lib), lib) for system, lib in systems().items()}
    print("microseconds a call")
    for name in table["minijit"][0]:
        if wanted and not any(part in name for part in wanted):
            continue
        peers = {k: repeated(calls[name], lib) for k, (calls, lib) in table.items()}
        times = {k: 1e6 * t / count for k, t in best_times(peers).items()}
        own = times["minijit"]
        told = (f"{k} {t:7.2f} ({own / t:.2f} of it)" for k, t in times.items())
        print(f"{name:28s} {'   '.join(told)}")


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
