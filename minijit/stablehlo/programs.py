"""Calls, branches, loops and residuals as StableHLO: jaxprs within jaxprs.

An inner function is a private function of the module, written once; a cond is a
`case`, and a loop a `while`.  A Union is the values of all its cases, zeros where a
case was not taken.  A Tape of a scan is an array with the steps on its first axis; one
of a while would grow as it runs, which StableHLO's arrays cannot.
"""

from functools import partial

from .. import compiler as compiler
from ..compile.simplify.folding import inline_rules
from ..compile.simplify.storage import in_storage
from ..trace.array import ShapedArray, to_numpy
from ..trace.base.errors import at_line
from ..trace.core import find_rule
from ..trace.jaxprs.jaxpr import Literal
from ..transform.control_flow.unions_and_tapes import Tape, Union
from ..transform.control_flow.while_and_scan import Loop, While
from ..transform.pieces import split
from . import text
from .arrays import I32, by_loop, named, reduction, rules, unsupported
from .text import Type, Unsayable, type_of

GROWING = (
    "the derivative of a while_loop keeps a tape that grows as the loop runs, and "
    "StableHLO's arrays are of fixed shapes: use lax.scan, or a lax.fori_loop with "
    "bounds that are known"
)


def leaf_types(aval):
    """The arrays that hold a value of a type."""
    if isinstance(aval, ShapedArray):
        return [type_of(aval)]
    if isinstance(aval, Union):
        return [t for case in aval.cases for a in case for t in leaf_types(a)]
    raise Unsayable(GROWING)


def leaf_count(aval):
    """How many arrays hold a value of a type."""
    if isinstance(aval, Tape):
        return leaf_count(aval.element)
    if isinstance(aval, Union):
        return sum(leaf_count(a) for case in aval.cases for a in case)
    return 1


def leaves_of(avals, values):
    """A flat list of arrays as one list an aval."""
    return split(values, *map(leaf_count, avals))[:-1]


def flat(lists):
    return [x for values in lists for x in values]


class Writer(text.Writer):
    """A `text.Writer` that knows jaxprs."""

    def __init__(self):
        super().__init__()
        self.written = {}

    def once(self, key, name, types, body, names=()):
        """A private function for operands of these types: -> (name, result types)."""
        key = key, *types
        if key not in self.written:
            name, results = self.function(name, types, body, names)
            self.written[key] = name, [x.type for x in results]
        return self.written[key]

    def inline(self, closed, operands):
        """The equations of a closed jaxpr, here: flat lists of arrays in and out."""
        return self.equations(in_storage(closed), operands)

    def equations(self, closed, operands):
        jaxpr = closed.jaxpr
        env = {
            var: [self.constant(to_numpy(x))]
            for var, x in zip(jaxpr.constvars, closed.consts, strict=True)
        }
        env |= zip(jaxpr.invars, leaves_of(jaxpr.in_avals, operands), strict=True)

        def read(atom):
            literal = isinstance(atom, Literal)
            return [self.constant(atom.val)] if literal else env[atom]

        for eqn in jaxpr.eqns:
            results = write_equation(self, eqn, [*map(read, eqn.invars)])
            env |= zip(eqn.outvars, results, strict=True)
        return flat(map(read, jaxpr.outvars))

    def jaxpr_function(self, closed, types):
        """The function of a jaxpr, written once: -> (name, result types)."""
        debug = closed.jaxpr.debug
        name, names = (debug.name, debug.arg_names) if debug else ("f", ())
        body = lambda *args: self.inline(closed, args)
        return self.once(closed, name, types, body, names)

    def call_jaxpr(self, closed, operands):
        """A call of a jaxpr's function: flat lists of arrays in and out."""
        name, types = self.jaxpr_function(closed, [x.type for x in operands])
        return self.call(name, operands, types)


