"""Control flow as JAX's documentation describes it, tried on programs of our own."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import debug, lax

pytestmark = [pytest.mark.chapter(13), pytest.mark.usefixtures("interpreted")]


# ---- cond and switch


def test_cond_runs_one_branch():
    ran = []

    def noting(name, f):
        def branch(x):
            debug.callback(lambda: ran.append(name))
            return f(x)

        return branch

    first, second = noting("up", lambda x: x + 1.0), noting("down", lambda x: x - 1.0)
    f = mj.jit(lambda p, x: lax.cond(p, first, second, x))
    assert float(f(True, 3.0)) == 4.0 and ran == ["up"]
    assert float(f(False, 3.0)) == 2.0 and ran == ["up", "down"]


def test_cond_is_one_equation_and_a_select_in_its_effect_on_lanes():
    relu = lambda x: lax.cond(x > 0, lambda x: x, lambda x: 0.0 * x, x)
    assert [e.primitive.name for e in mj.make_jaxpr(relu)(1.0).eqns][-1] == "cond"
    xs = jnp.array([-1.0, 2.0, -3.0])
    np.testing.assert_array_equal(mj.vmap(relu)(xs), [0.0, 2.0, 0.0])
    np.testing.assert_array_equal(mj.vmap(mj.grad(relu))(xs), [0.0, 1.0, 0.0])
    # A predicate without lanes is still one branch for all.
    shared = mj.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), in_axes=(None, 0))
    names = [e.primitive.name for e in mj.make_jaxpr(shared)(True, xs).eqns]
    assert names.count("cond") == 1 and "select_n" not in names


# ---- loops


def test_a_body_runs_in_python_once_however_often_it_runs():
    seen = []

    def body(i, x):
        seen.append(i)
        return x + i

    assert int(mj.jit(lambda n: lax.fori_loop(0, n, body, 0))(1000)) == 499500
    assert len(seen) == 1
    with mj.disable_jit():
        assert int(lax.fori_loop(0, 4, body, 0)) == 6
    assert [int(i) for i in seen[1:]] == [0, 1, 2, 3]


def test_disable_jit_lets_python_look_inside():
    halves = []

    def step(x):
        halves.append(float(x))
        return x / 2

    with mj.disable_jit():
        lax.while_loop(lambda x: x > 1, step, jnp.float32(5.0))
        ys = lax.scan(lambda c, x: (c + x, float(c)), 0.0, jnp.arange(3.0))[1]
        lax.cond(True, step, lambda x: x, jnp.float32(7.0))
    assert halves == [5.0, 2.5, 1.25, 7.0]
    np.testing.assert_array_equal(ys, [0.0, 0.0, 1.0])


def test_reverse_mode_where_the_number_of_steps_is_traced():
    """In JAX such a loop cannot be reversed; `test_as_unrolled` has the others."""
    power = lambda n, x: lax.fori_loop(0, n, lambda i, c: c * x, 1.0)
    by_traced = lambda x: mj.jit(power)(4, x)
    assert float(by_traced(2.0)) == 16.0
    assert float(mj.grad(by_traced)(2.0)) == 32.0
    assert float(mj.jvp(by_traced, (2.0,), (1.0,))[1]) == 32.0
    assert float(mj.grad(mj.grad(by_traced))(2.0)) == 48.0


# ---- scan


@pytest.mark.parametrize("unroll", [1, 2, 3, 7, True, False])
def test_unrolling_changes_nothing_but_the_param(unroll):
    xs = jnp.arange(7.0)
    step = lambda c, x: (jnp.sin(c) + x, c)
    f = lambda xs, unroll: lax.scan(step, 0.5, xs, unroll=unroll)
    for got, want in zip(f(xs, unroll), f(xs, 1), strict=True):
        np.testing.assert_array_equal(got, want)
    eqn = mj.make_jaxpr(lambda xs: f(xs, unroll))(xs).eqns[-1]
    assert eqn.params["unroll"] == (7 if unroll is True else max(int(unroll), 1))


def test_the_size_of_a_program_does_not_depend_on_the_steps():
    def f(length):
        body = lambda c, _: (jnp.tanh(c), None)
        return lambda x: lax.scan(body, x, None, length=length)[0]

    def size(length):
        return len(str(mj.make_jaxpr(mj.grad(f(length)))(0.5)).splitlines())

    assert size(10) == size(1000)


# ---- map and associative_scan


def test_a_branch_in_a_map_is_a_branch():
    """In a vmap all lanes compute both sides."""
    relu = lambda x: lax.cond(x > 0, lambda x: x, lambda x: 0.0, x)
    text = str(mj.make_jaxpr(lambda xs: lax.map(relu, xs))(jnp.arange(3.0)))
    assert "cond" in text and "select_n" not in text


def test_platform_dependent_takes_what_is_for_this_platform():
    f = lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)
    assert float(mj.jit(f)(0.5)) == pytest.approx(np.sin(0.5))
    f = lambda x: lax.platform_dependent(x, tpu=jnp.sin, default=jnp.cos)
    assert float(f(0.5)) == pytest.approx(np.cos(0.5))
    with pytest.raises(ValueError, match="no function for cpu and no default"):
        lax.platform_dependent(0.5, tpu=jnp.sin)


def test_primitives_have_their_names():
    names = [p.name for p in (lax.cond_p, lax.scan_p, lax.while_p)]
    assert names == ["cond", "scan", "while"]
