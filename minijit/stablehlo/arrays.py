"""Each primitive of arrays as operations of StableHLO: one table, `rules`.

    rules[name] = lambda w, out, *operands, **params: ...

A row writes operations with the `Writer` w and returns the result, a `Value`.  `out` is
the type it should have; a primitive with several results gets, and gives, a list.
What StableHLO cannot say stands in `unsupported`, with the reason.
"""

import math
from functools import partial

import numpy as np

from .. import lax, numpy as jnp
from ..ops import checks, cumulative, prng, special
from ..trace.array import ShapedArray, shape_rules
from ..trace.numpy_values import by_squaring
from ..trace.primitives import monoids
from ..transform.pieces import jaxpr_of
from .text import Type, brackets, pairs

BOOL, I32, I64 = map(np.dtype, ["bool", "int32", "int64"])

# {primitive: its row}, and {primitive: why it has none}.
rules, unsupported = {}, {}

# The library's own primitives come first; a user's may have one of these names too.
named = {p.name: p for p in reversed(list(shape_rules))}


def rows(**functions):
    """Rows by the names of the primitives."""
    return {named[name.rstrip("_")]: function for name, function in functions.items()}


def operations(text):
    """Rows for `primitive=operation` pairs: elementwise, of one dtype."""
    for pair in text.split():
        name, op = pair.split("=")
        rules[named[name]] = lambda w, out, *xs, op=op: w.same(op, *xs)


operations("""
    add=add and=and atan2=atan2 cbrt=cbrt ceil=ceil clamp=clamp
    clz=count_leading_zeros cos=cosine div=divide exp=exponential floor=floor
    expm1=exponential_minus_one log=log log1p=log_plus_one logistic=logistic max=maximum
    min=minimum mul=multiply neg=negate not=not or=or population_count=popcnt
    rem=remainder rsqrt=rsqrt shift_right_arithmetic=shift_right_arithmetic
    shift_left=shift_left shift_right_logical=shift_right_logical sin=sine sqrt=sqrt
    sub=subtract tan=tan tanh=tanh xor=xor
""")


def of_chlo(text):
    """Rows for operations that StableHLO's companion CHLO spells out for the others."""
    for pair in text.split():
        name, op = pair.split("=")
        rules[named[name]] = lambda w, out, *xs, op=f"chlo.{op}": w.op(
            op, [w.spread(x, out.shape) for x in xs], out
        )


of_chlo("""
    acos=acos acosh=acosh asin=asin asinh=asinh atan=atan atanh=atanh cosh=cosh
    digamma=digamma bessel_i1e=bessel_i1e erf=erf erf_inv=erf_inv erfc=erfc
    lgamma=lgamma nextafter=next_after polygamma=polygamma sinh=sinh zeta=zeta
""")

for name in "EQ NE LT LE GT GE".split():
    rules[named[name.lower()]] = lambda w, out, x, y, direction=name: w.compare(
        direction, x, y
    )


def same_op(op):
    """The row of a primitive that is one operation, of types that may differ."""
    return lambda w, out, *xs, **_: w.op(op, xs, out)


def identity(w, out, x, **_):
    return x


def written_out(function):
    """The row of a primitive that is a function of other primitives."""

    def row(w, out, *operands, **params):
        avals = [ShapedArray(x.shape, x.dtype) for x in operands]
        several = isinstance(out, list)
        run = partial(function, **params)
        flat = lambda *args: list(run(*args)) if several else [run(*args)]
        closed = jaxpr_of(flat, avals, "row")
        results = w.inline(closed, operands)
        return results if several else results[0]

    return row


def power(x, *, y):
    """x**y for a Python int, by squaring."""
    if y < 0:
        return lax.div(lax.full_like(x, 1), power(x, y=-y))
    return lax.full_like(x, 1) if y == 0 else by_squaring(x, y, lax.mul)


