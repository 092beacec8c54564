"""Looking into traced programs: print a value, call a function, find the first NaN.

    debug_print("x is {x}", x=x)            # also under jit, grad, vmap, in loops
    debug_callback(plot, x)                 # any Python function, with the values
    config.update("jax_debug_nans", True)   # the first NaN is an error, and its line

A callback is an equation without results, kept for its effect.  It sees the values of
the forward pass: under `grad` it is called once, under `vmap` once for each lane.
"""

import string
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from ..trace.arguments import function_name
from ..trace.array import ArrayImpl, aval_of, shape_rules, to_numpy
from ..trace.base.config import config
from ..trace.base.errors import HERE, at_line, user_source
from ..trace.core import BottomTrace, Primitive, eval_rules, result_checks, set_trace
from ..trace.jaxprs.jaxpr import effectful, eval_jaxpr
from ..trace.jit.jit import jit_p
from ..trace.primitives import as_array, broadcast_in_dim_p
from ..trace.trees.pytree import tree_flatten
from .batching.vmap import batch_rules, without_axis
from .derivatives.linearize import constant, linearize_rules
from .derivatives.transpose import transpose_rules
from .flat_functions import CalledByLeaves

debug_callback_p = Primitive("debug_callback", multiple_results=True)
effectful.add(debug_callback_p)


@dataclass(frozen=True, eq=False)
class Callback(CalledByLeaves):
    """A Python function of trees as one of flat arrays; prints under its name.

    Attributes:
      lanes: (size, axis of each argument or None) of each vmap, the innermost last.
    """

    name: str
    function: object
    in_tree: object
    lanes: tuple = ()

    def __call__(self, leaves):
        for given in in_each_lane(self.lanes, leaves):
            self.on_leaves(given)

    def __repr__(self):
        return self.name


def in_each_lane(lanes, leaves):
    """The leaves of each lane in JAX's order: all outer lanes for one inner lane."""
    for at in product(*[range(size) for size, _ in reversed(lanes)]):
        given = leaves
        for (_, axes), i in zip(lanes, reversed(at), strict=True):
            pairs = zip(given, axes, strict=True)
            given = [x if a is None else lane_of(x, a, i) for x, a in pairs]
        yield given


def lane_of(x, axis, i):
    """Lane i of an array, as an array of the same dtype."""
    value = np.array(np.take(to_numpy(x), i, axis))
    return ArrayImpl(value, without_axis(aval_of(x), axis))


def eval_callback(*args, callback):
    callback([as_array(x) for x in args])
    return []


def batch_callback(lanes, axes, *args, callback):
    in_lanes = (lanes.size, tuple(axes)), *callback.lanes
    return debug_callback_p.bind(*args, callback=replace(callback, lanes=in_lanes)), []


shape_rules |= {debug_callback_p: lambda *avals, callback: []}
eval_rules |= {debug_callback_p: eval_callback}
linearize_rules |= constant(debug_callback_p)
# It has no result, so it has no cotangent: running backwards calls nothing.
transpose_rules |= {debug_callback_p: lambda cts, accs, *args, callback: accs}
batch_rules |= {debug_callback_p: batch_callback}


def debug_callback(callback, *args, ordered=False, **kwargs):
    """Call a Python function with the values of traced arrays (`jax.debug.callback`).

    Args:
      callback: called as callback(*args, **kwargs) each time this line is run, with
        arrays instead of tracers; what it returns is ignored.
      args, kwargs: trees of arrays.
      ordered: accepted for JAX's sake; calls come in the order of the program.
    """
    if not callable(callback):
        raise TypeError(f"debug.callback needs a function, got {callback!r}")
    leaves, tree = tree_flatten((args, kwargs))
    wrapped = Callback(function_name(callback), callback, tree)
    debug_callback_p.bind(*leaves, callback=wrapped)


class Checker(string.Formatter):
    """Reads a format string as `str.format` would, but formats nothing."""

    def __init__(self, source):
        self.source = source

    def format_field(self, value, format_spec):
        return ""

    def convert_field(self, value, conversion):
        return value

    def check_unused_args(self, used_args, args, kwargs):
        unused = [x for i, x in enumerate(args) if i not in used_args]
        unused += [name for name in kwargs if name not in used_args]
        if unused:
            raise ValueError(
                f"debug.print was given arguments that its format does not use: "
                f"{unused}{at_line(self.source)}\n"
                "  Instead: name each value in the format, and do not use an f-string, "
                "which would format tracers: debug.print('x is {x}', x=x)"
            )


def debug_print(fmt, *args, ordered=False, **kwargs):
    """Print values while a program runs, traced or not (`jax.debug.print`).

    Args:
      fmt: a format string as `str.format` takes it: "x is {x}, y is {}".
      args, kwargs: trees of arrays, for its fields.
      ordered: see `debug_callback`.

    Raises ValueError for an argument that the format does not use.
    """
    Checker(user_source()).format(fmt, *args, **kwargs)

    def printing(*values, **named):
        print(fmt.format(*values, **named), flush=True)

    printing.__name__ = f"print {fmt!r}"
    debug_callback(printing, *args, ordered=ordered, **kwargs)


# ---- the first NaN

config.define(
    "debug_nans", False, "raise FloatingPointError where a NaN comes up",
    changes_calls=True,
)
config.define(
    "debug_infs", False, "raise FloatingPointError where an infinity does",
    changes_calls=True,
)


def check_numbers(primitive, args, params, results):
    """Raise if results hold what the flags forbid, naming the first bad operation.

    The equations of a call are run again one by one, to find out which one it was.
    """
    # Quick, since every operation asks.
    here, values = config.overrides.values, config.values
    nans = here.get("debug_nans", values["debug_nans"])
    infs = here.get("debug_infs", values["debug_infs"])
    if not (nans or infs) or primitive is broadcast_in_dim_p:
        return          # what is laid out, such as a NaN for `where`, came up before
    bad = next((b for y in results if (b := what_is_bad(y, nans, infs))), None)
    if bad is None:
        return
    if primitive is jit_p:
        # A loop among them is taken step by step: a program would come here again.
        with set_trace(BottomTrace()), config.override("disable_jit", True):
            eval_jaxpr(params["jaxpr"].jaxpr, params["jaxpr"].consts, *args)
    inputs = ", ".join(in_words(x, nans, infs) for x in args)
    name = params["name"] if primitive is jit_p else primitive.name
    raise FloatingPointError(
        f"invalid value ({bad}) encountered in {name}, applied to {inputs or 'nothing'}"
        f"{HERE}"
    )


def what_is_bad(y, nans, infs):
    """"nan" or "inf" if an array holds one and it is forbidden, else None."""
    if getattr(y, "dtype", np.dtype(bool)).kind not in "fcV":
        return None
    value = to_numpy(y)
    if nans and np.isnan(value).any():
        return "nan"
    return "inf" if infs and np.isinf(value).any() else None


def in_words(x, nans, infs):
    """An argument in a message: a number, or a type and whether it was bad already."""
    value = to_numpy(x)
    if value.ndim == 0:
        return str(value)
    bad = what_is_bad(as_array(x), nans, infs)
    return f"{as_array(x).aval}" + (f" with {bad} in it" if bad else "")


result_checks.append(check_numbers)
debug_nans = partial(config.override, "debug_nans")
debug_infs = partial(config.override, "debug_infs")
