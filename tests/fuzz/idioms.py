"""Whole programs as people write them, with sizes, dtypes and spellings drawn.

A line of `IDIOMS` is a program: its arguments and their shapes, then statements, the
last of them the result.  In a shape `a b c d` are axes of any length, which share the
elements drawn for the program; `k` is 2 to 9, `m` 10 to 100, `n` 200 to 2000, `c` a
number of channels; a number is that number.
`i:a%b` are integers below b, `q:a?` is a mask.  Of `<x|y|z>` one is drawn, each anew;
`{a}` is a length.  The headings name the families, and of what dtypes they are.
"""

import re

import numpy as np

from tests.fuzz.programs import ARGUMENT, Program, too_much

ELEMENTS, WORK = 8_000_000, 6e8
KINDS = {
    "float": (("float32", "bfloat16", "float16"), (6, 1, 1)),
    "complex": (("complex64",), (1,)),
    "int": (("int32", "uint32", "uint8", "int8"), (4, 2, 1, 1)),
}
IDIOMS = """
# elementwise: float complex
x:a,b y:a,b v:b ; <jnp.tanh|jnp.sin|jnp.exp>(x * 0.3) * y + v
x:a,b y:a,b ; h = x * y + 0.5 ; h * (1 - h) / (2 + h * h)
x:a v:a ; for _ in range(<3|6>): x = x * 1.01 + 0.1 ; x - v
# activations: float
x:a,b ; <jax.nn.gelu|jax.nn.silu|jax.nn.softplus|jax.nn.elu|jax.nn.mish>(x) * 2
x:a,b y:a,b ; jnp.where(x > <0|0.5>, x, <0.01 * x|y|jnp.expm1(x)>)
x:a ; <jax.scipy.special.erf|lax.erf_inv|jax.scipy.special.gammaln>(x * 0.1 + 0.3)
x:a y:a ; <jnp.arctan2|jnp.hypot|jnp.logaddexp|jnp.maximum>(x, y)
# reductions: float complex
x:a,b ; (x * 0.5 + 1).<sum|mean>(<0|1|-1>)
x:a,b,m ; x - x.mean(<0|1|2|(0, 1)|(1, 2)>, keepdims=True)
x:a,b y:a,b ; (x * y).sum(<0|1>), (x + y).<sum|mean>(<0|1>)
x:a,k ; (x * x).sum(<-1|0>)
x:a,b v:b ; (<jnp.exp|jnp.tanh|jnp.log1p>(x * 0.3) * v).<sum|mean>(<0|1>)
x:a,b ; abs(x.mean(<0|1>)) + 1
# extremes: float int
x:a,b ; x.<max|min|argmax|argmin>(<0|1>)
x:a,<3|8|10> ; x.<max|argmax|min>(-1)
x:a,b,k ; x - x.max(<0|1|2>, keepdims=True)
# normalisations: float
x:a,b g:b ; (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5)
  * g
x:k,m,m,<3|8|32> g:1 ; h = x - x.mean((0, 1, 2)) ;
  h * lax.rsqrt((h * h).mean((0, 1, 2)) + 1e-5)
x:a,b g:b ; x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * (1 + g)
x:k,m,m,32 ; y = x.reshape({k}, {m}, {m}, 8, 4) ;
  (y - y.mean((1, 2, 4), keepdims=True)) / (y.std((1, 2, 4), keepdims=True) + 1e-5)
# softmax: float
x:a,<7|10|b> ; <jax.nn.softmax|jax.nn.log_softmax>(x, <-1|0>)
x:a,<5|b> ; jax.nn.logsumexp(x, axis=<0|1>)
x:n,n ; q = jnp.tril(jnp.ones(({n}, {n}), bool)) ;
  jax.nn.softmax(jnp.where(q, x, -jnp.inf), -1)
x:a,m i:a%m ; -jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1).mean()
# layouts: float int complex
x:a,b,k ; x.transpose(<(2, 0, 1)|(1, 0, 2)|(2, 1, 0)|(0, 2, 1)>) * 2
x:8,8,a,b ; jnp.moveaxis(x, <0|1>, -1).reshape({a}, -1)
x:a,b ; x.T.reshape(-1)[: {a} * {b} // 2 * 2].reshape(-1, 2).sum(-1)
x:a,b y:a,b ; jnp.concatenate([x.T, y.T], <0|1>)
x:a,b ; <jnp.repeat(x, 3, 1)|jnp.tile(x, (2, 3))|jnp.flip(x, 0)|jnp.rot90(x)> + 1
# shifts: float int
x:a,b ; x[:, 2:] + x[:, 1:-1] * 2 + x[:, :-2]
x:a,b ; <jnp.roll(x, 1, 0)|jnp.roll(x, -1, 1)> - x
x:a,b w:5 ; p = jnp.pad(x, ((0, 0), (4, 0))) ;
  sum(p[:, k : k + {b}] * w[k] for k in range(5))
x:a,b,k ; (jnp.diff(x, axis=0) ** 2).sum() + abs(jnp.diff(x, axis=1)).sum()
x:a,b ; jnp.pad(x, <2|((1, 0), (0, 3))>, mode=<"constant"|"edge"|"reflect"|"wrap">) * 2
x:a,b ; jnp.concatenate([x[:, ::2], x[:, 1::2]], 1)
# moving: float int
x:a,b i:1%a ; jnp.roll(x, <i[0]|-i[0]>, <0|1>) * 2
x:a,b,k i:1%a ; jnp.roll(x, i[0], <0|1|2|(0, 2)>) + x
x:a,<2|5|b> i:1%a ; y = jnp.concatenate([x, x * 2]) ;
  lax.dynamic_slice(y, (i[0], 0), x.shape) + 1
x:a,<2|5|b> y:1,1 i:1%a ; lax.dynamic_update_slice(x, y, (i[0], 1)).<sum|max>(<0|1>)
x:a,<3|b> i:1%a ; q = (jnp.arange({a}) < i[0])[:, None] ;
  jnp.where(q, x, <0|x * 2>).<sum|max>(<0|1>)
x:a,b i:1%a ; lax.fori_loop(0, 5, lambda k, x: jnp.roll(x, i[0] + k, 0) + 1, x)
# gathers: float int
x:a,b i:m%a ; jnp.take(x, i, axis=0) * 2
x:a,b i:a%b ; x[jnp.arange({a}), i]
x:a,b i:b%a ; x[i] - x.mean(1)[i][:, None]
x:m,a i:b%m ; x[i].sum(0)
x:a,b i:a,1%b ; jnp.take_along_axis(x, i, 1)
# scatters: float int
x:a,b i:a%m ; jnp.zeros(({m}, {b}), x.dtype).at[i].<add|max|set>(x)
x:a i:a%512 ; jnp.zeros(512, x.dtype).at[i].add(x * 2)
x:a,b i:a%b ; x.at[jnp.arange({a}), i].<set(0)|add(1)|multiply(2)>
x:a,b i:a%m ; jax.ops.segment_sum(x, i, {m})
# cumulative: float int
x:a,b ; jnp.<cumsum|cumprod>(x, <0|1>)
x:a,b ; lax.<cummax|cumlogsumexp>(x * 1.0, axis=<0|1>)
x:a ; c = jnp.cumsum(x) ; c[8:] - c[:-8]
x:a,b ; lax.associative_scan(<jnp.add|jnp.maximum>, x, axis=<0|1>)
# sorts: float int
x:a,m ; jnp.sort(x, <0|1>)
x:m,b ; lax.top_k(x, {k})[<0|1>]
x:m,b ; jnp.median(x * 1.0, axis=<0|1>)
x:a ; x[jnp.argsort(-x)]
x:m v:a ; jnp.searchsorted(jnp.sort(x), v)
# masks: float
x:a,b q:a,b? ; jnp.where(q, x, 0).sum(<0|1>) / jnp.maximum(q.sum(<0|1>,
  keepdims=True).mean(), 1)
x:a,b q:a? ; jnp.where(q[:, None], x, x.mean(0))
x:a,b ; jnp.sum(x, <0|1>, where=x > 0.5)
# products: float complex
x:a,b w:b,m v:m ; <jnp.tanh|jnp.sin>(x @ w + v)
x:a,b w:b,m ; (x - x.mean(1, keepdims=True)) @ w
x:a,b w:m,b ; x @ w.T
x:k,a,b y:k,b,m ; jnp.einsum("kab,kbm->kam", x, y) * 0.5
x:a,b v:b ; x @ v
x:a,b w:b,m u:m,m ; jax.nn.relu(jax.nn.relu(x @ w) @ u).sum(1)
# attention: float
q:k,m,4,16 t:k,m,4,16 v:k,m,4,16 ; s = jnp.einsum("bqhd,bkhd->bhqk", q, t) / 4 ;
  jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), v)
x:m,64 w:64,64 ; s = x @ w @ x.T ;
  jax.nn.softmax(jnp.where(jnp.tri({m}, dtype=bool), s, -1e4)) @ x
# convolutions: float
x:4,c,m,m w:16,c,3,3 ; lax.conv_general_dilated(x, w, (<1|2>, <1|2>), <"SAME"|"VALID">)
x:4,m,m,c w:5,5,c,8 ; lax.conv_general_dilated(x, w, (2, 2), "SAME",
  dimension_numbers=("NHWC", "HWIO", "NHWC"))
x:4,m,m,8 w:3,3,1,8 ; lax.conv_general_dilated(x, w, (1, 1), "SAME",
  dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8)
x:k,8,a w:8,8,3 ; jax.nn.relu(lax.conv_general_dilated(x, w, (1,), "SAME",
  rhs_dilation=(<1|2>,)))
x:4,m,m,c ; lax.reduce_window(x, <-jnp.inf, lax.max|0.0, lax.add>, (1, 2, 2, 1), (1, 2,
  2, 1), "VALID")
x:4,m,m,c ; lax.reduce_window(x, -jnp.inf, lax.max, (1, <3|5>, 3, 1), (1, <1|2>, <1|2>,
  1), "SAME")
# loops: float
x:a,b v:b ; lax.scan(lambda c, r: (jnp.tanh(c * 0.5 + r), c.sum()), v, x)[<0|1>]
x:b,m w:m,m ; lax.scan(lambda h, r: (jnp.tanh(h @ w + r),) * 2, jnp.zeros({m},
  x.dtype), x)[1]
x:a v:a ; lax.fori_loop(0, <5|50>, lambda i, t: t * 0.9 + v, x)
x:m,m ; lax.scan(lambda c, i: (c.at[i].multiply(0.5), c[i].sum()), x,
  jnp.arange({m}))[1]
# whiles: complex
x:a ; lax.fori_loop(0, 20, lambda i, z: z * z + x, x * 0)
x:a,b ; lax.fori_loop(0, 9, lambda i, z: z.at[i].multiply(z[i + 1]), x)
# vmapped: float
x:a,m ; jax.vmap(lambda r: jnp.where(r.sum() > 0, r, -r) / (1 + abs(r).max()))(x)
x:a,m y:b,m ; jax.vmap(lambda r: ((y[:64] - r) ** 2).sum(1).min())(x)
x:a,m ; jax.vmap(lambda r: lax.cond(jnp.argmax(r) > 3, jnp.sin, jnp.cos, r))(x)
x:a,k ; jax.vmap(lambda r: lax.while_loop(lambda s: abs(s).sum() > 1, lambda s: s *
  0.7, r))(x)
# linear algebra: float
x:a,k,k ; jnp.linalg.<inv|det>(x @ x.swapaxes(1, 2) + 4 * jnp.eye({k}))
x:m,m v:m ; jnp.linalg.solve(x @ x.T + {m} * jnp.eye({m}), v)
x:a,3 y:a,3 ; jnp.cross(x, y) / (1 + jnp.linalg.norm(x, axis=1, keepdims=True))
# bits: int
x:a ; x = x ^ (x >> 3) ; x = x * 77 ; x ^ (x << 5)
x:a,b ; lax.population_count(x & <15|x.T.reshape({a}, {b})>).sum(<0|1>)
# images: float
x:k,m,m,3 ; x[:, ::-1].mean(-1, keepdims=True) * 0.7 + x * 0.3
x:m,m,3 ; jax.image.resize(x, (2 * {m}, 2 * {m}, 3), <"linear"|"nearest">)
x:k,m,m ; gx = x[:, 1:-1, 2:] - x[:, 1:-1, :-2] ;
  gy = x[:, 2:, 1:-1] - x[:, :-2, 1:-1] ; jnp.sqrt(gx * gx + gy * gy + 1e-6)
# physics: float
x:a,b ; x + 0.1 * (jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) +
  jnp.roll(x, -1, 1) - 4 * x)
x:m,3 ; d = x[:, None] - x[None] ;
  (d / ((d * d).sum(-1, keepdims=True) + 0.1) ** 1.5).sum(1)
x:a,b ; jnp.fft.<ifft|fft>(jnp.fft.fft(x * 1.0) * 0.5).real
# mixtures: float
x:a,k y:m,k ; jax.nn.logsumexp(-0.5 * ((x[:, None] - y) ** 2).sum(-1), axis=1).sum()
x:a v:a ; (jax.scipy.stats.norm.logpdf(x, v, 1.5)).sum()
"""
LOSS = """
def loss(*args):
    results = f(*args)
    results = results if isinstance(results, tuple) else (results,)
    return sum(jnp.square(jnp.abs(r)).astype("float32").sum() for r in results)
"""


