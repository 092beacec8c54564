"""What the parts of a branch or a loop must agree on, and what is said if they do not.

The branches of a `cond` return one structure and the same types.  A loop's body returns
a carry of the structure and the types that it was given; an initial carry of a weak
type (a Python number) takes the dtype that the body makes of it.
"""

from functools import partial

import numpy as np

from ...trace import dtypes, primitives as lax
from ...trace.arguments import function_source, wraps
from ...trace.array import ArrayImpl, ShapedArray, aval_of
from ...trace.base.errors import HERE, at_line
from ...trace.core import Tracer
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Var
from ...trace.jaxprs.memory import memoised
from ...trace.jit.refs import Ref, read
from ...trace.shape_checks import concrete
from ...trace.trees.paths import tree_flatten_with_path
from ...trace.trees.pytree import keystr, tree_flatten, tree_map, tree_unflatten
from ..closed_jaxprs import apply_closed, trace_closed
from ..pieces import close_alone, int32, interned, jaxpr_of, record, split
from .batching import opened


def as_predicate(pred):
    """The index of the branch to take: 0 for false, 1 for true."""
    if callable(pred) and not hasattr(pred, "dtype"):
        raise TypeError("lax.cond: the predicate comes first, got a function")
    aval = aval_of(pred)
    if aval.shape != ():
        raise TypeError(
            f"Pred must be a scalar, got {aval} of shape {aval.shape}"
            f"{HERE}\n  Instead: to choose element by element use "
            "`jnp.where`."
        )
    if aval.dtype.kind not in "bif" and aval.dtype.kind != "u":
        raise TypeError(f"Pred type must be either boolean or number, got {aval}.")
    if aval.dtype.kind != "b":
        pred = lax.ne(pred, lax.full_like(pred, 0))
    return lax.convert(pred, int32)


# The default of `operand`: None is an operand, too.
not_given = object()


def with_operand(operands, operand):
    """The operands of a branch, of which the only one may be given by name."""
    if operand is not_given:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be "
            f"passed, got {operand=} and positional operands {operands}"
        )
    return (operand,)


def cond_arguments(true_fun, false_fun, operands, operand):
    """What `cond` was given: -> (branches, the false one first; operands).

    The form cond(pred, true_operand, true_fun, false_operand, false_fun) works too.
    """
    old_form = not callable(true_fun) and len(operands) == 2 and callable(false_fun)
    if old_form and callable(operands[1]):
        on_true, (false_operand, on_false) = false_fun, operands
        branches = [lambda t, f: on_false(f), lambda t, f: on_true(t)]
        return branches, (true_fun, false_operand)
    return [false_fun, true_fun], with_operand(operands, operand)


def without_refs(operands, branches):
    """Operands that are refs become what the branches capture: -> (operands, branches).
    """
    leaves, tree = tree_flatten(operands)
    if not any(isinstance(x, Ref) for x in leaves):
        return operands, branches

    def given(branch, *values):
        values = iter(values)
        full = [x if isinstance(x, Ref) else next(values) for x in leaves]
        return branch(*tree_unflatten(tree, full))

    arrays = tuple(x for x in leaves if not isinstance(x, Ref))
    return arrays, [wraps(f)(partial(given, f)) for f in branches]


def record_branches(branches, leaves, tree, kind):
    """Record branches, a function that is given twice once.

    Returns:
      ([(jaxpr, captured values, structure of the result), ...], the refs that any of
      the branches writes: the last arguments and results of every jaxpr).
    """
    avals, refs, recorded = list(map(aval_of, leaves)), [], {}
    # As in JAX a program sees that its function for True is called first.
    in_order = branches[::-1] if kind == "cond" else branches
    for f in {id(f): f for f in in_order}.values():
        written: list = []
        recorded[id(f)] = *record(f, avals, tree, kind, written=written), written
        refs += [ref for ref in written if ref not in refs]
    return [with_all_refs(*recorded[id(f)], refs) for f in branches], refs


