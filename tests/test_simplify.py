"""simplify: fewer equations, the same bits."""

import numpy as np
import pytest
from harness import alike, same_bits

import minijit as jax
import minijit.numpy as jnp
from minijit import lax, make_jaxpr
from minijit.compile.simplify import folding as module
from minijit.compile.simplify.folding import simplify
from minijit.trace.api.stages import all_eqns
from minijit.trace.array import ShapedArray, shape_rules
from minijit.trace.core import Primitive, eval_rules
from minijit.trace.jaxprs import jaxpr as jaxprs
from minijit.trace.jaxprs.checks import check_jaxpr
from minijit.trace.jit.jit import compile_for_eval
from minijit.trace.slicing import pad, rev

pytestmark = pytest.mark.chapter(14)

special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, 3.4e38]
floats = np.array(special, np.float32)
halves = np.array([0.0, -0.0, 1.0, -1.5, np.inf, np.nan, 6e-8, 65504], np.float16)
ints = np.array([0, 1, -1, 7, -(2**31), 2**31 - 1], np.int32)
bytes_ = np.array([0, 1, 127, 128, 255], np.uint8)
bools = np.array([False, True])
table = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def run(closed, *args):
    return compile_for_eval(closed, "f")(*args)


def simplified(f, *args, **options):
    """The simplified jaxpr: sound, and unless fast with the same bits as results."""
    closed = make_jaxpr(f)(*args)
    simple = simplify(closed, **options)
    check_jaxpr(simple.jaxpr)
    assert simple.out_avals == closed.out_avals
    assert simple.in_avals == closed.in_avals
    if not options:
        for a, b in zip(run(closed, *args), run(simple, *args), strict=True):
            assert same_bits(a, b)
    return simple


def names(closed):
    return " ".join(eqn.primitive.name for eqn in closed.eqns)


broadcast_to = jnp.broadcast_to
CONVERT = "convert_element_type"


def zeros(x):
    return jnp.zeros(x.shape, x.dtype)


def ones(x):
    return jnp.ones(x.shape, x.dtype)


@pytest.mark.parametrize("f, x, want", [
    # arithmetic of floats: what is exact goes, what is not stays
    (lambda x: x + 0.0, floats, "add"),
    (lambda x: x + -0.0, floats, ""),
    (lambda x: -0.0 + x, floats, ""),
    (lambda x: x - 0.0, floats, ""),
    (lambda x: jnp.maximum(-jnp.inf, jnp.minimum(x, jnp.inf)), floats, ""),
    (lambda x: x - -0.0, floats, "sub"),
    (lambda x: 0.0 - x, floats, "sub"),
    (lambda x: x - x, floats, "sub"),
    (lambda x: x * 1.0, floats, ""),
    (lambda x: x * ones(x), floats, ""),
    (lambda x: x * 1.0, halves, ""),
    (lambda x: x * 0.0, floats, "mul"),
    (lambda x: x * -1.0, floats, "mul"),
    (lambda x: x / 1.0, floats, ""),
    (lambda x: x / 4.0, floats, "mul"),
    (lambda x: x / -0.5, floats, "mul"),
    (lambda x: x / 3.0, floats, "div"),
    (lambda x: x / 1e-45, floats, "div"),
    (lambda x: x / 2.0**-126, floats, "mul"),
    (lambda x: x / 2.0**127, floats, "div"),
    (lambda x: x / x, floats, "div"),
    (lambda x: (x + 1.0) - 1.0, floats, "add sub"),
    (lambda x: x + -x, floats, "sub"),
    (lambda x: x**1, floats, ""),
    (lambda x: x**2, floats, "mul"),
    (lambda x: jnp.where(x == x, x, x), floats, ""),
    (lambda x: jnp.where(~(x > 0), x, 1.0), floats, None),
    (lambda x: jnp.where(ones(x) > 0, x, 1.0), floats, ""),
    # of integers, which wrap
    (lambda x: x + 0, ints, ""),
    (lambda x: x - x, ints, "broadcast_in_dim"),
    (lambda x: x * 0, ints, "broadcast_in_dim"),
    (lambda x: 1 * x, ints, ""),
    # conversions
    (lambda x: x.astype(jnp.float16).astype(jnp.float32), floats, None),
    (lambda x: x.astype(jnp.float32).astype(jnp.float16), halves, ""),
    (lambda x: x.astype(jnp.int32).astype(jnp.uint8), bytes_, ""),
    (lambda x: x.astype(jnp.int32).astype(jnp.int16), bytes_, CONVERT),
    (lambda x: x.astype(jnp.int32).astype(jnp.float32), bools, CONVERT),
    (lambda x: x.astype(jnp.float32).astype(jnp.int8), bytes_, None),
    (lambda x: x.astype(jnp.int32), floats, CONVERT),
    # layout
    (lambda x: x.T.T, table, ""),
    (lambda x: x[None].transpose(2, 0, 1).transpose(1, 2, 0), table, None),
    (lambda x: x.reshape(6).reshape(3, 2).reshape(2, 3), table, ""),
    (lambda x: x.reshape(6).reshape(3, 2), table, "reshape"),
    (lambda x: x[:, None].squeeze(1), table, ""),
    (lambda x: x[:, None].reshape(3, 2), table, "reshape"),
    (lambda x: x[:, :], table, ""),
    (lambda x: x[1:][:, ::2][:, 1:], table, "slice"),
    (lambda x: x[1:][:0], table, "broadcast_in_dim"),
    (lambda x: rev(rev(x, (0,)), (0,)), table, ""),
    (lambda x: rev(rev(x, (0, 1)), (0,)), table, "rev"),
    (lambda x: jnp.concatenate([x, x[:0]]), table, ""),
    (lambda x: pad(x, 0.0, [(0, 0, 0)] * 2), table, ""),
    (lambda x: pad(x, 0.0, [(0, 0, 0), (1, 2, 0)])[:, :1], table,
     "broadcast_in_dim"),
    (lambda x: broadcast_to(broadcast_to(x, (4, 2, 3)), (5, 4, 2, 3)), table,
     "broadcast_in_dim"),
    (lambda x: lax.dynamic_slice(x, (1, 7), (1, 2)), table, "slice"),
    (lambda x: x.sum(axis=()), table, ""),
    (lambda x: jnp.where(x.sum() > 0, x, -x), table, "reduce_sum gt neg select_n"),
    pytest.param(lambda x: jnp.conj(jnp.conj(x)), table * 1j, "",
                 marks=pytest.mark.chapter(16)),
    (lambda x: jnp.ones((3, 2)).T * x, table, ""),
    (lambda x: jnp.array(x, copy=True), table, ""),
])  # fmt: skip
def test_rules(f, x, want):
    got = names(simplified(f, x))
    if want is not None:
        assert got == want


