"""Printed programs in memory, their kernels compiled by numba or left as Python."""

from types import FunctionType

import numpy as np

from ...compile.loops.statements import Kernel
from ...trace.base.turns import one_at_a_time
from ...trace.jit.stores import Recent
from ..cache_folder import write_source
from ..loading import loaders, rewritten, routines
from ..scalars.numba_scalars import native_functions
from .numba_kernels import compile_kernel
from .source import print_program

# (text, types, constants) -> the compiled kernel, for all programs of this process.  A
# program keeps its kernels for itself, so that one which leaves this table is compiled
# again at most where another program has the same text.
native_kernels = Recent(limit=1024)
# name of a function that printed text calls -> what makes it for numba, once it does.
native_calls: dict = {}


@one_at_a_time
def native_kernel(source, namespace, path):
    """What numba makes of a printed kernel, one text only once: a function of arrays.

    Args:
      source: the `KernelSource`.
      namespace: with the same as plain Python functions, and its constants.
      path: of the file it stands in, for error messages.
    """
    constants = {name: namespace[name] for name in source.constants}
    types = [tuple(each.locals.items()) for each in (source, *source.functions)]
    numbers = tuple((n, c.tobytes()) for n, c in constants.items())
    key = source.body, tuple(types), numbers
    if (kernel := native_kernels.find(key)) is None:
        known = native_functions() | constants
        called = (name for name in native_calls if f"{name}(" in source.text)
        known |= {name: native_calls[name]() for name in called}

        def compiled(each, **more):
            code = FunctionType(namespace[each.name].__code__, known, each.name)
            return compile_kernel(each, code, path, **more)

        for each in source.functions:
            known[each.name] = compiled(each, no_cpython_wrapper=True)
        # The compiled code itself: to look up the types of arguments again takes long.
        result, = compiled(source).overloads.values()
        native_kernels.store(key, kernel := result.entry_point)
    return kernel


# (native, type of a kernel) -> function(kernel, source, namespace, path): what the
# driver calls for it; `namespace` has the printed function.
launchers = {
    (False, Kernel): lambda kernel, source, namespace, path: namespace[source.name],
    (True, Kernel): lambda kernel, *printed: native_kernel(*printed),
}


class LoadedProgram:
    """A printed program in memory, its kernels compiled or left as Python.

    Attributes:
      source: the `Source`; path: of the file that it is in.
      run: the driver: NumPy arrays -> tuple of NumPy arrays.
      body: the kernels and calls that it runs, in order; constants: as in `Program`.
      names: of the kernels it launches, in order.
    """

    def __init__(self, program, native, heading):
        program = rewritten(program)
        self.body, self.constants = program.body, program.constants
        self.source = print_program(program, heading())
        self.names = [kernel.name for kernel in self.source.kernels]
        self.path = write_source(self.source.text)
        namespace: dict = {"__name__": f"minijit source {program.name}"}
        exec(compile(self.source.text, self.path, "exec"), namespace)
        for kernel, source in zip(program.kernels, self.source.kernels, strict=True):
            # Equal ones have one source.
            if isinstance(namespace[source.name], FunctionType):
                launch = launchers[native, type(kernel)]
                namespace[source.name] = launch(kernel, source, namespace, self.path)
        namespace |= self.source.constants
        for name, call in self.source.calls.items():
            namespace[name] = routines[call.routine](call, native)
        driver = namespace[self.source.driver]
        self.run = driver if native else np.errstate(all="ignore")(driver)


loaders |= {False: LoadedProgram, True: LoadedProgram}
