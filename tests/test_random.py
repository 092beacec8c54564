"""Keys and random numbers: JAX's bits, and its floats but for the last digits."""

from functools import partial

import numpy as np
import pytest
from harness import alike, refused
from referee import together

import minijit as mj
import minijit.numpy as jnp
from minijit import dtypes, jit, lax, random, vmap
from minijit.ops import prng
from minijit.run.executable import compile_plain
from minijit.trace.jaxprs.parser import parse_jaxpr

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

n = (300,)


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


def same_type(got, want):
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    assert got.weak_type == want.weak_type


# Of `rng_bit_generator`: shapes with an even axis first, later, or nowhere.
drawn = [(n, "uint32") for n in [(5,), (2, 3), (3, 5), (3, 4, 2), (3, 3, 3), (), (0,)]]
drawn += [((5,), "uint8"), ((3,), "uint64")]


@pytest.mark.oracle
@pytest.mark.parametrize("algorithm", [1, 2])
def test_generated_bits_are_jax_s(jax, algorithm):
    """A count of 64 bits runs over in this state."""
    state = np.array([7, 8, 2**32 - 1, 2**32 - 1], np.uint32)

    def draw(library, algorithm, state):
        return [library.rng_bit_generator(state, *x, algorithm) for x in drawn]

    with mj.enable_x64(True), jax.enable_x64(True):
        theirs = jax.lax.RandomAlgorithm(algorithm)
        wants = together({"all": (partial(draw, jax.lax, theirs), state)})["all"]
        for found, want in zip(draw(lax, algorithm, state), wants, strict=True):
            for x, y in zip(found, want, strict=True):
                assert x.dtype == y.dtype
                np.testing.assert_array_equal(x, y)


def test_generated_bits_by_known_numbers():
    """Philox of zeros as its authors give it, and what the default is."""
    state = np.zeros(4, np.uint32)
    known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    new, bits = lax.rng_bit_generator(state, (4,))
    np.testing.assert_array_equal(bits, known)
    np.testing.assert_array_equal(new, [0, 0, 1, 0])
    compiled = mj.jit(lambda x: lax.rng_bit_generator(x, (4,)))
    np.testing.assert_array_equal(compiled(state)[1], known)
    with pytest.raises(TypeError, match="unsupported dtype int32"):
        lax.rng_bit_generator(state, (2,), "int32")
    with pytest.raises(TypeError, match=r"must be u32\[4\] or u64\[2\], got u32\[3\]"):
        lax.rng_bit_generator(state[:3], (2,))


def test_lanes_of_generated_bits():
    """They are all drawn from the first lane's state, as in JAX."""
    states = np.arange(12, dtype=np.uint32).reshape(3, 4)
    new, bits = mj.vmap(lambda k: lax.rng_bit_generator(k, (2,)))(states)
    first, want = lax.rng_bit_generator(states[0], (3, 2))
    np.testing.assert_array_equal(bits, want)
    np.testing.assert_array_equal(new, [first, *states[1:]])
    with mj.enable_x64(True):
        state, same = lax.rng_bit_generator(states[0].view(np.uint64), (3, 2))
    np.testing.assert_array_equal(same, want)
    np.testing.assert_array_equal(np.asarray(state).view(np.uint32), first)


def calls_of_keys(jax, impl):
    """{name: a function of no arguments} of what keys of an implementation do."""
    r, key = jax.random, jax.random.key(5, impl=impl)
    words = lambda f: lambda: r.key_data(f())
    calls = {
        "seed": words(lambda: jax.vmap(lambda s: r.key(s, impl=impl))(np.arange(3))),
        "split": words(lambda: r.split(key, (2, 3))),
        "fold_in": words(lambda: r.fold_in(key, 7)),
        "bits": lambda: r.bits(key, (3, 4), "uint8"),
        "normal": lambda: r.normal(key, (5,)),
        "lanes of bits": lambda: jax.vmap(r.bits)(r.split(key, 3)),
        "lanes of split": words(lambda: jax.vmap(r.split)(r.split(key, 3))),
        "scan": lambda: jax.lax.scan(
            lambda k, _: (r.split(k)[0], r.uniform(k)), key, None, length=3
        )[1],
    }
    return key, calls


@pytest.mark.oracle
@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_keys_are_jax_s(jax, impl):
    ours, calls = calls_of_keys(mj, impl)
    theirs, wants = calls_of_keys(jax, impl)
    assert (repr(ours), str(ours.dtype)) == (repr(theirs), str(theirs.dtype))
    assert random.key_impl(ours) == impl == random.key_dtype(impl).impl.name
    wants = together({name: (f,) for name, f in wants.items()})
    for name, want in wants.items():
        np.testing.assert_allclose(calls[name](), want, rtol=1e-5, err_msg=name)
    for name in ("split", "scan"):
        np.testing.assert_array_equal(mj.jit(calls[name])(), wants[name])


