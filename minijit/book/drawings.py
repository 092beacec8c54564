"""Drawings of chapters: what would only stand in a reader's way as a cell.

    from minijit.book import drawings

    drawings.meanings()                        # chapter 1: one function, four meanings
    drawings.schedules(reverse_steps, 20, {1: 190, 2: 61})     # chapter 13
    drawings.digits(pictures[:10], labels[:10])                # chapters 0, 3, 8 to 10

What knows jaxprs, trees and the library is in `style`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import style


def meanings() -> None:
    """Chapter 1: a function, and the meanings that it gets."""
    ax = style.blank(None, 8, 3)
    middle = style.box(ax, 0, 0, "sin(x) * x + 3.0")
    for x, y, title, result, color in (
        (-2.6, 1, "now: compute", "4.8186", style.PRIMAL),
        (2.6, 1, "a value and how it moves", "(4.8186, 0.077)", style.TANGENT),
        (-2.6, -1, "write it down", "a program", style.COMPILED),
        (2.6, -1, "one more axis", "a batch of values", style.LANES),
    ):
        style.arrow(ax, middle, style.box(ax, x, y, result, color), color)
        ax.text(x, y + 0.35 if y > 0 else y - 0.5, title, ha="center")
    ax.set(xlim=(-4.2, 4.2), ylim=(-1.7, 1.7))


def a_product_grows() -> None:
    """Chapter 1: a product as an area, and what it gains when both sides grow."""
    ax = style.blank(None, 6, 2.7)
    for x, y, width, height, text, color in (
        (0, 0, 4, 2, "y x", style.PRIMAL),
        (4, 0, 0.8, 2, "s x", style.TANGENT),
        (0, 2, 4, 0.5, "y t", style.TANGENT),
        (4, 2, 0.8, 0.5, "s t", style.INK),
    ):
        draw_frame(ax, x, y, width, height, style.faded(color))
        draw_frame(ax, x, y, width, height)
        middle = x + width / 2, y + height / 2
        ax.text(*middle, text, ha="center", va="center", color=style.DARK)
    for *place, text in (
        (2, -0.2, "y"), (4.4, -0.2, "s"), (-0.15, 1, "x"), (-0.15, 2.25, "t")
    ):  # fmt: skip
        ax.text(*place, text, ha="center", va="center")
    ax.set(xlim=(-0.4, 5.2), ylim=(-0.4, 2.6), aspect="equal")


def ways_of_a_tangent() -> None:
    """Chapter 1: from x to sin(x) x, by two ways."""
    ax = style.blank(None, 8, 2.8)
    x = style.box(ax, -3, 2, "x = 2", style.PRIMAL)
    sine = style.box(ax, -1.2, 1, "sin x = 0.909", style.PRIMAL)
    product = style.box(ax, 1.2, 0, "sin(x) x = 1.819", style.PRIMAL)
    style.arrow(ax, x, sine, style.TANGENT)
    style.arrow(ax, sine, product, style.TANGENT)
    style.arrow(ax, x, product, style.TANGENT, bend=-0.45)
    ax.text(-2.4, 1.4, "times cos x", ha="right")
    ax.text(-0.3, 0.4, "times x", ha="right")
    ax.text(0.6, 1.5, "times sin x")
    ax.text(2.3, 0, "moves by 2 cos 2 + sin 2 = 0.077", va="center")
    ax.set(xlim=(-4.2, 5.6), ylim=(-0.4, 2.4))


def there_and_back() -> None:
    """Chapter 1: a linear program with its tangents, and with its cotangents."""
    ax = style.blank(None, 8, 3.2)
    places = {"a": (1, 3), "b": (0.3, 2), "c": (0.3, 1), "d": (1.7, 1.5), "e": (1, 0)}
    edges = [("a", "b", "-0.416"), ("b", "c", "2"), ("a", "d", "0.909")]
    edges += [("c", "e", ""), ("d", "e", "")]
    counts = {"a": "0.909 - 0.832", "b": "2", "c": "1", "d": "1", "e": "1"}
    for left, color in (0, style.TANGENT), (4, style.COTANGENT):
        boxes = {}
        for name, (x, y) in places.items():
            text = name if left == 0 else f"{name}: {counts[name]}"
            boxes[name] = style.box(ax, left + x, y, text, color)
        for start, end, factor in edges:
            ends = boxes[start], boxes[end]
            ends = ends if left == 0 else ends[::-1]
            style.arrow(ax, *ends, color)
            style.between(ax, *ends, 0.5, factor)
    ax.text(1, 3.5, "tangents go down", ha="center")
    ax.text(5, 3.5, "cotangents go up", ha="center")
    ax.set(xlim=(-0.8, 6.6), ylim=(-0.4, 3.8))


def questions() -> None:
    """Chapter 1: how x * sum(x) is asked for its element at i."""
    ax = style.blank(None, 9, 2.2)
    boxes = []
    for x, y, question, answer, color in (
        (0, 0.5, "d at i?", "mul: ask both", style.COMPILED),
        (2.2, 1.2, "a at i?", "an input: a[i]", style.PRIMAL),
        (2.2, 0, "c at i?", "broadcast: drop the i", style.COMPILED),
        (4.6, 0, "b at ()?", "a sum: a loop of its own", style.RESIDUAL),
        (7, 0, "a at i?", "an input: a[i]", style.PRIMAL),
    ):
        boxes.append(style.box(ax, x, y, question, color))
        ax.text(x, y - 0.42, answer, ha="center", va="center", fontsize=9)
    for start, end in (0, 1), (0, 2), (2, 3), (3, 4):
        style.arrow(ax, boxes[start], boxes[end], style.COMPILED)
    ax.set(xlim=(-0.9, 7.9), ylim=(-0.7, 1.5))


def program_and_loops(
    program: object, loops: object, lines: Sequence[tuple[int, int]]
) -> None:
    """Chapter 1: a program, its loops, and a line from equations to lines of loops."""
    ax = style.blank(None, 9, 3.4)
    for row, line in enumerate(str(program).split("\n")[1:-1]):
        ax.text(0, -1.6 * row, line.strip(), family="monospace", va="center")
    for row, line in enumerate(str(loops).split("\n")[1:]):
        ax.text(5.8, 0.6 - row, line[4:], family="monospace", va="center")
    for equation, row in lines:
        ax.plot([4.3, 5.7], [-1.6 * equation, 0.6 - row], color=style.COMPILED)
    ax.set(xlim=(-0.1, 10), ylim=(-9.8, 1.1))


def digits(
    pictures: Sequence[Any],
    titles: Sequence[object] = (),
    colors: Sequence[str] = (),
    columns: int = 10,
    size: tuple[float, float] = (8, 1.2),
) -> None:
    """Pictures of 8 x 8 grey values, row by row, each with a title above it."""
    rows = -(-len(pictures) // columns)
    _, axes = style.figure(*size, nrows=rows, ncols=columns, squeeze=False)
    for i, axis in enumerate(axes.flat):
        axis.set_axis_off()
        if i < len(pictures):
            axis.imshow(pictures[i].reshape(8, 8), cmap="gray_r", vmin=0)
        if i < len(titles):
            color = colors[i] if colors else style.INK
            axis.set_title(titles[i], fontsize=9, color=color)


def matrices(pairs: Mapping[str, tuple[Any, Any]]) -> None:
    """Linear functions as matrices, and below each the matrix of its backward run."""
    _, axes = style.figure(8, 3.8, nrows=2, ncols=len(pairs))
    for column, (name, pair) in zip(axes.T, pairs.items(), strict=True):
        for axis, matrix, title in zip(column, pair, (name, "backwards"), strict=True):
            axis.pcolormesh(matrix, cmap="Greys", vmax=1.6, edgecolors=style.INK)
            axis.set(xlim=(-0.1, 6.1), ylim=(6.1, -0.1), aspect="equal")
            axis.set_title(title, loc="left")
            axis.axis("off")


def way_of_a_call() -> None:
    """Chapter 6: from the arguments of a jitted function to its result."""
    ax = style.blank(None, 8.5, 4.2)
    places = {
        "call": (1, 4, "f(*args)", style.PRIMAL),
        "key": (1, 3, "flatten, make the key", style.INK),
        "own": (1, 2, "the function's own entries", style.INK),
        "use": (1, 1, "run, or bind one equation", style.COMPILED),
        "result": (1, 0, "unflatten the result", style.PRIMAL),
        "captures": (4, 3, "what is the function now?", style.INK),
        "tables": (4, 2, "the tables that all share", style.INK),
        "trace": (7, 2, "trace: Python runs", style.WRONG),
        "entry": (7, 1, "a new Entry, a row in traces", style.WRONG),
    }
    boxes = {name: style.box(ax, *place) for name, place in places.items()}
    for path in (
        "call key own use result",
        "own captures tables trace entry use",
        "tables use",
    ):
        names = path.split()
        for start, end in zip(names, names[1:], strict=False):
            style.arrow(ax, boxes[start], boxes[end])
    for x, y, text in (
        (0.93, 1.5, "there"),
        (3.9, 2.4, "not there, or stale"),
        (2.4, 1.55, "there"),
        (5.85, 2.15, "not there"),
        (5.2, 1.12, "remember"),
    ):
        ax.text(x, y, text, ha="right", va="center", fontsize=9)
    ax.set(xlim=(-0.3, 8.5), ylim=(-0.4, 4.4))


def axes_of_a_product() -> None:
    """Chapter 3: a box for each axis of the operands and the result of a product."""
    batch, contracted = ("batch 8", style.LANES), ("contracted 64", style.RESIDUAL)
    first, second = ("free 5", style.PRIMAL), ("free 32", style.TANGENT)
    ax = style.blank(None, 9, 0.7)
    for start, axes in (
        (0, (batch, first, contracted)),
        (4.1, (batch, contracted, second)),
        (8.2, (batch, first, second)),
    ):
        for i, axis in enumerate(axes):
            style.box(ax, start + 1.25 * i, 0, *axis).set(size=9)
    ax.text(3.4, 0, "·", ha="center", va="center")
    ax.text(7.4, 0, "=", ha="center", va="center")
    ax.set(xlim=(-0.8, 11.5), ylim=(-0.5, 0.5))


def operands_of_loops() -> None:
    """Chapter 11: what a loop, its linear side and its transpose take and return."""
    plain, kept = style.PRIMAL, style.RESIDUAL
    forth, back = style.TANGENT, style.COTANGENT
    ax = style.blank(None, 10, 2.2)
    tests = "test consts", "body consts", "carry"
    for y, (label, taken, given) in enumerate((
        ("while", [(text, plain) for text in tests],
         [("carry", plain), ("steps", kept), ("Tapes", kept)]),
        ("linear: scan",
         [("steps", kept), ("shared", kept), ("of consts", forth), ("of carry", forth),
          ("Tapes", kept)],
         [("of carry", forth)]),
        ("backward: scan,\nin reverse",
         [("steps", kept), ("shared", kept), ("of consts", back), ("of carry", back),
          ("Tapes", kept)],
         [("of consts", back), ("of carry", back)]),
    )):  # fmt: skip
        ax.text(-1.1, -y, label, ha="right", va="center")
        for start, boxes in (0, taken), (8.6, given):
            for i, (text, color) in enumerate(boxes):
                style.box(ax, start + 1.5 * i, -y, text, color).set(size=9)
        style.arrow(ax, (7.0, -y), (7.7, -y))
    ax.set(xlim=(-3.2, 12.6), ylim=(-2.6, 0.5))


def parts_of_a_rule() -> None:
    """Chapter 7: what stands outside the lambda of a rule, and what inside."""
    ax, works = style.blank(None, 8, 2.2), []
    for y, color, title, where, *texts in (
        (1, style.PRIMAL, "outside", "runs with the function", "x", "sin x, cos x"),
        (0, style.TANGENT, "inside", "called, or recorded", "t", "t times c"),
    ):
        texts.append("sin x" if y else "tangent of sin x")
        places = zip((0, 2, 4.2), texts, strict=True)
        start, work, end = (style.box(ax, x, y, text, color) for x, text in places)
        style.arrow(ax, start, work, color)
        style.arrow(ax, work, end, color)
        works.append(work)
        ax.text(-1.4, y, title, va="center")
        ax.text(5.4, y, where, va="center")
    first, second = works
    style.arrow(ax, first, second, style.RESIDUAL)
    ax.text(2.15, 0.5, "c = cos x", va="center", color=style.RESIDUAL)
    ax.set(xlim=(-1.5, 7.6), ylim=(-0.4, 1.4))


def lanes() -> None:
    """Chapter 9: an array with four lanes on axis 1, and what the function sees."""
    ax = style.blank(None, 8, 1.9)
    for column in range(4):
        for row in range(3):
            text = str(4 * row + column)
            style.box(ax, 0.6 * column, -row, text, style.LANES)
            style.box(ax, 6 + 1.6 * column, -row, text, style.LANES)
    ax.text(0.9, 1, "the value, of shape (3, 4)", ha="center", va="center")
    ax.text(8.4, 1, "four lanes, each of shape (3,)", ha="center", va="center")
    style.arrow(ax, (2.7, -1), (4.9, -1))
    ax.set(xlim=(-1.2, 12), ylim=(-2.6, 1.3))


def lined_up() -> None:
    """Chapter 9: a box for each axis of the operands and the result of `x * y`."""
    three, lane, one = ("3", style.INK), ("4", style.LANES), ("1", style.INK)
    full = [lane, three]
    ax = style.blank(None, 9, 2.6)
    for y, (label, given, stretched) in enumerate(
        (
            ("lanes on the same axis", full, full),
            ("lanes elsewhere", [three, lane], full),
            ("no lanes", [three], [one, three]),
            ("a scalar in each lane", [lane], [lane, one]),
        )
    ):
        ax.text(-0.8, -y, label, ha="right", va="center")
        for start, axes in (0, full), (3, given), (6, stretched), (9, full):
            for i, (size, color) in enumerate(axes):
                style.box(ax, start + 0.8 * i, -y, size, color)
        ax.text(2.1, -y, "·", ha="center", va="center")
        if given != stretched:
            style.arrow(ax, (4.4, -y), (5.4, -y))
        ax.text(7.9, -y, "=", ha="center", va="center")
    ax.set(xlim=(-3.6, 11), ylim=(-3.5, 0.5))


def products_in_lanes() -> None:
    """Chapter 9: a box for each axis of the operands and the result of `w @ x`."""
    two, one, plain = style.TANGENT, style.LANES, style.INK
    w, x, out = [("600", plain), ("821", plain)], [("821", plain)], [("600", plain)]
    inner, outer = [("100", one)], [("32", two), ("100", one)]
    ax = style.blank(None, 9, 2.6)
    for y, (label, left, right, result, note) in enumerate(
        (
            ("one lane", w, x, out, ""),
            ("lanes where they fall", w, inner + x, out + inner, "needs a transpose"),
            ("operands exchanged", inner + x, w, inner + out, ""),
            ("and a second vmap", outer + x, w, outer + out, ""),
        )
    ):
        ax.text(-0.6, -y, label, ha="right", va="center")
        for start, axes in (0, left), (3.6, right), (6.8, result):
            for i, (size, color) in enumerate(axes):
                style.box(ax, start + 0.9 * i, -y, size, color)
        ax.text(2.9, -y, "·", ha="center", va="center")
        ax.text(6.1, -y, "=", ha="center", va="center")
        ax.text(9.3, -y, note, va="center", color=style.COTANGENT)
    ax.set(xlim=(-3.6, 12), ylim=(-3.5, 0.5))


def forward_and_backward() -> None:
    """Chapter 10: the two halves of a `custom_vjp`, and what stands between them."""
    ax = style.blank(None, 8, 2.8)
    kinds = "{}", "tangent of {}", "cotangent of {}"
    middle = ("fwd", style.PRIMAL), ("?", style.INK), ("bwd", style.COTANGENT)
    boxes = {}
    pairs = zip(kinds, middle, strict=True)
    for row, (kind, (name, color)) in enumerate(pairs):
        boxes[name] = style.box(ax, 2, -row, f"  {name}  ", color)
        first = style.box(ax, 0, -row, kind.format("x"), color)
        last = style.box(ax, 4, -row, kind.format("y"), color)
        path = [first, boxes[name], last]
        path = path[::-1] if name == "bwd" else path
        for start, end in zip(path, path[1:], strict=False):
            style.arrow(ax, start, end, color)
    style.arrow(ax, boxes["fwd"], boxes["bwd"], style.RESIDUAL, bend=-0.5)
    ax.text(2.5, -0.55, "residuals", color=style.RESIDUAL)
    ax.text(5.0, -1, "never evaluated, only\nrecorded and transposed", va="center")
    ax.set(xlim=(-1, 7), ylim=(-2.5, 0.5))


def passes_of_branches(padded: Sequence[str], wanted: Sequence[str]) -> None:
    """Chapter 11: what goes from the branch that is taken to its backward pass.

    Args:
      padded, wanted: what is kept if branch 0 is taken, and if branch 1 is.
    """
    _, axes = style.figure(8, 2.8, nrows=2, ncols=2)
    for row, kept in enumerate((padded, wanted)):
        for taken in 0, 1:
            axis = axes[row, taken]
            style.blank(axis, 4, 2)
            for k in 0, 1:
                there, back = style.PRIMAL, style.COTANGENT
                if k != taken:
                    there = back = style.INK
                forward = style.box(axis, 0, -k, f"branch {k}", there)
                end = style.box(axis, 6, -k, f"back {k}", back)
                if k == taken:
                    color = style.WRONG if "zeros" in kept[k] else style.RESIDUAL
                    held = style.box(axis, 3, -k, kept[k], color)
                    style.arrow(axis, forward, held, there)
                    style.arrow(axis, held, end, back)
            axis.set(xlim=(-1, 6.8), ylim=(-1.5, 0.5))
    for k in 0, 1:
        axes[0, k].set_title(f"branch {k} is taken")
        name = ("padded", "wanted")[k]
        axes[k, 0].text(-1.3, -0.5, name, rotation=90, va="center")


def tapes(items: Mapping[str, Sequence[float]]) -> None:
    """Chapter 11: the items of several tapes, a row for each."""
    axis = style.blank(None, 10, 2.6)
    for row, (name, values) in enumerate(items.items()):
        axis.text(-0.6, -row, name, ha="right", va="center")
        for i, value in enumerate(values):
            style.box(axis, i, -row, f"{float(value):.4g}", style.RESIDUAL)
    style.arrow(axis, (4.0, 0.1), (7.5, 0.1), style.PRIMAL)
    axis.text(7.7, 0.1, "the loop writes", va="center")
    style.arrow(axis, (7.5, -0.3), (4.0, -0.3), style.COTANGENT)
    axis.text(7.7, -0.3, "the gradient reads", va="center")
    axis.set(xlim=(-2.2, 12.6), ylim=(-2.4, 0.5))


def inputs_held(layers: int) -> None:
    """Chapter 12: which inputs of layers are held while the backward pass goes back."""
    ways: Mapping[str, Callable[[int], set[int]]] = {
        "one checkpoint": lambda now: set(range(now + 1)),
        "halves of halves": lambda now: draw_held(layers, 0, now),
    }
    _, axes = style.figure(8, 2.6, ncols=len(ways))
    for axis, (title, held) in zip(axes, ways.items(), strict=True):
        style.blank(axis, 4, 3)
        axis.set_title(title)
        for row, now in enumerate(reversed(range(layers))):
            for k in range(layers):
                color = style.RESIDUAL if k in held(now) else "none"
                look = {"color": color, "edgecolor": style.INK, "lw": 0.5}
                axis.barh(-row, 0.8, 0.7, left=k, **look)
            text = f"back at {now}"
            axis.text(-0.3, -row, text, ha="right", va="center", fontsize=9)


def draw_held(layers: int, first: int, now: int) -> set[int]:
    """With checkpoints around halves of halves: the inputs that are held at `now`."""
    if layers == 1:
        return {first}
    half = layers // 2
    if now < first + half:
        return {first} | draw_held(half, first, now)
    return {first, first + half} | draw_held(half, first + half, now)


def costs_of_bounds(allowed: Sequence[int], runs: Mapping[str, Sequence[Any]]) -> None:
    """Chapter 13: bytes kept and bodies run, by how many steps a loop is allowed."""
    colors = style.WRONG, style.TANGENT, style.RESIDUAL
    _, axes = style.figure(8, 3, ncols=2)
    for i, (name, found) in enumerate(runs.items()):
        kept, bodies = [n for *_, n in found], [a + b for a, b, _ in found]
        # The first is the widest, so that it is seen behind another one.
        look = {"color": colors[i], "lw": 5 - 1.7 * i, "ms": 10 - 2.5 * i}
        axes[0].plot(allowed, kept, "o-", label=name, **look)
        axes[1].plot(allowed, bodies, "o-", **look)
    axes[0].set(yscale="log", ylabel="bytes kept")
    axes[1].set(ylim=0, ylabel="bodies run, both passes")
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.set_xlabel("steps allowed; the loop takes 8")
    axes[0].legend()


def a_loop_in_two() -> None:
    """Chapter 13: ten steps, reversed with two slots and three runs of each step."""
    ax = style.blank(None, 9, 1.8)
    for step in range(10):
        held = step in (0, 6)
        style.box(ax, step, 0, str(step), style.RESIDUAL if held else style.INK)
    style.arrow(ax, (0, 0.5), (6, 0.5), style.PRIMAL)
    ax.text(3, 0.75, "run forward once", ha="center", color=style.PRIMAL)
    for start, end, text in (
        (0, 5, "then these six: two slots, two runs left"),
        (6, 9, "first these four:\none slot, three runs"),
    ):
        ax.plot((start - 0.2, end + 0.2), (-0.6, -0.6), color=style.INK, lw=1)
        ax.text((start + end) / 2, -0.85, text, ha="center", va="top")
    ax.set(xlim=(-0.8, 10.5), ylim=(-1.9, 1.2))


def runs_of_steps(runs: Sequence[int], longest: Sequence[int]) -> None:
    """Chapter 13: how often each step is run, and row by row what the others spare."""
    ax = style.blank(None, 8, 2)
    for step, count in enumerate(runs):
        for row in range(len(longest)):
            fill = style.PRIMAL if row < count else None
            draw_frame(ax, step + 0.06, row + 0.06, 0.88, 0.88, fill)
    for row, spared in enumerate(longest):
        text = f"spared here: {spared}, which is L(2, {row})"
        ax.text(len(runs) + 0.4, row + 0.5, text, va="center")
    ax.set(xlim=(-2.5, len(runs) + 7), ylim=(-0.2, len(longest) + 0.2), aspect="equal")


def schedules(
    reverse_steps: Callable[..., None], steps: int, runs: Mapping[int, int]
) -> None:
    """Chapter 13: how a loop is reversed, for each number of slots; time goes down.

    Args:
      runs: for each number of slots how many steps are run again, for the title.
    """
    _, axes = style.figure(8, 3.4, ncols=len(runs), sharey=True)
    for axis, (slots, again) in zip(axes, runs.items(), strict=True):
        draw_schedule(axis, reverse_steps, steps, slots)
        axis.set(xlabel="step", title=f"slots: {slots}, run again: {again}")
    axes[0].invert_yaxis()
    axes[0].set_ylabel("time")


def draw_schedule(
    axis: Any, reverse_steps: Callable[..., None], steps: int, slots: int
) -> None:
    """One of the `schedules`."""
    time = 0

    def advance(step: int, n: int) -> int:
        nonlocal time
        axis.plot([step, step + n], [time, time + n], color=style.PRIMAL, lw=1)
        time += n
        return step + n

    def back(step: int) -> None:
        nonlocal time
        axis.plot(step, time, ".", color=style.TANGENT)
        time += 1

    reverse_steps(advance, back, 0, steps, slots)


def index_maps(maps: Mapping[str, tuple[Callable[..., Any], tuple[int, int]]]) -> None:
    """Chapters 15, 18: which element of a 3 x 4 array each index of a result asks for.

    Args:
      maps: {title: (from an index of the result to one of the array, the shape)}.
    """
    import numpy as np

    source = np.arange(12).reshape(3, 4)
    _, axes = style.figure(10, 2, ncols=len(maps))
    for axis, (title, (index_map, shape)) in zip(axes, maps.items(), strict=True):
        asked = np.array([source[index_map(*i)] for i in np.ndindex(shape)])
        asked = asked.reshape(shape)
        axis.imshow(asked, vmin=0, vmax=20, cmap="viridis")
        for (i, j), element in np.ndenumerate(asked):
            look = {"ha": "center", "va": "center", "color": "white", "fontsize": 9}
            axis.text(j, i, element, **look)
        axis.set(xlim=(-0.6, 5.6), ylim=(3.6, -0.6))
        axis.set_title(title, fontsize=9, loc="left")
        axis.axis("off")


def nest_of_loops() -> None:
    """Chapter 16: boxes within boxes, and in each the values computed there."""
    ax = style.blank(None, 8, 3)
    for k, (title, values) in enumerate(
        (
            ("once", ["tanh(in2[])"]),
            ("for i0: 3 times", ["exp(in1[i0])"]),
            ("for i1: 12 times", ["in0[i0, i1]", "two products, a square", "a sum"]),
        )
    ):
        left, low = 0.3 + 3.1 * k, 0.3 + 0.25 * k
        draw_frame(ax, left, low, 10.2 - 3.3 * k, 3.2 - 0.55 * k)
        ax.text(left + 0.15, 3.1 - 0.3 * k, title, weight="bold")
        for line, value in enumerate(values):
            ax.text(left + 0.15, 2.65 - 0.3 * k - 0.4 * line, value)
    ax.set(xlim=(0, 10.8), ylim=(0, 3.8))


def one_walker() -> None:
    """Chapter 16: one walk over statements, and an emitter for each language."""
    ax = style.blank(None, 8, 2.4)
    statements = style.box(ax, 0, 0, "placed\nstatements", style.PRIMAL)
    walker = style.box(ax, 2, 0, "Walker", style.COMPILED)
    style.arrow(ax, statements, walker)
    for y, emitter, runs in (
        (0.6, "PythonEmitter", "Python runs it,\nor numba compiles it"),
        (-0.6, "an emitter for LLVM\n(chapter 23)", "LLVM compiles it"),
    ):
        language = style.box(ax, 4.4, y, emitter, style.COMPILED)
        machine = style.box(ax, 7.4, y, runs)
        style.arrow(ax, walker, language)
        style.arrow(ax, language, machine)
    ax.set(xlim=(-0.8, 8.8), ylim=(-1.2, 1.2))


def dependences(sources: Mapping[str, Callable[[int], Sequence[int]]]) -> None:
    """Chapter 17: which step of one loop stores what a step of another one loads.

    Args:
      sources: {title: from a step of the second loop to steps of the first one}.
    """
    _, axes = style.figure(9, 1.9, ncols=len(sources))
    for axis, (title, needs) in zip(axes, sources.items(), strict=True):
        own = all([*needs(i)] == [i] for i in range(6))
        color = style.COLORS[0] if own else style.COLORS[1]
        for i in range(6):
            axis.plot([i, i], [1, 0], "o", color=style.INK)
            for source in needs(i):
                style.arrow(axis, (source, 0.93), (i, 0.09), color, head="->")
        axis.set(title=title, xlim=(-0.7, 5.7), ylim=(-0.35, 1.35))
        axis.axis("off")


def lines_of_a_matrix() -> None:
    """A transpose on a CPU: cache lines that a column and a block of a matrix touch."""
    _, axes = style.figure(8, 3.2, ncols=2)
    pale = style.faded(style.COMPILED)
    for axis, title, rows, first, width in (
        (axes[0], "a column: 64 cache lines, 64 numbers", range(64), 21, 1),
        (axes[1], "a block: 16 cache lines, 256 numbers", range(32, 48), 16, 16),
    ):
        draw_frame(axis, 0, 0, 64, 64)
        for row in rows:
            draw_frame(axis, 16, 63 - row, 16, 1, fill=pale)
            draw_frame(axis, first, 63 - row, width, 1, fill=style.COMPILED)
        axis.set(xlim=(-1, 65), ylim=(-1, 65), aspect="equal", title=title)
        axis.axis("off")


def panel() -> None:
    """A transpose on a CPU: from an array by way of a panel to its transpose."""
    ax = style.blank(None, 8, 2.6)
    pale, dark = style.faded(style.COMPILED), style.COMPILED
    for left, low, height, name in (
        (0.2, 0.5, 4, "x"), (6.4, 2.5, 1, "panel"), (11.6, 0.5, 4, "y"),
    ):  # fmt: skip
        ax.text(left, 4.9, name, weight="bold")
        draw_frame(ax, left, low, 4, height)
    for left, low, width, height, color in (
        (1.2, 0.5, 1, 4, pale), (1.2, 2.5, 1, 1, dark), (6.4, 2.5, 4, 1, pale),
        (7.4, 2.5, 1, 1, dark), (11.6, 2.5, 4, 1, pale),
    ):  # fmt: skip
        draw_frame(ax, left, low, width, height, fill=color)
    for left, label in (4.35, "blocks,\nturned"), (10.55, "whole\nrows"):
        style.arrow(ax, (left, 2.2), (left + 1, 2.2))
        ax.text(left + 0.5, 2.9, label, ha="center", size=9)
    ax.set(xlim=(0, 16), ylim=(0, 5.2), aspect="equal")


def lifetimes(axis: Any, lives: Mapping[str, tuple[int, int]]) -> None:
    """Chapter 19: a bar for each array, from its first step to its last one."""
    for row, (name, (first, last)) in enumerate(lives.items()):
        color = style.COLORS[row % 6]
        axis.barh(row, last - first + 1, left=first, color=color)
        axis.text(first + 0.1, row, name, va="center", size=9, color="white")
    axis.set_xlabel("step")
    style.count(axis, "x")
    axis.set_yticks([])
    axis.invert_yaxis()


def draw_arena(
    axis: Any,
    offsets: Sequence[float],
    lives: Sequence[tuple[int, int]],
    sizes: Sequence[float],
) -> None:
    """Chapter 19: each array a box: its lifetime to the right, its bytes upwards."""
    for k, ((first, last), size) in enumerate(zip(lives, sizes, strict=True)):
        color = style.COLORS[k % 6]
        look = {"align": "edge", "color": color, "edgecolor": color}
        axis.bar(first, size, last - first + 1, offsets[k], **look)
    axis.set_xlabel("step")
    style.count(axis, "x")


def arenas(plans: Mapping[str, Any], lives: Any, sizes: Any) -> None:
    """Chapter 19: {what it is: offsets} of the same arrays, side by side."""
    _, axes = style.figure(7.5, 2.6, ncols=len(plans), sharey=True)
    for axis, (title, offsets) in zip(axes, plans.items(), strict=True):
        draw_arena(axis, offsets, lives, sizes)
        axis.set_title(title)
    axes[0].set_ylabel("byte")


def plan(axis: Any, slots: Any, unit: float = 1) -> None:
    """Chapter 19: where the arrays of a program lie, by the slots of its plan."""
    lives = [(s.first, s.last) for s in slots]
    offsets = [s.offset / unit for s in slots]
    draw_arena(axis, offsets, lives, [s.nbytes / unit for s in slots])


def two_slices(touched: Any) -> None:
    """Chapter 20: the elements of a matrix that slice 1, slice 2 or both touch."""
    import numpy as np

    colors = style.INK, style.PRIMAL, style.TANGENT, style.RESIDUAL
    _, axis = style.figure(5, 3.2)

    def dot(x: float, y: float, which: int, size: int, marker: str = "o") -> None:
        alpha = 0.75 if which else 0.12
        axis.scatter(x, y, size, colors[which], marker=marker, alpha=alpha)

    for (i, j), which in np.ndenumerate(touched):
        dot(j, i, which, 330, "s")
    for i, row in enumerate(touched.tolist()):
        dot(8.7, i, functools.reduce(operator.or_, row), 90)
    for j, column in enumerate(touched.T.tolist()):
        dot(j, -1.7, functools.reduce(operator.or_, column), 90)
    axis.set(xlim=(-0.7, 9.2), ylim=(5.7, -2.3), xticks=range(8), yticks=range(6))
    axis.set_title("x[::2, 3:] blue, x[1:4, :5] orange, both green")


def one_or_two_buffers() -> None:
    """Chapter 21: a step that may write over what it reads, and one that may not."""
    _, axes = style.figure(8, 2.2, ncols=2)
    for axis, shift, title in (
        (axes[0], 0, "decay: old and new in one buffer"),
        (axes[1], 1, "drift: two buffers, and a swap"),
    ):
        style.blank(axis, 5, 2)
        old = [style.box(axis, i, 0, c, style.PRIMAL) for i, c in enumerate("abcd")]
        for i in range(4):
            source = (i + shift) % 4
            new = style.box(axis, i, -1.3, "abcd"[source] + "'", style.TANGENT)
            style.arrow(axis, old[source], new)
        axis.text(-1.2, 0, "old", ha="right", va="center")
        axis.text(-1.2, -1.3, "new", ha="right", va="center")
        axis.set(xlim=(-1.9, 4.9), ylim=(-1.9, 0.8), title=title)
    style.arrow(axes[1], (4.2, -1.2), (4.2, 0), head="<->")
    axes[1].text(4.3, -0.6, "swap", va="center")


def held_carries(turns: Iterable[tuple[int, Sequence[Any]]], steps: int) -> None:
    """Tour reversed_loops: the carries that are held, from when to when, by rows."""
    import matplotlib.pyplot as plt

    _, axis = style.figure(8, 2.2)
    time, held = 0, [(0, 0)]
    for k, rows in turns:
        time += k
        if len(rows) > len(held):
            held.append((time, rows[-1][0]))
            continue
        since, step = held.pop()
        color, row = plt.get_cmap("viridis")(step / steps), len(rows)
        axis.plot([since, time], [row] * 2, color=color, lw=7, solid_capstyle="butt")
    axis.set(xlabel="time: steps forward and back", ylabel="row", yticks=range(5))


def tape_of_unions(tape: Any) -> None:
    """Chapter 22: the items of a Tape of two cases, and the tables of both cases."""
    rows = slice(tape.first, tape.first + tape.length)
    positions, tables = tape.columns[:2], tape.columns[2:]
    used = [int(column[rows].max()) + 1 for column in positions]
    case = [int(second > 0) for second in positions[1][rows]]
    colors = style.TANGENT, style.PRIMAL
    shades = list(map(style.faded, colors))
    ax = style.blank(None, 8, 3.6)
    first = [column[: used[0]] for column in tables[:2]]
    columns = [range(tape.length), *(column[rows] for column in positions)]
    second = [column[: used[1]] for column in tables[2:]]
    taken, names = [shades[c] for c in case], ["step", "in case 0", "in case 1"]
    left, right = [shades[0]] * used[0], [shades[1]] * used[1]
    draw_table(ax, 0, "case 0: c ≥ 1", ["0.5/√c", "√c"], first, left)
    draw_table(ax, 4, "items", names, columns, taken)
    draw_table(ax, 9, "case 1: c < 1", ["exp(c)"], second, right)
    ends = [(3.95, 2.05), (7.05, 8.95)]
    for i, k in enumerate(case):
        row = positions[k][tape.first + i]
        ax.plot(ends[k], [-i - 0.4, -row - 0.4], color=colors[k], lw=1)
    ax.set(xlim=(-0.2, 10.4), ylim=(-tape.length, 1.7))


def draw_table(
    axis: Any,
    x: float,
    title: str,
    names: Sequence[str],
    columns: Sequence[Any],
    shades: Sequence[Any],
) -> None:
    """Columns of numbers, a line an item, with the upper left corner at x."""
    axis.text(x + len(columns) / 2, 1.35, title, ha="center", va="center")
    for k, (name, column) in enumerate(zip(names, columns, strict=True)):
        axis.text(x + k + 0.5, 0.55, name, ha="center", va="center", size=9)
        for i, number in enumerate(column):
            draw_frame(axis, x + k, -i - 0.8, 1, 0.8, fill=shades[i])
            look = {"ha": "center", "va": "center", "size": 9, "color": style.DARK}
            axis.text(x + k + 0.5, -i - 0.4, f"{number:.3g}", **look)


def bits_of_floats(numbers: Mapping[str, Any]) -> None:
    """Chapter 24: the 32 bits of numbers of float32, in the three parts of a float.

    Args:
      numbers: {what stands on the left: the number}.
    """
    import numpy as np

    axis = style.blank(None, 9, 0.45 * len(numbers) + 0.5)
    parts = ("sign", 0, 1, style.INK), ("exponent", 1, 9, style.TANGENT)
    for name, first, last, color in (*parts, ("fraction", 9, 32, style.PRIMAL)):
        axis.text((first + last - 1) / 2, 0.9, name, ha="center", va="center")
        for row, number in enumerate(numbers.values()):
            bits = f"{np.float32(number).view(np.uint32):032b}"
            for k in range(first, last):
                square = {"fc": style.faded(color), "ec": color}
                axis.broken_barh([(k - 0.5, 1)], (-row - 0.4, 0.8), **square)
                look = {"ha": "center", "va": "center", "color": style.DARK}
                axis.text(k, -row, bits[k], **look)
    for row, name in enumerate(numbers):
        axis.text(-1, -row, name, ha="right", va="center")
    axis.set(xlim=(-8, 32), ylim=(0.5 - len(numbers), 1.3))


def parts_of_a_kernel(speeds: Sequence[float]) -> None:
    """Chapter 24: threads of some speeds take 2 parts of a kernel, or 8 of them."""
    _, axes = style.figure(8, 1.5, ncols=2, sharex=True, sharey=True)
    axes[0].invert_yaxis()
    for axis, parts in zip(axes, (2, 8), strict=True):
        free = [0.0] * len(speeds)
        for _ in range(parts):
            thread = free.index(min(free))  # whoever is free first takes the next part
            time = 1 / parts / speeds[thread]
            axis.barh(
                thread, time, left=free[thread], color=style.COMPILED, edgecolor="white"
            )
            free[thread] += time
        names = ["free" if speed == 1 else "half busy" for speed in speeds]
        axis.set(title=f"{parts} parts", xlabel="time")
        axis.set_yticks(range(len(speeds)), names)


def two_ways_through_a_table() -> None:
    """Tours column_totals and prices: the first steps down a table and along it."""
    _, axes = style.figure(8, 2.8, ncols=2, sharey=True)
    down, along = [(n % 12, n // 12) for n in range(24)], [(0, n) for n in range(24)]
    for axis, name, steps in (axes[0], "down", down), (axes[1], "along", along):
        for row, line in {(row, column // 16 * 16) for row, column in steps}:
            color = style.faded(style.TANGENT)
            axis.barh(row, 15.6, left=line, height=0.8, color=color)
        for row, column in steps:
            axis.plot(column + 0.5, row, "o", ms=4, color=style.PRIMAL)
        axis.set(title=name, xlim=(0, 48), ylim=(11.5, -0.5), xticks=(0, 16, 32, 48))
        axis.grid(axis="x")
        axis.set_xlabel("column")
    axes[0].set_ylabel("row")


TAKEN = "microseconds a call, on the machine that drew this"


def beside_kernels(rows: Mapping[str, Mapping[str, float]]) -> None:
    """Chapter 25: how long calls take and how long their kernels, in a panel each."""
    height = 1 + 0.3 * max(map(len, rows.values()))
    _, axes = style.figure(8, height, ncols=len(rows))
    for axis, (title, taken) in zip(axes, rows.items(), strict=True):
        bars = axis.barh(list(taken), list(taken.values()), 0.7, color=style.PRIMAL)
        figures = [f"{float(f'{time:.2g}'):,g}" for time in taken.values()]
        axis.bar_label(bars, figures, padding=4)
        axis.margins(x=0.25)
        axis.locator_params(axis="x", nbins=4)
        axis.invert_yaxis()
        axis.set(title=title, xlabel="microseconds, on the machine that drew this")


def pieces_of_calls(
    rows: Mapping[str, Mapping[str, float]], unit: str = TAKEN
) -> None:
    """Chapter 25, tour prices: the pieces of each price or call, in one bar."""
    first = next(iter(rows.values()))
    colors = dict(zip(first, (*style.COLORS[:5], style.INK), strict=False))
    fig, axis = style.figure(8, 0.4 * len(rows) + 1.3)
    for row, times in enumerate(rows.values()):
        left = 0.0
        for name, time in times.items():
            color, label = colors.get(name, style.COMPILED), name if row == 0 else None
            axis.barh(row, time, 0.7, left, color=color, alpha=0.6, label=label)
            left += time
        axis.text(left, row, f" {left:.2g}", va="center")
    axis.set_yticks(range(len(rows)), rows)
    axis.invert_yaxis()
    axis.margins(x=0.08)
    axis.set_xlabel(unit)
    fig.legend(loc="outside upper center", ncols=7, handlelength=1, columnspacing=1)


def way_of_a_first_call(
    ours: Mapping[str, float], by_numba: float, passes: Mapping[str, float]
) -> None:
    """Chapter 23: milliseconds of the stations of a first call, and of numba's."""
    _, axis = style.figure(7, 3)
    finds_types, makes_code = passes["find types"], passes["make code"]
    others = {
        "all the rest": 1e3 * (by_numba - finds_types - makes_code),
        "numba: read Python, find types": 1e3 * finds_types,
        "numba: write IR, LLVM": 1e3 * makes_code,
    }
    row = 0
    for stations in (ours, others):
        left = 0.0
        for i, ms in enumerate(stations.values()):
            own = style.PRIMAL if i < 4 else style.COMPILED
            color = own if stations is ours else style.WRONG
            bars = axis.barh(row, ms, left=left, color=color)
            axis.bar_label(bars, [f"{ms:.0f}"], padding=4)
            left, row = left + ms, row - 1
    axis.margins(x=0.1)
    axis.set_yticks(range(0, row, -1), [*ours, *others])
    axis.set_xlabel("milliseconds (blue: minijit, green: LLVM, red: by way of numba)")


