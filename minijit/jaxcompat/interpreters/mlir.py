"""How primitives of one's own are compiled, under the names of `jax.interpreters.mlir`.

    register_lowering(p, lower_fun(f, multiple_results=False))   # as f is

Only functions of JAX can be compiled here.  A lowering that writes MLIR is for XLA; a
primitive that has one is computed by its `def_impl`.
"""

from functools import lru_cache, partial

from ... import compiler as compiler
from ...compile.lower.calls import call_program
from ...compile.lower.walk import Statements, fallbacks, lower_rules
from ...compile.memory.complex_pairs import stored_as_pairs
from ...compile.simplify.folding import simplify
from ...trace.arguments import TraceInfo
from ...trace.base import names as _names
from ...trace.jit.jit import jit
from ...trace.primitives import as_array
from ...transform.closed_jaxprs import trace_closed


def lower_fun(fun, multiple_results=True):
    """A lowering: a primitive is compiled as a function of arrays."""
    return partial(lower_as, fun, multiple_results)


def lower_as(fun, many, walk, eqn):
    """Compile an equation as a call of what a function does."""

    def flat(*args):
        result = fun(*args, **eqn.params)
        return list(map(as_array, result if many else [result]))

    name = eqn.primitive.name
    avals = [atom.aval for atom in eqn.invars]
    closed = trace_closed(flat, avals, TraceInfo(name, "lower_fun"))
    call_program(walk, eqn, simplify(closed), name)


# primitive -> the function that it is compiled as.
lowered_as: dict = {}


@lru_cache
def compiled_alone(prim, names):
    """The jitted function that a primitive is lowered as, or None.

    Args:
      names: those of its params.
    """
    return prim in lowered_as and jit(lowered_as[prim], static_argnames=names)


def register_lowering(prim, rule, platform=None, inline=True, cacheable=True):
    """Say how a primitive is compiled; a rule for another platform is not for here."""
    del inline, cacheable
    if platform not in (None, "cpu"):
        return
    if getattr(rule, "func", None) is lower_as:
        fallbacks.pop(prim, None)
        lower_rules[prim] = Statements(rule)
        lowered_as[prim] = rule.args[0]
        # Of complex numbers it is known what the function is made of.
        stored_as_pairs.add(prim)
    else:
        fallbacks[prim] = "its lowering is written for XLA"


_names.publish(globals(), "lower_fun register_lowering")
