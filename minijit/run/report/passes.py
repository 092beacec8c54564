"""The compiler pass by pass: the text after each, and what it has changed.

    steps = minijit.steps(f)(x)
    steps                          # in a notebook one opens at a time: click, or arrows
    print(steps)                   # a line for each: how many lines came and went
    print(steps["fused"])          # one of them: "+" and "-" before what changed
    steps["fused"].text            # the program after it
    steps.save("steps.html")       # the same as in a notebook, in a file of its own

The passes are those of `compile/pipeline.py`, in its order, up to the Python text of
the kernels; `minijit.stages(f, x)["llvm"]` has LLVM's.  Nothing is run.
"""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...compile import pipeline
from ...compile.loops.statements import Program, Region
from ...compile.loops.text import program_text
from ...compile.lower.walk import lower
from ...compile.report.text import STYLE
from ...compile.schedule.place import place
from ...compile.schedule.placing_rules import arrange
from ...compile.simplify.folding import simplify
from ...trace.api import calls
from ...trace.base.config import config
from ..loading import rewritten
from .explaining import jitted
from .stepping import Stage, Stages, listed

# Names of loops and arrays are numbered anew after each pass, and a jaxpr's lettered.
NAMES = re.compile(r"\b(?:([a-z]+)\d+|[a-z]{1,2})\b")


@dataclass(frozen=True, repr=False)
class Pass(Stage):
    """One pass: its name, what it does, the text after it.

    Attributes:
      lines: pairs of "+", "-" or " " and a line: what is new, what is gone, what stays.
      changed: whether anything is new or gone, or the text is the first of its form.
    """

    lines: tuple = ()
    changed: bool = True

    def __str__(self):
        lines = (f"{sign} {line}".rstrip() for sign, line in self.lines)
        return "\n".join([f"== {self.name}: {self.about}", *lines])

    __repr__ = __str__

    def _repr_html_(self):
        kinds = {"+": "<ins>{}</ins>", "-": "<del>{}</del>", " ": "{}"}
        lines = (kinds[sign].format(html.escape(line)) for sign, line in self.lines)
        about = html.escape(f"{self.name}: {self.about}")
        return "<p>{}</p><pre>{}</pre>".format(about, "\n".join(lines))


class Steps(Stages):
    """The `Pass`es of a function, in order; `steps["fused"]` is one of them."""

    def __str__(self):
        rows, one = [], self[0].name
        for step in self:
            new, gone = (sum(sign == s for s, _ in step.lines) for sign in "+-")
            did = f"+{new:,} -{gone:,}" if step.changed else "nothing to do"
            is_first = step.changed and not new + gone  # of another form than before
            one = step.name if new + gone else one
            whole = f"{len(step.lines):,} lines"
            rows.append((step.name, whole if is_first else did, step.about))
        return listed(rows, f'steps["{one}"]')

    __repr__ = __str__

    def _repr_html_(self):
        name = f"steps-{abs(hash(''.join(map(str, self)))):x}"
        parts = [
            f"<label><input type=radio name={name}{' checked' * (n == 0)}>"
            f"{html.escape(step.name)}</label><div>{step._repr_html_()}</div>"
            if step.changed
            else f"<span title='nothing to do'>{html.escape(step.name)}</span>"
            for n, step in enumerate(self)
        ]
        shown = f"<div class='minijit-report minijit-steps'>{''.join(parts)}</div>"
        return f"{STYLE}{STEPS_STYLE}{shown}"

    def save(self, path):
        """Write them as one page of HTML, which needs nothing else."""
        Path(path).write_text(f"{HEAD}{self._repr_html_()}</html>", encoding="utf-8")


HEAD = """<!DOCTYPE html><html lang=en><meta charset=utf-8>
<title>minijit: pass by pass</title><style>:root {color-scheme: light dark}</style>
"""
# One pass is seen at a time: the one that is checked.  Arrows go from one to the next,
# as between all buttons of one group.
STEPS_STYLE = """<style>
.minijit-steps {display: grid; grid-template-columns: 13em minmax(0, 1fr);
  grid-auto-rows: min-content; column-gap: 1em}
.minijit-steps label, .minijit-steps span {grid-column: 1; padding: 1px 6px}
.minijit-steps label {cursor: pointer}
.minijit-steps label:has(:checked) {font-weight: bold}
.minijit-steps span {padding-left: 26px; color: #888}
.minijit-steps > div {grid-column: 2; grid-row: 1 / span 60; display: none}
.minijit-steps label:has(:checked) + div {display: block}
.minijit-steps p {margin: 0 0 4px}
.minijit-steps pre {overflow-x: auto}
.minijit-steps ins {text-decoration: none; background: #2ea04340}
.minijit-steps del {background: #d1495b30; opacity: .7}
</style>"""


