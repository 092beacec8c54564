"""Expressions of the loop language: what one number is computed from.

    i, j = Axis(3), Axis(4)
    x = Buffer("x", (4, 3), np.dtype("float32"))
    op("mul", Load(x, (j, i)), Const(2, "float32"))   # (x[axis4, axis3] * 2.0)

    Expr    ::= Const(value, dtype)
              | Axis(extent, kind)           kind: loop | reduce | scan | serial
              | Load(buffer, index*)
              | Op(name, args*, dtype)
              | Reduce(op, axes*, bodies*)

Expressions are *interned*: building the same one twice gives the same object, so that
an expression is a graph with shared parts and never a tree.  Axes are what they are:
two axes of the same extent are two axes.
"""

import weakref

import numpy as np

from ..trace.dtypes import short_dtype_name
from .scalars import BOOL, INDEX, comparisons, dtype_bounds, intervals

interned: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
nothing: frozenset = frozenset()


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
        """Set `dtype`, `free` and `bounds` from the fields."""
        raise NotImplementedError(type(self).__name__)

    def children(self):
        """The expressions it is computed from."""
        return ()

    def rebuild(self, children):
        """The same kind of expression computed from other ones."""
        del children
        return self

    def __repr__(self):
        return expr_text(self)


class Const(Expr):
    """A number known now.  Constants differ if their dtypes or their bits do."""

    __slots__ = fields = ("value",)

    def __new__(cls, value, dtype):
        dtype = np.dtype(dtype)
        array = np.asarray(value, dtype)
        key = (cls, dtype, array.tobytes())
        found = interned.get(key)
        if found is None:
            found = interned[key] = object.__new__(cls)
            found.value, found.dtype, found.free = array.item(), dtype, nothing
            found.bounds = (int(found.value),) * 2 if dtype.kind in "iub" else None
        return found


class Axis(Expr):
    """One loop's counter, from 0 to `extent` - 1.  Each axis is itself only.

    Attributes:
      extent: an int, or an expression where only a run can tell.
      kind: `loop` (any order will do), `reduce` (bound by a `Reduce`), `scan` (in
        order: `Reduce`s over it are running totals), `serial` (in order).
    """

    __slots__ = fields = ("extent", "kind")

    def __new__(cls, extent, kind="loop"):
        axis = object.__new__(cls)
        axis.extent, axis.kind, axis.dtype = extent, kind, INDEX
        axis.free = frozenset([axis])
        top = extent if isinstance(extent, int) else extent.bounds[1]
        axis.bounds = (0, max(top - 1, 0))
        return axis


class Load(Expr):
    """The element of a buffer at an index, which must be in bounds."""

    __slots__ = fields = ("buffer", "index")

    def derive(self):
        self.dtype = self.buffer.dtype
        self.free = free_axes(self.index)
        self.bounds = dtype_bounds(self.dtype)

    def children(self):
        return self.index

    def rebuild(self, children):
        return Load(self.buffer, tuple(children))


class Op(Expr):
    """A scalar operation, by name: see `scalar operations` below.  Built by `op`."""

    __slots__ = ("name", "args")
    fields = ("name", "args", "dtype")

    def derive(self):
        self.free = free_axes(self.args)
        self.bounds = op_bounds(self)

    def children(self):
        return self.args

    def rebuild(self, children):
        return op(self.name, *children, dtype=self.dtype)


class Reduce(Expr):
    """The bodies' values for all values of `axes`, combined by `op`.

    Over axes of kind `reduce`, which it binds, it is a total.  Over an axis of kind
    `scan`, which a `For` around it binds, it is the running total up to and with the
    present step.  With several bodies the value is a tuple: `item` takes it apart.
    """

    __slots__ = fields = ("op", "axes", "bodies")

    def derive(self):
        self.dtype = self.bodies[0].dtype
        bound = [axis for axis in self.axes if axis.kind == "reduce"]
        self.free = free_axes(self.bodies + self.axes).difference(bound)
        self.bounds = dtype_bounds(self.dtype)

    def children(self):
        return (*self.bodies, *self.axes)

    def rebuild(self, children):
        count = len(self.bodies)
        return Reduce(self.op, tuple(children[count:]), tuple(children[:count]))


def free_axes(exprs):
    """The union of the free axes; the very same set where only one contributes."""
    union = nothing
    for expr in exprs:
        if expr.free is not union and not expr.free <= union:
            union = union | expr.free if union else expr.free
    return union


# Simpler forms of an operation on integers or bools, or None: `index_rules` has them.
folds: dict = {}


