"""A user's program, for type checkers: what it asserts is what they must infer."""

from typing import TYPE_CHECKING, Any, assert_type

import minijit as mj
import minijit.numpy as jnp
from minijit import Array, lax, nn, random
from minijit.typing import ArrayLike, DTypeLike


def predict(params: dict[str, Array], x: Array) -> Array:
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    assert_type(hidden, Array)
    return nn.softmax(hidden * 2 - 1, axis=-1)


@mj.jit
def loss(params: dict[str, Array], x: Array, y: Array) -> Array:
    p = predict(params, x)
    assert_type(p.sum(axis=1), Array)
    return -jnp.mean(jnp.log(p[jnp.arange(y.shape[0]), y]))


@mj.jit(static_argnames="n")
def tiled(x: Array, n: int) -> Array:
    return jnp.tile(x, n)


class Model:
    @mj.jit(static_argnums=0)
    def __call__(self, x: Array) -> Array:
        return x


def scaled(x: ArrayLike, dtype: DTypeLike = jnp.float32) -> Array:
    return jnp.asarray(x, dtype=dtype) * 2.0


key = random.key(0)
left, right = random.split(key)
params = {"w": random.normal(left, (4, 3)), "b": jnp.zeros(3)}
x, y = jnp.ones((2, 4)), jnp.array([0, 1])
assert_type(x, Array)
assert_type(x.shape, tuple[int, ...])
assert_type(-x.T.reshape(8)[::2] ** 2, Array)
assert_type(loss(params, x, y), Array)
assert_type(jnp.sum(x, axis=0), Array)
assert_type(tiled(x, n=2), Array)
print(Model()(x), tiled.lower(x, 2).cost_analysis())
assert_type(lax.add(x, x), Array)
assert_type(jnp.linalg.norm(x), Array)
assert_type(mj.vmap(scaled)(x), Array)
value, gradients = mj.value_and_grad(loss)(params, x, y)
assert_type(value, Array)
step: dict[str, Array] = mj.tree.map(lambda w, g: w - 0.1 * g, params, gradients)
carry, ys = lax.scan(lambda c, v: (c + v, c), 0.0, jnp.arange(3.0))
print(lax.scan.traces, jnp.linalg.solve.traces)
assert_type(jnp.linalg.inv(jnp.eye(3)), Array)
# Functions that others make, and those that give back this or that.
assert_type(jnp.add(jnp.sin(x), 1) // 2 == 3, Array)
assert_type(jnp.nansum(x, axis=0), Array)
assert_type(jnp.float32(jnp.hanning(3)[0]), Array)
assert_type(jnp.fft.fft(x, 4), Array)
assert_type(nn.relu(random.laplace(key, (2,))), Array)
assert_type(jnp.where(x > 0, x, 0.0), Array)
assert_type(jnp.where(x > 0), tuple[Array, ...])
assert_type(jnp.linalg.eigh(jnp.eye(3)).eigenvalues, Array)
if TYPE_CHECKING:
    # What is wrong is told: a comment that excuses nothing is an error of its own.
    jnp.sinn(x)  # type: ignore[attr-defined]
    jnp.promote_args("sin", x)  # type: ignore[attr-defined]
    jnp.sum(x, axis="rows")  # type: ignore[arg-type]
    nn.relu("x")  # type: ignore[arg-type]
    x.shape = (2,)  # type: ignore[assignment]
    mj.grad(3)  # type: ignore[arg-type]
    mj.vmaps(loss)  # type: ignore[attr-defined]
    mj.jit(loss, static_argnum=3)  # type: ignore[call-overload]
compiled = loss.lower(params, x, y).compile()
print(compiled, mj.devices()[0].platform, float(value), x.at[0].set(1.0))
with mj.enable_x64(True), mj.disable_jit():
    total: Any = mj.grad(loss, argnums=0)(params, x, y)
assert_type(mj.device_count(), int)
print(mj.export(loss)(params, x, y).mlir_module())
assert_type(lax.mul(lax.sin(x), x), Array)
assert_type(lax.reduce_max(lax.erf(lax.cumsum(x)), (0,)), Array)
assert_type(lax.fori_loop(0, 3, lambda i, c: c * 2.0, lax.map(jnp.sin, x)), Any)
