"""Jaxprs: recorded, printed, read back, checked, cut and run."""

import numpy as np
import pytest
from harness import refused

import minijit as mj
from minijit.trace import primitives as lax
from minijit.trace.array import ShapedArray, eval_rules, shape_rules, wrap
from minijit.trace.base.errors import JaxprTypeError, UnexpectedTracerError
from minijit.trace.core import Primitive, Trace, current_trace, set_trace
from minijit.trace.jaxprs.checks import check_jaxpr
from minijit.trace.jaxprs.jaxpr import (
    Eqn, Literal, Var, dce, dce_rules, eval_jaxpr, needed_equations, slice_jaxpr,
    staging_rules,
)
from minijit.trace.jaxprs.parser import parse_jaxpr
from minijit.trace.jaxprs.text import jaxpr_text

pytestmark = pytest.mark.chapter(4)

f32 = np.dtype("float32")
call_p = Primitive("test_call", multiple_results=True)
shape_rules[call_p] = lambda *args, jaxpr, name: jaxpr.out_avals


def f(x, y):
    z = lax.mul(lax.sin(x), 2.0)
    return lax.add(z, y), z


def same(jaxpr):
    """The jaxpr read back prints the same, is well-formed, and computes the same."""
    text = str(jaxpr)
    again = parse_jaxpr(text)
    check_jaxpr(again)
    assert jaxpr_text(again) == text
    return again


