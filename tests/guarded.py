"""Memory with guards: who reads or writes past the end of an array dies at once.

    python -m tests.guarded 2000 [first seed]          # random programs, in processes

From `guard()` on, all memory of NumPy's arrays ends (or begins) at a page that nobody
may touch: arguments, their copies, results, temporaries, constants.  So does what
machine code has for itself, tables that grow and rooms and panels on the stack: the
text of modules is changed for it before it is compiled.  Fresh memory is full of
garbage, freed memory is never used again and may not be touched either, and what lies
between an array and the other end of its pages has to stay as it is.

The pool is off, and temporaries have memory of their own, no places in an arena.
"""

import ctypes
import faulthandler
import mmap
import re
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import config, lax
from minijit.compile.loops.statements import Call
from minijit.run import donating, pool
from minijit.run.calls import planned_driver
from minijit.run.llvm import tables as llvm_tables
from minijit.run.llvm.engine import Code, object_files
from minijit.run.llvm.target import binding
from tests import random_memory

# Addresses for all memory of a process: none is given twice.  A table has for each page
# how many bytes of what begins there are in use.
RESERVED = 1 << 41
PAGE = mmap.PAGESIZE
# Linux's, which Python has no names for.
MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
# What NumPy's memory begins at, and kernels may take for granted.
ALIGNED = 16
# What lies beside an array in its pages.
CANARY = 165 - 256