@pytest.mark.parametrize("f, want", [
    (lambda x, y: x + y - x, ""),
    (lambda x, y: y - x + x, ""),
    (lambda x, y: x + 0.0, ""),
    (lambda x, y: x - x, "broadcast_in_dim"),
    (lambda x, y: x * 0.0, "broadcast_in_dim"),
    (lambda x, y: x * 3.0 * 2.0, "mul"),
    (lambda x, y: x / 3.0, "mul"),
    (lambda x, y: x / x, "broadcast_in_dim"),
])  # fmt: skip
def test_fast_math(f, want):
    assert names(simplified(f, table, table, fast_math=True)) == want
    assert names(simplified(f, table, table)) != want
    with jax.config.override("fast_math", True):
        assert names(simplify(make_jaxpr(f)(table, table))) == want


def test_fast_math_leaves_what_is_not_taken_away():
    """Of small whole numbers, for which all of it is exact."""
    x, y = table, table * 3.0 + 7.0
    for f, want in ((lambda x, y: x + y - x, y), (lambda x, y: x + y - y, x)):
        assert same_bits(run(simplified(f, x, y, fast_math=True), x, y)[0], want)


def test_a_bfloat16_has_two_zeros_too():
    x = jnp.asarray([0.0, -0.0, 1.0], "bfloat16")
    zero = jnp.bfloat16(0.0)
    for f, want in (
        (lambda x: x + zero, "add"),
        (lambda x: x + -zero, ""),
        (lambda x: x - zero, ""),
        (lambda x: x - -zero, "sub"),
    ):
        simple = simplified(f, x)
        assert names(simple).split()[-1:] == want.split()
        signs = np.signbit(np.asarray(f(x)))
        np.testing.assert_array_equal(np.signbit(np.asarray(jax.jit(f)(x))), signs)


def test_precision_stays_what_was_written():
    f = lambda x, y: x + y - x
    simple = simplified(f, jnp.float32(1.0), jnp.float32(0.001))
    assert names(simple) == "add sub"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_power_of_a_half_is_a_square_root(dtype):
    x = jnp.asarray(floats).astype(dtype)
    closed = make_jaxpr(lambda x: x**0.5)(x)
    assert "pow" not in names(simplify(closed)) or dtype == "bfloat16"
    got = np.asarray(jax.jit(lambda x: x**0.5)(x)).astype("float32")[:7]
    want = [0.0, 0.0, 1.0, np.nan, np.inf, np.inf, np.nan]
    np.testing.assert_array_equal(got, np.float32(want))
    assert not np.signbit(got[:2]).any()


