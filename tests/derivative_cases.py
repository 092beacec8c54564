"""One call or more of every primitive, to be differentiated, transposed and batched.

    for case in cases:
        case.call(ours)                     # the function at its arguments
        case.call(jax.lax)                  # the same, where jax is there to ask
        case.function(ours)                 # a function of the arguments that vary

All arguments are NumPy arrays in double precision, away from kinks and ties.  A stage
of the book has the cases of the primitives that it has: `ours` is `minijit.lax`.
"""

import zlib
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from minijit import lax as ours


@dataclass(frozen=True)
class Case:
    """A call: `fun(lax, *args)`.

    Attributes:
      name: the primitive's, and what is special about the call.
      fun: a function of a namespace like `jax.lax` and arrays.
      args: NumPy arrays; those of floats or complex numbers vary.
      reverse: whether reverse mode has a derivative too.
      order: up to which order it may be differentiated.
    """

    name: str
    fun: object
    args: tuple
    reverse: bool = True
    order: int = 2
    options: dict = field(default_factory=dict)

    def __repr__(self):
        return self.name

    def call(self, lax):
        return self.fun(lax, *self.args)

    def varying(self):
        """The arguments that have tangents."""
        return [x for x in self.args if np.asarray(x).dtype.kind in "fc"]

    def function(self, lax):
        """A function of the arguments that vary."""

        def of_varying(*values):
            values = iter(values)
            full = [
                next(values) if np.asarray(x).dtype.kind in "fc" else x
                for x in self.args
            ]
            return self.fun(lax, *full)

        return of_varying


def data(*shape, low=-2.0, high=2.0, seed=0):
    """Uniform numbers, the same ones each time, no two of them close to each other."""
    random = np.random.RandomState(zlib.crc32(f"{shape}{seed}".encode()) % 2**32)
    size = int(np.prod(shape))
    steps = (random.permutation(size) + 0.3 + 0.4 * random.rand(size)) / max(size, 1)
    return np.asarray(low + (high - low) * steps).reshape(shape)


def of_complex(*shape, seed=0):
    return data(*shape, seed=seed) + 1j * data(*shape, seed=seed + 1)


def ints(*values):
    return np.array(values, np.int32)


cases = []


def case(name, fun, *args, **options):
    """One more case, if its function is there by now."""
    known = {"convert": "convert_element_type", "copy": "neg"}
    first = known.get(name.split()[0], name.split()[0])
    first = "conj" if name == "abs complex" else first
    if hasattr(ours, "reduce_window" if "window" in first else first):
        cases.append(Case(name, fun, args, **options))


domains = {
    "sin cos tan tanh exp exp2 expm1 sinh cosh asinh atan": (-1.5, 1.5),
    "logistic square erf erfc neg abs cbrt bessel_i0e bessel_i1e copy": (-2, 2),
    "log sqrt rsqrt log1p lgamma digamma": (0.3, 3),
    "asin acos atanh erf_inv": (-0.8, 0.8),
    "acosh": (1.2, 3),
}
for names, (low, high) in domains.items():
    for name in names.split():
        call = lambda lax, x, name=name: getattr(
            lax, name if name != "copy" else "neg"
        )(x)
        case(name, call, data(5, low=low, high=high))
for name in "sin cos exp log sqrt tanh sinh cosh square logistic neg expm1".split():
    call = lambda lax, x, name=name: getattr(lax, name)(x)
    case(f"{name} complex", call, of_complex(4), order=1)
for name in "floor ceil round sign".split():
    call = lambda lax, x, name=name: getattr(lax, name)(x)
    case(name, call, data(5))
for name in "add sub mul div max min atan2 rem".split():
    call = lambda lax, x, y, name=name: getattr(lax, name)(x, y)
    case(name, call, data(3, 4, low=0.5), data(3, 4, low=0.5, high=3, seed=1))
    case(f"{name} stretched", call, data(3, 1, low=0.5), data(1, 4, low=0.6, seed=1))
    case(f"{name} scalar", call, data(3, low=0.5), data(low=0.7, high=0.8, seed=1))
