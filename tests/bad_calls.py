"""Calls of all public functions, and ways to spoil them: what bad input is made of.

    for call in spoiled(1000):
        error = outcome(call)                # or None
        print(call, error, complaint(call, error))

A `Call` is a call that works.  `spoil` replaces one or two of its arguments (or parts
of them, or an option it did not give) by something that does not belong there: a
string, None, a negative or huge number, an array of another shape or dtype, NumPy's
strings and dates, a function, a set.  `complaint` says what is wrong with the error
that comes of it, or None where it is clear: of a type that Python uses for such a
mistake, raised on purpose, with the function's name and what came.
"""

import dis
import inspect
import re
import signal
import sys
import unittest.mock
import warnings
import zlib
from dataclasses import dataclass, field, replace
from functools import partial

import module_cases
import numpy as np
import test_linalg
import test_scipy
from function_cases import as_jax, find, lax_cases, numpy_cases

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, random, tree_util
from minijit.trace.base.errors import PACKAGE
from minijit.trace.base.demand import add_rows
from minijit.trace.jit.jit import executors


@dataclass(frozen=True)
class Call:
    """A call of a public function; `label` is what a user would call it."""

    label: str
    function: object
    args: tuple
    kwargs: dict = field(default_factory=dict)
    # Applied to the result: what a transformation returns is called in its turn.
    then: tuple = ()

    def run(self):
        result = self.function(*self.args, **self.kwargs)
        for args in self.then:
            result = result(*args)
        return result

    def __str__(self):
        given = [repr(x) for x in self.args]
        given += [f"{name}={x!r}" for name, x in self.kwargs.items()]
        text = f"{self.label}({', '.join(given)})"
        for args in self.then:
            text += f"({', '.join(map(repr, args))})"
        return " ".join(text.split())


# What needs a file, an answer from the process, or a whole object to be made first.
not_called = {"jnp.save", "jnp.savez", "jnp.load", "jnp.fromfunction"}


def table_calls(prefix, module, table):
    """The calls of a table of `function_cases`."""
    for name, cases in table.items():
        if f"{prefix}.{name}" not in not_called:
            for case in cases:
                args, kwargs = as_jax((case.args, case.kwargs), jnp)
                then = (as_jax(case.then, jnp),) if case.then else ()
                function = case.function(module, name)
                if case.over:  # What the lanes are taken of is vmap's to refuse.
                    function, args = partial(function, args[0]), args[1:]
                yield Call(f"{prefix}.{name}", function, args, kwargs, then)


x34 = jnp.arange(12.0).reshape(3, 4)
v3, m33 = jnp.arange(3.0), jnp.eye(3) * 2.0
ints = jnp.arange(3)


def call(label, function, *args, then=(), **kwargs):
    return Call(label, function, args, kwargs, then)


def new_node(flatten, unflatten):
    return tree_util.register_pytree_node(type("N", (), {}), flatten, unflatten)


def new_dataclass(data, meta):
    return tree_util.register_dataclass(type("D", (), {"x": 0}), data, meta)


def tree_calls():
    # Always of new classes: what is registered stays so.
    yield call("tree_util.register_pytree_node", new_node, lambda x: ((), None), len)
    yield call("tree_util.register_dataclass", new_dataclass, ["x"], [])
    yield call("tree_util.Partial", tree_util.Partial, lambda x: x, 1.0)


def sin(x):
    return jnp.sin(x)


def total(x):
    return jnp.sum(x * x)


def pull_back(fun, *primals):
    """The function that `vjp` returns."""
    return mj.vjp(fun, *primals)[1]


