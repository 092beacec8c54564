"""Whole derivatives by vmap: `jacfwd`, `jacrev`, `hessian`.

A Jacobian is the derivative in each direction of a basis.  Forward mode gives one
column a direction, reverse mode one row; `vmap` does all directions in one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.arguments import wraps
from ..trace.array import aval_of
from ..trace.base.errors import HERE
from ..trace.slicing import slice_in_dim
from ..trace.trees.pytree import tree_flatten, tree_map, tree_unflatten
from ..trace.types import Argnums, Args
from .batching.vmap import vmap
from .derivatives.grad_checks import check_input, chosen_arguments
from .derivatives.linearize import jvp
from .derivatives.transpose import vjp
from .flat_functions import check_callable


def basis_like(tree):
    """All directions of a tree of arrays: each leaf gets a leading axis for them."""
    leaves, structure = tree_flatten(tree)
    sizes = [aval_of(x).size for x in leaves]
    total, start, found = sum(sizes), 0, []
    for x, size in zip(leaves, sizes, strict=True):
        aval = aval_of(x)
        rows = np.zeros((total, size), aval.dtype)
        rows[start : start + size] = np.eye(size, dtype=aval.dtype)
        rows = rows.reshape(total, *aval.shape)
        found.append(lax.convert(rows, aval.dtype, aval.weak_type))
        start += size
    return tree_unflatten(structure, found)


def blocks_of(x, axis, tree):
    """Cut the axis of directions into one block a leaf, each of the leaf's shape."""
    leaves, structure = tree_flatten(tree)
    shape, start, blocks = aval_of(x).shape, 0, []
    for leaf in leaves:
        aval = aval_of(leaf)
        block = slice_in_dim(x, start, start + aval.size, axis=axis)
        start += aval.size
        new_shape = (*shape[:axis], *aval.shape, *shape[axis + 1 :])
        blocks.append(lax.reshape(block, new_shape))
    return tree_unflatten(structure, blocks)


def zeros_of_integers(x, row, column):
    """The block of a Jacobian where float0 says that there is no derivative."""
    shape = (*aval_of(row).shape, *aval_of(column).shape)
    return np.zeros(shape, dtypes.canonicalize_dtype(aval_of(x).dtype))


def jacfwd(
    fun: Callable[Args, Any], argnums: Argnums = 0, has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[Args, Any]:
    """The Jacobian by forward mode, a column at a time (`jax.jacfwd`).

    Best for functions with fewer inputs than outputs.  Of integers it is zero.

    Returns:
      A function of the same arguments: -> a tree of the result's structure, each leaf
      of which is a tree of the argument's structure, of arrays of shape
      [*result shape, *argument shape]; with `has_aux` a pair of that and aux.
    """

    @wraps(check_callable(fun))
    def jacobian(*args, **kwargs):
        of_chosen, primals, alone = chosen_arguments(fun, argnums, args, kwargs)
        for x in tree_flatten(primals)[0]:
            check_input(fun, x, holomorphic, allow_int=False)
            if aval_of(x).dtype.kind == "c" and not holomorphic:
                raise TypeError(
                    "jacfwd requires real inputs, but got "
                    f"{aval_of(x).dtype.name}{HERE}\n  Instead: say "
                    "holomorphic=True if the function is; if not, use jvp."
                )
        push = partial(jvp, of_chosen, primals, has_aux=has_aux)
        out_axes = (None, -1, None) if has_aux else (None, -1)
        value, columns, *aux = vmap(push, out_axes=out_axes)(basis_like(primals))
        tree = primals[0] if alone else primals

        def cut(y, x):
            if aval_of(x).dtype == dtypes.float0:
                return tree_map(partial(zeros_of_integers, y, y), tree)
            return blocks_of(x, aval_of(y).ndim, tree)

        result = tree_map(cut, value, columns)
        return (result, *aux) if has_aux else result

    return jacobian


def jacrev(
    fun: Callable[Args, Any], argnums: Argnums = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False,
) -> Callable[Args, Any]:
    """The Jacobian by reverse mode, a row at a time (`jax.jacrev`).

    Best for functions with more inputs than outputs; arguments and results are those
    of `jacfwd`.
    """

    @wraps(check_callable(fun))
    def jacobian(*args, **kwargs):
        of_chosen, primals, alone = chosen_arguments(fun, argnums, args, kwargs)
        for x in tree_flatten(primals)[0]:
            check_input(fun, x, holomorphic, allow_int)
        value, pull_back, *aux = vjp(of_chosen, *primals, has_aux=has_aux)
        check_result(fun, value, holomorphic)
        rows = vmap(pull_back)(basis_like(value))
        rows = rows[0] if alone else rows
        out_leaves, out_structure = tree_flatten(value)
        row_leaves, structure = tree_flatten(rows)
        arguments = tree_flatten(primals)[0]
        blocks = [
            [zeros_of_integers(x, y, x) for y in out_leaves]
            if aval_of(row).dtype == dtypes.float0
            else blocks_of(row, 0, out_leaves)
            for row, x in zip(row_leaves, arguments, strict=True)
        ]
        rows_of = map(list, zip(*blocks, strict=True))
        per_result = [tree_unflatten(structure, block) for block in rows_of]
        result = tree_unflatten(out_structure, per_result)
        return (result, *aux) if has_aux else result

    return jacobian


def check_result(fun, value, holomorphic):
    """Complain about results that reverse mode cannot start from."""
    for y in tree_flatten(value)[0]:
        dtype = aval_of(y).dtype
        is_complex = dtypes.issubdtype(dtype, dtypes.complexfloating)
        if not dtypes.issubdtype(dtype, dtypes.inexact) or is_complex != holomorphic:
            raise TypeError(
                f"jacrev requires {'complex' if holomorphic else 'real'} floating "
                f"results, but {getattr(fun, '__name__', fun)} returned {dtype.name}"
            )


jacobian = jacrev


def hessian(
    fun: Callable[Args, Any], argnums: Argnums = 0, has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[Args, Any]:
    """The second derivatives: forward over reverse mode (`jax.hessian`).

    Returns:
      A function of the same arguments: -> trees of the argument's structure, twice
      nested, of arrays of shape [*argument shape, *argument shape].
    """
    first = jacrev(fun, argnums, has_aux, holomorphic)
    return jacfwd(first, argnums, has_aux, holomorphic)
