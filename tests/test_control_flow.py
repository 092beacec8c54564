"""Loops and branches times transformations, against the same unrolled in Python.

The reference runs `if` and `while` in Python, on the concrete values that tracers of
`grad` outside of `jit` know; it shares no rule of control flow with what it checks.
"""

import functools

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.trace.jaxprs.checks import check_jaxpr
from minijit.transform import pieces
from minijit.transform.control_flow.unions_and_tapes import Tape, TapeValue, Union

pytestmark = [pytest.mark.chapter(12), pytest.mark.usefixtures("interpreted_doubles")]

f32 = np.dtype("float32")


class Unrolled:
    """Control flow as Python has it."""

    @staticmethod
    def cond(pred, on_true, on_false, *operands):
        return on_true(*operands) if bool(pred) else on_false(*operands)

    @staticmethod
    def switch(index, branches, *operands):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)

    @staticmethod
    def while_loop(goes_on, body, val, **mode):
        while bool(goes_on(val)):
            val = body(val)
        return val

    @staticmethod
    def fori_loop(lower, upper, body, val):
        for i in range(int(lower), int(upper)):
            val = body(i, val)
        return val

    @staticmethod
    def scan(f, carry, xs, length=None, reverse=False):
        n = length if xs is None else mj.tree.leaves(xs)[0].shape[0]
        ys = []
        for i in reversed(range(n)) if reverse else range(n):
            carry, y = f(carry, mj.tree.map(lambda x, i=i: x[i], xs))
            ys.append(y)
        ys = ys[::-1] if reverse else ys
        return carry, mj.tree.map(lambda *rows: jnp.stack(rows), *ys)


def a_cond(L, x):
    return L.cond(x[0] > 0.1, lambda x: jnp.sin(x) * x, lambda x: x * x * x, x)


def a_closure(L, x):
    w = jnp.cos(x)
    return L.cond(x[0] > 0.1, lambda: w * x, lambda: w + x)


def a_switch(L, x):
    branches = [lambda x: x * 2.0, jnp.sin, lambda x: jnp.exp(x) * x]
    return L.switch(jnp.argmax(x), branches, x)


def a_scan(L, x):
    xs = jnp.stack([x, x * 2.0, x + 1.0])
    carry, ys = L.scan(lambda c, a: (jnp.sin(c * a) + x, c * c), x, xs)
    return carry + jnp.sum(ys, 0)


def a_reverse_scan(L, x):
    def body(carry, row):
        a, b = carry
        return (a * row["u"], b + a), {"p": a * b, "q": b}

    xs = {"u": jnp.stack([x, jnp.cos(x), x + 1.0])}
    (a, b), ys = L.scan(body, (x, jnp.sin(x)), xs, reverse=True)
    return a + b + ys["p"][0] * ys["q"][2]


def a_while(L, x):
    body = lambda c: (c[0] * 1.5 + jnp.sin(c[1]) * 0.1 + 0.5, c[1] * x)
    return L.while_loop(lambda c: jnp.sum(c[0]) < 20.0, body, (jnp.abs(x), x))[0]


def a_while_with_a_captured_bound(L, x):
    bound = jnp.sum(jnp.abs(x)) + 3.0
    return L.while_loop(
        lambda c: jnp.sum(c) < bound, lambda c: c * 1.3 + 0.4 * x * x, x
    )


def a_fori(L, x):
    return L.fori_loop(0, 5, lambda i, c: c * jnp.cos(x) + i, x)


def a_while_in_a_scan(L, x):
    def body(c, a):
        step = lambda q: q * 1.3 + 0.1 * jnp.sin(a) + 0.01
        q = L.while_loop(lambda q: jnp.sum(q * q) < 9.0, step, c)
        return q * 0.3, jnp.sum(c)

    return L.scan(body, x, jnp.stack([x, x + 1.0]))[0]


def a_cond_in_a_scan(L, x):
    def body(c, a):
        y = L.cond(jnp.sum(c) > 0.5, lambda c: jnp.sin(c) * a, lambda c: c * c + x, c)
        return y, c * a

    return L.scan(body, x, jnp.stack([x, x + 1.0, x * 3.0]))[1].sum(0)


