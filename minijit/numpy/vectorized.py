"""Functions of numbers or vectors, mapped over arrays; those of two as reductions.

    jnp.multiply.accumulate(x), jnp.add.at(x, i, y), jnp.subtract.outer(x, y)
    jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1).reduce(x)
"""

from __future__ import annotations

import builtins
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace.arguments import function_name, wraps
from ..trace.base.errors import HERE, left_out
from ..trace.shape_checks import broadcast_shape
from ..trace.trees.pytree import tree_map
from ..trace.types import Array, ArrayLike
from ..transform.batching.vmap import vmap
from ..transform.control_flow.api import scan
from ..transform.control_flow.more_loops import fori_loop
from .arguments import canonical_axis, check_arraylike, no_out, tell_of_batches
from .core import arrays, convert
from .elementwise import where as choose
from .making import asarray, concatenate, full
from .reducing import all, any, max, min, prod, sum
from .reductions import cumprod, cumsum
from .shapes import broadcast_to, expand_dims, moveaxis, ravel, reshape
from .take_and_put import take

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
        name = function_name(self.function)
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


# ---- universal functions


# Reductions and running totals that have a primitive of their own.
reductions = {
    "add": sum, "multiply": prod, "maximum": max, "minimum": min, "logical_and": all,
    "logical_or": any,
}  # fmt: skip
running = {"add": cumsum, "multiply": cumprod}
updates = {
    "add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min",
    "subtract": "subtract", "divide": "divide", "power": "power",
}  # fmt: skip


class KindOfUfunc(type):
    """The class of `ufunc`, of which functions such as `jnp.add` are instances."""

    def __instancecheck__(cls, x):
        return type.__instancecheck__(cls, x) or callable(x) and hasattr(x, "reduceat")


