"""Loops as equations: `while` and `scan`, and their derivatives.

A `while` that is differentiated also returns how many steps it took, and a Tape for
each residual of its body.  Its linear side is a `scan` of so many steps over these
Tapes.  What a loop does not change is a residual once, and not once a step.
"""

from dataclasses import dataclass, replace

from ...trace.array import ShapedArray, shape_rules
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.jaxpr import ClosedJaxpr
from ...trace.jaxprs.memory import memoised
from ..closed_jaxprs import fill, present
from ..derivatives.linearize import add_tangents, linearize_rules
from ..derivatives.transpose import is_linear, transpose_jaxpr, transpose_rules
from ..pieces import as_whole, compiled, index_aval, mask_of, none_of, reorder, split
from ..tangents import dense, zeros
from .steps import Stack, instantiate_carry, linearize_body, rows_of, step_count


@dataclass(frozen=True)
class While:
    """The params of a `while`.

    With `stack` its results go on after the carry: with the number of steps, and with
    a Tape for each result of the body beyond the carry.
    """

    cond_jaxpr: ClosedJaxpr
    body_jaxpr: ClosedJaxpr
    cond_nconsts: int = 0
    body_nconsts: int = 0
    stack: bool = False

    def split(self, operands):  # -> (consts of cond, consts of body, carry)
        return split(operands, self.cond_nconsts, self.body_nconsts)

    def bind(self, cond_consts, consts, carry):  # -> [*carry, count, *tapes]
        counts = dict(cond_nconsts=len(cond_consts), body_nconsts=len(consts))
        return while_p.bind(*cond_consts, *consts, *carry, **vars(self) | counts)


def on_tapes(avals, rows):
    """Rows, each with the values of one step: -> a Tape for each column."""
    return [TapeValue(Tape(a), [row[k] for row in rows]) for k, a in enumerate(avals)]


def loop_tangents(parts, steps, consts, carry, stepwise, length=None, reverse=False):
    """The linear side of a loop, whose body is the `LinearLoop` `parts`: a scan.

    `steps` is the number of steps, or [] if `length` is.  Returns a function from
    tangents of consts, carry and xs to those of carry and ys.
    """
    shared, loop = parts.shared(consts), Loop(parts.linear, length, reverse)

    def linear(*tangents):
        of_consts, of_carry, of_xs = split(tangents, len(consts), len(carry))
        of_carry = instantiate_carry(carry, of_carry, parts.nonzero_carry)
        given = shared + present(of_consts), present(of_carry)
        outs = loop.bind(steps, *given, stepwise + present(of_xs))
        return fill(parts.nonzero_out, outs)

    return linear


# chapter 11
from .unions_and_tapes import Tape, TapeValue

while_p = Primitive("while", multiple_results=True)
scan_p = Primitive("scan", multiple_results=True)

# ---- while: carry = body(body consts, carry) as long as cond(cond consts, carry)


def while_shape(*avals, **params):
    loop = While(**params)
    _, _, carry = loop.split(avals)
    carry, ys = split(loop.body_jaxpr.out_avals, len(carry))
    return carry + ([index_aval, *map(Tape, ys)] if loop.stack else [])


def while_eval(*args, **params):
    loop = While(**params)
    cond_consts, consts, carry = loop.split(args)
    test, body, rows = compiled(loop.cond_jaxpr), compiled(loop.body_jaxpr), []
    n, count = len(carry), 0
    while bool(test(*cond_consts, *carry)[0]):
        carry, row = split(body(*consts, *carry), n)
        rows.append(row)
        count += 1
    if not loop.stack:
        return carry
    return [*carry, step_count(count), *on_tapes(loop.body_jaxpr.out_avals[n:], rows)]


shape_rules |= {while_p: while_shape}
eval_rules |= as_whole(while_p, while_eval)


# ---- the linear side of a loop


def while_linearize(nonzero, *args, **params):
    """Forward: the residuals of each step on Tapes.  Linear: a scan over them."""
    loop = While(**params)
    cond_consts, consts, carry = loop.split(args)
    _, *masks = map(tuple, loop.split(nonzero))
    parts = linearize_body(loop.body_jaxpr, *masks, ())
    forward = replace(loop, body_jaxpr=parts.forward, stack=True)
    outs = forward.bind(cond_consts, consts, carry)
    n, n_ys = len(carry), len(loop.body_jaxpr.out_avals) - len(carry)
    outs, count, ys, kept = split(outs, n, 1, n_ys)
    run = loop_tangents(parts, count, consts, carry, parts.stepwise([], kept))

    def linear(*tangents):
        out = run(*tangents[len(cond_consts) :])
        return out[:n] + ([None, *out[n:]] if loop.stack else [])

    return outs + (count + ys if loop.stack else []), linear


linearize_rules |= {while_p: while_linearize}


# chapter 11, brought along

# ---- scan: carry, y = body(consts, carry, x), for so many steps


