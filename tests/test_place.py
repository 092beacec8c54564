"""Placing expressions, and the text of programs."""

from dataclasses import replace

import numpy as np
import pytest

from minijit.compile.loops import text as text
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Const, Load, Reduce, op
from minijit.compile.loops.statements import (
    For, If, Kernel, Let, Program, Start, Step, Store, statements,
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


def test_placing_does_not_recurse():
    x, y, i = buffer("x", 4), buffer("y", 4), Axis(4)
    value = Load(x, (i,))
    for k in range(1_200):
        value = op("add", op("sin", value), Const(k, F32))
    placed = place((For(i, (Store(y, (i,), value),)),))
    assert len(statements(placed)) < 1_200
    kernel = Kernel("k0", (For(i, (Store(y, (i,), value),)),))
    lines = str(Program("main", (x,), (y,), (), (), (kernel,))).splitlines()
    assert max(map(len, lines)) < 200


def test_a_statement_reads_what_is_there_when_it_runs():
    x, y, z, i = buffer("x", 4), buffer("y", 4), buffer("z", 4), Axis(4)
    update = Store(y, (i,), op("mul", Load(y, (i,)), Load(x, (i,))))
    stores = update, Store(z, (i,), Load(y, (i,))), update
    kernel = Kernel("k0", (For(i, stores),))
    assert str(Program("main", (x,), (y, z), (), (), (kernel,))) == """\
program main(x: f32[4]):
  output y: f32[4]
  output z: f32[4]
  k0:
    for i0 in 4:
      v0 = x[i0]
      y[i0] = y[i0] * v0
      v1 = y[i0]
      z[i0] = v1
      y[i0] = v1 * v0"""
    assert replace(kernel).body is kernel.body


x, w = buffer("x", 4, 8), buffer("w", 4, 8)
y, z, v = (buffer(name, 4) for name in "yzv")
row = Buffer("row", (8,), F32, space="cache")
i, j, m, k, step = Axis(4), Axis(8), Axis(8), Axis(8, "reduce"), Axis(8, "scan")
load, element = Load(x, (i, k)), Load(x, (i, j))
top, low = (Reduce(name, (k,), (load,)) for name in ("max", "min"))
total = Reduce("add", (k,), (load,))
off = Reduce("add", (k,), (op("sub", load, top),))
running = Reduce("add", (step,), (Load(x, (i, step)),))
slow = lambda value: op("sin", op("exp", op("sqrt", value)))
of_row = slow(Reduce("add", (k,), (Load(row, (k,)),)))
fill = For(j, (Store(row, (j,), op("exp", element)),))
use = For(m, (Store(w, (i, m), op("div", Load(row, (m,)), of_row)),))
# What stands in a loop over i; the kinds of what comes of it, and of its first loop's.
placings = {
    "totals share a loop and what they read": (
        (Store(y, (i,), top), Store(z, (i,), low)),
        [Start, Start, For, Store, Store], [Let, Step, Step]),
    "one that needs another has a loop of its own": (
        (Store(y, (i,), off),), [Start, For, Start, For, Store], [Let, Step]),
    "a running one starts before its loop": (
        (For(step, (Store(w, (i, step), running),)),), [Start, For], [Step, Store]),
    "what needs a total stands behind it": (
        (For(j, (Store(w, (i, j), op("mul", element, slow(total))),)),),
        [Start, For, Let, Let, For], [Step]),
    "a total of what a loop fills comes behind it": (
        (fill, use), [For, Start, For, Let, Let, For], [Let, Store]),
}  # fmt: skip


@pytest.mark.parametrize("name", placings)
def test_where_totals_stand(name):
    body, outside, inside = placings[name]
    loop, = place((For(i, body),), **({"nest": 1} if "behind" in name else {}))
    assert [type(stmt) for stmt in loop.body] == outside
    first = loop.body[outside.index(For)]
    assert [type(stmt) for stmt in first.body] == inside


def named_in(stmts):
    return [stmt.expr for stmt in stmts if isinstance(stmt, Let)]


def test_what_does_not_change_in_a_totals_loop_stands_before_it():
    factor = op("exp", Load(v, (i,)))
    scaled = Reduce("add", (k,), (op("mul", load, factor),))
    loop, = place((For(i, (Store(y, (i,), scaled),)),))
    assert factor in named_in(loop.body)


def test_branches_stay_what_they_are_but_what_is_known_to_hold():
    value, positive = op("exp", Load(v, (i,))), op("gt", Load(v, (i,)), Const(0, F32))
    sides = [Store(y, (i,), op(name, value, value)) for name in ("mul", "add")]
    known = If(Const(True, np.dtype("bool")), sides[:1])
    loop, = place((For(i, (known,)),))
    assert type(loop.body[-1]) is Store
    loop, = place((For(i, (If(positive, *((side,) for side in sides)),)),))
    assert value in named_in(loop.body)
    found = loop.body[-1].then, loop.body[-1].otherwise
    assert [side[-1].value for side in found] == [side.value for side in sides]


def test_what_one_loop_names_another_one_names_again():
    value = op("exp", element)
    stores = [Store(w, (i, j), op(name, value, value)) for name in ("mul", "add")]
    loop, = place((For(i, tuple(For(j, (store,)) for store in stores)),))
    assert all(value in named_in(inner.body) for inner in loop.body)
