"""`stubs`: the types of `minijit`'s own functions, for editors and type checkers.

The signatures are those of the functions.  What an argument may be says the table by
which errors name wrong ones, `kinds` in `trace/api/calls.py`.  All other functions say
it themselves, in their heads.
"""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Any

# What an argument is called by in `calls.kinds` -> its type.
TYPES = {
    "an integer": "int",
    "an integer or integers": "int | Sequence[int]",
    "integers, or sequences of them": "Any",
    "a name, or a pair of integers for each axis": "str | Sequence[tuple[int, int]]",
    "an array or a number": "ArrayLike",
    "an array with an axis or more": "ArrayLike",
    "an array, or lists of numbers": "Any",
    "a number": "ArrayLike",
    "a sequence of arrays": "Sequence[ArrayLike] | Array",
    "a dtype": "DTypeLike",
    "a dtype or a Python type": "DTypeLike",
    "a function": "Callable[..., Any]",
    "a sequence of functions": "Sequence[Callable[..., Any]]",
    "an integer, and no bool": "int",
    "a string": "str",
    "a sequence of integers": "Sequence[int]",
    "True or False": "bool",
    "a name or names": "str | Sequence[str]",
}
# Arguments whose names promise less than the functions take.
ANYTHING = {
    "object", "x_or_y", "axes", "dimension_numbers", "axis_name", "indices", "obj",
    "repeats", "args", "operands", "keys", "choices", "condlist", "choicelist", "bins",
    "range", "leaves", "ord", "where", "init_value", "init_values", "lower", "upper",
    "default", "f", "n", "fill_value", "num_segments", "init", "xs", "pad_width",
    "invert", "copy", "reverse", "argnums", "kth", "shift", "static_argnums",
    "donate_argnums", "nondiff_argnums", "stat_length", "scale", "size",
}  # fmt: skip

HEAD = '''\
# Written by `python -m minijit.book stubs`: change minijit/book/stubs.py instead.
'''


def write_stubs(root: Path) -> list[Path]:
    """Write the stubs that are not what they should be; their paths."""
    changed = []
    for path, text in stubs(root).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def stubs(root: Path) -> dict[Path, str]:
    """The text of the stub."""
    return {root / "minijit" / "__init__.pyi": HEAD + package_stub()}


