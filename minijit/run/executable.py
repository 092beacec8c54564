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
from types import FunctionType

import numpy as np

from ..compile.lower import lower
from ..compile.simplify import simplify
from ..trace.jit import executors
from .cache_folder import write_source
from .loading import load, loaders, programs, routines
from .numba_kernels import native_kernel, with_arguments
from .python_source import print_program
from .reports import Report, heading_of, kernel_names
from .values import to_array, unboxed


class LoadedProgram:
    """A printed program in memory, its kernels compiled or left as Python.

    Attributes:
      source: the `Source`; path: of the file that it is in.
      run: the driver: NumPy arrays -> tuple of NumPy arrays.
      body: the kernels and calls that it runs, in order.
      names: of the kernels it launches, in order.
    """

    def __init__(self, program, native, heading):
        self.body = program.body
        self.source = print_program(program, heading())
        self.names = [kernel.name for kernel in self.source.kernels]
        self.path = write_source(self.source.text)
        namespace: dict = {"__name__": f"minijit source {program.name}"}
        exec(compile(self.source.text, self.path, "exec"), namespace)
        if native:
            pairs = zip(program.kernels, self.source.kernels, strict=True)
            for kernel, source in pairs:
                function, numbers = namespace[source.name], ()
                if not isinstance(function, FunctionType):
                    continue
                if source.constants and not source.numbers:
                    general = with_arguments(kernel, source, self.path)
                    source, function, numbers = general
                compiled = native_kernel(source, function, self.path)
                namespace[source.name] = partial(compiled, *numbers)
        namespace |= self.source.constants
        for name, call in self.source.calls.items():
            namespace[name] = routines[call.routine](call, native)
        driver = namespace[self.source.driver]
        self.run = driver if native else np.errstate(all="ignore")(driver)


loaders |= {False: LoadedProgram, True: LoadedProgram}


class Executable(Report):
    """A jaxpr made to run: call it with one value an input, get a list of arrays."""

    def __init__(self, closed, name, native):
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        self.native = native
        self.program = lower(simplify(closed), name, programs=programs)
        heading = partial(heading_of, weakref.ref(closed))
        self.loaded = load(self.program, native, heading)
        self.kernels = kernel_names(self.program, native)
        self.run = self.loaded.run

    def __call__(self, *leaves):
        arrays = map(to_array, leaves, self.in_avals)
        return list(map(unboxed, self.run(*arrays), self.out_avals))


def compile_python(closed, name):
    """The executor "python": kernels compiled by numba."""
    return Executable(closed, name, native=True)


def compile_plain(closed, name):
    """The executor "plain": the same source as ordinary Python."""
    return Executable(closed, name, native=False)


executors |= {
    "python": compile_python,
    "plain": compile_plain,
    "default": compile_python,
}