for name in "add sub mul div".split():
    call = lambda lax, x, y, name=name: getattr(lax, name)(x, y)
    case(f"{name} complex", call, of_complex(3), of_complex(3, seed=5))
case("pow", lambda lax, x, y: lax.pow(x, y), data(4, low=0.5), data(4, seed=1))
case("pow int", lambda lax, x, y: lax.pow(x, y), data(4), ints(0, 1, 2, 5))
for y in (-2, 0, 1, 2, 3):
    case(f"integer_pow {y}", lambda lax, x, y=y: lax.integer_pow(x, y), data(4))
case("igamma", lambda lax, x: lax.igamma(np.full(4, 1.5), x), data(4, low=0.5))
case("igammac", lambda lax, x: lax.igammac(np.full(4, 1.5), x), data(4, low=0.5))
for name, x in (("igamma", 2.5), ("igammac", 0.5)):
    call = lambda lax, a, name=name, x=x: getattr(lax, name)(a, np.full(4, x))
    case(f"{name} by a", call, data(4, low=0.5), order=1)
call = lambda lax, x: lax.igamma_grad_a(np.full(4, 1.5), x)
case("igamma_grad_a", call, data(4, low=0.5))
case("zeta by s", lambda lax, s: lax.zeta(s, np.full(4, 1.5)), data(4, low=1.5))
case("zeta", lambda lax, x: lax.zeta(np.full(4, 2.5), x), data(4, low=0.5))
case("polygamma", lambda lax, x: lax.polygamma(np.full(4, 1.0), x), data(4, low=0.5))


def slope_of_digamma(lax, x):
    """A primitive of ours, for which JAX's `lax` has no name."""
    if lax is not ours:
        return lax.polygamma(np.ones(4), x)
    from minijit.ops import special  # The stages that have no families do without.

    return special.trigamma(x)


case("digamma slope", slope_of_digamma, data(4, low=0.5))
case(
    "betainc",
    lambda lax, x: lax.betainc(np.full(4, 1.5), np.full(4, 2.5), x),
    data(4, low=0.1, high=0.9),
)
case("clamp", lambda lax, a, x, b: lax.clamp(a, x, b),
     data(9, low=-1.1, high=-0.9), data(9, seed=2), data(9, low=0.9, high=1.1))
case("clamp scalars", lambda lax, a, x, b: lax.clamp(a, x, b),
     data(low=-1.1, high=-0.9), data(9, seed=2), data(low=0.9, high=1.1))
case("complex", lambda lax, x, y: lax.complex(x, y), data(3), data(3, seed=1))
case("real", lambda lax, x: lax.real(x), of_complex(3))
case("imag", lambda lax, x: lax.imag(x), of_complex(3))
case("conj", lambda lax, x: lax.conj(x), of_complex(3))
case("conj real", lambda lax, x: lax.conj(x), data(3))
case("abs complex", lambda lax, x: lax.abs(x), of_complex(3), order=1)
case("reduce_precision", lambda lax, x: lax.reduce_precision(x, 11, 52), data(3))
case("convert", lambda lax, x: lax.convert_element_type(x, "complex128"), data(3))
case("select_n", lambda lax, w, x, y: lax.select_n(w, x, y),
     np.array([True, False, True]), data(3), data(3, seed=1))
case("select_n 3", lambda lax, w, x, y, z: lax.select_n(w, x, y, z),
     ints(2, 0, 1, 2), data(4), data(4, seed=1), data(4, seed=2))

case("broadcast_in_dim", lambda lax, x: lax.broadcast_in_dim(x, (2, 3, 4), (2, 1)),
     data(4, 1))
