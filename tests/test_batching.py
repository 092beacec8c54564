"""vmap: each rule against a Python loop, axes wherever they are, and its errors."""

import itertools

import numpy as np
import pytest
from derivative_cases import cases, ours

import minijit
import minijit.numpy as jnp
from minijit import enable_x64, grad, jit, jvp, make_jaxpr, vjp, vmap
from minijit.test_util import random_like
from minijit.trace import elementwise as ew, indexing, primitives as lax, sorting
from minijit.trace.core import Primitive
from minijit.trace.pytree import tree_leaves, tree_map
from minijit.transform.batching import batch_rules
from minijit.transform.batching_rest import (
    all_gather,
    axis_index,
    axis_size,
    pmax,
    pmean,
    pmin,
    psum,
)

pytestmark = pytest.mark.chapter("8s")

LANES = 3


@pytest.fixture(autouse=True)
def in_double_precision():
    with enable_x64(True):
        yield


def stacked(x, axis, seed=0):
    """Different arguments for each lane, stacked along an axis."""
    random = np.random.default_rng(seed)
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        # The same numbers in another order: still good indices.
        lanes = [random.permutation(x.ravel()).reshape(x.shape) for _ in range(LANES)]
    else:
        lanes = [x * (1 + 0.02 * i) for i in range(LANES)]
    return np.stack(lanes, axis)


def loop(f, args, axes):
    """What vmap must give: one call a lane, stacked."""
    pairs = list(zip(args, axes, strict=True))
    lanes = [
        f(*[x if a is None else np.take(x, i, a) for x, a in pairs])
        for i in range(LANES)
    ]
    return [np.stack(ys) for ys in zip(*map(tree_leaves, lanes), strict=True)]


def assert_lanes(found, wanted, message="", rtol=1e-10):
    for y, w in zip(tree_leaves(found), wanted, strict=True):
        assert y.dtype == w.dtype and y.shape == w.shape, message
        if y.dtype.kind in "iubfc":
            np.testing.assert_allclose(
                y, w, rtol=rtol, atol=1e-10, err_msg=str(message)
            )


def choices_of_axes(args):
    """Each way to map some of the arguments, along their first or last axis."""
    chosen = []
    for mask in itertools.product([True, False], repeat=len(args)):
        if any(mask):
            for last in (False, True):
                chosen.append([
                    None if not m else np.ndim(x) if last else 0
                    for m, x in zip(mask, args, strict=True)
                ])
    return [axes for i, axes in enumerate(chosen) if axes not in chosen[:i]]


@pytest.mark.parametrize("case", cases, ids=repr)
def test_vmap_is_a_loop(case):
    f = lambda *args: case.fun(ours, *args)
    for axes in choices_of_axes(case.args):
        args = [
            x if a is None else stacked(x, a, i)
            for i, (x, a) in enumerate(zip(case.args, axes, strict=True))
        ]
        found = vmap(f, in_axes=tuple(axes))(*args)
        assert_lanes(found, loop(f, args, axes), (case, axes))


@pytest.mark.parametrize("case", cases, ids=repr)
def test_vmap_of_vjp_is_a_loop(case):
    """Transposed programs are vectorised too; all floating arguments have lanes."""
    f = case.function(ours)
    args = [stacked(x, 0) for x in case.varying()]
    n = len(args)
    ct = random_like(np.random.default_rng(0), f(*case.varying()))
    ct = [stacked(c, 0) for c in tree_leaves(ct) if c.dtype.kind in "fc"]

    def pull_back(*values):
        y, back = vjp(lambda *a: floats(f(*a)), *values[:n])
        return back(list(values[n:]))

    found = vmap(pull_back)(*args, *ct)
    assert_lanes(found, loop(pull_back, [*args, *ct], [0] * (n + len(ct))), case)


def floats(tree):
    return [y for y in tree_leaves(tree) if y.dtype.kind in "fc"]


@pytest.mark.parametrize("case", cases[::4], ids=repr)
def test_vmap_of_vmap(case):
    f = case.function(ours)
    args = [stacked(stacked(x, 0, 5), 0, 6) for x in case.varying()]
    found = vmap(vmap(f, in_axes=0), in_axes=1)(*args)
    inner = lambda *lane: loop(f, lane, [0] * len(lane))
    assert_lanes(found, loop(inner, args, [1] * len(args)), case)


