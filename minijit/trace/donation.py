"""Arrays that are given away, and results that must not go with them.

A donated array is deleted by the call.  So no result may be the same object as an
argument, as a constant, or as another result.
"""

from .array import ArrayImpl
from .pytree import tree_leaves


def donated_leaves(options, call):
    """One bool a leaf of the traced arguments: whether it is donated."""
    positions = [i for i in range(call.count) if i not in call.statics]
    nums = {i % call.count if call.count else i for i in options.donate_argnums}
    donated = []
    for i, x in zip(positions, call.args, strict=True):
        donated += [i in nums] * len(tree_leaves(x))
    for name in sorted(call.kwargs):
        is_donated = name in options.donate_argnames
        donated += [is_donated] * len(tree_leaves(call.kwargs[name]))
    return tuple(donated)


def delete_donated(leaves, donated):
    """Delete the arrays among the leaves that were given away."""
    for x, is_donated in zip(leaves, donated, strict=True):
        if is_donated and isinstance(x, ArrayImpl):
            x.delete()


def renewed(array):
    """The same array as an object of its own, which can be deleted on its own."""
    if not isinstance(array, ArrayImpl):
        # A tape or a union, which nobody deletes.
        return array
    return array.renewed()


def passed_on(jaxpr):
    """Which results are inputs, constants or other results: they need objects of
    their own, or donating or deleting the one would delete the other."""
    seen, passed = {*jaxpr.invars, *jaxpr.constvars}, []
    for i, var in enumerate(jaxpr.outvars):
        if var in seen:
            passed.append(i)
        seen.add(var)
    return tuple(passed)
