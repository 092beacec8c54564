"""What a call's trace depends on: its arguments, sorted and made into a key.

The key of a call is the structure of its traced arguments, the shape, dtype and weak
type of each array in them, the values of its static arguments, and the flags that
change traces.
"""

import functools
import inspect
from dataclasses import dataclass

from ..arguments import argument_names, leaf_avals, whole_type
from ..array import ArrayImpl, ShapedArray
from ..base.demand import add_rows
from ..base.errors import HERE, leaked_tracer
from ..core import Tracer, current
from ..jaxprs.jaxpr import encloses
from ..trees.paths import tree_leaves_with_path
from ..trees.pytree import keystr, tree_flatten
from .captures import scalar_key, show
from .refs import Ref


@dataclass(frozen=True)
class Options:
    """What `jit` was told: its arguments of the same names, made uniform."""

    static_argnums: tuple = ()
    static_argnames: tuple = ()
    donate_argnums: tuple = ()
    donate_argnames: tuple = ()
    inline: bool = False
    keep_unused: bool = False
    max_traces: int | None = None
    globals: str | None = None
    executor: str = "default"


def resolve_arguments(function, argnums, argnames, kind):
    """Positions and names of the same arguments, by the function's signature.

    Args:
      argnums: int, ints or None, counted from the end where negative.
      argnames: str, strs or None.
      kind: "static" or "donate", for messages.

    Returns:
      (tuple of positions, tuple of names): given one of the two, JAX infers the other.
    """
    nums = (argnums,) if hasattr(argnums, "__index__") else tuple(argnums or ())
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames or ())
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return nums, names
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, EITHER)]
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        check_argnums(nums, len(positional), kind)
        nums = tuple(i % len(positional) for i in nums)
    check_argnames(names, parameters, kind)
    if argnames is None:
        both = [p.name for p in parameters if p.kind is EITHER]
        names = tuple(n for n in both if positional.index(n) in nums)
    elif argnums is None:
        nums = tuple(i for i, name in enumerate(positional) if name in names)
    return nums, names


EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
GLOBALS_MODES = ("ignore", "warn", "retrace", "raise")


def check_argnums(nums, count, kind):
    """Raise ValueError for positions that the function does not have."""
    if any(not -count <= i < count for i in nums):
        raise ValueError(
            f"Jitted function has {kind}_argnums={nums}, but only accepts {count} "
            "positional arguments."
        )


def check_argnames(names, parameters, kind):
    """Raise ValueError for names that the function does not take as keywords."""
    known = [p.name for p in parameters if p.kind in (EITHER, p.KEYWORD_ONLY)]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        others = {p.name for p in parameters} - {*known}
        known += [name for name in names if name not in others]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"Jitted function has invalid argnames {{{str(unknown)[1:-1]}}} in "
            f"{kind}_argnames. Function does not take these args: it takes "
            f"{', '.join(known)}."
        )


def check_options(
    fun, executors, static_argnums, static_argnames, donate_argnums, donate_argnames,
    globals, backend, device, in_shardings, out_shardings, compiler_options, **rest,
):  # fmt: skip
    """The arguments of `jit`, checked, as `Options`; raises TypeError or ValueError.

    Args:
      executors: the backends there are, by name.
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    if isinstance(fun, staticmethod):
        raise TypeError(
            "staticmethod arguments are not supported: jit is to stand inside of "
            f"@staticmethod, not around it, got {fun!r}"
        )
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {fun!r}")
    if globals not in (None, *GLOBALS_MODES):
        raise ValueError(f"globals must be one of {GLOBALS_MODES}, got {globals!r}")
    static = resolve_arguments(fun, static_argnums, static_argnames, "static")
    donate = resolve_arguments(fun, donate_argnums, donate_argnames, "donate")
    both = {*static[0], *static[1]} & {*donate[0], *donate[1]}
    if both:
        raise ValueError(f"arguments cannot be both static and donated: {both}")
    executor = "default" if backend in (None, "cpu") else backend
    if executor not in executors:
        add_rows("trace.jit.jit")
    if executor not in executors:
        raise ValueError(f"unknown backend {backend!r}; there are {[*executors]}")
    rest |= {name: bool(rest[name]) for name in ("inline", "keep_unused")}
    return Options(*static, *donate, globals=globals, executor=executor, **rest)


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of one call, sorted into traced and static ones.

    Attributes:
      args, kwargs: those that are traced.
      statics: {position or name: value}.
      count: how many positional arguments there were.
    """

    args: tuple
    kwargs: dict
    statics: dict
    count: int

    def full(self, args, kwargs):
        """All arguments, with `args` and `kwargs` in place of the traced ones."""
        traced = iter(args)
        static = self.statics
        every = [static[i] if i in static else next(traced) for i in range(self.count)]
        named = {k: v for k, v in static.items() if isinstance(k, str)}
        return every, {**kwargs, **named}

    def named(self, function):
        """-> (names of the traced arguments in flattening order, {name: static})."""
        every, named = self.full(self.args, self.kwargs)
        names = argument_names(function, every, named)[: self.count]
        traced = [name for i, name in enumerate(names) if i not in self.statics]
        statics = {
            names[k] if isinstance(k, int) else k: v for k, v in self.statics.items()
        }
        return traced + sorted(self.kwargs), statics


