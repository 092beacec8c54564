"""What users meet first: names, tracebacks, questions about the machine."""

import importlib
import os
import subprocess
import sys
import time
import tomllib
import traceback
import types
from pathlib import Path

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.jaxcompat.missing import jax_names
from minijit.trace.base.config import config
from minijit.trace.base.errors import PACKAGE
from minijit.trace.base.names import later_imports
from minijit.trace.jit import progress

pytestmark = pytest.mark.chapter(25)

modules = """
    numpy numpy.linalg numpy.fft lax random nn nn.initializers scipy scipy.special tree
    tree_util errors dtypes debug custom_batching custom_derivatives ad_checkpoint
    test_util typing sharding example_libraries.stax experimental.stax
""".split()


# Names


@pytest.mark.parametrize("name", modules)
def test_dir_of_a_module(name):
    module = importlib.import_module(f"minijit.{name}")
    parts = {n for n in dir(module) if isinstance(getattr(module, n), types.ModuleType)}
    assert {*dir(module)} - parts == {*module.__all__} - parts
    assert [n for n in dir(module) if n.startswith("_") or not hasattr(module, n)] == []
    for other in (np, os, sys):
        assert other not in [getattr(module, n) for n in dir(module)]


def test_dir_of_an_array():
    x = jnp.ones(3)
    names = [name for name in dir(x) if not name.startswith("__")]
    assert {"shape", "sum", "at", "T", "reshape", "item", "devices"} <= set(names)
    assert [name for name in names if name[0] == "_" or name == "deleted"] == []
    special = "flat T mT"
    assert all(hasattr(x, name) for name in names if name not in special.split())


def test_what_the_kernel_completes():
    core = pytest.importorskip("IPython.core.completer")
    space = {"mj": mj, "jnp": jnp, "lax": lax, "x": jnp.ones(3)}
    completer = core.Completer(namespace=space, global_namespace={})
    for name in space:
        found = [n for n in completer.attr_matches(f"{name}.") if "._" not in n]
        assert sorted(found) == [f"{name}.{n}" for n in dir(space[name]) if n[0] != "_"]


def test_modules_without_their_source_say_so(monkeypatch):
    bare = types.ModuleType("bare")
    bare.__file__ = "bare.pyc"
    monkeypatch.setitem(sys.modules, "bare", bare)
    refused(ImportError, "no source", later_imports, "bare")


def module_of_ours(name):
    if name == "numpy.linalg":
        return jnp.linalg
    return importlib.import_module(f"minijit.{name}".rstrip("."))


@pytest.mark.parametrize("module", jax_names)
def test_a_name_of_jax_that_is_not_here(module):
    holder = module_of_ours(module)
    # A name that is written one day has no row here any more.
    assert [name for name in jax_names[module] if hasattr(holder, name)] == []


@pytest.mark.oracle
def test_every_public_name_of_jax_is_here_or_has_a_word():
    jax = pytest.importorskip("jax")
    for module, rows in jax_names.items():
        theirs = importlib.import_module(f"jax.{module}".rstrip("."))
        ours = module_of_ours(module)
        public = [n for n in dir(theirs) if not n.startswith("_")]
        kinds = {n: getattr(getattr(theirs, n), "__name__", "jax") for n in public}
        module_type = type(jax)
        foreign = {
            n for n in public
            if isinstance(getattr(theirs, n), module_type)
            and not kinds[n].startswith("jax")
        } | {"Callable", "os", "traceback_util"}  # fmt: skip
        without = [n for n in public if not hasattr(ours, n) and n not in rows]
        assert sorted(set(without) - foreign) == [], module


# Errors


def failing_line(f):
    """-> (the error of f(), the names of the functions in its traceback)."""
    with config.override("traceback_filtering", "auto"):
        try:
            f()
        except Exception as error:
            entries = traceback.extract_tb(error.__traceback__)
            return error, [entry.name for entry in entries]
    raise AssertionError("no error")


x, w = jnp.ones((3, 4)), jnp.ones((5, 2))

eager = {
    "matmul": (lambda: x @ w, "f32[3,4] @ f32[5,2]"),
    "add": (lambda: x + w, "f32[3,4] + f32[5,2]"),
    "reversed": (lambda: np.ones(2) - x, "a NumPy array of shape (2,)"),
    "less": (lambda: x < w, "f32[3,4] < f32[5,2]"),
    "sign": (lambda: -(x < 1), "-bool[3,4]"),
    "list": (lambda: x + [1], "f32[3,4] + [1]"),
    "index": (lambda: x["a"], "f32[3,4]['a']"),
    "many": (lambda: x[1, 2, 3], "Too many indices"),
    "set": (lambda: x.__setitem__(0, 1.0), "x.at[idx].set(y)"),
    "iterate": (lambda: list(jnp.sum(x)), "iter(f32[])"),
    "reshape": (lambda: x.reshape(5), "x=f32[3,4], shape=5"),
    "concatenate": (lambda: jnp.concatenate([x, w]), "arrays=[f32[3,4], f32[5,2]]"),
    "axis": (lambda: jnp.sum(x, axis=3), "a=f32[3,4], axis=3"),
    "method": (lambda: x.sum(axis=3), "a=f32[3,4], axis=3"),
}


