"""Random realistic programs against jax, by hand: CPU time of a core, or wall time.

    python -m tests.bench.fuzz --seed 7 --count 200 [--first 0] [--budget 1200] [--wall]
    python -m tests.bench.fuzz --only idioms:7:13       # one, with its kernels
    python -m tests.fuzz --show idioms:7:13             # its text, to be pasted

Programs are those of `tests.fuzz.idioms`.  A worker with one core, one thread of BLAS
and one of kernels calls each on jax and on minijit, in turns; the least CPU time of
several batches counts, and what takes above `SLOW` of jax's time is measured again.
First calls are measured in CPU time too, each system going first in turn; no machine
code lies on the disk before a run, and all bytecode does, as after an installation.
With `--wall`, both have all cores and their own threads, and wall time counts.
"""

import argparse
import compileall
import gc
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict

import numpy as np

from tests.fuzz.__main__ import lines_of
from tests.fuzz.programs import draw, namespace

SLOW = 1.2  # A ratio above is measured again; the smaller one counts.
BATCH, ROUNDS, LONGEST = 0.003, 7, 0.5  # Seconds a batch, batches, seconds of a system.
WARM = 0.5  # Seconds of calls before: what is called often without jit is compiled.
SYSTEMS = ("minijit", "jax")
LEVELS = (50, 75, 90, 95, 99, 100)
WALL = "--wall" in sys.argv
clock = time.perf_counter if WALL else time.process_time


# ---- in the worker


def done(results):
    """Wait for results, which may be in tuples."""
    for r in results if isinstance(results, (tuple, list)) else [results]:
        if isinstance(r, (tuple, list)):
            done(r)
        else:
            r.block_until_ready()


def time_of(call, times=1):
    start = clock()
    for _ in range(times):
        done(call())
    return (clock() - start) / times


def steady(calls):
    """{system: least time of a call}; they take turns, a batch each."""
    once = {name: min(time_of(call), time_of(call)) for name, call in calls.items()}
    times = {name: max(int(BATCH / max(t, 1e-6)), 1) for name, t in once.items()}
    rounds = int(np.clip(LONGEST / max(*once.values(), BATCH), 2, ROUNDS))
    best = dict(once)
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], time_of(call, times[name]))
    return best


def calls_of(program, libraries):
    """{system: function without arguments}."""
    calls = {}
    for name, library in libraries.items():
        names = namespace(program.text, library)
        call = names.get("call") or library.jit(names["run"])
        arguments = [library.numpy.asarray(a) for a in names["arguments"]]
        calls[name] = lambda call=call, arguments=arguments: call(*arguments)
    return calls


def measured(program, libraries, turn):
    """{"first", "steady": {system: seconds}} of a program."""
    calls = calls_of(program, libraries)
    order = SYSTEMS[::-1] if turn else SYSTEMS
    first = {name: time_of(calls[name]) for name in order}
    if "without jit" in program.text:
        for name in order:
            end = time.perf_counter() + WARM
            while time.perf_counter() < end:
                done(calls[name]())
    found = steady(calls)
    if found["minijit"] > SLOW * found["jax"]:
        again = steady(calls)
        if again["minijit"] / again["jax"] < found["minijit"] / found["jax"]:
            found = again
    return {"first": first, "steady": found}


def prepared():
    """{system: library}, warm, in a process that has one core, or all of them."""
    if not WALL:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    warnings.simplefilter("ignore")
    import jax

    import minijit

    libraries = {"minijit": minijit, "jax": jax}
    for library in libraries.values():
        done(library.jit(lambda x: x @ x + 1)(library.numpy.ones((9, 9))))
    return libraries


def work(mode, seed, first, count):
    libraries = prepared()
    for index in range(first, first + count):
        program = draw(mode, seed, index)
        about = {"name": program.name, "family": program.family}
        about |= {"dtype": program.dtype, "transformed": program.transformed}
        about["jit"] = "without jit" not in program.text
        print("begin", flush=True)
        try:
            about |= measured(program, libraries, index % 2)
        except Exception as error:  # The driver names the program and goes on.
            about["error"] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        print(json.dumps(about), flush=True)
        gc.collect()


# ---- one program, with its kernels