@pytest.mark.parametrize("case", cases[1::4], ids=repr)
def test_jit_of_vmap_and_vmap_of_jit(case):
    f = case.function(ours)
    args = [stacked(x, 0) for x in case.varying()]
    wanted = loop(f, args, [0] * len(args))
    assert_lanes(jit(vmap(f), backend="eval")(*args), wanted, case)
    assert_lanes(vmap(jit(f, backend="eval"))(*args), wanted, case)


def test_every_primitive_is_batched_by_a_case():
    met = set()
    for case in cases:
        args = [stacked(x, 0) for x in case.args]
        jaxpr = make_jaxpr(vmap(lambda *a, c=case: c.fun(ours, *a)))(*args)
        met |= {eqn.primitive for eqn in jaxpr.eqns}
    assert len(met) > 70


integers = np.array([5, -3, 0, 12], np.int32)


@pytest.mark.parametrize(
    "f, args",
    [
        (ew.population_count, [integers]),
        (ew.clz, [integers]),
        (ew.shift_left, [integers, np.array([1, 2, 3, 40], np.int32)]),
        (ew.shift_right_logical, [integers, np.array([1, 2, 3, 40], np.int32)]),
        (ew.shift_right_arithmetic, [integers, np.array([1, 2, 3, 40], np.int32)]),
        (ew.is_finite, [np.array([1.0, np.inf, np.nan])]),
        (ew.nextafter, [np.array([1.0, 2.0]), np.array([2.0, 1.0])]),
        (lambda x: ew.bitcast_convert_type(x, "uint8"), [integers]),
        (lambda x: ew.bitcast_convert_type(x, "int32"),
         [np.arange(12, dtype=np.uint8).reshape(3, 4)]),
        (lambda x: lax.argmax(x, 0, "int32"), [np.array([[1.0, 3], [2, 0]])]),
        (lambda x: lax.argmin(x, 1, "int32"), [np.array([[1.0, 3], [2, 0]])]),
        (lambda x: lax.reduce_and(x, (0,)), [np.array([[True, False], [True, True]])]),
        (lambda x: lax.reduce_or(x, (1,)), [np.array([[True, False], [False, False]])]),
        (lambda x: lax.reduce_xor(x, (0,)), [integers]),
        (lax.bitwise_not, [integers]),
        (lax.bitwise_and, [integers, integers[::-1]]),
        (lax.bitwise_or, [integers, integers[::-1]]),
        (lax.bitwise_xor, [integers, integers[::-1]]),
        *[(f, [np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0])])
          for f in (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)],
        (lambda x: lax.select_n(x, np.zeros(3), np.ones(3)), [np.array(True)]),
        (lambda x: sorting.top_k(x, 2), [np.array([1.0, 4, 2, 3])]),
        (lambda x: lax.iota("int32", 3), [np.ones(2)]),
    ],
)
def test_integers_bools_and_constants(f, args):
    for axes in choices_of_axes(args):
        stacks = [
            x if a is None else stacked(x, a, i)
            for i, (x, a) in enumerate(zip(args, axes, strict=True))
        ]
        assert_lanes(
            vmap(f, in_axes=tuple(axes))(*stacks), loop(f, stacks, axes), (f, axes)
        )


def test_every_primitive_has_a_batch_rule():
    names = "primitives elementwise indexing windows sorting".split()
    modules = [__import__(f"minijit.trace.{n}", fromlist="x") for n in names]
    found = {p for m in modules for p in vars(m).values() if isinstance(p, Primitive)}
    assert found - set(batch_rules) == {lax.iota_p}
    assert len(found) > 110


# ---- where the lanes are


def test_composing_costs_no_transposes():
    """S3: two vmaps, and one einsum, are the same product."""
    def f(x, y):
        return jnp.dot(x, y)

    x, y = np.ones((4, 5)), np.ones((6, 5))
    outer = vmap(vmap(f, in_axes=(None, 0)), in_axes=(0, None))
    jaxpr = make_jaxpr(outer)(x, y)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["dot_general"]


def test_out_axes_and_negative_axes():
    x = np.arange(24.0).reshape(2, 3, 4)
    f = lambda x: x * 2
    for axis in (-3, -2, -1, 0, 1, 2):
        found = vmap(f, in_axes=axis, out_axes=axis)(x)
        np.testing.assert_array_equal(found, 2 * x)
    found = vmap(lambda x: (x, x), in_axes=1, out_axes=(0, -1))(x)
    assert [y.shape for y in found] == [(3, 2, 4), (2, 4, 3)]


