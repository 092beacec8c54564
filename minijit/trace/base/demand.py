"""What is imported when it is first asked for: names for users, rows of tables.

    fetch("run.report.explaining:explain")      # the function
    executors |= {"cuda": on_demand("run.cuda.eager:compile_cuda")} # imports nothing
    additions |= {"run.device.grid": ["run.device.tiles"]}
    extension("scipy.linalg.cython_lapack")         # and not all of scipy.linalg

Modules that most programs do without, such as all for CUDA, are named by text only.
What is there only because JAX has it lies in `jaxcompat/`, and is found under JAX's
names as well: `minijit.core` is the module `minijit.jaxcompat.core`.
"""

import functools
import gc
import importlib
import importlib.util
import os
import sys
import threading
import weakref
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec

from .locks import Lock

package = __name__.partition(".")[0]

# The parts of the package that are no modules for users.
inner_parts = {
    "trace", "transform", "compile", "run", "ops", "compiler", "book", "jaxcompat"
}

# A module -> those that have more rows for its tables; it says `add_rows` itself, when
# it first needs them.
additions: dict = {}


class Import:
    """That a thread imports something: over when its lock is free."""

    def __init__(self):
        self.thread, self.lock = threading.get_ident(), Lock(threading.Lock())


# Those that go on now.  A module that is half imported is locked, in a forked process
# for ever: so a fork waits for them (`turns`).
imports: weakref.WeakSet = weakref.WeakSet()
imports_lock = Lock(threading.RLock())


@contextmanager
def importing():
    """No collection of garbage meanwhile, and no fork by another thread.

    While modules are imported, thousands of objects come and stay: a collection amid
    them, of all that the process has, takes longer than the import itself.
    """
    this = Import()
    with this.lock:
        with imports_lock:
            imports.add(this)
        collecting = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collecting:
                gc.enable()


def fetch(place):
    """What "module:name" means, or "module": its name begins after the package's."""
    module, _, name = place.partition(":")
    with importing():
        if module.startswith(("compile", "run")):
            importlib.import_module(f"{package}.compiler")
        found = importlib.import_module(f"{package}.{module}".strip("."))
    return getattr(found, name) if name else found


def import_compiler():
    """All of the compiler, for a part alone has tables that lack rows.

    Its packages say so: what a thread imports of them now, another thread may want that
    imports all.  So here nobody waits for that one.  Public modules do, which import
    `compiler` before a part of it.
    """
    if f"{package}.compiler" not in sys.modules:
        fetch("compiler")


def on_demand(place):
    """A function for a table: that of `fetch`, which is called with all arguments."""

    def call(*args, **kwargs):
        return fetch(place)(*args, **kwargs)

    return call


def add_rows(module):
    """Import the `additions` of a module, which are there from now on."""
    for other in additions.get(module, ()):
        fetch(other)


def more_attributes(module, classes):
    """Let a module give classes more attributes: it is imported once one is missing."""

    def missing(self, name):
        fetch(module)
        return object.__getattribute__(self, name)

    for cls in classes:
        cls.__getattr__ = missing


@functools.cache
def extension(name):
    """A module of another package that is machine code; None if there is no such file.

    By its path: `import scipy.linalg` reads the documentation of all its functions
    first, which takes 200 ms of the processor, and this a tenth.
    """
    if name in sys.modules:
        return sys.modules[name]
    first, *inner = name.split(".")
    folder, = importlib.util.find_spec(first).submodule_search_locations
    start = os.path.join(folder, *inner)
    for path in filter(os.path.exists, (start + s for s in EXTENSION_SUFFIXES)):
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        # It may have put itself there.  Who imports it with its package finds it anew,
        # as an attribute of the package.
        sys.modules.pop(name, None)
        return module
    return None


def public_name(module):
    """The name by which users know a module."""
    return module.replace(f"{package}.jaxcompat.", f"{package}.")


class JaxNames:
    """Finds `minijit.X` in `jaxcompat/X`: one module that has two names.

    It comes before Python's own finders: those would read a module of a package again
    for its second name.
    """

    def find_spec(self, name, path=None, target=None):
        first, *inner = name.split(".")
        if first != package or not inner or inner[0] in inner_parts:
            return None
        place = os.path.join(sys.modules[package].__path__[0], "jaxcompat", inner[0])
        if not os.path.isdir(place) and not os.path.exists(f"{place}.py"):
            return None
        found = importlib.util.find_spec(".".join([package, "jaxcompat", *inner]))
        return found and ModuleSpec(name, self, origin=found.origin)

    def create_module(self, spec):
        """An empty one, until `exec_module` puts the real one into its place."""

    def exec_module(self, module):
        name = module.__name__
        sys.modules[name] = importlib.import_module(self.real_name(name))

    def get_code(self, name):
        """What `python -m` runs."""
        name = self.real_name(name)
        return importlib.util.find_spec(name).loader.get_code(name)

    def real_name(self, name):
        """Where the module is."""
        return name.replace(package, f"{package}.jaxcompat", 1)


sys.meta_path.insert(0, JaxNames())
