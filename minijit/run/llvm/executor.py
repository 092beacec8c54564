"""The executor "llvm": a program whose kernels LLVM compiles, in milliseconds.

    run = compile_llvm(make_jaxpr(lambda x: sin(x) * 2)(x), "f")
    print(run.texts["llvm"]())          # define void @kernel_81e0(...

Calls that are no kernels (`matmul`, uncompiled primitives) are made as by the executor
"python", whose driver this one shares.
"""

import functools
import weakref
from collections import Counter
from types import SimpleNamespace

from ...compile.loops.graphs import remembered
from ...trace.base.config import config
from ...trace.jit.donation import donors
from ...trace.jit.jit import cache_clearers, executors
from ..cache_folder import write_source
from ..donating import Donating
from ..executable import Executable
from ..loading import loaders, rewritten, routines
from ..python.source import driver_printers, print_imports, print_program
from ..python.source_text import Constants, SourceWriter
from .kernels import functions_of, module_text, recent, texts_of


class LLVMProgram:
    """A program in memory, its kernels compiled by LLVM: as `LoadedProgram`.

    Attributes:
      kernels: the `KernelText`s, each once.
      texts: {dialect: function that gives the text}.
    """

    def __init__(self, program, native, heading):
        # Weakly: a table maps the program to this.
        self.program, self.heading = weakref.ref(program), heading
        # The loops that had the lowest price are those that are printed.
        with remembered():
            program = rewritten(program)
            texts = texts_of(program.kernels)
        self.body, self.constants = program.body, program.constants
        self.kernels = tuple({text.key: text for text in texts.values()}.values())
        functions = functions_of(self.kernels)
        names, counts, made, launched = {}, Counter(), {}, {}
        for kernel, text in texts.items():
            which = text.key, *text.facts
            if which not in names:
                names[which] = f"{text.name}_{counts[text.name]}"
                made[names[which]] = text.launch(functions[text.key], *text.facts)
                counts[text.name] += 1
            launched[kernel] = SimpleNamespace(name=names[which]), text
        self.names = [launched[kernel][0].name for kernel in program.kernels]
        self.run = self.driver(program, native, launched, made)

    @staticmethod
    def driver(program, native, launched, functions):
        """The function that runs kernels and calls in order, printed and executed.

        Args:
          launched: {kernel: (what has its name, its `KernelText`)}.
          functions: {name: the compiled kernel}.
        """
        printer = driver_printers.get(native) or driver_printers["python"]
        driver = printer(program, launched, Constants(), SourceWriter())
        driver.print()
        text = driver.writer.text()
        namespace = {"__name__": f"minijit driver {program.name}"}
        exec(print_imports(text) + text, namespace)
        namespace |= functions | driver.makers
        namespace |= {buffer.name: value for buffer, value in program.constants}
        for name, call in driver.calls.items():
            namespace[name] = routines[call.routine](call, native)
        return namespace[driver.name]

    @property
    def texts(self):
        return {"llvm": lambda: module_text(self.kernels)}

    @functools.cached_property
    def source(self):
        """The same program as Python: the `Source`."""
        program = rewritten(self.program())
        with config.override("fusion", program.settings):
            return print_program(program, self.heading())

    @functools.cached_property
    def path(self):
        return write_source(self.source.text)


loaders |= {"llvm": LLVMProgram}
cache_clearers.append(recent.clear)


def compile_llvm(closed, name):
    """The executor "llvm"."""
    return Executable(closed, name, native="llvm")


executors |= {"llvm": compile_llvm, "default": compile_llvm}
donors |= {compile_llvm: functools.partial(Donating, native="llvm")}
