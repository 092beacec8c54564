"""The order of the compiler's passes: one list, in which each has its place."""

import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile import decisions, pipeline
from minijit.compile.decisions import noted, noting
from minijit.compile.loops.expressions import Axis, Const, op
from minijit.compile.loops.graphs import TooLong, allowed, postorder, substitute
from minijit.compile.pipeline import Stage
from minijit.trace.base.demand import add_rows

pytestmark = pytest.mark.chapter(26)


def test_each_place_is_filled():
    mj.jit(lambda x: x + 1)(jnp.ones(3))
    add_rows("run.device.grid")
    from minijit.run.cuda import executor  # noqa: F401

    stages = {k: v for k, v in vars(pipeline).items() if isinstance(v, Stage)}
    assert len(stages) == 12
    for name, stage in stages.items():
        assert set(stage) == set(stage.names), name
        assert stage.passes == tuple(stage[name] for name in stage.names), name


def test_passes_run_in_the_order_of_the_list_whoever_comes_first():
    stage = Stage("one", "two", "three")
    stage |= {"three": 3}
    stage |= {"one": 1}
    assert stage.passes == (1, 3)
    with pytest.raises(KeyError, match=r"without a place in the pipeline: \['four'\]"):
        stage |= {"four": 4}
    assert stage.passes == (1, 3)


def test_a_pass_that_takes_too_long_leaves_things_as_they_are(monkeypatch):
    """What it would have made is missing, the answer is right, and a remark says so."""
    x = np.random.default_rng(0).normal(size=(300, 64)).astype("f4")

    def f(x):
        y = jnp.exp(x - x.max(1, keepdims=True))
        loop = lax.scan(lambda c, r: (jnp.sin(c) * r, c.sum()), y[0], x)
        return y / y.sum(1, keepdims=True), loop

    def run():
        mj.clear_caches()
        report = mj.explain(lambda x: f(x), x)
        found = mj.tree.leaves(mj.jit(lambda x: f(x))(x))
        return found, [d for d in report.decisions if d.rule == "too long"], str(report)

    found, remarks, text = run()
    assert not remarks
    assert "left it as it was" not in text
    monkeypatch.setattr(decisions, "FREE", 0)
    monkeypatch.setattr(decisions, "VISITS", 0)
    again, remarks, text = run()
    assert {"fused", "in_shares"} <= {name for d in remarks for name in d.numbers}
    assert "passes that left it as it was" in text
    alike(found, again, rtol=1e-5, atol=1e-5)
    mj.clear_caches()


def test_a_pass_may_look_at_more_if_the_program_is_large(monkeypatch):
    calls, expr = [], Const(1, np.dtype("f4"))
    monkeypatch.setattr(decisions, "FREE", 10)

    def changed(count):
        def change(form):
            calls.append(form)
            noted("too long", form)
            # What some roots are computed from is remembered meanwhile.
            [postorder([expr] * n) for n in range(1, count + 1)]
            return "changed"

        with noting() as notes:
            made = decisions.in_bounds(change, "as it was", lambda form: [expr])
        return made, len(calls), len(notes)

    assert changed(10) == ("changed", 1, 1)
    assert changed(100) == ("changed", 3, 1)
    assert changed(101) == ("as it was", 5, 1)


def test_what_is_put_into_itself_for_ever_has_an_end():
    i = Axis(9)
    with pytest.raises(TooLong), allowed(1000):
        substitute([i], lambda e: op("add", e, Const(1, e.dtype)))
    assert substitute([i], lambda e: None) == [i]
