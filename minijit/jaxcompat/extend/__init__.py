"""What other libraries build on, under the names of `jax.extend`."""

import typing as _typing

from ...trace.base import names as _names

if _typing.TYPE_CHECKING:
    from . import (
        backend as backend, core as core, linear_util as linear_util, random as random,
        source_info_util as source_info_util,
    )

_names.front(globals(), [])
