"""`import jax` that means minijit: the modules of JAX, each made of minijit's.

    python -m minijit.as_jax program.py arguments    # a program written for JAX
    python -m minijit.as_jax -m package.module       # the same for `python -m`
    import minijit.as_jax                            # from here on, in a notebook
    with minijit.as_jax():                           # for the imports of a block
        import jax, optax

Nothing of the program or of the libraries it imports is changed.  A module of JAX is a
`Facade`: its names are those of minijit's modules.  A name that JAX has and minijit
does not is a `Missing`: it can be imported, and says what it is when it is used.
"""

from __future__ import annotations

import copyreg
import importlib
import os
import runpy
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

from ..trace.jit.captures import capture_rules
from .missing import jax_names, missing_modules, no_such_name

package = __name__.partition(".")[0]

# The version of JAX whose names these are.
version = "0.10.2"
version_info = tuple(map(int, version.split(".")))
jaxlib_extension_version = 467  # Libraries ask by it what the jaxlib of that JAX can.
# What XLA has started, which is nothing.
backends: dict = {}
# Of the processes that compute together there is this one.
global_state = types.SimpleNamespace(client=None, process_id=0, num_processes=1)


def rows_of(text):
    """Rows "names: other names" of a text, as pairs of lists."""
    rows = text.strip().replace("\n     ", " ").split("\n")
    return [[side.split() for side in row.split(":")] for row in rows]


# Modules of JAX: the modules of minijit that have their names, the first ones first.
# Of a module that is not listed they are in the one of the same name.
sources = rows_of("""
    version _src.numpy _src.literals:
    stages _src.stages: trace.api.stages jaxcompat.analyses
    lax.linalg: ops.linalg
    extend.core.primitives: lax trace.jit.jit transform.custom.custom_derivatives
     ops.linalg
    _src.ad_util: interpreters.ad transform.derivatives.linearize
    _src.checkify: experimental.checkify ops.checks
    _src.config: jaxcompat.flags trace.base.config
    _src.core: core extend.core
    _src.lax.lax: jaxcompat.lax_internals lax
    _src.linear_util: extend.linear_util
    _src.numpy.lax_numpy: numpy
    _src.numpy.util: jaxcompat.lax_internals
    _src.pjit: trace.jit.jit
    _src.state.types: ref
    _src.source_info_util _src.traceback_util: extend.source_info_util
    _src.xla_bridge: trace.api.devices
""")
sources = {name: found for names, found in sources for name in names}
sources["_src.api"] = [""]
# Private modules, of which minijit's is the public one.
sources |= {
    f"_src.{name}": [name]
    for name in """
        api_util dtypes flatten_util interpreters.ad interpreters.batching
        interpreters.mlir interpreters.partial_eval random ref tree_util typing
    """.split()
}

