"""Fusion: kernels that share loops and memory become one.

    k0: for i: t[i] = max(k: x[i,k])          k0: for i:
    k1: for i: for j: e[i,j] = exp(           r0 = max(k: x[i,k])
          x[i,j] - t[i])                           for j: row[j] = exp(x[i,j] - r0)
    k2: for i: s[i] = add(k: e[i,k])               r1 = add(k: row[k])
    k3: for i: for j: y[i,j] = e[i,j] / s[i]       for j: y[i,j] = row[j] / r1

The walk of `lower` asks and answers; what it leaves are kernels, each a loop nest.
This pass takes any two of them that may share their loops, those first that save most,
until no two are left.  What lies between them stays in a register, or in a row that is
there for one step of the loops only.
"""

import heapq
import itertools
from dataclasses import replace
from functools import partial

from ...trace.base.config import config
from .. import settings as settings
from ..decisions import Decision, loop_rules, noted, still_true
from ..loops.buffers import Buffer
from ..loops.contents import loads_of, loads_within, stored_in
from ..loops.expressions import Load
from ..loops.graphs import sorted_steps
from ..loops.statements import Kernel, Store, nested, replaced
from ..pipeline import program_passes
from ..schedule.interchange import block_length, in_rows
from ..schedule.row_totals import beside, by_rows, is_all_totals, rules_of_totals
from ..schedule.shared_loops import (
    Part, between_them, in_columns, is_copy, traffic_of, wanted_only,
)

# ---- what is said of two kernels, and of one

# rule: (whether the two are fused, why, the setting that changes it), the first first.
rules = {
    "loops": (True, "they share loops, and what goes from one to the other"),
    "blocks of columns": (True, "they share loops over blocks of columns"),
    "no nest": (False, "one of them is a call, or stores in an order of its own"),
    "overwritten": (False, "the second one writes over what the first one uses"),
    "copy": (False, "an update of a copy may be one of the array itself"),
    "barrier": (False, "nothing is fused across an optimization_barrier"),
    "path": (False, "a third step has to run between them"),
    "operations": (False, "together they have too many operations", "most_operations"),
    "buffers": (False, "together they take too many arrays", "most_buffers"),
    "axes": (False, "no loop of one goes with a loop of the other, step by step"),
    "columns": (
        False,
        "they share only the axis along which memory runs, and little else",
        "column_share",
    ),
    "little": (False, "what both read is smaller than what they store"),
} | rules_of_totals

loop_rules |= {
    "off": (False, "kernels are not merged at all", "enabled"),
    "not compared": (False, "it is not compared with far readers", "neighbours"),
    "row": (True, "what nobody else wants is a row in the cache", "row_bytes"),
    "large row": (False, "so large a row is no longer in the cache", "row_bytes"),
}


def judged(a, b, saved, rule, **numbers):
    """The `Decision` about two parts that a rule makes."""
    fused, reason, *settings = rules[rule]
    steps, nbytes = ((a.step,), (b.step,)), saved
    return Decision(*steps, fused, rule, reason, nbytes, tuple(settings), numbers)


def kept_apart(a, b):
    """The rule for two that have to stay apart though their steps fit; or None."""
    return "copy" if b.was and is_copy(a) else between_them(a, b)


def share_in_columns(a, b, shared, saved):
    """Which share of their traffic is saved, if they share only columns; else None."""
    both = (a, shared), (b, {*shared.values()})
    columns = [traffic_of(x) for x, axes in both if in_columns(x, axes)]
    return saved / max(min(columns), 1) if columns else None


# ---- the books


