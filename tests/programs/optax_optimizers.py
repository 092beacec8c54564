"""optax: optimizers, schedules, clipping, losses and L-BFGS on one small problem."""

import jax
import jax.numpy as jnp
import optax

key = jax.random.key(0)
x = jax.random.normal(key, (32, 4))
target = x @ jnp.array([1.0, -2.0, 0.5, 3.0]) + 0.3


def loss(params):
    return jnp.mean(optax.l2_loss(x @ params["w"] + params["b"], target))


def train(name, optimizer, steps=12):
    params = {"w": jnp.zeros(4), "b": jnp.zeros(())}
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    for _ in range(steps):
        params, state, value = step(params, state)
    print(name, value, params["w"], params["b"])


schedule = optax.warmup_cosine_decay_schedule(0.0, 0.3, 4, 12)
print("schedule", [float(schedule(i)) for i in range(0, 12, 3)])
train("sgd", optax.sgd(0.1, momentum=0.9, nesterov=True))
train("adam", optax.adam(schedule))
train("adamw", optax.adamw(0.1, weight_decay=0.01))
train("lion", optax.lion(0.05))
train("rmsprop", optax.rmsprop(0.05))
train("adafactor", optax.adafactor(0.1))
train("clipped", optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1)))
train("accumulated", optax.MultiSteps(optax.adam(0.1), every_k_schedule=3))
masked = optax.multi_transform(
    {"fast": optax.adam(0.1), "slow": optax.sgd(0.01)}, {"w": "fast", "b": "slow"}
)
train("two of them", masked)

solver = optax.lbfgs()
params = {"w": jnp.zeros(4), "b": jnp.zeros(())}
state = solver.init(params)
value_and_grad = optax.value_and_grad_from_state(loss)
for _ in range(4):
    value, grad = value_and_grad(params, state=state)
    updates, state = solver.update(
        grad, state, params, value=value, grad=grad, value_fn=loss
    )
    params = optax.apply_updates(params, updates)
print("lbfgs", jnp.round(loss(params), 4), jnp.round(params["w"], 3))

logits = jax.random.normal(jax.random.key(1), (5, 3))
labels = jnp.array([0, 2, 1, 1, 0])
print("losses", optax.softmax_cross_entropy_with_integer_labels(logits, labels))
print("norm", optax.global_norm({"a": logits, "b": x}))
