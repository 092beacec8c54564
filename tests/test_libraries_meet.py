"""What libraries written for JAX rely on, and no program says aloud."""

import contextlib
import copy
import functools
import importlib
import inspect
import os
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
import referee
from harness import alike

import minijit as mj
from minijit import lax, numpy as jnp
from minijit.extend import core as jex
from minijit.interpreters import ad, mlir, partial_eval as pe, xla

pytestmark = pytest.mark.chapter(25)


def branches(x):
    """A function whose derivative has residuals of one branch or of the other."""
    return lax.cond(x > 0, jnp.sin, lambda x: x * x * x, x)


def linear_part(x):
    return mj.linearize(branches, x)[1]


# ---- linear functions are pytrees


def test_linear_functions_may_be_carried_by_loops():
    def carried(x):
        leaves, tree = mj.tree.flatten(linear_part(x))
        kinds = mj.eval_shape(lambda: leaves)
        zeros = [jnp.zeros(a.shape, a.dtype) for a in kinds]
        keep = lambda i, old: [
            jnp.where(i == 3, a, b) for a, b in zip(leaves, old, strict=True)
        ]
        return mj.tree.unflatten(tree, lax.fori_loop(0, 5, keep, zeros))(2.0)

    xs = jnp.array([1.0, -2.0])
    want = 2 * np.array([np.cos(1.0), 12.0])
    for f in (carried, mj.jit(carried)):
        np.testing.assert_allclose([f(x) for x in xs], want, rtol=1e-6)
    np.testing.assert_allclose(mj.vmap(carried)(xs), want, rtol=1e-6)


# ---- residuals of branches, known by shape and dtype alone


@pytest.mark.parametrize("jit", [lambda f: f, mj.jit])
def test_a_zero_is_made_of_a_residuals_shape_and_dtype(jit):
    kinds = mj.eval_shape(linear_part, 1.0)
    ways = [
        lambda a: jnp.zeros(a.shape, a.dtype),
        lambda a: jnp.empty(a.shape, a.dtype),
        lambda a: jnp.full(a.shape, 0.0, a.dtype),
    ]
    for way in ways:
        assert jit(lambda way=way: mj.tree.map(way, kinds)(2.0))() == 0.0
    assert jit(lambda x: mj.tree.map(jnp.zeros_like, linear_part(x))(2.0))(1.0) == 0.0
    consts = mj.make_jaxpr(linear_part(1.0))(1.0).consts
    assert [jnp.zeros(a.shape, a.dtype).aval for a in mj.eval_shape(lambda: consts)]


conversions = [lax.convert_element_type, jnp.astype, jnp.asarray]


@pytest.mark.parametrize("convert", conversions)
def test_a_residual_is_converted_to_its_own_dtype(convert):
    own = lambda x: mj.tree.map(lambda a: convert(a, a.dtype), linear_part(x))(2.0)
    assert own(1.0) == mj.jit(own)(1.0) == linear_part(1.0)(2.0)
    union = next(a for a in mj.tree.leaves(linear_part(1.0)) if a.dtype.kind == "O")
    with pytest.raises(TypeError, match="not a valid array type"):
        convert(jnp.ones(()), union.dtype)


def test_of_a_residual_there_are_zeros_only():
    union = next(a for a in mj.tree.leaves(linear_part(1.0)) if a.dtype.kind == "O")
    with pytest.raises(TypeError, match="a type without elements"):
        jnp.full(union.shape, 1.0, union.dtype)
    with pytest.raises(TypeError, match="a type without elements"):
        jnp.zeros((3,), union.dtype)


no_arrays = {
    "select": lambda a: lax.select(True, a, a), "stack": lambda a: jnp.stack([a, a]),
    "add": lambda a: a + a, "double": lambda a: 2 * a, "eq": lambda a: a == a,
    "neg": lambda a: -a, "index": lambda a: a[None], "sum": jnp.sum,
}  # fmt: skip


def test_what_residuals_refuse_says_what_they_are():
    union = next(a for a in mj.tree.leaves(linear_part(1.0)) if a.dtype.kind == "O")
    for function in no_arrays.values():
        for call in (function, mj.jit(function)):
            with pytest.raises((TypeError, ValueError), match="keeps for its deriv"):
                call(union)


def test_a_residual_or_nothing():
    leaves, tree = mj.tree.flatten(linear_part(1.0))
    chosen = lambda p: [jnp.where(p, a, 0) for a in leaves]
    for choose in (chosen, mj.jit(chosen)):
        linear = [mj.tree.unflatten(tree, choose(p)) for p in (True, False)]
        found = [f(2.0) for f in linear]
        np.testing.assert_allclose(found, [2 * np.cos(1.0), 0.0], rtol=1e-6)


def test_rules_are_given_arrays_for_numbers():
    """Libraries ask them for `astype` and `shape`; a bool stays a bool, as in JAX."""
    seen = []
    note = lambda *xs: seen.append(xs) or xs[0]
    with_rule = [mj.custom_jvp(note), mj.custom_vjp(note)]
    with_rule.append(mj.custom_batching.custom_vmap(note))
    with_rule[0].defjvp(lambda xs, ts: (note(*xs), ts[0]))
    with_rule[1].defvjp(lambda *xs: (note(*xs), None), lambda kept, ct: (ct,) * 4)
    for f in with_rule:
        f(2.0, 3, np.ones(2, np.float32), True)
    mj.grad(with_rule[0])(2.0, 3, np.ones(2, np.float32), True)
    assert len(seen) == 4
    for x, n, array, flag in seen:
        assert x.aval.weak_type and n.aval.weak_type and flag is True
        assert array.aval == mj.core.ShapedArray((2,), np.float32)


