"""Programs as CUDA graphs, by a driver that writes down what it is told."""

import ctypes
import gc
import pickle
import weakref
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import grad, jit, lax
from minijit.compile.loops.buffers import Buffer, View
from minijit.compile.loops.statements import Call
from minijit.run.cuda import cublas, driver as cuda_driver, eager as cuda_eager
from minijit.run.cuda.arrays import CudaArray, in_capsule
from minijit.run.cuda.cublas import gemm_of, multiply
from minijit.run.cuda.driver import CudaUnavailable
from minijit.run.cuda.images import linked_with_runtime
from minijit.run.cuda.loops import HostNode, LoopNode, add_around
from minijit.run.cuda.nodes import (
    Memory, Node, NodeBuilder, place_temporaries, waits_of,
)
from minijit.run.cuda.stub import stub_driver
from minijit.run.report.environment import version_of
from minijit.trace.base.config import config
from minijit.tree_util import tree_leaves
from tests.harness import refused

pytestmark = pytest.mark.chapter(27)


@pytest.fixture
def device():
    with stub_driver() as driver:
        yield driver


@pytest.fixture
def idle():
    """A driver that writes down what it is told, and computes nothing."""
    with stub_driver(executes=False) as driver:
        yield driver


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 4


def on_gpu(tree):
    return minijit.device_put(tree, "gpu")


def nodes_of(f, *args):
    return jit(f, backend="cuda").lower(*args).compile().executable.nodes


# ---- the same numbers as on the CPU, in whatever order the graph allows

x34 = numbers(3, 4)


def repeated(x):
    return lax.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x)
    )


def collected(x, n=1):
    return lax.scan(lambda c, y: (c * 0.5 + y, (c, y * 2)), x[0], jnp.tile(x, (n, 1)))


def chosen(k, x):
    branches = [jnp.sin, lambda x: x * 2, lambda x: x.sum(0, keepdims=True) + x]
    return lax.switch(k, branches, x)


def nested(x):
    def body(c, row):
        row = lax.cond(row[0] > 0, lambda r: r * 2, lambda r: -r, row)
        return lax.fori_loop(
            0, jnp.abs(row[0] * 8).astype(int), lambda i, c: c + row, c
        ), c

    return lax.scan(body, x[0], jnp.tile(x, (15, 1)))


PROGRAMS = {
    "two nests": lambda: (lambda x: (jnp.sin(x) * 2, x.sum(0)), x34),
    "products": lambda: (lambda x, y: jnp.tanh(x @ y) @ y.T, numbers(48, 32),
                         numbers(32, 40)),
    "batched": lambda: (lambda q, k: jnp.einsum("bshd,bthd->bhst", q, k),
                        numbers(2, 24, 3, 32), numbers(2, 24, 3, 32, seed=1)),
    "update": lambda: (lambda x: x.at[1].set(0.5).at[0, 1].add(3.0), x34),
    "result twice": lambda: (lambda x: (x, x, x + 1, jnp.zeros(3), x + 1, x.T), x34),
    "while": lambda: (repeated, x34),
    "scan written out": lambda: (collected, x34),
    "scan looped": lambda: (lambda x: collected(x, 25), x34),
    "scan backwards": lambda: (
        lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x, reverse=True),
        numbers(70, 3),
    ),
    "switch": lambda: (chosen, np.int32(1), x34),
    "nested": lambda: (nested, x34),
    "gradient of a scan": lambda: (
        grad(lambda x: lax.scan(lambda c, y: (jnp.sin(c * y), c), x[0], x)[0].sum()),
        x34,
    ),
    "steps counted": lambda: (
        grad(lambda x: lax.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x).sum()),
        np.full(4, 8, np.float32),
    ),
    "inner jit": lambda: (lambda x: jit(jnp.sin)(x) + jit(jnp.sin)(x + 1), x34),
    "empty": lambda: (lambda x: (x[:0] * 2, x.sum()), x34),
    "half": lambda: (lambda x: x.astype("bfloat16") * 2, x34),
}


@pytest.fixture
def large_steps():
    """As if all steps of loops were large: no loop is one block's."""
    with config.override("fusion", config.fusion.but(block_step=-1)):
        yield


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("latest_first", [False, True])
def test_the_same_numbers_as_on_the_cpu(name, latest_first, request):
    if latest_first:
        request.getfixturevalue("large_steps")
    f, *args = PROGRAMS[name]()
    wanted = jit(f)(*args)
    with stub_driver(latest_first=latest_first) as driver:
        made = jit(f, backend="cuda")(*args)
        assert driver.times("launch") == 1 and len(driver.graphs) == 1
        for got, want in zip(tree_leaves(made), tree_leaves(wanted), strict=True):
            assert type(got) is CudaArray and got.aval == want.aval
            got, want = (np.asarray(a).astype(np.float64) for a in (got, want))
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [3, 11, 29])
def test_random_programs_are_right_in_the_latest_order(seed):
    random_memory = pytest.importorskip("tests.random_memory")
    f, args = random_memory.drawn(seed)
    wanted = jit(f, backend="eval")(*args)
    with stub_driver(latest_first=True):
        made = jit(f, backend="cuda")(*args)
        for got, want in zip(tree_leaves(made), tree_leaves(wanted), strict=True):
            got, want = np.asarray(got), np.asarray(want)
            if np.isfinite(want).all():
                np.testing.assert_allclose(got, want, 2e-3, 2e-3 * abs(want).max())


