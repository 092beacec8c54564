"""Loops and branches as regions: the checker, an interpreter and LLVM run them."""

import gc
import os
import re
import weakref

import numpy as np
import pytest
from harness import alike, profiled, same_bits

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.control.lowering import with_regions
from minijit.compile.loops.check import check_program
from minijit.compile.loops.statements import For, Region, Swap, statements
from minijit.compile.lower.walk import lower
from minijit.compile.simplify.folding import simplify
from minijit.run.executable import compile_python
from minijit.run.llvm.executor import compile_llvm
from minijit.run.llvm.loops import LoopWriter
from minijit.run.report.kernel_log import steps_of
from minijit.trace.base.config import config
from minijit.trace.jit.jit import executors
from minijit.transform.control_flow.unions_and_tapes import TapeValue
from tests import (
    ir_interpreter, test_lane_blocks as blocks, test_native_reversal as reversal,
)
from tests.test_control_flow import programs, slope
from tests.test_interrupts import FOR_EVER, Alarm, alarms, decay, raise_alarm, swap
from tests.test_native_control import (
    agree, many_branches, matrices, narrow, points, shared, shifted, small_and_empty,
    swaps,
)

pytestmark = pytest.mark.chapter(23)

x = np.array([0.5, 1.5, -0.7], "f4")
carries = [swaps, shifted, narrow, small_and_empty, shared, many_branches]


def routes(run):
    """What runs the kernels and calls of an executable."""
    return {step.route for step, _ in steps_of(run.program, run.native)}


def with_lax(program):
    return lambda x: program(lax, x)


def lowered(f, *args):
    """The program of a function, with its loops as regions."""
    return with_regions(lower(simplify(mj.make_jaxpr(f)(*args)), "f"))


def regions_of(program):
    return [step for step in program.body if isinstance(step, Region)]


def check(f, *args, bits=True):
    """A function's loops are regions, and all that runs them gives the same.

    By LLVM to the bit what it is by numba, if `bits`; else what it is step by step.
    """
    program = check_program(lowered(f, *args))
    assert not [call for call in program.calls if call.routine == "loop"]
    run = compile_llvm(mj.make_jaxpr(f)(*args), "f")
    assert "numba" not in routes(run) and run.fallbacks == ()
    found, leaves = run(*args), mj.tree.leaves(args)
    peer = compile_python if bits else executors["eval"]
    wanted = peer(mj.make_jaxpr(f)(*args), "f")(*leaves)
    for a, b in zip(found, wanted, strict=True):
        assert same_bits(a, b) or not bits
    alike(found, wanted, rtol=1e-5, atol=1e-6)
    interpreted = ir_interpreter.run(program, *map(np.asarray, leaves))
    for a, b in zip(interpreted, wanted, strict=True):
        b = np.asarray(b).astype("f8")
        np.testing.assert_allclose(a.astype("f8"), b, 1e-3, 1e-5)
    return program


@pytest.mark.parametrize("program", programs)
def test_programs(program):
    for point in points:
        check(with_lax(program), point, bits=False)


@pytest.mark.parametrize("f", carries)
def test_carries(f):
    assert regions_of(check(f, x, bits=f is not shared))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(dtype):
    rng = np.random.default_rng(0)
    w, y = rng.normal(size=(6, 6)).astype(dtype), rng.normal(size=(6, 20)).astype(dtype)
    with mj.enable_x64(True):
        check(matrices, w, y, bits=False)
        for spec in ("ij,j->i", "ji,j->i", "bij,bj->bi", "bij,bjk->bik"):
            sizes = dict(b=2, i=24, j=24, k=5)
            a, v = (rng.normal(size=[sizes[k] for k in s]) / 5
                    for s in spec.split("->")[0].split(","))  # fmt: skip
            step = lambda i, v: jnp.einsum(spec, a.astype(dtype), v) + 0.5 * v  # noqa: B023
            check(lambda v: lax.fori_loop(0, 3, step, v), v.astype(dtype), bits=False)  # noqa: B023


# ---- in place


def test_a_linear_recurrence_is_updated_in_place():
    step = lambda h, ab: (ab[0] * h + ab[1],) * 2
    f = lambda h, a, b: lax.scan(step, h, (a, b))
    a = np.linspace(0, 1, 32, dtype="f4").reshape(4, 8)
    region, = regions_of(check(f, a[0], a, a))
    assert not any(isinstance(stmt, Swap) for stmt in statements(region.body))


def test_an_update_of_one_element_stores_one_element():
    def f(x):
        step = lambda i, c: c.at[i].set(c[i] * 2.0 + c[i - 1])
        return lax.fori_loop(1, 60, step, x)

    values = np.linspace(0, 1, 64, dtype="f4")
    (region,) = regions_of(check(f, values))
    assert len([s for s in statements(region.body) if isinstance(s, For)]) == 2


