"""Walks over expressions, which are graphs, without recursion.

    postorder([expr])                        # all its parts, each once, children first
    substitute([expr], {i: j}.get)           # the same with j in the place of i
    free_axes([expr])                        # the axes that its value depends on

A program of thousands of equations is an expression thousands of nodes deep, and Python
does not recurse that far: each walk has a list of what is still to do.
"""

import functools
import heapq
import math
from collections import defaultdict
from contextlib import contextmanager
from contextvars import ContextVar

nothing: frozenset = frozenset()

# While somebody counts: [how many expressions may still be looked at].
allowance: ContextVar = ContextVar("allowance", default=None)

# While a kernel is looked at again and again: {roots: all that they are computed from},
# and what else is `recalled`.
walked: ContextVar = ContextVar("walked", default=None)


class TooLong(Exception):
    """More expressions were looked at than `allowed`."""


@contextmanager
def allowed(count):
    """Walks that look at more expressions than so many raise `TooLong`."""
    left, walks = allowance.set([count]), remember()
    try:
        yield
    finally:
        walked.reset(walks)
        allowance.reset(left)


@contextmanager
def remembered():
    """Walks from the same roots are made once: expressions never change."""
    walks = remember()
    try:
        yield
    finally:
        walked.reset(walks)


def remember():
    """Remember walks from now on: -> what `walked.reset` takes."""
    known = walked.get()
    return walked.set({} if known is None else known)


def recalled(function):
    """A function of what never changes, asked the same once while walks are."""

    @functools.wraps(function)
    def asked(*args, **options):
        known = walked.get()
        if known is None:
            return function(*args, **options)
        key = (function, args, *options.items()) if options else (function, args)
        if (found := known.get(key, known)) is known:
            found = known[key] = function(*args, **options)
        return found

    return asked


def spend(count):
    """Count expressions that were looked at."""
    if (left := allowance.get()) is not None:
        left[0] -= count
        if left[0] < 0:
            raise TooLong


def free_axes(exprs):
    """The union of the free axes; the very same set where only one contributes."""
    union = nothing
    for expr in exprs:
        if expr.free is not union and not expr.free <= union:
            union = union | expr.free if union else expr.free
    return union


def postorder(roots, skip=()):
    """Every expression that `roots` are computed from, children before parents.

    Does not look into the expressions in `skip`.
    """
    known = None if skip else walked.get()
    if known is not None and (found := known.get(tuple(roots))) is not None:
        return list(found)
    done, todo = {}, list(reversed(roots))
    while todo:
        expr = todo.pop()
        if expr is None:
            # The children of the expression below are done.
            done[todo.pop()] = None
        elif expr not in done and expr not in skip:
            if children := expr.children():
                todo += (expr, None, *reversed(children))
            else:
                done[expr] = None
    spend(len(done))
    if known is not None:
        known[tuple(roots)] = tuple(done)
    return list(done)


def substitute(roots, replacement, new=None):
    """Rebuild expressions with some of them replaced.

    Args:
      roots: expressions.
      replacement: function of an expression: what to put in its place (to which it is
        applied again), or None.
      new: {expression: what became of it}, to be used and extended.

    Returns:
      The list of the new roots.
    """
    new, todo = {} if new is None else new, list(reversed(roots))
    steps, most = 0, (allowance.get() or [math.inf])[0]
    while todo:
        expr = todo.pop()
        if expr is None:
            # What the expression below needs is there.
            expr, needed, target = todo.pop()
            parts = tuple([new[e] for e in needed])
            if target is not None:
                new[expr] = parts[0]
            else:
                new[expr] = expr if parts == needed else expr.rebuild(parts)
        elif expr not in new:
            # What is put into one another for ever grows within one call.
            steps += 1
            if steps > most:
                raise TooLong
            target = replacement(expr)
            needed = (target,) if target is not None else expr.children()
            needed = needed or expr.lengths()
            if needed:
                todo += ((expr, needed, target), None, *reversed(needed))
            else:
                new[expr] = expr
    spend(steps)
    return [new[root] for root in roots]


def sorted_steps(before):
    """Numbers, each after those that it waits for; None if they wait in a ring.

    Of those that may come next, the least one does.

    Args:
      before: {number: the numbers that it waits for}.
    """
    after, waits, order = defaultdict(list), {}, []
    for j, found in before.items():
        waits[j] = len(found)
        for i in found:
            after[i].append(j)
    ready = sorted(j for j, n in waits.items() if n == 0)
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for j in after[i]:
            waits[j] -= 1
            if waits[j] == 0:
                heapq.heappush(ready, j)
    return order if len(order) == len(before) else None
