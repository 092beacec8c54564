"""Assertions about what is compiled, for the tests of a program that has to be fast.

    assert_kernels(softmax, (x,), 1)             # one kernel, and no call
    assert_traffic(step, (params, batch), 1.3)   # at most 1.3 times what is needed

They count, and measure no time: they hold on any machine, however busy it is.
"""

from . import compiler as compiler
from .run.report.explaining import explain


def assert_kernels(f, args, n, calls=None):
    """Raise AssertionError unless `f(*args)` is compiled to `n` kernels.

    Args:
      f: a function, jitted or not; args: a tuple of its arguments, or their shapes.
      n: how many kernels, native loops included.
      calls: how many products that are calls, and what runs uncompiled, if that counts.

    Returns:
      The report.
    """
    report = explain(f, *args)
    found = len(report.kernels)
    if found != n:
        raise AssertionError(f"{found} kernels, expected {n}:\n{report}")
    if calls is not None and len(report.calls) != calls:
        raise AssertionError(f"{len(report.calls)} calls, expected {calls}:\n{report}")
    return report


def assert_traffic(f, args, ratio):
    """Raise AssertionError if `f(*args)` moves more than `ratio` times what it must.

    It must read its arguments once and write its results once.

    Returns:
      The report.
    """
    report = explain(f, *args)
    found = report.traffic_bytes / max(report.ideal_bytes, 1)
    if found > ratio:
        raise AssertionError(
            f"{report.traffic_bytes:,} bytes are {found:.2f} times the ideal, "
            f"expected at most {ratio}:\n{report}"
        )
    return report
