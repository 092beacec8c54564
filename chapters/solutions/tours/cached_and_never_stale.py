"""Solutions to the tour cached_and_never_stale.ipynb."""

import minijit as mj


def shares_traces(make, x):
    first = mj.jit(make())
    first(x)
    traced = len(first.traces)
    second = mj.jit(make())
    second(x)
    return len(second.traces) == traced


def check_shares_traces(shares_traces):
    """All jitted functions of one code have one table `traces`: did it grow?"""
    numbers = [1.0]
    scale = 2.0
    assert shares_traces(lambda: lambda x: x * scale, 1.0) is True
    assert shares_traces(lambda: lambda x: x * numbers[0], 1.0) is False
    made = []

    def by_count():
        made.append(None)
        count = len(made)
        return lambda x: x + count

    assert shares_traces(by_count, 3) is False
