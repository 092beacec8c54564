"""JAX's names for what one machine with one memory answers plainly.

    with named_scope("attention"): ...          # a name for humans: nothing changes
    with ensure_compile_time_eval(): ...        # known values are computed now
    with default_matmul_precision("highest"): ...   # products are precise anyway
    with transfer_guard("disallow"): ...        # there is nothing to transfer

Arguments are checked, so that what JAX rejects is rejected here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..trace.api import calls
from ..trace.api.devices import Device, device_count, device_of, devices
from ..trace.arguments import wraps
from ..trace.array import aval_of
from ..trace.base.config import config
from ..trace.core import BottomTrace, Tracer, current, current_trace, set_trace
from ..trace.jit.refs import Ref
from ..trace.trees.pytree import tree_leaves
from ..trace.types import ArrayLike, Function, PyTree

matmul_precisions = """
    default high highest bfloat16 tensorfloat32 float32 F16_F16_F16 F16_F16_F32
    BF16_BF16_BF16 BF16_BF16_F32 BF16_BF16_F32_X3 BF16_BF16_F32_X6 BF16_BF16_F32_X9
    TF32_TF32_F32 TF32_TF32_F32_X3 F32_F32_F32 F64_F64_F64
""".split()
guard_levels = ["allow", "log", "disallow", "log_explicit", "disallow_explicit"]


def one_of(value, allowed, what):
    """Raise ValueError unless `value` is None or one of the words."""
    if value is not None and value not in allowed:
        raise ValueError(f"{what} must be None or one of {allowed}, got {value!r}")


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A name for the operations of a `with` block or a function; for readers only.

    JAX writes it into what profilers show; jaxprs are the same with and without.
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope name argument must be a string, got {name!r}")
    yield


def named_call(fun: Function, *, name: str | None = None) -> Function:
    """`fun` under a name, which is its own unless one is given.  JAX: same name."""

    @wraps(fun)
    def call(*args, **kwargs):
        return fun(*args, **kwargs)

    call.__name__ = name or getattr(fun, "__name__", "call")
    return call


class CompileTimeTrace(BottomTrace):
    """Evaluates what has known arguments; of other values the trace around it knows."""

    def __init__(self, outer):
        self.parent = self.outer = outer

    def process(self, primitive, args, params):
        is_traced = any(isinstance(x, Tracer) for x in args)
        # Rules ask where they are: what is known is computed as it is outside.
        trace = self.outer if is_traced else current.bottom
        with set_trace(trace):
            return trace.process(primitive, args, params)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Compute what is known in a `with` block now, and do not record it.

    Under `jit` an operation on constants is recorded like any other.  In this block it
    is done at once, so that its result may decide the shape of an array, or an `if`.
    JAX: `jax.ensure_compile_time_eval`.
    """
    with set_trace(CompileTimeTrace(current_trace())):
        yield


@contextmanager
def default_matmul_precision(precision: str | None) -> Iterator[None]:
    """For JAX's sake: products here are always as precise as their dtype.

    Functions are traced anew under another precision, and traces record it.
    """
    one_of(precision, matmul_precisions, "default_matmul_precision")
    with config.override("default_matmul_precision", precision):
        yield


@contextmanager
def transfer_guard(level: str) -> Iterator[None]:
    """Accepted for JAX's sake: arrays and programs share one memory."""
    one_of(level, guard_levels, "transfer_guard")
    yield


transfer_guard_host_to_device = transfer_guard
transfer_guard_device_to_host = transfer_guard
transfer_guard_device_to_device = transfer_guard


@contextmanager
def default_device(device: Any) -> Iterator[None]:
    """Jitted functions of a `with` block run there, whatever they are given.

    Args:
      device: one of `devices()`, a name such as "gpu", or None, which is the CPU.
    """
    with config.override("default_device", device_of(device).platform):
        yield


def effects_barrier() -> None:
    """Wait for callbacks: they have run when a call returns.  JAX: same name."""


def copy_to_host_async(x: PyTree) -> PyTree:
    """`x`: its numbers are where the program reads them.  JAX: same name."""
    for leaf in tree_leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def typeof(x: ArrayLike | Ref) -> Any:
    """What is known of an array while it is traced: `ShapedArray`.  JAX: same name."""
    return x.aval if isinstance(x, Ref) else aval_of(x)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: Any = None
) -> list[Device]:
    """The devices of a process: all of them.  JAX: `jax.local_devices`."""
    if process_index not in (None, 0):
        raise ValueError(f"Unknown process_index {process_index}")
    return devices(backend)


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has.  JAX: `jax.local_device_count`."""
    return device_count(backend)


def process_index(backend: str | None = None) -> int:
    """The number of this process: 0.  JAX: `jax.process_index`."""
    devices(backend)
    return 0


def process_count(backend: str | None = None) -> int:
    """How many processes compute together: 1.  JAX: `jax.process_count`."""
    devices(backend)
    return 1


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes: [0].  JAX: `jax.process_indices`."""
    return list(range(process_count(backend)))


_public = """
    copy_to_host_async default_device default_matmul_precision effects_barrier
    ensure_compile_time_eval local_device_count local_devices named_call named_scope
    process_count process_index process_indices transfer_guard
    transfer_guard_device_to_device transfer_guard_device_to_host
    transfer_guard_host_to_device typeof
""".split()
calls.explain_calls("minijit", globals(), _public)
