"""Every stage of the library stands: its modules import, its chapter's tests pass.

So tests of the library run twice: all of them on the whole of it, and one case of each
test function on the stage of the first chapter that can run it.  Where tests compile, a
sample of the functions runs on the stage: that it has all the names they need is seen
by few, and compiling takes minutes.  The exercises are judged in test_book_real.py.
"""

from __future__ import annotations

import book_toy
import pytest

from minijit.book.project import Chapter, find_book
from minijit.book.stages import all_stages

BOOK = find_book(book_toy.REPO)


@pytest.mark.parametrize("chapter", [pytest.param(c, id=c.id) for c in BOOK.chapters])
def test_a_stage_stands(chapter: Chapter):
    compiles = chapter.index >= BOOK.chapter("15").index
    assert all_stages(BOOK, chapter, every=8 if compiles else 1, judge=False) == []
