"""`tune` keeps the loops that were fastest, and `schedule` runs the user's own.

What takes how long is never asked here: a fake says it, by the name of the loops.
"""

import doctest
import json
import os
import re

import numpy as np
import pytest
from harness import in_a_process, in_threads, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import config, nn
from minijit.compile.schedule import choose, recipes
from minijit.compile.schedule.by_hand import ScheduleError
from minijit.run.report import tuning

pytestmark = [pytest.mark.chapter(24), pytest.mark.fusion]

AS_FUSED, LANES, OUT = "as fused", "short rows in lanes", "short rows written out"
rng = np.random.default_rng(0)
rows = rng.standard_normal((20_000, 11), dtype="float32")
columns = rng.standard_normal((2048, 512), dtype="float32")


def largest(x):
    return x.max(1)


def softmax(x):
    return nn.softmax(x, 0)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """This machine's loops, and a folder for what is kept, one for each test."""
    before = config.cache_dir
    config.update("cache_dir", str(tmp_path))
    mj.clear_caches()
    with config.override("machine", "host"), config.override("cpu_threads", 1):
        yield tmp_path / "schedules"
    config.update("cache_dir", before)
    mj.clear_caches()


@pytest.fixture
def clock(monkeypatch):
    """Say what each way takes, in ns, other kernels and calls 1: -> what was measured.

    Of a list, the n-th entry is what is measured in the n-th turn.
    """

    def say(**times):
        turns = []

        def measured(trials, arrays):
            turns.append([dict(trial.made) for trial in trials])
            named = {name.replace("_", " "): ns for name, ns in times.items()}

            def ns(way):
                found = named.get(way, 10_000)
                return found[len(turns) - 1] if type(found) is list else found

            return [
                {key: ns(way) for key, way in trial.made.items()} | {None: 1}
                for trial in trials
            ]

        monkeypatch.setattr(tuning, "measured", measured)
        return turns

    return say


def rules(f, *args):
    """{rule: its numbers} of what the compiler says of loops."""
    about = ("schedule", AS_FUSED, "tuned", "tuned before", "by hand")
    found = mj.explain(f, *args).decisions
    return {d.rule: d.numbers for d in found if d.rule in about}


times = {"as_fused": 900, "short_rows_in_lanes": 500, "short_rows_written_out": 100}


def test_the_fastest_loops_run_from_now_on(clock, folder):
    f = mj.jit(lambda x: largest(x))
    wanted = np.asarray(f(rows))
    assert next(iter(rules(f, rows)["schedule"])) == LANES
    turns = clock(**times)
    found = mj.tune(f)(rows)
    kernel, = found.kernels
    assert (kernel.before, kernel.after, kernel.gained) == (LANES, OUT, 400)
    assert (found.before, found.after) == (501, 101)
    assert kernel.names == ("kernel_0",) and "x.max(1)" in kernel.lines[0].text()
    # As it is; then each of the two others once; then the fastest beside it.
    assert [len(turn) for turn in turns] == [1, 3, 2]
    assert len(os.listdir(folder)) == 1
    about = rules(f, rows)
    assert next(iter(about["tuned"].items())) == (OUT, 100)
    assert about["tuned"].keys() == {OUT, LANES, AS_FUSED}
    np.testing.assert_array_equal(f(rows), wanted)
    assert f"({OUT} 100, " in " ".join(str(mj.explain(f, rows)).split())
    answer = mj.explain(f, rows).why_not_fused(0, 0)
    assert "fastest when tuned" in str(answer)


def test_the_report_says_what_was_gained(clock):
    clock(**times)
    told = str(mj.tune(largest)(rows)).splitlines()
    assert told[0].startswith("largest: microseconds")
    assert told[1].split(None, 3) == ["kernel_0", "0.5", "0.1", f"{LANES} -> {OUT}"]
    assert told[2].endswith("return x.max(1)")
    assert told[3].split()[-2:] == ["0.5", "0.1"]
    assert "(stays)" in str(mj.tune(largest)(rows))


