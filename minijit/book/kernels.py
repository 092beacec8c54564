"""Kernels that a reader writes, run in lock-step: what they compute, move and break.

    def double(x, y, n):
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if i < n:
            y[i] = x[i] * 2

    ran = launch(double, 4, 256, x, y, 1000)        # y is written
    ran.sectors("x"), ran.loads("x")                # pieces of 32 bytes, numbers
    draw(ran, "x", "y")                             # who uses what

A kernel is Python as numba.cuda takes it.  Arrays have one axis; whatever else a kernel
is given is a constant in it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from ..run.device import lockstep
from ..run.device.grid_memory import SECTOR, WARP
from ..run.device.lockstep_memory import Lanes, Memory
from ..trace.base.errors import MinijitError
from . import style
from .exercise import is_empty

MOST = 4000  # statements that use memory; a kernel of a puzzle has hundreds
KNOWN = {*lockstep.rows, *lockstep.expressions, ast.FunctionDef, ast.arguments, ast.arg}
KNOWN |= {ast.Load, ast.Store, ast.Tuple, ast.keyword, *lockstep.operators, ast.Not}
KNOWN |= {ast.USub, ast.Invert}


class NoKernel(MinijitError):
    """A kernel has a statement that does not run in lock-step."""


class Plain(ast.NodeTransformer):
    """Says in fewer words what a kernel says: `a += b`, `a and b`, `0 <= i < n`."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.sizes = {"blockDim": threads, "gridDim": blocks}

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        old = ast.parse(ast.unparse(node.target), mode="eval").body
        value = ast.BinOp(old, node.op, node.value)
        return self.visit(ast.copy_location(ast.Assign([node.target], value), node))

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
        of = getattr(node.value, "attr", "")
        return ast.Constant(self.sizes[of]) if of in self.sizes else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        own = {"max": "maximum", "min": "minimum"}.get(ast.unparse(node.func))
        return ast.Call(ast.Name(own, ast.Load()), node.args, []) if own else node


@dataclass(frozen=True)
class Access:
    """What threads did to an array in one statement.

    Attributes:
      what: `loads`, `stores` or `combines`; shared: whether the array is a block's own.
      threads, places: who, counted through the grid, and where: numbers of elements.
    """

    name: str
    what: str
    shared: bool
    itemsize: int
    threads: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class Ran:
    """What a kernel did.

    Attributes:
      accesses: in order; counts: {name: `Counts`}.
    """

    accesses: list[Access]
    counts: dict[str, Any]

    def of(self, name: str) -> list[Access]:
        return [a for a in self.accesses if a.name == name]

    def sectors(self, name: str) -> int:
        return self.counts[name].sectors

    def loads(self, name: str) -> int:
        return self.counts[name].loads

    @property
    def conflicts(self) -> int:
        """How often a warp waited for a bank of shared memory."""
        return sum(c.conflicts for c in self.counts.values())


