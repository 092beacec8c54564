"""The book's pictures: one style, and the drawings that many chapters need.

    from minijit.book import style

    figure, axis = style.figure(6, 3)          # inches
    axis.plot(sizes, counts, color=style.PRIMAL, label="primal")
    axis.set(xlabel="size of x", ylabel="equations")
    style.count(axis, "xy")                    # ticks at whole numbers
    style.times({"by numba": 412, "by LLVM": 31}, "milliseconds")    # bars

    style.stack("EvalTrace", "JVPTrace", "BatchTrace")
    style.graph(make_jaxpr(f)(x))
    style.split(parts.forward, parts.linear)   # of `linearize_jaxpr`
    style.tree({"w": 1, "b": [2, 3]})
    style.draw_tree({"w": 1, "b": [2, 3]});    # the same, and its nodes as a list
    style.matrix(7)                            # primitive x table, after chapter 7
    style.draw_matrix();                       # after this notebook's chapter
    style.pipeline(17)                         # the compiler: what chapter 17 adds

A drawing takes `axis=`, to stand beside others.  Backgrounds are transparent and the
ink is grey, so that pictures are readable on white pages and on dark ones; boxes are
pale on both, and their letters `DARK`.  The same colour means the same thing in every
chapter.  Nothing here imports the library: jaxprs,
traces and primitives are known by their attributes.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .project import Book, Chapter, find_book, still
from .text import names

INK = "#7a7a7a"
DARK = "#333333"  # for letters on something pale: a box, a light colour
PRIMAL = "#3d7ebf"  # values, forward, what was there before
TANGENT = "#c8781e"  # derivatives forward, and what is new in a chapter
COTANGENT = "#b8486e"  # derivatives backward
RESIDUAL = "#3f8f5b"  # what is kept from forward to backward, in bytes
LANES = "#8161b8"  # vmap
COMPILED = "#2b8f9a"  # kernels, native code
TRACES = {"JVPTrace": TANGENT, "BatchTrace": LANES, "JaxprTrace": COMPILED}
WRONG = "#d1495b"
COLORS = (PRIMAL, TANGENT, COTANGENT, RESIDUAL, LANES, COMPILED)

STYLE: Any = {
    "figure.facecolor": "none",
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "axes.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.size": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "grid.color": INK,
    "grid.alpha": 0.25,
}

# The tables of rules, in the order of the book: (column, file, name in it).
TABLES = (
    ("eval", "trace/core.py", "eval_rules"),
    ("shape", "trace/array.py", "shape_rules"),
    ("linearize", "transform/derivatives/linearize.py", "linearize_rules"),
    ("transpose", "transform/derivatives/transpose.py", "transpose_rules"),
    ("batch", "transform/batching/vmap.py", "batch_rules"),
    ("lower", "compile/lower/walk.py", "lower_rules"),
)
# The way of a call through tracing and transformations, and that of a program through
# the compiler: what stands in a box, the rooms it is for, and where it stands.
WAYS = (
    {
        "trees": (("trace/trees/pytree.py",), 0, 1),
        "operations": (("trace/core.py",), 1.15, 1),
        "shapes": (("trace/array.py", "trace/primitives.py", "numpy"), 2.3, 1),
        "jaxpr": (("trace/jaxprs/jaxpr.py",), 3.45, 1),
        "linear": (("transform/derivatives/linearize.py",), 4.75, 1),
        "transposed": (("transform/derivatives/transpose.py",), 6.1, 1),
        "branches, loops": (("transform/control_flow",), 3.45, 2),
        "batched": (("transform/batching",), 4.75, 2),
        "jit": (("trace/jit/jit.py",), 3.45, 0),
        "own rules": (("transform/custom",), 4.75, 0),
        "checkpoint": (("transform/remat",), 6.1, 0),
    },
    {
        "simplify": (("compile/simplify",), 0, 1),
        "lower": (("compile/loops", "compile/lower"), 1, 1),
        "fuse": (("compile/fuse",), 2, 1),
        "schedule": (("compile/schedule",), 3, 1),
        "memory": (("compile/memory",), 4, 1),
        "control": (("compile/control",), 2.5, 2),
        "report": (("compile/report",), 2.5, 0),
        "python": (("run/emit.py", "run/python"), 5.1, 2),
        "llvm": (("run/llvm", "compile/numbers"), 5.1, 1),
        "device": (("run/device",), 5.1, 0),
        "calls": (("run/executable.py", "run/calls", "run/pool.py"), 6.2, 2),
        "threads": (("run/threads",), 6.2, 1),
        "cuda": (("run/cuda",), 6.2, 0),
    },
)
ARROWS = (
    """
    trees > operations > shapes > jaxpr > linear > transposed; jaxpr > batched;
    branches, loops > jaxpr > jit; own rules > linear > checkpoint > transposed
    """,
    """
    simplify > lower > fuse > schedule > memory > llvm > threads; memory > python >
    calls; memory > device > cuda; llvm > calls; lower > control > memory;
    fuse > report; schedule > report
    """,
)
ROW = 48  # so many primitives at most stand beside each other in the matrix


def use() -> None:
    """Set the style; in a notebook, pictures have twice the screen's resolution."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update(STYLE)
    mpl.rcParams["axes.prop_cycle"] = cycler(color=COLORS)
    if "ipykernel" in sys.modules:
        from matplotlib_inline import backend_inline

        backend_inline.set_matplotlib_formats("retina")
        # Else JupyterLab puts a white box behind a picture whose ticks are grey.
        backend_inline._fetch_figure_metadata = lambda figure: None


