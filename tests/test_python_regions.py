"""Loops as printed Python: how they read, and that their bits are those of LLVM."""


import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.lower.walk import lower
from minijit.compile.simplify.folding import simplify
from minijit.run.loading import rewritten
from minijit.run.python.source import print_program

pytestmark = pytest.mark.chapter(23)

x = np.array([0.5, -1.25, 3.0], "f4")


def code_of(f, *args):
    """The regions printed for a function, without comments."""
    program = rewritten(lower(simplify(mj.make_jaxpr(f)(*args)), "f"))
    sources = {k.name: k.text for k in print_program(program).kernels}
    return "\n".join(t for name, t in sources.items() if "kernel" not in name)


# ---- how they read


def test_golden_while():
    f = lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * c + 1, x)
    assert code_of(f, 2.0) == """\
def while_0(x0: float32[()], y0: float32[()], stop=None):
    w0: int64 = 0
    s0: float32 = x0[()]
    while True:
        s1: bool = s0 < f32_100
        if not s1:
            break
        v0: float32 = s0
        s2: float32 = v0 * v0 + f32_1
        s0 = s2
        w0 += 7
        if w0 > 67108864:
            w0 = 0
            if interrupted(stop):
                return
    y0[()] = s0
"""


def test_golden_scan_whose_carries_swap():
    step = lambda c, a: (jnp.flip(c) * a, None)
    f = lambda x: lax.scan(step, x, jnp.arange(4.0))[0]
    # A smaller carry would be in registers, and no region at all.
    text = code_of(f, np.ones(100, np.float32))
    assert "for i1 in range(4):" in text and "while" not in text
    assert "    t0, t1 = t1, t0\n" in text and "interrupted" not in text


@pytest.mark.parametrize("steps, looks", [(2, 0), (10**6, 1)])
def test_a_long_loop_around_short_ones_looks_for_signals(steps, looks):
    turn = lambda i, c: lax.fori_loop(0, 3, lambda i, c: jnp.flip(c) + i, c)
    text = code_of(lambda x: lax.fori_loop(0, steps, turn, x), np.ones(100, "f4"))
    assert text.count("interrupted(") == looks


def test_several_branches_are_elif():
    branches = [lambda c, k=k: c * k for k in range(4)]
    text = code_of(lambda i, x: lax.switch(i, branches, x), 1, x)
    assert text.count("    elif ") == 2 and text.count("    else:") == 1
    assert max(len(t) - len(t.lstrip()) for t in text.splitlines()) == 12


def test_a_body_that_occurs_twice_is_a_function():
    def step(c):
        for _ in range(6):
            c = jnp.cumsum(c) * lax.fori_loop(0, 3, lambda i, c: jnp.flip(c) + i, c)
        return c

    twice = mj.jit(step)
    f = lambda x: lax.fori_loop(0, 3, lambda i, c: twice(twice(c)), x)
    text = code_of(f, x)
    # The loop within each step is one as well.
    assert text.count("def ") == 3 and text.count("scan_0_f1(") == 3
    long = np.ones(300, "f4")
    step, = mj.explain(mj.jit(f, backend="plain"), long).steps
    assert [use.elements for use in (*step.reads, *step.writes)] == [300, 300]
    same_bits(f, x, "plain")
    same_bits(f, x, "python")


def test_a_function_is_given_rows_of_complex_numbers():
    @mj.jit
    def turn(a, b):
        for _ in range(4):
            a = jnp.flip(a) * 0.5j + jnp.cumsum(a) * 0.25
        return lax.fori_loop(0, 3, lambda i, a: jnp.flip(a) * 0.5 + b, a)

    def step(c, row):
        c = turn(turn(c, row), c)
        return turn(row, c), turn(c, row)

    f = lambda rows: lax.scan(step, rows[0], rows)[1]
    rows = (np.arange(12) - 5.0 + 1j * np.arange(12)[::-1]).astype("c8").reshape(4, 3)
    assert "= scan_0_f0(part(" in code_of(f, rows)
    for backend in ("plain", "llvm"):
        found, expected = (mj.jit(f, backend=b)(rows) for b in (backend, "eval"))
        np.testing.assert_allclose(found, expected, 1e-5)


# ---- what they compute


def same_bits(f, x, backend="plain"):
    """A function gives the same bits on a backend as by LLVM."""
    alike(*(mj.jit(f, backend=b)(x) for b in (backend, "llvm")))


def test_a_loop_of_no_step_in_place_is_a_function_without_statements():
    """Nothing is left to do: its result lies in the argument's memory."""
    state = lambda x: (x, jnp.ones(3, "float16"))
    last = lambda x: lax.fori_loop(0, 0, lambda i, s: (s[0], s[1] * s[1]), state(x))[0]
    f = mj.jit(lambda x: mj.vjp(last, x)[1](jnp.ones(3, "f4")), backend="plain")
    assert "pass" in f.lower(x).compile().as_text()
    assert f(x)[0].tolist() == [1, 1, 1]
