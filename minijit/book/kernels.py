"""Kernels that a reader writes, run in lock-step: what they compute, move and break.

    def double(x, y, n):
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if i < n:
            y[i] = x[i] * 2

    ran = launch(double, 4, 256, x, y, 1000)        # y is written
    ran.sectors("x"), ran.loads("x")                # pieces of 32 bytes, numbers
    draw(ran, "x", "y")                             # who uses what

A kernel is Python as numba.cuda takes it.  Arrays have one axis; whatever else a kernel
is given is a constant in it.  What it must not do raises, with the line of the kernel.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import math
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from ..run.device import lockstep
from ..run.device.grid_memory import MOST_THREADS, SECTOR, WARP
from ..run.device.lockstep_memory import NOBODY, Lanes, Memory, Race
from ..trace.base.errors import MinijitError
from . import style
from .exercise import is_empty

MOST = 10_000  # statements that a kernel may run; one of a puzzle runs hundreds
# What a kernel is made of, as classes of Python's syntax.
KNOWN = {*lockstep.rows, *lockstep.expressions, *lockstep.operators}
KNOWN -= {ast.Break, ast.AnnAssign}
KNOWN |= {ast.AugAssign, ast.BoolOp, ast.And, ast.Or, ast.Not, ast.USub, ast.Invert}
KNOWN |= {ast.Load, ast.Store}
THREAD = [f"cuda.{n}.x" for n in ("threadIdx", "blockIdx", "blockDim", "gridDim")]
NUMBERS = {f"math.{n}": getattr(math, n) for n in ("inf", "nan", "pi", "e")}
DTYPES = {f"np.float{n}" for n in (16, 32, 64)}
DTYPES |= {f"np.{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)}
SHARED = "cuda.shared.array"
COUNT = ast.Constant | ast.BinOp | ast.Mult | ast.Add  # such as 32 * 33
# What it may call, besides functions of `math` and those types.
CALLS = {
    text.partition("(")[0]: text
    for text in (
        "cuda.syncthreads()", "cuda.shfl_xor_sync(-1, v, 16)", "max(a, b)", "min(a, b)",
        "cuda.shared.array(64, np.float32)", "abs(a)",
    )
}  # fmt: skip
# What to write in place of what it has not, by its class or its name.
ONE_INDEX = "an array has one index, such as `row * width + column`"
LENGTH = "give the kernel the number of elements, as `n`"
GLOBAL = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
FLOW = "put what only some threads do into an `if`, and when to end into the `while`"
instead: dict[Any, str] = {
    ast.Return: FLOW, ast.Break: FLOW, ast.Continue: FLOW,
    ast.Tuple: ONE_INDEX, ast.Slice: ONE_INDEX,
    ast.Pow: "write `v * v`, and `1 << k` for 2 to the power of k",
    ast.AnnAssign: "a variable has no type here: write `a = v`",
    ast.For: "a loop is `for k in range(7)`, or a `while`",
    ast.Attribute: f"there are {', '.join(THREAD)}",
    ast.Call: f"there are {', '.join(CALLS.values())}, math.exp(v) and so on",
    "shape": LENGTH, "size": LENGTH, "len": LENGTH,
    "divmod": "write `i // n` and `i % n`", "int": "write `i // n`, or `np.int32(v)`",
    "float": "write `np.float32(v)`", "cuda.grid": f"write `{GLOBAL}`",
}  # fmt: skip
ALL = "write it with `if`, `for`, `while`, numbers and elements of arrays"


class NoKernel(MinijitError):
    """A kernel has a statement that does not run in lock-step."""


class Unset(MinijitError):
    """A thread uses what nobody has stored, or a variable that it has not set."""


class Plain(ast.NodeTransformer):
    """Says in fewer words what a kernel says: `a += b`, `a and b`, `0 <= i < n`."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.sizes = {"blockDim": threads, "gridDim": blocks}

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        old = ast.parse(ast.unparse(node.target), mode="eval").body
        value = ast.BinOp(old, node.op, node.value)
        return self.visit(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        assert isinstance(node.iter, ast.Call)
        for step in node.iter.args[2:]:
            node.iter.args[2] = ast.Call(ast.Name("step", ast.Load()), [step], [])
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        first, *rest = map(self.visit, node.values)
        if not rest:
            return first
        other = self.visit(ast.BoolOp(node.op, rest))
        if isinstance(node.op, ast.And):
            return ast.IfExp(first, other, ast.Constant(False))
        return ast.IfExp(first, ast.Constant(True), other)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        tests: list[ast.expr] = [ast.Compare(a, [op], [b]) for a, op, b in pairs]
        return self.visit_BoolOp(ast.BoolOp(ast.And(), tests)) if tests[1:] else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if (text := ast.unparse(node)) in NUMBERS:
            return ast.Constant(NUMBERS[text])
        of = getattr(node.value, "attr", "")
        return ast.Constant(self.sizes[of]) if of in self.sizes else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) == SHARED:
            node.args[0] = ast.Constant(eval(ast.unparse(node.args[0])))
        own = {"max": "maximum", "min": "minimum"}.get(ast.unparse(node.func))
        return ast.Call(ast.Name(own, ast.Load()), node.args, []) if own else node