# Single names that are elsewhere: modules of JAX ("." is `jax`), that of minijit, and
# the names, with "=" before what they are called here.
single_names = {}
for _modules, (_found, *_names) in rows_of("""
    _jax: trace.jit.jit PjitFunction=JitFunction
    _jax xla_client: trace.api.devices Device
    _jax xla_client: errors JaxRuntimeError XlaRuntimeError=JaxRuntimeError
    _jax _src.array: trace.array ArrayImpl
    _src.dispatch: jaxcompat.plain_answers wait_for_tokens=effects_barrier
    _src.dtypes: jaxcompat.lax_internals to_complex_dtype
    lax _src.lax.lax: jaxcompat.lax_internals DotAlgorithmPreset
    _src.dtypes: trace.dtypes TypePromotionError
    _src.lib: jax_modules jaxlib_extension_version version=version_info
     version_str=version
    . version: jax_modules __version__=version __version_info__=version_info
    _src.xla_bridge: jax_modules _backends=backends
    . _src.api: jaxcompat.captured make_jaxpr
    numpy: jaxcompat.captured array asarray
    _src.ad_checkpoint: ad_checkpoint saved_residuals=residual_pairs
    _src.distributed: jax_modules global_state
    core: jaxcompat.core is_constant_dim
    core: extend.core DropVar JaxprTypeError check_jaxpr concrete_or_error
     find_top_trace gensym get_opaque_trace_state is_concrete jaxprs_in_params
     new_jaxpr_eqn primal_dtype_to_tangent_dtype trace_state_clean
     unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE
     valid_jaxtype
    _src.core: extend.core trace_state_clean
    _src.public_test_util: test_util check_close
    _src.tree_util: jaxcompat.attributes _registry=node_types
    _src.util: api_util safe_map
    _src.tree_util: trace.trees.tools broadcast_prefix equality_errors prefix_errors
    _src.tree_util: trace.trees.paths generate_key_paths=tree_leaves_with_path
    .: export eval_shape
    experimental.ode: . api_util
    tree_util: jaxcompat.registry default_registry
    debug: sharding inspect_array_sharding visualize_array_sharding visualize_sharding
    experimental.pallas: numpy.slicing Slice ds dslice
    experimental.sparse: jax_modules sparsify
    stages: trace.api.stages Traced=Lowered
    stages: trace.jit.jit Wrapped=JitFunction
"""):
    for _name in _names:
        _theirs, _, _ours = _name.partition("=")
        _place = f"{_found.strip('.')}:{_ours or _theirs}"
        single_names |= {f"{m}.{_theirs}".strip("."): _place for m in _modules}

# Modules that JAX has and minijit does not.  All of their names are missing, and so
# are those of the private ones.
not_here = missing_modules | {*"""
    _src _src.distributed cloud_tpu_init collect_profile tools
    experimental.colocated_python.serialization extend.core.primitives
""".split()}

# What there is in jaxlib, of which no name is here.
in_jaxlib = """
    _jax _xla cpu cpu_sparse gpu_common_utils gpu_linalg gpu_prng gpu_rnn gpu_solver
    gpu_sparse gpu_triton lapack mlir mosaic plugin_support triton utils version
    weakref_lru_cache xla_client
""".split()


# Names that JAX no longer has: libraries try them first.
gone = {"_src.api._infer_argnums_and_argnames", "lib.xla_bridge"}


def sparsify(f, use_tracer=False):
    """A function of sparse arrays: `f` itself, since there are dense ones only."""
    return f


class Missing:
    """A name of JAX's that minijit does not have.

    It may stand in annotations, in a tuple of classes and as a base class; nothing is
    an instance of it.  Whoever calls it, or asks for an attribute, is told: of a
    primitive, whoever calls its `bind`.
    """

    def __init__(self, module, name):
        self.__dict__ |= {"__module__": module, "__name__": name}
        self.__qualname__ = name

    def complaint(self):
        known = no_such_name(self.__module__.replace("jax", package, 1), self.__name__)
        if "which JAX has" in known:
            return known
        return f"{package} has no {self.__module__}.{self.__name__}, which JAX has."

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(self.complaint())

    __getitem__ = __iter__ = __enter__ = __call__

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "bind" and self.__name__.endswith("_p"):
            return self
        raise AttributeError(self.complaint(), name=name, obj=self)

    def __mro_entries__(self, bases):
        """A class that derives from it is made; what it would inherit is not there."""

        def refuse(instance, name):
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(self.complaint(), name=name, obj=instance)

        return (type(self.__name__, (), {"__getattr__": refuse}),)

    def __instancecheck__(self, x):
        return False

    __subclasscheck__ = __instancecheck__

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __repr__(self):
        return f"<{self.__module__}.{self.__name__}, which {package} does not have>"


