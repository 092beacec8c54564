"""Threads that trace at the same time: nothing is traced twice, and nothing hangs."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import minijit as jax
from minijit.trace import jit as module
from minijit.trace.turns import Turns, compiling

pytestmark = pytest.mark.chapter(5)

HEAD = """
import threading
import minijit as jax

def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread
"""


def run(program):
    """What a program prints, run in a process of its own that may not hang."""
    text = HEAD + textwrap.dedent(program)
    root = Path(jax.__file__).parents[1]
    path = os.pathsep.join([str(root), *filter(None, [os.getenv("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_child_forked_while_another_thread_compiles():
    program = """
    import os, sys, time
    from minijit.trace import jit as module

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
    program = "from minijit.trace import jit as module\n" + textwrap.dedent(program)
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
    threads = [threading.Thread(target=f, args=(1.0,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


def test_a_turn_is_given_back_after_an_error():
    turns = Turns()
    with pytest.raises(KeyError), turns.of("key"), turns.of("key"):
        raise KeyError
    assert not turns.owners and not turns.wanted


def test_garbage_is_seldom_collected_amid_compiling():
    """Nor never: and not at all where the user's threshold is 0."""
    often = gc.get_threshold()
    with compiling:
        with compiling:
            assert gc.get_threshold() == (200_000, *often[1:])
        assert gc.get_threshold() == (200_000, *often[1:])
    assert gc.get_threshold() == often
    gc.set_threshold(0)
    try:
        with compiling:
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*often)
