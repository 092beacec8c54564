"""Executables: the same results as eager, native and as plain Python."""

import errno
import os
import stat
import time
from functools import partial

import numpy as np
import pytest
from harness import alike, in_a_process

import minijit
import minijit.numpy as jnp
from minijit import config, lax, make_jaxpr
from minijit.errors import MinijitError
from minijit.run import cache_folder, loading
from minijit.run.executable import compile_plain, compile_python
from minijit.run.python import emitter as python_emitter
from minijit.run.python.program import native_kernels

pytestmark = pytest.mark.chapter(16)

ways = pytest.mark.parametrize("compile", [compile_plain, compile_python])


@pytest.fixture(autouse=True)
def cache(tmp_path):
    """A cache folder of its own for each test."""
    before = config.cache_dir
    config.update("cache_dir", str(tmp_path))
    yield tmp_path
    config.update("cache_dir", before)


def make(compile, f, *args):
    return compile(make_jaxpr(f)(*args), "f")


def ones(*shape, dtype="float32"):
    return jnp.ones(shape, dtype)


@ways
def test_an_output_never_aliases_an_argument(compile):
    x = ones(3)
    run = make(compile, lambda x: (x, x.reshape(3, 1), x + 0), x)
    for result in run(x):
        assert not np.shares_memory(result.numpy(), x.numpy())
        assert result.tolist() in ([1, 1, 1], [[1], [1], [1]])


@ways
def test_empty_arrays_and_no_axes(compile):
    run = make(compile, lambda x: (x * 2, jnp.sum(x, 1), jnp.max(x, 0)), ones(3, 0))
    doubled, total, highest = run(ones(3, 0))
    assert doubled.shape == (3, 0) and highest.shape == (0,)
    assert total.tolist() == [0, 0, 0]
    assert make(compile, lambda x: jnp.exp(x) - 1, 0.0)(0.0)[0].item() == 0


def test_equal_kernels_are_compiled_once_per_process():
    minijit.clear_caches()
    make(compile_python, lambda x: x * 2 + 1, ones(5))
    assert len(native_kernels) == 1
    make(compile_python, lambda other: other * 2 + 1, ones(5))
    assert len(native_kernels) == 1
    make(compile_python, lambda other: other * 2 - 3, ones(5))
    assert len(native_kernels) == 2


def join(xs):
    return jnp.concatenate([x * 2 for x in xs])


def updated(xs):
    y = jnp.zeros(5 * len(xs))
    for k, x in enumerate(xs):
        y = lax.dynamic_update_slice(y, x, (5 * k,))
    return y


def choose(xs):
    result = xs[0]
    for k, x in enumerate(xs):
        result = jnp.where(x < k, x, result)
    return result


def neighbours(xs):
    total = lambda x: sum(x[k] * x[k + 1] for k in range(len(xs)))
    return minijit.grad(total)(jnp.concatenate(xs))


# name: (function of a list of arrays of 5, launches for 60 of them)
cliffs = {
    "stack": (jnp.stack, 4),
    "stack of numbers": (lambda xs: jnp.stack([x[0] for x in xs]), 4),
    "array of numbers": (lambda xs: jnp.array([x[0] * 2 for x in xs]), 4),
    "stack along the last axis": (lambda xs: jnp.stack(xs, -1), 4),
    "concatenate": (join, 4),
    "split": (lambda xs: jnp.split(join(xs), 60), 8),
    "dynamic_update_slice": (updated, 120),
    "select": (choose, 5),
    "gradient of indexing": (neighbours, 242),
}
# The same from chapter 19 on, where an update needs no copy of what nobody reads.
in_place = {"dynamic_update_slice": 61, "gradient of indexing": 99}


@pytest.mark.parametrize("name", cliffs)
def test_many_arrays_are_launched_seldom(name):
    f, count = cliffs[name]
    if loading.rewrites:
        count = in_place.get(name, count)
    arrays = [jnp.arange(5, dtype="float32") + k for k in range(60)]
    ways = [compile_plain, *[compile_python] * (name == "concatenate")]
    assert len(make(compile_plain, f, arrays).kernels) == count
    wanted = f(arrays)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    for way in ways:
        alike(make(way, f, arrays)(*arrays), wanted, rtol=1e-5)
    minijit.clear_caches()


