"""Control flow in traced programs: `cond`, `switch`, `while_loop`, `scan`, and more.

    cond(x > 0, lambda x: x, lambda x: -x, x)
    while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, f(c[1])), (0, x))
    scan(lambda carry, x: (carry + x, carry), init, xs)

Python's own `if` and `while` decide while a function is traced; these decide while it
runs.  Each is one equation whose params hold the branches or the body as jaxprs.

Their gradients cost what was run.  The forward pass of a `cond` returns a `Union` with
the residuals of the branch that ran; the forward pass of a `while_loop` returns a
`Tape` of the residuals of each step, and how many there were; the linear side is then
a `scan` of as many steps.  What a loop does not change is a residual once.
"""

from dataclasses import dataclass
from functools import partial, update_wrapper

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.array import (
    ArrayImpl,
    ShapedArray,
    aval_of,
    eval_rules,
    shape_rules,
    to_numpy,
)
from ..trace.config import config
from ..trace.core import Primitive, Tracer, current_trace
from ..trace.errors import at_line, user_source
from ..trace.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    Literal,
    TraceInfo,
    Var,
    dce,
    function_name,
    function_source,
    memoised,
    trace_to_jaxpr,
)
from ..trace.jit import PlainTrace, compiled_call
from ..trace.pytree import tree_flatten, tree_map, tree_unflatten
from ..trace.tree_paths import tree_flatten_with_path
from ..trace.tree_keys import keystr
from .linearize import add_tangents, joint_rules, linearize_jaxpr, linearize_rules
from .joint_calls import jvp_jaxpr
from .tangents import tangent_aval, zeros
from .flat_functions import FlatFunction
from .closed_jaxprs import apply_closed, drop_dead, fill, present, trace_closed
from .tape import Tape, TapeValue, Union, inject, project
from .transpose import is_linear, transpose_jaxpr, transpose_rules

cond_p = Primitive("cond", multiple_results=True)
scan_p = Primitive("scan", multiple_results=True)
while_p = Primitive("while", multiple_results=True)
int32 = np.dtype("int32")
index_aval = ShapedArray((), int32)
# How many steps a loop may take of which something is kept for each: they are counted
# in an int32.
MOST_STEPS = 2**31 - 1


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


def reorder(closed, invars=None, outvars=None):
    """A closed jaxpr with its inputs and results in another order."""
    jaxpr = closed.jaxpr
    invars = jaxpr.invars if invars is None else tuple(invars)
    outvars = jaxpr.outvars if outvars is None else tuple(outvars)
    return ClosedJaxpr(jaxpr.replace(invars=invars, outvars=outvars), closed.consts)


# ---- cond: branches[index](*operands)


def cond_shape(index, *operands, branches):
    return branches[0].out_avals


def cond_eval(index, *operands, branches):
    return compiled(branches[int(index)])(*operands)


def compiled(closed):
    """A branch or a body made to run, once: compiled if what is around it is."""
    debug = closed.jaxpr.debug
    is_plain = isinstance(current_trace(), PlainTrace)
    name = debug.name if debug else "body"
    return compiled_call(closed, name, "eval" if is_plain else "default")


shape_rules |= {cond_p: cond_shape}
eval_rules |= {cond_p: cond_eval}


@dataclass(frozen=True, eq=False)
class LinearBranches:
    """The branches of a cond, linearized together.

    Attributes:
      forward: the branches, each of which also returns its residuals as a Union.
      linear: from that Union (if `has_union`), the operands `inputs` and the nonzero
        tangents, to the nonzero result tangents.
    """

    forward: tuple
    linear: tuple
    inputs: tuple
    nonzero_out: tuple
    has_union: bool


@memoised
def linearize_branches(first, others, nonzero):
    """Linearize the branches of a cond: -> `LinearBranches`.

    An operand that a linear branch needs is passed to it, and never put in the Union.
    """
    branches = (first, *others)
    n = len(first.out_avals)
    masks = [linearize_jaxpr(b, nonzero, none_of(n)).nonzero_out for b in branches]
    nonzero_out = tuple(map(any, zip(*masks, strict=True)))
    parts = [linearize_jaxpr(b, nonzero, nonzero_out) for b in branches]
    cases = tuple(tuple(p.forward.out_avals[n:]) for p in parts)
    union = Union(cases) if any(cases) else None
    wanted = {i for p in parts for kind, i in p.sources if kind == "in"}
    inputs = tuple(sorted(wanted))
    tangents = [
        tangent_aval(a) for a, m in zip(first.in_avals, nonzero, strict=True) if m
    ]
    forward, linear = [], []
    for k, part in enumerate(parts):
        run = partial(forward_branch, part, n, k, union)
        forward.append(jaxpr_of(run, first.in_avals, "branch"))
        avals = [union] * (union is not None)
        avals += [first.in_avals[i] for i in inputs] + tangents
        run = partial(linear_branch, part, k, union, inputs)
        linear.append(jaxpr_of(run, avals, "branch"))
    return LinearBranches(
        tuple(forward), tuple(linear), inputs, nonzero_out, union is not None
    )


def forward_branch(part, n, k, union, *operands):
    """A branch that also returns its residuals."""
    outs = apply_closed(part.forward, *operands)
    return outs[:n] + ([inject(k, union, outs[n:])] if union is not None else [])


def linear_branch(part, k, union, inputs, *args):
    """The linear side of a branch, which opens the Union for its residuals."""
    unions, operands, tangents = split(args, union is not None, len(inputs))
    kept = project(k, unions[0]) if unions and union.cases[k] else []
    residuals = [
        operands[inputs.index(i)] if kind == "in" else kept[i]
        for kind, i in part.sources
    ]
    return apply_closed(part.linear, *residuals, *tangents)


def cond_linearize(nonzero, index, *operands, branches):
    parts = linearize_branches(branches[0], branches[1:], nonzero[1:])
    n = len(branches[0].out_avals)
    outs = cond_p.bind(index, *operands, branches=parts.forward)
    kept = outs[n:] + [operands[i] for i in parts.inputs]

    def linear(_, *tangents):
        given = kept + present(tangents)
        out = cond_p.bind(index, *given, branches=parts.linear)
        return fill(parts.nonzero_out, out)

    return outs[:n], linear


def cond_transpose(cts, accs, index, *args, branches):
    """The transpose of a cond is a cond of the branches' transposes."""
    linear = tuple(map(is_linear, args))
    masks = linear, mask_of(cts), mask_of(accs[1:])
    first = [transpose_jaxpr(b, *masks, none_of(len(args)))[1] for b in branches]
    nonzero = tuple(map(any, zip(*first, strict=True)))
    transposed = tuple(transpose_jaxpr(b, *masks, nonzero)[0] for b in branches)
    known = [x for x in args if not is_linear(x)]
    given = known + present(cts) + present(accs)
    return [None, *fill(nonzero, cond_p.bind(index, *given, branches=transposed))]


def wrap_like(value, dtype=None):
    """An array of a NumPy value, whose dtype may stand for another one."""
    value = np.asarray(value, order="C")
    return ArrayImpl(value, ShapedArray(value.shape, dtype or value.dtype))


linearize_rules |= {cond_p: cond_linearize}
transpose_rules |= {cond_p: cond_transpose}


# ---- scan: carry, y = body(consts, carry, x) for each x, or for each step of a count
#
# Operands: the trip count if `length` is None, consts, carry, xs.  An x, and a stacked
# y, is an array with the steps on its first axis, or a Tape.


def stacked(aval, length):
    """The type of a value a step: an array if the number of steps is known."""
    if length is not None and isinstance(aval, ShapedArray):
        return aval.update(shape=(length, *aval.shape))
    return Tape(aval)


def scan_shape(*avals, jaxpr, length, num_carry, **params):
    outs = jaxpr.out_avals
    return outs[:num_carry] + [stacked(a, length) for a in outs[num_carry:]]


