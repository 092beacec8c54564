"""Reports as pictures: who writes what for whom, how long arrays live, and a roofline.

    report.plot()                  # a matplotlib figure with all three
    report.plot("graph")           # or one of them: "graph", "arrays", "roofline"

Backgrounds are transparent and the ink is grey: readable on white and on dark pages.
"""

import time

import numpy as np

from .explain import report_forms
from .explain_text import cut_to, size_text

INK, STEP, INPUT, TEMP, SLOW = "#7a7a7a", "#2b8f9a", "#3d7ebf", "#3f8f5b", "#d1495b"
# Bytes of the arrays that are copied to measure this machine: more than its caches.
COPIED = 1 << 26
measured: dict = {}


def copy_rate():
    """Bytes a second that a copy of a large array reads and writes, measured once."""
    if "copy" not in measured:
        source = np.ones(COPIED // 8)
        target = np.empty_like(source)
        seconds = quickest(lambda: np.copyto(target, source))
        measured["copy"] = 2 * source.nbytes / seconds
    return measured["copy"]


def flop_rate():
    """Operations a second of a product of two matrices, measured once."""
    if "flops" not in measured:
        a = np.ones((512, 512), np.float32)
        measured["flops"] = 2 * 512**3 / quickest(lambda: a @ a)
    return measured["flops"]


def quickest(run, times=5):
    """Seconds of the quickest of some runs."""
    found = []
    for _ in range(times):
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
    axis.tick_params(colors=INK, labelsize=9)
    for name, spine in axis.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(INK)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_color(INK)
    return axis


# ---- the graph


def lanes_of(report):
    """{array: its column}: arrays that are never needed at once share one."""
    used = [a for a in report.arrays if a.first is not None]
    begins = {a: -1 if is_given(a) else a.first for a in used}
    free, lanes = [], {}  # the step after which each column is free
    for array in sorted(used, key=lambda a: (begins[a], -a.nbytes)):
        last = len(report.steps) if is_result(array) else array.last
        lane = next((i for i, end in enumerate(free) if end < begins[array]), None)
        if lane is None:
            lane = len(free)
            free.append(-1)
        free[lane], lanes[array] = last, lane
    return lanes


def is_given(array):
    return array.role in ("argument", "constant", "donated")


def is_result(array):
    return array.role in ("result", "donated")


def draw_graph(report, axis=None):
    """A row for each step, a line for each array: from who writes it to who reads it.

    A square is a write, a circle a read; a line is as wide as its array is large.
    """
    lanes, rows = lanes_of(report), len(report.steps)
    columns = max(lanes.values(), default=0) + 1
    if axis is None:
        width, height = 3.2 + 1.2 * columns, 0.5 * (rows + 2.3)
        _, axis = new_axis(min(width, 30), min(max(height, 1.8), 60))
    axis.set_axis_off()
    most = max((array.nbytes for array in lanes), default=1) or 1
    by_buffer = {array.buffer: array for array in lanes}
    for array, lane in lanes.items():
        color = TEMP if array.role == "temporary" else INPUT
        first = -1.1 if is_given(array) else array.first
        last = rows - 0.2 if is_result(array) else array.last
        width = 0.7 + 4 * (array.nbytes / most) ** 0.5
        axis.plot([lane, lane], [first, last], color=color, lw=width, alpha=0.6,
                  solid_capstyle="butt", zorder=1)  # fmt: skip
        name, _, kind = str(array).partition(": ")
        label = f"{cut_to(name, 14)}\n{cut_to(kind, 16)}\n{size_text(array.nbytes)}"
        axis.text(lane + 0.07, first + 0.14, label, color=color, fontsize=9, va="top",
                  zorder=4)  # fmt: skip
    for y, step in enumerate(report.steps):
        color = STEP if step.reason is None else SLOW
        name = f"{cut_to(step.name, 24)}  {size_text(step.nbytes)}"
        axis.text(-0.35, y, name, color=color, ha="right", va="center", fontsize=9)
        touched = [lanes[by_buffer[u.buffer]] for u in (*step.reads, *step.writes)
                   if u.buffer in by_buffer]  # fmt: skip
        if touched:
            axis.plot([-0.28, max(touched)], [y, y], color=INK, lw=0.5, zorder=0)
        for marker, uses in (("o", step.reads), ("s", step.writes)):
            for use in (u for u in uses if u.buffer in by_buffer):
                lane = lanes[by_buffer[use.buffer]]
                axis.plot(lane, y, marker, color=color, ms=6, zorder=3)
                if use.sweeps > 1:
                    axis.text(lane - 0.07, y - 0.12, f"{use.sweeps}x", color=SLOW,
                              ha="right", fontsize=9, zorder=4)  # fmt: skip
    axis.set(xlim=(-2.6, columns - 0.1), ylim=(rows + 0.3, -1.5))
    return axis.figure


# ---- lives of arrays


def draw_arrays(report, axis=None):
    """A bar for each array that the program makes, from its first to its last step."""
    made = [a for a in report.buffers if a.first is not None]
    end = len(report.steps)
    if axis is None:
        _, axis = new_axis(7, min(max(1.6, 0.24 * len(made) + 0.8), 20))
    for y, array in enumerate(made):
        result = is_result(array)
        last = end if result else array.last + 1
        color = INPUT if result else TEMP
        axis.barh(y, last - array.first, left=array.first, height=0.7, color=color,
                  alpha=0.4)  # fmt: skip
        label = f"{cut_to(array.name, 16)} {size_text(array.nbytes)}"
        axis.text(array.first + 0.08, y, label, va="center", fontsize=9, color=INK)
    axis.invert_yaxis()
    title = f"arrays and when they are needed: peak {size_text(report.peak)}"
    axis.set(yticks=[], xlabel="step", xlim=(0, max(end, 1)), title=title)
    axis.xaxis.get_major_locator().set_params(integer=True)
    clear(axis)
    return axis.figure


# ---- the roofline


def bound_of(step):
    """Seconds that a step takes at least on this machine: to move, and to compute."""
    return step.nbytes / copy_rate(), (step.flops or 0) / flop_rate()


def draw_roofline(report, axis=None):
    """Operations for a byte, and how many a second this machine can do at most."""
    if axis is None:
        _, axis = new_axis(6, 3.2)
    copy, flops = copy_rate(), flop_rate()
    known = [s for s in report.steps if s.flops and s.nbytes]
    ratios = [s.flops / s.nbytes for s in known]
    low, high = min([0.05, *ratios]) / 2, max([100, *ratios]) * 2
    line = np.geomspace(low, high, 200)
    axis.plot(line, np.minimum(line * copy, flops) / 1e9, color=INK, lw=1)
    tops = [min(r * copy, flops) / 1e9 for r in ratios]
    sizes = [20 + 200 * (s.nbytes / max(t.nbytes for t in known)) for s in known]
    colors = [STEP if s.is_kernel else INPUT for s in known]
    axis.scatter(ratios, tops, sizes, colors, alpha=0.6)
    most = sorted(known, key=lambda s: -s.nbytes)[:6]
    for step in most:
        r = step.flops / step.nbytes
        at = r, min(r * copy, flops) / 1e9
        axis.annotate(cut_to(step.name, 20), at, (4, -10), color=INK, fontsize=9,
                      textcoords="offset points")  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="operations for each byte moved",
             ylabel="at most Gflop/s", title="what bounds each step")  # fmt: skip
    clear(axis)
    return axis.figure


pictures = {"graph": draw_graph, "arrays": draw_arrays, "roofline": draw_roofline}


def plot(report, which=None):
    """One picture, or all of them below each other: a figure of matplotlib."""
    if which is not None:
        if which not in pictures:
            raise ValueError(f"plot has {', '.join(pictures)}; got {which!r}")
        return pictures[which](report)
    import matplotlib.pyplot as plt

    heights = [min(max(2.5, 0.5 * (1 + len(report.steps))), 14), 3.0, 3.2]
    fig, axes = plt.subplots(3, 1, figsize=(9, sum(heights)), layout="constrained",
                             height_ratios=heights)  # fmt: skip
    fig.patch.set_alpha(0)
    for draw, axis in zip(pictures.values(), axes, strict=True):
        draw(report, clear(axis))
    return fig


report_forms |= {"plot": plot}
