"""Kernels for a grid as LLVM IR, and what LLVM makes of it: PTX.

    print(ptx_of(text, "kernel_0", (9, 0)))     # for compute capability 9.0
    # .visible .entry kernel_0(.param .u64 .ptr .align 1 kernel_0_param_0, ...) {
    #   mov.u32 %r1, %tid.x; ...

PTX is the assembly language of NVIDIA's devices, whatever their generation.  The LLVM
that compiles for the CPU writes it too, so that this needs neither a GPU nor CUDA.
"""

import functools
import math
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from ...compile.loops.kernel_buffers import given_buffers
from ...compile.loops.scalars import BOOL, INDEX
from ..llvm.loops import LoopWriter
from ..llvm.regions import move_swapped
from ..llvm.target import binding, run_passes
from ..llvm.types import kind_of, memory_type, register_type
from .device_functions import device_module
from .grid_walker import GridWalker

INT32 = np.dtype("int32")
# By its first name, which LLVM 20 knows: a name that it does not would be a function.
BARRIER = "@llvm.nvvm.barrier0"
TRIPLE = "nvptx64-nvidia-cuda"

REGISTERS = "llvm.nvvm.read.ptx.sreg"

# Operations of indices on 32 bits: a device has instructions for these; one of 64 bits
# is two or more.
short_words = {"add": "add nuw nsw", "sub": "sub nuw nsw", "mul": "mul nuw nsw"}
short_words |= {"floordiv": "udiv", "mod": "urem"}
short_words |= {"min": "llvm.umin.i32", "max": "llvm.umax.i32"}
short_words |= {"lt": "icmp ult", "le": "icmp ule", "eq": "icmp eq"}


class Short(str):
    """A value of 32 bits that stands for an index."""


def is_short(expr):
    """Whether a number is an index from 0 to 2**31 - 1, by what is known of it."""
    return expr.dtype == INDEX and 0 <= expr.bounds[0] and expr.bounds[1] < 2**31


