"""Executables: jaxprs made to run.

    run = compile_python(closed_jaxpr, "f")     # simplify, lower, print, compile
    run(x, y)                                   # the results, a list of arrays
    print(run.source)                           # the Python that numba compiled
    run.kernels, run.fallbacks                  # what it launches, what it could not

Two rows of the table `executors`: "python", which is the default from here on, and
"plain", which leaves the kernels to Python.
"""

import weakref
from functools import partial

from ..compile.lower.walk import lower
from ..compile.simplify.folding import simplify
from ..trace.jit.jit import executors
from .loading import load, programs, watchers
from .reports import Report, heading_of, kernel_names
from .values import to_array, unboxed


class Executable(Report):
    """A jaxpr made to run: call it with one value an input, get a list of arrays."""

    def __init__(self, closed, name, native, lower=lower):
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        self.closed, self.native = weakref.ref(closed), native
        self.program = lower(simplify(closed), name, programs=programs)
        heading = partial(heading_of, self.closed)
        self.loaded = load(self.program, native, heading)
        self.kernels = kernel_names(self.program, native)
        self.run = self.loaded.run

    def __call__(self, *leaves):
        if (there := self.at(leaves)) is not self:
            return there(*leaves)
        arrays = map(to_array, leaves, self.in_avals)
        run = next(filter(None, (watch(self) for watch in watchers)), self.run)
        return list(map(unboxed, run(*arrays), self.out_avals))


def compile_python(closed, name):
    """The executor "python": kernels compiled by numba."""
    return Executable(closed, name, native=True)


def compile_plain(closed, name):
    """The executor "plain": the same source as ordinary Python."""
    return Executable(closed, name, native=False)


executors |= {"python": compile_python, "plain": compile_plain}
executors["default"] = compile_python
