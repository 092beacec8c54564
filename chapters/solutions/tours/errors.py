"""Solutions to the tour errors.ipynb."""

import sys

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.core import result_checks


def caller(package):
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return frame.f_code.co_name


def check_caller(caller):
    """Follow `f_back` while the frame's file begins with `package`."""
    def deep(x):
        found.append(caller(mj.__path__[0]))
        return x

    def loss(tree):
        return mj.tree.map(deep, tree)[0]

    found = []
    mj.grad(loss)([1.0])
    assert found == ["deep"], found
    inner = {"caller": caller}
    exec(compile("def inside(p):\n    return caller(p)", "/lib/a.py", "exec"), inner)

    def outside():
        return inner["inside"]("/lib")

    assert outside() == "outside"


def no_wide(primitive, args, params, results):
    if any(getattr(result, "dtype", None) == "float64" for result in results):
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith(mj.__path__[0]):
            frame = frame.f_back
        raise TypeError(f"{primitive} made 64-bit floats in {frame.f_code.co_name}")


def check_no_wide(no_wide):
    """Walk from `sys._getframe(1)` to the first file outside of minijit."""
    def narrow(x):
        return x + 1

    def wide(x):
        return narrow(x).astype("float64") * 2

    result_checks.append(no_wide)
    try:
        with mj.enable_x64():
            x = jnp.ones(2, "float32")
            assert float(narrow(x)[0]) == 2
            try:
                wide(x)
            except TypeError as error:
                text = str(error)
            else:
                raise AssertionError("64-bit floats were made, and nothing was raised")
    finally:
        result_checks.remove(no_wide)
    assert "convert_element_type" in text and "wide" in text, text
