"""jit: the signature cache, explained traces, stages, donation, leaks, errors."""

import copy
import enum
import functools
import gc
import logging
import math
import pickle
import sys
import textwrap
import types
import weakref
from functools import partial

import numpy as np
import pytest
from harness import refused

import minijit as jax
import minijit.numpy as jnp
from minijit.trace.jit import jit as module
from minijit.trace.jit.captures import find_captures, global_reads, show
from minijit.tree_util import Partial

pytestmark = pytest.mark.chapter(6)


@pytest.fixture(autouse=True)
def fresh_caches():
    jax.clear_caches()


def counted(function, **options):
    """(jitted function, list that grows by one with each trace)."""
    traces = []

    @functools.wraps(function)
    def counting(*args, **kwargs):
        traces.append(1)
        return function(*args, **kwargs)

    return jax.jit(counting, **options), traces


# Signatures


def test_one_trace_for_one_signature():
    f, traces = counted(lambda x: x * 2)
    for x in (1.0, 2.0, float("nan")):
        f(x)
    assert len(traces) == 1
    for x in (np.float32(1), np.float64(1), jnp.float32(1), np.ones((), np.float32)):
        f(x)
    assert len(traces) == 2


@pytest.mark.parametrize(
    "first, second",
    [
        (1, 1.0), (1, True), (1.0, np.float32(1)), (np.ones(3), np.ones(4)),
        (np.ones(3, np.int8), np.ones(3, np.uint8)), ((1.0,), [1.0]),
        ({"a": 1.0}, {"b": 1.0}), (None, ()), ((1.0, None), (1.0, 2.0)),
    ],
    ids=str,
)
def test_signatures_that_differ(first, second):
    f, traces = counted(lambda x: x)
    for x in (first, second, first, second):
        f(x)
    assert len(traces) == 2


def test_a_partial_goes_in_and_comes_out():
    def scaled(k, x):
        return k * x

    f, traces = counted(lambda h, x: Partial(scaled, h(x)))
    out = f(Partial(scaled, 2.0), 3.0)
    assert isinstance(out, Partial) and float(out(10.0)) == 60.0
    f(Partial(scaled, 5.0), 3.0)
    assert len(traces) == 1
    f(Partial(lambda k, x: k, 5.0), 3.0)
    assert len(traces) == 2


def test_what_an_enclosing_trace_has_comes_first():
    @jax.jit
    def outer(x, y):
        return jax.jit(lambda z: z * x - y)(2.0 * x)

    assert float(outer(3.0, 1.0)) == 17.0


def test_captured_numpy_arrays_are_copied():
    k = np.ones(3, np.float32)
    f = jax.jit(lambda x: x + k)
    f(1.0)
    k[0] = 7
    assert f(1.0).tolist() == [2.0, 2.0, 2.0]


def test_forms_of_the_decorator():
    @jax.jit
    def a(x):
        return x

    @partial(jax.jit, static_argnums=1)
    def b(x, n):
        return x * n

    @jax.jit(static_argnames="n")
    def c(x, n):
        return x * n

    assert (int(a(1)), int(b(2, 3)), int(c(2, n=4))) == (1, 6, 8)
    refused(TypeError, "Expected a callable value", jax.jit, 3)


def test_methods():
    class Counter:
        def __init__(self, k):
            self.k = k

        @partial(jax.jit, static_argnums=0)
        def scaled(self, x):
            return self.k * x

        def plain(self, x):
            return self.k * x

    two, three = Counter(2), Counter(3)
    assert float(two.scaled(5.0)) == 10.0 and float(three.scaled(5.0)) == 15.0
    assert float(jax.jit(two.plain)(5.0)) == 10.0
    assert float(jax.jit(three.plain)(5.0)) == 15.0


def test_a_failed_trace_leaves_nothing_behind():
    fail = [True]

    @jax.jit
    def f(x):
        if fail[0]:
            raise KeyError("user error")
        return x

    with pytest.raises(KeyError):
        f(1.0)
    fail[0] = False
    assert float(f(1.0)) == 1.0
    assert len(f.traces) == 1


def test_a_missing_argument_is_pythons_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        jax.jit(lambda x, y: x)(1.0)


def test_a_python_int_that_does_not_fit():
    with pytest.raises(OverflowError):
        jax.jit(lambda x: x)(2**40)


def test_no_array_is_an_error_that_names_the_argument():
    refused(TypeError, "at path value", lambda: jax.jit(lambda value: value)("x"))


