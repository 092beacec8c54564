"""Lists in pieces, and jaxprs out of functions: what branches and loops are built with.

    consts, carry, xs = split(args, num_consts, num_carry)
    closed = jaxpr_of(lambda x, y: [x + y], [aval, aval], "body")
    jaxpr, captured, tree = record(fun, avals, in_tree, "scan")     # a user's function
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from ..trace.arguments import TraceInfo, function_name, function_source
from ..trace.array import ArrayImpl, ShapedArray
from ..trace.base.config import config
from ..trace.base.errors import user_source
from ..trace.core import current_trace
from ..trace.jaxprs.jaxpr import ClosedJaxpr, JaxprTrace, Literal, trace_to_jaxpr
from ..trace.jaxprs.memory import memoised
from ..trace.jit.captures import find_captures, reaches
from ..trace.jit.jit import jit, jit_p, trace_is_over, where_known
from ..trace.jit.refs import ThreadedFunction
from ..trace.jit.stores import Recent, Table
from ..trace.types import Args, Result, Traced
from .closed_jaxprs import apply_closed, trace_closed
from .flat_functions import FlatFunction

int32 = np.dtype("int32")
index_aval = ShapedArray((), int32)


def split(values, *sizes):
    """Cut a list into pieces of the given sizes, and the rest: -> list of lists."""
    values, pieces = list(values), []
    for n in sizes:
        pieces.append(values[:n])
        values = values[n:]
    return [*pieces, values]


def mask_of(values):
    """One bool a value: whether it is not None."""
    return tuple(x is not None for x in values)


def none_of(n):
    return (False,) * n


def jaxpr_of(f, avals, name):
    """Record a function of flat values that captures nothing."""
    return trace_closed(f, avals, TraceInfo(name, name))


def record(fun, avals, tree, kind, user=None, written=None):
    """Record a user's function of trees, which may capture values.

    Args:
      avals, tree: the types and the structure of its arguments.
      user: the function whose name and line errors tell, if it is another one.
      written: a list to which the refs of outside that it writes are added, or None if
        it must not write any.  The jaxpr's last arguments and results are their values.

    Returns:
      (jaxpr, with what it captured as constvars; the captured values; the structure of
      its result)
    """
    known = Recording(fun, kind, avals, tree, written)
    if known.found:
        return known.again()
    flat = FlatFunction(fun, tree)
    user = fun if user is None else user
    about = kind, function_source(user), (), known.arrays
    given = list(avals), TraceInfo(function_name(user), *about)
    if written is None:
        recorded = *checked(flat, *given), flat.out_tree
    else:
        threaded = ThreadedFunction(flat, written)
        jaxpr, captured = checked(threaded, *given)
        recorded = *threaded.close_over(jaxpr, captured), flat.out_tree
    if not written:
        known.keep(*recorded)
    return recorded


def checked(function, avals, info):
    """`trace_to_jaxpr`; what looks at a trace that is over looks at this one."""
    traces = []

    def seen(*args):
        traces.append(current_trace())
        return function(*args)

    recorded = trace_to_jaxpr(seen, avals, info)
    trace_is_over(traces[0])
    return recorded


def recording_trace(trace):
    """The innermost trace that records, from one on, or None: what is outside jit."""
    while trace is not None and not isinstance(trace, JaxprTrace):
        trace = trace.parent
    return trace


class Recording:
    """What was recorded of a function, if it reads what it read before.

    A function is known as `jit` knows it, by its code and what it captures; one that
    reads what can change unseen is recorded at each call.  Of captured arrays nothing
    is kept but where the function has them; in a program, which has them as literals,
    a function that captures any is recorded at each call too.

    Attributes:
      arrays: the ids of captured arrays.  Without axes they are arguments of the loop,
        which runs at once, and no literals: the same program serves for others.
      key: of a call that can be known, or None.
      found: (jaxpr, places of the captured values, structure of the result), or None.
    """

    def __init__(self, fun, kind, avals, tree, written):
        self.key = self.found = None
        around = recording_trace(current_trace())
        self.arrays = around.info.arrays_stay if around else ()
        if type(fun) is not FunctionType:
            return
        captures = find_captures(fun)
        self.owners = captures.owners
        arrays = {id(x) for x in self.owners if type(x) is ArrayImpl}
        if around is None:
            self.arrays = arrays
        elif arrays:
            return
        if captures.mutable is not None or captures.tracers:
            return
        of_call = kind, tuple(avals), tree, written is None, user_source()
        self.key = captures.key, *of_call, config.trace_key()
        try:
            self.found = recordings.find(self.key)
        except TypeError:  # An aval that has no hash.
            self.key = None

    def again(self):
        """What `record` returned, with the values that are captured now."""
        jaxpr, places, out_tree = self.found
        return jaxpr, tuple(self.owners[i] for i in places), out_tree

    def keep(self, jaxpr, captured, out_tree):
        """Remember what was recorded; around arrays, if it was recorded before."""
        if self.key is None:
            return
        # Most that capture arrays are not made again: the arrays are others each time.
        if self.arrays and (number := hash(self.key)) not in recorded_once:
            recorded_once[number] = None
            if len(recorded_once) > 4096:
                recorded_once.clear()
            return
        where = {id(value): i for i, value in enumerate(self.owners)}
        places = [where.get(id(x)) for x in captured]
        if None not in places and not reaches([jaxpr, out_tree], self.owners):
            recordings.store(self.key, (jaxpr, places, out_tree), self.owners)


recordings = Recent(limit=256)
recorded_once = Table()


def close_over(jaxpr, before=(), after=()):
    """A jaxpr whose captured values are inputs, among those of its neighbours."""
    invars = (*before, *jaxpr.constvars, *after, *jaxpr.invars)
    return ClosedJaxpr(jaxpr.replace(constvars=(), invars=invars))


# Without neighbours: of a body that was recorded before, what was made of it serves.
close_alone = memoised(close_over)


def reorder(closed, invars=None, outvars=None):
    """A closed jaxpr with its inputs and results in another order."""
    jaxpr = closed.jaxpr
    invars = jaxpr.invars if invars is None else tuple(invars)
    outvars = jaxpr.outvars if outvars is None else tuple(outvars)
    return ClosedJaxpr(jaxpr.replace(invars=invars, outvars=outvars), closed.consts)


# ---- bodies that were recorded before

# What a body says -> the body of the first loop or branch that said it.
bodies = Recent(limit=256)


def interned(closed):
    """The jaxpr that says the same and was recorded first, or this one.

    A loop outside jit records its body at each call, for what Python reads there may
    have changed.  If the body says what it said before, of the same lines, all that was
    made of that one serves again: derivatives, batched versions, compiled programs.
    """
    try:
        key = text_key(closed), config.trace_key()
        found = bodies.find(key)
    except TypeError:  # A param that has no hash.
        return closed
    if found is None and not reaches([closed], ()):
        # What holds a function of the user's is not kept: it has an owner.
        bodies.store(key, closed)
    return found or closed


class Said(tuple):
    """A long key, whose hash is computed once: it is looked up at each call."""

    def __hash__(self):
        known = vars(self)
        if "hash" not in known:
            known["hash"] = super().__hash__()
        return known["hash"]


@memoised
def text_key(closed):
    """A key of what a closed jaxpr says; captured arrays count by which they are."""
    if closed.consts:
        return closed
    jaxpr, numbers = closed.jaxpr, {}

    def atom(x):
        if isinstance(x, Literal):
            return x.aval, x.val.tobytes()
        return numbers.setdefault(x, len(numbers)), x.aval

    eqns = [
        (
            *(e.primitive, *map(atom, e.invars), None, *map(atom, e.outvars)),
            *(e.source, e.source and e.source.made, param_key(e.params)),
        )
        for e in jaxpr.eqns
    ]
    ends = [tuple(map(atom, v)) for v in (jaxpr.invars, jaxpr.outvars)]
    return Said((jaxpr.debug, *ends, *eqns))


def param_key(value):
    """A key of a param: 0.0, -0.0, 0 and False are four."""
    if isinstance(value, (tuple, list)):
        return type(value), *map(param_key, value)
    if isinstance(value, dict):
        return tuple((k, param_key(v)) for k, v in value.items())
    if isinstance(value, ClosedJaxpr):
        return text_key(value)
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    return type(value), value


# ---- what runs where values are known


@memoised
def program(body, primitive, params, rule):
    """An equation with this body as one compiled program: a function of its operands.

    It is compiled as a jitted function is, and a row of `loop_traces` says on what it
    depends, and why it was.  That costs about what compiling its body costs, which a
    loop of few steps needs as well.

    Args:
      params: of the equation, as pairs.
      rule: what runs, instead, where nothing is compiled.
    """
    bind = binding(partial(primitive.bind, **dict(params)))
    bind.__name__ = body.jaxpr.debug.name if body.jaxpr.debug else primitive.name
    source = user_source()
    at = f"{os.path.basename(source.file)}:{source.line}" if source else "?"
    bind.__qualname__ = f"{heading(body, primitive)} at {at}"
    return where_known(bind, partial(rule, **dict(params)))


def binding(bind):
    """A Python function of an equation's operands: `jit` knows those by their code."""
    return lambda *x: bind(*x)