def faults(
    node: ast.AST, arrays: set[str], names: set[str]
) -> Iterator[tuple[ast.AST, str]]:
    """What lock-step does not know in a part of a kernel, and what to write instead.

    Args:
      arrays: the names of arrays; names: of these, and of numbers.
    """
    parts: list[Any] = list(ast.iter_child_nodes(node))
    signs = (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
    strange = [type(n) for n in parts if isinstance(n, signs) and type(n) not in KNOWN]
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=to)], value=ast.Tuple(elts=values)):
            parts = [*to, *values]
        case ast.Assign(targets=[ast.Tuple()]):
            yield from faults(node.value, arrays, names)
            yield node, "write a value for each name, `r, c = i // n, i % n`"
        case ast.Assign(targets=[_, _, *_]):
            yield node, "write a statement for each name"
        case ast.Assign(targets=[ast.Name()]) if is_array(node.value, arrays):
            parts = [node.value] if isinstance(node.value, ast.Call) else []
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=ends), orelse=[]):
            parts = [*ends, *node.body]
        case ast.While(orelse=[first, *_]) | ast.For(orelse=[first, *_]):
            yield first, "a loop has no `else`: write what comes after it below it"
        case ast.For():
            yield node.iter, instead[ast.For]
        case ast.Subscript(value=ast.Name(id=name)) if name in arrays:
            parts = [node.slice]
        case ast.Call():
            if advice := call_fault(node):
                yield node, advice
            called = ast.unparse(node.func)
            parts = [] if called == SHARED else node.args
        case ast.Attribute(attr=name):
            if (text := ast.unparse(node)) not in {*THREAD, *NUMBERS}:
                yield node, instead.get(name) or like(text) or instead[ast.Attribute]
            parts = []
        case ast.Name(id=name) if name in arrays:
            yield node, f"an array is used by its elements, such as `{name}[i]`"
        case ast.Name(id=name) if name not in names:
            yield node, "write the number itself, or give it to the kernel as well"
        case _ if type(node) not in KNOWN:
            yield node, instead.get(type(node), ALL)
        case _ if strange:
            yield node, instead.get(strange[0], ALL)
    for part in parts:
        yield from faults(part, arrays, names)


def call_fault(node: ast.Call) -> str:
    """What to write instead of a call; nothing if it is as it should be."""
    called = ast.unparse(node.func)
    of_math = "math." + called.split(".")[-1]
    if of_math.removeprefix("math.") not in vars(math):
        of_math = ""
    if called.startswith("cuda.atomic."):
        return "threads take turns at it; do it without `cuda.atomic`"
    form = CALLS.get(called)
    if form is None:
        if called not in DTYPES and called != of_math:
            advice = instead.get(called) or like(called)
            return advice or (of_math and f"write `{of_math}(v)`") or instead[ast.Call]
        return f"write `{called}(v)`" if node.keywords else ""
    example = ast.parse(form, mode="eval").body
    assert isinstance(example, ast.Call)
    right = not node.keywords and len(node.args) == len(example.args)
    if right and called == SHARED:
        size, dtype = node.args
        if not all(isinstance(n, COUNT) for n in ast.walk(size)):
            return f"write the size as one number: `{form}`"
        right = ast.unparse(dtype) in DTYPES
    return "" if right else f"write `{form}`"


