"""Executables: jaxprs made to run.

    run = compile_python(closed_jaxpr, "f")     # simplify, lower, print, compile
    run(x, y)                                   # the results, a list of arrays
    print(run.source)                           # the Python that numba compiled
    run.kernels, run.fallbacks                  # what it launches, what it could not

The printed program goes into a file named after its content (in `config.cache_dir`).
numba compiles its kernels, each distinct one once per process; its driver, a few lines
of straight Python, calls them.  Two rows of the table `executors`: "python", which is
the default from here on, and "plain", which leaves the kernels to Python.
"""

import hashlib
import os
import tempfile
import threading
import time
import warnings
import weakref
from types import FunctionType

import numpy as np

from ..compile.loops import Kernel
from ..compile.lower import lower
from ..compile.simplify import simplify
from ..trace.array import ArrayImpl, ShapedArray, to_numpy
from ..trace.config import config
from ..trace.core import EvalTrace, eval_rules, find_rule, set_trace
from ..trace.errors import MinijitError
from ..trace.jit import executors
from .python_source import print_program
from .scalar_math import native_functions

default_folder = os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"),
    "minijit",
)
config.define("cache_dir", default_folder, "the folder for generated source")


def write_source(text):
    """Put a source file into the cache folder: -> its path.

    The name is a hash of the content, so a file that is there is the right one.  Where
    nothing can be written, it only names the source in tracebacks: a warning says so.
    """
    name = hashlib.sha256(text.encode()).hexdigest()[:16] + ".py"
    folder = os.path.join(config.cache_dir, "source")
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return path
    try:
        os.makedirs(folder, exist_ok=True)
        # Another process may be writing the same file: each moves a whole one there.
        handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        report_unwritable(folder, error)
    return path


# The folders that a warning has named.
unwritable = set()


def report_unwritable(folder, error):
    """Warn, once, that generated source cannot be kept in a folder."""
    if folder in unwritable:
        return
    unwritable.add(folder)
    warnings.warn(
        f"minijit cannot write the source it generates to {folder}: {error.strerror}. "
        "Functions run all the same, but their source cannot be opened.\n"
        '  Instead: name another folder, config.update("jax_cache_dir", folder) or '
        "MINIJIT_CACHE_DIR in the environment.",
        UserWarning,
        stacklevel=2,
    )


# (text, constants) -> the compiled kernel, for all programs of this process.
native_kernels = {}
compiling = threading.RLock()


def native_kernel(source, function, path):
    """What numba makes of a printed kernel: a function of NumPy arrays.

    Args:
      source: the `KernelSource`.
      function: the same kernel as a plain Python function.
      path: of the file it stands in, for error messages.
    """
    constants = {name: function.__globals__[name] for name in source.constants}
    key = source.body, tuple((n, c.tobytes()) for n, c in constants.items())
    with compiling:
        if key not in native_kernels:
            namespace = native_functions() | constants
            code = FunctionType(function.__code__, namespace, source.name)
            native_kernels[key] = compile_kernel(source, code, path)
    return native_kernels[key]


def compile_kernel(source, function, path, returns=False):
    """Compile one kernel with numba, its types given: nothing is left to inference.

    What it `returns`, if that is not nothing, numba finds out.
    """
    import numba

    arrays = [
        numba.types.Array(numba_type(name), ndim, "C")
        for name, ndim in source.signature
    ]
    try:
        dispatcher = numba.njit(
            tuple(arrays) if returns else numba.void(*arrays),
            locals={name: numba_type(d) for name, d in source.locals.items()},
            error_model="numpy",
            nogil=True,
            no_cfunc_wrapper=True,
        )(function)
    except Exception as error:
        reason = str(error).strip().splitlines()[-1:]
        raise MinijitError(
            f"numba does not compile {source.name}, which minijit wrote to {path}: "
            f"{type(error).__name__}: {' '.join(reason)}\n  This is a mistake in "
            'minijit. The function still runs with jit(..., backend="eval").'
        ) from None
    # The compiled code itself: the dispatcher would look up the argument types again.
    result, = dispatcher.overloads.values()
    return result.entry_point


def numba_type(name):
    """numba's type for a dtype's name."""
    import numba

    return getattr(numba.types, "boolean" if name == "bool" else name)


def evaluating(call):
    """The function for a `Call` that no kernel can do: the primitive's eval rule."""
    rule = find_rule(eval_rules, call.attrs["primitive"], "eval")
    params = call.attrs["params"]
    avals = [ShapedArray(v.shape, v.buffer.dtype) for v in call.inputs]

    def evaluate(*arrays):
        with set_trace(EvalTrace()):
            results = rule(*map(unboxed, arrays, avals), **params)
        if not call.attrs["primitive"].multiple_results:
            results = [results]
        return list(map(boxed, results))

    return evaluate