def write_equation(w, eqn, operands):
    """The operations of one equation, on lists of arrays: -> a list a result."""
    primitive = eqn.primitive
    try:
        if primitive in unsupported:
            raise Unsayable(unsupported[primitive])
        if primitive in program_rules:
            results = program_rules[primitive](w, eqn, *operands)
            return leaves_of([v.aval for v in eqn.outvars], results)
        rule = find_rule(rules, primitive, "StableHLO")
        outs = [type_of(v.aval) for v in eqn.outvars]
        out = outs if primitive.multiple_results else outs[0]
        results = rule(w, out, *(x for x, in operands), **eqn.params)
        return [[x] for x in (results if primitive.multiple_results else [results])]
    except Unsayable as reason:
        raise NotImplementedError(
            f"{primitive} cannot be exported: {reason}{at_line(eqn.source)}"
        ) from None


# {primitive: rule(w, eqn, *operands)}: an operand is a list of arrays, that of a union
# one with several; the result is one flat list.
program_rules = {}


# ---- calls


def write_call(w, eqn, *operands):
    return w.call_jaxpr(eqn.params["jaxpr"], flat(operands))


def write_inlined(w, eqn, *operands):
    """A call of what a function with rules of its own computes."""
    closed, operands = inline_rules[eqn.primitive](**eqn.params), flat(operands)
    if closed is None:
        # A checkpoint in a backward pass: XLA must not find the values once more.
        types = [x.type for x in operands]
        held = w.op("optimization_barrier", operands, *types)
        closed, operands = eqn.params["jaxpr"], held if len(types) > 1 else [held]
    return w.call_jaxpr(closed, operands)


program_rules |= {named["jit"]: write_call} | dict.fromkeys(inline_rules, write_inlined)


# ---- branches


def write_cond(w, eqn, index, *operands):
    operands, types = flat(operands), []

    def branch(closed):
        results = w.inline(closed, operands)
        types[:] = [x.type for x in results]
        return results

    regions = [w.region([], partial(branch, b)) for b in eqn.params["branches"]]
    results = w.op("case", [w.convert(index[0], I32)], *types, regions=regions)
    return results if len(types) != 1 else [results]


program_rules |= {named["cond"]: write_cond}


# ---- loops


def write_loop(w, test, body, carry):
    """A `while` over a flat list of arrays: -> its last values."""
    types = [x.type for x in carry]
    regions = [w.region(types, lambda *c: [test(*c)]), w.region(types, body)]
    results = w.op("while", carry, *types, regions=regions)
    return results if len(types) != 1 else [results]


def write_while(w, eqn, *operands):
    loop = While(**eqn.params)
    test_consts, consts, carry = map(flat, loop.split(operands))
    if loop.body_jaxpr.out_avals[len(loop.split(operands)[-1]) :]:
        raise Unsayable(GROWING)
    # With `stack`, the steps are counted.
    count = [w.constant(0, I32)] if loop.stack else []

    def test(*args):
        return w.inline(loop.cond_jaxpr, test_consts + [*args[: len(carry)]])[0]

    def body(*args):
        carry_now, counted = split(args, len(carry))
        counted = [w.same("add", n, w.constant(1, I32)) for n in counted]
        return w.inline(loop.body_jaxpr, consts + carry_now) + counted

    return write_loop(w, test, body, carry + count)


def starts(w, i, x):
    """Where row i of an array begins, an index an axis."""
    return [i, *(w.constant(0, I32) for _ in x.shape[1:])]


def read_row(w, x, i):
    sizes = (1, *x.shape[1:])
    given = [x, *starts(w, i, x)]
    rest = f", sizes = {text.brackets(sizes)}"
    row = w.short("dynamic_slice", given, Type(sizes, x.dtype), rest)
    return w.reshape(row, x.shape[1:])


def write_row(w, x, i, row):
    row = w.reshape(row, (1, *row.shape))
    return w.short("dynamic_update_slice", [x, row, *starts(w, i, x)], x.type)


