"""What users give to `custom_jvp` and `custom_vjp`, and what their rules must return.

`CustomFunction` sorts the arguments of a call: those of `nondiff_argnums` are handed to
the function and to its rules as they are, all others are trees of arrays.  The rest are
checks of what a rule returned, and zeros that are not materialised, for rules that ask
for them with `symbolic_zeros=True`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from typing import Generic

from ...trace import dtypes, primitives as lax
from ...trace.api.calls import check_arguments
from ...trace.arguments import function_name
from ...trace.array import aval_of
from ...trace.base.errors import HERE, UnexpectedTracerError
from ...trace.core import Tracer
from ...trace.trees.paths import tree_flatten_with_path
from ...trace.trees.pytree import (
    keystr, tree_flatten, tree_leaves, tree_map, tree_unflatten,
)
from ...trace.trees.tools import broadcast_prefix
from ...trace.types import Args, Result
from ..closed_jaxprs import completed, replaced
from ..flat_functions import FlatFunction
from ..tangents import tangent_aval, tangent_out, zero_type


@dataclass(frozen=True, eq=False)
class Rule:
    """A user's rule on flat lists, with a name for jaxprs and messages.

    When the primal function is recorded, what it captured becomes arguments in front
    of its own; `captured` says how many, and the rule does not see them.
    """

    name: str
    source: object
    call: object
    captured: int = 0

    def __repr__(self):
        return self.name

    def __call__(self, *lists):
        """The rule, of lists that begin with what was captured."""
        return self.call(*[values[self.captured :] for values in lists])

    def ignoring(self, n):
        """The rule of the same function with n more captured values in front."""
        return replace(self, captured=self.captured + n)


class CustomFunction(Generic[Args, Result]):
    """What `custom_jvp` and `custom_vjp` share: the arguments of a call."""

    def __init__(
        self, fun: Callable[Args, Result], nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        kind = type(self)
        given = (self, fun, nondiff_argnums, nondiff_argnames)
        check_arguments(kind.__init__, kind.__name__, given, {})
        update_wrapper(self, fun)
        self.fun = fun
        self.nondiff = tuple(nondiff_argnums)
        if nondiff_argnames:
            names = list(inspect.signature(fun).parameters)
            if not {*nondiff_argnames} <= {*names}:
                raise ValueError(
                    f"{kind.__name__}: nondiff_argnames={nondiff_argnames!r} are not "
                    f"all among the arguments of {function_name(fun)}: {names}"
                )
            self.nondiff += tuple(map(names.index, nondiff_argnames))

    def __get__(self, instance, owner=None):
        return self if instance is None else partial(self, instance)

    def __getattr__(self, name):
        """A rule of another kind is one of the function within: `f.def_vmap`."""
        fun = self.__dict__.get("fun")
        if name.startswith("def") and isinstance(fun, CustomFunction):
            return getattr(fun, name)
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=self)

    def resolve(self, args, kwargs):
        """All arguments by position, defaults included; keyword-only ones are not."""
        # What a partial function was given by name is no argument of its calls.
        opaque = isinstance(self.fun, partial)
        fun = (lambda *args, **kwargs: None) if opaque else self.fun
        try:
            bound = inspect.signature(fun).bind(*args, **kwargs)
        except ValueError:
            return args
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{function_name(self.fun)} has a custom derivative rule, which takes "
                f"arguments by position, but {', '.join(bound.kwargs)} can only be "
                "passed by keyword"
            )
        return bound.args

    def flat_call(self, args):
        """Take a call apart: -> (nondiff arguments, leaves, structure, flat function).

        The leaves and the structure are of the other arguments, and the flat function
        is that of them alone.
        """
        fixed = self.positions(args)
        dynamic = [i for i in range(len(args)) if i not in fixed]
        leaves, in_tree = self.flatten(tuple(args[i] for i in dynamic))
        given = self.nondiff_alone(args)

        def of_dynamic(*values):
            return self.ask(self.fun, *replaced(given, dynamic, values))

        nondiff = [args[i] for i in sorted(fixed)]
        return nondiff, leaves, in_tree, FlatFunction(of_dynamic, in_tree)

    def nondiff_alone(self, args):
        """The nondiff arguments in their places, with None for every other one.

        A rule keeps these.  It outlives the trace that the others may belong to.
        """
        fixed = self.positions(args)
        return [x if i in fixed else None for i, x in enumerate(args)]

    def positions(self, args):
        """The positions of the nondiff arguments, counted from the front."""
        for i in self.nondiff:
            if not -len(args) <= i < len(args):
                raise IndexError(
                    f"nondiff_argnums of {function_name(self.fun)} has {i}, but the "
                    f"function was called with {len(args)} arguments{HERE}"
                )
        return {i % len(args) for i in self.nondiff}

    def flatten(self, args):
        """-> (leaves, structure) of arguments, all of which must be arrays.

        Numbers become arrays, as they would within a trace; a bool is one's own.
        """
        leaves, tree = tree_flatten(args)
        for x in leaves:
            try:
                aval_of(x)
            except TypeError as error:
                advice = "\n  Instead: name the argument in nondiff_argnums."
                if self.fun.__module__.startswith("minijit."):
                    advice = ""
                raise TypeError(
                    f"{function_name(self.fun)} has a custom derivative rule, and so "
                    f"takes arrays: {error}{HERE}{advice}"
                ) from None
        return [x if type(x) is bool else lax.as_array(x) for x in leaves], tree

    def ask(self, f, *args):
        """Call the user's function or rule; what it may not capture is explained."""
        try:
            return f(*args)
        except UnexpectedTracerError as error:
            if "custom derivative rule" in str(error):
                raise
            what, _, _ = str(error).partition("\n  Instead:")
            raise UnexpectedTracerError(
                f"{function_name(self.fun)} has a custom derivative rule, which says "
                f"how to differentiate it by its arguments; but {function_name(f)} "
                "uses a value from outside that is being differentiated or traced.\n"
                "  Instead: make that value an argument of both (closure_convert finds "
                f"such values).\n  What happened: {what}"
            ) from error

    def ask_pair(self, kind, rule, *args):
        """Call a rule, a "JVP rule" or a "VJP fwd rule", which must return a pair."""
        pair = self.ask(rule, *args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            second = "tangent" if kind == "JVP rule" else "residuals"
            raise TypeError(
                f"Custom {kind} {function_name(rule)} for function "
                f"{function_name(self.fun)} must produce a pair (list or tuple of "
                f"length two): (result, {second}), but got {pair!r}"
            )
        return pair

    def check_structure(self, flat, kind, rule, *trees):
        """Complain unless a rule returned trees of the structure of the result.

        If the rule is asked before the function, the structure is the rule's own.
        """
        flat.out_tree = flat.out_tree or trees[0]
        if any(tree != flat.out_tree for tree in trees):
            what = "primal" + (" and tangent" if len(trees) == 2 else "") + " outputs"
            raise TypeError(
                f"Custom {kind} {function_name(rule)} for function "
                f"{function_name(self.fun)} must produce {what} with equal container "
                f"(pytree) structures as the function's, {flat.out_tree}, but got "
                f"{' and '.join(map(str, trees))}"
            )

    def check_nondiff(self, nondiff):
        """A rule without derivatives by an argument cannot see it vary."""
        if any(isinstance(x, Tracer) for x in tree_leaves(nondiff)):
            raise UnexpectedTracerError(
                f"{function_name(self.fun)} was given a traced value in a position "
                "that nondiff_argnums names, which is for what is never traced: "
                f"functions, strings, shapes{HERE}\n  Instead: make "
                "it an ordinary argument, for which bwd returns None."
            )

    def no_rule(self, kind, method):
        raise AttributeError(
            f"No {kind} function {function_name(self.fun)} using {method}: "
            f"call that method before the function is used{HERE}"
        )


class TwoHalves(CustomFunction[Args, Result]):
    """What `custom_vjp` is besides its idea: the user's `fwd` and `bwd`, which take
    trees, as functions of flat lists."""

    fwd = bwd = None
    symbolic_zeros = False

    def apply_fwd(self, args, nondiff, in_tree, flat, primals, nonzero):
        """Run the user's fwd: -> (results, residuals, bwd on flat lists)."""
        given = primals
        if self.symbolic_zeros:
            given = list(map(CustomVJPPrimal, primals, nonzero))
        given = iter(tree_unflatten(in_tree, given))
        fixed = self.positions(args)
        full = [args[i] if i in fixed else next(given) for i in range(len(args))]
        result, kept = self.ask_pair("VJP fwd rule", self.fwd, *full)
        outs, tree = tree_flatten(result)
        self.check_structure(flat, "VJP fwd rule", self.fwd, tree)
        outs = list(map(lax.as_array, outs))
        leaves, residual_tree = tree_flatten(kept)
        # Python's numbers go to bwd as they are: it may branch on them.
        numbers = [x if dtypes.is_python_scalar(x) else None for x in leaves]
        residuals = [x for x in leaves if not dtypes.is_python_scalar(x)]
        trees = residual_tree, flat.out_tree, in_tree
        avals = list(map(aval_of, primals)), list(map(aval_of, outs))
        return outs, residuals, partial(self.apply_bwd, nondiff, numbers, trees, avals)

    def apply_bwd(self, nondiff, numbers, trees, avals, residuals, cts):
        """Run the user's bwd on flat lists: -> a cotangent or None an argument."""
        residual_tree, out_tree, in_tree = trees
        in_avals, out_avals = avals
        zero = partial(zero_tangent, symbolic=self.symbolic_zeros)
        pairs = zip(cts, out_avals, strict=True)
        cts = [zero(aval) if ct is None else ct for ct, aval in pairs]
        kept = tree_unflatten(residual_tree, completed(numbers, residuals))
        result = self.ask(self.bwd, *nondiff, kept, tree_unflatten(out_tree, cts))
        return checked_cotangents(self, result, in_tree, in_avals)


# ---- zeros that are not materialised


@dataclass(frozen=True, eq=False)
class SymbolicZero:
    """A zero tangent or cotangent that is not materialised (`symbolic_zeros=True`)."""

    aval: object

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)


