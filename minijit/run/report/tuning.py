"""`minijit.tune`: the loops of each kernel are those that were fastest on the clock.

    found = minijit.tune(f)(x)
    print(found)               # what each kernel took before, and takes from now on
    f(x)                       # compiled anew with these loops; in other processes, too

The price of `choose` proposes, and the clock chooses.  The whole program runs, on the
caller's arguments, with a clock around each kernel: once with all kernels as they are,
once with the next best loops of each, and so on, in turns.  A kernel's winner has to
win once more, in a program with all the winners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...compile.loops.statements import Kernel
from ...compile.schedule.choose import (
    AS_FUSED, Choosing, by_themselves, choice, is_sound, prices_of, ways_of, ways_text,
)
from ...compile.schedule.machine import Machine
from ...trace.base.config import config, jit_is_disabled
from ...trace.core import Tracer
from ...trace.jit.jit import clear_caches
from ...trace.jit.signature import sort_arguments
from ...trace.trees.pytree import tree_leaves
from ...trace.types import Argnums
from ..loading import called
from ..values import to_array
from ..winners import keep_winner, key_of
from .explaining import jitted
from .kernel_log import steps_of, with_clocks

# A kernel that takes less than this share of a program's time stays as it is, and one
# that would gain less of its own: so much the clock says by chance.
SHARE = 0.02
# So many ways of a kernel are measured, besides its own: those that cost least.
WAYS = 4
# How often a program runs to be measured; if it takes longer than so many seconds,
# fewer times.  Of a kernel the shortest run counts.
RUNS, LONG, FEWER = 9, 0.1, 3


@dataclass(frozen=True)
class TunedKernel:
    """A kernel whose loops were measured.

    Attributes:
      names: of what runs its loops, as in `explain`; lines: of the user's program.
      before, after: what its loops are called.
      nanoseconds: {way: ns of all its runs in a call}, of each one that was measured.
    """

    names: tuple
    lines: tuple
    before: str
    after: str
    nanoseconds: dict

    @property
    def gained(self):
        return self.nanoseconds[self.before] - self.nanoseconds[self.after]

    def __str__(self):
        more = len(self.names) - 1
        name = f"{self.names[0]} and {more} more" if more else self.names[0]
        us = [f"{self.nanoseconds[w] / 1e3:>10.1f}" for w in (self.before, self.after)]
        stays = self.before == self.after
        how = f"{self.before} (stays)" if stays else f"{self.before} -> {self.after}"
        return f"{name:<22}{''.join(us)}  {how}"


@dataclass(frozen=True, repr=False)
class Tuned:
    """What `tune` has found.  Print it.

    Attributes:
      name: the function's.
      kernels: a `TunedKernel` for each one that was measured, what took longest first.
      before: ns of all kernels and calls of the program, until now.
    """

    name: str
    kernels: tuple
    before: int

    @property
    def after(self):
        """The same as `before`, from now on."""
        return self.before - sum(kernel.gained for kernel in self.kernels)

    def __str__(self):
        from ...compile.report.text import cut_to, line_text

        total = f"{'all kernels and calls':<22}{self.before / 1e3:>10.1f}"
        lines = [f"{self.name}: microseconds before and after, and the loops"]
        for kernel in self.kernels:
            lines.append(str(kernel))
            lines += [cut_to(f"  {line_text(line)}", 100) for line in kernel.lines]
        if not self.kernels:
            lines.append("no kernel that takes long has other loops to choose from")
        return "\n".join([*lines, f"{total}{self.after / 1e3:>10.1f}"])

    __repr__ = __str__


def tune(
    fun: Callable[..., Any], *, static_argnums: Argnums | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A function of `fun`'s arguments that measures its kernels' loops, and keeps the
    fastest.

    The program runs some fifty times on these arguments, with what it calls in Python.
    Whoever compiles the same kernels later on this machine, in any process, gets the
    loops that were fastest; here all that is compiled is forgotten, to be made anew.
    What `fun` donates stays as it is meanwhile.

    Args:
      fun: any function of arrays, jitted or not, transformed or not.
      static_argnums, static_argnames: as for `jit`, if `fun` is not jitted.

    Returns:
      A function that takes arguments and returns a `Tuned`: print it.

    Example:
        >>> f = mj.jit(lambda x: x.max(1))
        >>> found = mj.tune(f)(jnp.ones((20_000, 10)))
        >>> found.after <= found.before
        True
    """
    fun = jitted(fun, static_argnums, static_argnames)

    def run(*args, **kwargs):
        call = sort_arguments(fun.options, args, kwargs)
        leaves = tree_leaves((call.args, call.kwargs))
        refuse(leaves)
        entry = fun.lower(*args, **kwargs).entry
        if entry.refs is not None or entry.tracers:
            raise TypeError(
                f"tune runs {entry.name} many times, and it changes a Ref, or uses a "
                "value of a trace around it\n  Instead: make that an argument."
            )
        executable = entry.compile()
        if getattr(executable, "native", None) != "llvm" or (
            executable.at(leaves) is not executable
        ):
            raise TypeError(
                "tune measures loops that LLVM compiles for the CPU, and "
                f"{entry.name} runs otherwise\n  Instead: tune it without backend=..., "
                "on arrays that are on the CPU."
            )
        if isinstance(executable.program.settings, Choosing):
            raise TypeError(
                f"{entry.name} has a schedule of its own, which no clock changes\n"
                "  Instead: tune the function that was given to minijit.schedule."
            )
        arrays = list(map(to_array, leaves, executable.in_avals))
        found = Tuning(executable.program, executable.native).found(arrays)
        return keep(found)

    return run


