"""Threads that trace at the same time: nothing is traced twice, and nothing hangs."""

import gc
import itertools
import sys
import textwrap
import threading
import time
from functools import partial

import pytest
from harness import in_a_process, in_threads
from moments import interrupted_at

import minijit as jax
import minijit.numpy as jnp
from minijit.trace.base.turns import Turn, Turns, compile_lock, one_at_a_time
from minijit.trace.jit import jit as module

pytestmark = pytest.mark.chapter(6)

HEAD = """
import threading
import minijit as jax
import minijit.numpy as jnp

def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread
"""


def run(program):
    return in_a_process(HEAD + textwrap.dedent(program)).split()


def test_a_child_forked_while_another_thread_compiles():
    program = """
    import os, sys, time
    from minijit.trace.jit import jit as module

    inside, go_on = threading.Event(), threading.Event()
    compile_for_eval = module.executors["eval"]

    def slow(closed, name):
        inside.set()
        go_on.wait(1.0)
        return compile_for_eval(closed, name)

    module.executors["slow"] = slow
    f = jax.jit(lambda x: x + 1.0, backend="slow")
    g = jax.jit(lambda x: x + 2.0, backend="eval")

    @jax.jit
    def traced(x):
        tracing.set()
        done.wait(1.0)
        return x + 3.0

    tracing, done = threading.Event(), threading.Event()
    threads = [in_thread(f, 1.0), in_thread(traced, 1.0)]
    inside.wait()
    tracing.wait()
    child = os.fork()
    if child == 0:
        done.set()
        print(float(g(1.0)), float(f(1.0)), float(traced(1.0)), flush=True)
        os._exit(0)
    go_on.set()
    done.set()
    assert os.waitpid(child, 0)[1] == 0
    for thread in threads:
        thread.join()
    print(float(f(1.0)), float(traced(1.0)))
    """
    assert run(program) == ["3.0", "2.0", "4.0", "2.0", "4.0"]


def test_a_traced_function_may_wait_for_a_thread_that_traces():
    program = """
    inner = jax.jit(lambda x: x + 1)
    results = []

    @jax.jit
    def outer(x):
        in_thread(lambda: results.append(float(inner(2.0)))).join()
        return x * results[0]

    print(float(outer(5.0)))
    """
    assert run(program) == ["15.0"]


def test_a_second_thread_waits_for_the_trace_of_the_first():
    program = """
    begun, others = threading.Event(), threading.Event()
    traces, results = [], []

    @jax.jit
    def f(x):
        traces.append(1)
        begun.set()
        others.wait(10)
        return x + 1

    def call(x):
        results.append(float(f(x)))

    first = in_thread(call, 1.0)
    begun.wait()
    second = in_thread(call, 1.0)
    while len(module.turns.wanted) == 0:
        pass
    others.set()
    first.join(), second.join()
    print(len(traces), len(f.traces), *results)
    """
    module = "from minijit.trace.base import turns as module\n"
    program = module + textwrap.dedent(program)
    assert run(program) == ["1", "1", "2.0", "2.0"]


def test_functions_that_call_each_other_in_two_threads():
    program = """
    meet, depth, results = threading.Barrier(2), threading.local(), {}

    def step(x, other):
        depth.now = getattr(depth, "now", 0) + 1
        if depth.now == 1:
            meet.wait(30)
        return x if depth.now > 3 else other(x) + 1

    f = jax.jit(lambda x: step(x, g))
    g = jax.jit(lambda x: step(x, f))
    pair = [in_thread(lambda h=h: results.update({h: float(h(0.0))})) for h in (f, g)]
    for thread in pair:
        thread.join()
    print(len(results))
    """
    assert run(program) == ["2"]


def test_one_program_is_compiled_at_a_time(monkeypatch):
    inside, peak = [], []

    def compile_slowly(closed, name):
        inside.append(name)
        peak.append(len(inside))
        time.sleep(0.1)
        inside.remove(name)
        return module.compile_for_eval(closed, name)

    monkeypatch.setitem(module.executors, "slow", compile_slowly)
    functions = [jax.jit(lambda x, k=k: x + k, backend="slow") for k in (1, 2)]
    in_threads(*[partial(f, 1.0) for f in functions])
    assert peak == [1, 1]


def test_clearing_the_caches_while_a_function_is_traced():
    traces = []

    @jax.jit
    def f(x):
        traces.append(1)
        if len(traces) == 1:
            jax.clear_caches()
        return x + 1

    assert [float(f(1.0)), float(f(1.0)), float(f(1.0))] == [2.0] * 3
    assert len(traces) == 2


def in_turn(turns, key, work):
    turn = Turn(key)
    with turn.lock, turns.claim(turn):
        return work()


def test_a_turn_is_given_back_after_an_error():
    turns = Turns()

    def fail():
        raise KeyError

    with pytest.raises(KeyError):
        in_turn(turns, "key", lambda: in_turn(turns, "key", fail))
    gc.collect()
    assert not turns.owners and not turns.wanted


def test_garbage_is_seldom_collected_amid_compiling():
    """Nor never: and not at all where the user's threshold is 0."""
    often = gc.get_threshold()
    threshold = one_at_a_time(gc.get_threshold)

    @one_at_a_time
    def nested():
        return threshold(), gc.get_threshold()

    assert nested() == ((200_000, *often[1:]),) * 2
    assert gc.get_threshold() == often
    gc.set_threshold(0)
    try:
        assert nested()[0][0] == nested()[1][0] == gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*often)


