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
from .reports import heading_of, kernel_names, places
from .values import to_array, unboxed


class Executable:
    """A jaxpr made to run: call it with one value an input, get a list of arrays.

    Attributes:
      program: the `Program`.
      native: how it was loaded: False, or a name of `loaders`.
      loaded: what `load` made of it.
      kernels: the names of the kernels it launches, in order, inner programs' included.
    """

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
        return self.results(map(to_array, leaves, self.in_avals))

    def results(self, arrays):
        """What it makes of NumPy arrays."""
        run = next(filter(None, (watch(self) for watch in watchers)), self.run)
        return list(map(unboxed, run(*arrays), self.out_avals))

    def at(self, leaves):
        """The executable that runs it where its arguments are, often itself."""
        for place in places:
            if (there := place(self, leaves)) is not None:
                return there
        return self

    @property
    def fallbacks(self):
        """Pairs (primitive name, reason) of what runs uncompiled."""
        return self.program.fallbacks

    @property
    def source(self):
        """The text of the generated file."""
        return self.loaded.source.text

    @property
    def path(self):
        """Where the generated file is."""
        return self.loaded.path

    @property
    def texts(self):
        """{dialect: function that gives the text} of what else it was compiled from."""
        return getattr(self.loaded, "texts", {})

    def __repr__(self):
        return f"<{self.program.name}: {len(self.kernels)} kernels, {self.path}>"


# Kernels compiled by numba, and the same source as ordinary Python.
compile_python, compile_plain = (partial(Executable, native=n) for n in (True, False))
executors |= {"python": compile_python, "plain": compile_plain}
executors["default"] = compile_python