@pytest.mark.parametrize("name", eager)
def test_eager_errors_name_the_line(name):
    f, told = eager[name]
    error, functions = failing_line(f)
    assert told in str(error)
    assert f"{__file__}:{f.__code__.co_firstlineno}" in str(error)
    assert functions == ["failing_line", "<lambda>"]


def test_tracebacks_go_through_the_users_functions_only():
    def inner(w):
        return (jnp.ones((3, 4)) @ w).sum()

    def outer():
        return mj.jit(mj.grad(lambda w: mj.vmap(inner)(w).sum()))(jnp.ones((2, 5, 2)))

    error, functions = failing_line(outer)
    assert functions == ["failing_line", "outer", "<lambda>", "inner"]
    assert "traceback_filtering" in error.__notes__[0]
    with config.override("traceback_filtering", "off"):
        with pytest.raises(TypeError) as full:
            outer()
    assert len(full.traceback) > 10 and not hasattr(full.value, "__notes__")


@pytest.mark.parametrize("call", [
    lambda: mj.vjp(jnp.sin, jnp.ones(3))[1](jnp.ones(2)),
    lambda: mj.linearize(jnp.sin, jnp.ones(3))[1](jnp.ones(2)),
    lambda: mj.random.split(mj.random.key(0), 2.5),
    lambda: mj.debug.print("{x}", y=1),
    lambda: mj.explain(jnp.sin),
    lambda: mj.stages(jnp.sin),
    lambda: mj.steps(jnp.sin)(),
    lambda: mj.explain(jnp.sin, 1.0).why_not_fused(0, 5),
    lambda: mj.explain(jnp.sin, 1.0).plot("nothing"),
])  # fmt: skip
def test_a_wrong_call_shows_no_frame_of_the_library(call):
    error, functions = failing_line(call)
    assert functions == ["failing_line", "<lambda>"] and error.__cause__ is None
    told = "".join(traceback.format_exception(error))
    assert " was given " in told or "  in the result of minijit.steps()" in told
    assert PACKAGE not in told and "\\n" not in told


def test_errors_of_the_users_own_keep_all_their_frames():
    def deeper(x):
        raise KeyError("mine")

    error, functions = failing_line(lambda: mj.jit(lambda x: deeper(x))(1.0))
    assert functions == ["failing_line", "<lambda>", "<lambda>", "deeper"]
    assert error.args == ("mine",)


# Questions about the machine


def test_devices():
    device, = mj.devices()
    assert mj.local_devices() == mj.devices("cpu") == [device]
    assert repr(device) == "CpuDevice(id=0)" and str(device) == "cpu:0"
    assert (mj.device_count(), mj.local_device_count()) == (1, 1)
    assert (mj.process_index(), mj.process_count(), mj.process_indices()) == (0, 1, [0])
    assert mj.default_backend() == device.platform == "cpu"
    x = jnp.ones(3)
    assert x.devices() == {device} and x.device == device
    assert x.sharding == mj.sharding.SingleDeviceSharding(device)
    assert x.to_device(device) is x and x.on_device_size_in_bytes() == 12
    assert x.unsafe_buffer_pointer() == np.asarray(x).ctypes.data
    refused(RuntimeError, "Unknown backend: 'gpu' requested", mj.devices, "gpu")
    refused(ValueError, "one device", x.to_device, mj.Device(id=3))


def test_version_and_environment(capsys):
    project = Path(mj.__file__).parents[1] / "pyproject.toml"
    if project.exists():
        declared = tomllib.loads(project.read_text())["project"]["version"]
        assert declared == mj.__version__
    with mj.enable_x64(True):
        mj.print_environment_info()
    text = capsys.readouterr().out
    assert f"minijit:       {mj.__version__}" in text and "enable_x64=True" in text
    assert np.__version__ in mj.print_environment_info(return_string=True)


def test_contexts_that_change_nothing():
    with mj.named_scope("a"), mj.default_matmul_precision("highest"):
        with mj.transfer_guard("disallow"), mj.default_device(mj.devices()[0]):
            assert mj.jit(lambda x: x + 1)(1) == 2
    for wrong in (lambda: mj.named_scope(3),
                  lambda: mj.default_matmul_precision("best"),
                  lambda: mj.transfer_guard("never"), lambda: mj.default_device("tpu")):
        with pytest.raises((TypeError, ValueError, RuntimeError)), wrong():
            pass
    assert mj.named_call(jnp.sin, name="wave").__name__ == "wave"
    assert mj.typeof(jnp.ones(3)).str_short() == "f32[3]"