def in_thread(function):
    """What a function gives in another thread, in a list; empty if it hangs."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(20)
    return found


# An exception in the callback of a weak reference is reported, and goes no further.
reported = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@reported
def test_ctrl_c_leaves_nothing_locked_at_whatever_moment():
    turns, often, count = Turns(), gc.get_threshold(), 0
    work = one_at_a_time(lambda: sum([1, 2]))
    call = lambda: in_turn(turns, "key", lambda: in_turn(turns, "other", work))
    for k in itertools.count():
        reached, error = interrupted_at(k, call)
        if not reached:
            break
        # The exception holds all frames, as it does in IPython.
        assert gc.get_threshold() == often
        assert in_thread(call) == [3] and call() == 3
        assert not turns.wanted
        count += 1
    assert count > 10 and compile_lock.acquire(blocking=False)
    compile_lock.release()


@reported
def test_ctrl_c_at_whatever_moment_of_a_first_call():
    """What was not done then is done when the next one calls, in any thread."""
    f = jax.jit(lambda x: jax.jit(lambda y: y + 1)(x) * 2, backend="eval")
    f(0.0)
    for k in itertools.count(0, 37):
        f.clear_cache()
        reached, error = interrupted_at(k, lambda: f(1.0))
        if not reached:
            break
        assert [float(x) for x in in_thread(lambda: f(1.0))] == [4.0]
    owners = module.turns.owners.values()
    assert not module.turns.wanted and not any(turn.lock.locked() for turn in owners)
    assert k > 37


def test_caches_are_cleared_and_flags_set_while_other_threads_jit():
    stop, errors, old = threading.Event(), [], sys.getswitchinterval()

    def work(k):
        try:
            while not stop.is_set():
                f = jax.jit(lambda x: x * 2 + k, backend="eval")
                assert [float(f(1.0)) for _ in range(3)] == [2.0 + k] * 3
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(300):
            jax.clear_caches()
            jax.config.update("jax_log_compiles", False)
    finally:
        stop.set()
        sys.setswitchinterval(old)
        for thread in threads:
            thread.join()
    assert not errors


def test_an_update_that_fails_leaves_no_call_as_it_was(monkeypatch):
    told = []
    fail = lambda: told.append(1) or 1 / 0
    f = jax.jit(lambda x: x + 1, backend="eval")
    monkeypatch.setattr(jax.config, "listeners", [*jax.config.listeners, fail])
    try:
        with pytest.raises(ZeroDivisionError):
            jax.config.update("jax_enable_x64", True)
        assert told == [1] and f(1.0).dtype == "float64"
    finally:
        monkeypatch.undo()
        jax.config.update("jax_enable_x64", False)


LOGS_WHILE_IT_COMPILES = """
import minijit, logging, os, threading, time
from minijit.trace.base.turns import compile_lock

def work():
    with compile_lock:
        started.set()
        time.sleep(0.3)  # The other one is about to fork by then.
        logging.getLogger("minijit.test")

started = threading.Event()
threading.Thread(target=work).start()
started.wait()
child = os.fork()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_waits_for_a_thread_that_logs_while_it_compiles():
    """logging has a lock for forks, too; that is taken after ours."""
    in_a_process(LOGS_WHILE_IT_COMPILES)


FORKS_AMID_AN_IMPORT = """
import os, signal, sys, threading, time
import minijit

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["SLOW"] and not started.is_set():
            started.set()
            time.sleep(0.3)  # The other one is about to fork by then.

sys.modules.pop("sysconfig", None)
sys.meta_path.insert(0, Slow())
call = lambda: minijit.jit(lambda x: x + 1)(1.0)
started = threading.Event()
threading.Thread(target=call).start()
assert started.wait(20)
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if call() == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("module", [
    "sysconfig", "minijit.trace.jit.progress", "minijit.compiler", "llvmlite.binding",
])  # fmt: skip
def test_a_fork_waits_for_a_thread_that_imports(module):
    """What a module has locked in the middle stays locked in the child."""
    in_a_process(FORKS_AMID_AN_IMPORT, SLOW=module)


def test_threads_fork_at_once():
    """What one locks for its child, another does not unlock."""
    in_a_process("""
        import os, sys, threading, minijit

        def work():
            for _ in range(50):
                if child := os.fork():
                    assert os.waitpid(child, 0)[1] == 0
                else:
                    os._exit(0)

        bad = []
        threading.excepthook = sys.unraisablehook = bad.append
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not bad, bad
    """)


@pytest.mark.chapter(9)
def test_ctrl_c_as_a_block_ends_leaves_no_trace_behind():
    """It may come as the call begins that ends a `with`, which is then never made."""
    f = jax.jit(lambda x: jax.vmap(jax.grad(jnp.sin))(x * jnp.ones(3)), backend="eval")
    f(0.0)
    for k in itertools.count(3, 23):
        f.clear_cache()
        try:
            reached, _ = interrupted_at(k, lambda: f(1.0))
        except RuntimeError:  # The lock that was waited for is not held any more.
            reached = True
        if not reached:
            break
        assert type(jnp.sin(1.0) + 1) is type(jnp.ones(()))
    assert k > 610