def transform_calls():
    for name in "grad value_and_grad jacfwd jacrev jacobian hessian".split():
        yield Call(f"minijit.{name}", getattr(mj, name), (total, 0), {}, ((v3,),))
    for name in "jit vmap checkpoint make_jaxpr custom_gradient".split():
        function = sin if name != "custom_gradient" else (lambda x: (x, lambda t: t))
        yield Call(f"minijit.{name}", getattr(mj, name), (function,), {}, ((v3,),))
    plus = lambda x, y: x + y
    yield Call("minijit.vmap", mj.vmap, (plus, (0, None)), {}, ((v3, 1.0),))
    yield Call("minijit.jit", mj.jit, (sin,), {"static_argnums": ()}, ((v3,),))
    yield call("minijit.jvp", mj.jvp, sin, (v3,), (v3,))
    yield call("minijit.vjp", pull_back, sin, v3, then=((v3,),))
    yield call("minijit.linearize", mj.linearize, sin, v3)
    yield Call(
        "minijit.linear_transpose", mj.linear_transpose, (lambda x: 2 * x, v3), {},
        ((v3,),),
    )  # fmt: skip
    yield call("minijit.eval_shape", mj.eval_shape, sin, v3)
    yield call("minijit.closure_convert", mj.closure_convert, sin, v3)
    yield call("minijit.saved_residuals", mj.saved_residuals, sin, v3)
    yield call("minijit.device_put", mj.device_put, v3)
    yield call("minijit.device_get", mj.device_get, v3)
    yield call("minijit.ShapeDtypeStruct", mj.ShapeDtypeStruct, (2, 3), jnp.float32)
    yield Call("minijit.custom_jvp", mj.custom_jvp, (sin,), {}, ())
    yield Call("minijit.custom_vjp", mj.custom_vjp, (sin,), {}, ())
    name = mj.ad_checkpoint.checkpoint_name
    yield call("ad_checkpoint.checkpoint_name", name, v3, "name")
    zero = mj.custom_derivatives.zero_from_primal
    yield call("custom_derivatives.zero_from_primal", zero, v3)
    sequential = mj.custom_batching.sequential_vmap
    yield Call("custom_batching.sequential_vmap", sequential, (sin,), {}, ((v3,),))
    yield call("debug.print", mj.debug.print, "", x=v3)
    yield call("debug.callback", mj.debug.callback, lambda x: None, v3)
    for name in "canonicalize_dtype finfo".split():
        yield call(f"dtypes.{name}", getattr(mj.dtypes, name), jnp.float32)
    yield call("dtypes.iinfo", mj.dtypes.iinfo, jnp.int32)
    yield call("dtypes.issubdtype", mj.dtypes.issubdtype, jnp.int32, jnp.integer)
    yield call("dtypes.promote_types", mj.dtypes.promote_types, "int8", "float32")
    yield call("dtypes.result_type", mj.dtypes.result_type, "int8", v3)


def loop_calls():
    yield call("jnp.vectorize", jnp.vectorize, sin, then=((v3,),))
    along = jnp.apply_along_axis
    yield call("jnp.apply_along_axis", along, lambda x: x[:2], 0, x34)


methods = {
    "sum": (0,), "mean": (0,), "prod": (0,), "max": (0,), "min": (0,), "all": (0,),
    "any": (0,), "argmax": (0,), "argmin": (0,), "cumsum": (0,), "cumprod": (0,),
    "std": (0,), "var": (0,), "ptp": (0,), "reshape": (4, 3), "ravel": (),
    "flatten": (), "transpose": (1, 0), "swapaxes": (0, 1), "squeeze": (),
    "astype": (jnp.int32,), "clip": (1.0, 2.0), "round": (1,), "dot": (jnp.ones(4),),
    "repeat": (2,), "take": (ints,), "sort": (0,), "argsort": (0,), "trace": (),
    "diagonal": (), "searchsorted": (v3,), "view": (jnp.int32,), "conj": (),
    "item": (2,), "__getitem__": (1,), "__add__": (v3,), "__matmul__": (jnp.ones(4),),
    "__pow__": (2,), "__lt__": (2.0,), "__floordiv__": (2,), "__contains__": (1.0,),
}  # fmt: skip


def updated(name, index, *args, **kwargs):
    """x.at[index].name(...) of some x."""
    return getattr(x34.at[index], name)(*args, **kwargs)


def method_calls():
    for name, args in methods.items():
        x = v3 if name in ("searchsorted", "__add__", "__contains__") else x34

        yield Call(f"Array.{name}", getattr(x, name), args)
    for name in "set add multiply divide power min max get apply".split():
        value = {"get": (), "apply": (sin,)}.get(name, (1.0,))
        update = partial(updated, name)
        yield Call(f"Array.at.{name}", update, (1, *value), {"mode": "drop"})