def prices_and_times(found: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
    """Chapter 24: of each way to run a kernel its price and its time, side by side."""
    fig, axes = style.figure(8, 2.4, ncols=len(found), sharey=True)
    for axis, (title, ways) in zip(axes, found.items(), strict=True):
        for which, label in enumerate(("price", "measured")):
            rows = [y + 0.4 * which - 0.2 for y in range(len(ways))]
            lengths = [pair[which] for pair in ways.values()]
            fill = style.COMPILED if which else "none"
            axis.barh(rows, lengths, 0.35, color=fill, ec=style.COMPILED, label=label)
        axis.set(title=title, xlabel="microseconds", xscale="log", xlim=(30, 5000))
        axis.set_yticks(range(len(ways)), ways)
    axes[0].invert_yaxis()
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)


def prices_of_tiles(
    sizes: Sequence[int], costs: Sequence[float], without: Sequence[float],
    tried: Sequence[int], milliseconds: Sequence[float],
) -> None:  # fmt: skip
    """Tour prices: a transpose by the size of its tiles, its prices and its time."""
    _, axis = style.figure(6.5, 3)
    ink, label = style.INK, "price for the book's machine"
    axis.semilogx(sizes, costs, color=ink, linestyle=":", label=label)
    label = "the same without pages"
    axis.semilogx(sizes, without, color=ink, linestyle="--", lw=1, label=label)
    color = style.COMPILED
    axis.semilogx(tried, milliseconds, "o-", ms=4, color=color, label="measured")
    marks = 1, 4, 16, 64, 256, 2880
    axis.set_xticks(marks, list(map(str, marks)))
    axis.set(xlabel="numbers along a side of a tile", ylabel="milliseconds")
    axis.set_ylim(0)
    axis.legend()