class Facade(types.ModuleType):
    """A module of JAX: its names are looked up in minijit's, and then kept."""

    def __init__(self, name):
        super().__init__(name, f"JAX's module {name}, made of minijit's.")
        self.__path__ = []

    def __getattr__(self, name):
        if name == "__all__":
            return dir(self)
        inner = f"{self.__name__}.{name}".partition(".")[2]
        if inner in single_names:
            found, _, attribute = single_names[inner].partition(":")
            return getattr(import_mine(found), attribute)
        for found in [] if inner in sources else self.made_of():
            value = getattr(found, name, self)
            if value is not self:
                break
        else:
            value = self.other(name)
        if isinstance(value, types.ModuleType) and not isinstance(value, Facade):
            value = self.module_within(name, value)
        setattr(self, name, value)
        return value

    @property
    def __dict__(self):  # type: ignore[override]
        """All names there are: libraries copy them."""
        for name in dir(self):
            setattr(self, name, getattr(self, name))
        return types.ModuleType.__dict__["__dict__"].__get__(self)

    def made_of(self):
        """The modules of minijit that have the names of this one."""
        return [import_mine(name) for name in mine(self.__name__)]

    def module_within(self, name, module):
        """A module that one of minijit's modules has: as one of JAX's."""
        full = f"{self.__name__}.{name}"
        return self.submodule(full) if is_module(full) else module

    def submodule(self, full):
        """The facade of a module within this one, imported if this one is."""
        found = facade(full)
        if sys.modules.get(self.__name__) is self:
            sys.modules.setdefault(full, found)
        return found

    def other(self, name):
        """What is no name of minijit's: a module of JAX's, or a missing name."""
        full = f"{self.__name__}.{name}"
        inner = full.partition(".")[2]
        if self.__name__ == "jax._src.lib" and name in in_jaxlib:
            return facade(f"jaxlib.{name}")
        in_jaxlib_alone = self.__name__ == "jaxlib" and name in in_jaxlib
        if in_jaxlib_alone or inner in sources or inner in not_here or mine(full):
            return self.submodule(full)
        known = not name.startswith("__") and inner not in gone
        if not known or not is_missing(self.__name__, name):
            message = f"module {self.__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)
        return Missing(self.__name__, name)

    def __repr__(self):
        return f"<module {self.__name__!r}, made of {package}'s>"

    def __dir__(self):
        names = {name for module in self.made_of() for name in dir(module)}
        return sorted(name for name in names if not name.startswith("_"))


# A function that reads `jnp.sin` reads what stays: it is known by its code, and not
# traced again where it is made anew.
capture_rules |= {Facade: lambda walk, name, module: walk.identify(name, module)}

# The facades there are, by name: they go on working where `jax` means JAX again.
facades: dict = {}


def facade(name):
    """The facade of a module of JAX."""
    return facades.setdefault(name, Facade(name))


def import_mine(name):
    """A module of minijit: "" is minijit itself."""
    return importlib.import_module(f"{package}.{name}" if name else package)


def mine(name):
    """The modules of minijit for a module of JAX; none if it is not here."""
    inner = name.partition(".")[2]
    if inner in sources or not inner:
        return sources.get(inner, [""])
    try:
        import_mine(inner)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(f"{package}."):
            raise
        return []
    return [inner]


def absent(inner):
    """Whether a module is, or is in, one that JAX has and minijit does not."""
    parts = inner.split(".")
    for i in range(1, len(parts) + 1):
        head = ".".join(parts[: i - 1])
        if ".".join(parts[:i]) in not_here or parts[i - 1] in jax_names.get(head, {}):
            return True
    return False


def is_module(name):
    """Whether a module of JAX can be imported."""
    inner = name.partition(".")[2]
    return inner in sources or bool(mine(name)) or absent(inner) and inner not in gone


def is_missing(module, name):
    """Whether a name is one that JAX has and minijit does not, as far as is known."""
    package, _, inner = module.partition(".")
    return package == "jaxlib" or absent(inner) or name in jax_names.get(inner, {})


