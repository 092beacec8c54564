"""Draw random programs, and judge them.

    python -m tests.fuzz --count 500 --budget 300 [--seed 1] [--mode odd] [--first 0]
    python -m tests.fuzz --show real:1:17        # the program's text, to be pasted
    python -m tests.fuzz --only real:1:17        # judge that one
    python -m tests.fuzz --any-way               # whatever its loops cost

A worker judges one program after the other; where it dies, or takes longer than
`--limit` seconds, that is reported and another worker goes on.
"""

import argparse
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from tests.fuzz.programs import MODES, draw

# Of how many odd programs one is compared with jax in any case.
ASKED = 4


def work(mode, seed, first, count, any_way):
    """Judge programs, and say of each what came of it."""
    from tests.fuzz.judge import Judge, Wrong, in_any_way

    warnings.simplefilter("ignore")  # Of what is drawn, some is bad style.
    judge = Judge(jit=in_any_way if any_way else None)
    for index in range(first, first + count):
        program = draw(mode, seed, index)
        print(f"begin {index}", flush=True)
        try:
            asked = mode == "real" or index % ASKED == 0
            verdict = "right" if judge(program, asked) else "refused by jax"
        except Wrong as error:
            verdict = f"WRONG: {error}"
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno} {where.name}"
            verdict = f"ERROR: {type(error).__name__}: {error}".replace("\n", " ")[:250]
            verdict += f"  [{place}]"
        print(f"{verdict}  ({program.transformed})", flush=True)


def lines_of(worker):
    """A queue of the lines a worker prints; None after the last one."""
    found = queue.Queue()

    def read():
        for line in worker.stdout:
            found.put(line.rstrip("\n"))
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


def jax_fails(name, limit):
    """Whether jax alone dies of a program, or takes more than so many seconds."""
    alone = [sys.executable, "-m", "tests.fuzz", "--theirs", name]
    try:
        done = subprocess.run(alone, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode < 0


def run(mode, seed, first, count, budget, limit, any_way=False):
    """Judge programs in workers: -> how often each verdict came."""
    verdicts, index, end = Counter(), first, time.monotonic() + budget
    while index < first + count and time.monotonic() < end:
        left = first + count - index
        command = [sys.executable, "-m", "tests.fuzz", "--mode", mode, "--worker"]
        command += ["--seed", str(seed), "--first", str(index), "--count", str(left)]
        command += ["--any-way"] * any_way
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines, drawing = lines_of(worker), True
        while time.monotonic() < end or not drawing:
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                line = f"SLOW: more than {limit} seconds"
            if line is None and index >= first + count:
                break
            line = f"DIED: status {worker.wait()}" if line is None else line
            if line.startswith("begin "):
                drawing = False
                continue
            kind = line.split(":")[0].split("  (")[0]
            if ended := kind in ("SLOW", "DIED"):
                worker.kill()
                if jax_fails(f"{mode}:{seed}:{index}", limit):
                    kind = "failed by jax"
            verdicts[kind] += 1
            if kind.isupper():
                print(f"{mode}:{seed}:{index}  {line}", flush=True)
            index, drawing = index + 1, True
            if ended:
                break
        worker.kill()
        worker.wait()
    found = ", ".join(f"{n} {kind}" for kind, n in verdicts.most_common())
    print(f"{mode}, seed {seed}, {first} to {index}: {found}", flush=True)
    return verdicts


def main():
    parser = argparse.ArgumentParser("tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--mode", choices=MODES, default="real")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=300, help="seconds")
    parser.add_argument("--limit", type=float, default=60, help="seconds a program")
    parser.add_argument("--any-way", action="store_true", help="loops at random")
    parser.add_argument("--show")
    parser.add_argument("--only")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--theirs", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if one := args.show or args.only or args.theirs:
        mode, seed, index = one.split(":")
        program = draw(mode, int(seed), int(index))
        print(program.text)
        if args.only:
            from tests.fuzz.judge import Judge, in_any_way

            judge = Judge(jit=in_any_way if args.any_way else None)
            print("right" if judge(program) else "refused by jax")
        elif args.theirs:
            from tests.fuzz.judge import theirs

            theirs(program)
    elif args.worker:
        work(args.mode, args.seed, args.first, args.count, args.any_way)
    else:
        which = args.mode, args.seed, args.first, args.count
        found = run(*which, args.budget, args.limit, args.any_way)
        sys.exit(any(kind.isupper() for kind in found))


if __name__ == "__main__":
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    # Of an index of a million elements it takes minutes.
    os.environ.setdefault("XLA_FLAGS", "--xla_disable_hlo_passes=constant_folding")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("MINIJIT_TRACEBACK_FILTERING", "off")
    main()
