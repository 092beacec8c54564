"""Large products of complex matrices: four products of real ones.

    (a + bi) @ (c + di)            # (a @ c - b @ d) + (a @ d + b @ c)i

A routine for products takes real numbers.  Taking the parts out of the factors, and
putting those of the result together, are kernels that fuse with what is around them.
"""

from functools import partial

from ..compile.lower.factors import is_large
from ..compile.pipeline import expansions
from ..trace import primitives as prim
from ..transform.equations import everywhere, written_out
from .complex_numbers import complex_p, imag_p, real_p


def in_real_products(eqn):
    """A large product of complex numbers as equations of real ones, or None."""
    is_dot = eqn.primitive is prim.dot_general_p
    if is_dot and eqn.outvars[0].aval.dtype.kind == "c" and is_large(eqn):
        return written_out(eqn, four_products)
    return None


def four_products(x, y, *, preferred_element_type, **params):
    """A product of complex numbers, by their parts."""
    parts = [real_p.bind(x), real_p.bind(y), imag_p.bind(x), imag_p.bind(y)]
    a, c, b, d = parts
    params["preferred_element_type"] = a.dtype
    product = partial(prim.dot_general_p.bind, **params)
    real = prim.sub(product(a, c), product(b, d))
    return complex_p.bind(real, prim.add(product(a, d), product(b, c)))


expansions |= {"in_real_products": everywhere(in_real_products)}
