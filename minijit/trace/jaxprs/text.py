"""Jaxprs as text, in JAX's form.

    print(make_jaxpr(f)(3.0))        { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }

A jaxpr that stands in several equations is printed once, before the rest:

    let inner = { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) } in
    { lambda ; c:f32[]. let
        d:f32[] = jit[name=inner jaxpr=inner] c
        e:f32[] = jit[name=inner jaxpr=inner] d
      in (e,) }
"""

from ..array import ShapedArray
from .layout import (
    Names,
    fit_equation,
    fit_jaxpr,
    print_number,
    print_value,
    printed_params,
    shared_jaxprs,
)

WIDTH = 80

# How the type of a variable prints, by its class.
aval_printers: dict = {ShapedArray: ShapedArray.str_short}


def is_jaxpr(x):
    """Whether something is a `Jaxpr`: this module is imported before there are any."""
    return hasattr(x, "constvars")


def is_closed(x):
    """Whether something is a `ClosedJaxpr`."""
    return hasattr(x, "consts") and hasattr(x, "jaxpr")


def subjaxprs(eqn):
    """The jaxprs among an equation's params, closed ones opened."""
    todo, found = list(eqn.params.values()), []
    for value in todo:
        if is_closed(value):
            found.append(value.jaxpr)
        elif is_jaxpr(value):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            todo.extend(value)
    return found


def print_aval(aval):
    """`f32[2,3]`, or whatever the aval's class has in `aval_printers`."""
    return aval_printers[type(aval)](aval)


def print_binder(var, names):
    """A variable where it is bound: `a:f32[3]`."""
    return f"{names(var)}:{print_aval(var.aval)}"


def print_atom(atom, names):
    """A variable's name, or a literal with its type: `2.0:f32[]`."""
    if hasattr(atom, "val"):
        return f"{print_number(atom.val)}:{print_aval(atom.aval)}"
    return names(atom)


def jaxpr_lines(jaxpr, names, width, source_info=False):
    """The lines of one jaxpr; a single one where it fits into `width`."""
    consts = " ".join(print_binder(v, names) for v in jaxpr.constvars)
    args = " ".join(print_binder(v, names) for v in jaxpr.invars)
    eqns = [eqn_lines(eqn, names, width - 4, source_info) for eqn in jaxpr.eqns]
    results = [print_atom(v, names) for v in jaxpr.outvars]
    results = f"{results[0]}," if len(results) == 1 else ", ".join(results)
    head = f"{{ lambda {consts}; {args}. let"
    return fit_jaxpr(head, eqns, f"in ({results}) }}", width)


def eqn_lines(eqn, names, width, source_info):
    """The lines of one equation: one if it fits, else one a parameter."""
    left = " ".join(print_binder(v, names) for v in eqn.outvars)
    right = " ".join(print_atom(v, names) for v in eqn.invars)
    start = f"{left} = {eqn.primitive.name}" if left else eqn.primitive.name
    params = []
    for key, value in printed_params(eqn):
        first, *rest = print_param(key, value, names, width - 4)
        params.append([f"{key}={first}", *rest])
    comment = f"  # {eqn.source}" if source_info and eqn.source else ""
    return fit_equation(start, params, right, width, comment)


def print_param(key, value, names, width):
    """The lines of a parameter's value, which may be a jaxpr or a tuple of them."""
    if is_closed(value):
        value = value.jaxpr
    if is_jaxpr(value):
        known = value in names.jaxprs
        return [names.jaxprs[value]] if known else jaxpr_lines(value, names, width)
    if isinstance(value, tuple) and value and is_closed(value[0]):
        inner = [line for v in value for line in print_param(key, v, names, width - 2)]
        return ["(", *["  " + line for line in inner], ")"]
    return [print_value(value, brackets=key == "dimension_numbers")]


def eqn_text(eqn):
    """The text of an equation by itself; its variables are named anew."""
    return "\n".join(eqn_lines(eqn, Names(), WIDTH, source_info=False))


def jaxpr_text(jaxpr, source_info=False):
    """The text of a `Jaxpr`, shared jaxprs first.

    Args:
      jaxpr: a `Jaxpr`.
      source_info: whether to end each equation with the user's line.
    """
    names, out = Names(), []
    for shared, wanted in shared_jaxprs(jaxpr, subjaxprs):
        # Printed before it gets its name, or it would print as just the name.
        head, *rest = jaxpr_lines(shared, names, WIDTH - 4, source_info)
        out += [f"let {names.name_jaxpr(shared, wanted)} = {head}", *rest]
        out[-1] += " in"
    return "\n".join(out + jaxpr_lines(jaxpr, names, WIDTH, source_info))
