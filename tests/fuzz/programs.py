"""Random programs, as text that runs on jax and on minijit alike.

    print(draw("real", seed=0, index=7).text)       # paste it, and change the import

A program is a function of a few arrays, line by line, and how it is transformed.  Lines
are drawn from expressions; jax's `eval_shape` says which of them are valid, and what
shape and dtype each result has.  In the mode `idioms` it is a whole program of a table.
Nothing here knows what is done with a program.
"""

from dataclasses import dataclass

import numpy as np

FLOATS = ("float32", "bfloat16", "float16", "float64")
COMPLEX = ("complex64", "complex128")
INEXACT = (*FLOATS, *COMPLEX)
INTS = ("int32", "uint32", "int8", "uint8", "int64", "uint64")
ANY = (*INEXACT, *INTS, "bool")
REAL = (*FLOATS, *INTS)
MODES = ("real", "odd", "idioms")
# Elements of the largest array, and multiplications of one product.
LIMITS = {"real": (6_000_000, 4e8), "odd": (3000, 1e5)}


@dataclass(frozen=True)
class Program:
    """A program's text: it defines `run` and `arguments`.

    Attributes:
      x64: whether it is meant for `enable_x64`.
      transformed: "forward", "grad" or "vmap".
      family, dtype: of a program of `idioms`.
    """

    name: str
    text: str
    x64: bool
    transformed: str
    family: str = ""
    dtype: str = ""


def namespace(text, library, x64=False):
    """What a program's text defines, on jax or minijit."""
    names = {"jax": library, "jnp": library.numpy, "lax": library.lax, "np": np}
    exec(text, names)
    return names


