"""Solutions to chapter 9."""

from functools import partial

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.array import eval_rules, shape_rules
from minijit.trace.core import Primitive
from minijit.transform.batching.vmap import batch_rules


def rotate_rule(primitive, lanes, axes, x, *, axis, shift):
    (lane_axis,) = axes
    axis = axis + (axis >= lane_axis)
    return primitive.bind(x, axis=axis, shift=shift), lane_axis


def check_rotate_rule(rotate_rule):
    """The axis of one lane counts on behind the lanes, which stay where they are."""
    rotate_p = Primitive("rotate")
    eval_rules[rotate_p] = lambda x, *, axis, shift: np.roll(x, shift, axis)
    shape_rules[rotate_p] = lambda x, *, axis, shift: x
    batch_rules[rotate_p] = partial(rotate_rule, rotate_p)
    x = jnp.arange(24.0).reshape(2, 3, 4)

    def in_lanes(lanes_on, axis):
        return mj.vmap(partial(rotate_p.bind, axis=axis, shift=1), lanes_on, lanes_on)

    def rotated(lanes_on, axis):
        return in_lanes(lanes_on, axis)(x)

    def equations(lanes_on, axis):
        program = mj.make_jaxpr(in_lanes(lanes_on, axis))(x)
        return [str(e.primitive) for e in program.eqns]

    for lanes_on in range(3):
        for axis in range(2):
            shifted = axis + (axis >= lanes_on)
            assert np.array_equal(rotated(lanes_on, axis), np.roll(x, 1, shifted))
            assert equations(lanes_on, axis) == ["rotate"]  # the lanes need not move
    f = partial(rotate_p.bind, axis=0, shift=2)
    twice = mj.vmap(mj.vmap(f))(x)
    assert np.array_equal(twice, np.roll(x, 2, 2))
