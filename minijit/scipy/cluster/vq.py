"""Observations and the codes next to them: `jax.scipy.cluster.vq`."""

from ... import numpy as jnp
from ...numpy.core import check_inexact, promote_dtypes
from ...trace import dtypes
from ...trace.api import calls


def vq(obs, code_book, check_finite=True):
    """(which code is nearest to each observation, how far it is).

    Args:
      obs: [m, d], or [m] of one dimension; code_book: [k, d], or [k].
    """
    check_inexact("scipy.cluster.vq.vq", (obs, code_book))
    obs, codes = promote_dtypes((obs, code_book), dtypes.to_inexact_dtype)
    if obs.ndim != codes.ndim:
        raise ValueError("Observation and code_book should have the same rank")
    if obs.ndim == 1:
        obs, codes = obs[:, None], codes[:, None]
    if obs.ndim != 2:
        raise ValueError("ndim different than 1 or 2 are not supported")
    gaps = jnp.linalg.norm(obs[:, None] - codes, axis=-1)
    return jnp.argmin(gaps, -1), gaps.min(-1)


calls.publish(globals(), "vq")
