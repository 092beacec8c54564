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
import time
import traceback
import weakref
from functools import partial
from types import FunctionType

import numpy as np

from ..compile.loops import Kernel, Region
from ..compile.lower import lower
from ..compile.simplify import simplify
from ..trace.array import ArrayImpl, ShapedArray, to_numpy
from ..trace.core import EvalTrace, eval_rules, find_rule, set_trace
from ..trace.dtypes import float0, storage_of
from ..trace.errors import MinijitError
from ..trace.jit import cache_clearers, executors
from ..trace.turns import compiling
from .cache_folder import keep
from .python_source import (
    Constants,
    factors,
    print_kernel,
    print_program,
    register_dtype,
)
from .scalar_math import native_functions


def write_source(text):
    """Put a source file into the cache folder: -> its path."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16] + ".py"
    return keep("source", name, text.encode())


# (text, constants) -> the compiled kernel, for all programs of this process; the ones
# used last.  A program keeps its kernels for itself.
native_kernels: dict = {}
MOST_KERNELS = 1024


def compiled_once(key, build):
    """The kernel of a key, from `build()` if it is not there."""
    with compiling:
        kernel = native_kernels.pop(key, None) or build()
        native_kernels[key] = kernel
        for old in list(native_kernels)[:-MOST_KERNELS]:
            native_kernels.pop(old, None)
    return kernel


def native_kernel(source, function, path):
    """What numba makes of a printed kernel: a function of NumPy arrays.

    Args:
      source: the `KernelSource`.
      function: the same kernel as a plain Python function.
      path: of the file it stands in, for error messages.
    """
    constants = {name: function.__globals__[name] for name in source.constants}

    def build():
        namespace = native_functions() | constants
        code = FunctionType(function.__code__, namespace, source.name)
        return compile_kernel(source, code, path)

    key = source.body, tuple((n, c.tobytes()) for n, c in constants.items())
    return compiled_once(key, build)


def with_arguments(kernel, source, path):
    """A kernel in which numbers are arguments: -> (source, function, these numbers).

    Programs that differ in a number so share what is compiled.  The file shows the
    numbers themselves.
    """
    constants = Constants()
    general = print_kernel(kernel, source.name, constants, factors)
    typed = [f"{name} = {value}" for name, value in constants.definitions.items()]
    lines = ["from __future__ import annotations", *typed, general.text]
    namespace = {"np": np}
    exec(compile("\n".join(lines), path, "exec"), namespace)
    numbers = [register_dtype(c.dtype).type(c.value) for c in general.numbers]
    return general, namespace[source.name], numbers


def compile_kernel(source, function, path, returns=False):
    """Compile one kernel with numba, its types given: nothing is left to inference.

    What it `returns`, if that is not nothing, numba finds out.
    """
    import numba

    kinds = [
        numba.types.Array(numba_type(name), *ndim, "C") if ndim else numba_type(name)
        for name, *ndim in source.signature
    ]
    try:
        dispatcher = numba.njit(
            tuple(kinds) if returns else numba.void(*kinds),
            locals={name: numba_type(d) for name, d in source.locals.items()},
            error_model="numpy",
            nogil=True,
            no_cfunc_wrapper=True,
        )(function)
    except Exception as error:
        if not made_by_compiler(error):
            raise
        reason = str(error).strip().splitlines()[-1:]
        raise MinijitError(
            f"numba does not compile {source.name}, which minijit wrote to {path}: "
            f"{type(error).__name__}: {' '.join(reason)}\n  This is a mistake in "
            'minijit. The function still runs with jit(..., backend="eval").'
        ) from None
    # The compiled code itself: the dispatcher would look up the argument types again.
    result, = dispatcher.overloads.values()
    return result.entry_point


def made_by_compiler(error):
    """Whether numba or what it asks raised it: a signal's handler may, any time."""
    from numba.core.errors import NumbaError

    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    package = innermost.f_globals.get("__name__", "").partition(".")[0]
    known = isinstance(error, (NumbaError, AttributeError))
    return known or package in ("numba", "llvmlite", "minijit")


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
    if aval.dtype == float0:
        array = np.zeros(aval.shape, float0)
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
      body: the kernels and calls that it runs, in order.
      names: of the kernels it launches, in order.
    """

    def __init__(self, program, native, heading):
        self.body = program.body
        self.source = print_program(program, heading())
        self.names = [kernel.name for kernel in self.source.kernels]
        self.path = write_source(self.source.text)
        namespace = {"__name__": f"minijit source {program.name}"}
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
        self.run = namespace[self.source.driver]


loaded: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
# native -> the class that loads a program so.
loaders = {False: LoadedProgram, True: LoadedProgram}


def load(program, native, heading=str):
    """The `LoadedProgram` of a program; one that several call is loaded once.

    Args:
      heading: function without arguments: what is to stand above the source.
    """
    with compiling:
        versions = loaded.setdefault(program, {})
        if native not in versions:
            versions[native] = loaders[native](program, native, heading)
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
        heading = partial(heading_of, weakref.ref(closed))
        self.loaded = load(self.program, native, heading)
        self.run = self.loaded.run
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

    @property
    def source(self):
        return self.loaded.source.text

    @property
    def texts(self):
        """{dialect: function that gives the text} of what else it was compiled from."""
        return getattr(self.loaded, "texts", {})

    @property
    def routes(self):
        """{name of what runs it: the names of the kernels and primitives that it runs}.

        Such as {"llvm": ["kernel_0", "while_0"], "uncompiled": ["sort"]}.
        """
        routes = {}
        for name, route in routes_of(self.program, self.native):
            routes.setdefault(route, []).append(name)
        return routes

    @property
    def path(self):
        return self.loaded.path

    def __repr__(self):
        return f"<{self.program.name}: {len(self.kernels)} kernels, {self.path}>"


def to_array(x, aval):
    """An argument as a NumPy array in row-major order, as kernels take for granted."""
    if aval.dtype == object:
        return boxed(x)
    value = to_numpy(x, aval)
    if aval.dtype == float0:
        return np.zeros(aval.shape, storage_of(float0))
    return value if value.flags.c_contiguous else value.copy()


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
        elif step.routine == "program":
            inner = step.attrs["program"]
            names += [f"{inner.name}/{name}" for name in kernel_names(inner, native)]
    return tuple(names)


# native -> what runs the kernels.
kernel_routes = {False: "plain", True: "numba"}
# routine -> what runs it: where it is native, and where it is not.
call_routes = {"matmul": ("blas", "blas"), "eval": ("uncompiled", "uncompiled")}


def routes_of(program, native):
    """Pairs (name, what runs it) of the kernels and calls of a program, in order."""
    made = load(program, native)
    names = iter(made.names)
    for step in made.body:
        if isinstance(step, Kernel):
            yield next(names), kernel_routes[native]
        elif step.routine == "program":
            yield from routes_of(step.attrs["program"], native)
        else:
            name = str(step.attrs.get("primitive", step.routine))
            yield name, call_routes.get(step.routine, ("plain", "numba"))[bool(native)]


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


def compile_python(closed, name):
    """The executor "python": kernels compiled by numba."""
    return Executable(closed, name, native=True)


def compile_plain(closed, name):
    """The executor "plain": the same source as ordinary Python."""
    return Executable(closed, name, native=False)


def clear_caches():
    """Forget compiled kernels and loaded programs."""
    for cache in (native_kernels, loaded, programs):
        cache.clear()


cache_clearers.append(clear_caches)

executors |= {
    "python": compile_python,
    "plain": compile_plain,
    "default": compile_python,
}