def a_while_in_a_cond_in_a_scan(L, x):
    def grow(c):
        return L.while_loop(lambda q: jnp.sum(q * q) < 4.0, lambda q: q * 1.7 + 0.05, c)

    def body(c, _):
        on = lambda c: grow(c * 0.5)
        return L.cond(c[0] > 0.2, on, lambda c: c * 1.3 + 0.1, c), None

    return L.scan(body, x, None, length=3)[0]


def loops_in_a_switch_in_a_scan(L, x):
    """Where lanes go different ways, each keeps as many steps as it took."""
    grow = lambda c, by: L.while_loop(
        lambda q: jnp.sum(q * q) < 4.0, lambda q: q * by + 0.05, c
    )
    branches = [lambda c: grow(c, 1.7), jnp.sin, lambda c: c + grow(c * x, 2.5)]

    def body(c, _):
        return L.switch(jnp.argmax(c * x), branches, c) - 0.4, None

    return L.scan(body, x, None, length=4)[0]


def a_branch_that_keeps_integers(L, x):
    """Its derivative reads what it keeps: a position, and a number beside it."""
    at_most = lambda x: x[jnp.argmax(x)] * x * x
    changed = lambda x: jnp.asarray(x).at[jnp.argmin(x)].multiply(x[1])
    return L.cond(x[0] > 0.1, at_most, changed, x)


def branches_that_keep_nothing(L, x):
    """One is linear, one is constant; one keeps integers alone."""
    branches = [lambda x: x * 3.0, lambda x: x[jnp.argmin(x)] + 0.0 * x, jnp.zeros_like]
    return L.switch(jnp.argmax(x), branches, x)


programs = [
    a_cond, a_closure, a_switch, a_scan, a_reverse_scan, a_while,
    a_while_with_a_captured_bound, a_fori, a_while_in_a_scan, a_cond_in_a_scan,
    a_while_in_a_cond_in_a_scan, loops_in_a_switch_in_a_scan,
    *(
        pytest.param(f, marks=pytest.mark.chapter(16))  # Places are gathered in lanes.
        for f in (a_branch_that_keeps_integers, branches_that_keep_nothing)
    ),
]  # fmt: skip
points = [np.array([0.3, -0.2, 0.5]), np.array([-0.4, 0.9, 0.1])]
v = np.array([0.3, 0.7, -1.1])


def weighted(f):
    return lambda x: jnp.sum(f(x) ** 2 * np.array([1.0, 2.0, -0.5]))


# What is done to the program under test; and to the unrolled one, which cannot be
# jitted, for the same numbers.
def push(f):
    return lambda x: mj.jvp(f, (x,), (v,))[1]


def slope(f):
    return mj.grad(weighted(f))


def as_it_is(f):
    return f


stacks = {
    "f": (as_it_is, as_it_is),
    "jit": (mj.jit, as_it_is),
    "jvp": (push, push),
    "jit-jvp": (lambda f: mj.jit(push(f)), push),
    "grad": (slope, slope),
    "jit-grad": (lambda f: mj.jit(slope(f)), slope),
    "grad-jit": (lambda f: slope(mj.jit(f)), slope),
    "grad-checkpoint": (lambda f: slope(mj.checkpoint(f)), slope),
    "jvp-grad": (lambda f: push(slope(f)), lambda f: push(slope(f))),
    "grad-grad": (lambda f: slope(slope(f)), lambda f: slope(slope(f))),
    "jvp-jvp": (lambda f: push(push(f)), lambda f: push(push(f))),
    "linearize": (lambda f: lambda x: mj.linearize(f, x)[1](v), push),
    "vjp": (lambda f: lambda x: mj.vjp(f, x)[1](v)[0],
            lambda f: lambda x: mj.vjp(f, x)[1](v)[0]),
}  # fmt: skip


@functools.cache
def unrolled(program, reference):
    wanted = reference(lambda x: program(Unrolled, x))
    return [np.asarray(wanted(x)) for x in points]


@pytest.mark.parametrize("stack", stacks)
@pytest.mark.parametrize("program", programs)
def test_as_unrolled(program, stack):
    transform, reference = stacks[stack]
    tested, want = transform(lambda x: program(lax, x)), unrolled(program, reference)
    for x, y in zip(points, want, strict=True):
        np.testing.assert_allclose(tested(x), y, rtol=1e-9, atol=1e-12)
    check_jaxpr(mj.make_jaxpr(tested)(x).jaxpr)
    got = mj.vmap(tested)(np.stack(points))
    np.testing.assert_allclose(got, np.stack(want), rtol=1e-9, atol=1e-12)


