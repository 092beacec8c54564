"""jaxtyping: shapes and dtypes in annotations, checked at run time."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, jaxtyped

x = jnp.ones((3, 4))
print(isinstance(x, Float[Array, "3 4"]), isinstance(x, Float[Array, "4 3"]))
print(isinstance(x, Int[Array, "..."]), isinstance(jnp.arange(3), Int[Array, "n"]))
print(isinstance({"a": x}, PyTree[Float[Array, "_ _"]]))


def check(function):
    """A checker of annotations, as small as one can be."""
    def checked(*args):
        for (name, kind), value in zip(function.__annotations__.items(), args):
            if not isinstance(value, kind):
                raise TypeError(f"{name} is no {kind}")
        return function(*args)
    return checked


@jaxtyped(typechecker=None)
def both(a, b):
    return isinstance(a, Float[Array, "n m"]), isinstance(b, Float[Array, "m n"])


print(both(x, x.T), both(x, x))


@jax.jit
@check
def product(a: Float[Array, "n m"], b: Float[Array, "m k"]):
    return a @ b


print(product(x, x.T))
try:
    product(x, jnp.arange(3))
except TypeError as error:
    print("refused", str(error)[:9])