class Finder:
    """Finds `jax` and what is in it, and `jaxlib`: put before all other finders."""

    def find_spec(self, name, path=None, target=None):
        package, _, inner = name.partition(".")
        first, dot, _ = inner.partition(".")
        in_package = first in ("mlir", "mosaic", "triton")
        of_jaxlib = package == "jaxlib" and (
            not inner or first in in_jaxlib and (in_package or not dot)
        )
        if of_jaxlib or package == "jax" and is_module(name):
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return facade(spec.name)

    def exec_module(self, module):
        """Names are looked up when they are asked for; modules within are kept."""
        within = f"{module.__name__}."
        sys.modules.update({n: m for n, m in facades.items() if n.startswith(within)})


finder = Finder()


def jax_is(kind):
    """The names of the modules of JAX that are imported, and facades or not."""
    jax = [n for n in sys.modules if n.partition(".")[0] in ("jax", "jaxlib")]
    return [n for n in jax if isinstance(sys.modules[n], Facade) == kind]


# Libraries choose their functions by the package in which an array's class is, and ask
# whether a function is jitted by the name of its class.
classes_of_jax = {
    "trace.array:ArrayImpl": "jaxlib._jax ArrayImpl",
    "trace.jaxprs.jaxpr:JaxprTracer": "jax._src.core JaxprTracer",
    "trace.jit.jit:JitFunction": "jaxlib._jax PjitFunction",
    "transform.batching.vmap:BatchTracer": "jax._src.core BatchTracer",
    "transform.derivatives.linearize:JVPTracer": "jax._src.core JVPTracer",
}


def classes_are_of(theirs):
    """Say that the classes of arrays, tracers, jitted functions are JAX's, or whose."""
    for place, jaxs in classes_of_jax.items():
        module, _, name = place.partition(":")
        cls = getattr(import_mine(module), name)
        own = f"{package}.{module} {name}"
        cls.__module__, cls.__qualname__ = (jaxs if theirs else own).split()


def read_array(value, aval):
    """The array of a pickle, which names no class: it may be read where JAX is JAX."""
    return import_mine("trace.array").ArrayImpl(value, aval)


def install():
    """From here on `import jax` means minijit in this process."""
    if jax_is(False):
        raise ImportError(
            "JAX itself is imported already, and two cannot have one name.\n"
            f"  Instead: import {package}.as_jax before anything that imports jax."
        )
    if any(name.startswith("JAX_") for name in os.environ):
        import_mine("jaxcompat.flags").from_jax_environment()
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    import_mine("numpy.namespace").spaces["arrays"] = "jax.numpy"
    classes_are_of(theirs=True)
    array = import_mine("trace.array").ArrayImpl
    copyreg.pickle(array, lambda x: (read_array, x.__reduce__()[1]))


@contextmanager
def as_jax() -> Iterator[None]:
    """In a `with` block `import jax` means minijit; after it, whatever it meant before.

    Libraries that the block imported, and that use JAX, are imported anew after it; the
    modules that the program holds go on using minijit.
    """
    installed, before = finder in sys.meta_path, {*sys.modules}
    install()
    try:
        yield
    finally:
        if not installed:
            sys.meta_path.remove(finder)
            import_mine("numpy.namespace").spaces["arrays"] = f"{package}.numpy"
            classes_are_of(theirs=False)
            forget_users({*sys.modules} - before)


def forget_users(new):
    """Take the facades out of `sys.modules`, and the packages that refer to them."""
    using = {
        name.partition(".")[0]
        for name in new
        if any(isinstance(x, Facade) for x in vars(sys.modules[name]).values())
    } - {package}
    for name in [*new, *jax_is(True)]:
        if name.partition(".")[0] in using | {"jax", "jaxlib"}:
            sys.modules.pop(name, None)


def run_program(arguments):
    """Run a program as Python would: `file arguments`, or `-m module arguments`."""
    if not arguments:
        sys.exit(f"usage: python -m {package}.as_jax [-m module | file] arguments")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = ""
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")
