"""Large products of complex matrices: four products of real ones.

    (a + bi) @ (c + di)            # (a @ c - b @ d) + (a @ d + b @ c)i

A routine for products takes real numbers.  Taking the parts out of the factors, and
putting those of the result together, are kernels that fuse with what is around them.
"""

from ..compile.loops.scalars import part_dtype
from ..compile.lower.factors import is_large
from ..compile.pipeline import expansions
from ..trace import primitives as prim
from ..trace.jaxprs.jaxpr import Eqn, Var
from .complex_numbers import complex_p, imag_p, real_p


def in_real_products(jaxpr):
    """A jaxpr whose large products of complex numbers are of real ones."""
    eqns = []
    for eqn in jaxpr.eqns:
        out = eqn.outvars[0].aval if eqn.outvars else None
        is_dot = eqn.primitive is prim.dot_general_p and out.dtype.kind == "c"
        eqns += four_products(eqn) if is_dot and is_large(eqn) else [eqn]
    return jaxpr.replace(eqns=tuple(eqns))


def four_products(eqn):
    """The equations of one product, the last of which has its result."""
    (out,), dtype = eqn.outvars, part_dtype(eqn.outvars[0].aval.dtype)
    params, eqns = {**eqn.params, "preferred_element_type": dtype}, []

    def apply(primitive, *atoms, like, **params):
        var = Var(like.aval.update(dtype=dtype, weak_type=False))
        eqns.append(Eqn(primitive, atoms, (var,), params, eqn.source))
        return var

    def product(x, y):
        return apply(prim.dot_general_p, x, y, like=out, **params)

    (a, c), (b, d) = (
        [apply(part, x, like=x) for x in eqn.invars] for part in (real_p, imag_p)
    )
    real = apply(prim.sub_p, product(a, c), product(b, d), like=out)
    imag = apply(prim.add_p, product(a, d), product(b, c), like=out)
    return [*eqns, Eqn(complex_p, (real, imag), (out,), {}, eqn.source)]


expansions |= {"in_real_products": in_real_products}
