"""Arrays that know over which mesh they were placed, and functions that place results.

    x = device_put(x, NamedSharding(mesh, P("rows")))
    x.sharding                      # the one it was put with
    (x + 1).sharding                # the same; `x.sum().sharding` has the spec P()
    jit(f, out_shardings=...)(x)    # the results are put as said

With one device nothing moves: only what an array answers differs.  An array that was
never placed is an `ArrayImpl` as before, and until the first one is placed nobody asks.
"""

from functools import cache
from typing import TYPE_CHECKING

from ..trace.api.devices import cpu
from ..trace.array import ArrayImpl, aval_of
from ..trace.core import result_checks
from ..trace.jaxprs.jaxpr import Literal
from ..trace.jaxprs.memory import memoised
from ..trace.jit.donation import inputs_read
from ..trace.jit.jit import jit_p
from .meshes import NamedSharding, PartitionSpec

# Each class of placed arrays has an array's class beside this one, and its attributes.
Base: type = ArrayImpl if TYPE_CHECKING else object


class Placed(Base):
    """What the classes of placed arrays add to that of the array.

    Attributes:
      sharding: a `NamedSharding`; plain: the class of the array.
    """

    __slots__ = ()
    committed = True
    sharding: NamedSharding
    plain: type

    def renewed(self):
        """The same array as an object of its own, which can be deleted on its own."""
        return place(super().renewed(), self.sharding)

    def __reduce__(self):
        # Where it is read again there may be another mesh.
        return type(self).plain, super().__reduce__()[1]


@cache
def placed_kind(kind):
    """The class of the placed arrays of a class of arrays."""
    slots = {"__slots__": ("sharding",), "plain": kind}
    return type(f"Placed{kind.__name__}", (Placed, kind), slots)


def place(x, sharding):
    """A concrete array as one that lies as a `NamedSharding` says; others as they are.

    The numbers are the same ones in memory.
    """
    if not isinstance(x, ArrayImpl) or x.device != cpu:
        return x
    plain = getattr(type(x), "plain", type(x))
    if not isinstance(sharding, NamedSharding):
        return unplaced(x)
    y = object.__new__(placed_kind(plain))
    y.aval, y._value, y.sharding = x.aval, x.numpy(), sharding
    if keep_placement not in result_checks:
        result_checks.append(keep_placement)
    return y


def unplaced(x):
    """An array that lies on the one device, of no mesh."""
    if not isinstance(x, Placed):
        return x
    y = object.__new__(type(x).plain)
    y.aval, y._value = x.aval, x.numpy()
    return y


# ---- What becomes of it in operations


def keep_placement(primitive, args, params, results):
    """Results of placed arrays are placed, over the mesh of the first of them.

    As in JAX on one device.  Over axes of `AxisType.Auto` a result lies as the first
    argument does if that is placed and has as many axes, and else as `P()` says.  Over
    axes of `AxisType.Explicit` the types say how.
    """
    if not isinstance(results, list) or not any(isinstance(x, Placed) for x in args):
        return
    used = range(len(args))
    if primitive is jit_p:
        used = inputs_used(params["jaxpr"].jaxpr)
    placed = [args[i].sharding for i in used if isinstance(args[i], Placed)]
    if not placed:
        return
    specs = [None] * len(results)
    if any(sharding.mesh.explicit_axes for sharding in placed):
        types = map(spec_of, args), map(aval_of, args), params, map(aval_of, results)
        specs = specs_after(primitive, *types)
    for i, (y, spec) in enumerate(zip(results, specs, strict=True)):
        first = args[used[0]]
        if spec is not None:
            results[i] = place(y, placed[0].update(spec=spec))
        elif isinstance(first, Placed) and first.ndim == y.ndim:
            results[i] = place(y, first.sharding)
        else:
            results[i] = place(y, placed[0].update(spec=PartitionSpec()))


# JAX drops the inputs that a jaxpr does not use.
inputs_used = memoised(inputs_read)


# ---- Axes that types know: the parts of a spec follow the axes of an array


def spec_of(x):
    """For each axis of an argument the axis of a mesh that it lies over, or None."""
    spec = tuple(x.sharding.spec) if isinstance(x, Placed) else ()
    return spec + (None,) * (aval_of(x).ndim - len(spec))


def after_reduction(spec, axes, **params):
    return [part for axis, part in enumerate(spec) if axis not in axes]


def after_broadcast(spec, shape, broadcast_dimensions, **params):
    where = dict(zip(broadcast_dimensions, spec, strict=True))
    return [where.get(axis) for axis in range(len(shape))]


def after_product(x, y, dimension_numbers, **params):
    (over_x, over_y), (batch_x, batch_y) = dimension_numbers
    rest = after_reduction(x, {*over_x, *batch_x})
    return [x[i] for i in batch_x] + rest + after_reduction(y, {*over_y, *batch_y})


# name of a primitive -> the spec of its result, from those of its arguments
spec_rules = {
    "transpose": lambda spec, permutation, **_: [spec[axis] for axis in permutation],
    "squeeze": lambda spec, dimensions, **_: after_reduction(spec, dimensions),
    "broadcast_in_dim": after_broadcast,
    "dot_general": after_product,
    "argmax": after_reduction,
    "argmin": after_reduction,
    **{
        f"reduce_{name}": after_reduction
        for name in "sum max min prod and or xor".split()
    },
}


def specs_after(primitive, specs, avals, params, out_avals):
    """The specs of results, from those of arguments."""
    specs, avals = [*map(tuple, specs)], [*avals]
    if primitive is jit_p:
        return specs_of_results(params["jaxpr"].jaxpr, *specs)
    if rule := spec_rules.get(primitive.name):
        return [PartitionSpec(*rule(*specs, **params))]
    return [merged(specs, avals, aval) for aval in out_avals]


def merged(specs, avals, aval):
    """The spec of a result each axis of which is that of arguments of as many axes."""
    alike = [s for s, a in zip(specs, avals, strict=True) if a.ndim == aval.ndim]
    parts = [next(filter(None, each), None) for each in zip(*alike, strict=True)]
    return PartitionSpec(*(parts if alike else [None] * aval.ndim))


@memoised
def specs_of_results(jaxpr, *specs):
    """The specs of a jaxpr's results, from those of its inputs."""
    known = dict(zip(jaxpr.invars, specs, strict=True))
    nowhere = lambda v: (None,) * getattr(v.aval, "ndim", 0)
    read = lambda v: nowhere(v) if isinstance(v, Literal) else known.get(v, nowhere(v))
    for eqn in jaxpr.eqns:
        avals, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
        types = map(read, eqn.invars), avals, eqn.params, outs
        after = map(tuple, specs_after(eqn.primitive, *types))
        known |= zip(eqn.outvars, after, strict=True)
    return [PartitionSpec(*read(v)) for v in jaxpr.outvars]
