"""The reader's own copy of the book: `start` makes it, `reset` renews one chapter.

It is the folder `my_chapters/` beside `chapters/`, and git ignores it: so a reader may
edit, run and save, and the checkout stays as it is.  A copy remembers what it was made
from, so that `start` can say which chapters have a newer text.  With `--write` the
chosen build cells are emptied (see `course`).
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from .course import TAG, emptied_notebook
from .exercise import exercises
from .notebook import METADATA, Json, code_cell, dump, load, source, tags
from .project import Book, BookError, Chapter

FOLDER = "my_chapters"
BEFORE = "before_reset"  # a folder in it: what a chapter was before it was renewed
ABOUT = "minijit"  # the key, among a copy's metadata, of what it was made from
# In the environment's etc/ipython, where every kernel of it reads this as it starts.
# It does not load the machinery: that would import the finished library.
MADE_BY = "`python -m minijit.book start` made it."
KERNELS = f'''\
"""What a notebook of the book is told before it has run its first cell.

{MADE_BY}
"""

import re
import sys
import types
from pathlib import Path

NAMES = ("build", "check", "solution", "show", "chapter", "tour", "skip", "progress")
FIRST = "run the notebook's first cell: it says which chapter this is"
CELL = re.compile(r"[/\\\\]ipykernel_\\d+[/\\\\]|^<ipython-input")


class RunTheFirstCell(ImportError):
    """The notebook's first cell says which chapter it is."""

    def _render_traceback_(self):
        return [f"{{type(self).__name__}}: {{self}}"]


class BeforeTheFirstCell:
    """An import hook: a cell that asks too early would get the finished library."""

    def find_spec(self, name, path=None, target=None):
        if name != PACKAGE or {FOLDER!r} not in Path.cwd().parts:
            return None
        frame = sys._getframe(1)
        while frame and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        if frame and CELL.search(frame.f_code.co_filename):
            raise RunTheFirstCell(
                f"{{FIRST}}, and so what {{name}} has. "
                "(`%load_ext minijit.book` and `%chapter 0` give all of it.)"
            )
        return None


def load_ipython_extension(shell):
    from IPython.core.error import UsageError

    def early(line, cell=None):
        raise UsageError(FIRST)

    for name in NAMES:
        shell.register_magic_function(early, "line_cell", name)