def table():
    """[(family, kinds of dtypes, arguments, statements)]."""
    found, family, kinds = [], "", ()
    for line in IDIOMS.replace("\n  ", " ").strip().splitlines():
        if line.startswith("# "):
            family, _, given = line[2:].partition(":")
            kinds = tuple(given.split())
        else:
            arguments, *body = line.split(" ; ")
            found.append((family, kinds, arguments, body))
    return found


def sizes(rng, axes, lanes):
    """{axis: length} of the largest argument's axes and others: `a` to `d` share."""
    total = 10 ** rng.triangular(4, 5, 6.6) / lanes
    found = {"k": int(rng.integers(2, 10)), "m": int(rng.integers(10, 101))}
    found["n"] = int(rng.integers(200, 2001))
    found["c"] = int(rng.choice([1, 3, 8, 16]))
    large = sorted({a for shape in axes for a in shape} & {"a", "b", "d"})
    for shape in axes:
        for a in shape:
            found.setdefault(a, int(a) if a.isdigit() else 0)
    fixed = max(
        np.prod([found[a] for a in shape if a not in large] or [1]) for shape in axes
    )
    share = max(total / fixed, 4) ** rng.dirichlet([4] * max(len(large), 1))
    for a, n in zip(large, share, strict=False):
        n = max(int(n), 3)
        found[a] = max(n // 8 * 8, 8) if rng.random() < 0.4 else n
    return found


def drawn(rng, text):
    """A text with one of each `<x|y>` in it, from the innermost."""
    choice = re.compile(r"<([^<>|]*(?:\|[^<>|]*)+)>")
    while found := choice.search(text):
        some = found[1].split("|")
        one = some[rng.integers(len(some))]
        text = text[: found.start()] + one + text[found.end() :]
    return text


def attempt(rng, name):
    """A program, which jax may refuse or which may be too large."""
    family, kinds, given, body = (t := table())[rng.integers(len(t))]
    kind = str(rng.choice(kinds))
    names, odds = KINDS[kind]
    dtype = str(rng.choice(names, p=np.array(odds) / sum(odds)))
    transformed = str(rng.choice(["forward", "grad", "vmap"], p=[0.45, 0.4, 0.15]))
    if transformed == "grad" and kind != "float":
        transformed = "forward"
    lanes = int(rng.choice([4, 32, 500])) if transformed == "vmap" else 1
    arguments = [a.partition(":")[::2] for a in drawn(rng, given).split()]
    axes = [re.split(r"[%?]", spec)[0].split(",") for _, spec in arguments]
    length = sizes(rng, axes, lanes)
    made, floats = [], []
    for n, (spec, shape) in enumerate(zip(arguments, axes, strict=True)):
        shape = (lanes,) * (lanes > 1) + tuple(length[a] for a in shape)
        below = length.get(spec[1].partition("%")[2], 0) or spec[1].partition("%")[2]
        as_it_is = f'argument({shape}, "{dtype}", {n})'
        if "?" in spec[1]:
            as_it_is = f'argument({shape}, "bool", {n})'
        elif below:
            as_it_is = f"np.random.RandomState({n}).randint(0, {below}, {shape})"
            as_it_is += '.astype("int32")'
        else:
            floats.append(n)
        made.append(as_it_is)
    *statements, result = [drawn(rng, s) for s in body]
    for a, n in length.items():
        statements = [s.replace("{" + a + "}", str(n)) for s in statements]
        result = result.replace("{" + a + "}", str(n))
    lines = "".join(f"    {s}\n" for s in statements) + f"    return {result}\n"
    text = f"# {name}: {family}\n{ARGUMENT}\n\n"
    text += f"def f({', '.join(a for a, _ in arguments)}):\n{lines}\n"
    text += {
        "forward": "run = f\n",
        "grad": f"{LOSS}\n\nrun = jax.value_and_grad(loss, {tuple(floats)})\n",
        "vmap": "run = jax.vmap(f)\n",
    }[transformed]
    text += f"arguments = [{', '.join(made)}]\n"
    jitted = rng.random() < 0.9
    text += "call = " + ("jax.jit(run)\n" if jitted else "run  # without jit\n")
    return Program(name, text, False, transformed, family, dtype)


def draw_idiom(rng, name):
    """A program that jax takes."""
    import jax

    from tests.fuzz.programs import namespace

    while True:
        program = attempt(rng, name)
        try:
            names = namespace(program.text, jax)
            closed = jax.make_jaxpr(names["run"])(*names["arguments"])
        except Exception:  # Not a program of jax's: another one is drawn.
            continue
        if not too_much(closed.jaxpr, ELEMENTS, WORK):
            return program
