"""How many threads may share a kernel or a loop: what `explain` says of it."""

from ...trace.base.config import config
from ..llvm.kernels import kernel_texts
from ..threads.kernels import ThreadedText
from ..threads.shared_products import SharingText
from .explaining import thread_counts


def threads_of(stmt):
    """As many as there are, if its steps or products are worth dividing."""
    text = kernel_texts[type(stmt)](stmt)
    shares = isinstance(text, SharingText) and bool(text.handed)
    divided = shares or isinstance(text, ThreadedText)
    return config.read("cpu_threads") if divided else 1


thread_counts |= {"llvm": threads_of}