def sort_arguments(options, args, kwargs):
    """A call's arguments as a `Call`."""
    n = len(args)
    if not (options.static_argnums or options.static_argnames):
        return Call(args, kwargs, {}, n)
    nums = {i % n for i in options.static_argnums if -n <= i < n}
    statics = {i: x for i, x in enumerate(args) if i in nums}
    statics |= {k: v for k, v in kwargs.items() if k in options.static_argnames}
    return Call(
        tuple(x for i, x in enumerate(args) if i not in nums),
        {k: v for k, v in kwargs.items() if k not in statics}, statics, n,
    )


def flatten_arguments(args, kwargs):
    """The leaves of traced arguments and their structure: that of (args, kwargs)."""
    if kwargs or not all(type(x) is ArrayImpl for x in args):
        return tree_flatten((args, kwargs))
    return args, flat_tree(len(args))


@functools.lru_cache(maxsize=256)
def flat_tree(n):
    """The structure of (args, kwargs) for n arrays: most calls are of this kind."""
    return tree_flatten(((0,) * n, {}))[1]


def leaf_key(x):
    """What a trace depends on of one leaf: its type, and whether it is a ref."""
    if isinstance(x, ArrayImpl):
        aval = x.aval
    elif isinstance(x, Tracer):
        if not encloses(current.trace, x.owner):
            raise leaked_tracer("a jitted function", x)
        aval = x.aval
    elif isinstance(x, Ref):
        return x.shape, x.dtype, x.weak_type, Ref
    else:
        aval, = leaf_avals([x], ["?"], leaf_key)
    key = aval.shape, aval.dtype, aval.weak_type
    # The dtypes of types without elements are equal.
    return (*key, aval) if aval.dtype == object else key


def aval_of_leaf(x):
    """The aval of a leaf that `leaf_key` has accepted."""
    return whole_type(ShapedArray(*leaf_key(x)[:3]))


def leaf_names(function, call):
    """The names of the traced leaves: `params['w']`."""
    names, statics = call.named(function)
    values = [*call.args, *(call.kwargs[k] for k in sorted(call.kwargs))]
    return [
        name + keystr(path)
        for name, value in zip(names, values, strict=True)
        for path, leaf in tree_leaves_with_path(value)
    ]


def static_key(function, call):
    """The key of the static arguments; types count too, as 1 == 1.0 == True."""
    key = []
    for where, value in call.statics.items():
        try:
            hash(value)
        except TypeError as error:
            raise unhashable_static(function, call, where, error) from None
        key.append((where, type(value), scalar_key(value) or value))
    return tuple(key)


def unhashable_static(function, call, where, error):
    """The error for a static argument that cannot be looked up in a dict."""
    name = where
    if isinstance(where, int):
        name = argument_names(function, *call.full(call.args, call.kwargs))[where]
    value = call.statics[where]
    return ValueError(
        "Non-hashable static arguments are not supported. An error occurred while "
        f"trying to hash the argument {name}, an object of type {type(value)}, "
        f"{show(value)}. The error was:\nTypeError: {error}{HERE}"
        "\n  Instead: pass something hashable (a tuple for a list), or, if it is an "
        "array, pass it as an ordinary argument, which is traced."
    )
