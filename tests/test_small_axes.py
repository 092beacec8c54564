"""Permutations and other mixing of small axes: one kernel, whatever is done."""

import re
from functools import partial

import numpy as np
import pytest
from harness import alike, program_of

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.fuse import blocks
from minijit.compile.fuse.rolling import rolled
from minijit.compile.loops.expressions import as_index
from minijit.compile.loops.statements import Kernel
from minijit.compile.schedule.place import place
from minijit.compile.simplify.folding import simplify
from minijit.run.loading import rewritten
from minijit.trace.jaxprs.jaxpr import ClosedJaxpr, eval_jaxpr
from minijit.transform.control_flow.while_and_scan import scan_p
from tests import ir_interpreter

pytestmark = [pytest.mark.chapter(17), pytest.mark.fusion]
DIAGONALS = np.array([[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]])
BACK = np.argsort(DIAGONALS.ravel()).reshape(4, 4)


def check(f, *args, kernels=1):
    """Compare a compiled function with plain evaluation, and count its kernels."""
    program = program_of(f, *args)
    assert [type(step) for step in program.body] == [Kernel] * kernels, program
    alike(mj.jit(f)(*args), f(*map(jnp.asarray, args)), rtol=1e-5)
    return program


# ---- seed S1: columns, then diagonals


def permutations():
    """Functions of a matrix and of where its elements come from."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1)
    )

    def gather(m, places):
        indices = jnp.array(np.stack(np.divmod(places.ravel(), 4), -1))
        taken = lax.gather(m, indices, numbers, slice_sizes=(1, 1), unique_indices=True)
        return taken.reshape(4, 4)

    def rolls(m, places):
        shifts = [-i if places is DIAGONALS else i for i in range(4)]
        return jnp.stack([jnp.roll(m[i], shifts[i]) for i in range(4)])

    by_ravel = lambda m, places: m.ravel()[places.ravel()].reshape(4, 4)
    along_axis = lambda m, places: jnp.take_along_axis(m, places % 4, 1)
    return gather, jnp.take, by_ravel, along_axis, rolls


by_gather, by_take, by_ravel, along_axis, by_rolls = permutations()


def by_index_arrays(m, places):
    return m[tuple(np.divmod(places, 4))]


def not_at_all(m, places):
    return m


OPTIONS = [by_gather, by_take, by_ravel, not_at_all]
FORMS = [by_gather, by_take, by_ravel, by_index_arrays, along_axis, by_rolls]


def simple(k, col):
    for _ in range(k):
        col = col << 7
    return col


def unpacked(k, col):
    """The seed's `col_fn_complex`."""
    a, b, c, d = col
    for _ in range(k):
        a = a << 7
        b = b + a
        c = c * b
    return jnp.array([a, b, c, d])


def seed(col_fn, permute, times):
    def inner_fn(m):
        columns = mj.vmap(col_fn, in_axes=1, out_axes=1)
        return permute(columns(m), DIAGONALS)

    def outer_fn(m):
        old_m = m
        for _ in range(times):
            m = inner_fn(m)
        return m + old_m

    return outer_fn


matrix = np.arange(16, dtype="i4").reshape(4, 4)
CASES = [(k, times) for k in (1, 3, 13, 20, 32) for times in (1, 3, 7)]


@pytest.mark.parametrize("permute", OPTIONS)
def test_the_seeds_options_are_one_kernel(permute):
    """For all K shifts and rounds of the report; nothing is compiled."""
    counts = {
        (k, r): len(program_of(seed(partial(simple, k), permute, r), matrix).body)
        for k, r in CASES
    }
    assert counts == dict.fromkeys(CASES, 1)


@pytest.mark.parametrize("permute", OPTIONS)
@pytest.mark.parametrize("k, times", [(3, 7), (20, 3)])
def test_columns_that_are_unpacked_are_one_kernel(permute, k, times):
    check(seed(partial(unpacked, k), permute, times), matrix)


# ---- where a loop does better


def lines_of(f, *args):
    """How many lines a program has with the steps of its loops."""
    return len(str(rewritten(program_of(f, *args))).splitlines())


def recurrent(w, h, x):
    """A cell with a gate and a new state, cut out of one product."""
    gate, new = jnp.split(jnp.concatenate([x, h]) @ w, 2)
    gate = mj.nn.sigmoid(gate)
    h = gate * h + (1 - gate) * jnp.tanh(new)
    return h, h