# `lax.scan.traces`, of all equations that were compiled by themselves.  Functions of
# one code have one list, so this one is that of all `binding` makes.
loop_traces = jit(binding(None)).traces


def with_loop_traces(function: Callable[Args, Result]) -> Traced[Args, Result]:
    """`function`, whose `traces` say what was compiled outside jit."""
    traced: Any = function
    traced.traces = loop_traces
    return traced


def heading(body, primitive):
    """What a program is called in its row: `scan step`, `fori_loop with step`."""
    debug = body.jaxpr.debug
    name, kind = (debug.name, debug.kind.partition(" ")[0]) if debug else ("", "")
    if kind == "eager":  # A public function.
        return name
    name = name.removeprefix("of ") if "loop" in name else f"{primitive} {name}"
    # A derivative says by what it was made.
    return name if kind in ("", "scan", "while_loop") else f"{kind} {name}"


def by_equation(*operands, name, jaxpr):
    """A call that is not compiled."""
    return apply_closed(jaxpr, *operands)


def compiled(closed):
    """A branch or a body made to run, once: compiled if what is around it is."""
    return program(closed, jit_p, (("name", "body"), ("jaxpr", closed)), by_equation)


# primitive -> its rule where nothing is compiled, or no compiler takes it as a whole.
by_step: dict = {}


def as_whole(primitive, rule):
    """The row of a loop in `eval_rules`: a program; by `rule` it runs step by step."""
    by_step[primitive] = rule

    def evaluate(*args, **params):
        # A `while` that is recomputed has `stack` before its jaxprs.
        body = next(x for x in params.values() if isinstance(x, ClosedJaxpr))
        return program(body, primitive, tuple(params.items()), rule)(*args)

    return {primitive: evaluate}


def wrap_like(value, dtype=None):
    """An array of a NumPy value, whose dtype may stand for another one."""
    value = np.asarray(value, order="C")
    return ArrayImpl(value, ShapedArray(value.shape, dtype or value.dtype))


def agreed(masks):
    """Whether any branch has something at a position: one bool a position."""
    return tuple(map(any, zip(*masks, strict=True)))
