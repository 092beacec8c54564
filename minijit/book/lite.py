"""`lite`: the chapters that need no compiler, to be run in a browser.

    out/lite/               JupyterLite: JupyterLab, and Python as WebAssembly (Pyodide)
    out/lite/files/         copies of the notebooks, and their data
    out/lite/pypi/          the library, the book's machinery and notebooks as one wheel

The first cell of each copy installs the wheel, and a cell with the tag `numba` or
`threads` is text in it.  What Pyodide has of NumPy, ml_dtypes and Matplotlib comes with
its distribution: from Pyodide's own server, or from a folder, and then no page asks
another server for anything.
What a browser lacks: numba and LLVM, so that the first parts are all it can run;
threads; and other processes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from .notebook import Json, joined, load, source, tags
from .project import Book, BookError, Chapter

FIRST = """\
# In a browser the library has to be fetched first. What a chapter changes stays in this
# page: close it, and all is as it was.
%pip install -q {package}"""
FOLDER = "lite"
# What a notebook is opened with, beside the pages.
ADDRESS = FOLDER + "/lab/index.html?path={file}"
NEEDED = "numpy", "ml_dtypes", "matplotlib"
# Tags of cells that need what no browser has, or take very long without it.
ABSENT = {"numba", "threads"}
# What JupyterLite's kernel needs and takes from PyPI, for no distribution has it.
OF_KERNEL = ["comm"]
PIP = "jupyterlite-core and jupyterlite-pyodide-kernel: pip install -e '.[lite]'"


def runs_in_browsers(book: Book, chapter: Chapter) -> bool:
    """Whether all that a chapter has is there without what runs kernels, `run/`."""
    runners = (f for f in book.library() if f.startswith(f"{book.package}/run/"))
    there = any(book.prefix(file, chapter.end) for file in runners)
    return chapter.kind == "chapter" and not there


def chapters(book: Book) -> list[Chapter]:
    """The chapters that a browser can run."""
    return [c for c in book.written() if runs_in_browsers(book, c)]


def write_lite(book: Book, out: Path, pyodide: Path | None = None) -> Iterator[str]:
    """Build JupyterLite with the chapters that it can run; what to tell.

    Args:
      out: the folder of the pages; what is made goes into its folder `lite`.
      pyodide: a folder with Pyodide's distribution; by default the pages ask Pyodide's
        server for it.
    """
    import nbformat

    if not all(map(find_spec, ("jupyterlite_core", "jupyterlite_pyodide_kernel"))):
        raise BookError(f"this needs {PIP}")
    if pyodide is not None and (missing := lacking(pyodide)):
        raise BookError(
            f"{pyodide} has no {', '.join(missing)}: name a folder with the whole of "
            "Pyodide's distribution"
        )
    shown = chapters(book)
    with tempfile.TemporaryDirectory() as folder:
        work, files = Path(folder), Path(folder, "files")
        files.mkdir()
        wheels = work / "wheels"
        wheels.mkdir()
        write_wheel(book, wheels)
        if pyodide is not None:
            shutil.copytree(pyodide, work / "static" / "pyodide")  # where it is found
            asked = ["pip", "download", "--no-deps", "--dest", str(wheels), *OF_KERNEL]
            run(["-m", *asked], work)
        for chapter in shown:
            # Lines are joined: JupyterLite has no server that would do it.
            notebook = in_browsers(book, nbformat.read(book.notebook(chapter), 4))
            (files / chapter.file).write_text(json.dumps(notebook), encoding="utf-8")
        shutil.copytree(book.base / book.folder / "data", files / "data")
        start = "from jupyterlite_core.app import main; main()"
        command = ["-c", start, "build"]
        command += ["--contents", str(files), "--piplite-wheels", str(wheels)]
        command += ["--output-dir", str((out / FOLDER).resolve())]
        command += ["--no-sourcemaps", "--no-unused-shared-packages"]
        run(command, work)
    yield f"{FOLDER}: chapters {shown[0].id} to {shown[-1].id} run in a browser"
    if pyodide is None:
        yield "they ask Pyodide's server for Python and NumPy"
    yield f"serve it: {sys.executable} -m http.server -b 127.0.0.1 -d {out}"


def lacking(pyodide: Path) -> list[str]:
    """What chapters need and a folder with Pyodide's distribution does not have."""
    text = (pyodide / "pyodide-lock.json").read_text(encoding="utf-8")
    listed = json.loads(text)["packages"]
    files = {name.replace("-", "_"): p["file_name"] for name, p in listed.items()}
    return [n for n in NEEDED if n not in files or not (pyodide / files[n]).is_file()]