def function(name: str, f: Any, back: str) -> str:
    """One function: `def devices(backend: Any = ...) -> list[Device]: ...`."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return f"def {name}(*args: Any, **kwargs: Any) -> {back}: ..."
    return f"def {name}({', '.join(parameter_texts(name, parameters))}) -> {back}: ..."


def parameter_texts(name: str, parameters: list[inspect.Parameter]) -> list[str]:
    """Parameters with their types, and the marks `/` and `*` between their kinds."""
    shown, starred = [], False
    for i, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        stars = "*" if p.kind is p.VAR_POSITIONAL else ""
        stars = "**" if p.kind is p.VAR_KEYWORD else stars
        text = f"{stars}{p.name}: {type_of(name, p)}"
        shown.append(text + " = ..." * (p.default is not p.empty))
        last = i + 1 == len(parameters) or parameters[i + 1].kind != p.kind
        if p.kind is p.POSITIONAL_ONLY and last:
            shown.append("/")
    return shown


def type_of(name: str, p: inspect.Parameter) -> str:
    """The type of a parameter of a function, by its name."""
    from minijit.trace.api.calls import kinds_of

    own = kinds_of.get(f"{name}.{p.name}")
    stars = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    kinds = own or ([] if p.name in ANYTHING else kinds_of.get(p.name, []))
    if stars or not kinds:
        return "Any"
    found = sorted({TYPES.get(kind, "Any") for kind in kinds})
    if "Any" in found:
        return "Any"
    return " | ".join([*found, "None"] if p.default is None else found)


PACKAGE_HEAD = '''\
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, overload

import numpy as np

from . import dtypes as dtypes, errors as errors, lax as lax, nn as nn, numpy as numpy
from . import random as random, scipy as scipy, test_util as test_util, tree as tree
from . import tree_util as tree_util, typing as typing
from .jaxcompat import ad_checkpoint as ad_checkpoint, debug as debug
from .jaxcompat import custom_batching as custom_batching
from .jaxcompat import custom_derivatives as custom_derivatives
from .jaxcompat import example_libraries as example_libraries
from .jaxcompat import experimental as experimental, sharding as sharding
from .declared import Array as Array
from .export import export as export
from .trace.array import ShapedArray as ShapedArray
from .trace.base.config import config as config
from .trace.api.devices import Device as Device
from .trace.api.stages import ShapeDtypeStruct as ShapeDtypeStruct
from .transform.custom.custom_derivatives import custom_jvp as custom_jvp
from .transform.custom.custom_derivatives import custom_vjp as custom_vjp
from .transform.remat.policies import checkpoint_policies as checkpoint_policies
from .typing import ArrayLike, DTypeLike

Args = ParamSpec("Args")
Result = TypeVar("Result")
F = TypeVar("F", bound=Callable[..., Any])
Argnums = int | Sequence[int]

__version__: str
float0: np.dtype[Any]

class StaleGlobalWarning(UserWarning): ...

class Compiled:
    fallbacks: Any
    def as_text(self, dialect: str | None = ...) -> str: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class Lowered:
    jaxpr: Any
    out_info: Any
    def as_text(self, dialect: str | None = ...) -> str: ...
    def compile(self, compiler_options: Any = ...) -> Compiled: ...
    def __getattr__(self, name: str) -> Any: ...

class JitFunction(Generic[Args, Result]):
    """What `jit` returns: call it as the function it wraps."""

    traces: Any
    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...
    def trace(self, *args: Any, **kwargs: Any) -> Lowered: ...
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...
    def clear_cache(self) -> None: ...

'''
# Functions of the package that give back what their argument is, or have many forms.
BY_HAND = {
    "jit": '''\
@overload
def jit(
    fun: Callable[Args, Result], /, *, static_argnums: Argnums | None = ...,
    static_argnames: str | Sequence[str] | None = ...,
    donate_argnums: Argnums | None = ...,
    donate_argnames: str | Sequence[str] | None = ..., inline: bool = ...,
    keep_unused: bool = ..., max_traces: int | None = ..., globals: str | None = ...,
    backend: str | None = ..., device: Any = ...,
) -> JitFunction[Args, Result]: ...
@overload
def jit(
    *, static_argnums: Argnums | None = ...,
    static_argnames: str | Sequence[str] | None = ...,
    donate_argnums: Argnums | None = ...,
    donate_argnames: str | Sequence[str] | None = ..., inline: bool = ...,
    keep_unused: bool = ..., max_traces: int | None = ..., globals: str | None = ...,
    backend: str | None = ..., device: Any = ...,
) -> Callable[[Callable[Args, Result]], JitFunction[Args, Result]]: ...''',
    "grad": '''\
def grad(
    fun: Callable[Args, Any], argnums: Argnums = ..., has_aux: bool = ...,
    holomorphic: bool = ..., allow_int: bool = ..., reduce_axes: Sequence[Any] = ...,
) -> Callable[Args, Any]: ...''',
    "value_and_grad": '''\
def value_and_grad(
    fun: Callable[Args, Result], argnums: Argnums = ..., has_aux: bool = ...,
    holomorphic: bool = ..., allow_int: bool = ..., reduce_axes: Sequence[Any] = ...,
) -> Callable[Args, tuple[Result, Any]]: ...''',
    "vmap": '''\
def vmap(
    fun: F, in_axes: Any = ..., out_axes: Any = ..., axis_name: Any = ...,
    axis_size: int | None = ..., spmd_axis_name: Any = ...,
) -> F: ...''',
    "named_call": "def named_call(fun: F, *, name: str | None = ...) -> F: ...",
    "block_until_ready": "def block_until_ready(x: Result) -> Result: ...",
    "vjp": '''\
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = ...
) -> tuple[Any, Callable[..., Any]]: ...''',
    "jvp": '''\
def jvp(
    fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = ...
) -> tuple[Any, Any]: ...''',
    "linearize": '''\
def linearize(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = ...
) -> tuple[Any, Callable[..., Any]]: ...''',
}
MAKERS = """
    hessian jacfwd jacobian jacrev make_jaxpr linear_transpose closure_convert
    custom_gradient fwd_and_bwd
""".split()
CONTEXTS = """
    checking_leaks debug_infs debug_nans default_device default_matmul_precision
    disable_jit enable_x64 ensure_compile_time_eval log_compiles named_scope
    transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host
    transfer_guard_host_to_device
""".split()
PLAIN = {
    "devices": "list[Device]", "local_devices": "list[Device]", "device_count": "int",
    "local_device_count": "int", "process_index": "int", "process_count": "int",
    "process_indices": "list[int]", "default_backend": "str",
    "print_environment_info": "str | None", "typeof": "ShapedArray",
    "clear_caches": "None", "effects_barrier": "None",
}  # fmt: skip


def package_stub() -> str:
    """The stub of the package: arrays, transformations, and what else it has."""
    import minijit as mj

    parts = [PACKAGE_HEAD]
    for name in dir(mj):
        x = getattr(mj, name)
        if isinstance(x, types.ModuleType) or f" {name} as {name}" in PACKAGE_HEAD:
            continue
        if name in BY_HAND:
            parts.append(BY_HAND[name])
        elif callable(x) and not isinstance(x, type):
            back = PLAIN.get(name, "Any")
            back = "Callable[..., Any]" if name in MAKERS else back
            back = "AbstractContextManager[Any]" if name in CONTEXTS else back
            parts.append(function(name, x, back))
        elif f"class {name}" not in parts[0] and f"{name}:" not in parts[0]:
            parts.append(f"{name}: Any")
    return "\n".join(parts) + "\n"
