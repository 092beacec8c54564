"""Programs written for JAX, with its libraries, give what they give on JAX itself.

Each file of `tests/programs` runs in a process of its own through `minijit.as_jax`, and
what it prints is compared with what it prints on JAX: in another process, or stored.
What libraries rely on, without them, is in `test_libraries_meet`; where one is not
installed, its program is skipped.
"""

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from referee import kept

pytestmark = [pytest.mark.chapter(25), pytest.mark.oracle]

folder = Path(__file__).parent / "programs"
libraries = {
    "optax_optimizers": "optax",
    "equinox_transforms": "equinox",
    "lineax_solvers": "lineax equinox",
    "flax_nnx": "flax optax",
    "numpyro_nuts": "numpyro",
    "diffrax_ode": "diffrax",
    "penzai_named": "penzai",
}
# On their own they prove `as_jax` where no library is installed.
with_jax_alone = ["jax_classifier", "jax_one_device", "jax_own_primitive"]
with_jax_alone += ["jax_quickstart", "jax_policy_gradient"]

number = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)\b"
word = re.compile(rf"{number}|[^\d\s]+")


def output(program, *how):
    """What a program prints."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-W", "ignore", *how, str(folder / f"{program}.py")]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout


def as_number(text):
    return float(text) if re.fullmatch(number, text) else text


def same(x, y):
    if isinstance(x, str) or isinstance(y, str):
        return x == y
    return math.isclose(x, y, rel_tol=2e-4, abs_tol=2e-4) or (x != x and y != y)


def compare(program, theirs):
    both = theirs, output(program, "-m", "minijit.as_jax")
    theirs, ours = ([as_number(x) for x in word.findall(text)] for text in both)
    assert len(theirs) > 3
    assert [x for x, y in zip(theirs, ours, strict=True) if not same(x, y)] == []


@pytest.mark.parametrize("program", with_jax_alone)
def test_programs_of_jax_alone(program):
    pytest.importorskip("jax")
    text = (folder / f"{program}.py").read_text()
    compare(program, kept(text, lambda: output(program)))


@pytest.mark.parametrize("program,names", libraries.items())
def test_programs_with_libraries(program, names):
    for name in ("jax", *names.split()):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    compare(program, output(program))


def test_every_program_is_run():
    files = {path.stem for path in folder.glob("*.py")}
    assert files == {*libraries, *with_jax_alone}
