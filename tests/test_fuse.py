"""Fusion: kernels that share loops are one, and compute what they did apart."""

import functools
import random
from functools import partial

import ir_interpreter
import numpy as np
import pytest
from harness import alike, as_interpreted, fusing, program_of
from test_lower import floats

import minijit as jax
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.compile.fuse.fusion import settle
from minijit.compile.loops import statements
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import (
    Axis, Const, Load, Op, Reduce, as_index, op,
)
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import (
    For, If, Kernel, Program, Store, expressions,
)
from minijit.compile.schedule.place import place
from minijit.compile.schedule.shared_loops import Part, saved_bytes
from minijit.compile.settings import Settings
from minijit.trace.base.config import config

pytestmark = [pytest.mark.chapter(17), pytest.mark.fusion]


def kernels(f, *args):
    return len(program_of(f, *args).kernels)


def layer_norm(x, axis):
    mean = x.mean(axis, keepdims=True)
    var = ((x - mean) ** 2).mean(axis, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5)


def log_likelihood(x, axis):
    one_hot = nn.one_hot(jnp.arange(x.shape[1 - axis]) % 3, x.shape[axis], axis=axis)
    return (nn.log_softmax(x, axis=axis) * one_hot).sum(axis)


over_an_axis = {
    "softmax": lambda x, axis: nn.softmax(x, axis=axis),
    "layer norm": layer_norm,
    "variance": lambda x, axis: x.var(axis),
    "logsumexp": lambda x, axis: nn.logsumexp(x, axis=axis),
    "log likelihood": log_likelihood,
    "shares": lambda x, axis: x / x.sum(axis, keepdims=True),
}


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("name", over_an_axis)
def test_what_belongs_to_a_row_is_one_kernel(name, axis):
    f, x = functools.partial(over_an_axis[name], axis=axis), floats(24, 40)
    assert kernels(f, x) == 1
    g = floats(*f(x).shape, seed=1)
    gradient = lambda x, g, f=f: jax.vjp(f, x)[1](g)[0]
    assert kernels(gradient, x, g) <= 2
    assert kernels(jax.grad(lambda x: f(x).sum()), x) <= 2
    for function, args in ((f, (x,)), (gradient, (x, g))):
        run = jax.jit(function, backend="plain")
        wanted = jax.jit(function, backend="eval")(*args)
        np.testing.assert_allclose(run(*args), wanted, 2e-4, 2e-5)


def cross_entropy(x, labels):
    chances = nn.log_softmax(x)
    return -jnp.take_along_axis(chances, labels[:, None], 1).mean()


def by_one_hot(x, labels):
    return -(nn.log_softmax(x) * nn.one_hot(labels, x.shape[1])).sum(1).mean()


def by_lanes(x, labels):
    return -jax.vmap(lambda row, label: nn.log_softmax(row)[label])(x, labels).mean()


@pytest.mark.parametrize("loss", [cross_entropy, by_one_hot, by_lanes])
def test_a_loss_of_a_batch_and_its_gradient_are_one_kernel_each(loss):
    x, labels = floats(24, 40), np.array([3, -1, 39, 40] * 6, "int32")
    for f in (loss, jax.grad(loss)):
        assert len(program_of(f, x, labels).body) == 1
        wanted = jax.jit(f, backend="eval")(x, labels)
        np.testing.assert_allclose(
            jax.jit(f, backend="plain")(x, labels), wanted, 2e-4, 2e-5
        )


def test_several_totals_over_the_same_rows_are_one_kernel():
    x, labels = floats(24, 40), np.arange(24, dtype="int32") % 5 * 9

    def f(x, labels):
        right = (x.argmax(1) == labels).mean()
        wanted = labels > 3
        return cross_entropy(x, labels), right, (nn.logsumexp(x, 1) * wanted).sum()

    assert len(program_of(f, x, labels).body) == 1
    alike(jax.jit(f, backend="plain")(x, labels), jax.jit(f, backend="eval")(x, labels),
          rtol=1e-5)  # fmt: skip


