"""`import jax` means minijit: what is there, what is missing, what is restored."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from harness import refused

import minijit
from minijit import jax_modules

pytestmark = [pytest.mark.chapter(25), pytest.mark.usefixtures("without_jax")]


def test_modules_and_names_are_minijits():
    def asked(x):
        return bool(jnp.asarray(False))

    def doubt(i, x):
        return x + asked(x)

    with minijit.as_jax():
        import jax
        import jax.numpy as jnp
        from jax import grad, lax
        from jax.experimental import io_callback, mesh_utils
        from jax.interpreters import ad
        from jax.scipy.special import logsumexp

        assert jax.jit is minijit.jit and grad is minijit.grad
        assert jnp.sin is minijit.numpy.sin and lax.add is minijit.lax.add
        assert logsumexp is minijit.scipy.special.logsumexp
        assert io_callback is minijit.experimental.io_callback
        assert mesh_utils.create_device_mesh((1,)).shape == (1,)
        assert ad.UndefinedPrimal.__name__ == "Linear"
        assert isinstance(jnp.ones(3), jax.Array)
        assert jax.__version_info__ == (0, 10, 2) and jax.version.__version__
        assert jax.stages.Lowered and jax.stages.Wrapped is type(jax.jit(abs))
        # Libraries ask which types are trees, and add classes of their own to tables.
        from jax._src.tree_util import _registry, broadcast_prefix, prefix_errors

        assert broadcast_prefix(0, [1, 2]) == [0, 0] and not prefix_errors(0, [1])
        assert dict in _registry and int not in _registry
        children, data = _registry[dict].to_iter({"a": 1})
        assert _registry[dict].from_iter(data, children) == {"a": 1}
        assert jax._src.xla_bridge._backends == {}
        assert jax.core.pytype_aval_mappings and jax.core.DropVar and jax.core.gensym
        assert jax.core.get_opaque_trace_state() == jax.core.get_opaque_trace_state()
        jaxpr = jax.make_jaxpr(abs)(1.0).jaxpr
        debug, source = jaxpr.debug_info, jaxpr.eqns[0].source_info
        assert debug.func_name == debug.func_src_info == "abs" and not source.traceback
        assert (debug.traced_for, str(source.name_stack)) == ("make_jaxpr", "")
        copy = jax._src.core.DebugInfo("jit", "abs at file:1", debug.arg_names)
        assert isinstance(copy, jax._src.core.DebugInfo) and copy.func_name == "abs"
        assert jax._src.pjit.jit_p.name == "jit"
        from jaxlib import xla_client

        assert isinstance(jax.devices()[0], xla_client.Device)
        assert jax.interpreters.xla.canonicalize_dtype_handlers
        assert "jit" in dir(jax) and "sin" in jnp.__all__
        # Code for several kinds of arrays (SciPy's) knows `jax.numpy` by its name, and
        # asks a number made in a traced function whether it is known.
        assert jnp.ones(3).__array_namespace__() is jnp
        assert not jnp.asarray(False) and jax.grad(lambda x: x * asked(x))(1.0) == 0
        for f in asked, jax.vmap(asked), lambda x: lax.fori_loop(0, 1, doubt, x):
            with pytest.raises(jax.errors.TracerBoolConversionError):
                jax.jit(f)(jnp.ones(2))
        names: dict = {}
        exec("from jax.numpy import *", names)
        assert names["cos"] is jnp.cos
    assert minijit.numpy.ones(3).__array_namespace__() is minijit.numpy


def test_a_distribution_is_a_module():
    with minijit.as_jax():
        import jax.scipy.stats.norm as norm
        from jax.scipy.stats import poisson

        assert norm.cdf(0.0) == 0.5 and poisson.pmf(0, 1.0) > 0.3
        with pytest.raises(ModuleNotFoundError, match="scipy.stats.nothing"):
            import jax.scipy.stats.nothing  # noqa: F401


def test_what_is_missing_says_so_when_it_is_used():
    with minijit.as_jax():
        import jax
        from jax import smap
        from jax._src import anything
        from jax.experimental import pallas as pl

        assert isinstance(1, (int, pl.BlockSpec)) and not isinstance(1, pl.BlockSpec)
        assert "does not have" in repr(smap)

        class Kernel(pl.BlockSpec):
            blocks: "pl.BlockSpec | None" = None

        refused(NotImplementedError, "which JAX has.*shard_map", smap, abs)
        refused(NotImplementedError, "jax.experimental.pallas.call", pl.call, 1)
        with pytest.raises(AttributeError, match="jax._src.anything"):
            anything.deeper  # noqa: B018
        with pytest.raises(AttributeError, match="BlockSpec"):
            Kernel().shape  # noqa: B018
        # What JAX does not have is missing at once, as programs ask which names it has.
        assert not hasattr(jax, "no_such_name")
        with pytest.raises(ImportError):
            from jax import no_such_name  # noqa: F401
        with pytest.raises(ModuleNotFoundError):
            import jax.no_such_module


def test_after_the_block_everything_is_as_before(tmp_path, monkeypatch):
    (tmp_path / "uses_jax_here.py").write_text("import jax.numpy as jnp\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    with minijit.as_jax():
        import uses_jax_here

        assert uses_jax_here.jnp.sin is minijit.numpy.sin
        with minijit.as_jax():
            import jax  # noqa: F401
        assert "jax" in sys.modules
    assert sys.meta_path == finders
    assert not [name for name in sys.modules if name.split(".")[0] == "jax"]
    assert "uses_jax_here" not in sys.modules and "minijit" in sys.modules


def test_jax_itself_is_not_replaced(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", type(sys)("jax"))
    refused(ImportError, "before anything that imports jax", jax_modules.install)


def run(*arguments, cwd):
    command = [sys.executable, "-m", "minijit.as_jax", *arguments]
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=path)


def test_programs_run_as_python_runs_them(tmp_path):
    (tmp_path / "beside.py").write_text("import jax\nfour = jax.numpy.add(2, 2)\n")
    (tmp_path / "program.py").write_text(
        "import sys, minijit.as_jax\nfrom beside import four\n"
        "with minijit.as_jax():\n    import jax\n"
        "print(__name__, sys.argv[1:], four, jax.jit)\n"
    )
    for how in (["program.py"], ["-m", "program"]):
        ran = run(*how, "-x", "3", cwd=tmp_path)
        assert "__main__ ['-x', '3'] 4 <function jit" in ran.stdout, ran.stderr
    assert "usage:" in run(cwd=tmp_path).stderr


def test_what_a_program_holds_goes_on_after_the_block():
    with minijit.as_jax():
        import jax
    # Nothing of JAX is imported for a name that is asked for only now.
    assert jax.tree.map is minijit.tree.map
    assert jax.experimental.io_callback is minijit.experimental.io_callback
    with minijit.as_jax():
        import jax.lax as again
    assert again is jax.lax


def test_modules_within_an_imported_one_are_imported():
    with minijit.as_jax():
        import jax

        # Libraries look up whence a name comes: in `sys.modules`, by the module's name.
        for module in jax.scipy.stats.bernoulli, jax.tree_util:
            assert sys.modules[module.__name__] is module
    assert "jax.tree_util" not in sys.modules and jax.numpy.fft
    assert "jax.numpy.fft" not in sys.modules


def test_libraries_choose_their_functions_by_what_a_class_is_called():
    """As opt_einsum and autoray do; a pickle can be read where JAX is JAX again."""
    home = lambda x: type(x).__module__.partition(".")[0]
    numpy, seen = minijit.numpy, []
    with minijit.as_jax():
        import jax

        x = numpy.ones(2)
        record = lambda x: seen.append(home(x)) or x
        jax.vmap(record)(x), jax.grad(record)(1.0), jax.jit(record)(x)
        assert home(x) == "jaxlib" and seen == ["jax"] * 3
        from jaxlib._jax import ArrayImpl

        assert ArrayImpl is type(x)
        assert type(jax.jit(record)).__qualname__ == "PjitFunction"  # chex asks so
        kept = pickle.dumps(x)
    assert home(x) == "minijit" and b"jaxlib" not in kept
    assert pickle.loads(kept).tolist() == pickle.loads(pickle.dumps(x)).tolist()


def test_libraries_ask_whether_a_value_is_known():
    """Of an argument, and of an array they make, which is part of what is traced."""
    with minijit.as_jax():
        import jax
        from jax import numpy as jnp

        known, table = [], jnp.ones(2)

        def f(x):
            made = (jnp.asarray([0]), jnp.array(np.ones(2)), jnp.asarray(table))
            known.append([jax.core.is_concrete(y) for y in (x, *made)])
            return x

        jax.jit(f)(1.0), jax.grad(f)(1.0)
        assert known == [[False, False, False, True], [True] * 4]
        assert jax.core.concrete_or_error(None, table) is table


def test_libraries_catch_errors_of_xla():
    with minijit.as_jax():
        import jax
        from jax._src.lib import xla_client
        from jaxlib.xla_client import XlaRuntimeError

        assert xla_client.XlaRuntimeError is XlaRuntimeError
        assert XlaRuntimeError is jax.errors.JaxRuntimeError


def test_algorithms_of_products_are_precisions():
    with minijit.as_jax():
        from jax import lax, numpy as jnp

        preset, x = lax.DotAlgorithmPreset.BF16_BF16_F32_X6, jnp.full((3, 3), 0.1)
        assert isinstance(preset, lax.DotAlgorithmPreset)
        assert not isinstance("highest", lax.DotAlgorithmPreset)
        assert (jnp.dot(x, x, precision=preset) == x @ x).all()


def test_captured_arrays_are_constants_of_jaxprs():
    scale, tree = minijit.numpy.array(2.0), {"a": [minijit.numpy.array(3.0)]}
    inner = lambda x: x * scale
    f = lambda x: inner(x) + tree["a"][0] + minijit.numpy.array(4.0)
    with minijit.as_jax():
        import jax

        closed, shape = jax.make_jaxpr(f, return_shape=True)(1.0)
        assert [float(x) for x in closed.consts] == [2.0, 3.0] and shape.shape == ()
        assert jax.make_jaxpr(lambda x, n: x * n, static_argnums=1)(1.0, 2).consts == ()
        # As distrax inverts functions: the keys of a table need not have an order.
        table = {minijit.lax.sin_p: jax.numpy.array(4.0), minijit.lax.cos_p: None}
        closed = jax.make_jaxpr(lambda x: x * table[minijit.lax.sin_p])(1.0)
        assert [float(x) for x in closed.consts] == [4.0]
        assert len(minijit.make_jaxpr(f)(1.0).consts) == 0


def test_what_libraries_ask_of_trees_and_of_solvers():
    with minijit.as_jax():
        import jax
        from jax.experimental.ode import api_util, ravel_first_arg
        from jax.tree_util import default_registry

        assert default_registry.flatten_one_level({"a": 1}) == ((1,), ("a",))
        assert default_registry.flatten_one_level(1) is None
        pairs, _ = default_registry.flatten_one_level_with_keys({"a": 1})
        assert pairs == ((jax.tree_util.DictKey("a"), 1),)
        y, unravel = jax.flatten_util.ravel_pytree({"a": jax.numpy.ones(2)})
        info = api_util.debug_info("odeint", len, (y,), {})
        f = ravel_first_arg(lambda y, t: {"a": y["a"] * t}, unravel, info)
        assert f(y, 3.0).tolist() == [3.0, 3.0]


PROGRAM = """
import jax, jax.numpy as jnp
from jax import lax

scales = [2.0]

def layer(x):
    print("layer")
    return jnp.tanh(x)

def scaled(x):
    print("scaled")
    return scales[0] * x

def run(x):
    def step(c, _):
        print("step")
        return jnp.sin(c), None

    x = lax.scan(step, x, None, length=3)[0]
    x = jax.jit(lambda x: jnp.cos(x))(x)
    for _ in range(4):
        x = jax.jit(lambda x: jax.checkpoint(layer)(jax.checkpoint(layer)(x)))(x)
    return jax.checkpoint(scaled)(x)
"""


def test_functions_that_read_jnp_are_known_by_what_they_say(capsys):
    """As JAX knows the very same function; one that reads a list is recorded anew."""
    with minijit.as_jax():
        exec(PROGRAM, names := {})
    first = names["run"](1.0)
    assert capsys.readouterr().out.split() == ["step", "layer", "scaled"]
    assert names["run"](1.0) == first
    names["scales"][0] = 3.0
    assert float(names["run"](1.0)) == pytest.approx(1.5 * float(first), rel=1e-6)
    assert capsys.readouterr().out.split() == ["scaled", "scaled"]
