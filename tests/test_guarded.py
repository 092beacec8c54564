"""Programs in memory with guards, and that the guards see what they are there for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import endurance

pytestmark = pytest.mark.chapter(25)

MISTAKES = """
import ctypes, os, signal
import numpy as np
from tests import guarded

guard = guarded.guard()
import minijit as jax, minijit.numpy as jnp
from minijit import lax
from minijit.run.threads import kernels as threads

def read_past(array, which):
    return ctypes.c_uint8.from_address(array.ctypes.data + which).value

def write_past(array, which):
    ctypes.c_uint8.from_address(array.ctypes.data + which).value = 7

def past_the_end():
    read_past(np.ones(5, "f4"), 20)

def before_the_page():
    with guarded.filled_with(1, begins=True):
        array = np.ones(5, "f4")
        write_past(array, 20)
        del array                            # what lies beside it was changed

def twice_free():
    array = np.ones(5, "f4")
    where = array.ctypes.data
    del array
    ctypes.c_float.from_address(where).value

def a_kernel():
    # The last part of a loop goes one step too far.
    right = threads.ranges
    threads.ranges = lambda *args: [(lo, hi + 1, last) for lo, hi, last in right(*args)]
    jax.config.update("thread_time", 0)
    jax.jit(lambda x: x + 1)(np.ones(4096, "f4"))

def a_room():
    right = guarded.guarded_room
    guarded.guarded_room = lambda m: right(m).replace(
        f"i64 {int(m[2]) * guarded.SIZES[m[3]]}", "i64 1")
    f = lambda x: jnp.exp(x - jnp.max(x, 1, keepdims=True))
    jax.jit(lambda x: f(x) / f(x).sum(1, keepdims=True))(np.ones((60, 100), "f4"))

def nothing():
    for n in (0, 1, 3, 1000, 1025):
        fresh = np.empty(n, "f4")
        assert np.isnan(fresh).all() and not np.zeros(n).any()
        x = jnp.arange(float(n * 3)).reshape(n, 3)
        f = jax.jit(lambda x: lax.scan(lambda c, r: (jnp.sin(c) + r, c), x.sum(0), x))
        f(x)[1].block_until_ready()

for f in (past_the_end, before_the_page, twice_free, a_kernel, a_room, nothing):
    if (child := os.fork()) == 0:
        f()
        os._exit(0)
    print(f.__name__, os.waitpid(child, 0)[1] & 127)
"""


def python(*args):
    found = subprocess.run([sys.executable, *args], capture_output=True, text=True)
    return found, found.stdout + found.stderr[-2000:]


def test_guards_see_mistakes():
    found, said = python("-c", MISTAKES)
    assert found.returncode == 0, said
    deaths = dict(line.split() for line in found.stdout.splitlines())
    touched, changed = str(int(signal.SIGSEGV)), str(int(signal.SIGABRT))
    assert deaths == {
        "past_the_end": touched,
        "before_the_page": changed,
        "twice_free": touched,
        "a_kernel": touched,
        "a_room": touched,
        "nothing": "0",
    }, said


def test_random_programs_stay_in_their_memory():
    found, said = python("-m", "tests.guarded", "16")
    assert found.returncode == 0, said
    assert said.startswith("16 programs from 0 on: dead [], 0 wrong"), said


@pytest.mark.parametrize("seed", [8812763, 8815481, 8814579])
def test_what_once_read_past_its_arrays(seed):
    """Loads left loops that may have no step; a product's memory was never written."""
    found, said = python("-m", "tests.guarded", "1", str(seed))
    assert found.returncode == 0, said


# ---- a moment of `python -m tests.endurance`, without jax


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("kind, budget", [("freed", 0.1), ("donations", 1),
                                          ("forks", 1)])  # fmt: skip
def test_nothing_goes_wrong(kind, budget):
    count, bad = endurance.KINDS[kind](0, budget)
    assert not bad, bad
    assert count > 0


def test_what_dies_and_what_is_wrong_is_said():
    told = []
    environment = lambda seed: told.append(seed) or {"MINIJIT_TARGET": "no such CPU"}
    count, bad = endurance.in_processes("ends", 7, 0.1, environment)
    assert told == [7]
    assert count == 0
    assert "seed 7 ends with 1" in bad[0]
