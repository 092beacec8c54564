"""Families of primitives beyond the spine's, each in a file of its own.

A file has its primitives, the functions that apply them, and their rows: how they are
evaluated, which shapes they have, how they are linearized, transposed and batched.  How
they are lowered stands in `lowering/`, which comes with the first compile.
"""

from ..trace.api import calls as _calls
from .segments import (
    segment_max as segment_max, segment_min as segment_min,
    segment_prod as segment_prod, segment_sum as segment_sum,
)

_named = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
_calls.explain_calls("ops", globals(), _named)
