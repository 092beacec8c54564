"""Carries that are updated in place: the same values, and no copy in any step."""

import re
import sys

import numpy as np
import pytest
from harness import alike, as_interpreted

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.lower.walk import lower
from minijit.compile.memory import overwriting
from minijit.compile.simplify.folding import simplify
from tests.test_native_control import sources

pytestmark = pytest.mark.chapter(21)

N = 11


def table(t):
    return jnp.broadcast_to(t, (N, N)) * 1.0


def one_element(t):
    return lax.fori_loop(0, N, lambda i, t: t.at[i].set(jnp.sin(t[i - 1]) + i), t)


def read_later(t):
    """What is read of the old array after the update in the text, is read before."""

    def body(t, i):
        new = t.at[i].mul(2.0)
        return new, (t[i], t.sum(), new.sum())

    return lax.scan(body, t, jnp.arange(N))


def swapped(t):
    def body(i, t):
        j = (i * 7 + 3) % N
        a, b = t[i], t[j]
        return t.at[i].set(b).at[j].set(a)

    return lax.fori_loop(0, N, body, t)


def twice_over(t):
    """The second product reads as the first one does, but what that has left."""
    double = lambda t, i: t.at[i].set(t[i] * 2.0)
    return lax.fori_loop(0, N, lambda i, t: double(double(t, i), i), t)


def made_and_updated(t):
    """What a step makes over what was there is read again, for a result of its own."""

    def body(t, i):
        new = lax.dynamic_update_slice(t, t + t, (where,))
        new = new.at[1].set(new[1] * 3.0)
        return new, new

    where = jnp.argmax(t)
    return lax.scan(body, t, jnp.arange(4))


def where_it_is_largest(t):
    """Whether a place is one of the array depends on all that is in the array."""
    grown = lax.fori_loop(0, N, lambda i, t: t.at[i].mul(2.0), t)
    return grown.at[jnp.argmax(grown)].add(3.0).at[1].min(1.0)


def row_from_row(t):
    """Neighbours in the row above: their values go by way of a row of their own."""

    def body(i, m):
        row = m[i - 1]
        beside = jnp.concatenate([row[1:], row[:1]])
        return m.at[i].set(jnp.minimum(beside, row) + jnp.cumsum(m[i]))

    return lax.fori_loop(1, N, body, table(t))


def row_of_itself(t):
    """A row reversed onto itself, shifted by one."""

    def body(i, t):
        return lax.dynamic_update_slice(t, lax.dynamic_slice(t, (i,), (5,))[::-1], (i,))

    return lax.fori_loop(0, N, body, t)


def in_two_loops(t):
    def inner(i):
        return lambda j, m: m.at[i, j].add(m[i - 1, j - 1] * 0.5)

    outer = lambda i, m: lax.fori_loop(1, N, inner(i), m)
    return lax.fori_loop(1, N, outer, table(t))


def in_a_branch(t):
    def body(i, c):
        t, u = c
        change = lambda t, u: (t.at[i].set(-u[i - 1]), u.at[i - 1].set(t[i]))
        return lax.cond(t[i] > 0, change, lambda t, u: (t, u), t, u)

    return lax.fori_loop(0, N, body, (t, t * 2))


def in_a_function(t):
    f = mj.jit(lambda t, i: t.at[i].set(t[i - 1] * 2))
    return lax.fori_loop(0, N, lambda i, t: f(f(t, i), i + 1), t)


def sorted_by_insertion(t):
    def insert(i, t):
        def body(c):
            j, t = c
            a, b = t[j - 1], t[j]
            return j - 1, t.at[j - 1].set(b).at[j].set(a)

        smaller = lambda c: (c[0] > 0) & (c[1][c[0] - 1] > c[1][c[0]])
        return lax.while_loop(smaller, body, (i, t))[1]

    return lax.fori_loop(1, N, insert, t)


def several_at_once(t):
    def body(i, t):
        where = jnp.array([1, 3, 3, 2]) + i
        return t.at[where].add(t[where - 1])

    return lax.fori_loop(0, N, body, t)


def where_it_says_itself(t):
    def body(i, t):
        return t.at[t[i] % N].set(i).at[t[0] % N].set(t[-1])

    return lax.fori_loop(0, N, body, jnp.abs(t * 7).astype(jnp.int32))


