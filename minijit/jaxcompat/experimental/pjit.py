"""`pjit`, which is `jit`."""

from ...trace.base import names as _names
from ...trace.jit import jit

pjit = jit.jit

_names.publish(globals(), "pjit")