def test_compile_time_eval():
    @mj.jit
    def f(x):
        with mj.ensure_compile_time_eval():
            n = int(jnp.sum(jnp.arange(4)))
            twice = x * 2
        return twice + jnp.zeros(n)

    assert f(1.5).tolist() == [3.0] * 6

    @mj.jit
    def scale(x):
        with mj.ensure_compile_time_eval():  # A large one is a program, as outside.
            y = lax.erf_inv(jnp.linspace(-0.9, 0.9, 300_001))
            most = float(mj.jit(jnp.max)(lax.scan(lambda c, y: (c, y), 0.0, y)[1]))
        return x * most

    assert float(scale(2.0)) == pytest.approx(2.0 * 1.1630871, rel=1e-6)


# What takes long, and what was made


def test_lowered_and_compiled_print_themselves():
    def step(params, x):
        return {"y": jnp.tanh(x @ params["w"])}

    lowered = mj.jit(step).lower({"w": jnp.ones((3, 3))}, jnp.ones((2, 3)))
    first, *rest = repr(lowered).splitlines()
    types = "step(params['w']: f32[3,3], x: f32[2,3]) -> {'y': f32[2,3]}"
    assert first == f"Lowered: {types}" and "tanh" in "".join(rest)
    first, *rest = repr(lowered.compile()).splitlines()
    assert first == f"Compiled: {types}"
    assert rest[0] == "  kernels: kernel_0" and "as_text('llvm')" in rest[-1]
    sorting = mj.jit(jnp.sort).lower(jnp.ones(3)).compile()
    assert "not compiled: sort: sorting is left to NumPy" in repr(sorting)


def test_a_long_first_call_says_so(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    # Its thread may be asleep, for as long as it had patience before.
    monkeypatch.setattr(progress, "teller", progress.Teller())

    @mj.jit
    def slow(x):
        time.sleep(0.06)
        return x

    with config.override("compile_progress", True):
        slow(1.0)
        line = capsys.readouterr().err
        slow(1.0)
    assert line.count("\n") == 1 and f"{__file__}:" in line and "once for these" in line
    assert capsys.readouterr().err == ""


def test_a_notebook_counts_the_seconds(monkeypatch, capsys):
    shown = []

    class Display:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    # Its thread may be asleep, for as long as it had patience before.
    monkeypatch.setattr(progress, "teller", progress.Teller())
    monkeypatch.setattr(progress, "notebook_display", lambda text: Display())
    with config.override("compile_progress", True):
        mj.jit(lambda x: (time.sleep(0.06), x)[1])(1.0)
    assert shown and all("traced and compiled the call at" in text for text in shown)
    assert capsys.readouterr().err == ""


def test_nothing_is_said_in_tests_by_default():
    command = "import minijit as mj; print(mj.config.compile_progress)"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "MINI"))}
    env["PYTHONPATH"] = str(Path(mj.__file__).parents[1])
    said = []
    for more in ({}, {"PYTEST_CURRENT_TEST": "x"}):
        result = subprocess.run(
            [sys.executable, "-c", command], env={**env, **more}, capture_output=True
        )
        said.append(result.stdout.decode().strip())
    assert said == ["True", "False"]


def test_arrays_of_different_rank_broadcast_as_the_option_says():
    x, y = jnp.ones((3, 1)), jnp.ones(3)
    with mj.numpy_rank_promotion("raise"):
        assert (x * 2.0).shape == (x * jnp.float32(2)).shape == (3, 1)
        refused(ValueError, r"add on shapes \(3, 1\) \(3,\)", lambda: x + y)
        with pytest.raises(ValueError, match=r"vectorized .* shapes \(3, 1\) \(3,\)"):
            jnp.vectorize(lambda a, b: a + b)(x, y)
    with mj.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank prom"):
        assert jnp.add(x, y).shape == (3, 3)


def test_a_jaxpr_of_collectives_over_axes_that_are_named():
    f = lambda x: lax.psum(x, "i") * lax.axis_size("i")
    text = str(mj.make_jaxpr(f, axis_env=[("i", 4)])(1.0))
    assert "psum" in text and "4.0" in text
    refused(NameError, "i", mj.make_jaxpr(f), 1.0)


def test_what_the_library_caught_itself_is_not_shown():
    of_mask = lambda: mj.jit(lambda x: x[x > 0])(x)
    for f in (lambda: mj.jit(lambda s: s)("hello"), of_mask):
        error, _ = failing_line(f)
        shown = "".join(traceback.format_exception(error))
        assert shown.count("Traceback (most recent call last)") == 1, shown

    def users_own():
        try:
            [][0]
        except IndexError:
            x @ w

    error, _ = failing_line(users_own)
    assert isinstance(error.__context__, IndexError) and not error.__suppress_context__


def test_a_jitted_function_completes_what_users_call():
    known = [name for name in dir(mj.jit(lambda x: x)) if not name.startswith("__")]
    assert known == ["clear_cache", "eval_shape", "lower", "trace", "traces"]