def run(command: list[str], folder: Path) -> None:
    """Run Python in a folder; BookError with what it says if that fails."""
    command = [sys.executable, *command]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True)
    if done.returncode:
        raise BookError(f"JupyterLite was not built:\n{done.stdout}{done.stderr}")


def in_browsers(book: Book, notebook: Json) -> Json:
    """A notebook that fetches the library, and shows what it cannot run."""
    notebook["cells"] = cells = [
        as_text(cell, found) if (found := ABSENT.intersection(tags(cell))) else cell
        for cell in notebook["cells"]
    ]
    text = FIRST.format(package=book.package)
    first: Json = {"cell_type": "code", "execution_count": None, "id": "in-a-browser",
             "metadata": {}, "outputs": [], "source": text}  # fmt: skip
    at = next(i for i, cell in enumerate(cells) if cell["cell_type"] == "code")
    cells.insert(at, first)
    spec = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
    notebook["metadata"]["kernelspec"] = spec
    return notebook


def as_text(cell: Json, needed: Iterable[str]) -> Json:
    """A cell that needs what is not there, as text: its code, its outputs."""
    told = [
        f"*This cell needs {' and '.join(needed)}, and a browser has none. It is not "
        "run here: what is shown below it is what the book has.*",
        f"```python\n{source(cell)}\n```",
    ]
    pictures = {}
    for i, output in enumerate(cell["outputs"]):
        data = output.get("data") or {"text/plain": output["text"]}
        if "image/png" in data:
            pictures[f"{i}.png"] = {"image/png": data["image/png"]}
            told.append(f"![What this cell draws](attachment:{i}.png)")
        else:
            told.append(f"```\n{joined(data['text/plain']).rstrip()}\n```")
    return {"cell_type": "markdown", "id": cell["id"], "metadata": {},
            "attachments": pictures, "source": "\n\n".join(told)}  # fmt: skip


def write_wheel(book: Book, folder: Path) -> Path:
    """The library, its book and the notebooks without outputs, as a wheel.

    They lie in it as in the checkout, so that where it is installed is a book.
    """
    name = f"{book.package}-0"
    path = folder / f"{name}-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {book.package}\nVersion: 0\n"
    about += "".join(f"Requires-Dist: {name}\n" for name in NEEDED)
    texts = {
        f"{name}.dist-info/METADATA": about,
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: minijit.book\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    for file in files_of(book):
        texts[file] = (book.root / file).read_text(encoding="utf-8")
    for chapter in book.written():
        notebook = load(book.notebook(chapter))
        for cell in notebook["cells"]:
            if "outputs" in cell:
                cell["outputs"] = []
        texts[f"{book.folder}/{chapter.file}"] = json.dumps(notebook)
    rows = [f"{file},sha256={digest(text)},{len(text.encode())}"
            for file, text in texts.items()]  # fmt: skip
    record = f"{name}.dist-info/RECORD"
    texts[record] = "\n".join([*rows, f"{record},,", ""])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in texts.items():
            archive.writestr(file, text)
    return path


def files_of(book: Book) -> Iterator[str]:
    """The library, the machinery, the book's list, and the solutions."""
    yield "book.toml"
    for folder in (book.package, f"{book.folder}/solutions"):
        for path in sorted((book.root / folder).rglob("*.py")):
            yield path.relative_to(book.root).as_posix()


def digest(text: str) -> str:
    """A hash as a wheel's record has it."""
    found = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode()