def conjugate(x, *, input_dtype):
    if x.dtype.kind != "c":
        return lax.complex(x, lax.full_like(x, 0))
    real, imag = lax.real(x), lax.imag(x)
    return lax.complex(real, lax.neg(imag))


def round_row(w, out, x, *, rounding_method):
    to_even = rounding_method == lax.RoundingMethod.TO_NEAREST_EVEN
    return w.same(f"round_nearest_{'even' if to_even else 'afz'}", x)


def sign_row(w, out, x):
    if out.dtype.kind == "u":
        return w.convert(w.convert(x, BOOL), out.dtype)
    return w.same("sign", x)


def abs_row(w, out, x):
    return x if out.dtype.kind == "u" else w.op("abs", [x], out)


def borrowed(running, first, x):
    """Lanes that do not run have the values of the first lane that does."""
    axis = running.ndim - 1
    lanes = jnp.where(running, jnp.arange(running.shape[axis]), first[..., None])
    lanes = lanes.reshape(lanes.shape + (1,) * (x.ndim - axis - 1))
    return jnp.take_along_axis(x, lanes, axis)


rules |= rows(
    abs=abs_row,
    borrow=written_out(borrowed),
    complex=lambda w, out, x, y: w.op(
        "complex", [w.spread(x, out.shape), w.spread(y, out.shape)], out
    ),
    conj=written_out(conjugate),
    convert_element_type=lambda w, out, x, **_: w.convert(x, out.dtype),
    copy=identity,
    exp2=written_out(lambda x: lax.exp(lax.mul(x, lax.full_like(x, math.log(2))))),
    imag=same_op("imag"),
    integer_pow=written_out(power),
    is_finite=same_op("is_finite"),
    name=identity,
    optimization_barrier=same_op("optimization_barrier"),
    pow=lambda w, out, x, y: w.same("power", x, w.convert(y, x.dtype)),
    real=same_op("real"),
    reduce_precision=lambda w, out, x, *, exponent_bits, mantissa_bits: w.op(
        "reduce_precision",
        [x],
        out,
        exponent_bits=f"{exponent_bits} : i32",
        mantissa_bits=f"{mantissa_bits} : i32",
    ),
    round=round_row,
    sign=sign_row,
    square=lambda w, out, x: w.same("multiply", x, x),
    stop_gradient=identity,
    trigamma=written_out(lambda x: special.polygamma(lax.full_like(x, 1), x)),
)


# ---- moving elements


def reshape_row(w, out, x, *, new_sizes, dimensions):
    x = x if dimensions is None else w.transpose(x, dimensions)
    return w.reshape(x, new_sizes)


def slice_row(w, out, x, *, start_indices, limit_indices, strides):
    steps = [f":{n}" if n != 1 else "" for n in strides or (1,) * len(x.shape)]
    ranges = zip(start_indices, limit_indices, steps, strict=True)
    text = ", ".join(f"{start}:{limit}{step}" for start, limit, step in ranges)
    return w.short("slice", [x], out, f" [{text}]")


def pad_row(w, out, x, value, *, padding_config):
    low, high, inner = zip(*padding_config, strict=True) if padding_config else [()] * 3
    given = dict(edge_padding_low=low, edge_padding_high=high, interior_padding=inner)
    return w.op("pad", [x, value], out, **given)


def select_row(w, out, which, *cases):
    """Bools choose between two cases; with integers each case but the last is tried."""
    if which.dtype == BOOL:
        return w.select(which, *reversed(cases)) if len(cases) == 2 else cases[0]
    chosen = cases[-1]
    for i, case in reversed([*enumerate(cases[:-1])]):
        is_it = w.compare("LE", which, w.full(Type((), which.dtype), i))
        chosen = w.select(is_it, case, chosen)
    return chosen


def wide_index(w, x):
    """Indices of 32 or 64 bits with a sign, as windows and limits fit into."""
    return w.convert(x, I64 if x.dtype.itemsize == 8 or x.dtype == "uint32" else I32)


