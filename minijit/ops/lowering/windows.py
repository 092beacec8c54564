"""How reductions over windows, and convolutions, become loops."""

import numpy as np

from ...compile.loops.expressions import Const, Reduce, as_index, op
from ...compile.loops.reductions import start_values
from ...compile.loops.scalars import BOOL, wide_dtype
from ...compile.lower.choices import both, undilated
from ...compile.lower.elements import affine, total_over, widen
from ...compile.lower.walk import Elements, lower_rules, new_axis
from ...compile.pipeline import expansions
from ...compile.settings import config
from ...trace import primitives as lax, slicing
from ...trace.jaxprs.jaxpr import Var
from ...trace.slicing import pad
from ...transform.equations import everywhere, written_out
from ..convolution import conv_general_dilated_p
from ..windows import reduced_by


def window_lower(name):
    """The rule of a reduction over windows; what is not there does not count."""

    def rule(
        out, index, x, *, window_dimensions, window_strides, padding, base_dilation,
        window_dilation,
    ):
        over = tuple(new_axis(n, "reduce") for n in window_dimensions)
        where, inside = [], Const(True, BOOL)
        for d, (i, k) in enumerate(zip(index, over, strict=True)):
            first = affine(i, window_strides[d], -padding[d][0])
            place = op("add", first, affine(k, window_dilation[d], 0))
            place, here = undilated(place, x.shape[d], base_dilation[d])
            where.append(place)
            inside = both(inside, here)
        start, = start_values(Reduce(name, (), (Const(0, wide_dtype(out.dtype)),)))
        if 0 in x.shape or 0 in window_dimensions:
            return op("convert", start, dtype=out.dtype)
        value = op("select", inside, widen(x[tuple(where)]), start)
        return op("convert", total_over(name, over, value), dtype=out.dtype)

    return rule


class Windows(Elements):
    """The row of such a reduction: a padded array is one in memory."""

    def lower(self, walk, eqn):
        atom = eqn.invars[0]
        made = walk.made_by.get(atom) if isinstance(atom, Var) else None
        if made and made.primitive is slicing.pad_p:
            walk.stored.setdefault(atom, ("windows", "windows read it many times"))
        walk.value(eqn, self)


lower_rules |= {
    p: Windows(window_lower(m.loop), total=True) for p, m in reduced_by.items()
}


def sides_of(eqn):
    """What an equation's windows do along the axes of the array that they move over:
    {axis: (its padding, stride, base dilation)}; None if it has no windows."""
    axes, base = range(eqn.invars[0].aval.ndim), "base_dilation"
    if eqn.primitive is conv_general_dilated_p:
        axes, base = eqn.params["dimension_numbers"].lhs_spec[2:], "lhs_dilation"
    elif eqn.primitive not in reduced_by:
        return None
    sides = (eqn.params[name] for name in ("padding", "window_strides", base))
    return dict(zip(axes, zip(*sides, strict=True), strict=True))


def in_bounds(eqn):
    """Windows that hang over, as windows of a padded array, which is stored; or None.

    Whether an element is there would be asked once for each place of a window, and a
    loop along memory be cut into as many ranges, or into none.  What hangs over along
    one other axis only is the same for a whole row; and elements that lie apart are not
    loaded as vectors either way.  The same holds for long sums of a convolution.
    """
    if not eqn.invars or not (sides := sides_of(eqn)):
        return None
    over = [d for d, (pair, _, _) in sides.items() if any(pair)]
    last = eqn.invars[0].aval.ndim - 1
    _, stride, _ = sides.get(last, (None, 1, 1))
    if stride != 1 or any(base != 1 for _, _, base in sides.values()):
        return None
    if over == [d for d in over[:1] if d != last] or not worth_storing(eqn, last, over):
        return None
    return written_out(eqn, padded_first, primitive=eqn.primitive, axes=tuple(sides))


def worth_storing(eqn, last, over):
    """Whether a padded array is read so often that it is worth its memory."""
    if eqn.primitive in reduced_by:
        return True
    (_, kernel), (out,) = eqn.invars, eqn.outvars
    features = kernel.aval.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
    terms = out.aval.size * kernel.aval.size // max(features, 1)
    return last in over and terms > config.fusion.small_product


def padded_first(x, *others, primitive, axes, padding, **params):
    """A reduction, or a convolution, over windows of an array with its padding."""
    name = reduced_by[primitive].loop if primitive in reduced_by else "add"
    nothing, = start_values(Reduce(name, (), (Const(0, x.dtype),)))
    pads = dict(zip(axes, padding, strict=True))
    sides = [(*pads.get(d, (0, 0)), 0) for d in range(x.ndim)]
    x = pad(x, lax.full((), nothing.value, x.dtype), sides)
    return primitive.bind(x, *others, padding=((0, 0),) * len(axes), **params)


expansions |= {"windows_in_bounds": everywhere(in_bounds)}


# ---- convolutions


def conv_lower(
    out, index, lhs, rhs, *, dimension_numbers, window_strides, padding, lhs_dilation,
    rhs_dilation, feature_group_count, batch_group_count, **params,
):
    """A sum over features and the kernel's positions, where the input has elements."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    n, feature, *places = (index[d] for d in out_spec)
    over = [new_axis(rhs.shape[d], "reduce") for d in rhs_spec[1:]]
    # In the order of the input's axes, so that neighbours are read one after the other.
    in_order = [over[i] for i in np.argsort(lhs_spec[1:])]
    if 0 in lhs.shape or 0 in rhs.shape:
        return Const(0, out.dtype)
    channel, *kernel = over
    inputs, inside = [n, channel], Const(True, BOOL)
    groups = max(feature_group_count, batch_group_count)
    group = op("floordiv", feature, as_index(rhs.shape[rhs_spec[0]] // groups))
    which = 1 if feature_group_count > 1 else 0
    size = lhs.shape[lhs_spec[which]] // groups
    inputs[which] = op("add", affine(group, size, 0), inputs[which])
    for d, (i, k) in enumerate(zip(places, kernel, strict=True)):
        first = affine(i, window_strides[d], -padding[d][0])
        place = op("add", first, affine(k, rhs_dilation[d], 0))
        place, here = undilated(place, lhs.shape[lhs_spec[2 + d]], lhs_dilation[d])
        inputs.append(place)
        inside = both(inside, here)
    wide = wide_dtype(out.dtype)
    x = op("convert", lhs[permuted(inputs, lhs_spec)], dtype=wide)
    x = op("select", inside, x, Const(0, wide))
    weight = op("convert", rhs[permuted([feature, *over], rhs_spec)], dtype=wide)
    total = total_over("add", in_order, op("mul", x, weight))
    return op("convert", total, dtype=out.dtype)


def permuted(index, spec):
    """The index that has index[i] at position spec[i]."""
    return tuple(index[spec.index(d)] for d in range(len(index)))


lower_rules |= {conv_general_dilated_p: Windows(conv_lower, total=True)}