@pytest.mark.chapter(21)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_rows_of_a_recurrent_network_are_loops(batch):
    """Elements of 16 units, each by itself, took an LSTM five seconds to compile."""

    def loss(w, xs):
        def run(xs):
            return mj.lax.scan(partial(recurrent, w), jnp.zeros(units), xs)[1]

        return (run(xs) ** 2).sum() if not batch else (mj.vmap(run)(xs) ** 2).sum()

    lines = {}
    for units in (16, 40):
        w, xs = np.ones((4 + units, 2 * units), "f4"), np.ones((*batch, 5, 4), "f4")
        lines[units] = lines_of(mj.grad(loss), w, xs)
    assert lines[16] < 1.5 * lines[40] < 300


@pytest.mark.chapter(21)
def test_an_array_of_which_no_elements_meet_is_a_loop():
    """The loop before it goes through small rows; what follows does not mix any."""

    def f(xs):
        turned = mj.lax.scan(lambda c, x: (jnp.roll(c, 1) + x,) * 2, xs[0], xs)[1]
        return turned * 2

    assert lines_of(f, np.ones((20, 16), "f4")) < 30


def test_a_few_elements_of_a_long_scan_take_loops():
    """The block that asked for three elements had all of the scan, one by one."""

    def few(x):
        sums = lax.associative_scan(jnp.add, x * 2)
        return jnp.take(sums, np.array([1, len(x) // 2, -3]), 0)

    x = {n: np.arange(n, dtype="f4") for n in (1000, 4100)}
    assert lines_of(few, x[4100]) < 2 * lines_of(few, x[1000]) < 1000
    alike(mj.jit(few)(x[1000]), np.cumsum(x[1000] * 2)[[1, 500, -3]], rtol=1e-5)


def test_a_result_too_large_for_a_block_is_seen_at_once(monkeypatch):
    """All its places were written down before: two seconds for 400,000 letters."""
    table, x, asked = jnp.arange(64) + 32, np.zeros((1 << 14, 3), "u4"), []
    count = lambda i: asked.append(i) or as_index(i)
    monkeypatch.setattr(blocks, "as_index", count)

    def letters(x):
        words = (x[:, 0] << 16) | (x[:, 1] << 8) | x[:, 2]
        return table[(words[:, None] >> jnp.arange(0, 24, 6)) & 63].reshape(-1)

    program_of(letters, x)
    assert len(asked) < 1000


def test_products_of_small_matrices_are_loops():
    """In registers 5,000 matrices of 4 x 4 took twice as long, and more to compile."""
    program = program_of(mj.vmap(lambda x: x @ x @ x), np.ones((100, 4, 4), "f4"))
    assert "block" not in {d.rule for d in program.decisions}


def test_a_kernel_less_is_not_worth_hundreds_of_statements():
    """Images of 16 rows, each of which meets another one: 4,293 lines of LLVM's, which
    took four times as long as jax for a first call, and each call twice its loops'."""

    def flipped(x):
        return x[:, ::-1].mean(-1, keepdims=True) * 0.7 + x * 0.3

    for rows in (4, 16):
        program = program_of(flipped, np.ones((100, rows, 20, 3), "f4"))
        rules = {d.rule for d in program.decisions}
        assert ("block" if rows == 4 else "large block") in rules


def test_lanes_do_not_compute_anew_what_they_share():
    """The angles of positions were taken the cosine of by each head of each text."""

    def rotary(x, angles):
        a, b, c, s = x[..., ::2], x[..., 1::2], jnp.cos(angles), jnp.sin(angles)
        return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)

    shapes = (3, 5, 40, 8), (3, 5, 40, 4), (40, 4)
    x, each, shared = (np.ones(shape, "f4") for shape in shapes)
    for angles in (each, shared):
        rules = {d.rule for d in program_of(rotary, x, angles).decisions}
        assert ("block" if angles is each else "shared value") in rules


@pytest.mark.chapter(21)
def test_one_lane_that_only_adds_up_is_loops():
    """Four bodies in one 4 x 4 matrix of distances took three times as long."""

    def step(places, _):
        apart = places[:, None] - places[None]
        pull = apart / ((apart**2).sum(-1, keepdims=True) + 1) ** 1.5
        return places - 0.1 * pull.sum(1), ()

    def simulate(places):
        return mj.lax.scan(step, places, None, length=5)[0]

    lines = {n: lines_of(simulate, np.ones((n, 3), "f4")) for n in (4, 9)}
    assert lines[4] <= lines[9]


def test_hashes_count_what_they_cost():
    """Random keys are pairs of words, of 120 additions each: written out, the steps of
    an environment took JAX's time to compile one and a half times, by loops a third."""

    def rolled(key):
        one, two = (mj.random.randint(k, (2,), 0, 13) for k in mj.random.split(key))
        far = mj.random.randint(key, (), 0, 4)
        return jnp.where((one == two).all(), one, two) + far

    many = mj.vmap(lambda key: sum(map(rolled, mj.random.split(key, 4))))
    rules = {d.rule for d in program_of(many, np.zeros((8, 2), "u4")).decisions}
    assert "large block" in rules and "block" not in rules


# ---- ChaCha20


def rotated(x, n):
    return (x << np.uint32(n)) | (x >> np.uint32(32 - n))


def states(n):
    """The state of RFC 8439, 2.3.2, in block 1, and other counters in the others."""
    state = np.zeros((n, 16), "u4")
    state[:, :4] = np.frombuffer(b"expand 32-byte k", "<u4")
    state[:, 4:12] = np.arange(32, dtype="u1").view("<u4")
    state[:, 12] = np.arange(n)
    state[:, 13:] = np.frombuffer(bytes.fromhex("000000090000004a00000000"), "<u4")
    return state.reshape(n, 4, 4)


def quarter_round(col):
    a, b, c, d = col
    a = a + b; d = rotated(d ^ a, 16); c = c + d; b = rotated(b ^ c, 12)  # noqa: E702
    a = a + b; d = rotated(d ^ a, 8); c = c + d; b = rotated(b ^ c, 7)  # noqa: E702
    return jnp.array([a, b, c, d])


def in_a_loop(round, m):
    return lax.fori_loop(0, 10, lambda i, m: round(m), m)


def written_out(round, m):
    for _ in range(10):
        m = round(m)
    return m


def jitted(round, m):
    return written_out(mj.jit(round), m)


def block_function(permute, rounds):
    columns = mj.vmap(quarter_round, in_axes=1, out_axes=1)

    def double_round(m):
        m = permute(columns(m), DIAGONALS)
        return permute(columns(m), BACK)

    return lambda m: rounds(double_round, m) + m


KEYSTREAM = bytes.fromhex(
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)


@pytest.mark.parametrize("permute", FORMS)
@pytest.mark.parametrize("n", [3, 50])
def test_chacha_is_one_kernel(permute, n):
    f = mj.vmap(block_function(permute, in_a_loop))
    program = program_of(f, states(n))
    assert len(program.body) == 1 and "c0[" not in str(program)
    got = np.asarray(mj.jit(f)(states(n)))
    assert got[1].astype("<u4").tobytes() == KEYSTREAM


@pytest.mark.parametrize("permute", FORMS)
@pytest.mark.parametrize("rounds", [written_out, jitted])
def test_rounds_that_are_written_out_are_one_loop(permute, rounds):
    """In a loop of Python, or as an inner jitted function that is called ten times."""
    program = program_of(mj.vmap(block_function(permute, rounds)), states(20))
    assert len(program.body) == 1
    assert str(program).count("in serial 10:") == 1
    assert len(str(program).splitlines()) < 250


@pytest.mark.parametrize("rounds", [written_out, jitted])
def test_rounds_that_are_written_out_are_right(rounds):
    f = mj.jit(mj.vmap(block_function(by_take, rounds)))
    assert np.asarray(f(states(20)))[1].astype("<u4").tobytes() == KEYSTREAM


def test_what_lanes_compute_may_stand_beside_a_constant():
    """A function that is called returned it: inlined, it was no variable's."""
    rounds = block_function(by_take, jitted)
    f = mj.vmap(mj.jit(lambda m: (rounds(m), 3)), out_axes=(0, None))
    stream, three = mj.jit(f)(states(20))
    assert np.asarray(stream)[1].astype("<u4").tobytes() == KEYSTREAM and three == 3


def test_the_text_of_lanes_is_as_long_as_the_program():
    """Values of the step before have names: a kernel of 30 KB was 11 MB without."""
    f = mj.vmap(block_function(by_take, in_a_loop))
    for n in (20, 1600):
        lines = str(program_of(f, states(n))).splitlines()
        assert len(lines) < 250 and max(map(len, lines)) < 150


def mixed(x):
    """Numbers of each dtype, compared, chosen and mixed; three or four in a lane."""

    def step(now, _):
        a, b, c = now[:, 0], now[:, 1], now[:, 2]
        rows = [b + c, jnp.where(a > b, c, a) * 3, (a - b) // 2]
        rows += [now[:, 3] - rows[0]] * (now.shape[1] > 3)
        return jnp.stack(rows, 1), None

    return lax.scan(step, x, None, length=4)[0]


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n", [17, 32])
def test_lanes_as_vectors_agree_with_the_interpreter(n):
    rng = np.random.default_rng(n)
    for dtype, width in (("f4", 3), ("i2", 4), ("u1", 4), ("f2", 3)):
        x = (rng.normal(size=(n, width)) * 20).astype(dtype)
        assert len(program_of(mixed, x).body) == 1
        got, want = mj.jit(mixed)(x), mixed(jnp.asarray(x))
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-2)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n", [20, 32])
def test_lanes_are_read_and_written_in_whole_rows(n):
    from minijit.run.llvm.kernels import KernelText

    f = mj.vmap(block_function(by_take, in_a_loop))
    kernel, = program_of(f, states(n)).kernels
    written = KernelText(kernel)
    text = written.text
    assert "load <16 x i32>" in text and "store <16 x i32>" in text
    assert " load i32" not in text and "store i32" not in text
    # LLVM gets what it would have found: rotations, and rows that are turned: of what
    # is read, once before the rounds and after them, and of what is written.
    assert written.vectors and text.count("= shl <16 x i32>") == 32
    assert len(re.findall(r"shufflevector <16 x i32> %\w+, <16 x i32> %", text)) == 128


@pytest.mark.chapter(24)
def test_what_functions_of_one_loop_share_is_computed_once():
    """Each of forty steps reads twice what the one before made."""

    def f(x):
        a = total = x
        for _ in range(40):
            a = (a * a + a) * 0.5
            total = total * 0.9 + jnp.exp(a)
        return total

    x = np.random.default_rng(0).uniform(size=20_000).astype("f4")
    np.testing.assert_allclose(mj.jit(f)(x), f(x), rtol=1e-5)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n", [7, 10])
def test_functions_of_many_vectors_are_one_loop(n):
    """An exp of an exp waits for it; a few of them are written out."""
    from minijit.run.llvm.target import vector_bytes

    f = lambda x: jnp.exp(jnp.exp(x) / 9).sum(-1) + mj.nn.softmax(x)[:, 0]
    x = np.random.default_rng(n).normal(size=(1603, n)).astype("f4")
    compiled = mj.jit(f).lower(x).compile()
    text = compiled.as_text("llvm")
    e = np.exp(x.astype("f8"))
    want = np.exp(e / 9).sum(1) + e[:, 0] / e.sum(1)
    np.testing.assert_allclose(np.asarray(compiled(x)), want, rtol=2e-5)
    few = 19 * vector_bytes() // 64
    written = [k if k <= few else 1 for k in (n, 2 * n)]
    assert text.count("= shl <16 x i32>") == sum(written)


@pytest.mark.chapter(24)
def test_powers_of_other_exponents_are_other_functions():
    """A root of a cube stands first, and the loop took all powers for such."""
    powers = [1.5, *[2.3] * 11]
    rows = lambda lib, x: lib.stack([x[:, i] ** y for i, y in enumerate(powers)], 1)
    f = lambda lib, x: sum(rows(lib, x + k).max(1) for k in range(3))
    x = np.random.default_rng(0).uniform(0.5, 2, (1603, 12)).astype("f4")
    got = mj.jit(lambda x: f(jnp, x))(x)
    np.testing.assert_allclose(np.asarray(got), f(np, x.astype("f8")), rtol=2e-6)


@pytest.mark.chapter(24)
def test_functions_of_a_strip_are_one_loop():
    """They are on the stack, and a strip has places of its own."""
    f = lambda lib, x, y: lib.log(lib.exp(x[:, None] - y).sum(1)).sum()
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=n).astype("f4") for n in (8464, 12))
    got = mj.jit(lambda x, y: f(jnp, x, y))(x, y)
    np.testing.assert_allclose(float(got), f(np, x.astype("f8"), y), rtol=1e-5)