# Expressions of arrays {a} and {b}.  {b} is any array of the same dtype, often of
# the same shape.  {k}, {m}: small numbers; {axis}: an axis of a; {n}: a's length along
# it; {i}: integers below n, in another number; {c}: a constant; {z}, {j}: 0 or 1.
ELEMENTWISE = """
jnp.sin({a}) | jnp.tanh({a}) | {a} * {b} | {a} + {b} | {a} - {b} | {a} * {c} + {b}
jnp.exp(-jnp.abs({a})) | {a} / (1 + jnp.abs({b})) | jax.nn.sigmoid({a}) | {a} ** 2
jnp.where(jnp.abs({a}) > {c}, {a}, {b}) | jnp.log1p(jnp.abs({a})) | 1 - {a} | -{a}
jnp.sqrt(jnp.abs({a}) + 1) | jax.checkpoint(lambda t: jnp.cos(t) * t)({a}) | {a} * {k}
"""
REALS = """
jnp.maximum({a}, {b}) | jnp.clip({a}, -{c}, {c}) | jax.nn.relu({a})
jnp.minimum({a}, {c}) | jnp.where({a} > {b}, {a}, {b} * 2) | {a} * ({a} > 0)
jnp.sign({a}) * {b} | jnp.sort({a}, {axis})
jnp.take_along_axis({a}, jnp.argsort({b}, {axis}), {axis}) | lax.cummax({a}, {axis})
jnp.max({a}, {axis}, keepdims=True) | jnp.min({a}, {axis})
{a} - jnp.max({a}, {axis}, keepdims=True) | lax.top_k({a}, min({k}, {a}.shape[-1]))[0]
jnp.argmax({a}, {axis}) | jnp.ptp({a}, {axis}) | jnp.median({a}, {axis})
jnp.zeros({a}.shape, {a}.dtype).at[{i}].max({a}[:{m}].sum(0)) | {a} > {b}
jnp.isfinite({a}) | lax.cond({a}.sum() > 0, lambda t: t * 2, lambda t: t - 1, {a})
jnp.floor({a} * 4) | jnp.searchsorted(jnp.sort({a}.ravel()), {b}.ravel())
jnp.fmax({a}, {b})
"""
MOVES = """
{a}.T | jnp.swapaxes({a}, 0, -1) | jnp.flip({a}, {axis}) | {a}.reshape(-1)
jnp.roll({a}, {k}, {axis}) | {a}[{k}:] | {a}[:-{k}] | {a}[::{m}] | {a}[..., {k}:]
{a}[1:] + {a}[:-1] | {a}[..., 2:] - {a}[..., :-2] | {a}[..., 1:] + {a}[..., :-1]
jnp.concatenate([{a}, {b}], {axis}) | jnp.stack([{a}, {b}]) | jnp.stack([{a}, {b}], -1)
jnp.pad({a}, {k}) | jnp.pad({a}, {k}, mode="wrap") | jnp.pad({a}, {k}, mode="reflect")
jnp.pad({a}, {k}, mode="edge") | jnp.pad({a}, ({k}, {m}), mode="symmetric")
jnp.pad({a}, {k}, constant_values=3)
lax.pad({a}, {a}.dtype.type(1), [({k}, -{m}, 1)] * {a}.ndim)
jnp.pad({a}, {k}, mode="mean") | jnp.pad({a}, {k}, mode="linear_ramp") | {a}[{i}]
jnp.take({a}, {i}, {axis}) | {a}[..., {i}] | {a}[{i}][..., ::-1] | {a}[None]
{a}[..., None] | {a}.at[{i}].set({b}[:1].sum(0)) | {a}.at[{i}].add({a}[{i}])
{a}.at[..., {k}].set({c}) | jnp.zeros({a}.shape, {a}.dtype).at[{i}].add({a}[{i}])
jnp.zeros_like({a}, shape=(9, *{a}.shape[1:])).at[jnp.arange(len({a})) % 9].add({a})
jnp.zeros_like({a}[: len({a}) // 2 + 1]).at[jnp.arange(len({a})) // 2].add({a})
jnp.concatenate([{a}, {a}]).at[jnp.arange(len({a})) * 2].add({a})
({a} * {c}).at[jnp.arange(len({a}))].add({a})
{a}.at[jnp.arange(len({a}))].multiply({a})
{a}.at[::-1].set({a}) | {a}.at[1:].add({a}[:-1]) | {a}.at[:-1].set({a}[1:])
lax.fori_loop(0, 3, lambda i, t: (t[1], t[0].at[i].add(t[1][0])), ({a}, {a} * 2))[{z}]
lax.cond({a}.sum() > 0, lambda t: (t.at[0].add(t[1]), t), lambda t: (t, t), {a})[{z}]
jnp.repeat({a}, 2, {axis}) | jnp.tile({a}, 2) | jnp.split({a}, [{k}], {axis})[{z}]
jnp.array_split({a}, 3, {axis})[{z}] | jnp.squeeze({a}) | jnp.diagonal({a})
jnp.trace({a}) | jnp.tril({a}) | jnp.triu({a}, {k})
jnp.broadcast_to({a}[:1], {a}.shape) | jnp.rot90({a})
lax.dynamic_slice_in_dim({a}, {k}, {n} // 2, {axis}) | jnp.diff({a}, axis={axis})
lax.dynamic_update_slice_in_dim({a}, {b}[:{k}], {m}, 0) | jnp.delete({a}, {k}, {axis})
lax.rev({a}, (0,)) | jnp.moveaxis({a}, 0, -1)
jnp.meshgrid({a}.ravel()[:20], {b}.ravel()[:30])[{z}]
jnp.insert({a}, {k}, {c}, {axis}) | jnp.append({a}, {b}) | jnp.ravel({a}, order="F")
"""
TOTALS = """
{a}.sum({axis}) | {a}.sum() | {a}.sum({axis}, keepdims=True) + {b}
jnp.mean({a}, {axis}) | jnp.cumsum({a}, {axis}) | {a} - {a}.mean() | {a} * {a}.sum(0)
jnp.sum({a} * {b}, -1) | jnp.prod({a} * {c}, {axis})
jnp.einsum("...i,...i->...", {a}, {b}) | jnp.cumprod({a}, {axis})
jnp.any({a} != 0, {axis}) | jnp.count_nonzero({a}, {axis})
jax.vmap(lambda r: r * r.sum())({a})
jax.ops.segment_sum({a}, jnp.arange({a}.shape[0]) % 7, 7)
jnp.convolve({a}.ravel()[:500], {b}.ravel()[:9])
lax.scan(lambda c, r: (c * 0.5 + r, c), {a}[0] * 0, {a}[:40])[{z}]
jax.vmap(jnp.dot)({a}, {b}) | lax.fori_loop(0, {k}, lambda i, t: t * 0.5 + {b}[i], {a})
jnp.cumsum({a}[::-1], 0)[::-1]
lax.while_loop(lambda s: s[0] < {k}, lambda s: (s[0] + 1, s[1][::-1] + 1), (0, {a}))[1]
lax.associative_scan(jnp.add, {a}, axis={axis})
lax.map(lambda r: r[::-1] + r, {a}[:50]) | jnp.sum({a}, where=jnp.abs({b}) > {c})
jnp.vdot({a}, {b}) | jnp.kron({a}[:3], {b}[:4])
"""
PRODUCTS = """
{a} @ {b} | {a} @ {b}.T | {a}.T @ {b} | jnp.tanh({a} @ {b}.T + 1)
jnp.outer({a}[:90], {b}[:70]) | ({a} * 2) @ ({b}.T - 1)
jnp.einsum("...ij,...kj->...ik", {a}, {b}) | jnp.tensordot({a}, {b}, 1)
lax.dot_general({a}, {b}, ((({j},), ({j},)), ((), ()))) | {a} @ {b}.sum(0)
jax.nn.relu({a}.T @ {b}) | jnp.inner({a}, {b}) | jnp.vecdot({a}, {b})
"""
SMOOTH = """
jax.nn.softmax({a}, {axis}) | jax.nn.log_softmax({a}, {axis})
jax.nn.logsumexp({a}, {axis})
({a} - {a}.mean({axis}, keepdims=True)) / jnp.sqrt({a}.var({axis}, keepdims=True) + 0.1)
({a} - {a}.min()) / ({a}.max() - {a}.min() + 1) | jax.nn.gelu({a})
jnp.std({a} * 2, {axis}) | jax.nn.softmax({a}[:64] @ {a}[:64].T / 8, -1) @ {a}[:64]
jnp.logaddexp({a}, {b})
lax.conv_general_dilated({a}[None, None], {b}[None, None, :3, :3], (1, {m}), "SAME")
lax.conv_general_dilated({a}[:, None], {b}[:2, None, :3], ({m},), [({k}, 1)])
lax.reduce_window({a}, -jnp.inf, lax.max, ({m},) * {a}.ndim, (1,) * {a}.ndim, "VALID")
lax.reduce_window({a}, 0.0, lax.add, ({m},) * {a}.ndim, (2,) * {a}.ndim, "SAME")
jnp.interp({a}.ravel(), jnp.linspace(-2, 2, 9).astype({a}.dtype), jnp.ones(9))
jax.nn.one_hot({i}, {n}, dtype={a}.dtype) @ {a} | jnp.linalg.norm({a}, axis={axis})
(lambda t: jnp.linalg.solve(t @ t.T + 6 * jnp.eye(len(t)), t))({a}[:5, :5])
(lambda t: jnp.linalg.cholesky(t @ t.T / {n} + 6 * jnp.eye(len(t))))({a}[:4])
jnp.gradient({a}, axis={axis})
jnp.where({a} > 0, jnp.log(jnp.where({a} > 0, {a}, 1)), 0)
jnp.quantile({a}, 0.3, axis={axis}) | jnp.fft.rfft({a}, axis={axis}).real
jnp.hypot({a}, {b}) | jnp.polyval({a}[:4], {b}) | jnp.trapezoid({a}, axis={axis})
jnp.cov({a}[:9]) | jnp.nanmean({a}, {axis})
"""
OF_COMPLEX = """
{a}.real | {a}.imag * {b}.real | jnp.conj({a}) * {b} | jnp.abs({a}) | {a} * 1j
jnp.fft.fft({a}, axis={axis}) | jnp.fft.ifft({a}) | jnp.angle({a} + 3)
jnp.exp({a} * 1j)
"""
WHOLE = """
{a} ^ ({a} >> {k}) | {a} & {b} | jnp.bitwise_or({a}, {b}) | {a} << {k} | ~{a}
{a} * 7 + {b} | {a} % {k} | {a} // {k} | lax.population_count({a})
{a}.astype("float32") * 0.1 | jnp.unique({a}, size=9)
jnp.bincount(jnp.abs({a}.ravel().astype("int32")) % 50, length=50) | lax.clz({a})
lax.bitcast_convert_type({a}, {a}.dtype) | jnp.cumsum({a}, {axis}) | jnp.gcd({a}, {b})
({a} ^ {b}) * {a}.dtype.type(77) | jnp.left_shift({a}, {k}) ^ {b}
jnp.histogram({a}, 8)[0]
"""
LOGIC = """
{a} & {b} | ~{a} | jnp.where({a}, 1.0, 2.0) | {a}.sum({axis}) | jnp.any({a}, {axis})
{a} ^ {b} | jnp.all({a}) | {a}.astype("float32") | jnp.cumsum({a}, {axis})
jnp.nonzero({a}, size=7)[0] | jnp.argmax({a}, {axis}) | jnp.sort({a}, {axis})
jnp.logical_not({a}).astype("int32")
"""
CASTS = """
{a}.astype("float32") | {a}.astype("bfloat16") | {a}.astype("float16") | ({a} > 0) * 1.5
jnp.abs({a}).astype("int32") | {a}.astype("bool") | {a}.astype({b}.dtype)
{a} + jnp.float32(1)
"""


