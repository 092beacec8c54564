"""LLVM IR from loop programs, compiled in milliseconds by an engine of our own.

    run = compile_llvm(make_jaxpr(lambda x: sin(x) * 2)(x), "f")
    print(run.llvm)
    # define internal void @kernel(ptr noalias %x0, ptr noalias %y0) {
    #   ...
    #   %v2 = load float, ptr %v1
    #   %v3 = call float @sin_float32(float %v2)

The IR is written as text, which LLVM's parser reads ten times as fast as Python builds
objects.  It says what numba's does not: that a kernel's arrays do not overlap, and that
the sum in a total, and nothing else, may be regrouped.  A compiled kernel is a built-in
function of Python: it takes NumPy arrays, and the code that finds their memory is LLVM
IR too.  When the function is gone, so is its code.

Calls that are no kernels (`matmul`, uncompiled primitives) are made as by the executor
"python", whose driver this one shares.  Loops and branches are in `llvm_control`.
"""

import ctypes
import functools
import hashlib
import itertools
import re
import struct
import weakref
from collections import Counter, defaultdict, deque
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from ..compile import vector_math
from ..compile.loops import (
    BOOL,
    Const,
    For,
    Kernel,
    Op,
    While,
    bodies_of,
    postorder,
)
from ..compile.place import place, sure
from ..compile.scalar_forms import FLOAT32, HALVES, form_of, scalar_forms, where
from ..trace.errors import MinijitError
from ..trace.jit import cache_clearers, executors
from .cache_folder import find, keep
from .emit import Walker
from .executable import Executable, kernel_routes, loaders, routines, write_source
from .python_source import (
    Constants,
    DriverPrinter,
    SourceWriter,
    buffer_names,
    print_imports,
    print_program,
)
from .scalar_functions import erf_inv_central, erf_inv_middle, erf_inv_tail

# ---- numbers


def register_type(dtype):
    """The LLVM type of a number in a register."""
    if dtype == BOOL:
        return "i1"
    if dtype == FLOAT32 or dtype.name in HALVES:
        return "float"
    return "double" if dtype.kind == "f" else f"i{8 * dtype.itemsize}"


def memory_type(dtype):
    """The LLVM type of a number in memory."""
    if dtype == BOOL or dtype.name in HALVES:
        return f"i{8 * dtype.itemsize}"
    return register_type(dtype)


def constant_text(expr):
    """A `Const`: floats by their bits, as float64."""
    if register_type(expr.dtype) in ("float", "double"):
        narrow = register_type(expr.dtype) == "float"
        value = np.float32(expr.value) if narrow else np.float64(expr.value)
        return f"0x{struct.pack('>d', float(value)).hex()}"
    return str(int(expr.value))


