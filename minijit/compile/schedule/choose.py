"""The choice: of the ways to run a kernel, the one with the lowest price.

    program = scheduled(program)       # a kernel may have become several

The price of each stands in the program's ledger, those of the rejected too; of one that
is sure to take longer than what is there already, what it takes at least.  Where the
same ways were measured before (`minijit.tune`), the fastest one is taken.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, replace

from ...transform.control_flow.branches import cond_p
from ..decisions import in_bounds, loop_rules, noted, noting
from ..loops.check import LoopTypeError, check_program
from ..loops.contents import counted, loads_of, outline, stores_in, totals_in
from ..loops.expressions import Reduce
from ..loops.graphs import postorder
from ..loops.kernel_buffers import used_buffers
from ..loops.statements import For, Kernel, Program, expressions, statements
from ..loops.text import written
from ..pipeline import rewrites
from ..settings import Settings, config
from .machine import Machine
from .nests import count_of, stride_along
from .place import place
from .placing_rules import arrange, prepared

# What a kernel's own loops are called, among the ways to run it.
AS_FUSED = "as fused"
# Loops that compute so many times what a kernel does are not looked at: such a one has
# cost less nowhere, and is long: a third of a first call of a convolution's gradient.
MORE = 4 / 3
# Nests that cost so many times more apart cost less joined in one of 98 kernels.
DEARER = 1.05
# So many steps a loop is thought to have, if only a run knows: one of far fewer, as a
# solver that starts at its solution, is over soon whatever its loops are.
UNKNOWN = 100


@dataclass(frozen=True)
class Choosing(Settings):
    """Settings, and who chooses the loops of kernels in place of their price.

    Attributes:
      chooser: function of a program, its only kernel and a machine: a `Candidate`, or
        None.  It is asked about all kernels, and errors of its own are the user's.
    """

    chooser: object = None

    @classmethod
    def by(cls, chooser, settings):
        """Some settings, with another chooser."""
        return cls(**vars(settings) | {"chooser": chooser})


def scheduled(program):
    """A program in which kernels run as it costs least on the machine in force."""
    return chosen_for(program, Machine.in_force()) if config.fusion.enabled else program


def chosen_for(program, machine):
    """A program, and those of its native loops and branches, as it costs least."""
    chooser = getattr(config.fusion, "chooser", None)
    each = [*by_themselves(program, machine, every=bool(chooser))]
    if chooser:
        chosen = {p.body[0]: chooser(p, *p.body, machine) for p in each}
    else:
        chosen = choices(each, machine)
    program, calls = with_candidates(program, chosen), {}
    for call in program.calls:
        programs = call.attrs.get("programs", ())
        new = tuple(chosen_for(p, within(call, machine)) for p in programs)
        if new != programs:
            calls[call] = replace(call, attrs=call.attrs | {"programs": new})
    if not calls:
        return program
    return replace(program, body=tuple(calls.get(step, step) for step in program.body))


def within(call, machine):
    """The machine as a loop's steps meet it: one core, and no kernel to launch.

    What a step gains, each one does.
    """
    one = call.attrs["primitive"] is cond_p
    steps = 1 if one else call.attrs["params"].get("length")
    steps = max(steps, 1) if isinstance(steps, int) else UNKNOWN
    return replace(machine, cores=1, kernel=0, wake=machine.wake / steps)


def choices(programs, machine):
    """{kernel: its `Candidate`, or None}: programs of a kernel each.

    Of kernels that are alike, as in the layers of a network, one is asked.
    """
    size_of = lambda program: steps_of(program.body[0].body)
    sizes, known, chosen = Counter(map(size_of, programs)), {}, {}
    for program in programs:
        kernel, = program.body
        like = likeness(program) if sizes[size_of(program)] > 1 else kernel
        if like not in known:
            with noting() as said:
                chosen[kernel] = choice(program, kernel, machine)
            known[like] = kernel, said
        first, said = known[like]
        if (found := chosen[first]) and first is not kernel:
            ways = other_ways(program, kernel)
            chosen[kernel] = next(way for way in ways if way.recipe == found.recipe)
        for rule, about, numbers in said:
            noted(rule, *(kernel if a is first else a for a in about), **numbers)
    return chosen


def likeness(program):
    """What is the same of programs whose only kernels do the same."""
    found, arrays = outline(program.body[0].body)
    given = dict(program.donated)
    return found, *((b in program.temps, b in given) for b in arrays)


def choice(program, kernel, machine):
    """The `Candidate` for a program's only kernel that costs least; None if it stays as
    it is.

    What goes wrong here, would concern those who work on prices, and not those who have
    a program: their kernel stays as it is, and the report says why.
    """

    def priced(kernel):
        return cheapest(program, kernel, machine)

    try:
        found = in_bounds(priced, kernel, lambda k: expressions(k.body), kernel)
        return None if found is kernel else found
    except Exception as error:
        if config.debug_checks:
            raise
        noted("not priced", kernel, **{f"{type(error).__name__}: {error}": 0})
        return None


def by_themselves(program, machine, every=False):
    """For each kernel of a program that may matter, a program of nothing else.

    It is given what steps before it wrote; and where it writes there, that is its own.
    """
    kernels = [k for k in program.kernels if type(k) is Kernel]
    kernels = {k for k in kernels if every or may_matter(k, machine)}
    steps = {step: touched(step) for step in program.body} if kernels else {}
    uses, before = Counter(b for found in steps.values() for b in found), set()
    for kernel, found in steps.items():
        if kernel in kernels:
            stores = stores_in(kernel.body)
            stored = {s.buffer: None for s in stores if s.buffer.space == "global"}
            own = {b: b for b in stored if b in before}
            read = (b for b in found if b.space == "global" and b not in stored)
            temps = tuple(b for b in stored if b in program.temps and uses[b] == 1)
            left = tuple(b for b in stored if b not in temps)
            parts = (*read, *own), left, (), temps, (kernel,)
            yield Program(kernel.name, *parts, donated=tuple(own.items()))
        before |= found


def is_sound(program, kernel, candidate):
    """Whether the checker takes a candidate in a kernel's place."""
    try:
        check_program(with_candidates(program, {kernel: candidate}))
    except LoopTypeError as error:
        noted("ill-formed", kernel, **{f"{candidate.recipe}: {error}": 0})
        return False
    return True


