"""Mutable arrays: `new_ref`, and what a traced function makes of them.

    count = new_ref(0)

    @jit
    def double(x):
        count[...] += 1
        return 2 * x

    double(3.0), count          # (6., Ref(1, dtype=int32))

A jaxpr knows nothing of refs.  While a function is recorded, each ref of outside that
it reads or writes is one more input, and each that it writes one more result
(`RefsInside`).  Whoever calls the jaxpr passes the present values, and writes the
results back (`RefsOutside`).  A ref that was made in a trace belongs to this trace and
is nothing but a name for a value; so derivatives and `vmap` need no rules for refs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import TraceInfo
from ..array import ShapedArray
from ..base.errors import HERE
from ..core import Array, BottomTrace, Tracer, current
from ..jaxprs.jaxpr import JaxprTrace, flattening
from ..primitives import as_array, convert
from ..trees.paths import tree_flatten_with_path
from ..trees.pytree import keystr
from ..types import ArrayLike


@dataclass(frozen=True)
class AbstractRef:
    """The type of a ref (`jax.ref.AbstractRef`), which has that of its value."""

    inner_aval: ShapedArray

    def __str__(self):
        return f"Ref{{{self.inner_aval.dtype.name}[{self.dimensions()}]}}"

    __repr__ = __str__

    def dimensions(self):
        return ",".join(map(str, self.inner_aval.shape))


class Ref:
    """A mutable array (`jax.Ref`): `ref[i]` reads, `ref[i] = x` writes, in place.

    A written value has the shape of what it replaces, and its dtype; a Python number,
    and any integer for an integer, is converted.
    """

    __slots__ = ("aval", "_owner", "_held", "__weakref__")

    def __init__(self, value):
        value = as_array(value)
        self.aval = AbstractRef(value.aval)
        self._owner = level(current.trace)
        self._held = value

    shape = property(lambda self: self.aval.inner_aval.shape)
    dtype = property(lambda self: self.aval.inner_aval.dtype)
    weak_type = property(lambda self: self.aval.inner_aval.weak_type)
    ndim = property(lambda self: self.aval.inner_aval.ndim)
    size = property(lambda self: self.aval.inner_aval.size)
    sharding = property(lambda self: read(self).sharding)

    def __getitem__(self, index):
        return get(self, index)

    def __setitem__(self, index, value):
        set(self, index, value)

    def __len__(self):
        return len(read(self))

    def __repr__(self):
        value = read(self)
        if isinstance(value, Tracer):
            return f"JitTracer({self.aval})"
        return "Ref" + repr(value).removeprefix("Array")

    def addupdate(self, x, idx=()):
        """Add to the elements at an index."""
        addupdate(self, idx, x)

    @property
    def at(self):
        raise NotImplementedError("a Ref has no .at: write ref[i] = x")

    def __deepcopy__(self, memo):
        return Ref(read(self))

    def __reduce__(self):
        return Ref, (read(self),)


def new_ref(init_val: ArrayLike, *, memory_space: Any = None, kind: Any = None) -> Ref:
    """A mutable array with an initial value (`jax.new_ref`).

    Args:
      init_val: an array or a number.
      memory_space: only None; kind: as in JAX, None or "no_grad_no_remat", without
        consequence here.
    """
    if memory_space is not None:
        raise NotImplementedError("new_ref: there is one memory space, None")
    if isinstance(init_val, (Ref, list, tuple)):
        raise TypeError(
            "Error interpreting argument to new_ref as a JAX value. The problematic "
            f"value is of type {type(init_val)} and was passed to new_ref at position "
            f"0.{HERE}"
        )
    return Ref(init_val)


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A ref of a type, whose value is not to be read yet; here it is zero."""
    return new_ref(np.zeros(ty.shape, ty.dtype), memory_space=memory_space)


def freeze(ref: Ref) -> Array:
    """The last value of a ref, which must not be used any more (`jax.freeze`)."""
    value = read(check_ref(ref, "freeze"))
    if level(current.trace) is not ref._owner:
        raise ValueError(
            f"this {ref.aval} can only be frozen in the function that made it{HERE}"
        )
    ref._held = None
    return value