def test_axes_of_trees():
    p = {"w": np.ones((5, 3)), "b": np.ones(3)}
    found = vmap(lambda p, x: p["w"] @ x + p["b"].sum(),
                 in_axes=({"w": None, "b": 0}, None))(p, np.ones(3))
    assert found.shape == (3, 5)
    found = vmap(lambda p: p["w"] + p["b"][0], in_axes=({"w": 1, "b": None},))(p)
    assert found.shape == (3, 5)


def test_keyword_arguments_are_mapped_along_axis_0():
    found = vmap(lambda x, y: x + y)(np.arange(3.0), y=np.arange(3.0))
    assert found.tolist() == [0, 2, 4]


def test_nothing_mapped_needs_a_size():
    assert vmap(lambda: 1.0, axis_size=3)().tolist() == [1, 1, 1]
    assert vmap(lambda x: x, in_axes=None, axis_size=2)(5.0).tolist() == [5, 5]
    assert vmap(lambda x: 7.0, out_axes=None)(np.ones(3)) == 7.0


def test_what_all_lanes_share_is_computed_once():
    jaxpr = make_jaxpr(lambda x, y: vmap(lambda x: jnp.sin(y) * x)(x))(np.ones(3), 2.0)
    sin, = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "sin"]
    assert sin.outvars[0].aval.shape == ()


def test_the_same_window_in_each_lane_stays_a_slice():
    f = lambda x, i: indexing.dynamic_slice(x, (i,), (2,))
    shared = make_jaxpr(vmap(f, in_axes=(0, None)))(np.ones((3, 5)), 1)
    own = make_jaxpr(vmap(f, in_axes=(0, 0)))(np.ones((3, 5)), np.arange(3))
    assert "dynamic_slice" in str(shared) and "gather" not in str(shared)
    assert "gather" in str(own)


# ---- against other transformations


def test_gradients_of_lanes():
    f = lambda x: jnp.sum(jnp.sin(x) ** 2)
    x = np.arange(6.0).reshape(3, 2)
    wanted = np.sin(2 * x)
    np.testing.assert_allclose(vmap(grad(f))(x), wanted)
    np.testing.assert_allclose(grad(lambda x: jnp.sum(vmap(f)(x)))(x), wanted)
    np.testing.assert_allclose(vmap(jit(grad(f)))(x), wanted)
    y, t = jvp(vmap(f), (x,), (np.ones_like(x),))
    np.testing.assert_allclose(t, wanted.sum(1))


def test_an_argument_all_lanes_share_gets_the_sum_of_cotangents():
    f = lambda w: jnp.sum(vmap(lambda x: w * x)(np.arange(4.0)))
    assert grad(f)(2.0) == 6.0


# ---- collectives


x4 = np.array([1.0, 2.0, 4.0, 9.0])


@pytest.mark.parametrize(
    "f, wanted",
    [
        (lambda x: psum(x, "i"), [16] * 4),
        (lambda x: pmean(x, "i"), [4] * 4),
        (lambda x: pmax(x, "i"), [9] * 4),
        (lambda x: pmin(x, "i"), [1] * 4),
        (lambda x: x - pmean(x, "i"), [-3, -2, 0, 5]),
        (lambda x: axis_index("i"), [0, 1, 2, 3]),
        (lambda x: x * axis_index("i"), [0, 2, 8, 27]),
        (lambda x: psum(1, "i"), [4] * 4),
        (lambda x: psum(np.float64(1.5), "i"), [6] * 4),
        (lambda x: all_gather(x, "i"), [x4.tolist()] * 4),
        (lambda x: psum({"a": x, "b": (x, 2)}, "i")["b"][1], [8] * 4),
        (lambda x: x / axis_size("i"), [0.25, 0.5, 1, 2.25]),
    ],
)
def test_collectives(f, wanted):
    for g in (f, jit(f), lambda x: jit(f)(x)):
        assert vmap(g, axis_name="i")(x4).tolist() == wanted
    assert jit(vmap(f, axis_name="i"))(x4).tolist() == wanted


def test_collectives_over_one_of_two_axes():
    x = np.arange(12.0).reshape(3, 4)
    both = lambda f: vmap(vmap(f, axis_name="j"), axis_name="i")(x)
    np.testing.assert_allclose(both(lambda x: psum(x, "i"))[0], x.sum(0))
    np.testing.assert_allclose(both(lambda x: psum(x, "j"))[:, 0], x.sum(1))
    np.testing.assert_allclose(both(lambda x: psum(x, ("i", "j"))), x.sum() + 0 * x)
    found = both(lambda x: all_gather(x, "i"))
    np.testing.assert_allclose(found[0], x.T)
    assert both(lambda x: axis_index(("i", "j"))).tolist() == (
        np.arange(12).reshape(3, 4).tolist()
    )


