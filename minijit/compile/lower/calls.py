"""Calls: what a program asks of routines, and of other programs.

    c = program[inner](a)       an inner jitted function, lowered once
    c = eval[sort](a)           a primitive's eval rule: runs uncompiled

A call takes arrays and not elements, so that its operands are materialised.
"""

from dataclasses import replace
from functools import partial

from ...trace.jaxprs.jaxpr import Var
from ...trace.jit.jit import jit_p
from ..loops.buffers import View
from ..loops.statements import Call, expressions
from ..pipeline import row_choosers
from ..simplify.shapes import row_major
from .walk import Statements, fallbacks, lower, lower_rules, row_of


def whole_atom(atom):
    """All of a variable or literal as a `View`, until there are buffers."""
    return View(atom, atom.aval.shape, row_major(atom.aval.shape))


# How a routine that knows strides takes an operand: (walk, atom) -> `View`.
operand_views = {"strided": lambda walk, atom: whole_atom(atom)}


def add_call(walk, eqns, routine, inputs, attrs, results=None):
    """Have a call make all results of the last one of some equations.

    Args:
      inputs: for each input a `View` of a variable.
      results: for each result a `View`, if it is not simply all of it.
    """
    group, inputs = walk.groups.new(), tuple(inputs)
    results = results or tuple(map(whole_atom, eqns[-1].outvars))
    group.make = partial(make_call, routine, inputs, results, attrs)
    group.eqns |= dict.fromkeys(eqns)
    for view in inputs:
        if isinstance(view.buffer, Var):
            walk.readers[view.buffer].setdefault(group, {})
            walk.stored.setdefault(view.buffer, ("call", f"{routine} reads it"))
    for var in (view.buffer for view in results):
        walk.stored.setdefault(var, ("call", f"{routine} writes it"))
        walk.groups.precede(group, walk.readers[var])


def make_call(routine, inputs, results, attrs, arrays, eqns):
    """The `Call`, once every variable has its buffer."""
    views = [[as_view(arrays, s) for s in side] for side in (inputs, results)]
    return Call(routine, *map(tuple, views), attrs, eqns)


def as_view(arrays, view):
    """A view of a variable as one of its buffer; a literal gets a buffer."""
    atom = view.buffer
    buffer = arrays.buffers.get(atom) or arrays.constant(atom, atom.val)
    return replace(view, buffer=buffer)


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


def call_eval(walk, eqn, reason):
    """A call of the primitive's eval rule, on NumPy arrays: runs uncompiled."""
    walk.fallbacks[eqn.primitive.name] = reason
    attrs = {"primitive": eqn.primitive, "params": eqn.params}
    inputs = [operand_views["strided"](walk, atom) for atom in eqn.invars]
    add_call(walk, [eqn], "eval", inputs, attrs)


# kind of a dtype -> function of an equation with values of that kind: why it runs
# uncompiled, or None.  The next chapter has complex numbers in loops.
numbers_left = {
    "c": lambda eqn: "complex numbers are left to NumPy",
    "O": lambda eqn: "tapes and unions are left to Python",
}


def uncompiled(eqn):
    """The row of an equation that runs uncompiled, or None."""
    reason = fallbacks.get(eqn.primitive)
    if reason is None and eqn.primitive is not jit_p:
        atoms = (*eqn.invars, *eqn.outvars)
        kinds = {atom.aval.dtype.kind for atom in atoms}
        why = (numbers_left[kind](eqn) for kind in numbers_left if kind in kinds)
        reason = next(filter(None, why), None)
    return reason and Statements(partial(call_eval, reason=reason))


row_choosers |= {"uncompiled": uncompiled}


def runs_uncompiled(eqn):
    """Whether no other row takes an equation before `uncompiled` does."""
    row = row_of(eqn)
    return isinstance(row, Statements) and getattr(row.lower, "func", 0) is call_eval


def lower_jit(walk, eqn):
    """A call of an inner jitted function's program."""
    call_program(walk, eqn, eqn.params["jaxpr"], eqn.params["name"])


def call_program(walk, eqn, closed, name):
    """A call of a function's program, lowered once for all its calls."""
    program = walk.programs.get(closed)
    if program is None:
        inner = lower(closed, name, walk.programs)
        distinct = len(set(inner.outputs)) == len(inner.outputs)
        program = walk.programs[closed] = replace(inner, inner=distinct)
    walk.fallbacks |= dict(program.fallbacks)
    add_call(walk, [eqn], "program", map(whole_atom, eqn.invars), {"program": program})


lower_rules[jit_p] = Statements(lower_jit)
