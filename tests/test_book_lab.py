"""The real JupyterLab, as a newcomer uses it, in a headless Chromium.

It needs playwright (the extra `browser`), JupyterLab and the system's Chromium
(on Debian and Ubuntu `apt install chromium`), and is skipped where one is not there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import book_toy
import pytest

from minijit.book.course import HOLE, tasks
from minijit.book.exercise import exercises
from minijit.book.grade import solution_text
from minijit.book.notebook import load, source
from minijit.book.project import find_book
from minijit.book.reader import KERNELS

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed"
)
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

BOOK = find_book(book_toy.REPO)
PATIENCE = 180_000  # milliseconds, for the slowest of machines


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the files as they stand, committed."""
    root = tmp_path_factory.mktemp("clone") / "minijit"
    known = ["--cached", "--others", "--exclude-standard"]
    listed = git(BOOK.root, "ls-files", "-z", *known)
    for name in [n for n in listed.split("\0") if n and (BOOK.root / n).is_file()]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BOOK.root / name, root / name)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    who = ["-c", "user.name=a reader", "-c", "user.email=reader@example.org"]
    git(root, *who, "commit", "--quiet", "--message", "a checkout")
    return root


def git(root: Path, *args: str) -> str:
    """Run git; what it prints."""
    line = ["git", "-C", str(root), *args]
    return subprocess.run(line, check=True, text=True, capture_output=True).stdout


def book(root: Path, *args: str) -> str:
    """Run a command of the book in the clone; what it prints."""
    line = [sys.executable, str(root / "minijit" / "book"), *args]
    done = subprocess.run(line, cwd=root, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def jupyterlab(root: Path, home: Path) -> Iterator[str]:
    """JupyterLab in a folder, with settings of its own; its address."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {**os.environ, "IPYTHONDIR": str(home / "ipython")}
    profile = home / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_kernel_config.py").write_text(
        KERNELS.replace("PACKAGE", repr(BOOK.package))
    )
    env["PYTHONPATH"] = str(root)  # and not the library that is installed
    for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
        env[f"JUPYTER_{name}"] = str(home / name.lower())
    for name in ("SETTINGS_DIR", "WORKSPACES_DIR"):
        env[f"JUPYTERLAB_{name}"] = str(home / name.lower())
    line = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1",
            f"--port={port}", "--allow-root", "--expose-app-in-browser",
            "--IdentityProvider.token=", "--ServerApp.password=",
            "--LabApp.news_url=None"]  # fmt: skip
    with open(home / "lab.log", "w") as log:
        lab = subprocess.Popen(line, cwd=root, env=env, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, lab, home / "lab.log")
        yield url
    finally:
        lab.terminate()
        lab.wait(60)


def wait_for(url: str, lab: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers."""
    for _ in range(240):
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{url}/api/status", timeout=2).close()
            return
        assert lab.poll() is None, log.read_text()
        time.sleep(0.5)
    raise AssertionError(log.read_text())


class Reader:
    """What a reader does in an open JupyterLab."""

    def __init__(self, page: Any):
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda e: self.errors.append(str(e)))

    def open(self, url: str, path: str) -> None:
        """Open a notebook by its address."""
        self.page.goto(f"{url}/lab/tree/{path}?reset", timeout=PATIENCE)
        self.ready(Path(path).name)

    def ready(self, name: str) -> None:
        """Wait until a notebook is in front, and its kernel answers."""
        self.page.wait_for_function(
            """name => {
                const widget = window.jupyterapp?.shell?.currentWidget;
                const kernel = widget?.sessionContext?.session?.kernel;
                return widget?.title.label === name && kernel?.status === 'idle';
            }""",
            arg=name, timeout=PATIENCE,
        )  # fmt: skip

    def is_dirty(self) -> bool:
        """Does the tab in front show the unsaved dot?"""
        return self.page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty")

    def command(self, name: str, **args: Any) -> None:
        """Run one of JupyterLab's commands."""
        self.page.evaluate(
            "([name, args]) => jupyterapp.commands.execute(name, args)", [name, args]
        )

    def run_all(self) -> None:
        """Run All Cells, and wait for the last; only what is meant to fail fails."""
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            """() => {
                const panel = jupyterapp.shell.currentWidget;
                const code = panel.content.widgets.filter(c =>
                    c.model.type === 'code' && c.model.sharedModel.getSource().trim());
                return panel.sessionContext.session.kernel.status === 'idle'
                    && code.every(c => c.model.executionCount !== null
                        && c.model.executionState !== 'running' && c.prompt !== '*');
            }""",
            timeout=PATIENCE,
        )
        failed = self.page.evaluate(
            """() => jupyterapp.shell.currentWidget.content.widgets.filter(c =>
                c.model.type === 'code'
                && !(c.model.getMetadata('tags') || []).includes('raises-exception')
                && c.model.outputs.toJSON().some(o => o.output_type === 'error')
            ).map(c => c.model.sharedModel.getSource())"""
        )
        assert failed == []

    def restart(self) -> None:
        """Restart the kernel."""
        context = "jupyterapp.shell.currentWidget.sessionContext"
        self.page.evaluate(f"{context}.session.kernel.restart()")

    def run(self, at: int, text: str | None = None) -> str:
        """Run a cell, with another text; what it shows."""
        return self.page.evaluate(
            """async ([at, text]) => {
                const panel = jupyterapp.shell.currentWidget;
                const cell = panel.content.widgets[at];
                if (text !== null) cell.model.sharedModel.setSource(text);
                panel.content.activeCellIndex = at;
                await jupyterapp.commands.execute('notebook:run-cell');
                const shown = cell.model.outputs.toJSON().map(o => {
                    const data = o.data ? o.data['text/plain'] : '';
                    const error = (o.traceback || []).join('\\n');
                    return [o.text, data, error].flat().join('');
                });
                return shown.join('').replace(/\\u001b\\[[0-9;]*m/g, '');
            }""",
            [at, text],
        )


