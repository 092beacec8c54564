"""Small programs, and the digits, that chapters use beside the library.

    images, labels = digits()   # chapter 3's, from there on
    data_file("digits.csv")     # where it is, whatever folder the notebook runs in
    cross_entropy(scores, labels)    # chapter 8's, in 10 and 11
    peak(run)                   # chapters 12 and 13: the most memory held at a time
    python_source(jaxpr)        # chapter 6: a line of Python for each equation
    python_calls(f, x)          # chapters 21 and 22: how much of a call is Python's
    with numba_passes() as spent: ...  # chapter 23: on what numba spends its time
    with padding(): ...         # chapter 13: branches keep residuals as in JAX
    print_loops(program)        # chapter 15: a lowered program, before it can print
    milliseconds(f, x)          # chapter 1, from there on: what the quickest call takes
    lines_fetched(f, x)         # chapter 18: what a small cache reads from memory

What they use of the library comes when they are called: it may not be built before.
"""

from __future__ import annotations

import sys
import textwrap
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from .project import find_book


def data_file(name: str) -> Path:
    """A file of the folder `data`.

    It lies beside the notebooks, or beside the folder of a tour or a capstone.  A
    notebook that runs in another folder gets the one of the book.
    """
    for folder in (Path("data"), Path("..", "data")):
        if (folder / name).exists():
            return folder / name
    book = find_book(Path(__file__))
    return book.base / book.folder / "data" / name


def digits(shuffled: bool = False) -> tuple[Any, Any]:
    """The 1,797 pictures of chapter 3, and which digits they show.

    Returns:
      (float32[1797,64], grey values from 0 to 1; int32[1797]), as NumPy arrays.
      `shuffled` puts them into an order that is random, and always the same.
    """
    import numpy as np

    data = np.loadtxt(data_file("digits.csv"), delimiter=",", dtype="float32")
    if shuffled:
        data = np.random.default_rng(0).permutation(data)
    return data[:, :64] / 16, data[:, 64].astype("int32")


def cross_entropy(scores: Any, labels: Any) -> Any:
    """Chapter 8's loss: minus the mean logarithm of what the right digits get.

    Args:
      scores: float[n,10], ten scores for each picture.
      labels: the same shape, 1 at the right digit and 0 elsewhere.
    """
    import minijit.numpy as jnp

    scores = scores - scores.max(1, keepdims=True)
    logp = scores - jnp.log(jnp.exp(scores).sum(1, keepdims=True))
    return -(logp * labels).sum(1).mean()


def peak(run: Callable[[], object]) -> float:
    """The most KiB that are held at a time while `run()` runs, NumPy's arrays too."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


def python_source(jaxpr: Any) -> str:
    """A function `program` of numbers, for numba: chapter 4's, for several results."""
    names: dict[Any, str] = {}
    infix = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}"}

    def read(atom: Any) -> str:
        if hasattr(atom, "val"):
            return repr(atom.val.item())
        return names.setdefault(atom, f"v{len(names)}")

    inputs = ", ".join(map(read, (*jaxpr.constvars, *jaxpr.invars)))
    lines = [f"def program({inputs}):"]
    for eqn in jaxpr.eqns:
        text = infix.get(eqn.primitive.name, f"np.{eqn.primitive.name}({{}})")
        value = text.format(*map(read, eqn.invars))
        lines.append(f"    {read(eqn.outvars[0])} = {value}")
    results = "".join(f"{read(v)}, " for v in jaxpr.outvars)
    return "\n".join([*lines, f"    return ({results})"])


def python_calls(function: Callable[..., object], *args: Any) -> int:
    """How many functions of Python a call enters; one call before does not count."""
    function(*args)
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls


def padded_cond(nonzero: Any, index: Any, *operands: Any, branches: Any) -> Any:
    """A linearize rule for `cond`: each branch returns the residuals of all branches,
    with zeros in place of those that are not its own."""
    import minijit.numpy as jnp
    from minijit.transform.closed_jaxprs import apply_closed, fill, present
    from minijit.transform.control_flow.branches import cond_p
    from minijit.transform.derivatives.linearize import linearize_jaxpr
    from minijit.transform.pieces import agreed, jaxpr_of, split

    avals, n = branches[0].in_avals, len(branches[0].out_avals)
    parts = [linearize_jaxpr(b, nonzero[1:], (False,) * n) for b in branches]
    mask = agreed([p.nonzero_out for p in parts])
    parts = [linearize_jaxpr(b, nonzero[1:], mask) for b in branches]
    # The types of the residuals, branch by branch.
    kinds = [p.linear.in_avals[: len(p.sources)] for p in parts]

    def forward(k: int, *operands: Any) -> Any:
        outs = apply_closed(parts[k].forward, *operands)
        padded = [[jnp.zeros(a.shape, a.dtype) for a in kind] for kind in kinds]
        padded[k] = parts[k].residuals(operands, outs[n:])
        return outs[:n] + sum(padded, [])

    def linear_branch(k: int, *args: Any) -> Any:
        *pieces, tangents = split(args, *map(len, kinds))
        return apply_closed(parts[k].linear, *pieces[k], *tangents)

    def cond_of(branch: Any, avals: Any, *args: Any) -> Any:
        cases = range(len(branches))
        made = tuple(jaxpr_of(partial(branch, k), avals, "branch") for k in cases)
        return cond_p.bind(index, *args, branches=made)

    outs = cond_of(forward, avals, *operands)

    def linear(_: Any, *tangents: Any) -> Any:
        avals = [a for kind in kinds for a in kind]
        avals += [t.aval for t in present(tangents)]
        out = cond_of(linear_branch, avals, *outs[n:], *present(tangents))
        return fill(mask, out)

    return outs[:n], linear


@contextmanager
def padding() -> Iterator[None]:
    """Let `cond` keep its residuals by `padded_cond` for a while."""
    import minijit as mj
    from minijit.transform.control_flow.branches import cond_p
    from minijit.transform.derivatives.linearize import linearize_rules

    own = linearize_rules[cond_p]
    linearize_rules[cond_p] = padded_cond
    mj.clear_caches()
    try:
        yield
    finally:
        linearize_rules[cond_p] = own
        mj.clear_caches()


def kernel_alone(f: Any, *args: Any) -> Callable[[], object]:
    """The only kernel of a jitted function as a call, on memory that is there."""
    import numpy as np

    f(*args)
    shapes = [x.shape for x in args]
    found = (entry.executable for entry in f.entries.values())
    exe = next(e for e in found if [a.shape for a in e.in_avals] == shapes)
    aval, kernel = exe.out_avals[0], exe.run.__globals__["kernel_0"]
    values = [*(x._value for x in args), np.zeros(aval.shape, aval.dtype)]
    values[-1].fill(0)  # so that each of its pages is there
    return lambda: kernel(*values)


def stations_of_a_call(
    f: Any, args: Sequence[Any], microseconds: Callable[[Callable[[], object]], float]
) -> dict[str, float]:
    """Chapter 25's {station: microseconds} of a call that goes the long way."""
    from minijit.run.executable import to_array, unboxed
    from minijit.trace.jit.jit import leaf_key
    from minijit.trace.jit.signature import flatten_arguments

    ((key, entry),) = f.entries.items()
    exe, values = entry.executable, [x._value for x in args]
    results = exe.run(*values)
    times = {
        "flatten": microseconds(lambda: flatten_arguments(args, {})),
        "key": microseconds(lambda: (tuple(map(leaf_key, args)), f.entries.get(key))),
        "arguments": microseconds(lambda: [*map(to_array, args, exe.in_avals)]),
        "memory and kernel": microseconds(lambda: exe.run(*values)),
        "results": microseconds(lambda: [*map(unboxed, results, exe.out_avals)]),
    }
    return times | {"the rest": microseconds(lambda: f(*args)) - sum(times.values())}


def milliseconds(f: Callable[..., object], *args: Any, calls: int = 30) -> float:
    """The processor's time for the quickest of some calls; one call before, which may
    compile, does not count."""
    f(*args)
    times = []
    for _ in range(calls):
        start = time.process_time()
        f(*args)
        times.append(time.process_time() - start)
    return 1000 * min(times)


@contextmanager
def numba_passes() -> Iterator[dict[str, float]]:
    """CPU seconds of numba's passes: its last one makes machine code of LLVM IR."""
    from numba.core import event

    spent, begun = {"find types": 0.0, "make code": 0.0}, []

    class Passes(event.Listener):
        def on_start(self, event: Any) -> None:
            begun.append(time.process_time())

        def on_end(self, event: Any) -> None:
            start = begun.pop()
            if not begun:  # it is not within another pass
                last = event.data["name"].startswith("native_lowering")
                kind = "make code" if last else "find types"
                spent[kind] += time.process_time() - start

    with event.install_listener("numba:run_pass", Passes()):
        yield spent


