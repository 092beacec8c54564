"""The array API standard's questions to a namespace: which version, which dtypes.

    xp = x.__array_namespace__()              # minijit.numpy
    xp.__array_namespace_info__().dtypes(kind="integral")

The standard: https://data-apis.org/array-api/2024.12/.  Answers are `jax.numpy`'s.
"""

import functools
import importlib

import numpy as np

from ..trace import dtypes
from ..trace.api import devices
from ..trace.api.stages import putters
from ..trace.base.config import config
from ..trace.base.demand import on_demand
from ..trace.core import Array
from .making import placers

__array_api_version__ = "2024.12"
# How the module is imported that arrays name: `jax.numpy` where `jax` means minijit.
spaces = {"arrays": __package__}
# `zeros(3, device=...)` and others.
placers |= {
    "put": lambda x, device: putters["put"](x, device),
    "like": lambda x, other: putters["like"](x, other),
}


class ArrayNamespaceInfo:
    """What `jnp.__array_namespace_info__()` returns (array API: inspection)."""

    def capabilities(self):
        """What traced functions can do: no shapes that depend on values."""
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": 64,
        }

    def default_device(self):
        """None: arrays are wherever a function of them runs."""
        return None

    def devices(self):
        """None, for the default one, and every device there is."""
        return [None, *devices.devices()]

    def default_dtypes(self, *, device=None):
        """The dtypes of arrays that are made without one, by kind."""
        names = {"real floating": "float64", "complex floating": "complex128"}
        names |= dict.fromkeys(("integral", "indexing"), "int64")
        return {kind: dtypes.canonicalize_dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device=None, kind=None):
        """{name: dtype} of the standard's dtypes that there are.

        Args:
          device: any; all have the same ones.
          kind: a kind of `isdtype`, or a tuple of them; by default all.
        """
        kind = ("bool", "numeric") if kind is None else kind
        wide = " int64 uint64 float64 complex128" if config.enable_x64 else ""
        names = "bool int8 int16 int32 uint8 uint16 uint32 float32 complex64" + wide
        found = map(dtypes.as_dtype, names.split())
        return {d.name: d for d in found if dtypes.isdtype(d, kind)}


def __array_namespace_info__():
    """An object that answers what the namespace has (array API: inspection)."""
    return ArrayNamespaceInfo()


def array_namespace(self, *, api_version=None):
    """`x.__array_namespace__()`: the module with the functions for arrays.

    Raises ValueError for another version of the standard than `__array_api_version__`.
    """
    if api_version not in (None, __array_api_version__):
        raise ValueError(
            f"{api_version=} is not available; available versions are: "
            f"{[__array_api_version__]}"
        )
    return importlib.import_module(spaces["arrays"])


# Python looks names with two underscores up in the class, and not in `operators`.
setattr(Array, "__array_namespace__", array_namespace)  # noqa: B010

# The functions that are ufuncs in NumPy, by how many numbers they take.
ufuncs = {
    1: ["negative"],
    2: """
        add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and
        logical_or logical_xor maximum minimum multiply subtract
    """.split(),
}
identities = {
    "add": 0, "multiply": 1, "logical_and": True, "logical_or": False,
    "logical_xor": False, "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0,
    "logaddexp": -np.inf, "logaddexp2": -np.inf,
}  # fmt: skip


def add_methods(namespace):
    """Give the functions that are ufuncs in NumPy their methods."""
    for count, names in ufuncs.items():
        for name in filter(namespace.__contains__, names):
            function, identity = namespace[name], identities.get(name)
            made = functools.partial(
                on_demand("numpy.vectorized:ufunc"),
                *(function, count, 1), name=name, identity=identity,
            )
            known = {"nin": count, "nout": 1, "nargs": count, "identity": identity}
            for method in "reduce accumulate at outer reduceat".split():
                known[method] = functools.partial(method_of, made, method)
            vars(function).update(known)


def method_of(made, method, /, *args, **kwargs):
    """Call a method of what `made()` gives."""
    return getattr(made(), method)(*args, **kwargs)
