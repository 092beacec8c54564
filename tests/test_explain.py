"""explain: every byte attributed, every pair answered, the pictures drawn."""

import itertools
import json
import threading

import numpy as np
import pytest
from harness import refused

import minijit as mj
from minijit import lax, numpy as jnp, testing
from minijit.compile import pipeline
from minijit.compile.fuse.traffic import traffic_of
from minijit.compile.lower.walk import lower
from minijit.compile.report import pictures as explain_pictures
from minijit.compile.report.text import report_text
from tests.bench import bench_products

pytestmark = pytest.mark.chapter(20)
f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


# ---- whole training steps


def adam(p, g, m, v, step):
    """One array's step of Adam."""
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    fast, slow = 1 - 0.9**step, 1 - 0.99**step
    return p - 1e-3 * (m / fast) / (jnp.sqrt(v / slow) + 1e-8), m, v


def transformer():
    shapes = {"qkv": (16, 48), "o": (16, 16), "up": (16, 64), "down": (64, 16)}
    p = {name: ones(*shape) for name, shape in shapes.items()}

    def train(p, m, v, step, xs):
        value, g = mj.value_and_grad(bench_products.gpt(mj))(p, xs)
        new = {name: adam(p[name], g[name], m[name], v[name], step) for name in p}
        return value, *({name: new[name][i] for name in p} for i in range(3))

    return train, (p, p, p, f32(1), ones(2, 8, 16))


def digits():
    """A small convolutional network's step of gradient descent."""
    p = {"a": ones(3, 3, 1, 4), "b": ones(3, 3, 4, 4), "c": ones(16, 10)}
    labels = np.eye(10, dtype=f32)[np.arange(8)]
    return bench_products.cnn_step(mj), (p, ones(8, 8, 8, 1), labels)


# step: the rules that say why two of its kernels or calls are not one.
rules_of = {
    transformer: {"nothing shared", "recompute", "path", "axes", "buffers", "numbers"},
    digits: {"nothing shared", "recompute"},
}


@pytest.fixture(scope="module", params=rules_of)
def step(request):
    return request.param


@pytest.fixture(scope="module")
def report(step):
    train, args = step()
    return mj.explain(mj.jit(train, backend="plain"), *args)


def test_every_byte_is_attributed(report):
    assert report.exact and report.traffic_bytes > report.ideal_bytes > 0
    told = [decision.nbytes for decision in report.decisions]
    assert told == sorted(told, reverse=True) != told[::-1]
    first, *_ = sorted(report.steps, key=lambda step: -step.nbytes)
    text = report_text(report, most=1)
    left = f"{len(report.steps) - 1} steps that move less"
    assert f"\n{first.name} " in text and left in text
    assert report.traffic_bytes == sum(
        use.nbytes for step in report.steps for use in (*step.reads, *step.writes)
    )
    known = {array.buffer for array in report.arrays}
    for step in report.steps:
        # Of a step's own program: the same numbers, each of an array of the report.
        assert step.nbytes == traffic_of(step.stmt).nbytes > 0
        assert {use.buffer for use in (*step.reads, *step.writes)} <= known
        # What the compiler adds itself only moves numbers.
        assert step.eqns
        added = {eqn.primitive.name for eqn in step.eqns if eqn.source is None}
        assert added <= {"transpose", "copy", "convert_element_type"}
    for array in report.arrays:
        written = any(u.buffer is array.buffer for s in report.steps for u in s.writes)
        assert written == (array.role in ("temporary", "result")), array


@pytest.mark.parametrize("update", [
    lambda x: x.at[np.array([1, 2])].set(0.0),
    lambda x: lax.dynamic_update_slice(x, x[:1], (1, 0)),
])  # fmt: skip
def test_what_writes_to_a_copy_is_kept_for_that(update, unfused):
    program = lower(mj.make_jaxpr(lambda x: update(x * 2) * 3)(np.ones((4, 4), "f4")))
    assert "writes to a copy" in {d.rule: d.reason for d in program.decisions}["root"]


def test_each_kernel_leads_back_to_its_lines(report):
    made = {how for s in report.steps for m in s.lines.values() for how in m}
    assert "primal" in made and any("transposed" in how for how in made)
    functions = {line.function for s in report.steps for line in s.lines if line}
    assert {"block", "loss"} & functions and "<module>" not in functions


