"""How much a kernel does, before it is compiled: what depends on that.

    steps_of(kernel.body) > LONG                    # other threads may run meanwhile
"""

from ..compile.loops import For, While

# From this many steps on, a kernel lets other threads of Python run meanwhile.
LONG = 20_000
# Up to so many, kernels are compiled in half the time: what they lose is a microsecond.
BRIEF = 1_000


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
