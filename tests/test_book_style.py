"""The book's pictures: what is drawn, in which colours, the same at every run."""

from __future__ import annotations

import collections
import inspect
import io
import re
from pathlib import Path
from typing import Any

import book_toy
import pytest
from harness import in_a_process

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.colors import to_hex, to_rgba  # noqa: E402

import minijit as mj  # noqa: E402
import minijit.compiler  # noqa: E402  # it fills the table of `lower`
import minijit.numpy as jnp  # noqa: E402
from minijit.book import drawings, style  # noqa: E402
from minijit.book.project import find_book, still  # noqa: E402


@pytest.fixture(autouse=True)
def clean():
    with matplotlib.rc_context():
        yield
    plt.close("all")


def texts() -> list[str]:
    """What is written in the current picture, in the order of drawing."""
    (axis,) = plt.gcf().axes
    return [t.get_text() for t in axis.texts if t.get_text()]


def boxes() -> dict[str, tuple[float, float]]:
    """Where each box is."""
    (axis,) = plt.gcf().axes
    return {t.get_text(): t.get_position() for t in axis.texts if t.get_bbox_patch()}


def png() -> bytes:
    file = io.BytesIO()
    plt.gcf().savefig(file, format="png")
    return file.getvalue()


def luminance(color: Any) -> float:
    """How bright a colour is, by the definition that contrast ratios are made of."""
    linear = [c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4
              for c in to_rgba(color)[:3]]  # fmt: skip
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("color", [style.INK, *style.COLORS])
def test_colours_are_readable_on_white_and_on_dark_pages(color: str):
    for page in ("white", "#111111"):
        low, high = sorted((luminance(color), luminance(page)))
        assert (high + 0.05) / (low + 0.05) > 3


@pytest.mark.parametrize("color", [style.INK, *style.COLORS])
def test_letters_in_boxes_stand_out(color: str):
    text = style.box(plt.figure().add_subplot(), 0, 0, "box", color)
    face = text.get_bbox_patch().get_facecolor()
    assert face[3] == 1  # whatever the page is
    assert (luminance(face) + 0.05) / (luminance(text.get_color()) + 0.05) > 7


def test_a_figure_has_no_background_and_no_small_letters():
    figure, axis = style.figure(5, 2)
    axis.plot([1, 2, 3], [1, 4, 9], label="primal")
    axis.set(xlabel="size", ylabel="equations", title="A title")
    style.count(axis)
    axis.legend()
    figure.canvas.draw()
    assert figure.get_size_inches().tolist() == [5, 2]
    assert figure.get_facecolor()[3] == 0 and axis.get_facecolor()[3] == 0
    assert to_hex(axis.lines[0].get_color()) == style.PRIMAL
    found = figure.findobj(matplotlib.text.Text)
    assert {t.get_color() for t in found} == {style.INK}
    assert min(t.get_fontsize() for t in found) >= 9
    for ticks in (axis.get_xticks(), axis.get_yticks()):
        assert all(tick == int(tick) for tick in ticks)


def test_the_stack_of_traces():
    style.stack("EvalTrace", "JVPTrace", "BatchTrace")
    assert texts() == ["EvalTrace", "JVPTrace", "BatchTrace", "bind asks"]
    (axis,) = plt.gcf().axes
    colors = [to_hex(bar.get_edgecolor()) for bar in axis.patches]
    assert colors == [style.PRIMAL, style.TANGENT, style.LANES]
    traces = []

    def f(x):
        from minijit.trace.core import current_trace

        y = jnp.sin(x)
        traces.append(current_trace())
        return y

    mj.make_jaxpr(lambda x: mj.jvp(f, (x,), (1.0,)))(2.0)
    plt.close("all")
    style.stack(traces[0])
    assert texts() == [*style.levels(traces[0]), "bind asks"]
    assert texts()[0] == "BottomTrace" and texts()[-2] == "JVPTrace"


def test_a_jaxpr_as_a_graph():
    jaxpr = mj.make_jaxpr(lambda x, y: (jnp.sin(x) * y + x, y * 2.0))(2.0, 3.0)
    style.graph(jaxpr, color=lambda eqn: style.COMPILED)
    assert sorted(t for t in texts() if t.isalpha() and len(t) == 1) == list("abcd")
    place = boxes()
    assert set(place) == {"a", "b", "sin", "mul", "add", "result e", "result f"}
    depth = [place[n][1] for n in ("a", "sin", "add", "result e")]
    assert depth == [0, -1, -3, -4]
    (axis,) = plt.gcf().axes
    arrows = [t for t in axis.texts if not t.get_text()]
    assert len(arrows) == len("a>sin sin>mul b>mul mul>add a>add b>mul >e >f".split())
    first = png()
    plt.close("all")
    style.graph(jaxpr, color=lambda eqn: style.COMPILED)
    assert png() == first
    plt.close("all")
    style.graph(jaxpr, upward=True, label=lambda eqn: f"<{eqn.primitive}>")
    assert boxes()["<add>"][1] == 3 and boxes()["result e"][1] == 4