def is_array(value: ast.AST, arrays: set[str]) -> bool:
    """Whether an expression is an array: one of these, or one that it makes."""
    made = isinstance(value, ast.Call) and ast.unparse(value.func) == SHARED
    return made or isinstance(value, ast.Name) and value.id in arrays


def like(text: str) -> str:
    """What to write for a name that is nearly one that there is."""
    found = difflib.get_close_matches(text, [*THREAD, *CALLS], 1, 0.8)
    return f"write `{CALLS.get(found[0], found[0])}`" if found else ""


@dataclass(frozen=True)
class Access:
    """What threads did in one statement, to an array or together.

    Attributes:
      what: `loads`, `stores` or `combines`; or, of no array, `exchanges` or `barriers`.
      shared: whether the array is a block's own.
      threads, places: who, counted through the grid, and where: numbers of elements.
      taken: which of the elements another thread had stored.
      waited: how many barriers each of the threads had passed.
    """

    name: str
    what: str
    shared: bool
    itemsize: int
    threads: np.ndarray
    places: np.ndarray
    taken: np.ndarray
    waited: np.ndarray


@dataclass(frozen=True)
class Ran:
    """What a kernel did.

    Attributes:
      accesses: in order; counts: {name: `Counts`}.
    """

    accesses: list[Access]
    counts: dict[str, Any]

    def of(self, *names: str, **about: Any) -> list[Access]:
        """What was done to some arrays, or to all: `of("x", what="loads")`."""
        for name in names:
            self.count(name)
        found = [a for a in self.accesses if not names or a.name in names]
        return [a for a in found if all(getattr(a, k) == v for k, v in about.items())]

    def uses(self, *names: str, **about: Any) -> Any:
        """The same in a table, a row for each time that a thread did it.

        The columns: thread, place, taken, waited, and step, the number of the access.
        """
        columns = [
            (a.threads, a.places, a.taken, a.waited, np.full(len(a.threads), step))
            for step, a in enumerate(self.of(*names, **about))
        ]
        titles = ("thread", "place", "taken", "waited", "step")
        joined = [np.concatenate(c) for c in zip(*columns, strict=True)]
        return np.rec.fromarrays(
            joined or [np.zeros(0, int)] * 5, dtype=[(name, int) for name in titles]
        )

    def count(self, name: str) -> Any:
        if name not in self.counts:
            raise NoKernel(f"the kernel has no array `{name}`: keep the names it had")
        return self.counts[name]

    def sectors(self, name: str) -> int:
        return self.count(name).sectors

    def loads(self, name: str) -> int:
        return self.count(name).loads

    @property
    def conflicts(self) -> int:
        """How often a warp waited for a bank of shared memory."""
        return sum(c.conflicts for c in self.counts.values())


def unset(size: int) -> np.ndarray:
    """An array of float32 as nobody has stored into it: nothing in it can be loaded."""
    return np.full(size, np.nan, np.float32)


