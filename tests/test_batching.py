"""vmap: each rule against a Python loop, axes wherever they are, and its errors."""

import itertools
from functools import partial

import numpy as np
import pytest
from derivative_cases import cases, ours
from harness import alike, refused

import minijit.numpy as jnp
from minijit import grad, jit, make_jaxpr, vjp, vmap
from minijit.test_util import random_like
from minijit.trace import primitives as lax, slicing
from minijit.trace.trees.pytree import tree_leaves
from minijit.transform.batching.collectives import (
    all_gather, axis_index, axis_size, pmax, pmean, pmin, psum,
)
from minijit.transform.batching.vmap import move_axis

pytestmark = [
    pytest.mark.chapter(9),
    pytest.mark.usefixtures("in_double_precision", "no_words_of_the_test"),
]

LANES = 3
if not hasattr(ours, "gather"):
    # Windows of each lane's own are gathers, which come with a later chapter.
    cases = [case for case in cases if not case.name.startswith("dynamic_")]


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


assert_lanes = partial(alike, rtol=1e-10, atol=1e-10)


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
    check_lanes(lambda *args: case.fun(ours, *args), case.args)


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


@pytest.mark.parametrize("source", range(3))
@pytest.mark.parametrize("target", range(3))
def test_an_axis_is_moved_and_the_others_keep_their_order(source, target):
    x = np.arange(24.0).reshape(2, 3, 4)
    moved = move_axis(jnp.asarray(x), source, target)
    np.testing.assert_array_equal(moved, np.moveaxis(x, source, target))


@pytest.mark.parametrize("x_axis", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("y_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("subscripts", ["bij,bj->bi", "bij,bjk->bik", "ijb,bkj->bik"])
def test_products_of_batches_with_lanes_anywhere(x_axis, y_axis, subscripts):
    x_axes, y_axes = subscripts.partition("->")[0].split(",")
    sizes = {"b": 2, "i": 4, "j": 5, "k": 6}
    both = [tuple((axes.index(c),) for axes in (x_axes, y_axes)) for c in "jb"]
    lane = lambda x, y: lax.dot_general(x, y, tuple(both))
    x, y = (
        np.random.default_rng(0).normal(size=[LANES, *(sizes[c] for c in axes)])
        for axes in (x_axes, y_axes)
    )
    if x_axis is None and y_axis is None:
        return
    x, y = (a[0] if n is None else a for a, n in ((x, x_axis), (y, y_axis)))
    pairs = (x, x_axis), (y, y_axis)
    want = [
        np.einsum(subscripts, *(a if d is None else a[n] for a, d in pairs))
        for n in range(LANES)
    ]
    x, y = (a if n is None else np.moveaxis(a, 0, n) for a, n in pairs)
    np.testing.assert_allclose(vmap(lane, (x_axis, y_axis))(x, y), want, rtol=1e-12)


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


def met_in_lanes():
    """The primitives that are batched in some case."""
    met = set()
    for case in cases:
        args = [stacked(x, 0) for x in case.args]
        jaxpr = make_jaxpr(vmap(lambda *a, c=case: c.fun(ours, *a)))(*args)
        met |= {eqn.primitive for eqn in jaxpr.eqns}
    return met


def test_every_primitive_is_batched_by_a_case():
    assert len(met_in_lanes()) > 30


integers = np.array([5, -3, 0, 12], np.int32)


@pytest.mark.parametrize("f, args", [
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
    (lambda x: lax.iota("int32", 3), [np.ones(2)]),
])  # fmt: skip
def test_integers_bools_and_constants(f, args):
    check_lanes(f, args)


def test_numbers_chosen_by_an_array_in_each_lane():
    """JAX minds this only outside `vmap`; programs choose so among actions."""
    taken = np.array([[True], [False], [True]])
    for f in (lambda x: lax.select(x, 0, 1), lambda x: lax.select_n(x, 1, 0)):
        assert vmap(f)(taken).tolist() == [[0], [1], [0]]
        refused(TypeError, "same shape as cases", f, taken[0])


def check_lanes(f, args):
    """However its arguments are mapped, a function in lanes is a loop."""
    for axes in choices_of_axes(args):
        stacks = [
            x if a is None else stacked(x, a, i)
            for i, (x, a) in enumerate(zip(args, axes, strict=True))
        ]
        assert_lanes(
            vmap(f, in_axes=tuple(axes))(*stacks), loop(f, stacks, axes), (f, axes)
        )


# ---- collectives


x4 = np.array([1.0, 2.0, 4.0, 9.0])


@pytest.mark.parametrize("f, wanted", [
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
])  # fmt: skip
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
    found = both(lambda x: all_gather(x, ("i", "j")))
    np.testing.assert_allclose(found[1, 2], x.reshape(found.shape[2:]))
    rows = np.arange(24.0).reshape(2, 3, 4)
    found = vmap(vmap(lambda x: all_gather(x, "i", axis=1)), axis_name="i")(rows)
    np.testing.assert_allclose(found[0], np.moveaxis(rows, 0, 2))
    assert both(lambda x: axis_index(("i", "j"))).tolist() == (
        np.arange(12).reshape(3, 4).tolist()
    )


@pytest.mark.chapter(16)
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


@pytest.mark.parametrize("f", [psum, pmean, pmax, pmin, all_gather])
def test_unbound_names(f):
    refused(NameError, "unbound axis name: i", f, x4, "i")
    with pytest.raises(NameError, match=r"unbound axis name: j.*\['i'\]"):
        vmap(lambda x: f(x, "j"), axis_name="i")(x4)


def test_a_window_elsewhere_in_each_lane_says_what_it_needs(monkeypatch):
    from minijit.transform.batching import windows as window_lanes

    monkeypatch.setattr(window_lanes, "windows_in_lanes", {})
    x, starts = jnp.arange(5.0), jnp.arange(3)
    read = lambda i: slicing.dynamic_slice_p.bind(x, i, slice_sizes=(2,))
    refused(NotImplementedError, "differs from lane to lane", vmap(read), starts)


@pytest.mark.parametrize("axes, transposed", [((1, 1, 1), 0), ((0, 1, 0), 1)])
def test_lanes_stay_where_most_of_them_are(axes, transposed):
    *axes, out = axes
    args = [np.ones((2, 3) if axis else (3, 2)) for axis in axes]
    jaxpr = make_jaxpr(vmap(lambda x, y: x + y, axes, out))(*args)
    assert str(jaxpr).count("transpose") == transposed
