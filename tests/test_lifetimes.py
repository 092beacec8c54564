"""Lifetimes: what a function leaves behind, and what a loop piles up."""

import functools
import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import minijit as jax
import minijit.numpy as jnp
from minijit import lax
from minijit.run.python.program import native_kernels
from minijit.run.executable import Executable
from minijit.run.loading import loaders
from minijit.trace.array import ArrayImpl
from minijit.trace.jaxprs.jaxpr import ClosedJaxpr, Jaxpr
from minijit.trace.jit.stores import shared

pytestmark = pytest.mark.chapter(22)


# What a function leaves behind, if it does.
KINDS = (ClosedJaxpr, Jaxpr, ArrayImpl, Executable, *loaders.values())


SIZE = 1000


def data():
    """An array that a function captures, of a size that no other one has."""
    return jnp.arange(float(SIZE))


class Model:
    def __init__(self, w):
        self.w = w

    def method(self, x):
        return jnp.sum(x * self.w)

    __call__ = method


def of_while(w):
    def f(x):
        start = 0, lax.stop_gradient(x)
        end = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * w), start)
        return jnp.sum(end[1] * x)

    return f


def of_custom_jvp(w):
    f = jax.custom_jvp(lambda x: jnp.sum(x * w))
    f.defjvp(lambda primals, tangents: (f(*primals), jnp.sum(tangents[0] * w)))
    return f


def of_custom_vjp(w):
    f = jax.custom_vjp(lambda x: jnp.sum(x * w))
    f.defvjp(lambda x: (f(x), None), lambda kept, ct: (ct * w,))
    return f


def of_callback(w):
    seen = []

    def f(x):
        jax.debug.callback(lambda y: seen.append(float(y) + float(w[1])), jnp.sum(x))
        return jnp.sum(x * w)

    return f


scanned = lambda w, x: lax.scan(
    lambda c, y: (c + y * w, jnp.sum(c)), x, jnp.arange(3.0)
)
# What captures an array: a function of it that makes a function of x.
makers = {
    "def": lambda w: lambda x: jnp.sum(jnp.sin(x) * w),
    "two arrays": lambda w: (lambda b: lambda x: jnp.sum(x * w + b))(data()),
    "default": lambda w: lambda x, w=w: jnp.sum(x * w),
    "nested jit": lambda w: (lambda inner: lambda x: jnp.sum(
        inner(x) + jax.jit(lambda y: y + w)(x)))(jax.jit(lambda x: x * w)),
    "list": lambda w: (lambda kept: lambda x: jnp.sum(x * kept[0]))([w]),
    "numpy": lambda w: (lambda w: lambda x: jnp.sum(x * w))(np.array(w)),
    "scan": lambda w: lambda x: sum(map(jnp.sum, scanned(w, x))),
    "while": of_while,
    "fori": lambda w: lambda x: jnp.sum(lax.fori_loop(0, 3, lambda i, c: c * w + i, x)),
    "cond": lambda w: lambda x: jnp.sum(
        lax.cond(jnp.sum(x) > 0, lambda v: v * w, jnp.sin, x)),
    "switch": lambda w: lambda x: jnp.sum(lax.switch(
        jnp.int32(jnp.sum(x)) % 3, [lambda v: v * w, jnp.sin, lambda v: v - w], x)),
    "checkpoint": lambda w: jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x * w)))),
    "custom_jvp": of_custom_jvp, "custom_vjp": of_custom_vjp, "callback": of_callback,
    "keys": lambda w: (lambda key: lambda x: jnp.sum(
        x * w * jax.random.normal(key, x.shape)))(jax.random.key(0)),
    "Model": Model, "method": lambda w: Model(w).method,
    "partial": lambda w: functools.partial(lambda w, x: jnp.sum(w * x), w),
}  # fmt: skip


def twice(x):
    return jnp.stack([x, x])


# The transformations of a scalar function, each as a function of one array.
ways = {
    "itself": lambda f: f,
    "grad": jax.grad,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,))[1],
    "vmap": lambda f: lambda x: jax.vmap(f)(twice(x)),
    "grad of vmap": lambda f: lambda x: jax.grad(lambda v: jnp.sum(jax.vmap(f)(v)))(
        twice(x)
    ),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
}


