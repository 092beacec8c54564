"""Large products of complex matrices: four products of real ones.

    (a + bi) @ (c + di)            # (a @ c - b @ d) + (a @ d + b @ c)i

A routine for products takes real numbers.  Taking the parts out of the factors, and
putting those of the result together, are kernels that fuse with what is around them.
"""

from functools import partial

from ..compile.lower.factors import is_large
from ..compile.pipeline import expansions
from ..trace import primitives as prim
from ..transform.equations import written_out
from .complex_numbers import complex_p, imag_p, real_p


def in_real_products(jaxpr):
    """A jaxpr whose large products of complex numbers are of real ones."""
    eqns = []
    for eqn in jaxpr.eqns:
        out = eqn.outvars[0].aval if eqn.outvars else None
        is_dot = eqn.primitive is prim.dot_general_p and out.dtype.kind == "c"
        large = is_dot and is_large(eqn)
        eqns += written_out(eqn, four_products) if large else [eqn]
    return jaxpr.replace(eqns=tuple(eqns))


def four_products(x, y, *, preferred_element_type, **params):
    """A product of complex numbers, by their parts."""
    parts = [real_p.bind(x), real_p.bind(y), imag_p.bind(x), imag_p.bind(y)]
    a, c, b, d = parts
    params["preferred_element_type"] = a.dtype
    product = partial(prim.dot_general_p.bind, **params)
    real = prim.sub(product(a, c), product(b, d))
    return complex_p.bind(real, prim.add(product(a, d), product(b, c)))


expansions |= {"in_real_products": in_real_products}
