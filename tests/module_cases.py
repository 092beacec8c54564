"""Calls of every public function of `nn`, `random`, `ops` and their like, as tables.

    from module_cases import tables
    tables["nn"]["relu"]            # the `Case`s of a function, as in `function_cases`
    no_cases["tree_util"]           # names that are no functions of arrays: and why

`test_every_function` asks each case for its value (jax's), its slopes, its lanes and a
compiled call; `bad_calls` spoils its arguments.
A new table is a line in `tables`; nothing else is to be written for its functions.
"""

import numpy as np
from function_cases import C, F, OfLax, Weak, Z, case, data, lax_cases

from minijit import lax

key = np.array([0, 12345], np.uint32)

# ---- nn

points = np.array(
    [-20, -6, -3, -1, -0.5, -0.0, 0, 0.3, 1, 2.5, 3, 6, 20, 90], np.float32
)
m = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
mask = np.abs(m) < 1
mask[:, 0] = True
q, kv = F(2, 5, 4, 3), F(2, 6, 2, 3, seed=1)
lengths = np.array([3, 5], np.int32)
bias, shown = F(1, 4, 5, 6), data((2, 1, 5, 6), bool)
activations = """
    identity relu relu6 squareplus softplus sparse_plus soft_sign sigmoid sparse_sigmoid
    silu swish mish log_sigmoid elu leaky_relu hard_tanh hard_sigmoid hard_silu
    hard_swish celu selu gelu tanh
""".split()
halves = [points.astype("float16"), data(5, "bfloat16")]
nn_cases = {
    **{f: [case(points), *map(case, halves), case(Weak(-1.5))] for f in activations},
    "log1mexp": [case(np.abs(points) + np.float32(0.1))],
    "glu": [case(m), case(m, axis=1)],
    "softmax": [case(m), case(m, axis=0), case(m, axis=(0, 1)), case(m, where=mask)],
    "log_softmax": [case(m), case(m, axis=0), case(m, where=mask)],
    "logsumexp": [*(case(m), case(m, axis=1), case(m, axis=-1, keepdims=True)),
                  *(case(m, axis=0, b=np.abs(m) + 1), case(m, axis=1, where=mask)),
                  case(m, 0, b=-np.abs(m), return_sign=True)],
    "logmeanexp": [case(m, axis=1), case(m, where=mask)],
    "standardize": [
        *(case(m), case(m, axis=0, epsilon=0.1), case(m, algorithm="stable")),
        *(case(m, where=mask), case(m, mean=0.5, variance=np.float32(2))),
    ],
    "one_hot": [case(np.array([0, 2, 5, -1]), 4), case(Z(2, 2), 3, axis=0)],
    "dot_product_attention": [
        *(case(q, kv, kv), case(q, kv, kv, is_causal=True, scale=0.3)),
        case(q, kv, kv, local_window_size=(1, 2), key_value_seq_lengths=lengths),
        *(case(q, kv, kv, local_window_size=1), case(q, kv, kv, is_causal=True)),
        case(q, kv, kv, query_seq_lengths=lengths, key_value_seq_lengths=lengths + 1),
        case(q, kv, kv, bias, is_causal=True, key_value_seq_lengths=lengths),
        *(case(q, kv, kv, bias), case(q, kv, kv, mask=shown, return_residual=True)),
        case(q, kv, kv, bias, shown, is_causal=True, key_value_seq_lengths=lengths),
    ],
}  # fmt: skip
nn_cases["elu"].append(case(points, 2.0))
whole = np.array([-100, -1, 2, 3])
for f in "relu elu gelu leaky_relu hard_tanh soft_sign softmax".split():
    nn_cases[f].append(case(whole))
nn_cases["one_hot"].append(case(np.array(1), 3, dtype=np.int32))
nn_cases["relu6"].append(case(2))
for f in ("softmax", "log_softmax"):
    nn_cases[f].append(case(m * 1000))
