"""Programs for other machines: a function as StableHLO, which XLA compiles and runs.

    exported = minijit.export(f)(x)           # x: an array, or a ShapeDtypeStruct
    print(exported.mlir_module())             # func.func public @main(%x: ...) ...
    exported.call(x)                          # the same program, run here

StableHLO is what JAX, PyTorch and TensorFlow hand to XLA, and what the engines take
that divide a program among many machines.  JAX's function is `jax.export.export`, and
so this module has it under that name too; called itself, the module is the function.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .stablehlo.programs import module_text
from .trace.base import names as _names
from .trace.jit.jit import jit
from .trace.trees.pytree import tree_leaves

_names.publish(globals(), "Exported export is_symbolic_dim")


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


def is_symbolic_dim(dim: Any) -> bool:
    """Whether a size is a symbol: never, since sizes are always known here."""
    del dim
    return False


def jitted(fun: Any) -> Any:
    return fun if hasattr(fun, "lower") else jit(fun)


class CallableModule(ModuleType):
    """`minijit.export(f)` means `minijit.export.export(f)`."""

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Exported]:
        return export(fun)


sys.modules[__name__].__class__ = CallableModule
