"""Object files kept on the disk: what one process compiled, the next one loads.

    ~/.cache/minijit/objects/5f0c...e2.o        # named after all that it depends on

A file begins with the hash of the rest: one that is damaged is made again.
"""

import functools
import hashlib

from . import llvm_engine
from .cache_folder import find, keep
from .llvm_engine import object_files
from .llvm_target import binding, host, machine_options, pass_options


@functools.cache
def compiler(brief):
    """All that machine code depends on but the text it is made from, as text."""
    import llvmlite

    options = machine_options[brief], pass_options[brief]
    version = llvmlite.__version__, binding().llvm_version_info
    return repr((version, binding().get_process_triple(), host(), options))


def kept_machine_code(text, brief):
    """The object file of a module: one of an earlier process, or a new one."""
    name = hashlib.sha256(f"{compiler(brief)}\n{text}".encode()).hexdigest() + ".o"
    content = find("objects", name)
    if content and hashlib.sha256(content[32:]).digest() == content[:32]:
        return content[32:]
    code = llvm_engine.machine_code(text, brief)
    keep("objects", name, hashlib.sha256(code).digest() + code, anew=True)
    return code


object_files |= {"make": kept_machine_code}