def with_all_refs(jaxpr, captured, out_tree, written, refs):
    """A branch that also takes and returns the refs that only others write."""
    count = len(jaxpr.invars) - len(written)
    inputs = {ref: Var(ref.aval.inner_aval) for ref in refs}
    outputs = dict(inputs)
    inputs |= zip(written, jaxpr.invars[count:], strict=True)
    results = len(jaxpr.outvars) - len(written)
    outputs |= zip(written, jaxpr.outvars[results:], strict=True)
    jaxpr = jaxpr.replace(
        invars=(*jaxpr.invars[:count], *(inputs[ref] for ref in refs)),
        outvars=(*jaxpr.outvars[:results], *(outputs[ref] for ref in refs)),
    )
    return jaxpr, captured, out_tree


def check_trees(kind, names, trees):
    """Complain unless all branches return one structure: -> that."""
    for name, other in zip(names[1:], trees[1:], strict=True):
        if other != trees[0]:
            raise TypeError(
                f"{kind} branch outputs must have the same pytree structure, but they "
                f"differ: {names[0]} returns {trees[0]}, but {name} returns {other}"
                f"{HERE}"
            )
    return trees[0]


def join_avals(kind, names, column, tree, i):
    """The type of a result: one shape and dtype in all branches, or a TypeError.

    Whether it is weak the first branch says, as in JAX.
    """
    if len({a.strip_weak_type() for a in column}) == 1:
        return column[0]
    found = "; ".join(f"{n}: {a}" for n, a in zip(names, column, strict=True))
    path = leaf_path(tree, i)
    raise TypeError(
        f"{kind} branches must have equal output types but they differ. At {path} "
        f"there are {found}{HERE}\n  Instead: convert one of them, "
        "with `x.astype(...)` or `jnp.reshape`, so that all branches agree."
    )


def leaf_path(tree, i):
    """The place of the i-th leaf of a result, in words."""
    marked = tree_unflatten(tree, list(range(tree.num_leaves)))
    path = tree_flatten_with_path(marked)[0][i][0]
    return f"the result{keystr(path)}" if path else "the result"


def with_types(closed, avals):
    """A closed jaxpr whose results are converted to the given types."""
    if list(closed.out_avals) == list(avals):
        return closed

    def converted(*args):
        outs = apply_closed(closed, *args)
        return [
            lax.convert(y, a.dtype, a.weak_type) if isinstance(a, ShapedArray) else y
            for y, a in zip(outs, avals, strict=True)
        ]

    return jaxpr_of(converted, closed.in_avals, "branch")


def record_test(cond_fun, avals, tree, refs):
    """Record the test of a loop, which reads the refs that its body writes.

    Returns:
      (jaxpr, whose last arguments are their values; captured values).
    """
    written = list(refs)
    test, captured, out_tree = record(
        cond_fun, avals, tree, "while_loop cond_fun", written=written
    )
    unchanged = test.invars[len(avals) :]
    count = len(test.outvars) - len(unchanged)
    if test.outvars[count:] != unchanged:
        raise NotImplementedError(
            f"the cond_fun of a while_loop may read a Ref, but not write it{HERE}"
        )
    test = test.replace(outvars=test.outvars[:count]) if unchanged else test
    check_predicate(test.out_avals, out_tree)
    return test, captured


def check_predicate(avals, tree):
    """Complain unless a loop's test returns one bool."""
    alone = len(avals) == 1 and not tree.children()
    if not alone or avals[0].shape != () or avals[0].dtype != bool:
        raise TypeError(
            "cond_fun must return a boolean scalar, but got "
            f"{avals[0] if alone else tree}{HERE}"
        )


