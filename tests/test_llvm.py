"""Kernels by LLVM: the bits of the numba route, and what the IR says and does not."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from harness import alike, in_a_process, refused, same_bits
from test_every_function import check_compiled, known, of_numpy_and_lax
from test_scalar_math import cases as scalar_cases, grid, plain as plain_scalar

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.loops import buffers as memory, expressions, statements as loops
from minijit.compile.numbers.scalar_forms import scalar_forms
from minijit.compile.schedule.machine import Machine
from minijit.errors import MinijitError
from minijit.run.llvm import (
    engine as llvm_engine, executor as llvm, functions as llvm_functions,
    kernels as llvm_kernels, python_calls, target as llvm_target, text as llvm_text,
    work as llvm_work,
)
from minijit.run.llvm.target import converts, host, vector_bytes
from minijit.run.llvm.work import by_way, is_in_vectors
from minijit.run.python.emitter import operations

pytestmark = pytest.mark.chapter(23)


def compiled(f, *args):
    return llvm.compile_llvm(mj.make_jaxpr(f)(*args), "f")


def ir(f, *args):
    """The optimised module of a function, as text."""
    return str(llvm_engine.optimised(compiled(f, *args).texts["llvm"]()))


def apply(name, out, *arrays):
    """One operation of the loop IR, on every element of some arrays."""
    buffers = [
        memory.Buffer(f"in{i}", x.shape, x.dtype) for i, x in enumerate(arrays)
    ]
    result = memory.Buffer("out0", arrays[0].shape, np.dtype(out))
    axis = expressions.Axis(arrays[0].size)
    loads = tuple(expressions.Load(b, (axis,)) for b in buffers)
    store = loops.Store(result, (axis,), expressions.Op(name, loads, result.dtype))
    text = llvm_kernels.KernelText(loops.Kernel("k0", (loops.For(axis, (store,)),)))
    values = np.empty(arrays[0].shape, out)
    known = dict(zip(buffers, arrays, strict=True)) | {result: values}
    llvm_kernels.functions_of([text])[text.key](*(known[b] for b in text.buffers))
    return values


def test_code_that_calls_what_the_process_lacks_is_refused():
    text = """
