"""How a total begins and goes on: the meaning of a `Reduce`, in plain operations.

    start_values(Reduce("add", (k,), (x,)))     # (0.0,)
    combine("max", (best,), (x,))               # (max(best, x),)
    combine("argmax", (best, at), (x, k))       # a pair: the value, and where it is
"""

from .expressions import Const, op
from .scalars import identities


def start_values(reduce):
    """The accumulators of a Reduce before the first step: one constant a body."""
    values = identities[reduce.op](reduce.dtype)
    dtypes = [body.dtype for body in reduce.bodies]
    return tuple(Const(v, d) for v, d in zip(values, dtypes, strict=True))


def combine(name, old, new):
    """One step of a Reduce: accumulators and values -> accumulators, as expressions."""
    if name not in ("argmax", "argmin"):
        return (op(name, *old, *new),)
    # The first of several equal ones stays, and the first NaN stays for good.
    better = op("gt" if name == "argmax" else "lt", new[0], old[0])
    if new[0].dtype.kind not in "iub":
        nan = op("and", op("ne", new[0], new[0]), op("eq", old[0], old[0]))
        better = op("or", better, nan)
    return tuple(op("select", better, n, o) for n, o in zip(new, old, strict=True))
