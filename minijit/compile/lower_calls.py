"""Calls: what a program asks of routines, and of other programs.

    c = matmul(a, b)            the BLAS, by np.matmul, on strided views
    c = program[inner](a)       an inner jitted function, lowered once
    c = eval[sort](a)           a primitive's eval rule: runs uncompiled

A call takes arrays and not elements, so that its operands are materialised; but a
transpose, a slice or a broadcast of an operand is no copy, only other strides.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..trace import primitives as prim
from ..trace.jaxpr import Eqn, Var
from ..trace.jit import jit_p
from .loops import Call, expressions
from .lower import Statements, fallbacks, lower, lower_rules, row_choosers, row_of
from .memory import View
from .scalars import FLOAT32
from .shapes import matched_axes, row_major

view_rules = {}


@dataclass(frozen=True)
class Strided:
    """Elements of a variable (or the one of a literal) as NumPy would stride them."""

    base: object
    shape: tuple
    strides: tuple
    offset: int = 0


def whole_atom(atom):
    """All of a variable or literal as a view."""
    return Strided(atom, atom.aval.shape, row_major(atom.aval.shape))


def add_call(walk, eqn, routine, inputs, attrs, results=None):
    """Have a call make all results of an equation.

    Args:
      inputs: for each input a `Strided`.
      results: for each result a `Strided`, if it is not simply all of it.
    """
    group, inputs = walk.groups.new(), tuple(inputs)
    results = map(whole_atom, eqn.outvars) if results is None else results
    group.make = partial(make_call, routine, inputs, tuple(results), attrs)
    group.eqns[eqn] = None
    for view in inputs:
        if isinstance(view.base, Var):
            walk.readers[view.base].setdefault(group, {})
            walk.stored.setdefault(view.base, ("call", f"{routine} reads it"))
    for var in eqn.outvars:
        walk.stored.setdefault(var, ("call", f"{routine} writes it"))
        walk.groups.precede(group, walk.readers[var])


def make_call(routine, inputs, results, attrs, arrays, eqns):
    """The `Call`, once every variable has its buffer."""
    views = [[as_view(arrays, s) for s in side] for side in (inputs, results)]
    return Call(routine, *map(tuple, views), attrs, eqns)


def as_view(arrays, strided):
    """A `Strided` of a variable as a `View` of its buffer; a literal gets a buffer."""
    base = strided.base
    buffer = arrays.buffers.get(base) or arrays.constant(base, base.val)
    return View(buffer, strided.shape, strided.strides, strided.offset)


def add_nest(walk, eqn, var, statement, axes):
    """A kernel of its own that stores into a variable, maybe after others have.

    Args:
      var: the variable; who reads it waits for this kernel.
      statement: with variables in place of buffers.
      axes: of the loops around it, from the outermost one.
    """
    group = walk.groups.new(axes)
    walk.stored.setdefault(var, ("root", f"{eqn.primitive} writes to a copy"))
    readers = walk.readers.pop(var, {})
    group.stores.append(statement)
    fill(walk, group, eqn, readers, walk.estimates.read_by(eqn))
    # Whatever stores the variable before this has to know that this comes after.
    walk.readers[var] = {group: {}}


def fill(walk, group, eqn, readers, reads):
    """Ask for what a group's statements need, and let it run before its readers."""
    group.eqns[eqn] = None
    group.reads = reads
    walk.ask(expressions(group.stores), group)
    walk.groups.precede(group, readers)


def strided(walk, atom):
    """An operand as a strided view of the variable that its layout comes from."""
    chain = []
    while atom in walk.made_by and walk.made_by[atom].primitive in view_rules:
        chain.append(walk.made_by[atom])
        atom, = chain[-1].invars
    view = whole_atom(atom)
    for eqn in reversed(chain):
        result, = eqn.outvars
        rule = view_rules[eqn.primitive]
        is_array = isinstance(view.base, Var)
        moved = rule(view, result.aval.shape, **eqn.params) if is_array else None
        # What is no view starts anew, as a variable with a buffer of its own.
        view = whole_atom(result) if moved is None else moved
    return view


# Views: the layout operations that a `Call` needs no copy for.


def transpose_view(view, sizes, *, permutation):
    strides = tuple(view.strides[d] for d in permutation)
    return Strided(view.base, sizes, strides, view.offset)


def squeeze_view(view, sizes, *, dimensions):
    strides = tuple(s for d, s in enumerate(view.strides) if d not in dimensions)
    return Strided(view.base, sizes, strides, view.offset)


def broadcast_view(view, sizes, *, broadcast_dimensions, **params):
    strides = [0] * len(sizes)
    for d, size, stride in zip(
        broadcast_dimensions, view.shape, view.strides, strict=True
    ):
        strides[d] = stride if size > 1 else 0
    return Strided(view.base, sizes, tuple(strides), view.offset)


def slice_view(view, sizes, *, start_indices, limit_indices, strides):
    steps = strides or (1,) * len(sizes)
    offset = sum(n * s for n, s in zip(start_indices, view.strides, strict=True))
    strides = tuple(n * s for n, s in zip(steps, view.strides, strict=True))
    return Strided(view.base, sizes, strides, view.offset + offset)


def reshape_view(view, sizes, *, new_sizes, dimensions):
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