def places(w, starts):
    """Start indices, which have to be of one type."""
    starts = [wide_index(w, i) for i in starts]
    wide = I64 if any(i.dtype == I64 for i in starts) else I32
    return [w.convert(i, wide) for i in starts]


rules |= rows(
    broadcast_in_dim=lambda w, out, x, *, shape, broadcast_dimensions: w.broadcast(
        x, shape, broadcast_dimensions
    ),
    concatenate=lambda w, out, *xs, dimension: w.short(
        "concatenate", xs, out, f", dim = {dimension}"
    ),
    dynamic_slice=lambda w, out, x, *starts, slice_sizes: w.short(
        "dynamic_slice", [x, *places(w, starts)], out, f", sizes = {[*slice_sizes]}"
    ),
    dynamic_update_slice=lambda w, out, x, update, *starts: w.short(
        "dynamic_update_slice", [x, update, *places(w, starts)], out
    ),
    iota=lambda w, out, *, dtype, shape, dimension: w.op(
        "iota", [], out, iota_dimension=dimension
    ),
    pad=pad_row,
    reshape=reshape_row,
    rev=lambda w, out, x, **given: w.op("reverse", [x], out, **given),
    select_n=select_row,
    slice=slice_row,
    squeeze=lambda w, out, x, *, dimensions: w.reshape(x, out.shape),
    transpose=lambda w, out, x, *, permutation: w.transpose(x, permutation),
    bitcast_convert_type=same_op("bitcast_convert"),
)


# ---- reductions, running totals, windows

# What a monoid's function is called here.
combiners = {
    "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum",
    "and": "and", "or": "or", "xor": "xor",
}


by_loop = {m.loop: m for m in monoids.values()}


def folding(op, monoid):
    """A row of an operation that folds by a `Monoid`, from its identity on."""

    def row(w, out, x, **given):
        start = w.constant(monoid.identity(x.dtype))
        body = w.combiner(combiners[monoid.loop], x.dtype)
        return w.op(op, [x, start], out, regions=[body], **given)

    return row


def reduction(monoid):
    """The row of a reduction over `axes` by a `Monoid`."""

    fold = folding("reduce", monoid)
    return lambda w, out, x, *, axes: fold(w, out, x, dimensions=axes)


def windows(monoid):
    """The row of a reduction over windows by a `Monoid`."""

    fold = folding("reduce_window", monoid)

    def row(w, out, x, *, padding, base_dilation, window_dilation, **given):
        given |= dict(base_dilations=base_dilation, window_dilations=window_dilation)
        return fold(w, out, x, padding=pairs(padding), **given)

    return row


def index_of(direction):
    """The row of `argmax` or `argmin`: the first NaN, or the first of the extrema."""

    def better(w, x, i, y, j):
        ahead = w.same("or", w.compare(direction, x, y), w.compare("NE", x, x))
        tied = w.same("and", w.compare("EQ", x, y), w.compare("LT", i, j))
        # Of two NaNs the first one counts.
        both = w.same("and", w.compare("NE", x, x), w.compare("NE", y, y))
        later = w.same("and", both, w.compare("GT", i, j))
        first = w.same("or", w.same("and", ahead, w.same("not", later)), tied)
        return [w.select(first, x, y), w.select(first, i, j)]

    def row(w, out, x, *, axes, index_dtype):
        axis, = axes
        numbers = w.op("iota", [], Type(x.shape, out.dtype), iota_dimension=axis)
        lowest = by_loop["max" if direction == "GT" else "min"].identity
        starts = w.constant(lowest(x.dtype)), w.constant(0, out.dtype)
        # A pair of the accumulator, and a pair of the array.
        scalars = [Type((), x.dtype), Type((), out.dtype)]
        body = w.region(scalars * 2, partial(better, w))
        types = Type(out.shape, x.dtype), out
        given = x, numbers, *starts
        return w.op("reduce", given, *types, regions=[body], dimensions=axes)[1]

    return row


