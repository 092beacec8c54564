"""Exported programs as bytes: jaxprs, with their constants and the trees around them.

    read(written(program))

A jaxpr is pickled as it is, but for three things.  A primitive is its name.  What a
user's rules are for is a call of the function itself, for rules are Python.  And the
lines of the user's source are left out.
"""

import io
import pickle
from typing import Any, NamedTuple

from .. import compiler as compiler
from ..compile.simplify.folding import inline_rules
from ..trace.arguments import TraceInfo
from ..trace.array import shape_rules
from ..trace.core import Primitive
from ..trace.jaxprs.jaxpr import ClosedJaxpr, Eqn
from ..trace.jit.jit import jit_p
from ..trace.trees.pytree import PyTreeDef

HEADER = b"minijit program 1\n"
no_vjp = "no vjp"


class Program(NamedTuple):
    """What is known of an exported function.

    Attributes:
      name, platforms, in_tree, out_tree, in_avals, out_avals: as `Exported` has them.
      closed: its jaxpr, or None if sizes are names.
      vjp: its backward pass, `no_vjp`, or None if it can be had of the jaxpr.
    """

    name: str
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    in_avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]
    platforms: tuple[str, ...]
    closed: ClosedJaxpr | None = None
    vjp: Any = None


def primitive_named(name: str) -> Primitive:
    """The primitive of the library that has a name; ValueError if none has it."""
    for primitive in shape_rules:
        if primitive.name == name:
            return primitive
    raise ValueError(f"this version has no primitive {name!r}, which the program calls")


class Pickler(pickle.Pickler):
    """Writes jaxprs: see the top of this module."""

    def reducer_override(self, x: Any) -> Any:
        if isinstance(x, Primitive) and x in shape_rules:
            if x is primitive_named(x.name):
                return primitive_named, (x.name,)
        if isinstance(x, TraceInfo):
            return TraceInfo, (x.name, x.kind, None, x.arg_names)
        if isinstance(x, Eqn):
            primitive, params = x.primitive, x.params
            if primitive in inline_rules:
                closed = inline_rules[primitive](**params) or params["jaxpr"]
                primitive, params = jit_p, {"name": primitive.name, "jaxpr": closed}
            return Eqn, (primitive, x.invars, x.outvars, params)
        return NotImplemented


def written(program: Program) -> bytearray:
    """A program as bytes.

    Raises:
      NotImplementedError: it has something in it that only this process has.
    """
    file = io.BytesIO()
    file.write(HEADER)
    try:
        Pickler(file).dump(program)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise NotImplementedError(
            f"{program.name} cannot be written, as it calls Python: {error}"
        ) from None
    return bytearray(file.getvalue())


def read(blob: bytes | bytearray) -> Program:
    """The program of these bytes."""
    if not bytes(blob).startswith(HEADER):
        raise ValueError(
            "these bytes are no exported program, or that of another version; it "
            f"begins with {HEADER!r}, and these with {bytes(blob[:18])!r}"
        )
    # The families of primitives have to be there.
    from .. import lax as lax

    return pickle.loads(memoryview(blob)[len(HEADER) :])
