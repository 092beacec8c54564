"""What is printed for kernels is a program of numba.cuda: simulated, and compiled."""

import ast
import struct
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from cuda_programs import derivatives, layouts, numbers, programs, totals
from derivative_cases import cases
from harness import alike, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.run.cuda.images import as_bytes, linked
from minijit.run.cuda.reports import assembled
from minijit.run.device.functions import swap_in
from minijit.run.device.grid_memory import NoCudaForm
from minijit.run.device.lockstep import run_in_lockstep
from minijit.run.device.numba_cuda import UnsignedIndices, numba_ptx, program_of

pytestmark = pytest.mark.chapter(26)
compiles = pytest.mark.skipif(
    not find_spec("numba_cuda"), reason="needs minijit[numba-cuda]"
)
x = np.linspace(-2, 2, 40 * 70, dtype="f4").reshape(40, 70)


def kernels_of(f, *args):
    lowered = mj.jit(f, backend="cuda-lockstep").lower(*args)
    return lowered.compile().executable.loaded.kernels


def agree(f, *args):
    found = mj.tree_util.tree_leaves(mj.jit(f, backend="cuda-lockstep")(*args))
    wanted = mj.tree_util.tree_leaves(mj.jit(f, backend="eval")(*args))
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        kind = "c16" if b.dtype.kind == "c" else "f8"
        tolerance = 1e-2 if b.dtype.name in ("float16", "bfloat16") else 1e-5
        a, b = (np.asarray(z).astype(kind) for z in (a, b))
        np.testing.assert_allclose(a, b, tolerance, tolerance)


# ---- what a reader sees


