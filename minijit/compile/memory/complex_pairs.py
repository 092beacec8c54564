"""Complex numbers as pairs of real ones: what runs knows real numbers only.

    for i in 4:                         for i in 4:
      y[i] = x[i] * x[i]                  a = x[i,0] * x[i,0] - x[i,1] * x[i,1]
                                          b = x[i,0] * x[i,1] + x[i,1] * x[i,0]
                                          y[i,0] = a
                                          y[i,1] = b

    in_pairs(place(kernel.body))        # statements on `PairBuffer`s

All that comes before, fusing, placing, planning of memory, takes a complex number for
one number.  This is the last step before a text is printed; so every target has complex
numbers, and knows nothing of them.  An array is the same memory, read as parts that lie
side by side.
"""

import weakref
from collections import Counter
from dataclasses import dataclass, replace

from ...trace.jaxprs.jaxpr import subjaxprs
from ...trace.numpy_values import real_part
from ...trace.slicing import dynamic_update_slice_p
from ..loops import statements as loops
from ..loops.buffers import Buffer, View
from ..loops.expressions import Axis, Const, Load, Op, Reduce, as_index, op
from ..loops.graphs import postorder
from ..loops.kernel_buffers import changed_loads
from ..loops.scalars import BOOL
from ..lower.calls import numbers_left
from ..lower.walk import lower_rules, new_axis
from ..numbers.complex_forms import Pair, complex_forms
from ..numbers.scalar_forms import Number
from ..schedule.placing_rules import sure


def is_complex(x):
    return x.dtype.kind == "c"


@dataclass(frozen=True, eq=False)
class PairBuffer(Buffer):
    """The memory of complex numbers as real ones: two along a last axis.

    Attributes:
      origin: the buffer of complex numbers.
    """

    origin: Buffer | None = None


known_pairs: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def pairs_of(buffer):
    """The `PairBuffer` of a buffer of complex numbers; another one as it is."""
    if not is_complex(buffer):
        return buffer
    if buffer not in known_pairs:
        shape, order = (*buffer.shape, 2), buffer.order and (*buffer.order, -1)
        dtype = real_part(buffer.dtype)
        pairs = PairBuffer(buffer.name, shape, dtype, order, buffer.space, buffer)
        known_pairs[buffer] = pairs
        return pairs
    return known_pairs[buffer]


def origin_of(buffer):
    """The buffer that a program knows: of pairs that of the complex numbers."""
    return buffer.origin if isinstance(buffer, PairBuffer) else buffer


# ---- expressions


def numbers(parts):
    """What a form takes: a `Pair`, or a `Number`."""
    return Pair(*map(Number, parts)) if len(parts) == 2 else Number(*parts)


def parts_of(value):
    """The expressions of what a form gives."""
    return tuple(x.expr for x in (value.parts if isinstance(value, Pair) else (value,)))


def converted(parts, source, target):
    """The parts of a number of one dtype as another; a real one has the first part."""
    if target.kind != "c":
        return (op("convert", parts[0], dtype=target),)
    part = real_part(target)
    parts = [op("convert", x, dtype=part) for x in parts]
    return tuple(parts) if source.kind == "c" else (*parts, Const(0, part))


class Pairs:
    """Expressions in which each complex number is two real ones.

    Attributes:
      parts: {expression: the tuple of one or two expressions that it became}.
    """

    def __init__(self):
        self.parts = {}

    def __call__(self, expr):
        """The one or two expressions that an expression becomes."""
        for each in postorder([expr], self.parts):
            self.parts[each] = self.of(each)
        return self.parts[expr]

    def one(self, expr):
        """The expression that a real one becomes."""
        result, = self(expr)
        return result

    def of(self, expr):
        """What an expression becomes, whose parts are known."""
        children = expr.children()
        inside = [self.parts[e] for e in children]
        if isinstance(expr, Op) and any(map(is_complex, (expr, *children))):
            return self.operation(expr, inside)
        if is_complex(expr):
            return tuple(self.half(expr, inside, k) for k in (0, 1))
        new = tuple(x for x, in inside)
        if isinstance(expr, Reduce):
            # The loops over its axes are there: it may not become a shorter one.
            n = len(expr.bodies)
            return (Reduce(expr.op, new[n:], new[:n]),)
        return (expr if new == children else expr.rebuild(new),)

    def half(self, expr, inside, k):
        """One part of a constant, of an element, or of a total."""
        if isinstance(expr, Const):
            value = (expr.value.real, expr.value.imag)[k]
            return Const(value, real_part(expr.dtype))
        if isinstance(expr, Load):
            index = *(i for i, in inside), as_index(k)
            return expr.at(pairs_of(expr.buffer), index)
        (body, *_) = inside
        if expr.op == "mul":
            whole = Reduce("times", expr.axes, body)
            return op("item", whole, as_index(k), dtype=whole.dtype)
        return Reduce(expr.op, expr.axes, (body[k],))

    def operation(self, expr, inside):
        if expr.name == "convert":
            return converted(inside[0], expr.args[0].dtype, expr.dtype)
        return parts_of(complex_forms[expr.name](*map(numbers, inside)))


