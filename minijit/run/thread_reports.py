"""How many threads may share a kernel: what `explain` says of it."""

from ..trace.config import config
from .explaining import thread_counts
from .llvm_kernels import kernel_texts
from .threads import ThreadedText


def threads_of(stmt):
    """As many as there are, if its steps can be divided and are worth it."""
    divided = isinstance(kernel_texts[type(stmt)](stmt), ThreadedText)
    return config.read("cpu_threads") if divided else 1


thread_counts |= {"llvm": threads_of}