def free_ref(ref: Ref) -> tuple[()]:
    """Say that a ref will not be used any more (`jax.ref.free_ref`)."""
    freeze(ref)
    return ()


def get(ref, idx=None):
    """The elements of a ref at an index, or all of them (`jax.ref.get`)."""
    value = read(check_ref(ref, "ref_get"))
    idx = as_tuple(idx)
    if not idx:
        return value
    shape_at(value, idx)
    return value[idx]


def swap(ref, idx, value, _function_name="ref_swap"):
    """Replace the elements at an index: -> those before (`jax.ref.swap`)."""
    before = get(check_ref(ref, _function_name), idx)
    set(ref, idx, value)
    return before


def set(ref, idx, value):
    """Replace the elements of a ref at an index (`jax.ref.set`)."""
    store(check_ref(ref, "ref_set"), as_tuple(idx), value, "swap")


def addupdate(ref, idx, x):
    """Add to the elements of a ref at an index (`jax.ref.addupdate`)."""
    store(check_ref(ref, "ref_addupdate"), as_tuple(idx), x, "addupdate")


def check_ref(ref, name):
    if not isinstance(ref, Ref):
        raise ValueError(f"Can only call `{name}` on a `Ref`: {ref}.")
    return ref


def as_tuple(idx):
    """An index as a tuple, empty for all elements."""
    if idx is None or idx is Ellipsis:
        return ()
    return idx if isinstance(idx, tuple) else (idx,)


def store(ref, idx, value, what):
    """Write a value that was checked; `what` says in errors and here how."""
    if isinstance(value, Ref):
        raise ValueError(
            "Cannot store a Ref into another Ref. Did you forget to load from it using "
            "`[...]`?"
        )
    before, value = read(ref), as_array(value)
    expected = shape_at(before, idx)
    weak = value.weak_type and all(x.dtype.kind in "fV" for x in (ref, value))
    if weak or all(x.dtype.kind in "iu" for x in (ref, value)):
        value = convert(value, ref.dtype)
    if expected != value.shape:
        raise ValueError(
            f"Invalid shape for `{what}`. Ref shape: {ref.shape}. Expected shape: "
            f"{expected}. Value shape: {value.shape}.{HERE}"
        )
    if ref.dtype != value.dtype:
        raise ValueError(
            f"Invalid dtype for `{what}`. Ref dtype: {ref.dtype}. Value dtype: "
            f"{value.dtype}.{HERE}"
        )
    if what == "addupdate":
        value = before.at[idx].add(value) if idx else before + value
    elif idx:
        value = before.at[idx].set(value)
    write(ref, value)


def shape_at(value, idx):
    """The shape of `value[idx]`; ValueError for an index outside of it."""
    array = lambda i: isinstance(i, Array) and i.dtype.kind != "b"
    like = [np.zeros(i.shape, int) if array(i) else i for i in idx]
    try:
        return np.broadcast_to(np.int8(0), value.shape)[tuple(like)].shape
    except IndexError as error:
        where = str(HERE)
        if len(idx) > value.ndim:
            raise ValueError(
                f"`indices` must not be longer than `shape`: indices={idx}, "
                f"shape={value.shape}{where}"
            ) from None
        raise ValueError(f"Out of bound indexer: {error}{where}") from None


# ---- who holds the value


def level(trace):
    """A trace as the owner of refs; None stands for those that evaluate."""
    return None if isinstance(trace, BottomTrace) else trace


def read(ref):
    """The present value of a ref in the current trace."""
    return value_in(ref, level(current.trace))


def value_in(ref, trace):
    """The present value of a ref in a trace."""
    if trace is ref._owner:
        if ref._held is None:
            raise ValueError(f"this {ref.aval} was frozen{HERE}")
        return ref._held
    if trace is None:
        raise ValueError(
            f"this {ref.aval} was made while a function was traced, and the trace is "
            f"over{HERE}\n  Instead: return its value, `ref[...]`."
        )
    refs = vars(trace).get("refs")
    if refs is None:
        return value_in(ref, level(trace.parent))
    return refs.read(ref)


