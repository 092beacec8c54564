"""Time lines, under the names of `jax.profiler`: those of `minijit.profile`.

    with trace("/tmp/lines"):          # each kernel that runs, in a file for Perfetto
        step(params)
"""

from __future__ import annotations

import functools
import gc
import json
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import compiler as compiler
from ..run.report.kernel_log import profile, spent
from ..trace.array import ArrayImpl
from ..trace.base import names as _names

# The time line that `start_trace` began: (its context, the line, where it goes).
_running: list = []


def start_trace(log_dir, create_perfetto_link=False, create_perfetto_trace=False,
                profiler_options=None):  # fmt: skip
    """Begin a time line; `stop_trace` writes it into `log_dir`."""
    if _running:
        raise RuntimeError("Profile has already been started. Only one profile may be "
                           "run at a time.")  # fmt: skip
    context = profile()
    _running.append((context, context.__enter__(), Path(log_dir)))


def stop_trace():
    """End the time line and write it, as a file that chrome://tracing shows."""
    if not _running:
        raise RuntimeError("No profile started")
    context, line, folder = _running.pop()
    context.__exit__(None, None, None)
    place = folder / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    place.mkdir(parents=True, exist_ok=True)
    line.save(place / "minijit.trace.json")


@contextmanager
def trace(log_dir, *args, **kwargs):
    """A time line of a `with` block, written into `log_dir`."""
    start_trace(log_dir, *args, **kwargs)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation:
    """A name for a `with` block or a function, under which it is in the time line."""

    def __init__(self, name, **kwargs):
        self.name, self.kwargs = name, kwargs

    @staticmethod
    def is_enabled():
        """Whether a time line is being made."""
        return bool(_running)

    def __enter__(self):
        self.start = time.perf_counter()
        return self

    def __exit__(self, *error):
        spent("block", self.name, self.start)

    def __call__(self, function):
        return annotate_function(function, self.name)


class StepTraceAnnotation(TraceAnnotation):
    """A name for a step of training."""


def annotate_function(func, name=None, **decorator_kwargs):
    """A function under a name."""

    @functools.wraps(func)
    def annotated(*args, **kwargs):
        with TraceAnnotation(name or func.__name__, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def live_arrays(platform: str | None = None) -> list[Any]:
    """The arrays that there are and that are not deleted (`jax.live_arrays`)."""
    found = [x for x in gc.get_objects() if isinstance(x, ArrayImpl)]
    return [x for x in found if not x.is_deleted()]


def device_memory_profile(backend=None):
    """The arrays that there are, as JSON: shape, dtype and bytes of each."""
    rows = [
        {"shape": x.shape, "dtype": str(x.dtype), "nbytes": x.aval.nbytes}
        for x in live_arrays()
    ]
    return json.dumps(rows).encode()


def save_device_memory_profile(filename, backend=None):
    """Write `device_memory_profile` into a file."""
    Path(filename).write_bytes(device_memory_profile(backend))


_names.publish(globals(), """
    StepTraceAnnotation TraceAnnotation annotate_function device_memory_profile
    save_device_memory_profile start_trace stop_trace trace
""")
