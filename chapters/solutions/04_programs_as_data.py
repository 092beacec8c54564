"""Solutions to chapter 4."""

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.array import shape_rules
from minijit.trace.core import Primitive, eval_rules
from minijit.trace.jaxprs.jaxpr import Literal, dce, effectful, eval_jaxpr


def depth(jaxpr):
    level = {}
    for eqn in jaxpr.eqns:
        inputs = [level.get(v, 0) for v in eqn.invars if not isinstance(v, Literal)]
        for var in eqn.outvars:
            level[var] = 1 + max(inputs, default=0)
    return max((level.get(v, 0) for v in jaxpr.outvars), default=0)


def check_depth(depth):
    """Keep each variable's level: one more than the highest level among the inputs."""
    chain = mj.make_jaxpr(lambda x: jnp.sin(jnp.sin(jnp.sin(x))))(1.0).jaxpr
    assert depth(chain) == 3
    wide = mj.make_jaxpr(lambda x: jnp.sin(x) + jnp.cos(x))(1.0).jaxpr
    assert depth(wide) == 2
    assert depth(mj.make_jaxpr(lambda x: x)(1.0).jaxpr) == 0


def make_announce(heard):
    announce_p = Primitive("announce", multiple_results=True)

    def hear(x):
        heard.append(float(x))
        return []

    eval_rules[announce_p] = hear
    shape_rules[announce_p] = lambda x: []
    effectful.add(announce_p)
    return lambda x: announce_p.bind(x)


def check_make_announce(make_announce):
    """Three tables: `eval_rules`, `shape_rules`, and the set `effectful`."""
    heard = []
    announce = make_announce(heard)

    def f(x):
        announce(x * 2.0)
        return x + 1.0

    f(1.0)
    assert heard == [2.0], "announce(2.0) must append 2.0 where values are known"
    closed = mj.make_jaxpr(f)(1.0)
    assert heard == [2.0], "nothing may be heard while f is recorded"
    kept = dce(closed.jaxpr)
    assert len(kept.eqns) == 3, "the equation of announce, and what it needs, must stay"
    eval_jaxpr(kept, (), jnp.array(5.0))
    assert heard == [2.0, 10.0]
