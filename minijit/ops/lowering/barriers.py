"""Barriers: their operand is stored, and no kernel goes on beyond it."""

from ...compile.lower.walk import Elements, lower_rules
from ...compile.schedule.shared_loops import barriers
from ...trace.jaxprs.jaxpr import Var
from ..barriers import optimization_barrier_p


class Barrier(Elements):
    """The row of a barrier: its operand is stored, and its result is that."""

    def lower(self, walk, eqn):
        operand, = eqn.invars
        super().lower(walk, eqn)
        if isinstance(operand, Var) and operand in walk.made_by:
            walk.stored.setdefault(operand, ("barrier", "a barrier reads it"))
            for indices in walk.readers[operand].values():
                # An index of no group: none that reads it may store it, too.
                indices[None] = None


lower_rules |= {optimization_barrier_p: Barrier(lambda out, index, x: x[index], 0)}
barriers[optimization_barrier_p] = "barrier"
