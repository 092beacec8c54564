"""What minijit makes of a random program: right, five times over, and in two threads.

A program is called again and again: while its results are kept, after they were
dropped, in two threads, beside the programs judged before.  Each answer has the bits of
the first.  That one is as far from jax's evaluation as rounding explains, where every
value on the way moves by a unit in the last place or two; or it is not much farther
than jax is from what jax says in 64 bits.
"""

import random
import threading
from collections import deque
from functools import partial

import numpy as np

import minijit
from minijit.compile.fuse.fuse_settings import FusedFunction
from minijit.compile.schedule.choose import Choosing, is_sound, plain_text, ways_of
from tests.fuzz.programs import namespace

# How far a result may be from jax's, as a part of the largest element.
TOLERANCE = {"bfloat16": 4e-2, "float16": 5e-3, "float32": 1e-4, "complex64": 1e-4}
TOLERANCE |= {"float64": 1e-9, "complex128": 1e-9}
# A program that computes in a narrow dtype: its wider results are about as far off.
NARROW = {d: 0.4 * TOLERANCE[d] for d in ("bfloat16", "float16", "float32")}
EPS = {"bfloat16": 2**-8, "float16": 2**-11, "float32": 2**-24, "float64": 2**-53}
EPS["complex64"] = EPS["float32"]


class Wrong(AssertionError):
    """An answer that no rounding explains, or that is not the first one."""


def leaves(results):
    if isinstance(results, (tuple, list)):
        return [a for r in results for a in leaves(r)]
    return [np.array(results)]


def wide(a):
    """An array in 64 bits, to be compared."""
    return a.astype("c16" if a.dtype.kind == "c" else "f8")


def far(found, wanted):
    """How far results are apart: one number an array, infinite if NaN is elsewhere."""
    apart = []
    for a, b in zip(found, wanted, strict=True):
        a, b = wide(a), wide(b)
        with np.errstate(all="ignore"):
            plain = np.isfinite(b)
            if not np.array_equal(np.isfinite(a), plain):
                apart.append(np.inf)
                continue
            if not np.array_equal(a[~plain], b[~plain], equal_nan=True):
                apart.append(np.inf)
                continue
            a, b = a[plain], b[plain]
            scale = max(abs(b).max(initial=0), 1e-3)
            apart.append(float((abs(a - b) / scale).max(initial=0)))
    return apart


def in_range(*evaluations):
    """Evaluations of one result, less what is infinite or NaN in one of them.

    How long a product stays beyond its dtype's range depends on the order of factors.
    """
    inside = np.logical_and.reduce([np.isfinite(wide(a)) for a in evaluations])
    return [a[inside] for a in evaluations]


def typed(a):
    return a.dtype, a.shape


def off_by(text, wanted):
    """How far each result of a program may be off."""
    narrow = max(off if name in text else 0 for name, off in NARROW.items())
    return [max(TOLERANCE.get(str(b.dtype), 0), narrow) for b in wanted]


def alike(text, found, wanted=None):
    """Whether two evaluations of a program say the same, where there are two."""
    if wanted is None or list(map(typed, found)) != list(map(typed, wanted)):
        return False
    pairs = zip(far(found, wanted), off_by(text, wanted), strict=True)
    return all(d <= t for d, t in pairs)


class Shaken:
    """A program of jax's whose every value moves by a unit in the last place or two.

    `left` says whether a value left the range of its dtype on the way.
    """

    def __init__(self, jaxpr, seed):
        self.jaxpr, self.draw, self.left = jaxpr, np.random.default_rng(seed), False

    def __call__(self, arguments):
        return [np.array(a) for a in self.evaluate(self.jaxpr, arguments)]

    def moved(self, a):
        if str(a.dtype) not in EPS:
            return a
        part = 1 + 2 * EPS[str(a.dtype)] * self.draw.choice([-1, 1], np.shape(a))
        with np.errstate(all="ignore"):
            found = np.asarray(wide(np.asarray(a)) * part).astype(a.dtype)
        self.left |= not np.isfinite(wide(found)).all()
        return found

    def evaluate(self, closed, arguments):
        jaxpr = closed.jaxpr
        values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        values |= zip(jaxpr.invars, map(self.moved, arguments), strict=True)
        for equation in jaxpr.eqns:
            given = [a.val if hasattr(a, "val") else values[a] for a in equation.invars]
            if equation.primitive.name == "jit":
                out = self.evaluate(equation.params["jaxpr"], given)
            else:
                params = equation.primitive.get_bind_params(equation.params)
                out = equation.primitive.bind(*given, **params)
            out = out if isinstance(out, (list, tuple)) else [out]
            values |= zip(equation.outvars, map(self.moved, out), strict=True)
        return [a.val if hasattr(a, "val") else values[a] for a in jaxpr.outvars]


def theirs(program):
    """What jax alone says to a program."""
    import jax

    with jax.enable_x64(program.x64):
        names = namespace(program.text, jax)
        return leaves(jax.jit(names["run"])(*names["arguments"]))


def in_any_way(f):
    """`f` jitted, each kernel, also of loops and branches, in one of the ways that are
    proposed for it.

    The price takes few of them: what is wrong with another one, nobody would see.
    """

    def chooser(program, kernel, machine):
        draw = random.Random(plain_text(program))
        chosen = draw.choice([*ways_of(program, kernel).values()])
        if chosen and not is_sound(program, kernel, chosen):
            raise Wrong(f"the checker refuses {chosen.recipe}")
        return chosen

    jitted = minijit.jit(f)
    changes = partial(Choosing.by, chooser)
    return FusedFunction(jitted.function, jitted.options, changes)