def test_what_a_device_cannot_do_runs_between_two_graphs(device):
    f = lambda x: jnp.sort(x * 2, axis=0) + 1
    run = jit(f, backend="cuda")
    np.testing.assert_array_equal(run(x34), np.sort(x34 * 2, axis=0) + 1)
    assert device.times("launch") == 2
    executable = run.lower(x34).compile().executable
    assert [type(n) for n in executable.nodes.steps].count(HostNode) == 1
    assert dict(executable.fallbacks)["sort"]
    three = nodes_of(lambda *args: lax.sort(args, num_keys=1), x34, x34 + 1, x34 * 2)
    (host,) = three.steps
    names = [[ref.memory.name for ref in side] for side in (host.reads, host.writes)]
    assert names == [["in0", "in1", "in2"], ["out0", "out1", "out2"]]


def test_a_growing_tape_says_why_it_stays_on_the_cpu(device):
    f = grad(lambda x: repeated(x)[1].sum())
    run = jit(f, backend="cuda")
    np.testing.assert_allclose(run(x34), jit(f)(x34), rtol=1e-5)
    reasons = dict(run.lower(x34).compile().executable.fallbacks)
    assert "tape" in reasons["while"] and "CPU" in reasons["while"]
    assert "tape" in str(run.lower(x34).compile().explain())


def test_a_gradient_that_computes_its_loop_again_stays_on_the_cpu(device):
    def f(x):
        body = lambda x: jnp.sin(x) * 2
        test = lambda x: x.sum() < 3
        return lax.while_loop(test, body, x, reverse="checkpoint", slots=2).sum()

    run = jit(grad(f), backend="cuda")
    np.testing.assert_allclose(run(x34), jit(grad(f))(x34), rtol=1e-5)
    reasons = dict(run.lower(x34).compile().executable.fallbacks)
    assert "states" in reasons["treeverse"]


# ---- graphs


def test_nodes_that_share_nothing_do_not_wait():
    nodes = nodes_of(
        lambda x, y: (jnp.sin(x).sum(0), jnp.tanh(y).sum(1)), x34, numbers(5, 6)
    )
    assert nodes.waits == [(), ()]


def test_a_node_waits_for_those_that_meet_it_and_for_none_twice():
    a, b, c = (Memory(name, 64) for name in "abc")
    halves = [b.all.part(start, 32) for start in (0, 32)]

    def waits(*steps, alone=()):
        nodes = [Node(tuple(reads), tuple(writes)) for reads, writes in steps]
        for i in alone:
            nodes[i].is_alone = True
        return waits_of(nodes)[0]

    # Two that read the same, and write to the halves of one memory.
    first, second = ([a.all], halves[:1]), ([a.all], halves[1:])
    assert waits(first, second) == [(), ()]
    assert waits(first, second, ([b.all], [c.all])) == [(), (), (0, 1)]
    # The third reads what the first wrote, which the second has waited for.
    chain = ([], [a.all]), ([a.all], [b.all]), ([a.all, b.all], [c.all])
    assert waits(*chain) == [(), (0,), (1,)]
    assert not any(x.meets(y) for x, y in (halves, halves[::-1]))
    # What runs alone waits for all before it, and all behind it wait for it.
    others = [([], [m.all]) for m in (a, b, c)]
    assert waits(*others, alone=[1]) == [(), (0,), (1,)]


def test_what_nodes_in_a_node_use_is_in_use():
    a, b = (Memory(name, 64) for name in "ab")
    builder, outer = NodeBuilder(), Node((), (a.all,))
    add_around(builder, LoopNode, a.all, [[Node((), (b.all,))]])
    (around,) = builder.steps
    assert place_temporaries([outer, around], [0, 1]) >= 128
    assert a.offset != b.offset


@pytest.mark.parametrize("sizes", [(1024, 512), (512, 1024)])
def test_what_is_over_leaves_its_memory(sizes):
    a, b = (Memory(name, size) for name, size in zip("ab", sizes, strict=True))
    steps = [Node((), (a.all,)), Node((a.all,), ()), Node((), (b.all,))]
    assert place_temporaries(steps, [0, 1, 3]) == 1024


def test_a_loop_of_small_steps_is_one_kernel():
    small, large = (np.zeros((n, n), np.float32) for n in (8, 512))
    f = lambda x: repeated(x)[1]
    assert [type(n).__name__ for n in nodes_of(f, small).steps] == ["LaunchNode"]
    assert "LoopNode" in [type(n).__name__ for n in nodes_of(f, large).steps]
    total = nodes_of(lambda x: x.sum(), np.zeros(1 << 20, np.float32))
    # On many blocks, and their parts on one.
    assert [n.kernel.grid[0] > 1 for n in total.steps] == [True, False]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_step_of_a_scan_stores_the_result(reverse):
    step = lambda c, y: (c * 0.5 + y, None)
    with config.override("fusion", config.fusion.but(block_step=-1)):
        nodes = nodes_of(lambda x: lax.scan(step, x[0], x, reverse=reverse)[0],
                         numbers(4, 64))  # fmt: skip
    # The first carry and four steps, by turns in two places; nothing is copied.
    assert [type(n).__name__ for n in nodes.steps] == ["LaunchNode"] * 5
    assert nodes.nbytes == 2 * 64 * 4


