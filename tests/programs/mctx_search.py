"""mctx: tree search by two policies, batched, with a model that the tree calls."""

import jax
import jax.numpy as jnp
import mctx

batch, actions = 6, 5
values = jax.random.uniform(jax.random.key(0), (batch, actions))
logits = jax.random.normal(jax.random.key(1), (batch, actions))


def step(params, key, action, depth):
    """A bandit: the first action is paid for, with a little more for going deeper."""
    paid = jnp.where(depth == 0, values[jnp.arange(batch), action], 0.1 * params)
    output = mctx.RecurrentFnOutput(
        reward=paid,
        discount=jnp.full(batch, 0.9),
        prior_logits=jnp.roll(logits, 1, axis=1),
        value=jnp.zeros(batch),
    )
    return output, depth + 1


root = mctx.RootFnOutput(
    prior_logits=logits,
    value=jnp.sum(jax.nn.softmax(logits) * values, axis=-1),
    embedding=jnp.zeros(batch, jnp.int32),
)


@jax.jit
def gumbel(key):
    return mctx.gumbel_muzero_policy(
        jnp.float32(1), key, root, step, num_simulations=12,
        max_num_considered_actions=4,
    )  # fmt: skip


@jax.jit
def muzero(key):
    illegal = jnp.zeros((batch, actions), bool).at[:, 0].set(True)
    return mctx.muzero_policy(
        jnp.float32(1), key, root, step, num_simulations=12, invalid_actions=illegal,
        max_depth=4, dirichlet_fraction=0.1,
    )  # fmt: skip


for name, policy in (("gumbel", gumbel), ("muzero", muzero)):
    found = policy(jax.random.key(2))
    tree = found.search_tree
    print(name, found.action, found.action_weights)
    print("visits", tree.node_visits.sum(1), tree.children_index[:, 0].tolist())
    print("value", tree.node_values[:, 0], tree.summary().qvalues.sum())
