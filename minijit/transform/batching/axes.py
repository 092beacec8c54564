"""The axes that a user gives to `vmap`: checked, and counted from the front.

Complaints name the function, the argument and its shape.
"""

import operator
from contextlib import contextmanager

from ...trace import array
from ...trace.arguments import argument_names, function_name
from ...trace.base.config import config
from ...trace.base.errors import HERE
from ...trace.jaxprs.jaxpr import ClosedJaxpr, flattening
from ...trace.jit.refs import Ref, read, write
from ...trace.trees.pytree import tree_flatten, tree_leaves, tree_unflatten
from ...trace.trees.tools import flatten_axes

# Classes of JAX's `register_vmappable`, whose instances have lanes of their own.
own_lanes: set = set()


def check_arguments(in_axes, args):
    """Complain unless a tuple of axes has one for each positional argument."""
    leaves = tree_leaves(args, lambda x: type(x) in own_lanes) if own_lanes else ()
    if any(type(x) in own_lanes for x in leaves):
        raise NotImplementedError(
            "vmap does not map objects of classes that `register_vmappable` was given; "
            f"it got {', '.join(sorted({type(x).__name__ for x in leaves}))}"
        )
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
        whole = name != "in_axes" or axes is None or isinstance(axes, (int, tuple))
        if not whole or not all(type(axis) is int for axis in leaves):
            raise TypeError(
                f"vmap {name} must be an int, None, or a "
                f"{'tuple of entries' if not whole else '(nested) container'} with "
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


def aval_of(x):
    """The aval of an argument, also of a mutable array."""
    return x.aval.inner_aval if isinstance(x, Ref) else array.aval_of(x)


def mappable(x):
    """The shape of the axes that can be mapped, which a union or a tape says itself."""
    return aval_of(x).mappable


def mapped_axis(x, axis, name):
    """The axis counted from the front; it must exist, unless there is nothing in x."""
    if axis is None or mappable(x) is None:
        return None
    ndim = len(mappable(x))
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"vmap was requested to map its argument along axis {axis}, which "
            f"implies that its rank should be at least "
            f"{axis + 1 if axis >= 0 else -axis}, but is only {ndim} (its shape is "
            f"{aval_of(x).shape}): argument {name}{HERE}"
        )
    return operator.index(axis) % ndim


def common_size(fun, leaves, axes, names, axis_size):
    """The size that all mapped axes have, and the user may have given."""
    sizes = {
        f"axis {axis} of argument {name} of type {aval_of(x)}": mappable(x)[axis]
        for x, axis, name in zip(leaves, axes, names, strict=True)
        if axis is not None
    }
    found = {*sizes.values(), *([] if axis_size is None else [axis_size])}
    if len(found) == 1:
        return found.pop()
    if not found:
        raise ValueError(
            "vmap must have at least one non-None value in in_axes or axis_size must "
            f"be specified; vmap of {function_name(fun)} has neither"
        )
    lines = "".join(f"\n  * one axis had size {n}: {x}" for x, n in sizes.items())
    if axis_size is not None:
        lines = f"\n  * the `axis_size` argument was {axis_size}{lines}"
    raise ValueError(
        "vmap got inconsistent sizes for array axes to be mapped:"
        f"{lines}{HERE}\n"
        "  Instead: pass None in in_axes for an argument that all lanes share."
    )


def result_axes(fun, tree, results, found, out_axes):
    """Where `out_axes` wants the lanes of each result, counted from the front, or None.

    Args:
      tree: the structure of the results of `fun`.
      found: the axis that the lanes of each result are on, or None.
    """
    wanted = flatten_axes("vmap out_axes", tree, out_axes)

    def names():
        result = tree_unflatten(tree, results)
        return flattening["leaf_names"]("out_axes", result), function_name(fun)

    each = enumerate(zip(results, found, wanted, strict=True))
    return [
        result_axis(i, aval_of(y).ndim, axis, target, names)
        for i, (y, axis, target) in each
    ]


