"""What JAX's classes have and ours have no need of: attributes they are given here.

    aval.sharding, jaxpr.effects, primitive.def_impl(...), compiled.explain()

All such additions stand in this file, and each is made once: a name that a class has
already is an error.  It is imported when a name is asked for that a class does not
have: see `demand.more_attributes`.
"""

import dataclasses
from contextlib import nullcontext
from types import SimpleNamespace

from ..trace.api.devices import Device, Sharding
from ..trace.api.stages import Compiled, Lowered
from ..trace.arguments import TraceInfo
from ..trace.array import ShapedArray, shape_rules
from ..trace.base.demand import fetch, on_demand
from ..trace.base.errors import Source
from ..trace.core import Primitive, Trace, Tracer, eval_rules, find_rule
from ..trace.jaxprs.jaxpr import ClosedJaxpr, Eqn, Jaxpr, has_effect
from ..trace.trees.pytree import NodeType, node_types as node_types
from ..transform.tangents import zero_type
from .meshes import sharding_of_type

no_effects: frozenset = frozenset()


def give(cls, attributes):
    """Give a class more attributes: functions that become methods, properties, values.

    Raises:
      TypeError: it has one of the names already.
    """
    for name, value in attributes.items():
        if name in vars(cls):
            raise TypeError(f"{cls.__name__} has an attribute {name!r} already")
        setattr(cls, name, value)


def rule_of(table, kind):
    """What JAX's primitives have as an attribute: the row of a table."""

    def get(primitive):
        return vars(primitive).get(kind) or find_rule(table, primitive, kind)

    return property(get, lambda p, rule: vars(p).update({kind: rule}))


def rules_from_methods(cls, **options):
    """A subclass of `Primitive` may say its rules as methods, which each one gets."""
    super(Primitive, cls).__init_subclass__(**options)
    make = cls.__init__

    def __init__(primitive, *args, **kwargs):
        make(primitive, *args, **kwargs)
        if callable(getattr(cls, "impl", None)):
            primitive.def_impl(primitive.impl)
        if callable(getattr(cls, "abstract_eval", None)):
            # The method gives (types, effects).
            rule = primitive.abstract_eval
            shapes = lambda *avals, **params: rule(*avals, **params)[0]
            primitive.def_abstract_eval(shapes)

    if {"impl", "abstract_eval"} & set(vars(cls)):
        cls.__init__ = __init__
    if "multiple_results" in vars(cls):
        # The class says it for all, before its own `__init__` as well.
        many = cls.multiple_results
        cls.multiple_results = property(lambda p: many, lambda p, given: None)


def replaced(closed, *, jaxpr=None, consts=None):
    """`closed.replace(jaxpr=, consts=)`."""
    consts = closed.consts if consts is None else consts
    return ClosedJaxpr(jaxpr or closed.jaxpr, consts)


