"""Products of matrices in loops: calls, with no Python in between.

    for i0 in 8:                        # a batch of products: one after the other
      t2[...] = matmul(t0[...], t1[...])
"""

from ..loops.buffers import View
from ..loops.expressions import Axis, as_index, op
from ..loops.statements import Call, nested
from ..lower.matrix_products import is_matrix
from .obstacles import call_obstacles
from .regions import call_builders

# What the integers of gemm hold, which numba calls: sizes, and steps from row to row,
# of 32 bits.
LARGEST = 2**31 - 1


def largest_step(view):
    """The largest number that gemm is to be told of a matrix."""
    return max(*view.shape[-2:], *view.strides[-2:])


def blas_layout(view):
    """Whether gemm takes a matrix as it is."""
    lines = zip(view.shape[-2:], view.strides[-2:], strict=True)
    return largest_step(view) <= LARGEST and is_matrix(*lines)


def product_obstacle(call):
    """What gemm cannot take as it is."""
    views = [*call.inputs, *call.outputs]
    if views[0].buffer.dtype.kind == "c":
        return "a function that its body calls multiplies complex matrices"
    if all(map(blas_layout, views)):
        return None
    if any(largest_step(view) > LARGEST for view in views):
        return f"a matrix in its body has more than {LARGEST} elements on an axis"
    return "a matrix in its body has no adjacent elements"


def build_matmul(builder, call, places):
    """A product of matrices, or of each pair in a batch of them."""
    axes = tuple(map(Axis, call.outputs[0].shape[:-2]))

    def matrix(view):
        where, offset = places[view.buffer][0], as_index(view.offset)
        for axis, stride in zip(axes, view.strides, strict=False):
            offset = op("add", offset, op("mul", axis, as_index(stride)))
        shape, strides = view.shape[-2:], view.strides[-2:]
        return View(where.buffer, shape, strides, where.start(offset))

    sides = (tuple(map(matrix, views)) for views in (call.inputs, call.outputs))
    builder.add(*nested(axes, [Call("matmul", *sides, {}, call.eqns)]))
    for view in call.outputs:
        first, *others = places[view.buffer]
        builder.copy(first, others)


call_obstacles |= {"matmul": product_obstacle}
call_builders |= {"matmul": build_matmul}
