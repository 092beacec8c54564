"""A class of students on a toy book: what each may do, what each gets, and for what."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import book_toy
import pytest
from test_book_course import BOOKS, JVP, WRONG, book, write

from minijit.book import confine
from minijit.book.classroom import COURSE, export
from minijit.book.course import HOLE, tasks
from minijit.book.grade import CANARY
from minijit.book.notebook import load, source
from minijit.book.project import Book, BookError, read_book, sealed, unsealed
from minijit.book.reader import copy_folder, copy_of, start

__all__ = ["book"]
confined = pytest.mark.skipif(bool(confine.missing()), reason=confine.missing())
SECONDS = 12  # of which one test gets a sixth
EVIL = {
    "endless": "    while True: pass",
    "large": "    return bytearray(1 << 40)",
    "forger": "    import os\n    print('2 passed')\n    os._exit(0)",
    "patcher": WRONG,
    "leaver": BOOKS,
    "leaver_at_once": BOOKS,
    "syntax": "    return (",
    "remover": "    import shutil\n    shutil.rmtree('.', ignore_errors=True)",
}
BEFORE = {  # what stands above the function
    "leaver": "import sys\nsys.exit(0)\n\n\n",
    "leaver_at_once": "import os\nos._exit(0)\n\n\n",
    "semicolon": "a = 'é'; b = a\n\n\n",
    "patcher": """\
import _pytest.runner
real = _pytest.runner.CallInfo.from_call.__func__
fine = lambda: None
made = lambda cls, f, when, **o: real(cls, fine if when == "call" else f, when, **o)
_pytest.runner.CallInfo.from_call = classmethod(made)


""",
}


def submit(book: Book, out: Path, body: str, before: str = "") -> None:
    """A student's folder, with a body for `sin_lin` and text above it."""
    list(start(book, write=True))
    write(book, "3", "sin_lin", body, before)
    write(book, "3", "jvp", JVP)
    out.mkdir(parents=True)
    shutil.move(copy_of(book, book.chapter("3")), out)


@confined
def test_a_class_in_one_command(book: Book, tmp_path: Path):
    work, answers = tmp_path / "work", {"right": BOOKS, "wrong": WRONG, **EVIL}
    for name, body in {**answers, "semicolon": BOOKS}.items():
        submit(book, work / name, body, BEFORE.get(name, ""))
    file = book.chapter("3").file
    for name in ("nothing", "link", "broken", "renamed"):
        (work / name).mkdir()
    os.utime(work / "right" / file, (10**9, 10**9))
    (work / "link" / file).symlink_to(work / "right" / file)
    (work / "broken" / file).write_text("{")
    shutil.copy(work / "right" / file, work / "renamed" / "3.ipynb")
    (book.root / COURSE).write_text(
        "[[assignment]]\nchapter = 3\npoints = 2\nlate = 0.5\ndue = 2020-01-01T00:00:00"
    )
    table, told = tmp_path / "points.csv", tmp_path / "told"
    names = [str(work / name) for name in sorted(os.listdir(work))]
    asked = ["--csv", str(table), "--reports", str(told), "--seconds", str(SECONDS)]
    done = book_toy.command(book.root, "grade", *names, *asked)
    assert done.returncode == 0, done.stderr
    with table.open() as rows:
        points = {row.pop("student"): row for row in csv.DictReader(rows)}
    totals = {name: row["points"] for name, row in points.items()}
    assert totals.pop("right") == "4" and points["right"]["of"] == "4"
    assert totals.pop("semicolon") == "2" and points["semicolon"]["late"] == "3"
    assert points["leaver"]["3 jvp"] == "1"
    # Their other function is as the book has it; it is right or not with this one.
    assert set(totals.values()) <= {"0", "1"}, totals
    assert {row["3 sin_lin"] for n, row in points.items() if n in totals} == {"0"}
    why = {name: row["trouble"] for name, row in points.items()}
    assert why["right"] == why["wrong"] == ""
    assert "no 03_" in why["nothing"] and why["broken"].startswith("unreadable: ")
    said = {path.stem: path.read_text() for path in told.iterdir()}
    assert f"stopped after {SECONDS // 6} seconds" in said["endless"]
    assert "hides failures" in said["patcher"]
    assert said["link"].count(f"no {file}; there is {file} (a link)") == 1
    assert f"no {file}; there is 3.ipynb" in said["renamed"]
    assert points["remover"]["3 jvp"] == "1" and "No such file" not in why["remover"]
    assert "no test ran because Python ended early" in why["leaver_at_once"]
    assert 'this cell", line ' in said["syntax"] and "SyntaxError" in said["syntax"]
    assert "cannot be read: JSONDecodeError" in said["broken"]
    assert "lambda t: t * c" not in "".join(said.values())