def test_two_of_a_carry_swap_and_small_ones_are_on_the_stack():
    check(shifted, x)
    program = lowered(shifted, np.ones(50_000, "f4"))
    (region,) = regions_of(program)
    assert any(isinstance(stmt, Swap) for stmt in statements(region.body))
    assert [t.shape for t in program.temps if t.space == "global" and t.shape] == [
        (50_000,), (50_000,)
    ]
    small = lowered(shifted, x)
    assert all(t.space == "register" for t in small.temps)


def test_a_pointer_that_moves_has_a_name_of_its_own():
    """A function of many arrays has parameters %p0, %p1 and so on."""
    writer, buffers = LoopWriter(), range(40)
    params = {buffer: f"%p{buffer}" for buffer in buffers}
    writer.pointers = dict(params)
    for buffer in buffers:
        writer.moves(buffer)
    slots = set(writer.pointers.values())
    assert len(slots) == 40 and slots.isdisjoint(params.values())


def test_an_accumulator_grows_in_one_place():
    # A carry that is a result of each step, too, was added to twice: once in each.
    def f(x, w):
        return lax.scan(lambda h, r: (jnp.tanh(h @ w + r),) * 2, x[0], x)[1]

    shaped = lambda n: (np.ones((n, 6, 53), "f4"), np.full((n, 53, 53), 0.01, "f4"))
    args, lanes = shaped(8), mj.vmap(f)
    for program in check(lanes, *shaped(2), bits=False), lowered(lanes, *args):
        region, = regions_of(program)
        found = statements(region.body)
        assert len({s.buffer for s in found if getattr(s, "combine", None)}) == 1
    agree(lanes, *args, backend="llvm")
    # Its loops are strips, though what a step stores the next one loads.
    text = mj.jit(lanes).lower(*args).compile().as_text("llvm")
    assert re.search(r"fadd <\d+ x float>", text)


def test_memory_does_not_depend_on_the_number_of_steps():
    w = np.eye(32, dtype="f4")

    def step(i, c):
        y = jnp.tanh(w @ c[1])
        return c[0] * 0.5, jnp.concatenate([y[1:], y[:1]]), c[2].T @ w

    f = mj.jit(lambda n, x, m: lax.fori_loop(0, n, step, (x, x, m)))
    frames = {}
    for n in (1, 5000):
        f(n, w[0], w)
        f(n, w[0], w)  # the second call of a signature prints its short way
        frames[n] = len(profiled(f, n, w[0], w)[1])
    assert frames[1] == frames[5000]


# ---- leaving early


def long_scan(x, n):
    return lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x)


def back_and_forth(x, n):
    step = lambda c, i: (c * 0.5 + 1, None)
    return lax.scan(step, x, None, length=FOR_EVER, reverse=True)[0]


@pytest.mark.parametrize("f", [decay, swap, long_scan, back_and_forth])
def test_what_a_handler_raises_arrives(f):
    run = mj.jit(f, backend="llvm").lower(jnp.arange(5.0), FOR_EVER).compile()
    assert "numba" not in routes(run.executable)
    with pytest.raises(Alarm, match="in the handler") as caught:
        with alarms(raise_alarm, 0.02):
            run(jnp.arange(5.0), FOR_EVER)
    assert caught.traceback[-1].name == "raise_alarm"
    alarm = weakref.ref(caught.value)
    del caught
    gc.collect()
    assert alarm() is None


@pytest.mark.parametrize("reverse", [False, True])
def test_parts_of_a_scan_are_the_whole_scan(reverse):
    step = lambda c, i: (c * 0.999 + i, c)
    f = lambda x: lax.scan(step, x, jnp.arange(501.0), reverse=reverse)
    with config.override("fusion", config.fusion.but(between_looks=1000)):
        program = check(f, np.float32(1))
    assert "look" in str(program)


def test_short_loops_do_not_look():
    f = lambda x: lax.fori_loop(0, 20, lambda i, x: x * 0.5, x)
    assert "look" not in str(lowered(f, np.ones(100, "f4")))


def test_regions_are_read_as_text():
    text = str(lowered(lambda x: decay(x, 9)[1], np.float32(1)))
    assert re.search(r"while:\n.*while:\n.*\n +if not r0_s\d\[\]: break", text, re.S)


# ---- tapes, unions and reversal


@pytest.mark.parametrize("program", programs)
def test_gradients(program):
    f = slope(with_lax(program))
    run = compile_llvm(mj.make_jaxpr(f)(points[0]), "f")
    assert run.fallbacks == () and "numba" not in routes(run)
    for point in points:
        agree(f, point, backend="llvm", rtol=1e-4)


def interpreted_gradient(f, point):
    """A gradient's program, checked, and what the interpreter makes of it."""
    program = check_program(lowered(f, point))
    (found,) = ir_interpreter.run(program, point)
    np.testing.assert_allclose(found, mj.jit(f, backend="eval")(point), 1e-3, 1e-5)
    return str(program)