def zero_tangent(aval, symbolic):
    """A zero tangent or cotangent as a user's rule wants it: materialised or not."""
    return SymbolicZero(zero_type(aval)) if symbolic else tangent_out(None, aval)


def zero_from_primal(val, symbolic_zeros=False):
    """The zero tangent of a tree of values, materialised or not
    (`jax.custom_derivatives.zero_from_primal`)."""
    return tree_map(lambda x: zero_tangent(aval_of(x), symbolic_zeros), val)


@dataclass(frozen=True, eq=False)
class CustomVJPPrimal:
    """An argument of a `fwd` with symbolic zeros: its value, and whether it varies."""

    value: object
    perturbed: bool


# ---- what rules must return


def check_leaf(rule, what, x, aval, path, kind=TypeError):
    """Complain unless a leaf that a rule returned has the type it must have.

    `what` says in JAX's words which rule must produce which output.
    """
    got = aval_of(x)
    if (got.shape, got.dtype) != (aval.shape, aval.dtype):
        raise kind(
            f"{what}: {rule} must return {aval.str_short()} at "
            f"{path or 'the result'}, but got {got.str_short()}{HERE}"
        )


def checked_tangents(rule, outs, tangent):
    """The leaves of the tangent that a jvp rule returned with the results `outs`; None
    for those that are zero."""
    wanted = [tangent_aval(aval_of(y)) for y in outs]
    what = (
        "Custom JVP rule must produce primal and tangent outputs with corresponding "
        "shapes and dtypes"
    )
    found = []
    leaves = tree_flatten_with_path(tangent)[0]
    for (path, t), aval in zip(leaves, wanted, strict=True):
        t = None if aval is None or isinstance(t, SymbolicZero) else t
        if t is not None:
            check_leaf(function_name(rule), what, t, aval, keystr(path))
        found.append(t)
    return found


