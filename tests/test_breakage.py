"""What a user broke once: each stays mended."""

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.errors import ConcretizationTypeError, TracerArrayConversionError

pytestmark = pytest.mark.chapter(16)


@pytest.mark.parametrize("loses, error", [
    (lambda x: np.sin(x), TracerArrayConversionError),
    (lambda x: x * np.asarray(x), TracerArrayConversionError),
    (lambda x: jnp.sum(jnp.asarray(np.array([x, x]))), TracerArrayConversionError),
    (lambda x: x * float(x), ConcretizationTypeError),
    (lambda x: x * x.tolist(), ConcretizationTypeError),
])  # fmt: skip
def test_no_gradient_is_lost_in_a_conversion(loses, error):
    for transform in (mj.grad, mj.value_and_grad, lambda f: mj.jit(mj.grad(f))):
        refused(error, "Instead: ", transform(loses), 2.0)
    # What says that it is a constant is one; Python may branch and count.
    assert mj.grad(lambda x: x * float(lax.stop_gradient(x)))(2.0) == 2.0
    assert mj.grad(lambda x: x * x if x > 1 else x)(2.0) == 4.0
    assert mj.grad(lambda x: x * int(x))(2.0) == 2.0


@pytest.mark.parametrize(
    "odd",
    [np.array(["a"]), np.array([None]), np.array(["2020-01-01"], "M8[D]"),
     np.zeros(2, [("a", "f4")]), np.arange(3, dtype=">f4")],
    ids=["strings", "objects", "dates", "records", "big_endian"],
)
def test_numpy_arrays_of_what_arrays_cannot_hold(odd):
    for f in (mj.jit(lambda a: a), mj.make_jaxpr(lambda a: a)):
        refused(TypeError, "at path a: ", f, odd)


@pytest.mark.parametrize("use", [jnp.sum, mj.jit(jnp.sum), lambda x: jnp.ones(3) + x])
def test_a_masked_array_is_refused(use):
    """Its mask would be ignored, and the sum be plausible and wrong."""
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    refused(ValueError, "masked arrays are not supported", use, masked)


@pytest.mark.parametrize("backend", ["python", "plain"])
def test_a_captured_array_in_another_order(backend):
    """A transpose, or a Fortran array, was read as if it stood in row-major order."""

    def products(captured):
        return mj.jit(lambda y: (captured * y, jnp.asarray(captured)), backend=backend)

    x = np.arange(12, dtype="f4").reshape(3, 4)
    for captured in (x.T, np.asfortranarray(x), x[:, ::2], x[::-1], jnp.asarray(x.T)):
        product, itself = products(captured)(jnp.float32(2))
        assert np.array_equal(product, 2 * np.asarray(captured))
        assert np.array_equal(itself, captured)
