"""Solutions to chapter 3."""

import numpy as np

from minijit.trace.array import ShapedArray, aval_of, shape_rules
from minijit.trace.core import Trace, Tracer, set_trace
from minijit.trace.primitives import add_p, exp_p, mul_p, reduce_sum_p


class Applied(Trace):
    """Computes shapes, and lists what is applied: (primitive, arguments, results)."""

    def __init__(self):
        self.steps = []

    def process(self, primitive, args, params):
        aval = shape_rules[primitive](*map(aval_of, args), **params)
        self.steps.append((primitive, args, Tracer(self, aval)))
        return [self.steps[-1][2]]

    def run(self, f, avals):
        self.inputs = [Tracer(self, aval) for aval in avals]
        with set_trace(self):
            return f(*self.inputs)


def peak_bytes(f, *avals):
    trace = Applied()
    result = trace.run(f, avals)
    last = {id(x): -1 for x in trace.inputs}
    for i, (_, args, out) in enumerate(trace.steps):
        last |= {id(x): i for x in (*args, out)}
    last[id(result)] = len(trace.steps)
    alive = {id(x): x.aval.nbytes for x in trace.inputs}
    peak = sum(alive.values())
    for i, (_, _, out) in enumerate(trace.steps):
        alive[id(out)] = out.aval.nbytes
        peak = max(peak, sum(alive.values()))
        alive = {x: n for x, n in alive.items() if last[x] > i}
    return peak


def check_peak_bytes(peak_bytes):
    """List what is applied; find the last reader of each; then walk and add up."""
    x = ShapedArray((10**6, 10**6), np.dtype("float32"))
    big = x.nbytes
    assert peak_bytes(lambda x: x, x) == big
    # In a chain there is never more than one argument and one result.
    assert peak_bytes(lambda x: exp_p.bind(exp_p.bind(exp_p.bind(x))), x) == 2 * big

    def sum_of_exp(x):
        return reduce_sum_p.bind(exp_p.bind(x), axes=(0,))

    assert peak_bytes(sum_of_exp, x) == 2 * big

    def keeps(x):
        y = exp_p.bind(x)
        return add_p.bind(x, mul_p.bind(y, y))

    # While the product is made: x, y, and the product.
    assert peak_bytes(keeps, x) == 3 * big