def test_memory_is_shared_only_where_the_order_is_known():
    def f(x, y):
        for w in (numbers(64, 64, seed=i) for i in range(4)):
            x, y = x @ w, y @ w
        return x, y

    x = numbers(64, 64)
    nodes = nodes_of(f, x, x + 1)
    temporaries = {
        r.memory for n in nodes.steps for r in n.writes if r.memory.role == "temporary"
    }
    assert nodes.nbytes < sum(m.nbytes for m in temporaries)
    # Two chains, side by side.
    assert all(len(waits) <= 1 for waits in nodes.waits)
    assert sum(not waits for waits in nodes.waits) == 2


# ---- calls


def test_each_node_that_uses_a_part_of_an_array_is_told_where_it_is(device):
    f = lambda x: (lax.scan(lambda c, row: (c * 0.5 + row, c), x[0], x), x @ x)
    run = jit(f, backend="cuda")
    arrays = [numbers(16, 16, seed=i) for i in range(3)]
    with config.override("fusion", config.fusion.but(block_step=-1)):
        on_it = list(map(on_gpu, arrays))
        for x, there in zip(arrays * 2, on_it * 2, strict=True):
            for got, want in zip(*map(tree_leaves, (run(there), f(x))), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_results_are_in_use_from_the_moment_they_are_handed_out(device):
    f = jit(lambda x: x + 1, backend="cuda")
    x = on_gpu(x34)
    y = f(x)
    here = f.lower(x).compile().executable.here
    # As three threads, none of which has made arrays of its results yet.
    every = [here.run(x.memory) for _ in range(3)]
    assert len({memory.pointer for (memory,) in every} | {y.memory.pointer}) == 4


def test_two_settings_take_turns_and_need_to_be_told_nothing(device):
    f = jit(lambda x: (x + 1, x.sum()), backend="cuda")
    x, sums = on_gpu(x34), []
    for call in range(6):
        device.log.clear()
        x, total = f(x)
        assert device.times("instantiate") == (call < 2)
    # The first argument came from elsewhere, and was read once.
    assert [e.what for e in device.log] == ["launch"]
    # A total that is kept has its memory; only the node that writes it is told.
    for _ in range(3):
        sums.append(total)
        device.log.clear()
        x, total = f(x)
        assert device.times("rebind") <= 1
    wanted = (x34 + np.arange(5, 9)[:, None, None]).sum((1, 2))
    np.testing.assert_allclose([*sums, total], wanted, rtol=1e-4)


def test_results_that_are_too_large_do_not_stay_with_their_program(device):
    with minijit.config.override("pool_bytes", 1024):
        f = jit(lambda x: x + 1, backend="cuda")
        x = on_gpu(np.zeros(256, np.float32))
        for _ in range(4):
            device.log.clear()
            x = f(x)
        assert not device.times("alloc") and float(x[0]) == 4
        here = f.lower(x).compile().executable.here
        assert not any(any(setting.memories) for setting in here.settings)


def test_memory_that_a_program_keeps_is_given_back_when_it_is_wanted(device):
    f = jit(lambda x: x + 1, backend="cuda")
    x, alloc, failures = on_gpu(x34), device.alloc, []
    f(f(x))

    def alloc_at_second_try(nbytes):
        if not failures:
            failures.append(nbytes)
            raise RuntimeError("CUDA: cuMemAllocAsync failed")
        return alloc(nbytes)

    device.alloc = alloc_at_second_try
    device.log.clear()
    y = on_gpu(np.zeros(1000, np.float32))
    # Both results; the argument is in use.
    assert device.times("free") == 2 and failures
    np.testing.assert_array_equal(f(x), x34 + 1)
    assert not np.asarray(y).any()


def test_after_an_error_the_graph_is_made_again(device, monkeypatch):
    f = jit(lambda x: x * 2, backend="cuda")
    x, y = on_gpu(x34), on_gpu(x34 + 1)
    f(x), f(x)

    def refuse(what, count=0):
        if what == "rebind":
            raise RuntimeError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(device, "note", refuse)
        refused(RuntimeError, "refused", f, y)
    for array in (y, x, y, x):
        np.testing.assert_array_equal(f(array), np.asarray(array) * 2)


def test_ten_thousand_calls_leave_nothing(idle):
    f = jit(lambda x, y: (x + y, x * y), backend="cuda", donate_argnums=0)
    x, y = on_gpu(x34), on_gpu(x34)
    for _ in range(3):
        x, z = f(x, y)
    gc.collect()
    idle.log.clear()
    before, memory = len(gc.get_objects()), dict(idle.memory)
    for _ in range(10_000):
        x, z = f(x, y)
    assert idle.times("launch") == 10_000 and not idle.times("alloc")
    idle.log.clear()
    gc.collect()
    assert idle.memory.keys() == memory.keys()
    assert len(gc.get_objects()) - before < 50
    del x, y, z, f
    minijit.clear_caches()
    gc.collect()
    minijit.clear_caches()
    assert not idle.memory and not idle.graphs


# ---- arrays


def test_transfers_happen_only_where_they_are_asked_for(device):
    x = minijit.device_put(x34, minijit.devices("cuda")[0])
    device.log.clear()
    y = jit(lambda x: x + 1)(jit(lambda x: x * 2)(x))
    assert not device.times("read") and not device.times("write")
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(y), x34 * 2 + 1)
    assert device.times("read") == 1
    assert type(minijit.device_put(y, "cpu")) is not CudaArray
    # What is somewhere stays there if no device is named.
    assert minijit.device_put(y) is y and jnp.asarray(y) is y
    device.log.clear()
    for x in (jnp.zeros(3, device="gpu"), jnp.asarray(x34, device=y.device)):
        assert type(x) is CudaArray
    assert device.times("write") == 2


