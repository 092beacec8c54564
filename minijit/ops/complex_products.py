"""Products of complex matrices: four products of real ones, or one of stacked parts.

    (a + bi) @ (c + di)            # (a @ c - b @ d) + (a @ d + b @ c)i

A routine for products takes real numbers, and so do loops of vectors: parts of pairs
lie apart.  Taking the parts out of the factors, and putting those of the result
together, are kernels that fuse with what is around them.  Of a large product the parts
are stacked: the rows of a on those of b, the columns of c beside those of d.
"""

from functools import partial

from ..compile.lower.factors import dot_dims, size_of
from ..compile.pipeline import expansions
from ..compile.settings import config
from ..trace import primitives as prim
from ..trace.slicing import slice_in_dim
from ..transform.equations import everywhere, written_out
from .complex_numbers import complex_p, imag_p, real_p


def in_real_products(eqn):
    """A product of complex matrices as equations of real numbers, or None."""
    if eqn.primitive is not prim.dot_general_p or not eqn.outvars[0].aval.size:
        return None
    both = list(zip(eqn.invars, dot_dims(eqn), strict=True))
    rows, columns = (size_of(x, dims.free) for x, dims in both)
    if eqn.outvars[0].aval.dtype.kind != "c" or min(rows, columns) <= 1:
        return None
    work = 4 * rows * columns * size_of(eqn.invars[0], both[0][1].contracted)
    if work <= config.fusion.small_product:
        return written_out(eqn, four_products)
    return written_out(eqn, partial(one_product, [dims.free[0] for _, dims in both]))


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


def one_product(axes, x, y, *, preferred_element_type, dimension_numbers, **params):
    """The same as one product of parts that are stacked along an axis of each factor.

    Args:
      axes: of both factors the first of those that the other one does not have.
    """
    stacked = [
        prim.concatenate(parts_of(z), axis)
        for z, axis in zip((x, y), axes, strict=True)
    ]
    params["preferred_element_type"] = stacked[0].dtype
    params["dimension_numbers"] = dimension_numbers
    whole = prim.dot_general_p.bind(*stacked, **params)
    # The result has the batch first, then what the left factor has for itself.
    (left, _), (batch, _) = dimension_numbers
    row = len(batch)
    column = x.ndim - len(left)

    def part(i, j):
        m, n = whole.shape[row] // 2, whole.shape[column] // 2
        rows = slice_in_dim(whole, i * m, (i + 1) * m, axis=row)
        return slice_in_dim(rows, j * n, (j + 1) * n, axis=column)

    real = prim.sub(part(0, 0), part(1, 1))
    return complex_p.bind(real, prim.add(part(0, 1), part(1, 0)))


expansions |= {"in_real_products": everywhere(in_real_products)}
