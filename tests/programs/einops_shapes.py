"""einops on arrays and tracers."""

import jax
import jax.numpy as jnp
from einops import einsum, pack, rearrange, reduce, repeat

x = jnp.arange(24.0).reshape(2, 3, 4)
print("rearrange", rearrange(x, "b h w -> b (h w)")[0])
print("reduce", reduce(x, "b (h h2) w -> b h", "max", h2=3))
print("repeat", repeat(x[0, 0], "w -> w c", c=2))


@jax.jit
def attention(q, k, v):
    scores = einsum(q, k, "b i d, b j d -> b i j")
    return einsum(jax.nn.softmax(scores / 2.0), v, "b i j, b j d -> b i d")


print("einsum", attention(x / 10, x / 10, x))
print("grad", jax.grad(lambda v: reduce(v**2, "b h w -> ", "sum"))(x)[1, 2])
packed, shapes = pack([x[0], x[1, :1]], "* w")
print("pack", packed.shape, shapes)
print("vmap", jax.vmap(lambda v: rearrange(v, "h w -> w h"))(x).shape)