declare double @nobody_has(double)
define double @f(double %x) {
  %y = call double @nobody_has(double %x)
  ret double %y
}"""
    refused(MinijitError, "has no functions nobody_has", llvm_engine.Code, text)


# ---- scalar operations

ir_names = {
    "maximum": "max", "minimum": "min", "divide": "div",
    "remainder": "rem",
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [c for c in scalar_cases() if c[0] != "power"], ids=lambda c: "-".join(c)
)
def test_scalar_operations_are_the_plain_ones(case):
    name, out, *dtypes = case
    args = grid(*dtypes)
    wanted = plain_scalar(name, *args)
    name = "convert" if name.startswith("to_") else ir_names.get(name, name)
    found = apply(name, out, *args)
    if name in ("max", "min") and out in ("float32", "float64"):
        # Which of the two zeros is the larger one is left open.
        assert np.array_equal(found, wanted, equal_nan=True)
    else:
        assert same_bits(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_integer_powers(dtype):
    x, y = grid(dtype, dtype)
    found, top = apply("pow", dtype, x, y), 2 ** (8 * x.itemsize)
    for base, exponent, got in zip(x.tolist(), y.tolist(), found, strict=True):
        if exponent < 0:
            wanted = {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
        else:
            wanted = np.array(pow(base, exponent, top), f"u{x.itemsize}").view(dtype)
        assert got == wanted, (base, exponent)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
def test_a_quotient_rounded_down_and_its_rest_are_one_division(dtype):
    ends = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    numbers = [*ends, ends[0] + 1, ends[1] - 1, ends[1] // 3, 7, 100, 0]
    x, y = np.meshgrid(numbers, [*ends, ends[1] - 1, ends[1] // 3 + 1, 0, 1, 3, 5])
    with mj.enable_x64():
        x, y = x.astype(dtype).ravel(), y.astype(dtype).ravel()
        f = lambda x, y: (x // y, x % y, lax.div(x, y), lax.rem(x, y))
        run = compiled(f, x, y)
        # What is the same is computed once: a remainder would be a division again.
        text = run.texts["llvm"]()
        assert not re.search("[su]rem", text)
        # Short ones are divided as floats, a vector of them at once.
        assert bool(re.search("[su]div", text)) == (dtype == "int64")
        alike(tuple(run(x, y)), tuple(mj.jit(f, backend="eval")(x, y)))


def test_indices_are_divided_rounding_down():
    x = np.arange(-20, 20)
    for c in (1, 3, 8):
        divisor = np.full(x.shape, c)
        assert np.array_equal(apply("floordiv", "int64", x, divisor), x // c)
        assert np.array_equal(apply("mod", "int64", x, divisor), x % c)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float16 by its bits"])
def test_every_16_bit_float_is_read_and_written(name, monkeypatch):
    if name == "float16 by its bits":
        # As on a machine that has no instructions for it.
        monkeypatch.setattr(llvm_functions, "converts", lambda dtype: False)
        name = "float16"
    mj.clear_caches()
    dtype = np.dtype(name) if name == "float16" else jnp.bfloat16.dtype
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    wide = mj.jit(lambda x: x.astype("float32"), backend="llvm")(every)
    assert same_bits(wide, every.astype("float32"))
    # Between two neighbours: the middle, and what is next to it.
    numbers = every[np.isfinite(every.astype("f4"))].astype("f4")
    numbers = np.unique(np.abs(numbers))
    middle = numbers[:-1] / 2 + numbers[1:] / 2
    x = np.concatenate([
        numbers, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf),
        np.float32([np.inf, np.nan, 65519.99, 65520, 1e-45, 3.4e38]),
    ])  # fmt: skip
    x = np.concatenate([x, -x])
    narrow = mj.jit(lambda x: x.astype(name), backend="llvm")(x)
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype)
    found = np.asarray(narrow)
    nan = np.isnan(wanted.astype("f4"))
    assert np.array_equal(nan, np.isnan(found.astype("f4")))
    assert np.array_equal(found.view("u2")[~nan], wanted.view("u2")[~nan])


@pytest.mark.chapter(24)
@pytest.mark.parametrize(("name", "rounding", "lacks"), [
    ("float16", "fptrunc|icmp uge", ()), ("float16", "icmp uge", ("float16",)),
    ("bfloat16", "fcmp une", ()),
])  # fmt: skip
def test_what_is_stored_is_rounded_once(monkeypatch, name, rounding, lacks):
    """The bits of the last result were at hand, and found anew from the float32."""
    # As on a machine without instructions for what it `lacks`.
    has = lambda dtype: dtype.name not in lacks and converts(dtype)
    monkeypatch.setattr(llvm_functions, "converts", has)
    mj.clear_caches()
    f = lambda x, y: x * y + y
    x = jnp.linspace(-3, 3, 4096, dtype=name)
    text = mj.jit(f).lower(x, x).compile().as_text("llvm")
    text = text[text.index("define void @kernel") :].partition("\n}")[0]
    assert len(re.findall(rounding, text)) == 2
    copied = mj.jit(lambda x: jnp.concatenate([x, x])).lower(x).compile()
    copies = copied.as_text("llvm").partition("define void @kernel")[2]
    assert not re.search(rounding, copies)


def test_float16s_are_vectors_of_16_bits():
    f = lambda x: jnp.where(x > 0.5, x * 1.01 + 0.1, -x)
    x = jnp.linspace(0, 1, 4096, dtype="float16")
    if not converts(np.dtype("float16")):
        pytest.skip("no instructions for them")
    text = ir(f, x)
    assert re.search(r"load <\d+ x (i16|half)>", text)
    assert not re.search(r"\b(lshr|shl) <\d+ x i32>", text)
    # What LLVM would find out of float16s takes several times as long.
    text = ir(lambda x: (x.max(0), x > x[::-1]), x.reshape(64, 64))
    assert "x i1>" in text and not re.search(r"imum.v\d+f16|fcmp .*x half>", text)
    # Nor where LLVM itself makes vectors of a loop.
    window = (1, 2, 2), (1, 2, 2), "VALID"
    pooled = lambda x: mj.lax.reduce_window(x, -jnp.inf, mj.lax.max, *window)
    text = ir(pooled, np.zeros((4, 57, 57), "float16"))
    assert "maximum.v" in text and "imum.f16" not in text


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_larger_and_the_smaller_of_two_floats(name, dtype):
    half = np.dtype("float16")
    bits = np.uint16([0, 1, 0x3FF, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF])
    special = np.concatenate([bits, bits | 0x8000]).view(half)
    random = np.random.default_rng(0).integers(0, 2**16, 50, "u2").view(half)
    each = np.concatenate([special, random]).astype(dtype)
    x, y = map(np.ravel, np.meshgrid(each, each))
    f = lambda x, y, i: getattr(x.at[i], name)(y)
    args = x, y, np.arange(len(x))
    # LLVM's own jumps where the sign of one of them says.
    assert "imum" not in ir(f, *args)
    found = np.asarray(mj.jit(f, backend="llvm")(*args))
    wanted = getattr(np, f"{name}imum")(x, y)
    nan = np.isnan(wanted)
    assert np.array_equal(nan, np.isnan(found)) and np.array_equal(found, wanted, True)
    # Of two zeros the one that lies on the right side.
    sign = np.logical_and if name == "max" else np.logical_or
    zeros = (x == 0) & (y == 0)
    signs = sign(np.signbit(x), np.signbit(y))
    assert np.array_equal(np.signbit(found)[zeros], signs[zeros])


def test_next_numbers():
    args = grid("float32", "float32")
    with np.errstate(all="ignore"):
        assert same_bits(apply("nextafter", "float32", *args), np.nextafter(*args))


# ---- programs

rng = np.random.default_rng(3)
x = rng.normal(size=(24, 20)).astype("f4")
n = rng.integers(-50, 50, (24, 20)).astype("i4")
where = rng.integers(0, 24, 30)


@pytest.mark.parametrize("path, name, cases", of_numpy_and_lax)
def test_every_function(path, name, cases):
    # The first and the last: all of them run as plain Python elsewhere.
    for case in known(cases)[:: max(1, len(known(cases)) - 1)]:
        check_compiled(path, name, case, "llvm")


def test_loops_run_beside_kernels():
    f = lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x + 1) * 3
    run = compiled(f, x)
    assert run.fallbacks == () and run.kernels == ("kernel_0", "kernel_1")
    np.testing.assert_allclose(run(x)[0], f(x), rtol=1e-6)


def test_empty_and_strided_arguments():
    f = mj.jit(lambda x: (x * 2, x.sum(1)), backend="llvm")
    assert f(x[:, :0])[0].shape == (24, 0) and not f(x[:, :0])[1].any()
    base = np.arange(24, dtype="f4").reshape(4, 6)
    assert f(base[::2, ::3])[0].tolist() == [[0, 6], [24, 30]]


def test_numbers_and_masks():
    f = mj.jit(lambda n, mask: (n * 2, mask.sum(), ~mask), backend="llvm")
    n, total, others = f(np.float32(3), np.array([True, False, True]))
    assert (n.item(), total.item(), others.tolist()) == (6, 2, [False, True, False])


def test_a_loop_that_did_not_run_is_not_reversed():
    powers = lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: c * x, x).sum()
    g = mj.jit(mj.grad(powers), backend="llvm")
    for n, wanted in ((3.0, 3 * 3.0**2), (20.0, 1.0)):
        assert g(np.array([n], "f4")).tolist() == [wanted]


# ---- the text


def test_llvm_is_the_default_and_as_text_has_both_forms():
    compiled = mj.jit(lambda x: x * 2 + 1).lower(x).compile()
    assert compiled.executable.native == "llvm"
    assert "def kernel_0(" in compiled.as_text()
    assert "define void @kernel_" in compiled.as_text("llvm")
    refused(ValueError, "'mlir'.*'llvm'", compiled.as_text, "mlir")
    plain = mj.jit(lambda x: x * 2 + 1, backend="plain").lower(x).compile()
    refused(ValueError, "no text 'llvm'", plain.as_text, "llvm")


@pytest.mark.chapter(24)
def test_only_the_steps_of_a_total_may_be_regrouped():
    text = compiled(lambda x: ((x * x + x) - x).sum(1), x).texts["llvm"]()
    # A lane adds up in the order of its steps; what may be regrouped is all lanes.
    steps, inside = text.count("= fsub "), text.count("= fadd <")
    assert steps and inside == 2 * steps
    assert text.count("= fadd reassoc ") == len("16 8 4 2 1".split())
    assert not re.search(r"\b(fast|contract|afn|nnan|nsz)\b", text)
    big = np.ones(20_000_000, "f4")
    assert compiled(jnp.sum, big)(big)[0].item() == 20_000_000


def test_what_may_be_either_of_two_arrays_overlaps_both():
    """With 16 lanes LLVM loaded a row of the product before it was computed."""
    either = lambda x: jnp.where(jnp.arange(40)[:, None] < 20, x, x @ x[:17])
    branch = lambda x: lax.cond(x.sum() > -1e9, either, lambda x: x * 2, x)
    f = lambda x: (lambda y, pull: pull(y)[0])(*mj.vjp(branch, x))
    x = np.random.RandomState(0).randn(40, 17).astype("f4")
    wanted = mj.jit(f, backend="eval")(x)
    np.testing.assert_allclose(mj.jit(f)(x), wanted, 1e-4, 1e-4)
    text = compiled(f, x).texts["llvm"]()
    chosen = re.findall(r"(%v\d+) = select i1 %v\d+, ptr", text)
    lines = re.findall(r" = load .*, ptr (%v\d+)(.*)", text)
    loads = [tags for where, tags in lines if where in chosen]
    assert loads and not any("!alias.scope" in tags for tags in loads)
    assert "!alias.scope" in text


def test_arrays_do_not_overlap_and_loops_are_vectorised():
    wide = np.ones((64, 1024), "f4")
    run = compiled(lambda x, y: x * y + 1, wide, wide)
    assert run.texts["llvm"]().count("ptr noalias") == 3
    for f in (lambda x: x * x, lambda x: x.sum(1)):
        assert re.search(vectors, ir(f, wide)), f


vectors = r"fmul <\d+ x \w+>|fadd reassoc <\d+ x \w+>"


def square_of_product(z):
    product = z.T @ z
    return product * product + 1


strips = {
    "elements": lambda x: x * 2 + 1,
    "function": lambda x: jnp.exp(x) * jnp.sin(x),
    "sum": lambda x: (x * x).sum(1),
    "largest": lambda x: (x.max(1), x.argmin(1)),
    "bools": lambda x: ((x > 0) & (x < 1), (x > -3).all(1)),
    "updated": lambda x: x.at[1].add(x[0]),
    "short": lambda x: x.reshape(4, -1, x.shape[1]).max(0),
    "places": lambda x: x + jnp.arange(x.shape[1]),
    "complex": lambda x: jnp.exp(lax.complex(x, x + 1)) * 2,
    "over itself": lambda x: square_of_product(lax.complex(x / 20, 0.1 * x)),
    "halves": lambda x: x.astype("float16") * x.astype("bfloat16"),
    "two of four": lambda x: (lambda y: y[:, 1] / y[:, 3])(x.reshape(-1, 4)),
    "one of five": lambda x: x.reshape(-1, 5)[:, 2].sum(),
    # Of as many numbers of each row as only a run knows.
    "parts": lambda x: (jnp.tril(x).sum(1), jnp.where(
        jnp.arange(x.shape[1]) < (abs(x[0, 0]) * 20).astype("int32"), jnp.exp(x), 0
    )),
    "parts of halves": lambda x: strips["parts"](x.astype("bfloat16")),
}  # fmt: skip


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n", [16, 17, 63, 200])
@pytest.mark.parametrize("name", strips)
def test_loops_along_memory_are_strips(name, n):
    # No number is left over: the last strip reaches back, or what is behind it goes
    # through a mask.  Of a loop in ranges nobody knows how long they are.
    f, x = strips[name], rng.normal(size=(200, n)).astype("f4")
    run, wanted = compiled(f, x), mj.jit(f, backend="eval")(x)
    assert re.search(r"<\d+ x \w+>", run.texts["llvm"]())
    alike(tuple(run(x)), tuple(mj.tree.leaves(wanted)), rtol=1e-5, atol=1e-5)


@pytest.mark.chapter(24)
def test_an_update_in_bounds_is_a_strip():
    x = rng.normal(size=(20, 63)).astype("f4")
    for f in (lambda x: x.at[1].add(x[0]), lambda x: x[0].at[1:].multiply(x[1, 1:])):
        run = compiled(f, x)
        assert re.search(r"f(add|mul) <\d+ x \w+>", run.texts["llvm"]())
        alike(run(x), mj.jit(f, backend="eval")(x))


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n", [70, 300, 517, 5000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_range_of_strips_stores_within_the_array(n, threads):
    # Ranges of 300 steps for 5 threads are shorter than a strip of 64.
    from minijit.run.threads.kernels import text_of_kernel

    whole = np.full(3 * n, 7, "f4")
    x, y = rng.normal(size=n).astype("f4"), whole[n : 2 * n]
    override = mj.config.override
    with override("thread_time", 0), override("cpu_threads", threads):
        kernel, = compiled(lambda x: x * 2 + 1, x).program.kernels
        text = text_of_kernel(kernel)
        function = llvm_kernels.functions_of([text])[text.key]
        text.launch(function, *text.facts)(x, y)
    alike(y, x * 2 + 1)
    assert (whole[:n] == 7).all() and (whole[2 * n :] == 7).all()


@pytest.mark.chapter(24)
@pytest.mark.parametrize("chosen", [False, True])
def test_a_row_that_is_chosen_is_not_loaded_again(chosen):
    # What a strip has loaded may have been written over when all lanes choose it.
    i, f4 = expressions.Axis(70), np.dtype("f4")
    a, b, out = buffers = [memory.Buffer(name, (70,), f4) for name in ("a", "b", "out")]
    x, y = (expressions.Load(buffer, (i,)) for buffer in (a, b))
    given = memory.Buffer("chosen", (), np.dtype(bool))
    choice = expressions.Op("select", (expressions.Load(given, ()), x, y), f4)
    body = loops.For(i, (
        loops.Let(x),
        loops.Store(a, (i,), expressions.Const(0, f4)),
        loops.Store(out, (i,), choice),
    )),  # fmt: skip
    text, writer = object.__new__(llvm_kernels.KernelText), llvm_text.LLVMWriter()
    names = {buffer: buffer.name for buffer in (*buffers, given)}
    text.walk(writer, body, names)
    text.finish(writer, body, names, "void")
    assert text.vectors
    arrays = rng.normal(size=(2, 70)).astype("f4")
    wanted, made = arrays[0 if chosen else 1].copy(), np.empty(70, "f4")
    function = llvm_kernels.functions_of([text])[text.key]
    text.launch(function)(*arrays, made, np.array(chosen))
    assert same_bits(made, wanted) and not arrays[0].any()


@pytest.mark.chapter(24)
def test_far_arguments_are_reduced_exactly():
    far = np.float32([1e9, 2.0**31, 1e20, 3.4e38, -7e30, 0.5, np.inf, np.nan] * 9)
    for f, wanted in ((jnp.sin, np.sin), (jnp.cos, np.cos), (jnp.tan, np.tan)):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                compiled(f, far)(far)[0], wanted(far.astype("f8")), 3e-7
            )


@pytest.mark.chapter(24)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("f", [jnp.sin, jnp.tan, lambda x: jnp.fmod(x, 0.3) * x])
def test_functions_with_a_rare_branch_are_called_in_strips(f, dtype):
    """Strips of several registers, each of which is a call, were left to LLVM: that was
    a third of the first call of a sine."""
    far = np.tile([1e4, 6e4, -3e4, 0.5, np.inf, np.nan], 1003).astype(jnp.dtype(dtype))
    run = compiled(f, far)
    kernel, = run.loaded.kernels
    assert kernel.vectors and re.search(r"call <\d+ x float> @\w+_v\d+", kernel.text)
    few = compiled(f, far[:6])(far[:6])[0]
    got, want = (np.asarray(y).astype("f4") for y in (run(far)[0], few))
    np.testing.assert_array_equal(got, np.tile(want, 1003))


def test_brief_kernels_have_the_bits_of_long_ones():
    few, many = x[:3], np.concatenate([x] * 40)
    for f in (jnp.exp, jnp.log1p, jnp.tanh, jnp.sin, lax.erf, jnp.cbrt, jnp.arctan):
        brief, long = compiled(f, few), compiled(f, many)
        steps = [run.loaded.kernels[0].steps for run in (brief, long)]
        assert steps[0] <= llvm_work.BRIEF < steps[1]
        assert same_bits(brief(few)[0], np.asarray(long(many)[0])[:3])
    both = compiled(lambda few, many: (jnp.exp(few), jnp.exp(many)), few, many)
    assert [*map(len, by_way(both.loaded.kernels).values())] == [1, 1]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_of_kernels_that_are_alike_one_is_written(monkeypatch, dtype):
    """The others call the same function, with arrays of their own."""
    texts, written = llvm_kernels.kernel_texts, []
    make = texts[loops.Kernel]
    note = lambda kernel: written.append(kernel) or make(kernel)
    monkeypatch.setitem(texts, loops.Kernel, note)
    rng = np.random.default_rng(3)
    long, short, other = (rng.standard_normal((n, 10)) for n in (9_000, 8_000, 9_000))
    f = lambda x, y, z: (x.cumsum(0), y.cumsum(0), z.cumsum(0))
    arrays = [a.astype(dtype) for a in (long, short, other)]
    for found, x in zip(mj.jit(f)(*arrays), arrays, strict=True):
        np.testing.assert_allclose(found, x.cumsum(0), 1e-3, 1e-3)
    assert len(written) == 2


def test_a_mistake_in_the_text_is_an_error_that_says_so(monkeypatch):
    row = lambda writer, *args: writer.do("no such instruction")
    monkeypatch.setitem(llvm_text.instructions, "sqrt", row)
    with pytest.raises(MinijitError, match="mistake in minijit"):
        compiled(lambda x: jnp.sqrt(x) * 0.123, x)


# ---- code for other machines

FOR_A_LEVEL = """
import re
import numpy as np
import minijit as mj, minijit.numpy as jnp
from minijit.run.llvm import engine as llvm_engine, target as llvm_target

