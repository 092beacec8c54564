"""Programs in memory: each loaded once, whoever asks for it.

    load(program, native=True).run(*arrays)

What loads one, and what its driver calls, stands in tables: later chapters have faster
ways.
"""

import weakref

from ..compile.decisions import noting, with_notes
from ..compile.pipeline import rewrites
from ..trace.base.config import config
from ..trace.base.turns import one_at_a_time
from ..trace.jit.jit import cache_clearers
from .values import evaluating

loaded: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
# native -> the class that loads a program so, as `LoadedProgram` does.
loaders = {}


@one_at_a_time
def load(program, native, heading=str):
    """What a loader makes of a program; one that several call is loaded once.

    Args:
      heading: function without arguments: what is to stand above the source.
    """
    versions = loaded.setdefault(program, {})
    if native not in versions:
        with config.override("fusion", program.settings):
            versions[native] = loaders[native](program, native, heading)
    return versions[native]


def called(step):
    """The program that a step of another one calls, or None."""
    return getattr(step, "attrs", {}).get("program")


# Functions of an executable: what to run instead of its driver, or None.
watchers: list = []

# native -> the stage of rewrites that is its own.
own_rewrites: dict = {}


# {program: {native, or None: what it is rewritten to, or None if it stays what it is}}
rewritten_programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def rewritten(program, native=None):
    """A program as it is loaded.

    Args:
      native: as of `load`, for a loader that has rewrites of its own.
    """
    native = native if native in own_rewrites else None
    versions = rewritten_programs.setdefault(program, {})
    if native not in versions:
        with config.override("fusion", program.settings), noting() as notes:
            new = own_rewrites.get(native, rewrites).through(program)
        new = with_notes(new, notes)
        versions[native] = None if new is program else new
    return versions[native] or program


# routine -> function(call, native): what the driver calls for it.
routines = {
    "program": lambda call, native: load(call.attrs["program"], native).run,
    "eval": lambda call, native: evaluating(call),
}

# {closed jaxpr: its Program}, for `lower`.
programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

cache_clearers += [loaded.clear, programs.clear, rewritten_programs.clear]
