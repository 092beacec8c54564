"""How much a kernel does, before it is compiled: what depends on that.

    steps_of(kernel.body) > LONG                    # other threads may run meanwhile
"""

from ...compile.loops.statements import For, While

# From this many steps on, a few microseconds, a kernel lets other threads of Python run
# meanwhile: to give the interpreter's lock back, and to take it, is 1% of that.
LONG = 20_000
# The shortest kernels of a program, so many steps of them, are compiled in half of the
# time: what they lose is a microsecond, and a call of any function takes that.
BRIEF = 1_000
# Loops that are a smaller part of a kernel's steps do without LLVM's passes: all other
# loops being vectors of ours, these would take longer than all the rest.
SELDOM = 250
# How long LLVM takes for a text's character, by way, in about 0.6 microseconds; and the
# shortest text, of some five milliseconds, that is worth two modules.
WAYS = dict(brief=1, vectors=1, thorough=3)
PARTED = 10_000


def by_way(kernels):
    """{a key of `pass_options`: the kernels whose module is compiled so}."""
    found, steps = {}, 0
    for kernel in sorted(kernels, key=lambda kernel: kernel.steps):
        steps += kernel.steps
        brief = steps <= BRIEF
        way = "brief" if brief else "vectors" if kernel.vectors else "thorough"
        found.setdefault(way, []).append(kernel)
    return found


def in_modules(kernels):
    """Pairs (a key of `pass_options`, kernels): modules, what takes longest first.

    They are compiled side by side: much text of one way becomes two of them.
    """
    found = []
    for way, some in by_way(kernels).items():
        parts = ([], []) if text_in(some) > PARTED else ([],)
        for kernel in sorted(some, key=lambda kernel: -len(kernel.text)):
            min(parts, key=text_in).append(kernel)
        found += [(way, part) for part in parts if part]
    return sorted(found, key=lambda module: -text_in(module[1]) * WAYS[module[0]])


def text_in(kernels):
    """How long the text of some kernels is."""
    return sum(len(kernel.text) for kernel in kernels)


def steps_of(body):
    """About how often the innermost statements of some statements run, in all."""
    return sum(times for times, _ in innermost(body))


def innermost(body, times=1, around=frozenset()):
    """For each statement that is no loop about how often it runs, in all, and the axes
    of the loops around it."""
    for stmt in body:
        axis, extent = getattr(stmt, "axis", None), 1
        if isinstance(stmt, (For, While)):
            extent = axis.extent if axis and isinstance(axis.extent, int) else LONG
        if not isinstance(stmt, For):
            yield times, around
        for inner in stmt.bodies():
            yield from innermost(inner, times * extent, around | {axis})


def is_in_vectors(body, loops):
    """Whether a kernel's loops are vectors already, but for a small part of its steps.

    Args:
      loops: pairs: the axis of a loop, and whether it is written as vectors.
    """
    found, plain = [*innermost(body)], {axis for axis, vectors in loops if not vectors}
    known = frozenset().union(*(around for _, around in found))
    left = sum(times for times, around in found if around & plain)
    some, steps = any(vectors for _, vectors in loops), sum(times for times, _ in found)
    return some and plain <= known and left <= steps / SELDOM