TEXT = """
@place = global i64 0
@first = global i64 0
@last = global i64 0
@table = global i64 0
@garbage = global i64 255
@begins = global i64 0
declare i32 @mprotect(ptr, i64, i32)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare ptr @memset(ptr, i32, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare void @abort() noreturn
declare void @free(ptr)
declare ptr @realloc(ptr, i64)

define internal i64 @offset_of(ptr %p) {
  %word = ptrtoint ptr %p to i64
  %base = load i64, ptr @first
  %offset = sub i64 %word, %base
  ret i64 %offset
}

define internal i1 @is_ours(ptr %p) {
  %offset = call i64 @offset_of(ptr %p)
  %inside = icmp ult i64 %offset, RESERVED
  ret i1 %inside
}

define internal ptr @size_of(ptr %p) {
  %offset = call i64 @offset_of(ptr %p)
  %number = lshr i64 %offset, SHIFT
  %table = load ptr, ptr @table
  %at = getelementptr i64, ptr %table, i64 %number
  ret ptr %at
}

define ptr @take(ptr %self, i64 %wanted) {
  %size = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %more = add i64 %size, MASK
  %pages = and i64 %more, -PAGE
  %all = add i64 %pages, PAGE
  %page = atomicrmw add ptr @place, i64 %all seq_cst
  %end = add i64 %page, %all
  %last = load i64, ptr @last
  %fits = icmp ult i64 %end, %last
  br i1 %fits, label %open, label %full
open:
  %start = inttoptr i64 %page to ptr
  %failed = call i32 @mprotect(ptr %start, i64 %pages, i32 3)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %fill, label %full
fill:
  %at = call ptr @size_of(ptr %start)
  store i64 %size, ptr %at
  %byte = load i64, ptr @garbage
  %byte32 = trunc i64 %byte to i32
  call ptr @memset(ptr %start, i32 CANARY, i64 %pages)
  %begins = load i64, ptr @begins
  %is_begin = icmp ne i64 %begins, 0
  %rest = sub i64 %pages, %size
  %even = and i64 %rest, -ALIGNED
  %is_small = icmp ult i64 %size, PAGE
  %slack = select i1 %is_small, i64 %rest, i64 %even
  %offset = select i1 %is_begin, i64 0, i64 %slack
  %found = getelementptr i8, ptr %start, i64 %offset
  call ptr @memset(ptr %found, i32 %byte32, i64 %size)
  ret ptr %found
full:
  ret ptr null
}
declare i64 @llvm.umax.i64(i64, i64)

define ptr @take_zeros(ptr %self, i64 %count, i64 %each) {
  %size = mul i64 %count, %each
  %found = call ptr @take(ptr %self, i64 %size)
  %none = icmp eq ptr %found, null
  %cleared = select i1 %none, i64 0, i64 %size
  call ptr @memset(ptr %found, i32 0, i64 %cleared)
  ret ptr %found
}

define internal void @check(ptr %first, ptr %end) {
start:
  br label %test
test:
  %p = phi ptr [%first, %start], [%next, %look]
  %some = icmp ult ptr %p, %end
  br i1 %some, label %look, label %done
look:
  %next = getelementptr i8, ptr %p, i64 1
  %found = load i8, ptr %p
  %same = icmp eq i8 %found, CANARY
  br i1 %same, label %test, label %bad
bad:
  call void @abort()
  unreachable
done:
  ret void
}

define void @give(ptr %self, ptr %p, i64 %ignored) {
  %ours = call i1 @is_ours(ptr %p)
  br i1 %ours, label %look, label %foreign
foreign:
  call void @free(ptr %p)
  ret void
look:
  %at = call ptr @size_of(ptr %p)
  %size = atomicrmw xchg ptr %at, i64 0 seq_cst
  %is_free = icmp eq i64 %size, 0
  br i1 %is_free, label %bad, label %check
bad:
  call void @abort()
  unreachable
check:
  %more = add i64 %size, MASK
  %pages = and i64 %more, -PAGE
  %word = ptrtoint ptr %p to i64
  %page = and i64 %word, -PAGE
  %start = inttoptr i64 %page to ptr
  %stop = getelementptr i8, ptr %start, i64 %pages
  %end = getelementptr i8, ptr %p, i64 %size
  call void @check(ptr %start, ptr %p)
  call void @check(ptr %end, ptr %stop)
  call ptr @mmap(ptr %start, i64 %pages, i32 0, i32 FIXED, i32 -1, i64 0)
  ret void
}

define ptr @take_more(ptr %self, ptr %old, i64 %size) {
  %ours = call i1 @is_ours(ptr %old)
  %none = icmp eq ptr %old, null
  %known = or i1 %ours, %none
  br i1 %known, label %new, label %foreign
foreign:
  %theirs = call ptr @realloc(ptr %old, i64 %size)
  ret ptr %theirs
new:
  %found = call ptr @take(ptr %self, i64 %size)
  %failed = icmp eq ptr %found, null
  %done = or i1 %none, %failed
  br i1 %done, label %ready, label %copy
copy:
  %at = call ptr @size_of(ptr %old)
  %had = load i64, ptr %at
  %both = call i64 @llvm.umin.i64(i64 %had, i64 %size)
  call ptr @memcpy(ptr %found, ptr %old, i64 %both)
  call void @give(ptr %self, ptr %old, i64 0)
  br label %ready
ready:
  ret ptr %found
}
declare i64 @llvm.umin.i64(i64, i64)

define ptr @minijit_room(i64 %size) {
  %found = call ptr @take(ptr null, i64 %size)
  ret ptr %found
}

define ptr @minijit_realloc(ptr %old, i64 %size) {
  %found = call ptr @take_more(ptr null, ptr %old, i64 %size)
  ret ptr %found
}

define void @minijit_free(ptr %p) {
  call void @give(ptr null, ptr %p, i64 0)
  ret void
}
"""


class Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8)]
    _fields_ += [(n, ctypes.c_void_p) for n in ("self", "malloc", "calloc", "realloc")]
    _fields_ += [("free", ctypes.c_void_p)]


# Where PyDataMem_SetHandler stands in the table of NumPy's C API.
SET_HANDLER = 304


