"""Floats of 8 bits and fewer, and integers of 4: dtypes to store numbers in.

    x = jnp.array([0.1, 3.0, 1000.0], jnp.float8_e4m3fn)    # Array([0.1015625, 3, nan])
    x.astype(jnp.float32) * 2

Weights and activations take a quarter of the memory of float32 in them.  No processor
that minijit compiles for computes with them: operations on them are NumPy's, in
float32, and so `explain` says.  They are not promoted to other dtypes: too much would
be lost, or too much memory taken, without anybody having asked for it.
"""

import ml_dtypes
import numpy as np

from ..trace import dtypes
from ..trace.dtypes import ScalarType, class_of, dtype_names, family_of
from ..trace.jaxprs import parser as jaxpr_parser

classes = {
    "floating": dtypes.floating,
    "signed": dtypes.signedinteger,
    "unsigned": dtypes.unsignedinteger,
}


def add_dtype(name, family):
    """An array may be of this dtype; a weak number of its family becomes one."""
    scalar = getattr(ml_dtypes, name)
    dtype = np.dtype(scalar)
    dtype_names[dtype], family_of[dtype] = name, family
    class_of[scalar] = classes[family]
    node = dtypes.weak_nodes[family]
    for graph in (dtypes.wider, dtypes.wider_in_32_bits):
        graph |= {name: [], node: [*graph[node], name]}
    jaxpr_parser.short_names[dtypes.short_dtype_name(dtype)] = dtype
    jaxpr_parser.long_names[name] = dtype
    narrow[name] = ScalarType(name)
    return narrow[name]


# {name: scalar type} of all of them.
narrow = {}
float4_e2m1fn = add_dtype("float4_e2m1fn", "floating")
float8_e3m4 = add_dtype("float8_e3m4", "floating")
float8_e4m3 = add_dtype("float8_e4m3", "floating")
float8_e4m3b11fnuz = add_dtype("float8_e4m3b11fnuz", "floating")
float8_e4m3fn = add_dtype("float8_e4m3fn", "floating")
float8_e4m3fnuz = add_dtype("float8_e4m3fnuz", "floating")
float8_e5m2 = add_dtype("float8_e5m2", "floating")
float8_e5m2fnuz = add_dtype("float8_e5m2fnuz", "floating")
float8_e8m0fnu = add_dtype("float8_e8m0fnu", "floating")
int2 = add_dtype("int2", "signed")
int4 = add_dtype("int4", "signed")
uint2 = add_dtype("uint2", "unsigned")
uint4 = add_dtype("uint4", "unsigned")