def record_body(body, init, x_avals, tree, kind):
    """Record the body of a loop: its carry must come out as it went in.

    A weakly typed initial carry is promoted to the dtype that the body makes of it; if
    that is its own, it stays weakly typed within the body (as in JAX).

    Args:
      body: function of a carry (and an x) that returns (carry,) or (carry, y).
      init: the leaves of the initial carry; x_avals: the types of those of an x.
      tree: the structure of the arguments of `body`.

    Returns:
      (initial carry, closed jaxpr of captured values, carry, xs; captured values;
      the structures of all that the body returns; the refs of outside that it writes,
      whose values are the last of the carry)
    """
    init, own = list(map(lax.as_array, init)), len(init)
    carry_tree, closed = tree.children()[0], None
    while True:
        if closed is None:
            init, refs = init[:own], []
            avals = *map(aval_of, init), *x_avals
            jaxpr, consts, out_tree = record(body, avals, tree, kind, written=refs)
            closed = close_alone(carrying(jaxpr, own, len(refs)))
            init += map(read, refs)
            out_trees = check_carry_tree(kind, carry_tree, out_tree)
        out = closed.out_avals[: len(init)]
        promoted = [promote_carry(x, a) for x, a in zip(init, out, strict=True)]
        if all(a is b for a, b in zip(promoted, init, strict=True)):
            break
        init = promoted
        avals = map(aval_of, (*consts, *init))
        closed = with_input_types(closed, [*avals, *x_avals])
    check_carry(kind, carry_tree, list(map(aval_of, init)), out)
    init = [weak_like(x, a) for x, a in zip(init, out, strict=True)]
    return init, interned(closed), consts, out_trees, refs


@memoised
def carrying(jaxpr, own, refs):
    """A body whose last `refs` arguments and results follow the first `own` ones."""
    carry, xs, values = pieces_from(jaxpr.invars, own, refs)
    new_carry, ys, new_values = pieces_from(jaxpr.outvars, own, refs)
    outvars = *new_carry, *new_values, *ys
    return jaxpr.replace(invars=(*carry, *values, *xs), outvars=outvars)


def pieces_from(values, first, last):
    """Values in three pieces: the first, those between, the last."""
    return split(values, first, len(values) - first - last)


def check_carry_tree(kind, tree, out_tree):
    """Complain if a carry changes its structure: -> those of all that came back."""
    children = out_tree.children()
    carry_tree = children[0] if children else out_tree
    if carry_tree != tree:
        raise TypeError(
            f"{body_function(kind)} carry input and carry output must have the same "
            f"pytree structure, but they differ: {kind} takes {tree} and returns "
            f"{carry_tree}{HERE}"
        )
    return children


def body_function(kind):
    """JAX's words for the body of a loop of any function."""
    return f"{kind.partition(' ')[0]} body function"


def with_input_types(closed, avals):
    """A recorded body for inputs of other dtypes, or None if it must be recorded again.

    Recording it again runs the user's function again: in a nest of loops twice for each
    level, which makes 2^n times.  So the types are changed in the jaxpr if all that
    happens to such an input is that it is converted to its new dtype.
    """
    jaxpr = closed.jaxpr
    pairs = zip(jaxpr.invars, avals, strict=True)
    new = {var: aval.dtype for var, aval in pairs if var.aval.dtype != aval.dtype}
    if not all(is_only_converted(jaxpr, var, dtype) for var, dtype in new.items()):
        return None
    # What was converted has its new dtype from the beginning: it is used as it is.
    kept, names = [], {}
    current = lambda atom: names.get(atom, atom) if isinstance(atom, Var) else atom
    for eqn in jaxpr.eqns:
        if any(isinstance(x, Var) and x in new for x in eqn.invars):
            names[eqn.outvars[0]] = eqn.invars[0]
        else:
            kept.append(eqn.replace(invars=tuple(map(current, eqn.invars))))
    outvars = tuple(map(current, jaxpr.outvars))
    jaxpr = jaxpr.replace(eqns=tuple(kept), outvars=outvars)
    again = partial(apply_closed, ClosedJaxpr(jaxpr, closed.consts))
    return trace_closed(again, avals, jaxpr.debug)


def is_only_converted(jaxpr, var, dtype):
    """Whether all that is computed with a variable is that it is converted to a dtype.

    As a result of the body it has the dtype that it gets.
    """
    return all(
        eqn.primitive is lax.convert_element_type_p
        and eqn.params["new_dtype"] == dtype
        and not eqn.params["weak_type"]
        for eqn in jaxpr.eqns
        if var in eqn.invars
    )