def print_loops(program: Any) -> None:
    """The loops of each kernel, in the innermost the stores; first its primitives."""
    from minijit.compile.loops.expression_text import expr_text
    from minijit.compile.loops.expressions import Axis
    from minijit.compile.loops.graphs import postorder
    from minijit.compile.loops.statements import For, expressions

    for kernel in program.kernels:
        print(f"{kernel.name}:  # {', '.join(e.primitive.name for e in kernel.eqns)}")
        axes = [e for e in postorder(expressions(kernel.body)) if type(e) is Axis]
        names = dict(zip(axes, "ijklmnop"[: len(axes)], strict=True))
        body, indent = kernel.body, "  "
        while isinstance(body[0], For):
            axis: Any = body[0].axis
            print(f"{indent}for {names[axis]} in {axis.extent}:")
            body, indent = body[0].body, indent + "  "
        for store in body:
            where = ", ".join(expr_text(i, names) for i in store.index)
            value = expr_text(store.value, names, 20)
            line = f"{indent}{store.buffer.name}[{where}] = {value}"
            print(textwrap.fill(line, 100, subsequent_indent=indent + "    "))


def lines_fetched(f: Callable[..., Any], *arrays: Any, room: int = 48) -> int:
    """How many cache lines, of 16 numbers, the one kernel of a function fetches.

    It runs in Python, on arrays that tell a cache which elements are touched.  With
    room for so many lines, the cache forgets what was not touched for the longest time.
    """
    from types import SimpleNamespace

    import numpy as np

    from minijit import make_jaxpr
    from minijit.compile.lower.walk import lower
    from minijit.run.python.source import print_program

    lines: dict[tuple[int, int], None] = {}
    fetched = 0

    class Watched:
        def __init__(self, array: Any):
            self.array = array

        def touch(self, where: Any) -> None:
            nonlocal fetched
            number = int(np.ravel_multi_index(where, self.array.shape))
            line = id(self.array), number // 16
            fetched += line not in lines
            lines.pop(line, None)
            lines[line] = None  # it was touched last
            if len(lines) > room:
                del lines[next(iter(lines))]

        def __getitem__(self, where: Any) -> Any:
            self.touch(where)
            return self.array[where]

        def __setitem__(self, where: Any, value: Any) -> None:
            self.touch(where)
            self.array[where] = value

    program = lower(make_jaxpr(f)(*arrays))
    space: dict[str, Any] = {}
    exec(print_program(program).text, space)
    empty = lambda *args: Watched(np.empty(*args))
    space["np"] = SimpleNamespace(empty=empty, float32=np.float32)
    results = [np.empty(b.shape, b.dtype) for b in program.outputs]
    space["kernel_0"](*map(Watched, (*arrays, *results)))
    return fetched


def ways_of_running(f: Callable[..., Any], x: Any) -> dict[str, Any]:
    """Chapter 24: the program of a function of one kernel as it was fused, and in each
    way that a recipe proposes for it."""
    import minijit as mj
    from minijit.compile.lower.walk import lower
    from minijit.compile.schedule.choose import ways_of, with_candidates
    from minijit.compile.simplify.folding import simplify

    program = lower(simplify(mj.make_jaxpr(f)(x)), "f")
    kernel, = program.kernels
    ways = ways_of(program, kernel)
    ways.pop("distribute", None)  # a nest for each statement: of one it is the same
    return {name: with_candidates(program, {kernel: w}) for name, w in ways.items()}


def clocked(program: Any, x: Any, out: Any, repeat: int = 40) -> float:
    """Microseconds of CPU time that the one kernel of a program takes: the shortest of
    some runs, from an array to another one."""
    from minijit.compile.pipeline import rewrites
    from minijit.run.llvm.kernels import KernelText, functions_of

    kernel, = rewrites["with_reuse"](program).kernels
    text, arrays = KernelText(kernel), {"in0": x, "out0": out}
    run, args = functions_of([text])[text.key], [arrays[b.name] for b in text.buffers]
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run(*args)
        times.append(time.process_time() - start)
    return 1e6 * min(times)