case("reshape", lambda lax, x: lax.reshape(x, (2, 6)), data(3, 4))
case("transpose", lambda lax, x: lax.transpose(x, (2, 0, 1)), data(2, 3, 4))
case("squeeze", lambda lax, x: lax.squeeze(x, (0, 2)), data(1, 3, 1))
case("slice", lambda lax, x: lax.slice(x, (1, 0), (3, 4)), data(4, 4))
case("slice strided", lambda lax, x: lax.slice(x, (1, 0), (5, 4), (2, 3)), data(6, 4))
case("concatenate", lambda lax, x, y: lax.concatenate([x, y], 1),
     data(2, 3), data(2, 1, seed=1))
case("rev", lambda lax, x: lax.rev(x, (0, 2)), data(2, 3, 2))
case("pad", lambda lax, x, v: lax.pad(x, v, [(1, 2, 0), (0, 1, 2)]), data(3, 2), data())
case("pad negative", lambda lax, x, v: lax.pad(x, v, [(-1, 2, 1), (3, -2, 0)]),
     data(4, 3), data())
for name in "sum prod max min".split():
    call = lambda lax, x, name=name: getattr(lax, f"reduce_{name}")(x, (0, 2))
    case(f"reduce_{name}", call, data(3, 2, 4))
case("reduce_prod zeros", lambda lax, x: lax.reduce_prod(x, (0,)),
     data(4, 3) * np.array([[1, 0, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0]]))
for numbers, shapes in {
    (((1,), (0,)), ((), ())): ((3, 4), (4, 2)),
    (((2,), (1,)), ((0,), (0,))): ((2, 3, 4), (2, 4, 5)),
    (((1, 0), (0, 2)), ((3,), (1,))): ((3, 4, 2, 5), (4, 5, 3, 2)),
    (((), ()), ((), ())): ((2,), (3,)),
    (((0,), (0,)), ((), ())): ((4,), (4,)),
}.items():
    case(f"dot_general {shapes}",
         lambda lax, x, y, numbers=numbers: lax.dot_general(x, y, numbers),
         data(*shapes[0]), data(*shapes[1], seed=1))

case("dynamic_slice", lambda lax, x, i: lax.dynamic_slice(x, (i, np.int32(1)), (2, 2)),
     data(4, 4), np.int32(1))
case("dynamic_slice clamped",
     lambda lax, x, i: lax.dynamic_slice(x, (i, np.int32(1)), (2, 2)),
     data(4, 4), np.int32(3))
case("dynamic_update_slice",
     lambda lax, x, u, i: lax.dynamic_update_slice(x, u, (i, np.int32(1))),
     data(4, 4), data(2, 2, seed=1), np.int32(3))

rows = ints(3, 0, 3, 1, 7).reshape(5, 1)
corners = ints(1, 2, 0, 0, 1, 1, 3, 3).reshape(4, 2)
batched = ints(0, 2, 2, 1, 0, 5).reshape(3, 2, 1)
# How rows, windows and elements of batches are found: the numbers of a gather, and of a
# scatter; a slice's sizes; indices; shapes of what is gathered from, scattered to, put.
numbers = ((1,), (0,), (0,)), ((1, 2), (), (0, 1)), ((), (1,), (1,), (0,), (0,))
ways = {
    "rows": (numbers[0], (1, 4), rows, (4, 4), (5, 2), (5, 2)),
    "windows": (numbers[1], (2, 2), corners, (4, 4), (4, 4), (4, 2, 2)),
    "batched": (numbers[2], (1, 1), batched, (3, 4), (3, 4), (3, 2)),
}


def gathered(way, mode, lax, x, i):
    numbers, sizes, *_ = ways[way]
    return lax.gather(x, i, lax.GatherDimensionNumbers(*numbers), sizes, mode=mode)


def scattered(kind, way, unique, mode, lax, x, i, u):
    numbers = lax.ScatterDimensionNumbers(*ways[way][0])
    options = dict(unique_indices=unique, mode=mode)
    return getattr(lax, kind)(x, i, u, numbers, **options)


for mode in ("clip", "fill"):
    for way, (_, _, indices, shape, *_) in ways.items():
        read = partial(gathered, way, mode)
        case(f"gather {way} {mode}", read, data(*shape), indices)
