"""Views: arrays that a call reads and writes where they are, in others' memory.

    strided(walk, atom)       # x.T[:, 2:]: x's memory, strides (1, 8), from 16 on

A transpose, a slice or a broadcast is no copy for a routine that is told strides.
"""

from collections import Counter
from dataclasses import dataclass

from ...trace import primitives as prim
from ...trace.jaxprs.jaxpr import Eqn, Var
from ..loops.expressions import Axis
from ..simplify.shapes import matched_axes
from .calls import Strided, operand_views, whole_atom
from .elements import reshaped_index
from .walk import At, Operand

# primitive -> function(view, sizes of the result, **params): the result as a view of
# the same memory, or None where it is none.
view_rules = {}


def transpose_view(view, sizes, *, permutation):
    strides = tuple(view.strides[d] for d in permutation)
    return Strided(view.base, sizes, strides, view.offset)


def slice_view(view, sizes, *, start_indices, limit_indices, strides):
    steps = strides or (1,) * len(sizes)
    offset = sum(n * s for n, s in zip(start_indices, view.strides, strict=True))
    strides = tuple(n * s for n, s in zip(steps, view.strides, strict=True))
    return Strided(view.base, sizes, strides, view.offset + offset)


def broadcast_view(view, sizes, *, broadcast_dimensions, **params):
    strides = [0] * len(sizes)
    for d, size, stride in zip(
        broadcast_dimensions, view.shape, view.strides, strict=True
    ):
        strides[d] = stride if size > 1 else 0
    return Strided(view.base, sizes, tuple(strides), view.offset)


view_rules |= {
    prim.transpose_p: transpose_view,
    prim.slice_p: slice_view,
    prim.broadcast_in_dim_p: broadcast_view,
}


def merged_stride(view, axes):
    """The stride of neighbouring axes of a view taken as one, or None."""
    axes = [d for d in axes if view.shape[d] > 1]
    for d, e in zip(axes, axes[1:], strict=False):
        if view.strides[d] != view.strides[e] * view.shape[e]:
            return None
    return view.strides[axes[-1]] if axes else 1


def reshape_view(view, sizes, *, dimensions=None, **params):
    """Axes may be split; they merge where a step in one is a round of the next."""
    if dimensions is not None or 0 in sizes:
        return None
    strides = [0] * len(sizes)
    for new, old in matched_axes(sizes, view.shape):
        step = merged_stride(view, old)
        if step is None:
            return None
        for d in reversed(new):
            strides[d], step = step, step * sizes[d]
    return Strided(view.base, sizes, tuple(strides), view.offset)


view_rules |= {
    prim.reshape_p: reshape_view,
    prim.squeeze_p: lambda view, sizes, **params: reshape_view(view, sizes),
    prim.copy_p: lambda view, sizes, **params: view,
}


def strided(walk, atom):
    """An operand as a view of the variable that its layout comes from."""
    chain = []
    while atom in walk.made_by and walk.made_by[atom].primitive in view_rules:
        chain.append(walk.made_by[atom])
        atom, = chain[-1].invars
    view = whole(walk, atom)
    for eqn in reversed(chain):
        result, = eqn.outvars
        rule = view_rules[eqn.primitive]
        is_array = isinstance(view.base, Var)
        moved = rule(view, result.aval.shape, **eqn.params) if is_array else None
        # What is no view starts anew, as a variable with a buffer of its own.
        view = whole(walk, result) if moved is None else moved
    return view


def whole(walk, atom):
    """All of a variable, wherever its elements are."""
    return walk.within[atom].view if atom in walk.within else whole_atom(atom)


operand_views |= {"strided": strided}


# The other way round: where the elements of an operand are in the result.


def undone(view, eqn):
    """The operand of a layout operation as a view of the result's memory, or None."""
    shape = eqn.invars[0].aval.shape
    if eqn.primitive is prim.transpose_p:
        order = eqn.params["permutation"]
        back = tuple(order.index(d) for d in range(len(order)))
        return transpose_view(view, shape, permutation=back)
    if keeps_order(eqn):
        return reshape_view(view, shape)
    return None


def keeps_order(eqn):
    """Whether a layout operation of one size keeps its elements in row-major order."""
    if eqn.primitive is prim.broadcast_in_dim_p:
        dims = eqn.params["broadcast_dimensions"]
        return list(dims) == sorted(dims)
    by_default = eqn.primitive is prim.reshape_p and eqn.params["dimensions"] is None
    return by_default or eqn.primitive in (prim.squeeze_p, prim.copy_p)


@dataclass(frozen=True)
class Within:
    """Where the elements of a variable are that has no buffer: in another one's.

    Attributes:
      view: all of the variable, as a `Strided` of that other one.
      chain: the layout equations from the variable to the other one, the last first.
    """

    view: Strided
    chain: tuple

    def index(self, index):
        """The index there of the element at an index of the variable."""
        for eqn in reversed(self.chain):
            x, = eqn.invars
            out, = eqn.outvars
            if eqn.primitive is prim.transpose_p:
                index = tuple(index[d] for d in eqn.params["permutation"])
            else:
                index = reshaped_index(index, x.aval.shape, out.aval.shape)
        return index


def order_in(group, index):
    """The axes of an array as the loops of a kernel go over them: outer ones first."""
    depths = {axis: depth for depth, axis in enumerate(group.nest)}
    if any(i.free and not isinstance(i, Axis) for i in index):
        return tuple(range(len(index)))
    # A loop for a total is inside the others.
    depth = lambda d: depths.get(index[d], len(depths)) if index[d].free else -1
    return tuple(sorted(range(len(index)), key=depth))


def in_asked_order(walk, out):
    """The `Within` of an array that is read in another order of its axes, or None."""
    readers = walk.readers[out].items()
    votes = Counter(order_in(g, index) for g, indices in readers for index in indices)
    order = max(votes, key=votes.get, default=None)
    if order is None or order == tuple(range(len(order))):
        return None
    shape = tuple(out.aval.shape[d] for d in order)
    target = Var(out.aval.update(shape=shape))
    moved = Eqn(prim.transpose_p, (out,), (target,), {"permutation": order})
    return Within(undone(whole_atom(target), moved), (moved,))


def answer_within(walk, var, within):
    """Answer what was asked of a variable by elements of the one it lies in."""
    base = within.view.base
    for group, indices in walk.readers.pop(var, {}).items():
        group.reads = group.reads - {var} | {base}
        for index in indices:
            expr = Operand(base)[within.index(index)]
            walk.answers[At(var, index)] = expr
            walk.ask([expr], group)