def two_at_once(t):
    step = lambda i, c: (c[0].at[i].set(c[1][i - 1]), c[1].at[i].set(c[0][i - 1]))
    return lax.fori_loop(0, N, step, (t, t + 1))


def sixteen_bits(t):
    step = lambda i, t: t.at[i].set(t[i - 1] + t[i])
    return lax.fori_loop(0, N, step, t.astype(jnp.bfloat16))


def with_products(t):
    def body(i, c):
        m, v = c
        v = m @ v
        v = v / jnp.abs(v).max()
        return m.at[i].set(v), v

    return lax.fori_loop(0, N, body, (table(t), t))


in_place = [
    one_element, read_later, swapped, twice_over, made_and_updated, where_it_is_largest,
    row_from_row, row_of_itself, in_two_loops, in_a_branch, in_a_function,
    sorted_by_insertion, several_at_once, where_it_says_itself, two_at_once,
    sixteen_bits, with_products,
]  # fmt: skip


def exchanged(t):
    """Each becomes the other: one of the two must be kept."""
    step = lambda i, c: (c[1].at[i].set(c[0][i - 1]), c[0].at[i].set(c[1][i - 1]))
    return lax.fori_loop(0, N, step, (t, t + 1))


def exchanged_in_a_branch(t):
    def body(i, c):
        change = lambda t, u: (u, t)
        return lax.cond(c[0][i] > 0, change, lambda t, u: (t.at[i].set(1.0), u), *c)

    return lax.fori_loop(0, N, body, (t, t * 2))


def permuted(t):
    where = (jnp.arange(N) * 5 + 2) % N
    return lax.fori_loop(0, 5, lambda i, t: t.at[where].set(t), t)


def looked_at_within(t):
    """The inner loop changes the array, and reads it as it was."""

    def body(i, t):
        change = lambda j, u: u.at[j].add(t[j - 1])
        return lax.fori_loop(0, i, change, t)

    return lax.fori_loop(0, N, body, t)


def kept_whole(t):
    """Every state is a result, or goes into a total that is one."""
    step = lambda t, i: (t.at[i].mul(2.0), (t, t.sum()))
    return lax.scan(step, t, jnp.arange(N))


def rows_of_a_scan(t):
    """The inner loop reads a row after it has written it."""

    def inner(s, x):
        y = s + x.sum()
        return jnp.sin(x[::-1] * y), jnp.sin(y)

    step = lambda i, c: lax.scan(inner, jnp.zeros(N), c)[1]
    return lax.fori_loop(0, 4, step, table(t))


def both_the_same(t):
    def body(i, c):
        new = c[0].at[i].set(c[1][i - 1] + 1)
        return new, new

    return lax.fori_loop(0, N, body, (t, t + 1))


def updated(times):
    """A function whose steps make an array, and update it so many times."""

    def loop(a):
        def body(i, s):
            t = jnp.sin(a) * s
            for k in range(times):
                t = t.at[(i + k) % a.size].set(t[k] * a[k])
            return t.sum()

        return lax.fori_loop(0, 4, body, 1.0)

    return loop


def kept_and_updated(t):
    """What is a result, or is read again, is not what is written over."""

    def body(c, i):
        own = jnp.cos(t + c * 0.1)
        once = own.at[i].add(2.0)
        twice = once.at[i - 1].mul(0.5)
        return twice.at[0].set(own[1]), (once, own * twice[::-1])

    return lax.scan(body, t, jnp.arange(N))


def begun_within(t):
    """An inner loop begins with what a step makes, and goes on with an update of it."""

    def body(c, i):
        own = (c * 2.0).at[i].set(1.0)
        grown = lax.fori_loop(1, N, lambda j, u: u.at[j].add(u[j - 1]), own)
        ended = grown.at[i - 1].set(own[0])
        return jnp.sin(ended), grown[i]

    return lax.scan(body, t, jnp.arange(N))


def first_part_of_a_longer_one(t):
    """What becomes the carry is longer than it, and has no room in its memory."""

    def body(i, carry):
        t, longer, s = carry
        s = jnp.sin(t[i])
        return (s * longer).at[i].set(0.0)[:N], longer[::-1], s

    return lax.fori_loop(0, N, body, (t, jnp.arange(N + 4.0), 0.0))


others = [
    first_part_of_a_longer_one, exchanged, exchanged_in_a_branch, permuted,
    looked_at_within, kept_whole, rows_of_a_scan, both_the_same, updated(3),
    kept_and_updated, begun_within,
]  # fmt: skip