def library_calls():
    """Those of the files that test linear algebra and `scipy`, and others."""
    tables = {f"scipy.{path}": cases for path, cases in test_scipy.cases.items()}
    tables["numpy.linalg"] = test_linalg.cases
    for path, cases in tables.items():
        for name, args, kwargs in cases:
            function = find(mj, f"{path}.{name}")
            args, kwargs = as_jax((args, kwargs), jnp)
            yield Call(f"{path}.{name}", function, args, kwargs)
    of = lambda name, *args, **kwargs: call(name, find(mj, name), *args, **kwargs)
    yield of("scipy.optimize.minimize", total, v3, method="BFGS")
    yield of("scipy.cluster.vq.vq", x34, x34[:2])
    for name in "cg bicgstab gmres".split():
        yield of(f"scipy.sparse.linalg.{name}", m33, v3, tol=1e-3, maxiter=5)
    yield of("experimental.ode.odeint", lambda y, t: -y, v3, v3, rtol=1e-3)
    yield of("scipy.spatial.transform.Rotation.from_euler", "xyz", v3)
    yield of("scipy.stats.mode", x34, axis=1)
    yield of("scipy.interpolate.RegularGridInterpolator", (v3,), v3, then=((v3 / 2,),))


def all_calls():
    """Every call there is: one list for each function."""
    found = {}
    for source in (
        table_calls("jnp", jnp, numpy_cases), table_calls("lax", lax, lax_cases),
        *(table_calls(path, find(mj, path), table)
          for path, table in module_cases.tables.items()),
        library_calls(), tree_calls(), transform_calls(),
        loop_calls(), method_calls(),
    ):  # fmt: skip
        for each in source:
            found.setdefault(each.label, []).append(each)
    return found


class Thing:
    """An object that nothing knows what to do with."""

    def __repr__(self):
        return "Thing()"


def identity(x):
    return x


pool = [
    None, True, "abc", "", b"xy", -1, 7, -5, 0, 1, 2**40, 2**70, 1.5, -2.0,
    float("nan"), float("inf"), 2j, (), [], {}, (0, 0), (1, 2), [1.5, "a"], ("a",),
    (None,), ((1, 2), (3,)), {"a": 1}, {1, 2}, Thing(), Thing, int, float, "float32",
    "i4", "U3", object, np.dtype("M8[s]"), identity, slice(None), slice("a", 1.5), ...,
    range(3), np.array("abc"), np.array(["a", "b"]), np.array([None, 1], object),
    np.array("2020-01-01", "M8[D]"), np.array(["2020-01-01"], "M8[D]"),
    np.zeros(2, [("a", "f4")]), np.ma.array([1.0, 2.0], mask=[True, False]),
    np.float64(2.5), np.int64(9), np.array([1, 2]), np.array([]), np.zeros((0, 3)),
    jnp.zeros((2, 5)), jnp.zeros(7), jnp.zeros((2, 3, 4, 5)), jnp.array(2.5),
    jnp.array(3), jnp.array([True, False]), jnp.array([1j]), jnp.zeros(3, "bfloat16"),
    jnp.arange(4, dtype="uint8"), random.key(1), [jnp.zeros(2), jnp.zeros(3)],
    [[1, 2], [3]], mj.ShapeDtypeStruct((2,), jnp.float32), iter([1, 2]),
]  # fmt: skip


def spoil(rng, call):
    """The call with something in it that does not belong there."""
    options = optional(call.function)
    places = [("args", i) for i in range(len(call.args))]
    places += [("kwargs", name) for name in call.kwargs]
    places += [("then", i, j) for i, a in enumerate(call.then) for j in range(len(a))]
    fresh = [("kwargs", name) for name in options if name not in call.kwargs]
    for _ in range(1 + (rng.rand() < 0.25)):
        chosen = fresh if fresh and (not places or rng.rand() < 0.25) else places
        if not chosen:
            return call
        place = chosen[rng.randint(len(chosen))]
        call = put(rng, call, place, pool[rng.randint(len(pool))])
    return call