@confined
def test_what_is_stopped_leaves_its_table_and_nothing_else(book: Book, tmp_path: Path):
    work, own, table = tmp_path / "work", tmp_path / "own", tmp_path / "points.csv"
    own.mkdir()
    submit(book, work / "a", "    import time; time.sleep(12345)")
    submit(book, work / "b", BOOKS)
    line = [sys.executable, str(book_toy.REPO / "minijit" / "book"), "grade", "3",
            str(work / "a"), str(work / "b"), "--csv", str(table), "--jobs", "2",
            "--seconds", "6000"]  # fmt: skip
    env = {**os.environ, "TMPDIR": str(own)}
    process = subprocess.Popen(line, cwd=book.root, env=env)
    while process.poll() is None and not (table.exists() and "b," in table.read_text()):
        time.sleep(0.1)
    inside = [p for p in own.rglob(CANARY)]
    assert process.poll() is None and inside
    process.terminate()
    assert process.wait() == 130
    assert table.read_text().count("\n") == 2 and not list(own.iterdir())
    lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(str(own).encode() in line for line in lines)


@confined
def test_what_runs_confined_reaches_nothing_else(tmp_path: Path):
    other, own = tmp_path / "other", tmp_path / "own"
    own.mkdir()
    other.write_text("somebody else's")
    tmp_path.chmod(0o755)

    def run(code: str, seconds: float = 5) -> tuple[int, str]:
        line = confine.command(own, seconds, 1024, [sys.executable, "-c", code])
        done = subprocess.run(line, cwd=own, text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr

    assert run("open('mine', 'w').write('x'); print(open('mine').read())") == (0, "x\n")
    for code in (f"open({str(other)!r}).read()", "open('/etc/passwd').read()",
                 f"open({str(other)!r}, 'w')",
                 "import os; os.kill(os.getppid(), 9); os.stat('/nowhere')",
                 "import socket; socket.create_connection(('127.0.0.1', 9))",
                 "bytearray(2 << 30)"):
        assert run(code)[0] == 1, code
    assert other.read_text() == "somebody else's"
    assert run("while True: pass", 1)[0] == confine.LATE
    forks = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert run(forks, 0.5)[0] == confine.LATE
    mark = f"# of {os.getpid()}"  # Another run of the tests has another one.
    stays = f"import os, time\nif not os.fork(): os.setsid(); time.sleep(9999) {mark}"
    assert run(stays)[0] == 0
    lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(mark.encode() in line for line in lines)


def test_what_a_student_gets(book: Book, tmp_path: Path):
    hidden = tasks(book, book.chapter("3"))[0].tests
    (book.root / COURSE).write_text(
        f"[[assignment]]\nchapter = 3\nhidden = ['{hidden[0]}']\n"
    )
    (book.root / "README.md").write_text("A toy.\nFor a class: TEACHING.md\n")
    (book.root / "TEACHING.md").write_text("For teachers.")
    told = list(export(book, tmp_path / "out"))
    assert told[-1] == f"hidden tests: {hidden[0]}"
    other = read_book(tmp_path / "out")
    assert other.student and not (other.root / "chapters" / "solutions").exists()
    assert (other.root / "README.md").read_text() == "A toy.\n"
    assert not (other.root / "TEACHING.md").exists()
    found = b"".join(p.read_bytes() for p in other.root.rglob("*") if p.is_file())
    assert b"lambda t: t * c" not in found and b"def test_jvp" not in found
    assert b"def check_cube" in found and b"mul(x, mul(x, x))" not in found
    # The library runs nevertheless, and the machinery reads all of it.
    for file in other.library():
        assert other.source(file).endswith(book.source(file))
    runs = "from toy.trace.core import sin_p; from toy import jvp; jvp(sin_p, [0], [1])"
    subprocess.run([sys.executable, "-c", runs], cwd=other.root, check=True)
    list(start(other, write=other.student))
    cells = [source(c) for c in load(copy_of(other, other.chapter("3")))["cells"]]
    assert sum(HOLE in text for text in cells) == 2 and "%check sin_lin" in cells
    assert "%solution" not in "".join(cells)  # there is none to be shown
    assert copy_folder(other) == other.root / "my_chapters"
    with pytest.raises(BookError, match="is not empty: name a new folder"):
        list(export(book, tmp_path / "out"))


def test_a_sealed_text_is_the_same_text():
    body = "    return 'é' + x  # a + b ~ \\"
    text = f'"""é + é"""\n\n\ndef f(x):\n{body}\n'
    data = sealed(text, [body])
    assert b"return" not in data and data.isascii()
    assert unsealed(data) == f"# sealed\n{text}"
    space: dict = {}
    exec(compile(data, "sealed", "exec"), space)
    assert space["f"]("a") == "éa" and space["__doc__"] == "é + é"
