"""`minijit.schedule`: loops of the user's own, made of the same rewrites as recipes.

    def by_rows(loops):
        print(loops)                        # the kernel, as loops
        loops = loops.distribute()          # each store and total in loops of its own
        return loops.reorder(2, "i1", "i0")

    f = minijit.schedule(f, by_rows)

Each rewrite asks what recipes ask.  Where it is not sure that the loops compute the
same, there is a `ScheduleError`, which says what is in the way, and what there is
instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...trace.jit.jit import JitFunction, jit
from ..decisions import loop_rules
from ..fuse.fuse_settings import FusedFunction
from ..loops.text import written
from .choose import (
    AS_FUSED, Choosing, choice, is_sound, price_of, prices_of, taken, ways_of,
    with_candidates,
)
from .place import place
from .primitives import NotAllowed, check_order, distribute, reordered
from .recipes import Candidate, apart, together

BY_HAND = "by hand"


class ScheduleError(ValueError):
    """A recipe asks for loops that are not sure to compute what the kernel does."""


def text_of(body):
    """-> (the loops of some statements as text, {axis: its name})"""
    writer = written(place(body, prepare=tuple))
    return "\n".join(writer.lines), writer.known


@dataclass(frozen=True, repr=False)
class Loops:
    """The loops of a kernel, as a recipe is given them; print them.

    Nothing changes them: each rewrite returns others.

    Attributes:
      kernel, machine: what they are for; program: of nothing else.
      nests: one for each store, if they are apart; else None.
      temps: the arrays that are new.
      candidate: the `Candidate` that they are; None for the kernel's own loops.
    """

    program: object
    kernel: object
    machine: object
    nests: tuple | None = None
    temps: tuple = ()
    candidate: Candidate | None = None

    @property
    def name(self):
        """The kernel's name in its program."""
        return self.kernel.name

    @property
    def lines(self):
        """The lines of the user's program that the kernel computes."""
        return tuple(map(str, self.kernel.sources))

    @property
    def ways(self):
        """{name: price in nanoseconds} of what `take` takes."""
        ways = ways_of(self.program, self.kernel)
        return prices_of(self.program, self.kernel, ways, self.machine)

    @property
    def price(self):
        """What they cost on the machine in force, in nanoseconds."""
        there = with_candidates(self.program, {self.kernel: self.candidate})
        return price_of(there, self.machine)

    def __str__(self):
        if self.nests is not None:
            each = (text_of(nest.body)[0] for nest in self.nests)
            return "\n".join(f"nest {n}:\n{text}" for n, text in enumerate(each))
        bodies = self.candidate.bodies if self.candidate else [self.kernel.body]
        return "\n".join(text_of(body)[0] for body in bodies)

    __repr__ = __str__

    @property
    def distributed(self):
        """The nests, which have to be apart."""
        if self.nests is None:
            raise self.error("its loops are not apart: distribute() comes first")
        return self.nests

    # ---- rewrites

    def take(self, name):
        """The way of that name, one of those that are proposed: see `ways`."""
        ways = ways_of(self.program, self.kernel)
        if name not in ways:
            raise self.error(f"it has no way to run called {name!r}")
        return replace(self, nests=None, temps=(), candidate=ways[name])

    def distribute(self):
        """Each store, and each total that is a part of one, in loops of its own."""
        try:
            nests, temps = distribute(self.kernel.body, self.kernel.name)
        except NotAllowed as refused:
            raise self.refused("distribute", refused, self.kernel.body) from None
        return self.apart(nests, temps)

    def reorder(self, nest=None, *axes):
        """A nest with its loops in another order, given by names, the outermost first.

        Loops that are not named stay inside of those, as they were.  Without any names
        memory runs along the innermost loop; without a number, that of all nests.
        """
        nests = self.distributed
        if nest is not None and nest not in range(len(nests)):
            raise self.error(f"it has no nest {nest}, but 0 to {len(nests) - 1}")
        new = [
            self.in_order(n, old, axes) if nest in (n, None) else old
            for n, old in enumerate(nests)
        ]
        return self.apart(new, self.temps)

    def in_order(self, number, nest, axes):
        """A nest with its loops in the order that some names say."""
        names = {f"i{n}": axis for n, axis in enumerate(nest.axes)}
        if not names.keys() >= {*axes} or len({*axes}) < len(axes):
            asked, there = ", ".join(axes), ", ".join(names)
            raise self.error(f"nest {number} has the loops {there}, and not {asked}")
        try:
            check_order(nest)
        except NotAllowed as refused:
            what = f"reorder of nest {number}"
            raise self.refused(what, refused, nest.body) from None
        if not axes:
            return reordered(nest)
        rest = (axis for name, axis in names.items() if name not in axes)
        return replace(nest, axes=(*(names[a] for a in axes), *rest))

    def join(self):
        """Nests that go through the same rows in one loop, with rows of its own."""
        alone = frozenset(self.program.temps)
        candidate = together(self.distributed, self.temps, alone, BY_HAND)
        if candidate is None:
            raise self.error(
                "no two nests, one after the other, have a loop in common in which a "
                "step uses what the same step has stored, so none join"
            )
        return replace(self, nests=None, temps=(), candidate=candidate)

    def apart(self, nests, temps):
        candidate = apart(nests, temps, BY_HAND)
        return replace(self, nests=tuple(nests), temps=temps, candidate=candidate)

    # ---- errors

    def refused(self, what, refused, body):
        """The error for a rewrite whose precondition is not met."""
        text, names = text_of(body)
        loop = f"loop {names[refused.about]}: " if refused.about in names else ""
        return self.error(f"{what} is not allowed: {loop}{refused.why}", text)

    def error(self, why, text=None):
        told = "\n".join(f"    {line}" for line in (text or str(self)).split("\n"))
        where = f" ({self.lines[0]})" if self.lines else ""
        others = [n for n in ways_of(self.program, self.kernel) if n != AS_FUSED]
        there = "no other ways to run it are known: return None, and it stays as it is."
        if others:
            names = ", ".join(map(repr, others))
            there = f"loops.take(name) takes {names}; None leaves it to the price."
        return ScheduleError(
            f"the schedule of kernel {self.name}{where}: {why}.\n{told}\n"
            f"  Instead: {there}"
        )