def optional(function):
    """The names of the options of a function that may be given by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        p.name
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
        or (p.kind is p.POSITIONAL_OR_KEYWORD and p.default is not p.empty)
    ]


def put(rng, call, place, bad):
    """The call with `bad` at a place, or in one part of the sequence that is there."""

    def within(old):
        if isinstance(old, (tuple, list)) and old and rng.rand() < 0.5:
            i = rng.randint(len(old))
            parts = [*old[:i], within(old[i]), *old[i + 1 :]]
            return type(old)(*parts) if hasattr(old, "_fields") else type(old)(parts)
        return bad

    if place[0] == "kwargs":
        name = place[1]
        changed = {name: within(call.kwargs.get(name))}
        return replace(call, kwargs=call.kwargs | changed)
    if place[0] == "args":
        args = list(call.args)
        args[place[1]] = within(args[place[1]])
        return replace(call, args=tuple(args))
    then = [list(args) for args in call.then]
    then[place[1]][place[2]] = within(then[place[1]][place[2]])
    return replace(call, then=tuple(map(tuple, then)))


class Hang(BaseException):
    """A call that took too long."""


def too_long(signum, frame):
    raise Hang


def outcome(call, seconds=20):
    """The error that a call gives, or None; for one that hangs it is `Hang`."""
    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        call.run()
    except (Exception, Hang) as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return None


# NameError is JAX's for an axis name that no vmap binds.
fitting = (
    TypeError, ValueError, IndexError, OverflowError, NotImplementedError, NameError
)  # fmt: skip
binding = re.compile(r"^[\w.<>]+\(\) (takes|missing|got) ")


def complaint(call, error):
    """What is unclear about the error that a spoiled call gave; None if nothing is."""
    if isinstance(error, Hang):
        return "hangs"
    users_own, users_call = users_frames(error)
    if users_own:
        return None
    if isinstance(error, (*fitting, MemoryError)) and large.search(str(error)):
        return None
    on_purpose = not not_on_purpose(error)
    runtime = on_purpose and isinstance(error, RuntimeError)
    if not isinstance(error, fitting) and not runtime:
        return f"type {type(error).__name__}"
    text = without_source(str(error))
    if binding.match(text):
        return None
    if not text.strip():
        return "no message"
    types = [x for x in (*call.args, *call.kwargs.values()) if isinstance(x, type)]
    if problem := not_on_purpose(error):
        # Python's own `int(...)`, passed in as a function, complains as it likes.
        return None if types else problem
    if users_call:
        return None
    names = "|".join(map(re.escape, aliases(call)))
    if call.label.startswith("Array.__"):
        return None  # has no name: the user's line says which
    if not re.search(rf"(?<!\w)({names})(?!\w)", text):
        return "does not name the function"
    if not any(word in text for word in descriptions(call)):
        return "does not say what came"
    if names := internal_names(call, text):
        return f"names {', '.join(sorted(names))}"
    return None


def without_source(text):
    """A message without the file and the text of the user's line."""
    return re.sub(r"\n  at [^\n]*(\n      [^\n]*)?", "", text)


def not_on_purpose(error):
    """Whether the error came from inside, and not from a `raise` of minijit's."""
    tb = error.__traceback__
    frames = []
    while tb is not None:
        frames.append((tb.tb_frame.f_code, tb.tb_lasti, tb.tb_lineno))
        tb = tb.tb_next
    code, last, line = frames[-1]
    place = code.co_filename.removeprefix(PACKAGE)
    if not code.co_filename.startswith(PACKAGE):
        inside = [f for f in frames if f[0].co_filename.startswith(PACKAGE)]
        if not inside:
            return None
        code, last, line = inside[-1]
        place = code.co_filename.removeprefix(PACKAGE)
        return f"raised below {place}:{line} ({code.co_name})"
    raising = [i for i in dis.get_instructions(code) if i.offset == last]
    if raising[0].opname in ("RAISE_VARARGS", "RERAISE"):
        return None
    return f"raised by Python at {place}:{line} ({code.co_name})"


def aliases(call):
    """The names of the function; of a transformation's result also the user's."""
    found = {call.label.split(".")[-1]}
    for module in (jnp, lax, mj):
        found |= {k for k, v in vars(module).items() if v is call.function}
    found.add(getattr(call.function, "__name__", call.label))
    passed = [getattr(x, "__name__", "") for x in call.args if callable(x)]
    return {name for name in (*found, *passed) if name}


users = __file__, module_cases.__file__


def users_frames(error):
    """-> (whether a function that was passed in raised it, or called what did)."""
    tb, found = error.__traceback__, []
    while tb is not None:
        code = tb.tb_frame.f_code
        ours = ("run", "updated", "outcome", "pull_back", "new_node", "new_dataclass")
        if code.co_filename.startswith((*users, PACKAGE)):
            found.append(code.co_filename in users and code.co_name not in ours)
        tb = tb.tb_next
    return found[-1], any(found)


