"""diffrax: an ODE with an adaptive solver, the gradient through it, and an event."""

import diffrax
import jax
import jax.numpy as jnp
import optimistix


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


def hits_the_ground(t, y, args, **kwargs):
    return y[0]


fall = diffrax.diffeqsolve(
    diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -args])), diffrax.Tsit5(),
    t0=0.0, t1=10.0, dt0=0.1, y0=jnp.array([5.0, 0.0]), args=9.8,
    stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
    event=diffrax.Event(hits_the_ground, optimistix.Newton(rtol=1e-5, atol=1e-5)),
)
print("event", fall.ts[0], fall.ys[0, 1])
