"""From a walk's groups to a program: buffers, loops, and an order.

    arrays = Arrays(walk, stored, consts)      # a buffer for each variable in memory
    arrays.buffers[var]                        # t0: f32[3,4]
    assemble(walk, consts, "main", notes)      # the `Program`
    with_own_results({ lambda ; a:f32[3]. let  in (a, a) })
    # { lambda ; a:f32[3]. let b:f32[3] = copy a; c:f32[3] = copy a in (b, c) }
"""

import itertools
import operator
from functools import partial, reduce

import numpy as np

from ...trace import primitives as prim
from ...trace.array import ShapedArray, to_numpy
from ...trace.jaxprs.jaxpr import Eqn, Literal, Var
from ..decisions import decisions_of, in_bounds, with_notes
from ..loops.buffers import Buffer
from ..loops.expressions import as_index, op
from ..loops.graphs import substitute
from ..loops.statements import Kernel, Program, after_pass, nested, program_expressions
from ..pipeline import expansions, other_walks, program_passes


class Arrays:
    """The buffers of a program's variables.

    Attributes:
      buffers: one for each variable that is in memory.
      constants: pairs (buffer, NumPy array).
      inputs, outputs, temps: as in `Program`.
      steps: {buffer of a constant that is in no memory: (first number, steps)}.
    """

    def __init__(self, walk, stored, consts):
        jaxpr = walk.jaxpr
        self.buffers, self.constants, self.steps = {}, [], {}
        self.add("in", jaxpr.invars)
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            if var in walk.readers:
                calls = any(group.make for group in walk.readers[var])
                buffer = self.constant(var, value)
                if not calls and (found := equal_steps(self.constants[-1][1])):
                    self.steps[buffer], _ = found, self.constants.pop()
        self.add("out", jaxpr.outvars)
        self.temps = self.add("t", stored)
        self.inputs = tuple(self.buffers[v] for v in jaxpr.invars)
        self.outputs = tuple(self.buffers[v] for v in jaxpr.outvars)

    def add(self, prefix, variables):
        """A buffer for each variable that has none: -> the new ones."""
        added = []
        for var in variables:
            if var not in self.buffers:
                name, aval = f"{prefix}{len(added)}", var.aval
                self.buffers[var] = Buffer(name, aval.shape, aval.dtype)
                added.append(self.buffers[var])
        return tuple(added)

    def constant(self, atom, value):
        """The buffer of a constant: a constvar's value, or a literal's."""
        if atom not in self.buffers:
            name, aval = f"c{len(self.constants)}", atom.aval
            self.buffers[atom] = Buffer(name, aval.shape, aval.dtype)
            pair = self.buffers[atom], constant_array(value, aval)
            self.constants.append(pair)
        return self.buffers[atom]


def equal_steps(array):
    """(the first one, the step along each axis) of integers that grow by equal steps,
    None of others.  Kernels compute such a constant, and know in which bounds it is."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize > 4 or not array.size:
        return None
    places = np.indices(array.shape, sparse=True)
    after = (array.take(min(1, p.size - 1), d).flat[0] for d, p in enumerate(places))
    first = int(array.flat[0])
    steps = [int(x) - first for x in after]
    equal = np.array_equal(array, sum(map(operator.mul, places, steps), first))
    return (first, steps) if equal else None


def with_own_results(jaxpr):
    """The jaxpr with a copy of each result that is an argument, constant or literal.

    Arrays are written to two places at once, but what is no array is made in one.
    """
    given = {*jaxpr.invars, *jaxpr.constvars}
    outvars, copies = [], []
    for atom in jaxpr.outvars:
        if isinstance(atom, Literal) or atom in given:
            copy = Var(atom.aval)
            copies.append(Eqn(prim.copy_p, (atom,), (copy,), {}))
            atom = copy
        elif not isinstance(atom.aval, ShapedArray):
            given.add(atom)
        outvars.append(atom)
    if not copies:
        return jaxpr
    return jaxpr.replace(eqns=(*jaxpr.eqns, *copies), outvars=tuple(outvars))


expansions |= {"with_own_results": with_own_results}


def expanded(jaxpr):
    """A jaxpr as it is lowered: other equations may take the place of some."""
    return expansions.through(jaxpr)


def constant_array(value, aval):
    """A constant as kernels take it: in row-major order, or an array of one object."""
    if isinstance(aval, ShapedArray):
        return np.asarray(to_numpy(value, aval), order="C")
    box = np.empty((), object)
    box[()] = value
    return box


def walked(walk, consts):
    """A walk that is over, and the values of its constants."""
    ways = (other(walk, consts) for other in other_walks.passes)
    found = next(filter(None, ways), None)
    if found is None:
        walk.run()
        found = walk, consts
    return found


def assemble(walk, consts, name, notes):
    """The program of a walk that is over; `notes` are of the rules that were asked."""
    stored = [v for v in walk.made_by if v in walk.stored]
    arrays = Arrays(walk, stored, consts)
    place = {eqn: i for i, eqn in enumerate(walk.made_by.values())}
    names, steps = (f"k{i}" for i in itertools.count()), {}
    for group in walk.groups.in_order():
        eqns = tuple(sorted(group.eqns, key=place.get))
        if group.make:
            steps[group] = group.make(arrays, eqns)
        else:
            nest = loop_nest(walk, group, arrays)
            steps[group] = Kernel(next(names), nest, eqns)
    program = Program(
        name=name,
        inputs=arrays.inputs,
        outputs=arrays.outputs,
        constants=tuple(arrays.constants),
        temps=arrays.temps,
        body=tuple(steps.values()),
        decisions=decisions_of(walk, steps),
        fallbacks=tuple(sorted(walk.fallbacks.items())),
    )
    program = program_passes.through(
        program, lambda change, p: in_bounds(change, p, program_expressions, *p.body)
    )
    for function in after_pass:
        function(program)
    return with_notes(program, notes)


def loop_nest(walk, group, arrays):
    """The stores of a group inside its loops, with an answer for each question."""
    known, buffers = {}, arrays.buffers

    def answer(expr):
        found = walk.answer(expr, group, buffers)
        if getattr(found, "buffer", None) not in arrays.steps:
            return found
        first, steps = arrays.steps[found.buffer]
        each = map(partial(op, "mul"), found.index, map(as_index, steps))
        place = reduce(partial(op, "add"), each, as_index(first))
        return op("convert", place, dtype=found.dtype)

    def answered(exprs):
        return substitute(exprs, answer, known)

    stores = reversed(group.stores)
    own = lambda buffer, index: (buffers.get(buffer, buffer), index)
    return nested(group.nest, [store.rewrite(answered, own) for store in stores])
