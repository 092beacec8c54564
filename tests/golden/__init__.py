"""Golden texts: the loops of some hundred programs as they are before code is made.

    python -m tests.golden            # what differs from the stored texts
    python -m tests.golden --accept   # store the texts as they are now

A change of the compiler that means to change nothing leaves them as they are; one that
means to change loops shows, as a diff, what became of each program.  Texts are of
`Program`s after all rewrites and arrangements, which ask nothing of the machine.
"""