class Careful(lockstep.Lockstep):
    """Lock-step that also looks at what readers may do, and a compiler does not."""

    def __init__(
        self,
        found: list[Access],
        races: list[Race],
        lanes: Lanes,
        names: dict[str, Any],
    ) -> None:
        super().__init__(lanes, names)
        self.found, self.races, self.steps = found, races, 0
        # {name: which lanes have set it, to what}, where not all have.
        self.partly: dict[str, tuple[np.ndarray, Any]] = {}

    def still(self, mask: np.ndarray) -> np.ndarray:
        self.steps += 1
        if self.steps > MOST:
            endless = NoKernel(f"after {MOST:,} statements the kernel has not ended")
            raise self.races[0] if self.races else endless
        return super().still(mask)

    def assign(self, target: Any, value: Any, mask: np.ndarray, *more: Any) -> None:
        name = getattr(target, "id", "")
        lanes = self.set_by(name) | mask
        super().assign(target, value, mask, *more)
        if name and not lanes.all():
            self.partly[name] = lanes, self.names[name]

    def set_by(self, name: str) -> np.ndarray:
        """Which lanes have set a variable."""
        lanes, value = self.partly.get(name, (None, None))
        if lanes is not None and self.names[name] is value:
            return lanes
        return np.full(self.lanes.lane.shape, name in self.names)

    def value(self, node: ast.AST, mask: np.ndarray) -> Any:
        if isinstance(node, ast.BinOp):
            x, y = self.value(node.left, mask), self.value(node.right, mask)
            if isinstance(node.op, ast.FloorDiv | ast.Mod):
                whole = np.result_type(x, y).kind in "biu"
                self.refuse(whole & np.equal(y, 0), mask, "divides by 0")
            if isinstance(node.op, ast.LShift | ast.RShift):
                far = np.less(y, 0) | np.greater(y, 63)
                self.refuse(far, mask, "shifts by a number that is not 0 to 63")
            return lockstep.operators[type(node.op)](x, y)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "step":
            # Of threads that do not count, it is that of one that does.
            step = self.lanes.spread(self.value(node.args[0], mask))
            first = step[np.argmax(mask)]
            self.refuse(step == 0, mask, "has a step of 0")
            other = (step > 0) != (first > 0)
            self.refuse(other, mask, "has a step of another sign than others")
            return np.where(mask, step, first)
        if isinstance(node, ast.Name) and node.id in self.partly:
            others = mask & ~self.set_by(node.id)
            if others.any():
                who = Memory.who(self.lanes, others.argmax())
                raise Unset(f"{who} uses {node.id}, which it has not set")
        return super().value(node, mask)

    def refuse(self, wrong: Any, mask: np.ndarray, does: str) -> None:
        """Raise NoKernel if a thread does what is undefined."""
        if (wrong := mask & wrong).any():
            raise NoKernel(f"{Memory.who(self.lanes, wrong.argmax())} {does}")

    def barrier(self, mask: np.ndarray) -> None:
        self.together("barriers", mask)
        super().barrier(mask)

    def exchange(self, mask: np.ndarray, *args: Any) -> Any:
        self.together("exchanges", mask)
        return super().exchange(mask, *args)

    def together(self, what: str, mask: np.ndarray) -> None:
        who, waited = self.lanes.lane[mask], self.lanes.epoch[mask]
        none = np.zeros(len(who), bool)
        self.found.append(Access("", what, False, 0, who, none, none, waited))


def kernel_tree(
    kernel: Callable[..., Any], threads: int, blocks: int, given: dict[str, Any]
) -> tuple[ast.FunctionDef, list[str]]:
    """The statements of a kernel, in words that lock-step reads, and its lines.

    Args:
      given: {name: the array or number that it is given}.

    Raises:
      NoKernel: where it has none.
    """
    lines = textwrap.dedent(inspect.getsource(kernel)).split("\n")
    function = ast.parse("\n".join(lines)).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise NoKernel("a kernel is a function of its own: `def kernel(x, y):`")
    arrays = {name for name, x in given.items() if isinstance(x, np.ndarray)}
    nodes = [n for stmt in function.body for n in ast.walk(stmt)]
    for n in nodes:
        if isinstance(n, ast.Assign) and is_array(n.value, arrays):
            arrays |= {t.id for t in n.targets if isinstance(t, ast.Name)}
    names = [n for n in nodes if isinstance(n, ast.Name)]
    known = {n.id for n in names if isinstance(n.ctx, ast.Store)} | set(given)
    for stmt in function.body:
        for node, advice in faults(stmt, arrays, known):
            does = "does not run in lock-step"
            if isinstance(node, ast.Name) and node.id not in known | arrays:
                does = "is no variable or parameter of this kernel"
            what = f"`{ast.unparse(node)}` {does}: {advice}"
            raise NoKernel(located(what, node, lines))
    plain = Plain(threads, blocks)
    function.decorator_list = []
    function.body = [plain.visit(stmt) for stmt in function.body]
    return ast.fix_missing_locations(function), lines


def located(text: str, node: Any, lines: list[str]) -> str:
    """A message in several lines, the last of which says where."""
    where = f"in line {node.lineno}: {lines[node.lineno - 1].strip()}"
    return "\n".join([*textwrap.wrap(text, 80, break_on_hyphens=False), where])


