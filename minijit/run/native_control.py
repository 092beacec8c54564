"""Loops and branches that run natively: one compiled function, no Python within.

    def run_while(in0: float32[()], out0: float32[()]):
        s0: float32 = in0[()]
        while True:
            s1: bool = s0 < f32_100
            if not s1:
                break
            s2: float32 = s0 * s0 + f32_1
            s0 = s2
        out0[()] = s0

A `while`, `scan` or `cond` is printed as Python's own, with the kernels of its body as
loops inside of it, and the loops and branches in the body inside of that: however deep
they nest, one function.  What has no axes is a local variable.  A carry with axes is
updated in place where each element depends on no other element of it; otherwise there
are two of it, and every step reads one and writes the other.  All memory is there
before the first loop starts.  Products of matrices call the BLAS by its address.

What a body may consist of says `compile/obstacles.py`; with anything else in it, the
loop is driven from Python as before, and stands among the `fallbacks` of its program.
"""

import math
import weakref
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType

import numpy as np

from ..compile.expressions import Load, Op
from ..compile.lane_blocks import elements_of
from ..compile.loops import For, Kernel, Store
from ..compile.memory import Buffer
from ..compile.obstacles import kind_of
from ..compile.overwriting import copied_by, plan
from ..compile.place import placed
from ..compile.scalars import storage_dtype
from ..compile.watching import BETWEEN_LOOKS, work_of
from ..trace.array import ShapedArray
from ..trace.jit import cache_clearers
from ..transform import steps as loop_steps
from ..transform.branches import cond_p
from ..transform.loops import scan_p, while_p
from ..transform.pieces import split
from .blas import native_products, product_text
from .cache_folder import write_source
from .interrupts import raise_held
from .kernel_cache import compiled_once
from .kernel_source import KernelSource, shape_text, source_comment
from .loading import routines
from .numba_kernels import compile_kernel
from .numba_scalars import native_functions
from .printed_kernels import HALVES, KernelPrinter, LoopWriter, printed, printers
from .python_source import dtype_text, print_imports
from .source_text import Constants, Text

# ---- where values are


@dataclass(frozen=True)
class Place:
    """Where a value is: in a local variable, or in an array, or in a part of one.

    Attributes:
      name: of the variable.
      shape, dtype: of the value.
      prefix: the indices, as text, of the part of the array: `("i0",)` for a row;
        extents: of the axes that they index.
      local: whether it is a local variable that holds a number.
    """

    name: str
    shape: tuple
    dtype: np.dtype
    prefix: tuple = ()
    extents: tuple = ()
    local: bool = False

    def element(self, index):
        """The text of one element, with its index as texts."""
        if self.local:
            return self.name
        return f"{self.name}[{', '.join((*self.prefix, *index)) or '()'}]"

    def row(self, i):
        """The part at index i of the first axis."""
        prefix, extents = (*self.prefix, i), (*self.extents, self.shape[0])
        return Place(self.name, self.shape[1:], self.dtype, prefix, extents)

    def reader(self, function):
        """From a step of a scan to the place of what that step reads."""
        return self.row

    def writer(self, function, steps):
        """From a step of a scan to the place of what that step writes."""
        return self.row

    def start(self, offset=0):
        """The text of how many elements of the array stand before this part."""
        terms = [str(offset)] if offset or not self.prefix else []
        for k, i in enumerate(self.prefix):
            size = math.prod((*self.extents[k + 1 :], *self.shape))
            terms.append(i if size == 1 else f"({i}) * {size}")
        return " + ".join(terms)


# LLVM unrolls an inner loop whole if it knows that it runs a few hundred times.  In a
# scan that makes hundreds of loads, each a row further at every step, and so many the
# processor does not fetch ahead: a third of the speed is gone.  So LLVM is not told.
UNROLLED_TOO_FAR = range(65, 8193)


