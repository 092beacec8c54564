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
import re
import sys
import types

from ..arguments import arguments_behind
from ..base.config import config
from ..base.errors import PACKAGE, UnexpectedTracerError
from ..jaxprs.jaxpr import JaxprTracer
from .captures import is_library
from .jit import trace_checks


def check_leaks(trace):
    """Raise `UnexpectedTracerError` if something still holds a tracer of `trace`.

    Does nothing unless `checking_leaks` is in force: it looks at the whole heap.
    """
    if not config.check_tracer_leaks:
        return
    # Inner functions traced within this one are kept with it, and go with it.
    vars(trace).pop("inner_traces", None)
    gc.collect()
    everything = gc.get_objects()
    leaked = [x for x in everything if type(x) is JaxprTracer and x.owner is trace]
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


trace_checks += [check_leaks]


def describe_leak(trace, tracer, names):
    """Who holds the tracer, and which line made it."""
    holder = " and ".join(holders(tracer, names)) or "an object without a name"
    if tracer.source is None:
        made = f"the argument {', '.join(arguments_behind(trace, tracer.variable))}"
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
            names |= {id(v): (key, where) for key, v in named_values(namespace)}
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            where = f"a variable of {frame.f_code.co_name}"
            for key, value in named_values(frame.f_locals):
                names.setdefault(id(value), (key, where))
        frame = frame.f_back
    return names


# The names under which IPython keeps what was typed and printed.
HISTORY = re.compile(r"_+|_i*\d*|_[oid]h|In|Out")


def named_values(namespace):
    """The items of a namespace, as far as a person gave them their names."""
    return [(k, v) for k, v in list(namespace.items()) if not HISTORY.fullmatch(k)]


def holders(tracer, names):
    """The shortest ways to reach the tracer from a name.

    Returns:
      A list such as ["`history[0]`, a global of __main__"].
    """
    found, objects, paths = set(), [tracer], {id(tracer): ()}
    seen = set(paths)
    for _ in range(8):
        for x in objects:
            if id(x) in names:
                name, where = names[id(x)]
                found.add(f"`{name}{''.join(paths[id(x)])}`, {where}")
            elif isinstance(x, types.FunctionType):
                variable, *path = paths[id(x)]
                way = "".join([variable, *path])
                found.add(f"the captured variable `{way}` of {x.__name__}")
        if found:
            break
        objects, paths = referrers(objects, paths, seen)
    return sorted(found)[:3]


def referrers(objects, paths, seen):
    """The objects that hold one of `objects`, and the way from each to the tracer.

    All at once, as every question to the garbage collector goes through the heap.
    """
    found, ways = [], {}
    for y in gc.get_referrers(*objects):
        if y is objects or id(y) in seen or isinstance(y, types.FrameType):
            continue
        way = way_from(y, paths)
        if way is not None and len(found) < 1000:
            seen.add(id(y))
            found.append(y)
            ways[id(y)] = way
    return found, ways


def way_from(y, paths):
    """How one gets from y to the tracer: ("[0]", ".weights"); None if one does not."""
    if isinstance(y, types.CellType):
        return paths.get(id(y.cell_contents))
    if isinstance(y, types.FunctionType):
        # The tuple of its cells comes before: the first step there tells which.
        way = paths.get(id(y.__closure__))
        return way and (y.__code__.co_freevars[int(way[0][1:-1])], *way[1:])
    if isinstance(y, dict):
        steps = [(v, f"[{k!r}]") for k, v in y.items()]
    elif isinstance(y, (list, tuple)):
        steps = [(v, f"[{i}]") for i, v in enumerate(y)]
    else:
        names = (*getattr(type(y), "__slots__", ()), *getattr(y, "__dict__", {}))
        steps = [(getattr(y, name, None), f".{name}") for name in names]
        if id(getattr(y, "__dict__", None)) in paths:
            (key, *way) = paths[id(y.__dict__)]
            return f".{key[2:-2]}", *way
    for value, step in steps:
        if id(value) in paths:
            return step, *paths[id(value)]
    return None