def test_names_that_tests_of_libraries_ask():
    check_close = mj.test_util.check_close
    check_close({"a": jnp.ones(3)}, {"a": np.ones(3) + 2e-6})
    for options in ({}, {"rtol": {jnp.float32: 1e-6}, "atol": 0.0}):
        with pytest.raises(AssertionError):
            check_close(jnp.ones(3), np.ones(3) + 2e-5, **options)
    check_close(jnp.ones(3), np.ones(3, np.float32) * 1.01, rtol={jnp.float32: 1e-2})
    from minijit.jaxcompat.lax_internals import to_complex_dtype

    assert to_complex_dtype(np.int32) == to_complex_dtype(np.float64) == np.complex64
    with mj.enable_x64():
        assert to_complex_dtype(np.int64) == to_complex_dtype("f8") == np.complex128
    key = mj.random.key(0).dtype
    assert mj.dtypes.canonicalize_dtype(key, allow_extended_dtype=True) == key
    with pytest.raises(ValueError, match="allow_extended_dtype"):
        mj.dtypes.canonicalize_dtype(key)


@pytest.mark.parametrize("jit", [lambda f: f, mj.jit])
def test_host_functions_pass_residuals_by(jit):
    """Equinox's `error_if` promises a host function's result in the place of any."""

    def checked(x):
        linear, seen = linear_part(x), []
        kinds = mj.eval_shape(lambda: linear)
        nothing = lambda a: np.zeros(a.shape, a.dtype)
        tell = lambda *leaves: seen.append(leaves) or mj.tree.map(nothing, kinds)
        other = lambda: mj.pure_callback(tell, kinds, *mj.tree.leaves(linear))
        return lax.cond(x > 1.5, other, lambda: linear)(2.0)

    np.testing.assert_allclose(jit(checked)(1.0), 2 * np.cos(1.0), rtol=1e-6)
    assert jit(checked)(1.75) == 0.0


def test_a_zero_tangent_is_a_tree_without_leaves():
    zero = ad.Zero(mj.core.ShapedArray((3,), np.float32))
    assert mj.tree.leaves([zero, 1.0]) == [1.0]
    again = mj.tree.map(lambda x: x, zero)
    assert isinstance(again, ad.Zero) and again.aval == zero.aval


# ---- names that are none


class Nameless:
    """As modules of equinox: callable, and what names it is no string."""

    __name__ = None
    __annotations__ = property(lambda self: None)  # Python's own class has a dict.

    def __call__(self, x):
        return 2 * x


@pytest.mark.parametrize(
    "transform",
    [mj.jit, mj.vmap, mj.checkpoint, mj.jacfwd, mj.jacrev, mj.hessian, mj.make_jaxpr]
    + [jnp.vectorize, mj.experimental.checkify.checkify, mj.closure_convert, mj.pmap]
    + [lambda f: mj.grad(lambda x: mj.value_and_grad(f)(x)[1])]
    + [functools.partial(mj.named_call, name="f")],
)
def test_functions_whose_name_is_no_string(transform):
    nameless = Nameless()
    if transform is mj.closure_convert:
        assert transform(nameless, 1.0)[0](1.0) == 2.0
    else:
        transform(nameless)(jnp.ones(1) if transform in (mj.vmap, mj.pmap) else 1.0)


# ---- texts


def test_an_equation_and_a_jaxpr_as_text():
    closed = mj.make_jaxpr(lambda x: jnp.sin(x) * 2)(np.float32(1))
    assert list(map(str, closed.eqns)) == ["a:f32[] = sin b",
                                           "a:f32[] = mul b 2.0:f32[]"]
    for jaxpr in (closed, closed.jaxpr):
        text = jaxpr.pretty_print(use_color=False)
        assert text == str(closed) and "c:f32[] = mul b 2.0:f32[]" in text


@pytest.mark.oracle
def test_residuals_as_pairs():
    import jax.ad_checkpoint
    from jax._src.ad_checkpoint import saved_residuals as of_jax

    from minijit.jaxcompat.ad_checkpoint import residual_pairs as of_ours


    def answers(jax, of):
        def f(x, y):
            z = jax.ad_checkpoint.checkpoint_name(jax.numpy.sin(3.0), "z")
            return z * (x[0] * x[1] * y) * np.array([3.0], np.float32)

        pairs = of(f, (2.0, 3.0), y=4.0)
        return [(aval.shape, text.partition(" from ")[0]) for aval, text in pairs]

    assert answers(mj, of_ours) == answers(jax, of_jax)


# ---- modules


def test_modules_of_jaxlib_are_those_that_there_are(without_jax):
    with mj.as_jax():
        assert importlib.import_module("jaxlib.xla_client").__name__
        assert importlib.import_module("jaxlib.mlir.dialects").__name__
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("jaxlib.xla_extension")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("jaxlib._jax.PjitFunction")
        from jaxlib._jax import PjitFunction

        assert isinstance(mj.jit(abs), PjitFunction)  # gpjax registers the class.


# ---- names