class LLVMWriter:
    """Writes one function: what an emitter is to the walker.

    Attributes:
      lanes: how many elements are computed at a time; of a kernel always 1, for there
        LLVM is to decide.
      used: the keys of the functions it calls, see `function_text`.
      declared: the declarations of what else it calls.
    """

    def __init__(self, lanes=1):
        self.lanes = lanes
        self.lines, self.entry = [], []
        self.count = 0
        self.label = "start"
        self.pointers = {}
        self.used, self.declared = {}, {}

    def fresh(self):
        self.count += 1
        return self.count

    def line(self, text):
        self.lines.append("  " + text)

    def do(self, text):
        """An instruction with a result: -> its register."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def begin(self, label):
        """Begin a block of instructions."""
        self.lines.append(f"{label}:")
        self.label = label

    def text(self, head, result="void"):
        """The whole function."""
        body = "\n".join([*self.entry, "  br label %start", "start:", *self.lines])
        return f"define internal {head} {{\nentry:\n{body}\n  ret {result}\n}}\n"

    def invoke(self, name, result, *typed):
        """A call of a function from elsewhere; its arguments are (type, value)."""
        kinds = ", ".join(kind for kind, _ in typed)
        self.declared[f"declare {result} @{name}({kinds})"] = None
        given = ", ".join(f"{kind} {value}" for kind, value in typed)
        return self.do(f"call {result} @{name}({given})")

    def type(self, dtype):
        """The type of a register, or of as many as there are lanes."""
        kind = register_type(dtype)
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def overload(self, dtype):
        """What a type is called in the name of an intrinsic: `f32`, `v8f32`."""
        short = {"float": "f32", "double": "f64"}
        kind = register_type(dtype)
        lanes = "" if self.lanes == 1 else f"v{self.lanes}"
        return lanes + short.get(kind, kind)

    # The interface of `emit.Walker`.

    def const(self, expr):
        text = constant_text(expr)
        if self.lanes == 1:
            return text
        return f"splat ({register_type(expr.dtype)} {text})"

    def let(self, expr, value):
        return value

    def op(self, name, expr, values):
        return instructions[name](self, name, expr, values)

    def call(self, key, values):
        self.used[key, self.lanes] = None
        _, dtypes, dtype = key
        typed = zip(map(self.type, dtypes), values, strict=True)
        given = ", ".join(f"{kind} {value}" for kind, value in typed)
        name, variants = function_name(key, self.lanes), ""
        if self.lanes == 1 and has_rare_branch(key):
            lanes = lanes_of(dtype)
            self.used[key, lanes] = None
            variants = f" {PURE} {variant(key, lanes)}"
        return self.do(f"call {self.type(dtype)} @{name}({given}){variants}")

    def cell(self, dtype, value):
        """A slot on the stack, which LLVM turns into registers."""
        kind, slot = register_type(dtype), f"%c{self.fresh()}"
        self.entry.append(f"  {slot} = alloca {kind}")
        self.line(f"store {kind} {value}, ptr {slot}")
        return kind, slot

    def get(self, cell):
        kind, slot = cell
        return self.do(f"load {kind}, ptr {slot}")

    def set(self, cell, value):
        kind, slot = cell
        self.line(f"store {kind} {value}, ptr {slot}")

    def pointer(self, buffer):
        """The address of a buffer."""
        return self.pointers[buffer]

    def alias(self, buffer):
        """What a load or store says of where else the memory is not used."""
        return ""

    def address(self, buffer, index):
        """The address of an element."""
        offset = None
        for i, stride in zip(index, buffer.strides, strict=True):
            if i != "0":
                part = i if stride == 1 else self.do(f"mul nsw i64 {i}, {stride}")
                if offset is not None:
                    part = self.do(f"add nsw i64 {offset}, {part}")
                offset = part
        base, kind = self.pointer(buffer), memory_type(buffer.dtype)
        if offset is None:
            return base
        return self.do(f"getelementptr inbounds {kind}, ptr {base}, i64 {offset}")

    def load(self, buffer, index):
        where = self.address(buffer, index)
        kind, alias = memory_type(buffer.dtype), self.alias(buffer)
        value = self.do(f"load {kind}, ptr {where}{alias}")
        return self.do(f"icmp ne i8 {value}, 0") if buffer.dtype == BOOL else value

    def store(self, buffer, index, value):
        where = self.address(buffer, index)
        if buffer.dtype == BOOL:
            value = self.do(f"zext i1 {value} to i8")
        kind, alias = memory_type(buffer.dtype), self.alias(buffer)
        self.line(f"store {kind} {value}, ptr {where}{alias}")

    @contextmanager
    def loop(self, stmt, extent):
        """A loop that tests at its end; before its beginning where that may fail."""
        k, before = self.fresh(), self.label
        counter = f"%i{k}"
        if isinstance(extent, str):
            some = self.do(f"icmp slt i64 0, {extent}")
            self.line(f"br i1 {some}, label %loop{k}, label %done{k}")
        else:
            self.line(f"br label %loop{k}")
        self.begin(f"loop{k}")
        self.line(f"{counter} = phi i64 [0, %{before}], [{counter}n, %next{k}]")
        yield counter
        self.line(f"br label %next{k}")
        self.begin(f"next{k}")
        self.line(f"{counter}n = add nuw nsw i64 {counter}, 1")
        more = self.do(f"icmp slt i64 {counter}n, {extent}")
        self.line(f"br i1 {more}, label %loop{k}, label %done{k}")
        self.begin(f"done{k}")

    @contextmanager
    def branch(self, condition):
        k = self.fresh()
        has_second = []

        def otherwise():
            has_second.append(True)
            self.line(f"br label %end{k}")
            self.begin(f"else{k}")

        at = len(self.lines)
        self.line("")
        self.begin(f"then{k}")
        yield otherwise
        self.line(f"br label %end{k}")
        self.begin(f"end{k}")
        second = "else" if has_second else "end"
        self.lines[at] = (
            f"  br i1 {condition}, label %then{k}, label %{second}{k}"
        )


# ---- operations


def by_kind(**words):
    """The row of an operation that is one instruction, by the kind of its result."""

    def row(writer, name, expr, values):
        kind = kind_of(expr.dtype)
        flag = " nsw" if name in overflowing and sure(expr) else ""
        # What is never negative is divided faster.
        if name in divisions and kind == "i" and expr.args[0].bounds[0] >= 0:
            kind = "u" if expr.args[1].bounds[0] >= 0 else kind
        given = ", ".join(values)
        return writer.do(f"{words[kind]}{flag} {writer.type(expr.dtype)} {given}")

    return row


def kind_of(dtype):
    """f, i, u or b: what decides which instruction an operation is."""
    return "f" if register_type(dtype) in ("float", "double") else dtype.kind


overflowing = {"add", "sub", "mul"}
divisions = {"machine_div", "machine_rem"}


def integers(word):
    return dict(i=word, u=word, b=word)


# name -> function(writer, name, expr, values) -> register.
instructions = {
    "add": by_kind(f="fadd", **integers("add")),
    "sub": by_kind(f="fsub", **integers("sub")),
    "mul": by_kind(f="fmul", **integers("mul")),
    "div": by_kind(f="fdiv"),
    "and": by_kind(**integers("and")),
    "or": by_kind(**integers("or")),
    "xor": by_kind(**integers("xor")),
    "add_any_order": by_kind(f="fadd reassoc", **integers("add")),
    "multiply_any_order": by_kind(f="fmul reassoc", **integers("mul")),
    "machine_div": by_kind(i="sdiv", u="udiv"),
    "machine_rem": by_kind(i="srem", u="urem"),
    "machine_shift_left": by_kind(**integers("shl")),
    "machine_shift_right_logical": by_kind(**integers("lshr")),
    "machine_shift_right_arithmetic": by_kind(**integers("ashr")),
}


def negate(writer, name, expr, values):
    how = "fneg" if kind_of(expr.dtype) == "f" else "sub"
    zero = "zeroinitializer, " if how == "sub" else ""
    return writer.do(f"{how} {writer.type(expr.dtype)} {zero}{values[0]}")


def invert(writer, name, expr, values):
    ones = Const(1 if expr.dtype == BOOL else -1 % 2 ** (8 * expr.dtype.itemsize),
                 expr.dtype.str.replace("i", "u"))
    return writer.do(f"xor {writer.type(expr.dtype)} {values[0]}, {writer.const(ones)}")


def compare(writer, name, expr, values):
    """Of floats, everything but `ne` is false for a NaN."""
    dtype = expr.args[0].dtype
    if kind_of(dtype) == "f":
        how = "fcmp " + ("une" if name == "ne" else "o" + name)
    else:
        sign = "" if name in ("eq", "ne") else "s" if dtype.kind == "i" else "u"
        how = f"icmp {sign}{name}"
    return writer.do(f"{how} {writer.type(dtype)} {values[0]}, {values[1]}")


def select(writer, name, expr, values):
    kind, (condition, x, y) = writer.type(expr.dtype), values
    return writer.do(f"select {writer.type(BOOL)} {condition}, {kind} {x}, {kind} {y}")


instructions |= {"neg": negate, "not": invert, "select": select}
instructions |= dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), compare)


def intrinsic(word, last=()):
    """The row of an operation that LLVM has as a function, such as llvm.sqrt.f32."""

    def row(writer, name, expr, values):
        kind = writer.type(expr.dtype)
        chosen = word if isinstance(word, str) else word[kind_of(expr.dtype)]
        typed = [(kind, value) for value in values]
        name = f"llvm.{chosen}.{writer.overload(expr.dtype)}"
        return writer.invoke(name, kind, *typed, *last)

    return row


instructions |= {
    "sqrt": intrinsic("sqrt"),
    "floor": intrinsic("floor"),
    "ceil": intrinsic("ceil"),
    "round_even": intrinsic("rint"),
    "copysign": intrinsic("copysign"),
    "fma": intrinsic("fma"),
    "muladd": intrinsic("fmuladd"),
    "max": intrinsic(dict(f="maximum", i="smax", u="umax", b="umax")),
    "min": intrinsic(dict(f="minimum", i="smin", u="umin", b="umin")),
    "population_count": intrinsic("ctpop"),
    "clz": intrinsic("ctlz", [("i1", "false")]),
}


def absolute(writer, name, expr, values):
    """The size of a number; of INT_MIN it is INT_MIN."""
    kind = kind_of(expr.dtype)
    if kind in "ub":
        return values[0]
    last = [("i1", "false")] if kind == "i" else []
    word = "abs" if kind == "i" else "fabs"
    return intrinsic(word, last)(writer, name, expr, values)


def convert(writer, name, expr, values):
    """A conversion, which from float to integer saturates."""
    source, target = expr.args[0].dtype, expr.dtype
    a, b, (x,) = kind_of(source), kind_of(target), values
    s, t = writer.type(source), writer.type(target)
    if b == "b":
        how = "fcmp une" if a == "f" else "icmp ne"
        return writer.do(f"{how} {s} {x}, zeroinitializer")
    if a == "f" and b != "f":
        kinds = f"{writer.overload(target)}.{writer.overload(source)}"
        letter = "s" if b == "i" else "u"
        return writer.invoke(f"llvm.fpto{letter}i.sat.{kinds}", t, (s, x))
    if s == t:
        return x
    wider = target.itemsize > source.itemsize or a == "b"
    if b == "f":
        word = {"f": "fpext" if wider else "fptrunc", "i": "sitofp"}.get(a, "uitofp")
    else:
        word = "trunc" if not wider else "sext" if a == "i" else "zext"
    return writer.do(f"{word} {s} {x} to {t}")


def bitcast(writer, name, expr, values):
    s, t = writer.type(expr.args[0].dtype), writer.type(expr.dtype)
    return values[0] if s == t else writer.do(f"bitcast {s} {values[0]} to {t}")


def from_library(writer, name, expr, values):
    """A function of the C library, by the name it has for float64 or float32."""
    kind = register_type(expr.dtype)
    word = name.removeprefix("libm_") + ("f" if kind == "float" else "")
    if writer.lanes == 1:
        return writer.invoke(word, kind, *((kind, value) for value in values))
    total, vector = "poison", writer.type(expr.dtype)
    for lane in range(writer.lanes):
        given = [
            writer.do(f"extractelement {vector} {value}, i32 {lane}")
            for value in values
        ]
        result = writer.invoke(word, kind, *((kind, value) for value in given))
        given = f"{vector} {total}, {kind} {result}, i32 {lane}"
        total = writer.do(f"insertelement {given}")
    return total


def rarely(writer, name, expr, values):
    """A value computed already, or in a branch of its own the C library's."""
    condition, usual, *given = values
    kind, k, asked = writer.type(expr.dtype), writer.fresh(), condition
    if writer.lanes > 1:
        any_of = f"llvm.vector.reduce.or.v{writer.lanes}i1"
        asked = writer.invoke(any_of, "i1", (writer.type(BOOL), condition))
    before = writer.label
    writer.line(f"br i1 {asked}, label %rare{k}, label %usual{k}")
    writer.begin(f"rare{k}")
    exact = from_library(writer, name.removeprefix("rare_"), expr, given)
    choice = select(writer, name, expr, [condition, exact, usual])
    writer.line(f"br label %usual{k}")
    writer.begin(f"usual{k}")
    return writer.do(f"phi {kind} [{usual}, %{before}], [{choice}, %rare{k}]")


