"""LLVM as the package llvmlite has it, and the machine that it compiles for.

    host()                              # ("sapphirerapids", "+sse2,+avx512f,...")
    target_machine("brief")             # makes machine code, quickly

`MINIJIT_TARGET=x86-64-v3` in the environment: code is made for all machines of that
level, in this process.  So a test asks what others, with less than this one, would run.
"""

import ctypes
import functools
import os
import threading
from contextlib import contextmanager, suppress

from ...compile.schedule.machine import levels
from ...trace.base.demand import importing
from ...trace.base.locks import Lock
from ...trace.base.turns import fork_locks

# The levels of x86-64, and what each adds to the one before: in LLVM's words.
LEVELS = {
    "x86-64-v2": "sse sse2 cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3",
    "x86-64-v3": "avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave",
    "x86-64-v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}

# Instructions that load and store a vector's numbers one here, one there: a core takes
# several times as long for one of them as for as many loads and stores of numbers.
RATHER_NOT = "prefer-no-gather", "prefer-no-scatter"


@functools.cache
def binding():
    """llvmlite's LLVM, imported and made ready when it is first asked for."""
    with importing():
        import llvmlite.binding as llvm
    mend(llvm.ffi)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def mend(ffi):
    """Replace two functions of llvmlite's that Ctrl-C in the middle of them breaks.

    Its lock is taken by a function in Python: an exception there leaves it locked, and
    other threads wait for ever.  Python's own lock, which is in it, knows no middle.
    And a text of LLVM's that is freed while it is still known is freed twice.
    """
    lock = Lock(ffi.lib._lock._lock)

    def call(function, *args):
        if helper.machines is not None:
            return function._cfn(*args)  # The one it helps has the lock.
        with lock:
            return function._cfn(*args)

    def close(text):
        pointer, text._ptr = text._ptr, None
        if pointer is not None and text._owned:
            ffi.lib.LLVMPY_DisposeString(pointer)

    ffi._lib_fn_wrapper.__call__ = call
    ffi.OutputString.close = close
    # A thread may be in LLVM, and is not there in a forked process.
    fork_locks.append(lock)


# ---- what belongs to what

# Whoever interrupts a compilation keeps its objects until they are collected, in any
# order.  So of what LLVM frees together one object frees it, and the others do not.


@functools.cache
def module_class():
    """Modules that go with their context, and not by themselves."""
    return type("Module", (binding().ModuleRef,), {"_owned": True})


def parsed(text):
    """A module, in a context of its own.

    Raises:
      RuntimeError: LLVM does not take the text.
    """
    llvm = binding()
    context, ffi = llvm.create_context(), llvm.ffi
    with ffi.OutputString() as message:
        given = context, ctypes.c_char_p(text.encode()), message
        module = module_class()(ffi.lib.LLVMPY_ParseAssembly(*given), context)
        if message:
            raise RuntimeError(f"LLVM IR parsing error\n{message}")
    return module


def forever(thing):
    """The same, never freed: C uses it for as long as the process runs."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


@functools.cache
def context_of_engines():
    """The context of the empty modules that engines begin with, and own.

    It is never freed: an engine frees its module, which has to be before its context.
    """
    return binding().create_context()


@functools.cache
def host():
    """The machine that code is made for, this one or a level: (name, features).

    Raises:
      ValueError: MINIJIT_TARGET names no level, or one that this machine lacks.
    """
    here, level = binding().get_host_cpu_features(), os.environ.get("MINIJIT_TARGET")
    if not level:
        rather = "".join(f",+{way}" for way in RATHER_NOT if here.get("avx2"))
        return binding().get_host_cpu_name(), here.flatten() + rather
    known = list(LEVELS)
    if level not in known:
        raise ValueError(
            f"MINIJIT_TARGET must be one of {', '.join(known)}, got {level!r}"
        )
    has = " ".join(LEVELS[k] for k in known[: known.index(level) + 1]).split()
    if lacks := [feature for feature in has if not here.get(feature)]:
        raise ValueError(
            f"MINIJIT_TARGET is {level}, but this machine has no {', '.join(lacks)}"
        )
    rather = RATHER_NOT if "avx2" in has else ()
    return level, ",".join(f"+{feature}" for feature in (*has, *rather))


def level_of_target():
    """The level of x86-64 whose vectors code is made for has."""
    features = host()[1].split(",")
    if "+avx512f" in features:
        return "x86-64-v4"
    return "x86-64-v3" if "+avx2" in features else "x86-64-v2"


def vector_bytes():
    """How long a register of vectors is."""
    return levels[level_of_target()][0]


def converts(dtype):
    """Whether the machine has instructions from a 16-bit float to float32, and back."""
    return dtype.name == "float16" and "+f16c" in host()[1].split(",")


# How modules are made into machine code: thoroughly; in little time, where so little
# runs that vectors do not pay; or as they are, where all loops have vectors of ours.
# Then the passes of LLVM would take longer than all the rest, and find hardly more than
# what may be in registers instead of on the stack, and operations that are one.
machine_options = {
    how: dict(opt=level, reloc="pic", codemodel="jitdefault", jit=True)
    for how, level in dict(thorough=2, brief=0, vectors=2).items()
}
pass_options = {
    "thorough": dict(
        speed_level=2,
        loop_vectorization=True,
        loop_interleaving=True,
        loop_unrolling=True,
        slp_vectorization=False,
    ),
    "brief": dict(only=("always_inliner", "sroa", "simplify_cfg")),
    "vectors": dict(only=("always_inliner", "sroa", "instruction_combine")),
}


def target_machine(how="thorough"):
    """What makes machine code for this machine."""
    cpu, features = host()
    target, options = binding().Target.from_default_triple(), machine_options[how]
    return target.create_target_machine(cpu=cpu, features=features, **options)


class Helper(threading.local):
    """What a thread knows that LLVM works in for another one: see `at_once`.

    Attributes:
      machines: {a key of `machine_options`: its target machine}; of all others, None.
    """

    machines = None


helper = Helper()
# The machines of all other threads, and of helpers there have been, for the next ones.
machines_of_all: dict = {}
machines_of_helpers: list = []


def shared_machine(how="thorough"):
    """The one that compiles in this thread; others, one for each engine, only load."""
    machines = machines_of_all if helper.machines is None else helper.machines
    if how not in machines:
        machines[how] = target_machine(how)
    return machines[how]

# What LLVM leaves out of its passes and of its work for machine code, for us: {option:
# its value then, and later}.
# To look for the fewest registers that all addresses of a loop can be made of takes up
# to half of the time for machine code, and our addresses are few: what an instruction
# cannot add up is computed outside of the loop.  The quick choice of instructions at
# level 0 has a `select` of AVX read 16 bytes where 4 are; it has no value that means
# its default.  Instructions are ordered before they get registers; to order them again
# takes up to a fifth of the time for long blocks, and processors reorder what they are
# given.  A loop of less than 16 steps becomes one of whole vectors under a mask, whose
# stores take twenty cycles each, where a vector and two single numbers take three.
# To set one takes a fifteenth of a millisecond, a hundredth of a short kernel's time.
left_out = {
    "passes": {"vectorizer-min-trip-count": ("8", "16")},
    "machine code": {
        "disable-lsr": ("true", "false"),
        "disable-post-ra": ("true", "false"),
    },
    "machine code, brief": {"fast-isel": ("false", "false")},
}
# An option that LLVM does not know ends the process: it has these in such versions.
VERSIONS = range(20, 23)


@contextmanager
def leaving_out(options):
    """Passes are left out meanwhile, in this thread: the options are the process's.

    Should Ctrl-C come before they are as they were, so they are after the next module.
    """
    llvm = binding()
    if llvm.llvm_version_info[0] not in VERSIONS or helper.machines is not None:
        yield
        return
    with Lock(llvm.ffi.lib._lock._lock):
        try:
            for name, (value, _) in options.items():
                llvm.set_option("minijit", f"-{name}={value}")
            yield
        finally:
            for name, (_, value) in options.items():
                llvm.set_option("minijit", f"-{name}={value}")


def at_once(function, jobs, threads):
    """What a function that LLVM works in makes of each job, in so many threads.

    What LLVM does in one context concerns no other one, and llvmlite has its lock for
    those who do not know that: this thread takes it, and waits.  Whoever interrupts
    it leaves the helpers to end by themselves, with machines that nobody else has.
    """
    threads = min(threads, len(jobs))
    if threads < 2:
        return [function(*job) for job in jobs]
    todo, made, failed = enumerate(jobs), {}, []
    there, go = threading.Semaphore(0), threading.Event()
    spare = machines_of_helpers
    machines = [spare.pop() if spare else {} for _ in range(threads)]

    def work(mine):
        helper.machines = mine
        there.release()
        go.wait()
        try:
            for k, job in todo:
                made[k] = function(*job)
        except Exception as error:
            failed.append(error)

    options = {name: of for some in left_out.values() for name, of in some.items()}
    helpers = [threading.Thread(target=work, args=(mine,)) for mine in machines]
    # A thread that begins may collect garbage of LLVM's, for which it takes the lock:
    # this one takes it when all of them have begun.
    try:
        with suppress(RuntimeError):  # There may be no more threads, as at the end.
            for each in helpers:
                each.start()
        started = [each for each in helpers if each.ident]
        for _ in started:
            there.acquire()
        with leaving_out(options):
            go.set()
            for each in started:
                each.join()
            made |= {k: function(*job) for k, job in todo if not failed}
    finally:
        go.set()
    spare.extend(machines)
    for error in failed:
        raise error
    return [made[k] for k in range(len(jobs))]


def object_file(module, how):
    """The machine code of a module: what a C compiler writes to a file."""
    brief = ", brief" if how == "brief" else ""
    with leaving_out(left_out[f"machine code{brief}"]):
        return shared_machine(how).emit_object(module)


def run_passes(module, machine, only=(), **options):
    """Optimise a module in place.

    Args:
      only: names of passes, in place of LLVM's own choice of them.
      options: fields of llvmlite's `PipelineTuningOptions`.
    """
    llvm, tuning = binding(), binding().create_pipeline_tuning_options()
    for name, value in options.items():
        setattr(tuning, name, value)
    builder = llvm.create_pass_builder(machine, tuning)
    if only:
        passes = llvm.create_new_module_pass_manager()
        for name in only:
            getattr(passes, f"add_{name}_pass")()
    else:
        passes = builder.getModulePassManager()
    with leaving_out({} if only else left_out["passes"]):
        passes.run(module, builder)
    # What `passes.close` of llvmlite 0.50 leaves out: 70 KB for each module.
    llvm.newpassmanagers.NewPassManager._dispose(passes)
    passes.detach()