# ---- statements


class PairedStatements:
    """Placed statements in which each complex number is two real ones.

    Attributes:
      is_region: whether they may read what others of them wrote.
      functions: {`Function` of a region: what it became}.
    """

    def __init__(self, is_region=False):
        self.pairs, self.is_region, self.functions = Pairs(), is_region, {}

    def block(self, body, named=frozenset()):
        """The statements of a block; `named` are the expressions that have a `Let`."""
        result, named = [], set(named)
        changing = changed_loads(body) if self.is_region else [()] * len(body)
        outside = self.pairs.parts
        self.pairs.parts = dict(outside) if any(changing) else outside
        for stmt, loads in zip(body, changing, strict=True):
            if loads:
                # A total's loads are those of its steps, which are what they were.
                inside = isinstance(stmt, (loops.Start, loops.Step))
                totals = {e for e in postorder(stmt.uses()) if type(e) is Reduce}
                found = () if inside else postorder(stmt.uses(), totals)
                loads = [e for e in found if e in loads]
            if loads and isinstance(stmt, loops.If):
                pred = register(BOOL)
                result += self.alone(loops.Store(pred, (), stmt.pred), loads, named)
                stmt = replace(stmt, pred=Load(pred, ()))
            result += self.alone(stmt, () if stmt.bodies() else loads, named)
        self.pairs.parts = outside
        return tuple(result)

    def alone(self, stmt, loads, named):
        """A statement, with some loads from numbers of its own: as parts of names they
        would be known to the statements after it, where they are others."""
        if not loads:
            return rows[type(stmt)](self, stmt, named)
        uses, held, changed = stmt.uses(), [], set()
        again = getattr(stmt, "expr", None)  # A name is what it is given last.
        known = {
            e for e in postorder(uses)
            if type(e) is Reduce or self.pairs(e)[0] in named and e is not again
        }  # fmt: skip
        for e in postorder(uses, known):
            if e in loads:
                parts = self.pairs(e)
                numbers = [register(part.dtype) for part in parts]
                held += map(loops.Store, numbers, [()] * len(parts), parts)
                self.pairs.parts[e] = tuple(Load(number, ()) for number in numbers)
                changed.add(e)
            elif not changed.isdisjoint(e.children()):
                self.pairs.parts.pop(e)
                changed.add(e)
        held += rows[type(stmt)](self, stmt, named)
        for e in changed - {again}:
            self.pairs.parts.pop(e, None)
        return held

    def shared(self, exprs, named):
        """A `Let` for all in some expressions that is used more than once."""
        totals = {e for e in postorder(exprs, named) if type(e) is Reduce}
        found, uses = postorder(exprs, named | totals), Counter(exprs)
        for expr in found:
            uses.update(expr.children())
        repeated = [e for e in found if uses[e] > 1 and not sure(e)]
        return self.lets(repeated, named)

    def lets(self, exprs, named):
        new = [e for e in dict.fromkeys(exprs) if e not in named]
        new = [e for e in new if not isinstance(e, (Const, Axis, Reduce))]
        named.update(new)
        return [loops.Let(e) for e in new]

    def let(self, stmt, named):
        parts = self.pairs(stmt.expr)
        return [*self.shared(parts, named), *self.lets(parts, named)]

    def total(self, stmt, named):
        parts = self.pairs(stmt.reduce)
        reduces = {e if type(e) is Reduce else e.args[0]: None for e in parts}
        bodies = [e for reduce in reduces for e in reduce.bodies]
        lets = self.shared(bodies, named) if type(stmt) is loops.Step else []
        return [*lets, *map(type(stmt), reduces)]

    def store(self, stmt, named):
        """Both parts are computed before one is stored: they may read the old ones."""
        index = tuple(map(self.pairs.one, stmt.index))
        values = self.pairs(stmt.value)
        lets = self.shared((*index, *values), named)
        if not is_complex(stmt.buffer):
            return [*lets, loops.Store(stmt.buffer, index, *values, stmt.combine)]
        lets += self.lets(values, named)
        buffer = pairs_of(stmt.buffer)
        return lets + [
            loops.Store(buffer, (*index, as_index(k)), value, stmt.combine)
            for k, value in enumerate(values)
        ]

    def loop(self, stmt, named):
        return [loops.For(stmt.axis, self.block(stmt.body, named))]

    def branch(self, stmt, named):
        pred = self.pairs.one(stmt.pred)
        then, otherwise = (self.block(body, named) for body in stmt.bodies())
        return [*self.shared([pred], named), loops.If(pred, then, otherwise)]

    def repeat(self, stmt, named):
        test, cond = self.block(stmt.test, named), self.pairs.one(stmt.cond)
        test += tuple(self.shared([cond], set(named)))
        return [loops.While(test, cond, self.block(stmt.body, named))]

    def call(self, stmt, named):
        """A function's arrays are pairs too; what else is called takes real numbers."""
        attrs = dict(stmt.attrs)
        if "function" in attrs:
            attrs["function"] = self.function(attrs["function"])
        if "given" in attrs:
            attrs["given"] = tuple(map(self.view, attrs["given"]))
        sides = (tuple(map(self.view, side)) for side in (stmt.inputs, stmt.outputs))
        return [loops.Call(stmt.routine, *sides, attrs, stmt.eqns)]

    def view(self, view):
        if isinstance(view, Buffer):
            return pairs_of(view)
        if not is_complex(view.buffer):
            return view
        shape, strides = (*view.shape, 2), (*(2 * s for s in view.strides), 1)
        offset = op("mul", as_index(view.offset), as_index(2))
        offset = offset.value if isinstance(offset, Const) else offset
        return View(pairs_of(view.buffer), shape, strides, offset)

    def function(self, function):
        if function not in self.functions:
            self.functions[function] = loops.Function(
                function.name,
                tuple(map(pairs_of, function.params)),
                tuple(map(pairs_of, function.captures)),
                self.block(function.body),
            )
        return self.functions[function]

    def swap(self, stmt, named):
        return [loops.Swap(pairs_of(stmt.first), pairs_of(stmt.second))]

    def reserve(self, stmt, named):
        return [loops.Reserve(pairs_of(stmt.table), self.pairs.one(stmt.rows))]

    def look(self, stmt, named):
        return [loops.Look(self.pairs.one(stmt.work))]

    def fail(self, stmt, named):
        pred = self.pairs.one(stmt.pred)
        return [*self.shared([pred], named), loops.Fail(pred, stmt.message)]


