"""Expressions of the loop language: how one number is computed.

    i, j = Axis(3), Axis(4)
    x = Buffer("x", (4, 3), np.dtype("float32"))
    op("mul", Load(x, (j, i)), Const(2, "float32"))       # (x[axis4, axis3] * 2.0)

Expressions are *interned*: building the same one twice gives the same object, so an
expression is a graph with shared parts and never a tree.  Only an axis is just itself.
"""

import weakref

import numpy as np

from . import expression_text as texts
from .graphs import free_axes, nothing
from .scalars import BOOL, INDEX, bits, certain, comparisons, dtype_bounds, interval_of

interned: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Expr:
    """One number.

    Attributes:
      dtype: its `np.dtype`.
      free: the axes whose values it depends on, a frozenset.
      bounds: for an integer, the smallest and the largest value it can have.
    """

    __slots__ = ("dtype", "free", "bounds", "__weakref__")
    fields: tuple = ()

    def __new__(cls, *values):
        key = (cls, *values)
        found = interned.get(key)
        if found is None:
            found = object.__new__(cls)
            for name, value in zip(cls.fields, values, strict=True):
                setattr(found, name, value)
            found.derive()
            interned[key] = found
        return found

    def derive(self):
        """Set what follows from the fields."""
        self.free = free_axes(self.children())
        self.bounds = dtype_bounds(self.dtype)

    def children(self):
        """The expressions it is computed from; `rebuild` puts others in their place."""
        return ()

    def lengths(self):
        """The expression of how many steps it has: what else `rebuild` may replace."""
        return ()

    def __repr__(self):
        return texts.expr_text(self)


class Const(Expr):
    """A number known now.  Constants differ if their dtypes or their bits do."""

    __slots__ = fields = ("value",)
    text = texts.number_text

    def __new__(cls, value, dtype):
        dtype = np.dtype(dtype)
        key = (cls, dtype, bits(value, dtype))
        found = interned.get(key)
        if found is None:
            found = interned[key] = object.__new__(cls)
            found.value, found.dtype = np.asarray(value, dtype).item(), dtype
            found.free = nothing
            found.bounds = (int(found.value),) * 2 if dtype.kind in "iub" else None
        return found


class Axis(Expr):
    """One loop's counter, from 0 to `extent` - 1.

    Attributes:
      extent: an int, or an expression where only a run can tell.
      kind: `loop` (any order will do), `vector` (all at once), `reduce` (bound by a
        `Reduce`), `serial` (in order), `scan` (so too: `Reduce`s are running totals).
    """

    __slots__ = fields = ("extent", "kind")
    text = texts.axis_text

    def __new__(cls, extent, kind="loop"):
        axis = object.__new__(cls)
        axis.extent, axis.kind, axis.dtype = extent, kind, INDEX
        axis.free = frozenset([axis])
        low, high = (extent, extent) if isinstance(extent, int) else extent.bounds
        # Never (0, 0) if there may be no step: a load must not move in front of it.
        axis.bounds = (0, max(high - 1, int(low < 1)))
        return axis

    def lengths(self):
        return () if isinstance(self.extent, int) else (self.extent,)

    def rebuild(self, children):
        return Axis(*children, self.kind)

    @property
    def is_plain(self):
        """Whether its steps have no order, and a fixed number."""
        return self.kind == "loop" and isinstance(self.extent, int)


class Load(Expr):
    """The element of a buffer at an index, which must be in bounds.

    Attributes:
      version: which one, if a kernel stores the element between loads of it: `Kernel`
        tells them apart, for each expression stands for one value.
    """

    __slots__ = fields = ("buffer", "index", "version")
    text = texts.load_text

    def __new__(cls, buffer, index, version=0):
        return super().__new__(cls, buffer, index, version)

    def derive(self):
        self.dtype = self.buffer.dtype
        super().derive()

    def children(self):
        return self.index

    def rebuild(self, children):
        return Load(self.buffer, tuple(children), self.version)

    def at(self, buffer, index):
        """The same load, where the element is elsewhere."""
        return Load(buffer, tuple(index), self.version)


class Op(Expr):
    """A scalar operation on numbers, by name; built by `op`."""

    __slots__ = ("name", "args")
    fields = ("name", "args", "dtype")
    text = texts.operation_text

    def derive(self):
        self.free = free_axes(self.args)
        self.bounds = interval_of(self.name, self.dtype, [a.bounds for a in self.args])

    def children(self):
        return self.args

    def rebuild(self, children):
        return op(self.name, *children, dtype=self.dtype)


# Functions of an `Op` or a `Reduce`: something shorter that is equal, or None.
shortcuts: list = []


def op(name, *args, dtype=None):
    """`Op(name, args, dtype)`, or something shorter.

    By default a comparison gives a bool, anything else the last argument's dtype.
    """
    if dtype is None:
        dtype = BOOL if name in comparisons else args[-1].dtype
    if name == "convert" and args[0].dtype == dtype:
        return args[0]
    if (number := certain(name, dtype, args)) is not None:
        return Const(number, dtype)
    return shorter(Op(name, args, dtype))


def shorter(expr):
    """What a shortcut has for an expression, or the expression itself."""
    return next(filter(None, (found(expr) for found in shortcuts)), expr)


def as_index(value):
    """An index expression: an int becomes a constant, an integer is converted."""
    if isinstance(value, Expr):
        return value if value.dtype is INDEX else op("convert", value, dtype=INDEX)
    return Const(value, INDEX)


class Reduce(Expr):
    """The bodies' values for all values of `axes`, combined by `op`.

    Over axes of kind `reduce`, which it binds, it is a total.  Over an axis of kind
    `scan`, which a `For` around it binds, it is the running total up to and with the
    present step.  With several bodies the value is a tuple: `item` takes it apart.
    """

    __slots__ = fields = ("op", "axes", "bodies")
    text = texts.reduction_text

    def derive(self):
        self.dtype = self.bodies[0].dtype
        super().derive()
        own = [a for a in self.axes if a.kind == "reduce"]
        extents = (a.extent for a in own if isinstance(a.extent, Expr))
        self.free = free_axes((self, *extents)).difference(own)

    def children(self):
        return (*self.bodies, *self.axes)

    def rebuild(self, children):
        n = len(self.bodies)
        return shorter(Reduce(self.op, tuple(children[n:]), tuple(children[:n])))

    @property
    def is_plain(self):
        """Whether it is one number, of terms that have no order."""
        return len(self.bodies) == 1 and all(a.kind == "reduce" for a in self.axes)

    @property
    def is_fixed(self):
        """Whether its terms have no order, and a fixed number."""
        return all(a.kind == "reduce" and isinstance(a.extent, int) for a in self.axes)