@dataclass(frozen=True)
class ByHand:
    """A `Choosing.chooser`: it chooses what a recipe makes of a kernel."""

    recipe: object

    def __call__(self, program, kernel, machine):
        # The user is asked about kernels that are launched.
        if not machine.kernel:
            return choice(program, kernel, machine)
        loops = Loops(program, kernel, machine)
        named = isinstance(self.recipe, str)
        found = loops.take(self.recipe) if named else self.recipe(loops)
        if found is None:
            return choice(program, kernel, machine)
        if not isinstance(found, Loops):
            raise TypeError(
                "a recipe returns the loops that it is given, those that their methods "
                f"return, or None; it returned {found!r}"
            )
        if (candidate := found.candidate) is None:
            return taken("by hand", kernel, None, {AS_FUSED: found.price})
        if not is_sound(program, kernel, candidate):
            raise found.error("the checker refuses these loops")
        prices = {candidate.recipe: found.price, AS_FUSED: loops.price}
        return taken("by hand", kernel, candidate, prices)


@dataclass(frozen=True)
class WithSchedule:
    """Changes of settings, as `fuse` has them: the loops are those of a recipe."""

    recipe: object

    def __call__(self, settings):
        return Choosing.by(ByHand(self.recipe), settings)

    def __str__(self):
        return f"schedule={getattr(self.recipe, '__name__', self.recipe)}"


def schedule(fun: Callable[..., Any], recipe: Any) -> Any:
    """`fun` jitted, with loops of your own in place of those that cost least.

    Args:
      fun: a function, jitted or not.
      recipe: function of the `Loops` of each kernel: the loops to run in their place,
        or None, where the price is to choose; or the name of one of the ways that are
        proposed for a kernel, which each kernel must have then.

    Returns:
      A jitted function.  Within others it is a call with kernels of its own; under
      `jit` the recipe is asked about those of its derivative as well.  Nobody is asked
      about loops within a `scan` or a `while_loop`.

    Raises:
      ScheduleError: when it is compiled; the loops are not sure to compute the same.

    Example:
        >>> def by_rows(loops):
        ...     print(loops)
        ...     return loops.distribute().reorder(0, "i1", "i0")
        >>> f = mj.schedule(lambda x: x.T + 1, by_rows)
        >>> f(jnp.ones((2, 3))).shape
        for i0 in 3:
          for i1 in 2:
            out0[i0, i1] = in0[i1, i0] + 1.0
        (3, 2)
    """
    if not callable(recipe) and not isinstance(recipe, str):
        raise TypeError(f"a recipe is a function of loops, or a name, got {recipe!r}")
    inner = fun if isinstance(fun, JitFunction) else jit(fun)
    return FusedFunction(inner.function, inner.options, WithSchedule(recipe))


loop_rules |= {
    "by hand": (True, "its loops are those of your own schedule, priced in nanoseconds")
}
