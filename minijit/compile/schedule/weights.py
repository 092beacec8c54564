"""How many instructions an operation is.

    weight(exp(x))                   # (21.0, 0.0, 0.0): none of them slow, no call
"""

from ..loops.expressions import Op
from ..loops.graphs import postorder
from ..loops.scalars import INDEX, dtype_bounds, is_half
from ..numbers.scalar_forms import form_of, plain_name, scalar_form

# Operations that are several instructions; of slow ones the machine knows how many.
instructions_of = {"max": 3, "min": 3, "machine_div": 20, "machine_rem": 20}
# Those that round to a 16-bit float; to read one is as good as nothing.
rounding = {"float16": 2.0, "bfloat16": 8.0}
slow, library = {"div", "sqrt", "rem"}, {"lgamma", "erf", "erfc", "pow", "atan2"}

# {(name, dtypes of the operands, dtype): what `weight` says of such operations}
weights: dict = {}


def words_of(name, dtype):
    """Those of an operation on numbers of a dtype."""
    whole = dtype.kind != "f" and name in ("max", "min")
    return 1 if whole else instructions_of.get(name, 1)


def weight(expr):
    """(instructions, slow ones, calls) of an operation; of a form, all in it."""
    # An index that cannot overflow is part of an address; other integers are computed.
    index = expr.dtype == INDEX and expr.bounds != dtype_bounds(INDEX)
    if type(expr) is not Op or index or expr.name == "item":
        return 0.0, 0.0, 0.0
    name, dtypes = plain_name(expr), tuple(a.dtype for a in expr.args)
    if name == "convert" and any(map(is_half, (*dtypes, expr.dtype))):
        return rounding.get(expr.dtype.name, 0.0), 0.0, 0.0
    if (key := (name, dtypes, expr.dtype)) in weights:
        return weights[key]
    if scalar_form(expr) is None:
        call = name in library
        words = 0 if call else words_of(name, expr.dtype)
        found = float(words), float(name in slow), float(call)
    else:
        inside = postorder([form_of(*key)[1]])
        common = (e for e in inside if not getattr(e, "name", "").startswith("rare_"))
        found = tuple(map(sum, zip(*map(weight, common), strict=True)))
    weights[key] = found
    return found