OTHER = """
import numpy as np
import minijit as mj
found = mj.explain(lambda x: x.max(1), mj.ShapeDtypeStruct((20_000, 11), "float32"))
print(*[d.rule for d in found.decisions if not d.b])
"""


def told_by_a_process(folder, **environment):
    environment = {"MINIJIT_CACHE_DIR": str(folder.parent), "MINIJIT_MACHINE": "host",
                   "MINIJIT_CPU_THREADS": "1"} | environment  # fmt: skip
    return in_a_process(OTHER, **environment).split()


def test_another_process_runs_the_loops_that_won(clock, folder):
    clock(**times)
    mj.tune(largest)(rows)
    assert "tuned" in told_by_a_process(folder)
    # But not for other cores, nor for a machine that is not this one.
    assert "tuned" not in told_by_a_process(folder, MINIJIT_CPU_THREADS="2")
    assert "tuned" not in told_by_a_process(folder, MINIJIT_MACHINE="book")


def test_who_is_hardly_faster_stays(clock):
    turns = clock(**times | {"short_rows_written_out": 505})
    kernel, = mj.tune(largest)(rows).kernels
    # The loops as they are win at once, and are not measured again.
    assert kernel.after == LANES and [len(turn) for turn in turns] == [1, 3]
    clock(**times | {"short_rows_written_out": 495})
    kernel, = mj.tune(largest)(rows).kernels
    assert (kernel.before, kernel.after, kernel.gained) == (LANES, LANES, 0)


def test_a_winner_has_to_win_twice(clock):
    clock(**times | {"short_rows_written_out": [0, 100, 700]})
    kernel, = mj.tune(largest)(rows).kernels
    assert (kernel.after, kernel.nanoseconds[OUT]) == (LANES, 700)
    mj.clear_caches()
    assert next(iter(rules(largest, rows)["tuned"])) == LANES


def test_it_tunes_again(clock):
    clock(**times)
    mj.tune(largest)(rows)
    clock(**times | {"as_fused": 50})
    kernel, = mj.tune(largest)(rows).kernels
    assert (kernel.before, kernel.after) == (OUT, AS_FUSED)
    assert next(iter(rules(largest, rows)["tuned"])) == AS_FUSED


def test_kernels_that_take_no_time_stay(monkeypatch, folder):
    alone = lambda trials, arrays: [
        {key: 1 for key in trial.made} | {None: 10_000} for trial in trials
    ]
    monkeypatch.setattr(tuning, "measured", alone)
    found = mj.tune(largest)(rows)
    assert found.kernels == () and not folder.exists()
    assert "no kernel" in str(found)


def test_all_kernels_are_measured_at_once(clock):
    def two(x, y):
        return largest(x), softmax(y)

    turns = clock(**times)
    mj.tune(two)(rows, columns)
    # The loops that cost least first: the second kernel has one other way.
    assert [len(turn) for turn in turns] == [1, 3, 2]
    assert all(len(trial) == 2 for turn in turns for trial in turn)


def test_kernels_of_functions_that_are_called(clock):
    clock(**times)
    # Its settings are others: the rows that are joined would have no room.
    inner = mj.fuse(lambda x: x.max(1), row_bytes=0, rows_at_once=1)
    f = mj.jit(lambda x: inner(x) + inner(x * 2))
    kernel, = mj.tune(f)(rows).kernels
    assert kernel.after == OUT and kernel.names[0] == "<lambda>/kernel_0"
    assert next(iter(rules(f, rows)["tuned"])) == OUT


def test_equal_loops_win_whatever_their_arrays_are_called(clock):
    clock(**times)
    mj.tune(lambda a: a.max(1))(rows)
    f = lambda x, y: (jnp.sort(x), y.max(1))
    assert next(iter(rules(f, np.ones(3, "float32"), rows)["tuned"])) == OUT