class Parts:
    """What fusion knows of the steps of a program.

    Attributes:
      parts: {number: Part} of what is left.
      users: {buffer: the numbers of the parts that read or write it}.
      became: {number of a part: that of the one which it was merged into}.
      after: for each part the numbers of those that wait for it directly; reach: a
        bit mask of all that wait for it.
      decisions: what was decided of two kernels, and why.
      queue: those that may be fused, what saves most first.
    """

    def __init__(self, program, settings):
        self.program, self.settings = program, settings
        self.parts = {n: Part.of(n, step) for n, step in enumerate(program.body)}
        self.results = {*program.outputs}
        self.numbers = {step: n for n, step in enumerate(program.body)}
        self.users, self.became = {}, {}
        self.decisions, self.queue = [], []
        for number, part in self.parts.items():
            for buffer in part.buffers:
                self.users.setdefault(buffer, []).append(number)
        self.drop_unread([*self.parts])
        self.find_order()

    def drop_unread(self, order):
        """Leave out what kernels store and nobody loads any more, the last first."""
        for number in reversed(order):
            part = self.parts[number]
            unread = [b for b in part.stores if b not in part.loads]
            if type(part.step) is not Kernel or all(map(self.others(number), unread)):
                continue
            body = wanted_only(part.step.body, self.others(number))
            step = replace(part.step, body=body)
            self.parts[number] = Part.inside(number, step, body)
            for buffer in part.buffers - self.parts[number].buffers:
                self.users[buffer].remove(number)

    def find_order(self):
        """Which steps wait for which: those that write what they read or write."""
        self.after = {n: set() for n in self.parts}
        self.reach = dict.fromkeys(self.parts, 0)
        for buffer, users in self.users.items():
            for n in users:
                if buffer in self.parts[n].stores:
                    self.after[n].update(m for m in users if m > n)
                    for earlier in users[: users.index(n)]:
                        self.after[earlier].add(n)
        for number in reversed(self.parts):
            for later in self.after[number]:
                self.reach[number] |= self.reach[later] | 1 << later

    def in_order(self, first, second):
        """Two parts, that one first which must run before the other.

        Of others the one with loops comes first, or that which came first.
        """
        which = lambda n: (is_all_totals(self.parts[n]), n)
        first, second = sorted((first, second), key=which)
        waits = self.reach[second] >> first & 1
        return (second, first) if waits else (first, second)

    def path(self, first, second):
        """The part that has to run after one of two and before the other, or None."""
        pairs = (first, second), (second, first)
        between = (n for a, b in pairs for n in self.after[a] - {b}
                   if self.reach[n] >> b & 1)  # fmt: skip
        return next(between, None)

    def others(self, *numbers):
        """A function of a buffer: whether anybody but these parts wants it."""

        def wanted(buffer):
            users = self.users.get(buffer, ())
            return buffer in self.results or any(n not in numbers for n in users)

        return wanted

    def neighbours(self, number):
        """The other parts with which one shares a buffer: who reads what it writes, and
        some of those who read what it reads."""
        part, found = self.parts[number], {}
        for buffer in part.buffers:
            users = self.users[buffer] if buffer.shape else []
            if buffer not in part.stores:
                writers = [n for n in users if buffer in self.parts[n].stores]
                at, far = users.index(number) if users else 0, self.settings.neighbours
                near = users[max(at - far, 0) : at + far + 1]
                if len(near) < len(users):
                    noted("not compared", part.step, readers=len(users))
                users = [*near, *writers]
            found |= dict.fromkeys(n for n in users if n != number)
        return found

    def too_large(self, first, second):
        """The limit that two parts would break as one kernel; or None."""
        a, b, others = self.parts[first], self.parts[second], self.others(first, second)
        if a.size + b.size > self.settings.most_operations:
            return {"rule": "operations", "operations": a.size + b.size}
        made = a.stores.keys() | b.stores.keys()
        kept = [x for x in a.buffers | b.buffers if x not in made or others(x)]
        if len(kept) > self.settings.most_buffers:
            return {"rule": "buffers", "buffers": len(kept)}
        return None

    def put(self, part, first, second):
        """A part takes the place of two."""
        a, b, number = self.parts[first], self.parts[second], part.number
        for buffer in a.buffers | b.buffers | part.buffers:
            users = self.users.get(buffer, ())
            users = [n for n in users if n not in (first, second)]
            self.users[buffer] = users + [number] * (buffer in part.buffers)
        both, old = {first, second}, 1 << first | 1 << second
        self.after[number] = (self.after.pop(first) | self.after.pop(second)) - both
        self.reach[number] = (self.reach.pop(first) | self.reach.pop(second)) & ~old
        del self.parts[first], self.parts[second]
        for n in self.parts:
            if self.reach[n] & old:
                self.reach[n] |= self.reach[number] | 1 << number
                if self.after[n] & both:
                    self.after[n] = self.after[n] - both | {number}
        self.parts[number] = part
        self.became |= {first: number, second: number}

    def consider(self, number, others):
        """Decide about a part and some others; what may be fused waits in the queue."""
        for other in others:
            first, second = self.in_order(number, other)
            found = self.decide(first, second)
            if found.fused:
                key = [*rules].index(found.rule), -found.nbytes, first, second
                heapq.heappush(self.queue, (*key, len(self.decisions)))
            if found.rule != "no nest":
                self.decisions.append(found)

    def merge(self, first, second, shared=None, shares=None):
        """Two parts become one: -> its number."""
        a, b, number = self.parts[first], self.parts[second], 1 + max(self.parts)
        body = join(a, b, shared) if shared else with_totals(a, b, shares)
        body = wanted_only(body, self.others(first, second))
        eqns = tuple(dict.fromkeys((*a.step.eqns, *b.step.eqns)))
        part = Part.inside(number, Kernel(a.step.name, body, eqns), body)
        self.put(part, first, second)
        return number

    def not_merged(self):
        """The decisions about those that are left, and not one."""
        steps = {part.step for part in self.parts.values()}
        return [d for d in self.decisions if steps >= {*d.a, *d.b} and not d.fused]

    def contracted(self, number):
        """What `with_rows` says of a part."""
        part = self.parts[number]
        return with_rows(part, self.others(number), self.settings)

    def program_of(self, decisions):
        """The program of the parts, in an order in which they can run."""
        before = {n: [] for n in self.parts}
        for number, later in self.after.items():
            for n in later:
                before[n].append(number)
        body, counts, used = [], itertools.count(), set()
        order = sorted_steps(before)
        assert order is not None, "kernels wait for each other in a ring"
        self.drop_unread(order)
        for number in order:
            part = self.parts[number]
            step, used = part.was or part.step, used | part.buffers
            if type(step) is Kernel:
                if not step.body:
                    continue  # Nobody loads what it stored.
                inside, rows = self.contracted(number)
                inside = step.body if part.was else inside
                step = replace(step, name=f"k{next(counts)}", body=inside)
                used -= rows
            body.append(step)
        return replace(
            self.program,
            body=tuple(body),
            temps=tuple(b for b in self.program.temps if b in used),
            decisions=(*decisions, *still_true(self.program, self.parts, self.now_in)),
        )

    def now_in(self, step):
        """The number of the part that a step of the program is in now."""
        number = self.numbers[step]
        while number in self.became:
            number = self.became[number]
        return number