class Judge:
    """Compares programs, in one process, one after the other.

    Args:
      remembered: how many programs are called again beside those after them.
      jit: what a program is jitted by, if not by `minijit.jit`.
    """

    def __init__(self, remembered=3, jit=None):
        import jax

        self.jax, self.jit, self.calls = jax, jit, 0
        self.before, self.kept = deque(maxlen=remembered), deque(maxlen=20)

    def __call__(self, program, asked=True):
        """Raise Wrong, or an error of minijit's own; None: jax refuses the program.

        Args:
          asked: whether jax is asked in any case.  If not, it is where minijit raises,
            or says something else without jit than with it: jax's compiler takes longer
            than all the rest.
        """
        text, x64 = program.text, program.x64
        with self.jax.enable_x64(x64), minijit.enable_x64(x64):
            ours = namespace(text, minijit)
            run, handed = (self.jit or minijit.jit)(ours["run"]), ours["arguments"]
            found, error = {}, None
            try:
                found["jit"] = leaves(run(*handed))
                if sum(a.size for a in handed) < 100_000:
                    eager = ours["run"](*map(minijit.numpy.asarray, handed))
                    found["without jit"] = leaves(eager)
            except Exception as raised:
                error = raised
            if asked or error or not alike(text, *found.values()):
                theirs = namespace(text, self.jax)
                arguments, plain = theirs["arguments"], theirs["run"]
                reference = self.jax.jit(plain)
                try:
                    wanted = leaves(reference(*arguments))
                except Exception:
                    return None
                if error:
                    raise error
                for road, results in found.items():
                    self.agree(results, wanted, reference, plain, arguments, road, text)
            self.again(run, handed, found["jit"], x64)
        return True

    def agree(self, found, wanted, reference, plain, arguments, road, text):
        """Raise Wrong unless results are as near to jax's as rounding lets them."""
        for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if typed(a) != typed(b):
                raise Wrong(
                    f"{road}, result {i}: {a.dtype}{a.shape}, jax {b.dtype}{b.shape}"
                )
        allowed, apart = off_by(text, wanted), far(found, wanted)
        if all(d <= t for d, t in zip(apart, allowed, strict=True)):
            return
        shaken, left, jaxpr = [0.0] * len(wanted), False, self.jax.make_jaxpr(plain)
        jaxpr = jaxpr(*arguments)
        for seed in range(4):
            evaluation = Shaken(jaxpr, seed)
            near = evaluation(arguments)
            left |= evaluation.left
            shaken = [max(s, d) for s, d in zip(shaken, far(near, wanted), strict=True)]
        if left:
            inside = [in_range(*each) for each in zip(found, wanted, near, strict=True)]
            apart = far([a for a, _, _ in inside], [b for _, b, _ in inside])
            shaken = far([c for _, _, c in inside], [b for _, b, _ in inside])
        nearer = self.nearer(found, wanted, reference, arguments)
        # What jax says without jit: its compiler errs, too.
        by_step = far(found, leaves(plain(*map(self.jax.numpy.asarray, arguments))))
        for i, (d, t, s) in enumerate(zip(apart, allowed, shaken, strict=True)):
            if d > t + 16 * s and not nearer[i] and by_step[i] > t:
                raise Wrong(f"{road}, result {i}: {d:.2g} off, {s:.2g} if values move")

    def nearer(self, found, wanted, reference, arguments):
        """For each result whether it is about as near to jax in 64 bits as jax itself.

        No, if jax does not take the program so.
        """
        wider = [wide(a) if str(a.dtype) in EPS else a for a in arguments]
        try:
            with self.jax.enable_x64(True):
                exact = leaves(reference(*wider))
        except TypeError:
            return [False] * len(found)
        ours, theirs = far(found, exact), far(wanted, exact)
        return [a <= 4 * b < np.inf for a, b in zip(ours, theirs, strict=True)]

    def again(self, run, arguments, first, x64):
        """Raise Wrong unless later answers have the first one's bits."""
        handed = [minijit.numpy.asarray(a) for a in arguments]
        before = list(map(np.array, handed))
        self.same(run, handed, first, "second call, results kept", keep=True)
        self.same(run, arguments, first, "third call, after a drop")
        failures = []
        self.before.append((run, handed, first, x64))

        def beside(turn):
            cases = list(self.before)
            for run, given, want, wide in cases[::-1] if turn else cases:
                with minijit.enable_x64(wide):
                    try:
                        self.same(run, given, want, "two threads at once", keep=turn)
                    except Exception as error:
                        failures.append(error)

        threads = [threading.Thread(target=beside, args=(i,)) for i in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        if failures:
            raise failures[0]
        for a, b in zip(handed, before, strict=True):
            if np.array(a).tobytes() != b.tobytes():
                raise Wrong("an argument was written to")

    def same(self, run, arguments, first, when, keep=False):
        results = run(*arguments)
        self.calls += 1
        found = leaves(results)
        if keep:
            self.kept.append(results)
            if sum(sum(a.nbytes for a in leaves(r)) for r in self.kept) > 4e8:
                self.kept.clear()
        for i, (a, b) in enumerate(zip(found, first, strict=True)):
            if a.tobytes() != b.tobytes():
                (off,) = far([a], [b])
                if not (off == 0 and a.dtype.kind in "fc"):
                    raise Wrong(
                        f"{when}: result {i} is not the first answer, {off:.2g} off"
                    )