def merged_stride(view, axes):
    """The stride of neighbouring axes of a view taken as one, or None."""
    axes = [d for d in axes if view.shape[d] > 1]
    for d, e in zip(axes, axes[1:], strict=False):
        if view.strides[d] != view.strides[e] * view.shape[e]:
            return None
    return view.strides[axes[-1]] if axes else 1


view_rules |= {
    prim.transpose_p: transpose_view,
    prim.squeeze_p: squeeze_view,
    prim.broadcast_in_dim_p: broadcast_view,
    prim.slice_p: slice_view,
    prim.reshape_p: reshape_view,
}


# Matrix products: a call of a routine on views where it is one, a sum of products else.

SMALL_PRODUCT = 512


def dot_dims(eqn):
    """The axes of both operands: (batch, free, contracted) of lhs, the same of rhs."""
    contract, batch = eqn.params["dimension_numbers"]
    both = []
    for x, c, b in zip(eqn.invars, contract, batch, strict=True):
        free = tuple(d for d in range(x.aval.ndim) if d not in c + b)
        both.append((tuple(b), free, tuple(c)))
    return both


def product(eqn):
    """The row of a product of float matrices that is not tiny, or None."""
    if eqn.primitive is not prim.dot_general_p:
        return None
    (lhs, rhs), (out,) = eqn.invars, eqn.outvars
    _, _, contract = dot_dims(eqn)[0]
    flops = out.aval.size * math.prod(lhs.aval.shape[d] for d in contract)
    same = lhs.aval.dtype == rhs.aval.dtype == out.aval.dtype
    plain = same and out.aval.dtype in (FLOAT32, np.float64)
    call = plain and dot_dims(eqn)[1][2] and flops > SMALL_PRODUCT
    return Statements(lower_product) if call else None


row_choosers.append(product)


def lower_product(walk, eqn):
    """A product as a call of `matmul` on views of both operands and of the result."""
    lhs, rhs = eqn.invars
    out, = eqn.outvars
    dims, (batch, free, contract) = dot_dims(eqn)
    left, packed_left = matrix(walk, lhs, dims)
    right, packed_right = matrix(walk, rhs, (batch, contract, free))
    shape = (*left.shape[:-1], right.shape[-1])
    result = Strided(out, shape, row_major(shape))
    add_call(walk, eqn, "matmul", [left, right], {}, [result])
    for copy in (*packed_left, *packed_right):
        row_of(copy).lower(walk, copy)


def matrix(walk, atom, dims):
    """An operand as a view with its batch axes, one axis of rows and one of columns.

    Args:
      dims: its axes: (batch, those that make the rows, those that make the columns).

    Returns:
      (view, equations of the copy it needs: none, or one).
    """
    view = strided(walk, atom)
    if None not in (merged_stride(view, group) for group in dims[1:]):
        return matrix_of(view, dims), ()
    order = tuple(d for group in dims for d in group)
    copy = Var(atom.aval.update(shape=tuple(atom.aval.shape[d] for d in order)))
    packing = Eqn(prim.transpose_p, (atom,), (copy,), {"permutation": order})
    walk.made_by[copy] = packing
    walk.stored[copy] = ("layout", "a matrix product needs it in another order")
    places = iter(range(len(order)))
    dims = [[next(places) for _ in group] for group in dims]
    return matrix_of(whole_atom(copy), dims), (packing,)


def matrix_of(view, dims):
    """A view with its axes in three groups, each of the last two merged into one."""
    batch, *groups = dims
    sizes = [math.prod(view.shape[d] for d in group) for group in groups]
    steps = [merged_stride(view, group) for group in groups]
    shape = (*(view.shape[d] for d in batch), *sizes)
    strides = (*(view.strides[d] for d in batch), *steps)
    return Strided(view.base, shape, strides, view.offset)


def call_eval(walk, eqn, reason):
    """A call of the primitive's eval rule, on NumPy arrays: runs uncompiled."""
    walk.fallbacks[eqn.primitive.name] = reason
    attrs = {"primitive": eqn.primitive, "params": eqn.params}
    inputs = [strided(walk, atom) for atom in eqn.invars]
    add_call(walk, eqn, "eval", inputs, attrs)


def uncompiled(eqn):
    """The row of an equation that runs uncompiled, or None."""
    reason = fallbacks.get(eqn.primitive)
    if reason is None and eqn.primitive is not jit_p:
        atoms = (*eqn.invars, *eqn.outvars)
        kinds = {atom.aval.dtype.kind for atom in atoms}
        if "c" in kinds:
            reason = "complex numbers are left to NumPy"
        if "O" in kinds:
            reason = "tapes and unions are left to Python"
    return reason and Statements(partial(call_eval, reason=reason))


row_choosers.append(uncompiled)


def lower_jit(walk, eqn):
    """A call of an inner jitted function's program."""
    call_program(walk, eqn, eqn.params["jaxpr"], eqn.params["name"])


def call_program(walk, eqn, closed, name):
    """A call of a function's program, lowered once for all its calls."""
    if closed not in walk.programs:
        inner = lower(closed, name, walk.policy, walk.programs)
        distinct = len(set(inner.outputs)) == len(inner.outputs)
        walk.programs[closed] = replace(inner, inner=distinct)
    program = walk.programs[closed]
    walk.fallbacks |= dict(program.fallbacks)
    add_call(walk, eqn, "program", map(whole_atom, eqn.invars), {"program": program})


lower_rules[jit_p] = Statements(lower_jit)
