"""Unions and tapes as arrays: what branches and scans leave for their gradients.

    t1: Union[(f32[3,4], f32[3,4]), (f32[3,4])] = loop[cond](t0, in0)
    t1, t2, t3: f32[3,4] = loop[cond](t0, in0)      # a branch writes its own

On a CPU both are rows of tables that grow.  A device does not allocate while it runs;
but how large a Union of arrays is says its type, and a tape of a `scan` has as many
rows as the scan has steps.  So there is memory for the values of every case, and what
makes or opens a Union is a name for it.  Tapes of a `while` stay what they are.
"""

from dataclasses import replace

from ...trace.array import ShapedArray
from ...trace.jaxprs.jaxpr import Var
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.unions_and_tapes import Tape, Union, inject_p, project_p
from ...transform.control_flow.while_and_scan import scan_p
from ...transform.pieces import split
from ..loops.buffers import Buffer, whole
from ..loops.expressions import Axis, Load
from ..loops.statements import Call, Kernel, Store, nested
from .obstacles import kind_of, programs_of


class Grows(Exception):
    """The memory of a tape is known only when the program runs."""


def with_arrays(program):
    """The program with arrays in place of unions and tapes, if none of them grows."""
    if any(b.dtype == object for b in (*program.inputs, *program.outputs)):
        return program
    try:
        return Flattening({}).program(program, ())
    except Grows:
        return program


def size_of(aval):
    """How many arrays a value of a type consists of."""
    if isinstance(aval, Tape):
        return size_of(aval.element)
    if isinstance(aval, Union):
        return sum(size_of(a) for case in aval.cases for a in case)
    return 1


def places_of(aval, case):
    """(type, which arrays of a Union it is, as a slice) of each value of a case."""
    first = sum(size_of(a) for values in aval.cases[:case] for a in values)
    for kind in aval.cases[case]:
        yield kind, slice(first, first := first + size_of(kind))


