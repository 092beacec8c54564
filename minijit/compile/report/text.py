"""Reports as text of at most 100 columns, as HTML, and as a graph for Graphviz."""

import html
import textwrap

from ..control.region_traffic import Growing
from ..decisions import names_of
from .explain import report_forms

WIDTH = 100


def size_text(nbytes):
    """12 B, 4.1 kB, 33.6 MB: three digits, as network cards and disks count."""
    return in_thousands(nbytes, "B")


def in_thousands(number, unit):
    for prefix, step in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= step * 0.9995:
            value = number / step
            return f"{value:.{0 if value >= 99.95 else 1}f} {prefix}{unit}"
    return f"{number} {unit}"


def sizes_text(buffers):
    """The bytes of some buffers: `12 B`, or `24 B a step` of tapes."""
    buffers = list(buffers)
    steps = sum(b.step_bytes for b in buffers if isinstance(b, Growing))
    total = size_text(sum(buffer.nbytes for buffer in buffers))
    return f"{size_text(steps)} a step" if steps else total


def use_size(use):
    """The bytes of a use, or of a tape those of one step."""
    grows = isinstance(use.buffer, Growing)
    return sizes_text([use.buffer]) if grows else size_text(use.nbytes)


def flops_text(flops):
    return "unknown flops" if flops is None else in_thousands(flops, "flop")


def cut_to(text, width):
    return text if len(text) <= width else text[: width - 3] + "..."


def where_it_runs(step):
    """`llvm, 2 threads`."""
    threads = f", {step.threads} threads" if step.threads > 1 else ""
    return step.route + threads


def line_text(source):
    """A line of the user's program, as the reader finds it."""
    if source is None:
        return "(added by the compiler)"
    file = str(source).rsplit("/", 1)[-1]
    text = source.text()
    return f"{file}: {text}" if text else file


def made_text(made):
    """`mul, exp; transposed: mul x2`: the equations, with what made them."""
    parts = []
    for how, names in made.items():
        listed = ", ".join(n if k == 1 else f"{n} x{k}" for n, k in names.items())
        parts.append(listed if how == "primal" else f"{how}: {listed}")
    return "; ".join(parts)


def use_text(use):
    """`x: f32[64,32]`, `1,024 of x: f32[64,32]`."""
    if use.whole or isinstance(use.buffer, Growing):
        return str(use.buffer)
    most = "" if use.exact else "at most "
    return f"{most}{use.elements:,} of {use.buffer}"


def notes(use):
    """What else there is to say of a use."""
    return f"{use.sweeps} sweeps" if use.sweeps > 1 else ""


def head_lines(report):
    """The numbers of the whole program."""
    counted = [
        f"{number} {word}{'s' * (number != 1)}"
        for number, word in (
            (sum(not k.is_loop for k in report.kernels), "kernel"),
            (sum(k.is_loop for k in report.kernels), "native loop"),
            (sum(c.route == "product" for c in report.calls), "product"),
            (sum(c.route != "product" for c in report.calls), "uncompiled call"),
        )
        if number or word == "kernel"
    ]
    driven = any(step.is_driven for step in report.steps)
    bound = "" if report.exact else "at least " if driven else "at most "
    tapes = [a.buffer for a in report.arrays if isinstance(a.buffer, Growing)]
    grown = [f"besides, tapes: {sizes_text(tapes)}"] if tapes else []
    ratio = report.traffic_bytes / report.ideal_bytes if report.ideal_bytes else 1.0
    return [
        f"{report.name}: {', '.join(counted)}",
        f"traffic {bound}{size_text(report.traffic_bytes)}, "
        f"{ratio:.2f} times the ideal {size_text(report.ideal_bytes)}; "
        f"{flops_text(report.flops)}; peak memory {size_text(report.peak)}",
        *grown,
    ]


def made_lines(report, step):
    """[(line of the user's program, what is computed of it)]

    Of the parts into which the price took a kernel, each has the equations of all of
    them: they stand at the first one.
    """
    first = next(
        (s for s in report.kernels if s.run == step.run and s.eqns == step.eqns), step
    )
    if first is not step and step.eqns and step.is_kernel:
        told = f"a part of what is written at {first.name}"
        return [(f"{told}, whose loops were taken apart", "")]
    return [(line_text(s), made_text(made)) for s, made in step.lines.items()]


