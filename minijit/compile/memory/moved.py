"""The statements of a kernel, moved to the places that a region has for its buffers.

    out[i0] = x[i0] * 2.0               # a kernel of a loop's body
    ys[i5, i0] = t3[i0] * 2.0           # where it is run: a result in two places
    t4[i0] = t3[i0] * 2.0

A place has `load(index)` and `store(index, value)`; what it loads may be equal to what
another place has, and then there is one expression less.  Where two buffers have one
place, what is loaded after a store is the value that was stored: the load would be
equal to that of what was there before, and have its name.  What grows is in one place
until it is done, and is copied to the others then.
"""

import math
from collections import Counter
from dataclasses import dataclass

from ..loops.contents import counted, loads_of
from ..loops.expressions import Axis, Const, Expr, Load
from ..loops.graphs import substitute
from ..loops.kernel_buffers import scope
from ..loops.statements import For, If, Let, Start, Step, Store
from .overwriting import copied_by


@dataclass(frozen=True)
class Known:
    """A number that is an expression: a constant, for example."""

    value: Expr
    shape = prefix = ()

    @property
    def dtype(self):
        return self.value.dtype

    def load(self, index=()):
        return self.value


def stores_of(body):
    """{buffer: how many numbers statements store into it at most}"""
    found: Counter = Counter()
    for stmt, times in counted(body):
        if isinstance(stmt, Store):
            found[stmt.buffer] += times
    return found


class Moved:
    """Placed statements on the places that buffers have in a region.

    Attributes:
      places: {buffer: a tuple of places}; it is read from the first one.
      late: the buffers with several places that are stored into more often than a copy
        does; the statements leave what they are in the first place alone.
      again: the loads from buffers that have their place together with another one.
      new: {expression: what became of it}.
      named: the expressions that a `Let` here or around has computed.
      read: the loads that were moved so far.
    """

    def __init__(self, places, body):
        self.places, self.new, self.named, self.read = places, {}, set(), set()
        often = ((b, n) for b, n in stores_of(body).items() if len(places[b]) > 1)
        self.late = {b for b, n in often if n > 2 * math.prod(b.shape)}
        at = lambda buffer: places.get(buffer, (buffer,))[0]
        loads = loads_of(body)
        here = {*stores_of(body), *(e.buffer for e in loads)}
        often = Counter(map(at, here))
        self.again = {e for e in loads if often[at(e.buffer)] > 1}

    def exprs(self, exprs):
        return substitute(list(exprs), self.load, self.new)

    def load(self, expr):
        if type(expr) is not Load or expr.buffer not in self.places:
            return None
        self.read.add(expr)
        found = self.places[expr.buffer][0].load(self.exprs(expr.index))
        return expr.at(found.buffer, found.index) if type(found) is Load else found

    def block(self, body):
        """The statements; a total that became another's equal has one step."""
        found, steps, outside = [], set(), (self.named, self.new)
        self.named = set(self.named)
        for stmt in body:
            for new in self.statement(stmt):
                if type(new) is Let:
                    if new.expr not in self.named:
                        found.append(new)
                    self.named.add(new.expr)
                elif type(new) is not Step:
                    found.append(new)
                elif new.reduce not in steps:
                    found.append(new)
                    steps.add(new.reduce)
        self.named, self.new = outside
        return tuple(found)

    def scope(self, body):
        """The statements; what they name is known to none after them."""
        body = self.block(body)
        return [scope(body)] if any(type(stmt) is Let for stmt in body) else body

    def statement(self, stmt):
        match stmt:
            case Let() | Start() | Step():
                return [stmt.rewrite(self.exprs, None)]
            case Store():
                return self.stores(stmt)
            case For():
                axis, = self.exprs([stmt.axis])
                body = self.block(stmt.body)
                return [For(axis, body)] if body else []
            case If():
                pred, = self.exprs([stmt.pred])
                then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
                return [If(pred, then, otherwise)] if then or otherwise else []
        raise TypeError(f"no statement of a placed kernel: {stmt!r}")

    def stores(self, stmt):
        """A store into each of the places of a result, but no element onto itself."""
        wheres, source = self.places[stmt.buffer], copied_by(stmt)
        wheres = wheres[:1] if stmt.buffer in self.late else wheres
        if source is not None:
            wheres = [w for w in wheres if w != self.places[source][0]]
        *index, value = self.exprs([*stmt.index, stmt.value])
        stores = [w.store(index, value, stmt.combine) for w in wheres]
        named = len(stores) > 1 and value.children()
        place = stmt.buffer, stmt.index
        later = [e for e in self.again - self.read if (e.buffer, e.index) == place]
        if stores and later and not stmt.combine:
            self.new = {**self.new, **dict.fromkeys(later, value)}
            named = not isinstance(value, (Axis, Const))
        return [Let(value), *stores] if named else stores
