"""How running totals become loops."""

from ...compile.loops.expressions import Axis, Reduce, op
from ...compile.loops.statements import Store
from ...compile.lower.calls import add_nest
from ...compile.lower.elements import affine, widen
from ...compile.lower.walk import Operand, Statements, lower_rules, new_axis
from ...compile.memory.complex_pairs import stored_as_pairs
from ...compile.simplify.folding import rules
from ..cumulative import cumsum_p, kept_in, totals


def running_lower(name):
    """The row of a running total: a loop of kind `scan`, the innermost one."""

    def function(walk, eqn):
        var, = eqn.outvars
        x, = map(Operand, eqn.invars)
        dim, backward = eqn.params["axis"], eqn.params["reverse"]
        axes = [*map(new_axis, x.shape)]
        axes[dim] = step = Axis(x.shape[dim], "scan")
        walk.stored.setdefault(var, ("scan", f"{eqn.primitive} runs along an axis"))
        if 0 in x.shape:
            return
        nest = (*(axis for axis in axes if axis is not step), step)
        place = affine(step, -1, step.extent - 1) if backward else step
        where = (*axes[:dim], place, *axes[dim + 1 :])
        term = widen(x[where])
        kept = kept_in(name, term.dtype, step.extent)
        total = Reduce(name, (step,), (op("convert", term, dtype=kept),))
        value = op("convert", total, dtype=var.aval.dtype)
        add_nest(walk, eqn, var, Store(var, where, value), nest)

    return Statements(function)


def of_one(s, out, x, *, axis, reverse):
    """Along an axis of one element there is nothing to run."""
    return x if out.shape[axis] == 1 else None


rules |= {p: [of_one] for p in totals}
lower_rules |= {p: running_lower(m.loop) for p, m in totals.items()}
stored_as_pairs |= {cumsum_p}