def figure(width: float = 6, height: float = 3, **options: Any) -> Any:
    """(figure, axis or axes) of this size in inches; options as for `plt.subplots`."""
    import matplotlib.pyplot as plt

    use()
    return plt.subplots(figsize=(width, height), **options)


def blank(axis: Any, width: float, height: float) -> Any:
    """An axis without frame and ticks for a drawing, made new if there is none."""
    if axis is None:
        _, axis = figure(width, height)
    axis.axis("off")
    return axis


def count(axis: Any, which: str = "xy") -> None:
    """Ticks at whole numbers only, where things are counted."""
    from matplotlib.ticker import MaxNLocator

    for name in which:
        getattr(axis, f"{name}axis").set_major_locator(MaxNLocator(integer=True))


def times(measured: Mapping[str, float], unit: str) -> None:
    """Measured times as bars, each with its figure, three digits of it.

    What a machine measures differs from day to day: draw in a cell tagged `volatile`.
    """
    _, axis = figure(7, 0.5 + 0.35 * len(measured))
    bars = axis.barh(list(measured), list(measured.values()), 0.7, color=PRIMAL)
    figures = [f"{float(f'{time:.3g}'):,g}" for time in measured.values()]
    axis.bar_label(bars, figures, padding=4)
    axis.margins(x=0.12)
    axis.invert_yaxis()
    axis.set_xlabel(f"{unit}, on the machine that drew this")


def box(axis: Any, x: float, y: float, text: str, color: str = INK) -> Any:
    """A rounded box around a text."""
    edge = {"boxstyle": "round,pad=0.35", "fc": faded(color), "ec": color}
    place = {"ha": "center", "va": "center", "zorder": 3}
    return axis.text(x, y, text, color=DARK, bbox=edge, **place)


def faded(color: str) -> tuple[float, float, float]:
    """A colour as a background, on which dark letters are read.

    It is as pale on a dark page: there the ink would stand on a dim tint of itself.
    """
    from matplotlib.colors import to_rgb

    red, green, blue = (0.8 + 0.2 * part for part in to_rgb(color))
    return red, green, blue


def arrow(
    axis: Any,
    start: Any,
    end: Any,
    color: str = INK,
    head: str = "-|>",
    bend: float = 0,
) -> None:
    """An arrow from a box, or a point (x, y), to another; bent, it goes around."""
    line = {"arrowstyle": head, "color": color, "lw": 1, "shrinkA": 1, "shrinkB": 1}
    line["connectionstyle"] = f"arc3,rad={bend}"
    places = []
    for patch, at in ("patchB", end), ("patchA", start):
        if not isinstance(at, tuple):
            line[patch] = at.get_bbox_patch()
            at = at.get_position()
        places.append(at)
    # Drawn after the boxes: only then is it known where they end.
    axis.annotate("", *places, arrowprops=line, zorder=4)