def test_methods_are_asked_of_the_class():
    x = jnp.arange(6.0)
    assert mj.Array.sum(x) == 15 and mj.Array.reshape(x, (2, 3)).shape == (2, 3)
    assert mj.jit(lambda x: mj.Array.all(x >= 0))(x)
    assert isinstance(mj.Array.T, property) and mj.Array.at.fget(x)[0].get() == 0
    assert mj.Array.item(x[1]) == 1.0 and mj.Array.tolist(x[:2]) == [0.0, 1.0]
    assert not hasattr(mj.Array, "sine")


def test_names_that_libraries_ask_for(capsys, without_jax):
    with mj.as_jax():
        import jax
        import jax.export
        import jax.extend.backend
        from jax.experimental import sparse
        from jax.interpreters import batching

        with pytest.raises(ImportError):
            from jax._src.api import _infer_argnums_and_argnames  # noqa: F401
        with pytest.raises(ImportError):
            from jax.lib import xla_bridge  # noqa: F401
        from jax._src.api_util import infer_argnums_and_argnames
        from jax._src.lib import jaxlib_extension_version, version
        from jax._src.util import safe_map  # JAX's page on interpreters.

        assert jaxlib_extension_version >= 448 and version == (0, 10, 2)  # grain asks.

        assert sparse.sparsify(jnp.sin)(0.0) == 0 and not isinstance(1, sparse.BCOO)
        sizes = [3, jax.export.symbolic_shape("n")[0]]
        assert safe_map(jax.export.is_symbolic_dim, sizes) == [False, True]
        assert safe_map(jax.core.is_constant_dim, sizes) == [True, False]  # haliax.
        functions = vars(jax.numpy)  # scico copies them.
        assert {"array", "sin"} <= set(functions) and "pi" in vars(jax.numpy)
        assert jax.extend.backend.get_backend().platform == "cpu"
        assert jax.extend.backend.backends()["cpu"].device_count() == 1
        assert jax.core.Effects == jax.extend.core.Effects and jax.core.DebugInfo
        kind = type("VariableEffect", (jax.core.Effect,), {})  # flax.nnx has one.
        assert isinstance(kind(), jax.extend.core.Effect)
        assert not jax.profiler.TraceAnnotation.is_enabled()
        assert jax.sharding.auto_axes(abs, axes="x")(-1) == 1
        assert jax.sharding.auto_axes(axes="x")(abs)(-1) == 1
        x = jax.device_put(jnp.arange(8.0), jax.memory.Space.Host)
        assert any(x is y for y in jax.live_arrays())
        jax.debug.visualize_array_sharding(jnp.ones((4, 4)))
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 11 and {len(line) for line in lines} == {25}
        assert lines[5].strip("│ ") == "CPU 0"

        class Data(dict):
            pass

        batching.register_vmappable(Data, int, int, None, None, None)
        with pytest.raises(NotImplementedError, match="register_vmappable"):
            jax.vmap(lambda d, x: x)(Data(), jnp.ones(2))
        batching.unregister_vmappable(Data)
    signature = inspect.signature(lambda a, b, *, c: 0)
    assert infer_argnums_and_argnames(signature, 1, None) == ((1,), ("b",))
    assert infer_argnums_and_argnames(signature, None, ["a", "c"]) == ((0,), ("a", "c"))
    with pytest.raises(ValueError, match='unknown dialect: hlo.*"stablehlo"'):
        mj.jit(jnp.sin).lower(1.0).compiler_ir("hlo")


def test_raw_words_are_no_keys_where_the_flag_says_so():
    old, new = mj.random.PRNGKey(0), mj.random.key(0)
    with mj.legacy_prng_key("error"):
        with pytest.raises(ValueError, match="Legacy uint32 key array"):
            mj.random.normal(old)
        mj.random.normal(new)
    with mj.legacy_prng_key("warn"), pytest.warns(UserWarning, match="Legacy uint32"):
        mj.random.split(old)
    assert mj.random.normal(old) == mj.random.normal(new)
    with pytest.raises(ValueError, match="must be one of"), mj.legacy_prng_key("never"):
        pass


@pytest.mark.oracle
def test_flags_have_jaxs_names_and_values():
    jax = pytest.importorskip("jax")
    enums = {"explicit_x64_dtypes"}  # There it is a number, here its name.
    others = {"platforms"} | enums
    for name, value in jax.config.values.items():
        own = mj.config.own_name(name)
        assert own in mj.config.defaults, name
        if own not in others:
            kind = type(getattr(value, "value", value))
            assert isinstance(mj.config.defaults[own], kind), name


def test_flags_take_values_of_their_kind():
    flag, kinds = mj.config.update, [("scan3", True), ("xla_profile_version", 3)]
    kinds += [("exec_time_optimization_effort", 0.5), ("dump_ir_to", "here")]
    for name, value in kinds:
        flag(f"jax_{name}", value)
        assert mj.config.read(name) == value
        with pytest.raises((TypeError, ValueError)):
            flag(name, [])
        flag(name, mj.config.defaults[name])
    with pytest.raises(ValueError, match="must be one of"):
        flag("jax_random_seed_offset", 1)


@pytest.mark.parametrize("flag", ["debug_nans", "debug_infs", "enable_x64"])
def test_a_switch_is_turned_on_if_nothing_else_is_said(flag):
    before = getattr(mj.config, flag)
    with getattr(mj, flag)():
        assert getattr(mj.config, flag) is True
        with getattr(mj, flag)(False):
            assert getattr(mj.config, flag) is False
    assert getattr(mj.config, flag) == before