def test_golden_text():
    assert str(mj.make_jaxpr(f)(1.0, 2.0)) == (
        "{ lambda ; a:f32[] b:f32[]. let\n"
        "    c:f32[] = sin a\n"
        "    d:f32[] = mul c 2.0:f32[]\n"
        "    e:f32[] = add d b\n"
        "  in (e, d) }"
    )
    assert str(mj.make_jaxpr(lax.sin)(1.0)) == (
        "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    )


def test_inputs_without_equations_and_literal_results():
    assert str(mj.make_jaxpr(lambda x: x)(1)) == "{ lambda ; a:i32[]. let in (a,) }"
    same(mj.make_jaxpr(lambda x: (x, 3))(1))


def test_arrays_become_constvars_once_and_scalars_literals():
    c = wrap(np.arange(3, dtype=f32))
    closed = mj.make_jaxpr(lambda x: lax.add(lax.mul(x, c), c))(np.ones(3, f32))
    assert len(closed.consts) == 1 and closed.consts[0] is c
    assert str(closed).startswith("{ lambda a:f32[3]; b:f32[3]. let")
    scalar = wrap(np.float32(2.0))
    closed = mj.make_jaxpr(lambda x: lax.mul(x, scalar))(1.0)
    assert closed.consts == () and isinstance(closed.eqns[0].invars[1], Literal)


def test_an_enclosing_traces_value_is_a_constant():
    inner = []

    def outer(x):
        y = lax.sin(x)
        inner.append(mj.make_jaxpr(lambda z: lax.mul(z, y))(1.0))
        return y

    mj.make_jaxpr(outer)(1.0)
    assert str(inner[0]) == "{ lambda a:f32[]; b:f32[]. let c:f32[] = mul b a in (c,) }"


def test_params_and_shared_jaxprs_print_and_parse():
    inner = mj.make_jaxpr(lambda x: lax.mul(2.0, x))(1.0)

    def twice(x):
        for _ in range(2):
            x, = call_p.bind(x, jaxpr=inner, name="inner")
        return lax.reduce_sum(lax.broadcast(x, (3, 2)), (0, 1)), lax.iota(np.int32, 4)

    closed = mj.make_jaxpr(twice)(1.0)
    text = str(closed)
    assert text.count("mul") == 1 and text.startswith("let inner = {")
    assert text.count("test_call[name=inner jaxpr=inner]") == 2
    again = same(closed)
    first, second = again.eqns[:2]
    assert first.params["jaxpr"].jaxpr is second.params["jaxpr"].jaxpr


def test_a_jaxpr_used_once_prints_in_place_with_names_of_its_own():
    inner = mj.make_jaxpr(f)(1.0, 2.0)
    call = lambda x: tuple(call_p.bind(x, x, jaxpr=inner, name="f"))
    outer = mj.make_jaxpr(call)(1.0)
    text = str(outer)
    assert "let f =" not in text and "jaxpr={ lambda ; " in text
    bound = [word for word in text.split() if ":f32" in word and word[0] != "2"]
    names = [word.split(":")[0] for word in bound]
    assert len(names) == len(set(names))
    same(outer)


@pytest.mark.parametrize(
    "value, dtype",
    [(0.1, "float32"), (1e-30, "float32"), (np.inf, "float32"), (-np.inf, "float32"),
     (np.nan, "float32"),
     (-0.0, "float32"), (7, "uint8"), (-5, "int32"), (True, "bool"), (1 / 3, "float16"),
     (1 / 3, "bfloat16"), (3e38, "bfloat16"), (1 + 2j, "complex64")],
)  # fmt: skip
def test_literals_come_back_bit_for_bit(value, dtype):
    scalar = np.array(value, np.dtype(dtype))
    closed = mj.make_jaxpr(lambda x: (x, scalar))(1.0)
    literal = same(closed).outvars[1]
    assert literal.val.tobytes() == scalar.tobytes()
    assert literal.aval.dtype == scalar.dtype


def test_text_of_a_parse_error_names_the_place():
    with pytest.raises(SyntaxError, match="line 1 .* no primitive called frobnicate"):
        parse_jaxpr("{ lambda ; a:f32[]. let b:f32[] = frobnicate a in (b,) }")
    with pytest.raises(SyntaxError, match="the variable b has no value here"):
        parse_jaxpr("{ lambda ; a:f32[]. let in (b,) }")
    with pytest.raises(SyntaxError, match="ends too early|expected"):
        parse_jaxpr("{ lambda ; a:f32[]. let")


def test_source_info_names_the_users_line():
    closed = mj.make_jaxpr(f)(1.0, 2.0)
    assert all(eqn.source.file == __file__ for eqn in closed.eqns)
    text = jaxpr_text(closed.jaxpr, source_info=True)
    assert "# " in text and "test_jaxpr.py" in text
    assert jaxpr_text(parse_jaxpr(text)) == str(closed)


def test_eval_jaxpr_evaluates_and_replays():
    closed = mj.make_jaxpr(f)(1.0, 2.0)
    got = eval_jaxpr(closed.jaxpr, closed.consts, 3.0, 4.0)
    want = f(3.0, 4.0)
    assert [float(x) for x in got] == [float(x) for x in want]
    replay = lambda x, y: tuple(eval_jaxpr(closed.jaxpr, (), x, y))
    replayed = mj.make_jaxpr(replay)(1.0, 2.0)
    assert str(replayed) == str(closed)


@pytest.fixture
def sin_and_cos_p(monkeypatch):
    """A primitive with two results."""
    p = Primitive("sin_and_cos", multiple_results=True)
    monkeypatch.setitem(shape_rules, p, lambda x: [x, x])
    monkeypatch.setitem(eval_rules, p, lambda x: [lax.sin(x), lax.cos(x)])
    return p


def test_a_primitive_with_several_results(sin_and_cos_p):
    closed = mj.make_jaxpr(lambda x: tuple(sin_and_cos_p.bind(x)))(1.0)
    eqn, = closed.eqns
    assert closed.jaxpr.outvars == eqn.outvars and len(set(eqn.outvars)) == 2
    got = eval_jaxpr(closed.jaxpr, closed.consts, 2.0)
    assert np.allclose(got, [np.sin(2.0), np.cos(2.0)])
    assert dce(closed.jaxpr, [False, True]).eqns == (eqn,)


def test_results_that_nobody_needs_are_left_out_by_a_rule(monkeypatch):
    """Such as the carries of a loop: what only they are made of goes, too."""
    p = Primitive("two_sines", multiple_results=True)
    monkeypatch.setitem(shape_rules, p, lambda x, y: [x, y])
    asked = []

    def first_or_second(used, eqn):
        asked.append(list(used))
        pairs = zip(used, eqn.invars, eqn.outvars, strict=True)
        ((x, y),) = ((x, y) for needed, x, y in pairs if needed)
        return used, eqn.replace(primitive=lax.sin_p, invars=(x,), outvars=(y,))

    monkeypatch.setitem(dce_rules, p, first_or_second)
    g = lambda x, y: tuple(p.bind(lax.exp(x), lax.cos(y)))
    jaxpr = mj.make_jaxpr(g)(1.0, 2.0).jaxpr
    names = lambda jaxpr: [e.primitive.name for e in jaxpr.eqns]
    assert names(dce(jaxpr)) == ["exp", "cos", "two_sines"] and not asked
    assert names(dce(jaxpr, [True, False])) == ["exp", "sin"]
    assert names(dce(jaxpr, [False, True])) == ["cos", "sin"]
    assert asked == [[True, False], [False, True]]


def test_what_does_more_than_compute_is_needed_if_asked(sin_and_cos_p, monkeypatch):
    monkeypatch.setattr("minijit.trace.jaxprs.jaxpr.effectful", {sin_and_cos_p})

    def g(x):
        sin_and_cos_p.bind(lax.exp(x))
        return lax.cos(x)

    eqns = mj.make_jaxpr(g)(1.0).eqns
    assert needed_equations(eqns, []) == ((), set())
    assert needed_equations(eqns, [], effects=True)[0] == eqns[:2]


def test_a_staging_rule_changes_what_is_recorded(monkeypatch):
    twice = lambda args, params: ([lax.mul(args[0], 2.0)], params)
    monkeypatch.setitem(staging_rules, lax.sin_p, twice)
    closed = mj.make_jaxpr(lax.sin)(1.0)
    assert [e.primitive.name for e in closed.eqns] == ["mul", "sin"]


def test_a_trace_that_is_over_records_nothing():
    kept = []
    mj.make_jaxpr(lambda x: kept.append(current_trace()) or x)(1.0)
    with set_trace(kept[0]), pytest.raises(RuntimeError, match="is over"):
        lax.sin(1.0)


def test_values_are_dropped_after_their_last_use():
    import gc
    import weakref

    alive = []

    class Watching(Trace):
        def __init__(self, parent):
            self.parent, self.refs = parent, []

        def process(self, primitive, args, params):
            out = self.parent.process(primitive, args, params)
            self.refs += map(weakref.ref, out)
            gc.collect()
            alive.append(sum(r() is not None for r in self.refs))
            return out

    def chain(x):
        for _ in range(10):
            x = lax.sin(x)
        return x

    closed = mj.make_jaxpr(chain)(np.ones(3, f32))
    with set_trace(Watching(current_trace())):
        eval_jaxpr(closed.jaxpr, (), np.ones(3, f32))
    assert max(alive) <= 2


def test_check_jaxpr_finds_what_is_wrong():
    jaxpr = mj.make_jaxpr(f)(1.0, 2.0).jaxpr
    check_jaxpr(jaxpr)
    with pytest.raises(JaxprTypeError, match="no value yet, in the equation of mul"):
        check_jaxpr(jaxpr.replace(eqns=jaxpr.eqns[1:]))
    with pytest.raises(JaxprTypeError, match="assigned a second time"):
        check_jaxpr(jaxpr.replace(eqns=(jaxpr.eqns[0], *jaxpr.eqns)))
    wrong = Var(ShapedArray((3,), f32))
    bad = jaxpr.eqns[0].replace(outvars=(wrong,))
    with pytest.raises(JaxprTypeError, match=r"f32\[\] to a variable of type f32\[3\]"):
        check_jaxpr(jaxpr.replace(eqns=(bad,), outvars=(wrong,)))


def test_dce_and_slice():
    def g(x):
        y = lax.exp(x)
        z = lax.mul(lax.cos(x), y)
        return lax.add(x, 1.0), z

    jaxpr = mj.make_jaxpr(g)(1.0).jaxpr
    names = lambda jaxpr: [e.primitive.name for e in jaxpr.eqns]
    assert names(dce(jaxpr, [True, False])) == ["add"]
    assert names(dce(jaxpr, [False, True])) == ["exp", "cos", "mul"]
    assert len(dce(jaxpr).eqns) == 4
    y = jaxpr.eqns[0].outvars[0]
    part = slice_jaxpr(jaxpr, [y], [jaxpr.outvars[1]])
    assert names(part) == ["cos", "mul"]
    assert part.invars == (y,) and part.constvars == jaxpr.invars
    got, = eval_jaxpr(part, [2.0], 5.0)
    assert np.isclose(float(got), np.cos(2.0) * 5.0)
    # What is given, or is not needed, is no constant of the piece.
    x, = jaxpr.invars
    assert slice_jaxpr(jaxpr, [y, x], [jaxpr.outvars[1]]).constvars == ()
    nothing = slice_jaxpr(jaxpr, [y], [y])
    assert (nothing.constvars, nothing.eqns, nothing.outvars) == ((), (), (y,))


def test_static_argnums_and_shapes():
    def g(n, x):
        for _ in range(n):
            x = lax.sin(x)
        return x

    closed, shape = mj.make_jaxpr(g, static_argnums=0, return_shape=True)(3, 1.0)
    assert len(closed.eqns) == 3 and shape.shape == ()


def join(x, y):
    return lax.add(x, y)


ones = {n: wrap(np.ones(n, f32)) for n in (3, 4)}


def test_a_misfit_names_the_types_and_the_line_while_tracing():
    with pytest.raises(TypeError) as caught:
        mj.make_jaxpr(join)(ones[3], ones[4])
    message = str(caught.value)
    assert "incompatible shapes" in message
    assert "add was given f32[3], f32[4]" in message
    assert message.count("return lax.add(x, y)") == 1


def test_a_misfit_names_the_recorded_line_in_a_replay():
    jaxpr = mj.make_jaxpr(join)(ones[3], ones[3]).jaxpr
    with pytest.raises(TypeError) as caught:
        eval_jaxpr(jaxpr, (), ones[3], ones[4])
    assert "return lax.add(x, y)" in str(caught.value)
    with pytest.raises(TypeError) as caught:
        mj.make_jaxpr(lambda *args: eval_jaxpr(jaxpr, (), *args))(ones[3], ones[4])
    assert "return lax.add(x, y)" in str(caught.value)


def test_leaks_are_reported_with_where_they_were_made():
    kept = []
    mj.make_jaxpr(lambda x: kept.append(lax.sin(x)) or x)(1.0)
    refused(UnexpectedTracerError, "kept.append", lax.sin, kept[0])
    with pytest.raises(UnexpectedTracerError, match="the traced function"):
        mj.make_jaxpr(lambda x: lax.add(x, kept[0]))(1.0)


def test_no_array_is_an_error_that_names_the_argument():
    with pytest.raises(TypeError, match="the function at path name: "):
        mj.make_jaxpr(lambda x, name: x)(1.0, "abc")


def test_three_thousand_equations():
    def unrolled(x):
        for _ in range(3_000):
            x = lax.sin(x)
        return x

    closed = mj.make_jaxpr(unrolled)(1.0)
    assert len(closed.eqns) == 3_000
    again = same(closed)
    assert len(dce(again).eqns) == 3_000
    got, = eval_jaxpr(closed.jaxpr, (), 1.0)
    assert np.isfinite(float(got))


def test_equations_can_be_replaced():
    eqn = mj.make_jaxpr(lax.sin)(1.0).eqns[0]
    other = eqn.replace(primitive=lax.cos_p)
    assert isinstance(other, Eqn) and other.primitive is lax.cos_p
    assert other.source is eqn.source and other.invars is eqn.invars