@dataclass(frozen=True)
class Loop:
    """The params of a `scan`.

    Its operands are the number of steps (if `length` is None), consts, the initial
    carry, and xs.  An x, and a y, has a value for each step: it is an array with the
    steps on its first axis, or a Tape.
    """

    jaxpr: ClosedJaxpr
    length: int | None = None
    reverse: bool = False
    num_consts: int = 0
    num_carry: int = 0
    unroll: int = 1

    def split(self, operands):  # -> (steps, consts, carry, xs)
        return split(operands, self.length is None, self.num_consts, self.num_carry)

    def bind(self, steps, consts, carry, xs):  # -> [*carry, *ys]
        counts = dict(num_consts=len(consts), num_carry=len(carry))
        return scan_p.bind(*steps, *consts, *carry, *xs, **vars(self) | counts)

    def is_array(self, aval):
        """Whether a value of this type a step is an array, and not a Tape."""
        return self.length is not None and isinstance(aval, ShapedArray)


def scan_shape(*avals, **params):
    loop = Loop(**params)
    carry, ys = split(loop.jaxpr.out_avals, loop.num_carry)
    return carry + [
        a.update(shape=(loop.length, *a.shape)) if loop.is_array(a) else Tape(a)
        for a in ys
    ]


def scan_eval(*args, **params):
    loop = Loop(**params)
    counts, consts, carry, xs = loop.split(args)
    steps = int(counts[0]) if counts else loop.length
    body, xs = compiled(loop.jaxpr), [rows_of(x, steps) for x in xs]
    avals = loop.jaxpr.out_avals[loop.num_carry :]
    ys = [Stack(a, steps) if loop.is_array(a) else [None] * steps for a in avals]
    for i in reversed(range(steps)) if loop.reverse else range(steps):
        outs = body(*consts, *carry, *[x[i] for x in xs])
        carry, row = split(outs, loop.num_carry)
        for y, value in zip(ys, row, strict=True):
            y[i] = value
    made = lambda a, y: y.array() if loop.is_array(a) else TapeValue(Tape(a), y)
    return carry + list(map(made, avals, ys))


shape_rules |= {scan_p: scan_shape}
eval_rules |= as_whole(scan_p, scan_eval)


def scan_linearize(nonzero, *args, **params):
    loop = Loop(**params)
    steps, consts, carry, xs = loop.split(args)
    _, *masks = map(tuple, loop.split(nonzero))
    parts = linearize_body(loop.jaxpr, *masks)
    outs = replace(loop, jaxpr=parts.forward).bind(steps, consts, carry, xs)
    outs, kept = split(outs, len(loop.jaxpr.out_avals))
    given = steps, consts, carry, parts.stepwise(xs, kept), loop.length, loop.reverse
    run = loop_tangents(parts, *given)
    return outs, lambda *tangents: run(*tangents[len(steps) :])


linearize_rules |= {scan_p: scan_linearize}


# ---- a linear scan, backward


@memoised
def transpose_body(body, num_carry, linear_consts, linear_xs, nonzero_ys):
    """The transposed body of a linear scan.

    From: known consts; sums for the linear consts, cotangents of the carry; known xs,
    nonzero cotangents of ys.  To: the sums, cotangents of the carry; of linear xs.
    """
    linear = linear_consts + (True,) * num_carry + linear_xs
    nonzero_cts = (True,) * num_carry + nonzero_ys
    sums = linear_consts + none_of(num_carry + len(linear_xs))
    closed, _ = transpose_jaxpr(body, linear, nonzero_cts, sums, (True,) * len(linear))
    sizes = linear_consts.count(False), linear_xs.count(False), num_carry
    consts, xs, cts, ys, accs = split(closed.jaxpr.invars, *sizes, sum(nonzero_ys))
    return reorder(closed, [*consts, *accs, *cts, *xs, *ys])


def scan_transpose(cts, accs, *args, **params):
    """A linear scan backward.  Cotangents of consts are summed in the carry, into
    what there was before the loop: one sum for all steps and levels."""
    loop = Loop(**params)
    steps, consts, carry, xs = loop.split(args)
    _, const_accs, carry_accs, x_accs = loop.split(accs)
    ct_carry, ct_ys = split(cts, len(carry))
    # A carry of a linear loop is linear even where it starts as a zero.
    ct_carry = dense(ct_carry, loop.jaxpr.out_avals[: len(carry)])
    masks = [tuple(map(is_linear, values)) for values in (consts, xs)]
    body = transpose_body(loop.jaxpr, len(carry), *masks, mask_of(ct_ys))
    known, known_xs = ([x for x in v if not is_linear(x)] for v in (consts, xs))
    pairs = zip(consts, const_accs, strict=True)
    sums = [zeros(x.aval) if a is None else a for x, a in pairs if is_linear(x)]
    backward = replace(loop, jaxpr=body, reverse=not loop.reverse)
    outs = backward.bind(steps, known, sums + ct_carry, known_xs + present(ct_ys))
    of_consts, of_carry, of_xs = split(outs, len(sums), len(carry))
    return [
        *(None for _ in steps),
        *fill(masks[0], of_consts),
        *map(add_tangents, carry_accs, of_carry),
        *map(add_tangents, x_accs, fill(masks[1], of_xs)),
    ]


transpose_rules |= {scan_p: scan_transpose}
