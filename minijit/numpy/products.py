"""More products: `trace`, `outer`, `kron`, `cross`, and those over the last axes.

And `einsum`, Einstein's summation convention: read, planned and computed.

    terms, result = parse("b i j, j k", 2)     # [["b","i","j"], ["j","k"]], None
    terms, result = expand(terms, result, [(8, 2, 3), (3, 4)])    # result: b, i, k
    contraction_path(terms, result, sizes_of(terms, shapes))      # [(0, 1)]

Each operand is a list of names, one an axis.  A name in several operands multiplies
along it; one that the result lacks is summed over; one that an operand has twice means
its diagonal.  "..." stands for axes without a name, which broadcast.  The order of the
products matters for the cost: a path says which operands to contract, one pair after
another; what a pair gives goes to the end of the list.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from inspect import unwrap
from typing import Any

import numpy as np

from ..trace import dtypes, primitives
from ..trace.types import Array, ArrayLike, DTypeLike
from .arguments import canonical_axis, no_out, tell_of_batches
from .contracting import contract, contract_named, dot, matmul, tensordot, without_ones
from .core import arrays, convert, expand_to, in_one_dtype
from .elementwise import choose_where
from .making import astype, stack, zeros_like
from .mathematics import conj
from .shapes import moveaxis, ravel, reshape, transpose


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """All products of two vectors' elements.  JAX: `jnp.outer`."""
    no_out("outer", out)
    x, y = in_one_dtype("outer", a, b)
    return ravel(x)[:, None] * ravel(y)[None]


