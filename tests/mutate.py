"""Wrong versions of single statements, and which tests notice them.

    python -m tests.mutate record [FILE...]   # once: which test runs which lines
    python -m tests.mutate try --count 50     # judge wrong versions, drawn by --seed
    python -m tests.mutate report             # how many died; those that live

A wrong version changes one thing in a function: an operator, a comparison, a number by
one, a case that is dropped, two operands swapped, a sum that becomes its last term.  It
is put into a child process that has imported everything, in place of the function's
code, and judged by tests that run its line, the quickest of each file first, until one
fails.  What is known lies in --kept: a statement judged before is not judged again.
`same_programs.toml` says of those that live why they are the same program.
"""

import argparse
import ast
import gc
import itertools
import json
import os
import pickle
import random
import resource
import sqlite3
import subprocess
import sys
import time
import tomllib
import types
import zlib
from functools import cache, partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Folders and files of the library.  A test of another one kills nothing here.
ROOMS = """trace transform compile run ops numpy scipy nn random.py image.py export.py
    stablehlo jaxcompat""".split()
HANG = 200  # Seconds in which a child uses no CPU at all.
MEMORY = 8 << 30
ALL_LINES = b"\xff" * 1000
NOT_INSTALLED = 3  # The exit status where no living function has the wrong code.
# They start processes, which run the right version, or judge the book.
APART = "test_book_*", "test_project.py", "test_typing.py", "test_breakage.py"


# ---- wrong versions of a tree: pairs (node, what to change)

COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mod, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
SWAPPED = ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult


def wrong_versions(node):
    """(what is wrong, {field: its wrong value}) for one node."""
    match node:
        case ast.Compare(ops=[op]):
            yield "comparison", {"ops": [COMPARED[type(op)]()]}
        case ast.BinOp(op=op, left=left, right=right):
            if type(op) in OPERATED and not isinstance(left, ast.JoinedStr):
                yield "operator", {"op": OPERATED[type(op)]()}
            if isinstance(op, SWAPPED) and not is_text(left):
                yield "swapped", {"left": right, "right": left}
        case ast.BoolOp(op=op, values=values):
            yield "and, or", {"op": ast.Or() if isinstance(op, ast.And) else ast.And()}
            for fewer in values[:-1], values[1:]:
                if fewer[1:]:
                    yield "a condition less", {"values": fewer}
                else:
                    yield "a condition less", {"instead": fewer[0]}
        case ast.If(test=test):
            if isinstance(test, ast.Constant):
                return
            yield "a dropped case", {"test": ast.Constant(False)}
            yield "always", {"test": ast.Constant(True)}
        case ast.IfExp(body=body, orelse=other):
            yield "the other case", {"body": other, "orelse": body}
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "a sign less", {"instead": operand}
        case ast.Constant(value=bool(value)):
            yield "a flag", {"value": not value}
        case ast.Constant(value=int(value)):
            yield "off by one", {"value": value + 1}
        case ast.Constant(value=float(value)):
            yield "another number", {"value": value * 2 or 1.0}
        case ast.AugAssign(target=target, value=value):
            yield "a lost accumulation", {"instead": ast.Assign([target], value)}
        case ast.comprehension(ifs=[_, *_]):
            yield "no filter", {"ifs": []}
        case ast.Expr(value=ast.Call()):
            yield "a dropped call", {"instead": ast.Pass()}
        case ast.Call(args=[first, second, *rest]):
            if not any(isinstance(x, ast.Starred) for x in (first, second)):
                yield "swapped", {"args": [second, first, *rest]}
        case ast.Call(func=ast.Name("reversed" | "sorted"), args=[only]):
            yield "another order", {"instead": only}


