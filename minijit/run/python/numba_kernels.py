"""Kernels compiled by numba, from the Python that is printed for them."""

from contextlib import contextmanager

from ...trace.base.errors import MinijitError


@contextmanager
def compiler_errors(name, path):
    """Around a compilation: the compiler's errors say what to do about them.

    Args:
      name: of the kernel; path: of the file that it stands in.

    Raises:
      MinijitError: numba failed.
    """
    try:
        yield
    except Exception as error:
        if not made_by_compiler(error):
            raise
        reason = str(error).strip().splitlines()[-1:]
        raise MinijitError(
            f"numba does not compile {name}, which minijit wrote to {path}: "
            f"{type(error).__name__}: {' '.join(reason)}\n  This is a mistake in "
            'minijit. The function still runs with jit(..., backend="eval").'
        ) from None


def made_by_compiler(error):
    """Whether numba or what it asks raised it: a signal's handler may, any time."""
    import traceback

    from numba.core.errors import NumbaError

    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    package = innermost.f_globals.get("__name__", "").partition(".")[0]
    known = isinstance(error, (NumbaError, AttributeError))
    return known or package in ("numba", "llvmlite", "minijit")


def numba_type(name):
    """numba's type for a dtype's name."""
    import numba

    return getattr(numba.types, "boolean" if name == "bool" else name)


def numba_kinds(signature):
    """numba's types for (dtype name, number of axes), or of a number (dtype name,)."""
    import numba

    return tuple(
        numba.types.Array(numba_type(name), *ndim, "C") if ndim else numba_type(name)
        for name, *ndim in signature
    )


def compile_kernel(source, function, path, **more):
    """Compile one kernel with numba, its types given: nothing is left to inference."""
    import numba

    with compiler_errors(source.name, path):
        return numba.njit(
            numba_kinds(source.signature),
            locals={name: numba_type(d) for name, d in source.locals.items()},
            error_model="numpy",
            nogil=True,
            no_cfunc_wrapper=True,
            **more,
        )(function)
