"""Meshes of the one device there is, and how an array is split over their axes.

    mesh = make_mesh((1, 1), ("data", "model"))
    NamedSharding(mesh, PartitionSpec("data", None))

An array that is split over one device lies there whole.  A program that names an axis
which the mesh does not have is told, as JAX tells it.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..trace.api.devices import Sharding, cpu
from ..trace.base.config import config
from ..trace.base.errors import HERE
from ..trace.types import Shape


class AxisType(enum.Enum):
    """Who splits what lies along an axis of a mesh: the compiler, or the program."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self):
        return self.name


class Unconstrained:
    """Says of an axis of an array that it may be split in any way."""

    def __repr__(self):
        return "UNCONSTRAINED"


class PartitionSpec:
    """For each axis of an array the axis of a mesh that it is split over, or None.

    Several axes of the mesh stand in a tuple.
    """

    UNCONSTRAINED = Unconstrained()
    unreduced = reduced = frozenset()

    def __init__(self, *partitions: Any) -> None:
        self._partitions = tuple(map(self.canonical, partitions))

    @staticmethod
    def canonical(part):
        part = tuple(part) if isinstance(part, list) else part
        if isinstance(part, tuple) and len(part) < 2:
            return part[0] if part else None
        return part

    def __iter__(self):
        return iter(self._partitions)

    def __len__(self):
        return len(self._partitions)

    def __getitem__(self, i):
        return self._partitions[i]

    def index(self, part):
        return self._partitions.index(part)

    def count(self, part):
        return self._partitions.count(part)

    def __add__(self, other):
        return PartitionSpec(*self, *other)

    def __radd__(self, other):
        return PartitionSpec(*other, *self)

    def __eq__(self, other):
        if not isinstance(other, (PartitionSpec, tuple)):
            return NotImplemented
        return self._partitions == tuple(other)

    def __hash__(self):
        return hash(self._partitions)

    def __reduce__(self):
        return PartitionSpec, self._partitions

    def __repr__(self):
        inner = ", ".join(map(repr, self))
        return f"P({inner},)" if len(self) == 1 else f"P({inner})"

    def mesh_axes(self):
        """The names of the mesh's axes that it mentions."""
        for part in self:
            for name in part if isinstance(part, tuple) else (part,):
                if name is not None and name is not self.UNCONSTRAINED:
                    yield name


class AbstractMesh:
    """The names and sizes of the axes of a mesh, without its devices."""

    def __init__(
        self, axis_sizes, axis_names, axis_types=None, *, abstract_device=None
    ):
        self.axis_sizes, self.axis_names = tuple(axis_sizes), tuple(axis_names)
        if isinstance(axis_types, AxisType):
            axis_types = (axis_types,) * len(self.axis_names)
        self.axis_types = axis_types or (AxisType.Auto,) * len(self.axis_names)
        if len(self.axis_sizes) != len(self.axis_names):
            raise ValueError(
                f"a mesh needs a name for each axis, got sizes {self.axis_sizes} and "
                f"names {self.axis_names}"
            )

    @property
    def shape(self):
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    shape_tuple = property(lambda self: tuple(self.shape.items()))
    size = property(lambda self: int(np.prod(self.axis_sizes, dtype=int)))
    empty = property(lambda self: not self.axis_names)

    def axes_of(self, kind):
        """The names of the axes of one `AxisType`."""
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple(name for name, given in pairs if given == kind)

    auto_axes = property(lambda self: self.axes_of(AxisType.Auto))
    explicit_axes = property(lambda self: self.axes_of(AxisType.Explicit))
    manual_axes = property(lambda self: self.axes_of(AxisType.Manual))

    def all_are(self, kind):
        """Whether there are axes, and all of them are of one `AxisType`."""
        return bool(self.axis_names) and self.axes_of(kind) == self.axis_names

    are_all_axes_auto = property(lambda self: self.all_are(AxisType.Auto))
    are_all_axes_explicit = property(lambda self: self.all_are(AxisType.Explicit))
    are_all_axes_manual = property(lambda self: self.all_are(AxisType.Manual))

    def key(self):
        return type(self), self.axis_sizes, self.axis_names, self.axis_types

    def __eq__(self, other):
        return isinstance(other, AbstractMesh) and self.key() == other.key()

    def __hash__(self):
        return hash(self.key())

    def __repr__(self):
        return self.text("AbstractMesh")

    def text(self, name):
        """A mesh of that name in words, by the sizes of its axes."""
        axes = ", ".join(f"{name!r}: {n}" for name, n in self.shape.items())
        return f"{name}({axes or '()'}, axis_types={self.axis_types})"