def test_a_jaxpr_is_changed_in_jaxs_words():
    closed = mj.make_jaxpr(lambda x: (x + 1, x * 2))(1.0)
    jaxpr = closed.jaxpr
    debug = jaxpr.debug_info
    less = jaxpr.replace(
        outvars=[jaxpr.outvars[1]], effects=jaxpr.effects, debug_info=debug
    )
    assert less.outvars == (jaxpr.outvars[1],) and less.debug_info is debug
    assert less.eqns is jaxpr.eqns and less.invars is jaxpr.invars
    assert jex.jaxpr_as_fun(jex.ClosedJaxpr(less, ()))(3.0) == [6.0]


def test_flags_as_states(without_jax):
    """`jax._src.config` has an object for each flag; what JAX's test case sets fits."""
    with mj.as_jax():
        from jax._src import config

    settings = {
        "jax_enable_checks": True,
        "jax_numpy_dtype_promotion": "strict",
        "jax_numpy_rank_promotion": "raise",
        "jax_traceback_filtering": "off",
        "jax_legacy_prng_key": "error",
    }
    with contextlib.ExitStack() as stack:
        before = {name: mj.config.read(name) for name in settings}
        for name, value in settings.items():
            stack.enter_context(config.config_states[name](value))
            assert getattr(config, name.removeprefix("jax_")).value == value
        assert sum(before[name] != settings[name] for name in settings) >= 4
    assert before == {name: mj.config.read(name) for name in settings}
    with mj.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="must be"):
        mj.numpy_rank_promotion("never").__enter__()
    with pytest.raises(AttributeError, match="nope"):
        config.config_states["jax_nope"]


