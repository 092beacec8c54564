"""Products as calls: views of operands and results, and what is copied."""

from types import SimpleNamespace

import numpy as np
import pytest
from convolution_cases import check
from harness import alike, program_of

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.lower.matrix_products import (
    Line, Plan, call_views, is_matrix, merged,
)
from minijit.trace import primitives as prim
from minijit.trace.base.config import config

pytestmark = pytest.mark.chapter(18)
rng = np.random.default_rng(0)


def floats(*shape, dtype="f4"):
    return rng.integers(-4, 5, shape).astype(dtype)


@pytest.fixture(autouse=True)
def small_products_are_calls(request):
    """So that few numbers are enough; but for the test of that limit itself."""
    limited = request.function is test_small_products_and_vectors_are_loops
    changes = {} if limited else {"small_product": 0}
    with config.override("fusion", config.fusion.but(**changes)):
        yield


def counts(program):
    return len(program.calls), len(program.kernels)


def dot(lhs, rhs, contract=((1,), (0,)), batch=((), ()), **params):
    return prim.dot_general(lhs, rhs, (contract, batch), **params)


def test_s3_is_the_same_call_in_both_orders():
    w, a = floats(6, 5), floats(3, 4, 5)
    by_vmap = mj.vmap(mj.vmap(lambda w, a: w @ a, (None, 0)), (None, 0))
    by_einsum = lambda w, a: jnp.einsum("ab,...b->...a", w, a)
    first, second = (check(f, w, a) for f in (by_vmap, by_einsum))
    assert counts(first) == counts(second) == (1, 0)
    describe = lambda call: [
        (v.buffer.name, v.shape, v.strides) for v in (*call.outputs, *call.inputs)
    ]
    assert describe(first.calls[0]) == describe(second.calls[0])
    assert first.calls[0].outputs[0].shape == (12, 6)


def test_a_transposed_result_is_written_by_the_product():
    a, b = floats(4, 5), floats(5, 6)
    program = check(lambda a, b: (a @ b).T, a, b)
    assert counts(program) == (1, 0) and not program.temps
    program = check(lambda a, b: jnp.reshape((a @ b).T, (3, 2, 2, 2)), a, b)
    assert counts(program) == (1, 0) and not program.temps


def test_two_results_of_one_product_need_one_copy():
    a, b = floats(4, 5), floats(5, 6)
    program = check(lambda a, b: (a @ b, (a @ b).T), a, b)
    assert counts(program) == (1, 1)
    program = check(lambda a, b: ((a @ b).T, (a @ b).reshape(6, 4)), a, b)
    assert counts(program) == (1, 1)


@pytest.mark.chapter(21)
def test_a_product_that_a_loop_reads_has_memory_of_its_own():
    def f(a, b):
        c = a @ b
        chosen = lax.cond(a[0, 0] > b[0, 1], lambda c: c * 2, lambda c: c, c)
        return c[None], c.T, chosen

    found = check(f, floats(4, 5), floats(5, 6))
    assert [v.shape for call in found.calls[:1] for v in call.outputs] == [(4, 6)]
    x = floats(60, 60)
    alike(mj.jit(f)(x, x), mj.jit(f, backend="eval")(x, x))


def test_a_product_lies_as_its_readers_want_it():
    a, b, c = floats(4, 5), floats(5, 6), floats(6, 4)
    program = check(lambda a, b, c: jnp.abs((a @ b).T) + c, a, b, c)
    assert counts(program) == (1, 1)
    temp, = program.temps
    assert temp.shape == (6, 4)
    # Two readers that want it in two ways: one of them has to jump.
    program = check(lambda a, b, c: (jnp.abs((a @ b).T) + c, (a @ b) * 2), a, b, c)
    assert counts(program)[0] == 1 and len(program.temps) == 1


@pytest.mark.parametrize("equation", [
    "bshd,bthd->bhst", "bhst,bthd->bshd", "bshd,hde->bse", "bse,hde->bshd",
    "bse,bshd->hde", "bij,bjk->ikb", "bij,bkj->kbi", "ij,bcj->bic", "ibj,bjk->bik",
])  # fmt: skip
def test_an_attention_block_copies_nothing(equation):
    sizes = dict(b=3, s=4, t=5, h=2, d=6, e=7, i=4, j=5, k=6, c=2)
    left, right = equation.split("->")[0].split(",")
    args = [floats(*(sizes[x] for x in part)) for part in (left, right)]
    program = check(lambda x, y: jnp.einsum(equation, x, y), *args)
    copies = 1 if equation == "bij,bjk->ikb" else 0
    assert counts(program) == (1, copies)


def test_products_of_few_columns_are_several_of_many():
    """128 products with 3 columns each took three times as long, for want of lanes."""
    call, = check(lambda x, w: jnp.einsum("hwc,wv->hvc", x, w),
                  floats(128, 64, 3), floats(64, 128)).calls  # fmt: skip
    assert call.outputs[0].shape[-1] == 128


