"""Jobs in machine code: several threads take parts of one run, and no lock of Python's.

    next, count, inside, part, ranges, x0, x1, ...          # a job: 8 bytes each

`next` is the number of the first part that nobody has begun: to add 1 to it, in one
step that nobody can divide, is to take a part.  `inside` counts the workers that may
still look at the job, which lies on the stack of the thread that calls.  `share`
writes these four words; what follows is for the function that does a part.

A worker has a box of two words.  In the first one stands the address of a job for it,
or 1 while it works, 0 while it looks again and again for a job, -1 while it sleeps; the
second one is the lock that it sleeps on.  To wake a thread takes 50 microseconds, more
than many kernels do: so it looks for a while before it sleeps.
"""

import ctypes
import functools

import numpy as np

from ..llvm.engine import Code, share
from ..llvm.kernels import caller
from ..llvm.python_calls import FREES, make_builtin, python_declarations
from ..llvm.target import binding, forever, host

# So often a worker looks before it sleeps: about 0.1 ms.  Workers are the process's and
# not a program's, so it is no setting; what they are asked to do is `thread_time`'s.
LOOKS = 6000

TEXT = """
declare void @PyThread_release_lock(ptr)
declare i32 @PyThread_acquire_lock(ptr, i32)
declare i32 @sched_yield()

define void @work(ptr %job) {
start:
  %count_at = getelementptr i64, ptr %job, i64 1
  %count = load i64, ptr %count_at
  %part_at = getelementptr i64, ptr %job, i64 3
  %part = load ptr, ptr %part_at
  br label %next
next:
  %i = atomicrmw add ptr %job, i64 1 seq_cst
  %some = icmp slt i64 %i, %count
  br i1 %some, label %take, label %done
take:
  call void %part(ptr %job, i64 %i)
  br label %next
done:
  ret void
}

define internal void @ask(ptr %box, ptr %job) {
start:
  %word = ptrtoint ptr %job to i64
  %inside = getelementptr i64, ptr %job, i64 2
  %0 = atomicrmw add ptr %inside, i64 1 seq_cst
  %awake = cmpxchg ptr %box, i64 0, i64 %word seq_cst seq_cst
  %is_awake = extractvalue {i64, i1} %awake, 1
  br i1 %is_awake, label %done, label %maybe_asleep
maybe_asleep:
  %asleep = cmpxchg ptr %box, i64 -1, i64 %word seq_cst seq_cst
  %is_asleep = extractvalue {i64, i1} %asleep, 1
  br i1 %is_asleep, label %wake, label %busy
wake:
  %lock_at = getelementptr ptr, ptr %box, i64 1
  %lock = load ptr, ptr %lock_at
  call void @PyThread_release_lock(ptr %lock)
  br label %done
busy:
  %1 = atomicrmw sub ptr %inside, i64 1 seq_cst
  br label %done
done:
  ret void
}

define internal void @recall(ptr %box, ptr %job) {
start:
  %word = ptrtoint ptr %job to i64
  %inside = getelementptr i64, ptr %job, i64 2
  %back = cmpxchg ptr %box, i64 %word, i64 0 seq_cst seq_cst
  %is_late = extractvalue {i64, i1} %back, 1
  br i1 %is_late, label %without, label %done
without:
  %0 = atomicrmw sub ptr %inside, i64 1 seq_cst
  br label %done
done:
  ret void
}

define internal void @each(ptr %do, ptr %boxes, i64 %helpers, ptr %job) {
start:
  br label %next
next:
  %i = phi i64 [0, %start], [%i_next, %one]
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i, %helpers
  br i1 %more, label %one, label %done
one:
  %box_at = getelementptr ptr, ptr %boxes, i64 %i
  %box = load ptr, ptr %box_at
  call void %do(ptr %box, ptr %job)
  br label %next
done:
  ret void
}

define void @share(ptr %job, i64 %count, ptr %part, ptr %boxes, i64 %helpers) {
start:
  %count_at = getelementptr i64, ptr %job, i64 1
  %inside = getelementptr i64, ptr %job, i64 2
  %part_at = getelementptr ptr, ptr %job, i64 3
  store i64 0, ptr %job
  store i64 %count, ptr %count_at
  store i64 0, ptr %inside
  store ptr %part, ptr %part_at
  call void @each(ptr @ask, ptr %boxes, i64 %helpers, ptr %job)
  call void @work(ptr %job)
  call void @each(ptr @recall, ptr %boxes, i64 %helpers, ptr %job)
  br label %wait
wait:
  %looks = phi i64 [0, %start], [%looks_next, %still], [%looks_next, %yield]
  %looks_next = add i64 %looks, 1
  %left = load atomic i64, ptr %inside acquire, align 8
  %none = icmp eq i64 %left, 0
  br i1 %none, label %done, label %on
on:
  PAUSE
  %long = icmp sgt i64 %looks, LOOKS
  br i1 %long, label %yield, label %still
still:
  br label %wait
yield:
  %3 = call i32 @sched_yield()
  br label %wait
done:
  ret void
}

define ptr @run_in_parts(ptr %args, i64 %n, ptr %part, ptr %kernel) {
start:
  %words = add i64 %n, 4
  %job = alloca i64, i64 %words, align 64
  %last = sub i64 %n, 1
  br label %array
array:
  %i = phi i64 [0, %start], [%i_next, %array]
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at
  %memory_at = getelementptr i8, ptr %object, i64 FIELD
  %memory = load ptr, ptr %memory_at
  %place = add i64 %i, 4
  %word_at = getelementptr ptr, ptr %job, i64 %place
  store ptr %memory, ptr %word_at
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %n
  br i1 %more, label %array, label %arrays
arrays:
  %about = add i64 %last, 3
  %about_at = getelementptr ptr, ptr %job, i64 %about
  %numbers = load ptr, ptr %about_at
  %count = load i64, ptr %numbers
  %helpers_at = getelementptr i64, ptr %numbers, i64 1
  %helpers = load i64, ptr %helpers_at
  %ranges = getelementptr i64, ptr %numbers, i64 2
  store ptr %ranges, ptr %about_at
  store ptr %kernel, ptr %word_at
  %thread = call ptr @PyEval_SaveThread()
  call void @share(ptr %job, i64 %count, ptr %part, ptr %memory, i64 %helpers)
  call void @PyEval_RestoreThread(ptr %thread)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

define void @serve(ptr %box) {
start:
  %lock_at = getelementptr ptr, ptr %box, i64 1
  %lock = load ptr, ptr %lock_at
  br label %look
look:
  %looks = phi i64 [0, %start], [0, %take], [0, %work], [%more, %on],
    [0, %sleep], [0, %lie]
  %word = load atomic i64, ptr %box acquire, align 8
  %some = icmp sgt i64 %word, 1
  br i1 %some, label %take, label %nothing
take:
  %taken = cmpxchg ptr %box, i64 %word, i64 1 seq_cst seq_cst
  %is_mine = extractvalue {i64, i1} %taken, 1
  br i1 %is_mine, label %work, label %look
work:
  %job = inttoptr i64 %word to ptr
  call void @work(ptr %job)
  %inside = getelementptr i64, ptr %job, i64 2
  %0 = atomicrmw sub ptr %inside, i64 1 seq_cst
  store atomic i64 0, ptr %box release, align 8
  br label %look
nothing:
  %more = add i64 %looks, 1
  %tired = icmp sgt i64 %more, LOOKS
  br i1 %tired, label %lie, label %on
on:
  PAUSE
  br label %look
lie:
  %lain = cmpxchg ptr %box, i64 0, i64 -1 seq_cst seq_cst
  %is_free = extractvalue {i64, i1} %lain, 1
  br i1 %is_free, label %sleep, label %look
sleep:
  %1 = call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  br label %look
}
"""