def running(monoid):
    """The row of a running total: a tree of combinations."""
    return written_out(partial(lax.associative_scan, monoid.combine))


for name, loop in dict(sum="add", prod="mul", **{k: k for k in combiners}).items():
    if f"reduce_{name}" in named:
        rules[named[f"reduce_{name}"]] = reduction(by_loop[loop])
    if f"reduce_window_{name}" in named:
        rules[named[f"reduce_window_{name}"]] = windows(by_loop[loop])
rules |= {p: running(monoid) for p, monoid in cumulative.totals.items()}
rules |= rows(argmax=index_of("GT"), argmin=index_of("LT"))


# ---- products


def dot_row(w, out, x, y, *, dimension_numbers, precision, preferred_element_type):
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    if x.dtype != y.dtype:
        x, y = w.convert(x, out.dtype), w.convert(y, out.dtype)
    rest = f", contracting_dims = {brackets(x_sum)} x {brackets(y_sum)}"
    if x_batch:
        rest = f", batching_dims = {brackets(x_batch)} x {brackets(y_batch)}" + rest
    if precision is not None:
        rest += f", precision = [{', '.join(p.name for p in precision)}]"
    return w.short("dot_general", [x, y], out, rest)


def layout(spec, first, second):
    """Axes as StableHLO lists them: `b, f, 0, 1`, or `o, i, 0, 1`."""
    names = {spec[0]: first, spec[1]: second}
    names |= {axis: str(i) for i, axis in enumerate(spec[2:])}
    return ", ".join(names[axis] for axis in range(len(spec)))


def convolution_row(
    w, out, x, kernel, *, dimension_numbers, precision, preferred_element_type, padding,
    **given,
):
    lhs, rhs, result = dimension_numbers
    numbers = (
        f"#stablehlo.conv<[{layout(lhs, 'b', 'f')}]x[{layout(rhs, 'o', 'i')}]"
        f"->[{layout(result, 'b', 'f')}]>"
    )
    given |= dict(dimension_numbers=numbers, padding=pairs(padding))
    if precision is not None:
        listed = ", ".join(f"#stablehlo<precision {p.name}>" for p in precision)
        given["precision_config"] = f"[{listed}]"
    return w.op("convolution", [x, kernel], out, **given)


rules |= rows(dot_general=dot_row, conv_general_dilated=convolution_row)


# ---- gather and scatter


def limits_of(w, indices, limits):
    """The limits, one an entry of an index vector, in the shape of the indices."""
    limits = w.constant(limits, indices.dtype)
    return w.broadcast(limits, indices.shape, [len(indices.shape) - 1])


def in_bounds(w, indices, limits):
    """Whether each index vector is between 0 and the limits: a bool a vector."""
    limits = limits_of(w, indices, limits)
    above = w.compare("GE", indices, w.full(indices.type, 0))
    inside = w.same("and", above, w.compare("LE", indices, limits))
    out = Type(indices.shape[:-1], BOOL)
    return reduction(by_loop["and"])(w, out, inside, axes=[len(indices.shape) - 1])


def gather_row(
    w, out, x, indices, *, dimension_numbers, slice_sizes, mode, fill_value,
    unique_indices, indices_are_sorted,
):
    offset, collapsed, index_map, batching, batched = dimension_numbers
    indices = wide_index(w, indices)
    numbers = (
        f"#stablehlo.gather<offset_dims = {brackets(offset)}, "
        f"collapsed_slice_dims = {brackets(collapsed)}, "
        f"operand_batching_dims = {brackets(batching)}, "
        f"start_indices_batching_dims = {brackets(batched)}, "
        f"start_index_map = {brackets(index_map)}, "
        f"index_vector_dim = {len(indices.shape) - 1}>"
    )
    given = dict(dimension_numbers=numbers, slice_sizes=slice_sizes)
    given |= dict(indices_are_sorted=indices_are_sorted)
    found = w.op("gather", [x, indices], out, **given)
    if mode is not lax.GatherScatterMode.FILL_OR_DROP:
        return found
    limits = [x.shape[d] - slice_sizes[d] for d in index_map]
    inside = in_bounds(w, indices, limits)
    batch = [i for i in range(len(out.shape)) if i not in offset]
    return w.select(
        w.broadcast(inside, out.shape, batch), found, w.full(out, fill_value)
    )


