"""What fusion says of two kernels, and of one: each answer with its reason.

    judged(a, b, saved, "path")     # the `Decision` that a rule makes
"""

from ..decisions import Decision, loop_rules
from ..schedule.row_totals import rules_of_totals

# rule: (whether the two are fused, why, the setting that changes it), the first first.
rules = {
    "loops": (True, "they share loops, and what goes from one to the other"),
    "blocks of columns": (True, "they share loops over blocks of columns"),
    "no nest": (False, "one of them is a call, or stores in an order of its own"),
    "overwritten": (False, "the second one writes over what the first one uses"),
    "changed": (False, "the second one reads an element that the first one updates"),
    "copy": (False, "an update of a copy may be one of the array itself"),
    "barrier": (False, "nothing is fused across an optimization_barrier"),
    "path": (False, "a third step has to run between them"),
    "operations": (False, "together they have too many operations", "most_operations"),
    "buffers": (False, "together they take too many arrays", "most_buffers"),
    "axes": (False, "no loop of one goes with a loop of the other, step by step"),
    "columns": (
        False,
        "they share only the axis along which memory runs, and little else",
        "column_share",
    ),
    "little": (False, "what both read is smaller than what they store"),
} | rules_of_totals

loop_rules |= {
    "off": (False, "kernels are not merged at all", "enabled"),
    "not compared": (False, "it is not compared with far readers", "neighbours"),
    "row": (True, "what nobody else wants is a row in the cache", "row_bytes"),
    "large row": (False, "so large a row is no longer in the cache", "row_bytes"),
}


def judged(a, b, saved, rule, **numbers):
    """The `Decision` about two parts that a rule makes."""
    fused, reason, *settings = rules[rule]
    steps, nbytes = ((a.step,), (b.step,)), saved
    return Decision(*steps, fused, rule, reason, nbytes, tuple(settings), numbers)
