"""Names of the axes that `vmap` adds, for primitives that look across lanes.

    vmap(lambda x: x - pmean(x, "i"), axis_name="i")(xs)

A *collective*, such as `psum`, mentions the name of an axis in its params.  Which sizes
the named axes have is known while the function runs, and to jitted functions in it.
"""

from contextlib import contextmanager

from ...trace.base.config import config
from ...trace.jaxprs.jaxpr import ClosedJaxpr

# Primitives that look across lanes; their rules run even if no argument has any.
collective_rules = {}
# Primitives whose params may be Python functions, which may have captured lanes.
holding_functions = set()


# Functions traced under axes with names may ask for their sizes, so traces differ.
config.define("named_axes", (), "set by vmap: its axes' names", changes_traces=True)


def axis_sizes():
    """{name: size} of the axes that the vmaps around us have given a name."""
    return dict(config.named_axes)


@contextmanager
def naming(lanes):
    """Make the name of an axis known while a `with` block runs."""
    if lanes.name is None:
        yield
        return
    named = {**axis_sizes(), lanes.name: lanes.size}
    with config.override("named_axes", tuple(named.items())):
        yield


def looks_across(params, name):
    """Whether a collective, or one within the jaxprs of a call, is over that axis."""
    if name is None:
        return False
    if name in params.get("axis_name", ()):
        return True
    values = [
        value
        for param in params.values()
        for value in (param if isinstance(param, (tuple, list)) else (param,))
    ]
    jaxprs = [value for value in values if isinstance(value, ClosedJaxpr)]
    eqns = [eqn for closed in jaxprs for eqn in closed.eqns]
    return any(looks_across(eqn.params, name) for eqn in eqns)


def is_collective(primitive, params, name):
    """Whether the primitive itself is a collective over that axis."""
    return primitive in collective_rules and looks_across(params, name)


def shared_by_all(primitive, axes, params, name):
    """Whether all lanes can share one application of a primitive.

    They cannot if it looks across lanes, or holds a function that may have captured
    a value with lanes.
    """
    hidden = primitive in holding_functions and callable(params["call"])
    alike = all(axis is None for axis in axes)
    return alike and not hidden and not looks_across(params, name)