def test_places_that_are_not_there_are_errors(device):
    assert jnp.ones(3, device="cpu").device.platform == "cpu"
    assert jit(lambda v: v + 1)(on_gpu(x34)).device.platform == "gpu"
    for use in (lambda: minijit.device_put(x34, "gpu:1"),
                lambda: jnp.zeros(3, device="cpu:1")):
        refused(ValueError, "one device here", use)
    refused(RuntimeError, "tpu", jnp.eye, 3, device="tpu")
    with pytest.raises(TypeError, match="runs where its arguments are"):
        jit(lambda x: minijit.device_put(x, "gpu"))(x34)


def dlpack_of(capsule):
    """(address, device, (code and bits of a number), shape) of DLPack's struct."""
    start = in_capsule(id(capsule), b"dltensor")
    at = lambda kind, offset: kind.from_address(start + offset).value
    sizes = ctypes.c_int64 * at(ctypes.c_int32, 16)
    shape = list(sizes.from_address(at(ctypes.c_void_p, 24)))
    kind = at(ctypes.c_uint8, 20), at(ctypes.c_uint8, 21)
    return at(ctypes.c_void_p, 0), at(ctypes.c_int32, 8), kind, shape


def test_what_other_libraries_see_of_an_array(device):
    x = on_gpu(x34)
    seen = x.__cuda_array_interface__
    assert seen["shape"] == (3, 4) and seen["typestr"] == "<f4" and seen["version"] == 3
    assert seen["data"] == (x.unsafe_buffer_pointer(), True)
    assert x.__dlpack_device__() == (2, 0)
    pointer = x.unsafe_buffer_pointer()
    capsule = x.__dlpack__()
    assert dlpack_of(capsule) == (pointer, 2, (2, 32), [3, 4])
    for dtype, kind in (("bfloat16", (4, 16)), ("bool", (6, 8)), ("int32", (0, 32))):
        *_, found, shape = dlpack_of(on_gpu(x34.astype(dtype)).__dlpack__())
        assert (found, shape) == (kind, [3, 4])
    # One who names no stream, or his own, reads what is done; one who says -1 waits.
    with mock.patch.object(x.driver, "synchronize", wraps=x.driver.synchronize) as wait:
        counts = [x.__dlpack__(stream=s) and wait.call_count for s in (None, 1, -1, 2)]
    assert counts == [1, 2, 2, 3]
    assert jnp.from_dlpack(x) is x
    refused(BufferError, "on a GPU", np.from_dlpack, x)
    # The capsule keeps the memory alive; a new array gets other memory.
    memory = weakref.ref(x.memory)
    del x
    assert on_gpu(x34).unsafe_buffer_pointer() != pointer
    del capsule
    gc.collect()
    assert memory() is None

    class Foreign:
        __cuda_array_interface__ = {**seen, "data": (on_gpu(x34).memory.pointer, False)}

    np.testing.assert_array_equal(minijit.device_put(Foreign(), "gpu"), x34)


def test_an_array_pickles_prints_and_is_deleted(device):
    x = on_gpu(x34)
    assert type(pickle.loads(pickle.dumps(x))) is not CudaArray
    assert repr(x) == repr(jnp.asarray(x34))
    np.testing.assert_array_equal(jit(lambda x: x)(x), x34)
    x.delete()
    assert x.device == minijit.devices("gpu")[0]
    for use in (x.numpy, x.block_until_ready, lambda: jit(jnp.sin)(x)):
        refused(RuntimeError, "deleted", use)


def test_the_stub_refuses_addresses_that_nobody_allocated(device):
    x = on_gpu(x34)
    with pytest.raises(MemoryError, match="not allocated"):
        device.read(x.memory.pointer + 4096, np.empty(4))


# ---- products