rng = np.random.default_rng(0)
x, y = (rng.standard_normal((300, 300)).astype("f4") for _ in "xy")
halves = x.astype("f2")
f = lambda x, y: (jnp.tanh(x @ y) + jnp.sin(x) * 3).sum(1)
np.testing.assert_allclose(
    mj.jit(f)(x, y), (np.tanh(x @ y) + np.sin(x) * 3).sum(1), 1e-4, 1e-3
)
np.testing.assert_array_equal(mj.jit(lambda x: x + x)(halves), halves + halves)
# As many numbers are added up side by side, whatever the length of a vector.
total, wanted = mj.jit(jnp.sum)(np.full(1_000_000, 0.1, "f4")), 1e6 * np.float32(0.1)
assert abs(total / wanted - 1) < 50 / 2**24
text = mj.jit(f).lower(x, y).compile().as_text("llvm")
part = lambda x: jnp.where(jnp.tri(300, dtype=bool), jnp.exp(x), x)
parts = mj.jit(part).lower(halves).compile().as_text("llvm")
machine = llvm_target.shared_machine("thorough")
code = machine.emit_assembly(llvm_engine.optimised(text))
used = set(re.findall(r"%[xyz]mm|vfm|popcnt", code))
used |= set(re.findall(r"masked.store.v[0-9]+i16", parts))
wanted = {"%zmm", "%ymm", "vfm", "masked.store.v16i16"}
print(llvm_target.host()[0], *sorted(used & wanted))
"""


@pytest.mark.chapter(25)
@pytest.mark.parametrize("level, used", [
    ("x86-64-v2", ""),
    ("x86-64-v3", " %ymm vfm"),
    ("x86-64-v4", " %ymm %zmm masked.store.v16i16 vfm"),
    ("i386", "MINIJIT_TARGET must be one of x86-64-v2, x86-64-v3, x86-64-v4, got"),
])  # fmt: skip
def test_code_is_made_for_the_level_that_the_environment_names(tmp_path, level, used):
    told = dict(MINIJIT_TARGET=level, MINIJIT_CACHE_DIR=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", FOR_A_LEVEL],
        env=os.environ | told, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if f"MINIJIT_TARGET is {level}, but this machine has no" in done.stderr:
        pytest.skip(f"this machine has not all of {level}")
    if level == "i386":
        assert used in done.stderr
    else:
        assert done.stdout == f"{level}{used}\n", done.stderr[-2000:]


# ---- the code in memory


def test_machine_code_has_no_tables_for_exceptions():
    # Nothing throws; where LLVM registers such tables, it has to find them again when
    # the code is freed, and newer C runtimes crashed there.
    text = "define i64 @f(ptr %g) {\n  %x = call i64 %g()\n  ret i64 %x\n}"
    assert b"eh_frame" not in llvm_engine.machine_code(text, "thorough")


def test_no_search_for_registers_of_addresses():
    """It takes up to half of the time; whoever else uses LLVM has it as before."""
    # By what it makes: LLVM's report of its passes leaves out what took no time.
    made = []
    for make in [llvm_target.shared_machine().emit_object, ours_thoroughly] * 2:
        made.append(make(llvm_engine.optimised(DOUBLED)))
    others, ours = made[:2]
    assert ours != others and made == [others, ours] * 2


def test_a_chosen_number_is_read_alone():
    """The quick choice of instructions reads three more, maybe past an array's end."""
    text = """
    define float @chosen(ptr %x, i64 %i, float %y) {
    start:
      br label %here
    here:
      %at = getelementptr inbounds float, ptr %x, i64 %i
      %first = load float, ptr %at
      %more = fcmp ogt float %first, -2.0
      %second = load float, ptr %at
      %result = select i1 %more, float %second, float %y
      ret float %result
    }
    """
    llvm = llvm_target.binding()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="haswell", opt=0)
    with llvm_target.leaving_out(llvm_target.left_out["machine code, brief"]):
        made = machine.emit_assembly(llvm.parse_assembly(text))
    assert "vblendvps" in made and not re.search(r"vblendvps[^\n]*\(", made)