def steps(fun: Callable[..., Any]) -> Callable[..., Steps]:
    """A function of `fun`'s arguments: what each pass of the compiler makes of it.

    Args:
      fun: any function of arrays, jitted or not, transformed or not.

    Returns:
      A function that takes arrays, or `ShapeDtypeStruct`s, and returns `Steps`.
    """

    def run(*args, **kwargs):
        lowered = jitted(fun).lower(*args, **kwargs)
        report = lowered.compile().explain()
        found = Found()
        found.add("trace", "the equations that were recorded", lowered.jaxpr, True)
        simple = simplify(lowered.jaxpr)
        found.add("simplify", "what need not be computed is gone", simple)
        with watched(found.program_pass):
            program = rewritten(lower(simple, lowered.fun_name))
        with config.override("fusion", program.settings):
            found.arrange(program)
        text = "\n\n".join(step.text for step in report.steps if step.text)
        found.add("emit", "the kernels, as Python", text, True)
        return Steps(found.passes)

    return run


@contextmanager
def watched(function):
    """Tell a function of each pass that runs meanwhile in this thread."""
    token = pipeline.watching.set(function)
    try:
        yield
    finally:
        pipeline.watching.reset(token)


class Found:
    """The passes so far.

    Attributes:
      texts: of the program, and of the functions that it calls and that are lowered
        meanwhile, the text after the last pass; the innermost one's is the last.
    """

    def __init__(self):
        self.passes, self.texts = [], [""]

    def add(self, name, about, form, new=False):
        """A pass, and the form after it; `new` if it is another form than before."""
        text = text_of(form)
        lines = tuple(different(text if new else self.texts[-1], text))
        changed = new or any(sign != " " for sign, _ in lines)
        self.texts[-1] = text
        self.passes.append(Pass(name, about, text, lines, changed))

    def program_pass(self, stage, change, form):
        """What is watched: a pass over a jaxpr or a program.

        Loops are arranged meanwhile to learn their price, which is no pass.
        """
        if stage is pipeline.arrangements:
            return
        if change is None and stage in (pipeline.expansions, pipeline.rewrites):
            self.texts.append(text_of(form))
        whose = "" if len(self.texts) < 3 else f" ({called(form)})"
        if change is not None:
            self.add(stage.name_of(change) + whose, first_line(change), form)
        elif stage is pipeline.program_passes:
            about = "kernels and calls, in the loop language"
            self.add(f"lower{whose}", about, form, new=True)
        if change is stage.passes[-1] and stage is not pipeline.expansions:
            text = self.texts.pop()
            self.texts = self.texts if len(self.texts) > 1 else [text]

    def arrange(self, program):
        """The passes over the statements of each kernel, all kernels at once."""
        after: dict = {}  # {pass: {kernel: its statements after it}}
        kernels = [k for k in program.kernels if not isinstance(k, Region)]
        for kernel in kernels:
            tell = lambda _, change, body, kernel=kernel: after.setdefault(
                change, {}
            ).update({kernel: body})
            with watched(tell):
                arrange(kernel.body)
        after.pop(None, None)
        for change, bodies in after.items():
            new = [
                replace(step, body=bodies[step]) if step in bodies else step
                for step in program.body
            ]
            name = pipeline.arrangements.name_of(change)
            self.add(name, first_line(change), replace(program, body=tuple(new)))


def text_of(form):
    """A form as text: a program's kernels placed, but not yet in other loops."""
    if isinstance(form, Program):
        return program_text(form, lambda body: place(body, prepare=tuple))
    return str(form)


def called(form):
    """The name of a function, as a jaxpr or a program."""
    return form.name if isinstance(form, Program) else form.debug.name


def first_line(function):
    """The first sentence of what a function says of itself."""
    return (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def different(before, after):
    """Pairs of a sign and a line; what only has another name has not changed."""
    a, b = before.splitlines(), after.splitlines()
    plain = [[NAMES.sub(r"\1", line) for line in lines] for lines in (a, b)]
    for kind, i, j, k, n in difflib.SequenceMatcher(None, *plain, False).get_opcodes():
        if kind != "equal":
            yield from (("-", line) for line in a[i:j])
        yield from ((" " if kind == "equal" else "+", line) for line in b[k:n])


calls.explain_calls("minijit", globals(), ["steps"], results=["steps"])