def new_and_same_memory(times: Mapping[str, Mapping[int, float]]) -> None:
    """Chapter 25: nanoseconds a number to fill arrays of so many numbers."""
    _, axis = style.figure(6, 2.6)
    colors = style.INK, style.COMPILED
    for (label, taken), color in zip(times.items(), colors, strict=True):
        megabytes = [4 * size / 2**20 for size in taken]
        axis.semilogx(megabytes, list(taken.values()), color=color, label=label)
    axis.set(xlabel="megabytes in the array", ylabel="nanoseconds a number")
    axis.set_ylim(0)
    axis.legend()


def who_refers() -> None:
    """Chapter 25: who refers to the arrays of a pool."""
    ax = style.blank(None, 7, 2)
    pool = style.box(ax, 1, 1.5, "pool", style.COMPILED)
    kept = style.box(ax, 4, 2.4, "array A", style.PRIMAL)
    idle = style.box(ax, 4, 0.6, "array B", style.PRIMAL)
    seen = style.box(ax, 6.7, 2.4, "view")
    part = style.box(ax, 9.2, 2.4, "memoryview")
    style.arrow(ax, pool, kept, style.COMPILED)
    style.arrow(ax, pool, idle, style.COMPILED)
    style.arrow(ax, seen, kept)
    style.arrow(ax, part, seen)
    ax.text(4.9, 0.6, "only the pool refers to it: it can be used again", va="center")
    ax.set(xlim=(0, 10), ylim=(0, 3))


