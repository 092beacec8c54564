"""Solutions to chapter 9."""

from functools import partial

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.array import eval_rules, shape_rules
from minijit.trace.core import Primitive
from minijit.transform.batching.vmap import batch_rules


def all_pairs(f):
    return mj.vmap(mj.vmap(f, in_axes=(None, 0)), in_axes=(0, None))


def check_all_pairs(all_pairs):
    """Two vmaps: the inner one holds x fixed with None, the outer one holds ys."""
    xs, ys = jnp.arange(3.0), jnp.arange(2.0) * 10.0
    got = all_pairs(lambda x, y: x - y)(xs, ys)
    assert got.shape == (3, 2)
    assert jnp.allclose(got, xs[:, None] - ys[None, :])
    a = jnp.arange(6.0).reshape(3, 2)
    assert jnp.allclose(all_pairs(jnp.dot)(a, a), a @ a.T)


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
    for lane_axis in range(3):
        for axis in range(2):
            f = partial(rotate_p.bind, axis=axis, shift=1)
            got = mj.vmap(f, lane_axis, lane_axis)(x)
            rolled = axis + (axis >= lane_axis)
            assert np.array_equal(got, np.roll(np.asarray(x), 1, rolled))
            jaxpr = mj.make_jaxpr(mj.vmap(f, lane_axis, lane_axis))(x)
            assert len(jaxpr.eqns) == 1, "the lanes need not move"
    f = partial(rotate_p.bind, axis=0, shift=2)
    got = mj.vmap(mj.vmap(f))(x)
    assert np.array_equal(got, np.roll(np.asarray(x), 2, 2))