def test_common_subexpressions():
    f = lambda x, y: (x * y + jnp.sin(x)) + (y * x - jnp.sin(x))
    assert names(simplified(f, floats, floats)) == "mul sin add sub add"
    assert names(simplified(lambda x, y: (x - y) * (y - x), 1.0, 2.0)) == "sub sub mul"


def test_what_is_done_is_done_as_often_as_written(monkeypatch):
    """Nothing without operands is computed beforehand, and no effect is merged."""
    tick = Primitive("tick")
    monkeypatch.setitem(eval_rules, tick, lambda: np.float32(1))
    monkeypatch.setitem(shape_rules, tick, lambda: ShapedArray((), np.dtype("f4")))
    closed = make_jaxpr(lambda x: x + tick.bind() + tick.bind())(1.0)
    assert names(simplify(closed)) == "tick add add"
    monkeypatch.setattr(jaxprs, "effectful", {tick})
    assert names(simplify(closed)) == "tick add tick add"


def test_constants_are_told_apart_by_their_bits():
    scale = lambda k: np.full(3, k, np.float32)
    x = np.ones(3, np.float32)
    both = simplified(lambda x: (x + scale(0.0)) + (x + scale(-0.0) * x), x)
    assert names(both) == "add mul add add"
    twice = simplified(lambda x: x * np.arange(3.0) + x / np.arange(3.0), x)
    assert len(twice.consts) == 1
    assert len(simplify(make_jaxpr(lambda x: x * 1 + x * True)(1)).eqns) == 1


def test_folding():
    simple = simplified(lambda x: x * (jnp.sin(2.0) + jnp.arange(3.0).max()), table)
    assert names(simple).split()[-1] == "mul"
    assert not {"sin", "add"} & set(names(simple).split())
    filled = simplified(lambda x: x + jnp.exp(jnp.zeros((1000, 1000)))[0, 0], 1.0)
    assert names(filled) == "add"
    total = simplified(lambda x: x + jnp.ones((2, 3)).sum(0), table)
    assert "reduce_sum" not in names(total)
    three = np.arange(3.0, dtype="f4")
    kept = simplified(lambda x: x + pad(three, np.float32(0), [(0, 1000, 0)]), 1.0)
    assert names(kept) == "pad add"


def test_results_keep_their_types():
    simple = simplified(lambda x: (x * 1.0, x * jnp.float32(1.0), 2.0, x), 3.0)
    assert [a.weak_type for a in simple.out_avals] == [True, False, True, True]


# Calls


@jax.jit
def big(x):
    for _ in range(20):
        x = jnp.sin(x)
    return x


def test_a_big_shared_call_stays_a_call():
    simple = simplified(lambda x: big(big(big(x))), floats)
    assert names(simple) == "jit jit jit"
    assert len({id(eqn.params["jaxpr"]) for eqn in simple.eqns}) == 1


def test_the_only_call_is_inlined():
    assert names(simplified(lambda x: big(x), floats)) == " ".join(["sin"] * 20)


def test_rules_say_which_calls_stay_and_what_else_calls(monkeypatch):
    other = Primitive("other")
    monkeypatch.setitem(shape_rules, other, lambda x: x)
    monkeypatch.setitem(module.inline_rules, other, lambda: make_jaxpr(jnp.sin)(floats))
    assert names(simplify(make_jaxpr(lambda x: other.bind(x))(floats))) == "sin"
    monkeypatch.setattr(module, "stay_calls", [lambda eqn: True])
    assert names(simplified(lambda x: big(x), floats)) == "jit"


def test_the_same_call_twice_is_one():
    simple = simplified(lambda x: big(x) + big(x) + big(x), floats)
    assert names(simple) == "jit add add"


def test_a_call_that_becomes_small_is_inlined():
    @jax.jit
    def long_nothing(x):
        for _ in range(30):
            x = x.T * 1.0
        return x

    assert names(simplified(lambda x: long_nothing(long_nothing(x)), table)) == ""


# Size


