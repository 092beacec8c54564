"""Calls made ready: when they are taken, when not, and that nobody notices."""

import collections
import enum
import gc
import os
import sys
import threading
import weakref
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from harness import in_a_child, in_threads, refused

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.memory.arena import LINE
from minijit.run import donating, pool
from minijit.run.pool import MOST_ARRAYS, Pool
from minijit.run.values import owns_memory
from minijit.trace.array import ArrayImpl, ShapedArray
from minijit.trace.jit.stores import MOST_SHORTCUTS

pytestmark = pytest.mark.chapter(25)


def shortcuts(f):
    return len(f.shortcuts.calls)


def made_short(f, *args, **kwargs):
    """`f`, with a shortcut for such arguments: the result of its last call."""
    before = shortcuts(f)
    for _ in range(8):
        result = f(*args, **kwargs)
        if shortcuts(f) > before:
            return result
    raise AssertionError("no shortcut was made")


@pytest.fixture
def long_ways(monkeypatch):
    """A list that grows with each call that goes the long way."""
    seen = []
    look_up = type(mj.jit(abs)).look_up

    def noted(self, args, kwargs):
        seen.append(self)
        return look_up(self, args, kwargs)

    monkeypatch.setattr(type(mj.jit(abs)), "look_up", noted)
    return seen


class Side(enum.Enum):
    LEFT = 1


class Point(NamedTuple):
    x: object
    y: object


def an_array(shape=(3,), dtype="float32"):
    return jnp.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype)


# ---- which calls become short

TREES = {
    "arrays": lambda: (an_array(), an_array()),
    "no arguments": lambda: (),
    "NumPy": lambda: (np.arange(3, dtype="f4"), np.arange(3, dtype="i4")),
    "NumPy, to be converted": lambda: (np.arange(3.0), np.arange(3)),
    "NumPy, columns": lambda: (np.ones((3, 4), "f4").T, np.ones((6, 4), "f4")[::2]),
    "numbers": lambda: (1, 2.5, True, np.float32(3), np.int8(4)),
    "dict": lambda: ({"b": an_array(), "a": 2.0, "": an_array()},),
    "keys that are no strings": lambda: ({3: an_array(), 1: 2.0},),
    "a key that is an object": lambda: ({Side.LEFT: an_array()},),
    "nested": lambda: ([(an_array(), [None, {"k": an_array()}])], None),
    "namedtuple": lambda: (Point(an_array(), (1.0, an_array())),),
    "ordered": lambda: (collections.OrderedDict(b=an_array(), a=an_array()),),
    "half": lambda: (an_array(dtype="bfloat16"), an_array(dtype="float16")),
    "empty": lambda: (an_array((0, 3)), np.ones((2, 0), "f4")),
    "scalar arrays": lambda: (an_array(()), np.array(2, "f4")),
    "key": lambda: (mj.random.key(3),),
}


@pytest.mark.parametrize("kind", TREES)
def test_structures(kind, long_ways):
    args = TREES[kind]()

    def twice(*args, **kwargs):
        leaves, tree = mj.tree_util.tree_flatten((args, kwargs))
        is_key = lambda x: mj.dtypes.issubdtype(x.dtype, mj.dtypes.prng_key)
        return tree.unflatten([x if is_key(x) else x + x for x in leaves])

    f = mj.jit(twice)
    expected = made_short(f, *args, more=args)
    del long_ways[:]
    got = f(*args, more=args)
    assert not long_ways
    leaves, tree = mj.tree_util.tree_flatten(got)
    wanted, expected_tree = mj.tree_util.tree_flatten(expected)
    assert tree == expected_tree
    for x, y in zip(leaves, wanted, strict=True):
        assert type(x) is type(y) and x.aval == y.aval and x.dtype == y.dtype
        assert not np.asarray(x.numpy()).flags.writeable
        assert x.numpy().tobytes() == y.numpy().tobytes()


@pytest.mark.parametrize("kind", TREES)
def test_other_arguments_are_missed(kind, long_ways):
    # Each structure is called with all the others: values and types are those of eval.
    f = mj.jit(lambda *args, **kwargs: (args, kwargs))
    made_short(f, *TREES[kind](), more=1)
    for other in TREES:
        args = TREES[other]()
        got = f(*args, more=1)
        wanted = mj.jit(lambda *a, **k: (a, k), backend="eval")(*args, more=1)
        got, wanted = map(mj.tree_util.tree_flatten, (got, wanted))
        assert got[1] == wanted[1]
        for x, y in zip(got[0], wanted[0], strict=True):
            assert x.aval == y.aval and x.numpy().tobytes() == y.numpy().tobytes()


