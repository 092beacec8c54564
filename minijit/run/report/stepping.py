"""A function step by step: from the user's text to the text that runs.

    steps = minijit.stages(f, x)
    steps                          # all of it; in JupyterLab each step opens
    steps["linearize"]             # one: its text
    [step.name for step in steps]  # trace, linearize, transpose, batch, simplify, ...

`linearize`, `transpose` and `batch` are what `grad` and `vmap` would make of the traced
program; what is compiled afterwards is the program itself.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compile.lower.walk import lower
from ...compile.report.text import STYLE
from ...compile.simplify.folding import simplify
from ...trace.api import calls
from ...trace.array import ShapedArray
from ...trace.dtypes import issubdtype
from ...transform.batching.vmap import Lanes, batch_jaxpr
from ...transform.derivatives.linearize import linearize_jaxpr
from ...transform.derivatives.transpose import transpose_jaxpr
from ..loading import load, rewritten
from .explaining import jitted

# How many lanes the step `batch` shows.
LANES = 2


@dataclass(frozen=True)
class Stage:
    """One step: its name, what it is in a sentence, and its text."""

    name: str
    about: str
    text: str

    def __str__(self):
        return self.text

    __repr__ = __str__

    def _repr_html_(self):
        return f"<pre>{html.escape(self.text)}</pre>"


class Stages(tuple):
    """The `Stage`s of a function, in order; `stages["lower"]` is one of them."""

    def __getitem__(self, key):
        if not isinstance(key, str):
            return super().__getitem__(key)
        for stage in self:
            if stage.name == key:
                return stage
        raise KeyError(f"no stage {key!r}: {', '.join(s.name for s in self)}")

    def __str__(self):
        rows = [(s.name, f"{s.text.count(chr(10)) + 1:,} lines", s.about) for s in self]
        return listed(rows, f'stages["{self[1].name}"]')

    __repr__ = __str__

    def _repr_html_(self):
        parts = (
            f"<details><summary><b>{stage.name}</b> {html.escape(stage.about)}"
            f"</summary><pre>{html.escape(stage.text)}</pre></details>"
            for stage in self
        )
        return f"{STYLE}<div class=minijit-report>{''.join(parts)}</div>"


def listed(rows, one):
    """Texts in three columns, and how to see one of what they are about."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{a:<{wide[0]}}  {b:>{wide[1]}}  {c}" for a, b, c in rows]
    return "\n".join([*lines, f"To see one: print({one})"])


def stages(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Stages:
    """What becomes of a function, step by step: `Stages`.

    Args:
      fun: a function of arrays, jitted or not; args, kwargs: as for a call, or shapes.
    """
    lowered = jitted(fun).lower(*args, **kwargs)
    closed, name = lowered.jaxpr, lowered.fun_name
    found = [Stage("trace", "the equations that were recorded", str(closed))]
    found += transformed(closed)
    simple = simplify(closed)
    found.append(Stage("simplify", "what need not be computed is gone", str(simple)))
    lowered_text = str(rewritten(lower(simple, name)))
    about = "kernels and calls, in the loop language"
    found.append(Stage("lower", about, lowered_text))
    compiled = lowered.compile()
    executable = compiled.executable
    if hasattr(executable, "program"):
        made = load(executable.program, executable.native)
        found.append(Stage("source", "the same as Python", made.source.text))
        for dialect, text in executable.texts.items():
            found.append(Stage(dialect, "what is compiled", text()))
    return Stages(found)


# ---- what transformations would make of it


def transformed(closed):
    """The stages in which its derivatives are, and many lanes."""
    results = len(closed.out_avals)
    tangents = tuple(
        isinstance(aval, ShapedArray) and issubdtype(aval.dtype, np.inexact)
        for aval in closed.in_avals
    )
    parts = linearize_jaxpr(closed, tangents, (False,) * results)
    text = f"{parts.forward}\n\nand of the tangents:\n{parts.linear}"
    yield Stage("linearize", "its value with residuals, and its derivative", text)
    inputs, every = len(parts.linear.in_avals), (True,) * len(parts.linear.out_avals)
    linear = tuple(i >= inputs - sum(tangents) for i in range(inputs))
    nothing = (False,) * inputs
    backward, _ = transpose_jaxpr(parts.linear, linear, every, nothing, nothing)
    about = "from cotangents of the results to those of the inputs"
    yield Stage("transpose", about, str(backward))
    axes, wanted = (0,) * len(closed.in_avals), ("any",) * results
    batched, _ = batch_jaxpr(closed, Lanes(LANES), axes, wanted)
    yield Stage("batch", f"all inputs with {LANES} lanes on a first axis", str(batched))


calls.explain_calls("minijit", globals(), ["stages"])
