"""minijit.image: pixels are jax's, and sums of old pixels have the right slopes."""

import numpy as np
import pytest
from referee import together

import minijit as mj
from minijit import image

pytestmark = pytest.mark.chapter(16)

photo = np.random.default_rng(0).normal(size=(8, 6, 3)).astype(np.float32)


def pictures(module):
    """Of jax's module or ours: a function that gives {what was asked: the picture}."""

    def all_of_them(photo):
        found = {}
        for method in module.ResizeMethod:
            # One axis shrinks, the other one grows.
            given = (3, 11, 3), method, method.name != "LANCZOS3"
            found[str(method)] = module.resize(photo, *given)
        scale, shift = np.float32([0.7, 1.5]), np.float32([0.3, -0.6])
        given = (4, 8, 3), (0, 1), scale, shift
        for method in "linear", "cubic-pytorch":
            found[method] = module.scale_and_translate(photo, *given, method, False)
        # A pixel's middle on the edge of the old ones, and between it and their first.
        for shift in 0.5, 0.75:
            one = (9, 6, 3), (0,), np.float32([1]), np.float32([shift]), "linear", False
            found[f"by {shift}"] = module.scale_and_translate(photo, *one)
        return found

    return all_of_them


@pytest.mark.oracle
def test_pixels_are_jax_s():
    jax = pytest.importorskip("jax")
    want = together({"all": (pictures(jax.image), photo)})["all"]
    got = pictures(image)(photo)
    assert got.keys() == want.keys()
    for name, picture in got.items():
        assert picture.dtype == want[name].dtype
        np.testing.assert_allclose(picture, want[name], 1e-4, 1e-5, err_msg=name)


def test_slopes_lanes_and_compiled_calls():
    smaller = lambda x: image.resize(x, (4, 5, 3), "cubic")
    y = np.asarray(smaller(photo))
    ct = np.cos(np.arange(y.size)).reshape(y.shape).astype(y.dtype)
    back, = mj.linear_transpose(smaller, photo)(ct)
    np.testing.assert_allclose((back * photo).sum(), (ct * y).sum(), 1e-3, 1e-3)
    lanes = mj.jit(mj.vmap(smaller), backend="plain")(np.stack([photo, 2 * photo]))
    np.testing.assert_allclose(lanes[1], 2 * y, 1e-4, 1e-5)
    whole = np.arange(6).reshape(2, 3)
    near = image.resize(whole, (4, 3), "nearest")
    assert near.tolist() == whole.repeat(2, 0).tolist() and near.dtype == np.int32


def test_what_is_refused():
    with pytest.raises(ValueError, match="length equal to the number of dimensions"):
        image.resize(photo, (3, 3), "linear")
    with pytest.raises(ValueError, match='Unknown resize method "sharp"'):
        image.resize(photo, photo.shape, "sharp")
    with pytest.raises(ValueError, match="not currently supported"):
        image.scale_and_translate(photo, (1, 1, 1), (0,), [1.0], [0.0], "nearest")
