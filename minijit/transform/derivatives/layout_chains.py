"""Which values to save: what is only another layout of something is made again.

A matrix and its transpose, or a vector and the same vector broadcast over rows, need
not both be kept from a forward to a linear pass.
"""

from ...trace import primitives as lax
from ...trace.jaxprs.jaxpr import Var

# Operations that move or repeat elements but compute nothing.
layout_primitives = {
    lax.broadcast_in_dim_p,
    lax.reshape_p,
    lax.transpose_p,
    lax.squeeze_p,
    lax.convert_element_type_p,
}


def layout_chains(eqns, atoms):
    """Follow each atom back through layout equations, as long as that saves bytes.

    Returns:
      (the equations on the way, in order; the variables where the chains begin).
    """
    made = {v: eqn for eqn in eqns for v in eqn.outvars}
    chains, roots = set(), {}
    for atom in atoms:
        while isinstance(atom, Var):
            eqn = made.get(atom)
            if eqn is None or eqn.primitive not in layout_primitives:
                roots[atom] = None
                break
            source, = eqn.invars
            if source.aval.nbytes > atom.aval.nbytes:
                roots[atom] = None
                break
            chains.add(eqn)
            atom = source
    return tuple(eqn for eqn in eqns if eqn in chains), list(roots)
