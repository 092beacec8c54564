"""Expressions as text, with operators for arithmetic, comparison and logic.

    expr_text(op("mul", Load(x, (j, i)), Const(2, "float32")), {i: "i", j: "j"})
    # (x[j, i] * 2.0)
"""

import numpy as np

from ...trace.dtypes import short_dtype_name
from .scalars import BOOL, INDEX

infix = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
infix |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
infix |= {"and": "&", "or": "|", "xor": "^"}


def expr_text(expr, names=None, depth=8):
    """An expression as text, down to a depth; `names` has the names of some parts."""
    names = {} if names is None else names
    if expr in names:
        return names[expr]
    parts = expr.children()
    if depth == 0 and parts:
        return "..."
    return expr.text([expr_text(part, names, depth - 1) for part in parts])


# The methods `text` of expressions: their parts are text already.


def axis_text(axis, parts):
    return f"axis{axis.extent}"


def load_text(load, parts):
    return f"{load.buffer.name}[{', '.join(parts)}]"


def operation_text(expr, parts):
    name = expr.name
    if name in infix:
        return f"({parts[0]} {infix[name]} {parts[1]})"
    if name in ("convert", "bitcast"):
        return f"{name}[{short_dtype_name(expr.dtype)}]({parts[0]})"
    return f"{name}({', '.join(parts)})"


def reduction_text(reduce, parts):
    """`add(k in 8: x[k])`; an axis that a loop around it binds is only named."""
    bound = zip(reduce.axes, parts[len(reduce.bodies) :], strict=True)
    axes = [f"{n} in {a.extent}" if a.kind == "reduce" else n for a, n in bound]
    return f"{reduce.op}({', '.join(axes)}: {', '.join(parts[: len(reduce.bodies)])})"


def question_text(question, parts):
    return f"?[{', '.join(parts)}]"


def number_text(const, parts=()):
    """A constant; with its dtype unless that is an index's, bool or float32."""
    plain = const.dtype in (INDEX, BOOL, np.dtype("float32"))
    value = str(const.value)
    return value if plain else f"{short_dtype_name(const.dtype)}({value})"
