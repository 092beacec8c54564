"""`stop_gradient`: the identity, through which no derivative passes.

    grad(lambda x: x * stop_gradient(x))(3.0)       # 3.0, and not 6.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtypes
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.trees.pytree import tree_map
from .batching.vmap import batch_rules, elementwise
from .derivatives.linearize import constant, linearize_rules

stop_gradient_p = Primitive("stop_gradient")

shape_rules |= {stop_gradient_p: lambda x: x}
eval_rules |= on_numpy({stop_gradient_p: np.copy})
linearize_rules |= constant(stop_gradient_p)
batch_rules |= elementwise(stop_gradient_p)


def stop_gradient(x: Any) -> Any:
    """A tree of arrays as it is, but a constant to every derivative.

    JAX: `jax.lax.stop_gradient`.
    """
    return tree_map(stop, x)


def stop(x):
    """One array; integers have no derivative to stop."""
    if not dtypes.issubdtype(aval_of(x).dtype, np.inexact):
        return x
    return stop_gradient_p.bind(x)