def window_sizes(shape, updates, dimension_numbers):
    """The size of a scatter's window along each axis of the operand."""
    window, inserted, _, batching, _ = dimension_numbers
    sizes = iter([updates.shape[d] for d in window])
    single = *inserted, *batching
    return [1 if d in single else next(sizes) for d in range(len(shape))]


def scatter(combine):
    """The row of a scatter; `combine` is an operation, or None: the update stays."""

    def row(
        w, out, x, indices, updates, *, dimension_numbers, mode, unique_indices,
        indices_are_sorted,
    ):
        window, inserted, index_map, batching, batched = dimension_numbers
        indices = wide_index(w, indices)
        if mode is lax.GatherScatterMode.CLIP:
            sizes = window_sizes(x.shape, updates, dimension_numbers)
            limits = limits_of(w, indices, [x.shape[d] - sizes[d] for d in index_map])
            indices = w.same("clamp", w.full(indices.type, 0), indices, limits)
        numbers = (
            f"#stablehlo.scatter<update_window_dims = {brackets(window)}, "
            f"inserted_window_dims = {brackets(inserted)}, "
            f"input_batching_dims = {brackets(batching)}, "
            f"scatter_indices_batching_dims = {brackets(batched)}, "
            f"scatter_dims_to_operand_dims = {brackets(index_map)}, "
            f"index_vector_dim = {len(indices.shape) - 1}>"
        )
        if combine:
            body = w.combiner(combine, x.dtype)
        else:
            body = w.region([Type((), x.dtype)] * 2, lambda before, update: [update])
        given = dict(scatter_dimension_numbers=numbers, unique_indices=unique_indices)
        given |= dict(indices_are_sorted=indices_are_sorted, regions=[body])
        return w.op("scatter", [x, indices, updates], out, **given)

    return row


rules |= rows(gather=gather_row, scatter=scatter(None))
for name, op in (("sub", "subtract"), *combiners.items()):
    if f"scatter-{name}" in named:
        rules[named[f"scatter-{name}"]] = scatter(op)


# ---- sorting


def sort_key(w, x):
    """Numbers whose total order is the order that sorting has.

    -0.0 is 0.0, and there is one NaN, the largest.  A complex number has two numbers.
    """
    if x.dtype.kind == "c":
        part = Type((), np.dtype(f"float{4 * x.dtype.itemsize}"))
        return [k for op in ("real", "imag") for k in sort_key(w, w.op(op, [x], part))]
    if x.dtype.kind in "biu":
        return [x]
    zero, nan = w.constant(0, x.dtype), w.constant(math.nan, x.dtype)
    x = w.select(w.compare("EQ", x, zero), zero, x)
    return [w.select(w.compare("NE", x, x), nan, x)]


def sort_row(w, outs, *operands, dimension, is_stable, num_keys):
    def before(*scalars):
        found = None
        pairs = [
            both
            for x, y in [*zip(scalars[::2], scalars[1::2], strict=True)][:num_keys]
            for both in zip(sort_key(w, x), sort_key(w, y), strict=True)
        ]
        for x, y in reversed(pairs):
            order = "TOTALORDER" if x.dtype.kind not in "biu" else None
            less = w.compare("LT", x, y, order)
            if found is not None:
                tied = w.compare("EQ", x, y, order)
                less = w.same("or", less, w.same("and", tied, found))
            found = less
        return [found]

    types = [Type((), x.dtype) for x in operands for _ in range(2)]
    body = w.region(types, before)
    given = dict(regions=[body], dimension=dimension, is_stable=is_stable)
    found = w.op("sort", operands, *outs, **given)
    return found if len(outs) > 1 else [found]