def test_branches_not_taken_cost_nothing():
    ran = []

    def noisy(x):
        ran.append(1)
        return jnp.sin(x)

    f = mj.jit(lambda x: lax.cond(x > 0, lambda x: x, noisy, x))
    f(1.0), f(2.0)
    assert len(ran) == 1  # traced once; running takes the other branch
    text = str(
        mj.make_jaxpr(mj.grad(lambda x: lax.cond(x > 0, jnp.sin, jnp.exp, x)))(1.0)
    )
    assert "Union[(f64[]), (f64[])]" in text


def test_a_tape_is_as_long_as_the_loop_ran():
    def f(x):
        return lax.while_loop(lambda c: c < 100.0, lambda c: c * c + 1.0, x)

    _, pull_back = mj.vjp(f, 0.1)
    tapes = [r for r in mj.tree.leaves(pull_back) if isinstance(r, TapeValue)]
    steps, c = 0, 0.1
    while c < 100.0:
        c, steps = c * c + 1.0, steps + 1
    assert [len(t) for t in tapes] == [steps]
    assert tapes[0].nbytes == steps * 8


def while_squares(x):
    return lax.while_loop(lambda c: c < 9.0, lambda c: c * c + 2.0, x)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.cond(x > 0, jnp.sin, lambda x: x * x, x),
        while_squares,
        lambda x: lax.cond(x > 0, lambda x: 2.0 * x, lambda x: -x, x),
    ],
    ids=["union", "tape", "nothing within"],
)
def test_linear_functions_of_lanes_are_mapped(f, compiled):
    wrap = mj.jit if compiled else lambda f: f
    xs = jnp.array([-1.5, 0.5, 2.0])
    linear = wrap(mj.vmap(lambda x: mj.linearize(f, x)[1]))(xs)
    got = wrap(mj.vmap(lambda linear, t: linear(t)))(linear, jnp.ones(3))
    want = [mj.jvp(f, (x,), (1.0,))[1] for x in xs]
    np.testing.assert_allclose(got, want, rtol=1e-12)
    if f is not while_squares:
        stacked = wrap(lambda xs: lax.map(lambda x: mj.linearize(f, x)[1], xs))(xs)
        for mapped in (linear, stacked):
            got = wrap(lambda fs: lax.map(lambda f: f(1.0), fs))(mapped)
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_types_print_and_parse():
    from minijit.trace.array import ShapedArray
    from minijit.trace.jaxprs.parser import parse_aval
    from minijit.trace.jaxprs.text import print_aval

    a, b = ShapedArray((3,), f32), ShapedArray((), np.dtype("int32"))
    for aval in (
        Tape(a),
        Tape(Tape(b)),
        Union(((a, Tape(b)), ())),
        Union(((a,), (b, b)), True),
    ):
        assert parse_aval(print_aval(aval)) == aval


@pytest.mark.parametrize("transform", [lambda f: f, mj.jit])
def test_no_lanes(transform):
    """A vmap over nothing: no lane to borrow from, none to choose."""
    two = [lambda x: x + 1, lambda x: x * 2]
    three = [lambda x: x, lambda x: x * 2, lambda x: -x]
    flags, rows, index = jnp.zeros(0, bool), jnp.zeros((0, 3)), jnp.zeros(0, "int32")
    chosen = transform(mj.vmap(lambda p, x: lax.cond(p, *two, x)))(flags, rows)
    assert chosen.shape == (0, 3)
    switched = mj.vmap(lambda i, x: lax.switch(i, three, x))
    assert transform(switched)(index, rows).shape == (0, 3)
    nested = mj.vmap(mj.vmap(lambda p, x: lax.cond(p, *two, x)))
    shapes = jnp.zeros((2, 0), bool), jnp.zeros((2, 0, 3))
    assert transform(nested)(*shapes).shape == (2, 0, 3)
    slope = mj.vmap(mj.grad(lambda x: lax.cond(x > 0, *two, x)))
    assert transform(slope)(jnp.zeros(0)).shape == (0,)
    count = mj.vmap(lambda n: lax.fori_loop(0, n, lambda i, c: i + c, 0))
    assert transform(count)(index).shape == (0,)


