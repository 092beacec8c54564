"""Solutions to chapter 15."""

from functools import partial

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import make_jaxpr
from minijit.compile.loops.expressions import Axis, Load, as_index, op
from minijit.compile.loops.graphs import postorder, substitute
from minijit.compile.loops.index_rules import known
from minijit.compile.loops.statements import expressions
from minijit.compile.lower.walk import Elements, lower, lower_rules
from minijit.trace.array import eval_rules, on_numpy, shape_rules
from minijit.trace.core import Primitive
from minijit.transform.derivatives.linearize import linearize_rules
from minijit.transform.derivatives.transpose import adding, transpose_rules


def make_roll():
    roll_p = Primitive("roll")
    shape_rules[roll_p] = lambda x, *, shift: x
    eval_rules.update(on_numpy({roll_p: lambda x, *, shift: np.roll(x, shift, -1)}))

    def linearize(nonzero, x, **params):
        apply = partial(roll_p.bind, **params)
        return apply(x), apply

    def transpose(ct, x, *, shift):
        return (roll_p.bind(ct, shift=-shift),)

    def element(out, index, x, *, shift):
        size = x.shape[-1]
        moved = op("add", index[-1], as_index(-shift % size))
        return x[(*index[:-1], op("mod", moved, as_index(size)))]

    linearize_rules[roll_p] = linearize
    transpose_rules.update(adding({roll_p: transpose}))
    lower_rules[roll_p] = Elements(element, cost=0)
    return lambda x, shift: roll_p.bind(x, shift=shift)


def check_make_roll(make_roll):
    """Element i was element i - shift, counted in a circle of n elements."""
    roll = make_roll()
    x = jnp.arange(10.0).reshape(2, 5)
    for shift in (0, 2, -1, 7):
        assert np.array_equal(roll(x, shift), np.roll(x, shift, -1))
    weights = jnp.arange(5.0)
    gradient = mj.grad(lambda x: jnp.sum(roll(x, 2) * weights))(x)
    assert np.array_equal(gradient[0], np.roll(weights, -2))
    jaxpr = make_jaxpr(lambda x: jnp.sin(roll(x, -7)) * 2.0)(x)
    kernel, = lower(jaxpr).kernels
    assert [e.primitive.name for e in kernel.eqns] == ["roll", "sin", "mul"]
    load, = (e for e in postorder(expressions(kernel.body)) if type(e) is Load)
    row, column = (e for e in postorder([load]) if type(e) is Axis)

    def column_loaded(i):
        """The column of x that the kernel loads for column i of the result."""
        index = substitute(load.index, {row: as_index(1), column: as_index(i)}.get)
        return known(index[1])

    for i in range(5):
        assert column_loaded(i) == (i + 7) % 5
