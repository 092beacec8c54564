"""Solutions to chapter 14."""

import numpy as np

import minijit.numpy as jnp
from minijit import make_jaxpr
from minijit.compile.expressions import (
    Axis,
    Load,
    as_index,
    known,
    op,
    postorder,
    substitute,
)
from minijit.compile.inlining import policies
from minijit.compile.loops import expressions
from minijit.compile.lower import Operand, lower
from minijit.trace.array import ShapedArray
from minijit.trace.jaxpr import Var


def reverse(out, index, x, *, dimensions):
    return x[tuple(
        op("sub", as_index(n - 1), i) if d in dimensions else i
        for d, (i, n) in enumerate(zip(index, x.shape, strict=True))
    )]


def check_reverse(reverse):
    """The first element of a reversed axis of n elements is the one at n - 1."""
    aval = ShapedArray((3, 4), np.dtype("float32"))
    i, j = Axis(3), Axis(4)
    question = reverse(aval, (i, j), Operand(Var(aval)), dimensions=(1,))
    for m in range(3):
        for n in range(4):
            values = {i: as_index(m), j: as_index(n)}
            found = substitute(question.index, values.get)
            assert [known(e) for e in found] == [m, 3 - n]


def count_loads(kernel):
    return sum(isinstance(e, Load) for e in postorder(expressions(kernel.body)))


def check_count_loads(count_loads):
    """`expressions` finds the roots in some statements, `postorder` all their parts."""

    def count(function):
        kernel, = lower(make_jaxpr(function)(np.ones((4, 4), np.float32))).kernels
        return count_loads(kernel)

    assert count(lambda x: jnp.sin(x) + x) == 1
    assert count(lambda x: x + x.T) == 2
    assert count(lambda x: x[0] * x[0] + x[1]) == 2
    assert count(lambda x: jnp.zeros(3)) == 0


def eager_policy(value):
    return None if value.cost == 0 else ("eager", "NumPy does it so")


def check_eager_policy(eager_policy):
    """`value.cost` is all there is to look at."""

    def softmax(x):
        e = jnp.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    policies["eager"] = eager_policy
    try:
        jaxpr = make_jaxpr(softmax)(np.ones((4, 8), np.float32))
        program = lower(jaxpr, policy="eager")
        shifted = lower(make_jaxpr(lambda x: -x.T.T)(np.ones((2, 3))), policy="eager")
    finally:
        del policies["eager"]
    names = [cut.producer.primitive.name for cut in program.cuts]
    assert names == ["reduce_max", "sub", "exp", "reduce_sum"]
    assert not shifted.cuts
