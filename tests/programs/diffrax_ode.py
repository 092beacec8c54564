"""diffrax: one ODE with an adaptive solver, and the gradient through it."""

import diffrax
import jax
import jax.numpy as jnp


def field(t, y, args):
    decay, force = args
    return jnp.stack([y[1], -decay * y[1] - y[0] + force * jnp.sin(t)])


def solve(args):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), t0=0.0, t1=5.0, dt0=0.1,
        y0=jnp.array([1.0, 0.0]), args=args, saveat=diffrax.SaveAt(ts=jnp.arange(6.0)),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
    )


args = jnp.array([0.2, 0.5])
solution = jax.jit(solve)(args)
print("solution", solution.ys)
print("steps", solution.stats["num_steps"])
print("gradient", jax.jit(jax.grad(lambda a: solve(a).ys[-1, 0]))(args))
