"""Distributions and statistics under the names of `jax.scipy.stats`.

    stats.norm.logpdf(x, loc, scale), stats.poisson.pmf(k, mu)
    stats.gaussian_kde(samples)(points)

Arguments broadcast; results have their floating dtype.  Outside of what a distribution
allows the density is 0 and its logarithm minus infinity.
"""

from ...trace.api import calls as _calls
from ...trace.base import names as _names
from . import distributions as _all
from .kde import gaussian_kde as gaussian_kde
from .samples import mode as mode, rankdata as rankdata, sem as sem

_calls.explain_calls("scipy.stats", globals(), ["mode", "rankdata", "sem"])
_distributions = """
    bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom
    gumbel_l gumbel_r laplace logistic multinomial multivariate_normal nbinom norm
    pareto poisson t truncnorm uniform vonmises wrapcauchy
""".split()
globals().update({name: vars(_all)[name] for name in _distributions})
__all__ = ["gaussian_kde", "mode", "rankdata", "sem", *_distributions]
__dir__, __getattr__ = _names.front(globals(), __all__)