def test_a_factor_is_copied_where_each_call_would_put_the_other_in_order():
    """166 products of 3 rows: 1.7 of JAX's time in an image's gradient, now .8."""
    program = check(lambda x, w: jnp.einsum("ikc,jk->icj", x, w),
                    floats(166, 166, 3), floats(83, 166))  # fmt: skip
    assert counts(program) == (1, 1)
    assert [v.shape for v in program.calls[0].outputs] == [(498, 83)]


def test_only_sums_that_no_view_merges_are_copied():
    x, y = floats(3, 4, 5), floats(3, 5, 4)
    program = check(lambda x, y: dot(x, y, ((0, 2), (0, 1))), x, y)
    assert counts(program) == (1, 1)
    assert [d.rule for d in program.decisions if not d.fused].count("layout") == 1
    x, y = floats(3, 5, 4), floats(3, 5, 4)
    program = check(lambda x, y: dot(x, y, ((0, 1), (0, 1))), x, y)
    assert counts(program) == (1, 0)


def test_lines_are_merged_where_their_steps_fit():
    lines = [Line(1, 7, 7, 7), Line(3, 4, 4, 4), Line(4, 1, 1, 1)]
    assert merged(lines) == [Line(12, 1, 1, 1)]


def test_what_a_matrix_is():
    by_rows, by_columns = ((3, 4), (4, 1)), ((3, 1), (4, 3))
    assert is_matrix(*by_rows) and is_matrix(*by_columns)
    # Rows, or columns, that overlap.
    assert not is_matrix((3, 2), (4, 1)) and not is_matrix((3, 1), (4, 2))
    # The step of what there is only one of means nothing.
    assert is_matrix((1, 0), (4, 1)) and is_matrix((4, 1), (1, 0))


@pytest.mark.parametrize("columns, order", [(5, "ba"), (1, "ab")])
def test_a_result_by_columns_is_that_of_the_transposes(columns, order):
    a, b, c = (SimpleNamespace(buffer=name, offset=0) for name in "abc")
    row, column, total = Line(3, 4, 0, 1), Line(columns, 0, 1, 3), Line(4, 1, 5, 0)
    factors, result = call_views(Plan(0, [], row, column, total), a, b, c)
    assert "".join(factor.buffer for factor in factors) == order
    assert result.buffer == "c"


def test_small_products_and_vectors_are_loops():
    a, b, v = floats(8, 8), floats(8, 8), floats(50)
    assert counts(check(lambda a, b: jnp.abs(a @ b), a, b))[0] == 0
    program = check(lambda a, v: jnp.abs(a @ v) + 1, floats(30, 50), v)
    assert counts(program)[0] == 0
    # Three copies of an image were a call for each row: 1.6 of JAX's time, now .3.
    outer, three = lambda a, v: a @ v + 1, floats(1, 3)
    check(outer, floats(30, 25, 1), three)
    assert counts(program_of(outer, floats(300, 250, 1), three)) == (0, 1)


def test_products_through_layout_operations():
    a, b = floats(12, 10), floats(10, 9)
    sliced = check(lambda a, b: dot(prim.slice(a, (1, 0), (12, 10), (2, 1)), b), a, b)
    assert counts(sliced) == (1, 0)

    def shuffled(a):
        pairs = prim.transpose(prim.reshape(a, (12, 5, 2)), (0, 2, 1))
        return prim.reshape(pairs, (12, 10))

    assert counts(check(lambda a, b: dot(shuffled(a), b), a, b)) == (1, 1)


def random_product(seed):
    """A dot_general of random dimension numbers, factors and result transposed."""
    rng = np.random.default_rng(seed)
    n_batch, n_left, n_right, n_sum = rng.integers([0, 1, 1, 1], [3, 3, 3, 3])
    sizes = lambda n: rng.integers(1, 4, n).tolist()
    batch, left, right, sums = (
        sizes(n_batch), sizes(n_left), sizes(n_right), sizes(n_sum),
    )  # fmt: skip
    shuffle = lambda n: rng.permutation(n).tolist()

    def side(free):
        """(shape, batch axes, contracted axes) in a random order of axes."""
        axes = [*batch, *free, *sums]
        order = shuffle(len(axes))
        shape = [axes[d] for d in order]
        where = [order.index(d) for d in range(len(axes))]
        rest = len(batch) + len(free)
        return shape, tuple(where[: len(batch)]), tuple(where[rest:])

    (s1, b1, c1), (s2, b2, c2) = side(left), side(right)
    p1, p2 = shuffle(len(s1)), shuffle(len(s2))
    p3 = shuffle(len(batch) + len(left) + len(right))
    given = [tuple(np.argsort(p).tolist()) for p in (p1, p2)]
    x = floats(*s1).transpose(p1)
    y = floats(*s2).transpose(p2)

    def f(x, y):
        x, y = prim.transpose(x, given[0]), prim.transpose(y, given[1])
        return prim.transpose(dot(x, y, (c1, c2), (b1, b2)), tuple(p3))

    return f, np.ascontiguousarray(x), np.ascontiguousarray(y)


@pytest.mark.parametrize("seed", range(60))
def test_products_of_any_dimension_numbers(seed):
    f, x, y = random_product(seed)
    program = check(f, x, y)
    # At most the factors are copied, and never the result as well.
    assert len(program.calls) <= 1