def with_totals(a, b, shares):
    """The statements of a, and beside its loop the totals of b."""
    body, after = beside(a, b, shares)
    return *nested(a.axes[:1], settle(body)), *settle(after)


def with_rows(part, others, settings):
    """The statements of a kernel with what nobody else wants in rows of its own.

    Returns:
      (the statements, the buffers that have become rows).
    """
    body = part.step.body
    stored = [b for b in part.stores if not others(b)]
    lanes = block_length(part.axes[-1], body) if part.axes else 1
    rows, room = {}, settings.row_bytes
    for buffer in sorted(stored, key=lambda b: b.nbytes):
        left = dims_of_row(part, buffer)
        shape = tuple(buffer.shape[d] for d in left)
        row = Buffer(buffer.name, shape, buffer.dtype, space="cache")
        needed = row.nbytes * lanes
        rule = "row" if needed <= room else "large row"
        fewer = len(left) < len(buffer.shape)
        if fewer and noted(rule, part.step, bytes=needed, room=room):
            room -= needed
            rows[buffer] = row, left
    return in_rows(body, rows), rows.keys()


def joined_loops(body):
    """Statements of one block: a loop goes into an earlier one, where that is right."""
    done = []
    for stmt in body:
        late, place = Part.inside(0, stmt, (stmt,)), None
        for i in reversed(range(len(done) if late.axes else 0)):
            if done[i].buffers & late.stores.keys():
                break
            shared = shared_axes(done[i], late) if done[i].axes else {}
            if len(shared) == len(done[i].axes) == len(late.axes) > 0:
                place = i
                break
            if done[i].stores.keys() & late.loads.keys():
                break
        if place is None:
            done.append(late)
        else:
            stmt, = join(done[place], late, shared)
            done[place] = Part.inside(0, stmt, (stmt,))
    return tuple(part.step for part in done)


def buffers_of(exprs):
    """The buffers that expressions read."""
    return {load.buffer for load in loads_within(exprs)}


class Known:
    """What is in elements of arrays, while the statements of a block run.

    Attributes:
      values: {(buffer, index): what was stored there}.
      touched: the buffers that were noted, or read, so far.
      seen: {expression: what became of it}.
    """

    def __init__(self):
        self.values, self.touched, self.seen = {}, set(), {}

    def put_into(self, stmt):
        """A statement with what is known in the place of loads."""
        stmt, = replaced([stmt], self.value, self.seen)
        return stmt

    def value(self, expr):
        if type(expr) is not Load:
            return None
        self.touched.add(expr.buffer)
        return self.values.get((expr.buffer, expr.index))

    def note(self, store):
        self.values[store.buffer, store.index] = store.value
        self.touched.add(store.buffer)
        self.seen[store.value] = store.value

    def forget(self, stored):
        """Into some buffers something is stored: forget what is made of them."""
        if self.touched.isdisjoint(stored):
            return
        self.values = {
            (buffer, index): value for (buffer, index), value in self.values.items()
            if stored.isdisjoint({buffer, *buffers_of((*index, value))})
        }  # fmt: skip
        self.seen = {value: value for value in self.values.values()}