def exchanges() -> None:
    """Chapter 26: how 32 threads of a warp come to one sum, in five exchanges."""
    _, axis = style.figure(8, 2.6)
    for step, distance in enumerate((16, 8, 4, 2, 1)):
        for n in range(32):
            needed = n & ~(distance - 1 | distance) == 0
            color = style.COLORS[0] if needed else style.INK
            for end in n, n ^ distance:
                axis.plot([n, end], [step, step + 1], color=color, lw=0.8, alpha=0.6)
    axis.invert_yaxis()
    axis.set(xlabel="thread of a warp", ylabel="exchange")


def way_to_the_grid() -> None:
    """Chapter 26: the questions that are asked about a nest, and their functions."""
    axis = style.blank(None, 10, 1.9)
    last = style.box(axis, 0, 0, "a nest\nof loops", style.PRIMAL)
    for k, text in enumerate(
        (
            "peeled: which\nmay be bound?",
            "known_outside:\nwhich should be?",
            "best_last: which\ngoes along memory?",
            "goes_by_block:\nthread or block?",
        )
    ):
        here = style.box(axis, 2 + 2.3 * k, 0, text)
        style.arrow(axis, last, here)
        last = here
    for y, text in (0.75, "a Part by thread"), (-0.75, "a Part by block,\ncollapsed"):
        style.arrow(axis, last, style.box(axis, 11.2, y, text, style.COMPILED))
    axis.set(xlim=(-0.6, 12.3), ylim=(-1.3, 1.3))


