"""Fixtures that tests of several rooms ask for."""

import gc
import importlib.util
import itertools
import os
import re
import sys

import pytest

# Where a test of the library fails, the library's frames say why.
os.environ.setdefault("MINIJIT_TRACEBACK_FILTERING", "off")
# Loops are those of one machine, whichever CPU this is.
os.environ.setdefault("MINIJIT_MACHINE", "book")
# Tests and notebooks run side by side, a process for each core.  Threads of a BLAS wait
# for each other after each product: with two they take many times as long then.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# XLA's optimizer takes longer than what jax is asked for would save by it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


def pytest_configure(config):
    """Give files to the workers of xdist in alphabetical order.

    Its own order, by the number of tests, keeps the longest file (test_book_stages.py,
    a test a chapter) for the end, when one worker runs it and the others wait.
    """
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    if executor := os.environ.get("MINIJIT_TESTS_EXECUTOR"):
        from minijit.trace.base.demand import add_rows
        from minijit.trace.jit.jit import executors

        add_rows("trace.jit.jit")
        executors["default"] = executors[executor]


def pytest_collection_modifyitems(items):
    """Pass over what needs jax where jax is not installed.

    And without fusion, over the tests that are about what it does.
    """
    if importlib.util.find_spec("jax") is None:
        skip = pytest.mark.skip(reason="compares with jax, which is not installed")
        for item in items:
            if item.get_closest_marker("oracle"):
                item.add_marker(skip)
    if "enabled=False" in os.environ.get("MINIJIT_FUSION", ""):
        skip = pytest.mark.skip(reason="MINIJIT_FUSION disables fusion")
        for item in items:
            if item.get_closest_marker("fusion"):
                item.add_marker(skip)


modules_since_all_was_collected = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def little_to_collect(request):
    """Let collections pass over what earlier modules and the libraries made.

    There are millions of such objects late in a run, and some tests collect often.
    What was passed over and is garbage by now goes with every tenth module.  A module
    that looks for leaked tracers says `asks_for_referrers = True`: those of objects
    that are passed over are not found.
    """
    if getattr(request.module, "asks_for_referrers", False):
        gc.unfreeze()
        return
    if next(modules_since_all_was_collected) % 10 == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """A test ends where it began: no trace goes on, no error names another's line."""
    yield
    if core := sys.modules.get("minijit.trace.core"):
        from minijit.trace.base.errors import replayed

        assert isinstance(core.current.trace, core.EvalTrace)
        assert replayed.now() == (None, ())


@pytest.fixture
def no_words_of_the_test(monkeypatch):
    """Errors quote the user's line without its strings.

    The words that a row of a table wants stand on the line that its error quotes: they
    were there whatever the error said.
    """
    from minijit.trace.base.errors import Source

    whole = Source.text
    less = lambda source: re.sub(r"""(["']).*?\1""", "...", whole(source))
    monkeypatch.setattr(Source, "text", less)


@pytest.fixture
def in_double_precision():
    """Floats of 64 bits."""
    import minijit

    with minijit.enable_x64(True):
        yield


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret: what is tested is what programs mean, and compiling takes its time."""
    # Imported here: the tests of the first chapters run where there is no jit yet.
    import minijit
    from minijit.trace.base.demand import add_rows
    from minijit.trace.jit.jit import executors

    add_rows("trace.jit.jit")
    monkeypatch.setitem(executors, "default", executors["eval"])
    minijit.clear_caches()
    yield
    minijit.clear_caches()


@pytest.fixture
def interpreted_doubles(interpreted, in_double_precision):
    """Interpreted, and in 64 bits."""


@pytest.fixture
def unfused():
    """Programs as the walk of `lower` leaves them, before kernels are merged."""
    from minijit.trace.base.config import config

    with config.override("fusion", config.fusion.but(enabled=False)):
        yield


@pytest.fixture
def without_jax(monkeypatch):
    """For tests that look at modules of JAX by name, whoever imported JAX before."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("jax", "jaxlib"):
            monkeypatch.delitem(sys.modules, name)