nn_cases["logsumexp"] += [
    *(case(np.float32([-np.inf, -np.inf])), case(np.float32([np.inf, 1]))),
    *(case(np.zeros((0, 2), np.float32), axis=0), case(m, b=-1.0)),
    case(m, 1, b=-1.0 * mask, return_sign=True),
    *(case(m + 1j * m), case(m + 1j * m, 1, return_sign=True)),
]
nn_cases["celu"].append(case(points, 2.0))
nn_cases["leaky_relu"].append(case(points, 0.3))
nn_cases["squareplus"].append(case(points, 1.0))
nn_cases["gelu"].append(case(points, approximate=False))


def initialized(*args, of=((4, 5),), **kwargs):
    """A case of an initializer: what it makes is called with a key and a shape."""
    return case(*args, then=(key, *of), **kwargs)


fans = "glorot_ he_ kaiming_ lecun_ xavier_".split()
kinds = "normal", "uniform"
narrow, cube = ((4, 5), "bfloat16"), ((3, 2, 5),)
as_complex = ((4, 5), "complex64")
initializer_cases = {
    **{f + kind: [initialized(), initialized(of=cube)] for f in fans for kind in kinds},
    **{f: [case(key, (2, 3)), case(key, *narrow)] for f in ("zeros", "ones")},
    **{f: [initialized(), initialized(2.0), initialized(of=narrow)] for f in kinds},
    "constant": [initialized(3.5), initialized(np.arange(5.0, dtype=np.float32))],
    "truncated_normal": [initialized(0.5, lower=-1.0, upper=3.0)],
    "variance_scaling": [initialized(1.5, "fan_geo_avg", "normal"),
                         initialized(2, "fan_out", "uniform", (0, 1), 2, (), of=cube)],
    "orthogonal": [initialized(2.0), initialized(column_axis=0)],
    "delta_orthogonal": [initialized(of=(shape,)) for shape in
                         [(3, 2, 4), (3, 5, 2, 4), (1, 3, 3, 2, 2)]],
}
initializer_cases["xavier_normal"].append(initialized(in_axis=0, out_axis=1))
for f in ("glorot_normal", "glorot_uniform", "normal"):
    initializer_cases[f].append(initialized(of=as_complex))
for f in ("he_uniform", "lecun_normal"):
    initializer_cases[f].append(initialized(of=narrow))

# ---- random

