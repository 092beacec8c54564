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


def by_way(kernels):
    """{a key of `pass_options`: the kernels whose module is compiled so}."""
    found, steps = {}, 0
    for kernel in sorted(kernels, key=lambda kernel: kernel.steps):
        steps += kernel.steps
        brief = steps <= BRIEF
        way = "brief" if brief else "vectors" if kernel.vectors else "thorough"
        found.setdefault(way, []).append(kernel)
    return found


def steps_of(body, times=1):
    """About how often the innermost statements of some statements run, in all."""
    total = times * sum(not isinstance(stmt, For) for stmt in body)
    for stmt in body:
        extent = 1
        if isinstance(stmt, (For, While)):
            axis = getattr(stmt, "axis", None)
            extent = axis.extent if axis and isinstance(axis.extent, int) else LONG
        total += sum(steps_of(inner, times * extent) for inner in stmt.bodies())
    return total
