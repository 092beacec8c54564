"""Floats of 8 bits and fewer and integers of 4 and fewer: stored, and NumPy's."""

import numpy as np
import pytest

import minijit as mj
from minijit import lax, numpy as jnp
from minijit.ops.narrow_dtypes import narrow

pytestmark = pytest.mark.chapter(16)

beyond = [1e9, -1e9, np.inf, -np.inf, 7.5, -8.5, 100.0, -0.0]
numbers = np.array([*np.random.default_rng(0).normal(size=40) * 5, *beyond], "float32")
small = jnp.array([0.1, 3.0, 1000.0, -2.0], jnp.float8_e4m3fn)
common = ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"]


@pytest.mark.oracle
@pytest.mark.parametrize("name", narrow)
def test_conversions_are_jax_s(name):
    jax = pytest.importorskip("jax")
    for given in (numbers, np.arange(-20, 21)):
        wanted = jax.numpy.asarray(given).astype(name).astype("float32")
        found = jnp.asarray(given).astype(name).astype("float32")
        np.testing.assert_array_equal(found, wanted)


operations = {
    "sum": lambda m, x: x + x,
    "product": lambda m, x: x * 3,
    "quotient": lambda m, x: x // 3 if m.issubdtype(x.dtype, m.integer) else x / 3,
    "remainder": lambda m, x: x % 3,
    "comparison": lambda m, x: x > 1,
    "choice": lambda m, x: m.where(x > 0, x, 0),
    "order": lambda m, x: m.sort(x[:20]),
    "maximum": lambda m, x: x[:6].max(),
    "row": lambda m, x: x[np.array([1, 5])],
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", common)
def test_operations_are_jax_s(name):
    jax = pytest.importorskip("jax")
    for label, f in operations.items():
        wanted = f(jax.numpy, jax.numpy.asarray(numbers).astype(name))
        found = f(jnp, jnp.asarray(numbers).astype(name))
        assert found.dtype == wanted.dtype, label
        wide = np.asarray(wanted).astype("float32")
        np.testing.assert_array_equal(np.asarray(found).astype("float32"), wide, label)


@pytest.mark.oracle
@pytest.mark.parametrize("apply", [lambda m, f: f, lambda m, f: m.jit(f)])
def test_bits_of_less_than_a_byte_are_jax_s(apply):
    jax = pytest.importorskip("jax")
    n = np.array([1, 0, 3, 5, 2])
    ways = [
        lambda m, x, n: (x >> n, x << n),
        lambda m, x, n: m.lax.shift_right_logical(x, n),
        lambda m, x, n: m.lax.shift_right_arithmetic(x, n),
        lambda m, x, n: m.lax.clz(m.numpy.abs(x.astype("int8")).astype(x.dtype)),
        lambda m, x, n: m.numpy.arange(1, 6, dtype=x.dtype) + x,
    ]
    for way in ways:
        wanted, found = [
            apply(m, lambda x, n, m=m, way=way: way(m, x, n))(
                m.numpy.array([-7, 7, -8, 3, -1]).astype("int4"),
                m.numpy.asarray(n).astype("int4"),
            )
            for m in (jax, mj)
        ]
        for x, y in zip(jax.tree.leaves(wanted), mj.tree.leaves(found), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert (jnp.array([15, 8], "uint4") >> 1).tolist() == [7, 4]
    assert lax.population_count(jnp.array([-1, 7], "int4")).tolist() == [4, 3]


def test_they_are_stored_in_a_byte_and_printed():
    assert small.nbytes == 4 and small.dtype == jnp.float8_e4m3fn
    assert repr(small) == "Array([0.101562, 3, nan, -2], dtype=float8_e4m3fn)"
    assert jnp.int4(3) + 5 == -8 and jnp.iinfo(jnp.int4).max == 7
    jaxpr = mj.make_jaxpr(lambda x: x.astype("float32"))(small)
    assert "a:f8_e4m3fn[4]" in str(jaxpr)
    assert np.array_equal(small.view("uint8"), np.asarray(small).view("uint8"))


def test_they_are_not_promoted():
    with pytest.raises(ValueError, match=r"float32, float8_e4m3fn\) have no .* path"):
        small + jnp.ones(4)
    with pytest.raises(mj.dtypes.TypePromotionError, match="int4, int8"):
        jnp.int4(1) + jnp.int8(1)
    assert (small * 2.0).dtype == small.dtype and (jnp.int4(1) + 1).dtype == jnp.int4


@pytest.mark.parametrize("name", narrow)
def test_loops_carry_and_collect_them_as_they_are(name):
    # A float8 was stored as a float64, over the seven numbers behind it.
    rows = np.arange(21).reshape(3, 7).astype(narrow[name].dtype)
    one = np.ones((), rows.dtype)

    def f(rows):
        step = lambda c, row: ((row, rows[0, 1]), c)
        return lax.scan(step, (rows[2], jnp.asarray(one)), rows)

    ys = rows[[2, 0, 1]], np.array([one, rows[0, 1], rows[0, 1]])
    for got, want in zip(
        mj.tree.leaves(mj.jit(f)(rows)), (rows[2], rows[0, 1], *ys), strict=True
    ):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(got).view("u1"), want.view("u1"))


def test_views_pack_them():
    """Two elements of int4 are a byte, four of int2; the first has its lowest bits."""
    x = jnp.array([1, -2, 7, -8, 0, 3, -1, 5], "int4")
    wanted = np.array([0xE1, 0x87, 0x30, 0x5F], np.uint8)
    as_dtype = lambda x, dtype: x.view(dtype)
    for view in (as_dtype, mj.jit(as_dtype, static_argnums=1)):
        assert view(x, "uint8").tolist() == wanted.tolist()
        assert view(x, "float32").tolist() == wanted.view(np.float32).tolist()
        assert view(view(x, "float32"), "int4").tolist() == x.tolist()
        assert view(x, "uint4").tolist() == [1, 14, 7, 8, 0, 3, 15, 5]
        assert view(jnp.array([0b11100100], "uint8"), "uint2").tolist() == [0, 1, 2, 3]