n = (30,)
grid = np.arange(15, dtype=np.float32).reshape(3, 5) % 4
rows = np.arange(60).reshape(3, 20)
p = np.array([0.1, 0.2, 0.3, 0.3, 0.1], np.float32)
no_counts = np.array([4, 4, 4, 4, -1, np.nan, np.inf, 0], np.float32)
no_shares = np.array([0, 1, -0.5, np.nan, 0.5, 0.5, 0.5, 0.5], np.float32)
a3 = np.array([0.5, 1, 2], np.float32)
spread = F(3, 3) @ F(3, 3).T + np.eye(3, dtype=np.float32)
one = np.float32
low, high = np.array([0, 10, 20]), np.array([[5, 15, 25], [1, 100, 7]])
logits = np.log(np.arange(1, 6, dtype=np.float32))
plain = "exponential laplace logistic cauchy gumbel maxwell normal rademacher".split()
random_cases = {
    **{f: [case(key, n)] for f in plain},
    "PRNGKey": [case(np.int32(7)), case(-3)],
    "key": [case(np.int32(7), jax="compared as data")],
    "clone": [case(key)],
    "key_data": [case(key)],
    "wrap_key_data": [case(key, jax="compared as data")],
    "split": [case(key), case(key, 5), case(key, (2, 3))],
    "fold_in": [case(key, i) for i in (7, 2**32 - 1, np.int8(-3), np.uint32(7))],
    "bits": [*(case(key), case(key, n), case(key, (3,), "uint8"), case(key, (0, 3))),
             case(key, (3, 4), "uint16")],
    "randint": [*(case(key, n, 0, 10), case(key, n, -(2**31), 2**31 - 1)),
                *(case(key, n, 0, 256, "uint8"), case(key, n, -300, 300, "int8")),
                *(case(key, n, 5, 5, "uint16"), case(key, n, 3, 2**31 - 1, "uint32")),
                case(key, (2, 3), low, high)],
    "permutation": [
        *(case(key, 100), case(key, 3000), case(key, rows), case(key, rows, axis=1)),
        case(key, rows, 1, independent=True),
    ],
    "choice": [
        *(case(key, 50, n), case(key, 5, n, p=p), case(key, 5, (0,))),
        *(case(key, F(50), (5, 4), False), case(key, 5, (3,), p=p, replace=False)),
        *(case(key, rows, (2, 2), axis=1), case(key, rows, (2,), False, axis=1)),
    ],
    "bernoulli": [case(key, p), case(key, 0.3, n), case(key, 0.3, n, mode="high")],
    "categorical": [
        *(case(key, logits, shape=n), case(key, grid, axis=0), case(key, grid)),
        *(case(key, grid, shape=(4, 3), replace=replace) for replace in (True, False)),
    ],
    "poisson": [case(key, np.array([0, 0.1, 3.5, 9.9, 10, 50, 1e4], np.float32))],
    "binomial": [case(key, np.array([2, 20, 200, 2000, 3]), p),
                 case(key, no_counts, no_shares),
                 case(key, 30, 0.25, (20,), "float16")],
    "geometric": [case(key, p), case(key, 0.3, n)],
    "uniform": [
        *(case(key, tolerance=0), case(key, n, minval=-1.0, maxval=3.0, tolerance=0)),
        *(case(key, n, "float16"), case(key, n, "bfloat16")),
        *(case(key, n, minval=0.1, maxval=0.7), case(key, (np.int64(2), 3))),
        case(key, (5,), minval=-p, maxval=3 * p),
    ],
    "truncated_normal": [
        *(case(key, -2.0, 2.0, n), case(key, -1, 0.5, n), case(key, -p, 1 + p)),
    ],
    "double_sided_maxwell": [case(key, one(1), one(2), n)],
    "weibull_min": [case(key, one(2), one(1.5), n)],
    "pareto": [case(key, 1 + p), case(key, 2.0, n)],
    "rayleigh": [case(key, 1 + p)],
    "wald": [case(key, 1 + p)],
    "triangular": [case(key, -p, 0 * p, 1 + p), case(key, 0.0, 1.0, 3.0, n)],
    "gamma": [case(key, np.array([0.1, 0.5, 1, 20], np.float32))],
    "loggamma": [case(key, a3)],
    "beta": [case(key, a3, one(2))],
    "dirichlet": [case(key, a3, (4,))],
    "chisquare": [case(key, a3 + 2)],
    "f": [case(key, a3 + 2, a3 + 3)],
    "t": [case(key, a3 + 2)],
    "ball": [case(key, 3, 1.5, (4,))],
    "generalized_normal": [case(key, 1.5, (3,))],
    "lognormal": [case(key, one(0.5), n), case(key, shape=n)],
    "multinomial": [case(key, 50, p, shape=(7, 5)),
                    case(key, np.float32([3, 7]), np.stack([p, p]))],
    "multivariate_normal": [
        *(
            case(key, a3, spread, method=m, jax="signs")
            for m in ("eigh", "svd")
        ),
        *(case(key, a3, spread, method="cholesky"), case(key, a3, spread, (20,))),
        case(key, np.zeros((4, 1, 3), one), np.stack([spread, np.eye(3, dtype=one)])),
    ],
    "orthogonal": [case(key, 4), case(key, 3, (2,), m=5)],
}
random_cases["normal"] += [
    case(key, n, d) for d in ("float16", "bfloat16", "complex64")
]
random_cases["gumbel"] += [case(key, n, mode=mode) for mode in ("high", "highest")]
random_cases["rademacher"].append(case(key, n, "float32"))

