"""Primitives, traces, tracers, and the errors that name the user's line."""

import sys

import pytest
from harness import in_threads, refused

from minijit.trace import core
from minijit.trace.base.errors import (
    ConcretizationTypeError, TracerArrayConversionError, TracerBoolConversionError,
    TracerIntegerConversionError, UnexpectedTracerError, is_running,
)
from minijit.trace.core import (
    Array, Primitive, Trace, Tracer, current_trace, eval_rules, operators, set_trace,
)

pytestmark = [pytest.mark.chapter(2), pytest.mark.usefixtures("no_words_of_the_test")]

double_p = Primitive("double")
less_p = Primitive("less")
split_p = Primitive("split", multiple_results=True)
eval_rules[double_p] = lambda x: x + x
eval_rules[less_p] = lambda x, y: x - y
eval_rules[split_p] = lambda x, *, n: [x / n] * n


class Counting(Trace):
    def __init__(self, parent):
        self.parent, self.seen = parent, []

    def process(self, primitive, args, params):
        self.seen.append((primitive.name, len(args), params))
        return self.parent.process(primitive, args, params)


def test_the_bottom_trace_evaluates():
    assert double_p.bind(3.0) == 6.0 and less_p.bind(3.0, 1.0) == 2.0
    assert split_p.bind(6.0, n=3) == [2.0, 2.0, 2.0]


def test_the_bottom_trace_asks_others(monkeypatch):
    """What was done before comes first, then a leak, then what is not NumPy's."""
    seen = []
    monkeypatch.setattr(core, "result_checks", [lambda *told: seen.append(told)])
    assert double_p.bind(3.0) == 6.0
    assert seen == [(double_p, (3.0,), {}, [6.0])]
    monkeypatch.setattr(core, "elsewhere", [lambda *told: None])
    assert double_p.bind(3.0) == 6.0
    monkeypatch.setattr(core, "elsewhere", [lambda p, args, params: [args[0] + 1]])
    assert double_p.bind(3.0) == 4.0
    assert split_p.bind(6.0, n=3) == [7.0]
    with pytest.raises(UnexpectedTracerError):
        double_p.bind(Tracer(None, "f32[]"))
    assert len(seen) == 4
    known = [lambda *told: None, lambda *told: [8.0]]
    monkeypatch.setattr(core.BottomTrace, "prepared", known)
    assert double_p.bind(3.0) == 8.0
    assert len(seen) == 4


def test_a_missing_row_names_primitive_and_table():
    told = "primitive 'triple' has no eval rule: add a row for it to the eval table"
    refused(NotImplementedError, told, Primitive("triple").bind, 1.0)


def test_traces_nest_and_are_left_on_an_error():
    bottom = current_trace()
    outer = Counting(bottom)
    with set_trace(outer) as given:
        assert given is outer
        inner = Counting(outer)
        with pytest.raises(TypeError), set_trace(inner):
            split_p.bind(1.0, n=2)
            double_p.bind(None)
        assert current_trace() is outer
    assert current_trace() is bottom
    seen = [("split", 1, {"n": 2}), ("double", 1, {})]
    assert inner.seen == outer.seen == seen


def test_each_thread_has_its_own_trace():
    counting = Counting(current_trace())
    with set_trace(counting):
        in_threads(lambda: double_p.bind(1.0))
    assert counting.seen == []


def test_operators_are_looked_up_when_they_are_used(monkeypatch):
    x = Tracer(None, "f32[]")
    monkeypatch.setitem(operators, "__add__", lambda x, y: ("sum", y))
    assert x + 1 == ("sum", 1)
    monkeypatch.setitem(operators, "twice", lambda x: (x, x))
    assert x.twice() == (x, x) or x.twice()[0] is x
    monkeypatch.setitem(operators, "both", property(lambda x: "a property"))
    assert x.both == "a property"
    with pytest.raises(AttributeError, match="'Tracer' object has no attribute 'nope'"):
        x.nope  # noqa: B018
    assert "twice" in dir(x)
    assert isinstance(x, Array)
    method = core.forwarding("thrice")
    refused(TypeError, "thrice is not defined on arrays yet", method, x)
    monkeypatch.setitem(operators, "thrice", lambda x, *, by: (x, by))
    assert method.__name__ == "thrice" and method(x, by=3) == (x, 3)


def test_arrays_and_tracers_are_not_hashable():
    refused(TypeError, "unhashable", hash, Tracer(None, "f32[]"))


@pytest.mark.parametrize("use, error, advice", [
    (bool, TracerBoolConversionError, "jnp.where"),
    (int, ConcretizationTypeError, "astype"),
    (float, ConcretizationTypeError, "astype"),
    (complex, ConcretizationTypeError, "astype"),
    (lambda x: [1, 2][x], TracerIntegerConversionError, "lax.fori_loop"),
    (lambda x: x.item(), ConcretizationTypeError, "static_argnums"),
    (lambda x: x.tolist(), ConcretizationTypeError, "static_argnums"),
    (lambda x: x.__array__(), TracerArrayConversionError, "minijit.numpy"),
])  # fmt: skip
def test_a_tracer_has_no_value_to_give(use, error, advice):
    with pytest.raises(error) as caught:
        use(Tracer(None, "f32[3]"))
    message = str(caught.value)
    assert "f32[3]" in message and "Instead:" in message and advice in message
    assert "test_core.py" in message


def test_a_frame_runs_until_its_function_returns():
    assert is_running(sys._getframe())
    assert not is_running((lambda: sys._getframe())())