instructions |= {"abs": absolute, "convert": convert, "bitcast": bitcast}
instructions |= {
    f"libm_{name}": from_library for name in ("fmod", "pow", "erf", "erfc", "lgamma")
}
instructions |= {f"rare_{name}": rarely for name in ("sin", "cos", "tan")}


# ---- functions


def erf_inv(x):
    """The inverse of erf, as `scalar_functions`: all three ranges, then a choice."""
    size = abs(x)
    w = -((1.0 - x) * (x + 1.0)).apply("log")
    root = w.apply("sqrt")
    central = vector_math.polynomial(w - 3.125, *erf_inv_central)
    middle = vector_math.polynomial(root - 3.25, *erf_inv_middle)
    tail = vector_math.polynomial(root - 5.0, *erf_inv_tail)
    factor = where(w < 6.25, central, where(w < 16.0, middle, tail))
    return where(size.is_(1.0), x * np.inf, x * factor)


scalar_forms |= {"erf_inv": vector_math.in_double(erf_inv)}


def function_name(key, lanes=1):
    """`exp_float32`: of a function that `scalar_form` described."""
    name, dtypes, dtype = key
    lanes = [] if lanes == 1 else [f"v{lanes}"]
    return "_".join([name, *(d.name for d in dtypes), dtype.name, *lanes])


