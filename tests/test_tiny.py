"""tiny.py: what each of its parts does, and that it agrees with the whole library."""

import ast
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from harness import in_a_process, refused

from minijit import tiny
from minijit.tiny import (
    Jaxpr,
    Loops,
    Tracer,
    cos,
    grad,
    jit,
    jvp,
    linearize,
    make_jaxpr,
    mul,
    sin,
    sum,
    tanh,
    tree_map,
    vjp,
    vmap,
)  # fmt: skip

quietly = pytest.mark.filterwarnings("ignore:without numba loops run in plain Python")
pytestmark = [pytest.mark.chapter(1), quietly]

matrix = np.array([[0.2, -0.4, 0.7], [0.1, 0.5, -0.3], [-0.6, 0.9, 0.8]])
x = np.array([0.3, -0.7, 1.1])


def f(x):
    return sin(x) * x + 3.0


def layer(W, x):
    return tanh(W @ x)


def layer_loss(W, x):
    return sum(layer(W, x))


@pytest.fixture
def plain(monkeypatch):
    """No numba: jitted functions run their text in plain Python."""
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.warns(UserWarning, match="without numba loops run in plain Python"):
        jit(sin)(1.0)


def nests(f, *args):
    """How many arrays the loops of a program fill."""
    return str(Loops(make_jaxpr(f)(*args))).count("np.zeros")


# ---- the file


def test_it_stays_small():
    text = Path(tiny.__file__).read_text()
    lines = [line for line in text.split("\n") if line.strip()]
    assert len(lines) <= 250
    tree = ast.parse(text)
    found = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    names = {getattr(n, "module", n.names[0].name) for n in found}
    assert names == {"warnings", "functools", "textwrap", "numpy", "numba"}
    assert "numba" not in {getattr(n, "module", "") for n in tree.body}


def test_nobody_imports_it():
    code = "import sys, minijit; print('minijit.tiny' in sys.modules)"
    assert in_a_process(code) == "False\n"


# ---- derivatives


def test_derivatives():
    value, slope = jvp(f, (2.0,), (0.5,))
    assert np.isclose(value, np.sin(2) * 2 + 3)
    assert np.isclose(slope, 0.5 * (np.sin(2) + 2 * np.cos(2)))
    second = grad(grad(f))
    assert np.isclose(second(2.0), 2 * np.cos(2) - 2 * np.sin(2))
    assert np.isclose(grad(second)(2.0), -3 * np.sin(2) - 2 * np.cos(2))
    assert np.isclose(grad(grad(cos))(2.0), -np.cos(2.0))


def test_a_slope_is_a_quotient_of_differences():
    def g(x):
        return tanh(matrix @ x - 0.5) * sum(x * cos(x)) - sin(2.0 - x)

    value, slope = jvp(g, (x,), (x + 1.0,))
    step = 1e-6 * (x + 1.0)
    assert np.allclose(slope, (g(x + step) - g(x - step)) / 2e-6, atol=1e-8)
    assert np.allclose(value, g(x))


def test_what_does_not_move_has_no_tangent():
    value, slope = jvp(lambda x: sin(np.ones(3)), (x,), (x,))
    assert np.allclose(value, np.sin(1.0)) and np.array_equal(slope, np.zeros(3))
    trace = tiny.JVPTrace(parent=tiny.traces[-1], tangent_trace=tiny.traces[-1])
    with trace:
        assert not isinstance(sin(2.0), Tracer)
    assert grad(lambda x: 3.0)(2.0) == 0.0
    assert np.array_equal(grad(lambda x: sum(x[0]))((x, x))[1], np.zeros(3))


def test_nested_derivatives_are_kept_apart():
    assert grad(lambda x: x * grad(lambda y: x * y)(2.0))(3.0) == 6.0
    for inner, slope in (lambda x, y: x, 0.0), (lambda x, y: x * y, 6.0):
        outer = lambda x, g=inner: x * jvp(lambda y: g(x, y), (2.0,), (1.0,))[1]
        assert jvp(outer, (3.0,), (1.0,))[1] == slope


