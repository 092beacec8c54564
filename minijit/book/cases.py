"""Checks of exercises that can say which case failed, what came, what was expected.

A check is a function with plain `assert`s.  Before it is compiled, each `assert` is
rewritten: the two sides of its comparison are computed first, and if it does not hold,
`Cases` still has them.  Calls of the answer are noted in the same way, so that an error
elsewhere in the check can name the call whose result led to it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

HOOK = "__cases__"  # what the rewritten checks call
LEFT, RIGHT = "__left", "__right"
CLOSE = ("allclose", "array_equal", "array_equiv", "isclose")
WORDS = {ast.Lt: "less than", ast.Gt: "more than", ast.LtE: "at most",
         ast.GtE: "at least", ast.NotEq: "not", ast.In: "one of",
         ast.NotIn: "none of"}  # fmt: skip
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
WIDTH = 76  # of a line of a value


class CaseFailed(AssertionError):
    """A case that does not hold, told in lines."""

    def __init__(self, told: list[str]):
        super().__init__("\n".join(told))
        self.told = told


class Cases:
    """What the rewritten checks of one file of solutions call."""

    def __init__(self) -> None:
        self.called: tuple[str, Any] | None = None  # the last call of the answer

    def calling(self, text: str) -> None:
        """Note the call of the answer that comes now."""
        self.called = text, NotImplemented  # until it returns

    def gave(self, result: Any) -> Any:
        """Note what that call gave; the result.

        The call itself stays in the check: an answer may look at its caller's frame.
        """
        assert self.called is not None
        self.called = self.called[0], result
        return result

    def hold(
        self,
        case: str,
        came: Any,
        expected: Any,
        test: Callable[[Any, Any], Any],
        about: tuple[str, str],
        message: Callable[[], Any] | None,
        where: Mapping[str, str],
        values: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Fail with the case's words, unless `test(came, expected)`.

        `about` has the words before the two values; "" leaves a value out.
        """
        if test(came, expected):
            self.called = None  # a check may ask whether its result is still alive
            return
        told = [case if any(about) else f"this does not hold: {case}"]
        for word, value in zip(about, (came, expected), strict=True):
            word, _, more = word.partition(" ")
            lines = shown(value)
            lines[-1] += f" {more}" if more else ""
            told += labelled(word, lines) if word else []
        told += labelled("", [str(message())]) if message else []
        texts = mentioned(case, where, values())
        lines = [line for text in texts for line in text.split("\n")]
        raise CaseFailed(told + labelled("where", lines))


def labelled(word: str, lines: list[str]) -> list[str]:
    """Lines behind a word, all beginning in the same column."""
    words = [word] + [""] * len(lines)
    pairs = zip(words, lines, strict=False)
    return [f"  {word:<10}{line}".rstrip() for word, line in pairs]


def shown(value: Any) -> list[str]:
    """A value in a few lines, without addresses."""
    try:
        text = repr(value)
    except Exception as e:
        text = f"a {type(value).__name__} whose repr raises {type(e).__name__}"
    lines = [
        line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
        for line in ADDRESS.sub("", text).split("\n")
    ]
    return lines if len(lines) <= 8 else [*lines[:7], "..."]


def one_line(value: Any) -> str:
    """A value in one line."""
    lines = shown(value)
    return lines[0] if len(lines) == 1 else f"{lines[0]} ..."


def mentioned(
    case: str,
    where: Mapping[str, str],
    space: Mapping[str, Any],
    seen: list[str] | None = None,
) -> list[str]:
    """What names in the text of a case stand for, and names in that; a few texts.

    The names themselves are added to `seen`.
    """
    found: list[str] = []
    seen = [] if seen is None else seen
    todo = [case]
    while todo:
        for name in free_names(todo.pop(0)):
            if name not in where or name in seen or len(found) == 5:
                continue
            seen.append(name)
            text = where[name]
            if not text and name in space and not callable(space[name]):
                text = f"{name} = {one_line(space[name])}"
            if text and text not in found:
                found.append(text)
                todo.append(where[name])
    return found


