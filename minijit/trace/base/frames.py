"""Tracebacks in the user's frames: those of minijit, and below it, are left out.

    Traceback (most recent call last):
      File "program.py", line 12, in <module>
        train(params, batch)
      File "program.py", line 7, in train
        return x @ w
    TypeError: ...

Where an error comes out of minijit into the user's program, its traceback loses the
frames between the user's call and the user's line that failed.
"""

import os
import types

import ml_dtypes
import numpy as np

from .config import config
from .errors import PACKAGE, left_out as files_left_out

LIBRARIES = (
    PACKAGE,
    *(os.path.dirname(module.__file__ or "") for module in (np, ml_dtypes)),
    "<frozen",
    "<__array_function__",
)
STANDARD = os.path.dirname(os.__file__)


def in_library(file):
    """Whether a file is minijit's, NumPy's or Python's own."""
    standard = file.startswith(STANDARD)
    library = file.startswith(LIBRARIES) or file.startswith(files_left_out["files"])
    return library or (standard and "site-packages" not in file)


def leave_out_frames(error, caller):
    """Take the library's own frames out of an error's traceback, as JAX does.

    What remains are those of the user's program, from the call to the line that failed.
    Nothing is left out with `config.update("traceback_filtering", "off")`, nor where
    the frame `caller`, to which the error goes on from here, is the library's as well.
    """
    if config.traceback_filtering == "off" or in_library(caller.f_code.co_filename):
        return
    kept, tb = [], error.__traceback__
    while tb is not None:
        if not in_library(tb.tb_frame.f_code.co_filename):
            kept.append(tb)
        tb = tb.tb_next
    whole = None
    for tb in reversed(kept):
        whole = types.TracebackType(whole, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    error.__traceback__ = whole
    if left_out not in getattr(error, "__notes__", ()):
        error.add_note(left_out)
    cause = error.__cause__ or error.__context__
    if cause is not None and came_and_went(cause):
        error.__cause__ = None  # and nothing is shown above it
        error.__suppress_context__ = True


def came_and_went(error):
    """Whether an error was raised and caught within the library."""
    files, tb = [], error.__traceback__
    while tb is not None:
        files.append(tb.tb_frame.f_code.co_filename)
        tb = tb.tb_next
    return bool(files) and all(map(in_library, files))


left_out = (
    "(minijit's own frames are left out of this traceback; "
    'config.update("traceback_filtering", "off") shows them)'
)
