"""Solutions to chapter 16."""

from collections import Counter
from contextlib import contextmanager

import numpy as np

import minijit.numpy as jnp
from minijit import make_jaxpr
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.place import place
from minijit.run.emit import Walker


class Counting:
    """An emitter to which every value is None."""

    def __init__(self):
        self.counts = Counter()
        self.times = 1

    def count(self, name):
        self.counts[name] += self.times

    def op(self, expr, values):
        self.count(expr.name)

    def load(self, buffer, index):
        self.count("load")

    def store(self, buffer, index, value):
        self.count("store")

    def const(self, expr):
        pass

    def let(self, expr, value):
        pass

    def cell(self, dtype, value):
        pass

    def get(self, cell):
        pass

    def set(self, cell, value):
        pass

    @contextmanager
    def loop(self, stmt, extent):
        self.times *= extent
        yield
        self.times //= extent


def operations_of(kernel):
    emitter = Counting()
    Walker(emitter).block(place(kernel.body))
    return emitter.counts


def check_operations_of(operations_of):
    """`loop` multiplies a number, `yield`s, and divides it; all else may be None."""

    def counted(f, *args):
        kernel, = lower(make_jaxpr(f)(*args)).kernels
        return operations_of(kernel)

    def hoisted(x, a, s):
        return jnp.tanh(s) * x * jnp.exp(a)[:, None] + x * x

    def spread(x):
        return jnp.log(x.max(1) - x.min(1))

    x, a = np.ones((3, 4), "f4"), np.ones(3, "f4")
    assert counted(hoisted, x, a, 2.0) == dict(
        tanh=1, exp=3, mul=36, add=12, load=16, store=12
    )
    assert counted(spread, x) == dict(max=12, min=12, sub=3, log=3, load=12, store=3)