def test_a_derivative_is_a_linear_program():
    value, f_jvp = linearize(f, 2.0)
    assert np.isclose(value, f(2.0))
    assert str(f_jvp) == """{ lambda ; a:f64[]. let
    b:f64[] = mul a -0.4161
    c:f64[] = mul b 2.0
    d:f64[] = mul a 0.9093
    e:f64[] = add c d
  in e }"""
    assert np.isclose(f_jvp(3.0), 3 * jvp(f, (2.0,), (1.0,))[1])


def test_backwards_is_the_transpose():
    def g(x, y):
        return tanh(matrix @ x) * sum(y), y * x - y

    ct = (x * 2.0, np.array([1.0, -2.0, 0.5]))
    moved = jvp(g, (x, x + 1.0), (matrix[0], matrix[1]))[1]
    back = vjp(g, x, x + 1.0)[1](ct)
    forth = np.sum(ct[0] * moved[0]) + np.sum(ct[1] * moved[1])
    assert np.isclose(forth, np.sum(back[0] * matrix[0]) + np.sum(back[1] * matrix[1]))


def test_a_gradient_costs_a_few_times_the_function():
    class Count(tiny.Trace):
        def process(self, primitive, args, params):
            self.counted += 1
            return tiny.eval_rules[primitive](*args, **params)

    y = lambda x: sum(tanh(x * x))
    for n in 1, 100:
        count = Count(counted=0)
        with count:
            grad(y)(np.ones(n))
        assert count.counted <= 12


def test_a_gradient_has_the_shapes_of_its_tree():
    params = ((matrix, x), (matrix[:1], x[:1]))

    def loss(params, x):
        (W1, b1), (W2, b2) = params
        return sum(W2 @ tanh(W1 @ x + b1) + b2)

    slopes = grad(loss)(params, x)
    assert tree_map(np.shape, slopes) == tree_map(np.shape, params)
    assert np.allclose(slopes[1][0], np.tanh(matrix @ x + x))


# ---- programs


def test_a_program_prints_and_runs():
    program = make_jaxpr(lambda x: (layer(matrix, x), 2.0 * x))(x)
    assert str(program) == """{ lambda c:f64[3, 3]; a:f64[3]. let
    b:f64[3, 3] = broadcast[axis=-2][size=3] a
    d:f64[3, 3] = mul c b
    e:f64[3] = reduce_sum[axis=-1] d
    f:f64[3] = tanh e
    g:f64[3] = mul a 2.0
  in (f, g) }"""
    assert np.allclose(program(x)[0], np.tanh(matrix @ x))
    assert np.allclose(grad(lambda x: sum(program(x)[1]))(x), 2.0)
    same = make_jaxpr(program)(x)
    assert str(same).count("\n") == str(program).count("\n")


def test_a_constant_is_kept_once():
    program = make_jaxpr(lambda x: matrix @ x + matrix @ sin(x) + 1.0)(x)
    assert [value is matrix for value in program.consts.values()] == [True]


def test_letters_of_indices_are_no_variables():
    program = make_jaxpr(lambda x: sum(tanh(sin(cos(sin(x))) * x) + sin(x) * 2.0))(x)
    names = {str(out) for *_, out in program.eqns}
    assert len(names) == len(program.eqns) and not names & {*"ijklmn"}
    assert len({str(Jaxpr((x,) * 50).invars[i]) for i in (0, 20, 40)}) == 3
    assert str(Jaxpr((x,) * 50).invars[20]) == "a1"


