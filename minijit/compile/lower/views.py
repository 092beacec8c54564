"""Views: arrays that a call reads and writes where they are, in others' memory.

    strided(walk, atom)       # x.T[:, 2:]: x's memory, strides (1, 8), from 16 on

A transpose, a slice or a broadcast is no copy for a routine that is told strides: they
are read off the index at which its row asks for the operand's element.
"""

from collections import Counter
from dataclasses import dataclass

from ...trace import primitives as prim
from ...trace.jaxprs.jaxpr import Eqn, Var
from ..loops.buffers import View
from ..loops.expressions import Axis
from ..loops.index_rules import ONE, joined_digits, linear
from .calls import operand_views, whole_atom
from .elements import reshaped_index
from .walk import At, Operand, lower_rules

# Primitives that only move elements.
layouts = {
    prim.transpose_p, prim.slice_p, prim.broadcast_in_dim_p, prim.reshape_p,
    prim.squeeze_p, prim.copy_p,
}  # fmt: skip


def moved(view, shape, where):
    """A view of an array of another shape in the same memory, or None without strides.

    Args:
      where: function of an index of that array: the index of the view.
    """
    if 0 in shape:
        return None
    axes = tuple(map(Axis, shape))
    terms = joined_digits(linear(*zip(where(axes), view.strides, strict=True)))
    offset = view.offset + terms.pop(ONE, 0)
    if not terms.keys() <= {*axes}:
        return None
    # A step along an axis of one element means nothing.
    strides = tuple(1 if a.extent == 1 else terms.get(a, 0) for a in axes)
    return View(view.buffer, shape, strides, offset)


def moved_by(eqn, view):
    """The result of a layout operation as a view of its operand's memory, or None."""
    element = lambda index: lower_rules[eqn.primitive].at(eqn, index)
    return moved(view, eqn.outvars[0].aval.shape, lambda index: element(index).index)


def strided(walk, atom):
    """An operand as a view of the variable that its layout comes from."""
    chain = []
    while atom in walk.made_by and walk.made_by[atom].primitive in layouts:
        chain.append(walk.made_by[atom])
        atom, = chain[-1].invars
    view = whole(walk, atom)
    for eqn in reversed(chain):
        view = isinstance(view.buffer, Var) and moved_by(eqn, view)
        # What is no view starts anew, as a variable with a buffer of its own.
        view = view or whole(walk, *eqn.outvars)
    return view


def whole(walk, atom):
    """All of a variable, wherever its elements are."""
    return walk.within[atom].view if atom in walk.within else whole_atom(atom)


operand_views |= {"strided": strided}


# The other way round: where the elements of an operand are in the result.


def undone(view, eqn):
    """The operand of a layout operation as a view of the result's memory, or None."""
    x, = eqn.invars
    if eqn.primitive is not prim.transpose_p and not keeps_order(eqn):
        return None
    return moved(view, x.aval.shape, lambda index: place_in_result(eqn, index))


def keeps_order(eqn):
    """Whether a layout operation of one size keeps its elements in row-major order."""
    if eqn.primitive is prim.broadcast_in_dim_p:
        dims = eqn.params["broadcast_dimensions"]
        return list(dims) == sorted(dims)
    by_default = eqn.primitive is prim.reshape_p and eqn.params["dimensions"] is None
    return by_default or eqn.primitive in (prim.squeeze_p, prim.copy_p)


def place_in_result(eqn, index):
    """The index in a layout operation's result of the element at one of its operand."""
    if eqn.primitive is prim.transpose_p:
        return tuple(index[d] for d in eqn.params["permutation"])
    (x,), (out,) = eqn.invars, eqn.outvars
    return reshaped_index(index, x.aval.shape, out.aval.shape)


@dataclass(frozen=True)
class Within:
    """Where the elements of a variable are that has no buffer: in another one's.

    Attributes:
      view: all of the variable, as a `View` of that other one.
      chain: the layout equations from the variable to the other one, the last first.
    """

    view: View
    chain: tuple

    def index(self, index):
        """The index there of the element at an index of the variable."""
        for eqn in reversed(self.chain):
            index = place_in_result(eqn, index)
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
    base = within.view.buffer
    for group, indices in walk.readers.pop(var, {}).items():
        group.reads = group.reads - {var} | {base}
        for index in indices:
            expr = Operand(base)[within.index(index)]
            walk.answers[At(var, index)] = expr
            walk.ask([expr], group)
