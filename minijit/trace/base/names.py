"""The names that users see: what `dir` lists, and what a missing one of JAX's says.

    publish(globals(), "relu gelu softmax")     # ends a module for users

    dir(minijit.nn)                 # the public names, and only those
    minijit.nn.scaled_matmul
    # AttributeError: minijit.nn has no 'scaled_matmul', which JAX has: numbers of
    # 8 bits and fewer are stored here, and not multiplied. Instead: ...

`from minijit.nn import scaled_matmul` says only what Python says.
"""

import ast
import functools
import linecache
import re
import sys
import textwrap
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


@functools.cache
def later_imports(module):
    """{name: (module, name there)} of what a module imports for type checkers only.

    For programs that is imported once they ask for it: said once, and typed.
    """
    namespace = vars(sys.modules[module])
    source = "".join(linecache.getlines(namespace["__file__"], namespace))
    if not source:
        told = "minijit reads from its source what it imports later: install that, too"
        raise ImportError(f"{namespace['__file__']} has no source: {told}", name=module)
    blocks = re.findall(r"^if .*TYPE_CHECKING:.*\n((?: .*\n|\n)+)", source, re.M)
    found = {}
    for statement in ast.parse("".join(map(textwrap.dedent, blocks))).body:
        assert isinstance(statement, ast.ImportFrom)
        path = sys.modules[module].__package__.split(".")
        path = path[: len(path) - statement.level + 1] + [statement.module or ""]
        place = ".".join(filter(None, path[1:]))
        found |= {x.asname or x.name: (place, x.name) for x in statement.names}
    return found


def front(namespace, names, fetched=lambda found: None):
    """Make `__dir__` and `__getattr__` of a module (PEP 562), and return them.

    A module that assigns them tells type checkers that it has more names than they see.

    Args:
      namespace: its `globals()`.
      names: a list of its public names, or a function without arguments that gives it;
        `later_imports` are others.
      fetched: may change a dict of those that came of one module, before it is used.
    """
    module = namespace["__name__"]

    def listed():
        known = names() if callable(names) else names
        return sorted({*known, *later_imports(module)})

    def missing(name):
        if name == "__all__":
            return listed()
        # `from . import numpy` asks for it before it imports it.
        importing = getattr(sys.modules[module].__spec__, "_initializing", False)
        if importing or name not in later_imports(module):
            message = no_such_name(module, name, importing)
            raise AttributeError(message, name=name, obj=sys.modules[module])
        place, own = later_imports(module)[name]
        home = fetch(place)
        if vars(home) is not namespace and hasattr(home, own):
            same = [(n, o) for n, (p, o) in later_imports(module).items() if p == place]
            found = {n: getattr(home, o) for n, o in same if hasattr(home, o)}
            fetched(found)
        else:
            found = {name: fetch(f"{place}.{own}".strip("."))}
        for name_there, x in found.items():  # A module that can be called is there.
            namespace.setdefault(name_there, x)
        return namespace[name]

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


def no_such_name(module, name, importing):
    """The message for a name that a module does not have."""
    if importing or name.startswith("_"):
        return f"module {module!r} has no attribute {name!r}"
    return fetch("jaxcompat.missing:no_such_name")(module, name)