class InlineKernel(KernelPrinter):
    """Prints a kernel's loops where they are wanted, not as a function."""

    def __init__(self, kernel, function, places):
        self.constants = function.constants
        self.counts, self.locals = function.counts, function.locals
        self.used, self.writer = {}, function.writer
        self.lift, self.numbers = (), {}
        self.names, self.totals = {}, {}
        self.places, self.lanes = places, function.lanes
        self.body = placed(kernel.body)
        self.block(self.body)

    def block(self, body):
        outside, self.names = self.names, dict(self.names)
        for stmt in body:
            printer = inline_printers.get(type(stmt)) or printers[type(stmt)]
            printer(self, stmt)
        self.names = outside

    def element(self, buffer, index):
        return self.at(self.places[buffer][0], index)

    def extent(self, stmt):
        """`4`; `in0.shape[1]` where unrolling would hurt; `b0, b1` in a block."""
        if self.lanes and any(stmt is outermost for outermost in self.body):
            return self.lanes
        if self.writer.depth > 1 and stmt.axis.extent in UNROLLED_TOO_FAR:
            for buffer, index in elements_of(stmt.body):
                where = self.places[buffer][0]
                for axis, (i, size) in enumerate(zip(index, where.shape, strict=True)):
                    # The loop may be over a part of the array only.
                    if i is stmt.axis and size == stmt.axis.extent:
                        return f"{where.name}.shape[{len(where.prefix) + axis}]"
        return super().extent(stmt)

    def at(self, where, index):
        return where.element([self.text(i).text for i in index])

    def loop(self, stmt):
        """A loop, unless nothing is left to do in it."""
        before = len(self.writer.lines)
        super().loop(stmt)
        if len(self.writer.lines) == before + 1:
            self.writer.lines.pop()

    def store(self, stmt):
        """Store into each of the places of a result, but no element onto itself."""
        wheres = self.places[stmt.buffer]
        source = copied_by(stmt)
        if source is not None:
            wheres = [where for where in wheres if where != self.places[source][0]]
            if not wheres:
                return
        value = self.text(stmt.value)
        if len(wheres) > 1 and not value.text.isidentifier():
            name = self.assign("v", stmt.value.dtype, value.text)
            value = Text(name)
        for where in wheres:
            self.store_at(stmt, where, value)

    def store_at(self, stmt, where, value):
        buffer, target = stmt.buffer, self.at(where, stmt.index)
        half = buffer.dtype.name in HALVES
        if stmt.combine:
            old = f"{buffer.dtype.name}_value({target})" if half else target
            args = Load(buffer, stmt.index), stmt.value
            expr = Op(stmt.combine, args, buffer.dtype)
            value = printed(expr, Text(old), value)
        text = f"{buffer.dtype.name}_bits({value.text})" if half else value.text
        kind = f": {storage_dtype(buffer.dtype).name}" if where.local else ""
        self.writer.line(f"{target}{kind} = {text}")


inline_printers = {Store: InlineKernel.store, For: InlineKernel.loop}


# ---- one function