def scan_eval(*args, jaxpr, length, reverse, num_consts, num_carry, **params):
    steps, args = (length, args) if length is not None else (int(args[0]), args[1:])
    consts, carry, xs = split(args, num_consts, num_carry)
    for x in xs:
        if isinstance(x, TapeValue) and x.items is not None and len(x) < steps:
            raise AssertionError(f"a tape of {len(x)} items in a loop of {steps} steps")
    body, xs, ys = compiled(jaxpr), list(map(item, xs)), []
    for i in reversed(range(steps)) if reverse else range(steps):
        outs = body(*consts, *carry, *[x[i] for x in xs])
        carry = outs[:num_carry]
        ys.append(outs[num_carry:])
    ys = ys[::-1] if reverse else ys
    avals = jaxpr.out_avals[num_carry:]
    return [*carry, *[pack(a, [y[k] for y in ys], length) for k, a in enumerate(avals)]]


def item(x):
    """A stacked argument as something to index with a step."""
    return x if isinstance(x, TapeValue) else np_rows(x)


def np_rows(x):
    dtype = aval_of(x).dtype
    return [wrap_like(row, dtype) for row in to_numpy(x).copy()]


def pack(aval, items, length):
    """The values of all steps as an array, or on a Tape."""
    kind = stacked(aval, length)
    if isinstance(kind, Tape):
        return TapeValue(kind, items)
    if not items:
        return ArrayImpl(np.zeros(kind.shape, dtypes.storage_of(kind.dtype)), kind)
    return ArrayImpl(np.stack([to_numpy(x) for x in items]), kind)


shape_rules |= {scan_p: scan_shape}
eval_rules |= {scan_p: scan_eval}


@dataclass(frozen=True, eq=False)
class LinearLoop:
    """The body of a loop, linearized.

    Attributes:
      nonzero_carry: one bool a carry: whether it has a tangent, in any step.
      nonzero_out: one bool a result of the body.
      forward: the body, which also returns the residuals of a step.
      hoisted: consts -> the residuals that depend on nothing else: computed once.
      places: for each residual ("const" | "hoisted" | "xs" | "step", position).
      linear: the linear body: residuals that are the same in every step, tangents of
        consts; tangents of the carry; residuals of a step, tangents of xs.
    """

    nonzero_carry: tuple
    nonzero_out: tuple
    forward: ClosedJaxpr
    hoisted: ClosedJaxpr
    places: tuple
    linear: ClosedJaxpr


def fixpoint(step, mask):
    """Repeat `mask = mask or step(mask)` until it stays."""
    while True:
        new = tuple(a or b for a, b in zip(mask, step(mask), strict=True))
        if new == mask:
            return mask
        mask = new


@memoised
def linearize_body(body, nonzero, num_consts, num_carry):
    """Linearize the body of a loop: -> `LinearLoop`.

    `nonzero` says which consts, initial carries and xs have tangents.
    """
    consts, carry, xs = map(tuple, split(nonzero, num_consts, num_carry))
    rest = none_of(len(body.out_avals) - num_carry)

    def step(mask):
        part = linearize_jaxpr(body, consts + mask + xs, mask + rest)
        return part.nonzero_out[:num_carry]

    carry = fixpoint(step, carry)
    part = linearize_jaxpr(body, consts + carry + xs, carry + rest)
    n = len(body.out_avals)
    forward = part.forward.jaxpr
    places, hoisted, per_step = place_residuals(part, n, num_consts, num_carry)
    consts_only = Jaxpr(
        forward.constvars, forward.invars[:num_consts], forward.eqns, tuple(hoisted)
    )
    # What the steps share is computed before the loop; what they print, they print.
    once = dce(consts_only, effects=False)
    return LinearLoop(
        carry,
        part.nonzero_out,
        drop_dead(reorder(part.forward, outvars=(*forward.outvars[:n], *per_step))),
        drop_dead(ClosedJaxpr(once, consts_of(part.forward, once))),
        places,
        order_linear_body(part.linear, places, consts, carry),
    )


def place_residuals(part, n, num_consts, num_carry):
    """Where the linear loop finds each residual of a step.

    Returns:
      (places, the residuals to compute once, the residuals that every step returns).
    """
    forward, places = part.forward.jaxpr, []
    new = forward.outvars[n:]
    unchanging = loop_constants(forward, num_consts)
    hoisted = [v for v in new if v in unchanging]
    per_step = [v for v in new if v not in unchanging]
    for kind, i in part.sources:
        if kind == "new":
            name, kept = "step", per_step
            if new[i] in unchanging:
                name, kept = "hoisted", hoisted
            places.append((name, kept.index(new[i])))
        elif i < num_consts:
            places.append(("const", i))
        elif i >= num_consts + num_carry:
            places.append(("xs", i - num_consts - num_carry))
        else:
            # The carry that a step began with is lost unless the step returns it.
            if forward.invars[i] not in per_step:
                per_step.append(forward.invars[i])
            places.append(("step", per_step.index(forward.invars[i])))
    return tuple(places), hoisted, per_step


def consts_of(closed, jaxpr):
    """The values of the constvars that are left in a part of a jaxpr."""
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return tuple(values[v] for v in jaxpr.constvars)


def loop_constants(jaxpr, num_consts):
    """The variables of a body that depend on its consts only."""
    known = {*jaxpr.constvars, *jaxpr.invars[:num_consts]}
    for eqn in jaxpr.eqns:
        if all(isinstance(v, Literal) or v in known for v in eqn.invars):
            known.update(eqn.outvars)
    return known


def order_linear_body(linear, places, consts, carry):
    """Residuals that every step shares first, then tangents, then those of a step."""
    residuals = linear.jaxpr.invars[: len(places)]
    tangents = linear.jaxpr.invars[len(places) :]
    of_consts, of_carry, of_xs = split(tangents, sum(consts), sum(carry))
    shared = [v for v, (k, _) in zip(residuals, places, strict=True) if k in SHARED]
    pairs = zip(residuals, places, strict=True)
    stepwise = [v for v, (k, _) in pairs if k not in SHARED]
    return reorder(linear, [*shared, *of_consts, *of_carry, *stepwise, *of_xs])


SHARED = ("const", "hoisted")


def loop_tangents(parts, steps, length, reverse, consts, xs, carry, kept):
    """The linear side of a loop: a scan of as many steps, its residuals on Tapes.

    Args:
      parts: a `LinearLoop`.
      steps: [] or [the trip count]; length: the static one, or None.
      kept: what the forward loop stacked: the residuals of each step.

    Returns:
      A function from tangents of consts, carry and xs to those of the results.
    """
    num_consts, num_carry = len(consts), len(carry)
    hoisted = apply_closed(parts.hoisted, *consts) if parts.hoisted.out_avals else []
    where = {"const": consts, "hoisted": hoisted, "xs": xs, "step": kept}
    shared = [where[k][i] for k, i in parts.places if k in SHARED]
    stepwise = [where[k][i] for k, i in parts.places if k not in SHARED]

    def linear(*tangents):
        of_consts, of_carry, of_xs = split(tangents, num_consts, num_carry)
        of_carry = instantiate_carry(carry, of_carry, parts.nonzero_carry)
        constants = shared + present(of_consts)
        inits = present(of_carry)
        outs = scan_p.bind(
            *steps,
            *constants,
            *inits,
            *stepwise,
            *present(of_xs),
            jaxpr=parts.linear,
            length=length,
            reverse=reverse,
            num_consts=len(constants),
            num_carry=len(inits),
            unroll=1,
        )
        return fill(parts.nonzero_out, outs)

    return linear


def scan_linearize(
    nonzero, *args, jaxpr, length, reverse, num_consts, num_carry, unroll
):
    steps, args = split(args, length is None)
    nonzero = tuple(nonzero[len(steps) :])
    parts = linearize_body(jaxpr, nonzero, num_consts, num_carry)
    consts, carry, xs = split(args, num_consts, num_carry)
    n = len(jaxpr.out_avals)
    params = dict(length=length, reverse=reverse, unroll=unroll)
    params |= dict(num_consts=num_consts, num_carry=num_carry)
    outs = scan_p.bind(*steps, *args, jaxpr=parts.forward, **params)
    linear = loop_tangents(
        parts, steps, length, reverse, consts, xs, carry, outs[n:]
    )
    return outs[:n], lambda *tangents: linear(*tangents[len(steps) :])