def a_tile() -> None:
    """A tour: a tile on its way from an array to its transpose."""
    _, axes = style.figure(9, 2.8, ncols=3)
    filled, used = style.PRIMAL, style.TANGENT
    for axis, title, (rows, columns), (top, left), ways in (
        (axes[0], "x, 64 x 96: read along rows", (64, 96), (0, 64), [(filled, 0)]),
        (axes[1], "the tile, rows of 33", (32, 33), (0, 0), [(filled, 0), (used, 1)]),
        (axes[2], "result, 96 x 64: stored along rows", (96, 64), (64, 0), [(used, 0)]),
    ):
        axis.broken_barh([(0, columns)], (0, rows), fc="none", ec=style.INK)
        axis.broken_barh([(left, 32)], (top, 32), fc=style.faded(style.RESIDUAL))
        for color, down in ways:
            for k in 4, 12, 20, 28:
                start, end = (left, top + k), (left + 32, top + k)
                if down:
                    start, end = (left + k, top), (left + k, top + 32)
                look = {"arrowstyle": "->", "color": color, "lw": 1.5}
                axis.annotate("", end, start, arrowprops=look)
        axis.set(xlim=(-2, columns + 2), ylim=(rows + 2, -2), aspect="equal")
        axis.set_title(title, fontsize=10)
        axis.axis("off")


