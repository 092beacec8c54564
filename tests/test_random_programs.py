"""Random programs: the same results on every road.

Hypothesis draws a program over the primitives, operation by operation, together with
its inputs, in which NaN, infinities, the limits of the integers, shifts past the width
and zero divisors are likely.  It runs eagerly, as the generated source in plain Python,
from the re-parsed text of its jaxpr, and, for a few programs, compiled by numba.

Integers, bools and exact floating operations must agree bitwise (all NaNs are one, and
so are the two zeros).  A result of `exp` and its like, or of a float sum, may differ by
a tolerance; such values only flow into operations that do not enlarge it.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from harness import alike
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import minijit.lax
import minijit.numpy
from minijit import make_jaxpr
from minijit.run.executable import compile_plain, compile_python
from minijit.trace.jaxprs.jaxpr import eval_jaxpr
from minijit.trace.jaxprs.parser import parse_jaxpr

pytestmark = pytest.mark.chapter(16)

FLOATS, INTS, UINTS = ["float32"], ["int32", "int8"], ["uint8", "uint32"]
WHOLE = INTS + UINTS
NUMBERS = FLOATS + WHOLE
SHAPES = [(), (3,), (2, 3), (1, 3)]
specials = {
    "float32": "0 -0. 1 -1 0.5 2.5 -3 100 1e30 -1e30 1e-40 inf -inf nan".split(),
    "int32": [0, 1, -1, 2, -7, 31, 32, 33, 100, 2**31 - 1, -(2**31)],
    "int8": [0, 1, -1, 2, -7, 8, 9, 127, -128],
    "uint8": [0, 1, 2, 7, 8, 9, 200, 255],
    "uint32": [0, 1, 2, 31, 32, 33, 2654435761, 2**32 - 1],
    "bool": [False, True],
}


class Library:
    """Whose `lax` and `numpy` the operations below use: minijit's, or jax's."""

    lax, numpy = minijit.lax, minijit.numpy


class Part:
    """One of the two modules, looked up when it is used."""

    def __init__(self, part):
        self.part = part

    def __getattr__(self, name):
        return getattr(getattr(Library, self.part), name)


lax, jnp = Part("lax"), Part("numpy")


@dataclass(frozen=True)
class Operation:
    """An operation that a program may consist of.

    Attributes:
      function: of as many arrays as `arity`.
      dtypes: of its arguments, which are all alike.
      exact: whether its result does not depend on who computes it.
      smooth: whether an inexact argument makes an equally inexact result.
    """

    function: object
    dtypes: tuple
    arity: int = 1
    exact: bool = True
    smooth: bool = False


def rows(functions, dtypes, arity=1, **options):
    """Operations out of names of lax functions."""

    def make(name):
        function = lambda *args: getattr(lax, name)(*args)
        return Operation(function, tuple(dtypes), arity, **options)

    return {name: make(name) for name in functions.split()}


operations = {}
operations |= rows("add sub max min", NUMBERS, 2)
operations |= rows("mul", NUMBERS, 2, smooth=True)
operations |= rows("rem", WHOLE, 2)
operations |= rows("eq ne lt le gt ge", NUMBERS, 2)
operations |= rows("bitwise_and bitwise_or bitwise_xor", WHOLE + ["bool"], 2)
operations |= rows("shift_left shift_right_logical shift_right_arithmetic", WHOLE, 2)
operations |= rows("bitwise_not", WHOLE + ["bool"])
operations |= rows("neg", NUMBERS, smooth=True)
operations |= rows("abs", FLOATS + INTS, smooth=True)
operations |= rows("sign", NUMBERS)
operations |= rows("population_count clz", WHOLE)
operations |= rows("floor ceil sqrt is_finite", FLOATS)
operations |= rows("exp log sin cos tanh logistic log1p expm1 erf", FLOATS, exact=False)
operations |= rows("cbrt rsqrt", FLOATS, exact=False)
operations |= rows("nextafter", FLOATS, 2)
operations |= rows("clamp", NUMBERS, 3)
operations |= rows("div", NUMBERS, 2, smooth=True)

ANY = (*NUMBERS, "bool")


def named(**functions):
    """Operations of one array that only move elements, or combine a few."""
    return {name: Operation(f, ANY, smooth=True) for name, f in functions.items()}


operations |= named(
    turn=lambda x: lax.transpose(x, tuple(reversed(range(x.ndim)))),
    flatten=lambda x: lax.reshape(x, (x.size,)),
    flip=lambda x: lax.rev(x, tuple(range(x.ndim))),
    row=lambda x: x[:1] if x.ndim else x,
    last=lambda x: x[..., -1] if x.ndim else x,
    twice=lambda x: jnp.concatenate([x, x], 0) if x.ndim else x,
    spread=lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    padded=lambda x: lax.pad(x, x.dtype.type(1), [(1, 0, 1)] * x.ndim),
    cropped=lambda x: lax.pad(x, x.dtype.type(1), [(-1, 1, 0)] * x.ndim),
    taken=lambda x: x[jnp.array([2, 0, -1, 2])] if x.ndim else x,
    moved=lambda x: jnp.roll(x, 1, -1) if x.ndim else x,
)
for dtype in (*NUMBERS, "bool"):
    convert = lambda x, dtype=dtype: x.astype(dtype)
    operations[f"to_{dtype}"] = Operation(convert, ANY)
for name in ("max", "min", "argmax", "argmin"):
    reduce = lambda x, name=name: getattr(jnp, name)(x, -1) if x.ndim else x
    operations[f"reduce_{name}"] = Operation(reduce, tuple(NUMBERS))
for name in ("sum", "prod", "cumsum"):
    along = lambda x, name=name: (
        getattr(jnp, name)(x, axis=x.ndim - 1, dtype=x.dtype) if x.ndim else x
    )
    operations[f"reduce_{name}"] = Operation(along, tuple(WHOLE))
operations |= {
    "any": Operation(lambda x: jnp.any(x), ("bool",)),
    "all": Operation(lambda x: jnp.all(x, -1) if x.ndim else x, ("bool",)),
    "bits": Operation(
        lambda x: lax.bitcast_convert_type(x, "int32"), ("float32", "uint32")
    ),
    "sorted": Operation(lambda x: jnp.sort(x, -1) if x.ndim else x, tuple(NUMBERS)),
    "set": Operation(
        lambda x: (
            x.at[..., jnp.array([0, 5, -1])].set(x.dtype.type(1)) if x.ndim else x
        ),
        ANY,
    ),
    "count": Operation(
        lambda x: x.at[..., jnp.array([0, 5, 0])].add(x.dtype.type(2)) if x.ndim else x,
        tuple(WHOLE),
    ),
    "gram": Operation(lambda x: x @ x.T if x.ndim == 2 else x, tuple(WHOLE)),
    "choose": Operation(lambda x, y: jnp.where(x > y, x, y + y), tuple(NUMBERS), 2),
    "float_sum": Operation(
        lambda x: jnp.sum(jnp.clip(x, -100, 100), -1) if x.ndim else x,
        ("float32",),
        exact=False,
    ),
}


@dataclass(frozen=True)
class Drawn:
    """A random program: inputs, and steps (operation, positions of its arguments)."""

    inputs: tuple
    steps: tuple
    exact: tuple

    def __call__(self, *inputs):
        """Every value that the program computes."""
        values = list(inputs)
        for name, places in self.steps:
            arguments = broadcast(*(values[i] for i in places))
            values.append(operations[name].function(*arguments))
        return values[len(inputs) :]


def broadcast(*values):
    """The arguments at one shape."""
    if len(values) == 1:
        return values
    shape = np.broadcast_shapes(*(x.shape for x in values))
    return [jnp.broadcast_to(x, shape) for x in values]


def fits(operation, values, exact, places):
    """Whether an operation may be applied to these values."""
    chosen = [values[i] for i in places]
    dtypes = {x.dtype.name for x in chosen}
    if len(dtypes) > 1 or not dtypes <= set(operation.dtypes):
        return False
    if not operation.smooth and not all(exact[i] for i in places):
        return False
    try:
        shape = np.broadcast_shapes(*(x.shape for x in chosen))
    except ValueError:
        return False
    return np.prod(shape) <= 64 and len(shape) <= 3


@st.composite
def programs(draw, most=8):
    """Programs of up to `most` operations, with their inputs."""
    values = []
    for _ in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from([*FLOATS * 4, *WHOLE, "bool"]))
        shape = draw(st.sampled_from(SHAPES))
        size = int(np.prod(shape))
        elements = st.sampled_from(specials[dtype])
        data = draw(st.lists(elements, min_size=size, max_size=size))
        data = [float(x) for x in data] if dtype == "float32" else data
        values.append(np.array(data, dtype).reshape(shape))
    count, steps, exact = len(values), [], [True] * len(values)
    inputs = tuple(values)
    for _ in range(draw(st.integers(1, most))):
        first = draw(st.integers(0, len(values) - 1))
        possible = [
            name
            for name, operation in sorted(operations.items())
            if fits(operation, values, exact, (first,) * operation.arity)
        ]
        # A value may have grown too large for anything.
        if not possible:
            continue
        name = draw(st.sampled_from(possible))
        operation, places = operations[name], (first,)
        while len(places) < operation.arity:
            others = [
                i
                for i in range(len(values))
                if fits(operation, values, exact, (*places, i))
            ]
            places += (draw(st.sampled_from(others)),)
        arguments = broadcast(*(jnp.asarray(values[i]) for i in places))
        values.append(operation.function(*arguments))
        exact.append(operation.exact and all(exact[i] for i in places))
        steps.append((name, places))
    return Drawn(inputs, tuple(steps), tuple(exact[count:]))


def same(found, wanted, exact, where):
    """Compare all the values of two runs."""
    for k, (f, w) in enumerate(zip(found, wanted, strict=True)):
        near = {} if exact[k] else {"rtol": 1e-5, "atol": 1e-4}
        alike(f, w, f"{where}, value {k}", **near)


quick = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@quick
@given(programs())
def test_eager_plain_and_reparsed_agree(program):
    wanted = program(*map(jnp.asarray, program.inputs))
    closed = make_jaxpr(program)(*program.inputs)
    found = compile_plain(closed, "drawn")(*program.inputs)
    same(found, wanted, program.exact, "plain")
    parsed = parse_jaxpr(str(closed))
    found = eval_jaxpr(parsed, closed.consts, *program.inputs)
    same(found, wanted, program.exact, "parsed")


@settings(quick, max_examples=12)
@given(programs(most=16))
def test_compiled_agrees(program):
    wanted = program(*map(jnp.asarray, program.inputs))
    closed = make_jaxpr(program)(*program.inputs)
    found = compile_python(closed, "drawn")(*program.inputs)
    same(found, wanted, program.exact, "compiled")


def test_the_draw_reaches_every_operation():
    """A check of the test itself: no operation is always rejected."""
    for name, operation in operations.items():
        assert any(
            fits(operation, [np.zeros((2, 3), dtype)], [True], (0,) * operation.arity)
            for dtype in (*NUMBERS, "bool")
        ), name


def has_subnormals(x):
    """Whether XLA would take some of the numbers for zeros."""
    x = np.asarray(x)
    small = np.finfo(np.float32).smallest_normal
    return x.dtype.kind == "f" and bool(np.any((x != 0) & (np.abs(x) < small)))


@pytest.mark.oracle
@settings(quick, max_examples=60)
@given(programs())
def test_results_are_jax_s(program):
    """Where NaN, infinity, overflow and the rest come in, jax is the referee."""
    jax = pytest.importorskip("jax")
    closed = make_jaxpr(program)(*program.inputs)
    found = compile_plain(closed, "drawn")(*program.inputs)
    assume(not any(map(has_subnormals, (*program.inputs, *found))))
    before = Library.lax, Library.numpy
    try:
        Library.lax, Library.numpy = jax.lax, jax.numpy
        wanted = program(*map(jax.numpy.asarray, program.inputs))
    finally:
        Library.lax, Library.numpy = before
    same(found, wanted, program.exact, "jax")


binary = """add sub mul div rem max min bitwise_and bitwise_or bitwise_xor shift_left
    shift_right_logical shift_right_arithmetic""".split()
unary = "neg sign bitwise_not population_count clz square".split()


def limits(dtype):
    """Numbers where integers of a dtype overflow, or almost; and small ones."""
    info = np.iinfo(dtype)
    ends = [info.max, info.max - 1, info.min, info.min + 1]
    return [0, 1, 2, 3, 8, 63, 64, *ends, *([-1, -2, -8] if info.min else [])]


def random_integers(random, dtype):
    """A function of x, an array of `limits`: up to four operations on x, constants,
    and a counter, which is the index of the loop."""
    steps = []
    for _ in range(random.integers(1, 5)):
        name = str(random.choice(binary if random.random() < 0.8 else unary))
        constant = np.array(limits(dtype)[random.integers(len(limits(dtype)))], dtype)
        other = random.choice(["x", "counter", *["constant"] * 6])
        steps.append((name, str(other), constant, random.random() < 0.5))
    begin = str(random.choice(["x", "counter"]))

    def f(x):
        values = {"x": x, "counter": minijit.lax.iota(dtype, x.shape[0])}
        y = values[begin]
        for name, other, constant, left in steps:
            args = [y]
            if name in binary:
                args.insert(0 if left else 1, values.get(other, constant))
            y = getattr(minijit.lax, name)(*args)
        return y

    return f, (begin, steps)


@pytest.mark.chapter(23)
def test_integers_wrap_at_their_limits():
    """Index arithmetic never overflows, that of users does, in the same 64 bits.

    numba and LLVM must not conclude from an overflow, as that x - 1 is less than x.
    """
    random = np.random.default_rng(0)
    with minijit.enable_x64(True):
        for k in range(60):
            dtype = ["int64", "int64", "uint64", "int32", "uint8"][k % 5]
            f, steps = random_integers(random, dtype)
            x = np.array(limits(dtype), dtype)
            want = minijit.jit(f, backend="eval")(x)
            for backend in ["plain", "llvm", *["python"] * (k % 40 == 0)]:
                got = minijit.jit(f, backend=backend)(x)
                np.testing.assert_array_equal(got, want, err_msg=f"{backend}: {steps}")


@pytest.mark.chapter(23)
def test_numba_does_not_conclude_from_an_overflow():
    """LEAST - 1 is the greatest integer, so it is not below 3."""
    lax, numbers = minijit.lax, np.array(limits("int64"))
    with minijit.enable_x64(True):
        def f(x):
            y = lax.sub(x, np.int64(1))
            high = lax.ge(y, np.full(y.shape, 2**63 - 2))
            return lax.min(lax.select(high, y, np.full(y.shape, 2)), np.int64(3))

        want = [3 if i in (2**63 - 1, -(2**63)) else 2 for i in numbers.tolist()]
        for backend in ("plain", "python", "llvm"):
            assert minijit.jit(f, backend=backend)(numbers).tolist() == want
