"""Mutable arrays: read and written eagerly, in traces, loops, derivatives and lanes."""

import copy

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp

pytestmark = pytest.mark.chapter(16)


def value(ref):
    return np.asarray(ref[...]).tolist()


def test_reads_and_writes():
    ref = mj.new_ref(jnp.arange(5))
    ref[1:3] = jnp.array([10, 20])
    ref[-1] += 1
    ref[jnp.array([0, 3])] = jnp.array([7, 8])
    assert value(ref) == [7, 10, 20, 8, 5]
    assert mj.ref.swap(ref, 0, 1).tolist() == 7
    mj.ref.addupdate(ref, slice(0, 2), jnp.array([1, 1]))
    ref.addupdate(jnp.ones(5, int))
    assert value(ref) == [3, 12, 21, 9, 6]
    assert mj.ref.get(ref, slice(0, 2)).tolist() == [3, 12]
    mj.ref.set(ref, ..., jnp.zeros(5, int))
    assert repr(ref) == "Ref([0, 0, 0, 0, 0], dtype=int32)"
    found = ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)
    assert found == ((5,), jnp.int32, 1, 5, 5)
    assert isinstance(ref, mj.Ref) and not isinstance(ref, mj.Array)
    assert str(mj.typeof(ref)) == "Ref{int32[5]}"
    half = mj.new_ref(jnp.zeros(2, "float16"))
    half[0] = 1.5
    assert value(half) == [1.5, 0] and half.dtype == "float16"


def test_a_copy_is_another_ref():
    ref = mj.new_ref(jnp.zeros(2))
    other = copy.deepcopy(ref)
    ref[0] = 1.0
    assert (value(ref), value(other)) == ([1.0, 0.0], [0.0, 0.0])


def write(i, x):
    def program(ref):
        ref[i] = x

    return program


wrong = {
    "shape": (write(..., 1.0), ValueError, "Invalid shape for `swap`. Ref shape: "),
    "dtype": (write(0, 1), ValueError, "Invalid dtype for `swap`. Ref dtype: "),
    "outside": (write(7, 1.0), ValueError, "Out of bound indexer: "),
    "axes": (lambda r: r[0, 0], ValueError, "`indices` must not be longer than "),
    "a ref": (lambda r: write(..., mj.new_ref(r[...]))(r), ValueError,
              "Cannot store a Ref into another Ref. Did you forget to load from it "),
    "a list": (lambda r: mj.new_ref([1.0]), TypeError, "Error interpreting argument "),
    "as an array": (jnp.sum, TypeError, "sum requires ndarray or scalar arguments"),
    "returned": (lambda r: mj.jit(lambda r: r)(r), ValueError, "function <lambda> at "),
    "twice": (lambda r: mj.jit(lambda a, b: a[0] + b[0])(r, r), ValueError,
              "only one reference to a mutable array may be passed as an argument to "),
    "captured and given": (lambda r: mj.jit(lambda a: a[0] + r[0])(r), ValueError,
                           "when tracing <lambda>"),
    "from a loop": (lambda r: mj.lax.scan(lambda c, x: (c, r), 0, jnp.arange(2)),
                    ValueError, "function <lambda> at "),
    "lanes": (lambda r: mj.vmap(lambda x: write(0, x)(r))(jnp.arange(2.0)), Exception,
              "performing a set/swap operation with vmapped value on an unbatched "),
    "tangents": (lambda r: mj.grad(lambda x: (write(0, x)(r), x)[1])(1.0), Exception,
                 "performing a set/swap operation with a differentiated value on a "),
}  # fmt: skip


@pytest.mark.parametrize("case", wrong)
def test_mistakes_have_jax_words(case):
    program, kind, words = wrong[case]
    ref = mj.new_ref(jnp.zeros(3))
    with pytest.raises(kind) as error:
        program(ref)
    assert type(error.value) is kind and str(error.value).startswith(words)
    assert value(ref) == [0.0, 0.0, 0.0]


@pytest.mark.oracle
@pytest.mark.parametrize("case", wrong)
def test_jax_says_the_same(case):
    jax = pytest.importorskip("jax")
    program, kind, words = wrong[case]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("mj", "jnp"):
            patch.setitem(globals(), name, {"mj": jax, "jnp": jax.numpy}[name])
        with pytest.raises(kind) as error:
            program(jax.new_ref(jax.numpy.zeros(3)))
    assert str(error.value).startswith(words)


def test_what_minijit_refuses():
    ref = mj.new_ref(jnp.zeros(3))
    with pytest.raises(NotImplementedError, match="may read a Ref, but not write"):
        mj.lax.while_loop(lambda c: (write(0, 1.0)(ref), c < 3)[1], lambda c: c + 1, 0)
    with pytest.raises(NotImplementedError, match="cannot be written in a function"):
        mj.closure_convert(lambda x: (write(0, x)(ref), x)[1], 1.0)
    with pytest.raises(ValueError, match="was frozen"):
        mj.freeze(ref)
        ref[0] = 1.0
    kept = []
    mj.jit(lambda x: kept.append(mj.new_ref(x)))(1.0)
    refused(ValueError, "the trace is over", lambda: kept[0][...])


