"""The names that users see: what `dir` lists, and what a missing one of JAX's says.

    publish(globals(), "relu gelu softmax")     # ends a module for users

    dir(minijit.nn)                 # the public names, and only those
    minijit.nn.scaled_matmul
    # AttributeError: minijit.nn has no 'scaled_matmul', which JAX has: numbers of
    # 8 bits and fewer are stored here, and not multiplied. Instead: ...

`from minijit.nn import scaled_matmul` says only what Python says.
"""

import sys
import types

from .demand import fetch, inner_parts, public_name


def public_names(namespace, besides=""):
    """The names of a module for users: none with `_` in front, and no inner module.

    Args:
      namespace: the module's dict.
      besides: names that are not for users, as one text.
    """
    left_out = besides.split()
    return [
        name
        for name, x in namespace.items()
        if not name.startswith("_") and name not in left_out and is_public(x)
    ]


def is_public(x):
    """Whether `x` is no module, or one that users know: minijit.random."""
    if not isinstance(x, types.ModuleType):
        return True
    package, *parts = public_name(x.__name__).split(".")
    mine = package == __name__.partition(".")[0]
    return mine and len(parts) == 1 and parts[0] not in inner_parts


def front(namespace, names, on_demand=()):
    """Make `__dir__` and `__getattr__` of a module (PEP 562), and return them.

    A module that assigns them tells type checkers that it has more names than they see.

    Args:
      namespace: its `globals()`.
      names: a list of its public names, or a function without arguments that gives it.
      on_demand: texts that say what is imported when it is first asked for: the name of
        a module within it, or "run.report.explaining:explain" for one that users know
        as its.
    """
    module = namespace["__name__"]

    def listed():
        later = (place.rpartition(":")[2] for place in on_demand)
        return sorted({*(names() if callable(names) else names), *later})

    def missing(name):
        if name == "__all__":
            return listed()
        if name in on_demand:
            return fetch(f"{module}.{name}".partition(".")[2])
        for place in on_demand:
            if place.endswith(f":{name}"):
                found = vars(sys.modules[module])[name] = fetch(place)
                return found
        message = no_such_name(module, name)
        raise AttributeError(message, name=name, obj=sys.modules[module])

    namespace.update(__dir__=listed, __getattr__=missing)
    return listed, missing


def publish(namespace, names=None):
    """End a module for users: make its `__all__`, `__dir__` and `__getattr__`.

    Args:
      namespace: its `globals()`.
      names: what it has for users, as one text; by default all `public_names`.
    """
    listed = public_names(namespace) if names is None else names.split()
    namespace["__all__"] = listed
    front(namespace, listed)


def no_such_name(module, name):
    """The message for a name that a module does not have."""
    # `from . import numpy` asks for it before it imports it.
    importing = getattr(sys.modules[module].__spec__, "_initializing", False)
    if importing or name.startswith("_"):
        return f"module {module!r} has no attribute {name!r}"
    return fetch("jaxcompat.missing:no_such_name")(module, name)
