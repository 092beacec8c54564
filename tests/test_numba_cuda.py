"""What is printed for kernels is a program of numba.cuda: simulated, and compiled."""

import ast
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from cuda_programs import programs
from derivative_cases import cases

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.run.cuda.reports import assembled
from minijit.run.device.grid_memory import NoCudaForm
from minijit.run.device.numba_cuda import numba_ptx, program_of

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
    with pytest.raises(Exception, match=r"there are \['ptx', 'report'\]"):
        compiled.as_text("llvm")
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
    command = [sys.executable, "-W", "error", "-m", "tests.simulated"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"{len(programs)} of {len(programs)} agree" in done.stdout, done


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
