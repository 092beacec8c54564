"""Products of complex matrices where no routine takes them: four products of real ones.

    (a + bi) @ (c + di)            # (a @ c - b @ d) + (a @ d + b @ c)i

That is in native loops, and on a GPU; everywhere else such a product is a call.  Taking
the parts out of the factors, and putting those of the result together, are kernels that
fuse with what is around them.
"""

from functools import partial

from ...compile.lower.factors import is_large
from ...compile.pipeline import expansions, loop_expansions
from ...compile.settings import config
from ...trace import primitives as prim
from ...transform.equations import everywhere, written_out
from ..complex_numbers import complex_p, imag_p, real_p


def in_real_products(eqn):
    """A product of complex matrices as equations of real numbers, or None."""
    if is_large(eqn) and eqn.outvars[0].aval.dtype.kind == "c":
        return written_out(eqn, four_products)
    return None


def parts_of(x):
    """The real numbers of an array of complex ones; a real one has zeros as well."""
    if x.dtype.kind == "c":
        return real_p.bind(x), imag_p.bind(x)
    return x, prim.full(x.shape, prim.convert(0, x.dtype))


def four_products(x, y, *, preferred_element_type, **params):
    """A product of complex numbers, by their parts."""
    (a, b), (c, d) = parts_of(x), parts_of(y)
    params["preferred_element_type"] = a.dtype
    product = partial(prim.dot_general_p.bind, **params)
    real = prim.sub(product(a, c), product(b, d))
    return complex_p.bind(real, prim.add(product(a, d), product(b, c)))


def on_a_device(eqn):
    """The same where a device multiplies, which takes floats of 16 bits."""
    return in_real_products(eqn) if config.fusion.half_products else None


expansions |= {"in_real_products": everywhere(on_a_device)}
loop_expansions |= {"in_real_products": everywhere(in_real_products)}
