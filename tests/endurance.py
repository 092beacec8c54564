"""Random programs, guard pages, freed memory, signals, forks: for a seed and a budget.

    python -m tests.endurance --budget 60 [--seed 1]     # all of them, a share each
    python -m tests.endurance --only forks --budget 300

Each goes on until its share of the time is over, in processes of their own.  It says
how often it tried, and what went wrong; the exit status says whether anything did.
"""

import argparse
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np

HANG = 120  # Seconds of one process beyond its time.
EACH = 20  # Seconds of a process that forks others.


# ---- what goes on in a process of its own: generators, an item each time they tried


def ends(draw):
    """A program that compiles, calls, drops, and ends amid what it has."""
    import minijit as mj
    import minijit.numpy as jnp

    mj.jit(jnp.sin)(np.ones(3))  # The compiler is imported once, not in each child.

    def one(n, k):
        x, same = np.ones(n, "f4"), mj.ShapeDtypeStruct((n,), "f4")
        f = mj.jit(lambda x: jnp.sin(x) * k + x)
        slope = mj.jit(mj.grad(lambda x: jnp.sum(f(x) * jnp.cumsum(x))))
        kept = [f(x), slope(x), mj.vmap(f)(x[None])]
        assert abs(kept[0] - (np.sin(1) * k + 1)).max() < 1e-5 * (1 + k)
        if draw.random() < 0.5:
            kept.append(mj.jit(lambda x: mj.pure_callback(np.cos, same, x))(x))
        if draw.random() < 0.5:
            del f, slope, kept
            mj.clear_caches()
        if draw.random() < 0.5:
            gc.collect()
        if draw.random() < 0.3:
            work = lambda: [mj.jit(lambda x, j=j: x * j)(x) for j in range(99)]
            threading.Thread(target=work, daemon=True).start()

    while True:
        seed = draw.random()
        child = os.fork()  # To import all this anew takes longer than the rest.
        if not child:
            signal.alarm(HANG)
            draw.seed(seed)
            for _ in range(draw.randrange(1, 4)):
                one(draw.choice([3, 7, 1000, 300_000]), draw.random() * 3)
            sys.exit()  # Python ends as it does after a program.
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"a child of seed {seed} ends with {status}"
        yield


def interrupts(draw):
    """Ctrl-C at some moment of a cell of IPython's that compiles; then a collection."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.showtraceback = lambda *args, **named: None
    shell.run_cell("import minijit as mj, minijit.numpy as jnp, numpy as np")
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    while True:
        k, n = draw.random(), draw.randrange(5, 3000)
        cell = f"""
