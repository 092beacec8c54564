"""Fourier transforms: their errors, axes without elements, machine code in loops."""

import numpy as np
import pytest
from harness import in_a_process, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.ops import fft as fft_ops

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("in_double_precision")]

random = np.random.default_rng(0)
x = random.normal(size=(4, 3, 5))
z = x + 1j * random.normal(size=x.shape)

def test_axes_without_elements():
    """As in JAX: lengths that nobody asks for; half of none is a sum of none."""
    for name in ("fft", "ifft", "fftn", "ifft2"):
        for shape in ((2, 0), (0, 2), (0, 0), (3, 0, 4)):
            f = getattr(jnp.fft, name)
            result = f(jnp.zeros(shape, "complex64"))
            assert (result.shape, result.dtype) == (shape, "complex64")
            assert mj.jit(f)(jnp.zeros(shape, "complex64")).shape == shape
    assert jnp.fft.irfft(jnp.zeros((2, 0), "complex64")).dtype == "float32"
    assert jnp.fft.irfft(jnp.zeros((2, 1), "complex64")).shape == (2, 0)
    assert jnp.fft.rfftn(jnp.zeros((0, 3, 4), "float32")).shape == (0, 3, 3)
    assert jnp.fft.irfftn(jnp.zeros((3, 0, 4), "complex64")).shape == (3, 0, 6)
    loss = lambda x: jnp.abs(jnp.fft.fft(x)).sum()
    assert mj.grad(loss)(jnp.zeros((2, 0), "float32")).shape == (2, 0)
    for rfft in (jnp.fft.rfft, mj.jit(jnp.fft.rfft)):
        result = rfft(jnp.zeros((2, 0), "float32"))
        assert (result.shape, result.dtype) == ((2, 1), "complex64")
        assert not result.any()


# name -> the shape of an array: even and odd lengths, one, and axes between others
shapes = {"fft": (2, 3, 6), "ifftn": (2, 4, 3), "rfft": (5, 7), "rfft2": (2, 3, 4)}
shapes |= {"ifft2": (3, 1), "irfft": (3, 4), "irfftn": (2, 3, 5), "ihfft": (6, 2)}


@pytest.mark.chapter(23)
@pytest.mark.parametrize("backend", [None, "plain"])
def test_transforms_in_loops_are_machine_code_by_address(backend):
    kinds = {name: "f" if name.startswith(("r", "ih")) else "F" for name in shapes}
    arrays = {name: z.ravel()[: np.prod(s)].reshape(s) for name, s in shapes.items()}
    arrays = {k: x.real if kinds[k] == "f" else x for k, x in arrays.items()}
    arrays |= {f"{k} of floats": x.astype(kinds[k]) for k, x in arrays.items()}
    one = lambda name: getattr(jnp.fft, name.split()[0])
    along = {k: {} if k.split()[0][-1] in "n2" else {"axis": 0} for k in arrays}

    def looped(arrays):
        of = lambda x: {k: one(k)(x[k], **along[k]) for k in x}
        start = mj.tree.map(jnp.zeros_like, mj.eval_shape(of, arrays))
        step = lambda i, old: {
            k: y + one(k)(arrays[k] * (i + 1), **along[k]) for k, y in old.items()
        }
        return lax.fori_loop(0, 2, step, start)

    compiled = mj.jit(looped, backend=backend).lower(arrays).compile()
    assert compiled.fallbacks == ()
    for k, y in compiled(arrays).items():
        want = 3 * getattr(np.fft, k.split()[0])(arrays[k], **along[k])
        assert np.allclose(y, want, *([1e-4] * 2 if "floats" in k else [1e-9] * 2)), k


@pytest.mark.chapter(23)
def test_one_transform_in_a_loop_is_wanted_twice():
    step = lambda i, c: [jnp.fft.fft(c[0] * 0.5j)] * 2
    found = mj.jit(lambda z: lax.fori_loop(0, 2, step, [z, z]))(z)
    want = np.fft.fft(np.fft.fft(z * 0.5j) * 0.5j)
    assert all(np.allclose(y, want, 1e-9, 1e-9) for y in found)


@pytest.mark.chapter(25)
@pytest.mark.parametrize("name", ["fft", "ifft2", "rfft", "irfft"])
def test_long_transforms_have_the_same_bits_on_all_cores_in_old_memory(name):
    a = random.normal(size=(2, 60, 50)) + (0 if name == "rfft" else 1j)
    f = mj.jit(getattr(jnp.fft, name))
    alone, kept = np.asarray(getattr(jnp.fft, name)(a)), f(-a)
    with mj.config.override("cpu_threads", 3), mj.config.override("thread_time", 0):
        places = {np.asarray(f(k * a)).ctypes.data for k in range(9)}
        assert np.array_equal(f(a), alone) and np.array_equal(kept, -alone)
    assert len(places) <= 2
    refused(ValueError, "read-only", np.copyto, np.asarray(kept), alone)


@pytest.mark.chapter(24)
def test_transforms_load_no_more_than_they_run():
    code = """
import sys, minijit.numpy as jnp, numpy as np
x = np.arange(24.0, dtype="float32").reshape(4, 6)
for name in ("fft", "ifft", "rfft", "irfft"):
    getattr(jnp.fft, name)(x)
assert "scipy.fft" not in sys.modules
import scipy.fft
for name in ("fft2", "ifft2", "rfft2", "irfft2"):
    given = x if name == "rfft2" else x + 0j
    want = getattr(scipy.fft, name)(given)
    assert np.array_equal(getattr(jnp.fft, name)(given), want), name
"""
    in_a_process(code)


@pytest.mark.parametrize("kind", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_a_scipy_that_has_them_elsewhere(kind, monkeypatch):
    found = np.asarray(getattr(jnp.fft, kind)(x))
    monkeypatch.setattr(fft_ops, "routines", lambda: None)
    assert np.array_equal(getattr(jnp.fft, kind)(x), found)
