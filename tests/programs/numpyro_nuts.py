"""numpyro: NUTS on a regression, SVI, and a predictive distribution."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, Predictive, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

x = jnp.linspace(-1.0, 1.0, 40)
y = 1.5 * x + 0.5 + 0.1 * jax.random.normal(jax.random.key(0), (40,))


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(slope * x + offset, sigma), obs=y)


mcmc = MCMC(NUTS(model), num_warmup=60, num_samples=60, progress_bar=False)
mcmc.run(jax.random.PRNGKey(1), x, y)
samples = mcmc.get_samples()
print("slope", bool(abs(samples["slope"].mean() - 1.5) < 0.1))
print("sigma", bool(abs(samples["sigma"].mean() - 0.1) < 0.05))
predicted = Predictive(model, samples)(jax.random.PRNGKey(2), x)["y"]
print("predicted", predicted.shape, bool(abs(predicted.mean() - 0.5) < 0.1))
guide = AutoNormal(model)
svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
result = svi.run(jax.random.PRNGKey(3), 150, x, y, progress_bar=False)
print("svi", bool(abs(guide.median(result.params)["slope"] - 1.5) < 0.2))
normal = dist.MultivariateNormal(jnp.zeros(2), jnp.array([[2.0, 0.3], [0.3, 1.0]]))
print("density", normal.log_prob(jnp.array([0.5, -1.0])), dist.Gamma(2.0, 3.0).log_prob(0.7))