# ---- lax.linalg

square, tall, wide = F(2, 4, 4), F(5, 3), F(3, 5)
spd = (square @ square.swapaxes(1, 2) + 3 * np.eye(4)).astype(np.float32)
low = np.linalg.cholesky(spd).astype(np.float32)
linalg_cases = {
    "cholesky": [case(spd)],
    "cholesky_update": [case(low[0].T.copy(), F(4))],
    "eig": [case(square, compute_left_eigenvectors=False, jax="any order")],
    "eigh": [case(spd, jax="any signs")],
    "hessenberg": [case(square)],
    "householder_product": [case(tall, F(3))],
    "lu": [case(square), case(tall)],
    "lu_pivots_to_permutation": [case(np.array([2, 1, 2], np.int32), 4)],
    "ormqr": [case(tall, F(3), F(5, 2, seed=1)), case(tall, F(3), wide, left=False)],
    "qdwh": [case(square[0]), case(tall)],
    "qr": [case(tall, full_matrices=False), case(tall, full_matrices=False)],
    "schur": [case(spd[0], jax="any signs")],
    "svd": [case(wide, full_matrices=False, jax="any signs"),
            case(wide, compute_uv=False)],
    "symmetric_product": [
        case(F(3, 4), spd[0, :3, :3], symmetrize_output=True),
        case(F(2, 3, 4), spd[:, :3, :3], alpha=2.0, beta=0.5, symmetrize_output=True),
    ],
    "triangular_solve": [
        case(low, F(2, 4, 3), left_side=True, lower=True),
        case(low, F(2, 3, 4), lower=True, transpose_a=True, unit_diagonal=True),
    ],
    "tridiagonal": [case(spd), case(spd[0], lower=False)],
    "tridiagonal_solve": [case(F(2, 5), F(2, 5) + 6, F(2, 5), F(2, 5, 3))],
}

# ---- images

photo, down = F(8, 6, 3), ((9, 6, 3), (0,), np.float32([1]))
methods = "nearest linear cubic lanczos3 lanczos5 cubic-pytorch".split()
image_cases = {
    "resize": [*(case(photo, (3, 11, 3), f, f != "lanczos3", tolerance=1e-4)
                 for f in methods[:-1]), case(Z(2, 3), (4, 3), "nearest")],
    "scale_and_translate": [
        *(case(photo, *down, np.float32([shift]), "linear", False)
          for shift in (0.5, 0.75)),
        *(case(photo, (4, 8, 3), (0, 1), np.float32([0.7, 1.5]),
               np.float32([0.3, -0.6]), f, False, tolerance=1e-4)
          for f in ("linear", "cubic-pytorch")),
    ],
}

# ---- numpy.fft

of_real, of_complex = F(4, 3, 5), C(4, 3, 5)
one_axis = [{}, {"n": 4}, {"n": 7, "norm": "ortho"}, {"axis": 0, "norm": "forward"}]
two_axes = [{}, {"axes": (0, 1), "norm": "ortho"}, {"s": (3, 6), "axes": (-2, -1)}]
fft_cases = {
    name: [case(of_real if name in ("rfft", "ihfft", "rfft2", "rfftn") else of_complex,
                tolerance=1e-4, **options) for options in ways]
    for names, ways in [
        ("fft ifft rfft irfft hfft ihfft", one_axis),
        ("fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn", two_axes),
    ]
    for name in names.split()
} | {
    **{f: [case(n) for n in (1, 7)] + [case(8, 0.5)] for f in ("fftfreq", "rfftfreq")},
    **{f: [case(of_real, axes) for axes in (None, 0, (0, 2))]
       for f in ("fftshift", "ifftshift")},
}  # fmt: skip

# ---- lax: functions that take functions, and those of an axis with a name

