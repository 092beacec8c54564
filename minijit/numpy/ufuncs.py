"""Functions of two numbers as reductions: `jnp.add.reduce`, `jnp.frompyfunc`.

    jnp.multiply.accumulate(x), jnp.add.at(x, i, y), jnp.subtract.outer(x, y)
    jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1).reduce(x)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..transform.control_flow.api import scan
from ..transform.control_flow.more_loops import fori_loop
from .arguments import canonical_axis, check_arraylike, no_out
from .core import convert
from .cumulative import cumprod, cumsum
from .elementwise import where as choose
from .making import asarray, concatenate, full
from .reducing import all, any, max, min, prod, sum
from .shapes import broadcast_to, expand_dims, moveaxis, ravel, reshape
from .take_and_put import take
from .vectorized import vectorize

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
identities = {
    "add": 0, "multiply": 1, "logical_and": True, "logical_or": False,
    "logical_xor": False, "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0,
    "logaddexp": -np.inf, "logaddexp2": -np.inf,
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

    def _of_two(self, method):
        if self.nin != 2 or self.nout != 1:
            raise ValueError(
                f"{method} is only supported for binary ufuncs with one result; "
                f"{self.__name__} takes {self.nin} and gives {self.nout}"
            )

    def reduce(
        self, a, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None
    ):
        """All elements along an axis (None: all) combined, from the first on.

        Args:
          initial: what it begins with; where: which elements count.
        """
        self._of_two("reduce")
        no_out("reduce", out)
        check_arraylike("reduce", a)
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
        self._of_two("accumulate")
        no_out("accumulate", out)
        check_arraylike("accumulate", a)
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
        self._of_two("outer")
        check_arraylike("outer", A, B)
        a, b = asarray(A), asarray(B)
        return self._call(expand_dims(a, tuple(range(a.ndim, a.ndim + b.ndim))), b)

    def reduceat(self, a, indices, axis=0, dtype=None, out=None):
        """Ranges of an axis combined: from each index to before the next one.

        Where the next index is not larger, the element at the index alone.
        """
        self._of_two("reduceat")
        no_out("reduceat", out)
        check_arraylike("reduceat", a, indices)
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


def with_methods(name, function, count):
    """Give a function of `minijit.numpy` the methods of a ufunc."""
    made = ufunc(function, count, 1, name=name, identity=identities.get(name))
    methods = "reduce accumulate at outer reduceat".split()
    given = {m: getattr(made, m) for m in methods}
    vars(function).update(
        given, nin=count, nout=1, nargs=count, identity=made.identity
    )


binary = """add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and
logical_or logical_xor maximum minimum multiply subtract""".split()
unary = """negative""".split()


def add_methods(namespace):
    """Give all functions that are ufuncs in NumPy their methods."""
    for names, count in (binary, 2), (unary, 1):
        for name in names:
            with_methods(name, namespace[name], count)
