"""Reports as pictures: who writes what for whom, how long arrays live, and a roofline.

    report.plot()                  # a matplotlib figure with all three
    report.plot("graph")           # or one of them: "graph", "arrays", "roofline"

Backgrounds are transparent and the ink is grey: readable on white and on dark pages.
"""

import functools
import math
import time
from bisect import bisect_left

import numpy as np

from .explain import report_forms
from .text import cut_to, size_text, sizes_text

INK, STEP, INPUT, TEMP, SLOW = "#7a7a7a", "#2b8f9a", "#3d7ebf", "#3f8f5b", "#d1495b"
# Bytes of the arrays that are copied to measure this machine: more than its caches.
COPIED = 1 << 26


@functools.cache
def copy_rate():
    """Bytes a second that a copy of a large array reads and writes, measured once."""
    source = np.ones(COPIED // 8)
    target = np.empty_like(source)
    return 2 * source.nbytes / quickest(lambda: np.copyto(target, source))


@functools.cache
def flop_rate():
    """Operations a second of a core in products of matrices, measured once.

    They are so small that a BLAS leaves each to one core, as a copy is: where it waits
    for a second core that is busy, it takes a hundred times as long.
    """
    a = np.ones((64, 64, 64), np.float32)
    target = np.empty_like(a)
    return 2 * 64**4 / quickest(lambda: np.matmul(a, a, out=target))


def quickest(run):
    """Seconds of the quickest of some runs: the others were disturbed."""
    found, end = [], time.perf_counter() + 0.2
    while len(found) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)


def new_axis(width, height):
    """An axis of a figure that shows what is behind it."""
    import matplotlib.pyplot as plt

    fig, axis = plt.subplots(figsize=(width, height), layout="constrained")
    fig.patch.set_alpha(0)
    return fig, clear(axis)


def clear(axis):
    """An axis in grey ink, without background."""
    axis.patch.set_alpha(0)
    axis.tick_params(which="both", colors=INK, labelsize=9)
    for name, spine in axis.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(INK)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_color(INK)
    return axis


# ---- the graph

# Inches for a letter of a label, and for a row, which a label's three lines fit into.
LETTER, ROW = 0.08, 0.5
# Inches for the names of the steps, and of a picture that a notebook shows in full.
NAMES, WIDEST = 2.3, 11


def strands_of(report):
    """Lists of arrays that are one line: the same steps write and read all of them."""
    users: dict = {}
    for n, step in enumerate(report.steps):
        for writes, uses in enumerate((step.reads, step.writes)):
            for use in uses:
                users.setdefault(use.buffer, []).append((n, writes, use.sweeps))
    strands: dict = {}
    for array in report.arrays:
        if array.first is not None:
            key = array.role, *users[array.buffer]
            strands.setdefault(key, []).append(array)
    return list(strands.values())


def lanes_of(report):
    """[(arrays, their column)]: as many lines as there is room for.

    The smallest of the others are one line for each role: first arguments and results,
    of which a training step has many, and what flows from step to step only at last.
    Constants are arguments that the program brings along.
    """
    between = lambda strand: strand[0].role in ("temporary", "tape")
    order = sorted(strands_of(report), key=lambda s: (between(s), total(s)))

    def lanes(number):
        """The columns if so many strands are not alone."""
        folded: dict = {}
        for strand in order[:number]:
            role = strand[0].role.replace("constant", "argument")
            folded.setdefault(role, []).extend(strand)
        return in_columns([*order[number:], *folded.values()])

    fits = lambda number: NAMES + places_of(lanes(number))[-1] <= WIDEST
    return lanes(bisect_left(range(len(order)), True, key=fits))


def in_columns(strands):
    """[(arrays, their column)]: strands that are never needed at once share one."""
    strands = sorted(strands, key=lambda strand: (life_of(strand)[0], -total(strand)))
    lanes: list = []
    free: list = []  # the step after which each column is free
    for strand in strands:
        first, last = life_of(strand)
        lane = next((k for k, end in enumerate(free) if end < first), None)
        if lane is None:
            lane = len(free)
            free.append(-1)
        free[lane] = last
        lanes.append((strand, lane))
    return lanes


def life_of(strand):
    """The steps from which on and up to which a strand is there: -1 and inf outside."""
    first = min(-1 if is_given(array) else array.first for array in strand)
    last = max(math.inf if is_result(array) else array.last for array in strand)
    return first, last


def total(strand):
    return sum(array.nbytes for array in strand)


def is_given(array):
    return array.role in ("argument", "constant", "donated")


def is_result(array):
    return array.role in ("result", "donated")


def labels_of(strand):
    """{the step below which it stands: the label there}, each of three short lines.

    Of several arrays that are one line each is said where a step uses it first.
    """
    groups = groups_of(strand) if len(strand) > 1 else {life_of(strand)[0]: strand}
    return {step: label_of(arrays) for step, arrays in groups.items()}