def launch(
    kernel: Callable[..., Any], blocks: int = 0, threads: int = 0, *given: Any
) -> Ran:
    """Run a kernel on arrays and numbers: -> `Ran`.

    Args:
      blocks: how many; threads: of each, a multiple of 32, at most 1,024.
      given: an array that must not be stored into is not writeable.

    Raises:
      OutOfBounds, Unset, Race, Divergence: where it does what is undefined; NoKernel.
    """
    if not all(isinstance(n, int) and n > 0 for n in (blocks, threads)):
        raise NoKernel(
            "say how many blocks, and how many threads of each, before what the kernel "
            f"is given: `{kernel.__name__}, 1, 64, ...`"
        )
    if threads % WARP or not 0 < threads <= MOST_THREADS:
        raise NoKernel(
            f"a block has a multiple of {WARP} threads, {MOST_THREADS:,} at the most; "
            f"not {threads}"
        )
    kernel = getattr(kernel, "py_func", kernel)
    names = list(inspect.signature(kernel).parameters)
    if len(names) != len(given):
        raise NoKernel(f"the kernel takes {', '.join(names)}; given are {len(given)}")
    pairs = dict(zip(names, given, strict=True))
    for name, value in pairs.items():
        if np.ndim(value) != (1 if isinstance(value, np.ndarray) else 0):
            kind = f"{type(value).__name__} with {np.ndim(value)} axes"
            raise NoKernel(
                f"{name} is a {kind}: a kernel is given numbers, and arrays of NumPy "
                "with one axis, such as `x.reshape(-1)`"
            )
    function, lines = kernel_tree(kernel, threads, blocks, pairs)
    numbers = {n: repr(x) for n, x in pairs.items() if not isinstance(x, np.ndarray)}
    function.args.args = [a for a in function.args.args if a.arg not in numbers]
    made = SimpleNamespace(
        # A tree is parsed as it is, and has the lines of the reader's text.
        printed=SimpleNamespace(text=ast.Module([function], [])), constants=numbers,
        grid=(blocks, 1, 1), block=(threads, 1, 1),
    )  # fmt: skip
    try:
        return watched(made, *(x for x in given if isinstance(x, np.ndarray)), own=True)
    except Exception as error:
        frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
        node = getattr(error, "stmt", None) or innermost(reversed(frames))
        if isinstance(error, MinijitError):
            raise type(error)(located(str(error), node, lines)) from None
        what = f"this does not run in lock-step: {type(error).__name__}: {error}"
        raise NoKernel(located(what, node, lines)) from error


def innermost(frames: Iterable[FrameType]) -> Any:
    """The statement of a kernel that these frames run, the innermost one first."""
    code = lockstep.Lockstep.block.__code__
    return next(f.f_locals["stmt"] for f in frames if f.f_code is code)


def watched(kernel: Any, *arrays: np.ndarray, own: bool = False) -> Ran:
    """Run a kernel that has its text and its grid, as a `CudaKernel` has: -> `Ran`.

    Args:
      own: whether a reader wrote it, who may use what nobody has stored; a compiler
        may load that, and not use it.
    """
    accesses: list[Access] = []
    races: list[Race] = []
    places, race = Memory.places, Memory.race

    def watch(
        memory: Memory, lanes: Lanes, index: Any, mask: np.ndarray, what: str
    ) -> Any:
        if own and lanes.spread(index).dtype.kind not in "iu":
            raise NoKernel(
                f"an index of {memory.name} is not a whole number: write `//` to "
                "divide, not `/`"
            )
        going, where = places(memory, lanes, index, mask, what)
        here = lanes.spread(index)[going].astype(int)
        shared, storer = memory.kind != "global", memory.writers.lane[where]
        threads, size = lanes.lane[going], memory.values.itemsize
        taken, waited = (storer != NOBODY) & (storer != threads), lanes.epoch[going]
        accesses.append(
            Access(memory.name, what, shared, size, threads, here, taken, waited)
        )
        # Nothing is in shared memory at first, nor in what `unset` makes.
        bad = (storer == NOBODY) & (shared | np.isnan(memory.values[where]))
        if own and what != "stores" and bad.any():
            i = bad.argmax()
            who = f"{memory.who(lanes, going[i])} {what} {memory.name}[{here[i]}]"
            raise Unset(f"{who}, which no thread has stored")
        if what != "loads" and not memory.values.flags.writeable:
            who = f"{memory.who(lanes, going[0])} {what} {memory.name}[{here[0]}]"
            raise NoKernel(f"{who}, and {memory.name} is only to be loaded")
        return going, where

    def note(memory: Memory, *args: Any, **more: Any) -> None:
        try:
            race(memory, *args, **more)
        except Race as error:
            here = traceback.walk_stack(inspect.currentframe())
            vars(error)["stmt"] = innermost(f for f, _ in here)
            races.append(error)

    # A wrong index makes threads meet.  So what is outside of an array, a barrier that
    # some threads miss and what nobody has stored are told before a race.
    kind: Any = functools.partial(Careful, accesses, races)
    noted = note if own else race
    with mock.patch.multiple(Memory, places=watch, race=noted):
        counts = lockstep.run_in_lockstep(
            kernel, *arrays, kind=kind if own else lockstep.Lockstep
        )
    if races:
        raise races[0]
    return Ran(accesses, counts)


