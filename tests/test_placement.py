"""Where results are to lie: with one device it is checked, and arrays answer it."""

import copy
import pickle

import numpy as np
import pytest
from harness import refused

import minijit
from minijit import NamedSharding, P, lax, nn, numpy as jnp, random

pytestmark = pytest.mark.chapter(25)

mesh = minijit.make_mesh((1, 1), ("rows", "columns"))
rows = NamedSharding(mesh, P("rows"))
x, key = jnp.arange(6.0).reshape(2, 3), random.key(0)
contracting = (((1,), (1,)), ((), ()))


@pytest.mark.parametrize(
    "call",
    [lambda where: jnp.dot(x, x.T, out_sharding=where),
     lambda where: jnp.zeros((2, 2), out_sharding=where),
     lambda where: lax.dot_general(x, x, contracting, out_sharding=where),
     lambda where: random.normal(random.key(0), (2,), out_sharding=where),
     lambda where: jnp.einsum("ij->i", x, out_sharding=where),
     lambda where: x.at[0].get(out_sharding=where),
     lambda where: x.at[0].add(1.0, out_sharding=where),
     lambda where: x.reshape(-1, out_sharding=where),
     lambda where: nn.initializers.zeros(key, (2,), "float32", where),
     lambda where: nn.initializers.he_normal()(key, (2, 3), out_sharding=where)],
)
def test_out_sharding_changes_nothing(call):
    wanted = call(None).tolist()
    assert call(rows).tolist() == wanted
    assert minijit.jit(lambda: call(rows))().tolist() == wanted


def test_an_array_has_one_shard():
    x = jnp.arange(6.0).reshape(2, 3)
    (shard,) = x.addressable_shards
    assert shard.data is x.addressable_data(0) is x and len(x.global_shards) == 1
    assert shard.device == minijit.devices()[0] and shard.replica_id == 0
    assert x[shard.index].shape == shard.data.shape == (2, 3)
    with pytest.raises(IndexError):
        x.addressable_data(1)


# ---- Arrays answer how they were placed, as JAX's do on one device


def on(jax, *spec, kind="Auto"):
    types = (getattr(jax.sharding.AxisType, kind),) * 2
    return jax.NamedSharding(jax.make_mesh((1, 1), ("x", "y"), types), jax.P(*spec))


def put(jax, *spec, kind="Auto"):
    x = jax.numpy.arange(6.0).reshape(2, 3)
    return jax.device_put(x, on(jax, *spec, kind=kind))


def answers(tree):
    """What a tree of arrays says of where they are."""
    import jax

    leaves = jax.tree.leaves(minijit.tree.leaves(tree))
    return [
        (str(x.sharding), x.committed, x.sharding.is_fully_replicated) for x in leaves
    ]


def named_keys(jax):
    return jax.device_put(jax.random.key(0), on(jax))


of_auto_axes = {
    "put": lambda jax, a: a,
    "put again": lambda jax, a: jax.device_put(a),
    "put, with a tree": lambda jax, a: jax.device_put([a, 1.0], [on(jax, "y"), None]),
    "copies": lambda jax, a: [jax.numpy.array(a), a.copy()],
    "keys": lambda jax, a: named_keys(jax),
    "elementwise": lambda jax, a: [a + 1, a * a, jax.numpy.exp(a), -a, a.astype(int)],
    "a plain one first": lambda jax, a: [1 + a, jax.numpy.ones((2, 3)) + a],
    "fewer axes": lambda jax, a: [a.sum(), a.sum(0), a[0], a.reshape(6)],
    "like it": lambda jax, a: [jax.numpy.zeros_like(a), jax.numpy.full_like(a, 2)],
    "transposed": lambda jax, a: [a.T, a @ a.T],
    "made there": lambda jax, a: [
        jax.numpy.zeros(3, device=on(jax, "x")),
        jax.numpy.asarray(np.ones(3), device=on(jax, "x")),
        jax.make_array_from_callback((2,), on(jax, "x"), lambda i: np.ones(2, "f")),
    ],
    "constrained": lambda jax, a: [
        jax.lax.with_sharding_constraint(x, on(jax, "y")) for x in (a, a.sum(0) * 2)
    ],
    "shard_map": lambda jax, a: jax.shard_map(
        lambda x, y: (x * 2, y), mesh=on(jax).mesh, in_specs=(jax.P("x"), jax.P()),
        out_specs=(jax.P("x"), jax.P()),
    )(a, jax.numpy.ones(3)),
    "jit": lambda jax, a: jax.jit(lambda x: (x * 2, x.sum(0), x))(a),
    "jit of a tree": lambda jax, a: jax.jit(lambda d: d["b"] * 2)({"a": 1.0, "b": a}),
    "jit, a plain one first": lambda jax, a: jax.jit(lambda x, y: (y, x + 1))(1.0, a),
    "jit that uses no argument": lambda jax, a: jax.jit(lambda x: x.shape[0])(a),
    "jit, results placed": lambda jax, a: jax.jit(
        lambda x: {"p": x + 1, "q": x.sum()},
        out_shardings={"p": on(jax, "y"), "q": None},
    )(a),
    "jit, plain arguments, results placed": lambda jax, a: jax.jit(
        lambda: (jax.numpy.ones(3), 2.0), out_shardings=on(jax)
    )(),
    "jit, arguments placed": lambda jax, a: jax.jit(
        lambda n, x: x * n, in_shardings=on(jax), static_argnums=0
    )(2, np.ones(3, "f")),
    "compiled": lambda jax, a: jax.jit(lambda x: x + 1, out_shardings=on(jax, "y"))
    .lower(a).compile()(a),
    "lanes": lambda jax, a: jax.vmap(lambda x: x * 2)(a),
    "a mesh around": lambda jax, a: within(jax, lambda: jax.device_put(a, jax.P("y"))),
}  # fmt: skip


