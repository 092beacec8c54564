"""Solutions to chapter 20."""

import numpy as np

import minijit.numpy as jnp
from minijit import explain, jit
from minijit.compile.report.explain import report_forms


def layers(x, w):
    y = jnp.tanh(x @ w)
    z = y @ w.T
    return jnp.sin(y).sum(), z + 1.0


def report_of_layers():
    x, w = np.ones((60, 32), "float32"), np.ones((32, 48), "float32")
    return explain(jit(layers, backend="plain"), x, w)


def read_again(report):
    found = {}
    for array in report.arrays:
        uses = (use for step in report.steps for use in step.reads)
        reads = [use.nbytes for use in uses if use.buffer is array.buffer]
        if len(reads) > 1:
            found[array.name] = sum(reads) - max(reads)
    return found


def check_read_again(read_again):
    """Each use knows its `buffer` and `nbytes`; the largest read is the first one."""
    report = report_of_layers()
    found = read_again(report)
    times = {a.name: 0 for a in report.arrays}
    for step in report.steps:
        for use in step.reads:
            times[use.buffer.name] += 1
    assert set(found) == {name for name, n in times.items() if n > 1}
    assert found["w"] == 4 * 32 * 48


def mermaid(report):
    lines = ["graph TD"]
    for step in report.steps:
        for use in step.reads:
            lines.append(f"{use.buffer.name} -->|{use.nbytes} B| {step.name}")
        for use in step.writes:
            lines.append(f"{step.name} -->|{use.nbytes} B| {use.buffer.name}")
    return "\n".join(lines)


def check_mermaid(mermaid):
    """A line for each use: reads lead to the step, writes lead away from it."""
    report = report_of_layers()
    report_forms["mermaid"] = mermaid
    try:
        first, *arrows = report_forms["mermaid"](report).splitlines()
    finally:
        del report_forms["mermaid"]
    assert first.strip() == "graph TD"
    uses = [(s, u) for s in report.steps for u in (*s.reads, *s.writes)]
    assert len(arrows) == len(uses)
    first = report.steps[0]
    assert any(a.strip() == f"x -->|7680 B| {first.name}" for a in arrows)
    assert all(f"|{u.nbytes} B|" in "\n".join(arrows) for _, u in uses)