def test_raw_keys_are_of_the_default_implementation():
    with mj.config.override("default_prng_impl", "rbg"):
        raw, typed = random.PRNGKey(3), random.key(3)
        assert raw.shape == (4,) and typed.dtype.name == "key<rbg>"
        for r in (random.normal, lambda k: random.wald(k, 2.0)):
            np.testing.assert_array_equal(r(raw), r(typed))
        np.testing.assert_array_equal(
            random.split(raw), random.key_data(random.split(typed))
        )
        other = random.wald(random.key(3, impl="threefry2x32"), 2.0)
    np.testing.assert_array_equal(random.wald(random.key(3), 2.0), other)


@pytest.mark.chapter(25)
def test_keys_of_the_user_s_own():
    """A key is one word, and so are its bits: all other numbers come of them."""
    from minijit.extend.random import define_prng_impl, random_seed

    mine = define_prng_impl(
        key_shape=(1,),
        seed=lambda seed: jnp.array([seed], "uint32"),
        split=lambda key, shape: key + jnp.arange(2, dtype="uint32")[:, None],
        random_bits=lambda key, width, shape: jnp.full(shape, key[0]) << width - 8,
        fold_in=lambda key, data: key + data,
        name="mine",
        tag="mn",
    )
    key = random.key(200, impl=mine)
    assert repr(key) == "Array((), dtype=key<mn>) overlaying:\n[200]"
    assert random_seed(200, mine) == key and random.key_impl(key) == "mine"
    assert random.key_data(random.fold_in(key, 3)).tolist() == [203]
    for f in (lambda f: f, mj.jit):
        assert f(random.uniform)(key) == 200 / 256
        children = f(lambda key: random.key_data(random.split(key)))(key)
        assert children.tolist() == [[200], [201]]
    with pytest.raises(NotImplementedError, match="only those of 1, 2 or 4 words"):
        define_prng_impl(
            key_shape=(3,), seed=None, split=None, random_bits=None, fold_in=None
        )


def test_uniform_numbers_from_a_state():
    first, second = (lax.rng_uniform(1.0, 3.0, (200,)) for _ in range(2))
    assert first.min() >= 1 and first.max() < 3 and first.dtype == np.float32
    assert not np.array_equal(first, second)
    whole = mj.jit(lambda: lax.rng_uniform(jnp.int32(2), jnp.int32(5), (200,)))
    assert {*np.asarray(whole())} == {2, 3, 4}
    assert not np.array_equal(whole(), whole())


@pytest.mark.oracle
def test_seeds_are_jax_s(jax):
    seeds = 0, -1, 2**31, 2**32 + 5, 2**63 - 1, -(2**40), True
    arrays = np.int8(-3), np.uint8(200), np.int32(-3), np.uint32(2**32 - 1)
    for seed in (*seeds, *arrays, *map(jnp.asarray, arrays)):
        theirs = np.asarray(seed) if isinstance(seed, mj.Array) else seed
        want = jax.random.PRNGKey(theirs)
        np.testing.assert_array_equal(random.PRNGKey(seed), want)
        np.testing.assert_array_equal(random.key_data(random.key(seed)), want)


@pytest.mark.oracle
def test_x64_is_jax_s(jax):
    calls = {
        "bits": lambda r, k: r.bits(k, n),
        "split": lambda r, k: r.key_data(r.split(k)),
        "fold_in": lambda r, k: r.key_data(r.fold_in(k, 7)),
        "randint": lambda r, k: r.randint(k, n, 0, 10),
        "permutation": lambda r, k: r.permutation(k, 100),
        "uniform": lambda r, k: r.uniform(k, n),
        "normal": lambda r, k: r.normal(k, n),
    }
    with mj.enable_x64(True), jax.enable_x64(True):
        for seed in (2**40 + 3, -5, np.int64(2**35), np.int32(-7), np.uint32(9)):
            want = jax.random.PRNGKey(seed)
            np.testing.assert_array_equal(random.PRNGKey(seed), want)
        key = jax.random.key(3)
        asked = {name: (partial(f, jax.random), key) for name, f in calls.items()}
        for name, want in together(asked).items():
            got = calls[name](random, random.key(3))
            same_type(got, want)
            limit = 1e-12 if name == "normal" else 0
            np.testing.assert_allclose(got, want, rtol=limit)


