"""Solutions to the tour schedules.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp


def cheapest(loops):
    apart = loops.distribute()
    return min(loops, apart, apart.reorder(), key=lambda loops: loops.price)


def check_cheapest(cheapest):
    """A recipe returns loops; what they cost is their `price`."""

    def softmax(x):
        powers = jnp.exp(x - x.max(0))
        return powers / powers.sum(0)

    def shares(x):
        return x * x / (x * x).sum(1, keepdims=True)

    x = np.random.default_rng(0).normal(size=(4096, 1000)).astype(np.float32)
    def prices(f):
        """The price of what was taken, and those of the three."""
        seen = []

        def recipe(loops):
            found, apart = cheapest(loops), loops.distribute()
            ways = loops, apart, apart.reorder()
            seen.append((found.price, [way.price for way in ways]))
            return found

        with mj.config.override("machine", "book"):
            assert np.allclose(mj.schedule(f, recipe)(x), f(x), atol=1e-5)
        return seen[0]

    for f, best in (softmax, 2), (shares, 0):
        taken, three = prices(f)
        assert taken == three[best] == min(three)