def test_every_pair_has_an_answer(report, step):
    rules = set()
    for a, b in itertools.combinations(report.steps, 2):
        answer = report.why_not_fused(a, b)
        assert answer.reason and answer.nbytes >= 0 and str(answer)
        if answer.value is not None:
            helps = report.count_steps({answer.setting: answer.value})
            assert helps < len(report.steps)
        rules.add(answer.rule)
    assert rules == rules_of[step]
    # Some of the answers are what the fusion has decided.
    assert rules & {d.rule for d in report.decisions if not d.fused} - {"call"}
    first = report.steps[0]
    assert report.why_not_fused(first.name, 0).rule == "same"
    assert all(report.why_not_fused(k, k).reason for k in report.kernels)
    with pytest.raises(ValueError, match="no step is called 'kernel_x'; there are"):
        report.why_not_fused("kernel_x", first)


def test_the_setting_of_an_answer_makes_one_kernel():
    """With the value that it names, and with no smaller one."""
    f = lambda x, y, z: ((x * y).sum(1), jnp.cos(x) * z)
    args = (ones(8, 8),) * 3
    for settings in ({"most_buffers": 4}, {"most_operations": 3}, {"enabled": False}):
        few, (setting,) = mj.config.fusion.but(**settings), settings
        with mj.config.override("fusion", few):
            answer = mj.explain(mj.jit(f, backend="plain"), *args).why_not_fused(0, 1)
            assert f"minijit.fuse(f, {setting}={answer.value})" in str(answer)
            wanted = mj.fuse(mj.jit(f, backend="plain"), **{setting: answer.value})
            assert len(mj.explain(wanted, *args).steps) == 1


def test_an_answer_of_fusion_says_why_there_were_two():
    few = mj.fuse(lambda x: jnp.sin(x) * x[:, None], most_buffers=1)
    answer = mj.explain(few, ones(10)).why_not_fused(0, 1)
    assert (answer.rule, answer.setting, answer.value) == ("buffers", "most_buffers", 2)
    assert "too many arrays, and broadcast_in_dim is stored: inlined" in answer.reason


def test_a_stored_value_says_what_recomputing_it_would_cost():
    """Ten sines, wanted ten times each; the smallest setting that inlines them."""
    f = lambda x: jnp.sin(x) * x[:, None]
    few = mj.config.fusion.but(enabled=False)
    for in_all in (0, few.cheap_in_all):  # in the first case many copies are dear
        with mj.config.override("fusion", few.but(cheap_in_all=in_all)):
            report = mj.explain(mj.jit(f, backend="plain"), ones(10))
            decision, = (d for d in report.decisions if d.rule == "recompute")
            numbers = decision.numbers
            assert (numbers["times"], numbers["elements"]) == (100, 10)
            assert numbers["extra"] == 9 * numbers["cost"]
            told = f"{numbers['extra']} additions more an element, and 8 are"
            assert told in decision.reason
            answer = report.why_not_fused(0, 1)
            assert (answer.rule, answer.setting) == ("recompute", "cheap")
            assert answer.value == numbers["extra" if in_all == 0 else "cheap"]
            for cheap, kernels in ((answer.value, 1), (answer.value - 1, 2)):
                fused = mj.fuse(mj.jit(f, backend="plain"), cheap=cheap)
                assert len(mj.explain(fused, ones(10)).kernels) == kernels


def test_answers_about_arrays_and_about_what_takes_one_array_twice():
    @mj.jit
    def inner(x, y):
        for _ in range(9):
            x = jnp.sin(x) + y
        return x

    f = lambda x: (y := jnp.cumsum(x * 2), inner(y, y), inner(y[::-1], y))
    report = mj.explain(mj.jit(f, backend="plain"), ones(40))
    first, *others = report.steps
    assert any(len({u.buffer for u in s.reads}) < len(s.reads) for s in others)
    for a, b in itertools.combinations(report.steps, 2):
        answer = report.why_not_fused(a.writes[0].buffer.name, b)
        assert answer.rule in (("called", "path") if a.run != b.run else ("no nest",))
        assert answer.rule != "called" or answer.value == 18