@functools.cache
def has_rare_branch(key):
    """Whether a function has a branch that is hardly ever taken."""
    _, result = form_of(*key)
    inside = postorder([result])
    return any(isinstance(e, Op) and e.name.startswith("rare_") for e in inside)


# What LLVM may take for granted about a function of numbers.
PURE = "memory(none) nounwind willreturn"


def lanes_of(dtype):
    """How many elements of a dtype this machine has in a register."""
    _, features = host()
    nbytes = 64 if "+avx512f" in features else 32 if "+avx2" in features else 16
    return nbytes // dtype.itemsize


def variant(key, lanes):
    """How LLVM is told that a function has another one for several elements.

    A loop with a call of a function that branches it would not vectorise else.
    """
    shape = f"_ZGV_LLVM_N{lanes}{'v' * len(key[1])}"
    names = f"{shape}_{function_name(key)}({function_name(key, lanes)})"
    return f'"vector-function-abi-variant"="{names}"'


@functools.cache
def function_text(key, lanes=1):
    """The LLVM function for a key: -> (text, declarations, keys of what it calls)."""
    params, result = form_of(*key)
    writer = LLVMWriter(lanes)
    walker = Walker(writer)
    for i, param in enumerate(params):
        walker.values[param] = f"%x{i}"
    for expr in postorder([result]):
        walker.values[expr] = walker.value(expr)
    kinds = [writer.type(param.dtype) for param in params]
    given = ", ".join(f"{kind} %x{i}" for i, kind in enumerate(kinds))
    kind = writer.type(result.dtype)
    how = f"noinline {PURE}" if has_rare_branch(key) else "alwaysinline"
    head = f"{kind} @{function_name(key, lanes)}({given}) {how}"
    text = writer.text(head, f"{kind} {walker.values[result]}")
    return text, tuple(writer.declared), tuple(writer.used)