def test_totals_of_what_is_not_known_row_by_row_stay_apart():
    x = floats(24, 40)
    later = lambda x: ((r := x.sum(1)) - r.mean()) ** 2
    assert kernels(lambda x: later(x).sum(), x) == 2
    # In tiles, where an array is turned, there are no rows.
    large = floats(100, 200)
    assert kernels(lambda x: (x.T * 2, (x.T * 2).sum()), large) == 2


@pytest.mark.parametrize("axis", [0, 1])
def test_running_totals_that_nobody_reads_are_no_kernels(axis):
    """No element is above the third diagonal of three columns: of totals of totals the
    last are left out first."""
    totals = lambda y, x: jnp.cumsum(y + x, axis)
    all_of_them = lambda x: functools.reduce(totals, [x] * 5)
    f, x = lambda x: x - jnp.triu(all_of_them(x), 3), floats(200, 3)
    assert kernels(f, x) == 1
    np.testing.assert_array_equal(jax.jit(f)(x), x)


def test_what_nobody_reads_once_others_are_merged_is_left_out():
    """That all of it is written over is seen when that is one kernel."""
    totals = lambda x: (jnp.cumsum(x, 0) * x + 2).at[: len(x)].set(x)
    f, x = lambda x: (y := jnp.sin(totals(x)) + x * 2, y.sum(0)), floats(7, 16)
    assert kernels(f, x) == 1
    for found, wanted in zip(jax.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_totals_of_rows_may_be_of_columns_too():
    x = floats(24, 40)
    assert kernels(lambda x: nn.logsumexp(x, 0).sum(), x) == 1


def test_a_scatter_into_own_rows_keeps_their_order():
    """What is written, added to, read and written again, in each row."""
    def f(x, i):
        rows = jnp.arange(x.shape[0])
        y = (x * 2).at[rows, i].add(x[:, 0]).at[rows, 3].set(1.5)
        return y.at[rows, i].multiply(y.sum(1)), y.max(1)

    def g(x, i):
        # Two steps write to one place: their order matters, and so they stay.
        return (x * 2).at[i % 2, i].add(x[:, 0])

    def products(x, i):
        # The copy goes through the rows, a total along the row that it becomes.
        put = lambda x, v, i: lax.dynamic_update_slice(x, (x @ v)[None], (i, 0))
        return jax.vmap(put)(x, floats(9, 7), i)

    def found(x, i):
        # What the second one reads is where a total says, as what the first one wrote.
        def row(x, y, i):
            j = i.sum() % 7
            return x.at[j].set(x[j] + y.at[j].max(y[0])[j])

        return jax.vmap(row)(x, floats(9, 7), i[:, None] + jnp.arange(3))

    x, i = floats(9, 7), np.array([0, 3, 6, 3, 9, -1, 2, 2, 5], "int32")
    assert len(program_of(f, x, i).body) < 4 and kernels(g, x, i) == 2
    for h, y in ((f, x), (g, x), (found, -x), (products, floats(9, 7, 7))):
        found = jax.tree.leaves(jax.jit(h, backend="plain")(y, i))
        alike(found, jax.tree.leaves(h(jnp.array(y), i)), rtol=1e-5)


@pytest.mark.parametrize("axis", [1, 0])
def test_nothing_is_computed_twice(axis):
    found = program_of(lambda x: nn.softmax(x, axis=axis), floats(24, 40))
    inside = postorder(expressions(found.kernels[0].body))
    assert [e.name for e in inside if isinstance(e, Op)].count("exp") == 1
    assert not found.temps


shapes = [(3, 700), (70, 17), (5, 1)]


@pytest.mark.parametrize("shape", shapes)
@pytest.mark.parametrize("name", over_an_axis)
def test_on_llvm_in_pieces_and_in_a_thread(name, shape):
    x = floats(*shape)
    for axis in (1, 0):
        f = functools.partial(over_an_axis[name], axis=axis)
        wanted = jax.jit(lambda x, f=f: f(x), backend="eval")(x)
        np.testing.assert_allclose(jax.jit(f)(x), wanted, 2e-4, 2e-5)


def test_rows_that_are_too_large_stay_in_memory():
    f = lambda x: nn.softmax(x, axis=-1)
    x = floats(6, 50)
    with config.override("fusion", Settings(row_bytes=100)):
        found = program_of(f, x)
        assert len(found.kernels) == 1 and len(found.temps) == 1
        np.testing.assert_allclose(jax.jit(f)(x), f(x), 1e-5)


def test_what_is_a_row_fits_with_the_others_and_with_the_lanes_beside_it():
    """Rows of 200 bytes; along columns many lanes of each are at work."""
    both = lambda x: share(jnp.exp(x)) * share(jnp.sin(x) ** 3)
    share = lambda x: x / x.sum(1, keepdims=True)
    with fusing(row_bytes=300):
        found = program_of(both, floats(6, 50))
        assert [len(found.kernels), len(found.temps)] == [1, 1]
    with fusing(row_bytes=1000):
        found = program_of(lambda x: nn.softmax(x, axis=0), floats(50, 64))
        assert [len(found.kernels), len(found.temps)] == [1, 1]


turned = lambda x: x.transpose(1, 2, 0)
digits = {
    "rows": (lambda x: nn.softmax(turned(x).reshape(-1, 12)), True),
    "and what is computed": (lambda x: nn.softmax(turned(x * x).reshape(16, -1)), True),
    "a part of them": (lambda x: nn.softmax(x[:, :, :5].reshape(-1, 6) + 1), True),
    "and back": (lambda x: turned(nn.softmax(x).reshape(3, 8, 8)), True),
    "as they lie": (lambda x: nn.softmax((x * 2).reshape(-1, 12)), False),
    "of one number": (lambda x: nn.softmax(turned(x).reshape(48, -1)), False),
}


@pytest.mark.parametrize("name", digits)
def test_what_a_reshape_mixes_lies_in_its_order(name):
    """No loop went through memory: a softmax of it took four times as long as JAX's."""
    f, stored = digits[name]
    x = floats(4, 6, 8)
    rules = {d.rule for d in jax.explain(f, x).decisions}
    assert ("digits" in rules) == stored
    as_interpreted(f, x, backend="llvm", rtol=1e-5, atol=1e-6)


def test_siblings_that_read_the_same_are_one():
    def three(x):
        return x * 2, jnp.sin(x).transpose(1, 0, 2), jnp.cos(x).transpose(2, 0, 1)

    x = floats(4, 5, 6)
    assert kernels(three, x) == 1
    assert kernels(lambda x: (x.sum(), jnp.sin(x)), x) == 1  # the total comes first
    alike(jax.jit(three)(x), three(x), rtol=1e-5)


def test_fusion_may_be_off_for_one_function():
    f = lambda x: nn.softmax(x)
    off, x = jax.fuse(f, enabled=False), floats(5, 9)
    inner, = program_of(off, x).calls
    assert len(inner.attrs["program"].kernels) == 4
    uses = {
        "jit": lambda f: jax.jit(f),
        "grad": lambda f: jax.grad(lambda x: (f(x) * x).sum()),
        "vmap": lambda f: jax.vmap(lambda row: f(row[None])[0]),
        "scan": lambda f: lambda x: lax.scan(lambda c, r: (c + f(r), c), x[0], x)[1],
    }
    for use in uses.values():
        for run in (use(off), jax.jit(use(off)), jax.jit(jax.grad(
            lambda x, use=use: (use(off)(x) ** 2).sum()
        ))):
            assert run(x).shape == x.shape
        np.testing.assert_allclose(use(off)(x), use(f)(x), 1e-4, 1e-6)


def test_settings_say_what_is_wrong():
    with pytest.raises(TypeError, match="no setting colour; the settings are between_"):
        jax.fuse(jnp.sin, colour=1)
    with pytest.raises(TypeError, match="row_bytes of fusion is an int, got 'a'"):
        jax.fuse(jnp.sin, row_bytes="a")
    told = Settings.from_text("enabled=False,row_bytes=9")
    assert told == Settings(False, row_bytes=9)


def test_a_barrier_forbids():
    f = lambda x: lax.optimization_barrier(jnp.sin(x)) * 2 + 1
    x = floats(7, 8)
    assert kernels(f, x) == 2 and kernels(lambda x: jnp.sin(x) * 2 + 1, x) == 1
    np.testing.assert_allclose(jax.jit(f)(x), f(x), 1e-5)
    slope = jax.vmap(jax.grad(lambda row: f(row).sum()))
    np.testing.assert_allclose(jax.jit(slope)(x), jnp.cos(x) * 2, 1e-4, 1e-6)
    tree = lax.optimization_barrier({"a": x, "b": (1, x)})
    assert set(tree) == {"a", "b"} and tree["b"][1].shape == x.shape


def test_the_ledger_says_yes_and_no():
    found = program_of(lambda x: nn.softmax(x), floats(4, 8))
    rules = [d.rule for d in found.decisions if d.fused and d.rule != "inline"]
    assert rules == ["loops"] * 3 + ["row"]
    x = floats(20, 30)
    found = program_of(lambda x: x / x.sum(), x)
    refused = [d for d in found.decisions if not d.fused]
    pairs = [d for d in refused if d.b]
    assert {d.rule for d in pairs} <= {"no nest", "total", "axes"} and pairs
    assert all(d.reason for d in refused) and all(d.nbytes for d in pairs)


def test_a_cause_stays_where_fusion_says_no_as_well():
    """Why there were two kernels, and why there still are."""
    f = lambda x: jnp.sin(x) * x[:, None]
    with fusing(most_buffers=1):
        found = program_of(f, floats(10))
    cause, = (d for d in found.decisions if d.rule == "recompute")
    still, = (d for d in found.decisions if d.rule == "buffers")
    assert (cause.a[0],) == still.a[0].eqns[1:] and not still.fused
    assert cause.settings == ("cheap", "cheap_in_all") and not cause.fused
    assert (cause.numbers["times"], cause.numbers["elements"]) == (100, 10)
    assert (still.setting, still.numbers) == ("most_buffers", {"buffers": 2})
    assert still.nbytes > 0


def test_what_keeps_two_kernels_apart():
    """Little that both read; too many operations."""
    x = floats(200, 300)
    assert kernels(lambda x, y, k: (x * k[:, None], y * k[:, None]), x, x, x[:, 0]) == 2
    many = lambda x: (nn.softmax(x), nn.softmax(x, axis=0))
    with fusing(most_operations=8):
        found = program_of(many, x)
    assert "operations" in {d.rule for d in found.decisions}


def stencil(steps):
    def f(x):
        for _ in range(steps):
            x = (jnp.roll(x, 1) + x + jnp.roll(x, -1)) / 3
        return x

    return f


def gathers(steps):
    def f(x, i):
        for _ in range(steps):
            x = x[i] + x[(i + 1) % 64]
        return x

    return f


def search(steps):
    def f(table, x):
        low = jnp.zeros(x.shape, "int32")
        for k in reversed(range(steps)):
            probe = jnp.minimum(low + 2**k, table.size - 1)
            low = jnp.where(table[probe] <= x, probe, low)
        return low

    return f


chains = {
    "stencil": (stencil, (floats(64),)),
    "gathers": (gathers, (floats(64), np.arange(64)[::-1].astype("int32"))),
    "search": (search, (np.sort(floats(64)), floats(50))),
}


@pytest.mark.parametrize("name", chains)
def test_the_text_is_linear_in_the_program(name):
    make, args = chains[name]
    sizes = []
    for steps in (4, 7, 8, 16, 30):
        found = program_of(make(steps), *args)
        bodies = [expressions(kernel.body) for kernel in found.kernels]
        sizes.append(sum(len(postorder(body)) for body in bodies))
    each = (sizes[2] - sizes[0]) / 4
    assert sizes[4] <= sizes[2] + 22 * 1.2 * each + 60, sizes
    f = make(7)
    wanted = jax.jit(f, backend="eval")(*args)
    np.testing.assert_allclose(jax.jit(f, backend="plain")(*args), wanted, 1e-5)


def test_a_narrow_total_is_added_in_a_wide_row():
    x = floats(8, 20).astype("float16")
    text = jax.jit(lambda x: jnp.sum(x, 0)).lower(x).compile().as_text()
    assert "float32" in text and "t0[" in text


def test_what_was_merged_meanwhile_may_stand_between_two():
    """A gradient of three layers: the pass once made kernels wait in a ring, and lost
    them."""

    def f(a, b, x, s, t, u, ct):
        back = ct * jnp.cos(u)
        through = (back @ b) * jnp.cos(t)
        first = ((through @ a) * jnp.cos(s))[:, None] * x
        return first, through[:, None] * jnp.sin(s), back[:, None] * jnp.sin(t)

    random = np.random.default_rng(0)
    shapes = (6, 5), (7, 6), (4,), (5,), (6,), (7,), (7,)
    args = [random.normal(size=shape).astype("f4") for shape in shapes]
    alike(jax.jit(f)(*args), f(*args), rtol=1e-4, atol=1e-5)


@pytest.mark.chapter(22)
@pytest.mark.parametrize("size, seed", [(6, 80307), (12, 90114)])
def test_updates_in_place_cost_no_kernel(size, seed, monkeypatch):
    """A copy before an update, merged with others or alone, is found to be needless."""
    from tests import random_memory

    monkeypatch.setattr(random_memory, "N", size)
    f, args = random_memory.drawn(seed)
    counts = []
    for settings in (config.fusion, config.fusion.but(enabled=False)):
        with config.override("fusion", settings):
            found = jax.jit(f, backend="plain").lower(*args).compile()
            counts.append(len(found.executable.kernels))
    assert counts[0] <= counts[1]


def test_what_a_block_knows_of_its_stores():
    """A load becomes what was stored, unless that may not be there any more."""
    i, j = Axis(10), Axis(10)
    a, b, t, y, z = (Buffer(name, (10,), np.dtype("f4")) for name in "abtyz")

    def put(buffer, source, at=i):
        return Store(buffer, (at,), Load(source, (at,)))

    *_, last = settle((put(t, a), put(y, t)))
    assert last.value == Load(a, (i,))
    *_, last = settle((put(t, a), put(t, b, j), put(y, t)))
    assert last.value == Load(t, (i,))
    *_, last = settle((put(t, a), For(j, (put(t, b, j),)), put(y, t)))
    assert last.value == Load(t, (i,))
    *_, last = settle((put(y, t), put(t, b), put(z, t)))
    assert last.value == Load(b, (i,))
    # What was stored is made of what is there no more.
    *_, last = settle((put(t, a), put(a, b), put(y, t)))
    assert last.value == Load(t, (i,))
    update = Store(t, (i,), op("add", Load(t, (i,)), Load(b, (i,))))
    *_, last = settle((update, put(y, t)))
    assert last.value == Load(t, (i,))
    # What is stored first is nowhere to be seen.
    only, last = settle((put(t, a), update, put(y, t)))
    assert only.value is last.value is op("add", Load(a, (i,)), Load(b, (i,)))
    loops = For(i, (put(y, a),)), For(j, (put(z, y, j),))
    (loop,) = settle(loops)
    assert [s.buffer for s in loop.body] == [y, z]
    assert {s.value for s in loop.body} == {Load(a, (i,))}


def random_statements(draw, arrays, axes, depth):
    """A few statements that store into some arrays what they load from them."""
    one = lambda: (draw.choice([*axes, as_index(draw.randrange(5))]),)

    def value(depth):
        if depth == 0 or draw.random() < 0.4:
            return Load(draw.choice(arrays), one())
        if draw.random() < 0.2:
            k = Axis(5, "reduce")
            body = op("sub", Load(draw.choice(arrays), (k,)), value(0))
            return Reduce("add", (k,), (body,))
        name = draw.choice(["add", "mul", "sub"])
        return op(name, value(depth - 1), value(depth - 1))

    for _ in range(draw.randrange(1, 6)):
        kind = draw.choice(["store", "store", "store", "loop", "branch"])
        inside = partial(random_statements, draw, arrays)
        if kind == "store" or not depth:
            yield Store(draw.choice(arrays), one(), value(2))
        elif kind == "loop":
            axis = Axis(5, "serial")
            yield For(axis, tuple(inside([*axes, axis], depth - 1)))
        else:
            pred = op("lt", value(1), Const(1, np.dtype("f4")))
            yield If(pred, *(tuple(inside(axes, 0)) for _ in range(2)))


@pytest.mark.parametrize("seed", range(40))
def test_what_loads_stand_for_does_not_change(seed, monkeypatch):
    """Random statements, each computed from scratch when it runs, as they are; and
    settled, told apart and placed."""
    numbers = lambda b: (np.arange(5) * ord(b.name) % 7 - 3).astype(b.dtype)
    monkeypatch.setattr(ir_interpreter, "garbage", numbers)
    i = Axis(5, "serial")
    arrays = [Buffer(name, (5,), np.dtype("f4")) for name in "abcd"]
    body = tuple(random_statements(random.Random(seed), arrays, [i], 2))
    program = lambda body: Program(
        "main", (), tuple(arrays), (), (), (Kernel("k0", (For(i, body),)),)
    )
    run = lambda body, **how: ir_interpreter.run(program(body), **how)
    placed = partial(place, prepare=tuple)
    with np.errstate(all="ignore"):
        with monkeypatch.context() as as_they_are:
            as_they_are.setattr(statements, "told_apart", tuple)
            wanted = run(body)
        for found in run(body, place=placed), run(tuple(settle(body)), place=placed):
            np.testing.assert_array_equal(found, wanted)


def test_what_is_made_of_stored_totals_reads_them():
    """As one kernel, with one loop over the rows for both totals."""

    def f(x, v, w):
        first, second = v @ x, w @ x
        return first, second, jnp.sin(first) - second

    args = floats(40, 50), floats(40), floats(40)
    text = jax.jit(f).lower(*args).compile().as_text()
    assert text.count("add_any_order(") == 2
    alike(jax.jit(f)(*args), f(*args), rtol=1e-5, atol=1e-5)


@pytest.mark.chapter(27)
def test_a_plan_does_not_depend_on_addresses(monkeypatch):
    """A value may join several kernels that read what it reads: always the same one."""
    from tests import random_memory

    monkeypatch.setattr(random_memory, "N", 12)
    plans, kept = set(), []
    for i in range(6):
        kept.append([object() for _ in range(37 * i % 101)])
        f, args = random_memory.drawn(911421)
        slopes = jax.grad(random_memory.total(f, 12), (0, 1))
        plans.add(str(program_of(slopes, *args)))
    assert len(plans) == 1


def test_what_a_merge_saves():
    """What goes from one kernel to the other is not read, nor written if nobody else
    wants it; what both read is read once."""
    given, between, result = (Buffer(n, (6,), np.dtype("f4")) for n in "gbr")

    def copy(source, target):
        i = Axis(6)
        store = Store(target, (i,), Load(source, (i,)))
        return Part.of(0, Kernel("k", (For(i, (store,)),)))

    first, second = copy(given, between), copy(between, result)
    assert saved_bytes(first, second, lambda buffer: False) == 48
    assert saved_bytes(first, second, lambda buffer: True) == 24
    assert saved_bytes(first, copy(given, result), lambda buffer: True) == 24