x = np.ones({n}, "f4")
f = mj.jit(mj.grad(lambda x: jnp.sum(jnp.tanh(x * {k}) * jnp.cumsum(x))))
y = f(x) + mj.jit(lambda x: jnp.sort(x)[::-1] * {k})(x)"""
        result = None
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.random() ** 2 * 0.3 + 1e-4)
            result = shell.run_cell(cell)
        except KeyboardInterrupt:
            pass  # It came while IPython was busy with itself, or before that.
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.collect()
        if result is not None and isinstance(result.error_in_exec, KeyboardInterrupt):
            again = shell.run_cell(f"assert float(mj.jit(lambda x: x + {k})(0.)) >= 0")
            assert again.error_in_exec is None, again.error_in_exec
            yield


def donations(draw):
    """Eight threads give arrays away whose memory another one may still look at."""
    import minijit as mj

    f = mj.jit(lambda x: x * 2 + 1, donate_argnums=0)
    made, views, wrong, tried = mj.jit(lambda k: k + np.zeros(1100, "f4")), [], [], []
    f(made(0.0))

    def work(seed):
        own = random.Random(seed)
        while not wrong:
            k = float(own.randrange(1000))
            x = made(k)
            if own.random() < 0.7:
                views.append((np.asarray(x), k))
            x = f(f(x))
            seen = np.asarray(x)
            if (seen != 4 * k + 3).any():
                wrong.append(("result", k, seen))
            try:
                view, k = views.pop(own.randrange(-1, 1))
            except IndexError:
                continue
            if (view != k).any():
                wrong.append(("view", k, view))
            del view
            tried.append(None)
            tried.append(None)

    sys.setswitchinterval(1e-6)
    for _ in range(8):
        seed = draw.random()
        threading.Thread(target=work, args=(seed,), daemon=True).start()
    while True:
        time.sleep(0.05)
        assert not wrong, wrong
        for _ in range(len(tried)):
            tried.pop()
            yield


def forks(draw):
    """A fork while four threads compile, clear caches, set flags and call back."""
    import minijit as mj
    import minijit.numpy as jnp

    warnings.simplefilter("ignore")
    x = np.ones(1000, "f4")

    def each(k):
        mj.jit(lambda x: jnp.sin(x) * k + x)(x)

    def clear(k):
        each(k)
        mj.clear_caches()

    def update(k):
        mj.config.update("jax_log_compiles", False)
        mj.jit(lambda x: jnp.linalg.cholesky(x * k))(np.eye(20, dtype="f4"))

    def back(k):
        same = mj.ShapeDtypeStruct(x.shape, "f4")
        mj.jit(lambda x: mj.pure_callback(lambda x: x * k, same, x))(x)

    def work(step):
        while True:
            step(random.random() + 0.5)

    for step in (each, clear, update, back):
        threading.Thread(target=work, args=(step,), daemon=True).start()
    while True:
        time.sleep(draw.random() * 0.05)
        child = os.fork()
        if not child:
            signal.alarm(60)
            y = mj.jit(lambda x: jnp.cos(x) * 0.7)(x)
            os._exit(0 if abs(y - np.cos(1) * 0.7).max() < 1e-5 else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"a child ends with {status}"
        yield


def within(kind, seed, budget):
    """Try until the time is over: prints how often, every second and at the end."""
    end, count = time.monotonic() + budget, 0
    told = time.monotonic()
    for _ in globals()[kind](random.Random(seed)):
        count += 1
        if time.monotonic() > told + 1:
            print(count, flush=True)
            told = time.monotonic()
        if time.monotonic() > end:
            break
    print(count, flush=True)
    os._exit(0)  # Threads go on for ever.


# ---- processes, one after the other


def in_processes(kind, seed, budget, environment=lambda seed: {}):
    """Processes until the time is over: -> (how often they tried, what went wrong)."""
    end, count, bad = time.monotonic() + budget, 0, []
    while (left := end - time.monotonic()) > 0:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.endurance"]
        share = min(left, EACH) if kind == "ends" else left
        command += ["--within", kind, "--seed", str(seed), "--budget", str(share)]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | environment(seed),
        )  # fmt: skip
        try:
            out, err = child.communicate(timeout=left + HANG)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            err += "it hangs"
        count += int(out.split()[-1]) if out else 0
        if child.returncode:
            bad.append(f"seed {seed} ends with {child.returncode}: {err[-2000:]}")
        seed += 1
    return count, bad


def freed(seed, budget):
    """What `ends` does, with freed memory overwritten by a byte."""
    byte = lambda seed: {
        "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": ("1", "90", "255")[seed % 3],
    }  # fmt: skip
    return in_processes("ends", seed, budget, byte)


def each(attempt, seed, budget, size=1):
    """One seed, or so many, after the other: what an attempt raises is wrong."""
    end, count, bad = time.monotonic() + budget, 0, []
    while time.monotonic() < end:
        try:
            attempt(seed + count)
        except Exception as error:
            bad.append(f"seed {seed + count}: {type(error).__name__}: {error}"[:300])
        count += size
    return count, bad


def guarded(seed, budget):
    """Random programs whose memory ends at pages that nobody may touch."""
    from tests.guarded import EACH, main

    def attempt(seed):
        assert main(EACH, seed), f"one of {EACH}"

    return each(attempt, seed, budget, EACH)


def memory(seed, budget):
    """Random programs with and without a plan of their memory."""
    from tests.random_memory import compare

    return each(compare, seed, budget)


def grid(seed, budget):
    """Random programs on a grid of threads, in lock-step."""
    from tests.random_cuda import on_a_grid

    return each(on_a_grid, seed, budget)


def fuzz(mode, seed, budget):
    """Random programs against jax; each is called five times, in two threads."""
    from tests.fuzz.__main__ import run

    verdicts = run(mode, seed, 0, 10**6, budget, 60)
    return sum(verdicts.values()), [kind for kind in verdicts if kind.isupper()]


KINDS = {
    "real": lambda *given: fuzz("real", *given),
    "odd": lambda *given: fuzz("odd", *given),
    "guarded": guarded,
    "memory": memory,
    "grid": grid,
    "freed": freed,
    **{
        kind: lambda seed, budget, kind=kind: in_processes(kind, seed, budget)
        for kind in ("ends", "interrupts", "donations", "forks")
    },
}


def main():
    parser = argparse.ArgumentParser("tests.endurance", description=__doc__)
    parser.add_argument("--budget", type=float, default=60, help="seconds in all")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--within", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.within:
        return within(args.within, args.seed, args.budget)
    kinds, wrong = [args.only] if args.only else list(KINDS), False
    for kind in kinds:
        count, bad = KINDS[kind](args.seed, args.budget / len(kinds))
        print(f"{kind}, seed {args.seed}: {count} tried, {len(bad)} wrong", flush=True)
        print(*bad, sep="\n", end="\n" if bad else "")
        wrong |= bool(bad)
    sys.exit(wrong)


if __name__ == "__main__":
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    # Of an index of a million elements it takes minutes.
    os.environ.setdefault("XLA_FLAGS", "--xla_disable_hlo_passes=constant_folding")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
