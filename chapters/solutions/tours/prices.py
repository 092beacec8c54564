"""Solutions to the tour prices.ipynb."""


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
