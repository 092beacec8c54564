"""Running totals, windows and convolution: their loops, their errors, and JAX."""

import random
from functools import partial

import numpy as np
import pytest
from harness import alike, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.ops import convolution
from minijit.trace.array import wrap
from minijit.trace.numpy_values import lowest

pytestmark = pytest.mark.chapter(16)


def integers(rng, shape, dtype=np.float32):
    """Small whole numbers, whose sums and products are exact."""
    values = [rng.randint(-4, 4) for _ in range(int(np.prod(shape)))]
    return np.array(values).reshape(shape).astype(dtype)


same = partial(alike, rtol=1e-6)


@pytest.mark.chapter(20)
@pytest.mark.parametrize("stride, stored", [(1, (66, 66)), (2, (64, 64))])
def test_only_windows_side_by_side_are_of_a_padded_array(stride, stored):
    f = lambda x: lax.reduce_window(
        lax.sin(x), 0.0, lax.add, (3, 3), (stride,) * 2, ((1, 1), (1, 1))
    )
    first, _ = mj.explain(mj.jit(f, backend="plain"), np.ones((64, 64), "f4")).steps
    assert [use.buffer.shape for use in first.writes] == [stored]


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n, taps, mode, asks", [
    (2000, 101, "same", False), (2000, 30, "full", False), (20, 3, "same", True),
])
def test_long_sums_of_a_convolution_are_of_a_padded_array(n, taps, mode, asks):
    """Each term asked whether its element is there: 16 times as long."""
    x, h = (np.arange(n) % 7 - 3).astype("f4"), (np.arange(taps) % 5 - 2).astype("f4")
    f = mj.jit(lambda x, h: jnp.convolve(x, h, mode=mode))
    assert (" if " in f.lower(x, h).compile().as_text()) == asks
    same(f(x, h), np.convolve(x, h, mode))
    y = f(x, h)
    wanted = [np.convolve(x, e, mode) @ y for e in np.eye(taps, dtype="f4")]
    same(mj.grad(lambda h: (f(x, h) * y).sum())(h), np.array(wanted))


@pytest.mark.chapter(24)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_windows_that_hang_over_are_of_a_padded_array(dtype):
    """Loops were cut wherever an element of a window is no longer there, or not cut."""
    x = np.random.default_rng(0).integers(0, 9, (40, 50))
    x = wrap(x.astype("float32")).astype(dtype)
    low = lowest(x.dtype)
    f = lambda x: lax.reduce_window(x, low, lax.max, (5, 4), (1, 1), "SAME")
    text = mj.jit(f).lower(x).compile().as_text()
    assert "maximum(minimum(" not in text
    assert " if " not in text
    same(mj.jit(f)(x), f(x), dtype)


@pytest.mark.parametrize("size, dilation", [(3, 1), (20, 1), (70, 1), (9, 2)])
def test_the_first_of_equal_elements_has_the_gradient(size, dilation):
    """Long rows are rows of shorter ones, which lie over each other."""
    x, low = np.arange(150.0, dtype="f4") * 7 % 11, size // 2
    f = lambda x: lax.reduce_window(
        x, -np.inf, lax.max, (size,), (3,), [(low, low)], window_dilation=(dilation,)
    )
    rows = np.pad(np.arange(150), low, constant_values=-1)
    rows = [rows[k : k + size * dilation : dilation] for k in range(0, len(rows), 3)]
    rows, wanted = rows[: f(x).size], np.zeros(150, "f4")
    for k, row in enumerate(rows):
        wanted[row[np.where(row < 0, -np.inf, x[row]).argmax()]] += k
    found, = mj.vjp(mj.jit(f), x)[1](np.arange(len(rows), dtype="f4"))
    same(found, wanted)


def test_padding_by_name():
    assert lax.padtype_to_pads((7, 8), (3, 4), (2, 3), "SAME") == [(1, 1), (1, 1)]
    assert lax.padtype_to_pads((6,), (3,), (2,), "SAME") == [(0, 1)]
    assert lax.padtype_to_pads((6,), (3,), (2,), "same_lower") == [(1, 0)]
    assert lax.padtype_to_pads((6,), (3,), (2,), "VALID") == [(0, 0)]


def test_bad_windows():
    x = wrap(np.zeros((3, 4), np.float32))
    refused(ValueError, "one entry for each", lax.reduce_window, x, 0.0, lax.add, (2,))
    with pytest.raises(ValueError, match="strides and dilations positive"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2), window_dilation=(0, 1))
    with pytest.raises(ValueError, match=r"strides must be positive, got \(0, 1\)"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2), (0, 1), "SAME")
    for start in (np.int32(0), 1, True):
        with pytest.raises(TypeError, match="same dtypes, got float16, (int32|bool)"):
            lax.reduce_window(x.astype("float16"), start, lax.add, (2, 2))
    for start in (0, 0.0, False):  # The identity, of any kind.
        sums = lax.reduce_window(x.astype("float16"), start, lax.add, (2, 2))
        assert sums.dtype == "float16" and not sums.any()


def test_a_convolution_too_large_for_one_product(monkeypatch):
    rng = random.Random(5)
    x, k = integers(rng, (5, 2, 6)), integers(rng, (3, 2, 2))
    whole = lax.conv(wrap(x), wrap(k), (1,), "SAME")
    monkeypatch.setattr(convolution, "AT_ONCE", 60)
    same(lax.conv(wrap(x), wrap(k), (1,), "SAME"), whole)