x, xs = np.float32([0.5, -1.5, 2]), np.arange(12, dtype=np.float32).reshape(4, 3) / 10
counts, four = np.array([3, 0, 2, 5], np.int32), np.array(4, np.int32)
twice, bent = lambda x: 2 * x, lambda x: x * x + 1
grow = lambda c, x: (c * 0.5 + x, {"sum": c + x, "first": x[0]})
kept = lambda f: lambda c, x: (f(c, x), c)
add_row = kept(lambda c, x: c + x.sum())
yes, no, second = np.array(True), np.array(False), np.array(1, np.int32)
three = [lambda x: x + 1, lambda x: x * 2.0, lambda x: -x]
by_steps = lambda i, total: total + i * x
recurrence = lambda f, g: (f[0] * g[0], g[0] * f[1] + g[1])


def collatz(lax):
    """Two numbers carried: how many steps, and where it is."""

    def step(state):
        i, n = state
        return i + 1, lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)

    return step


def nested(lax):
    def body(c, x):
        grown = lax.while_loop(lambda c: c.sum() < 4.0, lambda c: c * 2 + 1, c)
        c = lax.cond(x[0] > 0.5, lambda: grown * x, lambda: c + x)
        return c, lax.fori_loop(0, 3, lambda i, y: y + i * x, c)

    return body