def test_flags_in_jaxs_environment():
    """JAX_ENABLE_X64=1 and its like mean what they mean to JAX."""
    code = """
        import minijit.as_jax, jax
        for name in names: print(getattr(jax.config, f"jax_{name}"))
    """
    texts = {
        "enable_x64": "1",
        "default_prng_impl": "rbg",
        "threefry_partitionable": "no",
        "persistent_cache_min_compile_time_secs": "0",
        "compilation_cache_max_size": "7",
        "numpy_rank_promotion": "raise",
    }
    env = {f"JAX_{name.upper()}": text for name, text in texts.items()}
    env |= {"JAX_OF_NO_FLAG": "1", "MINIJIT_NUMPY_RANK_PROMOTION": "warn"}
    code = f"names = {[*texts]}\n{textwrap.dedent(code)}"
    run = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True,
        text=True,
    )  # fmt: skip
    assert run.stdout.split() == ["True", "rbg", "False", "0.0", "7", "warn"]
    env = os.environ | {"JAX_ENABLE_X64": "perhaps"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
    assert b"enable_x64 must be a bool, got 'perhaps'" in run.stderr


def test_what_is_captured_may_be_a_tuple_that_adds_in_its_own_way():
    """A record of a trace showed it by `list += tuple`, which asks the tuple first."""

    class Odd(tuple):
        def __radd__(self, other):
            raise ValueError("that is no such tuple")

    odd = Odd((1, 2))
    assert mj.jit(lambda x: x * len(odd))(2.0) == 4.0


# ---- flags for users' code


def own_arrays(jnp, scipy, image, nn):
    """Functions that combine arrays of their own, of other ranks and dtypes."""
    x, bits = jnp.arange(12.0).reshape(3, 4) + 0.5, jnp.array([1, 0, 1], "uint8")
    square, q = x @ x.T, jnp.ones((2, 4, 2, 8))
    lengths = {n: jnp.array([2, 3]) for n in
               ("query_seq_lengths", "key_value_seq_lengths")}  # fmt: skip
    wave = jnp.arange(64.0)
    return [
        lambda: jnp.corrcoef(x),
        lambda: jnp.unpackbits(jnp.packbits(bits)),
        lambda: jnp.histogram(x, 5)[0],
        lambda: jnp.argpartition(x, 2),
        lambda: [jnp.pad(x, 1, m) for m in ("linear_ramp", "mean", "reflect")],
        lambda: nn.dot_product_attention(q, q, q, **lengths, local_window_size=1),
        lambda: jnp.isin(bits, bits[:1]),
        lambda: jnp.polyfit(x[0], x[1], 2),
        lambda: jnp.mgrid[0:3, 0:1:3j],
        lambda: jnp.linspace(x[0], x[1], 5),
        lambda: scipy.special.multigammaln(x[0] + 3, 2),
        lambda: scipy.signal.stft(wave, nperseg=16),
        lambda: scipy.signal.detrend(x),
        lambda: scipy.linalg.sqrtm(square),
        lambda: scipy.stats.multivariate_normal.logpdf(x[:, :2], x[0, :2], x[:2, :2]),
        lambda: scipy.stats.gaussian_kde(x[0])(x[1]),
        lambda: image.resize(x, (6, 8), "bilinear"),
        lambda: scipy.optimize.minimize(lambda x: (x * x).sum(), x[0], method="BFGS"),
    ]


@pytest.mark.parametrize(
    "flag", [(mj.numpy_rank_promotion, "raise"), (mj.numpy_dtype_promotion, "strict")]
)
@pytest.mark.parametrize("jit", [lambda f: f(), lambda f: mj.jit(f)()])
def test_flags_about_promotion_are_for_users(flag, jit):
    import minijit.scipy.linalg
    import minijit.scipy.optimize
    import minijit.scipy.signal
    import minijit.scipy.special
    import minijit.scipy.stats

    for f in own_arrays(jnp, minijit.scipy, mj.image, mj.nn):
        want = mj.tree.leaves(f())
        with flag[0](flag[1]):
            got = mj.tree.leaves(jit(f))
        alike(want, got, rtol=1e-4, atol=1e-5)


def of_mixed_arguments(jax, scipy):
    """Calls with arrays of several ranks and dtypes, by name."""
    jnp, linalg = jax.numpy, scipy.linalg
    x, k = jnp.arange(9.0).reshape(3, 3) % 5 + jnp.eye(3), jnp.arange(1, 4)
    many, rows = jnp.stack([x, x]), jnp.stack([k, k + 1])
    return {
        "gcd": lambda: jnp.gcd(k, rows),
        "heaviside": lambda: jnp.heaviside(x, x[0]),
        "nanquantile": lambda: jnp.nanquantile(x, jnp.array([0.2, 0.5]), axis=1),
        "ldexp": lambda: jnp.ldexp(x, k),
        "vecdot": lambda: jnp.vecdot(x, x[0]),
        "vecdot of one rank": lambda: jnp.vecdot(x, x[:1]),
        "matvec": lambda: jnp.matvec(many, x[0]),
        "matvec of one rank": lambda: jnp.matvec(x, x[0]),
        "vecmat": lambda: jnp.vecmat(x, x),
        "cross": lambda: jnp.cross(x, x[0]),
        "cross of numbers": lambda: jnp.cross(x, rows[0][None]),
        "cov": lambda: jnp.cov(x, x[0]),
        "piecewise": lambda: jnp.piecewise(x, [x[0] > 1], [0.0, 1.0]),
        "ravel_multi_index": lambda: jnp.ravel_multi_index((k, rows), (5, 5)),
        "solve": lambda: jnp.linalg.solve(many, x[0]),
        "solve of vectors": lambda: jnp.linalg.solve(x, x[0]),
        "solve of matrices": lambda: jnp.linalg.solve(x, many),
        "solve_triangular": lambda: linalg.solve_triangular(many, x[0]),
        "cho_solve": lambda: linalg.cho_solve((many, True), x[0]),
        "cho_solve of one": lambda: linalg.cho_solve((x, True), x[0]),
        "array_equal": lambda: jnp.array_equal(x[0], k),
        "polyfit": lambda: jnp.polyfit(x[0], x[1], 1, w=k),
        "entropy": lambda: scipy.stats.poisson.entropy(x),
    }


def told_of_promotion(library, flag, value):
    """{name: whether it is answered under the flag}, and what without it."""
    importlib.import_module(f"{library}.scipy.stats")
    library = sys.modules[library]
    calls = of_mixed_arguments(library, library.scipy)
    plain, answered = {name: np.asarray(call()) for name, call in calls.items()}, {}
    with getattr(library, f"numpy_{flag}_promotion")(value):
        for name, call in calls.items():
            try:
                answered[name] = bool(np.allclose(call(), plain[name]))
            except ValueError:
                answered[name] = False
    return answered, plain


@pytest.mark.oracle
@pytest.mark.parametrize("flag", [("rank", "raise"), ("dtype", "strict")])
def test_flags_about_promotion_refuse_what_jax_refuses(flag):
    text = referee.source_of(of_mixed_arguments, told_of_promotion)
    of_jax = referee.kept(f"{flag}\n{text}", lambda: told_of_promotion("jax", *flag))
    (wanted, want), (answered, got) = of_jax, told_of_promotion("minijit", *flag)
    assert answered == wanted and len({*wanted.values()}) == 2
    for name, x in want.items():
        np.testing.assert_allclose(got[name], x, 2e-4, 1e-5, err_msg=name)


# ---- primitives of libraries


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_a_primitive_that_is_told_its_impl_twice_is_still_compiled(dtype):
    """Lineax does so, after it said how to compile: stiff solvers ran in Python.

    And the loops of Diffrax did where they solve for complex numbers.
    """
    from minijit.extend import core
    from minijit.interpreters import mlir

    runs, twice = [], core.Primitive("twice_told")
    impl = lambda x: runs.append(x) or 2.0 * x
    twice.def_impl(impl)
    twice.def_abstract_eval(lambda x: x)
    mlir.register_lowering(twice, mlir.lower_fun(impl, multiple_results=False))
    twice.def_impl(impl)
    f = mj.jit(lambda x: lax.fori_loop(0, 8, lambda i, x: twice.bind(x), x))
    x = jnp.ones(4, dtype)
    np.testing.assert_array_equal(f(x), 256.0)
    traced = len(runs)
    np.testing.assert_array_equal(f(x), 256.0)
    assert len(runs) == traced < 8
    assert "NOT COMPILED" not in str(f.lower(x).compile().explain())


# ---- what decides that a function is traced anew, and what of a trace is dead


def test_another_precision_of_products_traces_anew():
    traces = []

    @mj.jit
    def product(x):
        traces.append(x)
        return x @ x

    def count(precision):
        with mj.default_matmul_precision(precision):
            product(x)
        return len(traces)

    x = jnp.eye(3)
    product(x)
    seen = [count(p) for p in ("float32", "float32", "highest", None)]
    assert seen == [2, 2, 3, 3]
    mj.config.update("jax_default_matmul_precision", "float32")
    try:
        product(x)
        assert len(traces) == 3 and count(None) == 3
    finally:
        mj.config.update("jax_default_matmul_precision", None)
    with mj.default_matmul_precision("highest"):
        assert "HIGHEST" in str(mj.make_jaxpr(jnp.dot)(x, x))
    assert "HIGHEST" not in str(mj.make_jaxpr(jnp.dot)(x, x))


def test_dead_results_of_jitted_functions_take_their_arguments_along():
    g = mj.jit(lambda x, y: (jnp.sin(x), jnp.cos(y)))
    jaxpr = mj.make_jaxpr(lambda x, y: g(x, y))(1.0, 2.0).jaxpr
    smaller, used = pe.dce_jaxpr(jaxpr, [False, True])
    (eqn,) = smaller.eqns
    assert used == [False, True] and eqn.invars == smaller.invars
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns] == ["cos"]
    assert pe.dce_jaxpr_consts(jaxpr, [True, False])[1:] == ([], [True, False])