def result_axis(i, ndim, axis, target, names):
    """Where the lanes of result `i` shall be.

    `names` gives the words of an error: (for each result `out_axes['loss']`, whose).
    """
    if target is None:
        if axis is not None:
            places, function = names()
            raise ValueError(
                f"at vmap {places[i]}, got axis spec None but output was batched on "
                f"axis {axis}: this result of {function} is different in each lane; "
                f"give it an axis, or reduce it over the lanes{HERE}"
            )
        return None
    ndim = max(1, ndim + (axis is None))  # Within tapes and unions the lanes are first.
    if not -ndim <= target < ndim:
        places, function = names()
        raise ValueError(
            f"axis {target} is out of bounds for array of dimension {ndim}: vmap's "
            f"{places[i]} for a result of {function}, the mapped axis counted"
        )
    return target % ndim


def mapped_refs(given, axes):
    """The positions of arguments that are refs and have lanes."""
    pairs = enumerate(zip(given, axes, strict=True))
    return [i for i, (x, axis) in pairs if isinstance(x, Ref) and axis is not None]


def with_refs(flat, places):
    """A function of values, to which `flat` has refs of one lane at these places.

    Their new values follow its results.
    """
    if not places:
        return flat

    def function(*leaves):
        refs = {i: Ref(leaves[i]) for i in places}
        results = flat(*[refs.get(i, x) for i, x in enumerate(leaves)])
        return results + list(map(read, refs.values()))

    return function


def through_refs(run, lanes_at, flat, lanes, leaves, axes):
    """`run(flat, lanes, leaves, axes)`, for leaves that may be mutable arrays.

    `flat` gets a ref of one lane for each; after the run what all lanes have made of
    it is written.
    """
    places = mapped_refs(leaves, axes)
    values = [read(x) if i in places else x for i, x in enumerate(leaves)]
    outs, found = run(with_refs(flat, places), lanes, values, axes)
    for i in reversed(places):
        write(leaves[i], lanes_at(outs.pop(), found.pop(), axes[i], lanes.size))
    return outs, found


# ---- names of axes, for primitives that look across lanes
#
# A *collective*, such as `psum`, mentions the name of an axis in its params.  Which
# sizes the named axes have is known while the function runs, and to jitted ones in it.

# Primitives that look across lanes; their rules run even if no argument has any.
collective_rules = {}
# Primitives whose params may be Python functions, which may have captured lanes.
holding_functions = set()


# Functions traced under axes with names may ask for their sizes, so traces differ.
config.define("named_axes", (), "set by vmap: its axes' names", changes_traces=True)


def axis_sizes():
    """{name: size} of the axes that the vmaps around us have given a name."""
    return dict(config.named_axes)


@contextmanager
def naming(lanes):
    """Make the name of an axis known while a `with` block runs."""
    if lanes.name is None:
        yield
        return
    named = {**axis_sizes(), lanes.name: lanes.size}
    with config.override("named_axes", tuple(named.items())):
        yield


def looks_across(params, name):
    """Whether a collective, or one within the jaxprs of a call, is over that axis."""
    if name is None:
        return False
    if name in params.get("axis_name", ()):
        return True
    values = [
        value
        for param in params.values()
        for value in (param if isinstance(param, (tuple, list)) else (param,))
    ]
    jaxprs = [value for value in values if isinstance(value, ClosedJaxpr)]
    eqns = [eqn for closed in jaxprs for eqn in closed.eqns]
    return any(looks_across(eqn.params, name) for eqn in eqns)


def is_collective(primitive, params, name):
    """Whether the primitive itself is a collective over that axis."""
    return primitive in collective_rules and looks_across(params, name)


def shared_by_all(primitive, axes, params, name):
    """Whether all lanes can share one application of a primitive.

    They cannot if it looks across lanes, or holds a function that may have captured
    a value with lanes.
    """
    hidden = primitive in holding_functions and callable(params["call"])
    alike = all(axis is None for axis in axes)
    return alike and not hidden and not looks_across(params, name)