class Lookup:
    """Something other than a dict that can be asked like one: no tree, and no array."""

    __len__ = lambda self: 1
    __getitem__ = lambda self, key: np.float32(1)


class Held:
    """A container of two, as another one is: only its type is its own."""

    def __init__(self, x, y):
        self.x, self.y = x, y


class HeldToo(Held):
    pass


class Place(NamedTuple):
    x: object
    y: object


for kind in (Held, HeldToo):
    mj.tree_util.register_pytree_node(
        kind, lambda held: ((held.x, held.y), None), lambda _, xs, kind=kind: kind(*xs)
    )
of_two = {
    "dict": lambda x, y: {"x": x, "y": y},
    "other keys": lambda x, y: {"x": x, "z": y},
    "fewer keys": lambda x, y: {"x": x},
    "ordered": lambda x, y: collections.OrderedDict(x=x, y=y),
    "in another order": lambda x, y: collections.OrderedDict(y=x, x=y),
    "defaults": lambda x, y: collections.defaultdict(int, x=x, y=y),
    "tuple": lambda x, y: (x, y),
    "of three": lambda x, y: (x, y, y),
    "list": lambda x, y: [x, y],
    "named": Point,
    "named otherwise": Place,
    "class": Held,
    "its subclass": HeldToo,
}


@pytest.mark.parametrize("first", of_two)
def test_what_looks_like_the_structure_is_another_one(first):
    one, two = np.float32(1), np.float32(2)
    for name, other in of_two.items():
        f, given = mj.jit(lambda t: t), other(one, two)
        made_short(f, of_two[first](one, two))
        leaves, tree = mj.tree_util.tree_flatten(f(given))
        wanted, wanted_tree = mj.tree_util.tree_flatten(given)
        assert tree == wanted_tree and leaves == wanted, name
    with pytest.raises(TypeError):
        f(Lookup())


def test_types_are_told_apart(long_ways):
    f = mj.jit(lambda x: x * 2)
    made_short(f, an_array())
    for x, dtype in (
        (an_array((4,)), "float32"), (an_array(dtype="int32"), "int32"),
        (2.0, "float32"), (2, "int32"), (True, "int32"), (np.float32(2), "float32"),
        (np.arange(3.0), "float32"), (np.arange(3, dtype="u1"), "uint8"),
    ):  # fmt: skip
        assert f(x).dtype == dtype and np.allclose(f(x), np.asarray(x) * 2)
    assert f(2.0).weak_type and not f(np.float32(2)).weak_type
    assert not f(jnp.float32(2)).weak_type and f(jnp.asarray(2.0)).weak_type


def test_an_equal_type_is_adopted(long_ways):
    f, x = mj.jit(lambda x: x + 1), an_array()
    made_short(f, x)
    other = ArrayImpl(np.ones(3, "f4"), ShapedArray((3,), np.dtype("float32")))
    before = other.aval
    f(x)
    assert before is not x.aval
    del long_ways[:]
    f(other)
    assert not long_ways and other.aval is x.aval and other.aval == before


def test_results_are_arguments(long_ways):
    f, x = mj.jit(lambda x: x * 2 + 1), jnp.float32(0)
    for _ in range(3):
        x = f(x)
    del long_ways[:]
    for _ in range(17):
        x = f(x)
    assert not long_ways and float(x) == 2**20 - 1


def test_several_signatures_stay_short(long_ways):
    f = mj.jit(lambda x: x + x)
    args = [an_array((n,)) for n in range(1, 5)]
    for x in args:
        made_short(f, x)
    del long_ways[:]
    for x in args:
        assert f(x).shape == x.shape
    assert not long_ways
    for n in range(5, 20):
        assert [f(an_array((n,))).shape for _ in range(4)] == [(n,)] * 4
    assert 4 < shortcuts(f) <= MOST_SHORTCUTS


# ---- never an old answer


factor = 2.0


@pytest.mark.parametrize("mode", ["retrace", "warn", "raise", "ignore"])
def test_globals_that_change(mode, monkeypatch):
    f = mj.jit(lambda x: x * factor, globals=mode)
    for _ in range(9):
        assert float(f(3.0)) == 6
    assert shortcuts(f) == (mode == "ignore")
    monkeypatch.setitem(globals(), "factor", 5.0)
    if mode == "raise":
        refused(RuntimeError, "factor", f, 3.0)
    elif mode == "warn":
        with pytest.warns(mj.StaleGlobalWarning):
            assert float(f(3.0)) == 6
    else:
        assert float(f(3.0)) == (15 if mode == "retrace" else 6)


