"""`run`: execute a chapter and store its outputs; a second run changes nothing."""

from __future__ import annotations

import base64
import io
import math
import os
import re
from pathlib import Path
from typing import Any

from .notebook import METADATA, Json, dump, headings, joined, load, source, tags
from .project import Book, Chapter

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
FLOAT = re.compile(r"[-+]?\d+(?:\.\d*(?:e[-+]?\d+)?|e[-+]?\d+)")
KERNEL_FILE = re.compile(r"\S*[/\\]ipykernel_\d+[/\\]\d+\.py")


def run(book: Book, chapter: Chapter) -> str:
    """Execute a chapter in its folder; return what went wrong, or "".

    The notebook is only written when every cell did what its tags say.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    path = book.notebook(chapter)
    old = load(path)
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=None,
        coalesce_streams=True,
        store_widget_state=False,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute(env=kernel_env(book))
    except CellExecutionError as e:
        return f"{chapter.called}, {failing(notebook)}\n{clean(str(e), book.root)}"
    new = tidy(notebook, old, book.root)
    dump(new, path)
    return ""


def kernel_env(book: Book) -> dict[str, str]:
    """The environment of the kernel: the checkout comes first, and colours are off."""
    path = [str(book.root), os.environ.get("PYTHONPATH", "")]
    machinery = Path(__file__).resolve().parents[2]
    if (machinery / "minijit" / "book").exists():
        path.insert(1, str(machinery))
    quiet = {"MINIJIT_COMPILE_PROGRESS": "0"}
    joined_path = os.pathsep.join(p for p in path if p)
    # Sums must not depend on how many threads a BLAS has; the tests have one as well.
    given = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return {**given, "PYTHONPATH": joined_path, "NO_COLOR": "1", **quiet}


def failing(notebook: Any) -> str:
    """The section of the cell that ended the run."""
    section = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            section = [section, *[t for _, t in headings(cell.source)]][-1]
        elif any(o.output_type == "error" for o in cell.get("outputs", [])):
            if "raises-exception" not in cell.metadata.get("tags", []):
                break
    return f"section '{section}':"


def clean(text: str, root: Path) -> str:
    """Text without colours, paths of this machine, or files of the kernel."""
    text = ANSI.sub("", text)
    home = Path.home()
    places = [f"{root}{os.sep}"]
    if root.is_relative_to(home) and root != home:
        places.append(f"~{os.sep}{root.relative_to(home)}{os.sep}")
    for place in places:
        text = text.replace(place, "")
    text = KERNEL_FILE.sub("<cell>", text)
    return text.replace(f"{home}{os.sep}", f"~{os.sep}")


def tidy(notebook: Any, old: Json, root: Path) -> Json:
    """The executed notebook without what changes from run to run."""
    new: Json = {**notebook, "metadata": METADATA}
    new["cells"] = [dict(c) for c in notebook["cells"]]
    before = {c.get("id"): c for c in old["cells"]}
    for cell in new["cells"]:
        cell["metadata"] = {
            k: v for k, v in cell["metadata"].items() if k != "execution"
        }
        if cell["cell_type"] != "code":
            continue
        cell["outputs"] = [tidy_output(dict(o), root) for o in cell["outputs"]]
        was = before.get(cell.get("id"))
        if was is not None and source(was) == source(cell):
            keep_old(cell, was)
    return new


def tidy_output(output: Json, root: Path) -> Json:
    """One output with its paths and colours taken out."""
    if output["output_type"] == "error":
        output["traceback"] = [clean(t, root) for t in output["traceback"]]
    if output["output_type"] == "stream":
        output["text"] = joined(output["text"]).splitlines(True)
    if "data" in output:
        output["metadata"].pop("needs_background", None)  # a white box on dark pages
        output["data"] = {
            kind: value.splitlines(True)
            if isinstance(value, str) and (kind.startswith("text/") or "xml" in kind)
            else value
            for kind, value in output["data"].items()
        }
    return output


def keep_old(cell: Json, was: Json) -> None:
    """Keep what says the same, and all of a volatile cell's outputs."""
    if "volatile" in tags(cell) and was.get("outputs"):
        cell["outputs"] = was["outputs"]
        return
    if len(cell["outputs"]) != len(was.get("outputs", [])):
        return
    for new, old in zip(cell["outputs"], was["outputs"], strict=True):
        keep_rounding(new, old)
        a, b = new.get("data", {}), old.get("data", {})
        if "image/png" in a and "image/png" in b:
            if same_picture(a["image/png"], b["image/png"]):
                a["image/png"] = b["image/png"]


def keep_rounding(new: Json, old: Json) -> None:
    """Keep the numbers of an output that another CPU's NumPy may round otherwise."""
    for a, b, key in ((new, old, "text"), *(
        (new.get("data", {}), old.get("data", {}), kind)
        for kind in ("text/plain", "text/markdown")
    )):  # fmt: skip
        if key in a and key in b and same_but_for_rounding(a[key], b[key]):
            a[key] = b[key]


def same_but_for_rounding(a: str | list[str], b: str | list[str]) -> bool:
    """Do two texts differ in the last digits of some floats, and in nothing else?

    NumPy's `sin` and `exp` of 32 bits have other last bits where a CPU has no AVX-512;
    a difference of two such values loses up to four bits more.
    """
    a, b = joined(a), joined(b)
    pairs = list(zip(FLOAT.findall(a), FLOAT.findall(b), strict=False))
    rest = ["".join(FLOAT.sub("#", text).split()) for text in (a, b)]
    return (
        rest[0] == rest[1]
        and any(x != y for x, y in pairs)
        and all(
            math.isclose(float(x), float(y), rel_tol=2e-6, abs_tol=2e-7)
            for x, y in pairs
        )
    )


def same_picture(a: str | list[str], b: str | list[str]) -> bool:
    """Do two PNGs have the same pixels?  (Or bytes, where nothing decodes them.)"""
    first, second = (base64.b64decode(joined(x)) for x in (a, b))
    if first == second:
        return True
    try:
        from PIL import Image
    except ImportError:
        return False
    one, two = (Image.open(io.BytesIO(x)).convert("RGBA") for x in (first, second))
    return one.size == two.size and one.tobytes() == two.tobytes()