def promote_carry(x, aval):
    """A weak carry takes the dtype that the body makes of it."""
    old = aval_of(x)
    is_array = isinstance(old, ShapedArray) and isinstance(aval, ShapedArray)
    if not is_array or not old.weak_type or old.shape != aval.shape:
        return x
    if old.dtype == aval.dtype or dtypes.result_type(old, aval) != aval.dtype:
        return x
    return lax.convert(x, aval.dtype)


def weak_like(x, aval):
    """An initial carry, as weak as what the body returns: loops may take no step."""
    if isinstance(x, ArrayImpl) and x.aval.weak_type != aval.weak_type:
        return ArrayImpl(x._value, x.aval.update(weak_type=aval.weak_type))
    return x


def check_carry(kind, tree, before, after):
    """Complain unless a carry keeps its types."""
    lines = []
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.strip_weak_type() != b.strip_weak_type():
            where = leaf_path(tree, i).replace("the result", "the carry")
            lines.append(f"\n  * {where} goes in as {a} and comes out as {b}")
    if lines:
        raise TypeError(
            f"{body_function(kind)} carry input and carry output must have equal "
            f"types, but they differ in {kind}:{''.join(lines)}"
            f"{HERE}\n  Instead: convert the initial value or the "
            "result, with `x.astype(...)` or `jnp.zeros_like`, so that they agree."
        )


def returning_pairs(f):
    """A scan's body, whose results can be stacked; no pair is a TypeError."""

    @wraps(f)
    def body(*args):
        result = f(*args)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            where = at_line(function_source(f))
            raise TypeError(f"scan body output must be a pair, got {result!r}{where}")
        carry, y = result
        return carry, opened(y)

    return body


def without_steps(aval):
    """The type of a stacked array in one step."""
    return aval.update(shape=aval.shape[1:])


def scan_length(leaves, length):
    """The number of steps that all arguments agree on."""
    for x in leaves:
        if aval_of(x).ndim == 0:
            raise ValueError(
                "scan got value with no leading axis to scan over: a scalar in xs"
                f"{HERE}"
            )
    sizes = {aval_of(x).shape[0] for x in leaves}
    if length is not None:
        if isinstance(length, Tracer):
            advice = "loop with `lax.fori_loop` or `lax.while_loop`."
            length = concrete(length, "the argument 'length' of lax.scan", advice)
        length = int(length)
        if sizes - {length}:
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading "
                f"axis sizes {sorted(sizes)}.{HERE}"
            )
        return max(length, 0)
    if len(sizes) > 1:
        raise ValueError(
            f"scan got values with different leading axis sizes: {sorted(sizes)}{HERE}"
        )
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return sizes.pop()


def unrolled_steps(unroll, length):
    """How many steps at a time: of `unroll`, a bool or an int."""
    if not isinstance(unroll, (bool, int, np.integer)) or unroll < 0:
        raise ValueError(
            f"scan: unroll must be a bool or a non-negative int, got {unroll!r}"
        )
    return max(length if unroll is True else int(unroll), 1)


def is_tracer(x):
    return isinstance(x, Tracer)


def scan_in_python(f, init, leaves, xs_tree, length, reverse):
    """scan as a Python loop, for `disable_jit`."""
    carry, ys = init, []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_unflatten(xs_tree, [x[i] for x in leaves]))
        ys.append(y)
    if not ys:
        raise ValueError("a scan of no steps cannot run under disable_jit")
    ys = ys[::-1] if reverse else ys
    return carry, tree_map(stack_rows, *ys)


def while_in_python(cond_fun, body_fun, val):
    """while_loop as a Python loop, for `disable_jit`."""
    while cond_fun(val):
        val = body_fun(val)
    return val


def stack_rows(*items):
    """Values stacked along a new first axis, promoted to one dtype."""
    dtype, weak_type = dtypes.result_type(*items, return_weak_type_flag=True)
    rows = [lax.expand_dims(lax.convert(x, dtype, weak_type), (0,)) for x in items]
    return lax.concatenate(rows, 0)
