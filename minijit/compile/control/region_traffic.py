"""What calls, and loops and branches with whole nests inside, read and write.

A call uses views of arrays.  Of a `while` nobody knows how many steps it takes: what it
touches in one step is at most what it touches in all of them, for the same elements
count once.
"""

import math
from dataclasses import dataclass

from ...transform.control_flow.unions_and_tapes import Tape, Union
from ..fuse.traffic import Touch, Walk, not_memory, walkers
from ..loops.buffers import Buffer
from ..loops.element_sets import reached
from ..loops.expressions import Axis, as_index, op
from ..loops.statements import Call, Fail, Look, Reserve, Swap, While

# ---- tapes


@dataclass(frozen=True, eq=False)
class Growing(Buffer):
    """A Tape or Union between the loops: how long it gets is known when they have run.

    Attributes:
      aval: its type.
    """

    aval: object = None
    nbytes = 0

    @property
    def step_bytes(self):
        """The bytes that one step of a loop adds, the innermost one if tapes nest."""
        return item_bytes(self.aval)

    def __str__(self):
        return f"{self.name}: {self.aval}"


def item_bytes(aval):
    """The bytes of an item of a Tape, or of a Union at most."""
    if isinstance(aval, Tape):
        return item_bytes(aval.element)
    if isinstance(aval, Union):
        return max((sum(map(item_bytes, case)) for case in aval.cases), default=0)
    return aval.size * aval.dtype.itemsize


# ---- statements


def view(walk, view, writes):
    """Note a view of an array, which is used as a whole."""
    if view.buffer.space in not_memory or 0 in view.shape:
        return
    place = as_index(view.offset)
    for extent, stride in zip(view.shape, view.strides, strict=True):
        place = op("add", place, op("mul", Axis(extent), as_index(stride)))
    walk.add(view.buffer, (math.prod(view.buffer.shape),), (place,), writes)


def call(walk, stmt, done):
    """A routine, or a function of the region."""
    if stmt.routine == "function":
        function(walk, **stmt.attrs)
        return
    for views, writes in ((stmt.inputs, False), (stmt.outputs, True)):
        for one in views:
            view(walk, one, writes)
    if stmt.routine == "matmul":
        walk.count(flops_of(stmt))
    else:
        walk.flops = None


def flops_of(call):
    """2 m n k of a product of matrices."""
    *batch, rows, inner = call.inputs[0].shape
    return 2 * math.prod(batch) * rows * inner * call.inputs[1].shape[-1]


def function(walk, function, given):
    """A function uses what it is given, as far as its own statements say."""
    inside = Walk(walk.constants, certain=False)
    inside.block(function.body, set())
    walk.flops = None
    views, certain = dict(zip(function.params, given, strict=True)), walk.certain
    for touch in inside.touches:
        outside = views.get(touch.buffer)
        if outside is None:
            walk.touches.append(touch)
        elif not isinstance(outside, Buffer):
            walk.certain = False
            view(walk, outside, touch.writes)
            walk.certain = certain


def repeat(walk, stmt, done):
    """Nobody knows how often a `while` repeats its body, nor whether at all."""
    outside, inner = (walk.times, walk.certain), set(done)
    walk.times = None
    for before in stmt.test:
        walk.uses(before, inner)
        walkers[type(before)](walk, before, inner)
    walk.certain = False
    walk.block(stmt.body, inner)
    walk.times, walk.certain = outside


def swap(walk, stmt, done):
    """Two arrays that exchange their contents: whatever is written is in either."""
    for buffer in (stmt.first, stmt.second):
        if buffer.space not in not_memory:
            axes = tuple(map(Axis, buffer.shape))
            some = reached(buffer.shape, axes, certain=False)
            walk.touches.append(Touch(buffer, some, True))


def no_memory(walk, stmt, done):
    """Only what it uses counts, and that was noted."""


walkers |= {
    Call: call,
    While: repeat,
    Swap: swap,
    Look: no_memory,
    Fail: no_memory,
    Reserve: no_memory,
}