def test_the_text_is_a_whole_file():
    compiled = mj.jit(nn.softmax, backend="numba-cuda").lower(x).compile()
    text = compiled.as_text()
    names = {n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert names == {"kernel_0"} and text.count("@cuda.jit") == 1
    assert "from minijit.run.device.numba_cuda import add_any_order, maximum\n" in text
    assert "f32_0 = np.float32(0.0)" in text and "math.exp(" in text
    refused(Exception, r"there are \['ptx', 'report'\]", compiled.as_text, "llvm")
    report = mj.explain(mj.jit(nn.softmax, backend="numba-cuda"), x)
    assert [step.route for step in report.steps] == ["numba-cuda"]


def test_narrow_integers_are_cast_where_they_are_assigned():
    f = lambda n: n * 7 + 3 < n
    for dtype, casts in (("u1", 2), ("i4", 2), ("i8", 0), ("f4", 0)):
        with mj.enable_x64(True):
            kernel, = kernels_of(f, np.ones(9, dtype))
        assert kernel.source.count(f"= np.{np.dtype(dtype).name}(") == casts


@pytest.mark.skipif(bool(find_spec("numba_cuda")), reason="it compiles here")
def test_without_its_packages_it_says_what_to_install():
    compiled = mj.jit(nn.softmax, backend="numba-cuda").lower(x).compile()
    with pytest.raises(NoCudaForm, match=r"pip install \"minijit\[numba-cuda\]\""):
        compiled.as_text("ptx")
    with pytest.raises(NoCudaForm, match="NUMBA_ENABLE_CUDASIM=1"):
        mj.jit(nn.softmax, backend="numba-cuda")(x)


# ---- what the kernels compute: in lock-step, and in numba's simulator


@pytest.mark.parametrize("name", programs)
def test_in_lockstep(name):
    f, args = programs[name]
    agree(f, *args)


def test_in_numba_s_simulator():
    """All by hand: it has a thread of the system for each of a kernel's."""
    few = """select rounding special remainders shifts float16 bfloat16 complex softmax
        argmax cumsum transpose gather scan while cond""".split()
    few += ["four a thread", "signed bytes", "sum of many", "scatter-add of int8"]
    few += [f"scatter-{how} of {dtype}" for how, dtype in (
        ("multiply", "float32"), ("min", "uint16"), ("max", "bfloat16"))]  # fmt: skip
    command = [sys.executable, "-W", "error", "-m", "tests.simulated", *few]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"{len(few)} of {len(few)} agree" in done.stdout, done


@pytest.mark.parametrize("name", [*layouts, "sum of rows", "argmax", "digits step"])
def test_that_indices_have_no_sign_changes_nothing(name):
    f, args = programs[name]
    for kernel in kernels_of(f, *args):
        told = ast.unparse(UnsignedIndices(32).visit(ast.parse(kernel.printed.text)))
        assert " in range(" not in told and "np.int64(np.uint32(cuda." in told
        # NumPy adds an int64 to a uint64 as floats; numba does not.
        told = told.replace("np.uint64(", "np.int64(")
        other = replace(kernel, printed=replace(kernel.printed, text=told))
        arrays = [np.ones(b.shape, b.dtype) for b in kernel.args]
        again = [np.copy(a) for a in arrays]
        assert run_in_lockstep(kernel, *arrays) == run_in_lockstep(other, *again)
        alike(arrays, again)


@pytest.mark.parametrize("dtype", ["i1", "u1", "u2", "i2"])
def test_a_part_of_a_word_is_swapped_by_the_word(dtype):
    """And again if only its neighbours have changed meanwhile."""
    array = np.array([-3, 7, 9, 1, 2, 3, 4, -8]).astype(dtype)
    words, changes = array.view("u4"), [0, 1 << 8 * array.itemsize, 0]

    def swap(array, index, expected, new):
        k = index * array.itemsize // 4
        words[k] += np.uint32(changes.pop(0)) if changes else np.uint32(0)
        found = words[k]
        words[k] = new if found == expected else found
        return found

    of_part, five = swap_in(swap), array.dtype.type(5)
    first, *_, last = array
    assert of_part(array, 0, first, five) == first and not changes
    assert array[:3].tolist() == [5, 8, 9] and array[-1] == last
    assert of_part(array, 7, five, five) == last == array[-1]
    assert of_part(array, 7, last, five) == last
    assert array.tolist() == [5, 8, 9, 1, 2, 3, 4, 5]


# ---- what numba compiles


@compiles
@pytest.mark.parametrize("name", programs)
def test_the_assembler_takes_what_numba_compiles(name):
    f, args = programs[name]
    for kernel in kernels_of(f, *args):
        ptx = numba_ptx(kernel, (9, 0))
        assert f".entry {kernel.name}(" in ptx and ".target sm_90" in ptx
        assert assembled(ptx, (9, 0)).spills == 0
        if ".f64" not in kernel.ptx((9, 0)):
            assert "cvt.f64.f32" not in ptx and "cvt.rn.f32.f64" not in ptx


def instructions(ptx):
    """How many instructions of machine code, of 16 bytes, an assembler makes of PTX."""
    code, _ = linked([as_bytes(ptx)], (9, 0))
    at, = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    heads = [struct.unpack_from("<IIQQQQ", code, at + i * size) for i in range(count)]
    is_code = lambda name: code[heads[names][4] + name :].startswith(b".text")
    return sum(length // 16 for name, *_, length in heads if is_code(name))


@compiles
@pytest.mark.parametrize("family", [totals, layouts, numbers, derivatives])
def test_numba_needs_no_more_instructions_than_we(family):
    """The functions that are NVIDIA's there and ours here are elsewhere."""
    sums = np.zeros(2)
    for f, args in list(family.values())[::2]:
        for kernel in kernels_of(f, *args):
            texts = numba_ptx(kernel, (9, 0)), kernel.ptx((9, 0))
            sums += list(map(instructions, texts))
    assert sums[0] <= 1.1 * sums[1], sums


@compiles
@pytest.mark.parametrize("part", range(8))
def test_numba_compiles_every_primitive(part):
    for case in cases[part::8]:
        for kernel in kernels_of(case.function(lax), *case.varying()):
            assert ".entry" in numba_ptx(kernel, (9, 0)), case


@compiles
def test_each_kind_of_device_has_its_functions():
    kernel, = kernels_of(lambda v: jnp.floor(v) + lax.erf_inv(v), x)
    for capability in ((8, 0), (9, 0), (8, 0)):
        assert f".target sm_{capability[0]}0" in numba_ptx(kernel, capability)
    assert "floor" in program_of([kernel])
    compiled = mj.jit(nn.softmax, backend="numba-cuda").lower(x).compile()
    report = compiled.as_text("report")
    assert "loads of 8 bytes, stores of" in report and "0 bytes spilled" in report
