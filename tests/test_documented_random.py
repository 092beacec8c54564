"""Random numbers as JAX's documentation uses them: keys as values in programs of all
kinds, arrays of keys, and the samplers that its reference lists."""

from functools import partial

import numpy as np
import pytest
from harness import alike, refused
from referee import together

import minijit as mj
import minijit.numpy as jnp
from minijit import jit, lax, random, vmap

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]


def words(keys):
    return np.asarray(random.key_data(keys))


def same_keys(found, wanted):
    assert found.dtype == random.key(0).dtype
    np.testing.assert_array_equal(words(found), wanted)


# ---- arrays of keys


keys = random.split(random.key(2), (3, 4))
data = words(keys)


@pytest.mark.parametrize("act, on_words", [
    (lambda k: jnp.stack([k[0], k[2]], 1), lambda d: np.stack([d[0], d[2]], 1)),
    (lambda k: jnp.concatenate([k, k[:1]]), lambda d: np.concatenate([d, d[:1]])),
    (lambda k: jnp.concatenate([k, k], -1),
     lambda d: np.concatenate([d, d], 1)),
    (lambda k: jnp.where(np.eye(3, 4, dtype=bool), k, k[::-1, ::-1]),
     lambda d: np.where(np.eye(3, 4, dtype=bool)[..., None], d, d[::-1, ::-1])),
    (lambda k: jnp.where(True, k[0], k[1]), lambda d: d[0]),
    (lambda k: k[1], lambda d: d[1]),
    (lambda k: k[1, 2], lambda d: d[1, 2]),
    (lambda k: k[:, 1:], lambda d: d[:, 1:]),
    (lambda k: k[..., 0], lambda d: d[:, 0]),
    (lambda k: k[None], lambda d: d[None]),
    (lambda k: k[:1].squeeze(), lambda d: d[0]),
    (lambda k: k.copy(), lambda d: d),
    (lambda k: k.reshape(2, -1), lambda d: d.reshape(2, 6, 2)),
    (lambda k: jnp.ravel(k), lambda d: d.reshape(12, 2)),
    (lambda k: k.T, lambda d: d.transpose(1, 0, 2)),
    (lambda k: jnp.swapaxes(k, 0, -1), lambda d: d.transpose(1, 0, 2)),
    (lambda k: jnp.expand_dims(k, -1), lambda d: d[:, :, None]),
    (lambda k: jnp.broadcast_to(k[0], (2, 4)), lambda d: np.stack([d[0]] * 2)),
    (lambda k: jnp.take(k, np.array([3, 0]), 1), lambda d: d[:, [3, 0]]),
    (lambda k: k[np.array([0, 2]), np.array([1, 3])],
     lambda d: d[[0, 2], [1, 3]]),
    (lambda k: k.at[0, 1].set(k[2, 2]),
     lambda d: np.concatenate([[d[0, 0]], [d[2, 2]], d[0, 2:], *d[1:]]).reshape(
         3, 4, 2)),
    (lambda k: jnp.flip(k, 1), lambda d: d[:, ::-1]),
    (lambda k: jnp.roll(k, 1, 0), lambda d: np.roll(d, 1, 0)),
    (lambda k: jnp.tile(k[0], 2), lambda d: np.concatenate([d[0], d[0]])),
    (lambda k: jnp.repeat(k[0], 2), lambda d: np.repeat(d[0], 2, 0)),
    (lambda k: jnp.array([k[0, 0], k[1, 1]]),
     lambda d: np.stack([d[0, 0], d[1, 1]])),
    (lambda k: lax.dynamic_slice(k, (1, 2), (2, 2)), lambda d: d[1:, 2:]),
    (lambda k: lax.select(True, k, k[::-1]), lambda d: d),
    (lambda k: jnp.zeros_like(k), lambda d: 0 * d),
])  # fmt: skip
def test_keys_move_like_other_elements(act, on_words):
    same_keys(act(keys), on_words(data))
    same_keys(jit(act)(keys), on_words(data))


def test_the_type_stands_in_jaxprs():
    for k, size, pair in ((keys[0], "4", "2,4"), (keys[0, 0], "", "2")):
        text = str(mj.make_jaxpr(lambda k: jnp.stack([k, k])[1])(k))
        assert f"a:key<fry>[{size}]" in text and f"key<fry>[{pair}]" in text
        assert str(mj.jaxpr_parser.parse_jaxpr(text)) == text
    out = mj.eval_shape(random.split, mj.ShapeDtypeStruct((), keys.dtype))
    assert (out.shape, out.dtype) == ((2,), keys.dtype)
    same = mj.eval_shape(lambda k: k[:, 0], keys)
    assert (same.shape, same.dtype) == ((3,), keys.dtype)