LAYOUTS = [
    ((4, 5), (5, 6), (4, 6), (5, 1), (6, 1), (6, 1)),
    ((4, 5), (5, 6), (4, 6), (1, 4), (6, 1), (6, 1)),
    ((4, 5), (5, 6), (4, 6), (5, 1), (1, 5), (8, 1)),
    ((3, 4, 5), (3, 5, 6), (3, 4, 6), (5, 15, 1), (30, 6, 1), (24, 6, 1)),
    ((3, 4, 5), (3, 5, 6), (3, 4, 6), (20, 1, 4), (0, 6, 1), (6, 18, 1)),
    ((2, 3, 4, 5), (2, 3, 5, 6), (2, 3, 4, 6), (60, 20, 5, 1), (120, 36, 6, 1),
     (72, 24, 6, 1)),
    ((1, 5), (5, 6), (1, 6), (1, 1), (1, 5), (6, 1)),
]


@pytest.mark.parametrize("case", LAYOUTS)
def test_what_cublas_is_told_is_the_product(case):
    shapes, strides = case[:3], case[3:]
    rng, views, arrays = np.random.default_rng(0), [], []
    for shape, steps in zip(shapes, strides, strict=True):
        size = 8 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
        buffer = Buffer("x", (size,), np.dtype("float64"))
        views.append(View(buffer, shape, steps, 5))
        arrays.append(rng.standard_normal(size))
    seen = lambda i: np.lib.stride_tricks.as_strided(
        arrays[i][5:], shapes[i], [8 * s for s in strides[i]]
    )
    wanted = seen(0) @ seen(1)
    gemm = gemm_of(Call("matmul", (views[0], views[1]), (views[2],), {}))
    multiply(gemm, arrays[1], arrays[0], arrays[2])
    np.testing.assert_allclose(seen(2), wanted, rtol=1e-12)


@pytest.mark.parametrize("wanted", [None, np.float32])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_16_bit_floats_are_calls(device, dtype, wanted):
    x, y = (jnp.asarray(numbers(64, 64, seed=i)).astype(dtype) for i in range(2))
    product = lambda x, y: jnp.matmul(x, y.T, preferred_element_type=wanted)
    (node,) = nodes_of(product, x, y).steps
    assert node.gemm.dtypes == (x.dtype, x.dtype, np.dtype(wanted or x.dtype))
    found, right = jit(product, backend="cuda")(x, y), jit(product)(x, y)
    assert found.dtype == right.dtype
    near = 1e-6 if wanted else 1e-2
    np.testing.assert_allclose(
        *(np.asarray(a, np.float32) for a in (found, right)), near, near
    )


def rows_of_branches(x):
    """A scan of branches within a scan: a tape of tapes of unions."""

    def step(c, row):
        branch = lambda c: lax.cond(c[1] > 0, lambda c: c * row, jnp.exp, c)
        inner = lambda c, _: (branch(c * row), c)
        c, kept = lax.scan(inner, c, None, 2)
        return lax.cond(row[0] > c[0], jnp.sin, lambda c: c * c * row, c), kept

    return lax.scan(step, x[0], x)[0]


def of_three(x):
    """A switch with a branch in a branch: a union in a union."""
    own = lambda x: lax.cond(x[1, 1] > 0, jnp.cos, jnp.exp, x) * x
    index = (x.sum() * 5).astype(int) % 3
    return lax.switch(index, [jnp.sin, lambda x: x * x * x, own], x)


branching = {
    "branch": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, lambda x: jnp.exp(x) * x, x),
    "argument": lambda x: lax.cond(x[0, 0] > 0, lambda x: x * x, lambda x: x**3, x),
    "switch": of_three,
    "scan": rows_of_branches,
    "scan in a branch": lambda x: lax.cond(
        x[0, 0] > 0, rows_of_branches, lambda x: jnp.sin(x[0]), x
    ),
    "steps": lambda x: lax.fori_loop(0, 3, lambda _, c: of_three(c) / 2, x),
    "no branch": lambda x: lax.scan(lambda c, row: (jnp.sin(c) * row, c), x[0], x)[0],
}


@pytest.mark.parametrize("block_step", [0, config.fusion.block_step])
@pytest.mark.parametrize("name", branching)
def test_gradients_of_branches_and_scans_stay_on_the_device(device, name, block_step):
    """One launch a call; the loops are nodes of the graph, or of one block each."""
    slope = grad(lambda x: branching[name](x).sum())
    with config.override("fusion", config.fusion.but(block_step=block_step)):
        run = jit(slope, backend="cuda")
        for k, x in enumerate((x34, -x34), 1):
            wanted = jit(slope)(x)
            np.testing.assert_allclose(run(x), wanted, 1e-5, 1e-6)
            # What is copied to the CPU is the result.
            assert (device.times("launch"), device.times("read")) == (k, k)
            if block_step:
                on_grid = jit(slope, backend="cuda-lockstep")(x)
                np.testing.assert_allclose(on_grid, wanted, 1e-5, 1e-6)
        executable = run.lower(x34).compile().executable
    assert not executable.hosts and not executable.fallbacks


