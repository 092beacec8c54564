"""Machine code on the disk: a second process compiles nothing, and damage is mended."""

import errno
import os
import stat
import warnings

import numpy as np
import pytest
from harness import in_a_process, in_threads

import minijit as mj
import minijit.numpy as jnp
from minijit import config, lax
from minijit.run import cache_folder
from minijit.run.llvm import engine as llvm_engine, object_cache, target as llvm_target

pytestmark = pytest.mark.chapter(25)

x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def programs():
    """name -> (function, what it gives for x)."""
    step = lambda c, _: (jnp.tanh(c @ x.T @ x), c.sum())
    return {
        "elementwise": lambda x: jnp.sin(x) * 2 + 1,
        "reduction": lambda x: jnp.exp(x).sum(0),
        "loop with a product": lambda x: lax.scan(step, x, None, length=3),
        "loop": lambda x: lax.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x),
        "halves": lambda x: x.astype(jnp.float16) * 3,
    }


SECOND = """
import numpy as np
import minijit as mj
from minijit.run.llvm import engine as llvm_engine
import test_object_cache as tests

made = []
compile = llvm_engine.optimised
llvm_engine.optimised = lambda *args: made.append(1) or compile(*args)
results = [mj.jit(f)(tests.x) for f in tests.programs().values()]
print(len(made), sum(float(np.sum(np.asarray(y, "f8")))
                     for r in results for y in mj.tree.leaves(r)))
"""


@pytest.fixture(autouse=True)
def objects(tmp_path):
    """The folder for machine code, one for each test."""
    before = config.cache_dir
    config.update("cache_dir", str(tmp_path))
    yield tmp_path / "objects"
    config.update("cache_dir", before)


def files(folder):
    return sorted(folder.iterdir())


def machine_code(text, how):
    """What the cache has for one module."""
    code, = object_cache.kept_machine_codes((text, how))
    return code


def text_of(k):
    """A module of its own for each number."""
    return f"define i32 @f() {{\n  ret i32 {k}\n}}\n"


@pytest.fixture
def compiles(monkeypatch):
    """What LLVM compiles, one entry for each module."""
    made, optimised = [], llvm_engine.optimised
    recorded = lambda *args: made.append(args) or optimised(*args)
    monkeypatch.setattr(llvm_engine, "optimised", recorded)
    return made


def run_second(folder):
    """(modules compiled, sum of the results) of a new process."""
    told = in_a_process(SECOND, MINIJIT_CACHE_DIR=str(folder.parent))
    made, total = told.split()
    return int(made), float(total)


def test_a_second_process_compiles_nothing(objects):
    made, total = run_second(objects)
    assert made >= len(programs()) and len(files(objects)) == made
    assert run_second(objects) == (0, total)


def test_what_code_depends_on_is_in_its_name(objects, compiles):
    texts = [text_of(3), text_of(4)]
    for text in texts * 2:
        for how in llvm_target.pass_options:
            machine_code(text, how)
    assert len(compiles) == len(files(objects)) == 6
    for how in llvm_target.pass_options:
        known = object_cache.compiler(how)
        for part in (*llvm_target.host(), llvm_target.binding().llvm_version_info):
            assert str(part) in known
        for name, value in llvm_target.pass_options[how].items():
            assert f"'{name}': {value}" in known


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "another's"])
def test_damage_is_mended(objects, compiles, damage):
    text = text_of(5)
    code = machine_code(text, "thorough")
    (path,) = files(objects)
    whole = path.read_bytes()
    path.write_bytes({
        "cut": whole[:-7],
        "changed": whole[:90] + bytes([whole[90] ^ 1]) + whole[91:],
        "empty": b"",
        "another's": b"x" * 2000,
    }[damage])
    assert machine_code(text, "thorough") == code
    assert len(compiles) == 2
    assert path.read_bytes() == whole
    assert machine_code(text, "thorough") == code
    assert len(compiles) == 2


@pytest.mark.parametrize("place, factor", [("file", 7), ("~", 9)])
def test_what_cannot_be_kept_runs_all_the_same(tmp_path, monkeypatch, place, factor):
    """A file is in the way, or the user has no home: nothing is made there."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    config.update("cache_dir", os.path.join(place, "minijit"))
    with pytest.warns(UserWarning, match="cannot keep the files"):
        assert mj.jit(lambda v: v * factor - 1)(2.0) == 2 * factor - 1
    assert os.listdir() == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="folders have no mode")
def test_code_that_others_could_have_written_is_not_run(objects, compiles):
    text = text_of(6)
    machine_code(text, "thorough")
    objects.chmod(0o777)
    with pytest.warns(UserWarning, match="other users may write there"):
        machine_code(text, "thorough")
    assert len(compiles) == 2


@pytest.mark.skipif(os.name != "posix", reason="folders have no mode")
def test_the_folder_is_private(objects):
    machine_code(text_of(7), "thorough")
    assert stat.S_IMODE(objects.stat().st_mode) == 0o700


def test_it_is_bounded(objects):
    with config.override("cache_bytes", 8 * cache_folder.LEAST):
        for k in range(30):
            machine_code(text_of(k), "brief")
    assert len(files(objects)) <= 8


def test_threads_write_one_file(objects):
    text, codes = text_of(8), []
    work = lambda: codes.append(machine_code(text, "thorough"))
    in_threads(*[work] * 8)
    assert len(set(codes)) == 1 and len(files(objects)) == 1
    assert machine_code(text, "thorough") == codes[0]


def test_a_file_under_the_name_of_another_key_is_made_again(objects, compiles):
    for k in (1, 2):
        machine_code(text_of(k), "brief")
    first, second = files(objects)
    code = {path: path.read_bytes() for path in (first, second)}
    first.write_bytes(code[second])
    second.write_bytes(code[first])
    for k in (1, 2):
        machine_code(text_of(k), "brief")
    assert len(compiles) == 4
    assert {path: path.read_bytes() for path in (first, second)} == code


def test_files_on_a_read_only_mount_are_used(objects, compiles, monkeypatch):
    want = machine_code(text_of(1), "brief")
    objects.chmod(0o755)

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("utime", "chmod", "replace", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine_code(text_of(1), "brief") == want
    assert len(compiles) == 1


@pytest.mark.skipif(os.name != "posix", reason="links and owners are POSIX's here")
def test_the_folder_may_be_a_link_of_the_users_own(objects, tmp_path, compiles):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    objects.symlink_to(elsewhere)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            machine_code(text_of(1), "brief")
    assert len(compiles) == len(files(elsewhere)) == 1
    elsewhere.chmod(0o777)
    cache_folder.unusable.clear()
    with pytest.warns(UserWarning, match="other users may write there"):
        machine_code(text_of(1), "brief")


def test_of_many_modules_only_new_ones_are_compiled(objects, compiles):
    codes = [machine_code(text_of(k), "brief") for k in range(2)]
    jobs = [(text_of(k), "brief") for k in (2, 0, 3, 1)]
    found = object_cache.kept_machine_codes(*jobs)
    assert len(compiles) == 4 and found[1::2] == codes
    assert found == [machine_code(*job) for job in jobs] and len(compiles) == 4