def free_names(text: str) -> list[str]:
    """The names that a piece of source reads and does not set itself, in order."""
    tree = ast.parse(text)
    bound = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    named = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    bound |= {n.id for n in named if isinstance(n.ctx, ast.Store)}
    return list(dict.fromkeys(n.id for n in named if n.id not in bound))


# -- rewriting


def rewritten(tree: ast.Module) -> ast.Module:
    """A file of solutions whose checks tell their cases."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
            Rewriter(node).rewrite()
    return ast.fix_missing_locations(tree)


class Rewriter(ast.NodeTransformer):
    """Rewrites the asserts of one check, and the calls of its answer."""

    def __init__(self, check: ast.FunctionDef):
        self.check = check
        self.answer = check.name.removeprefix("check_")
        self.where = definitions(check)
        self.tainted = tainted(check, self.answer)

    def rewrite(self) -> None:
        """Do it, in place."""
        self.check.body = [
            new for old in self.check.body for new in as_list(self.visit(old))
        ]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        text = ast.unparse(node)
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == self.answer):
            return node
        calling = ast.Call(hook("calling"), [ast.Constant(text)], [])
        both = ast.BoolOp(ast.Or(), [calling, node])
        return ast.copy_location(ast.Call(hook("gave"), [both], []), node)

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        tests = [node.test]
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            tests = node.test.values
        return [self.case(t, node.msg, node) for t in tests]

    def case(self, test: ast.expr, msg: ast.expr | None, at: ast.stmt) -> ast.stmt:
        """The call of `hold` that stands for `assert test, msg`."""
        left, right, test, about = self.sides(test)
        text = self.case_text(left, right)
        arguments = [LEFT, RIGHT]
        args: list[Any] = [
            ast.Constant(text),
            self.visit(left),
            self.visit(right),
            function(arguments, test),
            ast.Tuple([ast.Constant(a) for a in about], ast.Load()),
            function([], self.visit(msg)) if msg else ast.Constant(None),
            ast.parse(repr(self.where), mode="eval").body,
            function([], self.values(text)),
        ]
        call = ast.Expr(ast.Call(hook("hold"), args, []))
        for part in ast.walk(call):
            ast.copy_location(part, at)
        return call

    def values(self, case: str) -> ast.expr:
        """A dict of the names in a case that the check sets several times.

        Not `locals()`: that keeps what a check has deleted.
        """
        found: list[str] = []
        mentioned(case, self.where, {}, found)
        loose = [name for name in found if not self.where[name]]
        keys: list[Any] = [ast.Constant(n) for n in loose]
        return ast.Dict(keys, [ast.Name(n, ast.Load()) for n in loose])

    def case_text(self, left: ast.expr, right: ast.expr) -> str:
        """What a case is called: the side that the answer decides."""
        side = right if self.decided(right) and not self.decided(left) else left
        return ast.unparse(side)

    def decided(self, node: ast.AST) -> bool:
        """Does the answer decide this value?"""
        named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return bool(named & self.tainted)

    def sides(
        self, test: ast.expr
    ) -> tuple[ast.expr, ast.expr, ast.expr, tuple[str, str]]:
        """The two values of a test, the test of these two, and words for them."""
        left, right = ast.Name(LEFT, ast.Load()), ast.Name(RIGHT, ast.Load())
        for holder, field, other, more in pairs(test):
            a, b = getattr_of(holder, field), getattr_of(holder, other)
            set_of(holder, field, left)
            set_of(holder, other, right)
            about = "came", f"expected{more}"
            if self.decided(b) and not self.decided(a):
                about = "expected", "came"
                if "of this" in more:
                    about = "expected (in what came)", "came"
            elif self.decided(b):
                about = "came", "beside"
            return a, b, test, about
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            operand, test.operand = test.operand, left
            wanted = ast.copy_location(ast.Constant(False), test)
            return operand, wanted, test, ("came", "expected")
        return test, ast.Constant(None), left, ("", "")


def pairs(test: ast.expr) -> Iterator[tuple[Any, Any, Any, str]]:
    """(node, field, field, words) of two values that a test compares, if it does."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        inner = difference(test.left) if isinstance(test.ops[0], ast.Lt) else None
        if inner is not None:
            within = f" (within {ast.unparse(test.comparators[0])})"
            yield inner, "left", "right", within
        else:
            word = WORDS.get(type(test.ops[0]), "")
            yield test, "left", ("comparators", 0), f" ({word} this)" if word else ""
    elif isinstance(test, ast.Call) and not test.args:
        method = test.func
        if isinstance(method, ast.Attribute) and method.attr == "all":
            yield from pairs(method.value)
    elif isinstance(test, ast.Call) and called(test) in CLOSE and len(test.args) > 1:
        yield test, ("args", 0), ("args", 1), ""
    elif isinstance(test, ast.Call) and called(test) in ("all", "bool"):
        yield from pairs(test.args[0])