@pytest.mark.parametrize("lanes", [[-1, -2, 0], [1, 2, 0.5], [1, -1, 0]])
def test_short_branches_are_not_asked_for(lanes):
    """All lanes compute them, and nothing illegal gets into a sum over lanes."""

    def f(x, w):
        curved = lambda: jnp.log(x) * w + jnp.sqrt(x / w)
        return lax.cond(x > 0, curved, lambda: (2 * w, x)[1])

    xs, all_lanes = jnp.float32(lanes), mj.vmap(f, (0, None))
    total = lambda xs, w: all_lanes(xs, w).sum()
    assert "cond" not in str(mj.make_jaxpr(all_lanes)(xs, 2.0))
    slopes = mj.grad(total, (0, 1))
    each = [mj.grad(f, (0, 1))(x, 2.0) for x in xs]
    for dx, dw in (slopes(xs, 2.0), mj.jit(slopes)(xs, 2.0)):
        np.testing.assert_allclose(dx, [float(x) for x, _ in each], 1e-5)
        np.testing.assert_allclose(dw, sum(float(w) for _, w in each), 1e-5)
    many = mj.vmap(lambda x: lax.cond(x[0] > 0, jnp.sum, jnp.prod, x))
    assert "cond" in str(mj.make_jaxpr(many)(jnp.ones((3, 2))))


def test_a_weak_type_gives_way_only_within_what_promotion_keeps():
    """cond gave 1 for 1.5, because the other branch was a strong integer."""
    for pair in [
        (lambda x: x, lambda x: x.astype(jnp.int32)),
        (lambda x: 2, lambda x: x.astype(jnp.float16)),
        (lambda x: 2, lambda x: x.astype(jnp.int8)),
    ]:
        for branches in (pair, pair[::-1]):
            refused(TypeError, "equal output types", lax.cond, True, *branches, 1.5)
            with pytest.raises(TypeError, match="equal output types"):
                lax.switch(0, [*branches, branches[0]], 1.5)
    for carry, other in [(1.5, jnp.int32(1)), (jnp.int32(1), 1.5)]:
        with pytest.raises(TypeError, match="carry output must have equal types"):
            lax.scan(lambda c, _, y=other: (y, None), carry, None, length=1)
    for bounds in [(0, 3.5), (0.0, 3), (True, 2), (0, jnp.uint8(3))]:
        with pytest.raises(TypeError, match="must have equal types"):
            lax.fori_loop(*bounds, lambda i, c: c, 0)
        with pytest.raises(TypeError, match="must have equal types"):
            mj.jit(lambda a, b: lax.fori_loop(a, b, lambda i, c: c, 0))(*bounds)
    assert lax.fori_loop(0, jnp.int8(3), lambda i, c: c + i, 0) == 3


def test_an_index_beyond_32_bits_is_clamped():
    """It became an int32 first, of whatever its lower bits said."""
    branches = [lambda: 0, lambda: 1, lambda: 2]
    choose = lambda i: lax.switch(i, branches)
    for transform in (lambda f: f, mj.jit, lambda f: lambda i: mj.vmap(f)(i[None])[0]):
        chosen = transform(choose)
        assert chosen(jnp.asarray(3_000_000_000, "uint32")) == 2
        assert chosen(jnp.int8(-3)) == 0 and chosen(jnp.uint8(200)) == 2
        with mj.enable_x64(True):
            assert chosen(jnp.int64(2**32)) == 2
            assert chosen(jnp.int64(1 - 2**32)) == 0
            assert chosen(jnp.asarray(2**63, "uint64")) == 2
    many = [lambda k=k: k for k in range(200)]
    assert lax.switch(jnp.int8(127), many) == 127
    assert lax.switch(jnp.uint8(255), many) == 199


@mj.custom_jvp
def double(x):
    """Linear, with a rule that applies it to the tangent."""
    return 2 * x


double.defjvp(lambda primals, tangents: (double(*primals), double(*tangents)))


def with_tangent(of_tangent):
    """sin, but its tangent is `of_tangent(x, t)`."""
    f = mj.custom_jvp(jnp.sin)
    f.defjvp(lambda p, t: (f(*p), of_tangent(p[0], t[0])))
    return f