def register(dtype):
    return Buffer("held", (), dtype, space="register")


# type of a statement -> method(statements, it, the named): the statements it becomes.
rows = {
    loops.Call: PairedStatements.call,
    loops.Fail: PairedStatements.fail,
    loops.For: PairedStatements.loop,
    loops.If: PairedStatements.branch,
    loops.Let: PairedStatements.let,
    loops.Look: PairedStatements.look,
    loops.Reserve: PairedStatements.reserve,
    loops.Start: PairedStatements.total,
    loops.Step: PairedStatements.total,
    loops.Store: PairedStatements.store,
    loops.Swap: PairedStatements.swap,
    loops.While: PairedStatements.repeat,
}


def has_complex(body):
    """Whether anything in some statements is a complex number."""
    return any(map(is_complex, postorder(loops.expressions(body))))


def in_pairs(body):
    """Placed statements in real numbers only; themselves if they have no others."""
    return PairedStatements().block(body) if has_complex(body) else body


def region_in_pairs(region):
    """A `Region` in real numbers only."""
    bodies = (region.body, *(f.body for f in region.functions))
    if not any(map(has_complex, bodies)):
        return region
    paired = PairedStatements(is_region=True)
    functions = tuple(map(paired.function, region.functions))
    tables = tuple(
        replace(t, columns=tuple(map(pairs_of, t.columns))) for t in region.tables
    )
    body = paired.block(region.body)
    return replace(region, body=body, tables=tables, functions=functions)


# ---- which equations

# Primitives whose statements store complex numbers part by part; `ops` adds others.
stored_as_pairs = {dynamic_update_slice_p}


def obstacle_of(eqn):
    """Why an equation of complex numbers cannot be done in pairs, or None."""
    row = lower_rules.get(eqn.primitive)
    if row is None or not row.by_element:
        known = eqn.primitive in stored_as_pairs or subjaxprs(eqn)
        return None if known else "complex numbers are left to NumPy"
    out, = eqn.outvars
    if not out.aval.size:
        return None
    for expr in postorder([row.at(eqn, tuple(map(new_axis, out.aval.shape)))]):
        if not is_complex(expr) and not any(map(is_complex, expr.children())):
            continue
        if isinstance(expr, Reduce) and expr.op not in ("add", "mul"):
            return f"totals of complex numbers by {expr.op} are left to NumPy"
        if isinstance(expr, Op) and expr.name not in {*complex_forms, "convert"}:
            return f"{expr.name} of complex numbers is left to NumPy"
    return None


numbers_left["c"] = obstacle_of
