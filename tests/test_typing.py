"""What type checkers and editors are told: the package's names, a user's program.

mypy reads the program with the library, as strictly as it can: test_project.py.
"""

import ast
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.chapter(25)

root = Path(__file__).resolve().parent.parent
program = root / "tests" / "typed_program.py"


def test_each_public_name_is_there_for_type_checkers():
    tree = ast.parse((root / "minijit" / "__init__.py").read_text(encoding="utf-8"))
    nodes = [*ast.walk(tree)]
    told = {x.target.id for x in nodes if isinstance(x, ast.AnnAssign)}
    told |= {x.asname for x in nodes if isinstance(x, ast.alias)}
    # In a process of its own: what other tests imported is there as well.
    names = "import minijit; print(*dir(minijit))"
    there = subprocess.check_output([sys.executable, "-c", names], text=True).split()
    assert told >= {*there} > {"jit"}, "in minijit/__init__.py: `x as x`"
    assert (root / "minijit" / "py.typed").exists()


def test_the_typed_program_runs(capsys):
    runpy.run_path(str(program))
    assert "Compiled: loss(" in capsys.readouterr().out


def test_pyright_finds_no_error(tmp_path):
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed (npm install pyright)")
    python = Path(sys.executable)
    settings = {"extraPaths": [str(root)], "include": [str(program)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [pyright, f"--pythonpath={python}", "--project", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
