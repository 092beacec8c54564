"""Solutions to chapter 24."""

import math

import numpy as np

from minijit.compile.numbers.vector_math import LN2


def terms_needed(limit):
    r = np.linspace(-LN2 / 2, LN2 / 2, 1001)
    n, total = 0, np.ones_like(r)
    while np.max(np.abs(total - np.exp(r)) / np.exp(r)) >= limit:
        n += 1
        total = total + r**n / math.factorial(n)
    return n


def check_terms_needed(terms_needed):
    """The error is largest at one of the ends, -log(2) / 2 or log(2) / 2."""
    assert terms_needed(0.5) == 0
    assert terms_needed(0.1) == 1
    assert terms_needed(2**-24) == 7
    assert terms_needed(2**-40) == 10


def power_of_two_by_bits(k):
    return np.array([(k + 127) << 23 & 0xFFFFFFFF], np.uint32).view(np.float32)[0]


def product_nest(order, n):
    strides = {
        "a": {"i": 4 * n, "k": 4},
        "b": {"k": 4 * n, "j": 4},
        "c": {"i": 4 * n, "j": 4},
    }
    return dict.fromkeys(order, n), strides


def check_product_nest(product_nest):
    """In `a[i, k]`, a step of `i` goes n numbers further, a step of `k` one number."""
    for order, n in ("ijk", 1000), ("kji", 30):
        steps, strides = product_nest(order, n)
        assert list(steps) == list(order)
        assert set(steps.values()) == {n}
        assert list(strides) == ["a", "b", "c"]
        moving = {name: {x: s for x, s in strides[name].items() if s} for name in "abc"}
        assert moving["a"] == {"i": 4 * n, "k": 4}
        assert moving["b"] == {"k": 4 * n, "j": 4}
        assert moving["c"] == {"i": 4 * n, "j": 4}