def instantiate_carry(carry, tangents, mask):
    """The initial tangents of a carry that has one in some step."""
    return [
        zeros(tangent_aval(aval_of(x))) if m and t is None else t
        for x, t, m in zip(carry, tangents, mask, strict=True)
    ]


@memoised
def transpose_body(body, num_consts, num_carry, linear_consts, linear_xs, nonzero_ys):
    """The transposed body of a linear scan.

    From: known consts; sums for the linear consts, cotangents of the carry; known xs,
    nonzero cotangents of ys.  To: the sums, cotangents of the carry; of linear xs.
    """
    linear = linear_consts + (True,) * num_carry + linear_xs
    nonzero_cts = (True,) * num_carry + nonzero_ys
    sums = linear_consts + none_of(num_carry + len(linear_xs))
    every = (True,) * len(linear)
    closed, _ = transpose_jaxpr(body, linear, nonzero_cts, sums, every)
    n_consts, n_xs = linear_consts.count(False), linear_xs.count(False)
    consts, xs, cts, ys, accs = split(
        closed.jaxpr.invars, n_consts, n_xs, num_carry, sum(nonzero_ys)
    )
    return reorder(closed, [*consts, *accs, *cts, *xs, *ys])


def scan_transpose(
    cts, accs, *args, jaxpr, length, reverse, num_consts, num_carry, unroll
):
    """A linear scan backwards.  Cotangents of consts are summed in the carry, into
    what there was before the loop: one sum for all steps and levels."""
    steps, args = split(args, length is None)
    accs = accs[len(steps) :]
    consts, carry, xs = split(args, num_consts, num_carry)
    const_accs, carry_accs, x_accs = split(accs, num_consts, num_carry)
    # A carry of a linear loop is linear even where it starts as a zero.
    carry_avals = jaxpr.in_avals[num_consts : num_consts + num_carry]
    ct_carry, ct_ys = split(cts, num_carry)
    ct_carry = [
        zeros(a) if c is None else c for c, a in zip(ct_carry, carry_avals, strict=True)
    ]
    linear_consts, linear_xs = (tuple(map(is_linear, v)) for v in (consts, xs))
    masks = linear_consts, linear_xs, mask_of(ct_ys)
    body = transpose_body(jaxpr, num_consts, num_carry, *masks)
    sums = [
        zeros(x.aval) if a is None else a
        for x, a in zip(consts, const_accs, strict=True)
        if is_linear(x)
    ]
    known = [x for x in consts if not is_linear(x)]
    known_xs = [x for x in xs if not is_linear(x)]
    outs = scan_p.bind(
        *(*steps, *known, *sums, *ct_carry, *known_xs, *present(ct_ys)),
        jaxpr=body,
        length=length,
        reverse=not reverse,
        num_consts=len(known),
        num_carry=len(sums) + num_carry,
        unroll=unroll,
    )
    of_consts, of_carry, of_xs = split(outs, len(sums), num_carry)
    of_carry = map(add_tangents, carry_accs, of_carry)
    of_xs = map(add_tangents, x_accs, fill(linear_xs, of_xs))
    return [None] * len(steps) + fill(linear_consts, of_consts) + [*of_carry, *of_xs]


linearize_rules |= {scan_p: scan_linearize}
transpose_rules |= {scan_p: scan_transpose}


# ---- while: carry = body(body consts, carry) as long as cond(cond consts, carry)
#
# With `stack` the results go on with the trip count, and a Tape for each result of the
# body beyond the carry.


def while_shape(*avals, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack):
    outs = body_jaxpr.out_avals
    num_carry = len(avals) - cond_nconsts - body_nconsts
    extra = [index_aval, *map(Tape, outs[num_carry:])]
    return outs[:num_carry] + (extra if stack else [])


def while_eval(*args, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack):
    cond_consts, consts, carry = split(args, cond_nconsts, body_nconsts)
    num_carry, ys, count = len(carry), [], 0
    test, body = compiled(cond_jaxpr), compiled(body_jaxpr)
    while bool(test(*cond_consts, *carry)[0]):
        outs = body(*consts, *carry)
        carry = outs[:num_carry]
        ys.append(outs[num_carry:])
        count += 1
    if not stack:
        return carry
    if count > MOST_STEPS:
        raise OverflowError(too_many_steps())
    avals = body_jaxpr.out_avals[num_carry:]
    tapes = [TapeValue(Tape(a), [y[k] for y in ys]) for k, a in enumerate(avals)]
    return [*carry, wrap_like(np.array(count, int32)), *tapes]


def too_many_steps():
    """What an error says of a loop whose steps cannot be counted any more."""
    return (
        f"while_loop: a loop that is differentiated took more than {MOST_STEPS} steps. "
        "Instead: nest loops, each of which takes fewer."
    )


shape_rules |= {while_p: while_shape}
eval_rules |= {while_p: while_eval}


def while_linearize(
    nonzero, *args, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack
):
    """Forward: the residuals of each step on Tapes.  Linear: a scan over them."""
    cond_consts, consts, carry = split(args, cond_nconsts, body_nconsts)
    num_carry = len(carry)
    parts = linearize_body(body_jaxpr, nonzero[cond_nconsts:], body_nconsts, num_carry)
    params = dict(cond_jaxpr=cond_jaxpr, body_jaxpr=parts.forward)
    params |= dict(cond_nconsts=cond_nconsts, body_nconsts=body_nconsts, stack=True)
    outs, count, tapes = split(while_p.bind(*args, **params), num_carry, 1)
    given = len(body_jaxpr.out_avals) - num_carry
    ys, kept = tapes[:given], tapes[given:]
    run = loop_tangents(parts, count, None, False, consts, [], carry, kept)

    def linear(*tangents):
        out = run(*tangents[cond_nconsts:])
        return out[:num_carry] + ([None, *out[num_carry:]] if stack else [])

    return outs + ([*count, *ys] if stack else []), linear


linearize_rules |= {while_p: while_linearize}


# ---- the users' functions


def record(fun, args, kind):
    """Record a function of trees: -> (jaxpr with what it captured as constvars, the
    captured values, the structure of its result)."""
    leaves, tree = tree_flatten(args)
    flat = FlatFunction(fun, tree)
    info = TraceInfo(function_name(fun), kind, function_source(fun))
    avals = [x if is_aval(x) else aval_of(x) for x in leaves]
    jaxpr, captured = trace_to_jaxpr(flat, avals, info)
    return jaxpr, captured, flat.out_tree


def is_aval(x):
    return isinstance(x, (ShapedArray, Tape, Union))


def close_over(jaxpr, before, after=()):
    """A jaxpr whose captured values are inputs, among those of its neighbours."""
    invars = (*before, *jaxpr.constvars, *after, *jaxpr.invars)
    return ClosedJaxpr(jaxpr.replace(constvars=(), invars=invars))


def as_predicate(pred):
    """The index of the branch to take: 0 for false, 1 for true."""
    if callable(pred) and not hasattr(pred, "dtype"):
        raise TypeError("lax.cond: the predicate comes first, got a function")
    aval = aval_of(pred)
    if aval.shape != ():
        raise TypeError(
            f"Pred must be a scalar, got {aval} of shape {aval.shape}"
            f"{at_line(user_source())}\n  Instead: to choose element by element use "
            "`jnp.where`."
        )
    if aval.dtype.kind not in "bif" and aval.dtype.kind != "u":
        raise TypeError(f"Pred type must be either boolean or number, got {aval}.")
    if aval.dtype.kind != "b":
        pred = lax.ne(pred, lax.full_like(pred, 0))
    return lax.convert(pred, int32)


def cond(pred, true_fun, false_fun, *operands, operand=None, linear=None):
    """`true_fun(*operands)` if `pred`, else `false_fun(*operands)` (`jax.lax.cond`).

    Args:
      pred: a scalar, bool or number.
      true_fun, false_fun: functions whose results have the same structure and types.
        The form cond(pred, true_operand, true_fun, false_operand, false_fun) works too.

    Returns:
      The result.  Only the branch that is taken runs; its gradient costs what it costs.
    """
    del linear
    old_form = not callable(true_fun) and len(operands) == 2 and callable(false_fun)
    if old_form and callable(operands[1]):
        true_operand, (false_operand, other) = true_fun, operands
        on_true, on_false = false_fun, other
        branches = [lambda t, f: on_false(f), lambda t, f: on_true(t)]
        return choose(pred, branches, (true_operand, false_operand))
    if operand is not None:
        operands = (operand,)
    return choose(pred, [false_fun, true_fun], operands)