def use(make, way, jitted):
    """Make a function and call it in one way; nothing of it is returned."""
    f = makers[make](data())
    # A function with a vjp rule has no jvp.
    way = "grad" if isinstance(f, jax.custom_vjp) and way in no_vjp else way
    made = ways[way](f)
    (jax.jit(made) if jitted else made)(jnp.linspace(0.0, 1.0, SIZE))


no_vjp = {"jvp", "linearize"}


def collect_all():
    """Collect until there is nothing left to collect.

    What dies takes what tables know of it along, by callbacks, and that is found by the
    next collection: there may be several links.
    """
    while gc.collect():
        pass


def left_by(action, clear=jax.clear_caches):
    """The objects that an action leaves behind when it is done a second time."""
    action()
    clear()
    collect_all()
    # What is there by now is not looked at again; conftest.py thaws it.
    gc.freeze()
    action()
    clear()
    collect_all()
    return [x for x in gc.get_objects() if issubclass(type(x), KINDS)]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jitted"])
@pytest.mark.parametrize("make", makers)
def test_nothing_of_a_function_outlives_it(make, jitted):
    assert left_by(lambda: [use(make, way, jitted) for way in ways] and None) == []


@pytest.mark.parametrize("make", makers)
def test_nothing_of_a_compiled_function_outlives_it(make):
    # Its owner let it go, and that is enough: no cache is cleared.
    def both():
        use(make, "itself", True)
        use(make, "grad", True)

    assert left_by(both, clear=lambda: None) == []


def test_no_kernel_outlives_its_function():
    jax.clear_caches()
    w = data()
    f = jax.jit(lambda x: jnp.sum(jnp.sin(x) * w), backend="python")
    f(w)
    kernels = [weakref.ref(kernel) for _, kernel, _ in native_kernels.values()]
    assert kernels
    del f
    jax.clear_caches()
    gc.collect()
    gc.collect()
    assert [kernel() for kernel in kernels] == [None] * len(kernels)


@pytest.mark.parametrize("backend", ["eval", None])
def test_no_table_keeps_what_its_owner_let_go(backend):
    def dead(make):
        """Whether an array is gone with the function that captured it, or before."""
        w = data()
        gone = weakref.ref(w)
        f = make(w)
        jax.jit(f, backend=backend)(jnp.ones(SIZE))
        del w, f
        gc.collect()
        return gone() is None

    def through_custom(w):
        f = jax.custom_jvp(lambda x: x * w)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * w))
        return lambda x: f(x)

    b = data()
    assert dead(lambda w: lambda x: x + w)
    assert dead(lambda w: lambda x: x * w + b)
    assert dead(lambda w: functools.partial(jnp.add, w))
    assert dead(lambda w: jax.jit(lambda x: x + w))
    assert dead(lambda w: w.__add__)
    assert dead(through_custom)
    assert len(b) == SIZE


def test_code_that_is_gone_is_not_known():
    scope = {"jax": jax}
    exec("def make():\n    return jax.jit(lambda x: x + 1, backend='eval')", scope)
    scope["make"]()(1.0)
    scope["make"]()(1.0)
    f = scope["make"]()
    f(1.0)
    assert len(f.traces) == 1
    code = weakref.ref(f.function.__code__)
    known = len(shared)
    del f, scope
    gc.collect()
    assert code() is None and len(shared) == known - 1