class FunctionPrinter:
    """Prints a loop or branch, with all that is in it, as the body of one function.

    Attributes:
      arguments, results: the arrays that it takes: for operands, and to be filled.
      arrays: {name: NumPy array}: the constants of its programs, taken likewise.
      rooms: the arrays for what lies between: (name, shape, dtype).
      loads: lines at its beginning; returned: the names of what it returns.
      locals: {variable: dtype name}.
      lanes: the range of first indices to go over, as text, if not all of them.
      known: what was found out about steps that write results over arguments.
      ticks: the variable that counts the work since it last looked for signals.
    """

    def __init__(self):
        self.constants, self.lanes = Constants(), None
        self.counts, self.locals = Counter(), {}
        self.writer = LoopWriter()
        self.writer.depth = 1
        self.arguments, self.results, self.arrays = [], [], {}
        self.rooms, self.loads, self.returned, self.comments = [], [], [], {}
        self.known, self.ticks = {}, None

    def fresh(self, prefix):
        self.counts[prefix] += 1
        return f"{prefix}{self.counts[prefix] - 1}"

    def line(self, text):
        self.writer.line(text)

    def watch(self, work):
        """Print that so much `work` is done, and a look for signals, if it is time."""
        if self.ticks is None:
            self.ticks = self.fresh("w")
            self.loads.append(f"{self.ticks} = 0")
        self.line(f"{self.ticks} += {work}")
        self.line(f"if {self.ticks} > {BETWEEN_LOOKS}:")
        with self.indent():
            self.line(f"{self.ticks} = 0")
            self.line("if interrupted(stop):")
            with self.indent():
                self.line(f"return {self.result}".rstrip())

    @property
    def result(self):
        """What it returns, as text."""
        return f"({', '.join(self.returned)},)" if self.returned else ""

    @contextmanager
    def indent(self):
        """Indented lines; `pass` if there come none."""
        before = len(self.writer.lines)
        with self.writer.indented():
            yield
            if len(self.writer.lines) == before:
                self.line("pass")

    def number(self, dtype):
        """A local variable."""
        name = self.fresh("s")
        self.locals[name] = storage_dtype(dtype).name
        return Place(name, (), dtype, local=True)

    def room(self, shape, dtype, copies=()):
        """Where a value between steps goes: a variable, or an array made beforehand."""
        if shape == () and not copies:
            return self.number(dtype)
        name = self.fresh("t")
        self.rooms.append((name, (*copies, *shape), storage_dtype(dtype)))
        return Place(name, (*copies, *shape), dtype)

    def constant(self, buffer, value):
        """A constant of a program: an argument, or a variable if it has no axes."""
        name = self.fresh("c")
        self.arrays[name] = value
        return self.given(Place(name, buffer.shape, buffer.dtype))

    def given(self, where):
        """An argument, read into a variable if it has no axes."""
        if where.shape:
            return where
        number = self.number(where.dtype)
        self.loads.append(f"{number.name} = {where.name}[()]")
        return number

    def copy(self, source, targets):
        """Print a copy of a value to several places."""
        targets = [t for t in targets if t != source]
        if not targets or 0 in source.shape:
            return
        depth = self.writer.depth
        names = self.loops(source.shape)
        for target in targets:
            self.line(f"{target.element(names)} = {source.element(names)}")
        self.writer.depth = depth

    def loops(self, shape):
        """Print the heads of loops over all elements: -> the names of the indices."""
        names = [self.fresh("i") for _ in shape]
        extents = [self.lanes or shape[0], *shape[1:]] if shape else ()
        for name, extent in zip(names, extents, strict=True):
            self.line(f"for {name} in range({extent}):")
            self.writer.depth += 1
        return names

    def program(self, program, inputs, outputs):
        """Print the steps of a program.

        Args:
          inputs: for each input its place.
          outputs: for each output a tuple of places; it is written to all of them.
        """
        places = {b: (p,) for b, p in zip(program.inputs, inputs, strict=True)}
        pairs = [
            (old, new)
            for old, where in zip(program.inputs, inputs, strict=True)
            for new, wanted in zip(program.outputs, outputs, strict=True)
            if old.shape and where in wanted
        ]
        overwriting = plan(program, pairs, self.known)
        program = overwriting.program
        for new, old in overwriting.over.items():
            places[new] = places[old][:1]
        for buffer, wanted in zip(program.outputs, outputs, strict=True):
            places[buffer] = places.get(buffer, ()) + tuple(wanted)
        for buffer, value in program.constants:
            places[buffer] = (self.constant(buffer, value),)
        places = {buffer: where for buffer, where in places.items() if where}
        for give_places in placers:
            give_places(self, program, places)
        for step in program.body:
            if isinstance(step, Kernel):
                InlineKernel(step, self, places)
                self.comments[source_comment(step)] = None
            else:
                call_printers[kind_of(step)](self, step, places)


def place_arrays(function, program, places):
    """Rooms for what has no place yet, and for a number always a variable.

    (A number may also have to go into an array; it is read from the variable.)
    """
    for buffer in (*program.temps, *program.outputs):
        where = places.get(buffer, ())
        number = buffer.shape == () and buffer in program.temps
        if buffer.dtype != object and (number or not where):
            room = function.room(buffer.shape, buffer.dtype)
            places[buffer] = (room, *where)


# Functions(function, program, places) that add to the places, before its steps.
placers = [place_arrays]


def print_call(function, call, places):
    """Print an inner program where it is called."""
    inputs = [places[view.buffer][0] for view in call.inputs]
    outputs = [places[view.buffer] for view in call.outputs]
    function.program(call.attrs["program"], inputs, outputs)


def print_inner_loop(function, call, places):
    """Print a loop or a branch within another one."""
    inputs = [places[view.buffer][0] for view in call.inputs]
    outputs = [places[view.buffer] for view in call.outputs]
    printer = loop_printers[call.attrs["primitive"]]
    programs, params = call.attrs["programs"], call.attrs["params"]
    printer(function, programs, inputs, outputs, **params)