# Static and donated arguments


def test_static_arguments_by_name_and_position():
    def f(x, n, mode="up"):
        assert isinstance(n, int) and isinstance(mode, str)
        return x * n if mode == "up" else x / n

    for options in ({"static_argnums": (1, 2)}, {"static_argnums": (-2, -1)},
                    {"static_argnames": ("n", "mode")}):
        g = jax.jit(f, **options)
        assert float(g(6.0, 2)) == float(g(6.0, n=2)) == 12.0
        assert float(g(6.0, 2, "down")) == float(g(6.0, n=2, mode="down")) == 3.0


def test_the_type_of_a_static_value_counts():
    f, traces = counted(lambda x, n: x * n, static_argnums=1)
    results = [f(2, n) for n in (1, 1.0, True, 1)]
    assert [r.dtype.name for r in results] == ["int32", "float32", "int32", "int32"]
    assert len(traces) == 3
    signs, _ = counted(lambda x, n: x * n, static_argnums=1)
    assert np.signbit(np.asarray(signs(2.0, -0.0)))
    assert not np.signbit(np.asarray(signs(2.0, 0.0)))


def test_static_arguments_are_checked():
    with pytest.raises(ValueError, match="static_argnums=.3,., but only accepts 1"):
        jax.jit(lambda x: x, static_argnums=3)
    with pytest.raises(ValueError, match="invalid argnames {'y'} in static_argnames"):
        jax.jit(lambda x: x, static_argnames="y")
    with pytest.raises(ValueError, match="both static and donated"):
        jax.jit(lambda x: x, static_argnums=0, donate_argnums=0)
    with pytest.raises(ValueError, match="unknown backend 'abacus'"):
        jax.jit(lambda x: x, backend="abacus")
    f = jax.jit(lambda *xs: sum(xs[:-1]) * xs[-1], static_argnums=-1)
    assert float(f(1.0, 2.0, 3)) == 9.0


def test_donation():
    x, y = jnp.ones(3), jnp.ones(3)
    view = np.asarray(x)
    f = jax.jit(lambda a, b: {"sum": a + b, "a": a}, donate_argnums=0)
    out = f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    assert view.tolist() == out["a"].tolist() == [1.0, 1.0, 1.0]
    assert out["sum"].tolist() == [2.0, 2.0, 2.0]
    for use in (lambda: x + 1, lambda: f(x, y), lambda: np.asarray(x)):
        refused(RuntimeError, "has been deleted.*it was donated", use)


def test_donation_by_name_and_of_trees():
    tree = {"w": jnp.ones(2), "b": jnp.ones(1)}
    f = jax.jit(lambda p, q: p["w"] + q["b"], donate_argnames="p")
    f(q=tree, p={"w": tree["w"], "b": 1.0})
    assert tree["w"].is_deleted() and not tree["b"].is_deleted()
    text = str(jax.make_jaxpr(f)({"w": jnp.ones(2)}, {"b": jnp.ones(2)}))
    assert "donated_invars=(True, False)" in text


# What a function captured


def test_new_functions_of_one_code_share_their_traces():
    traces = []

    def made(k):
        def scaled(x):
            traces.append(k)
            return k * x

        return scaled

    for k in (2, 2, 3, 2.0, 2):
        jax.jit(made(k))(5)
    # The list `traces` can change unseen, so that nothing may be shared.
    assert len(traces) == 5


def test_sharing_by_value(capsys):
    def made(k):
        def scaled(x):
            print("traced")
            return k * x

        return scaled

    results = [jax.jit(made(k))(5) for k in (2, 2, 3, 2.0, True, 2, -0.0, 0.0, 0.0)]
    assert capsys.readouterr().out.count("traced") == 6
    assert [float(r) for r in results[:5]] == [10, 10, 15, 10, 5]
    assert [np.signbit(float(r)) for r in results[6:]] == [True, False, False]
    by = lambda f: jax.jit(lambda x: x * f(1.0))
    waves = math.sin, math.cos
    np.testing.assert_allclose([by(f)(1.0) for f in waves], [f(1.0) for f in waves])


