"""What is said when numba does not compile what minijit wrote."""

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