@pytest.mark.parametrize("call, told", [
    (lambda: make_jaxpr(lambda x: x + np.ones(4))(x), r"\(3,\) and \(4,\) do not fit"),
    (lambda: grad(lambda x: sum(x * matrix[:, :2]))(x), "do not fit"),
    (lambda: jvp(lambda x: x + np.ones((3, 1)), (matrix,), (matrix,)), "do not fit"),
    (lambda: make_jaxpr(mul)(x, x[:2]), r"mul of shapes \[\(2,\), \(3,\)\]"),
    (lambda: make_jaxpr(layer)(matrix, matrix), "right factor must be a vector"),
    (lambda: grad(layer)(matrix, x), r"grad of a result of shape \(3,\)"),
    (lambda: vmap(layer, (None, 1))(matrix, matrix), r"in_axes \(None, 1\), not 0 or"),
    (lambda: vmap(layer, 1)(matrix, matrix), "not 0 or None"),
    (lambda: vmap(layer)(np.ones((2, 3, 3)), matrix), r"axes of sizes \[2, 3\]"),
    (lambda: vmap(layer, None)(matrix, x), r"axes of sizes \[\]"),
])  # fmt: skip
def test_errors_say_what_is_wrong(call, told):
    refused(ValueError, told, call)
    assert len(tiny.traces) == 1


def test_a_tracer_decides_no_if():
    with pytest.raises(TypeError, match="no value that could decide an if"):
        grad(lambda x: x if x else -x)(1.0)


# ---- a batch


def test_a_batch_is_a_loop_over_examples():
    points = np.stack([x, 2.0 * x, x + 1.0, x - 1.0])
    both = vmap(lambda W, x: (layer(W, x), 1.0, W), (None, 0))(matrix, points)
    assert np.allclose(both[0], [np.tanh(matrix @ p) for p in points])
    assert both[1].tolist() == [1.0] * 4 and both[2].shape == (4, 3, 3)
    each = vmap(grad(layer_loss), (None, 0))(matrix, points)
    assert np.allclose(each, [grad(layer_loss)(matrix, p) for p in points])
    outer = vmap(lambda a: vmap(lambda b: a * b)(x))(points)
    assert np.allclose(outer, points[:, None] * x[:, None])
    pairs = vmap(lambda p: p[0] * sum(p[1]))((x, points[:3]))
    assert np.allclose(pairs, x * points[:3].sum(1))


def test_a_batch_computes_once_what_is_the_same_for_all():
    program = make_jaxpr(vmap(lambda x: x * sum(tanh(matrix[0]))))(matrix)
    shapes = {eqn[0]: eqn[3].shape for eqn in program.eqns}
    assert shapes["tanh"] == (3,)
    assert make_jaxpr(vmap(lambda x: x * 2.0))(x).eqns[0][1][1] == 2.0


# ---- loops


def test_loops_keep_the_letters():
    assert str(Loops(make_jaxpr(layer)(matrix[:2], x))) == """def kernel(inputs):
    (a, b) = inputs
    e = np.zeros((2,))
    for i in range(2):
        for j in range(3):
            d_ij = mul(a[i, j], b[j])
            e[i] += d_ij
    f = np.zeros((2,))
    for i in range(2):
        f_i = tanh(e[i])
        f[i] = f_i
    return f"""


def test_only_results_sums_and_what_is_repeated_are_stored():
    assert nests(f, x) == 1
    assert nests(lambda x: x * sum(x * x) + sum(x * x), x) == 3
    assert nests(lambda x: sum(x) * sum(sin(x)) * x, x) == 4
    assert nests(lambda x: (sin(x), cos(sin(x))), x) == 2
    dead = make_jaxpr(lambda x: (sum(sin(x)), x * 2.0)[1])(x)
    assert "sin" not in str(Loops(dead))
    program = vmap(lambda W, x: W @ tanh(x), (None, 0))
    assert nests(program, matrix, matrix) == 2  # tanh is asked for three times


def test_an_expression_is_computed_once_in_a_body():
    def squares(x):
        for _ in range(40):
            x = x * x
        return x

    assert str(Loops(make_jaxpr(squares)(x))).count("mul(") == 40