def test_a_key_that_was_donated_is_gone():
    key = random.key(3)
    wanted = words(random.fold_in(key, 1))
    same_keys(jit(random.fold_in, donate_argnums=0)(key, 1), wanted)
    assert key.is_deleted() and "deleted" in repr(key) and "key<fry>" in repr(key)
    refused(RuntimeError, "deleted", random.uniform, key)


@pytest.mark.parametrize("act, words", [
    (lambda k: k + 1, ["add", "key<fry>, int32"]),
    (lambda k: 2.0 * k, ["multiply", "float32, key<fry>"]),
    (lambda k: k == 0, ["equal", "key<fry>, int32"]),
    (lambda k: -k, ["does not accept dtype", "key<fry>"]),
    (lambda k: k < k, ["does not accept dtype", "key<fry>"]),
    (lambda k: bool(k[0]), ["cannot be converted to boolean"]),
    (lambda k: len(k[0]), ["unsized"]),
    (lambda k: iter(k[0]), ["0-d"]),
    (lambda k: jnp.sin(k), ["sin", "key<fry>"]),
    (lambda k: jnp.sum(k), ["reduce_sum", "key<fry>"]),
    (lambda k: jnp.sort(k), ["sort", "key<fry>"]),
    (lambda k: k.astype("int32"), ["key<fry> to int32", "test_documented"]),
    (lambda k: lax.neg(k), ["neg", "key<fry>"]),
    (lambda k: int(k[0]), ["key_data"]),
    (lambda k: float(k[0]), ["key_data"]),
    (lambda k: k.tolist(), ["key_data"]),
    (lambda k: np.add(np.asarray(k), 1), ["key_data"]),
])  # fmt: skip
def test_there_is_no_arithmetic_on_keys(act, words):
    refused(TypeError, words, act, keys[0])


def test_keys_and_numbers_do_not_mix():
    refused(ValueError, "key<fry>", jnp.where, True, keys, 1)
    refused(TypeError, "add does not accept", jit(lambda k: k + 1), keys)


# ---- samplers


@pytest.mark.parametrize("call, kind, words", [
    (lambda k: random.multivariate_normal(k, np.float32(1), np.eye(1)),
     ValueError, ["mean.ndim"]),
    (lambda k: random.multivariate_normal(k, np.ones(2), np.ones(2)),
     ValueError, ["cov.ndim"]),
    (lambda k: random.multivariate_normal(k, np.ones(2), np.eye(3)),
     ValueError, ["n=2", "(3, 3)"]),
    (lambda k: random.multivariate_normal(k, np.ones(2), np.eye(2), method="lu"),
     ValueError, ["method", "cholesky"]),
    (lambda k: random.multivariate_normal(k, np.ones((3, 2)), np.eye(2), (5,)),
     ValueError, ["broadcast", "(5,)"]),
    (lambda k: random.binomial(k, 3, 0.5, dtype=int), ValueError, ["float dtype"]),
    (lambda k: random.binomial(k, np.ones(2), 0.5, (3,)), ValueError, ["(3,)"]),
    (lambda k: random.binomial(random.split(k), 3, 0.5), ValueError,
     ["single key", "vmap"]),
])  # fmt: skip
def test_errors_of_these_samplers(call, kind, words):
    refused(kind, words, call, random.key(0))


# ---- against JAX itself


@pytest.mark.oracle
@pytest.mark.parametrize("x64", [False, True])
def test_numbers_of_the_older_way_are_jax_s(x64):
    jax = pytest.importorskip("jax")

    def draws(size, r):
        key = r.key(17)
        kinds = ["uint8", "uint16", "uint32", *(["uint64"] if x64 else [])]
        found = [r.bits(key, (size,), dtype) for dtype in kinds]
        found.append(r.key_data(r.split(key, size)))
        found.append(r.key_data(r.fold_in(key, 3)))
        return *found, r.uniform(r.split(key)[1], (2, size))

    sizes = 0, 1, 2, 7, 12
    with jax.threefry_partitionable(False), jax.enable_x64(x64):
        asked = {size: (partial(draws, size, jax.random),) for size in sizes}
        wants = together(asked)
    with mj.config.override("threefry_partitionable", False), mj.enable_x64(x64):
        for size in sizes:
            alike(draws(size, random), wants[size], size)
            each = jit(vmap(lambda k, n=size: random.bits(k, (n,))))(keys[0])
            alike(each, np.stack([random.bits(k, (size,)) for k in keys[0]]))


def test_keys_are_close_where_they_are_equal():
    keys = random.split(random.key(0))
    assert jnp.isclose(keys, keys[1]).tolist() == [False, True]
    assert jnp.allclose(keys, keys) and not jnp.allclose(keys, random.key(0))