def test_known_bits():
    """Without an oracle: words that JAX gave once, and those of the paper's authors."""
    key = random.key(42)
    np.testing.assert_array_equal(random.key_data(key), [0, 42])
    children = [[1832780943, 270669613], [64467757, 2916123636]]
    np.testing.assert_array_equal(random.key_data(random.split(key)), children)
    ones = np.uint32(0xFFFFFFFF)
    known = {
        (0, 0, 0, 0): (0x6B200159, 0x99BA4EFE),
        (ones,) * 4: (0x1CB996FC, 0xBB002BE7),
        (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3): (0xC4923A9C, 0x483DF7A0),
    }
    for words, want in known.items():
        got = prng.threefry2x32_p.bind(*map(np.uint32, words))
        np.testing.assert_array_equal(got, np.array(want, np.uint32))
    words = np.uint32(1), np.uint32(1), np.int32(1), np.uint32(1)
    refused(TypeError, "at position 2", prng.threefry2x32_p.bind, *words)


# ---- Keys as arrays


def test_keys_print_as_jax_s():
    assert repr(random.key(0)) == "Array((), dtype=key<fry>) overlaying:\n[0 0]"
    keys = random.split(random.key(0))
    assert repr(keys) == (
        "Array((2,), dtype=key<fry>) overlaying:\n"
        "[[1797259609 2579123966]\n [ 928981903 3453687069]]"
    )


def test_keys_are_arrays():
    keys = random.split(random.key(1), (2, 3))
    assert isinstance(keys, mj.Array)
    assert (keys.shape, keys.ndim, keys.size, len(keys)) == ((2, 3), 2, 6, 2)
    assert (keys.itemsize, keys.nbytes) == (8, 48)
    assert [k.shape for k in keys] == [(3,), (3,)]
    assert len(mj.tree.leaves({"a": keys, "b": keys[0]})) == 2
    np.testing.assert_array_equal(keys == keys[:1], [[True] * 3, [False] * 3])
    np.testing.assert_array_equal(keys != keys[:1], [[False] * 3, [True] * 3])
    assert jnp.isfinite(keys).all() and (jnp.nan_to_num(keys) == keys).all()


# ---- Transformations of samplers


def test_a_sampler_is_traced_once_for_each_shape():
    before = len(random.normal_sampler.traces)
    for seed in range(3):
        random.normal(random.key(seed), (2, 77))
    assert len(random.normal_sampler.traces) == before
    for f in (jnp.sin, jnp.cos, jnp.tan):
        mj.jit(lambda k, f=f: f(random.normal(k, (2, 77))))(random.key(0))
    assert len(random.normal_sampler.traces) == before + 1

    def program(k):
        a, b = random.split(k)
        return random.normal(a, (78,)) + random.normal(b, (78,))

    jaxpr = mj.make_jaxpr(program)(random.PRNGKey(0))
    calls = [e for e in jaxpr.jaxpr.eqns if e.primitive.name == "jit"]
    normal = [e.params["jaxpr"] for e in calls if "normal" in e.params["name"]]
    assert len(normal) == 2 and normal[0] is normal[1]


@pytest.mark.parametrize("draw", [random.normal, random.cauchy, random.maxwell])
def test_a_lane_draws_outside_jit_what_it_draws_alone(draw):
    """To the last bit, by the same operations: nothing is traced for the lanes."""
    keys = random.split(random.key(3), (2, 5))
    before = len(random.normal_sampler.traces)
    lanes = mj.vmap(mj.vmap(lambda k: draw(k, (3,))))(keys)
    alone = np.stack([draw(k, (3,)) for k in keys.reshape(-1)]).reshape(2, 5, 3)
    np.testing.assert_array_equal(lanes, alone)
    assert len(random.normal_sampler.traces) == before


@pytest.mark.chapter(21)  # before it, Python drives their loops, for half a minute
def test_a_gamma_sample_moves_with_its_parameter():
    """So that the share of the distribution below it stays; constant if stopped."""
    key, special = random.key(0), pytest.importorskip("scipy.special")
    for a in (0.4, 2.0, 30.0):
        x = random.gamma(key, a)
        eps = 1e-2 * a
        share = special.gammainc(a, float(x))
        low, high = (special.gammaincinv(a + d, share) for d in (-eps, eps))
        slope = mj.grad(lambda a: random.gamma(key, a))(a)
        np.testing.assert_allclose(slope, (high - low) / (2 * eps), rtol=2e-3)
        of_log = mj.grad(lambda a: random.loggamma(key, a))(a)
        np.testing.assert_allclose(of_log, slope / x, rtol=1e-4)
    g = mj.grad(lambda a: a * random.gamma(key, lax.stop_gradient(a)))(2.0)
    np.testing.assert_allclose(g, random.gamma(key, 2.0), rtol=1e-6)
    total = lambda a: random.dirichlet(key, a).sum()
    np.testing.assert_allclose(mj.grad(total)(np.float32([1, 2, 3])), 0, atol=1e-5)


# ---- Errors