@pytest.mark.parametrize("size", [200, 800])
def test_the_number_of_rule_calls_grows_linearly(size, monkeypatch):
    calls = []
    emit = module.Simplifier.emit
    counting = lambda self, *args: calls.append(1) or emit(self, *args)
    monkeypatch.setattr(module.Simplifier, "emit", counting)

    def layout(x):
        for _ in range(size // 4):
            x = (x + 1.0).T.reshape(3, 2).T.T
        return x

    closed = make_jaxpr(layout)(table.T)
    simplify(closed)
    assert len(calls) <= 3 * len(closed.eqns)


@pytest.mark.chapter(16)
def test_an_int64_is_not_every_float64():
    """Through float64 it is rounded; NumPy's "safe" cast is not lossless."""
    many = [2**53 + 1, -(2**53) - 1, 2**62 + 1, 7]
    with jax.enable_x64(True):
        for source in (jnp.int64, jnp.uint64):
            x = jnp.asarray([abs(i) for i in many], source)
            for middle in ("float64", "complex128"):
                f = lambda x, d=middle: jnp.real(x.astype(d)).astype(x.dtype)
                left = simplify(make_jaxpr(f)(x)).jaxpr
                assert len(left.eqns) >= 2
                want = np.asarray(x).astype("float64").astype(x.dtype)
                np.testing.assert_array_equal(jax.jit(f)(x), want)
        # An int32 is.
        closed = make_jaxpr(lambda x: x.astype("float64").astype("int32"))
        assert not simplify(closed(jnp.arange(3, dtype="int32"))).jaxpr.eqns


@pytest.mark.chapter(16)
def test_nothing_is_computed_of_a_result_without_elements():
    """What made an empty array was lowered, and divided by its extent."""

    def f(x):
        return jnp.vdot(jnp.tile(x.reshape(-1), 2), jnp.minimum(x, 0.5).reshape(-1))

    x = np.ones((5, 0), "f4")
    for g in (f, jax.grad(f)):
        eqns = simplify(make_jaxpr(g)(x)).jaxpr.eqns
        makers = {e.primitive.name for e in eqns if 0 in e.outvars[0].aval.shape}
        assert makers <= {"broadcast_in_dim"}
    assert float(jax.jit(f)(x)) == 0

    def g(x, y):
        return (jnp.vdot(jnp.sort(y), jnp.minimum(x, 0.5).reshape(-1)) + y).sum()

    slopes = jax.jit(jax.grad(g, (0, 1)))(x, np.ones(0, "f4"))
    assert [s.shape for s in slopes] == [(5, 0), (0,)]


def scanned(step, *carry):
    """The last values that three steps carry, and what they make."""
    return lax.scan(lambda c, _: step(*c), carry, None, length=3)


def counted(step, *carry):
    """What three steps of a while carry, which counts them."""
    body = lambda c: (c[0] + 1, *step(*c[1:]))
    return lax.while_loop(lambda c: c[0] < 3, body, (0, *carry))


def nested(x):
    step = lambda a, b: ((jnp.sin(a), jnp.exp(b)), b)
    return scanned(lambda a, b: (scanned(step, a, b)[0], b), x, x)[0][0]


def printed(a, b):
    jax.debug.callback(lambda b: None, b)
    return (jnp.sin(a), jnp.exp(b)), a


@pytest.mark.parametrize("f, want", [
    (lambda x: scanned(lambda a: ((jnp.sin(a),), jnp.exp(a)), x)[0][0], "scan sin"),
    (
        lambda x: scanned(lambda a: ((jnp.sin(a),), jnp.exp(a)), x)[1],
        "scan sin exp",
    ),
    # a carry that another one reads stays, whatever is asked of it
    (lambda x: scanned(
         lambda a, b, c: ((jnp.sin(b), jnp.cos(b), jnp.exp(c)), None), x, x, x
     )[0][0], "scan sin cos"),
    (lambda x: scanned(printed, x, x)[0][0], "scan debug_callback sin exp"),
    (nested, "scan scan sin"),
    (lambda x: counted(lambda a, b: (jnp.sin(a), jnp.exp(b)), x, x)[1],
     "while lt add sin"),
    (lambda x: lax.cond(
         x[0] > 0, lambda: (jnp.sin(x), jnp.exp(x)), lambda: (x, jnp.cos(x))
     )[0], "cond sin"),
    # the tape of what no loss asks for is not written
    (jax.grad(
         lambda x: scanned(lambda a, b: ((a * 2, jnp.exp(b)), b), x, x)[0][
             0
         ].sum()
     ), "scan mul"),
])  # fmt: skip
def test_results_of_loops_and_branches_that_nobody_needs_go(f, want):
    left = [eqn.primitive.name for eqn in all_eqns(simplified(f, floats).jaxpr)]
    looked_at = "scan while cond debug_callback lt add mul sin cos exp".split()
    assert " ".join(name for name in left if name in looked_at) == want
    lanes = jnp.stack([floats, floats])
    for g, x in [(jax.vmap(f), lanes), (lambda x: jax.jvp(f, (x,), (x,)), floats)]:
        alike(jax.jit(g)(x), g(x), rtol=1e-5)