def between(
    axis: Any, start: Any, end: Any, share: float, text: str, bend: float = 0
) -> None:
    """A small text beside the line from box to box, so far along.

    Beside a line with a bend the axis must have its limits already.
    """
    (x, y), (u, v) = start.get_position(), end.get_position()
    place = x + share * (u - x), y + share * (v - y)
    rises = (u - x) * (v - y) > 0  # then the free side of the line is the left one
    if bend:  # on the screen it is a parabola, as in matplotlib's `Arc3`
        first, last = axis.transData.transform([(x, y), (u, v)])
        way = last - first
        out = 2 * share * (1 - share) * bend * way[::-1] * (1, -1)
        place = axis.transData.inverted().transform(first + share * way + out)
        rises = out[0] < 0
    by = {"xytext": (-4 if rises else 4, 3), "textcoords": "offset points"}
    side = "right" if rises else "left"
    axis.annotate(text, place, fontsize=9, ha=side, zorder=4, **by)


# -- the stack of traces


def blocks(text: str, axis: Any, names: Mapping[str, str]) -> None:
    """The basic blocks of LLVM IR below each other; a jump back goes around.

    Args:
      names: {label: what is written in the block instead}.
    """
    graph: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.fullmatch(r"\w+:", line):
            graph[line[:-1]] = []
        elif graph and line.lstrip().startswith("br "):
            graph[[*graph][-1]] += re.findall(r"label %(\w+)", line)
    places = {label: -i for i, label in enumerate(graph)}
    boxes = {k: box(axis, 0, y, names.get(k, k)) for k, y in places.items()}
    for label, targets in graph.items():
        for target in targets:
            if target != label:
                arrow(axis, boxes[label], boxes[target])
                continue
            right, y = 0.06 + 0.0177 * len(names.get(label, label)), places[label]
            arrow(axis, (right, y - 0.15), (right, y + 0.15), bend=1.8)
    axis.set_xlim(-1.4, 1.4)
    axis.set_ylim(0.5 - len(graph), 0.5)


def stack(
    *traces: Any, axis: Any = None, colors: Mapping[str, str] | None = None
) -> None:
    """Traces on top of each other, the bottom one first, and whom `bind` asks.

    Each is a name, or a trace: its parents then stand below it.
    """
    found = [name for trace in traces for name in levels(trace)]
    axis = blank(axis, 4, 0.6 * len(found) + 0.5)
    known = {"EvalTrace": PRIMAL, "BottomTrace": PRIMAL, **TRACES, **(colors or {})}
    for level, name in enumerate(found):
        width, color = 0.92, known.get(name, INK)
        axis.barh(level, width, 0.8, color=[faded(color)], edgecolor=color)
        place = {"ha": "center", "va": "center"}
        axis.text(width / 2, level, name, color=DARK, **place)
    top = len(found) - 1
    axis.annotate("bind asks", (0.93, top), (1.12, top), va="center",
                  arrowprops={"arrowstyle": "-|>", "color": INK})  # fmt: skip
    axis.set(xlim=(-0.02, 1.45), ylim=(-0.6, top + 0.6))


def levels(trace: Any) -> list[str]:
    """The names of a trace and of those below it, the bottom one first."""
    if isinstance(trace, str):
        return [trace]
    below = getattr(trace, "parent", None)
    return [*(levels(below) if below is not None else []), type(trace).__name__]


# -- a jaxpr as a graph


