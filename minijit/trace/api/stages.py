"""A jitted function step by step: traced and lowered, compiled, called.

    lowered = jit(f).lower(x)          # x: an array, or a ShapeDtypeStruct
    print(lowered.as_text())           # the jaxpr
    compiled = lowered.compile()
    compiled(x)                        # runs it, and never traces
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import dtypes
from ..array import ArrayImpl, to_numpy
from ..base.demand import on_demand
from ..core import Array, Tracer
from ..jaxprs.jaxpr import flattening, subjaxprs
from ..jit.jit import jit
from ..jit.jitted import stages
from ..jit.refs import Ref
from ..jit.signature import aval_of_leaf
from ..primitives import as_array, broadcast, convert
from ..trees.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from ..trees.tools import broadcast_prefix
from ..types import PyTree, Result
from .calls import check_arguments


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """A shape and a dtype where an array would do: for `lower` and `eval_shape`."""

    shape: tuple
    dtype: Any
    weak_type: bool = False
    sharding: object = None

    def __post_init__(self):
        if self.dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified, got None.")
        if dtypes.carried_type(self.dtype) is None:
            given = self.shape, self.dtype
            check_arguments(type(self), "ShapeDtypeStruct", given, {})
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dtype", dtypes.as_dtype(self.dtype))

    @classmethod
    def like(cls, x):
        """That of an array, a number, or what has a shape and a dtype."""
        aval = aval_of_leaf(x)
        return cls(aval.shape, aval.dtype, aval.weak_type)

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def update(self, **changes):
        """The same but for some fields."""
        return replace(self, **changes)

    def __repr__(self):
        weak = ", weak_type=True" if self.weak_type else ""
        shape, dtype = self.shape, self.dtype.name
        return f"ShapeDtypeStruct(shape={shape}, dtype={dtype}{weak})"


def infos_of(avals):
    """What users are shown of types."""
    return [ShapeDtypeStruct(a.shape, a.dtype, a.weak_type) for a in avals]


# `make_jaxpr(return_shape=True)` shows that, too.
flattening |= {"infos": infos_of}


class Lowered:
    """A function traced for one signature, before it is compiled.

    Attributes:
      jaxpr: the `ClosedJaxpr`.
      in_tree, out_tree: the structures of (args, kwargs) and of the result.
      in_avals: the avals of the arguments, in the structure of (args, kwargs).
      out_info: `ShapeDtypeStruct`s, in the structure of the result.
      donate_argnums: the positions of the leaves that are donated.
    """

    if TYPE_CHECKING:  # more attributes are given to it

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, entry, arguments):
        self.entry = entry
        entry.donations.tell()
        self.jaxpr = entry.closed
        leaves, self.in_tree = tree_flatten(arguments)
        self.avals = [aval_of_leaf(x) for x in leaves]
        self.in_avals = tree_unflatten(self.in_tree, self.avals)
        self.out_tree = entry.out_tree
        self.donate_argnums = tuple(i for i, d in enumerate(entry.donated) if d)

    @property
    def out_info(self):
        avals = self.jaxpr.out_avals[: self.out_tree.num_leaves]
        return self.out_tree.unflatten(infos_of(avals))

    fun_name = property(lambda self: self.entry.name)

    def __repr__(self):
        return f"Lowered: {signature_text(self)}\n{self.as_text()}"

    def placed(self, result):
        """The result of a call: a function that places its results has its own."""
        return result

    def lower(self, *, lowering_platforms: Any = None):
        """Itself: a trace and what it is lowered to are one thing here."""
        del lowering_platforms
        return self

    def as_text(self, dialect: str | None = None) -> str:
        """The jaxpr as text."""
        return str(self.jaxpr)

    def compile(self, compiler_options: Any = None) -> Compiled:
        """The program the executor makes of the jaxpr: `Compiled`."""
        return Compiled(self)


class Compiled:
    """A compiled function: takes arguments of one signature only, never traces.

    Attributes:
      fallbacks: the names of primitives that run uncompiled, by their eval rules.
    """

    if TYPE_CHECKING:  # more attributes are given to it

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, lowered):
        self.lowered = lowered
        self.executable = lowered.entry.compile()
        self.in_tree, self.out_tree = lowered.in_tree, lowered.out_tree
        self.in_avals, self.out_info = lowered.in_avals, lowered.out_info

    explain = on_demand("run.report.explaining:report_of")

    @property
    def fallbacks(self):
        every = sorted({e.primitive.name for e in all_eqns(self.lowered.jaxpr.jaxpr)})
        return getattr(self.executable, "fallbacks", every)

    def __repr__(self):
        return "\n".join([f"Compiled: {signature_text(self.lowered)}", *self.facts()])

    def facts(self):
        """Lines on what runs it, and where to read more."""
        kernels = getattr(self.executable, "kernels", ())
        facts = [f"  kernels: {counted(kernels)}"] if kernels else []
        pairs = getattr(self.executable, "fallbacks", None)
        if pairs is None:
            names = counted(self.fallbacks)
            facts.append(f"  one by one, by their eval rules: {names}")
        for name, reason in pairs or ():
            facts.append(f"  not compiled: {name}: {reason}")
        texts = [repr(name) for name in getattr(self.executable, "texts", {})]
        calls = ", ".join(f".as_text({name})" for name in ["", *texts])
        return [*facts, f"  read it: {calls}"]

    def as_text(self, dialect: str | None = None) -> str:
        """The generated source, where the executor writes one; else the jaxpr.

        Args:
          dialect: one of the executor's other texts, such as "llvm".
        """
        if dialect is not None:
            texts = getattr(self.executable, "texts", {})
            if dialect not in texts:
                raise ValueError(
                    f"this function has no text {dialect!r}; there are {[*texts]}. "
                    "Without an argument as_text gives the Python form, or the jaxpr"
                )
            return texts[dialect]()
        return getattr(self.executable, "source", None) or self.lowered.as_text()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise TypeError(
                "Function compiled with input pytree does not match the input pytree "
                f"it was called with: {self.in_tree} is expected, {tree} came"
            )
        self.check_avals(leaves)
        return self.lowered.placed(self.lowered.entry(leaves))

    def check_avals(self, leaves):
        """Raise TypeError unless the arguments are of the types compiled for."""
        names = self.lowered.jaxpr.jaxpr.debug.arg_names
        given = map(aval_of_leaf, leaves)
        wrong = [
            f"Argument {name!r} compiled with {a.str_short()} and called with "
            f"{x.str_short()}"
            for name, a, x in zip(names, self.lowered.avals, given, strict=True)
            if (x.shape, x.dtype) != (a.shape, a.dtype)
        ]
        if wrong:
            told = "\n".join(wrong)
            raise TypeError(
                "Argument types differ from the types for which this computation was "
                f"compiled. The mismatches are:\n{told}"
            )


def signature_text(lowered):
    """`step(w: f32[3], x: f32[]) -> f32[3]`: what goes in and what comes out."""
    given = zip(lowered.jaxpr.jaxpr.debug.arg_names, lowered.avals, strict=False)
    args = ", ".join(f"{name}: {aval.str_short()}" for name, aval in given)
    out = tree_unflatten(lowered.out_tree, map(Shown, lowered.jaxpr.out_avals))
    return f"{lowered.fun_name}({args}) -> {out}"


class Shown:
    """A type that prints without quotes within a tree."""

    def __init__(self, aval):
        self.aval = aval

    def __repr__(self):
        return self.aval.str_short()


def counted(names):
    """The first of many names, and how many there are."""
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def all_eqns(jaxpr):
    """The equations of a jaxpr and of those within it."""
    todo, found = [jaxpr], []
    for jaxpr in todo:
        found += jaxpr.eqns
        todo += [sub for eqn in jaxpr.eqns for sub in subjaxprs(eqn)]
    return found


stages |= {"lowered": Lowered}


def eval_shape(fun: Callable[..., Any], *args: PyTree, **kwargs: PyTree) -> PyTree:
    """The shapes and dtypes of `fun(*args, **kwargs)`, without computing it.

    Args: arrays, numbers, `ShapeDtypeStruct`s, and trees of them.
    Returns: a tree of `ShapeDtypeStruct`.
    """

    @functools.wraps(fun)
    def of_values(*args, **kwargs):
        return tree_map(value_of_struct, fun(*args, **kwargs))

    return jit(of_values).eval_shape(*args, **kwargs)


def value_of_struct(x):
    """A leaf of a result, where a shape and a dtype may stand for an array."""
    if not isinstance(x, ShapeDtypeStruct):
        return x
    return broadcast(convert(0, x.dtype, x.weak_type), x.shape)


def block_until_ready(x: Result) -> Result:
    """`x` itself, once it is computed: on the CPU that is when a call returns."""
    for leaf in tree_leaves(x):
        if isinstance(leaf, ArrayImpl):
            leaf.block_until_ready()
    return x


# How an array is put on a device: a later module knows several.
putters = {"put": lambda x, device: as_array(x), "like": lambda x, other: x}


def device_put(
    x: PyTree, device: Any = None, *, src: Any = None, donate: Any = False,
    may_alias: Any = None,
) -> PyTree:
    """A tree of arrays out of a tree of numbers, NumPy arrays and arrays.

    Args:
      device: where to put them: a device, a sharding, or None: arrays stay where they
        are, and other things go to the default device; or a tree of those, a prefix
        of x.
    """
    del src
    if may_alias and donate:
        raise ValueError("may_alias and donate cannot be True at the same time.")
    leaves, tree = tree_flatten(x)
    if may_alias is False:
        leaves = [x.copy() if isinstance(x, Array) else x for x in leaves]
    each = broadcast_prefix(device, x, is_leaf=lambda where: where is None)
    return tree_unflatten(tree, map(putters["put"], leaves, each))


def device_get(x: PyTree) -> PyTree:
    """A tree of NumPy arrays out of a tree of arrays; keys and tracers stay."""
    return tree_map(array_of_host, x)


def array_of_host(x):
    """The NumPy array of an array, if NumPy has its dtype; a number stays one."""
    if isinstance(x, Ref | Tracer) or not hasattr(x, "__array__"):
        return x
    if not isinstance(x, Array):
        return x.__array__()
    return x if isinstance(x.dtype, dtypes.ExtendedDtype) else to_numpy(x)