def test_blocks_interpreted():
    f = mj.vmap(block_function(by_ravel, in_a_loop))
    got, = ir_interpreter.run(program_of(f, states(3)), states(3), place=place)
    assert got[1].astype("<u4").tobytes() == KEYSTREAM


# ---- rounds


def rolled_up(f, *args):
    """The jaxpr of a function and of the same with its rounds rolled up, or None."""
    closed = simplify(mj.make_jaxpr(f)(*args))
    found = rolled(closed.jaxpr)
    if found is None:
        return None
    again = ClosedJaxpr(found[0], closed.consts)
    for x, y in zip(
        eval_jaxpr(closed.jaxpr, closed.consts, *args),
        eval_jaxpr(again.jaxpr, again.consts, *args),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    return again


def turned(m):
    a, b, c, d = m
    return jnp.array([b + c, c ^ a, d - b, a * 3])


def test_rounds_carry_what_the_next_one_needs():
    def f(m, k):
        old = m
        for _ in range(6):
            old, m = m, turned(m) + old + k
        return m, old * 2

    x, k = np.arange(4, dtype="i4"), np.arange(4, dtype="i4")
    loop, = (e for e in rolled_up(f, x, k).eqns if e.primitive is scan_p)
    assert loop.params["num_carry"] == 2 and loop.params["length"] >= 4


def test_rounds_seen_from_outside_stay_written_out():
    def f(m):
        seen = []
        for _ in range(6):
            m = turned(m)
            seen.append(m)
        return seen

    assert rolled_up(f, np.arange(4, dtype="i4")) is None


def test_rounds_that_differ_stay_written_out():
    def f(m):
        for k in range(6):
            m = turned(m) + k
        return m

    assert rolled_up(f, np.arange(4, dtype="i4")) is None


def test_rounds_with_a_first_one_of_its_own():
    def f(m):
        m = turned(m + 1) * m
        for _ in range(6):
            m = turned(m) + 1
        return m[::-1]

    assert rolled_up(f, np.arange(4, dtype="i4")) is not None


# ---- what stays as it was


@pytest.mark.chapter(21)
def test_a_step_that_looks_at_other_lanes_is_no_part_of_a_block():
    """The lanes move, and so do the columns."""
    f = lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.flip(c, (0, 1)) * 2 + c, x)
    x = np.arange(80.0, dtype="f4").reshape(20, 4)
    np.testing.assert_array_equal(mj.jit(f)(x), f(jnp.asarray(x)))
    assert [call.routine for call in program_of(f, x).calls] == ["loop"]


