"""Types as users name them: `jnp.float32`, kinds, and the partners of a dtype."""

import numpy as np
import pytest
from harness import refused

from minijit.trace import dtypes

pytestmark = pytest.mark.chapter(3)


def test_scalar_types():
    f32 = dtypes.float32
    assert np.dtype(f32) == f32.dtype == np.float32 == f32
    assert {np.float32: 1}[f32] == 1
    assert f32 != dtypes.float64 and f32 is not None and f32 != np.int32
    assert repr(dtypes.bool_) == "<class 'minijit.numpy.bool_'>"
    assert np.zeros(2, dtypes.bfloat16).dtype == dtypes.bfloat16.dtype
    assert dtypes.dtype(dtypes.bfloat16) == np.dtype("bfloat16")
    assert dtypes.user_dtype(dtypes.float16, "zeros") == np.float16
    assert dtypes.issubdtype(dtypes.bfloat16, dtypes.floating)
    assert dtypes.finfo(dtypes.bfloat16).eps == 0.0078125


def test_kinds_of_the_array_api_standard():
    assert dtypes.isdtype("bfloat16", "real floating")
    assert dtypes.isdtype("int8", ("bool", "integral"))
    assert dtypes.isdtype(np.int8, "int8") and not dtypes.isdtype("int8", "int16")
    refused(ValueError, "Unrecognized kind='whole'", dtypes.isdtype, "int8", "whole")