def test_what_was_measured_says_nothing_of_other_ways(clock, monkeypatch):
    clock(**times)
    mj.tune(largest)(rows)
    fewer = lambda *args: [c for c in recipes_candidates(*args) if c.recipe != OUT]
    recipes_candidates = recipes.candidates
    monkeypatch.setattr(recipes, "candidates", fewer)
    mj.clear_caches()
    about = rules(largest, rows)
    assert "tuned before" in about and next(iter(about["schedule"])) == LANES


def test_a_damaged_file_says_nothing(clock, folder):
    clock(**times)
    mj.tune(largest)(rows)
    path, = folder.iterdir()
    content = path.read_bytes()
    assert json.loads(content[32:])["nanoseconds"][OUT] == 100
    path.write_bytes(content.replace(b"100", b"999"))
    mj.clear_caches()
    assert "schedule" in rules(largest, rows)


def test_ctrl_c_leaves_all_as_it_was(monkeypatch, folder):
    f = mj.jit(lambda x: largest(x))
    f(rows)

    def interrupted(trials, arrays):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "measured", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mj.tune(f)(rows)
    f(rows)
    assert not folder.exists() and len(f.traces) == 1
    assert "tuned" not in rules(f, rows)


def test_the_clock_is_asked_about_the_ways_that_compute_the_same(folder):
    """With a real one: what it says is not looked at."""
    wanted = rows.max(1)
    seen = []

    def f(x):
        seen.append(x)
        return largest(x)

    found = mj.tune(f)(rows)
    kernel, = found.kernels
    assert kernel.nanoseconds.keys() == {OUT, LANES, AS_FUSED}
    assert kernel.after == min(kernel.nanoseconds, key=kernel.nanoseconds.get) or (
        kernel.after == kernel.before
    )
    assert found.before >= kernel.nanoseconds[kernel.before]
    np.testing.assert_array_equal(mj.jit(f)(rows), wanted)
    assert len(seen) <= 2


def test_many_threads_tune(clock):
    clock(**times)

    def tunes():
        with config.override("machine", "host"), config.override("cpu_threads", 1):
            return mj.tune(largest)(rows)

    found = in_threads(*[tunes] * 4)
    assert {kernel.after for tuned in found for kernel in tuned.kernels} == {OUT}
    assert next(iter(rules(largest, rows)["tuned"])) == OUT


def test_static_donated_and_derived_arguments(clock):
    clock(**times)
    x = jnp.asarray(rows)
    by_axis = lambda x, axis: x.max(axis)
    for static in ({"static_argnums": 1}, {"static_argnames": "axis"}):
        kernel, = mj.tune(mj.jit(by_axis, **static))(x, axis=1).kernels
        assert kernel.after == OUT
    assert mj.tune(by_axis, static_argnums=1)(x, 1).kernels
    giving = mj.jit(lambda x: (x * 2, x.max(1)), donate_argnums=0)
    mj.tune(giving)(x)
    assert not x.is_deleted()
    giving(x)
    assert x.is_deleted()
    slope = mj.grad(lambda x: nn.logsumexp(x, 1).sum())
    assert mj.tune(slope)(rows).kernels


