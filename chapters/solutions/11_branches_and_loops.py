"""Solutions to chapter 11."""

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.array import eval_rules, shape_rules
from minijit.trace.core import Primitive
from minijit.transform.closed_jaxprs import apply_closed
from minijit.transform.control_flow.while_and_scan import Loop
from minijit.transform.derivatives.linearize import linearize_rules


def repeat_rule(nonzero, x, *, jaxpr, times):
    def run(x):
        return Loop(jaxpr, length=times).bind([], [], [x], [])[0]

    return mj.linearize(run, x)


def check_repeat_rule(repeat_rule):
    """`mj.linearize` of a function that binds a `Loop` with `length=times`."""
    repeat_p = Primitive("repeat")
    f = mj.make_jaxpr(lambda x: jnp.sin(1.5 * x))(1.0)

    def run(x, jaxpr, times):
        for _ in range(times):
            x, = apply_closed(jaxpr, x)
        return x

    shape_rules[repeat_p] = lambda x, *, jaxpr, times: jaxpr.out_avals[0]
    eval_rules[repeat_p] = run
    linearize_rules[repeat_p] = repeat_rule
    repeated = lambda x: repeat_p.bind(x, jaxpr=f, times=4)
    x = jnp.float32(0.7)
    want = mj.value_and_grad(lambda x: run(x, f, 4))(x)
    got = mj.value_and_grad(repeated)(x)
    assert jnp.allclose(jnp.stack(got), jnp.stack(want), rtol=1e-5)
    assert abs(float(mj.jit(mj.grad(repeated))(x) - want[1])) < 1e-5