def choose(pred, branches, operands):
    """cond, its branches in a list: the false one first."""
    if config.disable_jit and not isinstance(pred, Tracer):
        return branches[bool(pred)](*operands)
    names = ("false_fun", "true_fun")
    return bind_branches(as_predicate(pred), branches, operands, names, "cond")


def bind_branches(index, branches, operands, names, kind):
    """Record the branches, make them agree, and bind cond."""
    leaves, _ = tree_flatten(operands)
    records = [record(f, operands, kind) for f in branches]
    tree = records[0][2]
    for name, (_, _, other) in zip(names[1:], records[1:], strict=True):
        if other != tree:
            raise TypeError(
                f"{kind} branches must have the same output structure: {names[0]} "
                f"returns {tree}, but {name} returns {other}{at_line(user_source())}"
            )
    columns = zip(*[jaxpr.out_avals for jaxpr, _, _ in records], strict=True)
    avals = [
        join_avals(kind, names, column, tree, i) for i, column in enumerate(columns)
    ]
    captured = [x for _, values, _ in records for x in values]
    variables = [jaxpr.constvars for jaxpr, _, _ in records]
    closed = []
    for k, (jaxpr, _, _) in enumerate(records):
        before = [Var(v.aval) for vs in variables[:k] for v in vs]
        after = [Var(v.aval) for vs in variables[k + 1 :] for v in vs]
        closed.append(with_types(close_over(jaxpr, before, after), avals))
    outs = cond_p.bind(index, *captured, *leaves, branches=tuple(closed))
    return tree_unflatten(tree, outs)


def join_avals(kind, names, column, tree, i):
    """The type of a result: one shape and dtype in all branches, or a TypeError.

    Whether it is weak the first branch says, as in JAX.
    """
    if len({a.strip_weak_type() for a in column}) == 1:
        return column[0]
    found = "; ".join(f"{n}: {a}" for n, a in zip(names, column, strict=True))
    path = leaf_path(tree, i)
    raise TypeError(
        f"{kind} branches must have equal output types, but at {path} they differ: "
        f"{found}{at_line(user_source())}\n  Instead: convert one of them, with "
        "`x.astype(...)` or `jnp.reshape`, so that all branches agree."
    )


def leaf_path(tree, i):
    """The place of the i-th leaf of a result, in words."""
    marked = tree_unflatten(tree, list(range(tree.num_leaves)))
    path = tree_flatten_with_path(marked)[0][i][0]
    return f"the result{keystr(path)}" if path else "the result"


def with_types(closed, avals):
    """A closed jaxpr whose results are converted to the given types."""
    if [a.strip_weak_type() for a in closed.out_avals] == [
        a.strip_weak_type() for a in avals
    ] and [a.weak_type for a in closed.out_avals] == [a.weak_type for a in avals]:
        return closed

    def converted(*args):
        outs = apply_closed(closed, *args)
        return [
            lax.convert(y, a.dtype, a.weak_type) if isinstance(a, ShapedArray) else y
            for y, a in zip(outs, avals, strict=True)
        ]

    return jaxpr_of(converted, closed.in_avals, "branch")


def tape_mode(slots):
    """The primitive of a loop that is reversed by a tape, and its param."""
    if slots is not None:
        raise ValueError("while_loop: only reverse='checkpoint' has slots")
    return while_p, {"stack": False}


# How a loop is reversed: slots -> (the primitive, its own params).
reverse_modes = {"tape": tape_mode}


def while_loop(cond_fun, body_fun, init_val, *, reverse="tape", slots=None):
    """Repeat `val = body_fun(val)` while `cond_fun(val)` (`jax.lax.while_loop`).

    Unlike JAX's it can be differentiated in reverse.  With `reverse` "tape" the forward
    pass keeps what the body's gradient needs of each step that was run; chapter 12 has
    another mode.  Raises TypeError if `body_fun` does not return the structure and
    types of `init_val`, or `cond_fun` no bool.
    """
    if reverse not in reverse_modes:
        known = ", ".join(map(repr, reverse_modes))
        raise ValueError(f"while_loop: reverse must be in {known}, got {reverse!r}")
    primitive, params = reverse_modes[reverse](slots)
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError("lax.while_loop: cond_fun and body_fun must be callable")
    if config.disable_jit and not any(map(is_tracer, tree_flatten(init_val)[0])):
        val = init_val
        while cond_fun(val):
            val = body_fun(val)
        return val
    init, tree = tree_flatten(init_val)
    init, jaxpr, consts = record_body(
        lambda *values: (body_fun(tree_unflatten(tree, values)),),
        init, tree, [], "while_loop body_fun", carry_only=True,
    )  # fmt: skip
    avals = jaxpr.in_avals[len(consts) :]
    flat = lambda *values: cond_fun(tree_unflatten(tree, values))
    pred, pred_consts, pred_tree = record(flat, tuple(avals), "while_loop cond_fun")
    check_predicate(pred.out_avals, pred_tree)
    outs = primitive.bind(
        *(*pred_consts, *consts, *init),
        cond_jaxpr=close_over(pred, ()),
        body_jaxpr=jaxpr,
        cond_nconsts=len(pred_consts),
        body_nconsts=len(consts),
        **params,
    )
    return tree_unflatten(tree, outs)


def check_predicate(avals, tree):
    """Complain unless a loop's test returns one bool."""
    alone = len(avals) == 1 and not tree.children()
    if not alone or avals[0].shape != () or avals[0].dtype != bool:
        raise TypeError(
            "cond_fun must return a boolean scalar, but got "
            f"{avals[0] if alone else tree}{at_line(user_source())}"
        )


def is_tracer(x):
    return isinstance(x, Tracer)


def unrolled_steps(unroll, length):
    """How many steps at a time: of `unroll`, a bool or an int."""
    if not isinstance(unroll, (bool, int, np.integer)) or unroll < 0:
        raise ValueError(
            f"scan: unroll must be a bool or a non-negative int, got {unroll!r}"
        )
    return max(length if unroll is True else int(unroll), 1)


def record_body(body, init, tree, xs_avals, kind, carry_only=False):
    """Record the body of a loop: its carry must come out as it went in.

    A weakly typed initial carry is promoted to the dtype that the body makes of it; if
    that is its own, it stays weakly typed within the body (as in JAX).

    Returns:
      (initial carry, closed jaxpr of captured values, carry, xs; captured values)
      and, unless `carry_only`, the structure of the ys.
    """
    init = list(map(lax.as_constant, init))
    closed = None
    while True:
        if closed is None:
            avals = *map(aval_of, init), *xs_avals
            jaxpr, consts, out_tree = record(body, avals, kind)
            closed = close_over(jaxpr, ())
            children = check_carry_tree(kind, tree, out_tree)
        out = closed.out_avals[: len(init)]
        promoted = [promote_carry(x, a) for x, a in zip(init, out, strict=True)]
        if all(a is b for a, b in zip(promoted, init, strict=True)):
            break
        init = promoted
        avals = map(aval_of, (*consts, *init))
        closed = with_input_types(closed, [*avals, *xs_avals])
    check_carry(kind, tree, list(map(aval_of, init)), out)
    init = [weak_like(x, a) for x, a in zip(init, out, strict=True)]
    return (init, closed, consts) + (() if carry_only else (children[1],))


def check_carry_tree(kind, tree, out_tree):
    """Complain if a carry changes its structure: -> those of all that came back."""
    children = out_tree.children()
    carry_tree = children[0] if children else out_tree
    if carry_tree != tree:
        raise TypeError(
            f"{kind} must return a carry of the structure of its input, {tree}, "
            f"but returned {carry_tree}{at_line(user_source())}"
        )
    return children


