"""Fixtures that tests of several rooms ask for."""

import pytest


@pytest.fixture
def interpreted_in_double_precision(monkeypatch):
    """Interpret, for rules are tested and compiling takes its time; in 64 bits."""
    # Imported here: the tests of the first chapters run where there is no jit yet.
    import minijit
    from minijit.trace.jit import executors

    monkeypatch.setitem(executors, "default", executors["eval"])
    minijit.clear_caches()
    with minijit.enable_x64(True):
        yield
    minijit.clear_caches()