def difference(node: ast.expr) -> ast.BinOp | None:
    """The subtraction in `abs(float(a - b))` or the like."""
    absolute = False
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and not node.args:
            node = node.func.value  # abs(a - b).max()
            continue
        absolute |= called(node) in ("abs", "absolute")
        node = node.args[0]
    return (
        node
        if absolute and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        else None
    )


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    return ast.unparse(node.func).rpartition(".")[2]


def getattr_of(node: Any, field: Any) -> Any:
    """A child of a node, by the name of its field or by (name, index)."""
    if type(field) is tuple:
        return getattr(node, field[0])[field[1]]
    return getattr(node, field)


def set_of(node: Any, field: Any, value: ast.expr) -> None:
    """Put another child there."""
    if type(field) is tuple:
        getattr(node, field[0])[field[1]] = value
    else:
        setattr(node, field, value)


def hook(method: str) -> ast.expr:
    """A method of the `Cases` that a check calls."""
    return ast.Attribute(ast.Name(HOOK, ast.Load()), method, ast.Load())


def function(names: list[str], body: Any) -> ast.Lambda:
    """A lambda."""
    args = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    return ast.Lambda(args, body)


def as_list(found: Any) -> list[ast.stmt]:
    """What a visitor returned, as statements."""
    return found if isinstance(found, list) else [found]


def definitions(check: ast.FunctionDef) -> dict[str, str]:
    """How a check sets each of its names: the text, or "" if there are several."""
    found: dict[str, str] = {}
    for node in own_statements(check.body):
        bound: list[str] = []
        text = ast.unparse(node)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound = [node.name]
        elif isinstance(node, ast.Assign):
            bound = [n for t in node.targets for n in names_set(t)]
        elif isinstance(node, ast.For):
            bound, text = list(names_set(node.target)), ""
        long = text.count("\n") > 5
        for name in bound:
            found[name] = "" if name in found or long else text
    return found


def own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function, those of its loops and the like, not of others."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                yield from own_statements(getattr(node, field, []))


def tainted(check: ast.FunctionDef, answer: str) -> set[str]:
    """Names in a check that the answer decides."""
    found = {answer, *(a.arg for a in check.args.args)}
    grown = True
    while grown:
        before = len(found)
        for name, text in definitions(check).items():
            if text and names_in(ast.parse(text)) & found:
                found.add(name)
        for node in own_statements(check.body):
            if isinstance(node, ast.For) and names_in(node.iter) & found:
                found |= names_in(node.target)
        grown = len(found) > before
    return found


def names_set(target: ast.AST) -> Iterator[str]:
    """The names that an assignment to this target sets."""
    for n in ast.walk(target):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            yield n.id


def names_in(node: ast.AST) -> set[str]:
    """All names in a piece of source."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
