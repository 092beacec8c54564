"""LLVM from Python: text goes in, machine code comes out, and is freed when unused.

    code = Code('''
    define i64 @twice(i64 %x) {
      %y = add i64 %x, %x
      ret i64 %y
    }
    ''')
    ctypes.CFUNCTYPE(c_int64, c_int64)(code.address("twice"))(21)             # 42
"""

import functools
import re

from ...compile.schedule.machine import host_cores
from ...trace.base.errors import MinijitError
from .target import (
    at_once, binding, context_of_engines, forever, object_file, parsed, pass_options,
    run_passes, shared_machine, target_machine,
)


# ---- what may go wrong


def module_of(text, machine):
    """The module of a text that minijit wrote, for a machine."""
    # No function throws exceptions, and without this word LLVM writes tables for them.
    # (It stands in the text: llvmlite before 0.48 would say it of a function's result.)
    text = re.sub(r"^(define .*) {$", r"\1 nounwind {", text, flags=re.MULTILINE)
    try:
        module = parsed(text)
        # What uses a value before it is there would end the process, or worse.
        module.verify()
    except RuntimeError as error:
        raise MinijitError(
            f"LLVM does not take what minijit wrote for it: {error}\n  This is a "
            "mistake in minijit. The function still runs with "
            'jit(..., backend="eval").'
        ) from None
    module.triple = binding().get_process_triple()
    module.data_layout = str(machine.target_data)
    return module


def new_engine(text):
    """An engine for the functions of a text.

    It gets machine code: one that compiles by itself takes a megabyte for good.
    """
    llvm = binding()
    nothing = llvm.parse_assembly("", context_of_engines())
    engine = llvm.create_mcjit_compiler(nothing, target_machine("brief"))
    names = re.findall(r'^declare .*?@"?((?!llvm\.)[\w.$-]+)', text, re.MULTILINE)
    if missing := [name for name in names if not llvm.address_of_symbol(name)]:
        # LLVM would end the process.
        raise MinijitError(f"this process has no functions {', '.join(missing)}")
    return engine


# chapter 23
def optimised(text, how="thorough"):
    """A module parsed, in a context of its own, and optimised."""
    machine = shared_machine(how)
    module = module_of(text, machine)
    run_passes(module, machine, **pass_options[how])
    return module


def machine_code(text, how):
    """The object file of a module: as bytes, what a C compiler writes to a file."""
    return object_file(optimised(text, how), how)


def machine_codes(*jobs):
    """The object files of modules, given as to `machine_code`: each core makes some."""
    return at_once(machine_code, jobs, host_cores[0]())


# Where object files come from: a cache on the disk may know them already.
object_files = {"make": machine_codes}


class Code:
    """A module in memory, for as long as somebody holds this object.

    Args:
      code: its object file, where that has been made.
    """

    def __init__(self, text, how="thorough", code=None):
        if code is None:
            code, = object_files["make"]((text, how))
        self.engine = new_engine(text)
        self.engine.add_object_file(binding().ObjectFileRef.from_data(code))
        self.engine.finalize_object()

    def address(self, name):
        """Where the machine code of a function begins."""
        return self.engine.get_function_address(name)


# chapter 23, brought along
@functools.cache
def share(name, text, how="brief", *others):
    """Compile functions once for all modules that declare them: -> where one begins."""
    code = forever(Code(text, how))
    for each in (name, *others):
        binding().add_symbol(each, code.address(each))
    return code.address(name)
