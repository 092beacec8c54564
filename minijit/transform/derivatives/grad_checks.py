"""Which arguments `grad` and the like differentiate by, and what they refuse.

    chosen_arguments(f, 1, (x, y), {})      # f as a function of y alone, and (y,)

The other functions raise an error that says in one sentence why there is no gradient,
of an integer or a string or a function with several results, or why a cotangent does
not fit.
"""

from ...trace import dtypes
from ...trace.arguments import function_name
from ...trace.array import aval_of
from ...trace.base.errors import HERE
from ...trace.trees.pytree import tree_flatten, tree_leaves
from ..closed_jaxprs import replaced
from ..tangents import leaves_like, tangent_aval

# Primitives whose transpose rule is called even where all cotangents are zero.
transposed_of_zero = set()


def chosen_arguments(fun, argnums, args, kwargs):
    """Some positional arguments of a call, and the function of them alone.

    Args:
      argnums: a position, or several; counted from the end if negative.

    Returns:
      (of_chosen, their values, whether `argnums` is one position).
    """
    alone = hasattr(argnums, "__index__")
    positions = (argnums,) if alone else tuple(argnums)
    positions = [checked_argnum(fun, i, args) for i in positions]
    if not positions or len({i % len(args) for i in positions}) < len(positions):
        raise ValueError(
            f"argnums={argnums} of {function_name(fun)} must name at least one "
            f"positional argument, and none of them twice{HERE}"
        )

    def of_chosen(*values):
        return fun(*replaced(args, positions, values), **kwargs)

    of_chosen.__name__ = function_name(fun)
    return of_chosen, tuple(args[i] for i in positions), alone


def checked_argnum(fun, i, args):
    """`i`, if `fun` was called with that many positional arguments."""
    if not -len(args) <= i < len(args):
        raise TypeError(
            f"differentiating with respect to argnums={i} requires at least "
            f"{i + 1 if i >= 0 else -i} positional arguments to be passed to "
            f"{function_name(fun)} by the caller, but got only {len(args)}"
        )
    return i


def check_input(fun, x, holomorphic, allow_int):
    """Complain about an argument by which one cannot differentiate."""
    dtype = aval_of(x).dtype
    if holomorphic and not dtypes.issubdtype(dtype, dtypes.complexfloating):
        raise TypeError(
            "grad with holomorphic=True requires inputs with complex dtype, but got "
            f"{dtype.name}"
        )
    if dtypes.issubdtype(dtype, dtypes.inexact) or allow_int:
        return
    raise TypeError(
        "grad requires real- or complex-valued inputs (input dtype that is a "
        f"sub-dtype of np.inexact), but got {dtype.name} for {function_name(fun)}"
        f"{HERE}\n"
        "  Instead: convert the argument to a float, or, if integers are meant, use "
        "vjp or allow_int=True."
    )


def check_output(fun, value, holomorphic):
    """Complain about a result that has no gradient."""
    name = function_name(fun)
    if not hasattr(value, "aval") and len(tree_leaves(value)) != 1:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output was {value!r} "
            f"for {name}.{HERE}"
        )
    aval = aval_of(value)
    if aval.shape != ():
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: "
            f"{aval.shape} for {name}.{HERE}\n  Instead: reduce it, "
            "with jnp.sum for instance, or use jacrev, jacfwd or vjp."
        )
    complex_out = dtypes.issubdtype(aval.dtype, dtypes.complexfloating)
    if complex_out != holomorphic or not dtypes.issubdtype(aval.dtype, dtypes.inexact):
        wanted = "outputs with complex dtype" if holomorphic else (
            "real-valued outputs (output dtype that is a sub-dtype of np.floating)"
        )
        raise TypeError(
            f"grad requires {wanted}, but got {aval.dtype.name} for {name}{HERE}"
        )


def cotangent_leaves(cts, tree, avals):
    """The leaves of a cotangent given to a vjp function, which must fit its result."""
    what = "unexpected tree structure. The argument to a VJP function"
    what = what, "the function's result"
    leaves = leaves_like(tree, cts, *what, ValueError)
    for ct, aval in zip(leaves, avals, strict=True):
        check_cotangent(ct, aval)
    return leaves


def check_cotangent(ct, aval):
    """Complain unless a user's cotangent has the type of the result."""
    wanted = tangent_aval(aval)
    if wanted is None:
        return
    try:
        got = aval_of(ct)
    except (TypeError, ValueError) as error:
        where = "a vjp function was called with a cotangent that is no array: "
        raise type(error)(f"{where}{error}{HERE}") from None
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise ValueError(
            "unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got "
            f"{got}, but the function given to vjp returns {aval} there{HERE}"
        )


def check_cotangents(ct, tree, avals):
    """The leaves of a cotangent, which must have the types of a result."""
    leaves, given = tree_flatten(ct)
    if given != tree:
        raise TypeError(
            "cotangent tree does not match function output, expected "
            f"{tree} but got {given}"
        )
    for x, aval in zip(leaves, avals, strict=True):
        got = aval_of(x)
        if (got.shape, got.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"cotangent type does not match function output, expected {aval} but "
                f"got {got}{HERE}"
            )
    return leaves
