"""A small sample of `python -m tests.fuzz`, and a fresh one."""

import os
import zlib

import numpy as np
import pytest
from harness import refused

import minijit as mj

pytestmark = [pytest.mark.chapter(16), pytest.mark.oracle]


SAMPLES = [("odd", 0, 12), ("real", 0, 5), ("idioms", 0, 6)]


def judged(mode, seed, count, any_way=False):
    from tests.fuzz.judge import Judge, in_any_way
    from tests.fuzz.programs import draw

    judge, right = Judge(jit=in_any_way if any_way else None), 0
    for index in range(count):
        program = draw(mode, seed, index)
        try:
            right += bool(judge(program))
        except Exception as error:
            where = f"python -m tests.fuzz --only {program.name}"
            where += " --any-way" * any_way
            raise AssertionError(f"{where}\n{program.text}") from error
    return right, judge.calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode, seed, count", SAMPLES)
def test_a_fixed_sample(mode, seed, count):
    right, calls = judged(mode, seed, count)
    assert right >= count - 3
    assert calls >= 4 * right


# One for all workers of a run, which collect the same tests.
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", "").encode() or os.urandom(3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [zlib.crc32(RUN)])
@pytest.mark.parametrize("any_way", [False, True])
def test_a_fresh_sample(any_way, seed):
    """Its seed is in its name, which is all that is left of a worker that died.

    Then `python -m tests.fuzz --only odd:SEED:0`, and so on to 5, says which program.
    """
    assert judged("odd", seed, 6, any_way)[0] >= 3


def test_the_judge_sees_a_wrong_number_and_a_drift(monkeypatch):
    pytest.importorskip("jax")
    from tests.fuzz.judge import Judge, Wrong
    from tests.fuzz.programs import Program

    text = "run = lambda x: x.at[3].add(1)\narguments = [np.ones(2000, 'f4')]\n"
    program = Program("by hand", text, False, "forward")
    assert Judge()(program)
    real, calls = mj.jit, []

    def falsified(wrong_from):
        def jit(f):
            made = real(f)

            def call(x):
                calls.append(x)
                return made(x) + (np.float32(0.01) * (len(calls) >= wrong_from))

            return call

        return jit

    for wrong_from, message in [(1, "jit, result 0"), (2, "is not the first answer")]:
        calls.clear()
        monkeypatch.setattr(mj, "jit", falsified(wrong_from))
        refused(Wrong, message, lambda: Judge()(program))