def top_k_row(w, outs, x, *, k, axis):
    """CHLO's operation looks along the last axis."""
    last = len(x.shape) - 1
    swap = [*range(last + 1)]
    swap[axis], swap[last] = last, axis

    swapped = lambda x: x if axis == last else w.transpose(x, swap)
    x = swapped(x)
    types = [Type((*x.shape[:-1], k), out.dtype) for out in outs]
    return [*map(swapped, w.op("chlo.top_k", [x], *types, k=k))]


rules |= rows(sort=sort_row, top_k=top_k_row)


# ---- random bits, Fourier transforms, triangular matrices


def threefry_row(w, out, *words):
    """A call of the hash, written once for each shape."""
    shape, (key, count) = out.shape[:-1], (words[:2], words[2:])
    words = [w.spread(x, shape) for x in (*key, *count)]
    types = [x.type for x in words]
    name, _ = w.once("threefry2x32", "threefry2x32", types, partial(hashed, w))
    return w.call(name, words, [out])[0]


def hashed(w, *words):
    """The hash, on values of the program: the same rounds as everywhere."""
    shape = words[0].shape
    constant = lambda n: w.full(words[0].type, np.uint32(n))

    def rotate(x, distance):
        left = w.same("shift_left", x, constant(distance))
        right = w.same("shift_right_logical", x, constant(32 - distance))
        return w.same("or", left, right)

    how = partial(w.same, "add"), partial(w.same, "xor"), rotate, constant
    both = prng.threefry2x32(words[:2], words[2:], *how)
    both = [w.reshape(x, (*shape, 1)) for x in both]
    out = Type((*shape, 2), np.dtype("uint32"))
    return [w.short("concatenate", both, out, f", dim = {len(shape)}")]


def fft_row(w, out, x, *, fft_type, fft_lengths):
    kind = f"#stablehlo<fft_type {fft_type.name}>"
    return w.op("fft", [x], out, fft_type=kind, fft_length=fft_lengths)


def cholesky_row(w, out, x):
    """What stands above the diagonal of StableHLO's result is not said."""
    factor = w.op("cholesky", [x], out, lower=True)
    return written_out(jnp.tril)(w, out, factor)


def solve_row(
    w, out, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal
):
    if conjugate_a and not transpose_a:
        a = written_out(conjugate)(w, a.type, a, input_dtype=a.dtype)
    name = "ADJOINT" if conjugate_a else "TRANSPOSE"
    transpose = f"#stablehlo<transpose {name if transpose_a else 'NO_TRANSPOSE'}>"
    given = dict(left_side=left_side, lower=lower, unit_diagonal=unit_diagonal)
    return w.op("triangular_solve", [a, b], out, **given, transpose_a=transpose)


rules |= rows(threefry2x32=threefry_row, cholesky=cholesky_row, fft=fft_row)
rules |= rows(triangular_solve=solve_row)

# ---- what StableHLO cannot say


def without(names, reason):
    unsupported.update((named[name], reason) for name in names.split())


without(
    """eig eigh geqrf hessenberg householder_product lu lu_pivots_to_permutation qr
    schur svd tridiagonal tridiagonal_solve""",
    "of decompositions and solvers StableHLO has Cholesky's and the triangular one",
)
without(
    """bessel_i0e igamma igamma_grad_a igammac random_gamma_grad
    regularized_incomplete_beta""",
    "StableHLO has no such special function",
)
without(
    "all_gather axis_index pmax pmin psum",
    "it names an axis of a vmap that is not around it",
)
without("debug_callback io_callback pure_callback", "it calls back into Python")
without("largest", "compiling makes it of top_k: no program that is traced has it")
unsupported[checks.check_p] = "experimental.checkify takes it out of a program"
without("custom_vjp_linear", "only its transpose is known: it has a rule of its own")
without("treeverse", "it finds out as it runs which steps to run again")
