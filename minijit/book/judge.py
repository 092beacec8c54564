"""Are a chapter's exercises in order?  Their stubs, solutions, hints, wrong answers.

Wrong answers are made from the solution, by a mistake in one place: a constant, an
operator, a statement left out.  Readers make those, too.  What `%check` says of them
must differ, and must not give the solution away.
"""

from __future__ import annotations

import ast
import builtins
import copy
import linecache
import symtable
from collections.abc import Callable, Iterator
from typing import Any

from .cases import HOOK
from .exercise import Exercise, check_of, exercises, hint, solutions, verdict
from .notebook import Json, load, quiet_statements, source
from .project import Book, Chapter
from .text import mentions, names

ENOUGH = 3  # messages of wrong answers that must differ
EMPTY = " is empty so far"  # is no message about an answer
MOST = 24  # wrong answers that are tried for that
SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.FloorDiv: ast.Div, ast.Mod: ast.Add, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
}  # fmt: skip


def judge(book: Book, chapter: Chapter) -> list[str]:
    """Complaints about a chapter's exercises; run on the chapter's stage.

    Every stub must be not right, in the notebook's stored output and here; every
    solution right; every hint there; every solution's check used in the notebook.
    Wrong answers must give different messages that do not give the solution away.
    """
    found = exercises(load(book.notebook(chapter)))
    if not found:
        return []
    space = solutions(book, chapter)
    bad = []
    text = book.solutions(chapter).read_text(encoding="utf-8")
    lacking = not_imported(load(book.notebook(chapter)), text)
    for e in found:
        where = f"{chapter.called}, section '{e.section}', exercise {e.name}"
        told = judge_one(e, space) or judge_wrong(e.name, text, space)
        if e.name in lacking:
            what = ", ".join(sorted(lacking[e.name]))
            told.append(f"the solution uses {what}; import that in the stub's cell")
        bad += [f"{where}: {what}" for what in told]
    checked = {e.name for e in found}
    for name in space:
        if name.startswith("check_") and name.removeprefix("check_") not in checked:
            bad.append(f"{chapter.called}: no `%check {name.removeprefix('check_')}`")
    return bad


def judge_one(e: Exercise, space: dict[str, Any]) -> list[str]:
    """Complaints about one exercise."""
    if f"check_{e.name}" not in space or e.name not in space:
        return [f"the solutions lack {e.name} or check_{e.name}"]
    check = check_of(space, e.name)
    bad = []
    if not hint(check):
        bad.append("there is no hint (the docstring of its check)")
    if not e.stub:
        bad.append(f"no cell tagged `exercise` defines {e.name}")
    elif stub_is_right(e, check, space):
        bad.append("the stub is right already")
    if not e.shown.startswith("not yet: ") or hint(check) in e.shown:
        bad.append(f"the chapter does not show `not yet: <case>` but {e.shown!r}")
    answer = verdict(check, space[e.name])
    if answer != "right":
        bad.append(f"the solution is {answer}")
    return bad


def stub_is_right(
    e: Exercise, check: Callable[[Any], Any], space: dict[str, Any]
) -> bool:
    """Does the stub, run beside the solutions' imports, pass the check?"""
    scratch = {k: v for k, v in space.items() if k != e.name}
    try:
        exec(compile(e.stub, f"<stub of {e.name}>", "exec", dont_inherit=True), scratch)
    except Exception:
        return False
    return verdict(check, scratch.get(e.name)) == "right"


def not_imported(notebook: Json, text: str) -> dict[str, set[str]]:
    """By exercise, what its solution uses and no cell above its check defines.

    So a solution runs when it is pasted into its cell.
    """
    found: dict[str, set[str]] = {}
    bound: set[str] = set()
    for cell in notebook["cells"]:
        code = source(cell) if cell["cell_type"] == "code" else "%%"
        if code.startswith("%check "):
            name = code.split()[1]
            answer = solution(text, name)
            lacks = used_globals(answer) - bound if answer else set()
            found |= {name: lacks} if lacks else {}
        elif not code.startswith("%%"):
            lines = [x for x in code.split("\n") if not x.startswith("%")]
            for s in quiet_statements("\n".join(lines)):
                bound |= names(s.node)
    return found


def used_globals(module: ast.Module) -> set[str]:
    """The names that statements read, and neither set themselves nor Python has."""
    table = symtable.symtable(ast.unparse(module), "<solution>", "exec")
    tables, read = [table], set()
    while tables:
        one = tables.pop()
        tables += one.get_children()
        top = one.get_type() == "module"
        for symbol in one.get_symbols():
            if symbol.is_referenced() and (top or symbol.is_global()):
                read.add(symbol.get_name())
    read -= {n for s in module.body for n in names(s)}
    return {n for n in read if not hasattr(builtins, n)}


# -- wrong answers


def judge_wrong(name: str, text: str, space: dict[str, Any]) -> list[str]:
    """Complaints about what the check of `name` says of wrong answers.

    `text` is that of the solutions' file, and `space` its namespace.
    """
    statement = solution(text, name)
    if statement is None:
        return [f"the solutions define no {name}"]
    lines = telling_lines(statement)
    found: list[str] = []
    tried = 0
    for wrong in mistakes(statement):
        tried += 1
        told = message(name, wrong, space)
        if told is None or told in found or EMPTY in told:
            continue
        found.append(told)
        ours = told.partition("\n  raised")[
            0
        ]  # after it errors name the answer's lines
        for line in lines:
            if line in ours:
                return [f"a wrong answer's message gives `{line}` away:\n{told}"]
        if "\n" not in told:
            return [f"a wrong answer's message does not say what came: {told}"]
        if len(found) == ENOUGH:
            return []
        if tried == MOST:
            break
    return [f"only {len(found)} different messages of {tried} wrong answers: {found}"]


