"""The cache on the disk, and its key: what one process compiled, the next one loads.

    ~/.cache/minijit/objects/5f0c...e2.o        # named after a hash of its key

The key is all that machine code depends on: `compiler` says what, beside its text.
"""

import functools

from ..cache_folder import keep_of_key, of_key
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


def kept_machine_codes(*jobs):
    """The object files of modules: those of an earlier process, or new ones."""
    keys = [f"{compiler(how)}\n{text}" for text, how in jobs]
    found = [of_key("objects", key, "o") for key in keys]
    missing = [k for k, code in enumerate(found) if code is None]
    made = llvm_engine.machine_codes(*(jobs[k] for k in missing))
    for k, code in zip(missing, made, strict=True):
        keep_of_key("objects", keys[k], "o", code)
        found[k] = code
    return found


object_files |= {"make": kept_machine_codes}