def with_input_types(closed, avals):
    """A recorded body for inputs of other dtypes, or None if it must be recorded again.

    Recording it again runs the user's function again: in a nest of loops twice for each
    level, which makes 2^n times.  So the types are changed in the jaxpr if all that
    happens to such an input is that it is converted to its new dtype.
    """
    for var, aval in zip(closed.jaxpr.invars, avals, strict=True):
        same = var.aval.dtype == aval.dtype
        if not same and not is_only_converted(closed.jaxpr, var, aval.dtype):
            return None
    return trace_closed(partial(apply_closed, closed), avals, closed.jaxpr.debug)


def is_only_converted(jaxpr, var, dtype):
    """Whether all that happens to a variable is that it is converted to a dtype."""
    users = [eqn for eqn in jaxpr.eqns if var in eqn.invars]
    return var not in jaxpr.outvars and all(
        eqn.primitive is lax.convert_element_type_p
        and eqn.params["new_dtype"] == dtype
        and not eqn.params["weak_type"]
        for eqn in users
    )


def promote_carry(x, aval):
    """A weak carry takes the dtype that the body makes of it."""
    old = aval_of(x)
    is_array = isinstance(old, ShapedArray) and isinstance(aval, ShapedArray)
    if not is_array or not old.weak_type or old.shape != aval.shape:
        return x
    if old.dtype == aval.dtype or dtypes.result_type(old, aval) != aval.dtype:
        return x
    return lax.convert(x, aval.dtype)


def weak_like(x, aval):
    """An initial carry, as weak as what the body returns: loops may take no step."""
    if isinstance(x, ArrayImpl) and x.aval.weak_type != aval.weak_type:
        return ArrayImpl(x._value, x.aval.update(weak_type=aval.weak_type))
    return x


def check_carry(kind, tree, before, after):
    """Complain unless a carry keeps its types."""
    lines = []
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        same = a.strip_weak_type() == b.strip_weak_type() if isinstance(
            a, ShapedArray) and isinstance(b, ShapedArray) else a == b  # fmt: skip
        if not same:
            where = leaf_path(tree, i).replace("the result", "the carry")
            lines.append(f"\n  * {where} goes in as {a} and comes out as {b}")
    if lines:
        raise TypeError(
            f"{kind} must return a carry of the types of its input:{''.join(lines)}"
            f"{at_line(user_source())}\n  Instead: convert the initial value or the "
            "result, with `x.astype(...)` or `jnp.zeros_like`, so that they agree."
        )


def scan(
    f, init, xs=None, length=None, reverse=False, unroll=1, _split_transpose=False
):
    """Fold `carry, y = f(carry, x)` over the first axis of xs (`jax.lax.scan`).

    Args:
      f: function of a carry and a slice of xs; returns a carry of the same structure
        and types, and a y.
      init: the initial carry, a tree of arrays.
      xs: a tree of arrays with the steps on the first axis, or None.
      length: how many steps; needed if xs is None.
      reverse: whether to go through the steps from the last to the first.
      unroll: how many steps the compiler may write out (True: all of them).

    Returns:
      (the last carry, the ys stacked along a new first axis).
    """
    del _split_transpose
    leaves, xs_tree = tree_flatten(xs)
    length = scan_length(leaves, length)
    init_leaves, tree = tree_flatten(init)
    if config.disable_jit and not any(map(is_tracer, [*leaves, *init_leaves])):
        return scan_in_python(f, init, leaves, xs_tree, length, reverse)
    x_avals = [without_steps(aval_of(x)) for x in leaves]
    n = len(init_leaves)
    # A partial that reports itself as the user's function.
    body = update_wrapper(partial(call_body, f, tree, xs_tree, n), f)
    name = f"scan body {function_name(f)}"
    carry, jaxpr, consts, ys_tree = record_body(body, init_leaves, tree, x_avals, name)
    outs = scan_p.bind(
        *(*consts, *carry, *leaves),
        jaxpr=jaxpr,
        length=length,
        reverse=bool(reverse),
        num_consts=len(consts),
        num_carry=n,
        unroll=unrolled_steps(unroll, length),
    )
    return tree_unflatten(tree, outs[:n]), tree_unflatten(ys_tree, outs[n:])


def call_body(f, tree, xs_tree, n, *values):
    """The user's body on flat values: its result must be a pair."""
    result = f(tree_unflatten(tree, values[:n]), tree_unflatten(xs_tree, values[n:]))
    if not isinstance(result, tuple) or len(result) != 2:
        where = at_line(function_source(f))
        raise TypeError(f"scan body output must be a pair, got {result!r}{where}")
    return result


def without_steps(aval):
    """The type of a stacked array in one step."""
    return aval.update(shape=aval.shape[1:])


def scan_length(leaves, length):
    """The number of steps that all arguments agree on."""
    for x in leaves:
        if aval_of(x).ndim == 0:
            raise ValueError(
                "scan got value with no leading axis to scan over: a scalar in xs"
                f"{at_line(user_source())}"
            )
    sizes = {aval_of(x).shape[0] for x in leaves}
    if length is not None:
        length = int(length)
        if sizes - {length}:
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading "
                f"axis sizes {sorted(sizes)}.{at_line(user_source())}"
            )
        return length
    if len(sizes) > 1:
        raise ValueError(
            f"scan got values with different leading axis sizes: {sorted(sizes)}"
            f"{at_line(user_source())}"
        )
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return sizes.pop()

# chapter 10, brought along
from ..trace.indexing import rev
from .batching import at_front, batch_jaxpr, batch_rules, lanes_at, move_axis, vmap
from .tape import every_case, inject_p, select_arrays, select_lanes, spread_p, zero_p


def cond_joint(primals, tangents, *, branches):
    nonzero = mask_of(tangents[1:])
    n = len(branches[0].out_avals)
    masks = [jvp_jaxpr(b, nonzero, none_of(n))[1] for b in branches]
    nonzero_out = tuple(map(any, zip(*masks, strict=True)))
    joint = tuple(jvp_jaxpr(b, nonzero, nonzero_out)[0] for b in branches)
    outs = cond_p.bind(*primals, *present(tangents[1:]), branches=joint)
    return outs[:n], fill(nonzero_out, outs[n:])


joint_rules |= {cond_p: cond_joint}


@memoised
def jvp_body(body, nonzero, num_consts, num_carry):
    """The body of a loop with its tangents: consts, carries and xs each followed by
    theirs: -> (closed jaxpr, nonzero carry, nonzero results)."""
    consts, carry, xs = map(tuple, split(nonzero, num_consts, num_carry))
    rest = none_of(len(body.out_avals) - num_carry)

    def step(mask):
        return jvp_jaxpr(body, consts + mask + xs, mask + rest)[1][:num_carry]

    carry = fixpoint(step, carry)
    joint, nonzero_out = jvp_jaxpr(body, consts + carry + xs, carry + rest)
    n, n_out = len(body.in_avals), len(body.out_avals)
    primals, tangents = joint.jaxpr.invars[:n], joint.jaxpr.invars[n:]
    c, k, x = split(primals, num_consts, num_carry)
    tc, tk, tx = split(tangents, sum(consts), sum(carry))
    outs, out_tangents = joint.jaxpr.outvars[:n_out], joint.jaxpr.outvars[n_out:]
    ok, oy = split(outs, num_carry)
    otk, oty = split(out_tangents, sum(carry))
    joint = reorder(joint, [*c, *tc, *k, *tk, *x, *tx], [*ok, *otk, *oy, *oty])
    return joint, carry, nonzero_out


def scan_joint(
    primals, tangents, *, jaxpr, length, reverse, num_consts, num_carry, unroll
):
    steps, args = split(primals, length is None)
    tangents = tangents[len(steps) :]
    nonzero = mask_of(tangents)
    joint, mask, nonzero_out = jvp_body(jaxpr, nonzero, num_consts, num_carry)
    c, k, x = split(args, num_consts, num_carry)
    tc, tk, tx = split(tangents, num_consts, num_carry)
    tc, tx = present(tc), present(tx)
    tk = present(instantiate_carry(k, tk, mask))
    outs = scan_p.bind(
        *(*steps, *c, *tc, *k, *tk, *x, *tx),
        jaxpr=joint,
        length=length,
        reverse=reverse,
        num_consts=num_consts + len(tc),
        num_carry=num_carry + len(tk),
        unroll=unroll,
    )
    n = len(jaxpr.out_avals)
    ok, otk, oy, oty = split(outs, num_carry, len(tk), n - num_carry)
    return ok + oy, fill(nonzero_out, otk + oty)