class Guard:
    """The functions in machine code, made once for a process and never freed."""

    def __init__(self):
        words = dict(MASK=PAGE - 1, PAGE=PAGE, SHIFT=PAGE.bit_length() - 1)
        words |= dict(ALIGNED=ALIGNED, CANARY=CANARY, FIXED=FLAGS | MAP_FIXED)
        words["RESERVED"] = RESERVED
        text = TEXT
        for word, value in words.items():
            text = text.replace(word, str(value))
        self.code = Code(text, "brief")
        base, table = reserved(RESERVED, 0), reserved(RESERVED // PAGE * 8, 3)
        for name, value in dict(
            place=base, first=base, last=base + RESERVED, table=table
        ).items():
            self.word(name).value = value
        for name in ("room", "realloc", "free"):
            name = f"minijit_{name}"
            binding().add_symbol(name, self.code.address(name))
        self.handler = self.capsule()

    def word(self, name):
        where = self.code.engine.get_global_value_address(name)
        return ctypes.c_int64.from_address(where)

    def capsule(self):
        """What NumPy takes for its memory."""
        names = dict(malloc="take", calloc="take_zeros", realloc="take_more")
        names["free"] = "give"
        places = {key: self.code.address(name) for key, name in names.items()}
        self.kept = Handler(b"guarded", 1, None, **places)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.kept), b"mem_handler", None)

    def hand(self):
        """Let NumPy take this thread's memory from here, from now on."""
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype = ctypes.c_void_p
        get.argtypes = [ctypes.py_object, ctypes.c_char_p]
        table = get(np._core._multiarray_umath._ARRAY_API, None)
        place = ctypes.c_void_p.from_address(table + 8 * SET_HANDLER).value
        kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
        return kind(place)(self.handler)