def groups_of(strand):
    """{step: the arrays of a strand that it is the first to use, the largest first}."""
    groups: dict = {}
    for array in sorted(strand, key=lambda array: -array.nbytes):
        groups.setdefault(array.first, []).append(array)
    return groups


def label_of(arrays):
    """Name, type and size of an array; or a line each for the largest ones of some.

    The last of three lines says how many others there are, if there are.
    """
    sizes = [sizes_text([array.buffer]) for array in arrays]
    if len(arrays) == 1:
        name, kind = arrays[0].name, type_of(arrays[0])
        return f"{cut_to(name, 15)}\n{cut_to(kind, 17)}\n{sizes[0]}"
    most = 3 if len(arrays) == 3 else 2
    names = [cut_to(f"{a.name} {type_of(a)}", 20) for a in arrays[:most]]
    lines = [f"{name} {size}" for name, size in zip(names, sizes, strict=False)]
    if rest := arrays[most:]:
        lines.append(f"and {len(rest)} more, {sizes_text(a.buffer for a in rest)}")
    return "\n".join(lines)


def type_of(array):
    """`f32[64,16]`."""
    return str(array).partition(": ")[2]


def places_of(lanes):
    """Inches from the first column to each, and to the end: room for their labels."""
    widths = [0.5] * max((lane + 1 for _, lane in lanes), default=1)
    for strand, lane in lanes:
        lines = "\n".join(labels_of(strand).values()).split("\n")
        letters = max(map(len, lines))
        widths[lane] = max(widths[lane], 0.25 + LETTER * letters)
    return np.cumsum([0.0, *widths])


def graph_size(report):
    """Inches in which no label of the graph lies on another one."""
    width = NAMES + places_of(lanes_of(report))[-1]
    return width, min(ROW * (len(report.steps) + 2.6), 60)


def draw_graph(report, axis):
    """A row for each step, a line for each array: from who writes it to who reads it.

    A square is a write, a circle a read; a line is as wide as its arrays are large, and
    dashed if these grow while loops run.
    """
    lanes, rows = lanes_of(report), len(report.steps)
    *places, end = places_of(lanes)
    axis.set_axis_off()
    most = max((total(strand) for strand, _ in lanes), default=1) or 1
    across = {a.buffer: places[lane] for strand, lane in lanes for a in strand}
    for strand, lane in lanes:
        x = places[lane]
        color = TEMP if strand[0].role in ("temporary", "tape") else INPUT
        first, last = life_of(strand)
        first, last = -1.3 if first < 0 else first, min(last, rows - 0.2)
        is_tape = strand[0].role == "tape"
        width = 3 if is_tape else 0.7 + 4 * (total(strand) / most) ** 0.5
        axis.plot([x, x], [first, last], color=color, lw=width, alpha=0.6, zorder=1,
                  ls=(0, (1.5, 0.6)) if is_tape else "-", dash_capstyle="butt",
                  solid_capstyle="butt")  # fmt: skip
        for y, label in labels_of(strand).items():
            axis.text(x + 0.1, max(y, -1.3) + 0.16, label, color=color, fontsize=9,
                      va="top", linespacing=1, zorder=4)  # fmt: skip
    for y, step in enumerate(report.steps):
        color = STEP if step.reason is None else SLOW
        name = f"{cut_to(step.name, 20)}  {size_text(step.nbytes)}"
        axis.text(-0.25, y, name, color=color, ha="right", va="center", fontsize=9)
        touched = [across[use.buffer] for use in (*step.reads, *step.writes)]
        if touched:
            axis.plot([-0.2, max(touched)], [y, y], color=INK, lw=0.5, zorder=0)
        both = {across[u.buffer] for u in step.reads}
        both &= {across[u.buffer] for u in step.writes}
        for marker, uses in (("o", step.reads), ("s", step.writes)):
            for x in dict.fromkeys(across[use.buffer] for use in uses):
                aside = 0.05 if x in both else 0
                axis.plot(x + (aside if marker == "s" else -aside), y, marker,
                          color=color, ms=6, zorder=3)  # fmt: skip
            swept = {across[u.buffer]: u.sweeps for u in uses if u.sweeps > 1}
            for x, sweeps in swept.items():
                axis.text(x - 0.07, y - 0.1, f"{sweeps}x", color=SLOW, ha="right",
                          fontsize=9, zorder=4)  # fmt: skip
    axis.set(xlim=(-0.4, end), ylim=(rows + 0.4, -1.6))


# ---- lives of arrays


def bars_of(report):
    """Lists of arrays with a bar each: what only one step uses is one bar together."""
    bars: dict = {}
    for array in report.buffers:
        if array.first is not None:
            is_own = array.role == "temporary" and array.first == array.last
            bars.setdefault(array.first if is_own else array, []).append(array)
    return list(bars.values())


def arrays_size(report):
    return 7, min(max(1.6, 0.24 * len(bars_of(report)) + 0.8), 20)


