"""Families of primitives beyond the spine's, each in a file of its own.

A file has its primitives, the functions that apply them, and their rows: how they are
evaluated, which shapes they have, how they are linearized, transposed and batched.  How
they are lowered stands in `lowering/`, which comes with the first compile.
"""

from ..trace.api import calls
from . import (
    bits as bits, complex_numbers as complex_numbers, convolution as convolution,
    cumulative as cumulative, elementary as elementary, prng as prng,
    rounding as rounding, scatter as scatter, sorting as sorting, special as special,
    windows as windows,
)
from .segments import (
    segment_max as segment_max, segment_min as segment_min,
    segment_prod as segment_prod, segment_sum as segment_sum,
)

calls.explain_calls(
    "ops", globals(), ["segment_max", "segment_min", "segment_prod", "segment_sum"]
)
