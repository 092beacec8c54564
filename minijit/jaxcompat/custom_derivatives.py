"""Custom derivative rules, under the names of `jax.custom_derivatives`."""

from ..trace.api import calls
from ..trace.base import names as _names
from ..transform.custom.closures import (
    closure_convert as closure_convert, custom_gradient as custom_gradient,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from ..transform.custom.custom_derivatives import (
    custom_jvp as custom_jvp, custom_vjp as custom_vjp,
)
from ..transform.custom.rule_checks import (
    CustomVJPPrimal as CustomVJPPrimal, SymbolicZero as SymbolicZero,
    zero_from_primal as zero_from_primal,
)

_names.front(globals(), lambda: _names.public_names(globals()))

# chapter 16, brought along
from .linear_calls import linear_call as linear_call

calls.explain_calls("custom_derivatives", globals(), results=["custom_gradient"])