def test_errors_of_keys():
    told = "JAX encountered invalid PRNG key data"
    for bad in (3, "a", jnp.zeros(3, "uint32"), jnp.zeros(2), jnp.uint32(3)):
        with pytest.raises(TypeError, match=told) as e:
            random.uniform(bad)
        is_number = getattr(bad, "ndim", 0) == 0
        assert ("Instead: make a key" in str(e.value)) == is_number
    refused(TypeError, told, random.wrap_key_data, jnp.zeros(2, int))
    keys = random.split(random.key(0))
    for bad in (keys, random.key_data(keys)):
        refused(ValueError, "uniform accepts a single key.*vmap", random.uniform, bad)


# ---- stop_gradient


def test_stop_gradient():
    f = lambda x: x * lax.stop_gradient(x)
    assert mj.grad(f)(3.0) == 3.0
    assert mj.jvp(f, (3.0,), (1.0,))[1] == 3.0
    assert mj.grad(mj.grad(lambda x: f(x) * x))(3.0) == 6.0
    np.testing.assert_array_equal(mj.vmap(mj.grad(f))(jnp.arange(3.0)), [0, 1, 2])
    tree = lax.stop_gradient({"a": 1.0, "b": (2, random.key(0))})
    assert tree["a"] == 1.0 and tree["b"][0] == 2
    assert not mj.make_jaxpr(lax.stop_gradient)(2).eqns
    g = mj.grad(lambda t: sum(mj.tree.leaves(lax.stop_gradient(t))))({"a": 1.0})
    assert g == {"a": 0.0}


def test_orthogonal_matrices_of_complex_numbers():
    q = np.asarray(random.orthogonal(random.key(0), 3, (2,), np.complex64))
    np.testing.assert_allclose(q @ q.conj().mT, [np.eye(3)] * 2, atol=1e-5)


@pytest.mark.parametrize("draw", [
    lambda key, z: random.beta(key, z, 2.0), lambda key, z: random.t(key, z),
    lambda key, z: random.lognormal(key, z), lambda key, z: random.f(key, 2.0, z),
    lambda key, z: random.triangular(key, 0.0, z, 2.0),
])  # fmt: skip
def test_what_is_imaginary_is_not_dropped(draw):
    with pytest.raises(dtypes.TypePromotionError, match="cannot safely cast"):
        draw(random.key(0), 1 + 1j)
    assert draw(random.key(0), 1).dtype == np.float32
    assert random.lognormal(random.key(0), 1j, (2,), complex).dtype == np.complex64


# ---- keys as JAX's documentation uses them


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
        assert str(parse_jaxpr(text)) == text
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
    (lambda k: k.astype("int32"), ["key<fry> to int32", "test_random.py"]),
    (lambda k: lax.neg(k), ["neg", "key<fry>"]),
    (lambda k: int(k[0]), ["key_data"]),
    (lambda k: float(k[0]), ["key_data"]),
    (lambda k: k.tolist(), ["key_data"]),
    (lambda k: np.add(np.asarray(k), 1), ["key_data"]),
])  # fmt: skip
def test_there_is_no_arithmetic_on_keys(act, words):
    refused(TypeError, words, act, keys[0])


def test_keys_and_numbers_do_not_mix():
    refused(TypeError, "key_data", lambda: jnp.array([keys[0, 0]] * 2, "float32"))
    refused(ValueError, "key<fry>", jnp.where, True, keys, 1)
    refused(TypeError, "add does not accept", jit(lambda k: k + 1), keys)


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


# ---- samplers and networks, compiled: one kernel each, and the same numbers


key = random.PRNGKey(5)

samplers = {
    "bits": lambda k: random.bits(k, (7, 3)),
    "uint8": lambda k: random.bits(k, (11,), "uint8"),
    "split": lambda k: random.split(k, 5),
    "fold_in": lambda k: random.fold_in(k, 3),
    "uniform": lambda k: random.uniform(k, (40,)),
    "normal": lambda k: random.normal(k, (5, 6)),
    "randint": lambda k: random.randint(k, (20,), -3, 17),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (20,)),
    "gumbel": lambda k: random.gumbel(k, (20,)),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 2.0, (20,)),
}


@pytest.mark.parametrize("name", samplers)
def test_a_sampler_is_one_kernel(name):
    """The hash, and what makes a number of it, is one loop over the result."""
    draw = samplers[name]
    run = compile_plain(mj.make_jaxpr(draw)(key), name)
    assert run.kernels == ("kernel_0",) and run.fallbacks == ()
    np.testing.assert_allclose(run(key)[0], draw(key), rtol=1e-5, atol=1e-6)


def test_a_sampler_compiled_by_numba():
    draw = mj.jit(lambda k: random.normal(k, (300,)))
    np.testing.assert_allclose(draw(key), random.normal(key, (300,)), 1e-5, 1e-6)


def test_stop_gradient_leaves_no_kernel():
    closed = mj.make_jaxpr(lambda x: lax.stop_gradient(x * 2) + 1)(jnp.ones(5))
    assert len(compile_plain(closed, "stop").kernels) == 1
