"""A function of trees as a function of flat lists of arrays."""

from ..trace.arguments import function_name
from ..trace.core import Tracer, current_trace
from ..trace.errors import at_line, user_source
from ..trace.primitives import as_array
from ..trace.pytree import tree_flatten, tree_map, tree_unflatten


class FlatFunction:
    """A function of trees as a function of flat lists.

    Attributes:
      out_tree: the structure of the last result; known after a call.
      aux: with `has_aux`, the second result of the last call.
    """

    def __init__(self, function, in_tree, has_aux=False):
        self.function = check_callable(function)
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree = None
        self.aux = None

    def __call__(self, *leaves):
        result = self.function(*tree_unflatten(self.in_tree, leaves))
        if self.has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise TypeError(
                    f"{function_name(self.function)} must return a pair (result, aux), "
                    f"because has_aux=True; it returned {result!r}"
                )
            result, aux = result
            self.aux = tree_map(primal_here, aux)
        leaves, self.out_tree = tree_flatten(result)
        return list(map(as_array, leaves))


def check_callable(fun):
    """`fun`, which is to be differentiated; TypeError if it is no function."""
    if not callable(fun):
        where = at_line(user_source())
        raise TypeError(f"Expected a callable value, got {fun!r}{where}")
    return fun


def primal_here(x):
    """A leaf of an aux, which leaves the current trace without its tangent."""
    mine = isinstance(x, Tracer) and x.owner is current_trace()
    return getattr(x, "primal", x) if mine else x
