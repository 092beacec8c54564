"""Notes for LLVM: what it may take for granted, and what it is not to do.

    br i1 %v17, label %loop9, label %done9, !llvm.loop !10
    ...
    !10 = distinct !{!10, !11}
    !11 = !{!"llvm.loop.unroll.disable"}

LLVM writes out all steps of a loop that has few of them before it looks for vectors,
and then it finds none.  So such loops bear a note: they run three to eight times as
fast with it.
"""

# Loops of so many steps would be written out, and have whole vectors in them: a vector
# of AVX2 has 8 floats, and LLVM writes out 300 instructions at most, five a step.
FEWEST_STEPS, MOST_STEPS = 8, 64


class Notes:
    """Methods for `LLVMWriter`.

    Attributes:
      notes: the texts of the notes, which stand beside the function.
    """

    notes: list

    def note(self, text):
        """A note for LLVM: -> its name; SELF in the text is that."""
        name = f"!NAME_n{len(self.notes)}"
        self.notes.append(f"{name} = {text.replace('SELF', name)}")
        return name

    def note_of_loop(self, extent):
        """What stands at the end of a loop: that its steps stay in a loop."""
        if isinstance(extent, str) or not FEWEST_STEPS <= extent <= MOST_STEPS:
            return ""
        return self.unrolled("disable")

    def unrolled(self, how):
        """What stands at the end of a loop: whether LLVM writes out its steps."""
        word = self.note(f'!{{!"llvm.loop.unroll.{how}"}}')
        return f", !llvm.loop {self.note(f'distinct !{{SELF, {word}}}')}"

    def text_of_notes(self):
        return "".join(f"{note}\n" for note in self.notes)
