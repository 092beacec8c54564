"""Jaxprs as text, in JAX's form.

    print(make_jaxpr(f)(3.0))        { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }

Names are unique in the whole text, nested jaxprs included.  A jaxpr that stands in
several equations is printed once, before the rest, under a name:

    let inner = { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) } in
    { lambda ; c:f32[]. let
        d:f32[] = jit[name=inner jaxpr=inner] c
        e:f32[] = jit[name=inner jaxpr=inner] d
      in (e,) }
"""

import itertools
import re

import numpy as np

from ..array import ShapedArray

KEYWORDS = ("in", "let", "lambda")

# Parameters that are not printed if they have this value, as in JAX.
quiet_params = {"dot_general": {"precision": None}}


def letters(n):
    """The n-th variable name: a, b, ..., z, ba, bb, ..."""
    name = ""
    while True:
        name = chr(ord("a") + n % 26) + name
        n //= 26
        if n == 0:
            return name


class Names:
    """The names that variables and shared jaxprs have in one text."""

    def __init__(self):
        self.vars = {}
        self.jaxprs = {}
        self.count = itertools.count()

    def __call__(self, var):
        if var not in self.vars:
            name = letters(next(self.count))
            while name in KEYWORDS:
                name = letters(next(self.count))
            self.vars[var] = name
        return self.vars[var]

    def name_jaxpr(self, jaxpr, wanted):
        """A name for a shared jaxpr: the function's, numbered if it is taken."""
        wanted = re.sub(r"\W", "_", wanted) or "jaxpr"
        name, n = wanted, 0
        while name in self.jaxprs.values():
            n += 1
            name = f"{wanted}_{n}"
        self.jaxprs[jaxpr] = name
        return name


def shared_jaxprs(jaxpr, subjaxprs):
    """[(jaxpr, name)] of those that stand in several equations, inner ones first.

    Args:
      subjaxprs: the function that gives the jaxprs of an equation.
    """
    count, wanted, order = {}, {}, []
    todo = [(jaxpr, False)]
    while todo:
        jaxpr, done = todo.pop()
        if done:
            order.append(jaxpr)
            continue
        todo.append((jaxpr, True))
        for eqn in jaxpr.eqns:
            for sub in subjaxprs(eqn):
                count[sub] = count.get(sub, 0) + 1
                wanted.setdefault(sub, str(eqn.params.get("name", eqn.primitive.name)))
                if count[sub] == 1:
                    todo.append((sub, False))
    return [(j, wanted[j]) for j in order if count.get(j, 0) > 1]


def fit_jaxpr(head, eqns, tail, width):
    """The lines of a jaxpr: a single one where it fits into `width`.

    Args:
      head, tail: what stands before and after the equations.
      eqns: the lines of each equation.
    """
    if len(eqns) < width and all(len(lines) == 1 for lines in eqns):
        middle = "; ".join(lines[0] for lines in eqns)
        flat = f"{head} {middle} {tail}" if eqns else f"{head} {tail}"
        if len(flat) <= width and "#" not in flat:
            return [flat]
    return [head, *["    " + line for lines in eqns for line in lines], "  " + tail]


def fit_equation(start, params, right, width, comment=""):
    """The lines of an equation: one if it fits into `width`, else one a parameter.

    Args:
      start, right: what stands before and after the parameters.
      params: the lines of each parameter.
      comment: what ends the last line.
    """
    right = f" {right}" if right else ""
    if not params:
        return [start + right + comment]
    flat = f"{start}[{' '.join(p[0] for p in params)}]{right}"
    if all(len(p) == 1 for p in params) and len(flat) <= width:
        return [flat + comment]
    body = ["  " + line for lines in params for line in lines]
    return [f"{start}[", *body, f"]{right}{comment}"]


def printed_params(eqn):
    """[(name, value)]: a call's name first, as in JAX, the rest in order."""
    quiet = quiet_params.get(eqn.primitive.name, {})
    keys = [k for k, v in eqn.params.items() if k not in quiet or v != quiet[k]]
    keys.sort(key=lambda key: (key != "name", key))
    return [(key, eqn.params[key]) for key in keys]


def print_number(value):
    """A literal's value: Python's own number, if it prints as exactly."""
    return str(value.item() if value.dtype.kind in "biu" else value)


def print_value(value, brackets=False):
    """A parameter that is no jaxpr.  JAX prints the innermost tuples of dot_general's
    dimension numbers with square brackets."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        inner = [print_value(v, brackets) for v in value]
        if brackets and not any(isinstance(v, tuple) for v in value):
            return f"[{', '.join(inner)}]"
        return f"({', '.join(inner)}{',' * (len(inner) == 1)})"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, str):
        return repr(value) if re.search(r"[\s\[\](){}'\"=]|^$", value) else value
    if hasattr(value, "_asdict"):
        inner = [f"{k}={print_value(v)}" for k, v in value._asdict().items()]
        return f"{type(value).__name__}({', '.join(inner)})"
    if hasattr(type(value), "__members__"):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


# ---- walking over a jaxpr


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
