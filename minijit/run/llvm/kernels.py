"""Kernels as LLVM modules, and compiled: functions of Python that take NumPy arrays.

    text = KernelText(kernel)
    print(module_text([text]))
    # define internal void @kernel_81e0(ptr noalias %x0, ptr noalias %y0) #0 { ... }
    # define ptr @call_kernel_81e0(ptr %self, ptr %args, i64 %n) { ... }
    functions_of([text])[text.key](x, y)               # y is written

Kernels of one text are one function, whoever compiles them.
"""

import weakref
from collections import deque

from ...compile.loops.kernel_buffers import buffer_names, local_buffers
from ...compile.loops.statements import Kernel
from ...compile.memory.complex_pairs import in_pairs, origin_of
from ...compile.schedule.place import place
from ...compile.schedule.placing_rules import prepared, stored_in
from ..cache_folder import short_name
from .engine import Code
from .functions import ATTRIBUTES, MemoryWalker, function_texts, numbered
from .python_calls import builtin_text, make_builtin, python_declarations
from .text import LLVMWriter
from .work import LONG, by_way, steps_of


class KernelText:
    """One kernel as LLVM IR.

    Attributes:
      key: a hash of its text: kernels that do the same have the same.
      text: two functions under names made of the key: the kernel, which takes pointers,
        and the built-in function of Python, which takes NumPy arrays.
      declared, used: as in `LLVMWriter`.
      buffers: the `Buffer`s to call it with; it takes no numbers.
      steps: about how many statements it runs.
      vectors: whether all its loops have vectors that the text says.
      facts: what `launch` takes: kernels of one text and the same facts share it.
    """

    numbers, name, facts = (), "kernel", ()

    def __init__(self, kernel, prepare=prepared):
        body = in_pairs(place(kernel.body, prepare=prepare))
        names = buffer_names(body)
        writer = LLVMWriter()
        self.walk(writer, body, names)
        self.finish(writer, body, names, "void")

    @staticmethod
    def walk(writer, body, names):
        """Write the statements; what is the kernel's own is on the stack."""
        writer.pointers = {b: f"%{name}" for b, name in names.items()}
        writer.read_only = names.keys() - stored_in(body)
        for buffer in local_buffers(body):
            if buffer not in names:
                writer.on_stack(buffer)
        MemoryWalker(writer).block(body)

    @staticmethod
    def launch(function):
        """What the driver calls.  Of a kernel it is told no more than its `facts`."""
        return function

    def finish(self, writer, body, names, result, value="", others="", builtin=""):
        """Put both functions together, and others that the first one calls."""
        given = ", ".join(f"ptr noalias %{name}" for name in names.values())
        head, last = f"internal {result} @NAME({given}) #0", f"{result} {value}"
        text = others + writer.text_of_notes() + writer.text(head, last.rstrip())
        self.steps, self.vectors = steps_of(body), writer.loops == {"vectors"}
        text += builtin or builtin_text(len(names), self.steps > LONG, result)
        self.key = short_name(text)
        self.text = text.replace("NAME", f"kernel_{self.key}")
        self.declared = writer.declared | dict.fromkeys(python_declarations)
        self.used, self.buffers = writer.used, tuple(map(origin_of, names))


# type of a kernel -> what its text is.
kernel_texts = {Kernel: KernelText}


def module_text(kernels):
    """The module of some kernels, with the functions that they use."""
    texts, declared, todo = {}, {}, []
    for kernel in kernels:
        texts[kernel.key] = kernel.text
        declared |= kernel.declared
        todo += kernel.used
    while todo:
        key = todo.pop()
        if key not in texts:
            texts[key], more, used = function_texts["function"](key, LLVMWriter)
            declared |= dict.fromkeys(more)
            todo += used
    text = "\n".join([*declared, "", *texts.values(), ATTRIBUTES])
    return numbered(text)


# key of a kernel -> its function, while somebody has it; and the ones made last.
native_functions: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
recent: deque = deque(maxlen=256)


def functions_of(kernels):
    """The compiled function of each kernel: new ones are compiled together."""
    found = {k.key: native_functions.get(k.key) for k in kernels}
    missing = {k.key: k for k in kernels if found[k.key] is None}
    for way, some in by_way(missing.values()).items():
        code = Code(module_text(some), way)
        made = {k.key: make_builtin(code, f"call_kernel_{k.key}") for k in some}
        native_functions.update(made)
        recent.extend(made.values())
        found |= made
    return found