def test_its_forms(report):
    text = str(report)
    assert all(len(line) <= 100 for line in text.splitlines())
    page = report._repr_html_()
    assert page.count("<details>") >= len(report.steps)
    assert page.count("<div") == page.count("</div>")
    assert "<lambda>" not in page
    dot = report.dot()
    assert dot.count("shape=box") == len(report.steps)
    assert dot.count(" -> ") == sum(len(s.reads) + len(s.writes) for s in report.steps)


def test_its_pictures(report, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from minijit.compile.report import pictures as explain_pictures

    monkeypatch.setattr(explain_pictures, "copy_rate", lambda: 1e10)
    monkeypatch.setattr(explain_pictures, "flop_rate", lambda: 5e10)
    roof = report.plot("roofline")
    roof.canvas.draw()
    box = matplotlib.text.Text.get_window_extent  # of the words, without the line
    boxes = list(map(box, roof.axes[0].texts))
    assert not [(a, b) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]
    axis, = report.plot("graph").axes
    inner, outer = explain_pictures.TEMP, explain_pictures.INPUT
    roles = [strand[0].role for strand, _ in explain_pictures.lanes_of(report)]
    colors = [inner if role in ("temporary", "tape") else outer for role in roles]
    vertical = [line for line in axis.lines if len({*line.get_xdata()}) == 1]
    assert [line.get_color() for line in vertical][: len(colors)] == colors
    *_, last = explain_pictures.label_of([*report.arrays][:5]).splitlines()
    assert last.startswith("and 3 more, ")
    texts = axis.texts
    names = {text.get_text().split("  ")[0] for text in texts}
    assert {step.name for step in report.steps} <= names
    drawn = {text.get_text() for text in texts}
    for strand, _ in explain_pictures.lanes_of(report):
        assert drawn >= {*explain_pictures.labels_of(strand).values()}
    assert len(report.plot().axes) == 3
    refused(ValueError, "plot has graph, arrays, roofline", report.plot, "pie")
    plt.close("all")


@pytest.mark.chapter(22)
def test_tapes_of_a_gradient():
    """What grows while a loop runs is told and drawn, and no label lies on another."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    def f(x):
        step = lambda s: (s[0] + 1.0, s[1] * jnp.sin(s[1]))
        return lax.while_loop(lambda s: s[0] < 4.0, step, (0.0, x))[1].sum()

    report = mj.explain(mj.grad(f), ones(3))
    assert report.flops is None
    tapes = [array for array in report.arrays if array.role == "tape"]
    assert tapes and {(a.first, a.last) for a in tapes} == {(0, 2)}
    assert f"tapes: {12 * len(tapes)} B a step" in str(report).splitlines()[2]
    assert "12 B a step" in report.dot() and "within" in str(report)
    figure = report.plot("graph")
    texts = figure.axes[0].texts
    told = " ".join(text.get_text() for text in texts)
    assert all(tape.name in told for tape in tapes)
    assert told.count("12 B a step") == len(tapes)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in texts]
    assert not [(a, b) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]
    plt.close("all")


# ---- small ones, read as text


def layer(x, w):
    h = x @ w
    return jnp.tanh(h) * 2.0


def test_golden_text():
    report = mj.explain(mj.jit(layer, backend="plain"), ones(64, 32), ones(32, 48))
    lines = str(report).splitlines()
    assert lines[:2] == [
        "layer: 1 kernel, 1 product",
        "traffic 51.2 kB, 1.92 times the ideal 26.6 kB; 203 kflop; peak memory 24.6 kB",
    ]
    told = [line.strip() for line in lines[2:] if "test_explain.py" not in line]
    assert [" ".join(line.split()) for line in told] == [
        "", "matmul product 197 kflop 26.6 kB", "dot_general",
        "reads x: f32[64,32] 8.2 kB", "reads w: f32[32,48] 6.1 kB",
        "writes t0: f32[64,48] 12.3 kB", "", "kernel_0 plain 6.1 kflop 24.6 kB",
        "tanh, mul", "reads t0: f32[64,48] 12.3 kB", "writes out0: f32[64,48] 12.3 kB",
        "", "kept in memory, by bytes written and read:",
        "24.6 kB dot_general: matmul writes it (call)", "", "arrays:",
        "t0: f32[64,48] temporary steps 0..1 at 0 12.3 kB",
        "out0: f32[64,48] result steps 1..1 12.3 kB",
    ]  # fmt: skip
    assert "h = x @ w" in str(report)


@pytest.mark.chapter(21)
def test_loops_and_what_is_not_compiled():
    def f(x):
        y = lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, x)
        return jnp.sort(x) + y

    report = mj.explain(mj.jit(f, backend="plain"), ones(10))
    loop, = (step for step in report.steps if step.is_loop)
    assert report.flops is None and loop.reads[0].whole
    sort, = report.calls
    assert (sort.route, sort.reason) == ("uncompiled", "sorting is left to NumPy")
    assert "NOT COMPILED: sort: sorting is left to NumPy" in str(report)
    assert report.why_not_fused(sort, loop).rule in ("call", "loop")


@pytest.mark.chapter(24)
@pytest.mark.parametrize("changes", [{}, {"part_total": 100, "shortest_part": 16}])
def test_one_kernel_answers_how_its_loops_are_arranged(changes):
    """The settings of the program hold, also when they are no longer in force."""
    f = mj.fuse(lambda x: x.sum(), **changes)
    with mj.config.override("fusion", mj.config.fusion.but(**changes)):
        compiled = mj.jit(lambda x: x.sum()).lower(ones(1000)).compile()
    for report in (compiled.explain(), f.lower(ones(1000)).compile().explain()):
        answer = report.why_not_fused(0, 0)
        told = "are in parts" if changes else "no work for several cores"
        assert told in answer.reason and answer.setting == "part_total"
        assert answer.rule == "same"
        assert f"The setting part_total decides it: it is {answer.now}" in str(answer)


def test_transformed_static_and_lowered():
    def f(x, n):
        return (x**n).sum()

    assert mj.explain(f, ones(3), 2, static_argnums=1).name == "f"
    jitted = mj.jit(f, static_argnums=1)
    assert mj.explain(jitted, ones(3), 2).ideal_bytes == 16
    with pytest.raises(TypeError, match="jitted already"):
        mj.explain(jitted, ones(3), 2, static_argnums=1)
    report = mj.explain(mj.vmap(mj.grad(lambda x: jnp.sin(x * x).sum())), ones(2, 3))
    made = {how for s in report.steps for m in s.lines.values() for how in m}
    assert {"batched", "transposed, batched"} <= made
    shape = mj.ShapeDtypeStruct((3,), "float32")
    assert jitted.lower(shape, 2).compile().explain().traffic_bytes == 16
    with pytest.raises(TypeError, match="equation by equation"):
        mj.explain(mj.jit(f, static_argnums=1, backend="eval"), ones(3), 2)


def test_copies_have_reasons():
    report = mj.explain(mj.jit(lambda x: x.at[2].set(1), backend="plain"), ones(50, 60))
    copy, = report.copies
    assert copy.rule == "argument" and copy.nbytes == 4 * 50 * 60
    assert f"12.0 kB  out0 copies x: {copy.reason}" in str(report)


# ---- looking while it runs


def layers(x):
    inner = mj.jit(lambda x: jnp.sin(x) @ x)
    return jnp.sort(inner(inner(x)), 0) + 1.0


@pytest.mark.parametrize("backend", ["plain", "python"])
def test_log_kernels(backend, capsys):
    f, x = mj.jit(layers, backend=backend), ones(32, 32)
    wanted = f(x)
    capsys.readouterr()
    with mj.log_kernels():
        np.testing.assert_array_equal(f(x), wanted)
    lines = capsys.readouterr().out.splitlines()
    report = mj.explain(f, x)
    assert [line.split()[1] for line in lines] == [step.name for step in report.steps]
    assert all("f32[32,32]" in line and "kB" in line for line in lines)
    assert all(len(line) <= 100 for line in lines)
    f(x)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "backend", ["plain", pytest.param("llvm", marks=pytest.mark.chapter(25))]
)
def test_profile(tmp_path, backend):
    f, x = mj.jit(layers, backend=backend), ones(32, 32)
    with mj.profile() as line:
        f(x), f(x)
    f(x)
    report = mj.explain(f, x)
    assert [event.step.name for event in line] == 2 * [s.name for s in report.steps]
    assert all(event.end >= event.start > 0 for event in line)
    assert line.seconds >= max(event.seconds for event in line)
    assert f"{len(line)} runs of {len(report.steps)} kernels and calls" in str(line)
    totals = line.steps
    assert {total.step.name for total in totals} == {s.name for s in report.steps}
    assert [total.runs for total in totals] == [2] * len(totals)
    assert sum(total.seconds for total in totals) == pytest.approx(
        sum(event.seconds for event in line)
    )
    assert all(str(total) in str(line) for total in totals)
    assert all((t.share or 0) > 0 or t.flop_rate is None for t in totals)
    assert all(t.share is None for t in totals if t.flop_rate is None)
    lives = [(a.first, a.role == "result" or a.last, a.nbytes) for a in report.buffers]
    held = [
        sum(n for first, last, n in lives if first is not None and first <= step
            and (last is True or step <= last))
        for step in range(len(report.steps))
    ]  # fmt: skip
    assert [event.held for event in line] == 2 * held
    assert all(len(text) <= 100 for text in str(line).splitlines())
    g, y = mj.jit(lambda y: mj.numpy.sort(y @ y), backend=backend), ones(150, 150)
    with mj.profile() as calls:
        g(y)
    steps = mj.explain(g, y).steps
    assert [event.step.name for event in calls] == [step.name for step in steps]
    line.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans, held = events[: len(line.spans)], events[len(line.spans) : -len(line)]
    assert {event["ph"] for event in held} == {"C"} and len(held) == len(line)
    events = events[-len(line) :]
    assert {event["ph"] for event in spans + events} == {"X"}
    assert [event["args"]["bytes"] for event in held] == [e.held for e in line]
    assert events[0]["args"]["bytes"] == report.steps[0].nbytes
    assert [s["name"] for s in spans if s["cat"] == "call"] == ["layers", "layers"]
    assert events[0]["name"] == report.steps[0].name
    axis, = line.roofline().axes
    assert axis.get_ylabel() == "Gflop/s a core"


@pytest.mark.chapter(25)
def test_spans_of_what_python_does(tmp_path):
    """Each lies within what it is a part of, in the row of its thread."""

    def inner(x):
        return mj.numpy.sin(x) * 2

    def outer(x):
        return mj.jit(inner)(x) + 1

    f, x = mj.jit(outer, backend="plain"), ones(8)
    with mj.profile() as line:
        with mj.profiler.TraceAnnotation("step"):
            f(x)
        thread = threading.Thread(target=f, args=(x,))
        thread.start(), thread.join()
    line.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = [event for event in events if event["ph"] == "X"]

    def under(name, kind):
        (at,) = (e for e in rows if (e["name"], e["cat"]) == (name, kind))
        begin, end = at["ts"], at["ts"] + at["dur"]
        return at["tid"], {
            (e["name"], e["cat"])
            for e in rows
            if e["tid"] == at["tid"] and e is not at
            and begin - 1e-3 <= e["ts"] and e["ts"] + e["dur"] <= end + 1e-3
        }  # fmt: skip

    here, found = under("step", "block")
    assert found >= {("outer", "trace"), ("outer", "compile"), ("outer", "call")}
    assert under("outer", "trace") == (here, {("inner", "trace")})
    assert ("fused", "pass") in under("outer", "compile")[1]
    calls = [e["tid"] for e in rows if e["cat"] == "call"]
    assert len(calls) == 2 and calls[0] == here != calls[1]
    kernel, = {event.step.name for event in line}
    assert [e["tid"] for e in rows if e["name"] == kernel] == calls
    f(x)
    assert len(line) == 2


@pytest.mark.chapter(25)
def test_nothing_is_in_the_way_of_calls_when_nobody_looks():
    """Shortcuts call the driver itself; while someone looks there are none."""
    f, x = mj.jit(lambda x: x * 2 + 1), mj.numpy.ones(8)

    def calls_the_driver():
        for _ in range(3):
            f(x)
        shortcut, = f.shortcuts.calls
        executable = next(iter(f.entries.values())).executable
        return shortcut.__globals__["run"] is executable.run is executable.loaded.run

    assert calls_the_driver()
    with mj.profile() as line:
        f(x)
        assert f.shortcuts.calls == ()
    assert len(line) == 1 and calls_the_driver()


MOVES = {"transpose", "reshape", "broadcast_in_dim", "concatenate", "slice", "copy"}


@pytest.mark.chapter(25)
@pytest.mark.fusion
@pytest.mark.parametrize("wrap, calls, kernels, most", [
    (lambda f: f, 5, 7, 17), (mj.value_and_grad, 13, 14, 30.5),
])  # fmt: skip
def test_griffin(wrap, calls, kernels, most):
    """Issue 11's block: products and a recurrence, and what lies between them."""
    d, shapes = bench_products.d, bench_products.griffin_shapes
    given = {name: mj.ShapeDtypeStruct(s, "float32") for name, s in shapes.items()}
    x = mj.ShapeDtypeStruct((8, 256, d), "float32")
    report = mj.explain(wrap(bench_products.griffin(mj)), given, x)
    assert (len(report.calls), len(report.kernels)) == (calls, kernels)
    for step in report.kernels:
        only_moves = {eqn.primitive.name for eqn in step.eqns} <= MOVES
        assert not (only_moves and step.reads), step
        large = [use for use in step.reads if use.nbytes >= 8 * 256 * d]
        assert {use.sweeps for use in large} <= {1}, (step, large)
    assert report.traffic_bytes <= most * report.ideal_bytes


def test_stages():
    def f(x):
        return jnp.sin(x * 2.0).sum()

    steps = mj.stages(mj.jit(f, backend="plain"), ones(3))
    names = [step.name for step in steps]
    assert names[:5] == "trace linearize transpose batch simplify".split()
    assert names[-1] == "source" and "lower" in names
    assert "f32[2,3]" in str(steps["batch"]) and "cos" in str(steps["linearize"])
    assert "broadcast_in_dim" in str(steps["transpose"])
    assert "def kernel_0" in str(steps["source"])
    assert "for k0 in 3" in str(steps["lower"])
    assert steps._repr_html_().count("<details>") == len(steps)
    rows = str(steps).split("\n")
    assert [row.split()[0] for row in rows[:-1]] == names
    assert rows[-1] == 'To see one: print(stages["linearize"])'
    refused(KeyError, "no stage 'fuses': trace, ", lambda: steps["fuses"])


@pytest.mark.chapter(21)
def test_steps(tmp_path):
    """Each pass of the pipeline in its order, and what it changed."""

    def f(x):
        y = jnp.tanh(x * 2.0 * x.max(1, keepdims=True))
        return lax.fori_loop(0, 3, lambda i, y: y * jnp.sin(y).sum(), y).sum(0)

    steps = mj.steps(mj.jit(f, backend="plain"))(ones(40, 30))
    names = [step.name for step in steps]
    assert names[:2] == ["trace", "simplify"] and names[-1] == "emit"
    lowering = *stage_names(pipeline.expansions), "lower", "fused"
    passes = *stage_names(pipeline.rewrites), *stage_names(pipeline.arrangements)
    assert [name for name in names[2:-1] if "(" not in name] == [*lowering, *passes]
    inner = [name for name in names if "(" in name]
    assert {name.partition(" (")[0] for name in inner} == {*lowering}
    for step in steps:
        kept = [line for sign, line in step.lines if sign != "-"]
        assert kept == step.text.splitlines()
        assert step.changed or len(kept) == len(step.lines)
    rows = str(steps).split("\n")
    assert [row.startswith(name) for row, name in zip(rows[:-1], names, strict=True)]
    assert "  nothing to do  " in str(steps) and "  +" in str(steps)
    assert any("\n+     for i" in str(step) for step in steps)
    assert steps["emit"].text.startswith("def kernel_0")
    steps.save(tmp_path / "steps.html")
    page = (tmp_path / "steps.html").read_text()
    assert page.count("<label>") == sum(step.changed for step in steps)
    assert page.count(" checked>") == 1 and "<ins>" in page


def stage_names(stage):
    """The passes that are there, in their order."""
    return [name for name in stage.names if name in stage]


def test_assertions():
    x = ones(64, 64)
    assert testing.assert_kernels(lambda x: jnp.sin(x) * 2, (x,), 1, calls=0).exact
    testing.assert_traffic(lambda x: jnp.sin(x) * 2, (x,), 1.0)
    shares = mj.explain(mj.jit(lambda x: x / x.sum(), backend="plain"), x)
    assert shares.ideal_bytes == 2 * x.nbytes < shares.traffic_bytes
    with pytest.raises(AssertionError, match="1 kernels, expected 2:\n<lambda>: 1"):
        testing.assert_kernels(lambda x: jnp.sin(x) * 2, (x,), 2)
    with pytest.raises(AssertionError, match="1 calls, expected 0"):
        testing.assert_kernels(lambda x: x @ x, (x,), 0, calls=0)
    with pytest.raises(AssertionError, match="times the ideal, expected at most 1.5:"):
        testing.assert_traffic(lambda x: jnp.sin(x) @ x @ x, (x,), 1.5)


def test_a_loop_that_python_drives_is_said():
    """Its body sorts: nobody knows what it moves."""
    turn = lambda z: lax.fori_loop(0, 3, lambda i, z: jnp.sort(-z), z)
    report = mj.explain(mj.jit(turn, backend="plain"), np.ones(999, np.float32))
    driven, = (step for step in report.steps if step.is_driven)
    assert driven.route == "uncompiled" and driven.reason and not report.exact
    assert "traffic at least" in str(report)
    assert "what it moves inside is not counted" in str(report)


@pytest.mark.chapter(24)
def test_how_many_threads():
    f = mj.jit(lambda x: jnp.sin(x) + 1)
    large = mj.ShapeDtypeStruct((10**7,), "float32")
    with mj.config.override("cpu_threads", 3):
        steps = [mj.explain(f, x).steps for x in (large, ones(9))]
        assert "llvm, 3 threads" in str(mj.explain(f, large))
    assert [step.threads for step, in steps] == [3, 1]


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("size", [2, 3])
def test_the_gradient_of_pooling_is_one_kernel(size, padding):
    """Windows side by side: each element knows its window, and nothing is scattered."""
    window = (1, size, size, 1)
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, window, padding)
    report = mj.explain(mj.grad(lambda x: jnp.sin(pool(x)).sum()), ones(2, 7, 8, 3))
    assert len(report.kernels) == 1
    assert report.traffic_bytes == report.ideal_bytes