def is_text(node):
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def functions_of(tree):
    """Outermost functions and lambdas of a module, and of its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield node
        else:
            yield from functions_of(node)


def nodes_of(node, statement=None):
    """(node, its statement) below a node: no texts, annotations, errors, assertions."""
    if isinstance(node, ast.arguments | ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.stmt):
        statement = node
    yield node, statement or node
    for name, below in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in below if isinstance(below, list) else [below]:
                if isinstance(child, ast.AST):
                    yield from nodes_of(child, statement)


def versions_of(tree):
    """(function, statement, node, kind, change) of all wrong versions of a module."""
    for function in functions_of(tree):
        body = function.body if isinstance(function.body, list) else [function.body]
        for top in body:
            for node, statement in nodes_of(top):
                for kind, change in wrong_versions(node):
                    yield function, statement, node, kind, change


def lines_of(node):
    place = node.test if isinstance(node, ast.If) else node
    place = node.iter if isinstance(node, ast.comprehension) else place
    return place.lineno, place.end_lineno


def made_wrong(path, number):
    """The tree with a wrong version in it, and its statement before and after."""
    tree = ast.parse(path.read_text())
    versions = itertools.islice(versions_of(tree), number, None)
    function, statement, node, _, change = next(versions)
    before = ast.unparse(statement)
    if instead := change.get("instead"):
        ast.copy_location(instead, node)
        for parent in ast.walk(function):
            for name, below in ast.iter_fields(parent):
                if below is node:
                    setattr(parent, name, instead)
                elif isinstance(below, list):
                    below[:] = [instead if x is node else x for x in below]
        statement = instead if statement is node else statement
    else:
        for name, value in change.items():
            setattr(node, name, value)
    ast.fix_missing_locations(tree)
    return tree, before, ast.unparse(statement)


# ---- what runs instead of what


def codes_of(code):
    """Code of a module's outermost functions, in order."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            is_class = "__qualname__" in const.co_names and not const.co_flags & 2
            if is_class or const.co_name.endswith("comp>"):
                yield from codes_of(const)
            else:
                yield const


