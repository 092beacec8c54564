"""Numbers of a kernel as arguments: kernels that differ in numbers only are then one.

    y[3, i] = x[i] * 0.5            y[n0, i] = x[i] * n1        n0 = 3, n1 = 0.5
    y[4, i] = x[i] * 2.0            y[n0, i] = x[i] * n1        n0 = 4, n1 = 2.0

Compiling takes long where a program repeats a step with other numbers.  So numbers may
be arguments, in the operations that are as fast if they are known only when they run.
"""

from dataclasses import replace

from ..loops.expressions import Const, Expr, Load, Op
from ..loops.graphs import nothing, postorder

# By the kind of a number's dtype, the operations in which it may be an argument.
offsets = {"i": {"add", "sub", "lt", "le", "gt", "ge", "eq", "ne", "select"}}
factors = dict.fromkeys("fV", {*offsets["i"], "mul", "convert"})


class Argument(Expr):
    """A number that a kernel is called with; its bounds are those of the constant."""

    __slots__ = ("name",)
    fields = ("name", "dtype", "bounds")

    def derive(self):
        self.free = nothing


class Lifter:
    """Puts arguments in the place of numbers.

    Attributes:
      kinds: such as `offsets | factors`: which numbers.
      arguments: {Const: the `Argument` in its place}.
      new: {expression: what became of it}.
    """

    def __init__(self, kinds):
        self.kinds, self.arguments, self.new = kinds, {}, {}

    def argument(self, const):
        if const not in self.arguments:
            name = f"n{len(self.arguments)}"
            found = Argument(name, const.dtype, const.bounds)
            self.arguments[const] = found
        return self.arguments[const]

    def expr(self, root):
        """An expression with arguments in it."""
        for expr in postorder([root], self.new):
            old = expr.children()
            parts = tuple(self.new[e] for e in old)
            if isinstance(expr, Load):
                parts = tuple(map(self.index, parts))
            if isinstance(expr, Op):
                parts = tuple(self.part(expr, e) for e in parts)
            if parts == old:
                self.new[expr] = expr
            elif isinstance(expr, Op):
                # `op` would compute with an argument, for it has one value only.
                self.new[expr] = Op(expr.name, parts, expr.dtype)
            else:
                self.new[expr] = expr.rebuild(parts)
        return self.new[root]

    def part(self, user, expr):
        if not isinstance(expr, Const):
            return expr
        lifted = user.name in self.kinds.get(expr.dtype.kind, ())
        return self.argument(expr) if lifted else expr

    def index(self, expr):
        lifted = isinstance(expr, Const) and "i" in self.kinds
        return self.argument(expr) if lifted else expr

    def block(self, body):
        exprs = lambda roots: [*map(self.expr, roots)]
        place = lambda buffer, index: (buffer, tuple(map(self.index, index)))
        return tuple(stmt.rewrite(exprs, place) for stmt in body)


def lift(kernel, kinds):
    """A kernel in which numbers are arguments: -> (kernel, {Const: its Argument}).

    Args:
      kinds: such as `offsets | factors`: which numbers.
    """
    lifter = Lifter(kinds)
    return replace(kernel, body=lifter.block(kernel.body)), lifter.arguments