def test_a_loop_with_products_of_16_bit_floats_is_a_graph_or_the_cpus(device):
    x = jnp.asarray(numbers(8, 8)).astype("bfloat16")
    step = lambda c, _: (jnp.tanh(c @ x), None)
    f = lambda x: lax.scan(step, x, None, length=9)[0]
    settings = minijit.config.fusion.but(small_product=0)
    near = lambda a, b: np.testing.assert_allclose(
        *(np.asarray(y, np.float32) for y in (a, b)), 2e-2, 2e-2
    )
    slope = grad(lambda x: f(x).astype(np.float32).sum())
    with minijit.config.override("fusion", settings):
        for g in (f, slope):
            near(jit(g, backend="cuda")(x), jit(g)(x))


def test_nvidia_s_libraries_load_without_a_gpu():
    """cuBLAS has what is called, and nvJitLink the function that decides of a loop."""
    packages = "cuda-bindings nvidia-cublas nvidia-nvjitlink nvidia-cuda-runtime"
    if "not installed" in map(version_of, packages.split()):
        pytest.skip("needs minijit[cuda]")
    blas, version = cublas.library(), ctypes.c_int()
    assert blas.cublasGetProperty(0, ctypes.byref(version)) == 0 and version.value > 12
    assert blas.cublasGemmStridedBatchedEx_64 and blas.cublasSetWorkspace_v2
    for size in (1, 4):
        code = linked_with_runtime(cuda_driver.decide_text(size), (9, 0))
        assert code.startswith(b"\x7fELF") and b"decide_%d" % size in code
    with pytest.raises(RuntimeError, match="nvJitLink refused a kernel"):
        linked_with_runtime("no PTX", (9, 0))


def test_what_cublas_is_called_with(monkeypatch):
    """Types, steps and the address of each element, as its manual has them."""
    calls = []
    entry = lambda name: lambda *args: calls.append((name, args)) or 0
    fake = type("Library", (), {"__getattr__": lambda self, name: entry(name)})
    monkeypatch.setattr(cublas, "library", fake)
    blas = cublas.Cublas(17, 18)
    assert [name for name, _ in calls] == [
        *("cublasCreate_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2")
    ]
    views = [
        View(Buffer(name, (4, 4), np.dtype(dtype)), (4, 4), (4, 1), offset)
        for name, dtype, offset in
        [("a", "float16", 2), ("b", "float16", 3), ("out", "float32", 5)]
    ]
    gemm = gemm_of(Call("matmul", tuple(views[:2]), tuple(views[2:]), {}))
    blas.product(gemm, [1000, 2000, 3000])
    (_, args) = calls[-1]
    plain = [getattr(x, "value", x) for x in args[1:]]
    given = [x for x in plain if not hasattr(x, "_obj")]
    assert [x._obj.value for x in plain if hasattr(x, "_obj")] == [1.0, 0.0]
    assert given == [
        *(0, 0, 4, 4, 4, 1006, 2, 4, 0, 2004, 2, 4, 0, 3020, 0, 4, 0, 1, 68, -1)
    ]
    monkeypatch.setattr(cublas, "library", lambda: SimpleNamespace(broken=lambda _: 7))
    refused(RuntimeError, "cuBLAS: broken failed with status 7", blas.call, "broken")


# ---- operations outside of jit


def test_gradients_loops_and_lanes_outside_of_jit_stay_on_the_gpu(device):
    x = on_gpu(x34)
    wanted = 1 - np.tanh(x34) ** 2
    found = minijit.grad(lambda x: jnp.tanh(x).sum())(x)
    assert type(found) is CudaArray
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    total, sums = lax.scan(lambda c, row: (c + row, c), x[0], x)
    assert type(total) is type(sums) is CudaArray
    np.testing.assert_allclose(total, x34.sum(0) + x34[0], 1e-6)
    each = minijit.vmap(jnp.flip)(x)
    assert type(each) is CudaArray
    np.testing.assert_array_equal(each, x34[:, ::-1])


def of_own_rule(kind, factor):
    scaled = lambda x: x * factor
    if kind == "pure_callback":
        return lambda x: minijit.pure_callback(lambda x: np.asarray(scaled(x)), x, x)
    if kind == "custom_jvp":
        f = minijit.custom_jvp(scaled)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    else:
        f = minijit.custom_vjp(scaled)
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return f


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp", "pure_callback"])
def test_functions_of_the_user_run_outside_of_jit_and_are_not_kept(device, kind):
    factor = jnp.array([1.0, 2.0, 3.0, 4.0])
    gone = weakref.ref(factor)
    np.testing.assert_array_equal(of_own_rule(kind, factor)(on_gpu(x34)), x34 * factor)
    del factor
    gc.collect()
    assert gone() is None


def test_a_loop_outside_of_jit_is_kept_as_long_as_its_body(device):
    rows, known = on_gpu(x34), len(cuda_eager.operations)

    def run():
        factor = jnp.array([1.0, 2.0, 3.0, 4.0])
        step = lambda c, row: (c * factor + row, None)
        return lax.scan(step, rows[0], rows)[0], weakref.ref(factor)

    total, gone = run()
    assert type(total) is CudaArray
    gc.collect()
    assert gone() is None
    before = len(cuda_eager.operations)
    assert before - known <= 3
    run()
    assert len(cuda_eager.operations) == before


