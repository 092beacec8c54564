"""Importing this makes `import jax` mean minijit; see `jax_modules.py`.

    python -m minijit.as_jax program.py arguments
"""

import sys
import types

# `python -m minijit.as_jax` has another name for this module.
from minijit.jaxcompat.jax_modules import as_jax, install, run_program

install()


class AsJax(types.ModuleType):
    """So that `with minijit.as_jax():` means the same once this is imported."""

    def __call__(self):
        return as_jax()


sys.modules[__name__].__class__ = AsJax

if __name__ == "__main__":
    run_program(sys.argv[1:])