def refuse(leaves):
    """Raise an error where there is nothing to measure."""
    if jit_is_disabled():
        raise RuntimeError(
            "tune measures compiled kernels, and under disable_jit nothing is compiled"
        )
    if (machine := config.read("machine")) != "host":
        raise RuntimeError(
            f"tune measures this machine, and loops are made for {machine!r}, which "
            'the flag "machine" names\n  Instead: config.override("machine", "host").'
        )
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            raise TypeError(
                f"tune runs a function and measures it, so it takes arrays, and got a "
                f"tracer of {leaf.aval}\n  Instead: call tune outside of jit, grad and "
                "vmap; they may be inside of the function."
            )
        if hasattr(leaf, "shape") and not hasattr(leaf, "__array__"):
            raise TypeError(f"tune runs a function on arrays, and got {leaf!r}")


def keep(found):
    """Keep what was found, and let all be compiled anew if that changes something."""
    tuned, records = found
    for record in records:
        keep_winner(*record)
    if any(kernel.before != kernel.after for kernel in tuned.kernels):
        clear_caches()
    return tuned


# ---- one program, in other loops


class Trial:
    """A program with a way for some of its kernels, and a clock around each step.

    Attributes:
      ways: {key of a kernel: the name of its way}; others are chosen as ever.
      made: {key: the name of the way that was chosen}.
      owners: for each step, in the order in which they run, the key or None.
    """

    def __init__(self, tuning, ways):
        self.tuning, self.ways = tuning, ways
        self.made, self.copies, self.candidates = {}, {}, {}
        self.program = self.copy(tuning.program)
        of_copy = {new: old for old, new in self.copies.items()}
        self.steps = [step for step, _ in steps_of(self.program, tuning.native)]
        self.owners = [
            tuning.owners.get((of_copy[step.program], step.stmt.name))
            if type(step.stmt) is Kernel else None
            for step in self.steps
        ]  # fmt: skip
        self.seconds = []
        took = lambda start, end: self.seconds.append(end - start)
        self.driver = with_clocks(self.program, tuning.native, took)

    def copy(self, program):
        """A program and those that it calls, each made anew with loops of ours."""
        if program not in self.copies:
            body = (
                replace(step, attrs=step.attrs | {"program": self.copy(inner)})
                if (inner := called(step))
                else step
                for step in program.body
            )
            settings = program.settings
            if not isinstance(settings, Choosing):
                settings = Choosing.by(self.chosen, settings)
            new = replace(program, body=tuple(body), settings=settings, donated=())
            self.copies[program] = new
        return self.copies[program]

    def chosen(self, program, kernel, machine):
        """The `Candidate` for a kernel, the same one however often it is asked for."""
        if kernel not in self.candidates:
            self.candidates[kernel] = self.choose(program, kernel, machine)
        return self.candidates[kernel]

    def choose(self, program, kernel, machine):
        if (key := self.tuning.keys.get(kernel)) is None:
            return None
        if key in self.ways:
            # Of several kernels with the same loops each has arrays of its own.
            found = ways_of(program, kernel)[self.ways[key]]
        else:
            found = choice(program, kernel, machine)
        self.made[key] = found.recipe if found else AS_FUSED
        return found

    def run(self, arrays):
        """{key: ns in one run}: those of kernels, and of all others together, None."""
        self.seconds.clear()
        self.driver(*arrays)
        found = dict.fromkeys(self.owners, 0) | {None: 0}
        for owner, seconds in zip(self.owners, self.seconds, strict=True):
            found[owner] += round(1e9 * seconds)
        return found