def solution(text: str, name: str) -> ast.Module | None:
    """The statements of a file of solutions that are the answer to an exercise.

    That is the function of that name, what goes on with it, and its helpers above it;
    if it is no function, all that stands between the check before it and its own.
    """
    above: list[ast.stmt] = []
    block: list[ast.stmt] = []
    for node in ast.parse(text).body:
        called = str(getattr(node, "name", ""))
        if called == f"check_{name}":
            break
        if called.startswith("check_"):
            block = []
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            above.append(node)
            block.append(node)
    if not any(getattr(s, "name", "") == name for s in block):
        return ast.Module(block, []) if any(name in names(s) for s in block) else None
    used: list[ast.stmt] = []
    wanted = {name}
    for s in reversed(above):
        if names(s) & wanted or s in block and name in mentions(s):
            used.insert(0, s)
            wanted |= mentions(s)
    return ast.Module(used, [])


def telling_lines(statement: ast.Module) -> list[str]:
    """Lines of a solution that a message must not hold."""
    inner = [getattr(s, "body", [s]) for s in statement.body]
    texts = [ast.unparse(s) for body in inner for s in body]
    lines = [line.strip() for text in texts for line in text.split("\n")]
    return [line for line in lines if len(line) > 16]


def message(name: str, wrong: ast.Module, space: dict[str, Any]) -> str | None:
    """What `%check` says of a wrong answer at the first try; None if it is right.

    It is None, too, of one that cannot even be defined.
    """
    source = ast.unparse(ast.fix_missing_locations(wrong))
    file = f"<wrong answer to {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scratch = {k: v for k, v in space.items() if k != name}
    try:
        exec(compile(source, file, "exec", dont_inherit=True), scratch)
    except Exception:
        return None
    check: Callable[[Any], Any] = space[f"check_{name}"]
    assert check.__globals__[HOOK] is space[HOOK]
    told = verdict(check, scratch.get(name), seconds=2)
    return None if told == "right" else told


def mistakes(statement: ast.Module) -> Iterator[ast.Module]:
    """The statement with one mistake each, those of the first lines not before others.

    So many different places come first.
    """
    every = list(ast.walk(statement))
    docstrings = [n.value for n in every if isinstance(n, ast.Expr)]
    docstrings = [n for n in docstrings if isinstance(n, ast.Constant)]
    nodes = [n for n in every if n not in docstrings]
    makers = (swapped, shifted, without, zeroed, turned, nothing, wrapped)
    found = [[(n, *c) for n in nodes for c in maker(n)] for maker in makers]
    for i in range(max(map(len, found))):
        for node, name, value in (made[-1 - i] for made in found if i < len(made)):
            yield changed(statement, node, name, value)


def changed(statement: ast.Module, node: ast.AST, name: str, value: Any) -> ast.Module:
    """A copy of a statement in which an attribute of one of its nodes is another."""
    kept = getattr(node, name)
    setattr(node, name, value)
    made = copy.deepcopy(statement)
    setattr(node, name, kept)
    return made


Changes = Iterator[tuple[str, Any]]  # an attribute of a node, and another value for it


def swapped(node: ast.AST) -> Changes:
    """Another operator or comparison."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield "ops", [SWAPPED[type(node.ops[0])](), *node.ops[1:]]
    elif (op := type(getattr(node, "op", None))) in SWAPPED:
        yield "op", SWAPPED[op]()


def shifted(node: ast.AST) -> Changes:
    """Another constant; a text of several lines without one of them."""
    match node:
        case ast.Constant(bool(value)):
            yield "value", not value
        case ast.Constant(int(value) | float(value)):
            yield "value", value + 1
        case ast.Constant(str(value)):
            yield "value", value + "x"
            lines = value.splitlines(True)
            for k in range(len(lines) if len(lines) > 1 else 0):
                yield "value", "".join(lines[:k] + lines[k + 1 :])


def without(node: ast.AST) -> Changes:
    """A statement of a body left out."""
    body = getattr(node, "body", None)
    body = body if isinstance(body, list) else []
    for k in range(len(body)):
        yield "body", [*body[:k], ast.Pass(), *body[k + 1 :]]


def nothing(node: ast.AST) -> Changes:
    """A result that is not returned."""
    if isinstance(node, ast.Return) and node.value is not None:
        yield "value", ast.Constant(None)


def wrapped(node: ast.AST) -> Changes:
    """A result in a list, or none because of an error."""
    if isinstance(node, ast.Return) and node.value is not None:
        yield "value", ast.List([node.value], ast.Load())
        yield "value", ast.BinOp(ast.Constant(1), ast.Div(), ast.Constant(0))


def zeroed(node: ast.AST) -> Changes:
    """A 0 for an argument of a call."""
    args = node.args if isinstance(node, ast.Call) else []
    for k in range(len(args)):
        yield "args", [*args[:k], ast.Constant(0), *args[k + 1 :]]


def turned(node: ast.AST) -> Changes:
    """Two arguments, elements or operands, the other way round."""
    for name in ("args", "elts"):
        given = getattr(node, name, None)
        if isinstance(given, list) and len(given) > 1:
            yield name, [given[1], given[0], *given[2:]]