def test_jit_traces_once_for_each_set_of_shapes(plain):
    traced = []

    def g(x):
        traced.append(1)
        return f(x)

    inner = jit(g)
    outer = jit(lambda x: inner(x) + inner(x * 2.0))
    for _ in range(3):
        assert np.allclose(outer(x), f(x) + f(2.0 * x))
        grad(lambda x: sum(inner(x)))(x)
    assert len(traced) == 1
    inner(np.ones(4)), inner(1.0), inner(2.0)
    assert len(traced) == 3


def test_numba_runs_the_loops():
    program = jit(lambda W, x: (grad(layer_loss)(W, x), sum(x), 2.0))
    slopes, total, two = program(matrix[:, ::-1], x)
    assert np.allclose(slopes, grad(layer_loss)(matrix[:, ::-1], x))
    assert np.isclose(total, x.sum()) and two == 2.0
    big = np.linspace(0.0, 1.0, 100_000)
    assert np.allclose(jit(f)(big), f(big))


# ---- the same as the library

functions = {
    "chain": lambda m, x: m.sin(x) * x + 2.0 * m.tanh(x - 1.0),
    "reuse": lambda m, x: (lambda y: y * y - m.cos(y) * x)(m.sin(x) * 3.0),
    "mean": lambda m, x: x - m.sum(x) * (1 / 3),
    "norm": lambda m, x: m.tanh(x * m.sum(x * x)) + m.sum(m.sin(x)),
    "layers": lambda m, x: matrix @ m.tanh(matrix @ m.sin(x) - x + 0.5),
    "constant": lambda m, x: x * 0.0 + matrix @ np.ones(3),
    "linear": lambda m, x: 2.0 * x,
}
transformations = {
    "grad": lambda m, f: m.grad(lambda x: m.sum(f(x))),
    "jvp": lambda m, f: lambda x: m.jvp(f, (x,), (m.sin(x),))[1],
    "vjp": lambda m, f: lambda x: m.vjp(f, x)[1](m.cos(x))[0],
    "linearize": lambda m, f: lambda x: m.linearize(f, x)[1](x * 2.0),
    "jit": lambda m, f: m.jit(f),
    "vmap": lambda m, f: lambda x: m.vmap(
        lambda scale, v: m.sum(f(scale * v) * v), (0, None))(x, x + 1.0),
    "jvp of grad": lambda m, f: lambda x: m.jvp(
        m.grad(lambda x: m.sum(f(x) * f(x))), (x,), (x,))[1],
}  # fmt: skip


class Library:
    """The library's functions under the names that tiny.py has for them."""

    def __init__(self):
        import minijit as mj
        import minijit.numpy as jnp

        for name in "grad", "jvp", "vjp", "linearize", "jit", "vmap":
            setattr(self, name, getattr(mj, name))
        for name in "sin", "cos", "tanh", "sum":
            setattr(self, name, getattr(jnp, name))


def compose(m, name, steps):
    def f(x):
        return functions[name](m, x)

    for step in steps:
        f = transformations[step](m, f)
    return f


def draw(name):
    rng = random.Random(name)
    return [rng.choices([*transformations], k=depth) for depth in (2, 3)]


@pytest.mark.chapter(9)
@pytest.mark.parametrize("name", functions)
def test_compositions_agree_with_the_library(name, plain, interpreted_doubles):
    batch = np.stack([x, x + 0.1, 2.0 * x])
    library = Library()
    for steps in [[step] for step in transformations] + draw(name):
        ours, theirs = compose(tiny, name, steps), compose(library, name, steps)
        want = np.asarray(theirs(x))
        wants = np.asarray(library.vmap(theirs)(batch))
        results = [ours(x), jit(ours)(x)]
        results += [vmap(jit(ours))(batch), jit(vmap(ours))(batch)]
        for got, wanted in zip(results, [want, want, wants, wants], strict=True):
            assert np.shape(got) == wanted.shape, steps
            error = np.abs(got - wanted) / (1.0 + np.abs(wanted))
            assert np.max(error) < 1e-9, steps
