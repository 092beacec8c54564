"""The loop IR: interning, index algebra, walks, totals."""

import gc
import itertools
import operator

import numpy as np
import pytest

from minijit.compile.loops import expressions, reductions, scalars
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import (
    Axis, Const, Load, Op, Reduce, as_index, op,
)
from minijit.compile.loops.graphs import postorder, substitute
from minijit.compile.loops.scalars import BOOL, INDEX

pytestmark = pytest.mark.chapter(15)
F32, I32 = np.dtype("float32"), np.dtype("int32")


def buffer(name, *shape, dtype=F32):
    return Buffer(name, shape, dtype)


def test_expressions_are_interned_and_axes_are_not():
    i, x = Axis(4), buffer("x", 4)
    assert Load(x, (i,)) is Load(x, (i,))
    assert op("sin", Load(x, (i,))) is op("sin", Load(x, (i,)))
    assert Axis(4) is not Axis(4)
    assert Load(x, (i,)) is not Load(x, (Axis(4),))
    assert Load(x, (i,)) is not Load(buffer("x", 4), (i,))


def test_constants_differ_by_dtype_and_bits():
    assert Const(1, F32) is Const(1.0, F32)
    assert len({Const(1, d) for d in (F32, I32, INDEX, BOOL)}) == 4
    assert Const(0.0, F32) is not Const(-0.0, F32)
    nan = np.float32("nan")
    assert Const(nan, F32) is Const(nan, F32)


def test_the_table_forgets_what_nobody_uses():
    i, x = Axis(4), buffer("x", 4)
    before = len(expressions.interned)
    value = Load(x, (i,))
    for _ in range(5000):
        value = op("sin", value)
    assert len(expressions.interned) > before + 5000
    del value
    gc.collect()
    assert len(expressions.interned) <= before + 1


def test_free_axes():
    i, k, x = Axis(4), Axis(3, "reduce"), buffer("x", 4, 3)
    load = Load(x, (i, k))
    assert load.free == {i, k}
    assert Reduce("add", (k,), (load,)).free == {i}
    scan = Axis(3, "scan")
    assert Reduce("add", (scan,), (Load(x, (i, scan)),)).free == {i, scan}


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("bound", ["min", "max"])
def test_a_comparison_asks_of_a_bounded_index_what_it_depends_on(name, bound):
    """The answers are the same, and a bound that decides nothing is not asked."""
    bounded, compare = dict(min=min, max=max)[bound], getattr(operator, name)
    i, left = Axis(9), 0
    for end, limit in itertools.product(range(-1, 11), range(-2, 12)):
        answer = op(name, op(bound, i, as_index(end)), as_index(limit))
        for n in range(9):
            now, = substitute([answer], {i: as_index(n)}.get)
            assert now.value == compare(bounded(n, end), limit)
        left += any(isinstance(e, Op) and e.name == bound for e in postorder([answer]))
    assert left == 0


def test_index_algebra():
    i, j = Axis(4), Axis(8)
    n = as_index
    assert op("add", op("add", i, n(2)), n(3)) is op("add", i, n(5))
    assert op("add", n(0), i) is i and op("add", i, n(0)) is i
    assert op("mul", i, n(1)) is i and op("mul", n(0), i) is n(0)
    assert op("mul", op("mul", i, n(2)), n(3)) is op("mul", n(6), i)
    assert op("sub", op("add", i, n(2)), n(2)) is i
    assert op("sub", i, i) is n(0)
    flat = op("add", op("mul", i, n(8)), j)
    assert op("floordiv", flat, n(8)) is i
    assert op("mod", flat, n(8)) is j
    half = op("floordiv", flat, n(4))
    want = op("add", op("mul", i, n(2)), op("floordiv", j, n(4)))
    assert half is want
    # Digits: those of a shape's flat index, in other shapes and back.
    k = Axis(6)
    flat = op("add", op("mul", op("add", op("mul", k, n(4)), i), n(8)), j)
    assert op("floordiv", flat, n(16)) is op(
        "add", op("mul", k, n(2)), op("floordiv", i, n(2))
    )
    for c in (2, 3, 5, 6, 16, 24, 48, 64, 96):
        high, low = op("floordiv", flat, n(c)), op("mod", flat, n(c))
        again = op("add", op("mul", high, n(c)), low)
        assert not {"floordiv", "mod"} & {
            e.name for e in postorder([again]) if isinstance(e, Op)
        }
        assert evaluate(again, {k: 5, i: 2, j: 7}) == 5 * 32 + 2 * 8 + 7
    middle = op("mod", op("floordiv", flat, n(3)), n(5))
    again = op("add", op("mul", middle, n(3)), op("mod", flat, n(3)))
    assert again is op("mod", flat, n(15))
    # Digits of digits, as those of an array that was turned and reshaped.
    long = Axis(480)
    last = op("mod", long, n(24))
    digit = op("mod", op("floordiv", long, n(4)), n(6))
    assert op("floordiv", last, n(4)) is digit
    assert op("mod", last, n(6)) is op("mod", long, n(6))
    wide = op("mul", op("mod", op("floordiv", long, n(24)), n(5)), n(6))
    assert op("add", wide, digit) is op("mod", op("floordiv", long, n(4)), n(30))
    # Of a number in parts the quotient is a sum of those of its parts.
    parts = op("add", op("mul", i, n(480)), long)
    digit = op("mod", op("floordiv", parts, n(8)), n(96))
    again = op("add", op("mul", digit, n(8)), op("mod", parts, n(8)))
    assert again is op("mod", parts, n(768))
    assert op("max", op("min", i, n(3)), n(0)) is i
    assert op("lt", i, n(4)) is Const(True, BOOL)
    assert op("ge", i, n(4)) is Const(False, BOOL)
    x = op("sin", Load(buffer("x", 4), (i,)))
    assert op("select", op("lt", i, n(4)), x, Const(0, F32)) is x


