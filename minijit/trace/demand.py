"""What is imported when it is first asked for: names for users, rows of tables.

    fetch("run.explaining:explain")                 # the function, from its module
    executors |= {"cuda": on_demand("run.cuda:compile_cuda")}       # imports nothing
    additions |= {"run.grid": ["run.tiles"]}

Modules that most programs do without, such as all for CUDA, are named by text only.
"""

import importlib

package = __name__.partition(".")[0]

# A module -> those that have more rows for its tables; it says `add_rows` itself, when
# it first needs them.
additions: dict = {}


def fetch(place):
    """What "module:name" means, or "module": its name begins after the package's."""
    module, _, name = place.partition(":")
    found = importlib.import_module(f"{package}.{module}")
    return getattr(found, name) if name else found


def on_demand(place):
    """A function for a table: that of `fetch`, which is called with all arguments."""

    def call(*args, **kwargs):
        return fetch(place)(*args, **kwargs)

    return call


def add_rows(module):
    """Import the `additions` of a module, which are there from now on."""
    for other in additions.get(module, ()):
        fetch(other)
