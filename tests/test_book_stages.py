"""Every stage of the library stands: its modules import, its chapter's tests pass.

So tests of the library run twice: all of them on the whole of it, and one case of each
test function on the stage of the first chapter that can run it.  Where tests compile, a
sample of the functions runs on the stage: that it has all the names they need is seen
by few, and compiling takes minutes.  Where numba does it, until chapter 22 brings LLVM,
the sample runs its kernels as plain Python, those apart that a test asks numba for: the
notebooks compile by numba on the same stages.

The exercises are judged beside: those of tours and capstones on the finished library.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import book_toy
import pytest

from minijit.book.project import Chapter, find_book
from minijit.book.stages import all_stages, judge_exercises, stage_folder

BOOK = find_book(book_toy.REPO)


@pytest.mark.parametrize("chapter", [pytest.param(c, id=c.id) for c in BOOK.chapters])
def test_a_stage_stands(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    compiles = chapter.index >= BOOK.chapter("16").index
    if compiles and chapter.index < BOOK.chapter("23").index:
        monkeypatch.setenv("MINIJIT_TESTS_EXECUTOR", "plain")
    assert all_stages(BOOK, chapter, every=8 if compiles else 1) == []


WHOLE = [pytest.param(c, id=c.id) for c in BOOK.written() if c.whole]


@pytest.fixture(scope="module")
def finished() -> Iterator[Path]:
    """The finished library, in one folder for all notebooks that use it."""
    with stage_folder(BOOK, BOOK.chapters[-1]) as folder:
        yield folder


@pytest.mark.parametrize("chapter", WHOLE)
def test_exercises_are_in_order(finished: Path, chapter: Chapter):
    assert judge_exercises(BOOK, chapter, finished) == 0
