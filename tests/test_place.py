"""Placing expressions, and the text of programs."""

import numpy as np
import pytest

from minijit.compile.loops import text as text
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Const, Load, Reduce, op
from minijit.compile.loops.statements import (
    For,
    If,
    Kernel,
    Let,
    Program,
    Start,
    Step,
    Store,
    statements,
)
from minijit.compile.schedule.place import place

pytestmark = pytest.mark.chapter(16)
F32 = np.dtype("float32")


def buffer(name, *shape, dtype=F32):
    return Buffer(name, shape, dtype)


def softmax_kernel():
    x, y = buffer("x", 4, 8), buffer("y", 4, 8)
    i, j, k, m = Axis(4), Axis(8), Axis(8, "reduce"), Axis(8, "reduce")
    top = Reduce("max", (k,), (Load(x, (i, k)),))

    def power(axis):
        return op("exp", op("sub", Load(x, (i, axis)), top))

    value = op("div", power(j), Reduce("add", (m,), (power(m),)))
    body = (For(i, (For(j, (Store(y, (i, j), value),)),)),)
    return Program("softmax", (x,), (y,), (), (), (Kernel("k0", body),))


def test_place_puts_totals_where_their_axes_are_bound():
    assert str(softmax_kernel()) == """\
program softmax(x: f32[4,8]):
  output y: f32[4,8]
  k0:
    for i0 in 4:
      r0 = -inf
      for k0 in 8:
        r0 max= x[i0, k0]
      r1 = 0.0
      for k1 in 8:
        r1 += exp((x[i0, k1] - r0))
      for i1 in 8:
        y[i0, i1] = exp((x[i0, i1] - r0)) / r1"""


def test_place_gives_every_operation_a_line_if_asked():
    kernel, = softmax_kernel().kernels
    lets = [s for s in statements(place(kernel.body, nest=0)) if isinstance(s, Let)]
    assert [type(s.expr).__name__ for s in lets].count("Load") == 3
    assert all(
        isinstance(part, (Const, Axis, Reduce)) or part in {s.expr for s in lets}
        for s in lets
        for part in s.expr.children()
    )


def test_totals_over_one_axis_share_their_loop_and_what_they_read():
    x, i, k = buffer("x", 4, 8), Axis(4), Axis(8, "reduce")
    load = Load(x, (i, k))
    low, high = (Reduce(op, (k,), (load,)) for op in ("min", "max"))
    body = (Store(buffer("y", 4), (i,), high), Store(buffer("z", 4), (i,), low))
    loop, = place((For(i, body),))
    inner = [stmt for stmt in loop.body if isinstance(stmt, For)]
    assert len(inner) == 1
    kinds = [type(stmt) for stmt in inner[0].body]
    assert kinds == [Let, Step, Step]
    assert [type(stmt) for stmt in loop.body].count(Start) == 2


def test_a_total_that_needs_a_total_has_a_loop_of_its_own():
    x, i, k = buffer("x", 4, 8), Axis(4), Axis(8, "reduce")
    first = Reduce("max", (k,), (Load(x, (i, k)),))
    second = Reduce("add", (k,), (op("sub", Load(x, (i, k)), first),))
    loop, = place((For(i, (Store(buffer("y", 4), (i,), second),)),))
    assert [type(stmt) for stmt in loop.body] == [Start, For, Start, For, Store]


def test_running_totals_start_before_their_loop():
    x, i, step = buffer("x", 4, 8), Axis(4), Axis(8, "scan")
    total = Reduce("add", (step,), (Load(x, (i, step)),))
    body = (For(step, (Store(buffer("y", 4, 8), (i, step), total),)),)
    loop, = place((For(i, body),))
    assert [type(stmt) for stmt in loop.body] == [Start, For]
    assert [type(stmt) for stmt in loop.body[1].body] == [Step, Store]