joint_rules |= {scan_p: scan_joint}


def while_joint(
    primals, tangents, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack
):
    cond_consts, consts, carry = split(primals, cond_nconsts, body_nconsts)
    _, t_consts, t_carry = split(tangents, cond_nconsts, body_nconsts)
    n = len(carry)
    nonzero = mask_of(t_consts + t_carry)
    body, mask, nonzero_out = jvp_body(body_jaxpr, nonzero, body_nconsts, n)
    t_consts = present(t_consts)
    t_carry = present(instantiate_carry(carry, t_carry, mask))
    ignored = tuple(Var(aval_of(t)) for t in t_carry)
    outs = while_p.bind(
        *(*cond_consts, *consts, *t_consts, *carry, *t_carry),
        cond_jaxpr=reorder(cond_jaxpr, cond_jaxpr.jaxpr.invars + ignored),
        body_jaxpr=body,
        cond_nconsts=cond_nconsts,
        body_nconsts=body_nconsts + len(t_consts),
        stack=stack,
    )
    extra = len(body_jaxpr.out_avals) - n
    ok, otk, count, oy, oty = split(outs, n, len(t_carry), stack, extra)
    out_tangents = fill(nonzero_out, otk + oty)
    if not stack:
        return ok, out_tangents[:n]
    return ok + count + oy, [*out_tangents[:n], None, *out_tangents[n:]]


joint_rules |= {while_p: while_joint}


def switch(index, branches, *operands, operand=None):
    """`branches[index](*operands)`, the index clamped to the list (as in JAX)."""
    if not branches:
        raise ValueError("Empty branch sequence")
    if operand is not None:
        operands = (operand,)
    aval = aval_of(index)
    if aval.shape != () or aval.dtype.kind not in "iu":
        raise TypeError(f"Index type must be an integer scalar, got {aval}.")
    if config.disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    if len(branches) == 1:
        return branches[0](*operands)
    # The index is clamped as what it is: as an int32 a larger one would wrap around.
    kind = aval.dtype if aval.dtype.itemsize >= 4 else int32
    index, last = lax.convert(index, kind), lax.full((), len(branches) - 1, kind)
    index = lax.max(lax.min(index, last), lax.full((), 0, kind))
    index = lax.convert(index, int32)
    names = [f"branch {i}" for i in range(len(branches))]
    return bind_branches(index, branches, operands, names, "switch")


def fori_loop(lower, upper, body_fun, init_val, *, unroll=None):
    """`for i in range(lower, upper): val = body_fun(i, val)` (`jax.lax.fori_loop`).

    Bounds that are Python ints make a scan; traced bounds a loop with a traced count.
    Both can be differentiated.  With static bounds `unroll` is that of `scan`.
    """
    dtype = bounds_dtype(lower, upper)

    def step(i, val):
        one = lax.convert(1, aval_of(i).dtype, weak_type=True)
        return lax.add(i, one), body_fun(i, val)

    if not isinstance(lower, Tracer) and not isinstance(upper, Tracer):
        lower, upper = int(lower), int(upper)
        if config.disable_jit:
            val = init_val
            for i in range(lower, upper):
                val = body_fun(lax.as_constant(i), val)
            return val
        body = lambda carry, _: (step(*carry), None)
        body.__name__ = f"of fori_loop with {function_name(body_fun)}"
        count, unroll = max(upper - lower, 0), 1 if unroll is None else unroll
        return scan(body, (lower, init_val), None, length=count, unroll=unroll)[0][1]
    if unroll is not None:
        raise ValueError(
            "fori_loop: `unroll` can only be given if the bounds are known while "
            f"tracing{at_line(user_source())}"
        )
    start, stop = (
        x if aval_of(x).dtype == dtype else lax.convert(x, dtype)
        for x in (lower, upper)
    )
    goes_on = lambda carry: lax.lt(carry[0], stop)
    return while_loop(goes_on, lambda carry: step(*carry), (start, init_val))[1]


def bounds_dtype(lower, upper):
    """The dtype that the bounds of a loop share; weak integers adapt to signed ones."""
    avals = list(map(aval_of, (lower, upper)))
    found = {a.dtype for a in avals}
    if len(found) > 1 and all(a.dtype.kind == "i" for a in avals):
        found = {a.dtype for a in avals if not a.weak_type}
    if len(found) != 1:
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{' and '.join(a.dtype.name for a in avals)}{at_line(user_source())}"
        )
    dtype, = found
    return dtype


def cond_batch(lanes, axes, index, *operands, branches):
    """A shared index: a cond of batched branches.  One index a lane: all branches that
    some lane takes, and then a choice lane by lane."""
    index_axis, *operand_axes = axes
    operand_axes = tuple(operand_axes)
    n = len(branches[0].out_avals)
    if index_axis is None:
        found = [batch_jaxpr(b, lanes, operand_axes, ("any",) * n)[1] for b in branches]
        wanted = tuple(
            None if all(a is None for a in column) else 0
            for column in zip(*found, strict=True)
        )
        batched = [batch_jaxpr(b, lanes, operand_axes, wanted)[0] for b in branches]
        branches = tuple(batched)
        return cond_p.bind(index, *operands, branches=branches), wanted
    index = move_axis(index, index_axis, 0)
    columns = [
        run_in_some_lanes(lanes, k, index, operands, operand_axes, branch)
        for k, branch in enumerate(branches)
    ]
    tags = [[case_made(b, i) for b in branches] for i in range(n)]
    pairs = zip(zip(*columns, strict=True), tags, strict=True)
    outs = [choose_by_lane(index, column, made) for column, made in pairs]
    return outs, [0] * n


def run_in_some_lanes(lanes, k, index, operands, axes, branch):
    """Branch k in all lanes, if some lane takes it; lanes that do not borrow a lane's
    operands that does, so that nothing illegal is computed."""
    taken = lax.eq(index, lax.full_like(index, k))
    borrowed = [
        x if a is None else borrow(taken, lanes_at(x, a, 0, lanes.size))
        for x, a in zip(operands, axes, strict=True)
    ]
    axes = tuple(None if a is None else 0 for a in axes)
    closed, _ = batch_jaxpr(branch, lanes, axes, (0,) * len(branch.out_avals))
    idle = idle_branch(closed)
    is_taken = lax.convert(lax.reduce_or(taken, (0,)), int32)
    return cond_p.bind(is_taken, *borrowed, branches=(idle, closed))


@memoised
def idle_branch(closed):
    """A branch of the same type that computes nothing."""
    return jaxpr_of(
        lambda *args: [zeros(a) for a in closed.out_avals], closed.in_avals, "idle"
    )


def choose_by_lane(index, column, made):
    """One result a branch, each in all lanes: every lane gets that of its branch.

    Of a Union, `made` says which case each branch makes; see `case_made`.
    """
    aval = aval_of(column[0])
    if isinstance(aval, Union):
        cases = range(len(aval.cases))
        return every_case(*[choose_case(index, k, column, made) for k in cases])
    return choose_values(index, list(enumerate(column)))


def choose_values(index, numbered):
    """The values of the branch that each lane took, out of (branch, values) pairs."""
    (_, result), *others = numbered
    for k, y in others:
        result = select_lanes(lax.eq(index, lax.full_like(index, k)), y, result)
    return result


def choose_case(index, case, column, made):
    """A Union whose values for one case are right in each lane that is of that case."""
    aval = Union(aval_of(column[0]).cases)
    makers = [k for k, c in enumerate(made) if c in (case, None)]
    if len(makers) < 2:
        return column[makers[0]] if makers else zeros(aval)
    values = zip(*[project(case, column[k]) for k in makers], strict=True)
    pairs = [list(zip(makers, vs, strict=True)) for vs in values]
    return inject(case, aval, [choose_values(index, p) for p in pairs])