def write(ref, value):
    """Make `value` the present value of a ref in the current trace."""
    if value.weak_type != ref.weak_type:
        value = convert(value, ref.dtype, ref.weak_type)
    put(ref, value, level(current.trace))


def put(ref, value, trace):
    """Make `value` the present value of a ref in a trace."""
    if trace is ref._owner:
        ref._held = value
        return
    refs = vars(trace).get("refs")
    if refs is not None:
        refs.write(ref, value)
    elif isinstance(trace, JaxprTrace):
        raise NotImplementedError(
            f"a {ref.aval} of outside cannot be written in a function given to "
            f"{trace.info.kind}{HERE}\n  Instead: return the value, "
            "and write it outside."
        )
    elif isinstance(value, Tracer) and value.owner is trace:
        names = [kind.__name__ for kind in type(trace).__mro__]
        value_kind, ref_kind, place = next(filter(None, map(kept_in.get, names)))
        raise Exception(
            f"performing a set/swap operation with {value_kind} value on {ref_kind} "
            f"array reference of type {ref.aval}. Move the array reference to be an "
            f"argument {place} function?{HERE}"
        )
    else:
        put(ref, value, level(trace.parent))


# Of the traces whose values cannot be written into a ref of outside, by the name of
# their class: what JAX calls such a value and such a ref, and where a ref can be.
kept_in = {
    "BatchTrace": ("vmapped", "an unbatched", "to the vmapped"),
    "JVPTrace": ("a differentiated", "a non-differentiated", "of the differentiated"),
    "Trace": ("a traced", "an outer", "of the traced"),
}


# What is known of a function that is not recorded.
unknown = TraceInfo("the function", "a transformation")


class RefsInside:
    """The refs that a function uses while it is recorded.

    Attributes:
      given: the arguments that it is recorded for, or none.
      arguments: {position: the ref that stands for an argument that is one}.
      used: {a ref of outside: the argument of the jaxpr that stands for its value}.
      now: {a ref of outside: its present value}.
    """

    def __init__(self, given=()):
        self.given = given
        self.trace: Any = None
        self.arguments = {}
        self.first = {}
        self.used = {}
        self.now = {}

    def enter(self, leaves=()):
        """The trace has begun: -> a function's arguments, refs where refs are given."""
        self.trace = current.trace
        vars(self.trace)["refs"] = self
        for i, (x, value) in enumerate(zip(self.given, leaves, strict=True)):
            if isinstance(x, Ref):
                self.arguments[i], self.first[i] = Ref(value), value
        return [self.arguments.get(i, value) for i, value in enumerate(leaves)]

    def read(self, ref):
        if ref not in self.used:
            value_in(ref, level(self.trace.parent))
            self.now[ref] = self.used[ref] = self.trace.argument(ref.aval.inner_aval)
        return self.now[ref]

    def write(self, ref, value):
        self.read(ref)
        self.now[ref] = value

    def results(self):
        """The values of all refs that were written, arguments first."""
        values = [x._held for i, x in self.arguments.items() if self.is_new(i)]
        return values + [self.now[ref] for ref in self.written()]

    def is_new(self, i):
        held = self.arguments[i]._held
        return held is not None and held is not self.first[i]

    def written(self):
        """The refs of outside that were written."""
        return [ref for ref, x in self.used.items() if self.now[ref] is not x]

    def outside(self):
        """What is left of this when the trace is over, or None if there are no refs."""
        if not self.arguments and not self.used:
            return None
        places, captured = tuple(self.arguments), tuple(self.used)
        written = [n for n, i in enumerate(places) if self.is_new(i)]
        outer = self.written()
        written += [len(places) + n for n, r in enumerate(captured) if r in outer]
        return RefsOutside(places, captured, tuple(written), self.trace.info)