def requests(tell: float, work: float, kernels: int) -> None:
    """Chapter 27: kernels that a device is told one by one, and all at once."""
    _, axis = style.figure(8, 2.4)
    ways = "one by one", [tell * (i + 1) for i in range(kernels)]
    for y, (name, told) in (2.4, ways), (0, ("all at once", [tell] * kernels)):
        spans = [(at - tell, tell) for at in sorted(set(told))]
        axis.broken_barh(spans, (y + 0.8, 0.6), fc=style.INK, ec="white")
        axis.text(-1, y + 1.1, f"Python, {name}", ha="right", va="center")
        free = 0.0
        for at in told:
            start = max(at, free)
            axis.broken_barh([(start, work)], (y, 0.6), fc=style.COMPILED, ec="white")
            free = start + work
        axis.text(-1, y + 0.3, "device", ha="right", va="center")
    axis.set(yticks=[], xlabel="microseconds", xlim=(-1, 60))
    axis.spines["left"].set_visible(False)


def graph_of_nodes(steps: Sequence[Any], waits: Sequence[Sequence[int]]) -> None:
    """Chapter 27: nodes below those that they wait for; a color for each stream."""
    depth: list[int] = []
    stream: list[int] = []
    taken: set[int] = set()
    for before in waits:
        depth.append(1 + max((depth[j] for j in before), default=-1))
        free = [j for j in before if j not in taken]
        taken.update(free[-1:])
        stream.append(stream[free[-1]] if free else len(set(stream)))
    levels = range(max(depth) + 1)
    rows = [[i for i, d in enumerate(depth) if d == level] for level in levels]
    wide = max(map(len, rows))
    ax = style.blank(None, max(5, 2.6 * wide), 0.75 * len(rows))
    boxes = {}
    for level, row in enumerate(rows):
        for k, i in enumerate(row):
            first, written = str(steps[i]).split()[0], steps[i].writes[-1].memory.name
            text = f"{i}: {first} ... makes {written}"
            color = style.COLORS[stream[i] % len(style.COLORS)]
            boxes[i] = style.box(ax, k - (len(row) - 1) / 2, -level, text, color)
    for i, before in enumerate(waits):
        for j in before:
            style.arrow(ax, boxes[j], boxes[i])
    ax.set(xlim=(-wide / 2, wide / 2), ylim=(0.5 - len(rows), 0.5))