class Flattening:
    """Writes programs down again, those within others too.

    Attributes:
      found: {(program, arrays of its inputs): what became of it}.
      arrays: of the program at hand, {union or tape: the buffers in its place}.
    """

    def __init__(self, found):
        self.found, self.arrays, self.count = found, {}, 0

    def inner(self, program, given):
        """A program within: -> `Program`; equal ones are one afterwards, too."""
        key = program, *(tuple((b.shape, b.dtype) for b in some) for some in given)
        if key not in self.found:
            self.found[key] = Flattening(self.found).program(program, given)
        return self.found[key]

    def program(self, program, given):
        """As `inner`; `given` are arrays like those in place of each of its inputs."""
        self.outputs, self.free = program.outputs, set(program.temps)
        self.body, self.opened, avals = [], {}, {}
        if any(b.dtype == object for b in {*program.inputs} & {*program.outputs}):
            raise Grows
        for call in program.calls:
            for view, atom in zip(call.inputs, call.eqns[0].invars, strict=False):
                avals[view.buffer] = atom.aval
            if kind_of(call) is project_p:
                cases = self.opened.setdefault(call.inputs[0].buffer, {})
                cases[call.attrs["params"]["case"]] = [v.buffer for v in call.outputs]
        for buffer, some in zip(program.inputs, given, strict=False):
            if buffer.dtype == object:
                self.place(buffer, avals.get(buffer), some)
        for step in program.body:
            self.step(step)
        if self.body == list(program.body) and not self.arrays:
            return program
        inputs, outputs = map(self.flat, (program.inputs, program.outputs))
        temps = dict.fromkeys(self.flat((*program.temps, *self.arrays)))
        known = {*inputs, *outputs, *(b for b, _ in program.constants)}
        temps = tuple(b for b in temps if b not in known)
        return replace(
            program, inputs=inputs, outputs=outputs, temps=temps, body=tuple(self.body)
        )

    def flat(self, buffers):
        """Buffers, each union or tape as its arrays."""
        return tuple(x for b in buffers for x in self.arrays.get(b, (b,)))

    def place(self, buffer, aval, like):
        """Choose arrays for a union or tape: what is taken out of it is one of them."""
        new = [self.new(b.shape, b.dtype) for b in like]
        for case, parts in self.opened.get(buffer, {}).items():
            for part, (kind, where) in zip(parts, places_of(aval, case), strict=True):
                if part.dtype == object:
                    self.place(part, kind, new[where])
                    new[where] = self.arrays[part]
                elif self.own(part):
                    new[where] = [part]
        self.arrays[buffer] = new

    def own(self, buffer):
        """Whether an array may be one in place of a union: once, and only here."""
        free = buffer in self.free and buffer not in self.outputs and not buffer.order
        self.free.discard(buffer)
        return free

    def new(self, shape, dtype):
        self.count += 1
        return Buffer(f"u{self.count}", shape, dtype)

    def copy(self, source, target):
        if source is not target:
            axes = tuple(map(Axis, source.shape))
            store = Store(target, axes, Load(source, axes))
            self.body += [Kernel("copy", nested(axes, [store]))] * (source.nbytes > 0)

    def step(self, step):
        if isinstance(step, Kernel):
            self.body.append(step)
        else:
            rows.get(kind_of(step), Flattening.inside)(self, step)

    def inject(self, call):
        """What goes into a Union is one of its arrays, or is copied there."""
        params, arrays = call.attrs["params"], []
        for k, kinds in enumerate(params["aval"].cases):
            if k == params["case"]:
                given = self.flat(view.buffer for view in call.inputs)
                arrays += map(self.kept, given)
            else:
                arrays += (b for kind in kinds for b in self.unused(kind))
        self.arrays[call.outputs[0].buffer] = arrays

    def unused(self, aval):
        """Arrays that nobody writes."""
        if isinstance(aval, Union):
            return [b for case in aval.cases for a in case for b in self.unused(a)]
        if isinstance(aval, Tape):
            # How many rows another branch knows, which writes them.
            return [replace(b, space="table") for b in self.unused(aval.element)]
        return [self.new(aval.shape, aval.dtype)]

    def kept(self, buffer):
        """An array of a Union that holds what another one does, or is that one."""
        if self.own(buffer):
            return buffer
        new = self.new(buffer.shape, buffer.dtype)
        self.copy(buffer, new)
        return new

    def project(self, call):
        arrays, (x,) = self.arrays[call.inputs[0].buffer], call.eqns[0].invars
        places = places_of(x.aval, call.attrs["params"]["case"])
        for view, (_, where) in zip(call.outputs, places, strict=True):
            if view.buffer.dtype != object:
                self.copy(*arrays[where], view.buffer)

    def loop(self, call):
        """A branch, or a scan of so many steps, on arrays; so are its programs."""
        attrs, (eqn,) = call.attrs, call.eqns
        params, lead = attrs["params"], ()
        given = [self.flat([view.buffer]) for view in call.inputs]
        if attrs["primitive"] is cond_p:
            branches = [self.inner(p, given[1:]) for p in attrs["programs"]]
            programs = tuple(with_rows(branches))
        elif attrs["primitive"] is scan_p and params["length"] is not None:
            consts, carry, xs = split(given, params["num_consts"], params["num_carry"])
            rows = [[Buffer(b.name, b.shape[1:], b.dtype) for b in x] for x in xs]
            body, = attrs["programs"]
            programs = (self.inner(body, [*consts, *carry, *rows]),)
            params = params | {"num_consts": sum(map(len, consts))}
            lead = (params["length"],)
        else:
            self.inside(call)
            return
        made = iter(programs[0].outputs)
        for view, var in zip(call.outputs, eqn.outvars, strict=True):
            some = [next(made) for _ in range(size_of(var.aval))]
            if view.buffer.dtype == object:
                rows = lead if isinstance(var.aval, Tape) else ()
                like = [Buffer(b.name, (*rows, *b.shape), b.dtype) for b in some]
                self.place(view.buffer, var.aval, like)
        if programs == attrs["programs"] and not holds_object(call):
            self.body.append(call)
            return
        inputs, invars = self.sides(call.inputs, eqn.invars)
        outputs, outvars = self.sides(call.outputs, eqn.outvars)
        eqn = eqn.replace(invars=invars, outvars=outvars)
        attrs = attrs | {"programs": programs, "params": params}
        self.body.append(Call("loop", inputs, outputs, attrs, (eqn,)))

    def sides(self, views, atoms):
        """(views, variables) of arrays, in place of those of a call."""
        found = []
        for view, atom in zip(views, atoms, strict=True):
            arrays = self.arrays.get(view.buffer)
            if arrays is None:
                found.append((view, atom))
            else:
                kinds = (ShapedArray(b.shape, b.dtype) for b in arrays)
                found += zip(map(whole, arrays), map(Var, kinds), strict=True)
        return zip(*found, strict=True)

    def inside(self, call):
        """What holds no union or tape, but maybe programs in which some are."""
        if holds_object(call):
            raise Grows
        old = programs_of(call)
        new = tuple(self.inner(program, ()) for program in old)
        if new != old:
            own = {"program": new[0], "programs": new}
            own = {name: own.get(name, value) for name, value in call.attrs.items()}
            call = replace(call, attrs=own)
        self.body.append(call)


def with_rows(branches):
    """Programs with the same arrays for results: one of them knows each tape's rows."""
    results = zip(*(program.outputs for program in branches), strict=True)
    known = [sorted(same, key=is_table)[0] for same in results]
    if any(map(is_table, known)):
        raise Grows
    for program in branches:
        pairs = zip(program.outputs, known, strict=True)
        outputs = tuple(replace(k, name=b.name) if is_table(b) else b for b, k in pairs)
        changed = outputs != program.outputs
        yield replace(program, outputs=outputs) if changed else program


def is_table(buffer):
    return buffer.space == "table"


def holds_object(call):
    return any(v.buffer.dtype == object for v in (*call.inputs, *call.outputs))


# kind of call -> function(flattening, call): writes it down.
rows = {inject_p: Flattening.inject, project_p: Flattening.project}
rows |= {"loop": Flattening.loop}
