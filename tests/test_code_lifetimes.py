"""Machine code, and what C knows of it, is there for as long as anybody may use it."""

import os
import sys
import textwrap

import pytest
from harness import in_a_process

pytestmark = pytest.mark.chapter(23)

HEAD = """
import gc, itertools, os, signal, sys, threading
import numpy as np
import minijit as mj, minijit.numpy as jnp
from minijit.run.llvm.engine import Code
from minijit.run.llvm.python_calls import make_builtin
from moments import interrupted_at

NUMBER = '''
define ptr @call_number(ptr %self, ptr %args, i64 %n) {
  %number = call ptr @PyLong_FromLong(i64 KKK)
  ret ptr %number
}
declare ptr @PyLong_FromLong(i64)
'''

def number(k):
    "A built-in function that gives a number, and holds its code alone."
    return make_builtin(Code(NUMBER.replace("KKK", str(k)), "brief"), "call_number")
"""


def run(program, folder, **environment):
    """What a program prints, without a word of an earlier one's code."""
    program = HEAD + textwrap.dedent(program)
    return in_a_process(program, MINIJIT_CACHE_DIR=str(folder), **environment).split()


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is glibc here")
@pytest.mark.parametrize("byte", ["1", "90", "255"])
def test_functions_are_freed_where_freed_memory_is_overwritten(byte, tmp_path):
    program = """
    for i in range(6):
        f = mj.jit(lambda x: jnp.sin(x) * (i + 1.5) + x)
        for _ in range(3):
            f(np.ones(7 + i, "f4"))
        del f
        mj.clear_caches()
        gc.collect()
    functions = [number(i) for i in range(5)]
    print(*(f() for f in functions), functions[0].__name__)
    """
    found = run(program, tmp_path, PYTHONMALLOC="malloc", MALLOC_PERTURB_=byte)
    assert found == ["0", "1", "2", "3", "4", "call_number"]


def test_a_finalizer_calls_what_goes_with_it(tmp_path):
    # Both are collected at once, and only then is the code freed.
    program = """
    found = []

    class Holder:
        def __init__(self, k):
            self.f, self.me = number(k), self

        def __del__(self):
            others = [number(k) for k in range(100, 103)]
            found.append(self.f() + sum(f() for f in others))

    gc.disable()
    for k in range(5):
        Holder(k)
        gc.collect()
    print(*found)
    """
    assert run(program, tmp_path) == [str(303 + k) for k in range(5)]


def test_ctrl_c_at_every_moment_of_a_compilation_then_a_collection(tmp_path):
    program = """
    from minijit.run.llvm.engine import machine_code

    number(0)
    gc.collect()
    gc.freeze()
    ways = lambda k: (
        lambda: machine_code(NUMBER.replace("KKK", str(k)), "brief"),
        lambda: number(1),
    )
    came = 0
    for way in range(2):
        for k in itertools.count():
            reached, error = interrupted_at(k, ways(1000 + k)[way])
            if not reached:
                break
            came += error is not None
            if error is not None:
                # IPython keeps an exception in a cycle with its frames.
                error.itself = error
            del error
            gc.collect()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(number(7)()), daemon=True)
    thread.start()
    thread.join(20)
    print(came > 200, *answers)
    """
    assert run(program, tmp_path) == ["True", "7"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_forked_while_another_thread_is_in_llvm(tmp_path):
    program = """
    from minijit.run.llvm.target import binding

    number(0)
    inside, go_on = threading.Event(), threading.Event()

    def hold():
        with binding().ffi.lib._lock:
            inside.set()
            go_on.wait(0.5)

    threading.Thread(target=hold, daemon=True).start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(number(17)())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(program, tmp_path) == ["17"]


def test_daemon_threads_call_and_compile_while_the_process_ends(tmp_path):
    program = """
    def work(i):
        x = np.ones(300_000, "f4")
        for k in itertools.count():
            f = mj.jit(lambda x: jnp.sin(x) * (i + k / 7) + x)
            for _ in range(20):
                f(x)
            begun.release()

    begun = threading.Semaphore(0)
    for i in range(3):
        threading.Thread(target=work, args=(i,), daemon=True).start()
    for _ in range(4):
        begun.acquire()
    print("end")
    """
    assert run(program, tmp_path) == ["end"]