def memory_of_nodes(steps: Sequence[Any], memories: Sequence[Any], total: int) -> None:
    """Chapter 27: where temporaries lie, and while which nodes they are needed."""
    _, axis = style.figure(6, 2.8)
    look = {"fc": style.faded(style.PRIMAL), "ec": style.PRIMAL}
    for memory in memories:
        touched = ([r.memory for r in (*n.reads, *n.writes)] for n in steps)
        uses = [i for i, found in enumerate(touched) if memory in found]
        across = uses[0] - 0.4, uses[-1] - uses[0] + 0.8
        up = memory.offset / 1024, memory.nbytes / 1024
        axis.broken_barh([across], up, **look)
        if up[1] > 3:
            middle = across[0] + across[1] / 2, up[0] + up[1] / 2
            axis.text(*middle, memory.name, ha="center", va="center")
    axis.set(xlim=(-0.6, len(steps) - 0.4), ylim=(0, total / 1024))
    axis.set(xlabel="node", ylabel="kilobytes")
    style.count(axis, "x")


def two_places() -> None:
    """Chapter 27: where five calls of a training step read and write the weights."""
    _, axis = style.figure(7, 1.8)
    for call in range(5):
        reads, writes = call % 2, (call + 1) % 2
        color = style.COLORS[reads]
        style.arrow(axis, (call + 0.1, reads), (call + 0.9, writes), color)
        axis.text(call + 0.5, 1.25, f"graph {reads + 1}", ha="center", color=color)
    for call in range(6):
        axis.plot(call, call % 2, "o", color=style.INK)
    axis.set(yticks=[0, 1], yticklabels=["place 1", "place 2"], ylim=(-0.3, 1.6))
    calls = [f"call {i + 1}" for i in range(5)]
    axis.set(xticks=[i + 0.5 for i in range(5)], xticklabels=calls)


