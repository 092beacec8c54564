"""What minijit.image refuses; its pixels are in the table of functions."""

import numpy as np
import pytest

from minijit import image

pytestmark = pytest.mark.chapter(16)

photo = np.random.default_rng(0).normal(size=(8, 6, 3)).astype(np.float32)


def test_what_is_refused():
    with pytest.raises(ValueError, match="length equal to the number of dimensions"):
        image.resize(photo, (3, 3), "linear")
    with pytest.raises(ValueError, match='Unknown resize method "sharp"'):
        image.resize(photo, photo.shape, "sharp")
    with pytest.raises(ValueError, match="not currently supported"):
        image.scale_and_translate(photo, (1, 1, 1), (0,), [1.0], [0.0], "nearest")
