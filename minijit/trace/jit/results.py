"""What a traced function may return: arrays, numbers, and trees of them."""

from ..arguments import function_name, function_source
from ..array import is_array_like
from ..trees.keys import keystr
from .refs import Ref, returned_ref


def check_results(function, leaves_with_path):
    """Raise an error for a result that is no array, naming where it is."""
    for path, leaf in leaves_with_path:
        if isinstance(leaf, Ref):
            raise returned_ref(leaf, keystr(path))
        if not is_array_like(leaf):
            place = f" at output component {keystr(path)}" if path else ""
            raise TypeError(
                f"function {function_name(function)} at {function_source(function)} "
                f"traced for jit returned a value of type {type(leaf)}{place}, which "
                "is not a valid JAX type\n  Instead: return arrays, numbers, and trees "
                "of them; compute the rest outside the jitted function."
            )


# Functions of a trace that is over; they may raise.
trace_checks: list = []


def trace_is_over(trace):
    """Have everything that looks at a trace when it is over look at this one."""
    for check in trace_checks:
        check(trace)