@functools.cache
def serving():
    """The function that a worker runs for ever."""
    pause = "call void @llvm.x86.sse2.pause()" if "+sse2" in host()[1] else ""
    text = TEXT.replace("PAUSE", pause).replace("LOOKS", str(LOOKS))
    text = text.replace("FIELD", str(object.__basicsize__))
    text = f"declare void @llvm.x86.sse2.pause()\n{text}" if pause else text
    declared = "\n".join(python_declarations)
    code = Code(declared + text, "brief")
    # What is compiled later may share work from within.
    for name in ("share", "run_in_parts"):
        binding().add_symbol(f"minijit_{name}", code.address(name))
    return forever(make_builtin(code, "serve", caller(1), FREES))


def new_box():
    """The box of a worker that nobody serves yet, in lines of the cache of its own."""
    make = ctypes.pythonapi.PyThread_allocate_lock
    make.restype = ctypes.c_void_p
    lock = make()
    ctypes.pythonapi.PyThread_acquire_lock(ctypes.c_void_p(lock), 1)
    box = forever(np.zeros(24, np.int64)[8:16])
    box[1] = lock
    return box


# ---- what is done in parts

# How a kernel is called: its arrays, its job, and the table of workers' boxes.  In
# `self` its address is the second word.
CALL = """
declare ptr @minijit_run_in_parts(ptr, i64, ptr, ptr)

define ptr @NAME(ptr %self, ptr %args, i64 %n) {
  %held_at = getelementptr i8, ptr %self, i64 FIELD
  %held = load ptr, ptr %held_at
  %kernel_at = getelementptr ptr, ptr %held, i64 1
  %kernel = load ptr, ptr %kernel_at
  %none = call ptr @minijit_run_in_parts(ptr %args, i64 %n, ptr @part, ptr %kernel)
  ret ptr %none
}
""".replace("FIELD", str(object.__basicsize__))


def parts_text(count):
    """A function that does a part of a job: the last words of a job are the pointers
    that the kernel takes, all ranges in place of its own, and where the kernel begins.

    Args:
      count: how many pointers the kernel takes: arrays, and last the three numbers of
        a range.
    """
    pointers = [f"%x{i}" for i in range(count - 1)]
    part = ["define internal void @part(ptr %job, i64 %i) {"]
    for i, x in enumerate((*pointers, "%ranges", "%kernel"), 4):
        part += [
            f"  %at{i} = getelementptr ptr, ptr %job, i64 {i}",
            f"  {x} = load ptr, ptr %at{i}",
        ]
    given = ", ".join(f"ptr {x}" for x in (*pointers, "%range"))
    part += [
        "  %first = mul i64 %i, 3",
        "  %range = getelementptr i64, ptr %ranges, i64 %first",
        f"  call void %kernel({given})",
        "  ret void\n}",
    ]
    return "\n".join(part)


@functools.cache
def caller_in_parts(count):
    """Where the machine code begins by which Python calls kernels that run in parts.

    Args:
      count: as of `parts_text`.
    """
    serving()
    name = f"minijit_call_{count}_in_parts"
    return share(name, parts_text(count) + CALL.replace("NAME", name))
