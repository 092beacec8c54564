"""A function of trees as a function of flat lists of arrays."""

from collections.abc import Callable
from functools import cached_property

from ..trace.arguments import function_name
from ..trace.base.errors import HERE
from ..trace.core import Tracer, current_trace
from ..trace.jit.refs import Ref, check_no_refs, read
from ..trace.primitives import as_array
from ..trace.trees.pytree import PyTreeDef, tree_flatten, tree_unflatten


class FlatFunction:
    """A function of trees as a function of flat lists.

    Attributes:
      out_tree: the structure of the last result; known after a call.
      refs: which of its leaves were refs, or None where refs cannot be returned.
    """

    def __init__(self, function, in_tree, has_aux=False, refs=False):
        self.function = check_callable(function)
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.refs = [] if refs else None
        self.out_tree = None
        self.aux_leaves = self.aux_tree = None

    def __call__(self, *leaves):
        result = self.function(*tree_unflatten(self.in_tree, leaves))
        if self.has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise TypeError(
                    "expected function with aux output to return a two-element tuple: "
                    f"{function_name(self.function)} must return (result, aux), "
                    f"because has_aux=True; it returned {result!r}"
                )
            result, aux = result
            leaves, self.aux_tree = tree_flatten(aux)
            self.aux_leaves = list(map(primal_here, leaves))
        leaves, self.out_tree = tree_flatten(result)
        if self.refs is None:
            check_no_refs(result, leaves)
        else:
            self.refs = [i for i, x in enumerate(leaves) if isinstance(x, Ref)]
            leaves = [read(x) if isinstance(x, Ref) else x for x in leaves]
        return list(map(as_array, leaves))

    def tree_of(self, leaves):
        """Leaves in the structure of the last result, with refs where it had some."""
        made = [Ref(x) if i in self.refs else x for i, x in enumerate(leaves)]
        return tree_unflatten(self.out_tree, made)

    @property
    def aux(self):
        """The second result of the last call, with `has_aux`.

        Its tree is built when it is asked for, after the trace is over: an object of a
        user's class may remember in which trace it was made.
        """
        return tree_unflatten(self.aux_tree, self.aux_leaves)


class CalledByLeaves:
    """What calls `function` with arguments whose leaves it is given.

    Attributes:
      in_tree: the structure of (args, kwargs).
    """

    function: Callable
    in_tree: PyTreeDef

    @cached_property
    def is_flat(self):
        """Whether each argument is a leaf, and none has a name."""
        args, kwargs = self.in_tree.children()
        return not kwargs.num_leaves and all(
            child.num_nodes == child.num_leaves == 1 for child in args.children()
        )

    def on_leaves(self, leaves):
        """The function's result."""
        if self.is_flat:
            return self.function(*leaves)
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        return self.function(*args, **kwargs)


def check_callable(fun):
    """`fun`, which is to be differentiated; TypeError if it is no function."""
    if not callable(fun):
        where = str(HERE)
        raise TypeError(f"Expected a callable value, got {fun!r}{where}")
    return fun


def primal_here(x):
    """A leaf of an aux, which leaves the current trace without its tangent."""
    mine = isinstance(x, Tracer) and x.owner is current_trace()
    return getattr(x, "primal", x) if mine else x