def within(jax, f):
    with jax.set_mesh(on(jax).mesh):
        return f()


of_explicit_axes = {
    "put": lambda jax, a: a,
    "elementwise": lambda jax, a: [a + 1, jax.numpy.ones((2, 3)) + a, jax.numpy.exp(a)],
    "moved axes": lambda jax, a: [a.T, a.sum(0), a.sum(1), a.max(), a[0], a[None]],
    "products": lambda jax, a: [a @ jax.numpy.ones((3, 4)), jax.numpy.ones((4, 2)) @ a],
    "jit": lambda jax, a: jax.jit(lambda x: (x.T * 2, jax.jit(sum)(x), x, 1.0 + x))(a),
    "gradient": lambda jax, a: jax.grad(lambda x: (x**2).sum())(a),
    "loops": lambda jax, a: jax.lax.fori_loop(0, 3, lambda i, x: x + 1, a),
    "results placed": lambda jax, a: jax.jit(
        lambda x: x * 2, out_shardings=on(jax, None, "y", kind="Explicit")
    )(a),
}


@pytest.mark.oracle
@pytest.mark.parametrize("case", of_auto_axes)
def test_sharding_over_auto_axes(case):
    jax = pytest.importorskip("jax")
    ours, theirs = (of_auto_axes[case](m, put(m, "x", None)) for m in (minijit, jax))
    assert answers(ours) == answers(theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("case", of_explicit_axes)
def test_sharding_over_explicit_axes(case):
    jax = pytest.importorskip("jax")
    ours, theirs = (
        of_explicit_axes[case](m, put(m, "x", None, kind="Explicit"))
        for m in (minijit, jax)
    )
    assert answers(ours) == answers(theirs)


def test_a_placed_array_is_an_array():
    a = put(minijit, "x", None)
    f = minijit.jit(lambda x: x * 2)
    for _ in range(4):  # The second call is made ready for plain arrays only.
        assert f(jnp.ones((2, 3))).sharding == jnp.ones(3).sharding
        assert f(a).sharding == a.sharding
    assert f.traces and len(f.traces) == 1
    assert np.asarray(a) is not None and a.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert copy.deepcopy(a).sharding == a.sharding and repr(a).startswith("Array([[")
    assert type(pickle.loads(pickle.dumps(a))) is type(jnp.ones(3))
    assert minijit.device_put(a, a.sharding) is a
    back = minijit.device_put(a, minijit.devices()[0])
    assert type(back) is type(jnp.ones(3)) and back.tolist() == a.tolist()
    kept = put(minijit, "x", None)
    donated = minijit.jit(lambda x: x + 1, donate_argnums=0)(kept)
    assert kept.is_deleted() and donated.sharding == a.sharding
    for use in (lambda x: minijit.device_put(x, minijit.devices()[0]),
                minijit.block_until_ready):  # fmt: skip
        refused(RuntimeError, "has been deleted", use, kept)
