"""Checks inside traced programs, under the names of `jax.experimental.checkify`.

    def f(x):
        checkify.check(x > 0, "{x} is not positive", x=x)
        return jnp.log(x)

    error, y = jit(checkify.checkify(f))(-1.0)
    error.throw()                         # JaxRuntimeError: -1.0 is not positive

`checkify` runs a function under a trace of its own, which passes every operation on,
and keeps an `Error`: a check joins it, and so do operations whose results are looked
at (`errors=nan_checks` and others).  A jitted function, a branch or a loop becomes one
that takes the error so far and gives the error after it.
"""

import functools
from dataclasses import replace

import numpy as np

from ... import numpy as jnp
from ... import compiler as compiler
from ...ops import checks as _checks
from ...ops.checks import (
    DivisionByZeroError as _DivisionByZeroError, Error as Error,
    FailedCheckError as _FailedCheckError, JaxException as _JaxException,
    JaxRuntimeError as JaxRuntimeError, NaNError as _NaNError, OOBError as _OOBError,
    init_error as init_error,
)
from ...ops.scatter import (
    gather_p, scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p,
    scatter_sub_p,
)
from ...trace import dtypes, primitives as spine
from ...trace.arguments import wraps
from ...trace.array import aval_of
from ...trace.base import names as _names
from ...trace.base.errors import user_source
from ...trace.core import Array, Trace, current_trace, set_trace
from ...trace.jaxprs.memory import memoised
from ...trace.jit.jit import jit_p
from ...trace.primitives import as_array
from ...trace.slicing import dynamic_slice_p, dynamic_update_slice_p
from ...trace.trees.pytree import tree_flatten, tree_leaves, tree_unflatten
from ...transform.closed_jaxprs import apply_closed, info_of, rebind, trace_closed
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.while_and_scan import Loop, While, scan_p, while_p
from ...transform.custom.custom_derivatives import (
    custom_jvp_p, custom_vjp_p, stage_call,
)
from ...transform.pieces import jaxpr_of, split
from ...transform.remat.checkpoint import checkpoint_p

ErrorCategory = type[_JaxException]