def test_floats_are_never_simplified():
    x = Load(buffer("x", 4), (Axis(4),))
    for name, y in [("add", 0), ("mul", 1), ("mul", 0)]:
        assert isinstance(op(name, x, Const(y, F32)), Op)
    assert isinstance(op("sub", x, x), Op)
    user = Load(buffer("n", 4, dtype=I32), (Axis(4),))
    assert isinstance(op("add", user, Const(0, I32)), Op)


def random_index(rng, axes, depth):
    """An index expression and the Python function that it stands for."""
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.3:
            value = int(rng.integers(-3, 9))
            return as_index(value), lambda env: value
        axis = axes[rng.integers(len(axes))]
        return axis, lambda env: env[axis]
    x, f = random_index(rng, axes, depth - 1)
    if rng.random() < 0.3:
        value = int(rng.integers(1, 6))
        name = ("floordiv", "mod")[rng.integers(2)]
        function = {"floordiv": int.__floordiv__, "mod": int.__mod__}[name]
        return op(name, x, as_index(value)), lambda env: function(f(env), value)
    y, g = random_index(rng, axes, depth - 1)
    name = ("add", "sub", "mul", "max", "min")[rng.integers(5)]
    function = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}
    function = function.get(name) or {"max": max, "min": min}[name]
    return op(name, x, y), lambda env: function(f(env), g(env))


def evaluate(expr, env):
    """The value of an index expression, not simplified any further."""
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, Axis):
        return env[expr]
    args = [evaluate(e, env) for e in expr.args]
    names = {"add": "__add__", "sub": "__sub__", "mul": "__mul__"}
    names |= {"floordiv": "__floordiv__", "mod": "__mod__"}
    if expr.name in names:
        return getattr(args[0], names[expr.name])(args[1])
    return {"max": max, "min": min}[expr.name](*args)


def test_simplified_indices_have_their_values_and_stay_within_their_bounds():
    rng = np.random.default_rng(0)
    axes = [Axis(1), Axis(3), Axis(4)]
    for _ in range(600):
        expr, function = random_index(rng, axes, 4)
        for values in itertools.product(*(range(axis.extent) for axis in axes)):
            env = dict(zip(axes, values, strict=True))
            want = function(env)
            assert evaluate(expr, env) == want, expr
            assert expr.bounds[0] <= want <= expr.bounds[1], expr


def test_walks_do_not_recurse():
    x = buffer("x", 4)
    i, j = Axis(4), Axis(4)
    value = Load(x, (i,))
    for k in range(1_200):
        value = op("add", op("sin", value), Const(k, F32))
    assert len(postorder([value])) == 2 + 3 * 1_200
    new, = substitute([value], lambda e: j if e is i else None)
    assert new.free == {j} and new is not value
    back, = substitute([new], lambda e: i if e is j else None)
    assert back is value
    assert "..." in repr(value)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool"])
def test_totals_start_at_the_identity(dtype):
    dtype = np.dtype(dtype)
    values = {True, False} if dtype == BOOL else {0, 1, 3, 100}
    for name in ("and", "or", "xor") if dtype == BOOL else scalars.identities:
        if name in ("argmax", "argmin", "logaddexp", "times"):
            continue
        value = Const(0, dtype)
        start, = reductions.start_values(Reduce(name, (Axis(2, "reduce"),), (value,)))
        python = {"add": "__add__", "mul": "__mul__", "and": "__and__"}
        python |= {"or": "__or__", "xor": "__xor__"}
        for v in values:
            if name in python:
                assert getattr(start.value, python[name])(v) == v
            else:
                assert {"max": max, "min": min}[name](start.value, v) == v


LEAST, MOST = -(2**63), 2**63 - 1


def test_folds_of_64_bits_hold_for_what_wraps_around():
    """x - LEAST raised OverflowError, and x & 1 of an int64 was x."""
    x = Load(Buffer("x", (), INDEX), ())
    number = lambda value: Const(value, INDEX)
    assert op("sub", x, number(LEAST)) is op("add", x, number(LEAST))
    assert op("sub", number(LEAST), number(1)) is number(MOST)
    assert op("add", number(MOST), number(MOST)) is number(-2)
    assert op("mul", number(MOST), number(3)) is number(MOST * 3 + 2**64 - 2**65)
    twice = op("add", op("add", x, number(MOST)), number(2))
    assert twice is op("add", x, number(LEAST + 1))
    twice = op("mul", op("mul", x, number(2**40)), number(2**23 + 1))
    assert twice is op("mul", x, number(2**40 + LEAST))
    assert op("and", x, number(-1)) is x and op("and", x, x) is x
    for value in (1, 0, MOST, LEAST):
        assert op("and", x, number(value)).name == "and"
    assert op("max", x, number(LEAST)) is x and op("min", x, number(MOST)) is x