def boxed(x):
    """A result as a program holds it; what is no array in an array of one object."""
    if isinstance(x, ArrayImpl):
        return own(x.numpy())
    box = np.empty((), object)
    box[()] = x
    return box


def unboxed(array, aval):
    """The value that a program holds as an array."""
    if array.dtype == object:
        return array[()]
    # A view, for a rule may give its argument back: that is copied in `boxed`.
    return ArrayImpl(array.view(), aval)


def own(value):
    """The array if its memory is its own and in row-major order, else a copy of it."""
    if value.flags.owndata and value.flags.c_contiguous:
        return value
    return value.copy()


class LoadedProgram:
    """A printed program in memory, its kernels compiled or left as Python.

    Attributes:
      source: the `Source`.
      path: of the file.
      run: the driver: NumPy arrays -> tuple of NumPy arrays.
    """

    def __init__(self, program, native, heading=""):
        self.source = print_program(program, heading)
        self.path = write_source(self.source.text)
        namespace = {"__name__": f"minijit source {program.name}"}
        exec(compile(self.source.text, self.path, "exec"), namespace)
        if native:
            for kernel in self.source.kernels:
                plain = namespace[kernel.name]
                if isinstance(plain, FunctionType):
                    namespace[kernel.name] = native_kernel(kernel, plain, self.path)
        namespace |= self.source.constants
        for name, call in self.source.calls.items():
            namespace[name] = routines[call.routine](call, native)
        self.run = namespace[self.source.driver]


loaded: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def load(program, native, heading=""):
    """The `LoadedProgram` of a program; one that several call is loaded once."""
    with compiling:
        versions = loaded.setdefault(program, {})
        if native not in versions:
            versions[native] = LoadedProgram(program, native, heading)
        return versions[native]


# routine -> function(call, native): what the driver calls for it.
routines = {
    "program": lambda call, native: load(call.attrs["program"], native).run,
    "eval": lambda call, native: evaluating(call),
}

programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


class Executable:
    """A jaxpr made to run: call it with one value an input, get a list of arrays.

    Attributes:
      program: the `Program`.
      source: the text of the generated file; path: where it is.
      kernels: the names of the kernels it launches, in order, inner programs' included.
      fallbacks: pairs (primitive name, reason) of what runs uncompiled.
      compile_ms: what lowering, printing and compiling took.
    """

    def __init__(self, closed, name, native):
        start = time.perf_counter()
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        self.native = native
        self.program = lower(simplify(closed), name, programs=programs)
        loaded = load(self.program, native, heading_of(closed))
        self.source, self.path, self.run = loaded.source.text, loaded.path, loaded.run
        self.kernels = kernel_names(self.program, native)
        self.fallbacks = self.program.fallbacks
        self.compile_ms = 1e3 * (time.perf_counter() - start)

    def __call__(self, *leaves):
        arrays = map(to_array, leaves, self.in_avals)
        if self.native:
            results = self.run(*arrays)
        else:
            with np.errstate(all="ignore"):
                results = self.run(*arrays)
        return list(map(unboxed, results, self.out_avals))

    def __repr__(self):
        return f"<{self.program.name}: {len(self.kernels)} kernels, {self.path}>"


def to_array(x, aval):
    """An argument as a NumPy array in row-major order, as kernels take for granted."""
    if aval.dtype == object:
        return boxed(x)
    value = to_numpy(x, aval)
    return value if value.flags.c_contiguous else value.copy()


def kernel_names(program, native):
    """The kernels that a run of a program launches, inner programs' as `f/kernel_0`."""
    names, own = [], iter(load(program, native).source.kernels)
    for step in program.body:
        if isinstance(step, Kernel):
            names.append(next(own).name)
        elif step.routine == "program":
            inner = step.attrs["program"]
            names += [f"{inner.name}/{name}" for name in kernel_names(inner, native)]
    return tuple(names)


LONGEST_HEADING = 60


def heading_of(closed):
    """The jaxpr, to stand above the source; of a long one the beginning."""
    lines = str(closed).splitlines()
    if len(lines) > LONGEST_HEADING:
        more = len(lines) - LONGEST_HEADING
        lines = [*lines[:LONGEST_HEADING], f"... and {more} more lines"]
    return "\n".join(lines) + "\n"


def compile_python(closed, name):
    """The executor "python": kernels compiled by numba."""
    return Executable(closed, name, native=True)


def compile_plain(closed, name):
    """The executor "plain": the same source as ordinary Python."""
    return Executable(closed, name, native=False)


def clear_caches():
    """Forget compiled kernels and loaded programs."""
    with compiling:
        native_kernels.clear()
        loaded.clear()
        programs.clear()


executors |= {
    "python": compile_python,
    "plain": compile_plain,
    "default": compile_python,
}