def test_one_store_of_many_lanes_is_a_loop():
    """Nothing is stored twice without a block, so there is none."""
    program = program_of(lambda x: jnp.sin(x) + 1, np.ones((100, 4), "f4"))
    assert "for i1 in 4" in str(program)
    # Rows that turn thrice are one, unless there is a single lane of them.
    turned = lambda x, k: x * 3 + jnp.roll(x, k, 1)
    thrice = lambda x: turned(turned(turned(x, 1), 2), 3)
    for lanes, rule in ((100, "block"), (1, "one lane")):
        program = program_of(thrice, np.ones((lanes, 8), "f4"))
        assert rule in {d.rule for d in program.decisions}


def test_steps_that_are_given_rows_backwards():
    def f(x, rows):
        step = lambda c, row: (c[:, ::-1] * row[:, None] + c, None)
        return lax.scan(step, x, rows, reverse=True)[0]

    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(37, 4)).astype("f4"), rng.normal(size=(5, 37))
    check(f, x, rows.astype("f4"))


def late(x):
    """Only the second loop asks for what the first one leaves."""
    turn = lambda i, c: (c[0][:, ::-1], c[1] + 1)
    first = lambda i, c: (c[0], c[0][:, 0])
    return lax.fori_loop(1, 3, first, lax.fori_loop(0, 3, turn, (x, x[:, 1])))[1]


