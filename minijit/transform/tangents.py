"""Tangents: of which type they are, what a zero is, and those that users give or get.

A zero tangent is `None` inside the library; users may give it as zeros, as None or, for
an integer, as `float0`, and get an array of zeros or of `float0`.
"""

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.array import ShapedArray, aval_of
from ..trace.base.errors import HERE
from ..trace.trees.pytree import tree_flatten

# Types of values by class: the type of their tangents (None if they have none), and
# a zero of a type.
tangent_types = {}
zero_makers = {}


def tangent_aval(aval):
    """The type of a value's tangent, or None if its type has no tangents."""
    return tangent_types[type(aval)](aval)


def zero_type(aval):
    """The type of a value's zero tangent: of dtype `float0` if it has no others."""
    return tangent_aval(aval) or ShapedArray(aval.shape, dtypes.float0)


def has_tangent(x):
    """Whether a value's type has tangents."""
    return tangent_aval(aval_of(x)) is not None


def array_tangent(aval):
    """Tangents of arrays have their type; those of integers and bools have none."""
    return aval if dtypes.issubdtype(aval.dtype, np.inexact) else None


def zeros(aval):
    """A zero of a type: an array of zeros, or whatever `zero_makers` has."""
    return zero_makers[type(aval)](aval)


def array_zeros(aval):
    """An array of zeros, made where it is needed: one scalar, broadcast."""
    return lax.broadcast(lax.convert(0, aval.dtype, aval.weak_type), aval.shape)


tangent_types |= {ShapedArray: array_tangent}
zero_makers |= {ShapedArray: array_zeros}


def dense(tangents, avals):
    """Tangents of the given types, with zeros made where there is None."""
    return [
        zeros(aval) if t is None else t for t, aval in zip(tangents, avals, strict=True)
    ]


def dense_like(tangents, args):
    """The tangents of some arguments, with zeros made where there is None."""
    return dense(tangents, [tangent_aval(aval_of(x)) for x in args])


def linear_in_all(f, *args):
    """What a rule returns for f, which is linear in all of its arguments at once."""
    return f(*args), lambda *tangents: f(*dense_like(tangents, args))


def flat_tangents(primals, tangents):
    """Check and flatten `jvp`'s arguments: -> (leaves, tree, tangents or None)."""
    if not all(isinstance(x, (tuple, list)) for x in (primals, tangents)):
        raise TypeError(
            "primal and tangent arguments to minijit.jvp must be tuples or lists; "
            f"found {type(primals).__name__} and {type(tangents).__name__}"
        )
    leaves, tree = tree_flatten(tuple(primals))
    try:
        # Where the primal has a leaf the tangent may have None.
        tangent_leaves = tree.flatten_up_to(tuple(tangents))
    except ValueError as error:
        raise TypeError(
            "primal and tangent arguments to minijit.jvp must have the same tree "
            f"structure, got {tree} and {tree_flatten(tuple(tangents))[1]}"
        ) from error
    leaves = list(map(lax.as_array, leaves))
    return leaves, tree, check_tangents(map(aval_of, leaves), tangent_leaves)


def tangents_like(tree, avals, tangents):
    """Check and flatten the arguments of a linearized function: -> tangents or None."""
    what = "the tangents given to a linearized function", "its arguments"
    return check_tangents(avals, leaves_like(tree, tangents, *what), ValueError)


def leaves_like(tree, x, what, other, kind=TypeError):
    """The leaves of x, called `what`, which must have the structure `tree` of `other`.

    Raises `kind`.
    """
    leaves, given = tree_flatten(x)
    if given != tree:
        raise kind(f"{what} must have the structure of {other}, {tree}, got {given}")
    return leaves


def check_tangents(avals, tangents, kind=TypeError):
    """Complain unless each tangent fits its primal's type; zero ones come back as None.

    Raises `kind`, and ValueError where it is the shape that differs.
    """
    checked = []
    for i, (aval, tangent) in enumerate(zip(avals, tangents, strict=True)):
        wanted, got = tangent_aval(aval), tangent_type_given(tangent)
        if got is None or (wanted is None and got == dtypes.float0):
            checked.append(None)
        elif wanted is None or got == dtypes.float0 or wanted.strip_weak_type() != got:
            shapes_differ = getattr(got, "shape", ()) != getattr(wanted, "shape", ())
            text = "jvp called with different primal and tangent shapes"
            if not shapes_differ:
                text = "primal and tangent arguments to minijit.jvp do not match"
            raise (ValueError if shapes_differ else kind)(
                f"{text}: at argument leaf {i} the primal has type {aval}, so the "
                f"tangent must have type {wanted.str_short() if wanted else 'float0'}, "
                f"got {got}{HERE}"
            )
        else:
            checked.append(lax.as_array(tangent))
    return checked


def tangent_type_given(tangent):
    """The aval of a tangent from a user, or float0, or None."""
    if tangent is None or getattr(tangent, "dtype", None) == dtypes.float0:
        return None if tangent is None else dtypes.float0
    return aval_of(tangent).strip_weak_type()


def tangent_out(tangent, aval):
    """A tangent for a user: zeros where there is none, float0 for integers."""
    if tangent is None and tangent_aval(aval) is None:
        return np.zeros(aval.shape, dtypes.float0)
    return zeros(tangent_aval(aval)) if tangent is None else tangent


def typed_tangent(tangent, aval):
    """A tangent for a user, weakly typed just where the value that it belongs to is."""
    tangent = tangent_out(tangent, aval)
    is_array = isinstance(tangent_aval(aval), ShapedArray)
    return lax.convert(tangent, aval.dtype, aval.weak_type) if is_array else tangent