def reserved(nbytes, access):
    """Addresses for so many bytes."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3,
                          ctypes.c_long]  # fmt: skip
    found = libc.mmap(None, nbytes, access, FLAGS, -1, 0)
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"no {nbytes} bytes of addresses")
    return found


# ---- what minijit has


SIZES = dict(i8=1, i16=2, half=2, bfloat=2, i32=4, float=4, i64=8, double=8)
ROOM = re.compile(r"^  (%[\w.]+) = alloca \[(\d+) x (\w+)\], align 64$", re.MULTILINE)
RETURN = re.compile(r"^  ret ", re.MULTILINE)


def guarded_room(found):
    """A call of `minijit_room` in place of `alloca`."""
    name, count, kind = found.groups()
    return f"  {name} = call ptr @minijit_room(i64 {int(count) * SIZES[kind]})"


def with_guards(text):
    """A module whose rooms on the stack and tables have guards."""
    found, parts = False, re.split(r"(?m)^(?=define )", text)
    for i, part in enumerate(parts):
        rooms = ROOM.findall(part)
        if rooms:
            found = True
            part = ROOM.sub(guarded_room, part)
            freed = "".join(f"  call void @minijit_free(ptr {n})\n" for n, *_ in rooms)
            parts[i] = RETURN.sub(f"{freed}  ret ", part)
    text = "".join(parts)
    text = text.replace("@realloc(", "@minijit_realloc(")
    text = text.replace("@free(", "@minijit_free(")
    declared = ["declare ptr @minijit_room(i64)"] * found
    if found and "declare void @minijit_free" not in text:
        declared.append("declare void @minijit_free(ptr)")
    return "\n".join([*declared, text])


def apart(plan, block):
    """The pieces of an arena, each with memory of its own."""
    return tuple(
        apart(planned_driver.plan_within(slot.owner), None)
        if isinstance(slot.owner, Call)
        else np.empty(slot.owner.shape, slot.owner.dtype)
        for slot in plan.slots
    )


class Library:
    """What frees tables."""

    def __init__(self, guard):
        place = guard.code.address("minijit_free")
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(place)


guards: list = []
# Whether LLVM is to hurry: it takes half of a program's time.  What it makes thoroughly
# reads and writes no more: nothing that minijit writes lets it touch other memory.
hurried = [False]


def guard():
    """Put guards around all memory of this process from now on: -> the `Guard`."""
    if not guards:
        guards.append(Guard())
        make = object_files["make"]
        object_files["make"] = lambda *jobs: make(
            *((with_guards(text), "brief" if hurried[0] else how) for text, how in jobs)
        )
        pool.new_array = donating.new_array = np.empty
        planned_driver.pieces = apart
        planned_driver.aligned = lambda nbytes: None
        library = Library(guards[0])
        llvm_tables.libc = lambda: library
        config.update("pool_bytes", 0)
        mj.clear_caches()
    guards[0].hand()
    return guards[0]


@contextmanager
def filled_with(byte, begins=False):
    """What fresh memory is full of, and whether a page begins or ends with it."""
    words = guards[0].word("garbage"), guards[0].word("begins")
    before = [word.value for word in words]
    words[0].value, words[1].value = byte, begins
    try:
        yield
    finally:
        words[0].value, words[1].value = before


# ---- random programs

EXTENTS = (0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 63, 65, 100, 129, 257, 1025)


def picked(a, b, k):
    return a[jnp.arange(k, k + 5) % a.shape[0]].sum(0) + a * b if len(a) else a


def added(a, b, k):
    where = jnp.arange(0, 3 * k, 3) % max(len(a), 1)
    return a.at[where].add(b[where] * 0.5) if len(a) else a


def by_columns(a, b, k):
    return jnp.concatenate([a[:, k:], b[:, :k]], 1)


def windows(a, b, k):
    if not a.size:
        return a
    sums = lax.reduce_window(a, 0.0, lax.add, (1, 3), (1, 1), "SAME")
    return sums * 0.3 + b


def scanned(a, b, k):
    step = lambda c, x: (jnp.sin(c + x), c * x)
    return lax.scan(step, a.sum(0) * 0.1, b)[1]


def branch(a, b, k):
    both = lambda a, b: (a * 2 - b)[:, ::-1]
    return lax.cond(a.sum() > k - 5, both, lambda a, b: jnp.cumsum(b, 1) * 0.1, a, b)


# Functions of two arrays of one shape, any one, and a small number: an array like them.
steps = [
    lambda a, b, k: jnp.sin(a) * b,
    lambda a, b, k: a - b[::-1],
    lambda a, b, k: (a.T * 0.5 + b.T[::-1]).T,
    lambda a, b, k: jnp.where(a > k - 3, a, b),
    lambda a, b, k: (a @ b.T) @ a * 0.01,
    lambda a, b, k: jnp.roll(a, k, k % 2) + b,
    lambda a, b, k: jnp.pad(a, ((k, 1), (0, k)))[k : k + len(a), : a.shape[1]] - b,
    lambda a, b, k: jnp.cumsum(a, k % 2) * 0.2 + b,
    lambda a, b, k: jnp.sort(a, k % 2),
    lambda a, b, k: a / (1 + jnp.abs(b).sum(k % 2, keepdims=True)),
    lambda a, b, k: a.reshape(-1)[::-1].reshape(a.shape) * b,
    lambda a, b, k: a.astype("float16").astype("float32") + b.astype("bfloat16"),
    lambda a, b, k: (a * 10).astype("int8").astype("float32") - (b > 0),
    lambda a, b, k: jnp.stack([a, b, a * b], k % 3).mean(k % 3),
    lambda a, b, k: jnp.tril(a) - jnp.triu(b, k),
    lambda a, b, k: jnp.exp(a - jnp.max(a, 1, keepdims=True, initial=-9.0)) * b,
    lambda a, b, k: jnp.repeat(a, 2, 0)[k % 2 :: 2] + b,
    picked, added, by_columns, windows, scanned, branch,
]  # fmt: skip


def drawn(rs):
    """A function of two arrays of one shape, and the arrays: NumPy's, of many kinds."""
    m, n = rs.choice(EXTENTS, 2)
    if m * n > 40000:
        m = rs.choice(EXTENTS[:8])
    chosen = [
        (steps[rs.randint(len(steps))], rs.rand(2), int(rs.randint(1, 5)))
        for _ in range(rs.randint(2, 9))
    ]

    def f(x, y):
        arrays = [x, y]
        for step, which, k in chosen:
            a, b = (arrays[-1 - int(len(arrays) * w**3)] for w in which)
            arrays.append(step(a, b, k).astype("float32"))
        return arrays[-2:]

    return f, [rs.randn(m, n).astype("f4") for _ in range(2)]