give(ShapedArray, {
    "sharding": property(sharding_of_type),
    "vma": no_effects,
    "to_tangent_aval": zero_type,
    "at_least_vspace": zero_type,
})
# Libraries ask which of the traces around them a value belongs to.
give(Device, {
    "client": property(lambda device: fetch("extend.backend:get_backend")()),
    "addressable_memories": lambda device: [SimpleNamespace(kind="device")],
    "local_hardware_id": property(lambda device: device.id),
    "memory_stats": lambda device: None,
})
# All parts of an array are one, which is on the one device.
there = property(lambda sharding: {sharding.device})
parts = lambda sharding, shape: {sharding.device: (slice(None),) * len(shape)}
give(Sharding, {
    "_addressable_device_assignment": property(lambda sharding: (sharding.device,)),
    "device_set": there,
    "addressable_devices": there,
    "num_devices": 1,
    "is_fully_addressable": True,
    "is_fully_replicated": True,
    "devices_indices_map": parts,
    "addressable_devices_indices_map": parts,
    "shard_shape": lambda sharding, shape: tuple(shape),
    "is_equivalent_to": lambda sharding, other, ndim: (
        isinstance(other, Sharding) and sharding.device == other.device
    ),
})
give(Trace, {"main": property(lambda trace: trace)})
give(Tracer, {"_trace": property(lambda x: x.owner)})
give(NodeType, {
    "to_iter": property(lambda kind: kind.flatten),
    "from_iter": property(lambda kind: kind.unflatten),
})
give(Primitive, {
    "def_impl": on_demand("extend.core:def_impl"),
    "def_abstract_eval": on_demand("extend.core:def_abstract_eval"),
    "def_effectful_abstract_eval": on_demand("extend.core:def_effectful_abstract_eval"),
    "impl": rule_of(eval_rules, "impl"),
    "abstract_eval": rule_of(shape_rules, "abstract_eval"),
    "__init_subclass__": classmethod(rules_from_methods),
    "bind_with_trace": on_demand("extend.core:bind_with_trace"),
    "get_bind_params": lambda primitive, params: dict(params),
    "call_primitive": False,
    "map_primitive": False,
})
as_text = {"pretty_print": lambda jaxpr, **options: str(jaxpr)}
give(Jaxpr, as_text | {
    "effects": property(lambda jaxpr: {e for e in jaxpr.eqns if has_effect(e)}),
    "debug_info": property(lambda jaxpr: jaxpr.debug),
    "is_high": False,
})


def with_changes(jaxpr, *, effects=None, is_high=False, **changes):
    """`jaxpr.replace(...)` in JAX's words: effects are those of the equations."""
    debug = {"debug": changes.pop("debug_info")} if "debug_info" in changes else {}
    fields = {name: part if name == "debug" else tuple(part)
              for name, part in changes.items()}  # fmt: skip
    return dataclasses.replace(jaxpr, **fields, **debug)


# It has the method with the words of its own fields.
Jaxpr.replace = with_changes  # type: ignore[method-assign]
give(ClosedJaxpr, as_text | {
    "effects": property(lambda closed: closed.jaxpr.effects),
    "literals": property(lambda closed: closed.consts),
    "is_high": False,
    "replace": replaced,
})
# What an equation was recorded under; here that is nothing.
context = SimpleNamespace(
    manager=nullcontext(), compute_type=None, threefry_partitionable=True,
    xla_metadata=None, cur_abstract_mesh=None,
)  # fmt: skip
give(Eqn, {
    "ctx": context,
    "effects": property(lambda eqn: {eqn} if has_effect(eqn) else no_effects),
    "source_info": property(lambda eqn: eqn.source),
})
no_names = "extend.source_info_util:NameStack"
give(Source, {"name_stack": property(lambda at: fetch(no_names)()), "traceback": None})
give(TraceInfo, {
    "traced_for": property(lambda info: info.kind),
    "func_name": property(lambda info: info.name),
    "func_filename": property(lambda info: info.source and info.source.file),
    "func_lineno": property(lambda info: info.source and info.source.line),
    "func_src_info": property(lambda info: " at ".join(where(info))),
    "result_paths": None,
})


def where(info):
    """A function's name and, if it is known, its place."""
    source = info.source
    return info.name, *([f"{source.file}:{source.line}"] if source else [])


def analyses(names):
    """{name: method} of functions in `jaxcompat/analyses.py`."""
    return {name: on_demand(f"jaxcompat.analyses:{name}") for name in names.split()}


def properties(names):
    """The same as properties."""
    return {name: property(f) for name, f in analyses(names).items()}


give(Lowered, analyses("cost_analysis") | properties("args_info"))
give(Lowered, {"compiler_ir": on_demand("export:compiler_ir")})
give(Compiled, {
    **analyses("cost_analysis memory_analysis"),
    **properties("args_info input_shardings output_shardings"),
    "call": Compiled.__call__,
    "donate_argnums": property(lambda compiled: compiled.lowered.donate_argnums),
    "runtime_executable": lambda compiled: compiled.executable,
})