def graph(
    jaxpr: Any,
    axis: Any = None,
    label: Callable[[Any], str] | None = None,
    color: Callable[[Any], str] | None = None,
    upward: bool = False,
) -> None:
    """Equations as boxes, variables as arrows from where they are made.

    Args:
      jaxpr: open or closed; its equations stand below all that they use.
      label, color: of an equation; by default its primitive, and the ink.
      upward: draw it from the bottom to the top, as a backward program.
    """
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    letters = {v: letter(i) for i, v in enumerate(inputs + made_by(jaxpr))}
    rows = lowered(layers(jaxpr, inputs))
    axis = blank(axis, max(3.0, 1.4 * max(map(len, rows))), 0.8 * (len(rows) + 1))
    boxes: dict[int, Any] = {}
    home: dict[Any, Any] = {v: v for v in inputs}  # where a variable is made
    for depth, row in enumerate(rows):
        for i, node in enumerate(row):
            x, y = i - (len(row) - 1) / 2, depth if upward else -depth
            if not hasattr(node, "primitive"):
                boxes[id(node)] = box(axis, x, y, letters[node], PRIMAL)
            else:
                text = label(node) if label else str(node.primitive)
                boxes[id(node)] = box(axis, x, y, text, color(node) if color else INK)
    home |= {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    ends = [v for v in dict.fromkeys(jaxpr.outvars) if v in home]
    ends.sort(key=lambda v: boxes[id(home[v])].get_position()[0])  # no arrows cross
    depth = len(rows) if upward else -len(rows)
    wide = max(len(row) for row in [*rows, ends]) / 2 + 0.2
    axis.set(xlim=(-wide, wide), ylim=(min(0, depth) - 0.5, max(0, depth) + 0.5))
    for eqn in jaxpr.eqns:
        for v in dict.fromkeys(used(eqn)):
            start, end = boxes[id(home[v])], boxes[id(eqn)]
            bend = around(start, end, boxes.values())
            arrow(axis, start, end, bend=bend)
            if home[v] is not v:  # an input's box has its name in it
                between(axis, start, end, 0.3 if bend else 0.4, letters[v], bend)
    for i, v in enumerate(ends):
        end = box(axis, i - (len(ends) - 1) / 2, depth, f"result {letters[v]}", PRIMAL)
        arrow(axis, boxes[id(home[v])], end)


def around(start: Any, end: Any, boxes: Iterable[Any]) -> float:
    """How much an arrow has to bend if it is not to run through another box."""
    (x, y), (u, v) = start.get_position(), end.get_position()
    for other in boxes:
        across, down = other.get_position()
        if min(y, v) < down < max(y, v):
            there = x + (u - x) * (down - y) / (v - y)
            if abs(across - there) < 0.35:
                return 0.45 if (x <= u) == (v < y) else -0.45
    return 0.0


def used(eqn: Any) -> list[Any]:
    """The variables that an equation reads; literals have a value instead."""
    return [v for v in eqn.invars if not hasattr(v, "val")]


def made_by(jaxpr: Any) -> list[Any]:
    """The variables that a jaxpr's equations bind, in order."""
    return [v for eqn in jaxpr.eqns for v in eqn.outvars]


def letter(i: int) -> str:
    """a, b, ..., z, ba, bb, ...: names as in a printed jaxpr."""
    rest, last = divmod(i, 26)
    return (letter(rest) if rest else "") + chr(ord("a") + last)


def layers(jaxpr: Any, inputs: list[Any]) -> list[list[Any]]:
    """Inputs, then equations by the longest way from an input.

    In each row what has its operands further left stands further left.
    """
    depth = dict.fromkeys(inputs, 0)
    across = {v: i - (len(inputs) - 1) / 2 for i, v in enumerate(inputs)}
    rows: list[list[Any]] = [list(inputs)]
    for eqn in jaxpr.eqns:
        own = 1 + max((depth[v] for v in used(eqn)), default=0)
        depth |= dict.fromkeys(eqn.outvars, own)
        rows += [[] for _ in range(own + 1 - len(rows))]
        rows[own].append(eqn)
    for row in rows[1:]:
        where = {id(e): [across[v] for v in used(e)] or [0.0] for e in row}
        row.sort(key=lambda e: sum(where[id(e)]) / len(where[id(e)]))
        for i, eqn in enumerate(row):
            across |= dict.fromkeys(eqn.outvars, i - (len(row) - 1) / 2)
    return rows


def lowered(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows, but with inputs right above the first equation that uses them, and with
    them an equation that alone uses them: so their arrows are short.

    A row into which one came is in the order in which the next row uses it.
    """
    reads = [id(v) for row in rows[1:] for eqn in row for v in dict.fromkeys(used(eqn))]
    own_inputs = {id(v) for v in rows[0] if reads.count(id(v)) == 1}
    first: dict[int, int] = {}  # the row in which a variable is used first
    places: list[list[Any]] = [[] for _ in rows]
    for depth in reversed(range(len(rows))):
        for node in rows[depth]:
            read, made = (used(node) if depth else []), getattr(node, "outvars", [node])
            uses = [first[id(v)] for v in made if id(v) in first]
            free = own_inputs.issuperset(map(id, read))
            own = min(uses) - 1 if uses and free else depth
            places[own].append(node)
            first |= {id(v): min(own, first.get(id(v), own)) for v in read}
    for depth in reversed(range(len(rows) - 1)):
        below = [eqn for eqn in places[depth + 1] if hasattr(eqn, "outvars")]
        order = [id(v) for eqn in below for v in used(eqn)]

        def wanted(node: Any, order: list[int] = order) -> int:
            made = map(id, getattr(node, "outvars", [node]))
            return min((order.index(v) for v in made if v in order), default=len(order))

        if not set(map(id, places[depth])) <= set(map(id, rows[depth])):
            places[depth].sort(key=wanted)
    return places


def split(forward: Any, linear: Any) -> None:
    """A forward jaxpr, and beside it its linear one, which uses variables of the first.

    Those are the residuals: edges from one to the other.
    """
    jaxprs = forward.jaxpr, linear.jaxpr
    all_rows = [layers(j, [*j.constvars, *j.invars]) for j in jaxprs]
    axis = blank(None, 8, 0.8 * max(map(len, all_rows)))
    boxes: dict[Any, Any] = {}
    left, low = 0.0, 1 - max(map(len, all_rows))
    room = 0.5  # below the last row; more if an arrow bends there
    for rows, color in zip(all_rows, (PRIMAL, TANGENT), strict=True):
        # What a checkpoint computes again is its own, and no residual.
        made = [v for row in rows[1:] for eqn in row for v in eqn.outvars]
        shared = set(boxes).difference(made)
        rows[0] = [v for v in rows[0] if v not in shared]
        width = max(map(len, rows))
        for depth, row in enumerate(rows):
            for i, node in enumerate(row):
                place = left + (i + 0.5) * width / len(row), -depth
                if depth == 0:
                    boxes[node] = box(axis, *place, node.aval.str_short(), color)
                    continue
                made = box(axis, *place, str(node.primitive), color)
                for v in dict.fromkeys(used(node)):
                    if v in shared:
                        level = boxes[v].get_position()[1] == place[1]
                        room = 1.0 if level and place[1] == low else room
                        arrow(axis, boxes[v], made, RESIDUAL, bend=0.3 * level)
                    else:
                        arrow(axis, boxes[v], made, color)
                boxes |= dict.fromkeys(node.outvars, made)
        left += width + 0.5
    axis.set(xlim=(-0.1, left - 0.4), ylim=(low - room, 0.5))


# -- a tree beside its leaves


def tree(
    tree: Any,
    axis: Any = None,
    parts: Callable[[Any], Sequence[tuple[Any, Any]] | None] | None = None,
    nodes: bool = False,
) -> None:
    """A tree, and beside it the list of its leaves, or of all its nodes, parents first.

    `parts(x)` gives [(key, child), ...] of a node and None for a leaf; by default
    dicts, lists and tuples are nodes, and None is a node without children.
    """
    parts = parts or containers
    axis = blank(axis, *size_of(tree, parts, nodes))
    listed: list[tuple[int, str]] = []  # (row, text)
    row = -1

    def visit(x: Any, depth: int) -> Any:
        nonlocal row
        children = parts(x)
        name = "None" if x is None else type(x).__name__
        if nodes or not children:
            row += 1
        here = row
        if nodes or children is None:
            about = f"{name} of {len(children)}" if children is not None else "*"
            number = len(listed)
            listed.append((row, about if nodes else f"{number}: {described(x)}"))
            if children is None:
                text = described(x) if nodes else str(number)
                return box(axis, depth, -here, text, RESIDUAL)
        ends = [(key, visit(child, depth + 1)) for key, child in children or ()]
        ys = [end.get_position()[1] for _, end in ends]
        y = -here if nodes or not ys else sum(ys) / len(ys)
        node = box(axis, depth, y, name, PRIMAL)
        for key, end in ends:
            arrow(axis, node, end, head="-")
            between(axis, node, end, 0.6, str(key))
        return node

    visit(tree, 0)
    right = depth_of(tree, parts) + 0.8
    for at, text in listed:
        axis.text(right, -at, text, va="center")
    axis.plot((right - 0.15,) * 2, (0.4, -row - 0.4), color=RESIDUAL, lw=1)
    axis.set(xlim=(-0.5, right + 1.5), ylim=(-row - 0.7, 0.7))


def depth_of(tree: Any, parts: Callable[[Any], Any]) -> int:
    """How deep the deepest leaf is."""
    return max((1 + depth_of(x, parts) for _, x in parts(tree) or ()), default=0)


def size_of(tree: Any, parts: Callable[[Any], Any], nodes: bool) -> tuple[float, float]:
    """Inches for a drawing of a tree."""

    def rows(x: Any) -> int:
        below = sum(rows(child) for _, child in parts(x) or ())
        return below + 1 if nodes or not below else below

    return 1.5 * depth_of(tree, parts) + 3.0, 0.45 * max(rows(tree), 2) + 0.4


def containers(x: Any) -> list[tuple[Any, Any]] | None:
    """The children of Python's own containers; None for a leaf."""
    if x is None:
        return []
    if isinstance(x, dict):
        return [(key, x[key]) for key in sorted(x)]
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return list(zip(x._fields, x, strict=True))
    return list(enumerate(x)) if isinstance(x, (list, tuple)) else None


def described(leaf: Any) -> str:
    """A leaf in a few letters: dtype and shape of an array, else what it is."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
    text = repr(leaf)
    return text if len(text) <= 20 else f"{text[:17]}..."


# -- the matrix of primitives and tables


def matrix(k: str | int, axis: Any = None) -> None:
    """Which of the spine's primitives have a row in which table, after chapter k.

    It is read off the tables as they are now: in chapter k, at its end.  What came with
    chapter k is in the colour of what is new; a table that comes later has no marks.
    """
    book = find_book()
    chapter = book.chapter(k)
    every = spine_primitives(book, chapter)
    bands = -(-len(every) // ROW) or 1
    size = -(-len(every) // bands) or 1  # bands of equal length
    rows = [every[i : i + size] for i in range(0, len(every), size)] or [[]]
    if axis is None:
        width = 2.4 + 0.2 * max(map(len, rows))
        _, axes = figure(width, 2.6 * len(rows), nrows=len(rows), squeeze=False)
        for band, one in zip(rows, axes[:, 0], strict=True):
            draw_band(book, chapter, band, one)
        return
    draw_band(book, chapter, every, axis)


def pipeline(k: str | int, axis: Any = None) -> None:
    """The way of a call up to its jaxpr and on, or that of a program to its kernels.

    It is the one that chapter k builds on.  Which chapters build a room is read off
    book.toml.  What chapter k builds is filled, what later chapters build is dotted: a
    program does without until then.  A room that no chapter builds has the number of
    the chapter that brings it along.
    """
    book = still(find_book())
    here = book.chapter(k)
    axis = blank(axis, 8, 2.5)
    axis.set(xlim=(-0.5, 6.75), ylim=(-0.5, 2.5))
    for way, arrows in zip(WAYS, ARROWS, strict=True):  # noqa: B007
        found = {name: builders_of(book, rooms) for name, (rooms, *_) in way.items()}
        if any(here in builders for builders in found.values()):
            break
    boxes = {}
    for name, builders in found.items():
        new, ids = here in builders, ", ".join(c.id for c in builders)
        at, colour = way[name][1:], TANGENT if new else PRIMAL
        boxes[name] = box(axis, *at, f"{name}\n{ids}", colour)
        boxes[name].set(size=9, weight="bold" if new else "normal")
        if builders and all(c.index > here.index for c in builders):
            boxes[name].set_color(INK)
            boxes[name].get_bbox_patch().set(fc="none", ec=INK, linestyle=":")
    for start, end in steps_of(arrows):
        arrow(axis, boxes[start], boxes[end])


def steps_of(arrows: str) -> list[tuple[str, str]]:
    """The pairs of boxes with an arrow between them."""
    chains = [re.split(r"\s*>\s*", chain.strip()) for chain in arrows.split(";")]
    return [pair for chain in chains for pair in itertools.pairwise(chain)]


def builders_of(book: Book, rooms: Sequence[str]) -> list[Chapter]:
    """The chapters with build cells for files of these rooms, in order; if there are
    none, those that bring the files along."""
    inside = tuple(f"{book.package}/{room}" for room in rooms)
    files = [file for file in book.files_in_order() if file.startswith(inside)]
    parts = [p for file in files for p in book.parts(file)]
    built = [p for p in parts if p.built] or parts
    found = {p.chapter.index: p.chapter for p in built}
    return [found[n] for n in sorted(found)]


def spine_primitives(book: Book, chapter: Chapter) -> list[tuple[Any, Chapter]]:
    """(primitive, its chapter) of those that build cells up to a chapter define."""
    core = sys.modules.get(book.module(f"{book.package}/trace/core.py"))
    kind: Any = getattr(core, "Primitive", ())
    found: dict[int, tuple[Any, Chapter]] = {}
    parts = [p for file in book.files_in_order() for p in book.parts(file) if p.built]
    for part in sorted(parts, key=lambda p: p.moment):
        space = vars(sys.modules.get(book.module(part.file), object))
        for s in book.statements(part.file):
            inside = part.first <= s.first <= part.last
            if inside and part.chapter.index <= chapter.index:
                for name in [n for n in bound_in_order(s.node) if n in space]:
                    if isinstance(space[name], kind):
                        p = space[name]
                        found.setdefault(id(p), (p, part.chapter))
    return list(found.values())


def bound_in_order(node: Any) -> list[str]:
    """The names that a statement binds, as they stand in it."""
    import ast

    bound = names(node)
    walked = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return [n for n in dict.fromkeys(walked) if n in bound]


def live_tables(book: Book, chapter: Chapter) -> list[tuple[str, Any, Chapter | None]]:
    """(column, table, its chapter) of TABLES; an empty table for one still to come."""
    found = []
    for column, file, name in TABLES:
        file = f"{book.package}/{file}"
        part = book.part_of(file, name)
        owner = part.chapter if part else None
        there = owner is not None and owner.index <= chapter.index
        space = vars(sys.modules.get(book.module(file), object)) if there else {}
        found.append((column, space.get(name, {}), owner))
    return found


def draw_band(
    book: Book, chapter: Chapter, band: list[tuple[Any, Chapter]], axis: Any
) -> None:
    """Some primitives side by side, their rows in the tables as squares below."""
    import matplotlib.pyplot as plt

    labels = []
    for y, (column, table, owner) in enumerate(live_tables(book, chapter)):
        later = owner is not None and owner.index > chapter.index
        labels.append(f"{column} (chapter {owner.id})" if later and owner else column)
        for x, (p, home) in enumerate(band):
            if p in table:
                new = chapter.id in (home.id, owner.id if owner else "")
                color = TANGENT if new else PRIMAL
                axis.add_patch(plt.Rectangle((x - 0.4, y - 0.4), 0.8, 0.8, fc=color))
            elif not later:
                axis.plot(x, y, ".", color=INK, markersize=3)
    axis.set_yticks(range(len(TABLES)), labels)
    axis.set_xticks(range(len(band)), [str(p) for p, _ in band], rotation=90)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set(xlim=(-0.6, max(len(band), 1) - 0.4), ylim=(len(TABLES) - 0.4, -0.6))
    axis.set_aspect("equal")
