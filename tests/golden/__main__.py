"""Compare the loops of the golden programs with the stored texts, or store them."""

import difflib
import sys
from pathlib import Path

import minijit as mj
from minijit.compile.lower.walk import lower
from minijit.compile.simplify.folding import simplify
from minijit.run.loading import rewritten

from .programs import families

HERE = Path(__file__).parent


def whole(program):
    """A program's text, and those of the programs that it calls."""
    program = rewritten(program)
    inner = [c.attrs["program"] for c in program.calls if c.routine == "program"]
    return "\n".join([str(program), *map(whole, inner)])


def text_of(family):
    """The loops of all programs of a family, each under its name."""
    found = []
    with mj.config.override("machine", "book"):
        for name, (f, args) in families[family]().items():
            closed = mj.make_jaxpr(f)(*args)
            found += [f"=== {name}", whole(lower(simplify(closed), programs={})), ""]
    return "\n".join(found)


def stored(family):
    return HERE / f"{family}.txt"


def difference(family):
    """What became of a family's loops: a unified diff, "" if nothing did."""
    old = stored(family).read_text(encoding="utf-8").splitlines()
    new = text_of(family).splitlines()
    return "\n".join(difflib.unified_diff(old, new, "stored", "now", lineterm="", n=9))


if __name__ == "__main__":
    for family in families:
        if "--accept" in sys.argv:
            stored(family).write_text(text_of(family), encoding="utf-8")
        elif told := difference(family):
            print(f"{family}\n{told}")