def test_what_cannot_be_tuned_is_told_why():
    x, ref = jnp.asarray(rows), mj.new_ref(jnp.zeros(3))

    def adds(x):
        ref[...] += 1
        return x.max(1)

    for kind, told, ask in [
        (TypeError, "f32.*outside of jit", lambda: mj.jit(mj.tune(largest))(x)),
        (TypeError, "tracer of f32", lambda: mj.grad(mj.tune(largest))(x)),
        (TypeError, "on arrays, and got Shape",
         lambda: mj.tune(largest)(mj.ShapeDtypeStruct((3, 4), "float32"))),
        (TypeError, "changes a Ref", lambda: mj.tune(adds)(x)),
        (TypeError, "that LLVM compiles",
         lambda: mj.tune(mj.jit(largest, backend="plain"))(x)),
        (TypeError, "jitted already",
         lambda: mj.tune(mj.jit(largest), static_argnums=0)),
        (TypeError, "jitted already",
         lambda: mj.tune(mj.jit(largest), static_argnames="x")),
        (TypeError, "a schedule of its own",
         lambda: mj.tune(mj.schedule(largest, LANES))(x)),
    ]:  # fmt: skip
        refused(kind, f"(?s){told}", ask)
    with mj.disable_jit(), pytest.raises(RuntimeError, match="under disable_jit"):
        mj.tune(largest)(x)
    book = config.override("machine", "book")
    with book, pytest.raises(RuntimeError, match="are made for 'book'"):
        mj.tune(largest)(x)


def test_nothing_of_it_is_imported_before_it_is_asked_for():
    code = "import sys, minijit; print([m for m in sys.modules if 'minijit' in m])"
    told = in_a_process(code)
    for module in ("run.report.tuning", "run.winners", "schedule.by_hand"):
        assert f"minijit.{module}'" not in told and f"compile.{module}'" not in told


# ---- schedules by hand


def by_columns(loops):
    return loops.distribute().reorder(3, "i1", "i0")


def test_a_schedule_of_ones_own_runs():
    found = mj.schedule(softmax, by_columns)
    np.testing.assert_allclose(found(columns), softmax(columns), 1e-6, 1e-9)
    about = rules(found, columns)
    assert [*about["by hand"]] == ["by hand", AS_FUSED]
    assert len(mj.explain(found, columns).kernels) == 4
    told = mj.explain(found, columns)
    assert "your own schedule" in " ".join(str(told).split())
    assert "of your own has them apart" in str(told.why_not_fused(0, 1))


def test_a_recipe_sees_loops_and_prices():
    seen = []

    def look(loops):
        seen.append(loops)
        assert loops.price == loops.ways[AS_FUSED]
        assert str(loops).startswith("for i0 in 512:")
        loops = loops.distribute()
        # Each nest goes down the columns still.
        assert loops.price > loops.ways["distribute"]
        assert str(loops.nests[3].axes[0].extent) == "512"
        assert "nest 3:\nfor i0 in 512:" in str(loops)
        loops = loops.reorder(3, "i1", "i0")
        assert "nest 3:\nfor i0 in 2048:\n  for i1 in 512:" in str(loops)
        loops = loops.reorder()
        assert loops.price == loops.ways["distribute"]
        return loops

    with config.override("machine", "book"):
        mj.schedule(softmax, look)(columns)
    loops, = seen
    assert loops.name == "k0" and "test_tune.py" in loops.lines[0]


def test_a_way_by_its_name():
    f = mj.schedule(largest, LANES)
    np.testing.assert_array_equal(f(rows), rows.max(1))
    assert next(iter(rules(f, rows)["by hand"])) == LANES
    assert [*rules(mj.schedule(largest, AS_FUSED), rows)["by hand"]] == [AS_FUSED]


def test_nests_that_share_rows_join():
    def variation(x):
        return jnp.square(jnp.diff(x, axis=0)).sum() + abs(jnp.diff(x, axis=1)).sum()

    slope = mj.grad(variation)
    image = rng.standard_normal((300, 8, 22), dtype="float32")
    f = mj.schedule(slope, lambda loops: loops.distribute().reorder().join())
    np.testing.assert_allclose(f(image), mj.jit(slope)(image), 1e-6)
    assert next(iter(rules(f, image)["by hand"])) == "by hand"


def test_a_recipe_may_leave_a_kernel_to_the_price():
    f = mj.schedule(largest, lambda loops: None)
    assert next(iter(rules(f, rows)["schedule"])) == LANES


