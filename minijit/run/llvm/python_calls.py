"""Machine code that talks to Python: built-in functions, exceptions, signals.

    define ptr @call_f(ptr %self, ptr %args, i64 %n) {
      %a0 = getelementptr ptr, ptr %args, i64 0         ; the first argument,
      %o0 = load ptr, ptr %a0                           ; a NumPy array,
      %f0 = getelementptr i8, ptr %o0, i64 16           ; has in its first field
      %p0 = load ptr, ptr %f0                           ; where its memory is
      call void @f(ptr %p0)
      call void @Py_IncRef(ptr @_Py_NoneStruct)
      ret ptr @_Py_NoneStruct
    }

`builtin_text` writes this, and `make_builtin` makes a function of Python of it.
"""

import ctypes
import weakref
from collections import deque

import numpy as np

from ...compile.settings import config
from ..cache_folder import short_name

python_declarations = (
    "@_Py_NoneStruct = external global i8",
    "declare void @Py_IncRef(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
)


def builtin_text(count, long, result="void"):
    """The built-in function: the arrays' memory, the kernel, and None as the result.

    An array's first field, after what every Python object has, points to its memory.
    A kernel whose `result` is an i1 says by it that Python has an exception to raise.

    Args:
      count: how many arrays it takes.
      long: whether other threads of Python are to run meanwhile.
    """
    lines = ["define ptr @call_NAME(ptr %self, ptr %args, i64 %n) {"]
    for i in range(count):
        lines += [
            f"  %a{i} = getelementptr ptr, ptr %args, i64 {i}",
            f"  %o{i} = load ptr, ptr %a{i}",
            f"  %f{i} = getelementptr i8, ptr %o{i}, i64 {object.__basicsize__}",
            f"  %p{i} = load ptr, ptr %f{i}",
        ]
    given = ", ".join(f"ptr %p{i}" for i in range(count))
    lines += ["  %thread = call ptr @PyEval_SaveThread()"] if long else []
    name = "" if result == "void" else "%raised = "
    lines += [f"  {name}call {result} @NAME({given})"]
    lines += ["  call void @PyEval_RestoreThread(ptr %thread)"] if long else []
    if name:
        lines += ["  br i1 %raised, label %failed, label %done"]
        lines += ["failed:", "  ret ptr null", "done:"]
    lines += ["  call void @Py_IncRef(ptr @_Py_NoneStruct)"]
    return "\n".join([*lines, "  ret ptr @_Py_NoneStruct", "}\n"])


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


def make_builtin(code, name):
    """The built-in function of a `Code` that is called `name`.

    It holds the code, as what Python calls its `self`, in an array: the collector does
    not look into NumPy's arrays.  So neither the code nor the definition goes before
    the function is freed, even if a finalizer of what holds it calls it.
    """
    held = np.empty((), object)
    held[()] = code
    try:
        definition = unused.pop()
    except IndexError:
        definition = forever(MethodDef(flags=METH_FASTCALL))
        definition.name = ctypes.addressof(definition) + MethodDef.text.offset
    definition.text, definition.address = name.encode(), code.address(name)
    weakref.finalize(held, unused.append, definition).atexit = False
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), held, None)


def forever(thing):
    """The same, never freed: C uses it for as long as the process runs."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


LOOK = """
define internal i1 @look_for_signals() cold noinline memory(inaccessiblemem: readwrite)
{
  %lock = call i32 @PyGILState_Ensure()
  %found = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %lock)
  %raised = icmp ne i32 %found, 0
  ret i1 %raised
}
"""

lock_declarations = (
    "declare i32 @PyGILState_Ensure()",
    "declare void @PyGILState_Release(i32)",
)

look_declarations = (
    "declare i32 @PyErr_CheckSignals()",
    *lock_declarations,
    LOOK,
    '!0 = !{!"branch_weights", i32 1, i32 10000}',
)


# Data of Python's may be too far away for machine code, so that it asks for it.
FAIL = """
@overflow = internal constant [14 x i8] c"OverflowError\\00"
define internal void @fail(ptr %message) cold noinline {
  %lock = call i32 @PyGILState_Ensure()
  %builtins = call ptr @PyEval_GetBuiltins()
  %kind = call ptr @PyDict_GetItemString(ptr %builtins, ptr @overflow)
  call void @PyErr_SetString(ptr %kind, ptr %message)
  call void @PyGILState_Release(i32 %lock)
  ret void
}
"""

fail_declarations = (
    "declare ptr @PyEval_GetBuiltins()",
    "declare ptr @PyDict_GetItemString(ptr, ptr)",
    "declare void @PyErr_SetString(ptr, ptr)",
    *lock_declarations,
    FAIL,
)


class PythonCalls:
    """What a writer of a region says to Python: methods for `RegionWriter`.

    Attributes:
      ticks: the slot that counts the work since it last looked for signals, or None.
      leaves: whether the function may end before its end, with an exception.
    """

    ticks: str | None
    leaves: bool

    def counter(self):
        """The slot that counts the work."""
        if self.ticks is None:
            self.ticks = f"%w{self.fresh()}"
            self.entry += [f"  {self.ticks} = alloca i64"]
            self.entry += [f"  store i64 0, ptr {self.ticks}"]
        return self.ticks

    def look(self, work):
        """Count the work; if it is time, run the handlers of signals."""
        self.leaves, ticks = True, self.counter()
        k, before = self.fresh(), self.do(f"load i64, ptr {ticks}")
        done = self.do(f"add i64 {before}, {work}")
        self.line(f"store i64 {done}, ptr {ticks}")
        due = self.do(f"icmp sgt i64 {done}, {config.fusion.between_looks}")
        self.line(f"br i1 {due}, label %look{k}, label %on{k}, !prof !0")
        self.begin(f"look{k}")
        self.line(f"store i64 0, ptr {ticks}")
        raised = self.do("call i1 @look_for_signals()")
        self.line(f"br i1 {raised}, label %stop, label %on{k}")
        self.begin(f"on{k}")
        self.declared |= dict.fromkeys(look_declarations)

    def fail(self, condition, message):
        """Leave with an exception, which Python then has."""
        k, data = self.fresh(), message.encode() + b"\0"
        name = f"@message_{short_name(data)}"
        text = "".join(f"\\{byte:02x}" for byte in data)
        value = f'{name} = internal constant [{len(data)} x i8] c"{text}"'
        self.declared |= dict.fromkeys((value, *fail_declarations))
        self.line(f"br i1 {condition}, label %fail{k}, label %on{k}")
        self.begin(f"fail{k}")
        self.line(f"call void @fail(ptr {name})")
        self.leaves = True
        self.line("br label %stop")
        self.begin(f"on{k}")