def swaps(text):
    """Whether a printed loop has two arrays of a carry, which swap."""
    return re.search(r"(\w+), (\w+) = \2, \1\n", text) is not None


def agree(f, x, backend="plain"):
    """A function as printed gives what it gives interpreted: -> the printed loops."""
    mj.clear_caches()
    as_interpreted(f, x, backend=backend, rtol=1e-4)
    return sources()


def lanes(f):
    return mj.vmap(f), np.random.RandomState(1).randn(3, N).astype("f4")


def summed(f):
    def total(t):
        return sum(jnp.sum(jnp.sin(x)) for x in mj.tree.leaves(f(t)))

    return mj.grad(total)


x = np.random.RandomState(0).randn(N).astype("f4")


@pytest.mark.parametrize("f", in_place)
def test_updated_in_place(f):
    """There is one array of each carry, where a step that copies needs two."""
    printed = agree(f, x)
    assert printed and not any(map(swaps, printed))


@pytest.mark.parametrize("f", [one_element, swapped, in_a_branch, row_from_row])
def test_compiled(f):
    agree(f, x, "python")


@pytest.mark.parametrize("f", others)
def test_what_cannot_be_in_place_is_as_right(f):
    agree(f, x)


@pytest.mark.parametrize("f", in_place + others)
def test_in_lanes(f):
    agree(*lanes(f))


differentiable = [
    f
    for f in in_place + others
    if f not in (where_it_says_itself, sixteen_bits, sorted_by_insertion)
    and f is not looked_at_within
]


@pytest.mark.parametrize("f", differentiable)
def test_gradients(f):
    agree(summed(f), x)


@pytest.mark.parametrize("f", [swapped, in_a_branch, row_from_row, exchanged])
def test_gradients_in_lanes(f):
    agree(*lanes(summed(f)))


@pytest.mark.parametrize("f", [one_element, swapped, in_two_loops, row_from_row])
def test_gradients_are_in_place_too(f):
    assert not any(map(swaps, agree(summed(f), x)))


