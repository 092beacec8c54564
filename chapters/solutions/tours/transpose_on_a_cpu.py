"""Solutions to the tour transpose_on_a_cpu.ipynb."""

from dataclasses import replace

import numpy as np

from minijit import make_jaxpr
from minijit.compile.loops.expressions import Axis, as_index, op
from minijit.compile.loops.statements import For, nested, replaced, statements
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.nests import in_nests
from minijit.run.python.source import print_program


def turn(rows):
    rows = list(rows)
    at = np.arange(16)
    for step in (1, 2, 4, 8):
        for i in (i for i in range(16) if not i & step):
            a, b = rows[i], rows[i + step]
            rows[i] = np.where(at & step, b[at ^ step], a)
            rows[i + step] = np.where(at & step, b, a[at ^ step])
    return rows


def check_turn(turn):
    """`np.where(at & step, ...)` takes from two rows at once; `at ^ step` moves."""
    block = np.random.default_rng(0).normal(size=(16, 16))
    assert np.array_equal(turn(list(block)), block.T)


def tiled(body):
    def tile(axes, stores):
        extents = [axis.extent for axis in axes]
        if len(axes) != 2 or any(n % 16 for n in extents) or max(extents) == 16:
            return None
        counters = [Axis(n // 16) for n in extents]
        steps = [Axis(16) for _ in axes]
        names = {
            axis: op("add", op("mul", counter, as_index(16)), step)
            for axis, counter, step in zip(axes, counters, steps, strict=True)
        }
        return nested([*counters, *steps], replaced(stores, names.get))

    return in_nests(tile)(body)


def check_tiled(tiled):
    """`in_nests(tile)(body)` gives the axes and the stores of a nest to `tile`."""
    x = np.arange(64.0 * 32, dtype="float32").reshape(64, 32)

    def run(f, *arrays):
        program = lower(make_jaxpr(f)(*arrays), "f")
        kernel, = program.kernels
        body = tiled(kernel.body)
        loops = [s.axis.extent for s in statements(body) if isinstance(s, For)]
        space = {}
        changed = replace(program, body=(replace(kernel, body=tuple(body)),))
        source = print_program(changed)
        exec(source.text, space)
        return loops, space[source.driver](*arrays)[0]

    loops, result = run(lambda x: x.T * 2, x)
    assert loops == [2, 4, 16, 16] and np.array_equal(result, x.T * 2)
    loops, result = run(lambda x: x * 2, x[0])
    assert loops == [32] and np.array_equal(result, x[0] * 2)