def case_made(closed, i):
    """Which case of a Union a branch returns as its i-th result: -1 for a zero, None
    where the branch does not say."""
    made = {v: eqn for eqn in closed.eqns for v in eqn.outvars}
    eqn = made.get(closed.jaxpr.outvars[i])
    while eqn is not None and eqn.primitive is spread_p:
        eqn = made.get(eqn.invars[0])
    if eqn is None or eqn.primitive not in (inject_p, zero_p):
        return None
    return eqn.params.get("case", -1)


borrow_p = Primitive("borrow")


def borrow(running, x):
    """x, where each lane that is not `running` has the values of the first that is.

    A lane that waits for others still computes; with a running lane's inputs it
    computes something legal, and no NaN gets into sums over lanes.
    """
    return borrow_p.bind(running, x) if isinstance(aval_of(x), ShapedArray) else x


def borrow_eval(running, x):
    aval, running, x = aval_of(x), to_numpy(running), to_numpy(x)
    if not running.size:
        return ArrayImpl(x, aval)
    first = running.argmax(-1)[..., None]
    lanes = np.where(running, np.arange(running.shape[-1]), first)
    lanes = lanes.reshape(lanes.shape + (1,) * (x.ndim - running.ndim))
    borrowed = np.take_along_axis(x, lanes, running.ndim - 1)
    return ArrayImpl(np.ascontiguousarray(borrowed), aval)


def borrow_linearize(nonzero, running, x):
    """Tangents of idle lanes do not count: they are zero."""

    def linear(_, t):
        return select_arrays(running, t, zeros(aval_of(t))) if t is not None else None

    return borrow(running, x), linear


def borrow_batch(lanes, axes, running, x):
    running, x = at_front(lanes, (running, x), axes)
    return borrow_p.bind(running, x), 0


shape_rules |= {borrow_p: lambda running, x: x}
eval_rules |= {borrow_p: borrow_eval}
linearize_rules |= {borrow_p: borrow_linearize}
batch_rules |= {borrow_p: borrow_batch}
batch_rules |= {cond_p: cond_batch}


def stack_axis(aval, axis):
    """Lanes of a stacked array come after its steps; within a Tape they are first."""
    return axis if isinstance(aval, ShapedArray) else 0


def scan_batch(
    lanes, axes, *args, jaxpr, length, reverse, num_consts, num_carry, unroll
):
    if length is None and axes[0] is not None:
        params = dict(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry)
        return scan_batch_counts(lanes, axes, *args, reverse=reverse, **params)
    steps, args = split(args, length is None)
    axes = axes[len(steps) :]
    consts, carry, xs = split(args, num_consts, num_carry)
    const_axes, carry_axes, x_axes = map(tuple, split(axes, num_consts, num_carry))
    xs, x_axes = step_lanes(xs, x_axes)
    rest = ("any",) * (len(jaxpr.out_avals) - num_carry)

    def step(mask):
        wanted = tuple(0 if m else "any" for m in mask)
        inputs = const_axes + tuple(0 if m else None for m in mask) + x_axes
        found = batch_jaxpr(jaxpr, lanes, inputs, wanted + rest)[1]
        return [a is not None for a in found[:num_carry]]

    mask = fixpoint(step, tuple(a is not None for a in carry_axes))
    wanted = tuple(0 if m else None for m in mask)
    rest = batch_jaxpr(jaxpr, lanes, const_axes + wanted + x_axes, wanted + rest)[1]
    rest = tuple(None if a is None else 0 for a in rest[num_carry:])
    body, _ = batch_jaxpr(jaxpr, lanes, const_axes + wanted + x_axes, wanted + rest)
    carry = [
        lanes_at(x, a, 0, lanes.size) if m else x
        for x, a, m in zip(carry, carry_axes, mask, strict=True)
    ]
    outs = scan_p.bind(
        *(*steps, *consts, *carry, *xs),
        jaxpr=body,
        length=length,
        reverse=reverse,
        num_consts=num_consts,
        num_carry=num_carry,
        unroll=unroll,
    )
    y_axes = [
        None if a is None else stack_axis(aval_of(y), 1)
        for y, a in zip(outs[num_carry:], rest, strict=True)
    ]
    return outs, [*wanted, *y_axes]


def step_lanes(xs, axes):
    """Stacked arrays with their steps first; -> (xs, the lanes' axis in one step)."""
    moved, found = [], []
    for x, axis in zip(xs, axes, strict=True):
        if axis is None or not isinstance(aval_of(x), ShapedArray):
            moved.append(x)
            found.append(axis)
        else:
            moved.append(move_axis(x, axis, 1))
            found.append(0)
    return moved, tuple(found)


def scan_batch_counts(lanes, axes, steps, *args, jaxpr, reverse, num_consts, num_carry):
    """A trip count a lane: run to the longest; a lane that is through stays put."""
    steps = move_axis(steps, axes[0], 0)
    consts, carry, xs = split(args, num_consts, num_carry)
    const_axes, carry_axes, x_axes = map(tuple, split(axes[1:], num_consts, num_carry))
    xs, x_axes = step_lanes(xs, x_axes)
    n = len(jaxpr.out_avals)
    in_axes = const_axes + (0,) * num_carry + x_axes
    body, _ = batch_jaxpr(jaxpr, lanes, in_axes, (0,) * n)

    def run(*values):
        pieces = split(values, 1 + num_consts, 1 + num_carry)
        (counts, *consts), (i, *carry), xs = pieces
        i = lax.sub(i, 1) if reverse else i
        outs = apply_closed(body, *consts, *carry, *xs)
        active = lax.lt(lax.broadcast(i, aval_of(counts).shape), counts)
        pairs = zip(outs, carry, strict=False)
        kept = [select_lanes(active, new, old) for new, old in pairs]
        return [i if reverse else lax.add(i, 1), *kept, *outs[num_carry:]]

    counts = aval_of(steps).strip_weak_type()
    avals = body.in_avals
    avals = [counts, *avals[:num_consts], index_aval, *avals[num_consts:]]
    longest = lax.reduce_max(steps, (0,))
    carry = at_front(lanes, carry, carry_axes)
    outs = scan_p.bind(
        *(longest, steps, *consts, longest if reverse else lax.full((), 0, int32)),
        *(*carry, *xs),
        jaxpr=jaxpr_of(run, avals, "lanes"),
        length=None,
        reverse=reverse,
        num_consts=num_consts + 1,
        num_carry=num_carry + 1,
        unroll=1,
    )
    return outs[1:], [0] * n


batch_rules |= {scan_p: scan_batch}


def while_batch(
    lanes, axes, *args, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack
):
    cond_axes, const_axes, carry_axes = map(
        tuple, split(axes, cond_nconsts, body_nconsts)
    )
    cond_consts, consts, carry = split(args, cond_nconsts, body_nconsts)
    n = len(carry)
    rest = ("any",) * (len(body_jaxpr.out_avals) - n)

    def step(mask):
        inputs = const_axes + tuple(0 if m else None for m in mask)
        wanted = tuple(0 if m else "any" for m in mask)
        found = batch_jaxpr(body_jaxpr, lanes, inputs, wanted + rest)[1]
        return [a is not None for a in found[:n]]

    mask = fixpoint(step, tuple(a is not None for a in carry_axes))
    where = tuple(0 if m else None for m in mask)
    pred_axis, = batch_jaxpr(cond_jaxpr, lanes, cond_axes + where, ("any",))[1]
    if pred_axis is not None:
        params = dict(cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, stack=stack)
        pieces = (cond_consts, consts, carry), (cond_axes, const_axes, carry_axes)
        return while_batch_lanes(lanes, *pieces, **params)
    rest = batch_jaxpr(body_jaxpr, lanes, const_axes + where, where + rest)[1][n:]
    rest = tuple(None if a is None else 0 for a in rest)
    carry = [
        lanes_at(x, a, 0, lanes.size) if m else x
        for x, a, m in zip(carry, carry_axes, mask, strict=True)
    ]
    outs = while_p.bind(
        *(*cond_consts, *consts, *carry),
        cond_jaxpr=batch_jaxpr(cond_jaxpr, lanes, cond_axes + where, (None,))[0],
        body_jaxpr=batch_jaxpr(body_jaxpr, lanes, const_axes + where, where + rest)[0],
        cond_nconsts=cond_nconsts,
        body_nconsts=body_nconsts,
        stack=stack,
    )
    return outs, [*where, *((None, *rest) if stack else ())]


