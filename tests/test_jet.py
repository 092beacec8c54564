"""Taylor series through programs: against `jvp`s in each other, and against jax."""

import numpy as np
import pytest
from harness import alike

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.experimental.jet import jet
from minijit.scipy import special

pytestmark = pytest.mark.chapter(25)

pair = lambda x: jnp.stack([x, x * x])
elementwise = {
    "names": lambda x: jnp.sin(x) + jnp.exp(x) * jnp.log(x) - jnp.tanh(x),
    "powers": lambda x: x**3 + x**2.5 + x**-2 + jnp.sqrt(x) + lax.rsqrt(x) + x**x,
    "quotients": lambda x: jnp.sin(x) / (1 + x * x) / 3 + 2 / x,
    "special": lambda x: special.erf(x) + mj.nn.sigmoid(x) + jnp.log1p(x),
    "cases": lambda x: jnp.where(x > 0, x * x, jnp.exp(x)) + jnp.maximum(x, 0.1),
    "arrays": lambda x: jnp.cumsum(jnp.ones((3, 2)) @ pair(x)) + jnp.max(pair(x)),
    "softmax": lambda x: mj.nn.softmax(pair(x)),
    "a jitted function": mj.jit(lambda x: {"a": x, "b": [jnp.floor(x), 3 * x]}),
}
programs = elementwise | {
    "scan": lambda x: lax.scan(lambda c, _: (jnp.sin(c * x), c), x, None, length=3),
    "cond": lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x),
    "while": lambda x: lax.while_loop(lambda c: c < 5.0, lambda c: 2 * c + x * c, x),
    "matrices": lambda x: jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 1.0]]) + x),
    "scatter": lambda x: jnp.zeros(3).at[1].set(x).at[0].add(x * x),
    "rules": lambda x: mj.nn.softplus(x) + mj.nn.relu(x),
}
x, terms = 0.7, (1.0, 0.5, -0.3)


@pytest.mark.parametrize("name", programs)
def test_derivatives_of_a_path_are_those_of_jvps_in_each_other(name):
    fun = programs[name]
    path = lambda t: fun(x + t * (1.0 + t * (0.25 - 0.05 * t)))
    derivatives = [path]
    for _ in terms:
        f = derivatives[-1]
        derivatives.append(lambda t, f=f: mj.jvp(f, (t,), (1.0,))[1])
    y, series = mj.jit(lambda x: jet(fun, (x,), (terms,)))(x)
    lists = mj.tree.structure(y).flatten_up_to(series)
    found = [[y, *ts] for y, ts in zip(mj.tree.leaves(y), lists, strict=True)]
    wanted = zip(*[mj.tree.leaves(f(0.0)) for f in derivatives], strict=True)
    alike(found, [*map(list, wanted)], rtol=1e-3, atol=1e-3)


@pytest.mark.oracle
def test_structures_and_values_are_jax_s():
    jax = pytest.importorskip("jax")
    from jax.experimental.jet import jet as jax_jet

    def both(fun, *args, **options):
        ours = jet(lambda *a: fun(jnp, *a), *args, **options)
        theirs = jax_jet(lambda *a: fun(jax.numpy, *a), *args, **options)
        assert str(mj.tree.structure(ours)) == str(jax.tree.structure(theirs))
        alike(mj.tree.leaves(ours), jax.tree.leaves(theirs), rtol=1e-5, atol=1e-5)

    v = np.ones(3, "float32")
    both(lambda np, x: np.sin(x), (v,), ((v, 2 * v, v),))
    both(lambda np, x: np.exp(x) * x, (v,), ((v, 2 * v, v),), factorial_scaled=False)
    both(lambda np, x, y: {"p": (x / y, 2 * x), "c": np.sign(y)}, (v, v), ([v], [v]))


def test_terms_are_as_many_for_each_argument():
    with pytest.raises(ValueError, match="jet terms have inconsistent lengths"):
        jet(jnp.multiply, (1.0, 2.0), ((1.0,), (1.0, 0.0)))


def test_n_terms_do_not_cost_two_to_the_n():
    def count(n):
        ones = (1.0, *[0.0] * (n - 1))
        traced = mj.make_jaxpr(lambda x: jet(jnp.tanh, (x,), (ones,)))(0.5)
        return len(traced.eqns)

    assert count(8) < 8 * count(4)