def test_an_arrow_goes_around_a_box_on_its_way():
    style.graph(mj.make_jaxpr(lambda x: jnp.sin(x) * x)(2.0))
    (axis,) = plt.gcf().axes
    arrows = [t.arrowprops for t in axis.texts if not t.get_text()]
    bends = [how["connectionstyle"] for how in arrows]
    assert bends == ["arc3,rad=0.0", "arc3,rad=0.0", "arc3,rad=0.45", "arc3,rad=0"]


def test_a_linear_program_is_drawn_with_edges_from_its_residuals():
    from minijit.transform.derivatives.linearize import linearize_jaxpr

    closed = mj.make_jaxpr(lambda x: jnp.sin(x) * x)(2.0)
    parts = linearize_jaxpr(closed, (True,), (False,))
    style.split(parts.forward, parts.linear)
    assert sorted(texts()[:4]) == ["cos", "f32[]", "mul", "sin"]
    assert sorted(texts()[4:]) == ["add_any", "f32[]", "mul", "mul", "mul"]
    (axis,) = plt.gcf().axes
    arrows = [t.arrow_patch for t in axis.texts if not t.get_text()]
    colors = [to_hex(arrow.get_edgecolor()) for arrow in arrows]
    assert [colors.count(c) for c in (style.PRIMAL, style.RESIDUAL, style.TANGENT)] == [
        4, 3, 5,
    ]  # fmt: skip


def test_what_a_checkpoint_computes_again_is_no_residual():
    from minijit.transform.remat.checkpoint import cut_jaxpr

    twice = mj.make_jaxpr(lambda x: jnp.sin(jnp.sin(x)))(1.0)
    cut = cut_jaxpr(twice, (True,), None)
    style.split(cut.forward, cut.linear)
    (axis,) = plt.gcf().axes
    arrows = [t.arrow_patch for t in axis.texts if not t.get_text()]
    colors = [to_hex(arrow.get_edgecolor()) for arrow in arrows]
    counts = [colors.count(c) for c in (style.PRIMAL, style.RESIDUAL, style.TANGENT)]
    assert counts == [2, 2, 5]


def test_inputs_stand_above_their_first_use():
    def layers(x, w, b):
        return jnp.tanh(jnp.tanh(x * w) * b)

    style.graph(mj.make_jaxpr(layers)(1.0, 2.0, 3.0))
    place = boxes()
    assert [place[n][1] for n in "abc"] == [0, 0, -2]
    assert place["c"][0] > 0 > place["a"][0]
    plt.close("all")
    # What comes into a row stands there as the next row uses it: x before y.
    style.graph(mj.make_jaxpr(lambda x, y: x + jnp.cos(y))(1.0, 2.0))
    place = boxes()
    assert place["a"][1] == place["cos"][1] == -1 and place["a"][0] < place["cos"][0]
    plt.close("all")
    # The first sine stays below its input, which goes into the exponential, too.
    style.graph(mj.make_jaxpr(lambda x: jnp.sin(x) + jnp.cos(jnp.exp(x)))(1.0))
    assert boxes()["sin"][1] == boxes()["exp"][1] == -1


def test_an_equation_s_constants_have_no_arrow():
    style.graph(mj.make_jaxpr(lambda x: x * 2.0)(1.0))
    (axis,) = plt.gcf().axes
    assert len([t for t in axis.texts if not t.get_text()]) == 2


def test_a_tree_beside_its_leaves():
    Point = collections.namedtuple("Point", "x y")
    tree = {"w": np.ones((3, 4), np.float32), "b": [2, Point(3, None)], "name": "tanh"}
    style.tree(tree)
    listed = [t for t in texts() if ": " in t]
    assert listed == ["0: 2", "1: 3", "2: 'tanh'", "3: float32[3,4]"]
    place = boxes()
    assert [place[n][0] for n in ("dict", "list", "Point", "None")] == [0, 1, 2, 3]
    ys = [place[str(i)][1] for i in range(4)]
    assert ys == [0, -1, -3, -4] and place["None"][1] == -2, "a row of its own"
    assert {"w", "b", "name", "x", "y"} < set(texts())
    plt.close("all")
    style.tree((1, 2), parts=lambda x: [("left", 5)] if isinstance(x, tuple) else None)
    assert "left" in texts() and "0: 5" in texts()
    plt.close("all")
    style.tree({"b": [1, (2, 3)], "w": 4}, nodes=True)
    after = texts()[texts().index("dict of 2") :]
    assert after == ["dict of 2", "list of 2", "*", "tuple of 2", "*", "*", "*"]
    place = boxes()
    rows = [place[n][1] for n in ("dict", "list", "1", "tuple", "2", "3", "4")]
    assert rows == [0, -1, -2, -3, -4, -5, -6], "each beside its entry in the list"


