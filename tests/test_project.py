"""The project: linters, the book's check, the import law, lazy imports, paths."""

import ast
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from minijit.book.imports import executed
from minijit.jaxcompat.jax_modules import single_names

pytestmark = pytest.mark.chapter(16)

root = Path(__file__).resolve().parent.parent
rooms = ["trace", "transform", "compile", "run", "ops"]


def run(*command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def passes(*command):
    result = run(sys.executable, *command)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


def test_ruff_is_content():
    passes("-m", "ruff", "check", "--no-cache", ".")


def test_mypy_is_content():
    passes("-m", "mypy")


def test_the_book_shows_the_library_letter_for_letter():
    passes("minijit/book", "check")


def tracked_files():
    """Paths of the files in git, or of all files where there is no git."""
    listed = run("git", "ls-files", "-z")
    if listed.returncode:
        return [p for p in root.rglob("*") if p.is_file() and ".venv" not in p.parts]
    return [root / name for name in listed.stdout.split("\0") if name]


def test_no_file_names_a_place_on_somebodys_machine():
    homes = "|".join(["root", "home", "Users", "work", "private"])
    place = re.compile(rf"(?<![\w.\-/])/({homes})/[\w.]", re.ASCII)
    found = []
    for path in tracked_files():
        if path.suffix in {".png", ".gz", ".npz", ".npy"} or not path.exists():
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            if place.search(line):
                found.append(f"{path.relative_to(root)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def library_files():
    """`trace/core.py` and so on: the library without the book machinery."""
    files = sorted((root / "minijit").rglob("*.py"))
    names = [path.relative_to(root / "minijit").as_posix() for path in files]
    return [name for name in names if not name.startswith("book/")]


def chapter_order():
    """file -> the place in the book of the first chapter that builds or brings it."""
    book = tomllib.loads((root / "book.toml").read_text())
    order = {}
    for place, chapter in enumerate(book["chapter"]):
        for how in ("brings", "builds", "brings_after"):
            for file in chapter.get(how, []):
                order.setdefault(file.removeprefix("minijit/"), place)
    return order


@functools.cache
def imported_files(file):
    """[(line, library file)] of the imports in a file, those in functions included."""
    package, found = ("minijit/" + file).split("/")[:-1], []
    for node in executed(ast.parse((root / "minijit" / file).read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = above + (node.module.split(".") if node.module else [])
            targets = [[*base, alias.name] for alias in node.names]
        else:
            continue
        found += [(node.lineno, file_of(t)) for t in targets if t[0] == "minijit"]
    return found


def file_of(target):
    """The library file of a dotted name: of the module itself, or the one it is in."""
    for end in range(len(target), 0, -1):
        inside = "/".join(target[1:end])
        for name in (
            f"{inside}.py", f"{inside}/__init__.py".lstrip("/"),
            f"jaxcompat/{inside}.py", f"jaxcompat/{inside}/__init__.py",
        ):  # fmt: skip
            if (root / "minijit" / name).is_file():
                return name
    raise AssertionError(f"no file for {target}")


def room_of(file):
    """The number of a file's room; None for a public module."""
    head = file.split("/")[0]
    return rooms.index(head) if head in rooms else None


def test_imports_go_one_way():
    order = chapter_order()
    bad = []
    for file in library_files():
        room = room_of(file)
        if room is None:
            continue
        for line, target in imported_files(file):
            where = f"minijit/{file}:{line} imports {target}"
            if room_of(target) is None:
                bad.append(f"{where}: a room never imports a public module")
            elif room_of(target) > room:
                bad.append(f"{where}: imports go {' <- '.join(rooms)}")
            elif order.get(target, -1) > order.get(file, len(order)):
                bad.append(f"{where}, which a later chapter builds")
    assert not bad, "\n".join(bad)


# Within a room, folders import from those before them: `compile/lower` never from
# `compile/schedule`.  Files of the room itself are "." in this order, or have no place.
folders = {
    "trace": "base . jaxprs trees jit api".split(),
    "transform": "derivatives batching control_flow custom remat".split(),
    "compile": """
        loops numbers simplify lower schedule fuse memory control report
    """.split(),
    "run": "scalars python llvm threads calls report device cuda".split(),
    "ops": ". lowering".split(),
}
# Arrows that go back: fewer of them, please.
backward = {("compile/schedule", "compile/fuse")}


def folder(file):
    """`compile/lower` of `compile/lower/walk.py`, `trace/.` of `trace/core.py`."""
    room, *within = file.split("/")
    return room, within[0] if len(within) > 1 else "."


def test_folders_of_a_room_are_in_an_order():
    bad, found = [], set()
    for file in library_files():
        room, here = folder(file)
        order = folders.get(room, [])
        if here not in order or not file.endswith(".py"):
            continue
        for line, target in imported_files(file):
            other, there = folder(target)
            if other != room or there not in order:
                continue
            if order.index(there) > order.index(here):
                found.add((f"{room}/{here}", f"{room}/{there}"))
                bad.append(f"minijit/{file}:{line} imports {target}")
    assert found == backward, "\n".join(bad)


def imports():
    """file -> the library's files that it imports, anywhere."""
    return {
        file: {target for _, target in imported_files(file)} - {file}
        for file in library_files()
    }


def test_nothing_imports_what_only_jax_needs_nor_the_book():
    bad = [
        (file, target)
        for file, targets in imports().items()
        for target in targets
        if target.startswith("book/")
        or target.startswith("jaxcompat/") and not file.startswith("jaxcompat/")
    ]
    assert not bad


def test_no_imports_go_in_a_circle():
    left = imports()
    while free := [file for file, targets in left.items() if not targets & {*left}]:
        for file in free:
            del left[file]
    assert not left


def test_the_import_law_is_seen_inside_functions(tmp_path, monkeypatch):
    (tmp_path / "minijit" / "trace").mkdir(parents=True)
    (tmp_path / "minijit" / "numpy.py").touch()
    source = "def f():\n    from .. import numpy\n    import minijit.numpy\n"
    (tmp_path / "minijit" / "trace" / "x.py").write_text(source)
    monkeypatch.setattr(sys.modules[__name__], "root", tmp_path)
    assert imported_files("trace/x.py") == [(2, "numpy.py"), (3, "numpy.py")]


def test_importing_minijit_stays_light():
    heavy = "numba llvmlite scipy jax matplotlib IPython pytest cuda".split()
    public = [f[:-3] for f in library_files() if "/" not in f and f != "__init__.py"]
    code = f"""
import sys, minijit, importlib
for name in {public}:
    importlib.import_module("minijit." + name)
print([name for name in {heavy} if name in sys.modules])
"""
    assert run(sys.executable, "-c", code).stdout == "[]\n"


def test_modules_are_imported_when_they_are_asked_for():
    """What most programs do without, such as all for CUDA, is imported by its use."""
    code = """
import sys, numpy, ml_dtypes
known = {*sys.modules}
import minijit
print(*[m for m in sys.modules if m not in known and m.split(".")[0] != "minijit"])
loaded = lambda: [m[8:] for m in sys.modules if m.startswith("minijit.")]
print(*loaded())
import minijit.lax, minijit.nn, minijit.random
minijit.vmap(minijit.grad(lambda x: minijit.numpy.sin(x) * x))(minijit.numpy.ones(3))
minijit.vmap(minijit.numpy.var)(minijit.numpy.ones((3, 3)))
print(*loaded())
minijit.grad(minijit.jit(lambda x: (x * x).sum()))(minijit.numpy.ones(3))
print(*loaded())
minijit.jit(lambda x: x.T * 2, backend="cuda-lockstep")(minijit.numpy.ones((9, 9)))
print(*loaded())
"""
    lines = run(sys.executable, "-c", code).stdout.splitlines()
    others, before, eager, after, used = map(str.split, lines)
    assert not [m for m in eager if m.startswith(("compile", "run", "ops.lowering"))]
    names = [f[:-3].replace("/", ".") for f in library_files() if f[-3:] == ".py"]
    of_cuda = {n for n in names if n.startswith(("run.cuda.", "run.device."))}
    of_cuda -= {"run.cuda.rows", "run.cuda.__init__"}
    assert len(of_cuda) > 20
    assert not of_cuda & {*before} and not of_cuda & {*after}
    assert not [name for name in after if name.startswith("jaxcompat")]
    assert {"run.device.tiles", "run.device.lockstep"} < of_cuda & {*used}
    # Each costs a third of a millisecond: is it needed to trace and to differentiate?
    # Of Python's own there are few that NumPy does not import, in any edition of both.
    files = {file_of(["minijit", *name.split(".")]) for name in before}
    texts = [(root / "minijit" / file).read_text() for file in files]
    lines = sum(bool(line.strip()) for text in texts for line in text.splitlines())
    assert len([*filter(None, texts)]) <= 90 and lines <= 18_000
    assert len(others) <= 20


# Programs of which each prints 12.0: the first compile is whole, however it comes.
first_compiles = {
    "threads": """
from concurrent.futures import ThreadPoolExecutor
import minijit
def f(place):
    if place:
        getattr(minijit, place)
    return float(minijit.jit(lambda x: x * 4)(3.0))
places = ["", "explain", "", "fuse", "testing", "export", "profiler"]
with ThreadPoolExecutor(7) as pool:
    print(*{*pool.map(f, places)})
""",
    "after an import that ended early": """
import sys, minijit
class Refusing:
    def find_spec(self, name, *rest):
        if name == "minijit.run.calls.dispatch":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Refusing())
f = minijit.jit(lambda x: x * 4)
try:
    f(3.0)
except KeyboardInterrupt:
    del sys.meta_path[0]
    print(f(3.0))
""",
    "a row that was there first": """
import minijit
from minijit.compile.lower.elements import one_operation
from minijit.compile.lower.walk import lower_rules
lower_rules[minijit.lax.sub_p] = one_operation("mul")
print(minijit.jit(lambda x: x - 4, backend="plain")(3.0))
""",
    "names that threads ask for at once": """
from concurrent.futures import ThreadPoolExecutor
import minijit.numpy as jnp
with ThreadPoolExecutor(8) as pool:
    found = [*pool.map(lambda i: [getattr(jnp, n) for n in dir(jnp)], range(8))]
same = all(f is g for names in found for f, g in zip(names, found[0], strict=True))
print(12.0 if same and jnp.median.__wrapped__ is not jnp.median else None)
""",
    "platforms": """
import minijit
from minijit.extend.backend import backends
from minijit.trace.api.devices import platforms
print(12.0 if "cpu" in backends() and "gpu" in platforms else None)
""",
    "flags of the environment": """
import os
os.environ["MINIJIT_FUSION"] = "enabled=False"
import minijit
f = minijit.jit(lambda x: x * 4)
f(3.0), minijit.config.fusion, f(3.0)
print(f(3.0) * len(f.traces) if not minijit.config.fusion.enabled else None)
""",
}


@pytest.mark.parametrize("how", first_compiles)
def test_the_first_compile_is_whole(how):
    done = run(sys.executable, "-c", first_compiles[how])
    assert done.stdout == "12.0\n", done.stderr


def test_every_test_file_names_its_chapter():
    chapters = {str(c["id"]) for c in tomllib.loads((root / "book.toml").read_text())[
        "chapter"
    ]}
    for path in sorted((root / "tests").glob("test_*.py")):
        text = path.read_text()
        marks = re.search(r"^pytestmark = (\[.*?\]|.*?)\n", text, re.M | re.S)
        found = marks and re.search(r"chapter\((.+?)\)", marks[1])
        if not path.name.startswith("test_book_"):
            assert found, f"{path.name} has no pytestmark = pytest.mark.chapter(...)"
            assert found[1].strip("\"'") in chapters, f"{path.name}: chapter {found[1]}"


def test_the_readme_has_its_two_commands():
    readme = (root / "README.md").read_text()
    commands = re.findall(r"^python3 -m venv \.venv && .*$", readme, re.M)
    assert len(commands) == 2
    make, opened = commands[0].split(" && ")[-2:]
    assert make == ".venv/bin/python -m minijit.book start"
    assert opened == ".venv/bin/jupyter lab my_chapters/00_start_here.ipynb"
    assert ".venv/bin/python -m pytest --nbval" in commands[1]
    # `.ci/run` types both, and finds them by these words.
    typed = (root / ".ci" / "run").read_text()
    assert '"^python3 -m venv .*$1"' in typed
    assert "$(typed pytest)" in typed and '$(typed "jupyter lab"' in typed


# Where the README says `python3 -m venv .venv`, in the test below.
VENV = """#!/bin/sh
mkdir -p .venv/bin
for name in jupyter pip python; do
  cat >.venv/bin/$name <<EOF
#!/bin/sh
echo "ran: $name \\$*"
case "\\$*" in *"$FAILS"*) exit 1; esac
EOF
  chmod +x .venv/bin/$name
done
"""


@pytest.mark.parametrize("fails", ["nothing", "my_chapters/01", "pytest --nbval"])
def test_ci_types_the_readmes_commands_in_order(tmp_path, fails):
    """What they call is replaced here; the script is real."""
    if not shutil.which("git") or not shutil.which("bash"):
        pytest.skip("needs git and bash")
    repo, fakes = tmp_path / "repo", tmp_path / "bin"
    for path in (".ci/run", "README.md"):
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, repo / path)
    fakes.mkdir()
    fake = {"python3": VENV, "id": "#!/bin/sh\necho 1000\n", "chromium": "#!/bin/sh\n"}
    for name, text in fake.items():
        (fakes / name).write_text(text)
        (fakes / name).chmod(0o755)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for line in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *line], cwd=repo, check=True)
    path = f"{fakes}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "FAILS": fails, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", str(repo / ".ci" / "run")], env=env, capture_output=True, text=True
    )
    assert done.returncode == (fails != "nothing"), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    ran = [line[5:] for line in lines if line.startswith("ran: ")]
    tests, notebooks = "python -m pytest --nbval -n auto --dist loadfile", ["00", "01"]
    if fails != "my_chapters/01":
        notebooks += ["02", "06", "17"]
    assert ran == [
        "pip install -q -e .[test]", tests, "pip install -q -e .[test,oracle]",
        "python -m pytest -m oracle -n auto --dist loadfile",
        "pip install -q -e .[book]", "python -m minijit.book start",
        *(f"jupyter execute my_chapters/{n}_*.ipynb" for n in notebooks),
        "pip install -q -e .[test,browser]",
        "python -m pytest tests/test_book_lab.py tests/test_book_pages.py", tests,
    ]  # fmt: skip
    assert lines[-1] == f"ran: {tests}"