def lines_run(f, n):
    """How many lines of generated loops a call runs, on an array of n elements."""
    f = mj.jit(f, backend="plain")
    f(jnp.ones(n))
    run = []

    def trace(frame, event, arg):
        if not frame.f_code.co_name.startswith(("scan_", "while_")):
            return None
        if event == "line":
            run.append(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        f(jnp.ones(n))
    finally:
        sys.settrace(None)
    return len(run)


def in_a_fori(a):
    return lax.fori_loop(0, a.size, lambda i, t: t.at[i].set(t[i] + i), a)


def in_a_while(a):
    body = lambda c: (c[0] + 1, c[1].at[c[0]].set(c[1][c[0] - 1] + 1))
    return lax.while_loop(lambda c: c[0] < a.size, body, (0, a))


def in_a_scan(a):
    step = lambda t, i: (t.at[i].add(1.0), t[i])
    return lax.scan(step, a, jnp.arange(a.size))


def total_of_sines(a):
    return lax.fori_loop(0, a.size, lambda i, s: s + jnp.sin(a[i]), 0.0)


loops = [in_a_fori, in_a_while, in_a_scan, total_of_sines, mj.grad(total_of_sines)]


@pytest.mark.parametrize("f", loops)
def test_work_is_linear_in_the_steps(f):
    """Twice the elements: twice the work, where copies would make it four times."""
    assert lines_run(f, 200) < 2.2 * lines_run(f, 100)


def test_what_a_step_makes_is_updated_in_place():
    assert lines_run(updated(4), 100) < 1.3 * lines_run(updated(1), 100)


def test_each_kernel_is_read_once_however_many_carries_ask(monkeypatch):
    """As a step of training has: an optimizer's state for each of many parameters."""

    def step(i, *ts):
        return [t.at[i].set(jnp.sin(t[i - 1]) + t.sum()) for t in ts]

    closed = simplify(mj.make_jaxpr(step)(1, *[jnp.ones(N)] * 12))
    program = lower(closed, "step")
    read, read_by = [], overwriting.read_by
    monkeypatch.setattr(
        overwriting, "read_by", lambda step: read.append(step) or read_by(step)
    )
    pairs = list(zip(program.inputs[1:], program.outputs, strict=True))
    found = overwriting.plan(program, *pairs)
    assert found.pairs == pairs and len(program.body) >= 12
    assert len(read) == len(set(read))


def test_a_kernel_of_many_carries_is_looked_through_once(monkeypatch):
    """As the state of an environment is, all of which one kernel writes."""
    step = lambda *ts: [t * 0.5 + jnp.sin(ts[0]) for t in ts]
    closed = simplify(mj.make_jaxpr(step)(*[jnp.ones(N)] * 12))
    program = lower(closed, "step")
    asked, made = [], []

    class Counted(overwriting.Reading):
        def __init__(self, body):
            super().__init__(made.append(body) or body)

        def ends_before(self, *pair):
            return super().ends_before(*(asked.append(pair) or pair))

    monkeypatch.setattr(overwriting, "Reading", Counted)
    pairs = list(zip(program.inputs, program.outputs, strict=True))
    found = overwriting.plan(program, *pairs)
    assert found.pairs == pairs and len(program.body) == 2
    assert len(asked) == len(set(asked)) == len(pairs)
    assert len(made) == len(program.body)


UPDATES = {
    "rows early": lambda a, b: a.at[::2].set(a[::-1][::2]),
    "a total early": lambda a, b: a.at[1].multiply(a.max(0)),
    "an argument, on the way": lambda a, b: b @ a.at[1].add(b[0]),
    "a product's rows": lambda a, b: (t := a @ b).at[1:, 2:].set(t[1:, 2:] * b[1:, 2:]),
    "in a scan": lambda a, b: lax.scan(lambda c, x: (c.at[1].add(x), x), a, b)[1],
}


@pytest.mark.parametrize("case", UPDATES)
def test_the_checker_takes_what_is_written_over(case):
    f, args = UPDATES[case], np.random.default_rng(0).normal(size=(2, 64, 64))
    with mj.config.override("debug_checks", True):
        found = (jitted := mj.jit(f, donate_argnums=0))(*map(jnp.asarray, args))
    assert not jitted.lower(*args).compile().explain().copies
    alike(found, f(*map(jnp.asarray, args)), rtol=1e-4, atol=1e-4)


# Each at places that are known to be all of them, in their order.
KNOWN = {
    "over what it is made of": lambda x, i: (jnp.cumsum(x) * x).at[i].add(x),
    "a factor, before its mean": lambda x, i: (y := x.at[i].multiply(x)) - y.mean(),
    "its total": lambda x, i: jnp.zeros_like(x).at[i].add(x).sum(),
    "read again, and its total": lambda x, i: jnp.zeros_like(x).at[i].max(x)[i].sum(),
    "parted from the total of a loop": lambda x, i: (
        lax.map(lambda r: r + 1, x[:3]).sum()
        + (v := jnp.bincount(i % 3, length=3)).at[1:].add(v[:-1])
    ),
}


@pytest.mark.parametrize("n", [3, 5000])
@pytest.mark.parametrize("case", KNOWN)
def test_an_element_is_read_as_it_was_or_as_it_becomes(case, n):
    f = lambda x: KNOWN[case](x, np.arange(n))
    x = jnp.asarray(np.random.default_rng(0).normal(size=n), jnp.float32)
    with mj.config.override("debug_checks", True):
        found = mj.jit(f)(x)
    with mj.disable_jit():
        alike(found, f(x), rtol=1e-4, atol=1e-4)


def test_two_results_that_each_want_what_the_other_reads_are_told_of():
    def f(x):
        y, z = x @ x, x.T @ x
        return jnp.sin(y) * z, jnp.cos(z) * y

    x = jnp.asarray(np.random.default_rng(0).normal(size=(150, 150)), jnp.float32)
    said = [d.rule for d in mj.jit(f).lower(x).compile().explain().decisions]
    assert said.count("over") == said.count("crossed") == 1


def test_what_a_copy_is_made_of_may_be_read_on_when_it_is_changed():
    def f(w, k):
        v = mj.lax.scan(lambda u, t: (u.at[t].set(u[t + 1]), None), w, jnp.arange(3))[0]
        same = v.at[-3:].set(v[-3:])
        return (v[::-1] + v).sum() + (same.at[1].set(same[k] + same[0]) ** 2).sum()

    w, k = jnp.asarray(np.random.default_rng(0).normal(size=40), jnp.float32), 2
    with mj.disable_jit():
        wanted = f(w, k)
    alike(mj.jit(f)(w, k), wanted, rtol=1e-5, atol=1e-5)
