"""A GPU in NumPy: runs a kernel's source, all threads of its blocks in step.

    kernel = cuda_kernel(program.kernels[0])
    counts = run_in_lockstep(kernel, x, y)      # y is written
    counts["x0"].loads, counts["x0"].sectors

Each statement of the source is done by all threads at once: a variable is an array with
a number for each thread, and where threads part ways, a mask says which of them go on.
What a device does not tell, this does: it counts what is loaded and stored, and raises
at what is undefined there, whatever the result looks like:

    OutOfBounds        an index that an array does not have
    Race               an element that one thread stores and another one uses, with no
                       barrier between them
    Divergence         a barrier, or an exchange, that not all threads come to
"""

import ast
import functools
import math
import operator
from types import SimpleNamespace

import numpy as np

from ...trace.jit.jit import cache_clearers
from ..python.emitter import inverse
from ..python.scalar_functions import functions
from ..scalars.scalar_math import conversions, numbers
from ..values import pairs
from .grid_memory import WARP
from .lockstep_memory import Counts, Divergence, Lanes, Memory, OutOfBounds

# Threads that are run at once.
LANES = 1 << 15

# ---- statements


class Lockstep:
    """Runs the statements of a kernel on some lanes.

    Attributes:
      names: {name: a `Memory`, or its value: one for all lanes, or an array}.
      loops: for each loop around, which lanes have left it.
    """

    def __init__(self, lanes, names):
        self.lanes, self.names, self.loops = lanes, names, []

    def block(self, body, mask):
        for stmt in body:
            mask = self.still(mask)
            if not mask.any():
                return
            self.stmt = stmt
            rows[type(stmt)](self, stmt, mask)

    def still(self, mask):
        """The lanes that have not left the innermost loop."""
        return mask & ~self.loops[-1] if self.loops else mask

    def assign(self, target, value, mask, dtype=None):
        if isinstance(target, ast.Subscript):
            memory = self.names[target.value.id]
            memory.store(self.lanes, self.value(target.slice, mask), value, mask)
            return
        if isinstance(value, Memory):
            self.names[target.id] = value
            return
        if dtype is not None:
            value = np.asarray(value).astype(dtype)[()]
        if not mask.all():
            old = self.names.get(target.id, np.zeros((), np.asarray(value).dtype))
            value = np.where(mask, value, old)
        self.names[target.id] = value

    def assignment(self, stmt, mask):
        target, = stmt.targets
        if isinstance(stmt.value, ast.Call) and is_memory(stmt.value):
            self.names[target.id] = self.memory(target.id, stmt.value)
        elif isinstance(target, ast.Tuple):
            values = [self.value(part, mask) for part in stmt.value.elts]
            for part, value in zip(target.elts, values, strict=True):
                self.assign(part, value, mask)
        else:
            self.assign(target, self.value(stmt.value, mask), mask)

    def memory(self, name, call):
        """`cuda.shared.array(...)`: each block has one; of `local` each thread."""
        size, dtype = call.args[0].value, np.dtype(call.args[1].attr.rstrip("_"))
        kind = call.func.value.attr
        lanes, blocks = self.lanes, len(self.lanes.blocks)
        count = blocks if kind == "shared" else len(lanes.lane)
        own = np.arange(len(lanes.lane))
        start = (own // lanes.threads if kind == "shared" else own) * size
        # What nobody has stored yet is not zero on a device.
        values = np.empty(count * size, dtype)
        values.view(np.uint8).fill(0xA5 if dtype.kind != "b" else 1)
        return Memory(name, kind, values, size, start)

    def expression(self, stmt, mask):
        self.value(stmt.value, mask)

    def choice(self, stmt, mask):
        test = np.asarray(self.value(stmt.test, mask), bool)
        chosen, rest = mask & test, mask & ~test
        if chosen.any():
            self.block(stmt.body, chosen)
        if stmt.orelse and rest.any():
            self.block(stmt.orelse, rest)

    def for_loop(self, stmt, mask):
        args = [self.value(arg, mask) for arg in stmt.iter.args]
        counter, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        before = operator.lt if np.all(np.greater(step, 0)) else operator.gt
        self.lanes.together = {} if ast.unparse(stmt.iter.func) != "range" else None
        while (going := mask & before(counter, stop)).any():
            self.names[stmt.target.id] = counter
            self.block(stmt.body, going)
            counter = counter + step
        self.lanes.together = None

    def while_loop(self, stmt, mask):
        self.loops.append(np.zeros(self.lanes.lane.shape, bool))
        while True:
            mask = self.still(mask)
            mask = mask & np.asarray(self.value(stmt.test, mask), bool)
            if not mask.any():
                break
            self.block(stmt.body, mask)
        self.loops.pop()

    def leave(self, stmt, mask):
        self.loops[-1] |= mask

    # ---- what all threads of a block do together

    def barrier(self, mask):
        lanes = self.lanes
        self.all_or_none(mask, lanes.threads, "came to a barrier, and {} did not")
        lanes.epoch += mask

    def exchange(self, mask, members, value, distance):
        """`shfl_xor_sync`: the value of the thread that differs in some bits."""
        if int(members) & 0xFFFFFFFF != 0xFFFFFFFF:
            raise Divergence(
                f"of a warp some threads exchange numbers by the mask {members}; -1 is "
                "the mask of all"
            )
        self.all_or_none(mask, WARP, "exchanges numbers, and {} of its warp does not")
        distance = np.where(mask, distance, 0)
        wrong = (distance < 0) | (distance >= WARP)
        if wrong.any():
            who, far = Memory.who(self.lanes, wrong.argmax()), distance[wrong.argmax()]
            raise OutOfBounds(f"{who} exchanges over a distance of {far}, not 1 to 31")
        lanes = np.arange(WARP) ^ distance.reshape(-1, WARP)
        values = self.lanes.spread(value).reshape(-1, WARP)
        return np.take_along_axis(values, lanes, 1).reshape(-1)

    def all_or_none(self, mask, many, what):
        """Raise `Divergence` if of so many lanes in a row only some are there."""
        here = mask.reshape(-1, many)
        parted = np.flatnonzero(here.any(1) != here.all(1))
        if len(parted):
            row, first = here[parted[0]], parted[0] * many
            others = f"thread {self.lanes.thread[first + (~row).argmax()]}"
            who = Memory.who(self.lanes, first + row.argmax())
            raise Divergence(f"{who} {what.format(others)}")

    # ---- expressions

    def value(self, node, mask):
        return expressions[type(node)](self, node, mask)

    def name(self, node, mask):
        return self.names[node.id]

    def operation(self, node, mask):
        x, y = self.value(node.left, mask), self.value(node.right, mask)
        return operators[type(node.op)](x, y)

    def comparison(self, node, mask):
        x, y = self.value(node.left, mask), self.value(node.comparators[0], mask)
        return operators[type(node.ops[0])](x, y)

    def unary(self, node, mask):
        value = self.value(node.operand, mask)
        if isinstance(node.op, ast.Not):
            return np.logical_not(value)
        return -value if isinstance(node.op, ast.USub) else ~value

    def chosen(self, node, mask):
        """`a if c else b`: each lane computes one of the two."""
        test = np.asarray(self.value(node.test, mask), bool)
        yes, no = mask & test, mask & ~test
        if not no.any():
            return self.value(node.body, yes)
        if not yes.any():
            return self.value(node.orelse, no)
        a, b = self.value(node.body, yes), self.value(node.orelse, no)
        return np.where(test, a, b)

    def element(self, node, mask):
        memory = self.names[node.value.id]
        return memory.load(self.lanes, self.value(node.slice, mask), mask)

    def attribute(self, node, mask):
        number = self.lanes.numbers[node.value.attr]
        return number["xyz".index(node.attr)]

    def call(self, node, mask):
        text = ast.unparse(node.func)
        if text == "cuda.syncthreads":
            return self.barrier(mask)
        args = [self.value(arg, mask) for arg in node.args]
        if text in atomic_functions:
            memory, *args = args
            return memory.combine(self.lanes, atomic_functions[text], mask, *args)
        if text == "cuda.shfl_xor_sync":
            return self.exchange(mask, *args)
        if text.startswith("np."):
            return np.asarray(args[0]).astype(text.removeprefix("np."))[()]
        if text.startswith("math."):
            return getattr(of_math, text.removeprefix("math."))(*args)
        if text in vector_functions:
            return vector_functions[text](*args)
        return one_by_one(builtins.get(text) or functions[text], args, mask)


def is_memory(call):
    return ast.unparse(call.func) in ("cuda.shared.array", "cuda.local.array")


rows = {
    ast.Assign: Lockstep.assignment,
    ast.AnnAssign: lambda self, stmt, mask: self.assign(
        stmt.target, self.value(stmt.value, mask), mask, np.dtype(stmt.annotation.id)
    ),
    ast.Expr: Lockstep.expression,
    ast.If: Lockstep.choice,
    ast.For: Lockstep.for_loop,
    ast.While: Lockstep.while_loop,
    ast.Break: Lockstep.leave,
    ast.Pass: lambda self, stmt, mask: None,
}

expressions = {
    ast.Constant: lambda self, node, mask: node.value,
    ast.Name: Lockstep.name,
    ast.BinOp: Lockstep.operation,
    ast.Compare: Lockstep.comparison,
    ast.UnaryOp: Lockstep.unary,
    ast.IfExp: Lockstep.chosen,
    ast.Subscript: Lockstep.element,
    ast.Attribute: Lockstep.attribute,
    ast.Call: Lockstep.call,
}

operators = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def swap(values, where, expected, new):
    """Compare and swap: first those that change nothing, then one that does."""
    bits = values.view(expected.dtype)
    seen = bits[where]
    able = np.flatnonzero((seen == expected) & (new != expected))
    _, first = np.unique(where[able], return_index=True)
    bits[where[able[first]]] = new[able[first]]
    late = np.delete(able, first)
    seen[late] = bits[where[late]]
    return seen


combining = dict(add=np.add, max=np.maximum, min=np.minimum)
atomic_functions = {f"cuda.atomic.{name}": f.at for name, f in combining.items()}
atomic_functions |= {"compare_and_swap": swap}


# Functions that NumPy does for all lanes at once, as `scalar_math` does them for one.
vector_functions = {"maximum": np.maximum, "minimum": np.minimum, "abs": abs}
of_lanes = ["add_any_order", "multiply_any_order", "add_wrapping", "subtract_wrapping"]
of_lanes += ["multiply_wrapping", *conversions, *(f"bits_{n}" for n in numbers)]
vector_functions |= {name: functions[name] for name in of_lanes}
vector_functions |= dict(floor=np.floor, ceil=np.ceil, round_even=np.rint)
vector_functions |= dict(cbrt=np.cbrt, logaddexp=np.logaddexp)
# What `math` is for all lanes: NumPy.
arcs = {f"a{name}": getattr(np, f"arc{name}") for name in inverse}
of_math = SimpleNamespace(**vars(np) | arcs)
builtins = {"abs": abs}


def one_by_one(function, args, mask):
    """A function of numbers, for each lane that wants it."""
    args = [np.broadcast_to(np.asarray(x), mask.shape)[mask] for x in args]
    found = [function(*numbers) for numbers in zip(*args, strict=True)]
    found = np.asarray(found)
    result = np.zeros(mask.shape, found.dtype)
    result[mask] = found
    return result


# ---- kernels


@functools.lru_cache(maxsize=1024)
def parsed(text):
    """(names of parameters, statements) of a kernel's source."""
    function, = ast.parse(text).body
    return [arg.arg for arg in function.args.args], function.body


cache_clearers.append(parsed.cache_clear)


def run_in_lockstep(kernel, *arrays, kind=Lockstep):
    """Run a `CudaKernel` on NumPy arrays in row-major order: -> {name: `Counts`}.

    Args:
      kind: `Lockstep`, or a class of it that looks at more.

    Raises:
      OutOfBounds, Race, Divergence: where the kernel does what is undefined.
    """
    params, body = parsed(kernel.printed.text)
    arrays = [pairs(x) if x.dtype.kind == "c" else x for x in arrays]
    memories = {
        name: Memory(name, "global", array.reshape(-1), array.size)
        for name, array in zip(params, arrays, strict=True)
    }
    space = {"np": np}
    constants = {n: eval(text, space) for n, text in kernel.constants.items()}
    blocks, threads = math.prod(kernel.grid), kernel.block[0]
    many = max(LANES // threads, 1)
    counts = {name: memory.counts for name, memory in memories.items()}
    with np.errstate(all="ignore"):
        for first in range(0, blocks, many):
            numbers = np.arange(first, min(first + many, blocks))
            lanes = Lanes(numbers, threads, kernel.grid)
            step = kind(lanes, {**memories, **constants})
            step.block(body, lanes.everyone)
            for name, memory in step.names.items():
                if isinstance(memory, Memory) and name not in memories:
                    add_counts(counts.setdefault(name, Counts()), memory.counts)
    return counts


def add_counts(total, more):
    for name, value in vars(more).items():
        setattr(total, name, getattr(total, name) + value)

