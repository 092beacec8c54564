"""Solutions to chapter 4."""

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.jaxprs.jaxpr import Literal


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