def test_a_product_beyond_its_memory_is_an_error():
    buffer = Buffer("x", (4, 4), np.dtype("float32"))
    view = View(buffer, (4, 4), (4, 1))
    gemm = gemm_of(Call("matmul", (view, view), (view,), {}))
    refused(IndexError, "beyond 15", multiply, gemm, *[np.zeros(15, np.float32)] * 3)


# ---- without a driver


def test_without_a_driver_every_entry_says_what_to_do():
    entries = [
        lambda: minijit.devices("gpu"),
        lambda: minijit.device_put(x34, "cuda"),
        lambda: jit(jnp.sin, backend="cuda")(x34),
        lambda: minijit.default_device("gpu").__enter__(),
    ]
    try:
        minijit.devices("gpu")
    except CudaUnavailable:
        pass
    else:
        pytest.skip("there is a GPU")
    for entry in entries:
        refused(CudaUnavailable, r"(?s)no GPU.*minijit\[cuda\]", entry)
    # What needs none works: text, and reports.
    compiled = jit(jnp.sin, backend="cuda").lower(x34).compile()
    assert "sin" in compiled.as_text() and ".entry" in compiled.as_text("ptx")
    assert compiled.explain().kernels
    two = lambda x, y: (jnp.sin(x).sum(0), jnp.tanh(y).sum(1))
    several = jit(two, backend="cuda").lower(x34, numbers(5, 6))
    for kind in ("ptx", "report", "llvm"):
        text = several.compile().as_text(kind)
        assert "kernel_0" in text and "kernel_1" in text


# ---- NVIDIA's driver, as far as it can be tried without one


class Named(int):
    """A status of the driver, or a handle."""

    name = "CUDA_ERROR_OUT_OF_MEMORY"


class Struct(SimpleNamespace):
    """A struct of the driver: fields are made when they are set or asked for."""

    def __getattr__(self, name):
        if name == "phGraph_out":
            return [Named(1000 + i) for i in range(self.size)]
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, Struct())
        return getattr(self, name)


class Api:
    """NVIDIA's driver as `cuda.bindings` shows it: functions return (status, ...).

    Attributes:
      calls: (function, arguments); broken: a function that fails.
    """

    values = {
        "cuDeviceGetCount": 1, "cuDeviceGetName": b"A device\0\0",
        "cuEventElapsedTime": 2.5,
    }  # fmt: skip
    empty = """cuInit cuCtxSetCurrent cuGraphLaunch cuMemFreeAsync cuStreamSynchronize
        cuStreamBeginCapture cuGraphDestroy cuGraphExecDestroy""".split()

    def __init__(self):
        self.calls, self.broken = [], None

    def __getattr__(self, name):
        if not name.startswith("cu") or name == "cuuint64_t":
            structs = "CUDA_KERNEL_NODE_PARAMS", "CUDA_MEMCPY3D", "CUgraphNodeParams"
            return Struct if name in structs else Struct()

        def function(*args):
            self.calls.append((name, args))
            if name == self.broken:
                return (Named(2),)
            none = name in self.empty or name.startswith(("cuGraphExec", "cuMemcpy"))
            return (0,) if none else (0, self.values.get(name, Named(len(self.calls))))

        return function

    def names(self):
        return [name for name, _ in self.calls]


Api.cuuint64_t = int


@pytest.fixture
def api(monkeypatch):
    api = Api()
    blas = lambda stream, workspace: SimpleNamespace(
        product=lambda gemm, pointers: api.calls.append(("product", (gemm, pointers)))
    )
    monkeypatch.setattr(cuda_driver, "Cublas", blas)
    monkeypatch.setattr(cuda_driver, "image_of", lambda kernel, capability: kernel.name)
    linked = lambda text, capability: text
    monkeypatch.setattr(cuda_driver, "linked_with_runtime", linked)
    monkeypatch.setattr(cuda_driver, "bindings", lambda: api)
    return api


def test_what_the_driver_is_asked_for(api):
    f = jit(lambda x, y: jnp.tanh(x @ y) + 1, backend="cuda")
    with cuda_driver.using(cuda_driver.Driver()) as driver:
        assert driver.name == "A device"
        x, y = (on_gpu(numbers(64, 64, seed=i)) for i in range(2))
        api.calls.clear()
        kept = f(x, y)
        names = api.names()
        assert names.count("cuGraphInstantiate") == names.count("cuGraphLaunch") == 1
        assert names.count("cuGraphAddKernelNode") == 1
        added = dict(api.calls)["cuGraphAddKernelNode"]
        child = dict(api.calls)["cuGraphAddChildGraphNode"]
        # The kernel waits for the product; the product for nothing.
        assert child[1:3] == (None, 0) and added[2] == 1
        assert names.index("product") < names.index("cuStreamEndCapture")
        # What cuBLAS did was copied into the graph, and is given back.
        assert names.index("cuGraphAddChildGraphNode") < names.index("cuGraphDestroy")
        for _ in range(4):
            api.calls.clear()
            z = f(x, y)
        assert api.names() == ["cuGraphLaunch"]
        f(y, z)
        changed = "cuGraphExecChildGraphNodeSetParams"
        assert api.names().index("product") < api.names().index(changed)
        assert driver.milliseconds(lambda: f(y, kept)) == 2.5
        # A thread that has had nothing to do with the device enters its context.
        api.calls.clear()
        api.broken = "cuGraphLaunch"
        refused(RuntimeError, "cuGraphLaunch failed", f, y, kept)
        assert api.names()[-3:] == ["cuGraphLaunch", "cuCtxSetCurrent", "cuGraphLaunch"]


