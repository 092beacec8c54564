"""Built-in functions of Python whose machine code is ours.

    define ptr @call_1(ptr %self, ptr %args, i64 %n) {
      ...                                               ; %kernel: what `self` says
      %a0 = getelementptr ptr, ptr %args, i64 0         ; the first argument,
      %o0 = load ptr, ptr %a0                           ; a NumPy array,
      %f0 = getelementptr i8, ptr %o0, i64 16           ; has in its first field
      %p0 = load ptr, ptr %f0                           ; where its memory is
      %found = call i1 %kernel(ptr %p0)
      ...                                               ; is there an exception?
      call void @Py_IncRef(ptr @_Py_NoneStruct)
      ret ptr @_Py_NoneStruct
    }

`caller` writes this, once a process for all kernels of one array, and `make_builtin`
makes a function of Python of it and a kernel.
"""

import ctypes
import weakref
from collections import deque

import numpy as np

from .target import forever

python_declarations = (
    "@_Py_NoneStruct = external global i8",
    "declare void @Py_IncRef(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
)


# What a kernel may want of the function that calls it, see `caller`.
FREES, RAISES = 1, 2


class MethodDef(ctypes.Structure):
    """Python's PyMethodDef, and the name that its first field points to."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
        ("text", ctypes.c_char * 64),
    ]


METH_FASTCALL = 0x80
# Definitions whose functions are gone.  Python reads a definition until a function is
# freed, and as it ends frees things in any order: so none is freed, but used again.
unused: deque = deque()


# What a built-in function holds: the `Code`, where its kernel begins, what that wants.
held_type = np.dtype([("code", object), ("kernel", np.uintp), ("wants", np.uintp)])


def make_builtin(code, name, called_by=None, wants=0):
    """The built-in function of a `Code` that is called `name`.

    It holds the code, as what Python calls its `self`, in an array: the collector does
    not look into NumPy's arrays.  So neither the code nor the definition goes before
    the function is freed, even if a finalizer of what holds it calls it.

    Args:
      called_by: where the function begins that calls `name`, a kernel (`caller`); None
        if `name` is itself a function for Python.
      wants: what the kernel asks of that function: `FREES`, `RAISES`, both or none.
    """
    address = code.address(name)
    held = np.empty((), held_type)
    held[()] = code, address, wants
    try:
        definition = unused.pop()
    except IndexError:
        definition = forever(MethodDef(flags=METH_FASTCALL))
        definition.name = ctypes.addressof(definition) + MethodDef.text.offset
    definition.text, definition.address = name.encode(), called_by or address
    weakref.finalize(held, unused.append, definition).atexit = False
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), held, None)