@pytest.mark.parametrize("jitted", [False, True])
def test_one_hot_reads_zero_out_of_bounds(jitted):
    x, rows = jnp.arange(12.0).reshape(4, 3), jnp.array([1, 7, -1])
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    read = lambda x: lax.gather(x, rows[:, None], numbers, (1, 3), mode="one_hot")
    along = lambda x: jnp.take_along_axis(x, rows[:, None], 0, mode="one_hot")
    second = lambda x: x.at[9].get(mode="one_hot")
    wrap = mj.jit if jitted else lambda f: f
    assert wrap(read)(x).tolist() == [[3.0, 4.0, 5.0], [0.0] * 3, [0.0] * 3]
    assert wrap(along)(x).tolist() == [[3.0, 4, 5], [0.0] * 3, [9.0, 10, 11]]
    assert wrap(second)(x).tolist() == [0.0] * 3
    slopes = wrap(mj.grad(lambda x: along(x).sum()))(x)
    assert slopes.tolist() == [[0.0] * 3, [1.0] * 3, [0.0] * 3, [1.0] * 3]


# ---- primitives of libraries


def test_primitives_may_have_their_rules_as_methods():
    class Doubled(jex.Primitive):
        def impl(self, x):
            return 2 * x

        def abstract_eval(self, x):
            return x, frozenset()

    doubled = Doubled("doubled")
    assert doubled.bind(3.0) == 6.0
    assert mj.jit(lambda x: doubled.bind(x) + 1)(3.0) == 7.0
    ad.primitive_jvps[doubled] = lambda xs, ts: (doubled.bind(*xs), 2 * ts[0])
    assert mj.value_and_grad(doubled.bind)(3.0) == (6.0, 2.0)

    class Both(jex.Primitive):
        multiple_results = True
        impl = lambda self, x: (x, x + 1)
        abstract_eval = lambda self, x: ((x, x), frozenset())

        def __init__(self):
            super().__init__("both")
            jvp = lambda xs, ts: (self.bind(*xs), (ts[0], ts[0]))
            ad.primitive_jvps[self] = jvp

    both = Both()
    assert mj.grad(lambda x: both.bind(x)[0] * x)(3.0) == 6.0
    assert list(both.bind(3.0)) == [3.0, 4.0]
    assert mj.jit(lambda x: both.bind(x)[1])(3.0) == 4.0


def test_a_primitive_may_be_computed_as_it_is_lowered():
    power = jex.Primitive("power")
    power.def_impl(partial(xla.apply_primitive, power))
    power.def_abstract_eval(lambda x, *, n: x)
    lowering = mlir.lower_fun(lambda x, *, n: x**n, multiple_results=False)
    mlir.register_lowering(power, lowering)
    assert power.bind(3.0, n=2) == 9.0 and power.bind(3.0, n=3) == 27.0
    assert mj.jit(lambda x: power.bind(x, n=2))(3.0) == 9.0
    assert xla.apply_primitive(lax.sin_p, 0.0) == 0.0


# ---- dataclasses.astuple copies what is in its fields


def test_copies_of_tracers_are_themselves():
    square = lambda x: copy.deepcopy([x])[0] * copy.copy(x)
    assert mj.jit(square)(3.0) == 9.0 and mj.grad(square)(3.0) == 6.0
    assert mj.vmap(square)(jnp.array([2.0, 3.0])).tolist() == [4.0, 9.0]
    x = jnp.ones(2)
    assert copy.deepcopy(x).tolist() == x.tolist()


def test_what_stands_for_names_that_jax_has_and_minijit_has_not(without_jax):
    with mj.as_jax():
        import jax
        from jax._src.numpy import util

        pair = util.promote_dtypes_inexact(np.arange(2), np.float16(1))
        assert [str(x.dtype) for x in pair] == ["float16"] * 2
        assert str(util.promote_dtypes(np.int8(1), 2)[1].dtype) == "int8"
        assert jax._src.stages.Lowered is jax.stages.Lowered
        with pytest.raises(NotImplementedError, match="stack_p"):
            jax.lax.stack_p.bind(1.0, 2.0)
        with pytest.raises(AttributeError, match="stack_p"):
            jax.lax.stack_p.name  # noqa: B018