def test_a_jitted_function_is_traced_once_and_writes():
    given, captured = mj.new_ref(jnp.zeros(2)), mj.new_ref(0)

    @mj.jit
    def step(ref, x):
        captured[...] += 1
        ref[0] = x
        return ref[1] + x

    assert [float(step(given, x)) for x in (3.0, 4.0)] == [3.0, 4.0]
    assert (value(given), value(captured)) == ([4.0, 0.0], 2)
    captured[...] = 10
    assert float(step(mj.new_ref(jnp.ones(2)), 1.0)) == 2.0
    assert value(captured) == 11 and len(step.traces) == 1
    # An array in its place is another signature.
    refused(TypeError, "immutable", step, jnp.zeros(2), 1.0)


def test_jit_within_jit():
    ref = mj.new_ref(jnp.zeros(2))
    inner = mj.jit(lambda r, x: write(1, x)(r))

    @mj.jit
    def outer(r):
        inner(r, 5.0)
        mine = mj.new_ref(r[1])
        inner(r, mine[...] + 1)
        return mj.freeze(mine)

    assert float(outer(ref)) == 5.0 and value(ref) == [0.0, 6.0]


def in_scan(ref):
    def body(c, x):
        ref[0] += x
        return c + ref[0], ref[1]

    return mj.lax.scan(body, 0.0, jnp.arange(3.0))[0]


def in_fori_loop(ref):
    def body(i, c):
        ref[0] += 1.0
        return c + ref[0]

    return mj.lax.fori_loop(0, 3, body, 0.0)


def in_while_loop(ref):
    """The test reads what the body writes."""

    def body(c):
        ref[0] += 2.0
        return c + ref[1]

    return mj.lax.while_loop(lambda c: ref[0] < 5.0, body, 0.0)


def in_cond(ref):
    """Only one of the branches writes, the other one reads."""
    return mj.lax.cond(ref[0] == 0.0, lambda r: write(0, 7.0)(r), lambda r: None, ref)


def in_switch(ref):
    branches = [lambda: ref[0], lambda: (write(0, 3.0)(ref), ref[0])[1]]
    return mj.lax.switch(1, branches)


def in_checkpoint(ref):
    return mj.checkpoint(lambda x: (write(0, x * 2)(ref), x)[1])(4.0)


loops = [in_scan, in_fori_loop, in_while_loop, in_cond, in_switch, in_checkpoint]


def run_loops(convert=lambda f: f):
    found = []
    for program in loops:
        ref = mj.new_ref(jnp.array([0.0, 1.0, 2.0]))
        result = convert(program)(ref)
        found.append((None if result is None else float(result), value(ref)))
    return found


after_loops = [
    (4.0, [3.0, 1.0, 2.0]),
    (6.0, [3.0, 1.0, 2.0]),
    (3.0, [6.0, 1.0, 2.0]),
    (None, [7.0, 1.0, 2.0]),
    (3.0, [3.0, 1.0, 2.0]),
    (4.0, [8.0, 1.0, 2.0]),
]


def test_branches_and_loops_in_jit():
    assert run_loops(mj.jit) == after_loops


def test_branches_write_when_they_are_asked_again():
    ref = mj.new_ref(jnp.zeros(2))
    first = lambda: write(0, ref[0] + 1.0)(ref)
    second = lambda: write(1, ref[1] + 1.0)(ref)
    for p in (True, False, True):
        mj.lax.cond(p, first, second)
    assert value(ref) == [2.0, 1.0]


def powers(x):
    """The sum of t * x^(t + 1): a ref is made within, and written in a loop."""
    total = mj.new_ref(jnp.zeros(()))

    def body(c, t):
        total[...] += c * t
        return c * x, None

    mj.lax.scan(body, x, jnp.arange(4.0))
    return total[...]


def test_a_derivative_may_write_what_has_no_tangent():
    ref = mj.new_ref(jnp.zeros(3))

    def f(x):
        ref[0] = mj.lax.stop_gradient(x)
        ref[1] += 1.0
        return x * x

    assert float(mj.grad(f)(3.0)) == 6.0 and value(ref) == [3.0, 1.0, 0.0]


def test_lanes():
    ref = mj.new_ref(jnp.zeros((2, 3)))

    def f(row, x):
        row[0] += x
        return row[1] + x

    assert mj.vmap(f)(ref, jnp.arange(2.0)).tolist() == [0.0, 1.0]
    assert mj.vmap(mj.jit(f), in_axes=(1, None))(ref, 5.0).tolist() == [6.0, 5.0, 5.0]
    assert value(ref) == [[5.0, 5.0, 5.0], [1.0, 0.0, 0.0]]
    assert mj.vmap(powers)(jnp.arange(3.0)).tolist() == [0.0, 6.0, 68.0]
    made = mj.vmap(lambda x: mj.new_ref(x + 1))(jnp.arange(2.0))
    assert isinstance(made, mj.Ref) and value(made) == [1.0, 2.0]


def test_lanes_of_loops():
    ref = mj.new_ref(jnp.zeros((2, 3)))
    take = mj.vmap(lambda r, p: mj.lax.cond(p, lambda: write(0, 7.0)(r), lambda: None))
    take(ref, jnp.array([True, False]))
    fill = lambda r: mj.lax.fori_loop(0, 3, lambda i, c: write(i, c)(r) or c, 1.0)
    mj.vmap(fill)(ref)
    assert value(ref) == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