@pytest.mark.parametrize("wrap", [lambda f: f, mj.jit, mj.grad])
def test_the_first_nan_of_a_compiled_loop_is_found_step_by_step(wrap):
    f = wrap(lambda x: mj.lax.scan(lambda c, _: (jnp.log(c), None), x, None, 3)[0])
    with mj.debug_nans(True), pytest.raises(FloatingPointError, match="log.* to -1"):
        f(-1.0)


@pytest.mark.parametrize("flag", ["debug_nans", "debug_infs"])
def test_checks_are_made_while_their_flag_is_set(flag):
    f = mj.jit(lambda x: 1 / x - 1 / x if flag == "debug_nans" else 1 / x)
    made_short(f, 0.0)
    with mj.config.override(flag, True), pytest.raises(FloatingPointError):
        f(0.0)
    f(0.0)
    mj.config.update(f"jax_{flag}", True)
    try:
        for _ in range(9):
            with pytest.raises(FloatingPointError):
                f(0.0)
            f(1.0)
        assert not shortcuts(f)
    finally:
        mj.config.update(f"jax_{flag}", False)
    made_short(f, 0.0)


def test_a_flag_switched_in_the_middle_of_a_call():
    def switch(x):
        mj.config.update("jax_debug_infs", not mj.config.debug_infs)

    def with_callback(x):
        mj.debug.callback(switch, x)
        return x * 2

    f = mj.jit(with_callback)
    try:
        for _ in range(20):
            f(3.0)
        assert not shortcuts(f)
    finally:
        mj.config.update("jax_debug_infs", False)


# ---- arguments that are more than arrays


class Odd:
    """Equal to all others; hashed alike."""

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return hash(self.n)


def test_static_arguments(long_ways):
    f = mj.jit(lambda x, n, flag=False: x * n + flag, static_argnums=1,
               static_argnames="flag")  # fmt: skip
    assert float(made_short(f, 3.0, 1000, flag=True)) == 3001
    assert float(made_short(f, 3.0, 2, flag=False)) == 6
    assert float(f(3.0, 2.0)) == 6 and f(3, 2.0).dtype == "float32"
    assert float(f(3.0, n=2)) == 6
    g = mj.jit(lambda x, odd: x * odd.n, static_argnums=1)
    odd = Odd(2)
    for _ in range(9):
        assert float(g(3.0, odd)) == 6
    assert not shortcuts(g)
    odd.n = 5
    assert float(g(3.0, odd)) == 15


def test_donated_arguments(long_ways):
    f = mj.jit(lambda x, y: (x + y["a"], x), donate_argnums=(0, 1))
    for _ in range(4):
        x, y = an_array(), {"a": an_array()}
        del long_ways[:]
        f(x, y)
        assert x.is_deleted() and y["a"].is_deleted()
    assert not long_ways
    for given in ((x, {"a": an_array()}), (an_array(), y)):
        refused(RuntimeError, "deleted", f, *given)
    given = np.ones(3, "f4")
    for _ in range(9):
        f(given, {"a": given})
    assert given.sum() == 3
    both = an_array()
    with pytest.raises(mj.errors.JaxRuntimeError, match="previously donated.*0, 1 are"):
        f(both, {"a": both})
    assert not both.is_deleted()


def test_tracers_go_the_long_way():
    f = mj.jit(lambda x: x * x)
    made_short(f, 3.0)
    assert float(mj.grad(f)(3.0)) == 6
    assert np.allclose(mj.vmap(f)(np.arange(3.0)), [0, 1, 4])
    assert "jit" in str(mj.make_jaxpr(lambda x: f(x))(1.0))
    leaked = []
    mj.make_jaxpr(lambda x: leaked.append(x))(1.0)
    refused(Exception, "leaked|escaped|trace", f, leaked[0])


def test_numpy_arguments_are_read_where_they_are_and_not_kept():
    f = mj.jit(lambda x: (x, x + 1, x.reshape(3, 1)))
    x = np.arange(3, dtype="f4")
    made_short(f, x)
    results = f(x)
    x[:] = 99
    assert [r.tolist() for r in results] == [[0, 1, 2], [1, 2, 3], [[0], [1], [2]]]
    base = np.zeros(13, "u1")[1:].view("f4")
    base[:] = 7
    assert f(base)[1].tolist() == [8, 8, 8] and f(base[::-1])[1].tolist() == [8, 8, 8]


