"""What a compiled program takes and gives: constants as they lie, results of its own.

    with_own_results({ lambda ; a:f32[3]. let  in (a, a) })
    # { lambda ; a:f32[3]. let b:f32[3] = copy a; c:f32[3] = copy a in (b, c) }
"""

import numpy as np

from ..trace import primitives as prim
from ..trace.array import ShapedArray, to_numpy
from ..trace.jaxpr import Eqn, Literal, Var


def with_own_results(jaxpr):
    """The jaxpr with a copy of each result that is an argument, constant or literal.

    Arrays are written to two places at once, but what is no array is made in one.
    """
    given = {*jaxpr.invars, *jaxpr.constvars}
    outvars, copies = [], []
    for atom in jaxpr.outvars:
        if isinstance(atom, Literal) or atom in given:
            copy = Var(atom.aval)
            copies.append(Eqn(prim.copy_p, (atom,), (copy,), {}))
            atom = copy
        elif not isinstance(atom.aval, ShapedArray):
            given.add(atom)
        outvars.append(atom)
    if not copies:
        return jaxpr
    return jaxpr.replace(eqns=(*jaxpr.eqns, *copies), outvars=tuple(outvars))


def constant_array(value, aval):
    """A constant as kernels take it: in row-major order, or an array of one object."""
    if isinstance(aval, ShapedArray):
        return np.asarray(to_numpy(value, aval), order="C")
    box = np.empty((), object)
    box[()] = value
    return box