def test_short_loops_that_are_left_to_llvm_store_under_no_mask():
    """A store under a mask takes twenty cycles: two numbers more take one each."""
    f, x = mj.jit(lambda x: jnp.flip(x, 1)), np.arange(3000.0).reshape(300, 10)
    np.testing.assert_array_equal(f(x), x[:, ::-1])
    made = str(llvm_engine.optimised(f.lower(x).compile().as_text("llvm")))
    assert " x float>" in made and "masked.store" not in made


@pytest.mark.parametrize("columns, written_out", [(64, True), (1000, False)])
def test_short_rows_where_an_array_says_are_written_out(columns, written_out):
    """The processor sees the next ones sooner, for all of which it has to wait."""
    f = mj.jit(lambda x, i: x[i] * 2 + 1)
    x, i = np.arange(40.0 * columns, dtype="f4").reshape(40, -1), np.arange(39, -1, -1)
    np.testing.assert_array_equal(f(x, i), x[::-1] * 2 + 1)
    text = f.lower(x, i).compile().as_text("llvm")
    loaded = sum(map(int, re.findall(r"= load <(\d+) x float>", text)))
    assert (loaded == columns) == written_out


@pytest.mark.chapter(24)
@pytest.mark.parametrize("m, n, k", [(40, 30, 20_000), (4, 3, 2_000_000)])
def test_long_products_are_summed_in_parts(m, n, k):
    """In tiles, and as dot products: one total for all terms would lose much more."""
    a = np.random.default_rng(0).uniform(0.5, 1.5, (m, k)).astype("f4")
    b = np.random.default_rng(1).uniform(0.5, 1.5, (n, k)).astype("f4")
    found, wanted = mj.jit(lambda a, b: a @ b.T)(a, b), a.astype("f8") @ b.T
    assert abs(found - wanted).max() < 1e-6 * k


