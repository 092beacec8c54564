"""Penzai lifts each method of jax.Array to arrays whose axes have names."""

import jax
import jax.numpy as jnp
from penzai import pz
from penzai.models import simple_mlp

mlp = simple_mlp.MLP.from_config(
    name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[4, 16, 3]
)
x = pz.nx.wrap(jnp.arange(8.0).reshape(2, 4)).tag("batch", "features")
print(mlp(x).untag("batch", "features").unwrap())
a = pz.nx.wrap(jnp.arange(6.0).reshape(2, 3)).tag("i", "j")
b = pz.nx.wrap(jnp.arange(3.0)).tag("j")
print(pz.nx.nmap(jnp.sum)((a + b).untag("j")).unwrap("i"), (a * b).unwrap("i", "j"))