class ufunc(metaclass=KindOfUfunc):
    """A function of single numbers on arrays.  JAX: `jnp.ufunc`.

    Attributes:
      nin, nout, nargs: how many arguments and results there are, and both.
      identity: what a reduction begins with, or None.
    """

    def __init__(self, func, nin, nout, *, name=None, nargs=None, identity=None):
        self.nin, self.nout = operator.index(nin), operator.index(nout)
        self.nargs = self.nin if nargs is None else nargs
        self.identity = identity
        self.__name__ = name or getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__
        self._call = func

    def __call__(self, *args, out=None, where=None):
        no_out(self.__name__, out)
        if where is not None:
            raise NotImplementedError("where argument of ufunc")
        if len(args) != self.nin:
            raise TypeError(
                f"{self.__name__} takes {self.nin} arguments, got {len(args)}"
            )
        return self._call(*args)

    def __repr__(self):
        return f"<jnp.ufunc '{self.__name__}'>"

    def _of_two(self, method, out, *arrays):
        """Complain unless it is of two numbers, and its method is of arrays."""
        if self.nin != 2 or self.nout != 1:
            raise ValueError(
                f"{method} is only supported for binary ufuncs with one result; "
                f"{self.__name__} takes {self.nin} and gives {self.nout}"
            )
        no_out(method, out)
        check_arraylike(method, *arrays)

    def reduce(
        self, a, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None
    ):
        """All elements along an axis (None: all) combined, from the first on.

        Args:
          initial: what it begins with; where: which elements count.
        """
        self._of_two("reduce", out, a)
        logical = self.__name__.startswith("logical")
        if self.__name__ in reductions and not (logical and initial is not None):
            known = {} if initial is None else {"initial": initial}
            known |= {} if where is None else {"where": where}
            known |= {"dtype": dtype} if self.__name__ in running else {}
            return reductions[self.__name__](a, axis, keepdims=keepdims, **known)
        x = self._operand(a, dtype)
        initial = self.identity if initial is None else initial
        if where is not None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__} does not have an identity, so to "
                "use a where mask one has to specify 'initial'."
            )
        counts = broadcast_to(True if where is None else where, x.shape)
        kept = [1] * x.ndim
        if axis is None:
            rows, counts = ravel(x), ravel(counts)
        else:
            axis = canonical_axis(axis, x.ndim)
            kept = [1 if d == axis else n for d, n in enumerate(x.shape)]
            rows, counts = moveaxis(x, axis, 0), moveaxis(counts, axis, 0)
        start = 0
        if initial is None:
            if not rows.shape[0]:
                raise ValueError(
                    f"zero-size array to reduction operation {self.__name__} which has "
                    "no identity"
                )
            total, start = rows[0], 1
        else:
            total = full(rows.shape[1:], initial, x.dtype)

        def combine(i, total):
            new = convert(self._call(total, rows[i]), total.dtype)
            return new if where is None else choose(counts[i], new, total)

        if start < rows.shape[0]:
            total = fori_loop(start, rows.shape[0], combine, total)
        return reshape(total, kept) if keepdims else total

    def _operand(self, a, dtype=None):
        """`a` in the dtype of results: truth values, of logical functions."""
        x = asarray(a, dtype)
        return x != 0 if self.__name__.startswith("logical") else x

    def accumulate(self, a, axis=0, dtype=None, out=None):
        """The first elements along an axis combined: one, two, ... all of them."""
        self._of_two("accumulate", out, a)
        if self.__name__ in running:
            return running[self.__name__](a, axis, dtype)
        x = self._operand(a, dtype)
        rows = moveaxis(x, canonical_axis(axis, x.ndim), 0)
        if not rows.shape[0]:
            return x

        def step(total, row):
            total = convert(self._call(total, row), total.dtype)
            return total, total

        _, rest = scan(step, rows[0], rows[1:])
        return moveaxis(concatenate([rows[:1], rest]), 0, axis)

    def at(self, a, indices, b=None, *, inplace=True):
        """a, where the elements at some indices are combined with those of b.

        Args:
          indices: as of a[indices]; an element that is named twice is combined twice.
          inplace: must be False: arrays do not change.
        """
        if inplace:
            raise NotImplementedError(
                f"jnp.{self.__name__}.at: arrays are immutable. Pass inplace=False, "
                "and use the result."
            )
        x = self._operand(a)
        if b is not None and self.__name__ in updates:
            return getattr(x.at[indices], updates[self.__name__])(b)
        places = reshape(asarray(np.arange(x.size)), x.shape)[indices]
        values = () if b is None else (ravel(broadcast_to(b, places.shape)),)
        places = ravel(places)

        def step(i, flat):
            new = self._call(flat[places[i]], *(v[i] for v in values))
            return flat.at[places[i]].set(convert(new, flat.dtype))

        return reshape(fori_loop(0, places.size, step, ravel(x)), x.shape)

    def outer(self, A, B, /):
        """Each element of A with each of B: [*A.shape, *B.shape]."""
        self._of_two("outer", None, A, B)
        a, b = asarray(A), asarray(B)
        return self._call(expand_dims(a, tuple(range(a.ndim, a.ndim + b.ndim))), b)

    def reduceat(self, a, indices, axis=0, dtype=None, out=None):
        """Ranges of an axis combined: from each index to before the next one.

        Where the next index is not larger, the element at the index alone.
        """
        self._of_two("reduceat", out, a, indices)
        x, indices = self._operand(a, dtype), asarray(indices)
        if indices.ndim != 1:
            raise ValueError("reduceat: indices must be one-dimensional")
        rows = moveaxis(x, canonical_axis(axis, x.ndim), 0)
        n = rows.shape[0]
        ends = concatenate([indices[1:], asarray([n], indices.dtype)])
        total = take(rows, indices, 0)

        def step(i, total):
            inside = (i > indices) & (i < ends)
            inside = reshape(inside, (-1, *[1] * (rows.ndim - 1)))
            row = rows[i][None]
            return choose(inside, convert(self._call(total, row), total.dtype), total)

        return moveaxis(fori_loop(1, n, step, total), 0, axis)


def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None
) -> ufunc:
    """A `ufunc` of a Python function of `nin` numbers that gives `nout`.

    JAX: `jnp.frompyfunc`; unlike NumPy's, results have a dtype, and it can be traced.
    """
    return ufunc(vectorize(func), nin, nout, identity=identity)
