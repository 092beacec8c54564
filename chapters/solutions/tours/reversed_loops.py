"""Solutions to the tour reversed_loops.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import jit, lax
from minijit.compile.control import reversal as lower_reversal
from minijit.compile.control.lowering import with_regions
from minijit.compile.loops.expressions import as_index, op
from minijit.compile.loops.statements import Region, While, statements
from minijit.compile.lower.walk import lower
from minijit.compile.simplify.folding import simplify


def halfway(builder, steps, slots):
    half = op("floordiv", steps, as_index(2))
    return builder.hold(op("max", half, as_index(1)))


def check_halfway(halfway):
    """`op("floordiv", steps, as_index(2))`; `builder.hold` keeps what it is now."""
    goes_on = lambda state: state[0] < 50
    body = lambda state: (state[0] + 1, jnp.sin(3.0 * state[1]))
    mode = dict(reverse="checkpoint", slots=20)
    gradient = mj.grad(lambda x: lax.while_loop(goes_on, body, (0, x), **mode)[1])
    want, kept = gradient(0.5), lower_reversal.next_checkpoint
    lower_reversal.next_checkpoint = halfway
    try:
        mj.clear_caches()
        program = with_regions(lower(simplify(mj.make_jaxpr(gradient)(0.5)), "main"))
        *_, back = (step for step in program.body if isinstance(step, Region))
        assert sum(isinstance(s, While) for s in statements(back.body)) == 1
        assert "// 2" in str(program)
        assert np.allclose(jit(gradient)(0.5), want, rtol=1e-3)
    finally:
        lower_reversal.next_checkpoint = kept
        mj.clear_caches()
