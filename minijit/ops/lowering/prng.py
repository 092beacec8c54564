"""How random bits become loops."""

from functools import partial

import numpy as np

from ...compile.loops.expressions import Const, as_index, op
from ...compile.lower.walk import Elements, lower_rules
from ...compile.simplify.folding import inline_rules
from ...compile.simplify.storage import stand_ins
from ...trace import primitives as lax
from ...trace.array import ShapedArray
from ...transform.pieces import jaxpr_of
from .. import bits as bit_ops
from ..bit_generators import generate, rng_bit_generator_p
from ..prng import (
    UINT32, random_unwrap_p, random_wrap_p, storages, threefry2x32, threefry2x32_p,
)


def const_word(value):
    return Const(value, np.dtype("uint32"))


def rotate(x, distance):
    left = op("shift_left", x, const_word(distance))
    return op("or", left, op("shift_right_logical", x, const_word(32 - distance)))


def hashed(out, index, *words):
    """Both words of the hash, and which of them is asked for says the last index."""
    *where, which = index
    k1, k2, x1, x2 = (x.spread(where) for x in words)
    add, xor = partial(op, "add"), partial(op, "xor")
    first, second = threefry2x32((k1, k2), (x1, x2), add, xor, rotate, const_word)
    return op("select", op("eq", which, as_index(0)), first, second)


lower_rules |= {threefry2x32_p: Elements(hashed, 120)}


def in_memory(eqn):
    """Words become keys, and keys words, as the same bits, mostly in another dtype.

    For keys of four words there is no such operation in kernels: NumPy does it.
    """
    into_keys = eqn.primitive is random_wrap_p
    keys, = eqn.outvars if into_keys else eqn.invars
    storage = keys.aval.dtype.storage
    if storage == storages[4,]:
        return eqn.primitive, dict(impl=None) if into_keys else {}
    if storage == UINT32:
        new_sizes = eqn.outvars[0].aval.shape
        return lax.reshape_p, dict(new_sizes=new_sizes, dimensions=None)
    new_dtype = storage if into_keys else UINT32
    return bit_ops.bitcast_convert_type_p, dict(new_dtype=new_dtype)


stand_ins |= {random_wrap_p: in_memory, random_unwrap_p: in_memory}


def as_program(**params):
    """The jaxpr of what a generator means."""
    state = ShapedArray((4,), UINT32)
    return jaxpr_of(partial(generate, **params), [state], "rng_bit_generator")


inline_rules |= {rng_bit_generator_p: as_program}