def split(table):
    return [e.strip() for line in table.strip().splitlines() for e in line.split(" | ")]


TABLES = [
    (INEXACT, split(ELEMENTWISE), 5),
    (REAL, split(REALS), 2),
    (ANY, split(MOVES), 5),
    (INEXACT + INTS, split(TOTALS), 3),
    (INEXACT, split(PRODUCTS), 2),
    (FLOATS, split(SMOOTH), 2),
    (COMPLEX, split(OF_COMPLEX), 3),
    (INTS, split(WHOLE), 4),
    (("bool",), split(LOGIC), 5),
    ((*FLOATS, *INTS), split(CASTS), 0.4),
]


def drawn_shape(rng, mode):
    """A shape of an argument."""
    if mode == "odd":
        sizes = [0, 1, 2, 3, 5, 7]
        return tuple(
            int(n) for n in rng.choice(sizes, rng.choice(4, p=[0.1, 0.3, 0.4, 0.2]))
        )
    if rng.random() < 0.1:
        return tuple(int(n) for n in rng.choice([1, 2, 3, 5, 33], rng.integers(0, 4)))
    # Some are as small as what threads first share, and some narrow: 1000 x 5.
    size = 10 ** rng.triangular(3, 4.3, 6.6)
    ndim = int(rng.choice([1, 2, 3], p=[0.3, 0.5, 0.2]))
    if ndim == 1:
        return (int(size),)
    sides = [int(s) for s in size ** rng.dirichlet([rng.choice([1, 4])] * ndim)]
    # Whole blocks of eight, now and then.
    return tuple(max(s // 8 * 8 if rng.random() < 0.4 else s, 2) for s in sides)


class Drawing:
    """A program being drawn: its lines, and what is known of its arrays."""

    def __init__(self, mode, rng):
        import jax

        self.jax, self.mode, self.rng = jax, mode, rng
        self.arrays, self.lines = {}, []

    def argument(self, dtype, shape):
        name = f"x{len(self.arrays)}"
        self.arrays[name] = self.jax.ShapeDtypeStruct(shape, dtype)
        return name

    def chosen(self):
        """The name of an array, mostly of the last ones made."""
        names = list(self.arrays)
        return names[-1 - int(len(names) * self.rng.random() ** 2)]

    def like(self, a):
        """The name of an array to combine with `a`."""
        spec = self.arrays[a]
        good = [n for n, s in self.arrays.items() if s.dtype == spec.dtype]
        same = [n for n in good if self.arrays[n].shape == spec.shape]
        return str(self.rng.choice(same if self.rng.random() < 0.7 else good))

    def line(self):
        """Add a line, if what is drawn is valid."""
        rng, a = self.rng, self.chosen()
        spec = self.arrays[a]
        fitting = [(t, w) for d, t, w in TABLES if str(spec.dtype) in d]
        weights = np.array([w for _, w in fitting])
        table = fitting[rng.choice(len(fitting), p=weights / weights.sum())][0]
        idiom = table[rng.integers(len(table))]
        axis = int(rng.integers(max(spec.ndim, 1)))
        n = spec.shape[axis] if spec.ndim else 1
        many = [0, 1, 3, n] if self.mode == "odd" else [3, n // 2, n, 100]
        count = int(rng.choice(many))
        index = f"jnp.arange({count}) * {rng.choice([1, 3, 7])} % {max(n, 1)}"
        if rng.random() < 0.3:
            at = rng.integers(-n, max(n, 1), min(count, 5)).tolist()
            index = f"jnp.array({at}, int)"
        if count == 0 or n == 0:
            index = "jnp.zeros((0,), int)"
        fields = {
            "a": a,
            "b": self.like(a),
            "axis": axis if rng.random() < 0.7 else axis - max(spec.ndim, 1),
        }
        fields |= {"k": rng.integers(1, 4), "m": rng.integers(1, 4), "n": n, "i": index}
        fields |= {
            "c": rng.choice([0.5, 0.25, 1.5]),
            "z": rng.integers(2),
            "j": rng.integers(2),
        }
        if spec.dtype.kind in "iub":
            fields["c"] = rng.integers(3)
        self.add(idiom.format(**fields))

    def add(self, text):
        names = {"jax": self.jax, "jnp": self.jax.numpy, "lax": self.jax.lax, "np": np}
        f = eval(f"lambda {', '.join(self.arrays)}: {text}", names)
        try:
            closed, out = self.jax.make_jaxpr(f, return_shape=True)(
                *self.arrays.values()
            )
        except Exception:  # Not a program of jax's: another one is drawn.
            return
        if isinstance(out, (tuple, list)) or not hasattr(out, "shape"):
            return
        if too_much(closed.jaxpr, *LIMITS[self.mode]) or str(out.dtype) not in ANY:
            return
        name = f"v{len(self.lines)}"
        self.arrays[name] = self.jax.ShapeDtypeStruct(out.shape, out.dtype)
        self.lines.append(f"    {name} = {text}")


def too_much(jaxpr, elements, work):
    """Whether an equation makes a huge array, or multiplies too often."""
    for eqn in jaxpr.eqns:
        sizes = [int(np.prod(v.aval.shape)) for v in (*eqn.invars, *eqn.outvars)]
        if max(sizes, default=0) > elements:
            return True
        if eqn.primitive.name == "dot_general":
            (left, _), _ = eqn.params["dimension_numbers"]
            depth = np.prod([eqn.invars[0].aval.shape[i] for i in left] or [1])
            if depth * sizes[-1] > work:
                return True
        if eqn.primitive.name in ("scan", "while", "sort") and max(sizes) > 1e6:
            return True
    return False


def draw(mode, seed, index):
    """The program of a seed and an index."""
    import jax

    rng = np.random.default_rng([seed, index, MODES.index(mode)])
    if mode == "idioms":
        from tests.fuzz.idioms import draw_idiom

        return draw_idiom(rng, f"{mode}:{seed}:{index}")
    dtypes = [*FLOATS, "complex64", *INTS[:4], "bool"]
    odds = np.array([12, 1.5, 1.5, 1.5, 1, 1, 0.5, 0.3, 0.3, 0.3])
    dtype = str(rng.choice(dtypes, p=odds / odds.sum()))
    x64 = dtype == "float64"
    transformed = str(rng.choice(["forward", "grad", "vmap"], p=[0.5, 0.35, 0.15]))
    with jax.enable_x64(x64):
        return finished(mode, rng, dtype, x64, transformed, f"{mode}:{seed}:{index}")


def finished(mode, rng, dtype, x64, transformed, name):
    drawing, shape = Drawing(mode, rng), drawn_shape(rng, mode)
    made = []
    for _ in range(rng.integers(1, 4)):
        other = rng.random()
        s = (
            shape
            if other < 0.6
            else shape[1:]
            if other < 0.8
            else drawn_shape(rng, mode)
        )
        drawing.argument(dtype, s)
        made.append(f'argument({s}, "{dtype}", {rng.integers(1000)})')
    if transformed != "forward" and dtype not in FLOATS:
        transformed = "forward"
    arguments = list(drawing.arrays)
    length = rng.integers(1, 9)
    for _ in range(60):
        if len(drawing.lines) >= length:
            break
        drawing.line()
    names = [n for n in drawing.arrays if n.startswith("v")] or arguments
    results = {
        names[-1 - int(len(names) * w**2)] for w in rng.random(rng.integers(1, 4))
    }
    given = ", ".join(arguments)
    body = "\n".join(drawing.lines)
    text = f"def f({given}):\n{body}\n    return {', '.join(sorted(results))},\n"
    everything = tuple(range(len(arguments)))
    text += {
        "forward": "\nrun = f\n",
        "grad": f"{total_of(x64)}\nrun = jax.grad(total, {everything})\n",
        "vmap": "\nrun = jax.vmap(f)\n",
    }[transformed]
    if transformed == "vmap":
        made = [m.replace("argument((", "argument((2, ", 1) for m in made]
    text = f"# {name}{', under enable_x64' * x64}\n{ARGUMENT}\n\n{text}"
    text += f"arguments = [{', '.join(made)}]\n"
    return Program(name, text, x64, transformed)


ARGUMENT = """
def argument(shape, dtype, seed):
    draw = np.random.RandomState(seed)
    if dtype == "bool":
        return np.asarray(draw.rand(*shape) > 0.5)
    if "int" in dtype:
        return np.asarray(draw.randint(0, 100, shape)).astype(dtype)
    values = draw.standard_normal(shape)
    if dtype == "complex64":
        values = values + 1j * draw.standard_normal(shape)
    return np.asarray(values).astype(jnp.dtype(dtype))
"""


def total_of(x64):
    """The text of a number made of all results, no narrower than the program is."""
    dtype = "float64" if x64 else "float32"
    return f"""
def total(*args):
    def weighed(r):
        if not jnp.issubdtype(r.dtype, jnp.inexact):
            return 0.0
        weights = jnp.cos(jnp.arange(r.size) % 97).reshape(r.shape)
        return jnp.sum(jnp.real(r).astype("{dtype}") * weights)
    return sum(map(weighed, f(*args)), 0 * jnp.sum(args[0])).astype("{dtype}")
"""