MATRIX = """
import sys
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex
from minijit.book import style
from minijit.book.project import find_book, still
from minijit.book.stage import open_chapter

book = find_book()
open_chapter(book, book.chapter({k}))
import minijit
for change in {changes!r}:
    exec(change)
    plt.close("all")
    style.matrix({shown})
    for axis in plt.gcf().axes:
        names = [t.get_text() for t in axis.get_xticklabels()]
        columns = [t.get_text() for t in axis.get_yticklabels()]
        for box in axis.patches:
            x, y = round(box.get_x() + 0.4), round(box.get_y() + 0.4)
            print(names[x], columns[y], to_hex(box.get_facecolor()))
        print("columns", *columns, sep="|")
    print()
"""


def matrices(k: int, shown: int, *changes: str) -> list[list[str]]:
    """What the matrix shows after each change, in a process that has chapter k open."""
    told = in_a_process(MATRIX.format(k=k, shown=shown, changes=changes))
    return [part.splitlines() for part in told.strip().split("\n\n")]


def test_the_matrix_is_read_off_the_tables():
    removed = "from minijit.transform.derivatives import linearize as l; "
    removed += "from minijit.trace import "
    removed += "primitives as p; del l.linearize_rules[p.sin_p]"
    found, less = matrices(8, 7, "", removed)
    at_seven = {tuple(line.split()) for line in found if not line.startswith("col")}
    assert ("sin", "eval", style.PRIMAL) in at_seven
    assert ("sin", "linearize", style.TANGENT) in at_seven, "new in chapter 7"
    assert ("add_any", "eval", style.TANGENT) in at_seven, "a primitive of chapter 7"
    assert {column for _, column, _ in at_seven} == {"eval", "shape", "linearize"}
    later = "transpose (chapter 8)|batch (chapter 9)|lower (chapter"
    assert later in found[-1]
    gone = at_seven - {tuple(line.split()) for line in less}
    assert gone == {("sin", "linearize", style.TANGENT)}


def test_the_matrix_of_the_whole_book_has_every_table_and_spine_primitive():
    book = find_book(Path(book_toy.REPO))
    last = book.chapters[-1]
    every = style.spine_primitives(book, last)
    names = [str(p) for p, _ in every]
    assert len(names) == len(set(names)) > 30 and names[0] == "add"
    style.matrix(last.id)
    shown = [t.get_text() for a in plt.gcf().axes for t in a.get_xticklabels()]
    assert shown == names
    filled = sum(len(a.patches) for a in plt.gcf().axes)
    tables = [table for _, table, _ in style.live_tables(book, last)]
    assert filled == sum(p in table for p, _ in every for table in tables)
    assert len(tables) == 6 and all(len(table) > 30 for table in tables)


def test_the_two_ways_have_every_chapter_after_the_first():
    book = still(find_book(Path(book_toy.REPO)))
    of_program = tuple(f"minijit/{room}/" for room in ("compile", "run"))
    built = {}  # chapter -> whether it builds the compiler
    for part in (p for f in book.files_in_order() for p in book.parts(f) if p.built):
        built[part.chapter.id] = part.file.startswith(of_program)
    del built["1"]
    for n, way in enumerate(style.WAYS):
        found = [style.builders_of(book, rooms) for rooms, *_ in way.values()]
        chapters = {c.id for builders in found for c in builders}
        assert chapters == {id for id in built if built[id] == bool(n)}
        steps = style.steps_of(style.ARROWS[n])
        assert {name for step in steps for name in step} == {*way}
    for k in sorted(built):
        style.pipeline(k)
        texts = plt.gca().texts
        bold = [t.get_text() for t in texts if t.get_weight() == "bold"]
        assert bold and all(k in t.split("\n")[1].split(", ") for t in bold)
        plt.close()


def test_an_arrow_goes_between_points_and_boxes():
    axis = style.blank(None, 3, 2)
    end = style.box(axis, 1, 1, "end")
    style.arrow(axis, (0, 0), end)
    line = axis.texts[-1]
    assert (line.xyann, line.xy) == ((0, 0), (1, 1))
    assert line.arrowprops["patchB"] is end.get_bbox_patch()


def test_each_drawing_stands_in_a_notebook():
    texts = [
        path.read_text("utf-8")
        for path in sorted((Path(__file__).parents[1] / "chapters").rglob("*.ipynb"))
    ]
    made = {n for n, f in vars(drawings).items() if inspect.isfunction(f)}
    made = {n for n in made if not n.startswith("draw_")}
    assert made == set(re.findall(r"drawings\.(\w+)\(", "".join(texts)))