def kernels(program, library):
    """The runs of a call that take longest, with what they compute and where."""
    call = calls_of(program, {"minijit": library})["minijit"]
    done(call())
    best = None
    for _ in range(5):
        with library.profile() as line:
            done(call())
        if best is None or line.seconds < best.seconds:
            best = line
    spent = defaultdict(float)
    for event in best:
        spent[event.step] += event.seconds
    lines = []
    for step, seconds in sorted(spent.items(), key=lambda kv: -kv[1])[:3]:
        rate = step.nbytes / max(seconds, 1e-9) / 1e9
        made = sorted({e.primitive.name for e in step.eqns})
        lines.append(
            f"    {1e6 * seconds:9.1f} us of {1e6 * best.seconds:.1f}  {step.name} "
            f"({step.route}) {rate:.1f} GB/s: {', '.join(made)[:90]}"
        )
        lines += [f"      {str(source)[:100]}" for source in list(step.lines)[:3]]
    return lines


def one(name):
    mode, seed, index = name.split(":")
    program, libraries = draw(mode, int(seed), int(index)), prepared()
    print(program.text)
    found = measured(program, libraries, 0)
    for what, times in found.items():
        ratio = times["minijit"] / times["jax"]
        each = ", ".join(f"{n} {1e3 * t:.4g} ms" for n, t in times.items())
        print(f"{what}: {ratio:.2f} ({each})")
    print("\n".join(kernels(program, libraries["minijit"])))


# ---- many programs


def workers(mode, seed, first, count, budget, limit):
    """What came of each program: dictionaries as `work` prints them."""
    index, end = first, time.monotonic() + budget
    while index < first + count and time.monotonic() < end:
        command = [sys.executable, "-m", "tests.bench.fuzz", "--worker", "--mode", mode]
        command += ["--seed", str(seed), "--first", str(index)]
        command += ["--count", str(min(first + count - index, 40))]
        command += ["--wall"] * WALL
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = lines_of(worker)
        while time.monotonic() < end:
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                worker.kill()
                line = None
            if line == "begin":
                continue
            if line is None and worker.wait() == 0:
                break
            if line is None:
                yield {"name": f"{mode}:{seed}:{index}", "error": "slow, or died"}
                index += 1
                break
            yield json.loads(line)
            index += 1
        worker.kill()
        worker.wait()


def ratio(row, what="steady"):
    return row[what]["minijit"] / row[what]["jax"]


def levels(title, ratios):
    found = "  ".join(f"{p}: {np.percentile(ratios, p):6.2f}" for p in LEVELS)
    print(f"{title:24s}{len(ratios):5d}   {found}")


def line_of(row, what="steady"):
    kind = f"{row['family']}, {row['dtype']}, {row['transformed']}"
    kind += "" if row["jit"] else ", without jit"
    ours, theirs = (1e3 * row[what][name] for name in SYSTEMS)
    times = f"{ours:.3f} ms, jax {theirs:.3f}"
    return f"{ratio(row, what):7.2f}  {row['name']:20s} {kind} ({times})"


def told(rows):
    """Print the ratios' distributions, and the worst programs."""
    for what in ("steady", "first"):
        levels(what, [ratio(r, what) for r in rows])
    for key in ("transformed", "jit", "dtype", "family"):
        groups = defaultdict(list)
        for r in rows:
            groups[str(r[key])].append(ratio(r))
        for name, ratios in sorted(groups.items(), key=lambda g: -np.median(g[1])):
            levels(f"{key} {name}", ratios)
    for what in ("steady", "first"):
        print(f"worst, {what}:")
        for r in sorted(rows, key=lambda r: -ratio(r, what))[:20]:
            print(f"  {line_of(r, what)}")


def main():
    parser = argparse.ArgumentParser(
        "tests.bench.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--mode", default="idioms")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--budget", type=float, default=1200, help="seconds")
    parser.add_argument("--limit", type=float, default=120, help="seconds a program")
    parser.add_argument("--only")
    parser.add_argument("--wall", action="store_true", help="wall time, all cores")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        return one(args.only)
    if args.worker:
        return work(args.mode, args.seed, args.first, args.count)
    rows = []
    given = args.mode, args.seed, args.first, args.count, args.budget, args.limit
    for row in workers(*given):
        if "error" in row:
            print(f"{row['name']}  {row['error']}", flush=True)
        else:
            rows.append(row)
            print(line_of(row), flush=True)
    told(rows)


if __name__ == "__main__":
    if not WALL:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        if "--worker" not in sys.argv:
            os.environ["MINIJIT_CACHE_DIR"] = folder
            package = importlib.util.find_spec("minijit").submodule_search_locations
            compileall.compile_dir(*package, quiet=1)
        main()