def test_gathered_along_another_axis():
    x = np.arange(6.0).reshape(3, 2)
    f = lambda x: all_gather(x, "i", axis=1)
    np.testing.assert_allclose(vmap(f, axis_name="i")(x)[0], x.T)
    f = lambda x: all_gather(x, "i", axis=0, tiled=True)
    np.testing.assert_allclose(vmap(f, axis_name="i")(x)[0], x.ravel())


def test_gradients_through_collectives():
    """As in JAX: the transpose of a sum over lanes is a sum over lanes."""
    f = lambda x: psum(x**2, "i")
    assert vmap(grad(f), axis_name="i")(x4[:3]).tolist() == [6, 12, 24]
    total = lambda x: jnp.sum(vmap(f, axis_name="i")(x))
    assert grad(total)(x4[:3]).tolist() == [6, 12, 24]
    g = lambda x: jnp.sum(all_gather(x**2, "i") * np.arange(3.0))
    assert vmap(grad(g), axis_name="i")(np.array([1.0, 2, 3])).tolist() == [0, 12, 36]


def test_a_trace_knows_the_sizes_of_its_axes():
    """One jitted function under axes of two sizes, and the same name."""
    f = jit(lambda x: pmean(x, "i"))
    assert vmap(f, axis_name="i")(x4).tolist() == [4] * 4
    assert vmap(f, axis_name="i")(x4[:2]).tolist() == [1.5] * 2


def test_a_collective_in_a_call_without_lanes():
    f = jit(lambda y: y * axis_index("i"))
    assert vmap(lambda x: f(2.0), axis_name="i")(x4).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("f", [psum, pmean, pmax, pmin, all_gather])
def test_unbound_names(f):
    with pytest.raises(NameError, match="unbound axis name: i"):
        f(x4, "i")
    with pytest.raises(NameError, match="unbound axis name: j"):
        vmap(lambda x: f(x, "j"), axis_name="i")(x4)


# ---- errors


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: vmap(lambda x, y: x)(np.ones(3), np.ones(4)), ValueError,
         ["inconsistent sizes", "argument x", "argument y", "size 3", "size 4"]),
        (lambda: vmap(lambda p: p["a"])({"a": np.ones(3), "b": np.ones(2)}),
         ValueError, ["p['a']", "p['b']"]),
        (lambda: vmap(lambda x: x, in_axes=1)(np.ones(3)), ValueError,
         ["axis 1", "rank", "(3,)"]),
        (lambda: vmap(lambda x: x)(1.0), ValueError, ["rank", "x"]),
        (lambda: vmap(lambda x: x, in_axes=None)(1.0), ValueError, ["non-None"]),
        (lambda: vmap(lambda x: x, in_axes=(0, 0))(np.ones(3)), ValueError,
         ["2 entries", "1 positional"]),
        (lambda: vmap(lambda x: x, in_axes="0"), TypeError, ["in_axes"]),
        (lambda: vmap(lambda x: x, in_axes=1.0), TypeError, ["in_axes"]),
        (lambda: vmap(lambda x: x, out_axes=None)(np.ones(3)), ValueError,
         ["out_axes=None", "different in each lane"]),
        (lambda: vmap(lambda x: x, out_axes=3)(np.ones(3)), ValueError,
         ["out_axes is 3", "1 axes"]),
        (lambda: vmap(lambda x: x, axis_size=4)(np.ones(3)), ValueError,
         ["axis_size=4", "size 3"]),
        (lambda: vmap(lambda x: 1 if x > 0 else 2)(np.ones(3)),
         minijit.errors.TracerBoolConversionError, ["different value in each lane"]),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    for word in words:
        assert word in str(error.value)


def test_trees_of_axes_that_do_not_fit():
    with pytest.raises(ValueError, match="in_axes"):
        vmap(lambda p: p, in_axes=({"a": 0},))({"b": np.ones(3)})


def test_results_may_be_trees():
    found = vmap(lambda x: {"a": x, "b": [x.sum(), 1]})(np.ones((3, 2)))
    assert tree_map(lambda y: y.shape, found) == {"a": (3, 2), "b": [(3,), (3,)]}