unique_rows = ints(3, 0, 9).reshape(3, 1)
kinds = "scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max".split()
for kind in kinds:
    case(f"{kind} unique drop", partial(scattered, kind, "rows", True, "drop"),
         data(5, 2), unique_rows, data(3, 2, seed=1))
    for mode in ("clip", "drop") if kind != "scatter_mul" else ():
        for way, (_, _, indices, _, shape, put) in ways.items():
            write = partial(scattered, kind, way, False, mode)
            case(f"{kind} {way} {mode}", write, data(*shape), indices,
                 data(*put, seed=1))  # fmt: skip

case("sort", lambda lax, x: lax.sort(x, dimension=0), data(4, 3))
case("sort payload", lambda lax, x, y: lax.sort((x, y), num_keys=1),
     data(2, 4), data(2, 4, seed=1))
case("sort keys", lambda lax, k, x, y: lax.sort((k, x, y), num_keys=2),
     ints(1, 0, 1, 0, 2), data(5), data(5, seed=1))
case("top_k", lambda lax, x: lax.top_k(x, 2)[0], data(3, 5))
for n in (1, 2, 5, 8):
    for name in "cumsum cumprod cummax cummin cumlogsumexp".split():
        for reverse in (False, True):
            call = lambda lax, x, name=name, reverse=reverse: getattr(lax, name)(
                x, axis=1, reverse=reverse
            )
            case(f"{name} {n}{' reverse' * reverse}", call, data(2, n))

windows_of = {
    "plain": ((5, 6), dict(window_dimensions=(2, 3))),
    "strided": ((7, 6), dict(window_dimensions=(3, 2), window_strides=(2, 3))),
    "same": ((5, 6), dict(window_dimensions=(3, 3), padding="SAME")),
    "dilated": (
        (5, 4),
        dict(window_dimensions=(2, 3), window_strides=(2, 1), base_dilation=(2, 1),
             window_dilation=(2, 1), padding=((1, 1), (2, 0))),
    ),
}
identities = {"add": 0.0, "max": -np.inf, "min": np.inf}
for kind, init in identities.items():
    for name, (shape, options) in windows_of.items():
        options = {"window_strides": (1, 1), "padding": "VALID"} | options

        def windowed(lax, x, kind=kind, init=init, options=options):
            return lax.reduce_window(x, init, getattr(lax, kind), **options)

        case(f"reduce_window_{kind} {name}", windowed, data(*shape))

convolutions = {
    "1d": ((2, 3, 7), (4, 3, 2), dict(window_strides=(1,), padding="VALID")),
    "2d": ((2, 2, 5, 4), (3, 2, 3, 2), dict(window_strides=(1, 1), padding="SAME")),
    "strided": ((1, 2, 7, 6), (2, 2, 3, 2),
                dict(window_strides=(2, 3), padding=((1, 0), (2, 1)))),
    "dilated": ((1, 2, 5, 4), (2, 2, 2, 2),
                dict(window_strides=(2, 1), padding=((1, 2), (0, 1)),
                     lhs_dilation=(1, 2), rhs_dilation=(2, 1))),
    "negative padding": ((1, 2, 6), (2, 2, 2),
                         dict(window_strides=(1,), padding=((-1, 0),))),
    "feature groups": ((2, 4, 5), (6, 2, 2),
                       dict(window_strides=(1,), padding="SAME",
                            feature_group_count=2)),
    "batch groups": ((4, 3, 5), (6, 3, 2),
                     dict(window_strides=(2,), padding="VALID",
                          batch_group_count=2)),
    "NHWC": ((2, 5, 4, 2), (3, 2, 2, 3),
             dict(window_strides=(1, 1), padding="SAME",
                  dimension_numbers=("NHWC", "HWIO", "NHWC"))),
}
for name, (left, right, options) in convolutions.items():
    case(f"conv {name}",
         lambda lax, x, y, options=options: lax.conv_general_dilated(x, y, **options),
         data(*left), data(*right, seed=1))
