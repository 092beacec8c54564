"""Which elements kernels read and write: counted, and compared with what a run touches.

A kernel's source runs as ordinary Python on arrays that note each element of theirs
that is read or written.  A choice between two values has both of them computed, as in
the compiled kernel, where there is no jump.
"""

import ast

import numpy as np
import pytest

import minijit as mj
from minijit import lax, make_jaxpr, numpy as jnp
from minijit.compile.fuse.traffic import Walk, traffic_of, uses_of
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.element_sets import reached
from minijit.compile.loops.expressions import Axis, Const, Load, as_index, op
from minijit.compile.loops.kernel_buffers import buffer_names
from minijit.compile.loops.statements import For, If, Kernel, Region, Store
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.place import placed
from minijit.compile.simplify.folding import simplify
from minijit.run.loading import rewritten, routines
from minijit.run.python.source import print_program

pytestmark = pytest.mark.chapter(20)


class Noting:
    """An array that notes which of its elements are read, before or after a write."""

    def __init__(self, array):
        self.array = array
        self.places = np.arange(array.size).reshape(array.shape)
        self.given, self.written = set(), set()

    def __getitem__(self, index):
        place = int(self.places[index])
        if place not in self.written:
            self.given.add(place)
        return self.array[index]

    def __setitem__(self, index, value):
        self.written.add(int(self.places[index]))
        self.array[index] = value


class BothComputed(ast.NodeTransformer):
    """`a if c else b` becomes a call, whose arguments are all computed."""

    def visit_IfExp(self, node):
        self.generic_visit(node)
        chosen = ast.Name("chosen", ast.Load())
        return ast.Call(chosen, [node.body, node.test, node.orelse], [])


def touched_by_a_run(program, *args):
    """For each kernel {buffer: (elements read, elements written)}, from a plain run."""
    source = print_program(program)
    tree = ast.fix_missing_locations(BothComputed().visit(ast.parse(source.text)))
    namespace = {"chosen": lambda a, c, b: a if c else b}
    exec(compile(tree, "<noting>", "exec"), namespace)
    namespace |= source.constants
    found = []

    def noting(function):
        def run(*given):
            arrays = [Noting(x) if isinstance(x, np.ndarray) else x for x in given]
            function(*arrays)
            found.append([x for x in arrays if isinstance(x, Noting)])

        return run

    for name in {kernel.name for kernel in source.kernels}:
        namespace[name] = noting(namespace[name])
    for name, call in source.calls.items():
        namespace[name] = routines[call.routine](call, False)
    arrays = [np.asarray(x, b.dtype) for x, b in zip(args, program.inputs, strict=True)]
    with np.errstate(all="ignore"):
        namespace[source.driver](*arrays)
    return [
        {
            buffer: (len(array.given), len(array.written))
            for buffer, array in zip(buffers_of(kernel), arrays, strict=True)
        }
        for kernel, arrays in zip(program.kernels, found, strict=True)
    ]


def buffers_of(kernel):
    """Those that a kernel is called with; others are there only while it runs."""
    body = kernel.body if isinstance(kernel, Region) else placed(kernel.body)
    return [buffer for buffer in buffer_names(body) if buffer.space == "global"]


def program_of(f, *args):
    return rewritten(lower(simplify(make_jaxpr(f)(*args))))


def compare(f, *args):
    """The numbers of `traffic_of` are those of a run: -> the `Traffic`s."""
    program = program_of(f, *args)
    run = touched_by_a_run(program, *args)
    found = [traffic_of(kernel, program.constants) for kernel in program.kernels]
    for kernel, one, touched in zip(program.kernels, found, run, strict=True):
        for side, uses in enumerate((one.reads, one.writes)):
            said = {use.buffer: use for use in uses}
            for buffer, numbers in touched.items():
                use = said.pop(buffer, None)
                elements = use.elements if use else 0
                if use is None or use.exact:
                    assert elements == numbers[side], (kernel, buffer, side)
                else:
                    assert elements >= numbers[side], (kernel, buffer, side)
            assert all(b.shape == () or 0 in b.shape for b in said), said
    return found


x = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)
v = np.arange(12, dtype=np.float32)
moves = {
    "slice": (lambda x: x[1:5:2, ::3], x),
    "reverse": (lambda x: x[::-1, 2:] + x[:, :-2], x),
    "transpose": (lambda x: x.T[1:] * 2, x),
    "reshape": (lambda x: x.reshape(-1)[::7].reshape(7, 1), x),
    "unravel": (lambda x: x.reshape(3, 4, 4)[1:, ::2], x),
    "diagonal": (lambda x: jnp.diagonal(x), x),
    "window": (lambda x: x[:, 2:] + x[:, 1:-1] + x[:, :-2], x),
    "concatenate": (lambda x: jnp.concatenate([x[:2], x[4:], x[:1]]), x),
    "pad": (lambda x: jnp.pad(x[1:3], ((2, 1), (0, 3))), x),
    "interior": (lambda x: lax.pad(x, np.float32(0), [(1, 0, 2), (-1, 0, 0)]), x),
    "roll": (lambda x: jnp.roll(x, 3, 1)[:, :4], x),
    "rolls": (lambda x: jnp.roll(jnp.roll(x, 3, 1), 2, 0)[:2, :4], x),
    "known rows": (lambda x: x[np.array([4, 1, 4])], x),
    "known elements": (lambda x: x[np.array([4, 1]), np.array([[0], [7]])], x),
    "rows": (lambda x, v: x[v[:3].astype("int32")], x, v),
    "dynamic": (lambda x, v: lax.dynamic_slice(x, (1, v[0].astype("int32")), (2, 3)),
                x, v),
    "sum": (lambda x: x[:4].sum(0), x),
    "outer": (lambda v: v[:, None] * v[3:7], v),
    "softmax": (lambda x: jnp.exp(x - x.max(0)) / jnp.exp(x - x.max(0)).sum(0), x),
    "norm": (lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), x),
    "several": (lambda x: (x.sum(), x[1:] * 2, x[0]), x),
    "scatter": (lambda v: v.at[np.array([2, 5])].set(1), v),
    "added": (lambda v: v.at[np.array([2, 2])].add(v[:2]), v),
    "running": (lambda v: jnp.cumsum(v[2:]), v),
    "where": (lambda x: jnp.where(x > 3, x, x[::-1]), x),
    "triangle": (lambda x: jnp.tril(x)[2:], x),
    "repeat": (lambda v: jnp.repeat(v, 3)[4:9], v),
    "product": (lambda x: x @ x.T + 1, x),
    "no elements": (lambda x: x[:0].sum(0), x),
    "a number": (lambda x: x[3, 4] * 2, x),
}  # fmt: skip


@pytest.mark.parametrize("name", moves)
def test_moves(name):
    f, *args = moves[name]
    found = compare(f, *args)
    known = name not in ("rows", "dynamic", "scatter", "added")
    assert not known or all(traffic.exact for traffic in found)