def print_matmul(function, call, places):
    """Print a product of matrices, or of each pair in a batch of them."""
    views = [*call.outputs, *call.inputs]
    wheres = [places[view.buffer] for view in views]
    depth, starts = function.writer.depth, []
    batch = [(function.fresh("i"), n) for n in call.outputs[0].shape[:-2]]
    for name, n in batch:
        function.line(f"for {name} in range({n}):")
        function.writer.depth += 1
    for view, where in zip(views, wheres, strict=True):
        start = where[0].start(view.offset)
        for (name, _), step in zip(batch, view.strides, strict=False):
            start += f" + {name} * {step}"
        starts.append(f"{where[0].name}, {start}")
    function.line(product_text(views, starts))
    function.writer.depth = depth
    function.copy(wheres[0][0], wheres[0][1:])


# kind of call -> function(function, call, places) that prints it.
call_printers = {
    "program": print_call,
    "loop": print_inner_loop,
    "matmul": print_matmul,
}


# ---- carries


@dataclass(frozen=True)
class Carry:
    """Where a carry is when a step begins, and where the step leaves it."""

    now: Place
    next: Place


class Carries:
    """The carries of one loop: where they are, from the first step to the last."""

    def __init__(self, function, body, buffers, inits, results):
        """Print what comes before the loop.

        Args:
          body: the `Program` of a step; buffers: its inputs that are carries.
          inits: the places of the initial values; results: tuples of places.
        """
        self.function, self.results = function, results
        self.parity, self.all = None, []
        pairs = list(zip(buffers, body.outputs, strict=False))
        in_place = plan(body, pairs, function.known).pairs
        for pair, init, wanted in zip(pairs, inits, results, strict=True):
            carry = self.carry(pair[0], pair in in_place, wanted)
            function.copy(init, [carry.now])
            self.all.append(carry)

    def carry(self, source, in_place, wanted):
        function, shape, dtype = self.function, source.shape, source.dtype
        if shape == ():
            return Carry(function.number(dtype), function.number(dtype))
        if in_place:
            where = wanted[0] if wanted else function.room(shape, dtype)
            return Carry(where, where)
        if self.parity is None:
            self.parity = function.fresh("p")
            function.line(f"{self.parity} = 0")
        both = function.room(shape, dtype, (2,))
        return Carry(both.row(self.parity), both.row(f"1 - {self.parity}"))

    @property
    def now(self):
        return [carry.now for carry in self.all]

    @property
    def next(self):
        return [(carry.next,) for carry in self.all]

    def step(self):
        """Print the end of a step: what was new is what the next one begins with."""
        for carry in self.all:
            if carry.now.local:
                self.function.copy(carry.next, [carry.now])
        if self.parity:
            self.function.line(f"{self.parity} = 1 - {self.parity}")

    def finish(self):
        """Print what comes after the loop."""
        for carry, wanted in zip(self.all, self.results, strict=True):
            self.function.copy(carry.now, wanted)


def print_while(
    function, programs, inputs, outputs, *,
    cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack,
):  # fmt: skip
    """`while True:`, with a `break` where the condition is false."""
    test, body = programs
    test_consts, consts, inits = split(inputs, cond_nconsts, body_nconsts)
    finals, counts, ys = split(outputs, len(inits), 1 if stack else 0)
    carries = Carries(function, body, body.inputs[body_nconsts:], inits, finals)
    tapes = [wanted[0].recording(function) for wanted in ys]
    steps = Place(function.fresh("n"), (), np.dtype("int32"), local=True)
    if stack:
        function.line(f"{steps.name} = 0")
    goes_on = function.number(np.dtype(bool))
    function.line("while True:")
    with function.indent():
        function.program(test, [*test_consts, *carries.now], [(goes_on,)])
        function.line(f"if not {goes_on.name}:")
        with function.indent():
            function.line("break")
        rows = [(tape.next_item(),) for tape in tapes]
        function.program(body, [*consts, *carries.now], [*carries.next, *rows])
        carries.step()
        for tape in tapes:
            tape.step()
        if stack:
            function.line(f"if {steps.name} == {loop_steps.MOST_STEPS}:")
            with function.indent():
                message = loop_steps.too_many_steps()
                function.line(f"raise OverflowError({message!r})")
            function.line(f"{steps.name} += 1")
        function.watch(work_of(test) + work_of(body))
    carries.finish()
    for tape in tapes:
        tape.finish()
    for wanted in counts:
        function.copy(steps, wanted)