def test_another_librarys_tests_are_not_taken_for_ours(tmp_path):
    """Some libraries install a package `tests`; scripts here find theirs alone."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/__init__.py").write_text("raise ImportError('not ours')")
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    run = [sys.executable, "-c", "import tests.gpu as m; print(m.__file__)"]
    done = subprocess.run(run, cwd=root, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(root / "tests/gpu.py"), done.stderr


def test_plain_pytest_covers_the_tests_and_the_book():
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    assert settings["tool"]["pytest"]["ini_options"]["testpaths"] == [
        *("tests", "chapters")
    ]
    assert importlib.util.find_spec("nbval"), "nbval runs the book's notebooks"


def readme_blocks(language):
    """The fenced blocks of the README in a language, '' for those without one."""
    readme = (root / "README.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", readme, re.M | re.S)
    return [text for words, text in blocks if words == language]


def test_the_readme_shows_what_its_first_program_prints():
    shown = run(sys.executable, "-c", readme_blocks("python")[0])
    assert not shown.stderr
    jaxpr, kernel = (block for block in readme_blocks("") if ".venv" not in block)
    assert shown.stdout.startswith(jaxpr)
    assert kernel in shown.stdout


def test_the_program_in_the_readme_runs():
    shown = run(sys.executable, "-c", readme_blocks("python")[1])
    assert not shown.stderr
    first, second, *_, why = shown.stdout.splitlines()
    assert first.startswith("[[-0.99") and second.endswith("]]")
    assert "first call" in why


def test_places_named_by_text_are_there():
    """`on_demand("run.report.explaining:explain")`: no import would miss a file."""
    named = re.compile(r'"((?:[a-z_0-9]+\.)*[a-z_0-9]+):([A-Za-z_]\w*)"')
    found = {
        place
        for file in library_files()
        for place in named.findall((root / "minijit" / file).read_text())
        if place != ("module", "name")
    }
    found |= {tuple(place.split(":")) for place in single_names.values()}
    missing = [
        (module, name)
        for module, name in sorted(found)
        if not hasattr(importlib.import_module(f"minijit.{module}".strip(".")), name)
    ]
    assert len(found) > 25 and not missing