def step_lines(report, step):
    """One step: where it runs, the user's lines, what it reads and writes."""
    flops = flops_text(step.flops)
    first = f"{step.name}  {where_it_runs(step)}"
    lines = [f"{first:<{WIDTH - 34}}{flops:>16}{size_text(step.nbytes):>16}"]
    if step.reason:
        lines.append(f"  NOT COMPILED: {step.reason}")
    if step.is_driven:
        lines.append("  Python drives it: what it moves inside is not counted")
    for line, made in made_lines(report, step):
        lines += [f"  {line}", f"      {made}"] if made else [f"  {line}"]
    for word, uses in (("reads", step.reads), ("writes", step.writes)):
        for use in uses:
            told = f"  {word:<7} {cut_to(use_text(use), 58)}"
            told = f"{told:<{WIDTH - 32}}{notes(use):>14}"
            lines.append(f"{told}{use_size(use):>16}")
    return lines


def decision_lines(report, most):
    """The ledger, what costs most first."""
    kept = [d for d in report.decisions if d.b and not d.fused]
    lines = []
    for decision in kept[:most]:
        names = [*names_of(decision.a)]
        if len(names) > 4:
            names = [*names[:3], f"{len(names) - 3} more"]
        change = f"; setting: {decision.setting}" if decision.setting else ""
        told = f"{', '.join(names)}: {decision.reason} ({decision.rule}{change})"
        lines += sized(decision.nbytes, told)
    if len(kept) > most:
        lines.append(f"  ... and {len(kept) - most} more, all in report.decisions")
    return lines


def given_up_lines(report):
    """The passes that took too long, each once."""
    passes = (d.numbers for d in report.decisions if d.rule == "too long")
    return [
        f"  {name}: it looked at more than {count:,} expressions"
        for name, count in {k: v for found in passes for k, v in found.items()}.items()
    ]


def chosen_lines(report):
    """Kernels whose loops were measured, or written by hand."""
    return [
        line
        for d in report.decisions
        if d.rule in ("tuned", "by hand")
        for line in textwrap.wrap(f"  {', '.join(names_of(d.a))}: {told_of(d)}", WIDTH)
    ]


def told_of(decision):
    """The reason, and what each way takes, the chosen one first."""
    times = ", ".join(f"{way} {ns:,}" for way, ns in decision.numbers.items())
    return f"{decision.reason} ({times})"


def buffer_lines(report):
    """The arrays that the program makes, and for which steps they are there."""
    lines, unread = [], set(report.unread)
    made = ("temporary", "result", "tape")
    for array in (a for a in report.arrays if a.role in made):
        unused = array.first is None
        life = "not used" if unused else f"steps {array.first}..{array.last}"
        where = "" if array.offset is None else f"at {array.offset:,}"
        if array in unread:
            is_own = report.steps[array.first].is_loop  # which may well read it itself
            where = "within" if is_own else "never read"
        if grows := isinstance(array.buffer, Growing):
            where = "each step"
        nbytes = array.buffer.step_bytes if grows else array.nbytes
        told = f"  {cut_to(str(array), 50)}"
        lines.append(f"{told:<54}{array.role:<11}{life:<14}{where:<12}"
                     f"{size_text(nbytes):>9}")  # fmt: skip
    return lines


def copy_lines(report):
    """The arrays that are copied whole, and why."""
    return [
        line
        for copy in report.copies
        for line in sized(
            copy.nbytes, f"{copy.target.name} copies {copy.source.name}: {copy.reason}"
        )
    ]


def sized(nbytes, text):
    """A number of bytes, and a text beside it of as many lines as it takes."""
    lines = textwrap.wrap(text, WIDTH - 13)
    first = f"  {size_text(nbytes):>9}  {lines[0]}"
    return [first, *(" " * 13 + line for line in lines[1:])]


def sections(report, most):
    """(title, lines) of what there is to say after the steps, at most so much of it."""
    found = {
        "kept in memory, by bytes written and read": decision_lines(report, most),
        "copied whole": copy_lines(report),
        "passes that left it as it was": given_up_lines(report),
        "loops that no price has chosen": chosen_lines(report),
        "arrays": buffer_lines(report),
    }
    return [(title, lines) for title, lines in found.items() if lines]


def report_text(report, most=60):
    """The whole report; of more steps than `most` those that move most."""
    lines = head_lines(report)
    for name, reason in report.fallbacks:
        lines.append(f"NOT COMPILED: {name}: {reason}")
    shown = sorted(report.steps, key=lambda step: -step.nbytes)[:most]
    for step in (s for s in report.steps if s in shown):
        lines += ["", *step_lines(report, step)]
    if len(report.steps) > most:
        lines += ["", f"... and {len(report.steps) - most} steps that move less"]
    for title, found in sections(report, 12):
        lines += ["", f"{title}:", *found[:most]]
    return "\n".join(cut_to(line.rstrip(), WIDTH) for line in lines)