# ---- kernels

# From this many steps on, a kernel lets other threads of Python run meanwhile.
LONG = 20_000
# Up to so many, kernels are compiled in half the time: what they lose is a microsecond.
BRIEF = 1_000


def steps_of(body, times=1):
    """About how often the innermost statements of some statements run, in all."""
    total = times * sum(not isinstance(stmt, For) for stmt in body)
    for stmt in body:
        extent = 1
        if isinstance(stmt, (For, While)):
            axis = getattr(stmt, "axis", None)
            extent = axis.extent if axis and isinstance(axis.extent, int) else LONG
        total += sum(steps_of(inner, times * extent) for inner in bodies_of(stmt))
    return total


class KernelText:
    """One kernel as LLVM IR.

    Attributes:
      key: a hash of its text: kernels that do the same have the same.
      text: two functions under names made of the key: the kernel, which takes pointers,
        and the built-in function of Python, which takes NumPy arrays.
      declared, used: as in `LLVMWriter`.
      buffers: the `Buffer`s to call it with; it takes no numbers.
      steps: about how many statements it runs.
    """

    numbers, name = (), "kernel"

    def __init__(self, kernel):
        body = place(kernel.body)
        names = buffer_names(body)
        writer = LLVMWriter()
        writer.pointers = {b: f"%{name}" for b, name in names.items()}
        Walker(writer).block(body)
        self.finish(writer, body, names, "void")

    def launcher(self, function):
        """What the driver calls: the built-in function, if that is all."""
        return function

    def finish(self, writer, body, names, result, value="", others=""):
        """Put both functions together, and others that the first one calls."""
        given = ", ".join(f"ptr noalias %{name}" for name in names.values())
        head, last = f"{result} @NAME({given}) #0", f"{result} {value}".rstrip()
        text = others + writer.text(head, last)
        self.steps = steps_of(body)
        text += builtin_text(len(names), self.steps > LONG, result)
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.text = text.replace("NAME", f"kernel_{self.key}")
        self.declared = writer.declared | dict.fromkeys(python_declarations)
        self.used = writer.used
        self.buffers = tuple(names)