loops = {
    "jit": lambda: jax.jit(lambda x: x + 1)(1.0),
    "jit over a list": lambda kept=[1.0]: jax.jit(lambda x: x * kept[0]).lower(1.0),
    "jit over an array": lambda: jax.jit(makers["def"](data())).lower(jnp.ones(SIZE)),
    "grad": lambda: jax.grad(lambda x: x * x)(1.0),
    "jvp": lambda: jax.jvp(jnp.sin, (1.0,), (1.0,)),
    "vjp": lambda: jax.vjp(jnp.sin, 1.0)[1](1.0),
    "vmap": lambda: jax.vmap(lambda x: x * x)(jnp.ones(3)),
    "jacobian": lambda: jax.jacrev(jnp.sin)(jnp.ones(2)),
    "hessian": lambda: jax.hessian(lambda x: jnp.sum(x * x))(jnp.ones(2)),
    "linearize": lambda: jax.linearize(jnp.sin, 1.0)[1](1.0),
    "linear_transpose": lambda: jax.linear_transpose(lambda x: 2 * x, 1.0)(1.0),
    "scan": lambda: lax.scan(lambda c, x: (c + x, c), 0.0, jnp.ones(3)),
    "grad of scan": lambda: jax.grad(
        lambda x: lax.scan(lambda c, y: (c * x, c), x, None, length=3)[0]
    )(1.0),
    "while": lambda: lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0),
    "grad of cond": lambda: jax.grad(
        lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x)
    )(1.0),
    "grad of checkpoint": lambda: jax.grad(
        jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    )(1.0),
    "make_jaxpr": lambda: jax.make_jaxpr(lambda x: x + 1)(1.0),
    "eval_shape": lambda: jax.eval_shape(lambda x: x + 1, 1.0),
    "custom_jvp": lambda: jax.grad(jax.nn.relu)(1.0),
    "random": lambda: jax.random.normal(jax.random.key(0), (2,)),
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("loop", loops)
def test_a_loop_has_flat_memory(loop):
    step = loops[loop]
    # What is remembered of the last few hundred traces has to be there first, and the
    # programs that repeated steps earn.  Steps take six times as long when allocations
    # are traced.
    before = 3000 if loop == "random" else 650 if loop.startswith("jit") else 200
    count = 100
    for _ in range(before):
        step()
    gc.collect()
    gc.freeze()
    tracemalloc.start()
    try:
        last = 0
        # A table may become larger once, but not twice.
        for _ in range(2):
            for _ in range(count):
                step()
            gc.collect()
            size, objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
            kept, last = size - last, size
            if kept < 20_000 + 60 * count:
                break
    finally:
        tracemalloc.stop()
    # Of NumPy's small objects up to 57 bytes a step are only counted as still there.
    assert kept < 20_000 + 60 * count and objects < count / 10, (kept, objects)


def tables():
    """{id of a table of one of our modules: (its name, how many entries it has)}."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("minijit") and ".book" not in name:
            for key, table in list(vars(module).items()):
                if hasattr(table, "cache_info"):
                    size = table.cache_info().currsize
                elif isinstance(table, (dict, set, weakref.WeakKeyDictionary)):
                    size = len(table)
                else:
                    continue
                found.setdefault(id(table), (f"{name}.{key}", size))
    return found


def fill_tables(n):
    x = jnp.arange(float(n))
    for _ in range(2):
        jnp.stack([jnp.sin(x) + 1.5, x])[:, 1:3].sum(0)
    f = lambda x: jnp.tanh(x * 1.25).sum()
    jax.jit(jax.value_and_grad(f))(x), jax.vmap(f)(jnp.ones((n, 3)))
    jax.jit(f, backend="plain")(x), jax.jit(f, backend="cuda-lockstep")(x)
    step = lambda i, c: c @ c
    jax.jit(lambda x: lax.fori_loop(0, 3, step, x))(jnp.eye(n))
    jax.explain(f, x)


@pytest.mark.chapter(27)
def test_clearing_the_caches_empties_all_tables():
    """But for that of avals, each of which stays the same object, and for what modules
    import later, which is read off their text once for each."""
    fill_tables(4)
    jax.clear_caches()
    gc.collect()
    before = tables()
    fill_tables(5)
    grown = {k for k, (_, n) in tables().items() if n > before.get(k, (None, n))[1]}
    jax.clear_caches()
    gc.collect()
    after = tables()
    left = {name for k in grown for name, n in [after[k]] if n > before[k][1]}
    # Where many tests ran before, the table of avals is full, and does not grow.
    known = {"minijit.trace.array.known_aval", "minijit.trace.base.names.later_imports"}
    assert len(grown) > 8 and left <= known
