"""What `%check` says: the case that failed, what came, what was expected, a hint."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable
from typing import Any

import pytest

from minijit.book import exercise
from minijit.book.cases import HOOK, Cases, rewritten

CHECKS = '''
import numpy as np

def close(x): return abs(x)

def check_twice(answer):
    """Think."""
    for n in (1, 2):
        assert answer(n) == 2 * n

def check_pair(pair):
    """Think."""
    first, second = pair(3)
    assert first == 3 and second.real == 4, "the second is one more"

def check_near(near):
    """Think."""
    got = near(2.0)
    assert abs(float(got) - 2.0**0.5) < 1e-5

def check_rows(rows):
    """Think."""
    x = np.arange(3.0)
    assert np.allclose(rows(x), [0.0, 2.0, 4.0])
    assert (rows(x) == 2 * x).all()

def check_word(word):
    """Think."""
    assert "ready" in word

def check_none(none):
    """Think."""
    assert not none(1)

def check_applied(applied):
    """Think."""
    assert list(map(applied, [1]))[0].bit_length() == 1

def check_strict(strict):
    """Think."""
    if strict != 1:
        raise AssertionError("too small")
    return "no"

def check_alive(alive):
    """Think."""
    import weakref
    found = alive()
    assert found is not None
    kept = weakref.ref(found)
    del found
    assert kept() is None
'''


@pytest.fixture(scope="module")
def checks() -> dict[str, Any]:
    space: dict[str, Any] = {HOOK: Cases()}
    linecache.cache["<checks>"] = (1, None, CHECKS.splitlines(True), "<checks>")
    exec(compile(rewritten(ast.parse(CHECKS)), "<checks>", "exec"), space)
    return space


def answer(text: str) -> Callable[..., Any]:
    """The function of a cell."""
    linecache.cache["<a cell>"] = (1, None, text.splitlines(True), "<a cell>")
    space: dict[str, Any] = {}
    exec(compile(text, "<a cell>", "exec"), space)
    return next(v for k, v in space.items() if callable(v))


LATER = "  (the next try shows a hint)"
TOLD: list[tuple[str, Any, list[str]]] = [
    ("pair", lambda n: (n, n), ["second.real", "  came      3", "  expected  4",
                                "            the second is one more",
                                "  where     first, second = pair(3)"]),
    ("near", lambda x: 1.5, ["float(got)", "  came      1.5",
                             "  expected  1.4142135623730951 (within 1e-05)",
                             "  where     got = near(2.0)"]),
    ("rows", lambda x: x + 1, ["rows(x)", "  came      array([1., 2., 3.])",
                               "  expected  [0.0, 2.0, 4.0]",
                               "  where     x = np.arange(3.0)"]),
    ("word", "no", ["word", "  expected  'ready' (in what came)", "  came      'no'"]),
    ("none", lambda x: x, ["none(1)", "  came      1", "  expected  False"]),
    ("applied", lambda x: [].sort(),
     ["list(map(applied, [1]))[0].bit_length() == 1",
      "  raised    AttributeError: 'NoneType' object has no attribute 'bit_length'"]),
    ("pair", lambda n: [].sort(),
     ["pair(3)", "  came      None",
      "  and then  TypeError: cannot unpack non-iterable NoneType object"]),
    ("strict", 0, ["raise AssertionError(\"too small\")", "            too small"]),
    ("strict", 1, ["the check of strict says 'no'"]),
    ("pair", dict,
     ["pair(3)", "  raised    TypeError: 'int' object is not iterable"]),
]  # fmt: skip


@pytest.mark.parametrize("name, given, told", TOLD)
def test_what_is_said(checks: dict[str, Any], name: str, given: Any, told: list[str]):
    check = checks[f"check_{name}"]
    found = exercise.verdict(check, given).split("\n")
    assert found == [f"not yet: {told[0]}", *told[1:], LATER]


def test_a_hint_comes_at_the_second_try(checks: dict[str, Any]):
    check = checks["check_word"]
    assert exercise.verdict(check, "no", 2).endswith("\n  hint      Think.")
    assert exercise.verdict(check, "is ready", 2) == "right"


def test_the_readers_line_and_loop_variables_are_named(checks: dict[str, Any]):
    wrong = answer("def f(n):\n    x = [][n]\n    return x")
    check = checks["check_twice"]
    check.__globals__[HOOK].called = None
    assert exercise.verdict(check, wrong).split("\n") == [
        "not yet: answer(n) == 2 * n",
        "  raised    IndexError: list index out of range",
        "  in        line 2 of its cell: x = [][n]", LATER,
    ]
    told = exercise.verdict(check, lambda n: 2).split("\n")
    assert told[:4] == ["not yet: answer(n)", "  came      2", "  expected  4",
                        "  where     n = 2"]


def test_an_empty_answer_is_called_empty(checks: dict[str, Any]):
    for text in ("def f(x):\n    ...", 'def f(x):\n    """Words."""\n    ...'):
        told = exercise.verdict(checks["check_near"], answer(text))
        assert told.startswith("not yet: `near` is empty so far")
    told = exercise.verdict(checks["check_near"], lambda x: 1.0)
    assert "empty" not in told


def test_an_endless_answer_is_stopped(checks: dict[str, Any]):
    endless = answer("def f(x):\n    while True:\n        x += 1")
    told = exercise.verdict(checks["check_near"], endless, seconds=0.2).split("\n")
    assert told[0] == "not yet: near(2.0)"
    assert told[1] == "  stopped after 0.2 seconds; does a loop in it ever end?"


def test_an_answer_is_timed_by_its_own_work(checks: dict[str, Any]):
    """Not by the clock: other programs may have the cores."""
    waits = answer("import time\ndef f(x):\n    time.sleep(0.4)\n    return x * 0 - 9")
    told = exercise.verdict(checks["check_near"], waits, seconds=0.2)
    assert "stopped" not in told and "came      -9.0" in told, told
    waits = answer("import time\ndef f(x):\n    time.sleep(60)")
    told = exercise.verdict(checks["check_near"], waits, seconds=0.05)
    assert "stopped after 0.05 seconds" in told


def test_a_check_may_ask_whether_a_result_is_alive(checks: dict[str, Any]):
    class Thing: ...

    assert exercise.verdict(checks["check_alive"], Thing) == "right"

def test_where_there_are_no_threads_lines_look_at_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a browser: an answer that never ends is stopped, and one that ends is not."""

    def endless(n: int) -> None:
        while True:
            pass

    def check_it(it: Callable[[int], Any]) -> None:
        """Think."""
        assert it(2) == 4

    monkeypatch.setattr(exercise.sys, "platform", "emscripten")
    monkeypatch.setattr(exercise.threading, "Thread", None)
    before = sys.gettrace()
    told = exercise.verdict(check_it, endless, seconds=0.2)
    assert "stopped after 0.2 seconds" in told
    assert exercise.verdict(check_it, lambda n: 2 * n, seconds=60) == "right"
    assert sys.gettrace() is before