# JAX's words for what a cotangent of the wrong structure or type lacks.
bwd_must = "Custom VJP bwd rule must produce an output with the same"


def checked_cotangents(function, result, in_tree, in_avals):
    """The leaves of the cotangents that a bwd rule returned; None for those that are
    zero."""
    name = function_name(function.bwd)
    count = len(in_tree.children())
    if not isinstance(result, (tuple, list)) or len(result) != count:
        raise TypeError(
            f"{bwd_must} container (pytree) structure as the args tuple of the primal "
            f"function, which for {function_name(function.fun)} is a tuple of length "
            f"{count}, but {name} returned {result!r}"
        )
    cts_of = zip(in_tree.children(), result, strict=True)
    leaves = [ct for tree, x in cts_of for ct in cotangent_leaves(name, tree, x)]
    return [
        check_cotangent(name, ct, aval, i)
        for i, (ct, aval) in enumerate(zip(leaves, in_avals, strict=True))
    ]


def cotangent_leaves(rule, tree, cotangent):
    """The cotangents of one argument as a list; None stands for a tree of zeros."""
    argument = tree_unflatten(tree, [0] * tree.num_leaves)
    try:
        return broadcast_prefix(cotangent, argument, is_leaf=lambda x: x is None)
    except ValueError as error:
        raise TypeError(
            f"{bwd_must} container (pytree) structure as the args tuple of the primal "
            f"function, but for an argument of structure {tree} {rule} returned "
            f"{tree_flatten(cotangent)[1]}: {error}"
        ) from None


