"""Solutions to the tour of looking inside."""

from minijit import custom_vjp, debug, grad, jit, make_jaxpr
from minijit.trace.jaxprs.jaxpr import effectful, subjaxprs


def watch(x, seen):
    @custom_vjp
    def identity(x):
        return x

    def bwd(_, ct):
        debug.callback(lambda ct: seen.append(float(ct)), ct)
        return (ct,)

    identity.defvjp(lambda x: (x, None), bwd)
    return identity(x)


def check_watch(watch):
    """The bwd of a custom_vjp of the identity sees the cotangent."""
    seen = []
    assert grad(lambda x: 3 * watch(x, seen))(2.0) == 3
    assert seen == [3.0]
    assert jit(grad(lambda x: watch(x, seen) ** 2))(2.0) == 4
    assert seen == [3.0, 4.0]


def count_calls(f, *args):
    def count(jaxpr):
        own = sum(eqn.primitive in effectful for eqn in jaxpr.eqns)
        return own + sum(count(j) for eqn in jaxpr.eqns for j in subjaxprs(eqn))

    return count(make_jaxpr(f)(*args).jaxpr)


def check_count_calls(count_calls):
    """`effectful` holds the primitives; `subjaxprs(eqn)` are an equation's jaxprs."""
    def f(x):
        debug.print("{}", x)
        return x

    g = jit(f)
    assert count_calls(f, 1.0) == 1
    assert count_calls(lambda x: f(f(x)), 1.0) == 2
    assert count_calls(lambda x: g(g(x)) + f(x), 1.0) == 3
    assert count_calls(lambda x: x, 1.0) == 0
