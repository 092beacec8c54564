"""Arrays that are given away, and results that must not go with them.

A donated array is deleted by the call, if there is a result for its memory.  So no
result may be the same object as an argument, as a constant, or as another result.
"""

import functools
import warnings
from collections import defaultdict, deque
from dataclasses import dataclass

from ..array import ArrayImpl
from ..base.errors import JaxRuntimeError, user_level
from ..trees.pytree import tree_leaves

# compile -> compile(closed_jaxpr, name, pairs=) -> callable of leaves, whose results
# may have the memory of arguments: pairs of positions, (argument, result).
donors: dict = {}


def handing(make, pairs):
    """The executor `make`, told which results may have the memory of arguments."""
    if pairs and make in donors:
        return functools.partial(donors[make], pairs=pairs)
    return make


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


@dataclass
class Donations:
    """Which results may have the memory of donated arguments.

    Attributes:
      pairs: of positions, (argument, result), of one shape and dtype.
      deleted: one bool an argument: whether the call deletes it.
      used: the arguments that are used: positions.
      unusable: the types of those whose memory no result can have, until `tell`.
    """

    pairs: tuple = ()
    deleted: tuple = ()
    used: tuple = ()
    unusable: tuple = ()

    def tell(self):
        """Warn, once, of arrays that were given away for nothing."""
        if self.unusable:
            types = [f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in self.unusable]
            self.unusable = ()
            warnings.warn(
                f"Some donated buffers were not usable: {', '.join(types)}.\nNo result "
                "has as many elements, so these arguments are not deleted.",
                stacklevel=user_level(),
            )


def inputs_read(jaxpr):
    """The positions of the inputs that a jaxpr uses."""
    read = {v for eqn in jaxpr.eqns for v in eqn.invars} | {*jaxpr.outvars}
    return [i for i, v in enumerate(jaxpr.invars) if v in read]


def donations(jaxpr, donated, keep_unused):
    """The `Donations` for a jaxpr.

    A result has the memory of the first donated argument of its type that is left; what
    is left then may serve any result of as many elements.

    Args:
      donated: one bool an input; keep_unused: whether those that are not used count.
    """
    if True not in donated:
        return Donations(deleted=donated)
    used = range(len(donated)) if keep_unused else inputs_read(jaxpr)
    given, ins = {i for i in used if donated[i]}, [v.aval for v in jaxpr.invars]
    outs, pairs = dict(enumerate(v.aval for v in jaxpr.outvars)), {}

    def match(key):
        left = defaultdict(deque)
        for i in sorted(given - pairs.keys()):
            left[key(ins[i])].append(i)
        for j, aval in outs.items():
            if left[key(aval)]:
                pairs[left[key(aval)].popleft()] = j
        for j in pairs.values():
            outs.pop(j, None)

    match(lambda aval: (aval.shape, aval.dtype))
    exact = tuple(pairs.items())
    match(lambda aval: aval.size)
    deleted = tuple(i in pairs for i in range(len(ins)))
    unusable = tuple(ins[i] for i in sorted(given - pairs.keys()))
    return Donations(exact, deleted, tuple(used), unusable)


def delete_donated(leaves, deleted):
    """Delete the arrays among the leaves that were given away."""
    for x, is_deleted in zip(leaves, deleted, strict=True):
        if is_deleted and isinstance(x, ArrayImpl):
            x.delete()


def refuse_twice(leaves, donations):
    """Raise if an array that is given away is an argument a second time."""
    used = donations.used
    for i in [i for i in used if donations.deleted[i]]:
        same = [j for j in used if leaves[j] is leaves[i]]
        if isinstance(leaves[i], ArrayImpl) and len(same) > 1:
            raise JaxRuntimeError(
                "Attempt to use a buffer that was previously donated in the same call: "
                f"flattened arguments {', '.join(map(str, same))} are one array. Give "
                "a copy, or do not donate it"
            )


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
