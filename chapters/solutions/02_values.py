"""Solutions to chapter 2."""

from minijit.trace.core import (
    Primitive,
    Trace,
    Tracer,
    current_trace,
    eval_rules,
    set_trace,
)

add_p, mul_p = Primitive("add"), Primitive("mul")
eval_rules |= {add_p: lambda x, y: x + y, mul_p: lambda x, y: x * y}


def bounds(f, lo, hi):
    class Interval(Tracer):
        def __init__(self, trace, lo, hi):
            super().__init__(trace, aval=None)
            self.lo, self.hi = lo, hi

    class IntervalTrace(Trace):
        def ends(self, x):
            return (x.lo, x.hi) if isinstance(x, Interval) else (x, x)

        def process(self, primitive, args, params):
            (a, b), (c, d) = map(self.ends, args)
            if primitive.name == "add":
                return [Interval(self, a + c, b + d)]
            corners = a * c, a * d, b * c, b * d
            return [Interval(self, min(corners), max(corners))]

    trace = IntervalTrace()
    with set_trace(trace):
        return trace.ends(f(Interval(trace, lo, hi)))


def check_bounds(bounds):
    """A product's ends are among the four products of the ends: take min and max."""
    assert bounds(lambda x: add_p.bind(x, 1.0), -1.0, 2.0) == (0.0, 3.0)
    assert bounds(lambda x: mul_p.bind(x, -2.0), -1.0, 2.0) == (-4.0, 2.0)
    twice = lambda x: add_p.bind(mul_p.bind(x, 3.0), mul_p.bind(x, x))
    assert bounds(twice, -1.0, 2.0) == (-5.0, 10.0)
    assert bounds(lambda x: 7.0, -1.0, 2.0) == (7.0, 7.0)


def reciprocal_rows(reciprocal_p, mul_p):
    def slope(x, dx):
        y = reciprocal_p.bind(x)
        return mul_p.bind(mul_p.bind(-1.0, mul_p.bind(y, y)), dx)

    return lambda x: 1.0 / x, slope


def check_reciprocal_rows(reciprocal_rows):
    """The slope of 1 / x is -1 times 1 / x times 1 / x; multiply it by `dx`."""
    reciprocal_p = Primitive("reciprocal")
    eval_rule, slope_rule = reciprocal_rows(reciprocal_p, mul_p)
    eval_rules[reciprocal_p] = eval_rule
    assert reciprocal_p.bind(4.0) == 0.25
    product = lambda x, y, dx, dy: add_p.bind(mul_p.bind(dx, y), mul_p.bind(x, dy))
    rules = {reciprocal_p: slope_rule, mul_p: product}
    rules[add_p] = lambda x, y, dx, dy: add_p.bind(dx, dy)

    class Dual(Tracer):
        def __init__(self, trace, value, slope):
            super().__init__(trace, aval=None)
            self.value, self.slope = value, slope

    class SlopeTrace(Trace):
        def pair(self, x):
            mine = isinstance(x, Dual) and x.owner is self
            return (x.value, x.slope) if mine else (x, 0.0)

        def process(self, primitive, args, params):
            values, slopes = zip(*map(self.pair, args), strict=True)
            names.append(primitive.name)
            with set_trace(self.parent):
                value = primitive.bind(*values)
                return [Dual(self, value, rules[primitive](*values, *slopes))]

    def slope_of(f):
        def slope(x):
            trace = SlopeTrace()
            trace.parent = current_trace()
            with set_trace(trace):
                y = f(Dual(trace, x, 1.0))
            return trace.pair(y)[1]

        return slope

    names = []
    assert slope_of(reciprocal_p.bind)(2.0) == -0.25
    assert names == ["reciprocal"]
    assert slope_of(slope_of(reciprocal_p.bind))(2.0) == 0.25
    assert {"mul", "reciprocal"} <= {*names} <= {"mul", "reciprocal", "add"}
