"""Residuals of a shape that is only known when the program has run: Union and Tape.

A `Union` holds the values of whichever branch ran, and only those.  A `Tape` is a list
that grows as a loop runs.  Both are values like arrays, with types that print and stand
in jaxprs: `Union[(f32[3]), ()]` and `Tape[f32[3]]`.  A zero of either type is lazy: it
has no case and no length, and gives zeros when it is read.
"""

from dataclasses import dataclass

from ...trace.array import shape_rules
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.text import aval_printers, print_aval
from ..opaque import Opaque, TapeValue as TapeValue, UnionValue


# chapter 11
@dataclass(frozen=True)
class Union(Opaque):
    """The type of the values of one case out of several.

    Attributes:
      cases: for each case a tuple of avals.
      every: whether the values of all cases are there (a branch under `vmap`, where
        lanes may differ in which one they took).
    """

    cases: tuple
    every: bool = False

    def __str__(self):
        cases = ", ".join(f"({', '.join(map(print_aval, c))})" for c in self.cases)
        return f"{'Every' if self.every else 'Union'}[{cases}]"


# ---- making and opening unions

inject_p = Primitive("inject")
project_p = Primitive("project", multiple_results=True)


def inject(case, aval, values):
    """A Union of type `aval` that holds the values of one case."""
    return inject_p.bind(*values, case=case, aval=aval)


def project(case, union):
    """The values that a Union holds for a case: -> list."""
    return project_p.bind(union, case=case)


def eval_inject(*values, case, aval):
    cases = range(len(aval.cases))
    return UnionValue(aval, tuple(values if k == case else None for k in cases))


shape_rules |= {
    inject_p: lambda *values, case, aval: aval,
    project_p: lambda union, *, case: list(union.cases[case]),
}
eval_rules |= {inject_p: eval_inject, project_p: lambda u, *, case: u.case(case)}
aval_printers |= {Union: str}


# ---- tapes


@dataclass(frozen=True)
class Tape(Opaque):
    """The type of a list with one value a step.  Its length is not in the type."""

    element: object

    def __str__(self):
        return f"Tape[{print_aval(self.element)}]"


aval_printers |= {Tape: str}
