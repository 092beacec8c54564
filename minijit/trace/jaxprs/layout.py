"""How printed jaxprs look: names, line breaks, and the values of parameters.

Names are unique in the whole text, nested jaxprs included.  A jaxpr that stands in
several equations is printed once, before the rest, under a name.
"""

import itertools
import re

import numpy as np

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
