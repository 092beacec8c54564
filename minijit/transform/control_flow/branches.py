"""Branches as an equation: `cond[branches=(...)] index *operands`."""

from ...trace.array import shape_rules
from ...trace.core import Primitive, eval_rules
from ..pieces import compiled

# chapter 11
cond_p = Primitive("cond", multiple_results=True)


def cond_shape(index, *operands, branches):
    return branches[0].out_avals


def cond_eval(index, *operands, branches):
    return compiled(branches[int(index)])(*operands)


shape_rules |= {cond_p: cond_shape}
eval_rules |= {cond_p: cond_eval}