def test_what_lax_s_own_functions_are_called(without_jax):
    with mj.as_jax():
        from jax._src.lax import lax as internal

        f32 = np.dtype("float32")
        assert internal._eye(f32, (2, 3), 1).tolist() == np.eye(2, 3, 1).tolist()
        assert internal._tri(f32, (2, 3), 0).tolist() == np.tri(2, 3).tolist()
        cube = internal._delta(f32, (2, 3, 2), (0, 2))
        assert [x.tolist() for x in cube[:, 1]] == [[1, 0], [0, 1]]
        assert internal._const(jnp.float16(1), 2).dtype == np.float16
        assert internal._const(1.0, 2) == 2.0 and internal.add is mj.lax.add
        weak = internal._convert_element_type(np.int32(1), np.float32, weak_type=True)
        assert weak.weak_type and weak.dtype == np.float32
        jaxpr = mj.make_jaxpr(lambda: internal.asarray(1.0))()
        assert not jaxpr.eqns


# ---- kinds of steps are a class that derives from jnp.int8, with arrays as attributes


def test_classes_may_derive_from_scalar_types():
    class Step(jnp.int8):
        FIRST = jnp.array(0, jnp.int8)

    assert isinstance(Step, type) and Step.dtype == Step.FIRST.dtype == jnp.int8
    assert Step(3).dtype == jnp.int8 and Step() == 0
    assert jnp.ones(2, Step).dtype == jnp.int8


def test_a_scalar_type_reads_text_as_numpy_s_does():
    assert jnp.float32("2.5") == 2.5 and jnp.int8("3").dtype == jnp.int8
    with pytest.raises(ValueError, match="could not convert"):
        jnp.float32("a")


# ---- lists of numbers are put where arrays are; arrays say where they are


def test_lists_are_put_into_arrays():
    x = jnp.arange(4.0)
    assert x.at[:2].set([5, jnp.array(6.0)]).tolist() == [5.0, 6.0, 2.0, 3.0]
    assert x.at[jnp.array([0, 0])].add((1.0, 2.0)).tolist() == [3.0, 1.0, 2.0, 3.0]
    put = mj.jit(lambda x, y: x.at[2:].set([y, y]))
    assert put(x, 7.0).tolist() == [0.0, 1.0, 7.0, 7.0]
    assert x.platform() == "cpu"


# ---- what saves checkpoints asks where arrays are, and how they lie in memory


def test_what_checkpoints_ask_of_devices(without_jax):
    with mj.as_jax():
        import jax
        from jax.experimental import multihost_utils
        from jax.experimental.colocated_python import serialization
        from jax.experimental.layout import Format
        from jax.extend import ifrt_programs

        assert not isinstance(1, serialization.DeviceList) and ifrt_programs
        assert jax._src.distributed.global_state.client is None
        assert not multihost_utils.reached_preemption_sync_point(1)
        device = jax.devices()[0]
        assert device.client.runtime_type == "cpu"
        assert [memory.kind for memory in device.addressable_memories()] == ["device"]
        x = jnp.ones(2)
        assert device in x.sharding._addressable_device_assignment
        assert jax.device_put(x, Format(None, x.sharding)).tolist() == [1.0, 1.0]


def test_a_callback_that_breaks_its_promise_is_a_jax_runtime_error():
    wrong = lambda x: np.zeros(3, "float32")
    call = lambda x: mj.pure_callback(wrong, x, x)
    for run in call, mj.jit(call):
        with pytest.raises(mj.errors.JaxRuntimeError, match="of shape"):
            run(np.ones(2, "float32"))


class Odd(OSError):
    """An error that cannot be made of a text alone."""

    def __init__(self, first, second):
        super().__init__(first, second)
        self.place = second


@pytest.mark.parametrize("error", [ValueError("bad"), Exception("bad"), Odd("bad", 3)])
def test_an_error_of_a_callback_is_a_jax_runtime_error_and_its_own(error):
    """Equinox's filter_jit catches the former; its text has the name of the latter."""

    def fails(x):
        raise error

    call = lambda x: mj.pure_callback(fails, x, x, vmap_method="sequential")
    text = f"{type(error).__qualname__}: .*bad"
    for run in call, mj.jit(call), mj.vmap(call):
        with pytest.raises(mj.errors.JaxRuntimeError, match=text) as caught:
            run(np.ones(2, "float32"))
        found = caught.value
        assert isinstance(found, type(error)) and found.__cause__ is error
        assert getattr(found, "place", 3) == 3


def test_what_a_callback_gives_is_converted_once():
    """By way of int32 it would be 0."""
    aval = mj.ShapeDtypeStruct((), "float32")
    assert mj.pure_callback(lambda: np.int64(2**40), aval) == 2.0**40


# ---- what JAX's own tests ask of jit, vmap, loops and derivatives


