"""Jobs in machine code: several threads take parts of one run, and no lock of Python's.

    next, count, inside, part, kernel, ranges, x0, x1, ...  # a job: 8 bytes each

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

from ...compile.loops.scalars import INDEX
from ..llvm.engine import Code, share
from ..llvm.kernels import caller
from ..llvm.loops import WordWriter
from ..llvm.python_calls import FREES, make_builtin, python_declarations
from ..llvm.target import forever, host

# So often a worker looks before it sleeps: about 0.1 ms.  Workers are the process's and
# not a program's, so it is no setting; what they are asked to do is `thread_time`'s.
LOOKS = 6000
# Which word of a job has its first array.
ARRAYS = 6

TEXT = """
declare void @PyThread_release_lock(ptr)
declare i32 @PyThread_acquire_lock(ptr, i32)
declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()

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
"""


class JobWriter(WordWriter):
    """Writes functions of jobs and boxes."""

    def helpers(self, job, change):
        """Change the number of workers that may look at a job, in one step."""
        self.do(f"atomicrmw add ptr {self.after(job, 2)}, i64 {change} seq_cst")

    def takes(self, box, old, new):
        """Whether what is in a box was `old`, and is `new` now, in one step."""
        pair = self.do(f"cmpxchg ptr {box}, i64 {old}, i64 {new} seq_cst seq_cst")
        return self.do(f"extractvalue {{i64, i1}} {pair}, 1")

    def look(self, looks):
        """Pause, and count that: whether it has come to many looks."""
        if "+sse2" in host()[1]:
            self.line("call void @llvm.x86.sse2.pause()")
        self.set(looks, self.do(f"add i64 {self.get(looks)}, 1"))
        return self.do(f"icmp sgt i64 {self.get(looks)}, {LOOKS}")

    def ask(self, box, job, word):
        """Give a job to a worker that waits for one; wake it if it sleeps."""
        self.helpers(job, 1)
        with self.branch(self.takes(box, 0, word)) as otherwise:
            otherwise()
            with self.branch(self.takes(box, -1, word)) as otherwise:
                lock = self.word(box, 1)
                self.line(f"call void @PyThread_release_lock(ptr {lock})")
                otherwise()
                self.helpers(job, -1)

    def recall(self, box, job, word):
        """Take a job back that its worker has not seen."""
        with self.branch(self.takes(box, word, 0)):
            self.helpers(job, -1)

    def share(self):
        """All parts of a job: by this thread, and by workers that have time."""
        job = "%job"
        for i, value in enumerate((0, "%count", 0)):
            self.put(value, job, i, "i64")
        self.put("%part", job, 3)
        word = self.do(f"ptrtoint ptr {job} to i64")
        with self.loop(None, "%helpers") as i:
            self.ask(self.word("%boxes", i), job, word)
        self.line(f"call void @work(ptr {job})")
        with self.loop(None, "%helpers") as i:
            self.recall(self.word("%boxes", i), job, word)
        looks, inside = self.cell(INDEX, "0"), self.after(job, 2)
        with self.repeat() as unless:
            left = self.do(f"load atomic i64, ptr {inside} acquire, align 8")
            unless(self.do(f"icmp ne i64 {left}, 0"))
            with self.branch(self.look(looks)):
                self.do("call i32 @sched_yield()")

    def run_in_parts(self):
        """Share what Python has given: arrays, then a job's numbers, and the boxes."""
        words, last = (self.do(f"add i64 %n, {i}") for i in (ARRAYS + 8, -2))
        job = self.do(f"alloca i64, i64 {words}, align 64")
        with self.loop(None, last) as i:
            place = self.do(f"add i64 {i}, {ARRAYS}")
            self.put(self.field(self.word("%args", i)), job, place)
        after = self.after("%args", last)
        numbers, boxes = (self.field(self.word(after, i)) for i in range(2))
        count, helpers = (self.word(numbers, i, "i64") for i in (0, 1))
        self.put("%kernel", job, ARRAYS - 2)
        self.put(self.after(numbers, 2), job, ARRAYS - 1)
        thread = self.do("call ptr @PyEval_SaveThread()")
        given = f"ptr {job}, i64 {count}, ptr %part, ptr {boxes}, i64 {helpers}"
        self.line(f"call void @minijit_share({given})")
        self.line(f"call void @PyEval_RestoreThread(ptr {thread})")
        self.line("call void @Py_IncRef(ptr @_Py_NoneStruct)")

    def serve(self):
        """Work at the jobs that come into a box, for ever."""
        lock, looks = self.word("%box", 1), self.cell(INDEX, "0")
        with self.repeat() as unless:
            unless("true")
            word = self.do("load atomic i64, ptr %box acquire, align 8")
            with self.branch(self.do(f"icmp sgt i64 {word}, 1")) as otherwise:
                self.set(looks, "0")
                with self.branch(self.takes("%box", word, 1)):
                    job = self.do(f"inttoptr i64 {word} to ptr")
                    self.line(f"call void @work(ptr {job})")
                    self.helpers(job, -1)
                    self.line("store atomic i64 0, ptr %box release, align 8")
                otherwise()
                with self.branch(self.look(looks)):
                    self.set(looks, "0")
                    with self.branch(self.takes("%box", 0, -1)):
                        self.do(f"call i32 @PyThread_acquire_lock(ptr {lock}, i32 1)")


def written(write, head, result="void"):
    """A function whose lines a method of `JobWriter` writes."""
    writer = JobWriter()
    write(writer)
    return writer.text(head, result)


@functools.cache
def serving():
    """The function that a worker runs for ever."""
    serve = written(JobWriter.serve, "void @serve(ptr %box)")
    code = Code("\n".join([TEXT, serve]), "brief")
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

SHARED = "ptr %job, i64 %count, ptr %part, ptr %boxes, i64 %helpers"


def part(writer, eights):
    """What does a part of a job: of its ranges the kernel takes one, and its arrays.

    Args:
      eights: as of `caller`: words that a job has no arrays for, no kernel looks at.
    """
    kernel, ranges, *arrays = (
        writer.word("%job", i) for i in range(ARRAYS - 2, ARRAYS + 8 * eights)
    )
    own = writer.after(ranges, writer.do("mul i64 %i, 3"))
    given = ", ".join(f"ptr {x}" for x in (own, *arrays))
    writer.line(f"call void {kernel}({given})")


@functools.cache
def caller_in_parts(eights):
    """Where the machine code begins by which Python calls kernels that run in parts.

    A kernel is called with its arrays, its job, and the table of workers' boxes.  In
    `self` its address is the second word.

    Args:
      eights: as of `caller`.
    """
    name, part_name = f"minijit_call_{8 * eights}_in_parts", f"minijit_part_{eights}"
    writer = JobWriter()
    kernel = writer.word(writer.field("%self"), 1)
    given = f"ptr %args, i64 %n, ptr @{part_name}, ptr {kernel}"
    found = writer.do(f"call ptr @run_in_parts({given})")
    call, none = "ptr %args, i64 %n, ptr %part, ptr %kernel", "ptr @_Py_NoneStruct"
    text = "\n".join([
        *python_declarations, TEXT,
        written(JobWriter.share, f"void @minijit_share({SHARED})"),
        written(JobWriter.run_in_parts, f"ptr @run_in_parts({call})", none),
        written(lambda w: part(w, eights), f"void @{part_name}(ptr %job, i64 %i)"),
        writer.text(f"ptr @{name}(ptr %self, ptr %args, i64 %n)", f"ptr {found}"),
    ])  # fmt: skip
    # What is compiled later may share work from within.
    return share(name, text, "brief", "minijit_share", part_name)