def inner(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products over both last axes.  JAX: `jnp.inner`."""
    x, y = arrays("inner", a, b)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    if x.ndim and y.ndim:
        return tensordot(x, y, (-1, -1), **options)
    if preferred_element_type is not None:
        x, y = astype(x, preferred_element_type), astype(y, preferred_element_type)
    return x * y


def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products of all elements, a's conjugated.  JAX: `jnp.vdot`."""
    x, y = arrays("vdot", a, b)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return dot(ravel(conj(x)), ravel(y), **options)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products along an axis, x1's conjugated; others broadcast.  JAX: same."""
    x, y = arrays("jnp.vecdot", x1, x2)
    if x.shape[canonical_axis(axis, x.ndim)] != y.shape[canonical_axis(axis, y.ndim)]:
        raise ValueError(
            f"axes must match; got shapes {x.shape} and {y.shape} with {axis=}"
        )
    tell_of_batches("vecdot", (x, 1), (y, 1))
    x, y = moveaxis(conj(x), axis, -1), moveaxis(y, axis, -1)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return matmul(x[..., None, :], y[..., None], **options)[..., 0, 0]


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors; leading axes broadcast.  JAX: `jnp.matvec`."""
    x, y = arrays("matvec", x1, x2)
    tell_of_batches("matvec", (x, 2), (y, 1))
    return matmul(x, y[..., None])[..., 0]


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugate vectors times matrices; leading axes broadcast.  JAX: same name."""
    x, y = arrays("vecmat", x1, x2)
    tell_of_batches("vecmat", (x, 1), (y, 2))
    return matmul(conj(x)[..., None, :], y)[..., 0, :]


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product.  JAX: `jnp.kron`."""
    x, y = in_one_dtype("kron", a, b)
    rank = builtins.max(x.ndim, y.ndim)
    x, y = expand_to(x, rank), expand_to(y, rank)
    shape = [m * n for m, n in zip(x.shape, y.shape, strict=True)]
    x = primitives.expand_dims(x, range(1, 2 * rank, 2))
    y = primitives.expand_dims(y, range(0, 2 * rank, 2))
    return reshape(x * y, shape)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors of 3, or of 2.  JAX: `jnp.cross`."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = in_one_dtype("cross", a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    a, b = [[x[..., i] for i in range(x.shape[-1])] for x in (a, b)]
    last = a[0] * b[1] - a[1] * b[0]
    if len(a) == len(b) == 2:
        return last
    a, b = [x if len(x) == 3 else [*x, zeros_like(x[0])] for x in (a, b)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], last]
    return moveaxis(stack(parts), 0, axisc)


# ---- einsum


ellipsis = "..."


def parse(subscripts, count):
    """A string of subscripts as lists of names.

    Args:
      subscripts: such as "ij, jk -> ik"; spaces do not matter.
      count: how many operands there are.

    Returns:
      (for each operand a list of names, the names of the result or None).
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = [axis_names_of(term, subscripts) for term in left.split(",")]
    if len(terms) != count:
        raise ValueError(
            f"einsum subscripts {subscripts!r} name {len(terms)} operands, got {count}"
        )
    return terms, axis_names_of(right, subscripts) if arrow else None


def axis_names_of(term, subscripts):
    """The names in one term: single characters, and "..." at most once."""
    before, dots, after = term.partition(ellipsis)
    names = [*before, *([ellipsis] if dots else []), *after]
    for name in names:
        if name in (".", "-", ">"):
            raise ValueError(
                f"einsum subscripts {subscripts!r}: {name!r} is not a valid name of "
                "an axis; use other characters, '...', ',' and '->'"
            )
    return names


def parse_lists(arguments):
    """The form `einsum(x, [0, 1], y, [1, 2], [0, 2])`, whose names are ints.

    Returns:
      (for each operand a list of names, the names of the result or None, operands).
    """
    pairs = len(arguments) // 2
    terms = [list_names(names) for names in arguments[1 : 2 * pairs : 2]]
    result = list_names(arguments[-1]) if len(arguments) % 2 else None
    return terms, result, arguments[: 2 * pairs : 2]


def list_names(names):
    """A list of ints and Ellipsis as names."""
    return [ellipsis if name is Ellipsis else name for name in names]


def expand(terms, result, shapes):
    """Replace "..." by names of its own, and name the result if it is not named.

    Returns:
      (for each operand a list of names, a list of names for the result).
    """
    terms = [
        expand_term(names, len(shape), i)
        for i, (names, shape) in enumerate(zip(terms, shapes, strict=True))
    ]
    found = {name for names in terms for name in names}
    dots = sorted(name for name in found if isinstance(name, tuple))
    if result is None:
        counts = Counter(name for names in terms for name in names)
        once = [n for n in counts if counts[n] == 1 and not isinstance(n, tuple)]
        return terms, [*dots, *sorted(once)]
    place = result.index(ellipsis) if ellipsis in result else None
    if place is not None:
        result = [*result[:place], *dots, *result[place + 1 :]]
    for name in result:
        if name not in found or result.count(name) > 1:
            why = "is there twice" if name in found else "is in no operand"
            raise ValueError(f"einsum: the name {name!r} of the result {why}")
    return terms, list(result)


def expand_term(names, rank, position):
    """The names of one operand, its "..." counted from the last axis it stands for."""
    extra = rank - builtins.sum(name != ellipsis for name in names)
    if extra < 0 or (extra > 0 and ellipsis not in names):
        raise ValueError(
            f"Einstein sum subscript does not contain the correct number of indices "
            f"for operand {position}: it has {rank} axes, but its subscripts name "
            f"{rank - extra}"
        )
    if ellipsis not in names:
        return list(names)
    place = names.index(ellipsis)
    dots = [(ellipsis, i) for i in range(-extra, 0)]
    return [*names[:place], *dots, *names[place + 1 :]]


def sizes_of(terms, shapes):
    """{name: size} for names that agree in all operands; sizes of 1 broadcast."""
    sizes = {}
    for i, (names, shape) in enumerate(zip(terms, shapes, strict=True)):
        for name, size in zip(names, shape, strict=True):
            known = sizes.get(name, 1)
            if size != known and 1 not in (size, known):
                raise ValueError(
                    f"Size of label {name!r} for operand {i} ({size}) does not match "
                    f"previous terms ({known}): einsum of shapes {shapes}"
                )
            sizes[name] = size if known == 1 else known
    return sizes


def volume(names, sizes):
    """How many elements an array with these axes has."""
    return math.prod(sizes[name] for name in names)


def contraction_path(terms, result, sizes, optimize="auto"):
    """Which operands to contract, one pair after another.

    Args:
      optimize: False for the order they are in, a path as this function gives it, or
        anything else for a cheap one: the best for up to five operands, else greedy.

    Returns:
      A list of tuples of positions, as in `np.einsum_path`.
    """
    if isinstance(optimize, (list, tuple)):
        path = [p for p in optimize if not isinstance(p, str)]
        if not all(isinstance(p, (list, tuple)) for p in path):
            raise TypeError(f"optimize must be a path of tuples of ints, got {path}")
        return [tuple(p) for p in path]
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    if optimize is False:
        return [(0, 1)] + [(0, n - 1) for n in range(len(terms) - 1, 1, -1)]
    sets = [frozenset(names) for names in terms]
    if len(terms) <= 5 and optimize != "greedy":
        return best_path(sets, frozenset(result), sizes)[1]
    return greedy_path(sets, frozenset(result), sizes)


def contracted(terms, pair, result):
    """The operands after a pair of them was contracted."""
    rest = [names for i, names in enumerate(terms) if i not in pair]
    needed = result.union(*rest)
    return [*rest, terms[pair[0]].union(terms[pair[1]]) & needed]


def best_path(terms, result, sizes):
    """-> (multiplications, path): the cheapest of all orders."""
    if len(terms) == 1:
        return 0, []
    choices = []
    for pair in itertools.combinations(range(len(terms)), 2):
        cost = volume(terms[pair[0]] | terms[pair[1]], sizes)
        more, path = best_path(contracted(terms, pair, result), result, sizes)
        choices.append((cost + more, [pair, *path]))
    return min(choices)


def greedy_path(terms, result, sizes):
    """Contract, each time, the pair whose result is smallest compared to it."""
    path = []
    while len(terms) > 1:

        def growth(pair, terms=terms):
            after = contracted(terms, pair, result)[-1]
            before = builtins.sum(volume(terms[i], sizes) for i in pair)
            return volume(after, sizes) - before, pair

        pair = min(itertools.combinations(range(len(terms)), 2), key=growth)
        terms = contracted(terms, pair, result)
        path.append(pair)
    return path


def einsum(
    subscripts: str, /, *operands: Any, out: None = None, optimize: Any = "auto",
    precision: Any = None, preferred_element_type: DTypeLike | None = None,
    _dot_general: Callable[..., Any] | None = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Einstein's sum: products summed over the names the result lacks.

    JAX: `jnp.einsum`.  `einsum("i j, j k -> i k", x, y)` is a matrix product; so is
    `einsum(x, [0, 1], y, [1, 2], [0, 2])`.  Spaces do not matter; "..." stands for
    axes that broadcast; without "->" the result has the names that occur once.
    `_dot_general`, a function called as `lax.dot_general`, multiplies pairs instead.
    """
    no_out("einsum", out)
    operands, terms, result, path = einsum_plan(subscripts, operands, optimize)
    if preferred_element_type is None:
        dtype, weak_type = dtypes.result_type(*operands, return_weak_type_flag=True)
    else:
        dtype = dtypes.user_dtype(preferred_element_type, "einsum")
        weak_type = False
    multiply = partial(
        contract_named, "einsum", precision=precision, dtype=dtype,
        product=product_by(_dot_general),
    )  # fmt: skip
    parts = list(zip(operands, terms, strict=True))
    for places in path:
        taken = [parts[i] for i in places]
        parts = [part for i, part in enumerate(parts) if i not in places]
        needed = {name for _, names in parts for name in names} | set(result)
        parts.append(contract_parts(taken, needed, multiply, result))
    (x, names), = parts
    x = transpose(x, [names.index(n) for n in result])
    return convert(x, dtype, weak_type)


def einsum_plan(subscripts, operands, optimize):
    """-> (operands, for each the names of its axes, those of the result, the path)."""
    if isinstance(subscripts, str):
        terms, result = parse(subscripts, len(operands))
    else:
        terms, result, operands = parse_lists([subscripts, *operands])
    operands = arrays("einsum", *operands)
    shapes = [x.shape for x in operands]
    terms, result = expand(terms, result, shapes)
    path = contraction_path(terms, result, sizes_of(terms, shapes), optimize)
    return operands, terms, result, path


def product_by(dot_general):
    """What multiplies two operands: `contract`, or the function a program gave."""
    if dot_general is None or unwrap(dot_general) is unwrap(primitives.dot_general):
        return contract

    def product(name, x, y, dimensions, precision, dtype):
        return dot_general(x, y, dimensions, precision, preferred_element_type=dtype)

    return product


def contract_parts(parts, needed, multiply, result=()):
    """Multiply operands of an einsum, and sum over the names not `needed` later.

    If the order of operands can make the axes come out as `result`, it does.
    """
    if len(parts) == 1:
        (x, i), = parts
        return reduce_names(x, i, needed)
    (x, i), (y, j), *more = parts
    if more:
        later = needed | {name for _, names in more for name in names}
        first = contract_parts([(x, i), (y, j)], later, multiply)
        return contract_parts([*more, first], needed, multiply, result)
    x, i = reduce_names(x, i, needed | set(j))
    y, j = reduce_names(y, j, needed | set(i))
    y, j = without_ones(y, j, i)
    x, i = without_ones(x, i, j)
    x, i = reduce_names(x, i, needed | set(j))
    y, j = reduce_names(y, j, needed | set(i))
    # A product has the free axes of its first operand before those of its second: the
    # order of operands decides whether the result must be transposed.
    if product_names(j, i, needed) == list(result):
        (x, i), (y, j) = (y, j), (x, i)
    out = product_names(i, j, needed)
    return multiply(x, i, y, j, out), out


def product_names(i, j, needed):
    """The axes of a product of operands with axes i and j, as it leaves them."""
    i, j = ([n for n in names if n in needed] for names in (i, j))
    batch, free = [n for n in i if n in j], [n for n in i if n not in j]
    return batch + free + [n for n in j if n not in i]


def reduce_names(x, names, needed):
    """Take diagonals of names that occur twice; sum over those nobody needs."""
    names = list(names)
    for name in set(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            rows, columns = [
                primitives.broadcasted_iota(np.dtype(np.int32), x.shape, k)
                for k in (i, j)
            ]
            x = choose_where(rows == columns, x, zeros_like(x))
            x = total(x, (j,))
            names.pop(j)
    gone = tuple(k for k, name in enumerate(names) if name not in needed)
    x = total(x, gone) if gone else x
    return x, [name for name in names if name in needed]


def total(x, axes):
    """The sum over axes in the array's own dtype."""
    logic = x.dtype == np.bool_
    return (primitives.reduce_or if logic else primitives.reduce_sum)(x, axes)


def einsum_path(subscripts: str, /, *operands: Any, optimize: Any = "auto") -> Any:
    """-> (the order in which `einsum` multiplies, a description).  JAX: same name.

    The order is a list of pairs of positions among the operands that are left.
    """
    operands, terms, result, path = einsum_plan(subscripts, operands, optimize)
    sizes = sizes_of(terms, [x.shape for x in operands])
    lines = [f"  Complete contraction: {len(terms)} operands, sizes {sizes}"]
    lines += [f"  contract {places}" for places in path]
    return path, "\n".join(lines)