def draw_arrays(report, axis):
    """A bar for each array that the program makes, from its first to its last step."""
    end = len(report.steps)
    for y, bar in enumerate(bars_of(report)):
        array, result = bar[0], is_result(bar[0])
        last = end if result else array.last + 1
        color = INPUT if result else TEMP
        axis.barh(y, last - array.first, left=array.first, height=0.7, color=color,
                  alpha=0.25)  # fmt: skip
        many = f"{len(bar)} arrays of {report.steps[array.first].name}"
        name = array.name if len(bar) == 1 else many
        label = f"{cut_to(name, 30)} {sizes_text(a.buffer for a in bar)}"
        late = array.first > 0.7 * end  # then there is more room on the left
        place = last - 0.08 if late and last == end else array.first + 0.08
        axis.text(place, y, label, va="center", fontsize=9, color=INK,
                  ha="right" if late and last == end else "left")  # fmt: skip
    axis.set_ylim(len(bars_of(report)) - 0.4, -0.6)
    title = f"arrays and when they are needed: peak {size_text(report.peak)}"
    axis.set(yticks=[], xlabel="step", xlim=(0, max(end, 1)), title=title)
    axis.xaxis.get_major_locator().set_params(integer=True)
    clear(axis)


# ---- the roofline


def roofline_size(report):
    return 6, 3.2


def draw_roofline(report, axis=None, seconds=()):
    """Operations for a byte, and how many a second a core can do at most.

    Args:
      report: a `Report`, or steps.
      seconds: {step: how long a run took}: a dot below for what it did.
    """
    if axis is None:
        _, axis = new_axis(*roofline_size(report))
    copy, flops = copy_rate(), flop_rate()
    known = [s for s in getattr(report, "steps", report) if s.flops and s.nbytes]
    ratios = [s.flops / s.nbytes for s in known]
    low, high = min([0.05, *ratios]) / 2, max([100, *(30 * r for r in ratios)]) * 2
    line = np.geomspace(low, high, 200)
    axis.plot(line, np.minimum(line * copy, flops) / 1e9, color=INK, lw=1)
    tops = [min(r * copy, flops) / 1e9 for r in ratios]
    sizes = [20 + 200 * (s.nbytes / max(t.nbytes for t in known)) for s in known]
    colors = [STEP if s.is_kernel else INPUT for s in known]
    if seconds:
        reached = [s.flops / seconds[s] / s.threads / 1e9 for s in known]
        axis.scatter(ratios, tops, sizes, "none", edgecolors=colors, alpha=0.6)
        axis.vlines(ratios, reached, tops, colors, lw=0.8, alpha=0.6)
        tops = reached
    axis.scatter(ratios, tops, sizes, colors, alpha=0.6)
    largest = sorted(zip(known, ratios, tops, strict=True), key=lambda x: -x[0].nbytes)
    names: dict = {}  # steps at nearly the same place have one label
    for step, r, top in largest[:6]:
        names.setdefault(round(10 * np.log10(r)), (r, top, []))[2].append(step.name)
    # Below the roof, a row for each: what is further left stands lower, so that no line
    # from a point to its label crosses another label.
    row = (flops / (low * copy)) ** 0.09
    lowest = flops / 1e9
    for _, (r, top, steps) in sorted(names.items(), reverse=True):
        lowest = min(lowest, top / row) / row
        axis.annotate(cut_to(", ".join(steps), 24), (r, top), (r * 1.15, lowest),
                      color=INK, fontsize=9, va="center",
                      arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.5,
                                  "relpos": (0, 0.5), "shrinkB": 0})  # fmt: skip
    bottom = min(low * copy / 1e9, lowest / row, flops / 30e9, *(t / 2 for t in tops))
    axis.set_ylim(bottom, max([flops / 1e9, *tops]) * row)
    axis.set(xscale="log", yscale="log", xlabel="operations for each byte moved",
             ylabel="at most " * (not seconds) + "Gflop/s a core")  # fmt: skip
    axis.set_title("what bounds each step" + " and what it did" * bool(seconds))
    for along in (axis.xaxis, axis.yaxis):
        along.set_major_formatter("{x:g}")
    clear(axis)
    return axis.figure


# name -> function(report, axis) that draws, and function to (width, height).
pictures = {
    "graph": (draw_graph, graph_size),
    "arrays": (draw_arrays, arrays_size),
    "roofline": (draw_roofline, roofline_size),
}


def plot(report, which=None):
    """One picture, or all of them below each other: a figure of matplotlib."""
    if which is not None and which not in pictures:
        raise ValueError(f"plot has {', '.join(pictures)}; got {which!r}")
    import matplotlib.pyplot as plt

    chosen = [pictures[which]] if which else [*pictures.values()]
    widths, heights = zip(*(size(report) for _, size in chosen), strict=True)
    width = widths[0] if which else max(9, *widths)
    fig, axes = plt.subplots(len(chosen), 1, figsize=(width, sum(heights)),
                             layout="constrained", height_ratios=heights,
                             squeeze=False)  # fmt: skip
    fig.patch.set_alpha(0)
    for (draw, _), axis in zip(chosen, axes.flat, strict=True):
        draw(report, clear(axis))
    return fig


report_forms |= {"plot": plot}