@pytest.mark.parametrize("program", programs)
def test_gradients_interpreted(program):
    interpreted_gradient(slope(with_lax(program)), points[0])


def test_reversal_interpreted():
    for slots in (2, 5, 40):
        gradient = mj.grad(lambda x: reversal.looped(slots)(x))  # noqa: B023
        assert "reserve" not in interpreted_gradient(gradient, reversal.x)


def live_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_tables_are_freed():
    """Those of a region with it, those that it gives with the value, or an error."""
    body = lambda c: (c[0] + 1, jnp.sin(c[1]))
    loop = lambda x: lax.while_loop(lambda c: c[0] < 1000, body, (0, x))[1]
    pull_back = mj.jit(lambda x: mj.vjp(loop, x)[1], backend="llvm")
    gradient = mj.jit(mj.grad(lambda x: loop(x).sum()), backend="llvm")
    wide = jnp.ones(1000)
    found = pull_back(wide)(wide), gradient(wide)
    before = live_bytes()
    for _ in range(30):  # each takes 8 MB
        pull_back(wide)
        gradient(wide)
    assert live_bytes() < before + 60e6
    np.testing.assert_allclose(pull_back(wide)(wide)[0], found[0][0])


def test_what_python_reads_of_a_tape_stays():
    f = mj.jit(
        lambda x: lax.while_loop(lambda c: c[0] < 100, lambda c: c * c + 1, x),
        backend="llvm",
    )
    _, pull_back = mj.vjp(f, points[0])
    (tape, *_) = [t for t in mj.tree.leaves(pull_back) if isinstance(t, TapeValue)]
    first = np.asarray(tape[0])
    kept = first.copy()
    del pull_back, tape
    gc.collect()
    for _ in range(5):
        mj.vjp(f, points[0] * 2)
    np.testing.assert_array_equal(first, kept)


# ---- blocks of lanes


@pytest.mark.parametrize("f", [
    blocks.decay, blocks.several, blocks.of_matrices, blocks.backwards,
])  # fmt: skip
def test_blocks_of_lanes(f):
    with blocks.small_caches():
        program = check(f, blocks.x, bits=False)
    assert re.search(r"\n +for i\d in \(?min\(", str(program))


# ---- functions


def long_function(x):
    for _ in range(4):
        x = jnp.sin(x) * jnp.cos(x) + jnp.tanh(x) * x - x.sum() + jnp.cumsum(x)[::-1]
    turn = lambda i, c: c * 0.5 + jnp.sin(c[::-1])
    return lax.fori_loop(0, 3, turn, x) * 0.1


def called(times):
    f = mj.jit(long_function)

    def step(c, _):
        for _ in range(times):
            c = f(c)
        return c, None

    return lambda x: lax.scan(step, x, None, length=5)[0]


def test_an_inner_function_called_ten_times_is_written_once():
    once, often = (str(check(called(k), x, bits=False)) for k in (1, 10))
    assert often.count("= function[") == 10 and "function" not in once
    assert often.count("\n") < once.count("\n") + 50
    texts = [
        compile_llvm(mj.make_jaxpr(called(k))(x), "f").texts["llvm"]() for k in (1, 10)
    ]
    assert texts[1].count("\n") < 1.2 * texts[0].count("\n")


def test_functions_of_one_text_are_given_arrays_that_are_the_same_or_not():
    f = mj.jit(lambda a, b: (long_function(a) + b, a - b.sum()))

    def step(c, s):
        a, b = f(c, c)
        a, b = f(a, s)
        return b, f(a, a)[0]

    check(lambda x: lax.scan(step, x, jnp.ones((4, 3))), x, bits=False)


def bounded_steps(data, most):
    """The bounded while of S2: each level twice, of it half the steps."""
    if most == 1:
        new = jnp.where(data[0], jnp.tanh(data[1]) * 1.5, data[1])
        return jnp.abs(new) < 2, new

    @mj.checkpoint
    def half(data, _):
        run = lambda data: bounded_steps(data, most // 2)
        return lax.cond(data[0], run, lambda data: data, data), None

    return lax.scan(half, data, None, length=2)[0]


def bounded_gradient(most):
    return mj.grad(lambda x: bounded_steps((x < 5, x), most)[1])


def test_the_code_of_nested_checkpoints_is_linear_in_the_levels():
    value = jnp.float32(0.3)
    programs = [str(lowered(bounded_gradient(2**k), value)) for k in (2, 3, 6, 7)]
    sizes = [text.count("\n") for text in programs]
    assert sizes[3] - sizes[2] <= 1.2 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("most", [4, 8, 32])
def test_nested_checkpoints(most):
    value = np.float32(0.3)
    text = interpreted_gradient(bounded_gradient(most), value)
    assert most < 32 or "= function[" in text
    agree(bounded_gradient(most), value, backend="llvm", rtol=1e-3)
