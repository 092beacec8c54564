"""Arrays of a kernel's own: in the cache, while one step of its outermost loop runs."""

import ir_interpreter
import numpy as np
import pytest

from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.check import LoopTypeError, check_program
from minijit.compile.loops.expressions import Axis, Const, Load, op
from minijit.compile.loops.kernel_buffers import buffer_names, local_buffers
from minijit.compile.loops.statements import For, Kernel, Program, Store
from minijit.compile.schedule.place import place
from minijit.run.loading import load, loaders

pytestmark = pytest.mark.chapter(16)


def program(dtype, early=False):
    """y[i, j] = row[7 - j], where row[j] = 2 * x[i, j]."""
    dtype = np.dtype(dtype)
    x, y = Buffer("x", (5, 8), dtype), Buffer("y", (5, 8), dtype)
    row = Buffer("row", (8,), dtype, space="cache")
    i, j, k = Axis(5), Axis(8), Axis(8)
    twice = op("add", Load(x, (i, j)), Load(x, (i, j)))
    back = op("sub", Const(7, "int64"), k)
    fill = For(j, (Store(row, (j,), twice),))
    use = For(k, (Store(y, (i, k), Load(row, (back,))),))
    body = (For(i, (use, fill) if early else (fill, use)),)
    return Program("p", (x,), (y,), (), (), (Kernel("k0", body),))


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_a_row_in_between(dtype):
    made = check_program(program(dtype))
    x = np.arange(40).reshape(5, 8).astype(dtype)
    want = (x + x)[:, ::-1]
    for route in {False, True, "llvm"} & loaders.keys():
        got, = load(made, route).run(x)
        np.testing.assert_array_equal(got, want)
    got, = ir_interpreter.run(made, x, place=place)
    np.testing.assert_array_equal(got, want)


def test_it_is_no_argument():
    kernel, = program("float32").kernels
    assert [b.name for b in local_buffers(kernel.body)] == ["row"]
    assert {b.name for b in buffer_names(kernel.body)} == {"x", "y"}


def test_it_is_written_first():
    with pytest.raises(LoopTypeError, match="read before it is written"):
        check_program(program("float32", early=True))


@pytest.mark.chapter(24)
def test_each_thread_has_one_of_its_own(monkeypatch):
    from minijit.run.threads import kernels as threads
    from minijit.trace.base.config import config

    monkeypatch.setitem(config.values, "thread_time", 0)
    kernel, = program("float32").kernels
    assert type(threads.text_of_kernel(kernel)) is threads.ThreadedText
    x = np.arange(40).reshape(5, 8).astype("f4")
    with config.override("cpu_threads", 3):
        got, = load(program("float32"), "llvm").run(x)
    np.testing.assert_array_equal(got, (x + x)[:, ::-1])