def test_a_callback_keeps_a_copy_of_a_numpy_argument():
    kept = []

    def with_callback(x):
        mj.debug.callback(kept.append, x)
        return x + 1

    f, x = mj.jit(with_callback), np.zeros(3, "f4")
    made_short(f, x)
    del kept[:]
    f(x)
    x[:] = 9
    assert kept[0].tolist() == [0, 0, 0]


def test_an_exception_in_the_middle_leaves_nothing_behind():
    def fail(x):
        if x > 1:
            raise KeyError("stop")

    def with_callback(x, y):
        mj.debug.callback(fail, x)
        return y + x

    f, y = mj.jit(with_callback, donate_argnums=1), an_array()
    made_short(mj.jit(with_callback), 1.0, y)
    for _ in range(3):
        f(1.0, an_array())
    assert shortcuts(f)
    with pytest.raises(KeyError):
        f(2.0, y)
    assert y.is_deleted() and f(0.0, an_array()).tolist() == [0, 1, 2]


def test_flags_may_be_switched_while_threads_call():
    f, x, stop, wrong = mj.jit(lambda x: x * 2), an_array((100,)), [], []

    def work(k):
        mine, wanted = jnp.full(100, float(k)), 2.0 * k
        while not stop:
            got = np.asarray(f(mine))
            if not (got == wanted).all():
                wrong.append((k, got))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for i in range(100):
        mj.config.update("jax_debug_infs", i % 2 == 0)
        f(x)
    mj.config.update("jax_debug_infs", False)
    stop.append(True)
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork():
    f, x = mj.jit(lambda x: x + 1), an_array()
    kept = made_short(f, x)
    again = lambda: all(f(x).tolist() == [1, 2, 3] for _ in range(50))
    in_a_child(lambda: again() and kept.tolist() == [1, 2, 3])
    assert f(x).tolist() == [1, 2, 3]


def test_a_shortcut_goes_with_its_function():
    class Weights:
        pass

    def make():
        held = jnp.ones(3)
        f = mj.jit(lambda x: x * held)
        made_short(f, an_array())
        return weakref.ref(f), weakref.ref(f.shortcuts)

    refs = make()
    mj.clear_caches()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


# ---- the pool


def a_pool(shape=(64,)):
    return Pool(shape, np.dtype("float32"))


def address(array):
    return array.__array_interface__["data"][0]


VIEWS = {
    "itself": lambda a: a,
    "a slice": lambda a: a[3:5],
    "a view of a view": lambda a: a[::2][1:].reshape(-1, 1).T,
    "memoryview": memoryview,
    "a part of a memoryview": lambda a: memoryview(a)[2:4],
    "buffer of a buffer": lambda a: np.frombuffer(memoryview(a), "u1"),
    "DLPack": lambda a: np.from_dlpack(a),
    "a DLPack capsule": lambda a: a.__dlpack__(max_version=(1, 0)),
    "an iterator": lambda a: a.flat,
    "in a list": lambda a: [[a]],
    "a method": lambda a: a.sum,
    "interface": lambda a: np.asarray(Holder(a)),
    "a record": lambda a: a.view([("x", "f4")])[3],
}


class Holder:
    def __init__(self, a):
        self.a, self.__array_interface__ = a, a.__array_interface__


# Small memory is NumPy's, large memory begins in a block.
each_size = pytest.mark.parametrize("size", [64, 4096])


@pytest.mark.parametrize("shape", [(1024,), (77, 1001), (1 << 20, 3)])
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128"])
def test_large_memory_begins_with_a_line_of_the_cache(shape, dtype):
    array = Pool((8, *shape), np.dtype(dtype)).take()
    assert address(array) % LINE == 0
    assert array.flags.c_contiguous and not array.flags.writeable
    assert owns_memory(array) and array[1:].base is array


@each_size
@pytest.mark.parametrize("kind", VIEWS)
def test_memory_with_a_view_is_not_given_again(kind, size):
    p = a_pool((size,))
    array = p.take()
    where, view = address(array), VIEWS[kind](array)
    del array
    others = [p.take() for _ in range(2 * MOST_ARRAYS)]
    assert where not in map(address, others)
    del view
    gc.collect()


@each_size
@pytest.mark.parametrize("kind", [*VIEWS][1:])
def test_memory_is_given_again_when_the_view_is_gone(kind, size):
    p = a_pool((size,))
    array = p.take()
    where, view = address(array), VIEWS[kind](array)
    del array, view
    gc.collect()
    assert address(p.take()) == where


def counted(monkeypatch):
    """A list that grows with each array that a pool makes."""
    made, make = [], Pool.make
    monkeypatch.setattr(Pool, "make", lambda self: made.append(self) or make(self))
    return made