def test_an_unwritable_folder_is_one_warning_and_no_obstacle(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("in the way")
    config.update("cache_dir", str(folder))
    with pytest.warns(UserWarning) as told:
        for k in (2, 3):
            run = make(compile_plain, lambda x: x * k, ones(2))  # noqa: B023
            assert run(ones(2))[0].tolist() == [k, k]
    (warning,) = told
    assert str(folder) in str(warning.message)
    assert "MINIJIT_CACHE_DIR" in str(warning.message)


def test_a_full_disk_leaves_no_files(cache, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        run = make(compile_plain, lambda x: x * 2, ones(2))
    assert run(ones(2))[0].tolist() == [2, 2]
    assert os.listdir(cache / "source") == []


def test_no_cache_folder_is_the_default_one(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_folder, "default_folder", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    config.update("cache_dir", "")
    run = make(compile_plain, lambda x: x * 2, ones(5))
    assert os.path.dirname(run.path) == str(tmp_path / "home" / "source")
    assert os.listdir() == [] and os.path.exists(run.path)


@pytest.mark.skipif(os.name != "posix", reason="folders have no mode")
@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_the_cache_folder_is_private(tmp_path, umask):
    config.update("cache_dir", str(tmp_path / "new"))
    before = os.umask(umask)
    try:
        run = make(compile_plain, lambda x: x * 2, ones(5))
    finally:
        os.umask(before)
    for folder in (tmp_path / "new", tmp_path / "new" / "source"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.path.exists(run.path)


@pytest.mark.skipif(os.name != "posix", reason="folders have no mode")
@pytest.mark.parametrize("kind", ["open to all", "a link to one"])
def test_a_folder_that_others_write_to_is_refused(tmp_path, kind):
    config.update("cache_dir", str(tmp_path / "new"))
    (tmp_path / "new").mkdir()
    if kind == "a link to one":
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        (tmp_path / "new" / "source").symlink_to(tmp_path / "open")
    else:
        (tmp_path / "new" / "source").mkdir()
        (tmp_path / "new" / "source").chmod(0o777)
    with pytest.warns(UserWarning, match="other users may write there"):
        run = make(compile_plain, lambda x: x * 2, ones(2))
    assert run(ones(2))[0].tolist() == [2, 2]
    assert os.listdir(tmp_path / "new" / "source") == []


@pytest.fixture
def room_for_16(size):
    """As if the folder had room for 16 files of a size."""
    most = 16 * max(size, cache_folder.LEAST)
    with minijit.config.override("cache_bytes", most):
        yield


@pytest.mark.usefixtures("room_for_16")
@pytest.mark.parametrize("size", [1000, 100_000])
def test_the_files_used_last_are_kept(cache, size):
    now, source = time.time(), cache / "source"
    source.mkdir()
    source.chmod(0o755)  # as an earlier edition left it, whatever the umask is here
    for name, age in (("left.tmp", 7200), ("young.tmp", 0)):
        (source / name).touch()
        os.utime(source / name, (now - age, now - age))
    paths = []
    for k in range(40):
        paths.append(cache_folder.write_source(f"{k:{size}}"))
        os.utime(paths[-1], (now - 1000 + k,) * 2)
        # This one is in use.
        assert os.path.exists(cache_folder.write_source(f"{0:{size}}"))
    kept = {path for path in paths if os.path.exists(path)}
    assert len(kept) <= 16 and {paths[0], *paths[-10:]} <= kept
    assert os.name != "posix" or stat.S_IMODE(source.stat().st_mode) == 0o700
    names = {name for name in os.listdir(source) if name.endswith(".tmp")}
    assert names == {"young.tmp"}


def test_compiled_kernels_are_bounded_and_cleared(monkeypatch):
    minijit.clear_caches()
    assert not native_kernels
    monkeypatch.setattr(native_kernels, "limit", 2)
    runs = [make(compile_python, lambda x, k=k: x[k:] * 2, ones(5)) for k in range(3)]
    assert len(native_kernels) == 2
    for k, run in enumerate(runs):
        assert run(ones(5))[0].tolist() == [2] * (5 - k)
    minijit.clear_caches()
    assert not native_kernels
    assert runs[0](ones(5))[0].tolist() == [2] * 5


def test_a_kernel_that_does_not_compile_is_an_error_that_names_the_file(monkeypatch):
    row = python_emitter.call("np.no_such_function")
    monkeypatch.setitem(python_emitter.operations, "sin", row)
    with pytest.raises(MinijitError, match=r"kernel_0, which minijit wrote to .*\.py"):
        make(compile_python, lambda x: jnp.sin(x), ones(2))


def test_importing_minijit_does_not_import_numba():
    code = "import minijit, sys; assert 'numba' not in sys.modules"
    in_a_process(code)


def test_derivatives_by_integers_are_float0_in_compiled_programs():
    """There is nothing in a float0, so nothing of it reaches a kernel."""
    mj, float0 = minijit, np.dtype([("float0", np.void, 0)])
    nothing = np.zeros((), float0)
    double = lambda x: 2 * x
    pull = lambda p, ct: mj.vjp(double, p)[1](ct)[0]
    slope = mj.grad(lambda x: x * 2.0, allow_int=True)
    many = jnp.arange(3)
    branches = [slope, mj.grad(lambda x: x * 3.0, allow_int=True)]
    for backend in ("python", "plain", "eval"):
        compiled = lambda f, backend=backend: mj.jit(f, backend=backend)
        results = {
            (): [compiled(pull)(4, 1), compiled(lambda p: pull(p, nothing))(4),
                 compiled(pull)(4, nothing),
                 compiled(lambda p: mj.jvp(double, (p,), (nothing,)))(4)[1],
                 compiled(slope)(4),
                 compiled(lambda p, x: lax.cond(p, *branches, x))(True, 3)],
            (3,): [compiled(mj.vmap(slope))(many),
                   compiled(partial(lax.map, slope))(many),
                   compiled(lambda x: x)(np.zeros(3, float0)),
                   compiled(partial(lax.map, lambda x: x))(np.zeros(3, float0))],
        }
        for shape, found in results.items():
            assert [(x.dtype, x.shape) for x in found] == [(float0, shape)] * len(found)
