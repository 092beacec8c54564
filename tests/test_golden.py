"""The loops of some hundred programs are those that are stored: a diff says which not.

Where they are meant to be others: `python -m tests.golden --accept`, and read the diff.
"""

import pytest

from tests.golden.__main__ import difference, families

pytestmark = pytest.mark.chapter(27)


@pytest.mark.fusion
@pytest.mark.parametrize("family", families)
def test_loops_are_those_that_are_stored(family):
    told = difference(family)
    assert not told, f"{told}\nIf it is meant: python -m tests.golden --accept"