python_declarations = (
    "@_Py_NoneStruct = external global i8",
    "declare void @Py_IncRef(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
)


def builtin_text(count, long, result="void"):
    """The built-in function: the arrays' memory, the kernel, and None as the result.

    An array's first field, after what every Python object has, points to its memory.
    A kernel whose `result` is an i1 says by it that Python has an exception to raise.
    """
    lines = ["define ptr @call_NAME(ptr %self, ptr %args, i64 %n) {"]
    for i in range(count):
        lines += [
            f"  %a{i} = getelementptr ptr, ptr %args, i64 {i}",
            f"  %o{i} = load ptr, ptr %a{i}",
            f"  %f{i} = getelementptr i8, ptr %o{i}, i64 {object.__basicsize__}",
            f"  %p{i} = load ptr, ptr %f{i}",
        ]
    given = ", ".join(f"ptr %p{i}" for i in range(count))
    lines += ["  %thread = call ptr @PyEval_SaveThread()"] if long else []
    name = "" if result == "void" else "%raised = "
    lines += [f"  {name}call {result} @NAME({given})"]
    lines += ["  call void @PyEval_RestoreThread(ptr %thread)"] if long else []
    if name:
        lines += ["  br i1 %raised, label %failed, label %done"]
        lines += ["failed:", "  ret ptr null", "done:"]
    lines += ["  call void @Py_IncRef(ptr @_Py_NoneStruct)"]
    return "\n".join([*lines, "  ret ptr @_Py_NoneStruct", "}\n"])


# type of a kernel -> what its text is.
kernel_texts = {Kernel: KernelText}
# Functions of a program: the one that is compiled in its place.
rewrites: list = []


ATTRIBUTES = """\
attributes #0 = {
  noinline nounwind "prefer-vector-width"="512" "no-trapping-math"="true"
}
"""