def ours_thoroughly(module):
    return llvm_target.object_file(module, "thorough")


DOUBLED = """
define void @double(ptr %x, i64 %n) {
start:
  br label %loop
loop:
  %i = phi i64 [0, %start], [%next, %loop]
  %at = getelementptr float, ptr %x, i64 %i
  %old = load float, ptr %at
  %new = fadd float %old, %old
  store float %new, ptr %at
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def numbered_jobs(count):
    """What `machine_code` takes, for modules in all ways."""
    texts = [DOUBLED.replace("@double", f"@double{k}") for k in range(count)]
    return [(text, how) for text in texts for how in llvm_target.pass_options]


def test_modules_that_are_made_at_once_are_those_made_one_by_one():
    jobs, both = numbered_jobs(20), threading.Barrier(2, timeout=60)
    assert len(jobs) % 2 == 0

    def one_of_two(text, how):
        both.wait()  # Another thread is here, too.
        return llvm_engine.machine_code(text, how)

    others = llvm_target.shared_machine().emit_object
    before = others(llvm_engine.optimised(DOUBLED))
    made = llvm_target.at_once(one_of_two, jobs, 2)
    assert made == [llvm_engine.machine_code(*job) for job in jobs]
    assert others(llvm_engine.optimised(DOUBLED)) == before
    assert len(llvm_target.machines_of_helpers) >= 2


@pytest.mark.parametrize("there", [0, 1])
def test_modules_are_made_where_no_more_threads_are(monkeypatch, there):
    """So it is in functions that Python calls when it ends."""
    left, start = [1] * there, threading.Thread.start

    def refused_later(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused_later)
    jobs = numbered_jobs(2)
    made = llvm_target.at_once(llvm_engine.machine_code, jobs, 2)
    assert made == [llvm_engine.machine_code(*job) for job in jobs]


BEGINNING = """
import threading
from minijit.run.llvm import target

begin = threading.Thread._bootstrap_inner

def begin_with_garbage(self):
    target.binding().create_context()
    begin(self)

threading.Thread._bootstrap_inner = begin_with_garbage
assert target.at_once(abs, [(-1,), (2,)], 2) == [1, 2]
"""


def test_threads_may_free_what_is_llvms_as_they_begin():
    """They waited for the thread that waited for them to begin."""
    subprocess.run([sys.executable, "-c", BEGINNING], check=True, timeout=60)


def test_what_fails_in_one_of_several_threads_is_raised_in_the_first():
    # What is used before it is there would end the process in LLVM's code generator.
    lines = "define i32 @f() {", "%y = add i32 %x, 1", "%x = add i32 1, 1", "ret i32 %y"
    early = "\n".join([*lines, "}"])
    for text in "define nonsense", early:
        jobs = [*numbered_jobs(1), (text, "brief"), *numbered_jobs(2)]
        with pytest.raises(MinijitError, match="does not take what minijit wrote"):
            llvm_target.at_once(llvm_engine.machine_code, jobs, 2)
    assert llvm_target.at_once(llvm_engine.machine_code, jobs[:3], 2)
    begun = []
    with pytest.raises(AttributeError):  # Then nobody begins another job.
        llvm_target.at_once(lambda k: begun.append(k).later, [*zip("abc")], 2)
    assert sorted(begun) == ["a", "b"]


def test_ctrl_c_does_not_wait_for_other_threads():
    jobs, go_on, ended = numbered_jobs(1), threading.Event(), threading.Semaphore(0)

    def slow(text, how):
        go_on.wait(60)
        made = llvm_engine.machine_code(text, how)
        ended.release()
        return made

    # To this thread, which waits: a signal of another one does not wake it.
    asked = threading.get_ident(), signal.SIGINT
    threading.Timer(0.05, signal.pthread_kill, asked).start()
    with pytest.raises(KeyboardInterrupt):
        llvm_target.at_once(slow, jobs, 2)
    go_on.set()
    again = llvm_target.at_once(llvm_engine.machine_code, jobs, 2)
    assert again == [llvm_engine.machine_code(*job) for job in jobs]
    assert all(ended.acquire(timeout=60) for _ in jobs)


def test_much_text_is_two_modules():
    f = lambda *xs: [jnp.sort(jnp.sin(x), axis=0) for x in xs]
    given = [np.ones((9, 400 + k), np.float32) for k in range(9)]
    kernels = compiled(f, *given).loaded.kernels
    assert sum(len(k.text) for k in kernels) > llvm_work.PARTED
    (way, first), (other, second) = llvm_work.in_modules(kernels)
    assert way == other and {*first, *second} == {*kernels}
    assert sum(len(k.text) for k in first) >= sum(len(k.text) for k in second) > 0
    assert len(llvm_work.in_modules(kernels[:1])) == 1
    # A way by the steps of all that are shorter; the longest text first, into the one
    # of two modules that has less; first the module that takes longest.
    drawn = [(1, 9, 0), (1000, 4, 0), (2000, 4, 1), (3000, 5, 1), (4000, 9, 1)]
    kernels = [SimpleNamespace(steps=steps, text="x" * 1000 * size, vectors=vectors)
               for steps, size, vectors in drawn]  # fmt: skip
    found = [(way, [len(k.text) // 1000 for k in some])
             for way, some in llvm_work.in_modules(kernels)]  # fmt: skip
    assert found == [("thorough", [4]), ("brief", [9]), ("vectors", [9]),
                     ("vectors", [5, 4])]  # fmt: skip


def test_loops_are_vectors_but_for_a_small_part_that_is_known():
    """How often a loop runs that is none of the statements, as a total's, is not."""
    i, j, k = (expressions.Axis(n) for n in (100_000, 9, 9))
    x = memory.Buffer("x", (100_000,), np.dtype("f4"))
    body = *(loops.For(a, (loops.Store(x, (a,), expressions.Load(x, (a,))),))
             for a in (i, j)),  # fmt: skip
    assert is_in_vectors(body, [(i, True), (j, False)])
    assert not is_in_vectors(body, [(i, True), (k, False)])
    assert not is_in_vectors(body, [(i, False), (j, True)])
    assert not is_in_vectors(body, [])