def kernel_text(
    kernel: Callable[..., Any], threads: int, blocks: int
) -> ast.FunctionDef:
    """The statements of a kernel, in words that lock-step reads; or `NoKernel`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kernel)))
    (function,) = (n for n in tree.body if isinstance(n, ast.FunctionDef))
    body = [Plain(threads, blocks).visit(stmt) for stmt in function.body]
    for node in (n for stmt in body for n in ast.walk(stmt)):
        # A sign alone is no text: what it stands in is.
        signs = (n for n in ast.iter_child_nodes(node) if not ast.unparse(n))
        if not all(type(n) in KNOWN for n in (node, *signs)):
            raise NoKernel(
                f"`{ast.unparse(node)}` does not run in lock-step: write it with "
                "`if`, `for`, `while`, numbers and elements of arrays"
            )
    function.decorator_list, function.body = [], body
    return ast.fix_missing_locations(function)


def launch(
    kernel: Callable[..., Any], blocks: int, threads: int, *given: Any
) -> Ran:
    """Run a kernel on arrays and numbers: -> `Ran`.

    Args:
      blocks: how many; threads: of each, a multiple of 32.

    Raises:
      OutOfBounds, Race, Divergence: where it does what is undefined; NoKernel.
    """
    function = kernel_text(kernel, threads, blocks)
    names = [arg.arg for arg in function.args.args]
    if len(names) != len(given):
        raise TypeError(f"the kernel takes {', '.join(names)}; got {len(given)}")
    pairs = dict(zip(names, given, strict=True))
    numbers = {n: repr(x) for n, x in pairs.items() if not isinstance(x, np.ndarray)}
    function.args.args = [a for a in function.args.args if a.arg not in numbers]
    made = SimpleNamespace(
        printed=SimpleNamespace(text=ast.unparse(function)), constants=numbers,
        grid=(blocks, 1, 1), block=(threads, 1, 1),
    )  # fmt: skip
    return watched(made, *(x for x in given if isinstance(x, np.ndarray)))


def watched(kernel: Any, *arrays: np.ndarray) -> Ran:
    """Run a kernel that has its text and its grid, as a `CudaKernel` has: -> `Ran`."""
    accesses, places = [], Memory.places

    def watch(
        memory: Memory, lanes: Lanes, index: Any, mask: np.ndarray, what: str
    ) -> Any:
        going, where = places(memory, lanes, index, mask, what)
        here = lanes.spread(index)[going].astype(int)
        shared, size = memory.kind != "global", memory.values.itemsize
        found = Access(memory.name, what, shared, size, lanes.lane[going], here)
        accesses.append(found)
        if len(accesses) > MOST:
            raise NoKernel(f"after {MOST} uses of memory the kernel has not ended")
        return going, where

    with mock.patch.object(Memory, "places", watch):
        try:
            counts = lockstep.run_in_lockstep(kernel, *arrays)
        except KeyError as error:
            raise NoKernel(f"a kernel knows nothing that is called {error}") from None
    return Ran(accesses, counts)


def draw(ran: Ran, *names: str, threads: int = WARP) -> Any:
    """Draw for each array which element each of the first threads uses, and when.

    A bar is a sector of 32 bytes that they ask for; of shared memory there is none.
    """
    fig, axes = style.figure(8, 2.6, ncols=len(names), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for step, access in enumerate(ran.of(name)):
            here = access.threads < threads
            if not here.any():
                continue
            color = style.COLORS[step % len(style.COLORS)]
            each = SECTOR // access.itemsize
            for piece in {} if access.shared else set(access.places[here] // each):
                axis.axhspan(piece * each - 0.5, piece * each + each - 0.5, color=color,
                             alpha=0.12, lw=0)  # fmt: skip
            axis.scatter(access.threads[here], access.places[here], s=7, color=color)
        words = "" if ran.of(name)[:1] and ran.of(name)[0].shared else (
            f": {ran.sectors(name)} sectors in all")
        axis.set_title(f"{name}{words}")
        axis.set_xlabel("thread")
    axes[0][0].set_ylabel("element")
    return axes[0]


def look(kernel: Callable[..., Any], blocks: int, threads: int, *given: Any) -> None:
    """Say what a kernel moves and breaks, and draw who uses what."""
    if is_empty(kernel):
        print(f"`{kernel.__name__}` is empty so far")
        return
    try:
        ran = launch(kernel, blocks, threads, *given)
    except MinijitError as error:
        print(textwrap.fill(f"{type(error).__name__}: {error}", 96))
        return
    names = list(dict.fromkeys(access.name for access in ran.accesses))
    for name in names:
        count = ran.counts[name]
        shared = ran.of(name)[0].shared
        moved = f"{count.conflicts} waits for a bank" if shared else (
            f"{ran.sectors(name)} sectors of 32 bytes")
        print(f"{name}: {count.loads} loads, {count.stores} stores, {moved}")
    draw(ran, *names)
