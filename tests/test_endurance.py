"""A moment of `python -m tests.endurance`, without jax."""

import os
from pathlib import Path

import pytest

from tests import endurance

pytestmark = pytest.mark.chapter(25)


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
