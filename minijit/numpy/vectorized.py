"""Functions of numbers or vectors, mapped over arrays."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace.arguments import wraps
from ..trace.base.errors import HERE, left_out
from ..trace.shape_checks import broadcast_shape
from ..trace.trees.pytree import tree_map
from ..trace.types import Array, ArrayLike
from ..transform.batching.vmap import vmap
from .arguments import canonical_axis, tell_of_batches
from .core import arrays
from .making import asarray
from .shapes import expand_dims

left_out["operators"] += (__file__,)

DIMENSIONS = r"\((?:\w+(?:,\w+)*)?\)"


class Vectorized:
    """What `vectorize` was told, and the function that it makes.

    Attributes:
      excluded: positions and names of the arguments that are passed on as they are.
      signature: the text, or None.
      inputs, outputs: for each argument and each result the names of its own axes;
        None for what the signature does not say.
    """

    def __init__(self, function, excluded, signature):
        self.function = function
        self.excluded = check_excluded(excluded)
        self.signature = signature
        self.inputs = self.outputs = None
        if signature is not None:
            self.inputs, self.outputs = parse_signature(signature)

    def error(self, kind, problem):
        """An exception of a kind that names the function and the signature."""
        name = getattr(self.function, "__name__", repr(self.function))
        where = f"{name}, vectorized with signature={self.signature!r}"
        return kind(f"{where}: {problem}{HERE}")

    def __call__(self, *args, **kwargs):
        places = [*enumerate(args), *kwargs.items()]
        given = [p for p, x in places if p not in self.excluded and x is not None]
        values = dict(places)
        operands = [asarray(values[p]) for p in given]
        core = self.core_axes(len(args), kwargs, given)

        def one(*parts):
            full = values | dict(zip(given, parts, strict=True))
            positional = [full[i] for i in range(len(args))]
            result = self.function(*positional, **{k: full[k] for k in kwargs})
            if self.outputs is not None:
                self.check_results(result, sizes)
            return result

        sizes = self.core_sizes(core, operands)
        pairs = [(x, len(names)) for x, names in zip(operands, core, strict=True)]
        batches = [x.shape[: x.ndim - own] for x, own in pairs]
        name = f"a function vectorized with signature={self.signature!r}"
        tell_of_batches(name, *pairs)
        return over_batches(one, operands, batches)

    def core_axes(self, count, kwargs, given):
        """The names of the own axes of each operand."""
        if self.inputs is None:
            return [()] * len(given)
        named = [k for k in kwargs if k not in self.excluded]
        if named:
            problem = f"a signature says nothing of keyword arguments, but got {named}"
            raise self.error(TypeError, problem)
        counted = [i for i in range(count) if i not in self.excluded]
        if len(counted) != len(self.inputs):
            problem = f"expected {len(self.inputs)} arguments, got {len(counted)}"
            raise self.error(TypeError, f"wrong number of arguments: {problem}")
        core = dict(zip(counted, self.inputs, strict=True))
        absent = [i for i in counted if i not in given and core[i]]
        if absent:
            problem = f"argument {absent[0]} is None, but has axes {core[absent[0]]}"
            raise self.error(ValueError, problem)
        return [core[i] for i in given]

    def core_sizes(self, core, operands):
        """{name of an axis: its size}, which must be the same wherever it stands."""
        sizes = {}
        for names, x in zip(core, operands, strict=True):
            if x.ndim < len(names):
                problem = f"an argument of shape {x.shape} does not have axes {names}"
                raise self.error(ValueError, problem)
            self.note_sizes(sizes, names, x.shape[x.ndim - len(names) :])
        return sizes

    def note_sizes(self, sizes, names, shape):
        """Add the sizes of named axes; ValueError if one has another size already."""
        for name, n in zip(names, shape, strict=True):
            if sizes.setdefault(name, n) != n:
                problem = f"axis {name!r} has size {sizes[name]} and size {n}"
                raise self.error(ValueError, f"inconsistent sizes: {problem}")

    def check_results(self, result, sizes):
        """Raise unless the results have the axes that the signature gives them."""
        several = len(self.outputs) != 1
        if several and not isinstance(result, tuple):
            problem = f"expected a tuple of {len(self.outputs)} results, got {result!r}"
            raise self.error(TypeError, problem)
        results = result if several else (result,)
        if len(results) != len(self.outputs):
            problem = f"expected {len(self.outputs)} results, got {len(results)}"
            raise self.error(TypeError, problem)
        sizes = dict(sizes)
        for names, y in zip(self.outputs, results, strict=True):
            shape = np.shape(y)
            if len(shape) != len(names):
                problem = f"a result of shape {shape} does not have the axes {names}"
                raise self.error(ValueError, problem)
            self.note_sizes(sizes, names, shape)


def check_excluded(excluded):
    """The excluded positions and names as a set, or an error."""
    if builtins.any(not isinstance(x, (int, str)) for x in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude integer or string arguments, but "
            f"{excluded=}"
        )
    if builtins.any(isinstance(x, int) and x < 0 for x in excluded):
        raise ValueError(f"{excluded=} contains negative numbers")
    return frozenset(excluded)


def parse_signature(text):
    """`(n,m),(m)->(n)` -> ([("n", "m"), ("m",)], [("n",)])"""
    sides = text.split("->")
    several = f"{DIMENSIONS}(?:,{DIMENSIONS})*"
    if len(sides) != 2 or not builtins.all(re.fullmatch(several, s) for s in sides):
        raise ValueError(f"not a valid gufunc signature: {text}")
    return [
        [tuple(re.findall(r"\w+", part)) for part in re.findall(DIMENSIONS, side)]
        for side in sides
    ]


def over_batches(function, operands, batches):
    """Apply a function along leading axes, which broadcast: a vmap for each.

    An operand that has size 1 along one of them is shared there, and not repeated.
    """
    broadcast = broadcast_shape(tuple(batches))
    rank = len(broadcast)
    wide = [(1,) * (rank - len(batch)) + tuple(batch) for batch in batches]
    parts = [
        x.reshape(*(n for n in batch if n != 1), *x.shape[len(given) :])
        for x, batch, given in zip(operands, wide, batches, strict=True)
    ]
    for d in reversed(range(rank)):
        in_axes = tuple(None if batch[d] == 1 else 0 for batch in wide)
        if builtins.all(axis is None for axis in in_axes):
            function = with_new_axis(function)
        else:
            function = vmap(function, in_axes=in_axes)
    return function(*parts)


def with_new_axis(function):
    """The function whose results have one more axis of size 1 in front."""
    return lambda *args: tree_map(lambda y: expand_dims(y, 0), function(*args))


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = frozenset(), signature: Any = None
) -> Callable[..., Any]:
    """A function of arrays out of one of scalars, or of arrays with few axes.

    Args:
      pyfunc: the function; it is called once, on tracers.
      excluded: positions and names of arguments that are passed on as they are.
      signature: `"(n,m),(m)->(n)"`: which axes, the last ones, of each argument and
        each result belong to one call.  None: arguments are scalars.

    All other axes broadcast, and are mapped by `vmap`.  None as an argument stays
    None.  Keyword arguments broadcast too, unless there is a signature.  JAX:
    `jnp.vectorize`, which does not look at keyword arguments.

    Raises:
      ValueError: for a bad signature, or shapes that do not fit it.
      TypeError: for too few or too many arguments or results.
    """
    if not callable(pyfunc):
        raise TypeError(f"jnp.vectorize: expected a callable value, got {pyfunc!r}")
    vectorized = Vectorized(pyfunc, excluded, signature)
    return wraps(pyfunc)(lambda *args, **kwargs: vectorized(*args, **kwargs))


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """Apply a function of a vector to each line of an array along an axis.

    Args:
      func1d: function(line, *args, **kwargs); the axes of its result take the place
        of the axis.

    JAX: `jnp.apply_along_axis`.
    """
    arr, = arrays("apply_along_axis", arr)
    axis = canonical_axis(axis, arr.ndim)
    function = lambda line: func1d(line, *args, **kwargs)
    for d in range(1, arr.ndim - axis):
        function = vmap(function, in_axes=d, out_axes=-1)
    for _ in range(axis):
        function = vmap(function)
    return function(arr)
