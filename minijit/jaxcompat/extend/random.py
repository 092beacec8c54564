"""Implementations of random keys, under the names of `jax.extend.random`.

    impl = define_prng_impl(key_shape=(2,), seed=..., split=..., random_bits=...,
                            fold_in=..., name="mine", tag="mine")
    key = minijit.random.key(0, impl=impl)
"""

from ...ops import prng
from ...ops.bit_generators import (
    rbg_prng_impl as rbg_prng_impl, unsafe_rbg_prng_impl as unsafe_rbg_prng_impl,
)
from ...ops.prng import (
    threefry2x32_p as threefry2x32_p, threefry_prng_impl as threefry_prng_impl,
)
from ...trace.api import calls


def define_prng_impl(
    *, key_shape, seed, split, random_bits, fold_in, name="<unnamed>", tag="?"
):
    """An implementation for the argument `impl` of `random.key`; see `prng.PRNGImpl`.

    Raises NotImplementedError unless a key has 1, 2 or 4 words.
    """
    if key_shape not in prng.storages:
        raise NotImplementedError(
            f"keys of shape {key_shape}: there are only those of 1, 2 or 4 words"
        )
    return prng.PRNGImpl(key_shape, seed, split, random_bits, fold_in, name, tag)


def seed_with_impl(impl, seed):
    """A key of an implementation, from an integer scalar."""
    return prng.wrap_keys(impl.seed(seed), impl)


def random_seed(seeds, impl):
    """The same with JAX's order of arguments."""
    return seed_with_impl(impl, seeds)


calls.publish(globals())
