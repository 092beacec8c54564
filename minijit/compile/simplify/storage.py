"""Storage: programs of extended dtypes, rewritten in the dtypes that hold them.

A key is 64 bits in memory, and all that a kernel does with keys is to move them: below
this point there is no `key<fry>`, only u64.  What leads from words to keys and back is
a reinterpretation of bits.  A float0, in which there is nothing, is a bool.

    { lambda ; a:key<fry>[]. let b:u32[2] = random_unwrap a in (b,) }
    { lambda ; a:u64[]. let b:u32[2] = bitcast_convert_type[new_dtype=uint32] a in (b,)}
"""

from dataclasses import dataclass

import numpy as np

from ...trace import dtypes
from ...trace.array import ArrayImpl, ShapedArray, aval_of, to_numpy
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, scalar, subjaxprs
from ...trace.jaxprs.memory import memoised
from ...transform.control_flow.unions_and_tapes import Tape, Union
from ...transform.debugging import debug_callback_p
from .folding import preparations

# Primitives that mean another one in memory: eqn -> (that one, its params).
stand_ins: dict = {}


def stored_type(aval):
    """The type in memory of values of a type."""
    if isinstance(aval, Tape):
        return Tape(stored_type(aval.element))
    if isinstance(aval, Union):
        cases = tuple(tuple(map(stored_type, case)) for case in aval.cases)
        return Union(cases, aval.every)
    if isinstance(aval, ShapedArray):
        return aval.update(dtype=dtypes.storage_of(aval.dtype))
    return aval


def stored_value(x):
    """A constant as an array of the dtype in memory."""
    aval = aval_of(x)
    if stored_type(aval) == aval:
        return x
    # There is nothing in a float0: any bytes will do.
    empty = aval.dtype == dtypes.float0
    value = np.zeros(aval.shape, bool) if empty else x.numpy()
    return ArrayImpl(value, stored_type(aval))


@memoised
def has_extended(jaxpr):
    """Whether a variable of a jaxpr, or of one within it, is of an extended dtype."""
    bound = [v for eqn in jaxpr.eqns for v in eqn.outvars]
    atoms = *jaxpr.constvars, *jaxpr.invars, *bound, *jaxpr.outvars
    if any(stored_type(v.aval) != v.aval for v in atoms):
        return True
    return any(has_extended(sub) for eqn in jaxpr.eqns for sub in subjaxprs(eqn))


@memoised
def in_storage(closed):
    """A closed jaxpr in the dtypes of memory; itself if it has no others."""
    if not has_extended(closed.jaxpr):
        return closed
    consts = tuple(map(stored_value, closed.consts))
    return ClosedJaxpr(stored_jaxpr(closed.jaxpr), consts)


def stored_jaxpr(jaxpr):
    """The same equations on variables of the types in memory."""
    variables = {}

    def stored(atom):
        if isinstance(atom, Literal):
            aval = stored_type(atom.aval)
            return atom if aval == atom.aval else Literal(scalar(0, aval), aval)
        if atom not in variables:
            variables[atom] = Var(stored_type(atom.aval))
        return variables[atom]

    eqns = []
    for eqn in jaxpr.eqns:
        params = {key: stored_param(value) for key, value in eqn.params.items()}
        if eqn.primitive is debug_callback_p:
            avals = tuple(v.aval for v in eqn.invars)
            params = dict(callback=OnAvals(params["callback"], avals))
        primitive = eqn.primitive
        if primitive in stand_ins:
            primitive, params = stand_ins[primitive](eqn)
        new = dict(primitive=primitive, params=params)
        new |= dict(invars=tuple(map(stored, eqn.invars)))
        eqns.append(eqn.replace(**new, outvars=tuple(map(stored, eqn.outvars))))
    binders = (tuple(map(stored, vs)) for vs in (jaxpr.constvars, jaxpr.invars))
    return Jaxpr(*binders, tuple(eqns), tuple(map(stored, jaxpr.outvars)), jaxpr.debug)


@dataclass(frozen=True, eq=False)
class OnAvals:
    """A callback that gets its values in the types that it was recorded with."""

    callback: object
    avals: tuple

    def __call__(self, leaves):
        pairs = zip(leaves, self.avals, strict=True)
        self.callback([
            ArrayImpl(to_numpy(x), aval) if stored_type(aval) != aval else x
            for x, aval in pairs
        ])

    def __repr__(self):
        return repr(self.callback)


def stored_param(value):
    """A param in which types and jaxprs are those of memory."""
    if isinstance(value, ClosedJaxpr):
        return in_storage(value)
    if isinstance(value, Jaxpr):
        return stored_jaxpr(value) if has_extended(value) else value
    if isinstance(value, (ShapedArray, Tape, Union)):
        return stored_type(value)
    if type(value) in (tuple, list):
        return type(value)(map(stored_param, value))
    return value


preparations += [in_storage]