# What a rule may do to its tangent, and the derivative at 1.5 that it says.
linear_rules = {
    "itself": (double, 2.0),
    "call": (with_tangent(lambda x, t: double(jnp.cos(x) * t)), 2 * np.cos(1.5)),
    "two of them": (with_tangent(lambda x, t: double(double(t)) + double(t)), 6.0),
    "jit": (with_tangent(lambda x, t: mj.jit(double)(t)), 2.0),
    "checkpoint": (with_tangent(lambda x, t: mj.checkpoint(double)(t)), 2.0),
    "vmap": (
        with_tangent(lambda x, t: mj.vmap(double)(jnp.stack([t, t])).sum()), 4.0
    ),
    "scan": (
        with_tangent(lambda x, t: lax.scan(
            lambda c, s: (c + double(s * t), None), jnp.zeros_like(t), jnp.arange(3.0)
        )[0]), 6.0
    ),
    "fori_loop": (
        with_tangent(lambda x, t: lax.fori_loop(0, 3, lambda i, c: double(c), t)), 8.0
    ),
    "cond": (
        with_tangent(lambda x, t: lax.cond(x > 0, double, lambda c: c, t)), 2.0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", linear_rules)
def test_a_rule_may_apply_functions_with_rules_to_its_tangents(name):
    """Where they are linear: what they do to a tangent, they do to all of them."""
    f, slope = linear_rules[name]
    for transform in (lambda f: f, mj.jit):
        np.testing.assert_allclose(transform(mj.grad(f))(1.5), slope, rtol=1e-6)
        tangent = transform(lambda x: mj.jvp(f, (x,), (1.0,))[1])(1.5)
        np.testing.assert_allclose(tangent, slope, rtol=1e-6)
        many = transform(mj.vmap(mj.grad(f)))(jnp.array([1.5, 1.5]))
        np.testing.assert_allclose(many, [slope, slope], rtol=1e-6)
        chained = lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]
        np.testing.assert_allclose(transform(mj.grad(chained))(1.5), slope, rtol=1e-6)


def test_a_rule_may_not_apply_what_is_not_linear_to_its_tangents():
    """Also where that has a rule of its own, or lies in one that is called."""
    bent = mj.custom_jvp(jnp.sin)
    bent.defjvp(lambda p, t: (bent(*p), jnp.cos(p[0]) * t[0]))
    for of_tangent in (bent, mj.jit(bent), lambda t: double(bent(t))):
        f = with_tangent(lambda x, t, g=of_tangent: g(t))
        refused(NotImplementedError, "linear in the tangents", mj.grad(f), 1.5)


def test_linear_transpose_of_functions_with_rules():
    """Through jit, loops and branches, and alone."""
    transposed = lambda f, *args: mj.linear_transpose(f, *args)
    loop = lambda x: lax.scan(lambda c, _: (double(c), None), x, None, length=3)[0]
    nested = lambda x: mj.jit(lambda y: double(y) + y)(x) * 3
    cases = [(double, 2), (mj.jit(double), 2), (loop, 8), (mj.jit(nested), 9)]
    cases += [(lambda x: lax.cond(True, double, lambda y: y, x), 2)]
    cases += [(lambda t: mj.jvp(double, (1.0,), (t,))[1], 2)]
    for f, factor in cases:
        for run in (lambda g: g, mj.jit):
            (out,) = run(transposed(f, 1.0))(3.0)
            assert out == 3.0 * factor
    (many,) = transposed(lambda x: lax.map(double, x), jnp.ones(3))(jnp.ones(3))
    assert many.tolist() == [2.0] * 3
    refused(TypeError, "from integers to integers", transposed, lambda x: x * 2, True)
    assert transposed(lambda x: x * 2, 3)(2) == (4,)


def test_none_is_an_operand_too():
    one, two = (lambda operand: 1), (lambda operand: 2)
    assert lax.cond(True, one, two, operand=None) == 1
    assert lax.switch(1, [one, two], operand=None) == 2
    assert lax.cond(False, lambda: 1, lambda: 2) == 2
    for call in (lambda **kw: lax.cond(True, one, two, 3, **kw),
                 lambda **kw: lax.switch(0, [one, two], 3, **kw)):  # fmt: skip
        assert call() == 1
        refused(TypeError, "no positional operands can be passed", call, operand=None)


# ---- as JAX's documentation describes it


@pytest.mark.chapter(13)
def test_disable_jit_lets_python_look_inside():
    halves = []

    def step(x):
        halves.append(float(x))
        return x / 2

    with mj.disable_jit():
        lax.while_loop(lambda x: x > 1, step, jnp.float32(5.0))
        ys = lax.scan(lambda c, x: (c + x, float(c)), 0.0, jnp.arange(3.0))[1]
        back = lax.scan(lambda c, x: (x, c), 3.0, jnp.arange(3.0), reverse=True)
        lax.cond(True, step, lambda x: x, jnp.float32(7.0))
    assert halves == [5.0, 2.5, 1.25, 7.0]
    np.testing.assert_array_equal(ys, [0.0, 0.0, 1.0])
    assert back[0] == 0.0 and back[1].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.chapter(13)
def test_reverse_mode_where_the_number_of_steps_is_traced():
    """In JAX such a loop cannot be reversed; `test_as_unrolled` has the others."""
    power = lambda n, x: lax.fori_loop(0, n, lambda i, c: c * x, 1.0)
    by_traced = lambda x: mj.jit(power)(4, x)
    assert float(by_traced(2.0)) == 16.0
    assert float(mj.grad(by_traced)(2.0)) == 32.0
    assert float(mj.jvp(by_traced, (2.0,), (1.0,))[1]) == 32.0
    assert float(mj.grad(mj.grad(by_traced))(2.0)) == 48.0


@pytest.mark.chapter(13)
def test_platform_dependent_takes_what_is_for_this_platform():
    f = lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)
    assert float(mj.jit(f)(0.5)) == pytest.approx(np.sin(0.5))
    f = lambda x: lax.platform_dependent(x, tpu=jnp.sin, default=jnp.cos)
    assert float(f(0.5)) == pytest.approx(np.cos(0.5))
    with pytest.raises(NotImplementedError, match="no function for cpu and no def"):
        lax.platform_dependent(0.5, tpu=jnp.sin)