def without_overwritten(body):
    """Statements of one block without stores that a later one writes over, unread."""
    left, over = [], set()
    for stmt in reversed(body):
        place = (stmt.buffer, stmt.index) if isinstance(stmt, Store) else None
        if place not in over:
            left.append(stmt)
            read = {load.buffer for load in loads_of([stmt])}
            fixed = place and not loads_within(stmt.index)
            over = {p for p in {*over, *([place] if fixed else ())} if p[0] not in read}
    return left[::-1]


# chapter 17

from ..schedule.shared_loops import saved_bytes, shared_axes, within_steps, worth


# ---- two bodies become one


def join(a, b, shared):
    """The loops that both share around the rest of each: -> statements."""
    own = {j: i for i, j in shared.items()}
    rest_a = nested([i for i in a.axes if i not in shared], a.body)
    rest_b = nested([j for j in b.axes if j not in own], replaced(b.body, own.get))
    body = settle((*rest_a, *rest_b))
    body = nested([i for i in a.axes if i in shared], body)
    return *body, *a.after, *b.after


def settle(body):
    """Statements of one block with what they store known to those that follow."""
    known, settled = Known(), []
    for stmt in body:
        if not isinstance(stmt, Store):
            known.forget(stored_in([stmt]))
        stmt = known.put_into(stmt)
        if isinstance(stmt, Store):
            known.forget({stmt.buffer})
            if stmt.buffer not in buffers_of(stmt.uses()):
                known.note(stmt)
        settled.append(stmt)
    return joined_loops(without_overwritten(settled))


# ---- which kernels


class Fusion(Parts):
    """The kernels and calls of a program while they become fewer."""

    def decide(self, first, second):
        """Whether two parts become one kernel: -> `Decision`."""
        a, b = self.parts[first], self.parts[second]
        saved = saved_bytes(a, b, self.others(first, second))
        judge = partial(judged, a, b, saved)
        totals = a.is_nest and is_all_totals(b)
        if not (totals or a.is_nest and b.is_nest):
            return judge("no nest")
        shared = {} if totals else shared_axes(a, b)
        if not within_steps(a, b, shared):
            return judge("overwritten")
        if rule := kept_apart(a, b):
            return judge(rule)
        if self.path(first, second) is not None:
            return judge("path")
        if limit := self.too_large(first, second):
            return judge(**limit)
        if totals:
            rule, shares = by_rows(a, b)
            return judge(rule, **shares)
        if not shared:
            return judge("axes")
        part = share_in_columns(a, b, shared, saved)
        if part is not None and part < self.settings.column_share:
            return judge("columns", share=round(part, 3))
        if not a.stores.keys() & b.loads.keys() and not worth(a, b):
            return judge("little", bytes=saved)
        return judge("loops" if part is None else "blocks of columns", shared=shared)

    def run(self):
        """Merge until there are no two left that may be: -> the program."""
        for number in list(self.parts):
            self.consider(number, [n for n in self.neighbours(number) if n > number])
        done = []
        while self.queue:
            *_, first, second, which = heapq.heappop(self.queue)
            if first in self.parts and second in self.parts:
                if self.path(first, second) is not None:
                    # What was merged meanwhile stands between them.
                    self.decisions.append(self.decide(first, second))
                    continue
                done.append(self.decisions[which])
                number = self.merge(first, second, **done[-1].numbers)
                self.consider(number, self.neighbours(number))
        return self.program_of([*done, *self.not_merged()])



# ---- rows


def dims_of_row(part, buffer):
    """The axes of a buffer that a row of it, for one step of the kernel, keeps."""
    return [
        d for d, found in enumerate(zip(*part.places(buffer), strict=True))
        if len({*found}) > 1 or found[0] not in part.axes
    ]


# chapter 17, brought along
def fused(program):
    """A program with kernels merged, as the settings in force allow."""
    settings = config.fusion
    kernels = [s for s in program.body if isinstance(s, Kernel)]
    if not settings.enabled and len(kernels) > 1:
        noted("off", *kernels)
    return Fusion(program, settings).run() if settings.enabled and kernels else program


program_passes |= {"fused": fused}