@pytest.fixture(scope="module")
def lab(
    clone: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, str]]:
    """A browser, and JupyterLab's address: they take long to start."""
    home = tmp_path_factory.mktemp("home")
    with jupyterlab(clone, home) as url, playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser, url
        browser.close()


@pytest.fixture
def reader(clone: Path, lab: tuple[Any, str]) -> Iterator[tuple[Reader, str]]:
    """A reader who has started nothing yet, and JupyterLab's address."""
    shutil.rmtree(clone / "my_chapters", ignore_errors=True)
    browser, url = lab
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(PATIENCE)
    yield Reader(page), url
    page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    page.close()


def place(text: str, cells: list[dict[str, Any]]) -> int:
    """The number of the first cell that holds a text."""
    return next(i for i, c in enumerate(cells) if text in source(c))


def test_a_newcomer(clone: Path, reader: tuple[Reader, str]) -> None:
    """From chapter 0 to chapter 2: read, restart, run, edit, break, check, reset."""
    me, url = reader
    assert "notebooks made" in book(clone, "start")
    copy = clone / "my_chapters" / "02_values.ipynb"
    cells = load(copy)["cells"]

    me.open(url, "my_chapters/00_start_here.ipynb")
    me.page.wait_for_timeout(3000)
    assert not me.is_dirty()
    link = me.page.locator(".jp-NotebookPanel table a", has_text="02").first
    link.click()
    me.ready("02_values.ipynb")
    me.page.wait_for_timeout(3000)
    assert not me.is_dirty()
    before = copy.read_bytes()
    me.command("docmanager:save")
    assert load(copy) == load(clone / "my_chapters" / "02_values.ipynb")
    assert copy.read_bytes() == before, "saving what was only read changes the file"

    build = place("def find_rule", cells)
    text = source(cells[build])
    me.restart()
    assert "run the notebook's first cell" in me.run(build)
    demo = place("from minijit import tiny", cells)
    assert "run the notebook's first cell" in me.run(demo)
    first = place("%chapter 2", cells)
    assert me.run(first).startswith("Chapter 2:")
    assert me.run(first).startswith("Chapter 2:"), "noise when it is run again"
    assert "has not run" in me.run(build, f"{text}\nsin_like = Primitive('x')")
    assert me.run(build, text) == ""

    me.run_all()
    assert "differs from the book" in me.run(build, text.replace("is None:", "is ...:"))
    assert "Nothing of this cell" in me.run(build, f"{text}\nfind_rule(1, 2, 3)")
    assert "SyntaxError" in me.run(build, f"{text}\n(")
    assert me.run(build, text) == ""

    answer = place("def bounds", cells)
    check = place("%check bounds", cells)
    me.run(answer, "def bounds(f, lo, hi):\n    return 0.0, 3.0")
    told = me.run(check)  # the second time: Run All was the first
    assert "came      (0.0, 3.0)" in told and "\n  hint      " in told
    chapter = BOOK.chapter("2")
    assert [e.name for e in exercises({"cells": cells})][0] == "bounds"
    me.run(answer, solution_text(BOOK, chapter, "bounds"))
    assert me.run(check).startswith("✓ right\nchapter 2: 1 of ")
    me.command("docmanager:save")
    me.page.wait_for_timeout(1000)

    assert "is kept as" in book(clone, "reset", "2")
    assert load(copy)["cells"] == cells
    assert git(clone, "status", "--porcelain") == ""
    assert me.errors == []


def test_a_reader_who_writes(clone: Path, reader: tuple[Reader, str]) -> None:
    """A cell to write: wrong, right, skipped; each verdict is seen and counted."""
    me, url = reader
    book(clone, "start", "--write")
    cells = load(clone / "my_chapters" / "02_values.ipynb")["cells"]
    todo = {t.name: t for t in tasks(BOOK, BOOK.chapter("2"))}
    me.open(url, "my_chapters/02_values.ipynb")
    at = {name: place(f"%check {name}", cells) for name in todo}
    for i, cell in enumerate(cells[: at["find_rule"]]):
        if cell["cell_type"] == "code" and not source(cell).startswith("%check"):
            me.run(i)
    check = at["find_rule"]
    empty, head = source(cells[check - 1]), "%%build minijit/trace/core.py\n"
    lost = me.run(check - 1, todo["find_rule"].body)
    assert "lost its first line, `%%build minijit/trace/core.py`" in lost
    assert "SyntaxError" in me.run(check - 1, empty.replace(HOLE, "return ("))
    assert "the cell of find_rule failed, so nothing of it counts" in me.run(check)
    me.run(check - 1, empty.replace(HOLE, "return rules.get(primitive)"))
    assert me.run(check).startswith("✗ not yet: test_core.py::")
    assert "\n  hint      the book has" in me.run(check)
    me.run(check - 1, head + todo["find_rule"].body)
    assert me.run(check).startswith("✓ right: ")
    told = me.run(at["set_trace"], "%skip set_trace")
    assert told.startswith("set_trace is the book's from here on")
    assert "you have skipped it" in me.run(at["set_trace"], "%check set_trace")
    assert "chapter 2" in me.run(check, "%progress")
    assert "is kept as" in me.run(check, "%reset 2")
    assert me.errors == []