def test_what_is_known_to_hold_is_no_condition():
    x, y, i = buffer("x", 4), buffer("y", 4), Axis(4)
    store = Store(y, (i,), Load(x, (i,)))
    positive = op("gt", Load(x, (i,)), Const(0, F32))
    for pred, kind in ((Const(True, np.dtype("bool")), Store), (positive, If)):
        loop, = place((For(i, (If(pred, (store,)),)),))
        assert type(loop.body[-1]) is kind


def test_placing_does_not_recurse():
    x, y, i = buffer("x", 4), buffer("y", 4), Axis(4)
    value = Load(x, (i,))
    for k in range(3_000):
        value = op("add", op("sin", value), Const(k, F32))
    placed = place((For(i, (Store(y, (i,), value),)),))
    assert len(statements(placed)) < 3_000
    kernel = Kernel("k0", (For(i, (Store(y, (i,), value),)),))
    lines = str(Program("main", (x,), (y,), (), (), (kernel,))).splitlines()
    assert max(map(len, lines)) < 200


def test_what_does_not_change_in_a_totals_loop_stands_before_it():
    x, s, i, k = buffer("x", 4, 8), buffer("s", 4), Axis(4), Axis(8, "reduce")
    factor = op("exp", Load(s, (i,)))
    total = Reduce("add", (k,), (op("mul", Load(x, (i, k)), factor),))
    loop, = place((For(i, (Store(buffer("y", 4), (i,), total),)),))
    assert factor in [stmt.expr for stmt in loop.body if isinstance(stmt, Let)]


def test_what_needs_a_total_stands_behind_it():
    x, i, j, k = buffer("x", 4, 8), Axis(4), Axis(8), Axis(8, "reduce")
    total = Reduce("add", (k,), (Load(x, (i, k)),))
    value = op("mul", Load(x, (i, j)), op("sin", op("exp", op("sqrt", total))))
    body = (For(j, (Store(buffer("y", 4, 8), (i, j), value),)),)
    loop, = place((For(i, body),), nest=1)
    kinds = [type(stmt) for stmt in loop.body]
    assert kinds == [Start, For, Let, Let, For]


def test_each_branch_stays_what_it_is():
    x, y, i = buffer("x", 4), buffer("y", 4), Axis(4)
    value = op("exp", Load(x, (i,)))
    stores = [Store(y, (i,), op(name, value, value)) for name in ("mul", "add")]
    pred = op("gt", Load(x, (i,)), Const(0, F32))
    loop, = place((For(i, (If(pred, *((store,) for store in stores)),)),))
    assert value in [stmt.expr for stmt in loop.body if isinstance(stmt, Let)]
    sides = loop.body[-1].then, loop.body[-1].otherwise
    assert [side[-1].value for side in sides] == [store.value for store in stores]


def test_a_total_of_what_a_loop_fills_comes_behind_it():
    x, row = buffer("x", 4, 8), Buffer("row", (8,), F32, space="cache")
    i, j, m, k = Axis(4), Axis(8), Axis(8), Axis(8, "reduce")
    total = Reduce("add", (k,), (Load(row, (k,)),))
    fill = For(j, (Store(row, (j,), op("exp", Load(x, (i, j)))),))
    value = op("div", Load(row, (m,)), op("sin", op("exp", op("sqrt", total))))
    use = For(m, (Store(buffer("y", 4, 8), (i, m), value),))
    loop, = place((For(i, (fill, use)),), nest=1)
    kinds = [type(stmt) for stmt in loop.body]
    assert kinds == [For, Start, For, Let, Let, For]


def test_what_one_loop_names_another_one_names_again():
    x, i, j = buffer("x", 4, 8), Axis(4), Axis(8)
    value = op("exp", Load(x, (i, j)))
    stores = [
        Store(buffer("y", 4, 8), (i, j), op(name, value, value))
        for name in ("mul", "add")
    ]
    loop, = place((For(i, tuple(For(j, (store,)) for store in stores)),))
    for inner in loop.body:
        assert value in [stmt.expr for stmt in inner.body if isinstance(stmt, Let)]