def write_scan(w, eqn, *operands):
    """A `while` that counts, reads a row of each x, and writes one of each y."""
    loop = Loop(**eqn.params)
    steps, consts, carry, xs = map(flat, loop.split(operands))
    n = steps[0] if steps else w.constant(loop.length, I32)
    given = [x.type for x in consts + carry] + [Type(x.shape[1:], x.dtype) for x in xs]
    name, results = w.jaxpr_function(loop.jaxpr, given)
    ys = results[len(carry) :]
    if steps and (xs or ys):
        raise Unsayable(GROWING)
    ys = [w.full(Type((loop.length, *y.shape), y.dtype), 0) for y in ys]
    if loop.length == 0:
        return carry + ys

    def test(i, *_):
        return w.compare("LT", i, n)

    def body(i, *args):
        carry_now, ys_now = split(args, len(carry))
        one, place = w.constant(1, I32), i
        if loop.reverse:
            place = w.same("subtract", w.same("subtract", n, one), i)
        rows = [read_row(w, x, place) for x in xs]
        outs = w.call(name, consts + carry_now + rows, results)
        carry_now, rows = split(outs, len(carry))
        pairs = zip(ys_now, rows, strict=True)
        ys_now = [write_row(w, y, place, row) for y, row in pairs]
        return [w.same("add", i, one), *carry_now, *ys_now]

    return write_loop(w, test, body, [w.constant(0, I32), *carry, *ys])[1:]


program_rules |= {named["while"]: write_while, named["scan"]: write_scan}


# ---- residuals of branches: unions, and scans of them


def zeros(w, avals):
    return [w.full(t, 0) for a in avals for t in leaf_types(a)]


def write_inject(w, eqn, *values):
    cases, k = eqn.params["aval"].cases, eqn.params["case"]
    return flat(flat(values) if i == k else zeros(w, c) for i, c in enumerate(cases))


def case_of(union, k, values):
    """The arrays of case k among those of a union."""
    sizes = [sum(map(leaf_count, case)) for case in union.cases]
    return split(values, *sizes)[k]


def write_project(w, eqn, values):
    return case_of(eqn.invars[0].aval, eqn.params["case"], values)


def write_every_case(w, eqn, *unions):
    aval = eqn.invars[0].aval
    return flat(case_of(aval, k, values) for k, values in enumerate(unions))


def write_add_any(w, eqn, xs, ys):
    return [w.same("add", x, y) for x, y in zip(xs, ys, strict=True)]


def leaf_depths(aval):
    """For each array how many axes of steps come before the axes that the value has."""
    if isinstance(aval, Tape):
        return [1 + depth for depth in leaf_depths(aval.element)]
    if isinstance(aval, Union):
        return [d for case in aval.cases for a in case for d in leaf_depths(a)]
    return [0]


def each_leaf(function):
    """A rule that works on each array: function(w, depth, *arrays, **params)."""

    def rule(w, eqn, *operands):
        depths = leaf_depths(eqn.outvars[0].aval)
        columns = zip(depths, *operands, strict=True)
        return [function(w, *column, **eqn.params) for column in columns]

    return rule


def spread_leaf(w, depth, x, *, size, axis):
    axis += depth
    shape = (*x.shape[:axis], size, *x.shape[axis:])
    return w.broadcast(x, shape, [i for i in range(len(shape)) if i != axis])


def sum_leaf(w, depth, x, *, axis):
    axis += depth
    out = Type((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)
    return reduction(by_loop["add"])(w, out, x, axes=[axis])


def write_select_lanes(w, eqn, pred, on_true, on_false):
    def chosen(depth, x, y):
        axes = range(depth, depth + len(pred[0].shape))
        return w.select(w.broadcast(pred[0], x.shape, axes), x, y)

    columns = zip(leaf_depths(eqn.outvars[0].aval), on_true, on_false, strict=True)
    return [chosen(*column) for column in columns]


program_rules |= {
    named["inject"]: write_inject,
    named["project"]: write_project,
    named["every_case"]: write_every_case,
    named["add_any"]: write_add_any,
    named["copy"]: lambda w, eqn, values: values,
    named["zero"]: lambda w, eqn: zeros(w, [eqn.params["aval"]]),
    named["spread_lanes"]: each_leaf(spread_leaf),
    named["sum_lanes"]: each_leaf(sum_leaf),
    named["select_lanes"]: write_select_lanes,
}


def module_text(closed, name):
    """The text of a module whose function @main is a closed jaxpr."""
    w, closed = Writer(), in_storage(closed)
    debug = closed.jaxpr.debug
    types = [type_of(a) for a in closed.in_avals]
    body = lambda *args: w.inline(closed, [*args])
    w.function("main", types, body, debug.arg_names, "public")
    return w.text(text.name_of(name, "module", 0))