class CudaWriter(LoopWriter):
    """Writes the body of one kernel.

    Attributes:
      shared: the lines above it; together: whether the last loop was a `vector`.
    """

    for_host = False

    def __init__(self, launch):
        super().__init__()
        self.launch, self.shared = launch, []

    def register(self, name, note=""):
        """A number that each thread finds in a register of its own, as an index."""
        self.declared[f"declare i32 @{REGISTERS}.{name}()"] = None
        return Short(self.do(f"call {note}i32 @{REGISTERS}.{name}()"))

    def block_number(self, way):
        return self.register(f"ctaid.{way}")

    def thread_number(self):
        below = f"range(i32 0, {self.launch.threads}) "
        self.own_number = self.register("tid.x", below)
        return self.own_number

    def number_of_thread(self, threads):
        number, own, kind = self.register("ctaid.x"), self.own_number, "i32"
        if self.launch.blocks * threads >= 2**31:
            number, own, kind = self.long(number), self.long(own), "i64"
        first = self.do(f"mul nuw nsw {kind} {number}, {threads}")
        return type(own)(self.do(f"add nuw nsw {kind} {first}, {own}"))

    # Indices of 32 bits.

    def short(self, value):
        """An index of which `is_short` is true; a number's text is of any width."""
        if isinstance(value, Short) or not value.startswith("%"):
            return value
        return Short(self.do(f"trunc nuw nsw i64 {value} to i32"))

    def long(self, value):
        """Any value, which has 64 bits if it is an index."""
        if not isinstance(value, Short):
            return value
        return self.do(f"zext nneg i32 {value} to i64")

    def op(self, expr, values):
        word, among = short_words.get(expr.name), expr.args
        if expr.dtype != BOOL:
            among = expr, *among
        if not word or not all(map(is_short, among)):
            return super().op(expr, list(map(self.long, values)))
        first, second = map(self.short, values)
        if word.startswith("llvm"):
            return Short(self.invoke(word, "i32", ("i32", first), ("i32", second)))
        result = self.do(f"{word} i32 {first}, {second}")
        return result if expr.dtype == BOOL else Short(result)

    def address(self, buffer, index):
        values = map(self.long, index)
        return super().address(buffer, [*zip(values, buffer.strides, strict=True)])

    def store(self, buffer, index, value):
        super().store(buffer, index, self.long(value))

    def cell(self, dtype, value):
        return super().cell(dtype, self.long(value))

    def set(self, cell, value):
        super().set(cell, self.long(value))

    @contextmanager
    def loop(self, stmt, extent):
        with self.steps("0", extent, 1) as counter:
            yield counter
            self.together = stmt.axis.kind == "vector"

    def note_of_loop(self):
        """LLVM makes one load of several if they are written out."""
        full = '!"llvm.loop.unroll.full"'
        return self.note_at_end(full) if self.together else ""

    def share(self, stmt, extent, threads):
        self.together = False
        return self.steps(self.own_number, extent, threads)

    @contextmanager
    def steps(self, first, extent, step):
        """A loop from a number on; its counter has 32 bits if they are enough."""
        k, kind, before = self.fresh(), "i32", self.label
        counter = Short(f"%i{k}")
        if not isinstance(extent, int) or extent + step >= 2**31:
            first, extent = self.long(first), self.long(extent)
            counter, kind = str(counter), "i64"
        some = self.do(f"icmp slt {kind} {first}, {extent}")
        self.line(f"br i1 {some}, label %loop{k}, label %done{k}")
        self.begin(f"loop{k}")
        start = f"[{first}, %{before}], [{counter}n, %next{k}]"
        self.line(f"{counter} = phi {kind} {start}")
        yield counter
        self.line(f"br label %next{k}")
        self.begin(f"next{k}")
        self.line(f"{counter}n = add nuw nsw {kind} {counter}, {step}")
        more = self.do(f"icmp slt {kind} {counter}n, {extent}")
        note = self.note_of_loop()
        self.line(f"br i1 {more}, label %loop{k}, label %done{k}{note}")
        self.begin(f"done{k}")

    @contextmanager
    def only_first(self):
        first = self.do(f"icmp eq i32 {self.own_number}, 0")
        with self.branch(first):
            yield

    def barrier(self):
        self.declared[f"declare void {BARRIER}()"] = None
        self.line(f"call void {BARRIER}()")

    def common(self, buffer):
        name, size = f"@NAME_s{len(self.shared)}", max(math.prod(buffer.shape), 1)
        kind = f"[{size} x {memory_type(buffer.dtype)}]"
        self.shared.append(
            f"{name} = internal addrspace(3) global {kind} undef, align 16\n"
        )
        self.pointers[buffer] = f"addrspacecast (ptr addrspace(3) {name} to ptr)"

    own = LoopWriter.on_stack

    def exchange(self, dtype, value, distance):
        """One instruction moves 32 bits."""
        kind = register_type(dtype)
        if kind in ("float", "i32"):
            letter = "f32" if kind == "float" else "i32"
            return self.invoke(
                f"llvm.nvvm.shfl.sync.bfly.{letter}", kind, ("i32", "-1"),
                (kind, value), ("i32", str(distance)), ("i32", "31"),
            )
        if kind == "double":
            bits = self.cast("bitcast", kind, value, "i64")
            bits = self.exchange(INDEX, bits, distance)
            return self.cast("bitcast", "i64", bits, kind)
        if kind == "i64":
            high = self.do(f"lshr i64 {value}, 32")
            parts = [self.cast("trunc", "i64", x, "i32") for x in (value, high)]
            parts = [self.exchange(INT32, x, distance) for x in parts]
            low, high = (self.cast("zext", "i32", x, "i64") for x in parts)
            return self.do(f"or i64 {low}, {self.do(f'shl i64 {high}, 32')}")
        wide = self.exchange(INT32, self.cast("zext", kind, value, "i32"), distance)
        return self.cast("trunc", "i32", wide, kind)

    def cast(self, how, source, value, target):
        return self.do(f"{how} {source} {value} to {target}")

    def atomic(self, buffer, index, name, dtype, value):
        kind, where = memory_type(dtype), self.address(buffer, index)
        letter = kind_of(dtype).strip("i" if name != "add" else "iu")
        word = f"{letter}{name} ptr {where}, {kind} {self.long(value)}"
        self.do(f"atomicrmw {word} monotonic")

    def compare_and_swap(self, buffer, index, expected, new):
        """Of 8 and of 16 bits LLVM makes one of the word that they are in."""
        kind, where = f"i{8 * buffer.dtype.itemsize}", self.address(buffer, index)
        old, new = (f"{kind} {self.long(x)}" for x in (expected, new))
        how = 'syncscope("device") monotonic monotonic'
        pair = self.do(f"cmpxchg ptr {where}, {old}, {new} {how}")
        return self.do(f"extractvalue {{ {kind}, i1 }} {pair}, 0")


def module_of(name, launch):
    """The module of one kernel: text that LLVM parses."""
    body = tuple(stmt for part in launch.parts for stmt in part.body)
    names, writer = given_buffers(body), CudaWriter(launch)
    writer.pointers = {buffer: f"%{own}" for buffer, own in names.items()}
    walker = GridWalker(writer, launch)
    walker.memory()
    move_swapped(writer, body)
    walker.run()
    given = ", ".join(f"ptr noalias align 16 %{own}" for own in names.values())
    limits = f'"nvvm.maxntid"="{launch.threads}"'
    text = writer.text(f"ptx_kernel void @NAME({given}) {limits} nounwind")
    text = "".join(writer.shared) + writer.text_of_notes() + text
    text = text.replace("NAME", name)
    kernel = SimpleNamespace(text=text, declared=writer.declared, used=writer.used)
    return device_module(kernel)


@functools.cache
def machine_for(architecture):
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=architecture, opt=3)


@functools.lru_cache(maxsize=256)
def ptx_of(text, compute_capability):
    """What LLVM makes of a module for a device of some compute capability.

    Args:
      compute_capability: (major, minor), such as (9, 0).
    """
    llvm, (major, minor) = binding(), compute_capability
    machine = machine_for(f"sm_{major}{minor}")
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    run_passes(module, machine, speed_level=3)
    return machine.emit_assembly(module)