in_twos = lambda state: state[1] > 1
small = lambda i, c: c + i.astype(np.float32)
turn = [(0, 1), (1, 2), (2, 0)]
of_axis = "all_gather pmax pmean pmin psum"
contracted, for_each_row = (OfLax("RaggedDotDimensionNumbers", numbers) for numbers in [
    ((((1,), (1,)), ((0,), (0,))), (1,), ()),
    ((((3,), (3,)), ((1,), (2,))), (2,), (0,)),
])
program_cases = {
    "associative_scan": [
        *(case(OfLax("add"), xs), case(OfLax("mul"), xs, reverse=True)),
        case(OfLax("max"), xs, axis=1, reverse=True),
        *(case(OfLax("add"), xs, axis=-1), case(OfLax("add"), counts)),
        *(case(recurrence, (xs, xs + 1)), case(OfLax("add"), xs[:1])),
    ],
    "composite": [case(twice, "my.scale", 1, then=(F(3),))],
    "cond": [
        *(case(yes, *three[:2], x), case(no, *three[:2], x)),
        case(no, lambda x, y: x + y, lambda x, y: x * y, x, x + 1),
        *(case(yes, lambda: x + 1, lambda: x * 2), case(no, twice, bent, F(0))),
        *(case(yes, x, twice, x * 3, bent), case(no, *three[:2], operand=x)),
        *(case(four, *three[:2], x), case(np.float32(0) * F(), *three[:2], x)),
        case(yes, lambda y: 1.0, lambda y: y, F()),
        case(yes, lambda: 1.0, lambda: 2.0),
    ],
    "custom_linear_solve": [
        case(lambda x: 2 * x, F(3), lambda f, b: b / 2, symmetric=True),
    ],
    "custom_root": [
        case(lambda x: x * 2 - 1, F(), lambda f, x: x * 0 + 0.5, lambda g, y: y / 2),
    ],
    "fft": [
        *(case(F(2, 4), "RFFT", (2, 4)), case(C(2, 3), "IRFFT", (4,))),
        *(case(C(2, 4), kind, (4,)) for kind in ("FFT", "IFFT")),
    ],
    "fori_loop": [
        *(case(0, 4, by_steps, x), case(0, four, by_steps, x)),
        *(case(0, Weak(4), by_steps, x), case(3, 1, by_steps, x)),
        *(case(-2, 2, by_steps, x), case(-1, second, lambda i, x: x - i, F(2))),
        case(0, 5, lambda i, c: c * x, x, unroll=2),
        case(np.int8(0), four.astype(np.int8), small, x),
    ],
    "map": [
        *(case(lambda x: x * x.sum(), xs, batch_size=n) for n in (None, 2, 3, 10)),
        case(lambda a: {"n": a[1] + 1, "y": a[0] * a[1]}, (xs, counts)),
        *(case(twice, counts), case(twice, F(1, 0))),
    ],
    "optimization_barrier": [case((F(3), [Z(2), F()]))],
    "platform_dependent": [
        *(case(F(3), default=bent), case(F(3), default=twice, cpu=bent)),
    ],
    "ragged_dot_general": [
        case(F(2, 5, 3), F(2, 5, 4), np.array([[1, 3], [2, 2]]), contracted),
        case(F(3, 2, 5, 4), F(2, 6, 2, 4), Z(2, 3, 2, low=0), for_each_row),
    ],
    "scan": [
        *(case(grow, x, xs), case(grow, x, xs, reverse=True)),
        *(case(grow, x, xs, unroll=n) for n in (3, True, False)),
        *(case(grow, x, xs, _split_transpose=True), case(grow, x, xs, length=4)),
        case(lambda c, _: (c * 2, c), x, None, length=3),
        *(case(grow, x, xs[:0]), case(grow, x, xs[:1], unroll=4)),
        case(lambda _, x: (None, x * 2), None, xs),
        case(lambda c, r: (c + r[0].sum() * r[1], r[1] + 1), x, (xs, counts)),
        *(case(add_row, 0, xs), case(kept(lambda c, x: c + 1), 0, xs)),
        case(kept(lambda c, x: c * 2), 1.0, xs),
        case(add_row, 0.0, xs.astype("f2")),
        case(kept(lambda c, x: x[0] > 0.5), False, xs),
        case(kept(lambda c, x: c + x[0]), four, xs.astype("i4")),
        case(OfLax(nested), x, xs),
    ],
    "stop_gradient": [case(F(3)), case((Z(2), {"a": C(2)}))],
    "switch": [
        *(case(np.array(i, np.int32), three, x) for i in (1, 17, -4)),
        *(case(np.array(2, np.uint8), three, x), case(5, [twice], x)),
    ],
    "while_loop": [
        case(lambda x: x[0] < 9, bent, x),
        *(case(in_twos, OfLax(collatz), (0, n)) for n in (four + 3, Weak(7), second)),
        case(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x[0]), (0, 1)),
        case(lambda c: c[0] < 0, lambda c: (c[0] - 1, c[1] * 2), (second, F(2))),
    ],
    **{f: [case(F(3, 2), "i", over="i"), case(Z(1), "i", over="i")]
       for f in of_axis.split()},
    "all_to_all": [
        *(case(F(3, 2, 3), "i", 1, 0, over="i"), case(F(1, 1), "i", 0, 0, over="i")),
        case(F(3, 6), "i", 0, 0, tiled=True, over="i"),
    ],
    "ppermute": [
        case(F(3, 2), "i", turn, over="i"), case(F(1), "i", [(0, 0)], over="i"),
        case((F(3), {"n": Z(3)}), "i", turn, over="i"),
    ],
    "pshuffle": [case(F(3, 2), "i", [2, 0, 1], over="i")],
    "psum_scatter": [
        case(F(3, 3, 2), "i", over="i"), case(F(3, 6), "i", tiled=True, over="i"),
        case(F(2, 3, 2), "i", scatter_dimension=1, over="i"),
    ],
    "pswapaxes": [case(F(3, 2, 3), "i", 1, over="i")],
}  # fmt: skip
program_cases["all_gather"].append(case(F(3, 2), "i", axis=1, tiled=False, over="i"))
program_cases["psum"].append(case((F(3), {"a": Z(3, 2)}), "i", over="i"))

# ---- trees and segments

tree = {"a": [F(2), (F(3), None)], "b": F(1)}
add = lambda x, y: x + y
pair, two = {"a": F(2), "b": F(3)}, OfLax(lambda lax: structure(lax, {"a": 0, "b": 0}))


