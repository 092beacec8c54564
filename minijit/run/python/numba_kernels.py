"""Kernels compiled by numba, from the Python that is printed for them."""

from .numba_errors import compiler_errors


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


# chapter 16
def compile_kernel(source, function, path):
    """Compile one kernel with numba, its types given: nothing is left to inference."""
    import numba

    kinds = numba_kinds(source.signature)
    with compiler_errors(source.name, path):
        dispatcher = numba.njit(
            numba.void(*kinds),
            locals={name: numba_type(d) for name, d in source.locals.items()},
            error_model="numpy",
            nogil=True,
            no_cfunc_wrapper=True,
        )(function)
    # The compiled code itself: the dispatcher would look up the argument types again.
    result, = dispatcher.overloads.values()
    return result.entry_point
