"""Whether a jaxpr is well-formed: later parts rewrite programs, and may be wrong.

    check_jaxpr(jaxpr)     # JaxprTypeError names the equation and the user's line
"""

from ..array import result_avals
from ..base.errors import JaxprTypeError, at_line
from .jaxpr import Var, subjaxprs


def check_jaxpr(jaxpr):
    """Raise `JaxprTypeError` unless every equation is well-formed.

    Variables must be assigned once, before they are used; every equation's results
    must have the types that its shape rule computes.
    """
    todo = [jaxpr]
    while todo:
        jaxpr = todo.pop()
        defined = set()
        for var in (*jaxpr.constvars, *jaxpr.invars):
            define(defined, var, "the inputs")
        for eqn in jaxpr.eqns:
            check_equation(defined, eqn)
            todo.extend(subjaxprs(eqn))
        check_defined(defined, jaxpr.outvars, "the results")


def define(defined, var, where):
    """Note that `var` has a value from here on; it must not have one yet."""
    if var in defined:
        raise JaxprTypeError(
            f"a variable of type {var.aval} is assigned a second time, in {where}"
        )
    defined.add(var)


def check_defined(defined, atoms, where):
    """Every variable among `atoms` must have a value."""
    for atom in atoms:
        if isinstance(atom, Var) and atom not in defined:
            raise JaxprTypeError(
                f"a variable of type {atom.aval} has no value yet, in {where}"
            )


def check_equation(defined, eqn):
    """Check one equation and define its results."""
    where = f"the equation of {eqn.primitive}{at_line(eqn.source)}"
    check_defined(defined, eqn.invars, where)
    in_avals = [v.aval for v in eqn.invars]
    avals = result_avals(eqn.primitive, in_avals, eqn.params, eqn.source)
    for var, aval in zip(eqn.outvars, avals, strict=True):
        define(defined, var, where)
        if var.aval.strip_weak_type() != aval.strip_weak_type():
            raise JaxprTypeError(
                f"{where} assigns a result of type {aval} to a variable of type "
                f"{var.aval}"
            )