# ---- HTML

# What is marked as important is so because JupyterLab styles tables and texts, too.
STYLE = """<style>
.minijit-report {font-family: var(--jp-ui-font-family, sans-serif); font-size: 13px}
.minijit-report table {border-collapse: collapse; font-size: 13px;
  margin: 4px 0 4px 16px !important}
.minijit-report td {text-align: left !important; vertical-align: top !important;
  padding: 1px 12px 1px 0 !important}
.minijit-report td.n {text-align: right !important}
.minijit-report .bar {display: inline-block; height: 9px; background: #2b8f9a}
.minijit-report .slow {color: #d1495b; font-weight: bold}
.minijit-report pre {margin: 2px 0 6px 16px; line-height: 1.3;
  font-family: var(--jp-code-font-family, monospace) !important}
.minijit-report summary {cursor: pointer}
.minijit-report summary b, .minijit-report summary i {display: inline-block;
  font-style: normal; min-width: 9em; padding-right: 1em}
.minijit-report summary i.n {text-align: right; min-width: 6em}
</style>"""


def table(rows):
    """A table of lists of texts; those in a tuple stand at the right."""
    lines = [
        "".join(
            f"<td class=n>{html.escape(*cell)}</td>"
            if isinstance(cell, tuple)
            else f"<td>{html.escape(cell)}</td>"
            for cell in row
        )
        for row in rows
    ]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def step_html(report, step, longest):
    """A step that opens: its lines, its reads and writes, its source."""
    escape = html.escape
    width = round(220 * step.nbytes / longest) if longest else 0
    slow = f" <span class=slow>{escape(step.reason)}</span>" if step.reason else ""
    head = (
        f"<b>{escape(step.name)}</b> <i>{escape(where_it_runs(step))}</i> "
        f"<i class=n>{flops_text(step.flops)}</i> "
        f"<i class=n>{size_text(step.nbytes)}</i> "
        f"<span class=bar style='width:{width}px'></span>{slow}"
    )
    lines = made_lines(report, step)
    uses = [
        (word, use_text(use), (use_size(use),), notes(use))
        for word, used in (("reads", step.reads), ("writes", step.writes))
        for use in used
    ]
    text = f"<pre>{escape(step.text)}</pre>" if step.text else ""
    return (
        f"<details><summary>{head}</summary>{table(lines)}{table(uses)}{text}</details>"
    )


def report_html(report):
    """The report for JupyterLab: each step opens, to its source."""
    first, *others = map(html.escape, head_lines(report))
    longest = max((step.nbytes for step in report.steps), default=0)
    slow = [
        f"<div class=slow>not compiled: {html.escape(f'{name}: {reason}')}</div>"
        for name, reason in report.fallbacks
    ]
    steps = [step_html(report, step, longest) for step in report.steps]
    parts = ["<br>".join([f"<b>{first}</b>", *others]), *slow, *steps]
    for title, lines in sections(report, 100):
        text = html.escape("\n".join(lines))
        parts.append(f"<details><summary>{title}</summary><pre>{text}</pre></details>")
    return f"{STYLE}<div class=minijit-report>{''.join(parts)}</div>"


# ---- Graphviz


def quoted(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def report_dot(report):
    """Steps as boxes, arrays as ellipses, arrows labelled with bytes."""
    lines = [f"digraph {quoted(report.name)} {{", "  rankdir=TB;"]
    lines.append('  node [fontname="sans-serif"]; edge [fontname="sans-serif"];')
    names = {array.buffer: f"a{i}" for i, array in enumerate(report.arrays)}
    used = {u.buffer for s in report.steps for u in (*s.reads, *s.writes)}
    for array in report.arrays:
        if array.buffer in used:
            label = quoted(f"{array}\n{sizes_text([array.buffer])}")
            is_plain = array.role in ("constant", "temporary")
            bold = "" if is_plain else ", style=bold"
            lines.append(f"  {names[array.buffer]} [label={label}{bold}];")
    for n, step in enumerate(report.steps):
        label = quoted(f"{step.name}\n{where_it_runs(step)}, {flops_text(step.flops)}")
        lines.append(f"  s{n} [shape=box, label={label}];")
        for use in step.reads:
            told = quoted("\n".join(filter(None, (use_size(use), notes(use)))))
            lines.append(f"  {names[use.buffer]} -> s{n} [label={told}];")
        for use in step.writes:
            told = quoted(use_size(use))
            lines.append(f"  s{n} -> {names[use.buffer]} [label={told}];")
    return "\n".join([*lines, "}"]) + "\n"


report_forms |= {"text": report_text, "html": report_html, "dot": report_dot}
