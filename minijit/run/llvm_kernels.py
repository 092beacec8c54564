"""Kernels as LLVM modules, and compiled: functions of Python that take NumPy arrays.

    text = KernelText(kernel)
    print(module_text([text]))
    # define internal void @kernel_81e0(ptr noalias %x0, ptr noalias %y0) #0 { ... }
    # define ptr @call_kernel_81e0(ptr %self, ptr %args, i64 %n) { ... }
    functions_of([text])[text.key](x, y)               # y is written

Kernels of one text are one function, whoever compiles them.
"""

import functools
import hashlib
import itertools
import re
import weakref
from collections import defaultdict, deque

from ..compile.loops import For, Kernel, While, bodies_of, postorder
from ..compile.place import place
from ..compile.scalar_forms import form_of
from .emit import Walker
from .llvm_engine import Code
from .llvm_python import builtin_text, make_builtin, python_declarations
from .llvm_text import LLVMWriter, function_name
from .python_source import buffer_names


def computed(writer, key, values):
    """Write what a function's form says of some values: -> the result's."""
    params, result = form_of(*key)
    walker = Walker(writer)
    walker.values |= zip(params, values, strict=True)
    for expr in postorder([result]):
        walker.values[expr] = walker.value(expr)
    return walker.values[result]


def define(key, writer, name, attributes, linkage="internal"):
    """The text of a function that `scalar_form` described."""
    _, dtypes, dtype = key
    values, kind = [f"%x{i}" for i in range(len(dtypes))], writer.type(dtype)
    typed = zip(map(writer.type, dtypes), values, strict=True)
    given = ", ".join(f"{kind} {value}" for kind, value in typed)
    head = f"{linkage} {kind} @{name}({given}) {attributes}"
    return writer.text(head, f"{kind} {computed(writer, key, values)}")


@functools.cache
def function_text(key):
    """The function for a key: -> (text, declarations, keys of what it calls)."""
    writer = LLVMWriter()
    text = define(key, writer, function_name(key), "alwaysinline")
    return text, tuple(writer.declared), tuple(writer.used)


# How functions are written.
function_texts = {"function": function_text}

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
        head, last = f"internal {result} @NAME({given}) #0", f"{result} {value}"
        text = others + writer.text(head, last.rstrip())
        self.steps = steps_of(body)
        text += builtin_text(len(names), self.steps > LONG, result)
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.text = text.replace("NAME", f"kernel_{self.key}")
        self.declared = writer.declared | dict.fromkeys(python_declarations)
        self.used = writer.used
        self.buffers = tuple(names)


# type of a kernel -> what its text is.
kernel_texts = {Kernel: KernelText}


ATTRIBUTES = """\
attributes #0 = {
  noinline nounwind "prefer-vector-width"="512" "no-trapping-math"="true"
}
"""


def module_text(kernels):
    """The module of some kernels, with the functions that they use."""
    texts, declared, todo = {}, {}, []
    notes = itertools.count(10)
    for kernel in kernels:
        # Notes have numbers that are a module's own.
        number = defaultdict(lambda: f"!{next(notes)}")
        own = lambda found, number=number: number[found[0]]
        texts[kernel.key] = re.sub(r"!NOTE\d+", own, kernel.text)
        declared |= kernel.declared
        todo += kernel.used
    while todo:
        key = todo.pop()
        if key not in texts:
            texts[key], more, used = function_texts["function"](key)
            declared |= dict.fromkeys(more)
            todo += used
    return "\n".join([*declared, "", *texts.values(), ATTRIBUTES])


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
            found[key] = make_builtin(code, f"call_kernel_{key}")
            native_functions[key] = found[key]
            recent.append(found[key])
    return found
