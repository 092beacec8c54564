"""What an executable tells about itself: its text, what it launches, what runs that."""

from ..compile.loops.statements import Kernel, Region
from .loading import called, load

# Functions of an executable and its arguments: the one to run instead, or None.
places: list = []


def kernel_names(program, native):
    """The kernels that a run of a program launches, inner programs' as `f/kernel_0`.

    A `Region` is none of them: it is as many as a run makes of it.
    """
    made = load(program, native)
    names, own = [], iter(made.names)
    for step in made.body:
        if isinstance(step, Kernel):
            name = next(own)
            names += [] if isinstance(step, Region) else [name]
        elif inner := called(step):
            names += [f"{inner.name}/{name}" for name in kernel_names(inner, native)]
    return tuple(names)


# native -> what runs the kernels; others are called so themselves.
kernel_routes = {False: "plain", True: "numba"}
# native -> function of a kernel's statements, whose rules note what they decide; others
# have that of the CPU, `arrange`.
kernel_rules: dict = {}
# route -> function of a kernel: how many threads may share it, as this machine is set.
kernel_threads: dict = {}
# routine -> what runs it: where it is native, and where it is not.
call_routes = {"matmul": ("product", "product"), "eval": ("uncompiled", "uncompiled")}


LONGEST_HEADING = 60


def heading_of(closed):
    """The jaxpr, to stand above the source; of a long one the beginning.

    Args:
      closed: a weak reference to it: nothing keeps a jaxpr for the sake of its text.
    """
    lines = str(closed() or "").splitlines()
    if len(lines) > LONGEST_HEADING:
        more = len(lines) - LONGEST_HEADING
        lines = [*lines[:LONGEST_HEADING], f"... and {more} more lines"]
    return "\n".join(lines) + "\n"
