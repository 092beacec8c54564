"""Regions as Python: loops and branches with nests inside, in one function.

    def while_0(x0: float32[()], y0: float32[()], stop=None):
        w0: int64 = 0
        s0: float32 = x0[()]
        while True:
            s1: bool = s0 < f32_100
            if not s1:
                break
            s2: float32 = s0 * s0 + f32_1
            s0 = s2
            ...
        y0[()] = s0

What has no axes is a local variable.  Two arrays swap their names.  A table is an array
that is replaced by a longer one.  A function gets numbers and gives back those that it
changed, the tables that grew, and the count of the work.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field

from ...compile.control.lowering import with_regions
from ...compile.loops.kernel_buffers import buffer_names, given_buffers
from ...compile.loops.scalars import INDEX, storage_dtype
from ...compile.loops.statements import Call, Look, Region, Reserve, Store, statements
from ...compile.memory.complex_pairs import region_in_pairs
from ...compile.pipeline import rewrites
from ...compile.settings import config
from ..emit import Walker
from .emitter import PythonEmitter
from .source import kernel_printers
from .source_text import (
    NOT, KernelSource, dtype_text, heading_lines, param_text, source_comment,
)

# How many rows a table has room for at first.
FIRST_ROWS = 16


class RegionEmitter(PythonEmitter):
    """Prints the body of a region, or of one of its functions.

    Attributes:
      functions: {function that it may call: (its name, what it changes)}.
      results: the text of what it returns: of a region the tables that it gives.
      numbers: {buffer without axes: the variable that it is}; typed: those that stand
        in the text with their type.
      ticks: the variable that counts the work.
    """

    def __init__(self, arrays, constants, functions):
        super().__init__(arrays, constants)
        self.functions, self.results = functions, []
        self.numbers: dict = {}
        self.typed: set = set()
        self.in_branches, self.first = 0, []
        self.ticks = self.fresh("w")
        self.locals[self.ticks] = INDEX.name

    # Numbers without axes, in local variables.

    def number(self, buffer, name):
        self.arrays[buffer] = self.numbers[buffer] = name
        self.locals[name] = storage_dtype(buffer.dtype).name

    def element(self, buffer, index):
        if buffer in self.numbers:
            return self.numbers[buffer]
        return super().element(buffer, index)

    def store(self, buffer, index, value):
        """The first time with its type."""
        if buffer in self.numbers and buffer not in self.typed:
            self.typed.add(buffer)
            name = self.numbers[buffer]
            self.line(f"{name}: {self.locals[name]} = {value}")
            if self.in_branches:
                # It may be copied where no branch has set it, and then not used.
                self.begin_as_zero(name)
            return
        super().store(buffer, index, value)

    def own(self, buffer):
        """A buffer that is there only while this runs."""
        if buffer.shape == ():
            self.number(buffer, self.fresh("s"))
            return
        name = self.arrays[buffer] = self.fresh("t")
        rows = (FIRST_ROWS,) if buffer.space == "table" else buffer.shape[:1]
        dtype = dtype_text(storage_dtype(buffer.dtype))
        self.line(f"{name} = np.empty({rows + buffer.shape[1:]}, {dtype})")

    # Loops.

    @contextmanager
    def repeat(self):
        """`while cond:` if the test is no more than that."""
        at = len(self.lines)

        def unless(condition):
            if len(self.lines) == at + 1:
                self.lines.pop()
                self.depth -= 1
                self.begin(f"while {condition}:")
            else:
                with self.block(f"if not {condition.at(NOT)}:"):
                    self.line("break")

        self.begin("while True:")
        yield unless
        self.end()

    def begin_as_zero(self, name):
        """Set a number at the very beginning."""
        self.first.append(f"    {name}: {self.locals[name]} = 0")

    @contextmanager
    def branch(self, condition):
        """`elif` where the second case is no more than another branch."""
        before = self.depth
        self.in_branches += 1
        with super().branch(condition) as otherwise:
            at = []

            def second():
                otherwise()
                at.append(len(self.lines))

            yield second
        self.in_branches -= 1
        if at:
            self.join(at[0], before)

    def join(self, at, depth):
        """Write `elif` for an `if` that is all there is after `else:`."""
        inside = "    " * (depth + 1)
        first, rest = self.lines[at], self.lines[at + 1 :]
        alone = all(
            line.startswith((inside + " ", inside + "el")) or not line for line in rest
        )
        if first.startswith(inside + "if ") and alone:
            joined = [line[4:] for line in (first, *rest)]
            joined[0] = joined[0].replace("if ", "elif ", 1)
            self.lines[at - 1 :] = joined

    # Memory.

    def swap(self, first, second):
        a, b = self.arrays[first], self.arrays[second]
        self.line(f"{a}, {b} = {b}, {a}")

    def reserve(self, table, rows):
        name = self.arrays[table]
        if str(rows).isdigit() and int(str(rows)) <= FIRST_ROWS:
            return
        with self.block(f"if len({name}) < {rows}:"):
            self.line(f"{name} = longer({name}, {rows})")

    # Leaving early.

    @property
    def returned(self):
        return f"return {', '.join(self.results)}".rstrip()

    def look(self, work):
        ticks = self.ticks
        self.line(f"{ticks} += {work}")
        with self.block(f"if {ticks} > {config.fusion.between_looks}:"):
            self.line(f"{ticks} = 0")
            with self.block("if interrupted(stop):"):
                self.line(self.returned)

    def fail(self, condition, message):
        with self.block(f"if {condition}:"):
            self.line(f"raise OverflowError({message!r})")

    # Calls.

    def product(self, call, offsets):
        views = (*call.outputs, *call.inputs)
        out, a, b = self.starts(views, offsets)
        (out_row, _), *factors = (view.strides[-2:] for view in views)
        (a_row, a_column), (b_row, b_column) = factors
        (m, k), n = views[1].shape[-2:], views[2].shape[-1]
        left, right = f"{a}, {a_row}, {a_column}", f"{b}, {b_row}, {b_column}"
        self.line(f"matmul({m}, {k}, {n}, {out}, {out_row}, {left}, {right})")

    def lapack(self, call, offsets):
        starts = self.starts(call.attrs["given"], offsets)
        self.line(f"lapack({', '.join([repr(call.attrs['name']), *starts])})")

    def starts(self, views, offsets):
        """Of each view its array, and the number of its first element there."""
        pairs = zip(views, offsets, strict=True)
        return [f"{self.arrays[view.buffer]}, {start}" for view, start in pairs]

    def function(self, call, offsets):
        """`s3, t4, w0 = while_0_f0(in0, s3, t4, stop, w0)`."""
        function = call.attrs["function"]
        name, changes = self.functions[function]
        texts = {b: self.arrays[b] for b in function.captures}
        triples = zip(function.params, call.attrs["given"], offsets, strict=True)
        for param, view, offset in triples:
            texts[param] = self.given(param, view, offset)
        results = [texts[b] for b in changes] + [self.ticks]
        taken = [texts[b] for b in (*function.params, *function.captures)]
        taken += ["stop", self.ticks]
        self.line(f"{', '.join(results)} = {name}({', '.join(taken)})")
        with self.block("if stop is not None and stop[0]:"):
            self.line(self.returned)

    def given(self, param, view, offset):
        """What a function is given: an array, a part of one, a number."""
        buffer = getattr(view, "buffer", view)
        name = self.arrays[buffer]
        if buffer in self.numbers and buffer not in self.typed:
            # A function is given what it sets, and may be the first to set it.
            self.typed.add(buffer)
            self.begin_as_zero(name)
        if view is buffer or buffer in self.numbers or view.shape == buffer.shape:
            return name if buffer in self.numbers or param.shape else f"{name}[()]"
        if not param.shape:
            return f"{name}.reshape(-1)[{offset}]"
        return f"part({name}, {offset}, {view.shape})"


# ---- functions


def calls(stmt):
    """Whether a statement calls a function of its region."""
    return isinstance(stmt, Call) and stmt.routine == "function"


def changed(function, known):
    """The numbers and tables that a function is given, and changes.

    Args:
      known: {function that it calls: (name, what that one changes)}.
    """
    found: dict = {}
    for stmt in statements(function.body):
        match stmt:
            case Store():
                found[stmt.buffer] = None
            case Reserve():
                found[stmt.table] = None
            case Call() if calls(stmt):
                inner = stmt.attrs["function"]
                views = [getattr(v, "buffer", v) for v in stmt.attrs["given"]]
                names = dict(zip(inner.params, views, strict=True))
                _, changes = known[inner]
                found |= dict.fromkeys(names.get(b, b) for b in changes)
    tables = [b for b in function.captures if b.space == "table"]
    numbers = [b for b in function.params if b.space == "table" or b.shape == ()]
    return [b for b in (*numbers, *tables) if b in found]


@dataclass(frozen=True)
class FunctionSource:
    """A printed function of a region: as `KernelSource`."""

    name: str
    text: str
    signature: tuple
    locals: dict = field(repr=False)


def print_function(function, name, constants, functions):
    """Print one function of a region: -> (`FunctionSource`, names of constants)."""
    changes = changed(function, functions)
    functions[function] = name, changes
    emitter = RegionEmitter({}, constants, functions)
    params: list = []
    signature: list = []
    for prefix, buffers in (("p", function.params), ("c", function.captures)):
        for buffer in buffers:
            own, kind = emitter.fresh(prefix), storage_dtype(buffer.dtype).name
            emitter.arrays[buffer] = own
            if prefix == "p" and buffer.shape == ():
                emitter.number(buffer, own)
                params.append(f"{own}: {kind}")
                signature.append((kind,))
            else:
                params.append(param_text(own, buffer))
                signature.append((kind, len(buffer.shape)))
    params += ["stop", f"{emitter.ticks}: int64"]
    signature += [(INDEX.name, 1), (INDEX.name,)]
    for buffer in buffer_names(function.body):
        if buffer not in emitter.arrays:
            emitter.own(buffer)
    emitter.results = [emitter.arrays[b] for b in changes] + [emitter.ticks]
    Walker(emitter).block(function.body)
    emitter.line(emitter.returned)
    lines = heading_lines(name, params) + emitter.first + emitter.lines
    text = "\n".join(lines) + "\n"
    source = FunctionSource(name, text, tuple(signature), emitter.locals)
    return source, tuple(emitter.used)


# ---- regions


@dataclass(frozen=True)
class RegionSource(KernelSource):
    """One printed region, and its functions before it in its text.

    Attributes:
      tables: the `Attached` of each tape or union; `buffers` ends with their buffers.
    """

    tables: tuple = ()
    functions: tuple = ()

    @property
    def body(self):
        return self.text.replace(self.name, "")

    @property
    def signature(self):
        """The columns of tapes and unions that it takes stand after the arrays."""
        attached = {t.buffer for t in self.tables}
        arrays = [b for b in self.buffers if b not in attached]
        taken = [c for t in self.tables if not t.given for c in t.columns]
        kinds = [(storage_dtype(b.dtype).name, len(b.shape)) for b in (*arrays, *taken)]
        return (*kinds, (INDEX.name, 1))


def print_region(region, name, constants):
    """Print one region: -> `RegionSource`."""
    region, (functions, sources, used) = region_in_pairs(region), ({}, [], {})
    for k, function in enumerate(region.functions):
        source, more = print_function(function, f"{name}_f{k}", constants, functions)
        sources.append(source)
        used |= dict.fromkeys(more)
    arrays = given_buffers(region.body)
    columns = [c for t in region.tables if not t.given for c in t.columns]
    arrays |= {column: f"h{i}" for i, column in enumerate(columns)}
    emitter = RegionEmitter(dict(arrays), constants, functions)
    given = [c for t in region.tables if t.given for c in t.columns]
    if any(isinstance(s, Look) or calls(s) for s in statements(region.body)):
        emitter.line(f"{emitter.ticks}: int64 = 0")
    for buffer in (*given, *buffer_names(region.body)):
        if buffer not in emitter.arrays:
            emitter.own(buffer)
    if given:
        *names, last = (emitter.arrays[c] for c in given)
        emitter.results = [*names, f"{last},"]
    Walker(emitter).block(region.body)
    if given:
        emitter.line(emitter.returned)
    if not emitter.lines:  # of no step at all, and its result lies in its argument
        emitter.line("pass")
    params = [param_text(own, buffer) for buffer, own in arrays.items()]
    lines = heading_lines(name, [*params, "stop=None"]) + emitter.first + emitter.lines
    texts = [*(source.text for source in sources), "\n".join(lines) + "\n"]
    taken = [b for b in arrays if b not in columns]
    return RegionSource(
        name,
        "\n\n".join(texts),
        source_comment(region),
        (*taken, *(t.buffer for t in region.tables)),
        emitter.locals,
        tuple(used | emitter.used),
        tables=region.tables,
        functions=tuple(sources),
    )


kernel_printers |= {Region: print_region}
rewrites |= {"with_regions": with_regions}
