"""Solutions to chapter 17."""

import math


def in_one_sweep(row):
    top, total = -math.inf, 0.0
    for number in row:
        higher = max(top, number)
        total = total * math.exp(top - higher) + math.exp(number - higher)
        top = higher
    return top, total


def check_in_one_sweep(in_one_sweep):
    """When the maximum grows from a to b, all that was added shrinks by exp(a - b)."""
    for row in ([3.0], [1.0, 2.0, 0.5], [-800.0, -801.0], [0.0, 900.0, 899.0]):
        top, total = in_one_sweep(iter(row))
        assert top == max(row)
        assert math.isclose(total, sum(math.exp(x - max(row)) for x in row))
