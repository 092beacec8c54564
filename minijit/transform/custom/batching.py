"""Custom derivative rules under `vmap`.

A function and its rule both get all lanes.  An argument that all lanes share gets the
sum of their cotangents.  The function, or its rule, may have captured a value with
lanes, so whether results have lanes is known when it has run: see `ResultAxes`.
"""

from dataclasses import replace
from functools import partial

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


def custom_jvp_rule(lanes, axes, *args, call, rule):
    """The function and its rule both get all lanes."""
    where, given_axes = ResultAxes(lanes, axes), axes[rule.captured :]

    def all_lanes(*values):
        return where.place(*vmap_flat(partial(custom.run, call), lanes, values, axes))

    def rule_in_all_lanes(primals, tangents):
        nonzero = [t is not None for t in tangents]
        count = len(primals)

        def both(*values):
            primals, tangents = values[:count], fill(nonzero, values[count:])
            outs, out_tangents = rule.call(primals, tangents)
            mask[:] = [t is not None for t in out_tangents]
            return [*outs, *present(out_tangents)]

        mask = []
        pairs = zip(tangents, given_axes, strict=True)
        tangent_axes = [a for t, a in pairs if t is not None]
        values = [*primals, *present(tangents)]
        outs, found = vmap_flat(both, lanes, values, [*given_axes, *tangent_axes])
        n = len(mask)
        more = fill(mask, found[n:])
        new = where.place(outs[:n], found[:n], more)
        return new, where.place(fill(mask, outs[n:]), more)

    new_rule = replace(rule, call=rule_in_all_lanes)
    outs = custom.custom_jvp_p.bind(*args, call=all_lanes, rule=new_rule)
    return outs, where.found


def custom_vjp_rule(lanes, axes, *args, call, rule):
    """The function, fwd and bwd all get all lanes; what was shared gets the sum."""
    where, given_axes = ResultAxes(lanes, axes), axes[rule.captured :]

    def all_lanes(*values):
        return where.place(*vmap_flat(partial(custom.run, call), lanes, values, axes))

    def fwd_in_all_lanes(primals, nonzero):
        bwd, count = None, None

        def fwd(*values):
            nonlocal bwd, count
            outs, residuals, bwd = rule.call(values, nonzero)
            count = len(outs)
            return [*outs, *residuals]

        outs, found = vmap_flat(fwd, lanes, primals, given_axes)
        if any(axis is not None for axis in found[count:]):
            where.differ()
        results = where.place(outs[:count], found[:count])
        in_axes = found[count:], where.found
        backward = partial(bwd_in_all_lanes, lanes, bwd, in_axes, given_axes)
        return results, outs[count:], backward

    new_rule = replace(rule, call=fwd_in_all_lanes)
    outs = custom.custom_vjp_p.bind(*args, call=all_lanes, rule=new_rule)
    return outs, where.found


def bwd_in_all_lanes(lanes, bwd, in_axes, axes, residuals, cts):
    """A user's bwd in all lanes: what all lanes share gets the sum of cotangents."""
    mask, count = [], len(residuals)
    residual_axes, ct_axes = in_axes
    nonzero = [ct is not None for ct in cts]

    def one_lane(*values):
        out = bwd(list(values[:count]), fill(nonzero, values[count:]))
        mask[:] = [ct is not None for ct in out]
        return present(out)

    ct_axes = [axis for axis, n in zip(ct_axes, nonzero, strict=True) if n]
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
        *args,
        rule=replace(rule, call=bwd),
        mask=mask,
        avals=tuple(None if a is None else with_axis(a, lanes.size, 0) for a in avals),
    )
    return outs, [0] * len(outs)


holding_functions |= {custom.custom_jvp_p, custom.custom_vjp_p}
batch_rules |= {
    custom.custom_jvp_p: custom_jvp_rule,
    custom.custom_vjp_p: custom_vjp_rule,
    custom.custom_linear_p: custom_linear_rule,
}
