"""The price of loops against the clock: how much its choice loses, kernel by kernel.

    python -m tests.bench.bench_schedule --count 40 --threads 1 [--seed 5] [--golden]

Kernels of random programs at real sizes (or of the golden ones), each made alone and
run in each way that is proposed for it, in turns.  What each way computes is compared
with what today's passes do.  Reported: the rank correlation of prices and times, and
what the cheapest, and the loops without a choice, take beside the best.
"""

import argparse
import time

import numpy as np

import minijit as mj
from minijit.compile.loops.scalars import storage_dtype
from minijit.compile.lower.walk import lower
from minijit.compile.pipeline import rewrites
from minijit.compile.schedule import choose, recipes
from minijit.compile.schedule.machine import Machine
from minijit.compile.simplify.folding import simplify
from minijit.run.loading import load, rewritten_programs
from minijit.trace.base.config import config


def runs_of(program, kernel, machine):
    """({recipe: price}, {recipe: function of arrays}) of a program of one kernel."""
    found = {c.recipe: c for c in recipes.candidates(kernel, program.temps)}
    ways = {"as fused": program}
    for recipe, candidate in found.items():
        if choose.is_sound(program, kernel, candidate):
            ways[recipe] = choose.with_candidates(program, {kernel: candidate})
    chosen, prices, runs = dict(rewrites), {}, {}
    for recipe, way in ways.items():
        prices[recipe] = choose.price_of(way, machine)
        for name, rewrite in chosen.items():
            way = way if name == "scheduled" else rewrite(way)
        rewritten_programs[way] = {None: None}
        runs[recipe] = load(way, native="llvm").run
    return prices, runs


def arrays_for(buffers, rng):
    for b in buffers:
        dtype = np.dtype(storage_dtype(b.dtype))
        if dtype.kind in "fcV":
            yield rng.uniform(0.1, 1.0, b.shape).astype(dtype)
        else:
            yield rng.integers(0, 2, b.shape).astype(dtype)


def same(found, wanted):
    """Whether two results agree, as far as sums in another order do."""
    for a, b in zip(found, wanted, strict=True):
        if a.dtype.kind not in "fc":
            if a.dtype.kind in "iub" and (a != b).mean() > 1e-3:
                return False
            continue
        a, b = a.astype("c16"), b.astype("c16")
        scale = np.nanmax(abs(b), initial=1e-6)
        eps = 4e-2 if found[0].dtype.itemsize < 4 else 1e-3
        if not np.allclose(a, b, eps, eps * scale, equal_nan=True):
            return False
    return True


def measured(runs, arrays, seconds):
    """{recipe: shortest seconds}; and the recipes that compute something else.

    Of one thread, what others do on the machine is not counted.
    """
    alone = config.read("cpu_threads") == 1
    clock = time.thread_time if alone else time.perf_counter
    wanted = [np.array(a) for a in runs["as fused"](*arrays)]
    wrong = {r for r, run in runs.items() if not same(run(*arrays), wanted)}
    best = dict.fromkeys(runs, np.inf)
    end, rounds = time.perf_counter() + seconds * len(runs), 0
    while rounds < 5 or time.perf_counter() < end and rounds < 60:
        for recipe, run in runs.items():
            if rounds >= 3 and best[recipe] > 6 * min(best.values()):
                continue
            start = clock()
            run(*arrays)
            best[recipe] = min(best[recipe], clock() - start)
        rounds += 1
    return best, wrong


def rank_correlation(xs, ys):
    x, y = (np.argsort(np.argsort(v)) for v in (xs, ys))
    return float(np.corrcoef(x, y)[0, 1])


def drawn(seed, count):
    """(name, program) of random programs at real sizes."""
    from tests.fuzz.programs import draw, namespace

    index = 0
    while count:
        program = draw("real", seed, index)
        index += 1
        names = namespace(program.text, mj)
        try:
            with mj.config.override("enable_x64", program.x64):
                args = names["arguments"]
                closed = mj.make_jaxpr(names["run"])(*args)
                yield program.name, lower(simplify(closed), programs={})
        except Exception as error:
            print(f"{program.name}: {type(error).__name__}: {error}"[:120])
        count -= 1


def golden():
    from tests.golden.programs import families

    for family in families:
        for name, (f, args) in families[family]().items():
            closed = mj.make_jaxpr(f)(*args)
            yield f"{family}/{name}", lower(simplify(closed), programs={})


def kernels_of(programs, machine):
    """(name, program of one kernel, that) for kernels that may matter."""
    for name, program in programs:
        for alone in choose.by_themselves(program, machine):
            kernel, = alone.body
            yield f"{name} {kernel.name}", alone, kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=40, help="programs")
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05, help="a way")
    parser.add_argument("--budget", type=float, default=240, help="seconds in all")
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    mj.config.update("cpu_threads", args.threads)
    mj.config.update("pool_bytes", 1 << 34)
    machine, rng, rows = Machine.in_force(), np.random.default_rng(0), []
    programs = golden() if args.golden else drawn(args.seed, args.count)
    end = time.monotonic() + args.budget
    for name, program, kernel in kernels_of(programs, machine):
        if args.only not in name:
            continue
        if time.monotonic() > end:
            break
        prices, runs = runs_of(program, kernel, machine)
        if len(runs) < 2:
            continue
        arrays = list(arrays_for(program.inputs, rng))
        times, wrong = measured(runs, arrays, args.seconds)
        best, cheapest = min(times.values()), min(prices, key=prices.get)
        rank = rank_correlation([prices[r] for r in times], list(times.values()))
        rows.append((times[cheapest] / best, times["as fused"] / best, rank,
                     times["as fused"]))  # fmt: skip
        told = ", ".join(
            f"{r} {1e3 * times[r]:.3f} ({prices[r] / 1e6:.3f})"
            for r in sorted(times, key=times.get)
        )
        print(f"{name}: loss {rows[-1][0]:.2f}, as fused {rows[-1][1]:.2f}: {told}"
              + (f"  WRONG: {sorted(wrong)}" if wrong else ""), flush=True)  # fmt: skip
    report(rows, args.threads)


def report(rows, threads):
    if not rows:
        print("no kernel with a choice")
        return
    loss, fused, rank, _ = np.array(rows).T
    print(f"{len(rows)} kernels, {threads} threads, times in ms (prices)")
    for name, ratio in (("the cheapest", loss), ("as fused", fused)):
        worst = f"worst {ratio.max():.2f}"
        print(f"{name} beside the best: mean {ratio.mean():.3f}, {worst}")
    print(f"rank correlation: median {np.median(rank):.2f}, worst {rank.min():.2f}")


if __name__ == "__main__":
    main()