def test_a_loop_of_the_driver_is_decided_at_its_end(api, large_steps):
    f = jit(lambda x: repeated(x)[1], backend="cuda")
    with cuda_driver.using(cuda_driver.Driver()):
        f(on_gpu(x34))
    names = api.names()
    node = names.index("cuGraphAddNode")
    assert "cuGraphConditionalHandleCreate" in names[:node]
    inside = [args[0] for name, args in api.calls[node + 1 :] if "AddKernel" in name]
    # The body, its test, and the kernel that decides, in the graph inside.
    assert inside == [1000] * 4
    decide = [args[3].kernelParams for name, args in api.calls if "AddKernel" in name]
    assert len(set(decide)) == len(decide)


def test_what_the_driver_is_asked_for_by_branches_copies_and_two_products(
    api, large_steps
):
    branch = lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x)
    f = jit(lambda i, x, y: (branch(i, x), x @ y, y @ x, y), backend="cuda")
    with cuda_driver.using(cuda_driver.Driver()) as driver:
        i, x, y, z = on_gpu((np.int32(1), *(numbers(64, 64, seed=i) for i in range(3))))
        results = f(i, x, y)
        names = api.names()
        assert names.count("product") == 2 and names.count("cuGraphAddNode") == 1
        # Both products work in the same memory.
        children = [a for name, a in api.calls if name == "cuGraphAddChildGraphNode"]
        assert [waits for _, _, waits, _ in children] == [0, 1]
        for _ in range(2):
            f(i, x, z)
        assert api.names().count("cuGraphExecMemcpyNodeSetParams") > 0
        api.calls.clear()
        np.asarray(results[1])
        driver.copy(1, 2, 3)
        assert [name for name in api.names() if name[:8] == "cuMemcpy"] == [
            *("cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync")
        ]
    api.values = {**api.values, "cuDeviceGetCount": 0}
    refused(CudaUnavailable, "the driver knows no device", cuda_driver.Driver)


def test_what_the_driver_refuses_is_an_error_with_its_name(api):
    with cuda_driver.using(cuda_driver.Driver()):
        api.broken = "cuMemAllocAsync"
        refused(RuntimeError, "cuMemAllocAsync failed: .*MEMORY", on_gpu, x34)
    api.broken = "cuInit"
    refused(CudaUnavailable, "driver does not start", cuda_driver.Driver)


def test_code_is_kept_on_the_disk_and_made_again_if_damaged(tmp_path):
    from minijit.run.cuda.images import image_of
    from minijit.run.cuda.nodes import kernel_of

    program = jit(jnp.sin).lower(x34).compile().executable.program
    kernel = kernel_of(program.kernels[0])
    with minijit.config.override("cache_dir", str(tmp_path / "cache")):
        first = image_of(kernel, (8, 0))
        assert image_of(kernel, (9, 0)) != first
        files = sorted((tmp_path / "cache" / "cuda").iterdir())
        for file in files:
            file.write_bytes(b"damaged" * 9)
        assert image_of(kernel, (8, 0)) == first
        # What is kept is found: nobody compiles.
        stale = SimpleNamespace(name=kernel.name, llvm=kernel.llvm, ptx=None)
        assert image_of(stale, (8, 0)) == first


# ---- what runs where there is a GPU


def test_the_script_for_gpus_compares_and_prints_its_table(capsys, monkeypatch):
    gpu = pytest.importorskip("tests.gpu")
    monkeypatch.setattr(gpu, "REPEATS", 1)
    monkeypatch.setattr(gpu, "CALLS", 1)
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    few = [p for p in gpu.programs(8) if p[0] in ("softmax", "product", "while")]
    monkeypatch.setattr(gpu, "programs", lambda n: few)
    loops = {name: PROGRAMS[name] for name in ("while", "half")}
    monkeypatch.setattr("tests.test_cuda_graphs.PROGRAMS", loops)
    monkeypatch.setattr(gpu, "DRAWN", 1)
    with stub_driver():
        assert gpu.differences(8) == gpu.small_programs() == gpu.drawn_programs() == []
        assert gpu.outside_of_jit(8) == []
    with stub_driver(executes=False):
        # Nothing is computed, and each comparison sees it.
        assert gpu.main() == 1
    printed = capsys.readouterr().out
    assert "same as the CPU" in printed and "/ cuBLAS" in printed
    assert "softmax 45: outside of jit" in printed
    for wrong in ("softmax 64 by cuda: the CPU", "while: steps up to -1", "drawn(0)"):
        assert wrong in printed