# ---- what is recorded


@pytest.mark.chapter(16)
def test_a_body_that_is_known_is_read_no_more(monkeypatch):
    """What it says is told once, from the third time on: nothing walks through it."""
    read, param_key = [], pieces.param_key
    monkeypatch.setattr(pieces, "param_key", lambda p: read.append(p) or param_key(p))
    goes_on, step = lambda c: c[1] < 3, lambda c: (c[0] * 0.75, c[1] + 1)
    f = mj.vmap(lambda x: lax.while_loop(goes_on, step, (x, 0))[0])
    counts = []
    for _ in range(6):
        read.clear()
        f(jnp.ones(3))
        counts.append(len(read))
    assert counts[0] > 0 and counts[3:] == [0, 0, 0]


@pytest.mark.parametrize("axes", [1, 2])
def test_lanes_say_once_a_step_whether_they_run(axes):
    """Before the loop, and at the end of a step: its condition reads what they said."""
    f = lambda x: lax.while_loop(lambda c: jnp.sin(c) < x, lambda c: c + 0.1, 0.0)
    xs = jnp.linspace(0, 0.9, 6).reshape((6, (2, 3))[axes - 1])
    many = functools.reduce(lambda g, _: mj.vmap(g), range(axes), f)
    assert str(mj.make_jaxpr(many)(xs)).count(" sin ") == 2
    want = np.reshape([f(x) for x in np.ravel(xs)], xs.shape)
    np.testing.assert_array_equal(mj.jit(many)(xs), want)


def test_a_body_that_says_the_same_is_the_first_one():
    first, *others = (
        pieces.interned(mj.make_jaxpr(lambda x: jnp.sin(x) * 3)(1.0)) for _ in range(3)
    )
    assert all(other is first for other in others)


@pytest.mark.chapter(16)
def test_a_tracer_that_a_body_leaves_behind():
    kept = []
    with mj.checking_leaks(), pytest.raises(Exception, match="(?i)leak"):
        lax.fori_loop(0, 3, lambda i, c: kept.append(c) or c + 1, 1.0)