@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_compiling_leaves_nothing_behind():
    """LLVM's passes would be 70 KB a module; what they note of themselves is 2."""

    def compile_many():
        for _ in range(100):
            llvm_engine.machine_code("define void @f() {\n  ret void\n}", "brief")
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    before = compile_many()
    assert compile_many() < before + 2e6


def test_code_is_freed_with_the_last_function_that_uses_it():
    llvm_kernels.recent.clear()
    run = compiled(lambda x: x * 3.25 - 17, x)
    text, = run.loaded.kernels
    code = weakref.ref(llvm_kernels.native_functions[text.key].__self__["code"][()])
    again = compiled(lambda y: y * 3.25 - 17, x)
    assert llvm_kernels.native_functions[text.key].__self__["code"][()] is code()
    llvm_kernels.recent.clear()
    del run
    gc.collect()
    assert np.array_equal(again(x)[0], x * np.float32(3.25) - 17)
    del again
    gc.collect()
    assert code() is None and text.key not in llvm_kernels.native_functions


def test_many_programs_leave_no_code_behind():
    llvm_kernels.recent.clear()
    gc.collect()
    before = len(llvm_kernels.native_functions)
    for k in range(llvm_kernels.recent.maxlen + 40):
        assert compiled(lambda v: v * k, 1.5)(1.5)[0].item() == 1.5 * k  # noqa: B023
    gc.collect()
    assert len(llvm_kernels.native_functions) <= before + llvm_kernels.recent.maxlen


def test_arguments_and_none_keep_their_reference_counts():
    value = np.ones(4, "f4")
    run = compiled(lambda x: x + 1, value)
    text, = run.loaded.kernels
    function = llvm_kernels.native_functions[text.key]
    out = np.empty(4, "f4")
    counts = [sys.getrefcount(v) for v in (value, out, function)]
    for _ in range(1000):
        assert function(value, out) is None
    assert [sys.getrefcount(v) for v in (value, out, function)] == counts
    assert out.tolist() == [2, 2, 2, 2]


def test_kernels_by_llvm_need_no_numba():
    code = """
import numpy as np, sys, minijit as mj
assert "llvmlite" not in sys.modules
f = mj.jit(lambda x: mj.numpy.tanh(x).sum() * 2)
assert f(np.zeros(3, "f4")) == 0
assert "numba" not in sys.modules
"""
    in_a_process(code)


def test_every_operation_has_an_instruction_or_a_form():
    known = llvm_text.instructions.keys() | scalar_forms.keys()
    assert set(operations) - {"clamp"} <= known


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n", [4, 8, 28, 100])
def test_loops_of_more_steps_than_a_few_stay_loops(n):
    # A strip that is all of a loop has none around it; long ones would fill kilobytes.
    x = np.arange(600.0 * n, dtype="float32").reshape(600, n)
    f = mj.jit(lambda x: x * 2 + x[0])
    text = f.lower(x).compile().as_text("llvm")
    lines = text.split("\n")
    loops = [line for line in lines if "label %loop" in line and "i1" in line]
    kept = [line for line in loops if "!llvm.loop" in line]
    assert len(loops) == len(kept) == (1 if x[0].nbytes <= vector_bytes() else 2)
    np.testing.assert_array_equal(f(x), x * 2 + x[0])


@pytest.mark.chapter(24)
@pytest.mark.parametrize("f, alone", [
    (lambda x: x.sum(0), 3),
    (lambda x: jnp.cumsum(x, 0), 2),
    (lambda x: jnp.zeros((5, x.shape[1])).at[np.arange(200) % 5].add(x), 1),
    (lambda x: jnp.concatenate([x[:, :1], x * 2, x[:, 3:9]], 1), 2),
])  # fmt: skip
def test_how_often_the_last_number_of_a_row_is_stored_alone(f, alone):
    # Of two strips and one number more: where the next loop loads soon what is stored.
    x = np.ones((200, 2 * vector_bytes() // 4 + 1), "f4")
    text = mj.jit(f).lower(x).compile().as_text("llvm")
    assert text.count("store float ") == alone


@pytest.mark.chapter(24)
@pytest.mark.parametrize("f, dtype, registers", [
    (jnp.exp, "f4", 4), (jnp.square, "f4", 4), (jnp.square, "bfloat16", 4),
    (mj.nn.gelu, "bfloat16", 4), (lax.lgamma, "f4", 2), (lax.digamma, "f4", 1),
])  # fmt: skip
def test_so_many_registers_side_by_side(f, dtype, registers):
    """As many as hide that each operation waits, if not too much is written out."""
    x = jnp.ones(4096, dtype)
    text = mj.jit(f).lower(x).compile().as_text("llvm")
    assert f"load <{registers * vector_bytes() // 4} x " in text


@pytest.mark.chapter(24)
@pytest.mark.parametrize("f, times", [
    (lambda c, x: jnp.where(x > 0, c + x, c), 1),
    (lambda c, x: jnp.minimum(c, jnp.where(x > 0, x, jnp.inf)), 1),
    (lambda c, x: c + x, 0),
])  # fmt: skip
def test_a_choice_of_what_is_there_is_stored_whole(f, times):
    # Of a load, a choice and a store LLVM would make a store under a mask.
    x = rng.normal(size=4096).astype("f4")
    loop = mj.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: f(c, x), x))
    text = loop.lower(x).compile().as_text("llvm")
    assert text.count('asm sideeffect ""') == times
    wanted = x
    for _ in range(3):
        wanted = f(wanted, x)
    np.testing.assert_array_equal(loop(x), wanted)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("n, strips", [(2, False), (4, False), (40, True)])
def test_totals_of_a_few_are_left_to_llvm(n, strips):
    # In a vector of two numbers, their maximum took twenty times as long.
    x = rng.normal(size=(300, n)).astype("f4")
    f = mj.jit(lambda x: x.max(1))
    text = f.lower(x).compile().as_text("llvm")
    assert bool(re.search(r"load <\d+ x float>", text)) == strips
    np.testing.assert_array_equal(f(x), x.max(1))


def lanes_of_strips(f, *args):
    text = mj.jit(f).lower(*args).compile().as_text("llvm")
    return max(map(int, re.findall(r"<(\d+) x float>", text)))


