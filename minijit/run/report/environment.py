"""`print_environment_info`: what a report of a bug should say of the machine."""

from __future__ import annotations

import platform
import sys

from ...trace.api.devices import cpu
from ...trace.base.config import config


def version_of(package):
    """The version of an installed package, without importing it."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def changed_flags():
    """The flags of `config` that do not have their defaults here, as `name=value`."""
    found = [(name, config.read(name)) for name in sorted(config.values)]
    return [f"{k}={v!r}" for k, v in found if v != config.defaults[k]]


def environment_info():
    """The lines of `print_environment_info`."""
    package = sys.modules[__name__.partition(".")[0]]
    packages = "numpy scipy numba llvmlite ml_dtypes".split()
    rows = [
        ("minijit", package.__version__),
        *((name, version_of(name)) for name in packages),
        ("python", " ".join(sys.version.split())),
        ("platform", platform.platform()),
        ("device", f"{cpu!r}, {platform.machine()}"),
        ("cpu_threads", config.cpu_threads),
        ("flags changed", ", ".join(changed_flags()) or "none"),
    ]
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name + ':':{width}}{value}" for name, value in rows)


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions and the flags that a report of a bug should give.

    Args:
      return_string: give the text instead of printing it.  JAX: same name.
    """
    text = environment_info()
    if return_string:
        return text
    print(text)
    return None
