"""The axes that a user gives to `vmap`: checked, and counted from the front.

Complaints name the function, the argument and its shape.
"""

import operator

from ..trace.arguments import argument_names, function_name
from ..trace.array import aval_of
from ..trace.errors import at_line, user_source
from ..trace.jaxpr import flattening
from ..trace.pytree import tree_flatten


def check_arguments(in_axes, args):
    """Complain unless a tuple of axes has one for each positional argument."""
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to "
            "the positional arguments passed to the function, but got in_axes with "
            f"{len(in_axes)} entries and {len(args)} positional arguments"
        )


def check_axes(**specifications):
    """Complain about what can be no specification of axes."""
    for name, axes in specifications.items():
        leaves, _ = tree_flatten(axes)
        if not all(isinstance(axis, int) for axis in leaves):
            raise TypeError(
                f"vmap {name} must be an int, None, or a (nested) container with "
                f"those types as leaves, but got {axes!r}"
            )


def leaf_names(fun, args, kwargs):
    """What the leaves of the arguments are called in messages."""
    names = argument_names(fun, args, kwargs)
    values = [*args, *kwargs.values()]
    name = flattening["leaf_names"]
    pairs = list(zip(names, values, strict=True))
    positional, by_keyword = pairs[: len(args)], sorted(pairs[len(args) :])
    return [leaf for pair in positional + by_keyword for leaf in name(*pair)]


def mapped_axis(x, axis, name):
    """The axis counted from the front; it must exist."""
    if axis is None:
        return None
    ndim = aval_of(x).ndim
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"vmap was requested to map its argument {name} along axis {axis}, which "
            f"implies that its rank should be at least "
            f"{axis + 1 if axis >= 0 else -axis}, but is only {ndim} (its shape is "
            f"{aval_of(x).shape}){at_line(user_source())}"
        )
    return operator.index(axis) % ndim


def common_size(fun, leaves, axes, names, axis_size):
    """The size that all mapped axes have, and the user may have given."""
    sizes = {
        f"axis {axis} of argument {name} of type {aval_of(x)}": aval_of(x).shape[axis]
        for x, axis, name in zip(leaves, axes, names, strict=True)
        if axis is not None
    }
    found = {*sizes.values(), *([] if axis_size is None else [axis_size])}
    if len(found) == 1:
        return found.pop()
    if not found:
        raise ValueError(
            f"vmap of {function_name(fun)} must have at least one non-None value in "
            "in_axes, or an axis_size"
        )
    lines = "".join(f"\n  * {where} has size {n}" for where, n in sizes.items())
    given = "" if axis_size is None else f"\n  * axis_size={axis_size} was given"
    raise ValueError(
        f"vmap of {function_name(fun)} got inconsistent sizes for array axes to be "
        f"mapped:{lines}{given}{at_line(user_source())}\n"
        "  Instead: pass None in in_axes for an argument that all lanes share."
    )


def result_axis(fun, y, axis, target):
    """Where `out_axes` wants the lanes of a result, counted from the front, or None."""
    if target is None:
        if axis is not None:
            raise ValueError(
                f"vmap of {function_name(fun)} has a result with out_axes=None that "
                "is different in each lane: give it an axis, or reduce it over the "
                f"lanes{at_line(user_source())}"
            )
        return None
    ndim = aval_of(y).ndim + (axis is None)
    if not -ndim <= target < ndim:
        raise ValueError(
            f"vmap out_axes is {target}, but the result of {function_name(fun)} has "
            f"only {ndim} axes, the mapped one included"
        )
    return target % ndim