@pytest.mark.chapter(24)
def test_several_totals_take_shorter_strips():
    """A product of complex numbers was twice as much text, and a fifth slower."""
    rows = (np.ones((8, 1000), dtype) for dtype in ("float32", "complex64"))
    one, two = (lanes_of_strips(lambda x: x @ x[0], x) for x in rows)
    # One has at least as many lanes as the longest vectors.
    assert two == max(one // 2, 16)


@pytest.mark.chapter(24)
def test_a_row_that_is_added_to_has_strips_of_a_column():
    """Where a step reads what it writes, too, if no other one does."""
    x, columns = (np.ones(shape, "f4") for shape in [(3, 64), (64, 3)])
    f = mj.jit(lambda x, y: x.at[1].add(y[:, 0]))
    assert "shufflevector" in f.lower(x, columns).compile().as_text("llvm")


@pytest.mark.chapter(24)
def test_strips_that_crowd_registers_are_short():
    """A quotient of complex numbers took LLVM three times as long, and ran longer."""
    x = np.ones(30_000, "complex64")
    sums, quotients = (lanes_of_strips(f, x, x) for f in (jnp.add, jnp.divide))
    fits = Machine.host().registers > 20
    assert (quotients == sums) == fits


@pytest.mark.parametrize("rows, n", [(92, 660), (5, 660)])
def test_a_loop_is_made_into_few_instructions(rows, n):
    # With all steps that fit into a buffer written out there were 366; and five times
    # as many with the loop around it.
    x = np.arange(rows * n, dtype="int32").reshape(rows, n) % (n + 1)
    f = mj.jit(lambda x: x.argmin(1))
    module = llvm_engine.optimised(f.lower(x).compile().as_text("llvm"))
    assert sum(line.startswith("  ") for line in str(module).split("\n")) < 200
    np.testing.assert_array_equal(f(x), x.argmin(1))


def test_columns_are_not_gathered():
    # An instruction of 16 loads takes longer than 16 instructions.
    x = rng.normal(size=(9000, 10)).astype("f4")
    f = mj.jit(lambda x: x[:, 3] * x[:, 2] + x[:, 0])
    module = llvm_engine.optimised(f.lower(x).compile().as_text("llvm"))
    code = llvm_target.shared_machine("thorough").emit_assembly(module)
    assert "gather" not in code
    np.testing.assert_allclose(f(x), x[:, 3] * x[:, 2] + x[:, 0], 1e-5, 1e-6)


def test_what_an_index_is_made_of_is_computed_once():
    # Steps of a search use the one before twice: each lane looked three times as often
    # for one more of them, and seven numbers took 8 s to compile.
    numbers, x = rng.random((9, 4, 3)).astype("f4"), rng.random((9, 4)).astype("f4")
    find = lambda row, x: row[jnp.searchsorted(row, x)] * 2
    f = mj.jit(mj.vmap(mj.vmap(find)))
    assert f.lower(numbers, x).compile().as_text("llvm").count("load ") < 20
    np.testing.assert_array_equal(f(numbers, x), mj.vmap(mj.vmap(find))(numbers, x))


def test_a_rotation_is_one_instruction():
    def text(f, *args):
        module = mj.jit(f).lower(*args).compile().as_text("llvm")
        return str(llvm_engine.optimised(module, "vectors"))

    u = np.arange(4096, dtype="uint32") * 977
    assert "llvm.fshl.v" in text(lambda k: mj.random.bits(k, (4096,)), mj.random.key(0))
    assert "llvm.fshl.v" in text(lambda x: x << 7 | x >> 25, u)


def test_loops_that_store_where_told_have_no_vectors():
    x, at = np.arange(9000.0, dtype="float32"), np.arange(9000)[::-1].copy()
    f = mj.jit(lambda x, at: jnp.zeros(9000).at[at].set(x * 2))
    text = f.lower(x, at).compile().as_text("llvm")
    assert text.count('"llvm.loop.vectorize.enable", i1 false') == 1
    np.testing.assert_array_equal(f(x, at), x[::-1] * 2)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_extremes_of_floats_are_totals_of_integers(name):
    x = rng.normal(size=(40, 333)).astype("f4")
    x[1, 5] = x[2, 0] = x[3, -1] = np.nan
    x[4, 7], x[5, 7], x[6], x[7] = np.inf, -np.inf, np.inf, -np.inf
    x[8], x[9] = -0.0, 0.0
    x[8, 300], x[9, 300] = 0.0, -0.0
    x[10], x[11, 1] = -np.nan, -np.nan
    given = jnp.asarray(x).astype(name)
    f = lambda x: (x.max(1), x.min(1), x.max(), x[4:].min(), x[:3, :7].max(1))
    wide = np.asarray(given).astype("f4")
    wanted = f(wide)
    for got, want in zip(mj.jit(f)(given), wanted, strict=True):
        got = np.asarray(got).astype("f4")
        assert np.array_equal(got, want, equal_nan=True)
    most, least = (np.asarray(v).astype("f4") for v in mj.jit(f)(given)[:2])
    assert not np.signbit(most[[8, 9]]).any() and np.signbit(least[[8, 9]]).all()
    text = ir(lambda x: x.max(1), given)
    if host()[1].count("+sse2"):
        assert "llvm.maximum" not in text and re.search(r"llvm.smax.v\d+i32", text)
    assert not re.search(r"phi <\d+ x i1>", text)


@pytest.mark.chapter(24)
def test_llvm_looks_for_no_vectors_of_what_is_moved_far():
    x = rng.normal(size=(500, 8, 8)).astype("c8")

    def way(f):
        compiled = mj.schedule(mj.vmap(f), "short rows written out").lower(x).compile()
        return [kernel.vectors for kernel in compiled.executable.loaded.kernels]

    assert way(lambda x: jnp.concatenate([x.T, x], 1)) == [True]
    assert way(lambda x: x.sum(1)) == [False]


@pytest.mark.chapter(24)
def test_lanes_store_at_the_same_place_of_two_arrays():
    """LLVM looked for their vectors: it took them for twice the same place."""
    x = rng.normal(size=(500, 5)).astype("f4")
    f = lambda x: (x * x.sum(1, keepdims=True), x - x.max(1, keepdims=True))
    lanes = mj.schedule(f, "short rows in lanes")
    text, = lanes.lower(x).compile().executable.loaded.kernels
    assert text.vectors
    for got, want in zip(lanes(x), f(x), strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("rows, vectors", [(1, True), (100, False)])
def test_llvm_looks_for_no_vectors_of_what_seldom_runs(rows, vectors):
    # A few shares of a long total are added up at the end of many a kernel.
    i, r, k = (expressions.Axis(*a) for a in ((9000,), (rows,), (5, "reduce")))
    shapes = {"x": (9000,), "y": (9000,), "s": (rows, 5), "z": (rows,)}
    x, y, s, z = (memory.Buffer(*b, np.dtype("f4")) for b in shapes.items())
    total = expressions.Reduce("add", (k,), (expressions.Load(s, (r, k)),))
    body = (
        loops.For(i, (loops.Store(y, (i,), expressions.Load(x, (i,))),)),
        loops.For(r, (loops.Store(z, (r,), total),)),
    )
    assert llvm_kernels.KernelText(loops.Kernel("k", body)).vectors == vectors


@pytest.mark.chapter(24)
def test_places_are_told_apart_by_their_numbers(monkeypatch):
    from minijit.run.llvm import strips as llvm_strips

    i, j = expressions.Axis(9), expressions.Axis(9)
    array = memory.Buffer("x", (9, 9, 9), np.dtype("f4"))
    zero, one, *_ = numbers = [expressions.as_index(n) for n in range(9)]
    store = lambda *index: loops.Store(array, index, zero)
    all_of_them = [store(i, a, b) for a in numbers for b in numbers]
    compared = []
    # Not pair by pair: those of a block of transposed arrays are thousands.
    with monkeypatch.context() as patch:
        patch.setattr(llvm_strips, "are_apart", lambda *pair: compared.append(pair))
        assert llvm_strips.in_any_order([], all_of_them) and not compared
    for other in (store(j, one, one), store(i, one, j), store(j, i, i)):
        assert not llvm_strips.in_any_order([], [*all_of_them, other])
    assert llvm_strips.in_any_order([], [store(i, one, j), store(i, zero, zero)])
    load = expressions.Load(array, (j, zero, i))
    assert llvm_strips.in_any_order([load], [store(i, one, j)])


@pytest.mark.chapter(24)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("n", [3, 65, 1000])
def test_totals_of_bools_are_totals_of_integers(dtype, n):
    x = np.zeros((5, n), dtype)
    x[1], x[2, 0], x[3, -1], x[4, :-1] = 1, 1, 1, 1

    def f(np, x):
        some, later = x != 0, np.arange(n) > 0
        rows = some.any(1), some.all(1), (some & later).max(1), (some | later).min(1)
        return *rows, some.any(), some.all(), (x[:, None] < x[:, :, None]).any((1, 2))

    alike(mj.jit(partial(f, jnp))(x), f(np, x))
    # A vector of them that goes from step to step would be taken apart.
    assert not re.search(r"phi <\d+ x i1>", ir(lambda x: (x > 0).any(1), x))


# ---- what a loop on few numbers is compiled to


def texts_of_loop(body, x):
    """The LLVM text of a loop, and how it is compiled."""
    f = mj.jit(lambda x: lax.fori_loop(0, 10_000, lambda i, c: body(c), x))
    compiled = f.lower(x).compile()
    (way, _), = by_way(compiled.executable.loaded.kernels).items()
    return compiled.as_text("llvm"), way


@pytest.mark.chapter(24)
def test_the_carry_of_a_loop_is_a_register():
    x = np.linspace(0.1, 0.9, 4, dtype="f4")
    text, way = texts_of_loop(lambda c: c * 0.5 + 1, x)
    assert way == "vectors"
    # No pass looks for vectors, and in the loop nothing is loaded or stored.
    made = str(llvm_engine.optimised(text, way))
    loop, = re.findall(r"\nloop\d+:(?:.*\n)+?  br i1", made)
    assert "fmul <4 x float>" in loop and "load" not in loop and "store" not in loop


def test_what_modules_share_is_in_none_of_them():
    x = np.linspace(0.1, 0.9, 4, dtype="f4")
    f = mj.jit(lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: c * 2, x))
    text = f.lower(x).compile().as_text("llvm")
    assert re.findall(r"define .*?@(\w+?)_", text) == ["kernel"]
    assert "declare i1 @minijit_look()" in text
    np.testing.assert_array_equal(f(x), x * 128)


@pytest.mark.parametrize("name", ["arctanh", "arctan2", "sinh", "log1p", "expm1"])
@pytest.mark.parametrize("n", [100_003, 7])
def test_halves_made_of_what_is_computed_in_float64(name, n):
    # LLVM called a function for the numbers that are left over; it was nowhere.
    x = np.random.default_rng(0).uniform(-0.9, 0.9, n).astype("float16")
    args = (x, x[::-1].copy())[: 1 + (name == "arctan2")]
    wide = [a.astype("float64") for a in args]
    found = mj.jit(getattr(jnp, name))(*args)
    assert found.dtype == "float16"
    np.testing.assert_allclose(found, getattr(np, name)(*wide), rtol=2e-3, atol=1e-6)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("divisor", [None, 1.0, 8.0, 0.1])
def test_remainders_are_those_of_the_c_library_in_vectors(dtype, divisor):
    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform(-3, 3, (2, 20_003))
    x, y = (rng.standard_normal((2, 20_003)) * sizes).astype(dtype)
    x[:3000], x[3000:5000] = y[:3000] * 3, np.nextafter(y[3000:5000] * 5, 0 * y[:2000])
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -2.5, 6e4], dtype)
    pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    x[-64:], y[-64:] = pairs
    x[6000:6100] = 6e4 if dtype == "float16" else 3e38
    y = y if divisor is None else np.full_like(y, divisor)
    f = mj.jit(lambda x, y: lax.rem(x, y if divisor is None else y.dtype.type(divisor)))
    with np.errstate(invalid="ignore"):
        want = np.fmod(x, y)
    found = np.asarray(f(x, y))
    np.testing.assert_array_equal(found, want)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(found)[zeros], np.signbit(want)[zeros])