user_checks = frozenset({_FailedCheckError})
nan_checks = frozenset({_NaNError})
index_checks = frozenset({_OOBError})
div_checks = frozenset({_DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class CheckTrace(Trace):
    """Passes operations on to its parent, and keeps the error so far.

    Attributes:
      errors: the classes of failures to look for.
      error: an `Error` of values of the parent.
    """

    def __init__(self, parent, errors, error):
        self.parent, self.errors, self.error = parent, errors, error

    def process(self, primitive, args, params):
        args = list(map(as_array, args))
        with set_trace(self.parent):
            if primitive in error_checks:
                outs = error_checks[primitive](self, *args, **params)
            else:
                outs = primitive.bind(*args, **params)
                outs = outs if primitive.multiple_results else [outs]
            if primitive.name in may_give_nan:
                self.look_for_nans(primitive, outs)
        return outs

    def fails_if(self, pred, kind, *details, payload=()):
        message = functools.partial(kind, user_source(), *details)
        self.error = self.error.failing_if(pred, message, *payload)

    def look_for_nans(self, primitive, outs):
        found = [jnp.isnan(y).any() for y in outs if y.dtype.kind in "fcV"]
        if _NaNError in self.errors and found:
            bad = functools.reduce(jnp.logical_or, found)
            self.fails_if(bad, _NaNError, primitive.name)

    def look_outside(self, primitive, shape, indices, axes, last):
        """Join the failure that an index is below 0 or above `last`, axis by axis."""
        if _OOBError not in self.errors or not indices.size:
            return
        outside = (indices < 0) | (indices > jnp.asarray(last, indices.dtype))
        at = jnp.argmax(outside.ravel())
        axis = jnp.asarray(axes, np.int32)[at % len(axes)]
        size = jnp.asarray(shape, np.int32)[axis]
        index = indices.ravel()[at].astype(np.int32)
        payload = [jnp.stack([index, axis, size])]
        self.fails_if(outside.any(), _OOBError, primitive.name, shape, payload=payload)

    def take(self, tree, outs):
        """The error out of the results of what was threaded: -> the other results."""
        leaves, outs = split(outs, tree.num_leaves)
        self.error = tree_unflatten(tree, leaves)
        return outs

    def settle(self, make):
        """-> (what `make` made of the error, with all kinds there are; its leaves).

        A loop gives the error that it takes, and branches give one of the same kinds.

        Args:
          make: the structure of an error -> pairs, as `threaded` gives them.
        """
        made = make(tree_flatten(self.error)[1])
        kinds = set().union(*(error_of(tree).first for _, tree in made))
        if not kinds <= set(self.error.first):
            self.error = self.error.with_kinds(kinds)
            made = make(tree_flatten(self.error)[1])
        return made, tree_leaves(self.error)


# Primitives of which a NaN can come that did not go in, as JAX names them.
may_give_nan = set("""
    acos acosh add asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt
    conv_general_dilated cos cosh cumlogsumexp cummax cummin cumprod cumsum
    custom_linear_solve digamma div dot_general erf erf_inv erfc exp expm1 fft igamma
    igamma_grad_a igammac integer_pow lgamma log log1p logistic mul pad pow psum
    reduce_prod reduce_sum reduce_window_sum regularized_incomplete_beta rem rsqrt
    scatter scatter-add scatter-max scatter-min scatter-mul scatter-sub sin sinh sqrt
    sub tan tanh
""".split())


# ---- what is looked at


def check_division(trace, x, y):
    if _DivisionByZeroError in trace.errors:
        trace.fails_if(jnp.any(y == 0), _DivisionByZeroError)
    return [spine.div_p.bind(x, y)]


def check_dynamic_slice(trace, x, *starts, slice_sizes):
    last = ends(x.shape, slice_sizes)
    trace.look_outside(dynamic_slice_p, x.shape, *as_indices(starts), last)
    return [dynamic_slice_p.bind(x, *starts, slice_sizes=slice_sizes)]


def check_dynamic_update_slice(trace, x, update, *starts):
    last = ends(x.shape, update.shape)
    trace.look_outside(dynamic_update_slice_p, x.shape, *as_indices(starts), last)
    return [dynamic_update_slice_p.bind(x, update, *starts)]


def as_indices(starts):
    """Start indices as one array, and the axes that they are for."""
    return jnp.array(starts), tuple(range(len(starts)))


def ends(shape, sizes):
    """The last start, axis by axis, of a window that is inside."""
    return [n - size for n, size in zip(shape, sizes, strict=True)]


def check_gather(trace, x, indices, **params):
    axes = params["dimension_numbers"].start_index_map
    last = ends(x.shape, params["slice_sizes"])
    trace.look_outside(gather_p, x.shape, indices, axes, [last[d] for d in axes])
    return [gather_p.bind(x, indices, **params)]


def check_scatter(primitive, trace, x, indices, updates, **params):
    windows, inserted, axes, batching, _ = params["dimension_numbers"]
    sizes = iter([updates.shape[d] for d in windows])
    alone = {*inserted, *batching}
    window = [1 if d in alone else next(sizes) for d in range(x.ndim)]
    last = ends(x.shape, window)
    trace.look_outside(primitive, x.shape, indices, axes, [last[d] for d in axes])
    return [primitive.bind(x, indices, updates, **params)]


def discharge(trace, *leaves, tree, debug):
    """A check joins the error, if failures of its kind are looked for."""
    new = tree_unflatten(tree, leaves)
    for kind, row in new.first.items():
        if kind[0] in trace.errors:
            trace.error = trace.error.joined(kind, *row, new.messages)
    return []


# ---- calls, branches and loops


@memoised
def threaded(closed, errors, tree, before=0, keep=True):
    """A jaxpr that takes an error and gives one: -> (closed jaxpr, tree of its error).

    Its inputs are the first `before` ones, the error's leaves, and the others.  The
    condition of a loop cannot give an error (`keep`): the body asks it as well.
    """
    out_tree = None

    def flat(*args):
        nonlocal out_tree
        first, leaves, rest = split(args, before, tree.num_leaves)
        trace = CheckTrace(current_trace(), errors, tree_unflatten(tree, leaves))
        with set_trace(trace):
            outs = apply_closed(closed, *first, *rest)
        leaves, out_tree = tree_flatten(trace.error)
        return [*(leaves if keep else []), *map(as_array, outs)]

    first, rest = split(closed.in_avals, before)
    avals = [*first, *leaf_types(tree), *rest]
    return trace_closed(flat, avals, info_of(closed, "checkify")), out_tree


def leaf_types(tree):
    """The types of an error's leaves, which its structure tells."""
    rows = map(_checks.no_failure, error_of(tree).first)
    return [aval_of(x) for row in rows for x in tree_leaves(row)]


def check_call(primitive, trace, *args, jaxpr, **params):
    leaves, tree = tree_flatten(trace.error)
    closed, out_tree = threaded(jaxpr, trace.errors, tree)
    return trace.take(out_tree, rebind(primitive, params, closed, [*leaves, *args]))


def check_cond(trace, index, *args, branches):
    made, leaves = trace.settle(
        lambda tree: [threaded(branch, trace.errors, tree) for branch in branches]
    )
    branches = tuple(closed for closed, _ in made)
    outs = cond_p.bind(index, *leaves, *args, branches=branches)
    messages = {}
    for _, tree in made:
        messages |= error_of(tree).messages
    outs = trace.take(made[0][1], outs)
    trace.error = Error(trace.error.first, messages)
    return outs


def error_of(tree):
    """An error without values, of a structure."""
    return tree_unflatten(tree, [None] * tree.num_leaves)


def check_scan(trace, *args, **params):
    loop = Loop(**params)
    steps, consts, carry, xs = loop.split(args)
    [(closed, tree)], leaves = trace.settle(
        lambda tree: [threaded(loop.jaxpr, trace.errors, tree, len(consts))]
    )
    loop = replace(loop, jaxpr=closed)
    return trace.take(tree, loop.bind(steps, consts, [*leaves, *carry], xs))


def check_while(trace, *args, **params):
    """The body is checked, and the condition wherever it is asked."""
    loop = While(**params)
    cond_consts, consts, carry = loop.split(args)
    with set_trace(trace):
        apply_closed(loop.cond_jaxpr, *cond_consts, *carry)
    count, before = len(carry), len(cond_consts) + len(consts)
    body = body_then_cond(loop.body_jaxpr, loop.cond_jaxpr, len(cond_consts), count)
    [(closed, tree)], leaves = trace.settle(
        lambda tree: [threaded(body, trace.errors, tree, before)]
    )
    given = trace.errors, tree_flatten(trace.error)[1], len(cond_consts), False
    cond, _ = threaded(loop.cond_jaxpr, *given)
    loop = replace(loop, cond_jaxpr=cond, body_jaxpr=closed)
    outs = loop.bind(cond_consts, [*cond_consts, *consts], [*leaves, *carry])
    return trace.take(tree, outs)


@memoised
def body_then_cond(body, cond, num_cond_consts, num_carry):
    """The body of a loop, which then asks whether it goes on."""
    cond_avals = cond.in_avals[:num_cond_consts]

    def flat(*args):
        cond_consts, rest = split(args, num_cond_consts)
        outs = apply_closed(body, *rest)
        apply_closed(cond, *cond_consts, *outs[:num_carry])
        return outs

    return jaxpr_of(flat, [*cond_avals, *body.in_avals], "body")


def check_custom(primitive, trace, *args, **params):
    """A function with a rule of its own keeps it: the rule passes the error on."""
    args, params = stage_call(args, params)
    [(closed, tree)], leaves = trace.settle(
        lambda tree: [threaded(params["call"], trace.errors, tree)]
    )
    passing = passing_jvp if primitive is custom_jvp_p else passing_vjp
    rule = passing(params["rule"], len(leaves))
    return trace.take(tree, primitive.bind(*leaves, *args, call=closed, rule=rule))


def passing_jvp(rule, n):
    """A jvp rule for n leaves of an error before the arguments."""
    captured = n + rule.captured

    def call(primals, tangents):
        outs, out_tangents = rule.call(primals[captured:], tangents[captured:])
        return [*primals[:n], *outs], [*[None] * n, *out_tangents]

    return replace(rule, call=call, captured=0)


def passing_vjp(rule, n):
    """A vjp rule for n leaves of an error before the arguments."""
    captured = n + rule.captured

    def call(primals, nonzero):
        outs, residuals, bwd = rule.call(primals[captured:], nonzero[captured:])

        def passing_bwd(residuals, cts):
            return [*[None] * captured, *bwd(residuals, cts[n:])]

        return [*primals[:n], *outs], residuals, passing_bwd

    return replace(rule, call=call, captured=0)


scatters = (
    *(scatter_p, scatter_add_p, scatter_sub_p),
    *(scatter_mul_p, scatter_min_p, scatter_max_p),
)
# primitive -> function of (trace, *args, **params): -> the results.
error_checks = {
    spine.div_p: check_division,
    dynamic_slice_p: check_dynamic_slice,
    dynamic_update_slice_p: check_dynamic_update_slice,
    gather_p: check_gather,
    _checks.check_p: discharge,
    cond_p: check_cond,
    scan_p: check_scan,
    while_p: check_while,
}
error_checks |= {
    p: functools.partial(rule, p)
    for rule, primitives in [
        (check_scatter, scatters),
        (check_call, (jit_p, checkpoint_p)),
        (check_custom, (custom_jvp_p, custom_vjp_p)),
    ]
    for p in primitives
}


# ---- the functions


def checkify(f, errors=user_checks):
    """A function that gives (error, what f gives).

    Args:
      f: any function of arrays, with `check`s in it.
      errors: the failures to look for: `user_checks`, `nan_checks`, `index_checks`,
        `div_checks`, or unions of these.

    The error is an `Error`: error.get() is the first failure's message or None, and
    error.throw() raises it.
    """

    @wraps(f)
    def checked(*args, **kwargs):
        trace = CheckTrace(current_trace(), frozenset(errors), init_error)
        with set_trace(trace):
            out = f(*args, **kwargs)
        return trace.error, out

    return checked


def check(pred, msg, *fmt_args, debug=False, **fmt_kwargs):
    """Fail, with a message, where `pred` is False.

    Args:
      pred: one bool, known or not.
      msg: the message, a format for what follows.
      fmt_args, fmt_kwargs: trees of arrays, for the format.
      debug: whether to look only under `checkify`.

    Raises JaxRuntimeError as soon as `pred` is known: in a compiled program when it
    runs; under `checkify` the failure becomes part of the `Error`.
    """
    if not isinstance(pred, (bool, np.bool_)) and not is_one_bool(pred):
        name = "debug_check" if debug else "check"
        raise TypeError(f"{name} takes a scalar pred as argument, got {pred}")
    leaves, tree = tree_flatten((fmt_args, fmt_kwargs))
    for x in leaves:
        if not isinstance(x, (Array, np.ndarray)):
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, "
                f"but got {x!r} of type {type(x)}."
            )
    message = functools.partial(_FailedCheckError, user_source(), msg, tree)
    error = init_error.failing_if(jnp.logical_not(pred), message, *leaves)
    _checks.bind_check(error, debug)


def is_one_bool(x):
    return isinstance(x, Array) and x.shape == () and x.dtype == dtypes.bool_


def debug_check(pred, msg, *fmt_args, **fmt_kwargs):
    """A `check` that is nothing outside of `checkify`."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error):
    """Raise what an `Error` says: the inverse of `checkify`."""
    if not isinstance(error, Error):
        raise TypeError(
            f"check_error takes an Error as argument, got type {type(error)} instead."
        )
    error.throw()


_names.publish(globals(), """
    Error ErrorCategory JaxRuntimeError all_checks automatic_checks check check_error
    checkify debug_check div_checks float_checks index_checks init_error nan_checks
    user_checks
""")