def print_scan(
    function, programs, inputs, outputs, *,
    jaxpr, length, reverse, num_consts, num_carry, unroll,
):  # fmt: skip
    """`for i0 in range(n):`; xs are read, and ys written, in row i0."""
    body, = programs
    counts, rest = split(inputs, length is None)
    consts, inits, xs = split(rest, num_consts, num_carry)
    finals, ys = split(outputs, num_carry)
    steps = str(length)
    if counts:
        steps = function.fresh("n")
        function.line(f"{steps} = int({counts[0].element(())})")
    buffers = body.inputs[num_consts : num_consts + num_carry]
    carries = Carries(function, body, buffers, inits, finals)
    readers = [x.reader(function) for x in xs]
    writers = [[y.writer(function, steps) for y in wanted] for wanted in ys]
    if length != 0:
        depth = function.writer.depth
        i = print_steps(function, steps, length, reverse, body)
        with function.indent():
            targets = [tuple(at(i) for at in writer) for writer in writers]
            given = [*consts, *carries.now, *[at(i) for at in readers]]
            function.program(body, given, [*carries.next, *targets])
            carries.step()
        function.writer.depth = depth
    carries.finish()


def print_steps(function, steps, length, reverse, body):
    """Print the head of a scan's loop; of a long scan in parts, between which it looks.

    A part is a loop that LLVM can vectorise.  Around another loop it would only be one
    more level, and Python refuses more than 20 of them: such a scan looks at each step.

    Args:
      steps: how many, as text; length: as a number, if it is known.
      body: the program of one step.

    Returns:
      The name of the index.
    """
    i, last = function.fresh("i"), f"{length - 1}" if length else f"{steps} - 1"
    work = work_of(body)
    part = max(BETWEEN_LOOKS // work, 1)
    short = length is not None and length <= part
    nested = any(call.routine == "loop" for call in body.calls)
    if short or nested:
        order = f"{last}, -1, -1" if reverse else steps
        function.line(f"for {i} in range({order}):")
        if not short:
            function.writer.depth += 1
            function.watch(work)
            function.writer.depth -= 1
        return i
    start, end = function.fresh("k"), function.fresh("k")
    if reverse:
        function.line(f"for {start} in range({last}, -1, -{part}):")
        ahead = f"{end} = max({start} - {part}, -1)", f"{start} - {end}"
    else:
        function.line(f"for {start} in range(0, {steps}, {part}):")
        ahead = f"{end} = min({start} + {part}, {steps})", f"{end} - {start}"
    function.writer.depth += 1
    function.line(ahead[0])
    function.watch(f"({ahead[1]}) * {work}")
    order = f"{start}, {end}, -1" if reverse else f"{start}, {end}"
    function.line(f"for {i} in range({order}):")
    return i


def print_cond(function, programs, inputs, outputs, *, branches):
    """`if`, `elif`, `else`."""
    index, *operands = inputs
    for k, branch in enumerate(programs):
        head = "else:" if k == len(programs) - 1 else f"if {index.element(())} == {k}:"
        head = "if True:" if len(programs) == 1 else head
        function.line("el" + head if 0 < k < len(programs) - 1 else head)
        with function.indent():
            function.program(branch, operands, outputs)


loop_printers = {cond_p: print_cond, while_p: print_while, scan_p: print_scan}


# ---- the whole function


def array_argument(function, name, aval):
    """The place of an argument that is an array."""
    where = Place(name, aval.shape, aval.dtype)
    function.arguments.append(where)
    return function.given(where)


def array_result(function, name, aval):
    """The place of a result: an array, to be filled."""
    where = Place(name, aval.shape, aval.dtype)
    function.results.append(where)
    return where


# type of a value -> function(function, name, aval): where an argument, or a result, is.
argument_places = {ShapedArray: array_argument}
result_places = {ShapedArray: array_result}


def print_loop(call):
    """Print the function of a call: -> (KernelSource, text of the file, constants)."""
    function = FunctionPrinter()
    eqn, = call.eqns
    inputs, outputs = [], []
    for i, var in enumerate(eqn.invars):
        where = argument_places[type(var.aval)](function, f"in{i}", var.aval)
        inputs.append(where)
    for i, var in enumerate(eqn.outvars):
        where = result_places[type(var.aval)](function, f"out{i}", var.aval)
        outputs.append((where,))
    primitive, params = call.attrs["primitive"], call.attrs["params"]
    programs = call.attrs["programs"]
    loop_printers[primitive](function, programs, inputs, outputs, **params)
    return finish_source(function, f"run_{primitive.name}")


def finish_source(function, name):
    """The function's head, what it allocates, and its body."""
    constants = [Place(k, x.shape, x.dtype) for k, x in function.arrays.items()]
    stop = [Place("stop", (3,), np.dtype("int64"))] if function.ticks else []
    places = (*function.arguments, *constants, *function.results, *stop)
    arguments = tuple(Buffer(w.name, w.shape, w.dtype) for w in places)
    writer = LoopWriter()
    print_head(writer, name, arguments)
    with writer.indented():
        for room, shape, dtype in function.rooms:
            writer.line(f"{room} = np.empty({shape}, {dtype_text(dtype)})")
        for line in function.loads:
            writer.line(line)
    if function.returned:
        function.line(f"return {function.result}")
    text = writer.text() + function.writer.text()
    typed = "".join(f"{k} = {v}\n" for k, v in function.constants.definitions.items())
    comments = "\n".join(function.comments)
    imports = print_imports(text)
    file = imports + ("\n" + typed if typed else "") + f"\n\n{comments}\n{text}"
    used = tuple(function.constants.definitions)
    source = KernelSource(name, text, comments, arguments, function.locals, used)
    return source, file, tuple(function.arrays.values())


def print_head(writer, name, arguments):
    """The `def` line, which says what each array is."""
    writer.line(f"def {name}(")
    with writer.indented():
        for b in arguments:
            kind = storage_dtype(b.dtype).name
            writer.line(f"{b.name}: {kind}[{shape_text(b.shape)}],")
    writer.line("):")


# ---- running it

native_loops: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
cache_clearers.append(native_loops.clear)


class LoadedLoop:
    """A loop made to run: call it with NumPy arrays, get a tuple of them.

    Attributes:
      source: the `KernelSource`; text, path: of the generated file.
      out_avals: the types of the results.
    """

    def __init__(self, call, native):
        self.source, self.text, self.constants = print_loop(call)
        self.path = write_source(self.text)
        namespace = {"__name__": f"minijit source {self.source.name}"}
        exec(compile(self.text, self.path, "exec"), namespace)
        function = namespace[self.source.name]
        if native:
            function = compile_loop(self.source, function, self.path)
        self.function = function
        self.out_avals = [var.aval for var in call.eqns[0].outvars]
        self.looks = any(b.name == "stop" for b in self.source.buffers)

    def __call__(self, *arrays):
        outs = [np.empty(aval.shape, aval.dtype) for aval in self.out_avals]
        self.call(*arrays, *self.constants, *outs)
        return tuple(outs)

    def call(self, *arrays):
        """Call the function; raise what the handler of a signal raised meanwhile."""
        if not self.looks:
            return self.function(*map(stored, arrays))
        stop = np.zeros(3, np.int64)
        result = self.function(*map(stored, arrays), stop)
        raise_held(stop)
        return result


def stored(array):
    """An array as a loop takes it: 16-bit floats as their bits."""
    return array.view(np.uint16) if array.dtype.name in HALVES else array


def compile_loop(source, function, path):
    """Compile the function of a loop with numba; one with the same text only once."""
    constants = {name: function.__globals__[name] for name in source.constants}
    values = tuple((name, c.tobytes()) for name, c in constants.items())

    def build():
        namespace = native_functions() | constants
        if "matmul(" in source.text or "matvec(" in source.text:
            namespace |= native_products()
        code = FunctionType(function.__code__, namespace, source.name)
        return compile_kernel(source, code, path, returns="return (" in source.text)

    return compiled_once((source.text, tuple(source.locals.items()), values), build)


def load_loop(call, native, loaded=LoadedLoop):
    """What runs a call of a loop; compiled once for the call."""
    versions = native_loops.setdefault(call, {})
    if native not in versions:
        versions[native] = loaded(call, native)
    return versions[native]


routines |= {"loop": load_loop}
