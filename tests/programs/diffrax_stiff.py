"""Robertson's reactions, by an implicit solver with a root finder in each step."""

import diffrax
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def reactions(t, y, rates):
    a, b, c = rates
    first, last = -a * y[0] + b * y[1] * y[2], c * y[1] ** 2
    return jnp.stack([first, -first - last, last])


@jax.jit
def solve(rates):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(reactions),
        diffrax.Kvaerno5(),
        t0=0.0,
        t1=100.0,
        dt0=2e-4,
        y0=jnp.array([1.0, 0.0, 0.0]),
        args=rates,
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
        saveat=diffrax.SaveAt(ts=jnp.array([1.0, 10.0, 100.0])),
    ).ys


print(solve((0.04, 1e4, 3e7)))
print(solve((0.05, 1e4, 3e7)))