def op(name, *args, dtype=None):
    """`Op(name, args, dtype)`, simplified if it computes an index or a condition.

    By default a comparison gives a bool, anything else the last argument's dtype.
    """
    if dtype is None:
        dtype = BOOL if name in comparisons else args[-1].dtype
    if name == "convert" and args[0].dtype == dtype:
        return args[0]
    expr = Op(name, args, dtype)
    if dtype not in (INDEX, BOOL) and name != "select":
        return expr
    if name in intervals and known(expr) is not None:
        return Const(known(expr), dtype)
    simpler = folds[name](*args) if name in folds else None
    return expr if simpler is None else simpler


def as_index(value):
    """An index expression: an int becomes a constant, an integer is converted."""
    if isinstance(value, Expr):
        return op("convert", value, dtype=INDEX)
    return Const(value, INDEX)


def known(expr):
    """The int or bool that an expression always is, or None."""
    low, high = expr.bounds or (0, 1)
    return low if low == high else None


def op_bounds(expr):
    """The interval of an integer `Op`, computed from those of its arguments."""
    everything, rule = dtype_bounds(expr.dtype), intervals.get(expr.name)
    if None in (everything, rule, *(a.bounds for a in expr.args)):
        return everything
    low, high = rule(*(a.bounds for a in expr.args))
    # An operation that could wrap around can give anything.
    fits = everything[0] <= low and high <= everything[1]
    return (low, high) if fits else everything


def number_text(expr):
    """A constant; with its dtype unless that is an index's, bool or float32."""
    plain = expr.dtype in (INDEX, BOOL, np.dtype("float32"))
    return str(expr.value) if plain else f"{short_dtype_name(expr.dtype)}({expr.value})"


def expr_text(expr, names=None, depth=8):
    """An expression as text, down to a depth; `names` has the names of some parts."""
    names = {} if names is None else names
    if expr in names:
        return names[expr]
    if isinstance(expr, Const):
        return number_text(expr)
    if isinstance(expr, Axis) or depth == 0:
        return f"axis{expr.extent}" if isinstance(expr, Axis) else "..."
    parts = [expr_text(e, names, depth - 1) for e in expr.children()]
    if isinstance(expr, Load):
        return f"{expr.buffer.name}[{', '.join(parts)}]"
    if isinstance(expr, Reduce):
        count = len(expr.bodies)
        bound = zip(expr.axes, parts[count:], strict=True)
        axes = [f"{n} in {a.extent}" if a.kind == "reduce" else n for a, n in bound]
        return f"{expr.op}({', '.join(axes)}: {', '.join(parts[:count])})"
    return op_text(expr, parts)


infix = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
infix |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
infix |= {"and": "&", "or": "|", "xor": "^"}


def op_text(expr, parts):
    """An operation, with operators for arithmetic, comparison and logic."""
    if expr.name in infix:
        return f"({parts[0]} {infix[expr.name]} {parts[1]})"
    if expr.name in ("convert", "bitcast"):
        return f"{expr.name}[{short_dtype_name(expr.dtype)}]({parts[0]})"
    return f"{expr.name}({', '.join(parts)})"


def postorder(roots, skip=()):
    """Every expression that `roots` are computed from, children before parents.

    Does not look into the expressions in `skip`.
    """
    done, todo = {}, [(root, False) for root in reversed(roots)]
    while todo:
        expr, ready = todo.pop()
        if expr in done or expr in skip:
            continue
        if ready:
            done[expr] = None
        else:
            todo.append((expr, True))
            todo.extend((child, False) for child in reversed(expr.children()))
    return list(done)


def substitute(roots, replacement, new=None):
    """Rebuild expressions with some of them replaced.

    Args:
      roots: expressions.
      replacement: function of an expression: what to put in its place (to which it is
        applied again), or None.
      new: {expression: what became of it}, to be used and extended.

    Returns:
      The list of the new roots.
    """
    new, todo = {} if new is None else new, list(reversed(roots))
    while todo:
        expr = todo[-1]
        target = None if expr in new else replacement(expr)
        needed = expr.children() if target is None else (target,)
        missing = [e for e in needed if e not in new]
        if missing and expr not in new:
            todo.extend(reversed(missing))
            continue
        todo.pop()
        if expr not in new:
            parts = tuple(new[e] for e in needed)
            same = target is None and parts == needed
            new[expr] = expr if same else parts[0] if target else expr.rebuild(parts)
    return [new[root] for root in roots]
