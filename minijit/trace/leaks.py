"""Leaked tracers: what holds one after its trace is over, and which line made it.

    history = []

    @jit
    def f(x):
        history.append(x)
        return 2 * x

    with checking_leaks():
        f(1.0)    # UnexpectedTracerError: ... is held by `history[0]`, a global of ...
"""

import gc
import sys
import types

from .captures import is_library
from .errors import PACKAGE, UnexpectedTracerError
from .jaxpr import JaxprTracer


def check_leaks(trace):
    """Raise `UnexpectedTracerError` if something still holds a tracer of `trace`."""
    gc.collect()
    leaked = [x for x in gc.get_objects() if is_tracer_of(x, trace)]
    if not leaked:
        return
    names = variable_names()
    told = "".join(f"\n  {describe_leak(trace, x, names)}" for x in leaked[:5])
    values = "a traced value" if len(leaked) == 1 else f"{len(leaked)} traced values"
    raise UnexpectedTracerError(
        f"{trace.info.name} leaked {values}: what stands for a value only while the "
        f"function is traced for {trace.info.kind} was kept.{told}\n"
        "  Instead: return the value from the function, and keep what the call returns."
    )


def is_tracer_of(x, trace):
    """Whether x is a tracer of this trace."""
    return type(x) is JaxprTracer and x.trace is trace


def describe_leak(trace, tracer, names):
    """Who holds the tracer, and which line made it."""
    holder = " and ".join(holders(tracer, names)) or "an object without a name"
    if tracer.source is None:
        made = f"the argument {', '.join(trace.arguments_behind(tracer.var))}"
        return f"{tracer.aval}, {made}: held by {holder}"
    made = f"computed at {tracer.source}"
    return f"{tracer.aval}, {made}: held by {holder}\n      {tracer.source.text()}"


def variable_names():
    """{id: (name, where)} of the values of all globals and local variables."""
    names = {}
    for module_name, module in list(sys.modules.items()):
        namespace = getattr(module, "__dict__", {})
        file = namespace.get("__file__")
        if module_name == "__main__" or file and not is_library(file):
            where = f"a global of {module_name}"
            names |= {id(value): (key, where) for key, value in namespace.items()}
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            where = f"a variable of {frame.f_code.co_name}"
            for key, value in frame.f_locals.items():
                names.setdefault(id(value), (key, where))
        frame = frame.f_back
    return names


def holders(tracer, names):
    """Ways to reach the tracer by name: ["`history[0]`, a global of __main__"]."""
    found, seen = set(), {id(tracer), id(names)}
    # Pairs of an object and how one gets from it to the tracer.
    todo = [(tracer, "")]
    for x, path in todo:
        if id(x) in names:
            name, where = names[id(x)]
            found.add(f"`{name}{path}`, {where}")
        elif path.count("[") + path.count(".") < 8 and len(todo) < 1000:
            for y, step in referrers(x):
                if isinstance(y, types.FunctionType):
                    found.add(f"the captured variable `{step}{path}` of {y.__name__}")
                elif id(y) not in seen:
                    seen.add(id(y))
                    todo.append((y, step + path))
    return sorted(found)[:3]


def referrers(x):
    """[(object, how one gets from it to x)]: `("[0]", ".weights")`."""
    found = []
    for y in gc.get_referrers(x):
        if isinstance(y, dict):
            found += [attribute_or_item(y, k) for k, v in y.items() if v is x]
        elif isinstance(y, (list, tuple)):
            found += [(y, f"[{i}]") for i, v in enumerate(y) if v is x]
        elif isinstance(y, types.CellType):
            found += functions_of(y)
        elif not isinstance(y, types.FrameType):
            slots = getattr(type(y), "__slots__", ())
            attributes = {k: getattr(y, k, None) for k in slots}
            attributes |= getattr(y, "__dict__", {})
            found += [(y, f".{k}") for k, v in attributes.items() if v is x]
    return found


def attribute_or_item(namespace, key):
    """The object whose attributes a dict holds, or else the dict itself."""
    for owner in gc.get_referrers(namespace):
        if getattr(owner, "__dict__", None) is namespace:
            return owner, f".{key}"
    return namespace, f"[{key!r}]"


def functions_of(cell):
    """[(function, name of the variable)] of the functions that captured a cell."""
    found = []
    for closure in gc.get_referrers(cell):
        for function in gc.get_referrers(closure):
            if getattr(function, "__closure__", None) is closure:
                names = function.__code__.co_freevars
                found += [
                    (function, name)
                    for name, c in zip(names, closure, strict=True)
                    if c is cell
                ]
    return found
