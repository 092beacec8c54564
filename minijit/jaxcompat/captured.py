"""Constants within traced functions: JAX traces what is known as well.

    jax.jit(lambda x: x if jnp.asarray(False) else -x)  # JAX: an error; minijit: -x

And `jax.make_jaxpr`: what a function captures becomes constants, scalars as well.

    scale = jnp.array(2.0)
    jax.make_jaxpr(lambda x: scale * x)(1.0).consts     # (2.0,); minijit: a literal

Libraries close over the constants of a program, and compare what is left of it.
"""

from ..numpy import making
from ..trace.arguments import axes_named, flattening, wraps
from ..trace.array import ArrayImpl
from ..trace.core import current_trace
from ..trace.jaxprs.jaxpr import JaxprTrace, JaxprTracer, trace_call
from ..trace.jit.captures import find_captures
from ..trace.jit.jit import trace_is_over
from ..trace.trees.pytree import tree_leaves


def captured_arrays(fun):
    """{id: array} of what a function captures: alone, in trees, in other functions."""
    arrays, todo, seen = {}, [fun], {}
    for value in todo:
        if isinstance(value, ArrayImpl):
            arrays[id(value)] = value
        elif (callable(value) or is_dict(value)) and id(value) not in seen:
            seen[id(value)] = value
            todo += tree_leaves(within(value), is_leaf=is_dict)
    return arrays


def is_dict(x):
    """A table that a function reads need be no pytree: its keys may have no order."""
    return isinstance(x, dict)


def within(value):
    """What a function captures, or what is in a dict."""
    if is_dict(value):
        return [*value.values()]
    captures = find_captures(value)
    return [captures.owners, [v for _, v in captures.values]]


def make_jaxpr(fun, static_argnums=(), axis_env=None, return_shape=False):
    """A function that takes `fun`'s arguments and returns its jaxpr.

    As `minijit.make_jaxpr`, but for captured arrays without axes, which are constants.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")

    @wraps(fun)
    def traced(*args, **kwargs):
        stay, traces = captured_arrays(fun), []

        @wraps(fun)
        def noted(*args, **kwargs):
            traces.append(current_trace())
            return fun(*args, **kwargs)

        with axes_named(axis_env):
            closed, tree = trace_call(noted, args, kwargs, static, arrays_stay=stay)
        trace_is_over(traces.pop())
        infos = flattening["infos"](closed.out_avals)
        shapes = flattening["unflatten"](tree, infos)
        return (closed, shapes) if return_shape else closed

    return traced


def staged(make):
    """A maker of arrays, which are tracers within traced functions.

    Libraries ask so whether they are traced.  What is an array already stays known.
    """

    @wraps(make)
    def call(*args, **kwargs):
        x, trace = make(*args, **kwargs), current_trace()
        while trace is not None and not isinstance(trace, JaxprTrace):
            trace = trace.parent
        given = x is (args[0] if args else kwargs.get("object", kwargs.get("a")))
        if trace is None or not isinstance(x, ArrayImpl) or given:
            return x
        return JaxprTracer(trace, trace.lift(x))

    return call


array, asarray = staged(making.array), staged(making.asarray)