def random_moves(random):
    """A function that moves elements of f32[6,8] about, and adds some of them."""
    steps = []
    for _ in range(random.integers(2, 7)):
        steps.append((random.integers(9), random.integers(1, 4), random.integers(2)))

    def f(x):
        for kind, n, axis in steps:
            other = x
            match kind:
                case 0:
                    x = x.T
                case 1:
                    x = jnp.roll(x, int(n), int(axis) % x.ndim)
                case 2:
                    x = lax.rev(x, (int(axis) % x.ndim,))
                case 3:
                    x = x[::n] if axis or x.shape[0] <= n else x[n:]
                case 4:
                    x = jnp.concatenate([x[n:], x], 0)
                case 5:
                    x = x.reshape(-1)[: 4 * (x.size // 4)].reshape(4, -1)
                case 6:
                    x = jnp.pad(x, ((n, 0),) * x.ndim)
                case 7:
                    x = x.reshape(-1)[:: n + 1]
                    x = x.reshape(1, *x.shape)
                case 8:
                    x = x + x[tuple(slice(0, 1) for _ in x.shape)]
            if x.size > 400 or x.size == 0:
                x = other
        return x

    return f


def test_random_moves():
    random = np.random.default_rng(0)
    for _ in range(60):
        for found in compare(random_moves(random), x):
            assert found.exact


def uses(f, *args):
    """Of a program of one kernel {name of a buffer: its `Use`}."""
    program = program_of(f, *args)
    kernel, = program.kernels
    found = traffic_of(kernel, program.constants)
    return {use.buffer.name: use for use in (*found.reads, *found.writes)}


def shape(*extents):
    return mj.ShapeDtypeStruct(extents, "float32")


def test_large_arrays_are_not_tried():
    """Ranges and strides, not a list of 33 million elements."""
    large = uses(lambda x: x.transpose(0, 2, 1) * 2, shape(64, 1024, 512))
    assert all(use.whole for use in large.values())
    halves = uses(lambda x: x[::2], shape(10_000_000))
    assert (halves["in0"].elements, halves["in0"].exact) == (5_000_000, True)
    turned = uses(lambda x: x.reshape(-1)[::-1][:3], shape(4096, 4096))
    assert (turned["in0"].elements, turned["in0"].exact) == (3, True)


def test_nothing_is_known_exactly():
    none = reached((4,), (Axis(0),))
    assert (none.count, none.exact) == (0, True)


def test_indices_known_at_run_time_are_a_bound():
    found = uses(lambda x, i: x[i], shape(1000, 10), np.zeros(20, np.int32))
    assert (found["in0"].elements, found["in0"].exact) == (200, False)
    assert found["in1"].exact
    report = mj.explain(mj.jit(lambda x, i: x[i] * 2), np.ones(9), np.zeros(4, int))
    assert not report.exact and not any(step.is_driven for step in report.steps)


def kernel_of(*stmts):
    return traffic_of(Kernel("k", stmts))


def test_what_a_kernel_wrote_itself_is_no_traffic():
    f4, i, j = np.dtype("float32"), Axis(100), Axis(100)
    a, y = Buffer("a", (100,), f4), Buffer("y", (100,), f4)
    row = Buffer("row", (100,), f4, space="cache")
    begin = For(i, (Store(y, (i,), Load(a, (i,))),))
    added, kept = Store(y, (j,), Load(a, (j,)), "add"), Store(row, (j,), Load(y, (j,)))
    go_on = For(j, (added, kept))
    found = kernel_of(begin, go_on)
    assert [(u.buffer, u.elements) for u in found.reads] == [(a, 100)]
    assert [(u.buffer, u.elements) for u in found.writes] == [(y, 100)]
    # Read first, as in place: that is traffic.
    found = kernel_of(go_on)
    assert {u.buffer for u in found.reads} == {a, y}
    # So it is where only a half of it has been written.
    half = Axis(50)
    found = kernel_of(For(half, (Store(y, (half,), Load(a, (half,))),)), go_on)
    assert {u.buffer for u in found.reads} == {a, y}


def test_loops_and_branches():
    """Work counts as often as it runs; a branch touches what its condition lets it."""
    f4, i4 = np.dtype("float32"), np.dtype("int32")
    i, j, k, none = Axis(10), Axis(5), Axis(10), Axis(0)
    a, b = Buffer("a", (10, 5), f4), Buffer("b", (10,), f4)
    y, z, n = Buffer("y", (10,), f4), Buffer("z", (10,), f4), Buffer("n", (10,), i4)
    inner = For(j, (Store(y, (i,), Load(a, (i, j)), "add"),))
    behind = Store(z, (i,), op("mul", Load(b, (i,)), Load(b, (i,))))
    assert kernel_of(For(i, (inner, behind))).flops == 10 * 5 + 10
    counted = kernel_of(For(i, (Store(n, (i,), Const(1, i4), "add"),)))
    assert counted.flops == 0
    assert [u.buffer for u in counted.reads] == [n]
    empty = For(none, (Store(z, (none,), Load(b, (none,))),))
    assert kernel_of(empty).reads == kernel_of(empty).writes == ()
    few = op("lt", k, as_index(2))
    choice = If(few, (Store(y, (k,), Load(b, (k,))),), (Store(y, (k,), Load(z, (k,))),))
    walk = Walk({})
    walk.block((For(k, (choice,)),), set())
    assert {u.buffer: u.elements for u in uses_of(walk.touches, False, {})} == {
        b: 2,
        z: 8,
    }


def test_sweeps():
    """What fits into the last cache is read once, the rest by each loop."""
    f4 = np.dtype("float32")
    a, y = Buffer("a", (16384, 1024), f4), Buffer("y", (16384, 1024), f4)
    z, w = Buffer("z", (16384, 1024), f4), Buffer("w", (1024,), f4)

    def sweep(rows):
        i, j = Axis(rows), Axis(1024)
        value = op("mul", Load(a, (i, j)), Load(w, (j,)))
        return For(i, (For(j, (Store(y, (i, j), value),)),))

    found = {u.buffer: u.sweeps for u in kernel_of(sweep(16384), sweep(16384)).reads}
    assert found == {a: 2, w: 2}
    found = {u.buffer: u.sweeps for u in kernel_of(sweep(1000), sweep(1000)).reads}
    assert found == {a: 1, w: 1}
    # Blocks of rows, each read twice, with not too much in between.
    block = Axis(32)

    def within(rows):
        i, j = Axis(512), Axis(1024)
        row = op("add", op("mul", block, as_index(512)), i)
        return For(i, (For(j, (Store(rows, (row, j), Load(a, (row, j))),)),))

    blocks = For(block, tuple(map(within, (y, z, y))))
    found = {u.buffer: u.sweeps for u in kernel_of(blocks).reads}
    assert found == {a: 1}
    # Each row of the result goes through all of `a`.
    i, j, k = Axis(1024), Axis(1024), Axis(16384)
    nest = For(i, (For(k, (For(j, (Store(y, (i, j), Load(a, (k, j)), "add"),)),)),))
    found = {u.buffer: u.sweeps for u in kernel_of(nest).reads}
    assert found[a] == 1024


@pytest.mark.chapter(21)
def test_at_most_what_a_loop_touches():
    """Of a `while` nobody knows the steps; its array is an upper bound."""
    # Has the rows of loops and branches; `explain` imports it.
    import minijit.compile.control.region_traffic  # noqa: F401

    until = lambda w: lambda c: (c @ w)[0, 0] < 9.0
    program = program_of(
        lambda x, w: lax.while_loop(until(w), lambda c: c * 2, x),
        np.ones((99, 99)), np.ones((99, 99)),
    )  # fmt: skip
    region, = program.kernels
    found = traffic_of(region, program.constants)
    assert {use.buffer.name for use in found.reads if use.whole} >= {"in0", "in1"}
    assert found.flops is None


def test_regions_touch_no_more_than_is_said():
    """Steps of a scan, read row by row."""
    def step(c, row):
        return c * 0.5 + row[:8].sum(), c + row[2:4]

    def f(x, v):
        return lax.scan(step, v[:2], x)

    compare(f, x, v)
