"""The cache on the disk, and its key: what one process compiled, the next one loads.

    ~/.cache/minijit/objects/5f0c...e2.o        # named after a hash of its key

The key is all that machine code depends on: `compiler` says what, beside its text.
"""

import functools

from ..cache_folder import kept
from . import engine as llvm_engine
from .engine import object_files
from .target import binding, host, left_out, machine_options, pass_options


@functools.cache
def compiler(how):
    """All that machine code depends on but the text it is made from, as text."""
    import llvmlite

    options = machine_options[how], pass_options[how], left_out
    version = llvmlite.__version__, binding().llvm_version_info
    return repr((version, binding().get_process_triple(), host(), options))


def kept_machine_code(text, how):
    """The object file of a module: one of an earlier process, or a new one."""
    make = functools.partial(llvm_engine.machine_code, text, how)
    return kept("objects", f"{compiler(how)}\n{text}", "o", make)


object_files |= {"make": kept_machine_code}
