"""Custom derivative rules under `vmap`.

A function and its rule both get all lanes.  An argument that all lanes share gets the
sum of their cotangents.  The function, or its rule, may have captured a value with
lanes, so whether results have lanes is known when it has run: see `ResultAxes`.
"""

from dataclasses import replace
from functools import partial
from itertools import compress

from ...trace import primitives as lax
from ...trace.base.errors import HERE, UnexpectedTracerError
from ..batching.axes import holding_functions
from ..batching.vmap import batch_rules, lanes_at, vmap_flat, with_axis
from ..closed_jaxprs import fill, present
from . import custom_derivatives as custom


class ResultAxes:
    """Where a custom function's results have their lanes: on the first axis, or None.

    They have lanes if an argument does, or if the function captured some.  Its rule,
    run later, must keep to what the function did.
    """

    def __init__(self, lanes, axes):
        self.lanes = lanes
        self.always = any(axis is not None for axis in axes)
        self.found = None

    def place(self, outs, axes, more=None):
        """Results with their lanes on the axes of the first results.

        `more` are axes of their tangents, with which they must agree.
        """
        if self.found is None:
            pairs = zip(axes, more or axes, strict=True)
            lanes = [self.always or pair != (None, None) for pair in pairs]
            self.found = [0 if has_lanes else None for has_lanes in lanes]
        return [
            y if y is None else self.place_one(y, axis, target)
            for y, axis, target in zip(outs, axes, self.found, strict=True)
        ]

    def place_one(self, y, axis, target):
        if target is None and axis is not None:
            raise captured_lanes()
        return y if target is None else lanes_at(y, axis, target, self.lanes.size)

    def differ(self):
        """The lanes do not share what is done, so they cannot share its results."""
        if self.found is None:
            self.always = True
        elif None in self.found:
            raise captured_lanes()


def captured_lanes():
    """The error for a rule that captured lanes of which its function has none."""
    return UnexpectedTracerError(
        "a custom derivative rule captured a value that differs in the lanes of a "
        "vmap, but its function and its arguments have no lanes"
        f"{HERE}\n  Instead: make the value an argument."
    )


def custom_rule(primitive, in_all_lanes):
    """The row of a function with a rule: both get all lanes.

    Args:
      in_all_lanes: (rule, where, lanes, axes of the arguments, *lists): the rule.
    """

    def batch(lanes, axes, *args, call, rule):
        where, run = ResultAxes(lanes, axes), partial(custom.run, call)
        all_lanes = lambda *xs: where.place(*vmap_flat(run, lanes, xs, axes))
        given = rule.call, where, lanes, axes[rule.captured :]
        new_rule = replace(rule, call=partial(in_all_lanes, *given))
        return primitive.bind(*args, call=all_lanes, rule=new_rule), where.found

    return batch


def jvp_in_all_lanes(jvp, where, lanes, axes, primals, tangents):
    """A user's jvp rule in all lanes."""
    mask, count = [], len(primals)
    nonzero = [t is not None for t in tangents]

    def both(*values):
        outs, out_tangents = jvp(values[:count], fill(nonzero, values[count:]))
        mask[:] = [t is not None for t in out_tangents]
        return [*outs, *present(out_tangents)]

    values = [*primals, *present(tangents)]
    outs, found = vmap_flat(both, lanes, values, [*axes, *compress(axes, nonzero)])
    n = len(mask)
    more = fill(mask, found[n:])
    new = where.place(outs[:n], found[:n], more)
    return new, where.place(fill(mask, outs[n:]), more)


def fwd_in_all_lanes(fwd, where, lanes, axes, primals, nonzero):
    """A user's fwd in all lanes, and a bwd in all of them."""
    bwd, count = None, None

    def one_lane(*values):
        nonlocal bwd, count
        outs, residuals, bwd = fwd(values, nonzero)
        count = len(outs)
        return [*outs, *residuals]

    outs, found = vmap_flat(one_lane, lanes, primals, axes)
    if any(axis is not None for axis in found[count:]):
        where.differ()
    results = where.place(outs[:count], found[:count])
    in_axes = found[count:], where.found
    backward = partial(bwd_in_all_lanes, lanes, bwd, in_axes, axes)
    return results, outs[count:], backward


def bwd_in_all_lanes(lanes, bwd, in_axes, axes, residuals, cts):
    """A user's bwd in all lanes: what all lanes share gets the sum of cotangents."""
    mask, count = [], len(residuals)
    residual_axes, ct_axes = in_axes
    nonzero = [ct is not None for ct in cts]

    def one_lane(*values):
        out = bwd(list(values[:count]), fill(nonzero, values[count:]))
        mask[:] = [ct is not None for ct in out]
        return present(out)

    ct_axes = list(compress(ct_axes, nonzero))
    outs, found = vmap_flat(
        one_lane, lanes, [*residuals, *present(cts)], [*residual_axes, *ct_axes]
    )
    shared = all(axis is None for axis in (*residual_axes, *ct_axes))
    if shared and any(axis is not None for axis in found):
        raise captured_lanes()
    pairs = zip(fill(mask, outs), fill(mask, found), axes, strict=True)
    return [
        None if ct is None else place_cotangent(lanes, shared, ct, axis, target)
        for ct, axis, target in pairs
    ]


def place_cotangent(lanes, shared, ct, axis, target):
    """A cotangent where its argument has its lanes; the sum if it has none."""
    if shared:
        return ct
    if target is None:
        return lax.reduce_sum(lanes_at(ct, axis, 0, lanes.size), (0,))
    return lanes_at(ct, axis, target, lanes.size)


def custom_linear_rule(lanes, axes, *args, rule, mask, avals):
    """Still what only knows its transpose: bwd in all lanes."""
    count = len(args) - sum(mask)
    in_axes = axes[:count], [0] * len(avals)
    bwd = partial(bwd_in_all_lanes, lanes, rule.call, in_axes, fill(mask, axes[count:]))
    outs = custom.custom_linear_p.bind(
        *args, rule=replace(rule, call=bwd), mask=mask,
        avals=tuple(None if a is None else with_axis(a, lanes.size, 0) for a in avals),
    )
    return outs, [0] * len(outs)


holding_functions |= {custom.custom_jvp_p, custom.custom_vjp_p}
batch_rules |= {
    custom.custom_jvp_p: custom_rule(custom.custom_jvp_p, jvp_in_all_lanes),
    custom.custom_vjp_p: custom_rule(custom.custom_vjp_p, fwd_in_all_lanes),
    custom.custom_linear_p: custom_linear_rule,
}
