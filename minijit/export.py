"""Programs for other machines: a function as StableHLO, which XLA compiles and runs.

    exported = minijit.export(f)(x)           # x: an array, or a ShapeDtypeStruct
    print(exported.mlir_module())             # func.func public @main(%x: ...) ...
    exported.call(x)                          # the same program, run here

StableHLO is what JAX, PyTorch and TensorFlow hand to XLA, and what the engines take
that divide a program among many machines.  JAX's function is `jax.export.export`, and
so this module has it under that name too; called itself, the module is the function.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .stablehlo.programs import module_text
from .trace.api import stages
from .trace.base import names as _names
from .trace.jit.jit import jit
from .trace.trees.pytree import tree_leaves, tree_map

_names.publish(globals(), """
    Exported SymbolicDim eval_shape export is_symbolic_dim symbolic_shape
""")


class Exported:
    """A function traced for arguments of some types.  JAX: `jax.export.Exported`.

    Attributes:
      fun_name: the function's name.
      in_tree, out_tree: the structures of (args, kwargs) and of the result.
      in_avals, out_avals: the types of their leaves: flat tuples, as JAX has them.
    """

    def __init__(self, lowered: Any) -> None:
        self._lowered = lowered
        self.fun_name = lowered.fun_name
        self.in_tree, self.out_tree = lowered.in_tree, lowered.out_tree
        self.in_avals = tuple(tree_leaves(lowered.in_avals))
        self.out_avals = tuple(lowered.jaxpr.out_avals)

    def __repr__(self) -> str:
        types = ", ".join(a.str_short() for a in self.in_avals)
        return f"Exported({self.fun_name}: {types})"

    def mlir_module(self) -> str:
        """The program as the text of a StableHLO module, with a function @main.

        Its arguments are the leaves of (args, kwargs), and its results those of the
        result.  A key of random numbers is a `ui64`, and a float0 an `i1`.

        Raises:
          NotImplementedError: StableHLO cannot say what an equation does; the message
            has its name, the reason, and the user's line.
        """
        return module_text(self._lowered.jaxpr, self.fun_name)

    @functools.cached_property
    def call(self) -> Callable[..., Any]:
        """The same program compiled to run here, for arguments of these types only."""
        return self._lowered.compile()


def export(fun: Callable[..., Any]) -> Callable[..., Exported]:
    """A function that traces `fun` for arguments: -> `Exported`.

    Args:
      fun: a function of trees of arrays, jitted or not; with static arguments it is
        jitted, so that `jit` knows of them.

    The arguments are arrays, numbers, or `ShapeDtypeStruct`s.  JAX:
    `jax.export.export`, whose functions have to be jitted.
    """
    return lambda *args, **kwargs: Exported(jitted(fun).lower(*args, **kwargs))


def compiler_ir(lowered: Any, dialect: str | None = None) -> str:
    """`Lowered.compiler_ir`: StableHLO text; JAX has an object that prints so.

    Raises ValueError for another dialect.
    """
    if dialect not in (None, "stablehlo"):
        raise ValueError(
            f"unknown dialect: {dialect}. Programs are compiled without XLA, and have "
            'no other text for it than compiler_ir("stablehlo"), which XLA compiles; '
            "lower().compile().as_text() is the loop program that runs here"
        )
    return module_text(lowered.jaxpr, lowered.fun_name)


def jitted(fun: Any) -> Any:
    return fun if hasattr(fun, "lower") else jit(fun)


class SymbolicDim:
    """A size with a name, which stands for two numbers.  Equal if these are.

    Attributes:
      name: a text such as "n".
      sizes: the two numbers, with which `eval_shape` tries a function.
    """

    is_size = True

    def __init__(self, name: str, sizes: tuple[int, int]) -> None:
        self.name, self.sizes = name, sizes

    def __repr__(self) -> str:
        return self.name

    def __index__(self) -> int:
        raise TypeError(
            f"the size {self.name} is no number, and only export.eval_shape takes "
            "names: a program is compiled for sizes that are known"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicDim) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)


def is_symbolic_dim(dim: Any) -> bool:
    """Whether a size is a name.  JAX: `jax.export.is_symbolic_dim`."""
    return isinstance(dim, SymbolicDim)


# The names there are.  No two have the same numbers.
named: dict[str, SymbolicDim] = {}


def both_values(text: str) -> Iterator[Any]:
    """What an expression of names is for their first and for their second numbers."""
    names = re.findall(r"[A-Za-z_]\w*", text)
    for name in names:
        first = 251 + 6 * len(named)
        named.setdefault(name, SymbolicDim(name, (first, 2 * first + 7)))
    for i in (0, 1):
        numbers = {name: named[name].sizes[i] for name in names}
        yield eval(text, numbers | {"__builtins__": {}})


def symbolic_shape(
    shape_spec: str, *, constraints: Sequence[str] = (), scope: Any = None
) -> tuple[Any, ...]:
    """The sizes of a text such as "n, 2*n, 3", for `eval_shape`.

    Args:
      constraints: texts such as "n >= 2".
      scope: for JAX's sake: a name is the same size everywhere.

    Returns: a tuple of numbers and `SymbolicDim`s.  JAX: `jax.export.symbolic_shape`.

    Raises:
      NotImplementedError: the numbers that are tried do not meet the constraints.
    """
    del scope
    for text in constraints:
        if not all(both_values(text)):
            raise NotImplementedError(f"{text!r} is not so of the sizes that are tried")
    terms = [term.strip() for term in shape_spec.strip(" ()").split(",")]
    return tuple(size_of(term, *both_values(term)) for term in terms if term)


def size_of(name: str, *sizes: Any) -> Any:
    """The size that is the first number once and the second the other time."""
    known = {dim.sizes: dim for dim in named.values()}
    if sizes[0] == sizes[1]:
        return sizes[0]
    return known.get(sizes) or SymbolicDim(name, sizes)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`minijit.eval_shape`; sizes of the `ShapeDtypeStruct`s may have names.

        n, = export.symbolic_shape("n")
        x = ShapeDtypeStruct((n, 3), "float32")
        export.eval_shape(lambda x: x.T, x)     # ShapeDtypeStruct(shape=(3, n), ...)

    A program is traced for sizes that are numbers.  So it is traced twice, and a size
    of the result that differs depends on the names: it is a `SymbolicDim` again.
    """
    given = tree_leaves((args, kwargs))
    structs = [x for x in given if isinstance(x, stages.ShapeDtypeStruct)]
    names = {str(d) for x in structs for d in x.shape if is_symbolic_dim(d)}
    if not names:
        return stages.eval_shape(fun, *args, **kwargs)

    def sized(i: int, x: Any) -> Any:
        if not isinstance(x, stages.ShapeDtypeStruct):
            return x
        shape = [d.sizes[i] if is_symbolic_dim(d) else d for d in x.shape]
        return x.update(shape=shape)

    def traced(i: int) -> Any:
        numbers, keywords = tree_map(functools.partial(sized, i), (args, kwargs))
        return stages.eval_shape(fun, *numbers, **keywords)

    unknown = functools.partial(size_of, f"f({', '.join(sorted(names))})")
    joined = lambda x, y: x.update(shape=[*map(unknown, x.shape, y.shape)])
    return tree_map(joined, traced(0), traced(1))


class CallableModule(ModuleType):
    """`minijit.export(f)` means `minijit.export.export(f)`."""

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Exported]:
        return export(fun)


sys.modules[__name__].__class__ = CallableModule
