"""Solutions to chapter 21."""

import numpy as np

import minijit.numpy as jnp
from minijit import jit, lax
from minijit.compile.control.lowering import Carries, with_regions
from minijit.compile.control.obstacles import parts_of
from minijit.compile.control.regions import loop_builders
from minijit.compile.loops.expressions import Axis
from minijit.compile.loops.statements import For, Region, Swap, statements
from minijit.compile.lower.walk import lower
from minijit.compile.simplify.folding import simplify
from minijit.trace.array import shape_rules
from minijit.trace.core import Primitive
from minijit.trace.jaxprs.jaxpr import make_jaxpr


def regions_in(f, *args):
    """The program of a function, with regions."""
    return with_regions(lower(simplify(make_jaxpr(f)(*args)), "main"))


def swaps_in(program):
    """The swaps in its regions."""
    regions = [step for step in program.body if isinstance(step, Region)]
    inside = (s for region in regions for s in statements(region.body))
    return [s for s in inside if isinstance(s, Swap)]


def drift_in_place(x, steps):
    x = lax.fori_loop(0, steps, lambda i, c: c * 0.5 + 1.0, x)
    return jnp.roll(x, -steps)


def check_drift_in_place(drift_in_place):
    """Leave the elements where they are, and remember how far they would have moved."""
    x = np.arange(1.0, 6.0, dtype="f4")
    for steps in (0, 1, 7):
        want = x
        for _ in range(steps):
            want = np.roll(want, -1) * np.float32(0.5) + 1
        assert np.allclose(jit(drift_in_place, static_argnums=1)(x, steps), want)
    assert not swaps_in(regions_in(lambda x: drift_in_place(x, 4), x))


def make_repeat():
    repeat_p = Primitive("repeat", multiple_results=True)

    def build_repeat(builder, programs, inputs, outputs, *, jaxpr, times):
        body, = programs
        carries = Carries(builder, body, body.inputs, inputs, outputs)
        with builder.block() as step:
            builder.program(body, carries.now, carries.next)
            carries.step()
        builder.add(For(Axis(times, "serial"), tuple(step)))
        carries.finish()

    parts_of[repeat_p] = lambda jaxpr, times: (jaxpr,)
    loop_builders[repeat_p] = build_repeat
    return repeat_p


def check_make_repeat(make_repeat):
    """`Primitive("repeat", multiple_results=True)`; all arguments are `Carries`."""
    repeat_p = make_repeat()
    shape_rules[repeat_p] = lambda *avals, jaxpr, times: list(avals)
    x = np.arange(1.0, 6.0, dtype="f4")

    def repeated(f):
        body = make_jaxpr(f)(x)
        return regions_in(lambda x: repeat_p.bind(x, jaxpr=body, times=7), x)

    try:
        here = repeated(lambda c: c * 0.5)
        assert "serial 7" in str(here) and not swaps_in(here)
        assert len(swaps_in(repeated(lambda c: c[::-1] * 0.5))) == 1
    finally:
        for table in (parts_of, loop_builders, shape_rules):
            del table[repeat_p]