def may_matter(kernel, machine):
    """Whether there is anything to choose: totals, several statements, several axes of
    which the last is short, or crosses memory."""
    inside = statements(kernel.body)
    loops = [s for s in inside if isinstance(s, For)]
    if not loops:
        return False
    stores, totals = stores_in(kernel.body), totals_in(kernel.body)
    # Does memory run along the innermost loops?
    inner = [*(e.axes[-1] for e in totals), loops[-1].axis]
    places = (*stores, *loads_of(kernel.body))
    along = ([stride_along(place, axis) for axis in inner] for place in places)
    crossed = not all(next(filter(None, each), 0) in (0, 1) for each in along)
    # A step that crosses it may move a whole line of memory.
    most = machine.step * (machine.caches[0].line // 4 if crossed else 1)
    # What takes less than to wake another core does not matter.
    if steps_of(kernel.body) * most < machine.wake:
        return False
    row, size = loops[-1].axis.extent, stores[0].buffer.dtype.itemsize
    short = isinstance(row, int) and row * size < machine.vector
    return len(stores) > 1 or bool(totals) or len(loops) > 1 and (crossed or short)


def steps_of(body):
    """How many elements statements compute, and terms of their totals, each once."""
    found, seen = 0, set()
    for stmt, times in counted(body):
        if not isinstance(stmt, For):
            new = postorder(stmt.uses(), seen)
            seen.update(new)
            totals = (e.axes for e in new if type(e) is Reduce)
            terms = (count_of(a for a in axes if a.kind == "reduce") for axes in totals)
            found += times * (1 + sum(terms))
    return found


def ways_of(program, kernel):
    """{name: `Candidate`}: all ways to run a program's only kernel; as it is, None."""
    return {AS_FUSED: None} | {c.recipe: c for c in other_ways(program, kernel)}


def other_ways(program, kernel):
    """The `Candidate`s for a program's only kernel, one by one."""
    # They come with the first kernel that may matter.
    from .recipes import candidates

    return candidates(kernel, frozenset(program.temps))


def cheapest(program, kernel, machine):
    """The `Candidate` for a program's only kernel that is known to be the fastest, or
    costs least; None if it stays as it is."""
    from .cost import least

    if (measured := winners["kept"](program, machine)) is not None:
        ways = ways_of(program, kernel)
        if nanoseconds := measured(ways_text(program, kernel, ways)):
            return taken("tuned", kernel, ways[next(iter(nanoseconds))], nanoseconds)
        noted("tuned before", kernel)
    today, floor = price_of(program, machine), least([kernel.body], machine)
    if today - floor < machine.wake:
        return None
    best, chosen, prices = today, None, {AS_FUSED: today}
    most = MORE * steps_of(kernel.body)
    for way in other_ways(program, kernel):
        # Nests that are joined later compute what these do.
        if way.temps and sum(map(steps_of, way.bodies)) > most:
            break
        # What rows have in registers costs no less in arrays between loops.
        if way.temps and 2 * best < today and not chosen.temps:
            break
        there = with_candidates(program, {kernel: way})
        prices[way.recipe] = price = price_of(there, machine, best)
        if price < best and is_sound(program, kernel, way):
            best, chosen = price, way
        # Nests that cost far more apart do so joined: they compute the same.
        elif way.temps and price > DEARER * best:
            break
        # To price one more takes milliseconds, for what is hardly worth a few thousand.
        if best - floor < machine.wake / 8:
            break
    if len(prices) == 1:
        return None
    rule, name = ("schedule", chosen.recipe) if chosen else ("as fused", AS_FUSED)
    return taken(rule, kernel, chosen, {name: 0} | prices)


def taken(rule, kernel, candidate, nanoseconds):
    """A candidate, once it is noted, with what each way takes, its own first."""
    noted(rule, kernel, **nanoseconds)
    return candidate


def prices_of(program, kernel, ways, machine):
    """{name: ns} of all ways."""
    return {
        name: price_of(with_candidates(program, {kernel: candidate}), machine)
        for name, candidate in ways.items()
    }


def price_of(program, machine, most=math.inf):
    """ns of a program's kernels as they are loaded: where they can be, in place.

    Args:
      most: of what is sure to take longer, a part is enough: more than this.
    """
    from .cost import least, price

    bodies = [kernel.body for kernel in rewrites["with_reuse"](program).kernels]
    # Much of what cannot cost less is known before its loops are arranged.
    if (floor := least(bodies, machine)) > most:
        return round(floor)
    # What does most comes first: it may be enough.
    bodies.sort(key=steps_of, reverse=True)
    return price(map(arrange, bodies), machine, most)


# What was measured of a program's only kernel on a machine: None, or a function of the
# `ways_text` that gives {way: ns}, the fastest first; {} if those were other ways.
winners = {"kept": lambda program, machine: None}


def ways_text(program, kernel, ways):
    """All ways to run a program's only kernel, as text."""
    each = (with_candidates(program, {kernel: c}) for c in ways.values())
    return "\n".join(map(plain_text, each))


def plain_text(program, prepare=prepared):
    """The loops of a program of kernels, whatever its arrays are called.

    Args:
      prepare: what puts statements into the loops that are told: those that run.
    """
    lines, known = [], {}
    for kernel in program.kernels:
        lines += [*written(place(kernel.body, prepare=prepare)).lines, ""]
        known |= {buffer.name: buffer for buffer in touched(kernel)}
    text, word = "\n".join(lines), r"[^\W\d]\w*"
    met = (name for name in dict.fromkeys(re.findall(word, text)) if name in known)
    names = {name: f"b{n}" for n, name in enumerate(met)}
    for name, new in names.items():
        b = known[name]
        role = "temporary" if b in program.temps else b.space
        text += f"\n{new}: {b.dtype}{b.shape} {b.order} {role}"
    return re.sub(word, lambda found: names.get(found[0], found[0]), text)


loop_rules |= {
    "schedule": (True, "its loops are those that cost least, in nanoseconds"),
    "as fused": (False, "no other loops cost less, in nanoseconds"),
    "tuned": (True, "its loops are those that were fastest when tuned, in nanoseconds"),
    "tuned before": (False, "it was tuned when there were other loops to choose from"),
    "ill-formed": (False, "the checker refuses the loops that would cost less"),
    "not priced": (False, "its loops are as they were: pricing others went wrong"),
}


def touched(step):
    """The arrays that a step of a program reads or writes."""
    return set().union(*used_buffers([step]))


def with_candidates(program, chosen):
    """A program with `Candidate`s in the place of kernels; with None one stays."""
    if not any(chosen.values()):
        return program
    body, temps = [], list(program.temps)
    for step in program.body:
        if not (candidate := chosen.get(step)):
            body.append(step)
            continue
        for n, stmts in enumerate(candidate.bodies):
            name = f"{step.name}_{n}" if n else step.name
            body.append(Kernel(name, stmts, step.eqns))
        temps = [t for t in temps if t not in candidate.gone] + [*candidate.temps]
    return replace(program, body=tuple(body), temps=tuple(temps))


rewrites |= {"scheduled": scheduled}