def check_cotangent(rule, ct, aval, i):
    """The i-th cotangent from a bwd rule, or None if zero; converted between floats."""
    wanted = tangent_aval(aval)
    if isinstance(ct, SymbolicZero) and ct.shape != aval.shape:
        raise ValueError(
            f"{bwd_must} type as the args tuple of the primal function: {rule} "
            f"returned a symbolic zero of shape {ct.shape} for argument leaf {i} of "
            f"shape {aval.shape}. Consider just returning a None here."
        )
    is_zero = ct is None or isinstance(ct, SymbolicZero) or wanted is None
    if is_zero or getattr(ct, "dtype", None) == dtypes.float0:
        return None
    got = aval_of(ct)
    if got.shape == wanted.shape and {got.dtype.kind, wanted.dtype.kind} <= {"f", "V"}:
        return lax.convert(ct, wanted.dtype, got.weak_type and wanted.weak_type)
    kind = TypeError if got.shape == wanted.shape else ValueError
    what = f"{bwd_must} type as the args tuple of the primal function"
    check_leaf(rule, what, ct, wanted, f"argument leaf {i}", kind)
    return ct


def no_rule_for_captured(rule):
    """The error for a derivative by what a custom_vjp function captured."""
    return UnexpectedTracerError(
        f"the custom derivative rule {rule} says how to differentiate its function by "
        "the arguments; but the function uses a value from outside, and is being "
        f"differentiated by that.{HERE}\n"
        "  Instead: make that value an argument (closure_convert finds such values); "
        "if no derivative by it is wanted, pass it through stop_gradient."
    )


def no_forward_mode(rule):
    """The error for a tangent that a custom_vjp function would have to push."""
    return TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function. "
        f"{rule} only says how to go backwards.{HERE}\n"
        "  Instead: use vjp or grad, or give the function a custom_jvp rule, which "
        "serves both modes."
    )