def test_a_schedule_holds_within_other_functions():
    asked = []

    def recipe(loops):
        asked.append(loops.name)
        return loops.take(LANES) if LANES in loops.ways else None

    f = mj.schedule(largest, recipe)
    g = mj.jit(lambda x: f(x) * 2)
    np.testing.assert_array_equal(g(rows), rows.max(1) * 2)
    assert asked and LANES in rules(g, rows)["by hand"]
    seen = len(asked)
    mj.jit(mj.vmap(f))(rows[None])
    mj.jit(mj.grad(lambda x: f(x).sum()))(rows)
    assert len(asked) > seen + 1
    # Another recipe for the same function is another program.
    other = mj.jit(lambda x: mj.schedule(largest, OUT)(x) * 2)
    assert OUT in rules(other, rows)["by hand"]


impossible = [
    (softmax, lambda x: x.join(), r"are not apart: distribute\(\) comes first"),
    (softmax, lambda x: x.distribute().join(), "no two nests.* so none join"),
    (softmax, lambda x: x.distribute().reorder(9), "no nest 9, but 0 to 3"),
    (softmax, lambda x: x.distribute().reorder(2, "i7"), "the loops i0, and not i7"),
    (softmax, lambda x: x.distribute().reorder(3, "i0", "i0"), "not i0, i0"),
    (softmax, "join", "no way to run called 'join'.*Instead.* takes 'distribute'"),
    (lambda x: jnp.cumsum(x, 0), lambda x: x.distribute(),
     "distribute is not allowed: loop i1: its steps have an order.*for i1 in scan"),
]  # fmt: skip


@pytest.mark.parametrize("f,recipe,told", impossible)
def test_what_is_not_allowed_is_told_with_the_loop_and_what_there_is(f, recipe, told):
    with pytest.raises(ScheduleError, match=f"(?s)kernel k0 .*{told}") as caught:
        mj.schedule(lambda x: f(x), recipe)(columns)
    there = "takes 'distribute'" if f is softmax else "no other ways .* are known"
    assert re.search(f"Instead: .*{there}", str(caught.value))


def test_steps_that_depend_on_each_other_are_not_reordered():
    """A transpose in place of its own argument would be: no program stores so today."""
    from minijit.compile.loops.buffers import Buffer
    from minijit.compile.loops.expressions import Axis, Load
    from minijit.compile.loops.statements import Store
    from minijit.compile.schedule.primitives import Nest, NotAllowed, check_order

    x, (i, j) = Buffer("x", (8, 8), np.dtype("float32")), (Axis(8), Axis(8))
    with pytest.raises(NotAllowed, match="reads of x what another one stores"):
        check_order(Nest((i, j), Store(x, (i, j), Load(x, (j, i)))))
    with pytest.raises(NotAllowed, match="to one place of x") as caught:
        check_order(Nest((i, j), Store(x, (i, i), Load(x, (i, i)))))
    assert caught.value.about is j


def test_recipes_are_checked():
    refused(TypeError, "a function of loops, or a name, got 3", mj.schedule, softmax, 3)
    with pytest.raises(TypeError, match="a recipe returns the loops"):
        mj.schedule(largest, lambda loops: 3)(rows)

    def wrong(loops):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mj.schedule(largest, wrong)(rows)


def test_what_the_checker_refuses_is_told(monkeypatch):
    monkeypatch.setattr(choose, "check_program", refusing)
    with pytest.raises(ScheduleError, match="the checker refuses these loops"):
        mj.schedule(softmax, by_columns)(columns)


def refusing(program):
    raise choose.LoopTypeError("no")


@pytest.mark.parametrize("name", ["tune", "schedule"])
def test_the_example_in_the_docstring(name):
    text = getattr(mj, name).__doc__
    found = doctest.DocTestParser().get_doctest(
        text, {"mj": mj, "jnp": jnp}, name, None, None
    )
    assert found.examples
    assert doctest.DocTestRunner().run(found).failed == 0
