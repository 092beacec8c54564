"""Kernels compiled by numba, from the Python that is printed for them."""

from types import FunctionType

from .kernel_cache import compiled_once
from .numba_errors import compiler_errors
from .numba_scalars import native_functions


def numba_type(name):
    """numba's type for a dtype's name."""
    import numba

    return getattr(numba.types, "boolean" if name == "bool" else name)


def compile_kernel(source, function, path, returns=False):
    """Compile one kernel with numba, its types given: nothing is left to inference.

    What it `returns`, if that is not nothing, numba finds out.
    """
    import numba

    kinds = [
        numba.types.Array(numba_type(name), *ndim, "C") if ndim else numba_type(name)
        for name, *ndim in source.signature
    ]
    with compiler_errors(source.name, path):
        dispatcher = numba.njit(
            tuple(kinds) if returns else numba.void(*kinds),
            locals={name: numba_type(d) for name, d in source.locals.items()},
            error_model="numpy",
            nogil=True,
            no_cfunc_wrapper=True,
        )(function)
    # The compiled code itself: the dispatcher would look up the argument types again.
    result, = dispatcher.overloads.values()
    return result.entry_point


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
