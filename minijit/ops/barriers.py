"""`optimization_barrier`: the identity, across which nothing is fused.

    y = optimization_barrier(x + 1.0)       # x + 1.0 is written to memory, then read
"""

from __future__ import annotations

import numpy as np

from ..trace.array import on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.primitives import as_array
from ..trace.trees.pytree import tree_map
from ..trace.types import Array, ArrayLike
from ..transform.batching.vmap import batch_rules, elementwise
from ..transform.derivatives.linearize import linear_in_first, linearize_rules
from ..transform.derivatives.transpose import adding, transpose_rules

optimization_barrier_p = Primitive("optimization_barrier")

shape_rules |= {optimization_barrier_p: lambda x: x}
eval_rules |= on_numpy({optimization_barrier_p: np.copy})


# A tangent has a barrier where its primal has one, and so has a cotangent.
linearize_rules |= linear_in_first(optimization_barrier_p)
transpose_rules |= adding({
    optimization_barrier_p: lambda ct, x: (optimization_barrier_p.bind(ct),)
})
batch_rules |= elementwise(optimization_barrier_p)


def optimization_barrier(operand: ArrayLike, /) -> Array:
    """A tree of arrays as it is; nothing before it shares a kernel with what follows.

    JAX: `jax.lax.optimization_barrier`.
    """
    return tree_map(lambda x: optimization_barrier_p.bind(as_array(x)), operand)