@pytest.mark.chapter(21)
def test_a_loop_goes_through_its_state_once_a_step_if_no_cache_holds_it():
    def f(h, xs):
        return lax.scan(lambda h, x: (h * 0.9 + x, h.sum()), h, xs)

    for size, sweeps in ((1_000, 1), (1_000_000, 1), (10_000_000, 17)):
        # With the copy of the argument before the first step.
        given = np.zeros(size, "f4"), np.zeros(16, "f4")
        found = [u.sweeps for u in mj.explain(f, *given).step(0).writes]
        assert max(found) == sweeps, size


def test_the_graph_of_many_steps_is_as_wide_as_a_notebook():
    """What many steps are given is one line then; what flows between them is not."""
    def f(layers, x):
        for w, b in layers:
            x = jnp.tanh(x @ w + b)
        return (x * x).sum()

    layers = [(ones(40, 40), ones(40)) for _ in range(30)]
    report = mj.explain(mj.grad(f), layers, ones(40, 40))
    lanes = explain_pictures.lanes_of(report)
    assert explain_pictures.graph_size(report)[0] <= 11
    shown = [array for strand, _ in lanes for array in strand]
    assert {*shown} == {a for a in report.arrays if a.first is not None}
    for strand, _ in lanes:
        groups = explain_pictures.groups_of(strand)
        assert sorted(a.name for g in groups.values() for a in g) == sorted(
            array.name for array in strand
        )
        for step, text in explain_pictures.labels_of(strand).items():
            *named, last = text.splitlines()
            group = groups.get(step, strand)
            if last.startswith("and "):
                rest = group[len(named) :]
                size = explain_pictures.sizes_text(array.buffer for array in rest)
                assert last == f"and {len(rest)} more, {size}" and rest
            else:
                assert len(named) + 1 == len(group) or len(group) == 1
    between = [s for s, _ in lanes if s[0].role == "temporary"]
    assert len(between) > 10 > len(lanes) - len(between)


def test_loops_that_the_price_took_apart_say_so():
    """A row larger than the cache: its sum, and what is made of it, are apart."""

    def f(x):
        y = jnp.exp(x)
        return y - y.mean(1, keepdims=True)

    report = mj.explain(f, np.zeros((4, 1_000_000), "float32"))
    first, *others = report.kernels
    assert others
    for other in others:
        answer = report.why_not_fused(first, other)
        assert answer.rule == "schedule" and "as fused" in answer.reason
    parts = "a part of what is written at kernel_0, whose loops were taken apart"
    assert str(report).count(parts) == report._repr_html_().count(parts) == len(others)
    assert str(report).count("y = jnp.exp(x)") == 1
