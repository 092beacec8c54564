"""Rules of arithmetic that are true of all floats, to the bit, and of integers.

Each rule says of which types it is true.  The tables and the first rules stand in
`simplify`; here are differences, quotients and powers, choices that are known, and
chains of conversions.  What is done to a single number and undone, such as `-(-x)` or
`x & x`, is left to LLVM, which sees it as well.
"""

import numpy as np

from ...trace import primitives as prim
from .folding import exact, filled, holds, real, rules
from .known_values import uniform


def neutral_sub(s, out, x, y):
    """x - 0, of floats too; x - x only of integers, as inf - inf is NaN."""
    if real(out.dtype) and holds(s, y, 0):
        return x
    if exact(out.dtype) and x is y:
        return filled(s, 0, out)


def neutral_div(s, out, x, y):
    """x / 1; x / 2**k is x * 2**-k, as both round the same number."""
    if real(out.dtype) and holds(s, y, 1):
        return x
    given = uniform(s, y)
    if out.dtype.kind != "f" or given is None or not np.isfinite(given) or given == 0:
        return None
    mantissa, _ = np.frexp(given)
    with np.errstate(over="ignore"):
        inverse = (1 / given).astype(out.dtype)
    tiny = np.finfo(out.dtype).tiny
    if abs(mantissa) == 0.5 and np.isfinite(inverse) and abs(inverse) >= tiny:
        return s.apply(prim.mul_p, x, filled(s, inverse, y.aval))


def never_wins(value):
    """A rule: max(-inf, x), of floats, is x, as min(inf, x) is; NaN stays NaN."""

    def rule(s, out, x, y):
        if exact(out.dtype) or not real(out.dtype):
            return None
        return y if holds(s, x, value) else x if holds(s, y, value) else None

    return rule


def small_power(s, out, x, *, y):
    """x ** 1 is x, and x ** 2 is x * x."""
    return x if y == 1 else s.apply(prim.mul_p, x, x) if y == 2 else None


def half_power(s, out, x, y):
    """x ** 0.5 is the square root, but that -inf gives infinity, and -0.0 gives 0.0."""
    if out.dtype.kind != "f" or not holds(s, y, 0.5):
        return None
    root = s.apply(prim.add_p, s.apply(prim.sqrt_p, x), filled(s, 0, out))
    lowest = s.apply(prim.eq_p, x, filled(s, -np.inf, out))
    return s.apply(prim.select_n_p, lowest, root, filled(s, np.inf, out))


rules |= {
    prim.sub_p: [neutral_sub],
    prim.div_p: [neutral_div],
    prim.pow_p: [half_power],
    prim.max_p: [never_wins(-np.inf)],
    prim.min_p: [never_wins(np.inf)],
    prim.integer_pow_p: [small_power],
    prim.copy_p: [lambda s, out, x: x],
}


def known_choice(s, out, which, *cases):
    """A select whose predicate is constant, negated, or without effect."""
    if all(case is cases[0] for case in cases):
        return cases[0]
    index = uniform(s, which)
    if index is not None:
        return cases[min(max(int(index), 0), len(cases) - 1)]
    negated = s.maker(which, prim.not_p)
    if negated and which.aval.dtype == bool:
        return s.apply(prim.select_n_p, negated.invars[0], *reversed(cases))


def conversions(s, out, x, *, new_dtype, weak_type):
    """To the same dtype; or of a conversion that lost nothing: leave that one out."""
    if x.aval.dtype == new_dtype:
        return x
    eqn = s.maker(x, prim.convert_element_type_p)
    if eqn is None:
        return None
    origin = eqn.invars[0]
    if not lossless(origin.aval.dtype, x.aval.dtype):
        return None
    if origin.aval.dtype == new_dtype:
        return origin
    if same_value_converts_alike(origin.aval.dtype, x.aval.dtype, new_dtype):
        params = {"new_dtype": new_dtype, "weak_type": weak_type}
        return s.apply(prim.convert_element_type_p, origin, **params)


def lossless(source, target):
    """Whether every value of a dtype is a value of another."""
    # NumPy calls a float64 safe for integers of 64 bits.
    wide = source.kind in "iu" and source.itemsize == 8
    return np.can_cast(source, target, "safe") and not (wide and target.kind in "fc")


def same_value_converts_alike(source, middle, target):
    """Whether the same number converts to `target` alike from both dtypes.

    Not from integers to 16-bit floats, which may be rounded twice on the way.
    """
    if "c" in (source.kind, middle.kind, target.kind):
        return False
    if exact(target):
        # From an integer they wrap, from a float they saturate.
        return target.kind == "b" or exact(source) == exact(middle)
    return target.itemsize >= 4


rules |= {prim.select_n_p: [known_choice], prim.convert_element_type_p: [conversions]}