def with_refs(flat, given):
    """A flat function for a jaxpr that shows refs as arguments and results."""

    def function(*leaves):
        refs = RefsInside(given)
        return flat(*refs.enter(leaves)) + refs.results()

    return function


flattening["with_refs"] = with_refs


@dataclass(frozen=True, eq=False)
class RefsOutside:
    """The refs of a function that was recorded.

    Attributes:
      places: the positions of arguments that are refs.
      captured: the other refs that it uses; their values follow the arguments.
      written: which of these two together get new values, which are its last results.
      info: what was traced.
    """

    places: tuple
    captured: tuple
    written: tuple
    info: TraceInfo

    def call(self, function, leaves):
        """The results of `function` of the values, without those that are written."""
        refs = [*(leaves[i] for i in self.places), *self.captured]
        self.check(refs)
        values = [read(x) if isinstance(x, Ref) else x for x in leaves]
        results = function([*values, *map(read, self.captured)])
        return write_back([refs[n] for n in self.written], results)

    def check(self, refs):
        """Raise ValueError for a ref that comes in two ways: which would be written?"""
        names, seen = [self.info.arg_names[i] for i in self.places], {}
        for n, ref in enumerate(refs):
            if ref not in seen:
                seen[ref] = n
                continue
            name, traced = names[seen[ref]], f"{self.info.name} for {self.info.kind}"
            if n < len(names):
                raise ValueError(
                    "only one reference to a mutable array may be passed as an "
                    f"argument to a function, but when tracing {traced} the mutable "
                    f"array reference of type {ref.aval} appeared at both {name} and "
                    f"{names[n]}.{HERE}"
                )
            raise ValueError(
                f"when tracing {traced}, a mutable array reference of type {ref.aval} "
                f"was both closed over and passed as the argument {name}{HERE}"
            )


class ThreadedFunction:
    """A flat function to record, whose last results are the refs that it writes.

    Attributes:
      written: these refs; those that it has at first count in any case.
    """

    def __init__(self, flat, written):
        self.flat = flat
        self.written = written
        self.refs = None

    def __call__(self, *leaves):
        self.refs = RefsInside()
        self.refs.enter()
        for ref in self.written:
            self.refs.read(ref)
        results = self.flat(*leaves)
        new = [ref for ref in self.refs.written() if ref not in self.written]
        self.written += new
        return results + [self.refs.now[ref] for ref in self.written]

    def close_over(self, jaxpr, captured):
        """The jaxpr, whose last arguments are the written refs, and what it captured:
        the values of refs that are only read are the same in every step."""
        count = len(jaxpr.invars) - len(self.refs.used)
        inputs = dict(zip(self.refs.used, jaxpr.invars[count:], strict=True))
        only_read = [ref for ref in inputs if ref not in self.written]
        constvars = *jaxpr.constvars, *(inputs[ref] for ref in only_read)
        invars = *jaxpr.invars[:count], *(inputs[ref] for ref in self.written)
        jaxpr = jaxpr.replace(constvars=constvars, invars=invars)
        return jaxpr, (*captured, *map(read, only_read))


def write_back(refs, values):
    """Write the last of `values` into refs: -> the other values."""
    count = len(values) - len(refs)
    for ref, value in zip(refs, values[count:], strict=True):
        write(ref, value)
    return values[:count]


def check_no_refs(result, leaves):
    """Raise ValueError if a ref is among the leaves of a result."""
    if not any(isinstance(x, Ref) for x in leaves):
        return
    for path, x in tree_flatten_with_path(result)[0]:
        if isinstance(x, Ref):
            raise returned_ref(x, keystr(path))


def returned_ref(ref, path=""):
    """The error for a function that returns a ref; its trace is the current one."""
    info = getattr(current.trace, "info", unknown)
    place = f" at output tree path result{path}" if path else ""
    return ValueError(
        f"function {info.name} at {info.source} traced for {info.kind} returned a "
        f"mutable array reference of type {ref.aval}{place}, but mutable array "
        "references cannot be returned.\n  Instead: return its value, `ref[...]`."
    )