def test_what_can_change_is_never_shared():
    class Model:
        k = 1

    model, values, table = Model(), [1], np.ones(1)

    def result(kind):
        made = {
            "object": lambda: jax.jit(lambda x: x * model.k),
            "list": lambda: jax.jit(lambda x: x * values[0]),
            "numpy": lambda: jax.jit(lambda x: x * table[0]),
            "default": lambda: jax.jit(lambda x, v=values: x * v[0]),
            "class": lambda: jax.jit(lambda x: x * Model.k),
            "attribute": lambda: jax.jit(lambda x: x * holder.k),
        }
        return float(made[kind]()(1.0))

    def holder():
        pass

    holder.k = 1
    kinds = ("object", "list", "numpy", "default", "class", "attribute")
    assert [result(kind) for kind in kinds] == [1.0] * 6
    model.k = values[0] = table[0] = Model.k = holder.k = 2
    assert [result(kind) for kind in kinds] == [2.0] * 6


class Level(enum.Enum):
    LOW = 1


class Scaled(enum.Enum):
    LOW = 1

    def scale(self):
        return self.factor


class Counted(enum.Enum):
    LOW = 1


def test_nothing_old_through_what_holds_the_value(tmp_path, monkeypatch):
    class Model:
        def scaled(self, x):
            return x * self.scale

    holder, table = types.ModuleType("holder"), {"scale": 2}
    monkeypatch.setitem(sys.modules, "holder", holder)
    package = tmp_path / "site-packages" / "installed_scale.py"
    package.parent.mkdir()
    package.write_text("scale = 2\ndef scaled(x): return x * scale\n")
    monkeypatch.syspath_prepend(str(package.parent))
    import installed_scale

    model = Model()
    scope = {"holder": holder, "jax": jax, "installed_scale": installed_scale}
    text = """
        read = lambda: jax.jit(lambda x: x * holder.scale)
        def alias(x):
            found = holder
            return x * found.scale
        def imports(x):
            import holder
            return x * holder.scale
        installed = lambda: jax.jit(lambda x: x * installed_scale.scale)
        calls = lambda: jax.jit(lambda x: installed_scale.scaled(x))
        looks = lambda: jax.jit(lambda x: x * globals()["scale"])
    """
    exec(textwrap.dedent(text), scope)
    get, member, low = table.get, Scaled.LOW, Counted.LOW

    def copied(f):
        return types.FunctionType(f.__code__, f.__globals__, f.__name__)

    made = {
        "method": lambda: jax.jit(model.scaled),
        "captured method": lambda: (lambda f: jax.jit(lambda x: f(x)))(model.scaled),
        "partial of a method": lambda: jax.jit(partial(Model.scaled, model)),
        "captured module": lambda: jax.jit(lambda x: x * holder.scale),
        "global module": lambda: scope["read"](),
        "module by another name": lambda: jax.jit(copied(scope["alias"])),
        "imported module": lambda: jax.jit(copied(scope["imports"])),
        "bound built-in": lambda: jax.jit(lambda x: x * get("scale")),
        "member of an enum": lambda: jax.jit(lambda x: x * member.scale()),
        "class of a member": lambda: jax.jit(lambda x: x * low.unit()),
        "installed library's global": lambda: scope["installed"](),
        "installed library's function": lambda: scope["calls"](),
        "globals": lambda: scope["looks"](),
    }

    results = lambda: {kind: float(make()(1.0)) for kind, make in made.items()}
    for scale in (2.0, 3.0):
        model.scale = holder.scale = table["scale"] = member.factor = scale
        installed_scale.scale = scope["scale"] = scale
        Counted.unit = lambda self, scale=scale: scale
        assert results() == dict.fromkeys(made, scale)


def test_what_cannot_change_is_shared(capsys):
    local, sine, level = jnp, math.sin, Level.LOW
    x, y = jnp.ones(3), jnp.ones(3)

    def results():
        kinds = [
            lambda v: print("traced") or local.sin(v) * sine(1.0),
            lambda v: print("traced") or (v if level is Level.LOW else -v),
            lambda v: print("traced") or v * level.value,
            lambda v: print("traced") or v * x + y,
            lambda v: print("traced") or x.dot(v),
        ]
        return [jax.jit(kind)(x) for kind in kinds]

    results()
    results()
    # The second reads a class, which can change.
    assert capsys.readouterr().out.count("traced") == 6


def scaled_by_three(x):
    return 3.0 * x


def test_a_jitted_function_is_copied():
    f = jax.jit(scaled_by_three, static_argnames=())
    f(1.0)
    copies = [copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))]
    copies.append(copy.deepcopy({"f": f})["f"])
    for other in copies:
        assert other is not f and other.function is scaled_by_three
        assert float(other(2.0)) == 6.0
    assert len(f.traces) == 1


