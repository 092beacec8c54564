"""Where results are to lie: with one device it is checked, and no more."""

import pytest

import minijit
from minijit import NamedSharding, P, lax, numpy as jnp, random

pytestmark = pytest.mark.chapter(24)

mesh = minijit.make_mesh((1, 1), ("rows", "columns"))
rows = NamedSharding(mesh, P("rows"))
x = jnp.arange(6.0).reshape(2, 3)
contracting = (((1,), (1,)), ((), ()))


@pytest.mark.parametrize(
    "call",
    [
        lambda where: jnp.dot(x, x.T, out_sharding=where),
        lambda where: jnp.zeros((2, 2), out_sharding=where),
        lambda where: lax.dot_general(x, x, contracting, out_sharding=where),
        lambda where: random.normal(random.key(0), (2,), out_sharding=where),
        lambda where: jnp.einsum("ij->i", x, out_sharding=where),
    ],
)
def test_out_sharding_changes_nothing(call):
    wanted = call(None).tolist()
    assert call(rows).tolist() == wanted
    assert minijit.jit(lambda: call(rows))().tolist() == wanted


def test_out_sharding_is_checked():
    with pytest.raises(ValueError, match="(?s)rank at least 1.*jnp.dot was given a="):
        jnp.dot(x[0], x[0], out_sharding=rows)
    with pytest.raises(ValueError, match="Resource axis: depth"):
        jnp.zeros(2, out_sharding=NamedSharding(mesh, P("depth")))
    with minijit.set_mesh(mesh), pytest.raises(ValueError, match="rank at least 2"):
        jnp.zeros(2, out_sharding=P("rows", "columns"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'out_sharding'"):
        jnp.sum(x, out_sharding=rows)


def test_types_have_a_sharding():
    """`x` and its type say where it is: whole, on the only device."""
    for where in (minijit.typeof(x).sharding, minijit.typeof(jnp.ones(())).sharding):
        assert where.is_fully_replicated
    assert minijit.typeof(x).sharding.spec == P(None, None)
    kept = minijit.jit(lambda y: jnp.zeros(y.shape, out_sharding=y.aval.sharding))(x)
    assert kept.shape == (2, 3)


def test_an_array_has_one_shard():
    x = jnp.arange(6.0).reshape(2, 3)
    (shard,) = x.addressable_shards
    assert shard.data is x.addressable_data(0) is x and len(x.global_shards) == 1
    assert shard.device == minijit.devices()[0] and shard.replica_id == 0
    assert x[shard.index].shape == shard.data.shape == (2, 3)
    with pytest.raises(IndexError):
        x.addressable_data(1)


def test_the_types_of_a_meshs_axes():
    types = minijit.sharding.AxisType
    assert mesh.are_all_axes_explicit and mesh.explicit_axes == ("rows", "columns")
    mixed = minijit.make_mesh((1, 1), ("a", "b"), (types.Auto, types.Manual))
    assert (mixed.auto_axes, mixed.manual_axes) == (("a",), ("b",))
    assert not (mixed.are_all_axes_auto or mixed.are_all_axes_manual)
    assert not minijit.sharding.AbstractMesh((), ()).are_all_axes_auto


def test_a_partition_spec_finds_its_parts():
    spec = P("a", None, ("b", "c"))
    assert [spec.index(part) for part in ("a", None, ("b", "c"))] == [0, 1, 2]
    assert spec.count(None) == 1
    with pytest.raises(ValueError, match="not in tuple"):
        spec.index("b")