sys.meta_path.insert(0, BeforeTheFirstCell())
waiting = sys.modules["minijit_waiting"] = types.ModuleType("minijit_waiting")
waiting.load_ipython_extension = load_ipython_extension
get_config().MagicsManager.lazy_magics = dict.fromkeys(NAMES, "minijit_waiting")
'''


def start(book: Book, write: bool = False) -> Iterator[str]:
    """Copy every notebook that is not there yet, and the data; what to tell."""
    tell_kernels(book, Path(sys.prefix).resolve())
    data = book.base / book.folder / "data"
    if data.exists():
        shutil.copytree(data, copy_folder(book) / "data", dirs_exist_ok=True)
    old = copy_folder(book) / book.package / "__init__.py"
    if old.exists() and MADE_BY in old.read_text(encoding="utf-8"):
        shutil.rmtree(old.parent)  # a guard that shadowed the library
    made, newer, other = [], [], []
    for chapter in book.written():
        path = copy_of(book, chapter)
        if not path.exists():
            make_copy(book, chapter, write)
            made.append(chapter)
        elif about(path).get("made_from") != digest(book, chapter):
            newer.append(chapter)
        elif write and has_tasks(book, chapter) and not about(path).get("write"):
            other.append(chapter)
    yield f"{FOLDER}: {len(made)} notebooks made" if made else f"{FOLDER} is there"
    if newer:
        yield f"newer in the book than your copy: {listed(newer)}"
    if other:
        yield f"your copy has the book's cells, not empty ones: {listed(other)}"
    if newer or other:
        yield "`reset K` renews the copy of chapter K, `reset K --write` to be written"
    yield f"open it: jupyter lab {FOLDER}/{next(book.written()).file}"


def tell_kernels(book: Book, environment: Path) -> None:
    """Let kernels say what comes first, if the environment is the checkout's own."""
    path = environment / "etc" / "ipython" / "ipython_kernel_config.py"
    if book.base not in environment.parents:
        return
    if path.exists() and MADE_BY not in path.read_text(encoding="utf-8"):
        return  # somebody's own settings
    path.parent.mkdir(parents=True, exist_ok=True)
    text = KERNELS.replace("PACKAGE", repr(book.package))
    path.write_text(text, encoding="utf-8")


def reset(book: Book, chapter: Chapter, write: bool = False) -> Iterator[str]:
    """Renew the reader's copy of one chapter, and keep what it was; what to tell.

    A copy that had emptied cells gets them again.
    """
    path = copy_of(book, chapter)
    if path.exists():
        write = write or bool(about(path).get("write"))
        kept = unused(copy_folder(book) / BEFORE / chapter.file)
        kept.parent.mkdir(parents=True, exist_ok=True)
        path.rename(kept)
        where = kept.relative_to(book.base).as_posix()
        yield f"your copy of {chapter.called} is kept as {where}"
    make_copy(book, chapter, write)
    empty = write and has_tasks(book, chapter)
    but = "; the cells to be written are empty" if empty else ""
    yield f"{path.relative_to(book.base).as_posix()} is as the book has it{but}"


def unused(path: Path) -> Path:
    """The path, with a number if there is such a file already."""
    paths = [path, *(path.with_stem(f"{path.stem}_{n}") for n in range(2, 1000))]
    free = next((p for p in paths if not p.exists()), None)
    if free is None:
        raise BookError(f"{path.parent} is full of old copies; delete some")
    return free


def copy_folder(book: Book) -> Path:
    """Where the reader's copies are."""
    return book.base / FOLDER


def copy_of(book: Book, chapter: Chapter) -> Path:
    """Where the reader's copy of a notebook is."""
    return copy_folder(book) / chapter.file


def make_copy(book: Book, chapter: Chapter, write: bool) -> None:
    """Write the reader's copy of a notebook, as this Python's JupyterLab would."""
    notebook = load(book.notebook(chapter))
    if write and has_tasks(book, chapter):
        emptied_notebook(notebook, book, chapter)
    else:
        write = False
    if chapter.kind == "start":
        cells = notebook["cells"]
        above = [i for i, c in enumerate(cells) if "## The map" in source(c)]
        cells.insert(1 + (above or [len(cells)])[0], code_cell("%progress", "progress"))
    language = {**METADATA["language_info"], "version": platform.python_version()}
    origin = {"made_from": digest(book, chapter), "write": write}
    notebook["metadata"] = {**METADATA, "language_info": language, ABOUT: origin}
    dump(notebook, copy_of(book, chapter))


def about(path: Path) -> Json:
    """What a copy was made from."""
    return load(path)["metadata"].get(ABOUT, {})


def digest(book: Book, chapter: Chapter) -> str:
    """A few letters that tell one text of a notebook from another."""
    cells = load(book.notebook(chapter))["cells"]
    text = "\0".join("".join(c["source"]) for c in cells)
    return hashlib.sha1(text.encode()).hexdigest()[:12]


def has_tasks(book: Book, chapter: Chapter) -> bool:
    """Has the notebook cells that a reader may write?"""
    return any(TAG in tags(c) for c in load(book.notebook(chapter))["cells"])


def listed(chapters: list[Chapter]) -> str:
    """Chapters by their numbers or names."""
    return ", ".join(c.id for c in chapters)


# ---- how far a reader has come


FILE = ".progress.json"
Found = dict[str, list[str]]  # chapter -> what of it is right


def found(book: Book) -> Found:
    """What is right so far."""
    path = copy_folder(book) / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def todo(book: Book, chapter: Chapter) -> list[str]:
    """What the copy of a notebook has a `%check` of: exercises, and cells to write."""
    path = copy_folder(book) / chapter.file
    own = load(path if path.exists() else book.notebook(chapter))
    return [e.name for e in exercises(own)]


def noted(book: Book, chapter: Chapter, name: str, right: bool) -> str:
    """Note what came of one; a line about the chapter, in the reader's copy of it."""
    if not Path.cwd().resolve().is_relative_to(copy_folder(book)):
        return ""
    every, known = todo(book, chapter), found(book)
    was = set(known.get(chapter.id, []))
    now = was | {name} if right else was - {name}
    if now != was:
        known[chapter.id] = sorted(now)
        text = json.dumps(known, indent=1)
        (copy_folder(book) / FILE).write_text(text, encoding="utf-8")
    return f"{chapter.called}: {len(now & {*every})} of {len(every)} are right"


def table(book: Book) -> str:
    """What is right in each notebook of the reader's copy that has something to do."""
    known, lines = found(book), []
    for chapter in book.written():
        if every := todo(book, chapter):
            now = [name for name in every if name in known.get(chapter.id, [])]
            bar = "●" * len(now) + "○" * (len(every) - len(now))
            lines.append(f"{chapter.called:<32}{len(now):>3} of {len(every):<4}{bar}")
    return "\n".join(lines) or f"nothing is to be done in {FOLDER}"