def test_closures_made_by_libraries_are_looked_into(capsys):
    from minijit.trace.base.errors import PACKAGE

    scope = {}
    text = "def twice(f):\n    def call(x):\n        return f(f(x))\n    return call\n"
    exec(compile(text, PACKAGE + "/made_up.py", "exec"), scope)

    def made(k):
        def f(x):
            print("traced")
            return k * x

        return jax.jit(scope["twice"](f))

    results = [float(made(k)(1.0)) for k in (2, 2, 3)]
    assert results == [4.0, 4.0, 9.0]
    assert capsys.readouterr().out.count("traced") == 4


def test_a_rebound_variable_is_noticed():
    k = 1
    f = jax.jit(lambda x: k * x)
    assert float(f(1.0)) == 1.0
    k = 5
    assert float(f(1.0)) == 5.0
    k = 1
    assert float(f(1.0)) == 1.0
    assert len(f.traces) == 2
    assert "captured variable k: 1 -> 5" in f.traces[1].why


def test_what_a_function_assigns_itself_is_no_reason_to_trace_again():
    def counting(made):
        count = 0

        def f(x):
            nonlocal count
            count += 1
            return made(x)

        return f, lambda: count

    pairs = [counting(abs) for _ in range(2)]
    for f, count in pairs:
        jitted = jax.jit(f)
        assert [float(jitted(1.0)) for _ in range(3)] == [1, 1, 1]
        # Each function has a counter of its own, so each is traced.
        assert count() == 1


def test_a_captured_object_may_answer_anything_and_attributes_stay():
    class Strange(dict):
        def __getattr__(self, name):
            return self[name]

    strange = Strange()

    def f(x):
        return x + len(strange)

    f.note = "kept"
    jitted = jax.jit(f)
    assert float(jitted(1.0)) == 1 and jitted.note == "kept"


@pytest.mark.chapter(9)
def test_a_tracer_can_be_referred_to_weakly():
    seen = []
    jax.jit(lambda x: (seen.append(weakref.ref(x)), x)[1])(1.0)
    jax.vmap(lambda x: (seen.append(weakref.ref(x)), x)[1])(np.ones(2))
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_find_captures_reads_globals_through_modules():
    def f(x):
        return np.sin(module.shared) + partial(x)

    assert ("np", "sin") in global_reads(f.__code__)
    names = {place.name for place, _ in find_captures(f).values}
    assert {"np", "module", "partial"} <= names


def test_show_has_no_addresses():
    values = [
        object(), np.ones(2), jnp.ones((2, 3)), test_show_has_no_addresses, "a" * 99,
    ]  # fmt: skip
    assert not any("0x" in show(v) or len(show(v)) > 40 for v in values)


# Explanations


@pytest.mark.parametrize("first, second, wanted", [
    ("f(o(3))", "f(o(4))", "argument x: shape (3,) -> (4,)"),
    ("f(o(3))", "f(o(3, int))", "argument x: dtype float32 -> int32"),
    ("f(1.0)", "f(jnp.float32(1))",
     "argument x: a Python number (weakly typed) -> "),
    ("f(1.0, n=1)", "f(1.0, n=2)", "static argument n: 1 -> 2"),
    ("f({'a': 1})", "f({'b': 1})", "argument x: structure {'a': *} -> {'b': *}"),
    ("f({'a': o(1)})", "f({'a': o(2)})", "argument x['a']: shape (1,) -> (2,)"),
    ("f(1.0, 2.0)", "f(1.0, y=2.0)", "argument y: passed by position -> keyword"),
    ("f(1.0)", "f(1.0, 2.0)", "argument y: not given -> position"),
    ("f(x=o(3), y=[1.0])", "f(y=[1.0], x=o(4))", "argument x: shape (3,) -> (4,)"),
    ("made(1)(1.0)", "made(2)(1.0)", "captured variable k: 1 -> 2"),
    ("f(1.0)", "x64(f, 1.0)", "config enable_x64: False -> True"),
])  # fmt: skip
def test_explanations(first, second, wanted):
    def made(k):
        return jax.jit(lambda x, y=None, n=0: k, static_argnames="n")

    def x64(f, x):
        with jax.enable_x64():
            f(x)

    f = made(0)
    scope = {"f": f, "o": jnp.ones, "made": made, "x64": x64, "jnp": jnp}
    eval(first, scope)
    known = f.traces[-1].call
    eval(second, scope)
    assert len(f.traces) == 2
    why = f.traces[-1].why
    assert why.count(wanted) == 1
    assert "to do: " in why and f"nearest: trace 0, {known}" in why
    assert f.traces[0].why == "first call"