def on_grid(kernel: Any, launch: Any) -> SimpleNamespace:
    """A kernel of the compiler with its text and its grid, for `watched`."""
    from ..run.device.emitter import print_on_grid
    from ..run.python.source_text import Constants

    names = Constants()
    printed = print_on_grid(kernel, "kernel_0", names, launch)
    return SimpleNamespace(printed=printed, constants=names.definitions,
                           args=printed.buffers, grid=launch.grid,
                           block=(launch.threads, 1, 1))  # fmt: skip


def sectors_of(kernel: Any) -> dict[str, tuple[int, int]]:
    """{array: (sectors that are moved, the fewest that could be)}"""
    arrays = [np.ones(buffer.shape, buffer.dtype) for buffer in kernel.args]
    counts = watched(kernel, *arrays).counts.items()  # shared memory comes last
    return {
        name: (count.sectors, -(-array.nbytes // SECTOR))
        for (name, count), array in zip(counts, arrays, strict=False)
    }


def draw(ran: Ran, *names: str, threads: int = WARP) -> Any:
    """Draw for each array which element each of the first threads uses, and when.

    What they use at once has one color, and what comes next another.  A band is a
    sector of 32 bytes; shared memory has none, and there waits for a bank count.
    """
    width = max(8, 2 * len(names))  # the label below each stays its own
    fig, axes = style.figure(width, 2.6, ncols=len(names), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for step, access in enumerate(ran.of(name)):
            here = access.threads < threads
            if not here.any():
                continue
            color = style.COLORS[step % len(style.COLORS)]
            each = SECTOR // access.itemsize
            for piece in {} if access.shared else set(access.places[here] // each):
                first = piece * each - 0.2  # neighbours do not touch
                axis.axhspan(first, first + each - 0.6, color=color, alpha=0.12, lw=0)
            axis.scatter(access.threads[here], access.places[here], s=7, color=color)
        axis.set_title(f"{name}: {moved(ran, name)}")
        axis.set_xlim(-1, threads)
        axis.set_xlabel(f"thread, of the first {threads}")
    axes[0][0].set_ylabel("element")
    return axes[0]


def moved(ran: Ran, name: str) -> str:
    """What the use of an array costs."""
    if ran.of(name, shared=True):
        return f"{ran.counts[name].conflicts} waits for a bank"
    return f"{ran.sectors(name)} sectors in all"


def look(
    kernel: Callable[..., Any], blocks: int = 0, threads: int = 0, *given: Any
) -> None:
    """Say what a kernel moves and breaks, and draw who uses what."""
    if is_empty(kernel):
        print(f"`{kernel.__name__}` is empty so far")
        return
    try:
        ran = launch(kernel, blocks, threads, *given)
    except MinijitError as error:
        print(f"{type(error).__name__}: {error}")
        return
    names = list(dict.fromkeys(access.name for access in ran.accesses if access.name))
    for name in names:
        count = ran.counts[name]
        print(f"{name}: {count.loads} loads, {count.stores} stores, {moved(ran, name)}")
    draw(ran, *names)