def structure(lax, example):
    """The library's own treedef of an example."""
    from importlib import import_module

    library = lax.__name__.split(".")[0]
    return import_module(f"{library}.tree_util").tree_structure(example)


lists = OfLax(lambda lax: structure(lax, [0, 0]))
tree_cases = {
    "all": [case([True, None, (1,)])],
    "broadcast": [case([F(2), F(3)], [(3, 4), 5])],
    "flatten": [case(tree)],
    "flatten_with_path": [case(tree)],
    "leaves": [case(tree)],
    "leaves_with_path": [case(tree)],
    "map": [case(add, tree, tree)],
    "map_with_path": [case(lambda path, *xs: xs[0] * len(path), tree, tree)],
    "reduce": [case(add, [F(2), (F(2, seed=1),)], F(2, seed=2)), case(add, [F(2)])],
    "reduce_associative": [case(add, [F(2), F(2, seed=1), F(2, seed=2)])],
    "structure": [case(tree)],
    "transpose": [case(lists, two, [pair, pair])],
    "unflatten": [case(two, [F(2), F(3)])],
}
tree_util_cases = {
    **{f"tree_{name}": cases for name, cases in tree_cases.items()},
    "all_leaves": [case([F(2), "a"]), case([1, None])],
    "build_tree": [case(two, {"a": F(2), "b": F(3)}, jax="jax has none now")],
    "flatten_one_level": [case([(F(2), 2), F(3)])],
    "flatten_one_level_with_keys": [case([(F(2), 2), F(3)]), case({"a": F(2)})],
    "is_tree_node": [case(list), case(int)],
    "keystr": [case((OfLax(lambda lax: "a"), 0))],
    "treedef_children": [case(two)],
    "treedef_is_leaf": [case(two)],
    "treedef_tuple": [case([two, lists])],
}
segments = np.array([0, 0, 2, 1, 2, 7], np.int32)
ops_cases = {
    f"segment_{f}": [*(case(F(6, 2), segments, 4), case(Z(6), segments, 4)),
                     case(1.5, segments, 4),
                     case(F(6), np.sort(segments), 8, True, bucket_size=3),
                     case(data(6, "int8"), segments, 4, bucket_size=4),
                     case(F(6, 2), segments - 1, 4, mode="clip")]
    for f in ("sum", "prod", "max", "min")
}
tables = {
    # A stage of the book has the functions of its chapters.
    "lax": {f: cases for f, cases in program_cases.items() if hasattr(lax, f)},
    "nn": nn_cases,
    "nn.initializers": initializer_cases,
    "random": random_cases,
    "lax.linalg": linalg_cases,
    "numpy.fft": fft_cases,
    "image": image_cases,
    "tree": tree_cases,
    "tree_util": tree_util_cases,
    "flatten_util": {"ravel_pytree": [case(tree), case([F(2), Z(3)])]},
    "ops": ops_cases,
}
# Names that are no functions of arrays; in brackets where they are tested.
registering = "registers a class [test_pytree, test_tree_tools]"
no_cases = {
    "lax": {
        **{name: "a row in [function_cases]" for name in lax_cases},
        "axis_index": "a lane's number [test_batching]",
        "axis_size": "a number [test_batching]",
        "dtype": "of types [test_dtypes]",
        "pcast": "of a mesh [test_libraries_meet]",
        "rng_bit_generator": "with states of two lengths [test_random]",
        "rng_uniform": "other numbers each time [test_random]",
        "with_sharding_constraint": "of devices [test_placement]",
    },
    "random": {
        "key_impl": "of types [test_random]",
        "key_dtype": "of types [test_random]",
    },
    "tree": {"static": "a field's mark [test_tree_tools]"},
    "tree_util": {
        f"register_{kind}": registering
        for kind in """pytree_node pytree_node_class dataclass static pytree_with_keys
        pytree_with_keys_class""".split()
    },
}