def test_what_is_captured_is_printed_only_if_it_is_small():
    printed = []

    class Model:
        def __init__(self, *parts):
            self.parts = parts

        def __repr__(self):
            printed.append(self)
            return f"Model({len(self.parts)} parts)"

    for count, text in (100, "a Model"), (3, "Model(3 parts)"):
        model = Model(*range(count))
        f = jax.jit(lambda x: x * len(model.parts))  # noqa: B023
        f(1.0)
        model = Model(*range(count))
        f(1.0)
        assert f"model: {text} -> another, {text}" in f.traces[-1].why
        assert len(printed) == (0 if count == 100 else 2)


def test_the_table_of_traces():
    f = jax.jit(lambda x: x)
    f(jnp.ones(3))
    f(jnp.ones(4))
    assert f.traces.table(times=False).splitlines() == [
        "#  signature      why it was traced", "0  x: float32[3]  first call",
        "1  x: float32[4]  argument x: shape (3,) -> (4,)",
        "                    to do: pad to one shape, or split into parts of one shape",
        "                    nearest: trace 0, (x: float32[3])",
    ]
    assert f.traces[0].trace_ms > 0 and f.traces[1].compile_ms > 0
    assert "trace ms" in str(f.traces) and len(f.traces) == 2


def test_max_traces():
    f = jax.jit(lambda x: x, max_traces=2)
    f(jnp.ones(1))
    f(jnp.ones(2))
    f(jnp.ones(1))
    with pytest.raises(RuntimeError, match="at most 2 times") as error:
        f(jnp.ones(3))
    assert "argument x: shape (2,) -> (3,)" in str(error.value)
    assert "test_jit.py" in str(error.value)


# Flags, caches, threads


def test_clear_caches():
    f, traces = counted(lambda x: x)
    f(1.0)
    jax.clear_caches()
    f(1.0)
    f.clear_cache()
    assert f._cache_size() == 0
    f(1.0)
    f(1.0)
    assert len(traces) == 3 and f._cache_size() == 1
    assert "the caches were cleared" in f.traces[1].why


def test_log_compiles(caplog):
    f = jax.jit(lambda x: x)
    with caplog.at_level(logging.WARNING, "minijit"), jax.log_compiles():
        f(jnp.ones(3))
        f(jnp.ones(4))
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 4
    assert "Finished tracing <lambda>(x: float32[3]) for jit in" in texts[0]
    assert "Finished compiling jit(<lambda>) in" in texts[1]
    assert "shape (3,) -> (4,)" in texts[2]
    caplog.clear()
    f(jnp.ones(5))
    assert not caplog.records


def test_flags_belong_to_the_signature():
    f, traces = counted(lambda x: x * 2)
    assert f(1.0).dtype == jnp.float32
    with jax.enable_x64():
        assert f(1.0).dtype == np.float64
    f(1.0)
    assert len(traces) == 2
    one = jnp.ones(3, np.float32)
    g, traces = counted(lambda x: x + jnp.zeros(3))
    assert g(one).dtype == np.float32
    with jax.enable_x64():
        assert g(one).dtype == np.float64 and len(traces) == 2


# ---- jitted functions in jitted functions


def nested(levels):
    f, traced = jnp.sin, []

    def around(g):
        def f(x):
            traced.append(g)
            return g(x) + 1.0

        return jax.jit(f)

    for _ in range(levels):
        f = around(f)
    return f, traced


@pytest.fixture
def a_thousand_frames():
    """What Python allows, from here on: pytest takes some for itself."""
    before = sys.getrecursionlimit()
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 1000)
    yield depth
    sys.setrecursionlimit(before)


def test_jitted_functions_nest_as_deep_as_python_allows(a_thousand_frames):
    """Where the frames give out, the error says what of; with more frames it goes."""
    with pytest.raises(RecursionError) as caught:
        nested(150)[0](1.0)
    (note,) = caught.value.__notes__
    assert "jitted functions were being traced" in note and "fori_loop" in note
    sys.setrecursionlimit(a_thousand_frames + 4000)
    f, traced = nested(150)
    np.testing.assert_allclose(f(1.0), np.sin(1.0) + 150, rtol=1e-6)
    assert len(traced) == 150