def who_holds_what() -> None:
    """Chapter 27: a program on a device, its graphs and their memories."""
    ax = style.blank(None, 7.5, 2.6)
    owner = style.box(ax, 1.2, 2, "DeviceProgram", style.COMPILED)
    arena = style.box(ax, 4, 2, "arena, constants")
    for y, name in (3.4, "Setting 1: a graph"), (0.6, "Setting 2: a graph"):
        setting = style.box(ax, 4, y, name, style.PRIMAL)
        memory = style.box(ax, 7, y, "memories of results")
        style.arrow(ax, owner, setting, style.COMPILED)
        style.arrow(ax, setting, memory, style.PRIMAL)
        style.arrow(ax, setting, arena, style.PRIMAL)
    style.arrow(ax, owner, arena, style.COMPILED)
    user = style.box(ax, 9.3, 2, "a user's\narray", style.TANGENT)
    style.arrow(ax, user, memory, style.TANGENT)
    ax.set(xlim=(0, 10), ylim=(0, 4))


def draw_frame(
    axis: Any, x: float, y: float, width: float, height: float, fill: Any = None
) -> None:
    """A rectangle: its edge alone, or filled."""
    from matplotlib.patches import Rectangle

    look = {"fc": "none", "ec": style.INK} if fill is None else {"color": fill}
    axis.add_patch(Rectangle((x, y), width, height, **look))
