"""Methods of ufuncs are NumPy's: reduce, accumulate, at, outer, reduceat."""

from functools import partial

import numpy as np
import pytest
from harness import alike, refused

import minijit as mj
import minijit.numpy as jnp
from minijit.numpy import namespace

pytestmark = pytest.mark.chapter(16)

floats = np.array([[0.5, -1.5, 2, 0], [3, 1, -0.25, 1], [0.5, 2, 4, -1]], np.float32)
whole = np.array([[5, 1, 7, 2], [3, 3, 6, 4], [9, 0, 2, 8]], np.int32)
index = np.array([0, 2, 2])


same = partial(alike, rtol=2e-6)


@pytest.mark.parametrize("name", namespace.ufuncs[2])
def test_methods_are_numpy_s(name):
    x = whole if name.startswith("bitwise") else floats
    ours, theirs = getattr(jnp, name), getattr(np, name)
    assert ours.nin == 2 and ours.nargs == 2
    for axis in 0, 1:
        same(ours.reduce(x, axis=axis), theirs.reduce(x, axis=axis))
        same(ours.accumulate(x, axis=axis), theirs.accumulate(x, axis=axis))
    same(ours.reduce(x, keepdims=True), theirs.reduce(x, keepdims=True))
    options = {"initial": 1, "where": x > 0.5}
    if not name.startswith("logical"):
        same(ours.reduce(x, **options), theirs.reduce(x, **options))
        same(ours.reduceat(x, index[:2], 1), theirs.reduceat(x, index[:2], 1))
    same(ours.outer(x, x[0]), theirs.outer(x, x[0]))
    if not name.startswith("logical"):
        changed = x.copy()
        theirs.at(changed, index, x[1])
        same(ours.at(x, index, x[1], inplace=False), changed)


def test_methods_under_every_transformation():
    f = jnp.logaddexp.reduce
    same(mj.jit(f)(floats), f(floats))
    same(mj.vmap(f)(floats), f(floats, axis=1))
    slope = mj.grad(lambda x: f(x))(floats[0])
    same(slope, np.exp(floats[0]) / np.exp(floats[0]).sum())
    changed = floats.copy()
    np.negative.at(changed, index)
    same(jnp.negative.at(floats, index, inplace=False), changed)


def test_functions_of_one_s_own():
    own = jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1)
    theirs = np.frompyfunc(lambda x, y: np.float32(x * y + 1), 2, 1)
    same(own(floats, floats[0]), theirs(floats, floats[0]).astype("f4"))
    same(own.reduce(floats, axis=None), np.float32(theirs.reduce(floats.ravel())))
    same(own.accumulate(floats), theirs.accumulate(floats).astype("f4"))
    assert isinstance(jnp.add, jnp.ufunc) and not isinstance(jnp.sort, jnp.ufunc)
    assert isinstance(own, jnp.ufunc) and own.identity is None and own.nout == 1


def test_what_is_refused():
    one = jnp.frompyfunc(jnp.sin, 1, 1)
    refused(ValueError, "binary ufuncs", one.reduce, floats)
    refused(TypeError, "takes 1 arguments, got 2", one, floats, floats)
    refused(NotImplementedError, "inplace=False", jnp.add.at, floats, index, 1.0)
    with pytest.raises(ValueError, match="no identity"):
        jnp.subtract.reduce(np.zeros((0, 2), np.float32))
    with pytest.raises(ValueError, match="specify 'initial'"):
        jnp.subtract.reduce(floats, where=floats > 0)
