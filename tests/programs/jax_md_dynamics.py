"""jax_md: soft spheres relax, and a thermostat whose state is copied drives them."""

import jax
from jax_md import energy, minimize, quantity, simulate, space

displacement, shift = space.periodic(4.0)
positions = 4.0 * jax.random.uniform(jax.random.key(0), (16, 2))
spheres = energy.soft_sphere_pair(displacement)
init, relax = minimize.fire_descent(spheres, shift)
state = init(positions)
for _ in range(20):
    state = jax.jit(relax)(state)
print("energy", spheres(state.position), state.position[:2])
init, step = simulate.nvt_nose_hoover(spheres, shift, dt=1e-3, kT=0.1)
state = init(jax.random.key(1), state.position)
state = jax.jit(lambda s: jax.lax.fori_loop(0, 5, lambda i, s: step(s), s))(state)
print("heat", quantity.temperature(momentum=state.momentum), state.position[:2])