def leaves_of(x):
    if isinstance(x, dict):
        return [x, *(leaf for part in x.items() for leaf in leaves_of(part))]
    if isinstance(x, (list, tuple, set)):
        return [x, *(leaf for part in x for leaf in leaves_of(part))]
    return [x]


def descriptions(call):
    """Texts of which an error should contain one: what the arguments are."""
    found = set()
    for x in leaves_of([list(call.args), call.kwargs, list(call.then)]):
        if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type):
            found |= {str(tuple(x.shape)), str(x.dtype), getattr(x.dtype, "name", "")}
            found |= {f"ndim={len(x.shape)}", f"[{','.join(map(str, x.shape))}]"}
        if not callable(x):
            found |= {str(x), repr(x)}
        found |= {type(x).__name__, getattr(x, "__name__", "")}
    return {text for text in found if len(text) > 1 or text.isdigit()}


def internal_names(call, text):
    """Words with underscores in a message that the user has not written."""
    known = str(call) + " ".join([*parameters(call.function), *aliases(call)])
    text = re.sub(r"'\w*'", "", text)
    words = re.findall(r"(?<![\w./])[a-zA-Z]\w*_\w*", text)
    if " was given " in text or call.label.startswith("Array.__"):
        known += " ".join([*dir(lax), *dir(jnp)])
    return {w for w in words if w not in known and w not in public_words}


# Words of advice, and of JAX's own messages.
public_words = set(
    """
    ad_checkpoint allow_int arr_shape array_like axis_name bad_calls body_fun
    broadcast_dimensions checkpoint_policies cond_fun custom_batching
    custom_derivatives custom_vmap fan_avg fan_in fan_out feature_group_count
    in_axes init_val is_leaf key_data lhs_batch lhs_contract lhs_dilation lhs_shape
    limit_indices nondiff_argnums rhs_batch rhs_contract rhs_shape slice_sizes
    spectral_helper start_indices static_argnames static_argnums tree_util weak_type
    """.split()
)

# What NumPy says where a number or an array is too large, and says well.
large = re.compile(
    "out of bounds for|array is too big|Maximum allowed|Unable to allocate|"
    "cannot compute length|too large|cannot fit 'int' into|int too big|"
    "negative dimensions|truth value of an|buffer|could not be read to its end"
)


def parameters(function):
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def spoiled(count, seed=0, only=""):
    """At least `count` spoiled calls, as many of each function.

    What becomes of one function does not depend on which others there are.
    """
    calls = {k: v for k, v in all_calls().items() if re.search(only, k)}
    for turn in range(-(-count // len(calls))):
        for label, choices in calls.items():
            rng = np.random.RandomState([zlib.crc32(label.encode()), seed, turn])
            yield spoil(rng, choices[rng.randint(len(choices))])


def unclear_errors(count, seed=0, only=""):
    """-> ({complaint: [(call, error), ...]}, the number tried, the number accepted)."""
    kinds, tried, accepted = {}, 0, 0
    # Interpreted, for compiling takes its time: messages come before that.
    add_rows("trace.jit.jit")
    interpreted = unittest.mock.patch.dict(executors, default=executors["eval"])
    with warnings.catch_warnings(), interpreted:
        warnings.simplefilter("ignore")
        for call in spoiled(count, seed, only):
            error = outcome(call)
            tried += 1
            accepted += error is None
            if error is not None and (problem := complaint(call, error)):
                kinds.setdefault(problem, []).append((call, error))
    return kinds, tried, accepted


def report(kinds):
    """The unclear errors as text, an example or three of each kind."""
    lines = []
    for problem, found in sorted(kinds.items(), key=lambda kv: -len(kv[1])):
        lines.append(f"{len(found)} x {problem}")
        for call, error in found[:3]:
            text = str(error)[:400].replace("\n", "\n      ")
            lines += [f"   {str(call)[:300]}", f"      {type(error).__name__} {text}"]
    return "\n".join(lines)


if __name__ == "__main__":
    # python tests/bad_calls.py 10000 [seed [a part of the function's name]]
    count, seed, only = [*sys.argv[1:4], *["10000", "0", ""][len(sys.argv) - 1 :]]
    kinds, tried, accepted = unclear_errors(int(count), int(seed), only)
    print(report(kinds))
    unclear = sum(map(len, kinds.values()))
    print(f"{unclear} unclear of {tried}, {accepted} accepted")
