"""What errors about tracers say: what was asked, on which line, what to do instead.

`core.py` raises them.  Each function here returns the error and raises nothing.
"""

from .errors import (
    HERE,
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)


def conversion_error(tracer, use):
    """The error for asking Python's `use` (`bool`, `int`, ...) of a tracer."""
    kind, asked, advice = conversion_advice[use]
    return kind(
        f"{asked} traced array of type {tracer.aval}, whose value is not known while "
        f"the function is traced.{tracer.origin()}{HERE}\n  Instead: {advice}"
    )


static = "mark the argument it comes from with static_argnums or static_argnames"

conversion_advice = {
    "bool": (
        TracerBoolConversionError,
        "Attempted boolean conversion of",
        "choose with `jnp.where(condition, a, b)` or `lax.cond`, loop with "
        f"`lax.while_loop`, or {static}.",
    ),
    "index": (
        TracerIntegerConversionError,
        "The __index__() method was called on",
        "index an array (`jnp.asarray(values)[i]`) and not a list, loop with "
        f"`lax.fori_loop`; where a shape or a range needs the number, {static}.",
    ),
    "numpy": (
        TracerArrayConversionError,
        "The numpy.ndarray conversion method __array__() was called on",
        "call the function of the same name in `minijit.numpy`; for arithmetic on "
        "shapes use plain `np` on `x.shape`.",
    ),
} | {
    use: (
        ConcretizationTypeError,
        "Abstract tracer value encountered where concrete value is expected: "
        f"{use}() was called on",
        f"convert with `x.astype(...)`, which stays traced, or {static}.",
    )
    for use in ("int", "float", "complex", "item", "tolist")
}


def leaked_tracer(where, tracer):
    """The error for a tracer met after the function it stood in has returned."""
    return UnexpectedTracerError(
        f"Encountered an unexpected tracer. {where} was given a leaked tracer of "
        f"type {tracer.aval}: it stood for a "
        "value inside a function that was being traced, was kept (in a global, a "
        "list, an attribute), and that tracing is over, so there is no value behind "
        f"it.{tracer.origin()}{HERE}\n"
        "  Instead: return the value from the function. `minijit.checking_leaks()` "
        "finds the line that keeps it."
    )


def ambiguous_truth(tracer):
    """The error for `if x:` on an array with more than one element, or with none."""
    return ValueError(
        f"The truth value of an array of type {tracer.aval} is ambiguous"
        f"{HERE}\n  Instead: use x.any() or x.all()."
    )
