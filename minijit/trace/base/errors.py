"""The exceptions minijit raises, and the line of the user's program they name.

Every message says what was asked and what came, on which line of the user's own
code, and what to do instead.  The classes carry JAX's names (`jax.errors`), so that
`except` clauses written for JAX keep working.
"""

import contextlib
import inspect
import os
import sys
import textwrap
import threading
from dataclasses import dataclass, field, replace

PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def text_of(x):
    """The repr of a value for a message, which must not fail over what it shows."""
    try:
        return repr(x)
    except Exception as error:
        return f"<{type(x).__name__}, whose repr raises {type(error).__name__}>"


def abridged(x, most=500):
    """The text of a value for an error, which must not run on for pages."""
    text = text_of(x)
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def folded(line, width=100):
    """A line of a report, on as many lines as it takes; the further ones indented."""
    margin = " " * (len(line) - len(line.lstrip()) + 4)
    options = {"break_long_words": False, "break_on_hyphens": False}
    if len(line) <= width:
        return line
    return "\n".join(textwrap.wrap(line, width, subsequent_indent=margin, **options))


@dataclass(frozen=True)
class Source:
    """Where in the user's program something happened.

    Attributes:
      made: the transformations that made an equation of it, such as ("batched",).
    """

    file: str
    line: int
    function: str
    made: tuple = field(default=(), compare=False, repr=False)

    def __str__(self):
        file = "<notebook cell>" if in_notebook(self.file) else self.file
        return f"{file}:{self.line} ({self.function})"

    def text(self):
        """The source line itself, stripped; empty where there is no source."""
        import linecache

        return linecache.getline(self.file, self.line).strip()


def in_notebook(file):
    """Whether `file` is the made-up name that IPython gives a cell."""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def is_running(frame):
    """Whether a frame is this one, or has called it."""
    here = sys._getframe(1)
    while here is not None and here is not frame:
        here = here.f_back
    return here is not None


def frame_of_block():
    """The frame whose `with` block begins by the call of a caller's `__enter__`.

    The block of a context manager written as a generator is that of who uses it.
    """
    frame = sys._getframe(2)
    while frame.f_code.co_flags & inspect.CO_GENERATOR and frame.f_back is not None:
        frame = frame.f_back
        while frame.f_code.co_filename == contextlib.__file__ and frame.f_back:
            frame = frame.f_back
    return frame


class Replayed(threading.local):
    """The line that work is done for, while a recorded program is run again.

    Attributes:
      state: that line, the transformations that are at work on it, and the frame whose
        `with` block says so; Ctrl-C, as such a block ends, may leave it behind.
    """

    state: tuple = None, (), None

    def now(self):
        """The line, or None, and the transformations."""
        source, made, frame = self.state
        if frame is not None and not is_running(frame):
            self.state = source, made, _ = Replayed.state
        return source, made


replayed = Replayed()


# Files and folders whose lines are not the user's; of ours, those whose lines are an
# operator, whoever wrote it, and those that stand between a function and its caller.
left_out = {"files": (PACKAGE, "<frozen"), "operators": (), "wrappers": ()}


def register_exclusion(path):
    """Let a library's file not be taken for the user's program (JAX: same name)."""
    left_out["files"] += (path,)


def user_source():
    """The user's line: of the recorded equation, or the innermost frame outside."""
    source, made = replayed.now()
    if source is not None:
        before = source.made
        if before[len(before) - len(made) :] == made:
            return source
        return replace(source, made=tuple(dict.fromkeys(before + made)))
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(left_out["files"]):
            return Source(file, frame.f_lineno, frame.f_code.co_name, made)
        frame = frame.f_back
    return None


def asked_by_library():
    """Whether the operator or function that runs was called by one of the library's.

    What a user's arrays may do, where a flag says how strict to be, says nothing of
    what our functions do with their own.
    """
    frame, found = sys._getframe(1), False
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        file = frame.f_code.co_filename
        if found and file not in left_out["operators"] + left_out["wrappers"]:
            return True
        frame, found = frame.f_back, found or file in left_out["operators"]
    return False


def user_level():
    """The `stacklevel` with which a warning names the innermost frame outside."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


class on_behalf_of:
    """Whatever is recorded or reported in a `with` block is the line `source`'s."""

    __slots__ = "before", "source"

    def __init__(self, source):
        self.source = source

    def __enter__(self):
        self.before = replayed.state
        if self.source is not None:
            replayed.state = self.source, (), frame_of_block()

    def __exit__(self, *error):
        replayed.state = self.before


class made_as:
    """Whatever is recorded in a `with` block was made by a transformation."""

    __slots__ = "before", "how"

    def __init__(self, how):
        self.how = how

    def __enter__(self):
        self.before = replayed.state
        source, made = replayed.now()
        if self.how not in made:
            replayed.state = source, (*made, self.how), frame_of_block()

    def __exit__(self, *error):
        replayed.state = self.before


def at_line(source):
    """A closing sentence for an error message that shows the user's line."""
    if source is None:
        return ""
    text = source.text()
    return f"\n  at {source}" + (f"\n      {text}" if text else "")


class Here:
    """Stands at the end of a message for the line that the user's program is at."""

    def __str__(self):
        return at_line(user_source())


HERE = Here()


class MinijitError(Exception):
    """Base of the errors that have no better Python type."""


class JaxRuntimeError(RuntimeError):
    """What JAX raises when a compiled program fails; here to be caught by name."""


class JaxprTypeError(TypeError):
    """A jaxpr is ill-formed: `check_jaxpr` says which equation and why."""


class JAXTypeError(TypeError):
    """Base of the errors about traced values that are a TypeError in JAX."""


class JAXIndexError(IndexError):
    """Base of those that are an IndexError."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where Python needs a concrete one."""


class TracerBoolConversionError(ConcretizationTypeError):
    """`if`, `while`, `and`, `assert` on a traced value."""


class TracerIntegerConversionError(JAXTypeError):
    """A traced value used as a Python int: an index of a list, `range(n)`."""


class TracerArrayConversionError(JAXTypeError):
    """A traced value handed to NumPy."""


class NonConcreteBooleanIndexError(JAXIndexError):
    """`x[mask]` with a traced mask: the result's shape would depend on data."""


class UnexpectedTracerError(JAXTypeError):
    """A tracer outlived the function it was made for."""


class KeyReuseError(JAXTypeError):
    """A random key was used twice where that is checked."""


# ---- about tracers: what was asked, on which line, what to do instead
#
# These functions return an error and raise nothing.


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
    "format": (
        ConcretizationTypeError,
        "unsupported format string passed to",
        'print numbers as they become known with `debug.print("{x:.2f}", x=x)`.',
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