def laid_out(array, how):
    """The same numbers, elsewhere in memory: strided, backwards, by columns, askew."""
    m, n = array.shape
    if how == "strided":
        found = np.empty((2 * m, 3 * n), array.dtype)[::2, ::3]
    elif how == "backwards":
        found = np.empty((m, n), array.dtype)[::-1, ::-1]
    elif how == "columns":
        found = np.empty((n, m), array.dtype).T
    elif how == "askew":
        found = np.empty(array.nbytes + 1, np.int8)[1:].view(array.dtype).reshape(m, n)
    else:
        return jnp.array(array)
    found[...] = array
    return found


LAYOUTS = ("ours", "strided", "backwards", "columns", "askew")


def weighted(f):
    """A number made of all results of a function, to be differentiated."""
    return lambda *args: sum((r * jnp.cos(r.size + 1.0)).sum() for r in f(*args))


def program(seed):
    """-> (a function, its arguments, which of them are given away)"""
    rs = np.random.RandomState(seed)
    if seed % 3 == 0:
        random_memory.N = int(rs.choice([3, 4, 5, 6, 7, 9, 12, 15, 17, 24, 33, 47, 65]))
        f, args = random_memory.drawn(seed)
        number = random_memory.total(f, random_memory.N)
    else:
        f, args = drawn(rs)
        number = weighted(f)
    kind = ("forward", "gradient", "vmap", "donated")[rs.randint(4)]
    if kind == "gradient":
        return mj.grad(number, (0, 1)), args, ()
    if kind == "vmap":
        lanes = int(rs.choice([1, 3, 8, 17]))
        within = f if rs.randint(2) else mj.grad(number)
        many = lambda x, y: mj.vmap(within, (0, None))(
            jnp.stack([x * (i + 1) for i in range(lanes)]), y
        )
        return many, args, ()
    return f, args, (0, 1) if kind == "donated" else ()


# Of how many programs LLVM compiles one as it does for users.
THOROUGH = 4
FILLS = ((255, False), (59, True), (127, False), (255, True))


def run(seed):
    """Raise AssertionError if results depend on what is in fresh memory."""
    hurried[0] = seed % THOROUGH != 0
    f, args, donated = program(seed)
    f, found = mj.jit(f, donate_argnums=donated), []
    names = [LAYOUTS[(seed + i) % len(LAYOUTS)] for i in range(len(args))]

    def call():
        given = map(laid_out, args, names)
        return [np.array(r) for r in mj.tree.leaves(f(*given))]

    for fill in FILLS:
        with filled_with(*fill):
            found.append(call())
    found += in_threads(call)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def in_threads(call, count=2):
    """What a function gives in threads that run at once."""
    found = []

    def work():
        guards[0].hand()
        found.append(call())

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    return found


def run_all(first, end):
    faulthandler.enable()
    warnings.filterwarnings("ignore", "Some donated buffers were not usable")
    guard()
    for seed in range(first, end):
        print(seed, flush=True)
        try:
            run(seed)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}"[:500], flush=True)
        if seed % 20 == 0:
            mj.clear_caches()


# So many programs have a process.
EACH = 200


def main(count, first=0):
    """Run programs in processes of their own: what dies is named, and passed over."""
    seed, end, dead, wrong = first, first + count, [], []
    while seed < end:
        last = min(seed + EACH, end)
        child = subprocess.run(
            [sys.executable, "-m", "tests.guarded", "within", str(seed), str(last)],
            capture_output=True, text=True,
        )  # fmt: skip
        lines = child.stdout.splitlines()
        for line in lines:
            if not line.isdigit():
                print(line, flush=True)
                wrong += [line] if line.startswith("seed") else []
        if child.returncode:
            seed = int([line for line in lines if line.isdigit()][-1]) + 1
            dead.append(seed - 1)
            print(f"{seed - 1} ends with {child.returncode}: {child.stderr[-1500:]}")
        else:
            seed = last
    print(f"{count} programs from {first} on: dead {dead}, {len(wrong)} wrong")
    return not (dead or wrong)


if __name__ == "__main__":
    if sys.argv[1] == "within":
        run_all(*map(int, sys.argv[2:]))
    else:
        sys.exit(not main(*map(int, sys.argv[1:])))
