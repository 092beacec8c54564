"""The kernels and calls of a program, by number, while some are merged into others.

    users               # {buffer: the numbers of the parts that read or write it}
    others(a, b)        # whether anybody but these two wants a buffer
    put(part, a, b)     # a part takes the place of two
    program_of(())      # the parts as a program again
"""

import heapq
import itertools
from collections import Counter
from dataclasses import replace

from ..decisions import noted, still_true
from ..loops.statements import Kernel
from ..schedule.shared_loops import Part, wanted_only


class Parts:
    """What fusion knows of the steps of a program.

    Attributes:
      parts: {number: Part} of what is left.
      users: {buffer: the numbers of the parts that read or write it}.
      became: {number of a part: that of the one which it was merged into}.
    """

    def __init__(self, program, settings):
        self.program, self.settings = program, settings
        self.parts = {n: Part.of(n, step) for n, step in enumerate(program.body)}
        self.results = {*program.outputs}
        self.numbers = {step: n for n, step in enumerate(program.body)}
        self.users, self.became = {}, {}
        for number, part in self.parts.items():
            for buffer in part.buffers:
                self.users.setdefault(buffer, []).append(number)
        for number, part in self.parts.items():
            if part.is_nest:
                self.drop_unread(number, part)

    def drop_unread(self, number, part):
        """Leave out what a kernel stores and nobody loads any more."""
        unread = [b for b in part.stores if b not in part.loads]
        if not all(map(self.others(number), unread)):
            body = wanted_only(part.step.body, self.others(number))
            step = replace(part.step, body=body)
            self.parts[number] = Part.inside(number, step, body)
            for buffer in part.buffers - self.parts[number].buffers:
                self.users[buffer].remove(number)

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

    def program_of(self, decisions):
        """The program of the parts, in an order in which they can run."""
        waits = Counter(n for later in self.after.values() for n in later)
        ready = [n for n in self.parts if not waits[n]]
        body, counts, used = [], itertools.count(), set()
        while ready:
            number = heapq.heappop(ready)
            part = self.parts[number]
            step, used = part.was or part.step, used | part.buffers
            if type(step) is Kernel:
                inside, rows = self.contracted(number)
                inside = step.body if part.was else inside
                step = replace(step, name=f"k{next(counts)}", body=inside)
                used -= rows
            body.append(step)
            for later in self.after[number]:
                waits[later] -= 1
                if not waits[later]:
                    heapq.heappush(ready, later)
        assert len(body) == len(self.parts), "kernels wait for each other in a ring"
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