def constant(x):
    """The first loop is given constants alone."""
    k = lax.fori_loop(0, 3, lambda i, c: c[::-1] * 2, jnp.arange(4.0))
    return lax.fori_loop(0, 3, lambda i, c: c[:, ::-1] + k, x)


@pytest.mark.parametrize("f", [late, constant])
def test_a_loop_before_a_loop(f):
    check(f, np.arange(148, dtype="f4").reshape(37, 4))


def test_what_is_stored_under_a_condition_stays_there():
    """Updates that fall outside are dropped: their kernel stores in an `if`."""
    def f(x, at):
        y = jnp.exp(x)
        return jnp.zeros((6, 4)).at[at].set(y[:, ::-1] + y, mode="drop")

    x, at = np.ones((3, 4), "f4"), np.array([0, 9, 2], "i4")
    np.testing.assert_allclose(mj.jit(f)(x, at), f(x, at), rtol=1e-6)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("f, shape", [
    (lambda x: jnp.stack([jnp.log(x), jnp.exp(x)], -1), (2408, 40)),
    (lambda x: jnp.log(jnp.stack([x, x * 2], -1)), (2408, 40)),
    (lambda x: jnp.tanh(x[:, :1]) * x, (50_000, 2)),
])  # fmt: skip
def test_functions_beside_rows_of_two_are_of_whole_vectors(f, shape):
    """A row of two numbers alone would be a vector, and its function of one number."""
    x = np.random.default_rng(0).uniform(0.1, 2, shape).astype("f4")
    compiled = mj.jit(f).lower(x).compile()
    assert "range(2)" not in compiled.as_text()
    np.testing.assert_allclose(np.asarray(compiled(x)), f(jnp.asarray(x)), rtol=1e-5)
