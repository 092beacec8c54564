"""Taylor series through programs, under the name of `jax.experimental.jet`.

    y, (y1, y2) = jet(jnp.sin, (x,), ((1.0, 0.0),))     # sin(x), cos(x), -sin(x)

A value that depends on a number t is the list of its derivatives by t at 0.  An
equation takes such lists to one of its result:

- what is linear in that which depends on t, term by term;
- a product, by Leibniz' rule; a quotient, as the product with it is the numerator;
- anything else by its own rule for tangents: if y = f(x), then y' = g(x, x'), where g
  is the tangent of f.  So the list of y is f(x) and the list of g, one shorter.  Of the
  cosine that is the sine's tangent the list is wanted once: n terms cost n**3
  operations at most, and not the 2**n of n `jvp`s in each other.
"""

import math
from itertools import compress

from ... import numpy as jnp
from ...trace import dtypes, primitives as lax
from ...trace.array import aval_of
from ...trace.base import names as _names
from ...trace.jaxprs.jaxpr import Literal, literal_value, make_jaxpr
from ...trace.jit.jit import jit_p
from ...trace.trees.pytree import tree_flatten
from ...transform.closed_jaxprs import drop_dead
from ...transform.derivatives.linear_functions import (
    bilinear, follow_equation, holds_jaxpr,
)
from ...transform.derivatives.linearize import jvp, linearize


def jet(fun, primals, series, factorial_scaled=True, **_):
    """Push derivatives of all orders through `fun`.  JAX: `jax.experimental.jet.jet`.

    Args:
      primals: a tuple of trees of arrays, the arguments.
      series: trees like these with lists of n arrays as leaves: the first n
        derivatives of each argument; or without `factorial_scaled` the coefficients of
        its Taylor polynomial, which are these divided by 1, 2, 6, ...

    Returns:
      (the result, a tree like it of lists of n: its derivatives or coefficients).

    Raises:
      ValueError: the lists are of several lengths.
    """
    leaves, tree = tree_flatten(tuple(primals))
    terms = [list(terms) for terms in tree.flatten_up_to(tuple(series))]
    if len({*map(len, terms)}) > 1:
        raise ValueError(
            "jet terms have inconsistent lengths for different arguments: "
            f"{[*map(len, terms)]}"
        )
    scale = lambda k: 1 if factorial_scaled else math.factorial(k)
    lists = []
    for x, higher in zip(map(jnp.asarray, leaves), terms, strict=True):
        typed = [lax.convert(t, x.dtype, aval_of(x).weak_type) for t in higher]
        typed = [jnp.broadcast_to(t, x.shape) for t in typed]
        lists.append([x, *(t * scale(k) for k, t in enumerate(typed, 1))])
    closed, shapes = make_jaxpr(fun, return_shape=True)(*primals)
    found = taylor(closed, lists)
    count = len(terms[0]) if terms else 0
    found = [padded(x, count) for x in found]
    out_tree = tree_flatten(shapes)[1]
    higher = [[t / scale(k) for k, t in enumerate(x) if k] for x in found]
    return out_tree.unflatten(x[0] for x in found), out_tree.unflatten(higher)


def padded(terms, count):
    """A list of `count` derivatives: those that are missing are zero."""
    missing = count + 1 - len(terms)
    return [*terms, *(jnp.zeros_like(terms[0]) for _ in range(missing))]


def taylor(closed, args):
    """The lists of a jaxpr's results; a list of one is of what does not depend on t."""
    env = {v: [x] for v, x in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
    env |= zip(closed.jaxpr.invars, args, strict=True)

    def read(atom):
        return [literal_value(atom)] if isinstance(atom, Literal) else env[atom]

    for eqn in closed.eqns:
        outs = of_equation(eqn.primitive, eqn.params, [*map(read, eqn.invars)])
        env |= zip(eqn.outvars, outs, strict=True)
    return [*map(read, closed.jaxpr.outvars)]


def of_equation(primitive, params, args):
    """The lists of the results of one equation."""
    varying = [len(x) > 1 for x in args]
    given = [*compress(args, varying)]

    def apply(*some):
        some = iter(some)
        every = [next(some) if v else x[0] for v, x in zip(varying, args, strict=True)]
        results = primitive.bind(*every, **params)
        return results if primitive.multiple_results else [results]

    if primitive is jit_p:
        return taylor(params["jaxpr"], args)
    if primitive in bilinear and sum(varying) == 2:
        return [product(lambda x, y: primitive.bind(x, y, **params), *args)]
    if primitive is lax.div_p and varying[1]:
        return [quotient(*args)]
    heads = [x[0] for x in given]
    results = apply(*heads)
    floats = [dtypes.issubdtype(aval_of(y).dtype, dtypes.inexact) for y in results]
    if not given or True not in floats:
        return [[y] for y in results]
    fun = lambda *some: [*compress(apply(*some), floats)]
    if is_linear(primitive, varying, params):
        push = linearize(fun, *heads)[1]
        tangents = [push(*terms) for terms in zip(*(x[1:] for x in given), strict=True)]
        higher = iter(zip(*tangents, strict=True))
    else:
        tangent = lambda xs, ts: jvp(fun, xs, ts)[1]
        slope = drop_dead(make_jaxpr(tangent)(tuple(heads), tuple(heads)))
        higher = [x[:-1] for x in given] + [x[1:] for x in given]
        higher = iter(taylor(slope, higher))
    count = len(given[0]) - 1
    return [
        padded([y, *next(higher)], count) if f else [y]
        for y, f in zip(results, floats, strict=True)
    ]


def is_linear(primitive, varying, params):
    """Whether a primitive is linear, or a constant aside, in arguments that vary."""
    if any(map(holds_jaxpr, params.values())):
        return False
    return follow_equation(primitive, varying, params)[0] is None


def product(times, x, y):
    """Derivatives of a product: (xy)'' = x''y + 2x'y' + xy''."""
    terms = lambda k: (math.comb(k, i) * times(x[i], y[k - i]) for i in range(k + 1))
    return [sum(terms(k)) for k in range(len(x))]


def quotient(x, y):
    """Derivatives of q = x / y, of x = qy: those of a lower order are known."""
    x, q = padded(x, len(y) - 1), []
    for k in range(len(y)):
        known = [math.comb(k, i) * y[i] * q[k - i] for i in range(1, k + 1)]
        q.append((x[k] - sum(known)) / y[0])
    return q


_names.publish(globals(), "jet")
