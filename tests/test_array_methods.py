"""Operators, methods and properties of arrays, and `.at[...]`."""

import sys

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit import jit
from minijit.trace.core import Array, forwarded_names, operators

pytestmark = pytest.mark.chapter(16)

x = np.array([[1.0, -2.0, 3.5], [0.5, 2.0, -1.0]], np.float32)
y = np.array([2.0, 3.0, -1.0], np.float32)
j = np.array([3, 1, 2], np.int32)

def same(got, want):
    """Whether an array has NumPy's shape and values."""
    assert isinstance(got, Array)
    assert got.shape == np.shape(want)
    assert np.allclose(np.asarray(got), want, equal_nan=True)


def test_round_keeps_decimals():
    same(round(jnp.asarray(x * 1.11), 1), np.round(x * 1.11, 1))
    same(round(jnp.asarray(x)), np.round(x))


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8", "float16"])
def test_without_decimals_round_gives_integers(dtype):
    import jax

    for digits in ((), (None,), (0,)):
        ours, theirs = (
            round(one.asarray([0.5, 2.0, 3.5], dtype), *digits)
            for one in (jnp, jax.numpy)
        )
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()
    assert round(jnp.float32(2.7)).dtype == np.int32
    assert [10, 20, 30, 40][round(jnp.asarray(2.7))] == 40


def test_every_forwarded_operator_is_defined():
    assert set(forwarded_names) <= set(operators)
    assert set(operators) - set(dir(jnp.ones(2))) == set()


class Left:
    """A type that knows how to work with arrays."""

    def __radd__(self, other):
        return "mine"


def test_a_foreign_type_gets_its_turn():
    assert jnp.ones(3) + Left() == "mine"


@pytest.mark.parametrize("name, args", [
    ("sum", ()), ("sum", (0,)), ("prod", (1,)), ("max", ()), ("min", (0,)),
    ("mean", (1,)), ("std", ()), ("var", (0,)), ("any", ()), ("all", (1,)),
    ("argmax", ()), ("argmin", (1,)), ("cumsum", (1,)), ("cumprod", ()),
    ("ravel", ()), ("flatten", ()), ("squeeze", ()), ("transpose", ()),
    ("transpose", (1, 0)), ("transpose", ((1, 0),)), ("reshape", (3, 2)),
    ("reshape", ((3, 2),)), ("reshape", (-1,)), ("swapaxes", (0, 1)), ("round", ()),
    ("clip", (-1, 1)), ("conj", ()), ("diagonal", ()), ("diagonal", (-1,)),
    ("diagonal", (2,)), ("trace", ()), ("trace", (-1,)), ("repeat", (2,)),
    ("argsort", ()), ("nonzero", ()), ("take", (np.array([0, 5]),)), ("astype", (int,)),
    ("copy", ()), ("view", (np.int32,)), ("conjugate", ()), ("byteswap", ()),
    ("compress", (np.array([True, False]), 0)), ("dot", (y,)),
])  # fmt: skip
def test_methods_do_what_numpy_s_do(name, args):
    got = getattr(jnp.asarray(x), name)(*args)
    want = getattr(x, name)(*args)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (got, want)],
                    strict=True):  # fmt: skip
        same(a, b)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python asks only buffers of C")
def test_the_memory_is_read_without_a_copy():
    memory = memoryview(jnp.asarray(x))
    assert memory.readonly and memory.tolist() == x.tolist()
    assert bytes(jnp.asarray(j)) == bytes(j)


def test_methods_that_numpy_has_otherwise():
    same(jnp.asarray(x).ptp(), np.ptp(x))
    same(jnp.asarray(j).view(), j)
    same(jnp.asarray(x).sort(axis=0), np.sort(x, axis=0))
    same(jnp.asarray(y[::-1].copy()).searchsorted(0.0), np.searchsorted(y[::-1], 0.0))
    same(jnp.asarray(j).choose([y, -y, x[0], x[1]]), np.choose(j, [y, -y, x[0], x[1]]))
    same(jnp.asarray(y).argpartition(0)[:1], [2])


def test_arrays_unpack_into_rows():
    first, second = jnp.asarray(x)
    same(first, x[0])
    same(second, x[1])
    assert [float(v) for v in jnp.asarray(y)] == y.tolist()
    assert [float(v) for v in reversed(jnp.asarray(y))] == y[::-1].tolist()


def test_in_looks_for_a_value():
    assert 3.0 in jnp.asarray(y)
    assert 7.0 not in jnp.asarray(y)
    with pytest.raises(ValueError, match="one-dimensional"):
        _ = 1.0 in jnp.asarray(x)
    with pytest.raises(TypeError, match="unsupported operand type"):
        _ = None in jnp.asarray(y)


indices = [
    0, -1, slice(1, 3), slice(None, None, -1), (Ellipsis, 0), (None, 1), (0, 1),
    (slice(None), np.array([0, 2])), np.array([True, False]), np.array([[1], [0]]),
    (np.array([0, 1]), slice(None, None, 2)), (slice(0, 0),), (0, None, slice(1, None)),
    np.array([], np.int32), (x > 0),
]  # fmt: skip


updates = {
    "set": lambda a, k, v: a.__setitem__(k, v),
    "add": lambda a, k, v: np.add.at(a, k, v),
    "subtract": lambda a, k, v: np.subtract.at(a, k, v),
    "multiply": lambda a, k, v: np.multiply.at(a, k, v),
    "mul": lambda a, k, v: np.multiply.at(a, k, v),
    "divide": lambda a, k, v: np.divide.at(a, k, v),
    "power": lambda a, k, v: np.power.at(a, k, v),
    "min": lambda a, k, v: np.minimum.at(a, k, v),
    "max": lambda a, k, v: np.maximum.at(a, k, v),
}


@pytest.mark.parametrize("name", updates)
@pytest.mark.parametrize("index", indices, ids=str)
def test_at_updates_as_numpy(name, index):
    want = np.abs(x) if name == "power" else x.copy()
    before = jnp.asarray(want)
    updates[name](want, index, 2.0)
    same(getattr(before.at[index], name)(2.0), want)
    assert before.dtype == np.float32


def test_at_reads_and_applies():
    a = jnp.asarray(y)
    same(a.at[np.array([0, 9])].get(mode="fill", fill_value=7.0), [2.0, 7.0])
    assert np.isnan(np.asarray(a.at[9].get(mode="fill")))
    same(a.at[9].get(mode="clip"), -1.0)
    same(a.at[1:].apply(jnp.negative), [2.0, -3.0, 1.0])
    twice = lambda x: 2 * x + 1  # As often as an index is named, as NumPy's ufunc.at.
    i, found = jnp.array([0, 0, 1, 7]), [11.0, 7.0, -1.0]
    same(a.at[i].apply(twice), found)
    same(jit(lambda a, i: a.at[i].apply(twice))(a, i), found)
    same(a.at[jnp.array([0, 0])].apply(twice, unique_indices=True), [5.0, 3.0, -1.0])
    same(a.at[9].set(5.0), y)
    same(a.at[np.array([0, 0, 1])].add(1.0), [4.0, 4.0, -1.0])
    assert "Indexed" in repr(a.at[0])