class Mesh(AbstractMesh):
    """Devices in rows and columns, whose axes have names.

    Args:
      devices: an array of devices; there is one, so that every axis has size 1.
      axis_names: a name for each axis.
    """

    def __init__(self, devices, axis_names, axis_types=None):
        self.devices = np.asarray(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        super().__init__(self.devices.shape, names, axis_types)
        if any(device != cpu for device in self.devices.flat):
            raise ValueError(f"there is one device here, {cpu!r}, got {self.devices}")

    @property
    def abstract_mesh(self):
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def device_ids(self):
        return np.vectorize(lambda device: device.id, otypes=[int])(self.devices)

    local_devices = property(lambda self: list(self.devices.flat))
    local_mesh = property(lambda self: self)
    is_multi_process = False

    def __enter__(self):
        self.entered = [*getattr(self, "entered", ()), use_mesh(self)]
        return self.entered[-1].__enter__()

    def __exit__(self, *error):
        return self.entered.pop().__exit__(*error)

    def __repr__(self):
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


empty_mesh = AbstractMesh((), ())
# None stands for the empty one: each operation's key has it, and hashes it.
config.define("mesh", None, "set by set_mesh: the mesh around us", changes_traces=True)


P = PartitionSpec


def make_mesh(
    axis_shapes: Shape, axis_names: Sequence[str], axis_types: Any = None, *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the devices there are.  JAX: `jax.make_mesh`."""
    given = [cpu] if devices is None else list(devices)
    axis_shapes = tuple(axis_shapes)
    if len(given) < np.prod(axis_shapes, dtype=int):
        raise ValueError(
            f"Number of devices {len(given)} must be >= the product of mesh_shape "
            f"{axis_shapes}{HERE}"
        )
    types = axis_types or (AxisType.Explicit,) * len(axis_shapes)
    array = np.array(given, dtype=object).reshape(axis_shapes)
    return Mesh(array, axis_names, tuple(types))


def get_mesh():
    """The mesh around us, or an empty one."""
    return config.mesh or empty_mesh


get_abstract_mesh = get_mesh


@contextmanager
def use_mesh(mesh):
    """Let a mesh be the one whose axes a `PartitionSpec` names, in a `with` block."""
    with config.override("mesh", mesh or None):
        yield mesh


class set_mesh:
    """`set_mesh(mesh)` from here on; `with set_mesh(mesh):` for a block."""

    def __init__(self, mesh: Any) -> None:
        self.before, self.mesh = config.mesh, mesh
        config.update("mesh", mesh or None)

    def __enter__(self):
        return self.mesh

    def __exit__(self, *error):
        config.update("mesh", self.before)


@dataclass(frozen=True)
class NamedSharding(Sharding):
    """How an array is split over the axes of a mesh: NamedSharding(mesh, spec)."""

    mesh: AbstractMesh
    spec: PartitionSpec
    memory_kind: str | None = "device"

    def __init__(self, mesh: Any, spec: Any, *, memory_kind: str | None = None) -> None:
        spec = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        fields = ("device", cpu), ("mesh", mesh), ("spec", spec)
        for name, value in (*fields, ("memory_kind", memory_kind or "device")):
            object.__setattr__(self, name, value)
        unknown = [name for name in spec.mesh_axes() if name not in mesh.axis_names]
        if unknown:
            raise ValueError(
                f"Resource axis: {unknown[0]} of {spec} is not found in mesh: "
                f"{mesh.axis_names}.{HERE}"
            )

    def update(self, **changes):
        """The same sharding with another mesh, spec or kind of memory."""
        return NamedSharding(
            changes.get("mesh", self.mesh),
            changes.get("spec", self.spec),
            memory_kind=changes.get("memory_kind", self.memory_kind),
        )

    def with_memory_kind(self, kind):
        return self.update(memory_kind=kind)

    def __repr__(self):
        mesh = self.mesh.text(type(self.mesh).__name__)
        end = f"memory_kind={self.memory_kind})"
        return f"NamedSharding(mesh={mesh}, spec={self.spec}, {end}"


def sharding_of_type(aval):
    """The sharding that belongs to a type: over no axis of a mesh."""
    return NamedSharding(empty_mesh, PartitionSpec(*[None] * aval.ndim))