def test_ten_thousand_calls_make_a_few_arrays(monkeypatch):
    made, f = counted(monkeypatch), mj.jit(lambda x: x * 0.5 + 1)
    x = jnp.ones(8)
    for _ in range(10_000):
        x = f(x)
    assert len(made) <= MOST_ARRAYS
    assert np.allclose(x, 2)


def test_results_that_are_kept_are_made_new(monkeypatch):
    made, f, x = counted(monkeypatch), mj.jit(lambda x: x * 2), jnp.ones(8)
    kept = [f(x) for _ in range(1000)]
    assert len(made) == 1000 and len({address(k.numpy()) for k in kept}) == 1000
    assert len(made[0].lent) == MOST_ARRAYS
    del kept, made[1:]
    for _ in range(100):
        f(x)
    assert len(made) == 1


def test_memory_that_ran_out_is_looked_for_in_the_pools(monkeypatch):
    p, q, empty = a_pool(), a_pool(), np.empty
    p.take()

    def scarce(*args):
        if p.lent:
            raise MemoryError
        return empty(*args)

    monkeypatch.setattr(pool.np, "empty", scarce)
    assert q.take().shape == (64,)


def test_a_pool_goes_with_its_function():
    before = len(pool.pools)
    f = mj.jit(lambda x: x * 2)
    f(jnp.ones(8))
    assert len(pool.pools) > before
    del f
    mj.clear_caches()
    gc.collect()
    assert len(pool.pools) <= before


def test_a_part_of_larger_memory_is_not_given_away():
    part, whole = np.zeros(10)[2:5], np.zeros(10)[:]
    assert donating.owned([part]) is not part and donating.owned([whole]) is whole


@each_size
def test_whatever_another_thread_does_meanwhile_no_viewed_array_is_given_away(size):
    """It takes an array between any two lines of what makes one, or asks for owners."""
    p, taken = a_pool((size,)), []

    def between(frame, event, argument):
        if frame.f_code.co_filename in (pool.__file__, donating.__file__):
            taken.append(p.take())
        return between

    given = [p.take() for _ in range(2 * MOST_ARRAYS)]
    sys.settrace(between)
    try:
        given.append(p.make())
        array = given.pop()
        assert donating.owned([array]) is array
        view = array[1:]
        assert donating.owned([array]) is not array and view.base is array
    finally:
        sys.settrace(None)
    del array, view
    given += taken
    taken.clear()
    assert len(given) > 3 * MOST_ARRAYS
    while given:
        array = given.pop()
        view = array[1:]
        assert donating.owned([array]) is not array and view.base is array


def test_threads_take_from_one_pool():
    p, wrong = a_pool(), []

    def work(k):
        for _ in range(3000):
            array = p.take()
            array.setflags(write=True)
            array[:] = k
            if not (array == k).all():
                wrong.append(k)
            array.setflags(write=False)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(*[partial(work, k) for k in range(4)])
    finally:
        sys.setswitchinterval(before)
    assert not wrong


# flag -> (another value than it has, a function of float32[3] that depends on it)
FLAGS = {
    "enable_x64": (True, lambda x: x + jnp.arange(3.0) / 3),
    "fast_math": (True, lambda x: (x + x * 1e9) - x * 1e9),
    "enable_custom_prng": (True, lambda x: mj.random.PRNGKey(0)),
    "default_prng_impl": ("rbg", lambda x: mj.random.key_data(mj.random.key(3))),
    "threefry_partitionable": (False, lambda x: mj.random.bits(mj.random.key(0), (5,))),
    "numpy_dtype_promotion": ("strict", lambda x: x + jnp.arange(3)),
    "numpy_rank_promotion": ("raise", lambda x: x + jnp.ones((2, 3))),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("flag", FLAGS)
def test_a_call_follows_the_flags_around_it(flag, first):
    """Also the fifth call, whichever shortcuts the calls before it have made."""
    value, function = FLAGS[flag]
    x = jnp.array([0.1, 0.2, 0.3])

    def said(f, inside):
        with mj.config.override(flag, value) if inside else nullcontext():
            try:
                return repr(f(x))
            except (TypeError, ValueError) as error:
                return type(error)

    # A new wrapper has no shortcuts yet.
    wanted = {inside: said(mj.jit(function), inside) for inside in (True, False)}
    assert wanted[True] != wanted[False]
    f = mj.jit(function)
    for inside in [first] * 5 + [not first] * 5 + [True, False] * 2:
        assert said(f, inside) == wanted[inside]
