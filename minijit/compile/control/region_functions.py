"""Functions of a region: a program that occurs several times is written down once.

    function r0_f0(p0: f32[64], p1: f32[64]):
      ...
    while:
      r0_t3 = function[r0_f0](r0_t2)

So code grows with the text of a user's program, and not with how often its parts are
run.  A function is given arrays and tables.  What says where a tape or union is
consists of several of these; two calls share a function if what they are given is
alike, and is the same at the same places.
"""

from collections import Counter
from dataclasses import fields, is_dataclass

from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer, View
from ..loops.expressions import Expr
from ..loops.kernel_buffers import used_buffers
from ..loops.statements import Call, Function
from .obstacles import programs_of, steps_of
from .regions import Part, calls_of_functions


def shared_programs(call):
    """The programs within a loop that occur several times."""
    times, todo = Counter(), [call] if call else []  # none: it is built by hand
    while todo:
        for program in programs_of(todo.pop()):
            if program not in times:
                todo += program.calls
            times[program] += 1
    saved = {program: (n - 1) * steps_of(program) for program, n in times.items()}
    for kernels in filter(None, saved.values()):
        noted("function", call, kernels=kernels)
    return frozenset(filter(saved.get, saved))


loop_rules |= {"function": (True, "what several places run is written once")}


def call_function(builder, program, inputs, outputs):
    """Call a program's function, made at its first call: -> whether it is one."""
    root = builder.root
    if root.shared is None:
        root.shared = shared_programs(root.call)
    if program not in root.shared:
        return False
    outputs = [
        tuple(wanted) or (builder.room(buffer.shape, buffer.dtype),)
        for buffer, wanted in zip(program.outputs, outputs, strict=True)
    ]
    places = [*inputs, *(where for wanted in outputs for where in wanted)]
    given = {where: atoms_of(builder, where) for where in places}
    number = {atom: None for atoms in given.values() for atom in atoms.values()}
    number = {atom: i for i, atom in enumerate(number)}
    rows = {x.buffer for x in number if isinstance(x, Part)}
    if rows & number.keys():
        # A row of a table that the function makes longer would be left behind.
        builder.inline(program, inputs, outputs)
        return True
    alike = lambda where: tuple(number[atom] for atom in given[where].values())
    key = (
        program,
        tuple(map(alike, inputs)),
        tuple(tuple(map(alike, wanted)) for wanted in outputs),
    )
    if key not in builder.functions:
        builder.functions[key] = function_of(
            builder, program, inputs, outputs, given, list(number)
        )
    views = {x: view_of(x) if isinstance(x, Part) else x for x in number}
    # What says where a tape or union is, is read in any case.
    taken = [w for w in places if w in inputs or not isinstance(w, Part)]
    made = [where for wanted in outputs for where in wanted]
    sides = (
        tuple({views[x]: None for w in side for x in given[w].values()
               if isinstance(x, Part)})
        for side in (taken, made)
    )  # fmt: skip
    attrs = dict(function=builder.functions[key], given=tuple(views.values()))
    builder.add(Call("function", *sides, attrs))
    return True


def atoms_of(builder, where):
    """{what a place is made of: the part of a buffer, or the table, that stands for it}

    A place is made of parts, tables and numbers: a `Part` is one; what says where a
    tape or union is has several.  An expression is put into a register.
    """
    found, todo = {}, [where]
    while todo:
        x = todo.pop()
        if isinstance(x, (Part, Buffer)):
            found[x] = x
        elif isinstance(x, Expr):
            found[x] = builder.number(x.dtype)
            builder.set(found[x], x)
        elif isinstance(x, tuple):
            todo += reversed(x)
        elif is_dataclass(x):
            todo += [getattr(x, f.name) for f in reversed(fields(x))]
    return found


def with_params(where, params):
    """A place made of the params that stand for its atoms; `params` is extended."""
    if where in params:
        return params[where]
    if isinstance(where, tuple):
        return tuple(with_params(x, params) for x in where)
    if not is_dataclass(where):
        return where
    parts = [with_params(getattr(where, f.name), params) for f in fields(where)]
    params[where] = type(where)(*parts)
    return params[where]


def function_of(builder, program, inputs, outputs, given, atoms):
    """The `Function` of a program, for arrays and tables of these kinds.

    Args:
      given: {place: its atoms}; atoms: all of them, each once.
    """
    prefix = f"{builder.prefix}f{len(builder.functions)}_"
    own = type(builder)(prefix)
    own.functions, own.root = builder.functions, builder.root
    own.constants, own.rooms = builder.constants, builder.rooms
    params = {}
    for i, x in enumerate(atoms):
        space = "global" if isinstance(x, Part) else x.space
        params[x] = Buffer(f"{prefix}p{i}", x.shape, x.dtype, space=space)

    # The records that several places share stay the same ones.
    made: dict = {}

    def moved(where):
        for x, atom in given[where].items():
            param = params[atom]
            if isinstance(x, Expr):
                made[x] = Part(param).load()
            else:
                made[x] = Part(param) if isinstance(x, Part) else param
        return with_params(where, made)

    inputs = list(map(moved, inputs))
    own.inline(program, inputs, [tuple(map(moved, wanted)) for wanted in outputs])
    params = tuple(params.values())
    inside = [b for b in buffers_in(own.body) if b.space != "register"]
    captures = tuple(b for b in inside if b not in params)
    return Function(prefix.rstrip("_"), params, captures, own.body)


def view_of(where):
    """A part of a buffer as a view."""
    strides = Buffer("", where.shape, where.dtype).strides
    return View(where.buffer, where.shape, strides, where.start())


def buffers_in(body):
    """The buffers that statements use, and the functions that they call."""
    written, read = used_buffers(body)
    return list(written | read)


calls_of_functions.append(call_function)
