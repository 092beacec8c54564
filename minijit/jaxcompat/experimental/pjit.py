"""`pjit`, which is `jit`."""

from ...trace import jit, names as _names

pjit = jit.jit

_names.publish(globals(), "pjit")
