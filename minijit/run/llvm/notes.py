"""Notes for LLVM: what it may take for granted, and what it is not to do.

    br i1 %v17, label %loop9, label %done9, !llvm.loop !10
    ...
    !10 = distinct !{!10, !11}
    !11 = !{!"llvm.loop.unroll.disable"}

LLVM writes out all steps of a loop that has few of them before it looks for vectors,
and then it finds none; and of a longer one, whose vectors it has made, several steps or
all, for as long as they fit into what the machine's description calls a buffer, which
is up to 512 instructions.  So all loops but the shortest bear a note, and so do the
loops around them: some run three to eight times as fast with it, and some are compiled
in half the time.  A loop with the note would have one vector of accumulators for each
total: where vectors are short it is told to have several, so that as many numbers are
added up side by side, and rounded as often, on each machine.  And a loop that stores
where an array says stays without vectors: to take each number's place out of a vector
takes three times as long as the loop.
"""

from ...compile.loops.contents import axes_in, loads_within, stores_in
from ...compile.loops.statements import Step
from .target import vector_bytes

# Loops of fewer steps are written out: they have no whole vector of floats in them.
FEWEST_STEPS = 8
# Bytes of accumulators that a total has: as many as the longest vectors hold.
ACCUMULATED = 64
# Loops that run no more steps in all take a fraction of a microsecond without vectors,
# which LLVM would take a millisecond to make.
SELDOM = 64


class Notes:
    """Methods for `LLVMWriter`.

    Attributes:
      notes: the texts of the notes, which stand beside the function.
      times: how often the loop that is written runs its steps, in all.
      alone: whether no vectors are made of them.
    """

    notes: list
    times: int
    alone: bool

    def note(self, text):
        """A note for LLVM: -> its name; SELF in the text is that."""
        name = f"!NAME_n{len(self.notes)}"
        self.notes.append(f"{name} = {text.replace('SELF', name)}")
        return name

    def note_of_loop(self, stmt, extent):
        """What stands at the end of a loop: that its steps stay one after the other.

        Args:
          stmt: the loop as a statement, or None if a writer adds it: such loops have
            vectors of ours, and LLVM only makes registers of their slots.
        """
        if stmt is None:
            return ""
        words = []
        if isinstance(extent, str) or is_kept(stmt):
            words.append('!"llvm.loop.unroll.disable"')
            count = ACCUMULATED // vector_bytes()
            # Told to have one, LLVM makes no vectors.
            if count > 1 and any(isinstance(s, Step) for s in stmt.body):
                words.append(f'!"llvm.loop.interleave.count", i32 {count}')
        if self.alone:
            words.append('!"llvm.loop.vectorize.enable", i1 false')
        return self.note_at_end(*words) if words else ""

    def stays_alone(self, stmt):
        """Whether LLVM is told to make no vectors of a loop's steps."""
        return stores_where_told(stmt) or self.times <= SELDOM

    def note_at_end(self, *words):
        """What stands at the end of a loop, of some words of LLVM's."""
        names = ", ".join([self.note(f"!{{{word}}}") for word in words])
        return f", !llvm.loop {self.note(f'distinct !{{SELF, {names}}}')}"

    def text_of_notes(self):
        return "".join(f"{note}\n" for note in self.notes)


def is_kept(loop):
    """Whether a loop stays one: it has more than a few steps, or one inside it does."""
    inside = (axis.extent for axis in axes_in([loop]))
    return not all(isinstance(n, int) and n < FEWEST_STEPS for n in inside)


def stores_where_told(loop):
    """Whether each step stores at a place that is read from an array."""
    places = [i for store in stores_in(loop.body) for i in store.index]
    return any(loop.axis in e.free for e in loads_within(places))
