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


def operation_text(name, parts, dtype):
    """An operation on parts that are text already."""
    if name in infix:
        return f"({parts[0]} {infix[name]} {parts[1]})"
    if name in ("convert", "bitcast"):
        return f"{name}[{short_dtype_name(dtype)}]({parts[0]})"
    return f"{name}({', '.join(parts)})"


def number_text(const):
    """A constant; with its dtype unless that is an index's, bool or float32."""
    plain = const.dtype in (INDEX, BOOL, np.dtype("float32"))
    value = str(const.value)
    return value if plain else f"{short_dtype_name(const.dtype)}({value})"
