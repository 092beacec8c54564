"""Small axes that are mixed: the columns and diagonals of many 4 x 4 matrices.

    axes = Axes(jaxpr)
    axes.small[var]                  # (1, 2): the axes of u32[1000,4,4] that mix

An axis is *mixed* where an element of a result takes elements at other indices of it:
a permutation, a slice, a concatenation, a total.  All other axes only come along: they
are the *lanes*, and each lane is a program of its own on a handful of numbers.  Which
axes these are, no table has to say: each primitive's row is asked for one element, and
its answer shows which indices it takes as they are.
"""

from ...trace.jaxprs.jaxpr import Var
from ...trace.primitives import (
    broadcast_in_dim_p, reshape_p, squeeze_p, transpose_p,
)
from ...transform.control_flow.while_and_scan import scan_p
from ..loops.expressions import Axis, as_index
from ..loops.graphs import postorder
from ..lower.walk import At, row_of
from ..simplify.folding import elementwise

# What leaves each element of an axis where it is among the others.
stay = {*elementwise, reshape_p, squeeze_p, transpose_p, broadcast_in_dim_p}


def may_move(jaxpr):
    """Whether elements may change places within an axis; inner programs may do it."""
    return any(eqn.primitive not in stay for eqn in jaxpr.eqns)


class Axes:
    """What a program does with the axes of its variables.

    Attributes:
      small: {variable: its mixed axes}.
      permuted: the variables whose elements are others', in other places.
    """

    def __init__(self, jaxpr):
        # Axes that are one make up a set: {(variable, number): one above it in its set}
        self.above, self.mixed, self.permuted = {}, set(), set()
        self.vars = dict.fromkeys((*jaxpr.constvars, *jaxpr.invars))
        self.read(jaxpr)
        mixed = set(map(self.of, self.mixed))
        self.small = {
            var: tuple(
                d for d, n in enumerate(var.aval.shape)
                if n > 1 and self.of((var, d)) in mixed
            )
            for var in self.vars
        }  # fmt: skip

    def of(self, axis):
        """The name of the set that an axis belongs to."""
        while (above := self.above.get(axis, axis)) != axis:
            self.above[axis] = self.above.get(above, above)
            axis = above
        return axis

    def join(self, a, b):
        self.above[self.of(a)] = self.of(b)

    def lengths(self, var):
        """Of its mixed axes."""
        return [var.aval.shape[d] for d in self.small[var]]

    def lanes(self, var):
        """The extents of the other axes."""
        own = self.small[var]
        return tuple(n for d, n in enumerate(var.aval.shape) if d not in own and n > 1)

    def read(self, jaxpr):
        """Take in the equations of a jaxpr."""
        for eqn in jaxpr.eqns:
            self.vars |= dict.fromkeys(a for a in eqn.invars if isinstance(a, Var))
            self.vars |= dict.fromkeys(eqn.outvars)
            if eqn.primitive is scan_p:
                self.scan(eqn)
            else:
                self.element(eqn, row_of(eqn))

    def scan(self, eqn):
        """A loop: what is in a step has the axes of what is outside."""
        p, body = eqn.params, eqn.params["jaxpr"].jaxpr
        given, consts = eqn.invars[p["length"] is None :], p["num_consts"]
        carry, kept = p["num_carry"], consts + p["num_carry"]
        self.vars |= dict.fromkeys((*body.constvars, *body.invars))
        self.read(body)
        self.same(given[:kept], body.invars[:kept])
        self.same(given[consts:kept], eqn.outvars[:carry])
        self.same(body.outvars[:carry], eqn.outvars[:carry])
        self.same(given[kept:], body.invars[kept:], 1)
        self.same(eqn.outvars[carry:], body.outvars[carry:], 1)

    def same(self, outside, inside, first=0):
        """Variables are the same, but that those outside have an axis more."""
        for a, b in zip(outside, inside, strict=True):
            if isinstance(a, Var) and isinstance(b, Var):
                for d in range(b.aval.ndim):
                    self.join((a, d + first), (b, d))

    def element(self, eqn, row):
        """What an element of an equation's result is made of."""
        out, = eqn.outvars
        shapes = {a.aval.shape for a in eqn.invars}
        if eqn.primitive in elementwise and shapes <= {(), out.aval.shape}:
            given = [a for a in eqn.invars if a.aval.shape]
            return self.same(given, [out] * len(given))
        index = tuple(Axis(n) if n > 1 else as_index(0) for n in out.aval.shape)
        own = {i: (out, d) for d, i in enumerate(index) if type(i) is Axis}
        for at in (e for e in postorder([row.at(eqn, index)]) if type(e) is At):
            self.vars.setdefault(at.var)
            for d, (i, n) in enumerate(zip(at.index, at.var.aval.shape, strict=True)):
                if i in own and i.extent == n:
                    self.join((at.var, d), own[i])
                elif n > 1:
                    self.mixed |= {(at.var, d), *(own[a] for a in i.free if a in own)}
                    if i.free <= own.keys() and eqn.primitive is not reshape_p:
                        self.permuted.add(out)