def while_batch_lanes(lanes, pieces, piece_axes, *, cond_jaxpr, body_jaxpr, stack):
    """A predicate a lane: as long as one lane runs.  Lanes that are through keep their
    carry, and borrow a running lane's inputs for what is computed all the same."""
    cond_consts, consts, carry = pieces
    cond_axes, const_axes, carry_axes = piece_axes
    n, nc, nb = len(carry), len(cond_consts), len(consts)
    front = (0,) * n
    cond, _ = batch_jaxpr(cond_jaxpr, lanes, cond_axes + front, (0,))
    outs = (0,) * len(body_jaxpr.out_avals)
    borrowed = tuple(None if a is None else 0 for a in const_axes)
    body, _ = batch_jaxpr(body_jaxpr, lanes, borrowed + front, outs)
    consts = [
        x if a is None else lanes_at(x, a, 0, lanes.size)
        for x, a in zip(consts, const_axes, strict=True)
    ]

    def any_lane(*values):
        running, = apply_closed(cond, *values[:-1])
        return [lax.reduce_or(running, (0,))]

    def step(*values):
        cond_values, consts, carry, (counts,) = split(values, nc, nb, n)
        running, = apply_closed(cond, *cond_values, *carry)
        consts = [
            x if a is None else borrow(running, x)
            for x, a in zip(consts, const_axes, strict=True)
        ]
        outs = apply_closed(body, *consts, *[borrow(running, x) for x in carry])
        pairs = zip(outs, carry, strict=False)
        kept = [select_lanes(running, new, old) for new, old in pairs]
        return [*kept, lax.add(counts, lax.convert(running, int32)), *outs[n:]]

    counts_aval = ShapedArray((lanes.size,), int32)
    avals = [*cond.in_avals[:nc], *body.in_avals, counts_aval]
    outs = while_p.bind(
        *(*cond_consts, *cond_consts, *consts, *at_front(lanes, carry, carry_axes)),
        lax.full((lanes.size,), 0, int32),
        cond_jaxpr=jaxpr_of(any_lane, [*cond.in_avals, counts_aval], "cond"),
        body_jaxpr=jaxpr_of(step, avals, "body"),
        cond_nconsts=nc,
        body_nconsts=nc + nb,
        stack=stack,
    )
    # The count of each lane takes the place of the count of the loop.
    kept, counts, _, tapes = split(outs, n, 1, stack)
    outs = kept + (counts + tapes if stack else [])
    return outs, [0] * len(outs)


batch_rules |= {while_p: while_batch}


def scan_in_python(f, init, leaves, xs_tree, length, reverse):
    """scan as a Python loop, for `disable_jit`."""
    carry, ys = init, []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_unflatten(xs_tree, [x[i] for x in leaves]))
        ys.append(y)
    if not ys:
        raise ValueError("a scan of no steps cannot run under disable_jit")
    ys = ys[::-1] if reverse else ys
    return carry, tree_map(stack_rows, *ys)


def stack_rows(*items):
    """Values stacked along a new first axis, promoted to one dtype."""
    dtype = dtypes.result_type(*items)
    rows = [lax.expand_dims(lax.convert(x, dtype), (0,)) for x in items]
    return lax.concatenate(rows, 0)


def map_loop(f, xs, *, batch_size=None):
    """f(x) for each x along the first axis, one after the other (`jax.lax.map`).

    With `batch_size`, so many at a time by `vmap`.
    """
    if not batch_size:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    if batch_size < 0:
        raise ValueError(f"map: batch_size must be positive, got {batch_size}")
    leaves, tree = tree_flatten(xs)
    n = scan_length(leaves, None)
    full = n // batch_size * batch_size
    cut = lambda x, a, b: lax.slice(x, (a, *[0] * (x.ndim - 1)), (b, *x.shape[1:]))
    leaves = [x if hasattr(x, "aval") else lax.as_constant(x) for x in leaves]
    parts = []
    if full:
        rows = [
            lax.reshape(cut(x, 0, full), (full // batch_size, batch_size, *x.shape[1:]))
            for x in leaves
        ]
        ys = scan(lambda _, x: ((), vmap(f)(x)), (), tree_unflatten(tree, rows))[1]
        parts.append(tree_map(lambda y: lax.reshape(y, (full, *y.shape[2:])), ys))
    if full < n:
        rest = [cut(x, full, n) for x in leaves]
        parts.append(vmap(f)(tree_unflatten(tree, rest)))
    return tree_map(lambda *ys: lax.concatenate(ys, 0), *parts)


def associative_scan(fn, elems, reverse=False, axis=0):
    """All partial results of an associative function (`jax.lax.associative_scan`).

    Args:
      fn: fn(a, b) on trees of arrays, element by element along `axis`; associative.
      elems: a tree of arrays of equal size along `axis`.
      reverse: whether to go from the last element to the first.

    Returns:
      A tree like `elems`: element i is elems[0], ..., elems[i] combined.  It takes
      about 2 n applications of `fn`, in log2 n steps each of which is parallel.
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, tree = tree_flatten(elems)
    if not leaves:
        raise ValueError("lax.associative_scan: elems has no arrays to scan over.")
    leaves = [lax.as_constant(x) for x in leaves]
    axis = lax.canonicalize_axis(axis, leaves[0].ndim)
    sizes = {x.shape[axis] for x in leaves}
    if len(sizes) > 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same size along "
            f"axis {axis}, got {sorted(sizes)}{at_line(user_source())}"
        )
    if reverse:
        leaves = [rev(x, (axis,)) for x in leaves]

    def combine(a, b):
        out, _ = tree_flatten(fn(tree_unflatten(tree, a), tree_unflatten(tree, b)))
        return out

    outs = partial_results(combine, leaves, axis)
    if reverse:
        outs = [rev(x, (axis,)) for x in outs]
    return tree_unflatten(tree, outs)


def partial_results(combine, xs, axis):
    """Combine neighbours, solve the half-sized problem, and fill in between."""
    n = xs[0].shape[axis]
    if n < 2:
        return xs
    every_other = lambda x, start, stop: slice_axis(x, start, stop, 2, axis)
    firsts = [every_other(x, 0, n - 1) for x in xs]
    seconds = [every_other(x, 1, n) for x in xs]
    odd = partial_results(combine, combine(firsts, seconds), axis)
    half = odd[0].shape[axis]
    before = [slice_axis(x, 0, half - (n % 2 == 0), 1, axis) for x in odd]
    even = combine(before, [every_other(x, 2, n) for x in xs])
    head = [slice_axis(x, 0, 1, 1, axis) for x in xs]
    even = [lax.concatenate([h, e], axis) for h, e in zip(head, even, strict=True)]
    return [interleave(e, o, axis) for e, o in zip(even, odd, strict=True)]


def slice_axis(x, start, stop, stride, axis):
    """x[start:stop:stride] along one axis."""
    starts, stops, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], stops[axis], strides[axis] = start, stop, stride
    return lax.slice(x, starts, stops, strides)


def interleave(even, odd, axis):
    """even[0], odd[0], even[1], odd[1], ... along an axis."""
    n = even.shape[axis]
    short = odd.shape[axis] < n
    if short:
        odd = lax.concatenate([odd, slice_axis(even, n - 1, n, 1, axis)], axis)
    pairs = [lax.expand_dims(x, (axis + 1,)) for x in (even, odd)]
    shape = list(even.shape)
    shape[axis] = 2 * n
    both = lax.reshape(lax.concatenate(pairs, axis + 1), shape)
    return slice_axis(both, 0, 2 * n - 1, 1, axis) if short else both


def platform_dependent(*args, default=None, **per_platform):
    """`per_platform["cpu"](*args)`, or `default(*args)`: what runs here is a CPU."""
    function = per_platform.get("cpu", default)
    if function is None:
        raise ValueError(
            "platform_dependent has no function for cpu and no default, only for "
            f"{sorted(per_platform)}"
        )
    return function(*args)