def module_text(kernels):
    """The module of some kernels, with the functions that they use."""
    texts, declared, todo, kept = {}, {}, [], []
    notes = itertools.count(10)
    for kernel in kernels:
        # Notes have numbers that are a module's own.
        number = defaultdict(lambda: f"!{next(notes)}")
        own = lambda found, number=number: number[found[0]]
        texts[kernel.key] = re.sub(r"!NOTE\d+", own, kernel.text)
        declared |= kernel.declared
        todo += kernel.used
    while todo:
        key, lanes = todo.pop()
        if (key, lanes) not in texts:
            texts[key, lanes], more, used = function_text(key, lanes)
            declared |= dict.fromkeys(more)
            todo += used
            if lanes > 1:
                kept.append(f"ptr @{function_name(key, lanes)}")
    keep = f"@llvm.compiler.used = appending global [{len(kept)} x ptr] "
    keep += f'[{", ".join(kept)}], section "llvm.metadata"'
    tail = [keep, ATTRIBUTES] if kept else [ATTRIBUTES]
    return "\n".join([*declared, "", *texts.values(), *tail])


# ---- the engine


@functools.cache
def binding():
    """llvmlite's LLVM, imported and made ready when it is first asked for."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def host():
    """The machine that runs this: (its name, its features)."""
    return binding().get_host_cpu_name(), binding().get_host_cpu_features().flatten()


# How modules are made into machine code: thoroughly, or {brief: True} in little time,
# where so little runs that vectors do not pay.
machine_options = {
    brief: dict(opt=level, reloc="pic", codemodel="jitdefault", jit=True)
    for brief, level in ((False, 2), (True, 0))
}
pass_options = {
    brief: dict(
        speed_level=1 if brief else 2,
        loop_vectorization=not brief,
        loop_interleaving=not brief,
        loop_unrolling=not brief,
        slp_vectorization=False,
    )
    for brief in (False, True)
}


def target_machine(brief=False):
    """What makes machine code for this machine."""
    cpu, features = host()
    target, options = binding().Target.from_default_triple(), machine_options[brief]
    return target.create_target_machine(cpu=cpu, features=features, **options)


# The ones that compile; the others, one for each engine, only load.
shared_machine = functools.cache(target_machine)


def optimised(text, brief=False):
    """A module parsed, in a context of its own, and optimised."""
    llvm, machine = binding(), shared_machine(brief)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as error:
        raise MinijitError(
            f"LLVM does not take what minijit wrote for it: {error}\n  This is a "
            "mistake in minijit. The function still runs with "
            'jit(..., backend="eval").'
        ) from None
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options()
    for name, value in pass_options[brief].items():
        setattr(options, name, value)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return module


@functools.cache
def compiler(brief):
    """All that machine code depends on but the text it is made from, as text."""
    import llvmlite

    options = machine_options[brief], pass_options[brief]
    version = llvmlite.__version__, binding().llvm_version_info
    return repr((version, binding().get_process_triple(), host(), options))


def machine_code(text, brief):
    """The object file of a module: one of an earlier process, or a new one.

    A file begins with the hash of the rest: one that is damaged is made again.
    """
    name = hashlib.sha256(f"{compiler(brief)}\n{text}".encode()).hexdigest() + ".o"
    content = find("objects", name)
    if content and hashlib.sha256(content[32:]).digest() == content[:32]:
        return content[32:]
    code = shared_machine(brief).emit_object(optimised(text, brief))
    keep("objects", name, hashlib.sha256(code).digest() + code, anew=True)
    return code


class MethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


METH_FASTCALL = 0x80


def close(engine, context):
    """Free a module's code, then the context."""
    engine.close()
    context.close()