def test_functions_say_themselves_that_nothing_throws():
    """llvmlite before 0.48 puts what is added to a function on its result."""
    from minijit.run.llvm.engine import optimised

    text = str(optimised("define i64 @same(i64 %x) {\n  ret i64 %x\n}\n"))
    head, = [line for line in text.splitlines() if line.startswith("define")]
    assert "nounwind" in text and "nounwind" not in head.partition("@")[0]


def test_what_makes_tables_grow_throws_nothing_either():
    """Of a function that may throw LLVM makes tables that a process keeps for ever."""
    from minijit.run.llvm.engine import optimised
    from minijit.run.llvm.tables import GROW, grow_declarations

    declared = [line for line in grow_declarations if line != GROW]
    use = "define {ptr, i64} @use(ptr %x) {\n" \
        "  %y = call {ptr, i64} @grow(ptr %x, i64 1, i64 2, i64 8)\n" \
        "  ret {ptr, i64} %y\n}\n"
    module = optimised("\n".join([*declared, GROW, use]))
    functions = [f for f in module.functions if not f.is_declaration]
    assert {f.name for f in functions} == {"use", "grow"}
    assert all(b"nounwind" in b" ".join(f.attributes) for f in functions)


def test_one_function_calls_all_kernels_of_so_many_arrays():
    """Up to eight; short or long: what one wants is said beside its address."""

    def twice(n):
        axis = expressions.Axis(n)
        x, y = (memory.Buffer(name, (n,), np.dtype("f4")) for name in "xy")
        value = expressions.op("add", *[expressions.Load(x, (axis,))] * 2)
        body = loops.For(axis, (loops.Store(y, (axis,), value),))
        return llvm_kernels.KernelText(loops.Kernel("k", (body,)))

    short, long = texts = twice(5), twice(1 << 20)
    assert [text.wants for text in texts] == [0, python_calls.FREES]
    assert short.called_by() == long.called_by()
    assert [llvm_kernels.eights(count) for count in (1, 8, 9)] == [1, 1, 2]
    for text, n in zip(texts, (5, 1 << 20), strict=True):
        x, y = np.ones(n, "f4"), np.zeros(n, "f4")
        assert llvm_kernels.functions_of([text])[text.key](x, y) is None
        assert (y == 2).all()