def replaced(old, new):
    """{old code: new code} with all that is nested in both alike."""
    found = {old: new}
    inner = [
        [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for code in (old, new)
    ]
    if [c.co_name for c in inner[0]] == [c.co_name for c in inner[1]]:
        for a, b in zip(*inner, strict=True):
            found |= replaced(a, b)
    return found


def install(path, tree, live):
    """Give the functions of a wrong version their new code; how many there are."""
    text = path.read_text()
    was, is_now = (
        list(codes_of(compile(x, str(path), "exec", dont_inherit=True)))
        for x in (text, tree)
    )
    count = 0
    for old, new in zip(was, is_now, strict=True):
        if old == new:
            continue
        for a, b in replaced(old, new).items():
            for function in live.get((str(path), a.co_name, a.co_firstlineno), ()):
                same = function.__code__ == a
                if same and len(a.co_freevars) == len(b.co_freevars):
                    function.__code__ = b
                    count += 1
    return count


def living_functions():
    """{(file, name, line): functions} of the library."""
    found = {}
    for x in gc.get_objects():
        if isinstance(x, types.FunctionType):
            code = x.__code__
            if "minijit" in code.co_filename:
                key = code.co_filename, code.co_name, code.co_firstlineno
                found.setdefault(key, []).append(x)
    return found


# ---- tests in a child process


def in_child(work):
    """Run `work()` in a child: its exit status, or why it was ended."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 99
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            status = work() or 0
        finally:
            os._exit(status)
    used, since = None, time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        now = Path(f"/proc/{child}/stat").read_text().rsplit(")")[-1].split()[11:13]
        if now != used:
            used, since = now, time.monotonic()
        if time.monotonic() - since > HANG:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return "hang"
        time.sleep(0.02)


def outcome(item, after, expected=None):
    """passed, failed, or skipped; an endless loop ends the process."""
    from _pytest.runner import runtestprotocol

    if expected is not None:
        now = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        limit = int(now + 10 * expected + 15)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    if "little_to_collect" in item.fixturenames:
        item.fixturenames.remove("little_to_collect")  # A child is short.
    reports = runtestprotocol(item, nextitem=after, log=False)
    if any(r.failed for r in reports):
        return "failed"
    return "skipped" if any(r.skipped for r in reports) else "passed"


class Plugin:
    """Instead of running what is collected, do `work(items)`."""

    def __init__(self, work):
        self.work = work

    def pytest_runtestloop(self, session):
        for item in session.items:
            item.obj  # noqa: B018  made once, not in each child
        gc.collect()
        live = living_functions()
        gc.freeze()
        self.work(session.items, live)
        return True


def with_tests(files, work, kept):
    """Collect the files, and hand their tests to `work`."""
    os.environ["MINIJIT_CACHE_DIR"] = str(kept / "cache")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header"]
    status = pytest.main([*options, *files], plugins=[Plugin(work)])
    assert status in (0, 5), status


def test_files():
    apart = {p for glob in APART for p in (ROOT / "tests").glob(glob)}
    return sorted(set((ROOT / "tests").glob("test_*.py")) - apart)


# ---- which test runs which lines


def record(files, kept, seconds):
    """Run each file in a child, and keep (seconds, {source: lines}) of its tests.

    Of a file that takes longer than some seconds tests by chance.
    """
    import coverage

    def one(name, items):
        data = kept / f"{name}.coverage"
        data.unlink(missing_ok=True)
        measured = coverage.Coverage(
            data_file=str(data),
            config_file=False,
            include=[f"{ROOT}/minijit/{room}" for room in ROOMS]
            + [f"{ROOT}/minijit/{room}/*" for room in ROOMS],
            omit=["*/<*"],  # Code that the library makes is no file.
        )
        measured.start()
        results = {}
        random.Random(0).shuffle(items)
        for item, after in itertools.zip_longest(items, items[1:]):
            if time.process_time() > seconds:
                break
            measured.switch_context(item.nodeid)
            start = time.process_time()
            result = outcome(item, after)
            results[item.nodeid] = result, time.process_time() - start
        measured.stop()
        measured.save()
        rows = sqlite3.connect(data).execute(
            "select context.context, file.path, numbits from line_bits "
            "join context on context_id = context.id join file on file_id = file.id"
        )
        lines = {}
        for context, path, bits in rows:
            lines.setdefault(context, {})[os.path.relpath(path, ROOT)] = bits
        tests = {
            test: (seconds, lines.get(test, {}))
            for test, (result, seconds) in results.items()
            if result == "passed"
        }
        bad = [t for t, (result, _) in results.items() if result == "failed"]
        sources = {f"tests/{name}.py"}.union(*(of_it for _, of_it in tests.values()))
        digests = {source: digest(source) for source in sources}
        pickle.dump((tests, bad, digests), (kept / f"{name}.lines").open("wb"))
        data.unlink()

    def work(items, live):
        for name in dict.fromkeys(item.path.stem for item in items):
            of_file = [item for item in items if item.path.stem == name]
            status = in_child(partial(one, name, of_file))
            said = ""
            if status == 0:
                tests, bad, _ = pickle.load((kept / f"{name}.lines").open("rb"))
                seconds = sum(s for s, _ in tests.values())
                said = f"{len(tests)} tests in {seconds:.0f} s; {len(bad)} fail {bad}"
            print(f"{name}: {status} {said}", flush=True)

    with_tests([str(f) for f in files], work, kept)


@cache
def digest(source):
    path = ROOT / source
    return path.exists() and zlib.crc32(path.read_bytes())


def recorded(files, kept):
    """{test: (seconds, {source: lines})} of the files that were recorded.

    Of a source that changed since, all lines: which one is which, nobody knows.
    """
    found = {}
    for path in [kept / f"{file.stem}.lines" for file in files]:
        if not path.exists():
            continue
        tests, _, digests = pickle.load(path.open("rb"))
        changed = {source for source, was in digests.items() if was != digest(source)}
        if f"tests/{path.stem}.py" in changed:
            print(f"{path.stem} changed since it was recorded: new tests are left out")
        for test, (seconds, lines) in tests.items():
            every = {source: ALL_LINES for source in lines.keys() & changed}
            found[test] = seconds, lines | every
    return found


def runs(lines, first, last):
    """Whether a test that runs these lines of a file runs one from first to last."""
    return any(
        lines[n >> 3] >> (n & 7) & 1
        for n in range(first, last + 1)
        if n >> 3 < len(lines)
    )


def chosen(tests, source, lines, seconds):
    """Tests that run the lines: of each file the quickest first, up to some seconds."""
    of_file = {}
    for test, (took, sources) in tests.items():
        if source in sources and runs(sources[source], *lines):
            of_file.setdefault(test.partition("::")[0], []).append((took, test))
    ranked = sorted(
        (rank, took, test)
        for name in of_file.values()
        for rank, (took, test) in enumerate(sorted(name))
    )
    # By rank: 0 to 2 of each file, then those from 3 to 30, then the rest.
    ranked.sort(key=lambda x: (x[0] > 2) + (x[0] > 30))
    total, found = 0, []
    for _, took, test in ranked:
        if found and total + took > seconds:
            continue
        total += took + 0.01
        found.append((test, took))
    return found, len(ranked)


# ---- judging


def drawn(seed, rooms):
    """Endlessly: (source, number, lines, kind) of wrong versions, by rooms in turn."""
    draw, files = random.Random(seed), {}
    for room in rooms:
        place = ROOT / "minijit" / room
        paths = [place] if place.suffix else sorted(place.rglob("*.py"))
        files[room] = paths, [p.stat().st_size for p in paths]
    for room in itertools.cycle(rooms):
        path, = draw.choices(*files[room])
        if versions := all_of(path):
            # A kind as another: numbers and conditions are many.
            kind = draw.choice(sorted({v[-1] for v in versions}))
            yield draw.choice([v for v in versions if v[-1] == kind])


def all_of(path):
    """(source, number, lines, kind) of all wrong versions of a file."""
    versions = versions_of(ast.parse(path.read_text()))
    return [
        (path, number, lines_of(node), kind)
        for number, (_, _, node, kind, _) in enumerate(versions)
    ]


def judged(kept):
    """{key: result} of all that was judged."""
    path = kept / "judged.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {r["key"]: r for r in map(json.loads, lines)}


def explained():
    """{key: why a version is the same program}"""
    text = Path(__file__).with_name("same_programs.toml").read_text()
    rows = tomllib.loads(text)["same"]
    return {f"{r['source']}: {r['before']} -> {r['after']}": r["why"] for r in rows}


def attempt(args):
    """Judge versions that nobody judged, or those that lived, or those --at a place."""
    kept, draw = args.kept, drawn(args.seed, args.rooms)
    tests = recorded(args.files, kept)
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.check_output(git, cwd=ROOT, text=True).strip()
    known = judged(kept)
    if args.what == "again":
        lived = {r["key"] for r in known.values() if r["killer"] is None}
        lived -= explained().keys()
        sources = sorted({r["source"] for r in known.values() if r["key"] in lived})
        draw = itertools.chain.from_iterable(all_of(ROOT / s) for s in sources)
    elif args.at:
        name, _, line = args.at.partition(":")
        draw = [v for v in all_of(ROOT / name)
                if not line or v[2][0] <= int(line) <= v[2][1]]  # fmt: skip

    def work(items, live):
        by_name = {item.nodeid: item for item in items}
        done = set()
        for path, number, lines, kind in draw:
            if len(done) >= args.count:
                return
            source = str(path.relative_to(ROOT))
            tree, before, after = made_wrong(path, number)
            key = f"{source}: {before} -> {after}"
            wanted = key in lived if args.what == "again" else key not in known
            of_it, everyone = chosen(tests, source, lines, args.seconds)
            # Where nothing runs it, it is for imports alone.
            if not (wanted or args.at) or key in done or before == after or not of_it:
                continue
            done.add(key)
            start = time.time()
            killer, tried = judge(path, tree, live, by_name, of_it, kept)
            forget(kept / "cache", start)
            if killer is NOT_INSTALLED:
                continue
            result = {
                "key": key, "source": source, "line": lines[0], "kind": kind,
                "before": before, "after": after, "killer": killer, "tried": tried,
                "of": everyone, "commit": commit,
            }  # fmt: skip
            with (kept / "judged.jsonl").open("a") as f:
                print(json.dumps(result), file=f)
            print(f"{f'dies by {killer}' if killer else 'lives'}: {source}:{lines[0]} "
                  f"{kind}; {tried} of {everyone}, {time.time() - start:.0f} s",
                  flush=True)  # fmt: skip

    os.chdir(ROOT)
    recorded_files = [f for f in args.files if (kept / f"{f.stem}.lines").exists()]
    with_tests(recorded_files, work, kept)


def judge(path, tree, live, by_name, of_it, kept):
    """(test that fails, or None; how many were tried)."""
    # Not before pytest has read conftest.py, which says for which machine loops are.
    from minijit.book.caches import clear_caches
    from minijit.run.llvm.kernels import native_functions

    report = kept / f"report.{os.getpid()}"

    def work():
        if not install(path, tree, live):
            return NOT_INSTALLED
        # What tests computed as they were collected is of the right version.
        of_rooms = tuple(f"minijit.{room.removesuffix('.py')}" for room in ROOMS)
        clear_caches([m for n, m in [*sys.modules.items()] if n.startswith(of_rooms)])
        native_functions.clear()
        with report.open("w", buffering=1) as said:
            items = [(by_name[t], took) for t, took in of_it if t in by_name]
            for (item, took), after in itertools.zip_longest(items, items[1:]):
                print(item.nodeid, file=said)
                after = after and after[0]
                if outcome(item, after, took) == "failed":
                    return 1

    report.unlink(missing_ok=True)
    status = in_child(work)
    tried = report.read_text().splitlines() if report.exists() else []
    report.unlink(missing_ok=True)
    if status == 0:
        return None, len(tried)
    if not tried:
        return NOT_INSTALLED, 0  # It is made anew in each call, or kept elsewhere.
    last = tried[-1]
    return (last if status == 1 else f"{last} ({status})"), len(tried)


def forget(cache, since):
    """Drop what wrong versions left for those after them."""
    for path in cache.rglob("*"):
        if path.is_file() and path.stat().st_mtime >= since - 1:
            path.unlink()


def report(kept):
    results, same = judged(kept).values(), explained()
    results = [r for r in results if r["killer"] or r["key"] not in same]
    lived = [r for r in results if r["killer"] is None]
    for r in sorted(lived, key=lambda r: (r["source"], r["line"])):
        print(f"\n{r['source']}:{r['line']} {r['kind']}; {r['tried']} of {r['of']}")
        print("  -", r["before"][:400].replace("\n", "\n    "))
        print("  +", r["after"][:400].replace("\n", "\n    "))
    print(f"\n{len(results)} wrong versions, {len(results) - len(lived)} die")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["record", "try", "again", "report"])
    parser.add_argument("files", nargs="*", type=Path, help="of tests; all of them")
    parser.add_argument("--kept", type=Path, default=Path("/tmp/minijit-mutate"))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="*", default=ROOMS)
    parser.add_argument("--seconds", type=float, default=40, help="of tests for each")
    parser.add_argument("--at", help="FILE or FILE:LINE: all versions of it")
    args = parser.parse_intermixed_args()
    args.kept.mkdir(exist_ok=True)
    args.files = [p.resolve() for p in args.files] or test_files()
    match args.what:
        case "record":
            record(args.files, args.kept, args.seconds)
        case "report":
            report(args.kept)
        case _:
            attempt(args)


if __name__ == "__main__":
    main()
