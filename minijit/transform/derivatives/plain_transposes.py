"""Rows of `transpose_rules` that need no explanation: copies, conversions, quotients,
selections and concatenations."""

from ...trace import primitives as lax
from ...trace.array import aval_of
from ...trace.slicing import slice_in_dim
from ..tangents import zeros
from .transpose import adding, aval_of_argument, is_linear, transpose_rules, unbroadcast


def div_transpose(ct, x, y):
    return unbroadcast(lax.div(ct, y), x), None


def convert_transpose(ct, x, *, new_dtype, weak_type):
    # Not `convert`: to take the real part of a cotangent is no mistake to warn of.
    back = dict(new_dtype=x.aval.dtype, weak_type=x.aval.weak_type)
    return (lax.convert_element_type_p.bind(ct, **back),)


def select_transpose(ct, which, *cases):
    zero = zeros(aval_of(ct))
    return None, *[
        lax.select_n(which, *[ct if j == i else zero for j in range(len(cases))])
        if is_linear(x)
        else None
        for i, x in enumerate(cases)
    ]


def concatenate_transpose(ct, *args, dimension):
    out, start = [], 0
    for x in args:
        stop = start + aval_of_argument(x).shape[dimension]
        part = slice_in_dim(ct, start, stop, axis=dimension) if is_linear(x) else None
        out.append(part)
        start = stop
    return out


transpose_rules |= adding({
    lax.copy_p: lambda ct, x: (ct,),
    lax.convert_element_type_p: convert_transpose,
    lax.div_p: div_transpose,
    lax.select_n_p: select_transpose,
    lax.concatenate_p: concatenate_transpose,
})