class Code:
    """A module in memory, for as long as one of its functions is there.

    Every function holds it, as what Python calls a built-in function's `self`.  The
    engine gets machine code: one that compiles by itself takes a megabyte for good.
    """

    def __init__(self, text, brief):
        llvm = binding()
        code = machine_code(text, brief)
        context = llvm.create_context()
        nothing = llvm.parse_assembly("", context)
        self.engine = llvm.create_mcjit_compiler(nothing, target_machine(brief=True))
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self.engine.finalize_object()
        self.definitions = []
        # The engine's own module lives in the context, which has to go after it.
        weakref.finalize(self, close, self.engine, context).atexit = False

    def builtin(self, name):
        """The built-in function of that name."""
        address = self.engine.get_function_address(name)
        definition = MethodDef(name.encode(), address, METH_FASTCALL, None)
        self.definitions.append(definition)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(definition), self, None)


# key of a kernel -> its function, while somebody has it; and the ones made last.
native_functions: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
recent: deque = deque(maxlen=256)


def functions_of(kernels):
    """The compiled function of each kernel: new ones are compiled together."""
    found = {k.key: native_functions.get(k.key) for k in kernels}
    missing = {k.key: k for k in kernels if found[k.key] is None}
    if missing:
        brief = sum(kernel.steps for kernel in missing.values()) <= BRIEF
        code = Code(module_text(missing.values()), brief)
        for key in missing:
            found[key] = code.builtin(f"call_kernel_{key}")
            native_functions[key] = found[key]
            recent.append(found[key])
    return found


# ---- programs


class LLVMProgram:
    """A program in memory, its kernels compiled by LLVM: as `LoadedProgram`.

    Attributes:
      run: the driver: NumPy arrays -> tuple of NumPy arrays.
      body: the kernels and calls that it runs, in order.
      names: of the kernels it launches, in order.
      kernels: the `KernelText`s, each once.
      texts: {dialect: function that gives the text}.
    """

    def __init__(self, program, native, heading):
        # Weakly: a table maps the program to this.
        self.program, self.heading = weakref.ref(program), heading
        for rewrite in rewrites:
            program = rewrite(program)
        self.body = program.body
        texts = {k: kernel_texts[type(k)](k) for k in program.kernels}
        distinct = {text.key: text for text in texts.values()}
        names = self.names_of(distinct)
        self.names = [names[texts[kernel].key] for kernel in program.kernels]
        self.kernels = tuple(distinct.values())
        launched = {
            kernel: (SimpleNamespace(name=names[text.key]), text)
            for kernel, text in texts.items()
        }
        driver = DriverPrinter(program, launched, Constants(), SourceWriter())
        driver.print()
        text = driver.writer.text()
        namespace = {"__name__": f"minijit driver {program.name}"}
        exec(print_imports(text) + text, namespace)
        functions = functions_of(self.kernels)
        for key, text in distinct.items():
            namespace[names[key]] = text.launcher(functions[key])
        namespace |= {buffer.name: value for buffer, value in program.constants}
        for name, call in driver.calls.items():
            namespace[name] = routines[call.routine](call, native)
        self.run = namespace[driver.name]

    @staticmethod
    def names_of(texts):
        """{key: name}: `kernel_0`, `kernel_1`; of regions `while_0` and so on."""
        names, counts = {}, Counter()
        for key, text in texts.items():
            names[key] = f"{text.name}_{counts[text.name]}"
            counts[text.name] += 1
        return names

    @property
    def texts(self):
        return {"llvm": lambda: module_text(self.kernels)}

    @functools.cached_property
    def source(self):
        """The same program as Python: the `Source`."""
        return print_program(self.program(), self.heading())

    @functools.cached_property
    def path(self):
        return write_source(self.source.text)


loaders |= {"llvm": LLVMProgram}
kernel_routes |= {"llvm": "llvm"}
cache_clearers.append(recent.clear)


def compile_llvm(closed, name):
    """The executor "llvm"."""
    return Executable(closed, name, native="llvm")


executors |= {"llvm": compile_llvm, "default": compile_llvm}