def measured(trials, arrays):
    """For each of some trials {key: ns}: the shortest of some runs, in turns."""
    first = [sum(trial.run(arrays).values()) for trial in trials]
    runs = RUNS if max(first) < 1e9 * LONG else FEWER
    every = [[trial.run(arrays) for trial in trials] for _ in range(runs)]
    return [
        {key: min(run[key] for run in runs) for key in runs[0]}
        for runs in zip(*every, strict=True)
    ]


class Tuning:
    """What may be chosen in a program.

    Attributes:
      keys: {kernel: the text by which what is measured is kept}.
      alone: {key: (program of nothing else, kernel)}; ways: {key: its ways}.
      owners: {(program, name of a kernel, or of one that it becomes): key}.
    """

    def __init__(self, program, native):
        self.program, self.native = program, native
        self.machine = Machine.in_force()
        self.keys, self.alone, self.ways, self.owners = {}, {}, {}, {}
        self.look_at(program, set())

    def look_at(self, program, known):
        own = isinstance(program.settings, Choosing) or not program.settings.enabled
        if program in known or own:
            return
        known.add(program)
        for step in program.body:
            if inner := called(step):
                self.look_at(inner, known)
        with config.override("fusion", program.settings):
            for alone in by_themselves(program, self.machine):
                kernel, = alone.body
                ways = ways_of(alone, kernel)
                key = key_of(alone, self.machine)
                self.keys[kernel] = key
                self.alone.setdefault(key, (alone, kernel))
                self.ways.setdefault(key, ways)
                most = max(len(c.bodies) if c else 1 for c in ways.values())
                names = [kernel.name, *(f"{kernel.name}_{n}" for n in range(1, most))]
                self.owners |= {(program, name): key for name in names}

    def found(self, arrays):
        """-> (`Tuned`, what is to be kept)."""
        first = Trial(self, {})
        before, = measured([first], arrays)
        least = SHARE * sum(before.values())
        matter = [key for key, ns in before.items() if key and ns >= least]
        matter.sort(key=before.get, reverse=True)
        others = {key: self.best(key, first.made[key]) for key in matter}
        others = {key: names for key, names in others.items() if names}
        rounds = [
            {key: names[n] for key, names in others.items() if n < len(names)}
            for n in range(max(map(len, others.values()), default=0))
        ]
        trials = [first, *(Trial(self, ways) for ways in rounds)]
        results = measured(trials, arrays) if rounds else [before]
        times = {
            key: {trial.made[key]: result[key]
                  for trial, result in zip(trials[::-1], results[::-1], strict=True)
                  if trial is first or key in trial.ways}
            for key in others
        }  # fmt: skip
        fastest = {key: min(found, key=found.get) for key, found in times.items()}
        if any(way != first.made[key] for key, way in fastest.items()):
            again = Trial(self, fastest)
            last, new = measured([first, again], arrays)
            for key, way in fastest.items():
                times[key] |= {way: new[key], first.made[key]: last[key]}
                if new[key] > (1 - SHARE) * last[key]:
                    fastest[key] = first.made[key]
        else:
            last = results[0]
        kernels, records = [], []
        for key, way in fastest.items():
            ns = dict(sorted(times[key].items(), key=lambda pair: pair[0] != way))
            pairs = zip(first.steps, first.owners, strict=True)
            steps = [step for step, owner in pairs if owner == key]
            names, lines = tuple(s.name for s in steps), tuple(steps[0].lines)
            kernels.append(TunedKernel(names, lines, first.made[key], way, ns))
            alone, kernel = self.alone[key]
            with config.override("fusion", alone.settings):
                records.append((key, ways_text(alone, kernel, self.ways[key]), ns))
        return Tuned(self.program.name, tuple(kernels), sum(last.values())), records

    def best(self, key, made):
        """The names of the ways that cost least, but for the one that is made now."""
        (alone, kernel), ways = self.alone[key], self.ways[key]
        with config.override("fusion", alone.settings):
            prices = prices_of(alone, kernel, ways, self.machine)
        order = sorted((name for name in ways if name != made), key=prices.get)
        sound = (n for n in order if not ways[n] or is_sound(alone, kernel, ways[n]))
        return [name for name, _ in zip(sound, range(WAYS), strict=False)]
