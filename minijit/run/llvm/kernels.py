"""Kernels as LLVM modules, and compiled: functions of Python that take NumPy arrays.

    text = KernelText(kernel)
    print(module_text([text]))
    # define void @kernel_81e0(ptr noalias %x0, ptr noalias %y0) #0 { ... }
    run = functions_of([text])[text.key]
    run(x, y)                                          # y is written

Kernels of one text are one function, whoever compiles them.
"""

import copy
import functools
import weakref
from collections import Counter, deque

from ...compile.loops.contents import outline, stored_in
from ...compile.loops.kernel_buffers import buffer_names, local_buffers
from ...compile.loops.scalars import BOOL
from ...compile.loops.statements import Kernel
from ...compile.memory.complex_pairs import in_pairs, origin_of
from ...compile.schedule.place import place
from ...compile.schedule.placing_rules import prepared
from ..cache_folder import short_name
from .engine import Code, object_files, share
from .functions import ATTRIBUTES, MemoryWalker, function_texts, numbered
from .loops import WordWriter
from .python_calls import FREES, RAISES, make_builtin, python_declarations
from .text import LLVMWriter
from .work import LONG, in_modules, is_in_vectors, steps_of


class KernelText:
    """One kernel as LLVM IR.

    Attributes:
      key: a hash of its text: kernels that do the same have the same.
      text: a function under a name made of the key, which takes pointers.
      called_by: function without arguments: where the machine code begins by which
        Python calls it with NumPy arrays; wants: what it asks of that (`make_builtin`).
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
    def walk(writer, body, names, values=()):
        """Write the statements; what is the kernel's own is on the stack.

        Args:
          values: {expression: its value} of what has been computed before.
        """
        writer.pointers = {b: f"%{name}" for b, name in names.items()}
        writer.read_only = names.keys() - stored_in(body)
        for buffer in local_buffers(body):
            if buffer not in names:
                writer.on_stack(buffer)
        walker = MemoryWalker(writer)
        walker.values.update(values)
        walker.block(body)

    @staticmethod
    def launch(function):
        """What the driver calls.  Of a kernel it is told no more than its `facts`."""
        return function

    def finish(self, writer, body, names, result, value="", others=""):
        """Put the text together, with other functions that the kernel calls."""
        given = ", ".join(f"ptr noalias %{name}" for name in names.values())
        head, last = f"{result} @NAME({given}) #0", f"{result} {value}"
        text = others + writer.text_of_notes() + writer.text(head, last.rstrip())
        self.steps = steps_of(body)
        self.vectors = is_in_vectors(body, writer.loops)
        self.called_by = lambda: caller(eights(len(names)))
        self.wants = FREES * (self.steps > LONG) + RAISES * (result != "void")
        self.key = short_name(text)
        self.text = text.replace("NAME", f"kernel_{self.key}")
        self.declared, self.used = writer.declared, writer.used
        self.buffers = tuple(map(origin_of, names))


    def of_others(self, arrays):
        """The text of a kernel that does the same: {array of this one: the other's}."""
        other = copy.copy(self)
        other.buffers = tuple(arrays.get(b, b) for b in self.buffers)
        return other


# type of a kernel -> what its text is.
kernel_texts = {Kernel: KernelText}


def texts_of(kernels):
    """{kernel: its text}: of those that are alike but for names, one is written."""
    plain = {k: steps_of(k.body) for k in kernels if type(k) is Kernel}
    sizes, known, texts = Counter(plain.values()), {}, {}
    for kernel in kernels:
        several = sizes[plain.get(kernel)] > 1
        like, arrays = outline(kernel.body) if several else (kernel, [])
        if like not in known:
            known[like] = kernel_texts[type(kernel)](kernel), arrays
        text, first = known[like]
        texts[kernel] = text.of_others(dict(zip(first, arrays, strict=True)))
    return texts


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


def eights(count):
    """How many times eight arrays a function gives to a kernel of so many."""
    return -(-count // 8)


@functools.cache
def caller(eights):
    """Where the function begins by which Python calls kernels of up to so many arrays.

    In the memory of `self` the kernel's address is the second word, and the third one
    says what else it wants: `FREES`, that other threads of Python run meanwhile, and
    `RAISES`, that its result, an i1, says whether there is an exception.  What it has
    no parameters for, it does not look at: the first array, which is there for sure.
    """
    name, writer = f"minijit_call_{8 * eights}", WordWriter()
    held, do = writer.field("%self"), writer.do
    kernel, wants = writer.word(held, 1), writer.word(held, 2, "i64")
    there = [do(f"icmp ugt i64 %n, {i}") for i in range(8 * eights)]
    which = [do(f"select i1 {x}, i64 {i}, i64 0") for i, x in enumerate(there)]
    places = [writer.field(writer.word("%args", i)) for i in which]
    call = f"call i1 {kernel}({', '.join(f'ptr {place}' for place in places)})"
    found = writer.cell(BOOL, "false")
    with writer.branch(do(f"trunc i64 {wants} to i1")) as otherwise:
        thread = do("call ptr @PyEval_SaveThread()")
        writer.set(found, do(call))
        writer.line(f"call void @PyEval_RestoreThread(ptr {thread})")
        otherwise()
        writer.set(found, do(call))
    # A kernel without a result leaves there whatever it had: `RAISES` is asked, too.
    raises = do(f"icmp uge i64 {wants}, {RAISES}")
    raised = do(f"and i1 {raises}, {writer.get(found)}")
    with writer.branch(raised):
        writer.line("ret ptr null")
        writer.begin("never")
    writer.line("call void @Py_IncRef(ptr @_Py_NoneStruct)")
    head = f"ptr @{name}(ptr %self, ptr %args, i64 %n)"
    text = writer.text(head, "ptr @_Py_NoneStruct")
    return share(name, "\n".join([*python_declarations, text]))


def functions_of(kernels):
    """The compiled function of each kernel: new ones are compiled together."""
    found = {k.key: native_functions.get(k.key) for k in kernels}
    missing = {k.key: k for k in kernels if found[k.key] is None}
    modules = in_modules(missing.values())
    jobs = [(module_text(some), way) for way, some in modules]
    codes = object_files["make"](*jobs)
    for (_, some), job, code in zip(modules, jobs, codes, strict=True):
        code = Code(*job, code)
        made = {
            k.key: make_builtin(code, f"kernel_{k.key}", k.called_by(), k.wants)
            for k in some
        }
        native_functions.update(made)
        recent.extend(made.values())
        found |= made
    return found
