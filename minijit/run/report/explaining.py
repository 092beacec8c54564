"""`minijit.explain`: a report of what was compiled for a function and its arguments.

    print(minijit.explain(f, x))
    compiled = jit(f).lower(x).compile()
    compiled.explain().traffic_bytes

The function is traced and compiled as for a call, and it is not run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...compile.control.region_traffic import Growing
from ...compile.decisions import decisions_about
from ...compile.fuse.traffic import Use, traffic_of
from ...compile.loops.buffers import Buffer
from ...compile.loops.statements import Kernel, Region
from ...compile.lower.walk import lower
from ...compile.report.explain import Array, Report, Step
from ...compile.schedule.placing_rules import arrange
from ...compile.simplify.folding import simplify
from ...trace.api import calls
from ...trace.base.config import config
from ...trace.jit.jit import JitFunction, jit
from ...trace.types import Argnums
from ..calls.planned_driver import plan_of
from ..loading import called, load, rewritten
from ..reports import call_routes, kernel_routes, kernel_rules, kernel_threads


def explain(
    fun: Callable[..., Any], *args: Any, static_argnums: Argnums | None = None,
    static_argnames: str | Sequence[str] | None = None, **kwargs: Any,
) -> Any:
    """A report of what `jit` makes of a function for these arguments.

    Args:
      fun: any function of arrays, jitted or not, transformed or not.
      args, kwargs: arrays, `ShapeDtypeStruct`s, and trees of them.
      static_argnums, static_argnames: as for `jit`, if `fun` is not jitted.

    Returns:
      A `Report`: print it, or look at `.kernels`, `.calls`, `.traffic_bytes`,
      `.ideal_bytes`, `.decisions`, `.buffers`, `.why_not_fused(a, b)`, `.dot()` and
      `.plot()`.
    """
    fun = jitted(fun, static_argnums, static_argnames)
    return fun.lower(*args, **kwargs).compile().explain()


def jitted(fun, static_argnums=None, static_argnames=None):
    """A function as `jit` makes it; itself if it is jitted."""
    if not isinstance(fun, JitFunction):
        return jit(fun, static_argnums=static_argnums, static_argnames=static_argnames)
    if static_argnums is not None or static_argnames is not None:
        raise TypeError("the function is jitted already: give static arguments to jit")
    return fun


def report_of(compiled):
    """The `Report` of a `Compiled`."""
    executable = compiled.executable
    if not hasattr(executable, "program"):
        raise TypeError(
            "explain tells what a compiler has made, and this function runs equation "
            "by equation (backend='eval'): there are no kernels"
        )
    lowered, program = compiled.lowered, executable.program
    names = lowered.jaxpr.jaxpr.debug.arg_names
    report = Reporting(executable.native).report(program, names)

    @functools.cache
    def count(**changes):
        with config.override("fusion", program.settings.but(**changes)):
            made = lower(simplify(lowered.jaxpr), lowered.fun_name)
            return count_steps(rewritten(made, executable.native), executable.native)

    report.count_steps = lambda changes: count(**changes)
    return report


def count_steps(program, native):
    """How many kernels and calls run, those of the functions that are called too."""
    inner = filter(None, map(called, program.body))
    inside = (count_steps(rewritten(made, native), native) - 1 for made in inner)
    return len(program.body) + sum(inside)


class Reporting:
    """Collects the steps of a program and of those that it calls.

    Attributes:
      native: how the program was loaded.
      steps, roles: what was found; roles: {buffer: its role}.
      tapes: {buffer of a Tape or Union: its `Growing`}.
    """

    def __init__(self, native):
        self.native = native
        self.steps, self.roles, self.decisions, self.runs = [], {}, [], 0
        self.tapes = {}
        self.fallbacks = {}

    def report(self, program, names):
        """The `Report` of a whole program, whose arguments have names."""
        names = [*names, *(b.name for b in program.inputs[len(names) :])]
        renamed = {
            buffer: replace(buffer, name=str(name))
            for buffer, name in zip(program.inputs, names, strict=True)
        }
        self.roles = dict.fromkeys(renamed.values(), "argument")
        self.program(program, renamed, "")
        made = rewritten(program, self.native)
        for buffer in {*made.inputs} & {*made.outputs}:
            self.roles[renamed[buffer]] = "donated"
        plan = plan_of(made)
        # Other slots of an arena are the arenas of other programs.
        slots = (s for s in plan.slots if isinstance(s.owner, Buffer))
        offsets = {s.owner.name: s.offset for s in slots}
        lives: dict = {}
        for n, step in enumerate(self.steps):
            for use in (*step.reads, *step.writes):
                lives.setdefault(use.buffer, []).append(n)
        arrays = []
        for buffer, role in self.roles.items():
            used = lives.get(buffer, [None])
            offset = offsets.get(buffer.name) if role == "temporary" else None
            arrays.append(Array(buffer, role, used[0], used[-1], offset))
        copies = tuple(
            replace(c, source=renamed.get(c.source, c.source)) for c in plan.copies
        )
        given = self.steps, arrays, self.decisions, self.fallbacks.items()
        return Report(program.name, *given, plan.peak, copies)

    def program(self, program, places, prefix):
        """Add the steps of a program.

        Args:
          places: {buffer of the program: buffer of the report}; it is extended.
          prefix: of the names of its kernels and arrays.
        """
        self.runs += 1
        made = load(program, self.native)
        roles = {b: "constant" for b, _ in made.constants}
        if not prefix:
            roles |= dict.fromkeys(program.outputs, "result")
        self.fallbacks |= dict(program.fallbacks)
        self.decisions += rewritten(program, self.native).decisions

        def place(buffer):
            if buffer not in places:
                places[buffer] = replace(buffer, name=prefix + buffer.name)
                role = roles.get(buffer, "temporary")
                if buffer.space == "global":
                    self.roles[places[buffer]] = role
            return places[buffer]

        add = functools.partial(self.add, program, self.runs, made.constants, place)
        names = iter(made.names)
        # What the CPU runs for a device has no text for that.
        texts = dict.fromkeys(made.names, "")
        texts |= {k.name: k.text for k in made.source.kernels}
        for stmt in made.body:
            if isinstance(stmt, Kernel):
                name, route = next(names), kernel_routes.get(self.native, self.native)
                with config.override("fusion", program.settings):
                    source = lambda name=name: texts[name]
                    add(prefix + name, stmt, route, source=source)
                    if not isinstance(stmt, Region):
                        rules = kernel_rules.get(self.native, arrange)
                        self.decisions += decisions_about(stmt, rules)
            elif called(stmt):
                self.inner(stmt, place, prefix)
            else:
                self.call(add, stmt, prefix)

    def inner(self, call, place, prefix):
        """The steps of a program that is called: its arguments are the caller's."""
        program = call.attrs["program"]
        pairs = zip(
            (*program.inputs, *program.outputs), (*call.inputs, *call.outputs),
            strict=True,
        )  # fmt: skip
        places = {own: place(view.buffer) for own, view in pairs}
        self.program(program, places, f"{prefix}{program.name}/")

    def call(self, add, call, prefix):
        """A routine, or a primitive that runs uncompiled."""
        name = str(call.attrs.get("primitive", call.routine))
        routes = call_routes.get(call.routine, ("plain", "numba"))
        route, reason = routes[bool(self.native)], self.fallbacks.get(name)
        add(prefix + name, call, route, reason)

    def add(
        self, program, run, constants, place, name, stmt, route, reason=None, source=str
    ):  # fmt: skip
        found = traffic_of(stmt, constants)
        reads, writes = (
            tuple(replace(use, buffer=place(use.buffer)) for use in uses)
            for uses in (found.reads, found.writes)
        )
        for table in getattr(stmt, "tables", ()):
            use = (Use(self.tape(place(table.buffer), table.aval), 0, exact=False),)
            reads, writes = reads + use * (not table.given), writes + use * table.given
        before = sum(step.name.partition("#")[0] == name for step in self.steps)
        name = f"{name}#{before + 1}" if before else name
        step = Step(
            name=name, stmt=stmt, program=program, run=run, eqns=stmt.eqns,
            reads=reads, writes=writes, flops=found.flops, route=route, reason=reason,
            source=source, threads=kernel_threads.get(route, lambda stmt: 1)(stmt),
        )  # fmt: skip
        self.steps.append(step)

    def tape(self, buffer, aval):
        """What stands for the buffer of a Tape or Union, which had an array's role."""
        role = self.roles.pop(buffer, None)
        if buffer not in self.tapes:
            self.tapes[buffer] = Growing(buffer.name, (), buffer.dtype, aval=aval)
            role = "tape" if role == "temporary" else role
            self.roles[self.tapes[buffer]] = role
        return self.tapes[buffer]


calls.explain_calls("minijit", globals(), ["explain"])
calls.explain_methods("report", Report, ["why_not_fused", "plot"])