class Wrapped:
    """Something with a method that gives an array."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


def traced_order():
    order = []
    named = lambda name: lambda x: order.append(name) or x
    lax.cond(True, named("true"), named("false"), 1.0)
    return order


def no_value(jax, **argnames):
    def f(a, /, b, *args, c=1, **kwargs): ...

    return jax.jit(f, **argnames)


kept: list = []
asked = [
    lambda: lax.scan(lambda c, x: [c + x, c], 0.0, jnp.arange(3.0))[0].item(),
    traced_order,
    lambda: lax.map(lambda x: x, np.zeros((0, 2)), batch_size=3).shape,
    lambda: mj.linear_transpose(
        lambda x: mj.jit(lambda x: (2 * x, x > 0))(x)[0], 1.0
    )(1.0)[0].item(),
    lambda: mj.checkpoint(jnp.sin).__name__,
    lambda: jnp.ones(3).at[0].set(Wrapped(jnp.array(5.0))).tolist(),
    lambda: [jnp.isscalar(Wrapped(jnp.array(1))), jnp.isscalar(Wrapped(jnp.ones(1)))],
    lambda: jnp.frompyfunc(lambda a, b: a + b, 2, 1, identity=0).reduce(
        jnp.zeros((0,))
    ).item(),
    lambda: float(jnp.logaddexp.identity),
    lambda: mj.config.jax_default_device,
    lambda: mj.jit(lambda x: x).trace(1.0).lower(lowering_platforms=("cpu",)) and 1,
    lambda: [mj.copy_to_host_async([x, 1])[0] is x for x in [jnp.ones(2)]],
    # chex's variants fetch the result of each function, within vmap as well.
    lambda: mj.vmap(mj.grad(lambda x: mj.device_get(x) ** 2))(jnp.ones(2)).tolist(),
    lambda: lax.pcast([jnp.ones(2)], (), to="varying")[0].tolist(),
    # kfac asks whether it is within a pmap.
    lambda: mj.pmap(lambda x: x * len(names_here()), axis_name="batch")(
        jnp.ones(1)
    ).tolist() + names_here(),
    # netket hands the type of a result to a jitted function that does not read it.
    lambda: [
        float(around(lambda x: mj.jit(lambda x, kind: x * 2)(x, of_two))(1.0))
        for around in (lambda f: f, mj.jit, mj.grad, mj.checkpoint)
    ],
]
names_here = mj.core.unsafe_get_axis_names_DO_NOT_USE
of_two = mj.ShapeDtypeStruct((2,), "float32")
answers = [
    3.0, ["true", "false"], (0, 2), 2.0, "sin", [5.0, 1.0, 1.0], [True, False], 0.0,
    -np.inf, None, 1, [True], [2.0, 2.0], [1.0, 1.0], [1.0], [2.0] * 4,
]  # fmt: skip


@pytest.mark.parametrize("ask, answer", [*zip(asked, answers, strict=True)])
def test_what_jaxs_own_tests_ask(ask, answer):
    assert ask() == answer


refused = [
    lambda: mj.vmap(lambda x: x, in_axes={"a": 0}),
    lambda: mj.vmap(lambda x: x, in_axes=False)(jnp.ones(2)),
    lambda: mj.grad(lambda x, y: x * y, argnums=(0, 0))(1.0, 2.0),
    lambda: mj.grad(lambda x, y: x * y, argnums=(0, -2))(1.0, 2.0),
    lambda: mj.grad(lambda x: x, argnums=())(1.0),
    lambda: no_value(mj, static_argnames=("a",)),
    lambda: no_value(mj, donate_argnames=("args", "c")),
    lambda: mj.device_put(jnp.ones(2), may_alias=True, donate=True),
    lambda: float(jnp.ones(1)),
    lambda: int(jnp.ones((1, 1))),
    lambda: complex(jnp.ones(2)),
    lambda: mj.pmap(lambda x, y: x * y)(jnp.ones((1, 2)), 3.0),
    lambda: mj.jit(lambda x, kind: x + kind.sum())(1.0, of_two),
]


@pytest.mark.parametrize("call", refused)
def test_what_jaxs_own_tests_refuse(call):
    with pytest.raises((TypeError, ValueError)):
        call()
    assert no_value(mj, static_argnames=("b", "c", "other"))


def test_a_copy_outlives_a_donation():
    step = mj.jit(lambda x: x + 1, donate_argnums=0)
    makers = [copy.copy, copy.deepcopy, partial(mj.device_put, may_alias=False)]
    for make in makers:
        x = jnp.arange(10_000.0)
        other = make(x)
        step(x)
        assert x.is_deleted() and other[-1] == 9999.0


def test_what_a_jaxpr_leaks_is_found(without_jax):
    with mj.as_jax():
        import jax

        with jax.checking_leaks(), pytest.raises(Exception, match="[Ll]eak"):
            jax.make_jaxpr(lambda x: kept.append(x) or x)(1.0)
        kept.clear()
        with jax.checking_leaks():
            eqn, = jax.make_jaxpr(jnp.sin)(1.0).eqns
        with eqn.ctx.manager:
            assert eqn.ctx.compute_type is None


def test_branches_tell_what_their_lanes_were_given(capfd):
    say = lambda x: mj.debug.print("x {}", x)
    mj.vmap(lambda x: lax.cond(x > 0, say, lambda x: None, x))(jnp.arange(2))
    assert capfd.readouterr().out.split() == ["x", "0", "x", "1"]


def test_no_tracing_is_an_error_where_it_happens():
    f = mj.jit(lambda x: x + 1)
    x, y = jnp.arange(3), jnp.arange(4)
    f(x)
    with mj.no_tracing():
        assert f(x).tolist() == [1, 2, 3]
        with pytest.raises(RuntimeError, match="no_tracing"):
            f(y)
    assert f(y).shape == (4,)
